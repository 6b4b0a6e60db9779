//! Programs that compute as well as communicate, over DPDK, through pollers, over the kernel's UDP, and in C over Open MPI's
//! TCP: the comparison that the DPDK paper, section 7, leaves open (`docs/papers.md`). With `--latency`: one-way times by
//! size, with the paper's three ways of polling.
//!
//! The examples `sor`, `halo` and `ft` of `crates/mpi` and `xtask/peers/programs.c` do the same and come to the same result.
//! All are started in turns; a row is the median of the turns, a ratio the median of the turns' ratios. Ranks spin on a core
//! of their own where there are enough cores. Pollers are joined by a memif, and end with each run: polling, they would take
//! time from the others.

mod pollers;
mod ways;

use std::fmt::Write as _;

use self::ways::{Job, Way};
use crate::shell::{self, Cmd};

const TURNS: usize = 11;
const USAGE: &str = "bench-dpdk [--latency] [--ranks 2|4] [--format text|json|markdown] [--turns N] [--device DEVICE] \
                     (default: programs, by 2 and by 4 ranks; memif)";
/// Bytes of a message, with `--latency`.
const SIZES: [&str; 8] = ["8", "64", "512", "2048", "8192", "65536", "262144", "1048576"];

/// A case: arguments of the program in Rust and of that in C, the time that is measured, and the text before it in the
/// output.
struct Program {
    name: &'static str,
    ours: &'static [&'static str],
    theirs: &'static [&'static str],
    what: &'static str,
    before: &'static str,
}

const PROGRAMS: [Program; 4] = [
    Program {
        name: "sor",
        ours: &["64", "1000"],
        theirs: &["64", "1000"],
        what: "64 x 64 points, 270 iterations",
        before: "as in one process; ",
    },
    Program {
        name: "sor",
        ours: &["512", "200"],
        theirs: &["512", "200"],
        what: "512 x 512 points, 200 iterations",
        before: "as in one process; ",
    },
    Program {
        name: "halo",
        ours: &["64", "20"],
        theirs: &["64", "20"],
        what: "64 x 64 x 64 sites, one exchange",
        before: "in and out takes ",
    },
    Program {
        name: "ft",
        ours: &["S"],
        theirs: &["64"],
        what: "NPB's class S: 64 x 64 x 64, 6 iterations",
        before: "as published; ",
    },
];

/// Microseconds out of `… BEFORE 12.5 ms …`.
fn time_after(said: &str, before: &str) -> Option<f64> {
    let mut words = said.split_once(before)?.1.split_whitespace();
    let number: f64 = words.next()?.parse().ok()?;
    let unit = words.next()?.trim_end_matches(',');
    match unit {
        "us" => Some(number),
        "ms" => Some(number * 1e3),
        _ => None,
    }
}

/// Times of each way in each turn, µs.
type Times = Vec<(Way, Vec<f64>)>;

struct Row {
    name: String,
    what: String,
    times: Times,
}

/// What is measured in a row, by which ways: ours first, to which the others are related.
struct Table {
    ranks: u32,
    ways: Vec<Way>,
    rows: Vec<Row>,
}

/// Two ranks have a memif of their own; more of them have nothing that joins all. Queues of the pollers' port need
/// hugepages in files.
fn ways(ranks: u32, has_openmpi: bool) -> Vec<Way> {
    let mut ways = match ranks {
        2 => vec![
            Way::Dpdk,
            Way::Poller,
            Way::Combined,
            Way::CombinedPort,
            Way::CombinedUdp,
            Way::Udp,
        ],
        _ => vec![Way::Poller, Way::CombinedPort, Way::CombinedUdp, Way::Udp],
    };
    if !has_pages() {
        eprintln!(
            "without {}: it takes hugepages and a mounted hugetlbfs",
            Way::CombinedPort.name()
        );
        ways.retain(|way| *way != Way::CombinedPort);
    }
    if has_openmpi {
        ways.push(Way::OpenMpi);
    }
    ways
}

/// Whether pollers can share their memory.
fn has_pages() -> bool {
    let read = |file| std::fs::read_to_string(file).unwrap_or_default();
    let mounted = read("/proc/mounts").lines().any(|line| line.contains(" hugetlbfs "));
    let free = read("/proc/meminfo");
    let free = free.lines().find_map(|line| line.strip_prefix("HugePages_Free:"));
    mounted
        && free
            .and_then(|pages| pages.trim().parse().ok())
            .is_some_and(|pages: u32| pages >= 100)
}

pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let (mut format, mut turns, mut device, mut latency) = ("text", TURNS, "memif", false);
    let mut ranks = vec![2, 4];
    let mut words = args.iter().map(String::as_str);
    while let Some(word) = words.next() {
        if word == "--latency" {
            latency = true;
            continue;
        }
        let value = words.next().ok_or(USAGE)?;
        match word {
            "--format" if ["text", "json", "markdown"].contains(&value) => format = value,
            "--turns" => turns = value.parse().ok().filter(|turns| *turns > 0).ok_or(USAGE)?,
            "--ranks" if ["2", "4"].contains(&value) => ranks = vec![value.parse().map_err(|_| USAGE)?],
            "--device" => device = value,
            _ => return Err(USAGE.to_owned()),
        }
    }
    if let Some(missing) = shell::missing(&["chrt", "taskset"]) {
        return Err(missing);
    }
    let has_openmpi = build()?;
    let mut tables = Vec::new();
    if latency {
        let mut ways = ways(2, has_openmpi);
        if pollers::share(2) {
            ways.push(Way::UdpAsleep);
        }
        tables.push(latencies(&ways, turns, device)?);
    } else {
        for ranks in ranks {
            tables.push(programs(ranks, ways(ranks, has_openmpi), turns, device)?);
        }
    }
    let name = if latency { "latency" } else { "programs" };
    match format {
        "json" => print!("{}", json(name, &tables, turns)),
        "markdown" => tables.iter().for_each(|table| println!("{}", markdown(table))),
        _ => tables.iter().for_each(|table| println!("{}", text(table, turns))),
    }
    Ok(())
}

/// Builds everything; whether there is Open MPI.
fn build() -> Result<bool, String> {
    let run = |command: &Cmd| {
        eprintln!("{command}");
        command.run()
    };
    run(&Cmd::parse("cargo build --quiet --release -p hikyaku-cli --features dpdk").limit_s(900))?;
    let examples = "cargo build --quiet --release -p hikyaku-mpi --features dpdk,poller --example sor --example halo \
                    --example ft --example osu";
    run(&Cmd::parse(examples).limit_s(900))?;
    if let Some(why) = shell::missing(&["mpicc.openmpi", "mpirun.openmpi"]) {
        eprintln!("without Open MPI: {why}");
        return Ok(false);
    }
    let compile = "mpicc.openmpi -O3 -fcx-limited-range";
    for (source, program) in [("programs", "programs-openmpi"), ("osu", "osu-openmpi")] {
        let compile =
            Cmd::parse(compile).args([&format!("xtask/peers/{source}.c"), "-lm", "-o", &shell::built(program)]);
        run(&compile)?;
    }
    Ok(true)
}

/// Runs a job by all ways in turns; `take` makes a time of each row out of what a way prints.
fn compare(
    ways: &[Way],
    turns: usize,
    job: &Job<'_>,
    rows: usize,
    take: impl Fn(Way, &str) -> Option<Vec<f64>>,
) -> Result<Vec<Times>, String> {
    let mut times: Vec<Times> = vec![ways.iter().map(|way| (*way, Vec::new())).collect(); rows];
    for turn in 0..turns {
        for step in 0..ways.len() {
            let index = (step + turn) % ways.len();
            let said = ways[index].run(job)?;
            let taken = take(ways[index], &said).filter(|taken| taken.len() == rows);
            let taken = taken.ok_or_else(|| format!("{}: no times in: {said}", ways[index].name()))?;
            for (row, time) in times.iter_mut().zip(taken) {
                row[index].1.push(time);
            }
        }
    }
    Ok(times)
}

fn programs(ranks: u32, ways: Vec<Way>, turns: usize, device: &str) -> Result<Table, String> {
    let words =
        |first: &str, words: &[&str]| -> Vec<String> { [first].iter().chain(words).map(ToString::to_string).collect() };
    let mut rows = Vec::new();
    for program in &PROGRAMS {
        let theirs: Vec<&str> = [program.name].iter().chain(program.theirs).copied().collect();
        let job = Job {
            ranks,
            device,
            ours: words(program.name, program.ours),
            theirs: words("programs-openmpi", &theirs),
        };
        let take = |way: Way, said: &str| {
            let micros = match way {
                Way::OpenMpi => said.split_whitespace().nth(1).and_then(|micros| micros.parse().ok()),
                _ => time_after(said, program.before),
            };
            micros.map(|micros| vec![micros])
        };
        for times in compare(&ways, turns, &job, 1, take)? {
            rows.push(Row {
                name: program.name.to_owned(),
                what: program.what.to_owned(),
                times,
            });
        }
    }
    Ok(Table { ranks, ways, rows })
}

/// One-way times by size.
fn latencies(ways: &[Way], turns: usize, device: &str) -> Result<Table, String> {
    let words = |program: &str| -> Vec<String> {
        [program, "latency", "1000"]
            .iter()
            .chain(&SIZES)
            .map(ToString::to_string)
            .collect()
    };
    let job = Job {
        ranks: 2,
        device,
        ours: words("osu"),
        theirs: words("osu-openmpi"),
    };
    let take = |_: Way, said: &str| -> Option<Vec<f64>> {
        let nanos = said
            .lines()
            .map(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
        Some(
            nanos
                .collect::<Option<Vec<f64>>>()?
                .into_iter()
                .map(|nanos| nanos / 1000.0)
                .collect(),
        )
    };
    let times = compare(ways, turns, &job, SIZES.len(), take)?;
    let rows = SIZES.iter().zip(times).map(|(size, times)| Row {
        name: size.to_string(),
        what: "bytes, one way".to_owned(),
        times,
    });
    Ok(Table {
        ranks: 2,
        ways: ways.to_vec(),
        rows: rows.collect(),
    })
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

impl Row {
    /// (way, median in microseconds, median of the ratios of the first way's time to it)
    fn summary(&self) -> Vec<(Way, f64, f64)> {
        let ours = &self.times[0].1;
        let of = |(way, series): &(Way, Vec<f64>)| {
            let ratios = ours.iter().zip(series).map(|(ours, other)| ours / other);
            (*way, median(series.iter().copied()), median(ratios))
        };
        self.times.iter().map(of).collect()
    }

    fn cells(&self) -> Vec<String> {
        let mut cells = vec![self.name.clone(), self.what.clone()];
        for (index, (_, micros, ratio)) in self.summary().into_iter().enumerate() {
            cells.push(match micros < 10.0 {
                true => format!("{micros:.2}"),
                false => format!("{micros:.1}"),
            });
            if index > 0 {
                cells.push(format!("{ratio:.2}"));
            }
        }
        cells
    }
}

fn heading(table: &Table) -> Vec<&'static str> {
    let mut heading = vec!["", "what"];
    for (index, way) in table.ways.iter().enumerate() {
        heading.push(way.name());
        if index > 0 {
            heading.push("ratio");
        }
    }
    heading
}

fn text(table: &Table, turns: usize) -> String {
    let first = table.ways.first().map_or("", |way| way.name());
    let mut text = format!(
        "# {} ranks, microseconds; medians of {turns} turns; ratio: time over {first} / the other's, median of the turns' \
         ratios\n",
        table.ranks
    );
    if pollers::share(table.ranks) {
        text += "# pollers and ranks share CPUs: ranks behind them sleep while they wait\n";
    }
    let _ = writeln!(text, "# {}", heading(table).join(" | "));
    for row in &table.rows {
        let _ = writeln!(text, "  {}", row.cells().join(" | "));
    }
    text
}

fn markdown(table: &Table) -> String {
    let heading = heading(table);
    let mut text = format!(
        "| {} |\n|---|---|{}\n",
        heading.join(" | "),
        "---:|".repeat(heading.len() - 2)
    );
    for row in &table.rows {
        let _ = writeln!(text, "| {} |", row.cells().join(" | "));
    }
    text
}

fn json(name: &str, tables: &[Table], turns: usize) -> String {
    let row = |table: &Table, row: &Row| {
        let fields = row.summary().into_iter().map(|(way, micros, ratio)| {
            let name = way.name();
            format!("{{\"transport\":\"{name}\",\"p50_us\":{micros:.2},\"ratio_of_first\":{ratio:.3}}}")
        });
        let fields: Vec<String> = fields.collect();
        format!(
            "{{\"np\":{},\"program\":\"{}\",\"what\":\"{}\",\"transports\":[{}]}}",
            table.ranks,
            row.name,
            row.what,
            fields.join(",")
        )
    };
    let rows = tables
        .iter()
        .flat_map(|table| table.rows.iter().map(move |one| row(table, one)));
    let rows: Vec<String> = rows.collect();
    format!(
        "{{\"benchmark\":\"{name}\",\"turns\":{turns},\"rows\":[{}]}}\n",
        rows.join(",")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found() {
        let said = "sor: 64 x 64 points: as in one process; 13.9 ms (one process: 2.5 ms)";
        assert_eq!(time_after(said, "as in one process; "), Some(13_900.0));
        let said = "an exchange of 16384 bytes in and out takes 77.1 us, 213 MB/s";
        assert_eq!(time_after(said, "in and out takes "), Some(77.1));
        assert_eq!(time_after(said, "as published; "), None);
    }
}
