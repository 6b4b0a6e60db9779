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
}

impl Table {
    /// A table without rows.
    pub fn new(comments: Vec<String>, groups: Vec<Group>) -> Self {
        Self {
            comments,
            groups,
            rows: Vec::new(),
        }
    }

    /// Adds a row: one cell for each column of each group.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The whole as text.
    pub fn render(&self) -> String {
        let columns: Vec<&String> = self.groups.iter().flat_map(|group| &group.columns).collect();
        let mut widths: Vec<usize> = columns.iter().map(|column| column.chars().count()).collect();
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
        let mut text = String::new();
        for comment in &self.comments {
            let _ = writeln!(text, "# {comment}");
        }
        if self.groups.iter().any(|group| !group.title.is_empty()) {
            let mut line = String::from("#");
            at = 0;
            for group in &self.groups {
                let count = group.columns.len();
                let span = widths[at..at + count].iter().sum::<usize>() + 2 * (count - 1);
                let _ = write!(line, "{}{:>span$}", if at == 0 { " " } else { " | " }, group.title);
                at += count;
            }
            let _ = writeln!(text, "{}", line.trim_end());
        }
        self.line(
            &mut text,
            "#",
            &widths,
            &columns.iter().map(|column| (*column).clone()).collect::<Vec<_>>(),
        );
        for row in &self.rows {
            self.line(&mut text, " ", &widths, row);
        }
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
