//! `bench core`: two endpoints in one thread, no socket: what the protocol itself costs.

use std::net::Ipv4Addr;

use crate::{
    benchmarks::endpoints::Pair,
    failure::Failure,
    harness::setup::check,
    machine::environment::datagram_of,
    options::Common,
    report::{Document, Figure, Group, Line, Progress, Row, Table, emit, median, number, size},
};

/// What `--help` ends with.
pub(crate) const EXAMPLES: &str = "\
Two endpoints in one thread, no socket: what the protocol itself costs. One copy puts a datagram \
together, delivery is in place; with a checksum, and with a second copy, are rows of their own. --mtu (default 1500) \
says how large datagrams are; options that concern sockets do nothing here.";

/// Sizes if none are given.
const SIZES: [usize; 5] = [8, 64, 1024, 8192, 65_536];
/// Octets of an IP packet if nothing is said: there is no interface to ask.
const MTU: u32 = 1500;
/// Messages of a round, if the number is not given.
const MESSAGES: usize = 2000;
/// Octets that a round moves at most, if the number of messages is not given.
const ROUND: usize = 32 << 20;

/// What the core does besides its duty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variant {
    /// Checksum off, the payload placed where it is delivered.
    Plain,
    /// With CRC-32C over every packet.
    Checksum,
    /// The message is copied once more at delivery.
    SecondCopy,
}

impl Variant {
    /// All of them, in the order of the table.
    pub(crate) const ALL: [Self; 3] = [Self::Plain, Self::Checksum, Self::SecondCopy];

    const fn name(self) -> &'static str {
        match self {
            Self::Plain => "hikyaku/core",
            Self::Checksum => "hikyaku/core+checksum",
            Self::SecondCopy => "hikyaku/core+copy",
        }
    }
}

/// One round of one variant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// Messages delivered.
    pub messages: usize,
    /// Packets that carried them.
    pub packets: usize,
    /// Time of all, ns.
    pub nanos: u64,
}

/// Medians over rounds.
struct Result {
    variant: Variant,
    size: usize,
    per_message: Option<f64>,
    per_packet: Option<f64>,
}

/// Measures and prints.
pub(crate) fn run(common: &Common) -> std::result::Result<(), Failure> {
    check(common, Some(2))?;
    let sizes = if common.sizes.is_empty() {
        SIZES.to_vec()
    } else {
        common.sizes.clone()
    };
    let datagram = datagram_of(common.mtu.unwrap_or(MTU) as usize, Ipv4Addr::LOCALHOST.into());
    let rounds = common.rounds.unwrap_or(20) as usize;
    let mut progress = Progress::new(common.output.progress, sizes.len() * rounds * Variant::ALL.len());
    let mut results = Vec::new();
    for &size in &sizes {
        let messages = common
            .iterations
            .map_or_else(|| (ROUND / size).clamp(16, MESSAGES), |messages| messages as usize);
        let mut pairs = Vec::new();
        for variant in Variant::ALL {
            pairs.push(Pair::new(variant, size, datagram)?);
        }
        let mut samples = [const { Vec::new() }; Variant::ALL.len()];
        for round in 0..rounds {
            for step in 0..Variant::ALL.len() {
                let index = (step + round) % Variant::ALL.len();
                progress.step(Variant::ALL[index].name(), size);
                samples[index].push(pairs[index].round(messages)?);
            }
        }
        for (variant, samples) in Variant::ALL.into_iter().zip(samples) {
            let of = |count: fn(&Sample) -> usize| {
                median(
                    &samples
                        .iter()
                        .map(|one| one.nanos as f64 / count(one).max(1) as f64)
                        .collect::<Vec<_>>(),
                )
            };
            let (per_message, per_packet) = (of(|one| one.messages), of(|one| one.packets));
            results.push(Result {
                variant,
                size,
                per_message,
                per_packet,
            });
        }
    }
    drop(progress);
    let document = Document {
        benchmark: "core",
        rows: results.iter().map(Result::row).collect(),
        environment: None,
    };
    emit(
        &common.output,
        &document,
        &[table(&results, rounds, datagram)],
        Some(&figure(&results)),
    )
}

impl Result {
    fn row(&self) -> Row {
        Row {
            transport: self.variant.name().into(),
            size: Some(self.size),
            ns_per_message: self.per_message,
            ns_per_packet: self.per_packet,
            ..Row::default()
        }
    }
}

fn table(results: &[Result], rounds: usize, datagram: usize) -> Table {
    let comments = vec![
        "hikyaku core: two endpoints in one thread, no socket; ns".to_owned(),
        format!(
            "CPU {}, datagrams of up to {datagram} B, up to 16 in flight",
            crate::machine::environment::cpu_model()
        ),
        format!("{rounds} rounds in which the variants take turns, medians; acknowledgements are part of the time"),
    ];
    let mut groups = vec![Group::new("", &["Size"])];
    groups.extend(Variant::ALL.map(|variant| Group::new(variant.name(), &["message", "packet"])));
    let mut table = Table::new(comments, groups);
    for same in results.chunks(Variant::ALL.len()) {
        let mut cells = vec![size::text(same[0].size)];
        cells.extend(
            same.iter()
                .flat_map(|one| [number(one.per_message), number(one.per_packet)]),
        );
        table.row(cells);
    }
    table
}

fn figure(results: &[Result]) -> Figure {
    let line = |variant: Variant| Line {
        name: variant.name().into(),
        points: results
            .iter()
            .filter(|one| one.variant == variant)
            .filter_map(|one| Some((one.size, one.per_message?)))
            .collect(),
    };
    Figure {
        title: "The protocol alone: time per message".into(),
        across: "message, octets".into(),
        up: "ns".into(),
        lines: Variant::ALL.map(line).to_vec(),
    }
}
