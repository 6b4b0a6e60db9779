//! `hikyaku doctor`: what this machine offers, and what to do about what is missing.

mod dpdk;
mod machine;
mod network;

use std::{
    env,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use clap::Args;
use hikyaku_bench::{
    failure::Failure,
    report::{Format, Output, publish},
};
use serde::Serialize;

/// Options of `hikyaku doctor`.
#[derive(Clone, Debug, Args)]
pub(crate) struct DoctorArgs {
    /// How findings are printed
    #[arg(long, value_enum, default_value = "text", value_name = "FORMAT")]
    pub format: Format,
}

pub(crate) const EXAMPLES: &str = "\
Examples:
  hikyaku doctor                                        what there is, and what to do about the rest
  hikyaku doctor --format json | jq '.rows[] | select(.state != \"ok\")'

`ok` is as it should be, `could` would be better otherwise, `none` is not there and only matters to those who \
want it. Nothing is changed.";

/// How it stands with something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    /// As it should be.
    Ok,
    /// It works, and could be better.
    Could,
    /// Not there; matters to those who want it.
    None,
}

impl State {
    const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Could => "could",
            Self::None => "none",
        }
    }
}

/// One line of the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// The heading under which it stands.
    area: &'static str,
    /// What was looked at.
    name: String,
    state: State,
    /// How it is.
    value: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

impl Finding {
    fn new(area: &'static str, name: impl Into<String>, state: State, value: impl Into<String>) -> Self {
        Self {
            area,
            name: name.into(),
            state,
            value: value.into(),
            advice: None,
        }
    }

    /// What to do, if it is not as it should be.
    fn advise(mut self, advice: impl Into<String>) -> Self {
        if self.state != State::Ok {
            self.advice = Some(advice.into());
        }
        self
    }
}

#[derive(Serialize)]
struct Document {
    tool: &'static str,
    rows: Vec<Finding>,
}

/// Looks at everything and prints it.
pub(crate) fn run(args: &DoctorArgs) -> Result<(), Failure> {
    let mut rows = machine::findings();
    rows.extend(network::findings());
    rows.extend(dpdk::findings());
    rows.extend(machine::launchers());
    let text = text(&rows);
    let output = Output {
        format: args.format,
        plot: None,
        progress: false,
    };
    publish(&output, &Document { tool: "doctor", rows }, text, None)
}

/// The report for people.
fn text(rows: &[Finding]) -> String {
    let width = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    let mut area = "";
    for row in rows {
        if row.area != area {
            let gap = if area.is_empty() { "" } else { "\n" };
            area = row.area;
            let _ = writeln!(text, "{gap}{area}");
        }
        let _ = writeln!(text, "  {:5}  {:width$}  {}", row.state.name(), row.name, row.value);
        if let Some(advice) = &row.advice {
            let _ = writeln!(text, "  {:5}  {:width$}  -> {advice}", "", "");
        }
    }
    text
}

/// A file of the kernel, trimmed; empty if it can not be read.
fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).map_or_else(|_| String::new(), |text| text.trim().to_owned())
}

/// Names in a folder, sorted; none if it can not be read.
fn names(folder: impl AsRef<Path>) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Where a program is, as a shell would find it; administrators' folders count.
fn which(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

/// What a program prints, if it is there and succeeds.
fn ask(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(which(program)?).args(args).output().ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_is_for_what_is_not_as_it_should_be() {
        let good = Finding::new("machine", "good", State::Ok, "there").advise("nothing");
        let bad = Finding::new("network", "bad thing", State::Could, "small").advise("make it larger");
        assert_eq!(good.advice, None);
        let expected = "machine\n  ok     good       there\n\nnetwork\n  could  bad thing  small\n                    -> make it larger\n";
        assert_eq!(text(&[good, bad]), expected);
    }
}
