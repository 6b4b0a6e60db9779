//! `sim scale`: barrier, allreduce and alltoall of ever more ranks.

use clap::Args;
use hikyaku::{
    mpi::collectives::{Algorithm, Collective, Model, Policy, cost},
    sim::Simulation,
};
use hikyaku_bench::machine::{allocation, clock};
use hikyaku_bench::{
    failure::Failure,
    report::{Figure, Group, Line, Output, Progress, Table, emit, number},
};
use mpi::{collective::SystemOperation, traits::*};
use serde::Serialize;

use crate::{
    options::{Common, Hosts},
    ranks::{Done, run_ranks},
};

/// Options.
#[derive(Clone, Debug, Args)]
pub(crate) struct Scale {
    /// Numbers of ranks, one row each [default: powers of two from 2 to 16384]
    #[arg(long, value_delimiter = ',', value_name = "LIST", value_parser = clap::value_parser!(u32).range(2..=65_536))]
    ranks: Vec<u32>,
    /// Most ranks of an alltoall, by Bruck's algorithm beyond --pairwise; its memory grows with their square
    #[arg(long, default_value_t = 16_384, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=16_384))]
    alltoall: u32,
    /// Most ranks of one that is pairwise; time and memory grow with their square (1024: 3 GB; 2048: minutes)
    #[arg(long, default_value_t = 256, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=2_048))]
    pairwise: u32,
    #[command(flatten)]
    hosts: Hosts,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Serialize)]
struct Document {
    experiment: &'static str,
    seed: u64,
    per_host: u32,
    alpha_us: f64,
    rows: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    ranks: u32,
    barrier_us: f64,
    barrier_model_us: f64,
    allreduce_us: f64,
    allreduce_model_us: f64,
    alltoall_us: Option<f64>,
    alltoall_model_us: Option<f64>,
    real_s: f64,
    packets: u64,
    packets_per_s: f64,
    idle_bytes_per_rank: f64,
    used_bytes_per_rank: f64,
}

/// The measurements of a rank: when each operation began and ended, s; and of rank 0, bytes in use then.
type Seen = ([(f64, f64); 3], [isize; 2]);

/// Barriers before those: sessions open in the first one.
const FIRST: u32 = 1;
/// The same where ranks share hosts: collectives go in two levels from then on.
const FIRST_ON_HOSTS: u32 = 4;
/// Barriers in a row that are measured.
const BARRIERS: u32 = 4;

fn program(first: u32, alltoall: bool) -> Done<Seen> {
    let idle = allocation::in_use();
    let universe = mpi::initialize()?;
    let world = universe.world();
    let timed = |operation: &mut dyn FnMut() -> Result<(), mpi::Error>| {
        let begun = mpi::time();
        operation().map(|()| (begun, mpi::time()))
    };
    let meet = || world.barrier();
    (0..first).try_for_each(|_| meet())?;
    let barrier = timed(&mut || (0..BARRIERS).try_for_each(|_| meet()))?;
    let (own, mut sum) = (u64::from(world.rank() == 0), 0_u64);
    world.all_reduce_into(&own, &mut sum, SystemOperation::sum())?;
    let allreduce = timed(&mut || world.all_reduce_into(&own, &mut sum, SystemOperation::sum()))?;
    assert_eq!(sum, 1, "the sum of one and zeros");
    let used = allocation::in_use();
    let mut exchange = (0.0, 0.0);
    if alltoall {
        let own = vec![world.rank() as u8; world.size() as usize];
        let mut all = vec![0_u8; own.len()];
        meet()?;
        exchange = timed(&mut || world.all_to_all_into(&own[..], &mut all[..]))?;
        assert!(
            all.iter().enumerate().all(|(rank, byte)| *byte == rank as u8),
            "what each has sent"
        );
    }
    Ok(([barrier, allreduce, exchange], [idle, used]))
}

/// From the first beginning to the last end, µs.
fn duration(results: &[Seen], operation: usize) -> f64 {
    let times = || results.iter().map(|(times, _)| times[operation]);
    let begun = times().map(|(begun, _)| begun).fold(f64::INFINITY, f64::min);
    (times().map(|(_, ended)| ended).fold(0.0, f64::max) - begun) * 1e6
}

struct Ran {
    results: Vec<Seen>,
    row: Row,
}

fn simulate(ranks: u32, simulation: &Simulation, policy: &Policy, alltoall: bool) -> Result<Ran, Failure> {
    let begun = clock::now();
    let first = if simulation.shared_memory {
        FIRST_ON_HOSTS
    } else {
        FIRST
    };
    let (outcome, _) = allocation::heap_of(|| run_ranks(simulation, move |_| program(first, alltoall)));
    let outcome = outcome?;
    let real_s = (clock::now() - begun) as f64 * 1e-9;
    let packets = outcome.network.sent;
    let model = |collective, bytes| {
        let algorithm = policy.choose(collective, ranks as usize, bytes, true);
        cost(collective, algorithm, ranks as usize, bytes, &policy.model) * 1e6
    };
    let [idle, used] = outcome.results[0].1.map(|bytes| bytes as f64 / f64::from(ranks));
    let row = Row {
        ranks,
        barrier_us: duration(&outcome.results, 0) / f64::from(BARRIERS),
        barrier_model_us: model(Collective::Barrier, 0),
        allreduce_us: duration(&outcome.results, 1),
        allreduce_model_us: model(Collective::Allreduce, 8),
        alltoall_us: alltoall.then(|| duration(&outcome.results, 2)),
        alltoall_model_us: alltoall.then(|| model(Collective::Alltoall, ranks as usize)),
        real_s,
        packets,
        packets_per_s: packets as f64 / real_s,
        idle_bytes_per_rank: idle,
        used_bytes_per_rank: used,
    };
    Ok(Ran {
        results: outcome.results,
        row,
    })
}

/// Runs and prints.
pub(crate) fn run(options: &Scale) -> Result<(), Failure> {
    let common = &options.common;
    let network = common.network()?;
    let all: Vec<u32> = if options.ranks.is_empty() {
        (1..=14).map(|power| 1 << power).collect()
    } else {
        options.ranks.clone()
    };
    let of = |ranks: u32, policy: &Policy| {
        let mut simulation = common.job(ranks)?;
        simulation.options.policy = policy.clone();
        Ok::<_, Failure>(simulation)
    };
    let per_host = options.hosts.per_host;
    let mut model = Model {
        beta: 8.0 / network.bandwidth,
        gamma: 0.0,
        ..Model::default()
    };
    // One message each way between two ranks, again and again, so that it does not matter which of them has begun first.
    let pair = simulate(2, &of(2, &Policy::new(model))?, &Policy::new(model), false)?;
    model.alpha = duration(&pair.results, 0) / f64::from(BARRIERS) * 1e-6;
    let mut progress = Progress::new(options.output.progress, all.len());
    let mut rows = Vec::new();
    for &ranks in &all {
        let mut policy = Policy::new(model);
        let pairwise = ranks <= options.pairwise;
        let algorithm = if pairwise {
            Algorithm::Pairwise
        } else {
            Algorithm::Bruck { radix: 2 }
        };
        // (One that is forced goes by messages between all ranks.)
        if per_host == 1 {
            policy.force(Collective::Alltoall, algorithm);
        }
        let mut job = of(ranks, &policy)?;
        options.hosts.apply(&mut job);
        rows.push(simulate(ranks, &job, &policy, ranks <= options.alltoall)?.row);
        progress.step("sim scale", ranks as usize);
    }
    drop(progress);
    let mut comments = vec![
        "hikyaku sim scale: times in us, alpha-beta model beside them; heap bytes per rank".to_owned(),
        format!(
            "{} Mb/s, MTU {}, alpha {:.3} us, seed {}",
            network.bandwidth / 1e6,
            network.mtu,
            model.alpha * 1e6,
            common.seed
        ),
    ];
    if per_host > 1 {
        comments.push(format!("{per_host} ranks a host; the model: each on a host of its own"));
    }
    let groups = vec![
        Group::new("", &["ranks"]),
        Group::new("barrier", &["virtual", "model"]),
        Group::new("allreduce 8 B", &["virtual", "model"]),
        Group::new("alltoall 1 B", &["virtual", "model"]),
        Group::new("real", &["s", "packets", "packets/s"]),
        Group::new("bytes/rank", &["idle", "used"]),
    ];
    let mut table = Table::new(comments, groups);
    for row in &rows {
        let text = |value| number(Some(value));
        table.row(vec![
            row.ranks.to_string(),
            text(row.barrier_us),
            text(row.barrier_model_us),
            text(row.allreduce_us),
            text(row.allreduce_model_us),
            number(row.alltoall_us),
            number(row.alltoall_model_us),
            text(row.real_s),
            row.packets.to_string(),
            text(row.packets_per_s),
            text(row.idle_bytes_per_rank),
            text(row.used_bytes_per_rank),
        ]);
    }
    let line = |name: &str, value: fn(&Row) -> f64| {
        Line::new(name, rows.iter().map(|row| (row.ranks as usize, value(row))).collect())
    };
    let figure = Figure {
        title: "Barrier and allreduce of simulated ranks".into(),
        notes: vec![options.common.note()],
        across: "ranks".into(),
        has_table: false,
        up: "time, µs".into(),
        lines: vec![
            line("barrier", |row| row.barrier_us).look(0, 0),
            line("barrier, model", |row| row.barrier_model_us).look(0, 1),
            line("allreduce", |row| row.allreduce_us).look(1, 0),
            line("allreduce, model", |row| row.allreduce_model_us).look(1, 1),
        ],
    };
    let document = Document {
        experiment: "scale",
        seed: common.seed,
        per_host,
        alpha_us: model.alpha * 1e6,
        rows,
    };
    emit(&options.output, &document, &[table], Some(&figure))
}
