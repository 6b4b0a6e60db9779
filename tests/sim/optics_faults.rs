//! Faults on optical circuits.

use std::{fs, sync::Arc, time::Duration};

use hikyaku::{
    mpi::{
        engine::{Communicator, Engine, Mode},
        error::{Error, ErrorClass},
    },
    sim::{self, Fault, Handling, Impairment, Optics, Rank, Simulation, SimulationError, Unconnected},
};

use super::{
    optics::{SETUP, ports, simulation},
    support::{byte, pattern},
};

const SECOND: Duration = Duration::from_secs(1);

fn send(comm: &Communicator, data: &[u8], to: i32) -> Result<(), Error> {
    // SAFETY: it is borrowed until it has ended.
    unsafe { comm.send(Mode::Standard, data.as_ptr(), data.len() as u64, &byte(), to, 0) }
}

fn receive(comm: &Communicator, room: &mut [u8], from: i32) -> Result<(), Error> {
    // SAFETY: it is borrowed until it has ended.
    unsafe { comm.receive(room.as_mut_ptr(), room.len() as u64, &byte(), from, 0) }.map(drop)
}

/// To the right and from the left, by bytes that say who has sent them.
fn ring(world: &Communicator, ranks: i32) -> Result<(), Error> {
    let (rank, bytes) = (world.rank(), 20_000);
    let data = pattern(bytes, rank as usize);
    // SAFETY: it is there until the request has ended.
    let request = unsafe {
        let to = (rank + 1) % ranks;
        world.isend(Mode::Standard, data.as_ptr(), bytes as u64, &byte(), to, 0)
    };
    let (request, from, mut room) = (request?, (rank + ranks - 1) % ranks, vec![0; bytes]);
    receive(world, &mut room, from)?;
    request.wait()?;
    assert_eq!(room, pattern(bytes, from as usize));
    Ok(())
}

type Program<'a> = &'a dyn Fn(&Communicator) -> Result<(), Error>;

/// `simulation` with silence noticed.
fn watched(processes: u32, optics: Optics) -> Simulation {
    let mut simulation = simulation(processes, optics);
    simulation.faults.watch = true;
    simulation.limit = Some(60 * SECOND);
    simulation
}

/// Packets are spoilt on their paths as on any wire, and what is counted and written down is the same.
#[test]
fn packets_on_light_paths_are_spoilt_and_written_down() {
    let directory = std::env::temp_dir().join(format!("hikyaku-optics-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let file = directory.join("packets.pcapng");
    let program = |engine: &Arc<Engine>| (0..10).all(|_| ring(&Communicator::world(engine), 3).is_ok());
    for unconnected in [Unconnected::Hold(16 << 20), Unconnected::Drop] {
        let mut simulation = simulation(
            3,
            Optics {
                unconnected,
                ..ports(2)
            },
        );
        simulation.config.checksum = true;
        (simulation.config.initial_rto, simulation.config.min_rto) = (2 * SETUP, 2 * SETUP);
        simulation.faults.impairment = Impairment {
            loss: 0.1,
            duplicate: 0.2,
            corrupt: 0.1,
            truncate: 0.1,
            late: 0.3,
            hold: SETUP / 10,
        };
        simulation.capture = Some(file.clone());
        let outcome = simulation.run(program).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(outcome.results, [true; 3]);
        let (faults, optics) = (outcome.faults, outcome.optics);
        assert!(
            faults.lost > 0 && faults.duplicated > 0 && faults.spoilt > 0 && faults.late > 0,
            "{faults:?}"
        );
        let written = fs::read(&file).unwrap();
        let notes = |note: &[u8]| written.windows(note.len()).filter(|window| *window == note).count() as u64;
        assert_eq!(notes(b"lost by chance"), faults.lost);
        assert_eq!(notes(b"lost: no circuit"), optics.dropped);
        assert_eq!(
            simulation.run(program).unwrap(),
            outcome,
            "everything follows from the seed"
        );
    }
    fs::remove_dir_all(&directory).unwrap();
}

/// All want what rank 3 does not do any more; then those who are left go on without it, over the ports that it had.
#[test]
fn who_crashes_is_missed_and_its_paths_are_free() {
    let everybody: [Program<'_>; 3] = [
        &|world| world.barrier(),
        &|world| receive(world, &mut [0; 8], 3),
        &|world| send(world, &[0; 100_000], 3),
    ];
    for (index, program) in everybody.into_iter().enumerate() {
        for (handling, refuse, at) in [Handling::Naive, Handling::Planned, Handling::Unplanned]
            .into_iter()
            .flat_map(|handling| [(handling, false), (handling, true)])
            .flat_map(|(handling, refuse)| [0, 5, 15, 30].map(|at| (handling, refuse, at * SETUP / 10)))
        {
            let mut simulation = watched(4, Optics { handling, ..ports(1) });
            simulation.faults.plan = vec![(at, Fault::Crash { process: 3, refuse })];
            let outcome = simulation.run(|engine| {
                let world = Communicator::world(engine);
                if world.rank() == 3 {
                    sim::compute(60 * SECOND).unwrap();
                }
                let lost = program(&world);
                let told = engine.now();
                ring(&world, 3).unwrap();
                (lost.map_err(|error| error.class()), told)
            });
            let what = format!("program {index}, {handling:?}, refused: {refuse}, after {at:?}");
            let outcome = outcome.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(outcome.results.len(), 3, "{what}");
            for (lost, told) in &outcome.results {
                assert_eq!(*lost, Err(ErrorClass::ProcFailed), "{what}");
                // Opening is given up after 10 s; who refuses is known by the first packet.
                let most = if refuse { 5 * SECOND } else { 25 * SECOND };
                assert!(told.as_nanos() < most.as_nanos() as u64, "{what}: {told:?}");
            }
        }
    }
}

/// What asks for a sign of life, and the answer, set up a path as messages do.
#[test]
fn who_computes_for_long_is_not_taken_for_dead() {
    let mut simulation = watched(3, ports(1));
    simulation.config.death_timeout = SECOND;
    simulation.config.open_timeout = SECOND;
    let outcome = simulation.run(|engine| {
        let world = Communicator::world(engine);
        if world.rank() == 0 {
            sim::compute(20 * SECOND).unwrap();
            return send(&world, &[0; 8], 1).and_then(|()| send(&world, &[0; 8], 2));
        }
        receive(&world, &mut [0; 8], 0)
    });
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
    for result in outcome.results {
        assert!(result.is_ok(), "{result:?}: {:?}", outcome.optics);
    }
}

/// Rank 2 crashes with something unacknowledged on its path to rank 0: rank 1 has that port after one set-up.
#[test]
fn who_has_crashed_does_not_keep_a_path_busy() {
    let mut simulation = watched(
        3,
        Optics {
            handling: Handling::Unplanned,
            ..ports(1)
        },
    );
    simulation.faults.plan = vec![(
        SETUP + Duration::from_micros(1),
        Fault::Crash {
            process: 2,
            refuse: false,
        },
    )];
    let outcome = simulation.run(|engine| {
        let world = Communicator::world(engine);
        match world.rank() {
            0 => receive(&world, &mut [0; 8], 1).map(|()| engine.now()).ok(),
            1 => {
                sim::compute(2 * SETUP).unwrap();
                send(&world, &[0; 8], 0).unwrap();
                None
            }
            _ => {
                send(&world, &[0; 8], 0).unwrap();
                sim::compute(60 * SECOND).unwrap();
                None
            }
        }
    });
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
    let told = outcome.results[0].unwrap().as_nanos();
    assert!(
        told < (7 * SETUP / 2).as_nanos() as u64,
        "{told} ns: {:?}",
        outcome.optics
    );
}

/// Nobody has heard of the first incarnation of rank 2, so the second is no stranger: it plans as the first would have.
#[test]
fn who_starts_again_plans_again() {
    for (refuse, at) in [(false, SETUP / 4), (true, SETUP / 2), (false, SETUP / 100)] {
        let mut simulation = watched(3, ports(1));
        simulation.faults.plan = vec![
            (at, Fault::Crash { process: 2, refuse }),
            (at + SETUP / 8, Fault::Restart(2)),
        ];
        let outcome = simulation.run(|engine| {
            let world = Communicator::world(engine);
            world.barrier().and_then(|()| world.barrier()).is_ok()
        });
        let outcome = outcome.unwrap_or_else(|error| panic!("after {at:?}: {error}"));
        assert_eq!(outcome.results, [true; 3], "after {at:?}");
        assert!(outcome.time < 20 * SETUP, "after {at:?}: {:?}", outcome.time);
    }
}

/// Rank 1 crashes while it releases the paths of a collective: the next incarnation need not wait for that, and its own
/// release takes as long.
#[test]
fn a_release_ends_with_its_process() {
    let mut simulation = watched(
        2,
        Optics {
            release: SECOND,
            ..ports(1)
        },
    );
    let (at, refuse) = (SECOND / 2, true);
    simulation.faults.plan = vec![(at, Fault::Crash { process: 1, refuse }), (at, Fault::Restart(1))];
    let outcome = simulation.run(|engine| {
        let (world, alone) = (Communicator::world(engine), Communicator::own(engine));
        if world.rank() == 0 {
            receive(&world, &mut [0; 8], 1).unwrap();
        } else if Rank::current().unwrap().incarnation() > 0 {
            send(&world, &[0; 8], 0).unwrap();
            alone.barrier().unwrap();
        } else {
            alone.barrier().unwrap();
        }
        Duration::from_nanos(engine.now().as_nanos())
    });
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
    let [heard, released] = outcome.results[..] else {
        panic!()
    };
    assert!(heard < at + 2 * SETUP, "{heard:?}");
    assert!(
        released >= at + SECOND && released < at + SECOND + 2 * SETUP,
        "{released:?}"
    );
}

/// Without any paths for ever, what is still to happen happens before that is a deadlock; and who notices silence is told by
/// that.
#[test]
fn a_deadlock_in_the_dark_waits_for_what_is_planned() {
    let at = 3 * SECOND;
    for (watch, refuse) in [(false, true), (false, false), (true, false)] {
        let mut simulation = watched(3, ports(0));
        simulation.faults.watch = watch;
        simulation.faults.plan = vec![(at, Fault::Crash { process: 2, refuse })];
        let ran = simulation.run(|engine| {
            let class = Communicator::world(engine).barrier().map_err(|error| error.class());
            (class, Duration::from_nanos(engine.now().as_nanos()))
        });
        match ran {
            Ok(outcome) => {
                assert!(watch, "{outcome:?}");
                for (class, told) in outcome.results {
                    assert_eq!(class, Err(ErrorClass::ProcFailed));
                    assert!(told > at, "{told:?}");
                }
            }
            Err(SimulationError::Deadlock { time, waiting, .. }) => {
                assert!(!watch && time >= at && time < at + SECOND, "{time:?}");
                assert_eq!(waiting.len(), 2, "{waiting:?}");
            }
            Err(error) => panic!("{error}"),
        }
    }
}
