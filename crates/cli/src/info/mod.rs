//! `hikyaku info`: every setting with its value and its origin, what is built in, and what the machine offers.

mod place;
mod settings;

use std::fmt::Write;

use clap::Args;
use hikyaku::environment::Environment;
use hikyaku_bench::{
    failure::Failure,
    report::{Format, Output, publish},
};
use serde::Serialize;

use self::{
    place::{Build, Machine},
    settings::Row,
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  hikyaku info                                 everything, with the values that hold here and now
  hikyaku info rto timeout                     settings whose names contain one of these, in full
  HIKYAKU_ACK_DELAY=1ms hikyaku info ack       what a variable would change
  hikyaku info -n 64                           what MPI would choose for 64 ranks on this host
  hikyaku info --format json | jq '.settings[] | select(.from != \"default\")'

Origins (`from`): `default`; `environment`, the variable of that name is set; `job`, chosen for the number of ranks \
(-n); `kernel`, what the kernel has granted. A setting is changed by its variable: HIKYAKU_ACK_DELAY=1ms my-program. \
MPI programs read them, and so do others that call Builder::environment; `hikyaku run` hands them to all ranks.

A variable that is misspelt or has no valid value is named, and the exit code is then 2. `hikyaku doctor` says what \
could be better.";

/// Options of `hikyaku info`.
#[derive(Clone, Debug, Args)]
pub(crate) struct InfoArgs {
    /// Only settings whose names contain one of these words
    #[arg(value_name = "WORD")]
    words: Vec<String>,
    /// Settings of MPI for a job of so many ranks, all on this host
    #[arg(short = 'n', long = "np", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    ranks: u32,
    /// How it is printed
    #[arg(long, value_enum, default_value = "text", value_name = "FORMAT")]
    format: Format,
}

#[derive(Serialize)]
struct Document {
    tool: &'static str,
    build: Build,
    machine: Machine,
    settings: Vec<Row>,
    /// Mistakes in the environment.
    errors: Vec<String>,
}

/// Prints it. Fails if something in the environment is wrong.
pub(crate) fn run(args: &InfoArgs) -> Result<(), Failure> {
    let environment = Environment::of_process();
    let (machine, wrong) = Machine::of(&environment);
    let (mut settings, mut errors) = settings::all(&environment, args.ranks);
    errors.extend(wrong);
    let words: Vec<String> = args.words.iter().map(|word| word.to_lowercase()).collect();
    if !words.is_empty() {
        settings.retain(|row| words.iter().any(|word| row.name.to_lowercase().contains(word)));
        if settings.is_empty() {
            let words = args.words.join(", ");
            return Err(Failure::usage(format!(
                "no setting has {words} in its name; `hikyaku info` lists them all"
            )));
        }
    }
    let document = Document {
        tool: "info",
        build: Build::of_this(),
        machine,
        settings,
        errors,
    };
    let text = if words.is_empty() {
        text(&document)
    } else {
        details(&document.settings)
    };
    let output = Output {
        format: args.format,
        plot: None,
        progress: false,
    };
    publish(&output, &document, text, None)?;
    match &document.errors[..] {
        [] => Ok(()),
        errors => Err(Failure::usage(errors.join("\nhikyaku: "))),
    }
}

/// Everything, in tables.
fn text(document: &Document) -> String {
    let mut text = table("build", &document.build.rows());
    text.push('\n');
    text.push_str(&table("machine", &document.machine.rows()));
    for part in document.settings.chunk_by(|a, b| a.part == b.part) {
        let cells = |row: &Row| {
            let unit = row.unit.unwrap_or("");
            [row.name, &row.value, unit, row.from, row.meaning]
                .map(str::to_owned)
                .to_vec()
        };
        let rows: Vec<_> = part.iter().map(cells).collect();
        text.push('\n');
        text.push_str(&table(part[0].part, &rows));
    }
    text
}

/// Single settings, in full.
fn details(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows {
        let gap = if text.is_empty() { "" } else { "\n" };
        let unit = row.unit.map_or_else(String::new, |unit| format!(" {unit}"));
        let _ = writeln!(text, "{gap}{} ({}): {}", row.name, row.part, row.meaning);
        let _ = writeln!(text, "  value  {}{unit}, from: {}", row.value, row.from);
        let _ = writeln!(text, "  takes  {}", row.takes);
    }
    text
}

/// A title, then rows of aligned cells.
fn table(title: &str, rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = format!("{title}\n");
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths).filter(|(_, width)| **width > 0) {
            let _ = write!(line, "  {cell:width$}");
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_aligned_and_empty_columns_left_out() {
        let rows = [["a", "", "long one", "x"], ["bcd", "", "one", ""]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(table("part", &rows), "part\n  a    long one  x\n  bcd  one\n");
    }
}
