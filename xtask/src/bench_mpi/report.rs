//! The report: a table for people, JSON, or Markdown for the documentation.

use std::{fmt::Write, fs};

use super::peers::Peer;
use crate::shell::{self, Cmd};

/// Where `--docs` writes the tables: between two lines of a document, of which this is the middle.
#[derive(Clone, Copy)]
pub(super) struct Section {
    document: &'static str,
    mark: &'static str,
}

impl Section {
    pub(super) const NETWORK: Self = Self {
        document: "docs/measured/benchmarks.md",
        mark: "bench-mpi",
    };
    pub(super) const WITHIN_HOST: Self = Self {
        mark: "bench-mpi --within-host",
        ..Self::NETWORK
    };

    /// Of the measurements of the C libraries.
    pub(super) const fn libraries(mark: &'static str) -> Self {
        Self {
            document: "docs/measured/capi.md",
            mark,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Text,
    Json,
    Markdown,
}

impl Format {
    pub(super) fn parse(name: &str) -> Option<Self> {
        match name {
            "text" => Some(Self::Text),
            "json" => Some(Self::Json),
            "markdown" => Some(Self::Markdown),
            _ => None,
        }
    }
}

/// One size of one case: of each peer the figure of each turn, where there is one.
pub(super) struct Row {
    pub(super) operation: &'static str,
    pub(super) ranks: u32,
    pub(super) size: u32,
    /// How far the cores were from each other, where that was looked at.
    pub(super) cores: String,
    pub(super) unit: &'static str,
    /// Of this project first.
    pub(super) figures: Vec<(Peer, Vec<Option<f64>>)>,
}

impl Row {
    /// Of each peer: the median, and the median of the turns' ratios of this project's figure to it.
    fn summary(&self) -> Vec<(Peer, Option<f64>, Option<f64>)> {
        let ours = &self.figures[0].1;
        let one = |(peer, theirs): &(Peer, Vec<Option<f64>>)| {
            let ratios = ours
                .iter()
                .zip(theirs)
                .filter_map(|(ours, theirs)| Some((*ours)? / (*theirs)?));
            (*peer, median(theirs.iter().flatten().copied()), median(ratios))
        };
        self.figures.iter().map(one).collect()
    }
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        len if len % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}

pub(super) struct Report {
    pub(super) rows: Vec<Row>,
    /// Of `hikyaku bench`, in the format that was asked for.
    pub(super) levels: Vec<String>,
}

/// Where and when.
struct Machine {
    cpu: String,
    cores: usize,
    kernel: String,
    date: String,
}

impl Machine {
    fn this() -> Self {
        let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let models = info.lines().filter(|line| line.starts_with("model name"));
        let cpu = models.clone().next().and_then(|line| line.split_once(": "));
        let said = |line: &str| {
            Cmd::parse(line)
                .stdout()
                .map_or_else(|| "unknown".to_owned(), |text| text.trim().to_owned())
        };
        Self {
            cpu: cpu.map_or_else(|| "unknown CPU".to_owned(), |(_, name)| name.trim().to_owned()),
            cores: models.count(),
            kernel: said("uname -r"),
            date: said("date -u +%F"),
        }
    }

    fn line(&self) -> String {
        format!(
            "{}, {} cores, Linux {}; {}",
            self.cpu, self.cores, self.kernel, self.date
        )
    }
}

const METHOD: &str = "Medians of the turns; ratio: the first's figure / the other's, median of the turns' ratios.";

impl Report {
    pub(super) fn hand_out(&self, format: Format, docs: bool, section: &Section) -> Result<(), String> {
        let machine = Machine::this();
        let text = match format {
            Format::Text => self.text(&machine),
            Format::Json => self.json(&machine),
            Format::Markdown => self.markdown(&machine),
        };
        if docs { write(&text, section) } else { print(&text) }
    }

    /// With what is compared.
    fn first(&self) -> Peer {
        self.rows.first().map_or(Peer::Hikyaku, |row| row.figures[0].0)
    }

    /// The others in the table.
    fn others(&self) -> Vec<Peer> {
        let mut others = Vec::new();
        for (peer, _) in self.rows.iter().flat_map(|row| &row.figures) {
            if *peer != self.first() && !others.contains(peer) {
                others.push(*peer);
            }
        }
        others
    }

    /// A row of cells for each row, with a heading.
    fn cells(&self) -> Vec<Vec<String>> {
        let others = self.others();
        let has_cores = self.rows.iter().any(|row| !row.cores.is_empty());
        let mut heading = ["operation", "ranks", "size", "unit", "turns", self.first().name()]
            .map(str::to_owned)
            .to_vec();
        if has_cores {
            heading.insert(1, "cores".to_owned());
        }
        for other in &others {
            heading.extend([other.name().to_owned(), "ratio".to_owned()]);
        }
        let mut all = vec![heading];
        for row in &self.rows {
            let summary = row.summary();
            let turns = row.figures[0].1.iter().flatten().count();
            let mut cells = vec![
                row.operation.to_owned(),
                row.ranks.to_string(),
                size(row.size),
                row.unit.to_owned(),
                turns.to_string(),
                number(summary[0].1),
            ];
            if has_cores {
                cells.insert(1, row.cores.clone());
            }
            for other in &others {
                let found = summary.iter().find(|(peer, ..)| peer == other);
                let (figure, ratio) = found.map_or((None, None), |(_, figure, ratio)| (*figure, *ratio));
                cells.extend([number(figure), factor(ratio)]);
            }
            all.push(cells);
        }
        all
    }

    fn text(&self, machine: &Machine) -> String {
        let mut text = format!("# {}\n# {METHOD}\n", machine.line());
        text.push_str(&aligned(&self.cells()));
        for level in &self.levels {
            let _ = write!(text, "\n{level}");
        }
        text
    }

    fn markdown(&self, machine: &Machine) -> String {
        let mut text = format!("{}.\n{METHOD}\n\n", machine.line());
        for (index, cells) in self.cells().iter().enumerate() {
            let _ = writeln!(text, "| {} |", cells.join(" | "));
            if index == 0 {
                let _ = writeln!(text, "|---|{}", "---:|".repeat(cells.len() - 1));
            }
        }
        for level in &self.levels {
            let _ = write!(text, "\n```text\n{level}```\n");
        }
        text
    }

    fn json(&self, machine: &Machine) -> String {
        let optional = |value: Option<f64>| value.map_or_else(|| "null".to_owned(), |value| format!("{value:.4}"));
        let row = |row: &Row| {
            let summary = row.summary();
            let medians = summary
                .iter()
                .map(|(peer, median, _)| format!("\"{}\":{}", peer.key(), optional(*median)));
            let ratios = summary[1..]
                .iter()
                .map(|(peer, _, ratio)| format!("\"{}\":{}", peer.key(), optional(*ratio)));
            format!(
                r#"{{"operation":"{}","cores":"{}","ranks":{},"size":{},"unit":"{}","turns":{},"median":{{{}}},"ratio":{{{}}}}}"#,
                row.operation,
                row.cores,
                row.ranks,
                row.size,
                row.unit,
                row.figures[0].1.iter().flatten().count(),
                medians.collect::<Vec<_>>().join(","),
                ratios.collect::<Vec<_>>().join(",")
            )
        };
        let rows: Vec<String> = self.rows.iter().map(row).collect();
        let levels: Vec<&str> = self.levels.iter().map(|level| level.trim()).collect();
        format!(
            "{{\"benchmark\":\"mpi\",\"cpu\":\"{}\",\"cores\":{},\"kernel\":\"{}\",\"date\":\"{}\",\"rows\":[{}],\"levels\":[{}]}}\n",
            machine.cpu,
            machine.cores,
            machine.kernel,
            machine.date,
            rows.join(","),
            levels.join(",")
        )
    }
}

fn print(text: &str) -> Result<(), String> {
    print!("{text}");
    Ok(())
}

/// Puts the tables between the marks of the document.
fn write(text: &str, section: &Section) -> Result<(), String> {
    let document = section.document;
    let [begin, end] = ["begins", "ends"].map(|which| format!("<!-- {} {which} -->", section.mark));
    let file = shell::root().join(document);
    let old = fs::read_to_string(&file).map_err(|error| format!("{document}: {error}"))?;
    let marks = old
        .split_once(&begin)
        .and_then(|(before, rest)| Some((before, rest.split_once(&end)?.1)));
    let (before, after) = marks.ok_or_else(|| format!("{document} has no lines {begin} and {end}"))?;
    let new = format!("{before}{begin}\n\n{text}\n{end}{after}");
    fs::write(&file, new).map_err(|error| format!("{document}: {error}"))?;
    println!("written to {document}");
    Ok(())
}

fn aligned(rows: &[Vec<String>]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    let mut text = String::new();
    for (index, row) in rows.iter().enumerate() {
        let cells = row
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(column, (cell, &width))| match column {
                0 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            });
        let line = cells.collect::<Vec<_>>().join("  ");
        let _ = writeln!(text, "{} {}", if index == 0 { "#" } else { " " }, line.trim_end());
    }
    text
}

fn size(bytes: u32) -> String {
    match bytes {
        _ if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => format!("{}M", bytes >> 20),
        _ if bytes >= 8 << 10 && bytes.is_multiple_of(1 << 10) => format!("{}K", bytes >> 10),
        _ => bytes.to_string(),
    }
}

fn factor(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if value < 0.1 => format!("{value:.3}"),
        Some(value) => format!("{value:.2}"),
    }
}

fn number(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if value >= 1000.0 => format!("{value:.0}"),
        Some(value) if value >= 100.0 => format!("{value:.1}"),
        Some(value) => format!("{value:.2}"),
    }
}
