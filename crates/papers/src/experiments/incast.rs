//! `sim incast`: many senders, one receiver.

use clap::Args;
use hikyaku::sim::Simulation;
use hikyaku_bench::{
    failure::Failure,
    report::{Figure, Group, Line, Output, Progress, Table, emit, number, size},
};
use mpi::traits::*;
use serde::Serialize;

use crate::{
    options::Common,
    ranks::{Done, run_ranks},
};

/// Options.
#[derive(Clone, Debug, Args)]
pub(crate) struct Incast {
    /// Numbers of senders, one row each [default: powers of four from 1 to 1024]
    #[arg(long, value_delimiter = ',', value_name = "LIST", value_parser = clap::value_parser!(u32).range(1..=65_535))]
    senders: Vec<u32>,
    /// Bytes of each message, at most 1M so that it can go without asking
    #[arg(long, default_value = "64K", value_parser = size::parse, value_name = "N")]
    bytes: usize,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Serialize)]
struct Document {
    experiment: &'static str,
    seed: u64,
    bytes: usize,
    rows: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    senders: u32,
    mode: &'static str,
    mb_per_s: f64,
    p99_us: f64,
    packets: u64,
    overflowed: u64,
    unread: u64,
}

const MODES: [(&str, bool); 2] = [("eager", false), ("grants", true)];

/// Every message is sent at the same time, but for the barrier's skew, and the receiver waits for all of them; a message's
/// time is that until the receiver has it.
fn simulate(simulation: &Simulation, bytes: usize, mode: &'static str) -> Result<Row, Failure> {
    let program = move || -> Done<Vec<f64>> {
        let universe = mpi::initialize()?;
        let world = universe.world();
        // Sessions with rank 0 open, and all begin at about the same time.
        let root = world.process_at_rank(0);
        let mut word = 0_u8;
        root.broadcast_into(&mut word)?;
        world.barrier()?;
        let begun = mpi::time();
        let mut times = Vec::new();
        if world.rank() > 0 {
            root.send(&vec![7_u8; bytes][..])?;
        } else {
            let mut data = vec![vec![0_u8; bytes]; world.size() as usize - 1];
            mpi::request::multiple_scope(data.len(), |scope, receives| {
                for (source, buffer) in (1..).zip(&mut data) {
                    let sender = world.process_at_rank(source);
                    receives.add(sender.immediate_receive_into(scope, &mut buffer[..]));
                }
                while receives.wait_any()?.is_some() {
                    times.push(mpi::time() - begun);
                }
                Ok::<_, mpi::Error>(())
            })?;
            assert!(data.iter().flatten().all(|byte| *byte == 7), "what was sent");
        }
        Ok(times)
    };
    let outcome = run_ranks(simulation, move |_| program())?;
    // In the order in which they came.
    let times = &outcome.results[0];
    let (p99, total) = (times[(times.len() * 99).div_ceil(100) - 1], times[times.len() - 1]);
    Ok(Row {
        senders: simulation.processes - 1,
        mode,
        mb_per_s: times.len() as f64 * bytes as f64 / total / 1e6,
        p99_us: p99 * 1e6,
        packets: outcome.network.sent,
        overflowed: outcome.network.overflowed,
        unread: outcome.network.unread,
    })
}

/// Runs and prints.
pub(crate) fn run(options: &Incast) -> Result<(), Failure> {
    let common = &options.common;
    let network = common.network()?;
    if !(1..=1 << 20).contains(&options.bytes) {
        return Err(Failure::usage("--bytes must be from 1 to 1M"));
    }
    let all: Vec<u32> = if options.senders.is_empty() {
        (0..=5).map(|power| 1 << (2 * power)).collect()
    } else {
        options.senders.clone()
    };
    let mut progress = Progress::new(options.output.progress, all.len() * MODES.len());
    let mut rows = Vec::new();
    for &senders in &all {
        for (mode, asks) in MODES {
            let mut simulation = common.job(senders + 1)?;
            simulation.options.eager_limit = if asks { 0 } else { 1 << 20 };
            rows.push(simulate(&simulation, options.bytes, mode)?);
            progress.step(mode, senders as usize);
        }
    }
    drop(progress);
    let comments = vec![
        format!(
            "hikyaku sim incast: one message of {} from each sender at once",
            size::text(options.bytes)
        ),
        format!(
            "{} Mb/s, MTU {}, queues of {}, seed {}",
            network.bandwidth / 1e6,
            network.mtu,
            size::text(network.queue as usize),
            common.seed
        ),
    ];
    let columns = ["mode", "MB/s", "p99 us", "packets", "overflowed", "unread"];
    let mut table = Table::new(comments, vec![Group::new("", &["senders"]), Group::new("", &columns)]);
    for row in &rows {
        table.row(vec![
            row.senders.to_string(),
            row.mode.into(),
            number(Some(row.mb_per_s)),
            number(Some(row.p99_us)),
            row.packets.to_string(),
            row.overflowed.to_string(),
            row.unread.to_string(),
        ]);
    }
    let line = |mode: &str| {
        Line::new(
            mode,
            rows.iter()
                .filter(|row| row.mode == mode)
                .map(|row| (row.senders as usize, row.p99_us))
                .collect(),
        )
    };
    let figure = Figure {
        title: format!("Incast of {} messages", size::text(options.bytes)),
        notes: vec![common.note()],
        across: "senders".into(),
        has_table: false,
        up: "99th percentile of the time, µs".into(),
        lines: MODES.iter().map(|(mode, _)| line(mode)).collect(),
    };
    let document = Document {
        experiment: "incast",
        seed: common.seed,
        bytes: options.bytes,
        rows,
    };
    emit(&options.output, &document, &[table], Some(&figure))
}
