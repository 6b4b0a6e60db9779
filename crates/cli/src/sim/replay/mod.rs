//! `sim replay`: a recorded job once more, on another network.

mod play;
mod program;

use std::{path::PathBuf, sync::Arc, time::Duration};

use clap::Args;
use hikyaku::{
    mpi::{
        collectives::{self, Algorithm},
        engine::Engine,
    },
    sim::{Change, Handling, OpticsStats, Simulation},
};
use serde::Serialize;

pub(super) use self::program::{Collective, Lengths, ReplayError, Step, programs};
use super::{Common, optical::change, run_ranks};
use crate::{
    bench::{
        output::emit,
        table::{Group, Table},
    },
    failure::Failure,
    trace::file,
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
    pub(super) common: Common,
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

/// What came out of a replay.
#[derive(Clone, Copy, Debug)]
pub(super) struct Played {
    /// When the last rank was over, s.
    pub(super) seconds: f64,
    pub(super) packets: u64,
    pub(super) octets: u64,
    pub(super) optics: OpticsStats,
}

/// Runs the program of each rank; `compute` scales what they compute.
pub(super) fn replay(programs: &[Vec<Step>], simulation: &Simulation, compute: f64) -> Result<Played, Failure> {
    let play = |engine: &Arc<Engine>| play::play(engine, &programs[engine.process() as usize], compute);
    let outcome = run_ranks(simulation, play)?;
    Ok(Played {
        seconds: outcome.results.iter().copied().max().unwrap_or(0) as f64 * 1e-9,
        packets: outcome.network.sent,
        octets: outcome.network.octets,
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
    octets: u64,
    set_ups: u64,
}

/// Seconds that the busiest rank computes.
pub(super) fn computing(programs: &[Vec<Step>]) -> f64 {
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
    for (collective, algorithm) in &options.algorithm {
        simulation.options.policy.force(*collective, *algorithm);
    }
    if let Some(ports) = options.ports {
        let setup = Duration::from_secs_f64(options.setup * 1e-3);
        super::optical::circuits(&mut simulation, ports, setup, options.circuits.into());
        change::check(&options.change, ranks, "the job")?;
        if let Some(optics) = &mut simulation.optics {
            optics.changes.clone_from(&options.change);
        }
    }
    Ok(simulation)
}

/// Runs and prints.
pub(super) fn run(options: &Replay) -> Result<(), Failure> {
    if !(0.0..=1_000.0).contains(&options.compute) {
        return Err(Failure::usage("--compute must be from 0 to 1000"));
    }
    if !(0.0..=1e4).contains(&options.setup) {
        return Err(Failure::usage("--setup must be from 0 to 10000 ms"));
    }
    let (traces, warnings) = file::read(&options.paths).map_err(|error| Failure::run(error.to_string()))?;
    if let Some(warning) = warnings.first() {
        return Err(Failure::run(format!("{warning}: a replay needs whole traces")));
    }
    let programs = programs(&traces).map_err(|error: ReplayError| Failure::run(error.to_string()))?;
    let played = replay(&programs, &simulation(options, programs.len() as u32)?, options.compute)?;
    let recorded = traces.iter().map(file::Trace::run_time).max().unwrap_or(0);
    let calls = programs
        .iter()
        .flatten()
        .filter(|step| !matches!(step, Step::Compute(_)))
        .count();
    let document = Document {
        experiment: "replay",
        seed: options.common.basics.seed,
        ranks: programs.len(),
        calls,
        compute_s: computing(&programs) * options.compute,
        recorded_s: recorded as f64 * 1e-9,
        simulated_s: played.seconds,
        packets: played.packets,
        octets: played.octets,
        set_ups: played.optics.set_up,
    };
    let columns = [
        "ranks",
        "calls",
        "computing s",
        "recorded s",
        "simulated s",
        "packets",
        "octets",
        "set-ups",
    ];
    let comment = "computing: of the busiest rank; recorded: from MPI's beginning to its end".to_owned();
    let mut table = Table::new(vec![comment], vec![Group::new("", &columns)]);
    table.row(vec![
        document.ranks.to_string(),
        document.calls.to_string(),
        format!("{:.4}", document.compute_s),
        format!("{:.4}", document.recorded_s),
        format!("{:.4}", document.simulated_s),
        document.packets.to_string(),
        document.octets.to_string(),
        document.set_ups.to_string(),
    ]);
    emit(&options.common.basics.output, &document, &[table], None)
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, path::Path, sync::Mutex, time::Duration};

    use hikyaku::{
        mpi::engine::{Entry, Exit, Profiler},
        sim::Rank,
        time::Instant,
    };
    use mpi::{collective::SystemOperation, topology::Color, traits::*};

    use super::*;

    const HEADER: &str = r#"{"trace":"hikyaku","version":1,"rank":0,"size":1,"host":"h","time":0,"unix":0}"#;

    /// Writes what ranks call, as the tracer of each would.
    #[derive(Debug, Default)]
    struct Recorder(Mutex<BTreeMap<u32, Vec<String>>>);

    impl Recorder {
        fn of(&self, rank: u32) -> Vec<String> {
            self.0.lock().unwrap().get(&rank).cloned().unwrap_or_default()
        }
    }

    impl Profiler for Recorder {
        fn leave(&self, begun: Instant, now: Instant, entry: &Entry, exit: &Exit<'_>) {
            let rank = Rank::current().map_or(0, |rank| rank.engine().process());
            let mut call = serde_json::json!({
                "call": entry.call,
                "begin": begun.as_nanos(),
                "end": now.as_nanos(),
                "context": entry.context,
                "peer": entry.peer,
                "tag": entry.tag,
                "count": entry.count,
                "octets": entry.octets,
                "operation": entry.operation,
                "sent": entry.sent,
                "received": entry.received,
                "destinations": entry.destinations,
                "requests": entry.requests,
                "request": exit.request,
            });
            let ended = exit.ended.iter();
            let ended: Vec<_> = ended.map(|(number, s)| (number, s.source, s.tag, s.len)).collect();
            call["ended"] = serde_json::json!(ended);
            if let Some(made) = exit.made {
                let group: Vec<u32> = made.group().processes().collect();
                call["made"] = serde_json::json!({ "context": made.context(), "group": group });
            }
            self.0.lock().unwrap().entry(rank).or_default().push(call.to_string());
        }
    }

    /// A bit of everything, with receives from any source.
    fn program() {
        let universe = mpi::initialize().unwrap();
        let world = universe.world();
        let (rank, size) = (world.rank(), world.size());
        if rank == 0 {
            for _ in 1..size {
                world.any_process().receive_vec::<u64>().unwrap();
            }
        } else {
            hikyaku::sim::compute(Duration::from_micros(7 * (size - rank) as u64)).unwrap();
            world
                .process_at_rank(0)
                .send(&vec![0_u64; 1_000 * rank as usize][..])
                .unwrap();
        }
        let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
        let large = vec![1_u8; 300_000];
        let mut into = vec![0_u8; 300_000];
        mpi::request::scope(|scope| {
            let receive = world
                .process_at_rank(previous)
                .immediate_receive_into_with_tag(scope, &mut into[..], 5);
            let send = world
                .process_at_rank(next)
                .immediate_send_with_tag(scope, &large[..], 5);
            receive.wait().unwrap();
            send.wait().unwrap();
        });
        let half = world.split_by_color(Color::with_value(rank % 2)).unwrap().unwrap();
        let mut sum = 0;
        half.all_reduce_into(&rank, &mut sum, SystemOperation::sum()).unwrap();
        let mut all = vec![0; size as usize];
        world
            .all_to_all_into(&vec![rank; size as usize][..], &mut all[..])
            .unwrap();
        world.barrier().unwrap();
    }

    fn parsed(calls: &[String], rank: u32, size: u32) -> file::Trace {
        let header = HEADER.replace("\"rank\":0,\"size\":1", &format!("\"rank\":{rank},\"size\":{size}"));
        let text = header + "\n" + &calls.join("\n");
        file::parse(Path::new("t"), &text).unwrap().0
    }

    /// What was sent and called, without times, and receives by the message that they got.
    fn messages(trace: &file::Trace) -> Vec<String> {
        let mut messages = Vec::new();
        for step in programs(std::slice::from_ref(trace))
            .map(|mut all| all.remove(0))
            .unwrap_or_default()
        {
            match step {
                Step::Compute(_) | Step::Wait(_) => {}
                Step::Receive { context, from, tag, .. } => messages.push(format!("{context} {from} {tag}")),
                Step::Send {
                    context,
                    to,
                    tag,
                    octets,
                    ..
                } => messages.push(format!("{context} {to} {tag} {octets}")),
                other => messages.push(format!("{other:?}")),
            }
        }
        messages
    }

    fn recorded(ranks: u32, run: impl FnOnce(&Simulation)) -> Vec<file::Trace> {
        let recorder = Arc::new(Recorder::default());
        let mut simulation = Simulation::new(ranks, 1);
        simulation.options.profiler = Some(recorder.clone());
        run(&simulation);
        (0..ranks).map(|rank| parsed(&recorder.of(rank), rank, ranks)).collect()
    }

    #[test]
    fn a_replay_has_the_messages_of_the_run() {
        let first = recorded(5, |simulation| {
            simulation.run(|_| program()).unwrap();
        });
        let steps = programs(&first).unwrap();
        let again = recorded(5, |simulation| {
            replay(&steps, simulation, 1.0).unwrap();
        });
        for (first, again) in first.iter().zip(&again) {
            let alone = |trace: &file::Trace| {
                let mut trace = trace.clone();
                (trace.header.rank, trace.header.size) = (0, 1);
                messages(&trace)
            };
            let (before, after) = (alone(first), alone(again));
            assert!(before.len() > 6, "{before:?}");
            assert_eq!(before, after);
        }
        // Sends of all sizes are among them.
        assert!(
            steps[3]
                .iter()
                .any(|step| matches!(step, Step::Send { octets: 24_000, .. }))
        );
        // It is over on circuits, too, and later.
        let mut simulation = Simulation::new(5, 1);
        let ethernet = replay(&steps, &simulation, 1.0).unwrap();
        crate::sim::optical::circuits(&mut simulation, 2, Duration::from_millis(10), Handling::Planned);
        let optics = replay(&steps, &simulation, 1.0).unwrap();
        assert!(
            optics.seconds > ethernet.seconds + 0.01 && optics.optics.set_up > 5,
            "{ethernet:?} {optics:?}"
        );
    }

    #[test]
    fn what_can_not_be_replayed_is_said_with_its_line() {
        let ok = r#"{"call":"MPI_Barrier","begin":1,"end":2}"#;
        for (line, said) in [
            (
                r#"{"call":"MPI_Put","begin":3,"end":4}"#,
                "t, line 3: MPI_Put can not be replayed",
            ),
            (
                r#"{"call":"MPI_Send","begin":3,"end":4,"tag":1}"#,
                "t, line 3: MPI_Send has no `peer`: a rank was expected",
            ),
            (
                r#"{"call":"MPI_Isend","begin":3,"end":4,"tag":1,"peer":0}"#,
                "t, line 3: MPI_Isend has no `request`",
            ),
            (
                r#"{"call":"MPI_Wait","begin":3,"end":4,"ended":[[7,0,0,0]]}"#,
                "no call before it has begun request 7",
            ),
            (
                r#"{"call":"MPI_Mrecv","begin":3,"end":4,"requests":[7]}"#,
                "no call before it has found message 7",
            ),
            (
                r#"{"call":"MPI_Bcast","begin":3,"end":4,"octets":1}"#,
                "the root's rank was expected",
            ),
            (
                r#"{"call":"MPI_Send","begin":3,"end":4,"error":"MPI_ERR_RANK"}"#,
                "has failed (MPI_ERR_RANK)",
            ),
            (
                r#"{"call":"MPI_Barrier","begin":3,"end":4,"thread":1}"#,
                "of another thread",
            ),
            (
                r#"{"call":"MPI_Intercomm_merge","begin":3,"end":4}"#,
                "t, line 3: MPI_Intercomm_merge can not be replayed",
            ),
        ] {
            let trace = parsed(&[ok.to_owned(), line.to_owned()], 0, 1);
            let error = programs(&[trace]).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        let missing = programs(&[parsed(&[], 1, 3)]).unwrap_err().to_string();
        assert!(missing.contains("rank 0 is not there"), "{missing}");
    }

    #[test]
    fn traces_that_do_not_go_together_end_with_who_waits() {
        let receive = r#"{"call":"MPI_Recv","begin":1,"end":2,"peer":1,"tag":3,"octets":8,"ended":[[0,1,3,8]]}"#;
        let steps = programs(&[parsed(&[receive.to_owned()], 0, 2), parsed(&[], 1, 2)]).unwrap();
        let error = replay(&steps, &Simulation::new(2, 1), 1.0).unwrap_err().to_string();
        assert!(error.contains("deadlock") && error.contains("rank 1, tag 3"), "{error}");
        let unknown = r#"{"call":"MPI_Barrier","begin":1,"end":2,"context":9}"#;
        let steps = programs(&[parsed(&[unknown.to_owned()], 0, 1)]).unwrap();
        let error = replay(&steps, &Simulation::new(1, 1), 1.0).unwrap_err().to_string();
        assert!(error.contains("there is no communicator 9"), "{error}");
    }
}
