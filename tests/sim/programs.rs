//! Programs as simulated ranks.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use hikyaku::{
    mpi::{
        collectives::{Call, Collective},
        datatype::{Datatype, Kind},
        engine::{ANY_SOURCE, Buffers, Communicator, Engine, Mode, Region},
        operation::{Operation, Predefined},
    },
    sim::{self, Fault, Network, Optics, Rank, Simulation, SimulationError, Topology},
};

use super::support::byte;

fn allreduce(comm: &Communicator, own: &[i64]) -> Vec<i64> {
    let mut all = vec![0_i64; own.len()];
    let datatype = Datatype::predefined(Kind::I64);
    let buffers = Buffers {
        input: Region::Plain(own.as_ptr().cast_mut().cast(), &datatype),
        output: Region::Plain(all.as_mut_ptr().cast(), &datatype),
    };
    let call = Call::of(Collective::Allreduce).with_count(own.len());
    let sum = Operation::predefined(Predefined::Sum);
    // SAFETY: both are borrowed until it has ended.
    let request = unsafe { comm.collective("MPI_Allreduce", &call, &buffers, Some(&sum), None) };
    request.unwrap().wait().unwrap();
    all
}

fn receive(comm: &Communicator, source: i32, tag: i32) -> i64 {
    let mut value = 0_i64;
    let datatype = Datatype::predefined(Kind::I64);
    // SAFETY: it is borrowed until it has ended.
    unsafe { comm.receive((&raw mut value).cast(), 1, &datatype, source, tag) }.unwrap();
    value
}

#[test]
fn a_thousand_ranks_meet_and_add() {
    let simulation = Simulation::new(1_024, 7);
    let program = |engine: &Arc<Engine>| {
        let world = Communicator::world(engine);
        world.barrier().unwrap();
        let sum = allreduce(&world, &[world.rank().into(), 1]);
        engine.finalize(Duration::from_secs(1)).unwrap();
        sum
    };
    let outcome = simulation.run(program).unwrap();
    assert_eq!(outcome.results, vec![vec![1_023 * 512, 1_024]; 1_024]);
    assert!(outcome.time < Duration::from_millis(1), "{:?}", outcome.time);
    let again = simulation.run(program).unwrap();
    assert_eq!(again, outcome, "everything follows from the seed");
    let other = Simulation::new(1_024, 8).run(program).unwrap();
    assert_eq!(other.results, outcome.results);
}

#[test]
fn nothing_is_lost_by_loss() {
    let mut simulation = Simulation::new(16, 3);
    simulation.network.loss = 0.05;
    let program = |engine: &Arc<Engine>| {
        let world = Communicator::world(engine);
        let own: Vec<i64> = (0..20_000).map(|i| i + i64::from(world.rank())).collect();
        allreduce(&world, &own)
    };
    let outcome = simulation.run(program).unwrap();
    let expected: Vec<i64> = (0..20_000).map(|i| 16 * i + 120).collect();
    assert!(outcome.results.iter().all(|result| *result == expected));
    assert!(outcome.network.lost > 100, "{:?}", outcome.network);
    assert_eq!(simulation.run(program).unwrap(), outcome);
    simulation.seed = 4;
    assert_ne!(simulation.run(program).unwrap().digest, outcome.digest);
}

#[test]
fn who_waits_for_whom_is_told() {
    let error = Simulation::new(3, 1)
        .run(|engine| {
            let world = Communicator::world(engine);
            if world.rank() != 2 {
                // Both receive first.
                receive(&world, 1 - world.rank(), 7);
            }
        })
        .unwrap_err();
    let SimulationError::Deadlock { ref waiting, .. } = error else {
        panic!("{error}");
    };
    let on: Vec<_> = waiting.iter().map(|one| (one.process, &one.on[..])).collect();
    assert_eq!(on, [(0, &[1][..]), (1, &[0])]);
    let text = error.to_string();
    assert!(
        text.contains("process 0 is in MPI_Recv, rank 1, tag 7") && text.contains("waiting for process 1"),
        "{text}"
    );
}

#[test]
fn a_wildcard_that_nobody_answers_is_a_deadlock() {
    let error = Simulation::new(2, 1)
        .run(|engine| {
            let world = Communicator::world(engine);
            if world.rank() == 0 {
                receive(&world, ANY_SOURCE, 0);
            }
        })
        .unwrap_err();
    let text = format!("{error:?}");
    assert_eq!(text, error.to_string(), "what main prints");
    assert!(
        text.contains(": 1 process waits") && text.contains("MPI_Recv, any rank, tag 0"),
        "{text}"
    );
    let SimulationError::Deadlock { waiting, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(waiting.len(), 1);
    assert_eq!(waiting[0].call.as_ref().map(|entry| entry.call), Some("MPI_Recv"));
}

#[test]
fn computing_takes_time_and_lets_the_others_go_on() {
    let simulation = Simulation::new(2, 1);
    let outcome = simulation
        .run(|engine| {
            let world = Communicator::world(engine);
            if world.rank() == 0 {
                sim::compute(Duration::from_millis(5)).unwrap();
                let data = 42_i64;
                let datatype = Datatype::predefined(Kind::I64);
                // SAFETY: it is borrowed until it has ended.
                unsafe { world.send(Mode::Standard, (&raw const data).cast(), 1, &datatype, 1, 0) }.unwrap();
                0
            } else {
                // A program that asks again and again ends, since each look takes time.
                while world.iprobe(0, 0).unwrap().is_none() {
                    engine.progress().unwrap();
                }
                receive(&world, 0, 0)
            }
        })
        .unwrap();
    assert_eq!(outcome.results, [0, 42]);
    let time = outcome.time;
    assert!(
        time > Duration::from_millis(5) && time < Duration::from_micros(5_020),
        "{time:?}"
    );
}

#[test]
fn the_time_limit_holds() {
    let simulation = Simulation {
        limit: Some(Duration::from_millis(2)),
        ..Simulation::new(2, 1)
    };
    let error = simulation.run(|_| sim::compute(Duration::from_secs(9))).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, SimulationError::TimeLimit { .. }), "{text}");
    assert!(text.contains("process 1 is outside of MPI"), "{text}");
}

#[test]
fn a_panic_is_the_caller_s() {
    let result = catch_unwind(AssertUnwindSafe(|| {
        Simulation::new(4, 1).run(|engine| {
            let world = Communicator::world(engine);
            assert_ne!(world.rank(), 2, "rank two does not like it");
            let mut data = [0_u8; 4];
            // Nobody sends: it is unwound with its request.
            // SAFETY: `data` is there until the request has ended or given up.
            let request = unsafe { world.ireceive(data.as_mut_ptr(), 4, &byte(), 2, 0) }.unwrap();
            world.barrier().unwrap();
            drop(request);
        })
    }));
    let panic = result.unwrap_err();
    let text = panic.downcast_ref::<String>().unwrap();
    assert!(text.contains("rank two does not like it"), "{text}");
    assert!(Rank::current().is_none());
}

#[test]
fn who_is_not_simulated_can_not_wait() {
    let outcome = Simulation::new(2, 1).run(Arc::clone);
    let engines = outcome.unwrap().results;
    assert!(Communicator::world(&engines[0]).barrier().is_err());
}

/// Processors may be busy beyond it, and programs do not go on then.
#[test]
fn the_limit_holds() {
    let talk = |engine: &Arc<Engine>| Communicator::world(engine).barrier().is_ok();
    let late = |simulation: &Simulation, ranks: usize| match simulation.run(talk) {
        Err(SimulationError::TimeLimit { limit, waiting }) => {
            assert_eq!((Some(limit), waiting.len()), (simulation.limit, ranks));
        }
        other => panic!("{other:?}"),
    };
    let mut slow = Simulation::new(2, 1);
    slow.limit = Some(Duration::from_micros(10));
    slow.cpu.receive = 1e9;
    late(&slow, 2);
    let mut paused = Simulation::new(2, 1);
    paused.limit = Some(Duration::from_secs(1));
    let day = Duration::from_secs(86_400);
    paused.faults.plan = vec![(Duration::ZERO, Fault::Pause(1, day))];
    late(&paused, 2);
    // Beyond all that can be counted.
    paused.limit = None;
    paused.faults.plan = vec![(Duration::ZERO, Fault::Pause(1, day)); 300];
    let error = paused.run(talk).unwrap_err();
    assert!(matches!(error, SimulationError::TimeLimit { .. }), "{error}");
}

/// A wire that nobody uses has an empty queue, however long each message takes.
#[test]
fn a_gap_fills_no_queue() {
    for gap in [Duration::from_nanos(1), Duration::from_millis(1)] {
        let mut simulation = Simulation::new(2, 1);
        simulation.network.gap = gap;
        simulation.network.queue = simulation.network.mtu + simulation.network.framing;
        let outcome = simulation.run(|engine| {
            let world = Communicator::world(engine);
            (0..3).for_each(|_| _ = allreduce(&world, &[1; 100]));
        });
        let outcome = outcome.unwrap();
        assert_eq!(outcome.network.overflowed, 0, "{gap:?}");
        assert!(outcome.time > 3 * gap, "{gap:?}: {:?}", outcome.time);
    }
}

#[test]
fn a_trace_that_can_not_be_written_is_an_error() {
    let directory = std::env::temp_dir().join(format!("hikyaku-full-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    std::os::unix::fs::symlink("/dev/full", directory.join("rank-1.jsonl")).unwrap();
    let mut simulation = Simulation::new(2, 1);
    simulation.trace = Some(directory.clone());
    let error = simulation.run(|engine| Communicator::world(engine).barrier().unwrap());
    std::fs::remove_dir_all(&directory).unwrap();
    let Err(SimulationError::File { path, source }) = error else {
        panic!("{error:?}");
    };
    assert!(path.ends_with("rank-1.jsonl"), "{path:?}");
    assert_eq!(source.kind(), std::io::ErrorKind::StorageFull);
}

#[test]
fn parameters_out_of_range_are_named() {
    let refused = |change: &dyn Fn(&mut Simulation)| {
        let mut simulation = Simulation::new(2, 1);
        change(&mut simulation);
        let error = simulation.run(|_| ()).unwrap_err();
        let SimulationError::Range(error) = error else {
            panic!("{error}");
        };
        error.name
    };
    assert_eq!(refused(&|simulation| simulation.processes = 0), "processes");
    assert_eq!(refused(&|simulation| simulation.processes = u32::MAX), "processes");
    assert_eq!(refused(&|simulation| simulation.stack = 0), "stack");
    assert_eq!(refused(&|simulation| simulation.stack = usize::MAX), "stack");
    assert_eq!(refused(&|simulation| simulation.network.mtu = u32::MAX), "mtu");
    assert_eq!(refused(&|simulation| simulation.network.framing = u32::MAX), "framing");
    assert_eq!(refused(&|simulation| simulation.cpu.look = 0.0), "look");
    assert_eq!(refused(&|simulation| simulation.cpu.send = f64::NAN), "send");
    assert_eq!(refused(&|simulation| simulation.network.mtu = 500), "mtu");
    assert_eq!(refused(&|simulation| simulation.network.queue = 100), "queue");
    assert_eq!(refused(&|simulation| simulation.network.bandwidth = 0.0), "bandwidth");
    assert_eq!(refused(&|simulation| simulation.network.loss = 1.5), "loss");
    for bandwidth in [0.0, -1.0, f64::NAN, 1e-300] {
        let slow = Network {
            bandwidth,
            ..Network::ethernet_10()
        };
        assert_eq!(refused(&|simulation| simulation.network = slow), "bandwidth");
    }
    let optics = |simulation: &mut Simulation| {
        simulation.optics = Some(Optics::default());
        simulation.network.per_host = 2;
    };
    assert_eq!(refused(&optics), "per_host");
    let shared = Network {
        rails: 2,
        ..Network::ethernet_10()
    };
    assert_eq!(refused(&|simulation| simulation.network = shared), "rails");
    assert_eq!(refused(&|simulation| simulation.network.per_host = 0), "per_host");
    let small = Topology::HyperCrossbar { sides: [1, 1, 1] };
    assert_eq!(refused(&|simulation| simulation.network.topology = small), "topology");
    let huge = Topology::HyperCrossbar { sides: [u32::MAX; 3] };
    assert_eq!(refused(&|simulation| simulation.network.topology = huge), "topology");
}
