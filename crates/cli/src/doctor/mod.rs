//! `hikyaku doctor`: what this machine offers, and how to get the rest.

mod dpdk;
mod finding;
mod look;
mod machine;
mod network;

use std::fmt::Write;

use clap::Args;
use hikyaku_bench::{
    failure::Failure,
    report::{Format, Output, publish},
};
use serde::Serialize;

use self::finding::Finding;

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

#[cfg(test)]
mod tests {
    use super::{finding::State, *};

    #[test]
    fn advice_is_for_what_is_not_as_it_should_be() {
        let good = Finding::new("machine", "good", State::Ok, "there").advise("nothing");
        let bad = Finding::new("network", "bad thing", State::Could, "small").advise("make it larger");
        assert_eq!(good.advice, None);
        let expected = "machine\n  ok     good       there\n\nnetwork\n  could  bad thing  small\n                    -> make it larger\n";
        assert_eq!(text(&[good, bad]), expected);
    }
}
