//! MPI's operations against Open MPI over kernel TCP: `crates/mpi/examples/osu.rs` and `xtask/peers/osu.c` do the same.
//!
//! Both are started in turns, so that a ratio is of the same minute of a shared machine; a row is the median of the turns,
//! a ratio the median of the turns' ratios.

use std::{collections::BTreeMap, process::Command};

use crate::shell::{self, Cmd};

const TURNS: usize = 5;
/// A program that takes longer has met a fault.
const LIMIT_S: &str = "60";
const OURS: &str = "target/release/examples/osu";
const THEIRS: &str = "target/osu-openmpi";
/// The tcp btl and nothing else: what a cluster without InfiniBand runs.
const OPEN_MPI: &str = "--mca pml ob1 --mca btl self,tcp --mca btl_tcp_if_include lo --oversubscribe";

struct Case {
    operation: &'static str,
    ranks: u32,
    iterations: u32,
    sizes: &'static [u32],
    /// What is shown: microseconds, or 10^6 octets per second.
    bandwidth: bool,
}

const fn case(operation: &'static str, ranks: u32, iterations: u32, sizes: &'static [u32]) -> Case {
    Case {
        operation,
        ranks,
        iterations,
        sizes,
        bandwidth: false,
    }
}

const CASES: [Case; 9] = [
    case("latency", 2, 2_000, &[8, 512, 2_048, 8_192, 16_384, 65_536]),
    case("latency", 2, 100, &[1 << 20, 4 << 20]),
    Case {
        bandwidth: true,
        ..case("bandwidth", 2, 20, &[65_536, 1 << 20, 4 << 20])
    },
    case("barrier", 8, 300, &[0]),
    case("allreduce", 8, 300, &[8]),
    case("allreduce", 4, 40, &[1 << 20]),
    case("bcast", 4, 40, &[1 << 20]),
    case("alltoall", 4, 40, &[65_536]),
    case("alltoall", 8, 300, &[8]),
];

/// `args`: `--format json`, or nothing.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let json = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => false,
        ["--format", "json"] => true,
        _ => return Err("the only option is --format json".to_owned()),
    };
    if let Some(why) = shell::missing(&["mpicc.openmpi", "mpirun.openmpi"]) {
        eprintln!("skipped: {why} (cargo xtask setup installs it)");
        return Ok(());
    }
    build("cargo build --quiet --release -p hikyaku-cli")?;
    build("cargo build --quiet --release -p hikyaku-mpi --example osu")?;
    build(&format!("mpicc.openmpi -O2 -o {THEIRS} xtask/peers/osu.c"))?;
    let mut rows = Vec::new();
    for case in &CASES {
        eprintln!("{}, {} ranks", case.operation, case.ranks);
        rows.extend(compare(case)?);
    }
    print(&rows, json);
    Ok(())
}

struct Row {
    operation: &'static str,
    ranks: u32,
    size: u32,
    ours: f64,
    theirs: f64,
    ratio: f64,
    unit: &'static str,
}

fn build(line: &str) -> Result<(), String> {
    let output = Cmd::parse(line).output().map_err(|error| format!("{line}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{line}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn compare(case: &Case) -> Result<Vec<Row>, String> {
    // Of each size: ours and theirs, once per turn.
    let mut turns: BTreeMap<u32, Vec<(f64, f64)>> = BTreeMap::new();
    for turn in 0..TURNS {
        let mut both = [BTreeMap::new(), BTreeMap::new()];
        for which in [turn % 2, 1 - turn % 2] {
            both[which] = measure(case, which == 0)?;
        }
        let [ours, theirs] = both;
        for (size, ours) in ours {
            let theirs = theirs.get(&size).ok_or("they have not measured all sizes")?;
            turns.entry(size).or_default().push((ours, *theirs));
        }
    }
    let shown = |size: u32, nanos: f64| {
        if case.bandwidth {
            f64::from(size) * 1e3 / nanos
        } else {
            nanos / 1e3
        }
    };
    let row = |(size, turns): (u32, Vec<(f64, f64)>)| Row {
        operation: case.operation,
        ranks: case.ranks,
        size,
        ours: median(turns.iter().map(|turn| shown(size, turn.0))),
        theirs: median(turns.iter().map(|turn| shown(size, turn.1))),
        ratio: median(turns.iter().map(|turn| shown(size, turn.0) / shown(size, turn.1))),
        unit: if case.bandwidth { "MB/s" } else { "us" },
    };
    Ok(turns.into_iter().map(row).collect())
}

/// Nanoseconds of each size.
fn measure(case: &Case, ours: bool) -> Result<BTreeMap<u32, f64>, String> {
    let ranks = case.ranks.to_string();
    let mut words = vec!["timeout", "--kill-after=5", LIMIT_S];
    if ours {
        words.extend(["target/release/hikyaku", "run", "-n", &ranks, OURS]);
    } else {
        words.extend(["mpirun.openmpi", "-n", &ranks]);
        words.extend(OPEN_MPI.split_whitespace());
        words.extend(["--bind-to", if case.ranks > 2 { "none" } else { "core" }, THEIRS]);
    }
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir(shell::root());
    command
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command.arg(case.operation).arg(case.iterations.to_string());
    command.args(case.sizes.iter().map(u32::to_string));
    let line = words.join(" ");
    let output = command.output().map_err(|error| format!("{line}: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{line} {}: {}: {said}", case.operation, output.status));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let parse = |line: &str| {
        let (size, nanos) = line.split_once(' ')?;
        Some((size.parse().ok()?, nanos.parse().ok()?))
    };
    Ok(text.lines().filter_map(parse).collect())
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 {
        values[middle]
    } else {
        f64::midpoint(values[middle - 1], values[middle])
    }
}

fn print(rows: &[Row], json: bool) {
    if json {
        let row = |row: &Row| {
            format!(
                r#"{{"operation":"{}","ranks":{},"size":{},"unit":"{}","hikyaku":{:.2},"openmpi":{:.2},"ratio":{:.3}}}"#,
                row.operation, row.ranks, row.size, row.unit, row.ours, row.theirs, row.ratio
            )
        };
        let rows: Vec<String> = rows.iter().map(row).collect();
        println!(r#"{{"benchmark":"mpi","rows":[{}]}}"#, rows.join(","));
        return;
    }
    println!("# median of {TURNS} turns; ratio: hikyaku / Open MPI (tcp btl), median of the turns' ratios");
    println!("# operation  ranks      size  unit    hikyaku   Open MPI   ratio");
    for row in rows {
        println!(
            "{:<11}  {:>5}  {:>8}  {:<4}  {:>9.2}  {:>9.2}  {:>6.2}",
            row.operation, row.ranks, row.size, row.unit, row.ours, row.theirs, row.ratio
        );
    }
}
