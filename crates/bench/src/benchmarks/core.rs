//! `bench core`: two endpoints in one thread, no socket: what the protocol itself costs.

use std::net::Ipv4Addr;

use crate::{
    benchmarks::endpoints::{Pair, Sample, Variant},
    failure::Failure,
    harness::setup::check,
    machine::{
        busy::{self, Contention},
        environment::{cpu_model, datagram_of},
        interrupt,
    },
    options::Common,
    report::{Document, Figure, Group, Line, Row, Running, Table, median, number, size},
};

/// The end of `--help`.
pub(crate) const EXAMPLES: &str = "\
Two endpoints in one thread, no socket: what the protocol itself costs. One copy puts a datagram \
together, delivery is in place; with a checksum, and with a second copy, are rows of their own. --mtu (default 1500) \
says how large datagrams are; options that concern sockets do nothing here.";

/// Sizes if none are given.
const SIZES: [usize; 5] = [8, 64, 1024, 8192, 65_536];
/// Bytes of an IP packet if nothing is said: there is no interface to ask.
const MTU: u32 = 1500;
/// Bytes of headers between an IP packet and the datagram in it.
const HEADERS: usize = 28;
/// Messages of a round, if the number is not given.
const MESSAGES: usize = 2000;
/// Bytes that a round moves at most, if the number of messages is not given.
const ROUND: usize = 32 << 20;

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
    let steps = sizes.len() * rounds * Variant::ALL.len();
    let table = table(rounds, datagram);
    let mut running = Running::new(&common.output, steps, table, Document::new("core", None))?;
    let mut contention = Contention::new();
    let mut results = Vec::new();
    let mut outcome = Ok(());
    for &size in &sizes {
        let messages = common
            .iterations
            .map_or_else(|| (ROUND / size).clamp(16, MESSAGES), |messages| messages as usize);
        let mut samples = [const { Vec::new() }; Variant::ALL.len()];
        outcome = measure(
            size,
            datagram,
            (messages, rounds),
            &mut samples,
            &mut running,
            &mut contention,
        );
        let row: Vec<Result> = Variant::ALL
            .into_iter()
            .zip(&samples)
            .map(|(variant, samples)| Result::of(variant, size, samples))
            .collect();
        if samples.iter().any(|samples| !samples.is_empty()) {
            let shown = running.add(cells(&row), row.iter().map(Result::row));
            results.extend(row);
            outcome = outcome.and(shown);
        }
        if outcome.is_err() {
            break;
        }
    }
    running.finish(outcome, contention, Some(&figure(&results, datagram)))
}

/// Measures all variants at one size, in turns.
fn measure(
    size: usize,
    datagram: usize,
    (messages, rounds): (usize, usize),
    samples: &mut [Vec<Sample>],
    running: &mut Running<'_>,
    contention: &mut Contention,
) -> std::result::Result<(), Failure> {
    let mut pairs = Vec::new();
    for variant in Variant::ALL {
        pairs.push(Pair::new(variant, size, datagram)?);
    }
    for round in 0..rounds {
        for step in 0..pairs.len() {
            if interrupt::pressed() {
                return Err(Failure::Interrupted);
            }
            let index = (step + round) % pairs.len();
            running.progress.step(Variant::ALL[index].name(), size);
            let waited = busy::waited();
            let sample = pairs[index].round(messages)?;
            contention.add(busy::waited().saturating_sub(waited), sample.nanos);
            samples[index].push(sample);
        }
    }
    Ok(())
}

impl Result {
    fn of(variant: Variant, size: usize, samples: &[Sample]) -> Self {
        let of = |count: fn(&Sample) -> usize| {
            let each = samples.iter().map(|one| one.nanos as f64 / count(one).max(1) as f64);
            median(&each.collect::<Vec<_>>())
        };
        Self {
            variant,
            size,
            per_message: of(|one| one.messages),
            per_packet: of(|one| one.packets),
        }
    }

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

fn table(rounds: usize, datagram: usize) -> Table {
    let comments = vec![
        "hikyaku core: two endpoints in one thread, no socket; ns".to_owned(),
        place(datagram),
        format!("{rounds} rounds in which the variants take turns, medians; acknowledgements are part of the time"),
    ];
    let mut groups = vec![Group::new("", &["Size"])];
    groups.extend(Variant::ALL.map(|variant| Group::new(variant.name(), &["message", "packet"])));
    Table::new(comments, groups)
}

/// A row of the table: all variants at one size.
fn cells(row: &[Result]) -> Vec<String> {
    let mut cells = vec![size::text(row[0].size)];
    let numbers = |one: &Result| [number(one.per_message), number(one.per_packet)];
    cells.extend(row.iter().flat_map(numbers));
    cells
}

/// Where it was measured, and how.
fn place(datagram: usize) -> String {
    format!(
        "CPU {}, MTU {} (datagrams of up to {datagram} B), up to 16 in flight",
        cpu_model(),
        datagram + HEADERS
    )
}

fn figure(results: &[Result], datagram: usize) -> Figure {
    let line = |variant: Variant| {
        Line::new(
            variant.name(),
            results
                .iter()
                .filter(|one| one.variant == variant)
                .filter_map(|one| Some((one.size, one.per_message?)))
                .collect(),
        )
    };
    Figure {
        title: "The protocol alone: time per message".into(),
        notes: vec![place(datagram)],
        across: "message size, bytes".into(),
        has_table: false,
        up: "time per message, ns".into(),
        lines: Variant::ALL.map(line).to_vec(),
    }
}
