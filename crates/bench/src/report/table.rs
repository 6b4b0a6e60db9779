//! Results for people: comment lines, then aligned columns.

use std::fmt::Write;

/// A heading over one or more columns.
#[derive(Clone, Debug)]
pub struct Group {
    title: String,
    columns: Vec<String>,
}

impl Group {
    /// A heading with its columns.
    pub fn new(title: impl Into<String>, columns: &[&str]) -> Self {
        Self {
            title: title.into(),
            columns: columns.iter().map(ToString::to_string).collect(),
        }
    }
}

/// A table that is still growing.
#[derive(Clone, Debug)]
pub struct Table {
    comments: Vec<String>,
    groups: Vec<Group>,
    rows: Vec<Vec<String>>,
    /// Characters that columns have in any case.
    room: Vec<usize>,
}

impl Table {
    /// A table without rows.
    pub fn new(comments: Vec<String>, groups: Vec<Group>) -> Self {
        Self {
            comments,
            groups,
            rows: Vec::new(),
            room: Vec::new(),
        }
    }

    /// Adds a row: one cell for each column of each group.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Makes room for cells of so many characters in a column, whatever comes.
    pub(crate) fn room(&mut self, column: usize, width: usize) {
        if self.room.len() <= column {
            self.room.resize(column + 1, 0);
        }
        self.room[column] = self.room[column].max(width);
    }

    /// The whole as text.
    pub fn render(&self) -> String {
        let widths = self.widths();
        let mut text = self.head(&widths);
        for row in &self.rows {
            self.line(&mut text, " ", &widths, row);
        }
        text
    }

    /// The lines over the rows, of a table that grows: its columns are as wide as numbers get.
    pub(crate) fn begin(&mut self) -> String {
        let columns: Vec<usize> = self.columns().map(|column| usual(column)).collect();
        for (column, width) in columns.into_iter().enumerate() {
            self.room(column, width);
        }
        self.head(&self.widths())
    }

    /// Adds a row to a table that grows, and gives its line.
    pub(crate) fn grow(&mut self, cells: Vec<String>) -> String {
        let mut text = String::new();
        self.line(&mut text, " ", &self.widths(), &cells);
        text
    }

    fn columns(&self) -> impl Iterator<Item = &String> {
        self.groups.iter().flat_map(|group| &group.columns)
    }

    /// Characters of each column.
    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = self.columns().map(|column| column.chars().count()).collect();
        for (width, room) in widths.iter_mut().zip(&self.room) {
            *width = (*width).max(*room);
        }
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        // A title may need more room than its columns: the last of them gets it.
        let mut at = 0;
        for group in &self.groups {
            let count = group.columns.len();
            let span = widths[at..at + count].iter().sum::<usize>() + 2 * (count - 1);
            widths[at + count - 1] += group.title.chars().count().saturating_sub(span);
            at += count;
        }
        widths
    }

    /// Comments and headings.
    fn head(&self, widths: &[usize]) -> String {
        let mut text = String::new();
        for comment in &self.comments {
            let _ = writeln!(text, "# {comment}");
        }
        if self.groups.iter().any(|group| !group.title.is_empty()) {
            let mut line = String::from("#");
            let mut at = 0;
            for group in &self.groups {
                let count = group.columns.len();
                let span = widths[at..at + count].iter().sum::<usize>() + 2 * (count - 1);
                let _ = write!(line, "{}{:>span$}", if at == 0 { " " } else { " | " }, group.title);
                at += count;
            }
            let _ = writeln!(text, "{}", line.trim_end());
        }
        let names: Vec<String> = self.columns().cloned().collect();
        self.line(&mut text, "#", widths, &names);
        text
    }

    fn line(&self, text: &mut String, start: &str, widths: &[usize], cells: &[String]) {
        text.push_str(start);
        let mut at = 0;
        for group in &self.groups {
            for column in 0..group.columns.len() {
                let gap = match (at, column) {
                    (0, _) => " ",
                    (_, 0) => " | ",
                    _ => "  ",
                };
                let width = widths[at];
                let _ = write!(text, "{gap}{:>width$}", cells.get(at).map_or("", String::as_str));
                at += 1;
            }
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
}

/// Characters that the cells of a column have at most, as far as can be known before they are there.
fn usual(column: &str) -> usize {
    match column {
        "msg/s" => 8,
        _ => 6,
    }
}

/// A number with a sensible number of places; a dash for nothing.
pub fn number(value: Option<f64>) -> String {
    match value {
        None => "-".into(),
        Some(value) if value.abs() >= 1000.0 => format!("{value:.0}"),
        Some(value) if value.abs() >= 100.0 => format!("{value:.1}"),
        Some(value) => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let groups = vec![
            Group::new("", &["Size"]),
            Group::new("tcp", &["p50", "p99"]),
            Group::new("ratio to", &["x"]),
        ];
        let mut table = Table::new(vec!["hikyaku latency".into()], groups);
        table.row(["8", "3.50", "10.25", "0.5"].map(String::from).to_vec());
        table.row(["1048576", "178", "-", "-"].map(String::from).to_vec());
        let expected = "\
# hikyaku latency
#         |         tcp | ratio to
#    Size |  p50    p99 |        x
        8 | 3.50  10.25 |      0.5
  1048576 |  178      - |        -
";
        assert_eq!(table.render(), expected);
    }

    #[test]
    fn a_growing_table_is_aligned() {
        let mut table = Table::new(
            Vec::new(),
            vec![Group::new("", &["Size"]), Group::new("tcp", &["p50", "msg/s"])],
        );
        let mut text = table.begin();
        text += &table.grow(["8", "3.50", "10"].map(String::from).to_vec());
        text += &table.grow(["256M", "123456", "12345678"].map(String::from).to_vec());
        let expected = "\
#        |              tcp
#   Size |    p50     msg/s
       8 |   3.50        10
    256M | 123456  12345678
";
        assert_eq!(text, expected);
    }

    #[test]
    fn numbers() {
        assert_eq!(
            [
                number(None),
                number(Some(1.234)),
                number(Some(123.45)),
                number(Some(12345.6))
            ],
            ["-", "1.23", "123.5", "12346"]
        );
    }
}
