//! Programs on circuit-switched optics, as in the optics paper (`docs/papers.md`).

use std::{rc::Rc, sync::Arc, time::Duration};

use hikyaku::{
    mpi::{
        collectives::{Algorithm, Call, Collective},
        datatype::{Datatype, Kind},
        engine::{Buffers, Communicator, Engine, Mode, Region},
        operation::{Operation, Predefined},
    },
    sim::{Available, Change, Cpu, Handling, Network, Optics, Simulation, SimulationError, Topology, Unconnected},
};

use super::support::{byte, pattern};

pub(crate) const SETUP: Duration = Duration::from_millis(10);

pub(crate) fn simulation(processes: u32, optics: Optics) -> Simulation {
    let mut simulation = Simulation {
        network: Network {
            topology: Topology::Direct,
            bandwidth: 1e9,
            delay: Duration::from_micros(1),
            mtu: 9_000,
            queue: 64 << 20,
            ..Network::default()
        },
        optics: Some(optics),
        cpu: Cpu::FREE,
        ..Simulation::new(processes, 1)
    };
    let config = &mut simulation.config;
    (config.initial_rto, config.min_rto, config.max_rto) = (
        Duration::from_millis(500),
        Duration::from_millis(500),
        Duration::from_secs(1),
    );
    config.ack_delay = Duration::from_micros(10);
    simulation
}

pub(crate) fn ports(ports: u32) -> Optics {
    Optics {
        ports,
        ..Optics::default()
    }
}

/// Runs `call` with every rank's own bytes as its input, and gives the outputs.
fn collective(world: &Communicator, call: &Call<'_>, algorithm: Algorithm, bytes: (usize, usize)) -> Vec<u8> {
    let mut input = pattern(bytes.0, world.rank() as usize);
    let mut output = vec![0_u8; bytes.1];
    if call.collective() == Collective::Bcast
        && let Some(root) = call.root()
        && root == world.rank() as usize
    {
        output = pattern(bytes.1, root);
    }
    let datatype = Datatype::predefined(Kind::U8);
    let buffers = Buffers {
        input: Region::Plain(input.as_mut_ptr(), &datatype),
        output: Region::Plain(output.as_mut_ptr(), &datatype),
    };
    let sum = Operation::predefined(Predefined::Sum);
    // SAFETY: both are there until it has ended.
    let request = unsafe { world.collective("MPI_Test", call, &buffers, Some(&sum), Some(algorithm)) };
    request.unwrap().wait().unwrap();
    output
}

/// All calls, with the bytes of input and output.
fn calls(size: usize) -> Vec<(Call<'static>, (usize, usize))> {
    vec![
        (Call::of(Collective::Barrier), (0, 0)),
        (Call::of(Collective::Bcast).with_root(size / 2).with_count(90), (0, 90)),
        (
            Call::of(Collective::Allgather).with_input(40).with_output(40),
            (40, 40 * size),
        ),
        (Call::of(Collective::Alltoall).with_count(40), (40 * size, 40 * size)),
        (Call::of(Collective::Allreduce).with_count(70), (70, 70)),
        (Call::of(Collective::ReduceScatterBlock).with_count(9), (9 * size, 9)),
        (Call::of(Collective::Scan).with_count(5), (5, 5)),
    ]
}

/// Each collective by each algorithm, on any number of ranks and ports: nobody waits for ever, and results are those of a
/// network without paths.
#[test]
fn all_schedules_on_any_number_of_ranks_and_ports() {
    for size in [2_u32, 3, 5, 8, 12] {
        for (call, bytes) in calls(size as usize) {
            let call = Rc::new(call);
            let some = call.collective().algorithms().iter();
            for algorithm in some.filter(|algorithm| call.schedule(0, size as usize, **algorithm).is_ok()) {
                let (ours, algorithm) = (Rc::clone(&call), *algorithm);
                let program =
                    move |engine: &Arc<Engine>| collective(&Communicator::world(engine), &ours, algorithm, bytes);
                let mut plain = simulation(size, ports(1));
                plain.optics = None;
                let expected = plain.run(program.clone()).unwrap().results;
                let mut naive = None;
                for (count, handling) in [
                    (1, Handling::Naive),
                    (1, Handling::Planned),
                    (2, Handling::Planned),
                    (3, Handling::Planned),
                ] {
                    let what = format!("{} by {algorithm}, {size} ranks, {count} ports", call.collective());
                    let optics = Optics {
                        handling,
                        ..ports(count)
                    };
                    let outcome = simulation(size, optics).run(program.clone());
                    let outcome = outcome.unwrap_or_else(|error| panic!("{what}: {error}"));
                    assert_eq!(outcome.results, expected, "{what}");
                    assert_eq!(outcome.optics.displaced, 0, "{what}: a plan that does not go together");
                    let naive = *naive.get_or_insert(outcome.time);
                    assert!(
                        outcome.time <= naive + SETUP / 10,
                        "{what}: {:?} after {naive:?}",
                        outcome.time
                    );
                }
            }
        }
    }
}

/// Messages that no collective has planned: paths come when they are needed, and go when others need them.
#[test]
fn single_messages_set_up_what_they_need() {
    let program = |engine: &Arc<Engine>| {
        let world = Communicator::world(engine);
        for other in (0..world.size()).filter(|other| *other != world.rank()) {
            let data = pattern(5_000, world.rank() as usize);
            // SAFETY: it is borrowed until it has ended.
            unsafe { world.send(Mode::Standard, data.as_ptr(), 5_000, &byte(), other, 0) }.unwrap();
        }
        for other in (0..world.size()).filter(|other| *other != world.rank()) {
            let mut data = vec![0; 5_000];
            // SAFETY: as above.
            unsafe { world.receive(data.as_mut_ptr(), 5_000, &byte(), other, 0) }.unwrap();
            assert_eq!(data, pattern(5_000, other as usize));
        }
    };
    for (count, handling) in [(1, Handling::Planned), (3, Handling::Unplanned), (8, Handling::Naive)] {
        let outcome = simulation(
            6,
            Optics {
                handling,
                ..ports(count)
            },
        )
        .run(program)
        .unwrap();
        assert!(outcome.optics.set_up >= 15, "{:?}", outcome.optics);
        assert!(outcome.optics.held > 0 && outcome.time >= SETUP, "{:?}", outcome.optics);
    }
    // What is not held is sent again.
    let mut lossy = simulation(
        3,
        Optics {
            unconnected: Unconnected::Drop,
            ..ports(2)
        },
    );
    (lossy.config.initial_rto, lossy.config.min_rto) = (Duration::from_millis(15), Duration::from_millis(15));
    let outcome = lossy.run(program).unwrap();
    assert!(
        outcome.optics.dropped > 0 && outcome.optics.held == 0,
        "{:?}",
        outcome.optics
    );
}

/// Rank 0 has more for rank 2 than there is room, and rank 2 reads it when it has heard of rank 1, which needs the same port.
#[test]
fn who_waits_for_room_gives_way() {
    const MESSAGES: usize = 100;
    let mut simulation = simulation(
        3,
        Optics {
            handling: Handling::Unplanned,
            ..ports(1)
        },
    );
    simulation.config.unexpected_bytes = 64 << 10;
    let outcome = simulation.run(|engine| {
        let world = Communicator::world(engine);
        let (mut data, bytes) = (vec![1; 4_000], byte());
        match world.rank() {
            0 => {
                // SAFETY: it is not written to, and there until all have ended below.
                let send = |_| unsafe { world.isend(Mode::Standard, data.as_ptr(), 4_000, &bytes, 2, 0) }.unwrap();
                let requests: Vec<_> = (0..MESSAGES).map(send).collect();
                requests.into_iter().for_each(|request| _ = request.wait().unwrap());
            }
            1 => {
                hikyaku::sim::compute(5 * SETUP).unwrap();
                // SAFETY: it is borrowed until it has ended.
                unsafe { world.send(Mode::Standard, data.as_ptr(), 4_000, &bytes, 2, 0) }.unwrap();
            }
            _ => {
                for source in std::iter::once(1).chain([0; MESSAGES]) {
                    // SAFETY: as above.
                    unsafe { world.receive(data.as_mut_ptr(), 4_000, &bytes, source, 0) }.unwrap();
                }
            }
        }
    });
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
    assert!(outcome.time < 20 * SETUP, "{:?}", outcome.time);
}

/// Rank 0 has sent something to rank 2, which acknowledges it late; rank 1 needs the same port meanwhile.
#[test]
fn who_waits_for_an_acknowledgement_gives_way() {
    const LATE: Duration = Duration::from_millis(100);
    let mut simulation = simulation(
        3,
        Optics {
            handling: Handling::Unplanned,
            setup: SETUP / 10,
            ..ports(1)
        },
    );
    let config = &mut simulation.config;
    (config.ack_delay, config.initial_rto, config.min_rto) = (LATE, 10 * LATE, 10 * LATE);
    config.max_rto = 10 * LATE;
    let outcome = simulation.run(|engine| {
        let world = Communicator::world(engine);
        let (mut data, bytes) = ([1; 8], byte());
        let mut receive = |source| {
            // SAFETY: it is borrowed until it has ended.
            unsafe { world.receive(data.as_mut_ptr(), 8, &bytes, source, 0) }.unwrap();
            engine.now()
        };
        // SAFETY: as above.
        let send = || unsafe { world.send(Mode::Standard, [2; 8].as_ptr(), 8, &bytes, 2, 0) }.unwrap();
        match world.rank() {
            0 => {
                send();
                // The session is open.
                hikyaku::sim::compute(2 * SETUP).unwrap();
                send();
                hikyaku::sim::compute(3 * LATE).unwrap();
                None
            }
            1 => {
                hikyaku::sim::compute(3 * SETUP).unwrap();
                send();
                None
            }
            _ => {
                receive(0);
                Some((receive(0), receive(1)))
            }
        }
    });
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
    let (first, second) = outcome.results[2].unwrap();
    assert!(second - first < LATE / 2, "{first:?} {second:?}");
}

/// Ports and wavelengths come and go while collectives run: all of them end, by all algorithms, with the right results.
#[test]
fn ports_and_wavelengths_may_vanish() {
    let at = |millis: u64, to| Change {
        at: Duration::from_millis(millis),
        to,
    };
    let changes = vec![
        at(4, Available::Ports(Some(0), 1)),
        at(15, Available::Wavelengths(2)),
        at(25, Available::Ports(Some(2), 0)),
        at(180, Available::Ports(None, 1)),
        at(300, Available::Wavelengths(100)),
        at(700, Available::Ports(Some(2), 4)),
    ];
    let all = calls(7).into_iter().map(|(call, bytes)| (Rc::new(call), bytes));
    let algorithms = |call: &Call<'_>| call.collective().algorithms().iter();
    for (call, bytes, algorithm) in all.flat_map(|(call, bytes)| {
        let some = algorithms(&call).filter(|algorithm| call.schedule(0, 7, **algorithm).is_ok());
        let some: Vec<_> = some.map(|algorithm| (Rc::clone(&call), bytes, *algorithm)).collect();
        some
    }) {
        let ours = Rc::clone(&call);
        let program = move |engine: &Arc<Engine>| {
            let world = Communicator::world(engine);
            let results: Vec<_> = (0..6).map(|_| collective(&world, &ours, algorithm, bytes)).collect();
            results
        };
        let mut plain = simulation(7, ports(3));
        plain.optics = None;
        let expected = plain.run(program.clone()).unwrap().results;
        for handling in [Handling::Naive, Handling::Planned, Handling::Unplanned] {
            let optics = Optics {
                handling,
                failure: 0.2,
                changes: changes.clone(),
                ..ports(3)
            };
            let mut simulation = simulation(7, optics);
            simulation.limit = Some(Duration::from_secs(100));
            let what = format!("{} by {algorithm}, {handling:?}", call.collective());
            let outcome = simulation
                .run(program.clone())
                .unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(outcome.results, expected, "{what}");
            let again = simulation.run(program.clone()).unwrap();
            assert_eq!(again, outcome, "{what}: everything follows from the seed");
        }
    }
}

/// What waits for paths that will never be is a deadlock, as soon as nothing else goes on; not while they may come back.
#[test]
fn without_ports_nothing_goes() {
    let at = |millis: u64, to| Change {
        at: Duration::from_millis(millis),
        to,
    };
    let lost = [
        (ports(0), vec![]),
        (ports(2), vec![at(30, Available::Wavelengths(0))]),
        (ports(2), vec![at(30, Available::Ports(None, 0))]),
        (ports(2), vec![at(30, Available::Ports(Some(1), 0))]),
    ];
    for (mut optics, changes) in lost {
        optics.changes = changes.clone();
        let program = |engine: &Arc<Engine>| {
            let world = Communicator::world(engine);
            (0..20).try_for_each(|_| {
                hikyaku::sim::compute(Duration::from_millis(4)).unwrap();
                world.barrier()
            })
        };
        let error = simulation(3, optics.clone()).run(program).unwrap_err();
        let SimulationError::Deadlock {
            time,
            dark: true,
            waiting,
        } = &error
        else {
            panic!("{changes:?}: {error}");
        };
        let calls = waiting.iter().map(|one| one.call.as_ref().map(|call| call.call));
        assert!(calls.eq([Some("MPI_Barrier"); 3]), "{changes:?}: {error}");
        assert!(error.to_string().contains("no light path can be set up"), "{error}");
        assert!(*time < Duration::from_millis(500), "{changes:?}: {error}");
        // Late, but there.
        optics.changes.push(at(2_000, Available::Wavelengths(9)));
        optics.changes.push(at(2_000, Available::Ports(None, 2)));
        let outcome = simulation(3, optics)
            .run(program)
            .unwrap_or_else(|error| panic!("{changes:?}: {error}"));
        assert!(outcome.results.iter().all(Result::is_ok) && outcome.time > Duration::from_secs(2));
        let network = outcome.network;
        assert!(
            network.lost == 0 && network.delivered + network.dark <= network.sent,
            "{network:?}"
        );
    }
    // Nobody needs them any more.
    let mut over = ports(2);
    // (The second one does not come in 584 years, which is what a clock of nanoseconds counts.)
    let never = Duration::from_nanos(u64::MAX) + Duration::from_nanos(1);
    over.changes = vec![at(30, Available::Ports(None, 0))];
    over.changes.push(Change {
        at: never,
        to: Available::Wavelengths(0),
    });
    let outcome = simulation(3, over).run(|engine| {
        Communicator::world(engine).barrier().unwrap();
        hikyaku::sim::compute(Duration::from_millis(100)).unwrap();
    });
    assert!(outcome.is_ok());
    // Who does not wait only for that has the protocol's error.
    let mut none = simulation(2, ports(0));
    none.config.retry_limit = 2;
    (none.config.initial_rto, none.config.min_rto) = (Duration::from_millis(1), Duration::from_millis(1));
    (none.config.open_timeout, none.config.max_rto) = (Duration::from_millis(10), Duration::from_millis(10));
    let outcome = none
        .run(|engine| Communicator::world(engine).barrier().is_err())
        .unwrap();
    assert_eq!(outcome.results, [true, true], "the peer can not be reached");
    let refused = |change: &dyn Fn(&mut Optics)| {
        let mut optics = Optics::default();
        change(&mut optics);
        let SimulationError::Range(error) = simulation(2, optics).run(|_| ()).unwrap_err() else {
            panic!("that is in range");
        };
        error.name
    };
    assert_eq!(refused(&|optics| optics.failure = 1.0), "failure");
    assert_eq!(refused(&|optics| optics.ports = 70_000), "ports");
    assert_eq!(refused(&|optics| optics.setup = Duration::from_secs(60)), "setup");
    let nobody = Change {
        at: Duration::ZERO,
        to: Available::Ports(Some(2), 1),
    };
    assert_eq!(refused(&|optics| optics.changes = vec![nobody]), "changes");
}

/// Where no connection is needed, sessions can be opened when a collective is planned: before anything is sent.
#[test]
fn sessions_open_when_a_collective_is_planned() {
    for ahead in [false, true] {
        let mut simulation = simulation(4, ports(1));
        simulation.optics = None;
        simulation.options.connect_ahead = ahead;
        let outcome = simulation.run(|engine| {
            let world = Communicator::world(engine);
            let buffers = Buffers {
                input: Region::None,
                output: Region::None,
            };
            let linear = Some(Algorithm::Linear);
            // SAFETY: a barrier has no buffers.
            let barrier = unsafe {
                world.collective_init(
                    "MPI_Barrier_init",
                    &Call::of(Collective::Barrier),
                    &buffers,
                    None,
                    linear,
                )
            };
            hikyaku::sim::compute(Duration::from_millis(1)).unwrap();
            barrier.unwrap()
        });
        // Rank 0 and each other one: an opening and its answer, at least.
        assert!((outcome.unwrap().network.delivered >= 6) == ahead);
    }
}
