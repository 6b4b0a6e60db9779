//! MPI's operations against other MPIs over kernel TCP: `crates/mpi/examples/osu.rs` and the programs in `xtask/peers` do
//! the same. With `--within-host`: through memory. With `--libraries PART`: programs in C and Python over the C libraries.
//!
//! All are started in turns, so that a ratio is of the same seconds of a shared machine; a row is the median of the
//! turns, a ratio the median of the turns' ratios. A program that fails or takes too long is named and left out; it
//! does not stop the others.

mod libraries;
mod peers;
mod report;
mod within_host;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use self::{
    peers::{Case, Peer},
    report::{Format, Report, Row, Section},
};
use crate::shell::Cmd;

/// A peer that has failed so often is not tried any more, so that one that hangs does not take for ever.
const MAX_FAILED: usize = 3;

const PAIR: Case = Case {
    operation: "latency",
    ranks: 2,
    iterations: 1_000,
    sizes: &[
        8,
        512,
        2 << 10,
        8 << 10,
        16 << 10,
        64 << 10,
        256 << 10,
        1 << 20,
        4 << 20,
    ],
    turns: 20,
    peers: &[Peer::Hikyaku, Peer::OpenMpi, Peer::MpiRs],
    measure: Peer::measure,
    is_through_memory: false,
};

const fn collective(operation: &'static str, ranks: u32, iterations: u32, sizes: &'static [u32]) -> Case {
    Case {
        operation,
        ranks,
        iterations,
        sizes,
        turns: 10,
        peers: &[Peer::Hikyaku, Peer::OpenMpi],
        ..PAIR
    }
}

const CASES: [Case; 10] = [
    PAIR,
    Case {
        operation: "bandwidth",
        iterations: 100,
        // Of 8 bytes, the rate of messages is what is shown.
        sizes: &[8, 64 << 10, 256 << 10, 1 << 20, 4 << 20],
        ..PAIR
    },
    Case {
        peers: &[Peer::Hikyaku, Peer::OpenMpi, Peer::OpenMpiSpinning],
        ..collective("barrier", 8, 300, &[0])
    },
    collective("allreduce", 8, 300, &[8]),
    collective("allreduce", 4, 2_000, &[1 << 20]),
    collective("bcast", 8, 300, &[8]),
    collective("bcast", 4, 2_000, &[1 << 20]),
    collective("alltoall", 8, 300, &[8]),
    collective("alltoall", 4, 300, &[64 << 10]),
    collective("barrier", 2, 1_000, &[0]),
];

struct Options {
    format: Format,
    /// Writes the tables into `docs/measured`.
    docs: bool,
    /// At most so many turns.
    turns: usize,
    /// Only this operation.
    only: Option<String>,
    compared: Compared,
}

/// What is compared.
#[derive(Clone, Copy)]
enum Compared {
    /// MPIs over the network.
    Network,
    /// MPIs through memory.
    WithinHost,
    /// The C libraries.
    Libraries(&'static libraries::Part),
}

impl Options {
    fn parse(args: &[String]) -> Result<Self, String> {
        let usage = "bench-mpi [--format text|json|markdown] [--docs] [--turns N] [--only OPERATION] \
                     [--within-host|--libraries pair|types|collectives|network|python|life]";
        let mut options = Self {
            format: Format::Text,
            docs: false,
            turns: usize::MAX,
            only: None,
            compared: Compared::Network,
        };
        let mut words = args.iter().map(String::as_str);
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value; {usage}"));
            match word {
                "--format" => options.format = Format::parse(value()?).ok_or(usage)?,
                "--docs" => options.docs = true,
                "--within-host" => options.compared = Compared::WithinHost,
                "--libraries" => {
                    options.compared = Compared::Libraries(libraries::part(value()?).ok_or(usage)?);
                }
                "--turns" => options.turns = value()?.parse().map_err(|_| usage)?,
                "--only" => options.only = Some(value()?.to_owned()),
                _ => return Err(usage.to_owned()),
            }
        }
        if options.docs {
            options.format = Format::Markdown;
        }
        Ok(options)
    }

    fn wants(&self, operation: &str) -> bool {
        self.only.as_deref().is_none_or(|only| only == operation)
    }
}

pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let options = Options::parse(args)?;
    let (peers, cases, section) = match options.compared {
        Compared::Network => (peers::build()?, &CASES[..], Section::NETWORK),
        Compared::WithinHost => (within_host::build()?, &within_host::CASES[..], Section::WITHIN_HOST),
        Compared::Libraries(part) => (libraries::build()?, part.cases, part.section),
    };
    let mut available: Vec<(Peer, usize)> = peers.into_iter().map(|peer| (peer, 0)).collect();
    let mut rows = Vec::new();
    for case in cases.iter().filter(|case| options.wants(case.operation)) {
        let begun = Instant::now();
        rows.extend(compare(case, options.turns, &mut available));
        let seconds = begun.elapsed().as_secs();
        eprintln!("{}, {} ranks: {seconds} s", case.operation, case.ranks);
    }
    let levels = if let Compared::Network = options.compared {
        &LEVELS[..]
    } else {
        &[]
    };
    let levels = levels
        .iter()
        .filter(|line| options.wants(line.split(' ').next().unwrap_or("")));
    let levels = levels
        .map(|line| level(line, &options))
        .collect::<Result<Vec<_>, _>>()?;
    Report { rows, levels }.hand_out(options.format, options.docs, &section)?;
    match available.iter().find(|(peer, failed)| peer.is_ours() && *failed > 0) {
        Some((_, failed)) => Err(format!("hikyaku itself failed in {failed} turns, as said above")),
        None => Ok(()),
    }
}

/// MPI's sends and receives beside the transport's, in one run.
const LEVELS: [&str; 3] = [
    "latency --sizes 8,2048,64K,1M",
    "bandwidth --sizes 64K,1M,4M",
    "rate --sizes 8,64",
];

fn level(line: &str, options: &Options) -> Result<String, String> {
    eprintln!("{line}, transport and mpi");
    let turns = options.turns.min(PAIR.turns).to_string();
    let format = if options.format == Format::Json { "json" } else { "text" };
    let command = Cmd::new(&peers::hikyaku())
        .args(["bench"])
        .args(line.split(' '))
        .args([
            "--level",
            "transport,mpi",
            "--vs",
            "tcp,udp",
            "--rounds",
            &turns,
            "--format",
            format,
        ])
        .limit_s(120);
    let output = command.output().map_err(|error| format!("{command}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{command}: {}", String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// All peers in turns. A turn rotates who begins. `available`: the peers, and how often each has failed.
fn compare(case: &Case, most: usize, available: &mut [(Peer, usize)]) -> Vec<Row> {
    let mut peers: Vec<&mut (Peer, usize)> = available
        .iter_mut()
        .filter(|(peer, _)| case.peers.contains(peer))
        .collect();
    let turns = case.turns.min(most);
    // Of each peer, nanoseconds by size and turn.
    let mut times: Vec<Vec<BTreeMap<u32, f64>>> = vec![Vec::new(); peers.len()];
    let mut cores: Vec<String> = Vec::new();
    for turn in 0..turns {
        let mut seen = vec![cores_now(case)];
        for step in 0..peers.len() {
            let index = (turn + step) % peers.len();
            let (peer, failed) = &mut *peers[index];
            let measured = if *failed < MAX_FAILED && turn < peer.turns() {
                (case.measure)(*peer, case)
            } else {
                Ok(BTreeMap::new())
            };
            times[index].push(measured.unwrap_or_else(|why| {
                eprintln!("failed: {why}");
                *failed += 1;
                BTreeMap::new()
            }));
            seen.push(cores_now(case));
        }
        seen.dedup();
        cores.push(if let [one] = &seen[..] {
            one.clone()
        } else {
            "moved".to_owned()
        });
    }
    let row = |size: u32, of: &str| Row {
        operation: if case.operation == "bandwidth" && size < 1024 {
            "rate"
        } else {
            case.operation
        },
        ranks: case.ranks,
        size,
        cores: of.to_owned(),
        unit: unit(case.operation, size).0,
        figures: peers
            .iter()
            .zip(&times)
            .map(|(peer, turns)| {
                let figure =
                    |turn: &BTreeMap<u32, f64>| turn.get(&size).map(|nanos| unit(case.operation, size).1(size, *nanos));
                let alike = turns.iter().zip(&cores).filter(|(_, cores)| *cores == of);
                (peer.0, alike.map(|(turn, _)| figure(turn)).collect())
            })
            .collect(),
    };
    let kinds: BTreeSet<&str> = cores.iter().map(String::as_str).collect();
    let rows = kinds.iter().flat_map(|of| case.sizes.iter().map(|&size| row(size, of)));
    rows.collect()
}

/// How far the cores are from each other, where that matters: turns count apart by it.
fn cores_now(case: &Case) -> String {
    let found = if case.is_through_memory {
        within_host::cores()
    } else {
        None
    };
    found.unwrap_or_default()
}

type Figure = fn(u32, f64) -> f64;

/// The shown number, from nanoseconds.
fn unit(operation: &str, size: u32) -> (&'static str, Figure) {
    match operation {
        "bandwidth" if size < 1024 => ("msg/s", |_, nanos| 1e9 / nanos),
        "bandwidth" => ("MB/s", |size, nanos| f64::from(size) * 1e3 / nanos),
        "init + finalize" => ("ms", |_, nanos| nanos / 1e6),
        "start + end" => ("s", |_, nanos| nanos / 1e9),
        "stripped size" => ("MB", |_, bytes| bytes / 1e6),
        _ => ("µs", |_, nanos| nanos / 1e3),
    }
}
