//! `hikyaku papers`: every part of the papers that this project implements, with the command that shows it, and the
//! figures of both.

mod parts;
mod play;

use std::fmt::Write;

use clap::Args;
use hikyaku_bench::{
    failure::Failure,
    report::{Output, publish},
};
use serde::Serialize;

use self::{
    parts::{PARTS, Part},
    play::{Played, play},
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  hikyaku papers                       the table of all parts
  hikyaku papers S4 S3.4               those of a paper, or single ones
  hikyaku papers --run --progress      runs the commands too: 10 minutes, if built
  hikyaku papers --run --format json > papers.json

S1 is the DPDK paper, S2 the PACS-CS paper, S3 the optics paper, S4 the DSE paper (docs/papers.md). States: `works`, \
`needs the hardware`.

--run runs each command once, though several parts may name it. Those that begin with `cargo` need a checkout of the \
project (--checkout), and build there first what is not built yet, in which time all others could run; those with `dpdk` \
need a build with that feature, and `bench rails` needs root. What cannot run here is skipped, with the reason. A \
simulation gives the same figures everywhere; measurements are of this machine.";

/// Options of `hikyaku papers`.
#[derive(Clone, Debug, Args)]
pub(crate) struct PapersArgs {
    /// Only these parts: S4, S3.4, …
    #[arg(value_name = "PART")]
    parts: Vec<String>,
    /// Run the commands
    #[arg(long)]
    run: bool,
    /// Where the project's source is, for commands of cargo
    #[arg(long, value_name = "DIR")]
    checkout: Option<std::path::PathBuf>,
    #[command(flatten)]
    output: Output,
}

#[derive(Serialize)]
struct Document {
    rows: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    #[serde(flatten)]
    part: &'static Part,
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<Played>,
}

/// Prints the table, and runs it.
pub(crate) fn run(args: &PapersArgs) -> Result<(), Failure> {
    args.output.refuse_plot()?;
    let asked = |part: &&Part| {
        let is_it = |name: &String| {
            part.part == name
                || part
                    .part
                    .strip_prefix(&**name)
                    .is_some_and(|rest| rest.starts_with('.'))
        };
        args.parts.is_empty() || args.parts.iter().any(is_it)
    };
    let chosen: Vec<&'static Part> = PARTS.iter().filter(asked).collect();
    if chosen.is_empty() {
        return Err(Failure::usage("no part has this name; they are S1.1 to S4.9"));
    }
    let mut played = match args.run {
        true => play(&chosen, args.checkout.as_deref(), &args.output)?,
        false => Vec::new(),
    };
    played.reverse();
    let rows: Vec<Row> = chosen
        .into_iter()
        .map(|part| Row {
            part,
            run: played.pop(),
        })
        .collect();
    let failed = rows
        .iter()
        .filter(|row| row.run.as_ref().is_some_and(Played::has_failed))
        .count();
    let text = text(&rows);
    publish(&args.output, &Document { rows }, text, None)?;
    match failed {
        0 => Ok(()),
        one => Err(Failure::run(format!("{one} parts failed"))),
    }
}

fn text(rows: &[Row]) -> String {
    let mut text = String::new();
    for Row { part, run } in rows {
        let _ = writeln!(text, "{:5} {} ({})", part.part, part.name, part.state);
        let _ = writeln!(text, "      command  {}", part.command);
        for (what, figure) in [("here", part.figure), ("paper", part.paper)] {
            if !figure.is_empty() {
                let _ = writeln!(text, "      {what:8} {figure}");
            }
        }
        if let Some(run) = run {
            let _ = writeln!(text, "      ran      {}", run.summary());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::{complaint, page};

    /// The page has a row for each part, in order, with its state, command and figures; and there are no others.
    #[test]
    fn the_page_is_the_table() {
        let Some(page) = page("docs/papers.md") else { return };
        let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| S")).collect();
        let parts: Vec<&str> = rows.iter().filter_map(|row| row.split_whitespace().nth(1)).collect();
        assert_eq!(parts, PARTS.map(|part| part.part));
        for (row, part) in rows.iter().zip(PARTS) {
            let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
            let [name, .., state] = cells[..] else { panic!("{row}") };
            assert_eq!(name, format!("{} {}", part.part, part.name));
            let own = state.starts_with(part.state);
            assert!(own, "{}: {state}", part.part);
            assert!(
                row.contains(&format!("`{}`", part.command)),
                "{}: {}",
                part.part,
                part.command
            );
            for figure in [part.figure, part.paper] {
                assert!(row.contains(figure), "{}: {figure}", part.part);
            }
        }
        assert!(
            PARTS
                .iter()
                .all(|part| ["works", "needs the hardware"].contains(&part.state))
        );
    }

    #[test]
    fn commands_are_ours() {
        for part in PARTS {
            if let Some(rest) = part.command.strip_prefix("hikyaku ") {
                let words: Vec<String> = rest.split_whitespace().map(ToOwned::to_owned).collect();
                if !play::is_absent(part.command) {
                    assert_eq!(complaint(&words, true), None, "{}", part.part);
                }
            } else {
                assert!(part.command.starts_with("cargo "), "{}", part.command);
            }
        }
    }
}
