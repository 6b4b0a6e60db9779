//! Instruction counts of `benches/instructions.rs`, compared with the figures in `benches/instructions.toml`.
//!
//! A count is the same on a busy machine, so it shows what a time hides. It is a property of the code *and* of the
//! compiler: with another compiler than that of the figures, differences are printed and fail nothing.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::PathBuf};

use crate::{
    shell::{self, Cmd},
    steps::Steps,
};

/// A count further away than this from its figure fails, in both directions: a figure that is no longer true would
/// hide the next change.
const TOLERANCE_PERCENT: f64 = 2.0;

/// What is counted: inside this function, and in what it calls.
const MEASURED: &str = "--toggle-collect=*instructions::measured*";

/// Writes the figures anew if `bless`, else compares.
pub(crate) fn run(steps: &mut Steps, bless: bool) -> Result<(), String> {
    let obstacle = if shell::root().join("benches/instructions.rs").is_file() {
        shell::missing(&["valgrind"])
    } else {
        Some("there is no benches/instructions.rs".to_owned())
    };
    if let Some(why) = obstacle {
        steps.skip("instruction counts", &why);
        return Ok(());
    }
    steps.call("instruction counts", || {
        let counts = count()?;
        if bless { write(&counts) } else { compare(&counts) }
    })
}

fn figures_path() -> PathBuf {
    shell::root().join("benches/instructions.toml")
}

/// Instructions per case.
fn count() -> Result<BTreeMap<String, u64>, String> {
    let binary = build()?;
    let list = Cmd::new(&binary)
        .args(["--list"])
        .stdout()
        .ok_or_else(|| format!("{binary} --list fails"))?;
    let out = shell::target_dir().join("callgrind.out");
    let mut counts = BTreeMap::new();
    for case in list.lines() {
        let valgrind = Cmd::parse("valgrind --quiet --tool=callgrind")
            .args([
                MEASURED,
                &format!("--callgrind-out-file={}", out.display()),
                &binary,
                case,
            ])
            .limit_s(300);
        let output = valgrind
            .output()
            .map_err(|error| format!("{error}\n  repeat it: {valgrind}"))?;
        if !output.status.success() {
            let messages = String::from_utf8_lossy(&output.stderr);
            return Err(format!(
                "{case}: {}\n{messages}\n  repeat it: {valgrind}",
                output.status
            ));
        }
        let profile = fs::read_to_string(&out).map_err(|error| format!("{}: {error}", out.display()))?;
        let count = totals(&profile).filter(|count| *count > 0);
        let count = count.ok_or_else(|| format!("{case}: nothing counted\n  repeat it: {valgrind}"))?;
        counts.insert(case.to_owned(), count);
    }
    Ok(counts)
}

/// Builds the bench and gives its path.
fn build() -> Result<String, String> {
    Cmd::parse("cargo bench -p hikyaku --bench instructions --no-run").run()?;
    let messages = Cmd::parse("cargo bench --quiet -p hikyaku --bench instructions --no-run --message-format=json");
    let messages = messages.stdout().ok_or_else(|| format!("fails: {messages}"))?;
    let executable = |line: &str| Some(line.split_once(r#""executable":""#)?.1.split_once('"')?.0.to_owned());
    messages
        .lines()
        .find_map(executable)
        .ok_or_else(|| "cargo names no executable".to_owned())
}

/// The `totals: N` of a callgrind profile.
fn totals(profile: &str) -> Option<u64> {
    profile
        .lines()
        .find_map(|line| line.strip_prefix("totals:"))?
        .trim()
        .parse()
        .ok()
}

fn write(counts: &BTreeMap<String, u64>) -> Result<(), String> {
    let mut text =
        String::from("# Instructions per case of instructions.rs; written by `cargo xtask callgrind --bless`.\n");
    let _ = writeln!(text, "rustc = \"{}\"\n\n[counts]", shell::rustc_version());
    for (case, count) in counts {
        let _ = writeln!(text, "{case} = {count}");
        println!("{case:<32} {count:>12}");
    }
    fs::write(figures_path(), text).map_err(|error| format!("{}: {error}", figures_path().display()))
}

/// The compiler and the counts of `benches/instructions.toml`, in the form that [`write()`] gives it.
fn figures() -> Result<(String, BTreeMap<String, u64>), String> {
    let text = fs::read_to_string(figures_path())
        .map_err(|error| format!("benches/instructions.toml: {error} (cargo xtask callgrind --bless writes it)"))?;
    let mut rustc = String::new();
    let mut counts = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with(['#', '['])) {
        let Some((name, value)) = line.split_once(" = ") else {
            continue;
        };
        if name == "rustc" {
            value.trim_matches('"').clone_into(&mut rustc);
        } else {
            let count = value
                .parse()
                .map_err(|_| format!("benches/instructions.toml: '{line}' is no count"))?;
            counts.insert(name.to_owned(), count);
        }
    }
    Ok((rustc, counts))
}

fn compare(counts: &BTreeMap<String, u64>) -> Result<(), String> {
    let (rustc, figures) = figures()?;
    let mut bad = Vec::new();
    println!("{:<32} {:>12} {:>12} {:>8}", "case", "figure", "now", "change");
    for (case, &count) in counts {
        let Some(&figure) = figures.get(case) else {
            println!("{case:<32} {:>12} {count:>12} {:>8}", "-", "new");
            bad.push(case.as_str());
            continue;
        };
        let percent = 100.0 * (count as f64 - figure as f64) / figure as f64;
        println!("{case:<32} {figure:>12} {count:>12} {percent:>+7.2}%");
        if percent.abs() > TOLERANCE_PERCENT {
            bad.push(case);
        }
    }
    for case in figures.keys().filter(|case| !counts.contains_key(*case)) {
        println!("{case:<32} is gone");
        bad.push(case);
    }
    let here = shell::rustc_version();
    if bad.is_empty() {
        Ok(())
    } else if rustc == here {
        Err(format!(
            "more than {TOLERANCE_PERCENT} % away from the figure: {}\n  if that is meant: cargo xtask callgrind --bless",
            bad.join(", ")
        ))
    } else {
        println!("the figures are of {rustc}, this is {here}: differences do not count");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_found() {
        assert_eq!(totals("events: Ir\nfn=(1)\n1 2\ntotals: 4711\n"), Some(4711));
        assert_eq!(totals("events: Ir\n"), None);
    }
}
