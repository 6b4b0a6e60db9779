//! `hikyaku sim replay`: a recorded job once more, on another network.

mod play;
mod program;
#[cfg(test)]
mod tests;

use std::{path::PathBuf, rc::Rc, sync::Arc, time::Duration};

use clap::Args;
use hikyaku::{
    mpi::{
        collectives::{self, Algorithm},
        engine::Engine,
    },
    sim::{Change, Handling, OpticsStats, Simulation},
};
use hikyaku_bench::{
    failure::Failure,
    report::{Format, Group, Output, Table, emit, number},
    traces,
};
use serde::Serialize;

pub(crate) use self::program::{Collective, How, Lengths, ReplayError, Step, programs};
use crate::{
    experiments::optical::{self, change},
    options::{Common, Hosts},
    ranks::run_ranks,
};

/// Options.
#[derive(Clone, Debug, Args)]
pub(crate) struct Replay {
    /// Traces of all ranks of one job, or directories with them
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Computing between calls takes so many times as long as recorded, from 0 to 1000
    #[arg(long, default_value_t = 1.0, value_name = "FACTOR")]
    compute: f64,
    /// The algorithm of a collective, as in alltoall=recursive-doubling; may be given again
    #[arg(long, value_name = "COLLECTIVE=NAME", value_parser = algorithm)]
    algorithm: Vec<(collectives::Collective, Algorithm)>,
    /// Optical circuits instead of switches: so many ports a host
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    ports: Option<u32>,
    /// How collectives open circuits
    #[arg(long, value_enum, default_value = "planned", value_name = "HOW", requires = "ports")]
    circuits: Circuits,
    /// Milliseconds to set up a circuit and tear it down
    #[arg(long, default_value_t = 10.0, value_name = "MS", requires = "ports")]
    setup: f64,
    /// Ports or wavelengths from a time on, as in 5ms:ports=1, 5ms:ports@3=0 (host 3) or
    /// 20ms:wavelengths=40; may be given again
    #[arg(long, value_name = "TIME:WHAT=N", value_parser = change::parse, requires = "ports")]
    change: Vec<Change>,
    #[command(flatten)]
    hosts: Hosts,
    #[command(flatten)]
    common: Common,
    /// How results are printed
    #[arg(long, value_enum, default_value = "text", value_name = "FORMAT")]
    format: Format,
}

/// How collectives open circuits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Circuits {
    /// One for each exchange, when it is due
    Naive,
    /// Ahead, as many as there are ports
    Planned,
    /// When a message is there to be sent
    Unplanned,
}

impl From<Circuits> for Handling {
    fn from(circuits: Circuits) -> Self {
        match circuits {
            Circuits::Naive => Self::Naive,
            Circuits::Planned => Self::Planned,
            Circuits::Unplanned => Self::Unplanned,
        }
    }
}

fn algorithm(text: &str) -> Result<(collectives::Collective, Algorithm), String> {
    let (collective, name) = text.split_once('=').ok_or("COLLECTIVE=NAME was expected")?;
    let all = || {
        collectives::Collective::ALL
            .iter()
            .map(|collective| collective.name())
            .collect::<Vec<_>>()
            .join(", ")
    };
    let found = collectives::Collective::ALL
        .iter()
        .find(|known| known.name() == collective);
    let found = *found.ok_or_else(|| format!("no collective is called {collective}; there are {}", all()))?;
    let algorithm = found.algorithm(name);
    let algorithm = algorithm.ok_or_else(|| format!("{collective} has no algorithm {name}: {}", found.choices()))?;
    Ok((found, algorithm))
}

/// The result of a replay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Played {
    /// When the last rank was over, s.
    pub(crate) seconds: f64,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) optics: OpticsStats,
}

/// The program of each rank.
pub(crate) type Programs = Rc<[Vec<Step>]>;

/// Runs the program of each rank; `compute` scales their computing times.
pub(crate) fn replay(programs: &Programs, simulation: &Simulation, compute: f64) -> Result<Played, Failure> {
    replay_from(programs, simulation, compute, |_, step| format!("step {step}"))
}

/// The same; `place` says where a step of a rank comes from, should it not be possible.
fn replay_from(
    programs: &Programs,
    simulation: &Simulation,
    compute: f64,
    place: impl Fn(usize, usize) -> String + 'static,
) -> Result<Played, Failure> {
    let attached = play::Attached::default();
    let programs = Rc::clone(programs);
    let play = move |engine: &Arc<Engine>| {
        let rank = engine.process() as usize;
        let played = play::play(engine, &programs[rank], compute, &attached);
        played.map_err(|(step, problem)| format!("{}: {problem}", place(rank, step)))
    };
    let outcome = run_ranks(simulation, play)?;
    Ok(Played {
        seconds: outcome.results.iter().copied().max().unwrap_or(0) as f64 * 1e-9,
        packets: outcome.network.sent,
        bytes: outcome.network.bytes,
        optics: outcome.optics,
    })
}

#[derive(Debug, Serialize)]
struct Document {
    experiment: &'static str,
    seed: u64,
    ranks: usize,
    calls: usize,
    compute_s: f64,
    recorded_s: f64,
    simulated_s: f64,
    packets: u64,
    bytes: u64,
    set_ups: u64,
}

/// Seconds that the busiest rank computes.
pub(crate) fn computing(programs: &[Vec<Step>]) -> f64 {
    let of = |steps: &Vec<Step>| -> u64 {
        let nanos = steps.iter().map(|step| match step {
            Step::Compute(nanos) => *nanos,
            _ => 0,
        });
        nanos.sum()
    };
    programs.iter().map(of).max().unwrap_or(0) as f64 * 1e-9
}

fn simulation(options: &Replay, ranks: u32) -> Result<Simulation, Failure> {
    let mut simulation = options.common.job(ranks)?;
    options.hosts.apply(&mut simulation);
    for (collective, algorithm) in &options.algorithm {
        simulation.options.policy.force(*collective, *algorithm);
    }
    if let Some(ports) = options.ports {
        let setup = Duration::from_secs_f64(options.setup * 1e-3);
        optical::circuits(&mut simulation, ports, setup, options.circuits.into());
        change::check(&options.change, ranks, "the job")?;
        if let Some(optics) = &mut simulation.optics {
            optics.changes.clone_from(&options.change);
        }
    }
    Ok(simulation)
}

/// Runs and prints.
pub(crate) fn run(options: &Replay) -> Result<(), Failure> {
    if !(0.0..=1_000.0).contains(&options.compute) {
        return Err(Failure::usage("--compute must be from 0 to 1000"));
    }
    if !(0.0..=1e4).contains(&options.setup) {
        return Err(Failure::usage("--setup must be from 0 to 10000 ms"));
    }
    let (traces, warnings) = traces::read(&options.paths).map_err(|error| Failure::run(error.to_string()))?;
    if let Some(warning) = warnings.first() {
        return Err(Failure::run(format!("{warning}: a replay needs whole traces")));
    }
    let programs = programs(&traces).map_err(|error: ReplayError| Failure::run(error.to_string()))?;
    let (traces, programs) = (Rc::new(traces), Programs::from(programs));
    let ranks = programs.len() as u32;
    let from = Rc::clone(&traces);
    let place = move |rank, step| program::place(&from, rank, step);
    let played = replay_from(&programs, &simulation(options, ranks)?, options.compute, place)?;
    let recorded = traces.iter().map(program::run_time).max().unwrap_or(0);
    let calls = programs
        .iter()
        .flatten()
        .filter(|step| !matches!(step, Step::Compute(_)))
        .count();
    let document = Document {
        experiment: "replay",
        seed: options.common.seed,
        ranks: programs.len(),
        calls,
        compute_s: computing(&programs) * options.compute,
        recorded_s: recorded as f64 * 1e-9,
        simulated_s: played.seconds,
        packets: played.packets,
        bytes: played.bytes,
        set_ups: played.optics.set_up,
    };
    let columns = [
        "ranks",
        "calls",
        "computing ms",
        "recorded ms",
        "simulated ms",
        "packets",
        "bytes",
        "set-ups",
    ];
    let comment =
        "computing: of the busiest rank; recorded, simulated: from MPI's beginning to the last call before its end"
            .to_owned();
    let mut table = Table::new(vec![comment], vec![Group::new("", &columns)]);
    table.row(vec![
        document.ranks.to_string(),
        document.calls.to_string(),
        number(Some(document.compute_s * 1e3)),
        number(Some(document.recorded_s * 1e3)),
        number(Some(document.simulated_s * 1e3)),
        document.packets.to_string(),
        document.bytes.to_string(),
        document.set_ups.to_string(),
    ]);
    let output = Output {
        format: options.format,
        plot: None,
        progress: false,
    };
    emit(&output, &document, &[table], None)
}
