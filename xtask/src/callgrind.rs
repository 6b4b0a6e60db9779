//! Instruction counts of `benches/instructions.rs`, `benches/rails.rs`, `benches/mpi.rs` and `benches/mpi_window.rs`, of
//! C's functions in `crates/capi/abi/benches/calls.rs`, per packet of `benches/dpdk.rs`, and per message of `benches/poller.rs`, compared
//! with the figures in `benches/instructions.toml`.
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

/// How often this function reads the clock depends on the time that passes, so it is left out of a case's total.
const CLOCK: &str = "progress::clock::Stopwatch::read";

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
    let dpdk = dpdk_is_here();
    if !dpdk {
        steps.skip(
            "instruction counts of the DPDK backend",
            "no DPDK 22.11 with headers here (cargo xtask setup)",
        );
    }
    steps.call("instruction counts", || {
        let mut counts = count(&Bench::CORE)?;
        counts.extend(count(&Bench::RAILS)?);
        counts.extend(count(&Bench::MPI)?);
        counts.extend(count(&Bench::MPI_WINDOW)?);
        counts.extend(count(&Bench::CALLS)?);
        if dpdk {
            counts.extend(count(&Bench::DPDK)?);
            counts.extend(count(&Bench::POLLER)?);
        }
        if bless { write(&counts) } else { compare(&counts, dpdk) }
    })
}

fn dpdk_is_here() -> bool {
    Cmd::parse("pkg-config --atleast-version=22.11 libdpdk")
        .stdout()
        .is_some()
}

/// A program whose cases are counted.
struct Bench {
    name: &'static str,
    /// The arguments between `cargo bench -p` and the name: the package, and its features.
    package: &'static str,
    /// The function of a case inside which is counted, with all that it calls.
    measured: fn(&str) -> &'static str,
    /// A function inside which is not, since how often it is called depends on the time that passes.
    left_out: Option<&'static str>,
    /// Counts are per so many, and without what is DPDK's own: its libraries, and the inline functions of its headers.
    packets: Option<u64>,
}

impl Bench {
    const CORE: Self = Self {
        name: "instructions",
        package: "hikyaku",
        measured: |_| "*cases::measured*",
        left_out: None,
        packets: None,
    };
    const RAILS: Self = Self {
        name: "rails",
        ..Self::CORE
    };
    const MPI: Self = Self {
        name: "mpi",
        ..Self::CORE
    };
    const MPI_WINDOW: Self = Self {
        name: "mpi_window",
        ..Self::CORE
    };
    const CALLS: Self = Self {
        name: "calls",
        package: "hikyaku-capi-abi",
        left_out: Some("*Native::look_if_due*"),
        ..Self::CORE
    };
    const DPDK: Self = Self {
        name: "dpdk",
        package: "hikyaku --features dpdk",
        measured: |case| {
            if case.starts_with("dpdk_send") {
                "*dpdk::measured_send*"
            } else if case.starts_with("dpdk_hand_over") {
                "*dpdk::measured_hand_over*"
            } else {
                "*dpdk::measured_receive*"
            }
        },
        left_out: None,
        packets: Some(3_200),
    };
    const POLLER: Self = Self {
        name: "poller",
        package: "hikyaku --features dpdk",
        measured: |case| {
            if case.starts_with("poller_send") {
                "*poller::measured_send*"
            } else if case.starts_with("poller_hop") {
                "*poller::measured_hop*"
            } else {
                "*poller::measured_take*"
            }
        },
        left_out: None,
        packets: Some(3_200),
    };
}

fn figures_path() -> PathBuf {
    shell::root().join("benches/instructions.toml")
}

/// Instructions per case.
fn count(bench: &Bench) -> Result<BTreeMap<String, u64>, String> {
    let binary = build(bench)?;
    let list = Cmd::new(&binary)
        .args(["--list"])
        .stdout()
        .ok_or_else(|| format!("{binary} --list fails"))?;
    let out = shell::target_dir().join("callgrind.out");
    let mut counts = BTreeMap::new();
    for case in list.lines() {
        // Each of these functions turns counting over while it runs.
        let functions = [Some((bench.measured)(case)), bench.left_out];
        let toggles = functions.into_iter().flatten();
        let toggles: Vec<String> = toggles.map(|name| format!("--toggle-collect={name}")).collect();
        let valgrind = Cmd::parse("valgrind --quiet --tool=callgrind")
            .args(&toggles)
            .args([&format!("--callgrind-out-file={}", out.display()), &*binary, case])
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
        let count = match bench.packets {
            None => totals(&profile).map(|total| total - called(&profile, CLOCK)),
            Some(packets) => Some(outside(&profile, "/librte_", "/rte_") / packets),
        };
        let count = count.filter(|count| *count > 0);
        let count = count.ok_or_else(|| format!("{case}: nothing counted\n  repeat it: {valgrind}"))?;
        counts.insert(case.to_owned(), count);
    }
    Ok(counts)
}

/// Builds the bench and gives its path.
fn build(bench: &Bench) -> Result<String, String> {
    let Bench { name, package, .. } = bench;
    shell::executable(&format!("cargo bench -p {package} --bench {name} --no-run"))
}

/// Instructions of a callgrind profile in all objects but those with `object` in their names, and from all source files but
/// those with `file` in theirs; what was called from there included if it is elsewhere.
fn outside(profile: &str, object: &str, file: &str) -> u64 {
    let (mut objects, mut files) = (BTreeMap::new(), BTreeMap::new());
    let (mut in_object, mut in_file, mut is_call, mut sum) = (false, false, false, 0);
    for line in profile.lines() {
        let (key, value) = line.split_once('=').unwrap_or(("", ""));
        match key {
            "ob" => in_object = names(&mut objects, value, object),
            "cob" => _ = names(&mut objects, value, object),
            // A function's file; another one from which something is inlined, and back.
            "fl" | "fi" | "fe" => in_file = names(&mut files, value, file),
            "cfi" | "cfl" => _ = names(&mut files, value, file),
            "calls" => is_call = true,
            "" if line.starts_with(|c: char| c.is_ascii_digit() || "+-*".contains(c)) => {
                let own = line.split_once(' ').and_then(|(_, count)| count.parse::<u64>().ok());
                // The line after a call has the cost of what was called, which has lines of its own.
                if !std::mem::take(&mut is_call) && !in_object && !in_file {
                    sum += own.unwrap_or(0);
                }
            }
            _ => {}
        }
    }
    sum
}

/// Whether `part` is in a name, which is written as `(7) /path` the first time, and as `(7)` later.
fn names<'a>(known: &mut BTreeMap<&'a str, bool>, value: &'a str, part: &str) -> bool {
    let (number, name) = value.split_once(' ').unwrap_or((value, ""));
    *known.entry(number).or_insert_with(|| name.contains(part))
}

/// Instructions in functions with `name` in theirs, with all that these call, where they are called.
fn called(profile: &str, name: &str) -> u64 {
    let mut functions = BTreeMap::new();
    let (mut is_one, mut is_call, mut sum) = (false, false, 0);
    for line in profile.lines() {
        let (key, value) = line.split_once('=').unwrap_or(("", ""));
        match key {
            "fn" => _ = names(&mut functions, value, name),
            "cfn" => is_one = names(&mut functions, value, name),
            "calls" => is_call = true,
            _ if std::mem::take(&mut is_call) && is_one => {
                let own = line.split_once(' ').and_then(|(_, count)| count.parse::<u64>().ok());
                sum += own.unwrap_or(0);
            }
            _ => {}
        }
    }
    sum
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
    let mut text = String::from(
        "# Instructions per case of instructions.rs, rails.rs, mpi.rs, mpi_window.rs, dpdk.rs, poller.rs and calls.rs; written by `cargo xtask callgrind --bless`.\n",
    );
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

/// `dpdk`: its cases were counted.
fn compare(counts: &BTreeMap<String, u64>, dpdk: bool) -> Result<(), String> {
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
    let expected = |case: &&String| dpdk || !(case.starts_with("dpdk_") || case.starts_with("poller_"));
    for case in figures
        .keys()
        .filter(expected)
        .filter(|case| !counts.contains_key(*case))
    {
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

    #[test]
    fn what_is_called() {
        let profile = "fn=(1) main\n1 2\ncfn=(2) a::read\ncalls=3 7\n1 30\ncfn=(3) b\ncalls=1 8\n1 5\n\
                       fn=(3)\n8 1\ncfn=(2)\ncalls=1 7\n9 4\nfn=(2)\n7 34\ntotals: 71\n";
        assert_eq!(called(profile, "a::read"), 34);
        assert_eq!(called(profile, "c"), 0);
    }

    #[test]
    fn what_is_outside() {
        let profile = "ob=(1) /bin/a\nfn=(1) f\n3 10\ncob=(2) /lib/librte_x.so\ncalls=1 5\n3 100\n+1 7\n\
                       ob=(2)\nfn=(2) g\n5 100\nob=(1)\n* 1\nfi=(3) /dpdk/rte_x.h\n2 5\nfe=(4) a.rs\n+1 2\n\
                       fi=(3)\n2 5\ntotals: 130\n";
        assert_eq!(outside(profile, "/librte_", "/rte_"), 20);
    }
}
