//! Faults, and the errors that report them.

use std::{fs, io::ErrorKind, path::PathBuf, sync::Arc, time::Duration};

use hikyaku::{
    Config, Congestion, Recovery,
    mpi::{
        collectives::{Algorithm, Call, Collective},
        datatype::{Datatype, Kind},
        engine::{ANY_SOURCE, ANY_TAG, Buffers, Communicator, Engine, Mode, Region},
        error::{Error, ErrorClass},
        operation::{Operation, Predefined},
    },
    sim::{self, Fault, Impairment, Polling, Rank, Simulation, SimulationError},
};

use super::support::{byte, pattern};

const MS: Duration = Duration::from_millis(1);

fn send(comm: &Communicator, data: &[u8], to: i32) -> Result<(), Error> {
    // SAFETY: it is borrowed until it has ended.
    unsafe { comm.send(Mode::Standard, data.as_ptr(), data.len() as u64, &byte(), to, 0) }
}

fn receive(comm: &Communicator, room: &mut [u8], from: i32) -> Result<(), Error> {
    // SAFETY: it is borrowed until it has ended.
    unsafe { comm.receive(room.as_mut_ptr(), room.len() as u64, &byte(), from, 0) }.map(drop)
}

/// Rank 0 sends to rank 1, which checks it.
fn one_message(engine: &Arc<Engine>) -> bool {
    let world = Communicator::world(engine);
    if world.rank() == 0 {
        send(&world, &pattern(50_000, 3), 1).unwrap();
        return true;
    }
    let mut room = vec![0; 50_000];
    receive(&world, &mut room, 0).unwrap();
    room == pattern(50_000, 3)
}

/// A program that computes, looks and computes again is never in MPI when a deadline comes: it is kept when it looks.
#[test]
fn who_polls_by_itself_sends_again_when_it_looks() {
    let mut simulation = Simulation::new(2, 1);
    simulation.polling = Polling::Process;
    simulation.faults.plan = vec![(Duration::ZERO, Fault::Cut(0, 1)), (50 * MS, Fault::Join)];
    simulation.limit = Some(Duration::from_secs(2));
    let outcome = simulation.run(|engine| {
        let world = Communicator::world(engine);
        if world.rank() == 1 {
            let mut room = vec![0; 5_000];
            receive(&world, &mut room, 0).unwrap();
            return room == pattern(5_000, 3);
        }
        let data = pattern(5_000, 3);
        // SAFETY: it is there until the request has ended.
        let request = unsafe { world.isend(Mode::Synchronous, data.as_ptr(), 5_000, &byte(), 1, 0) };
        let mut request = request.unwrap();
        while request.test().unwrap().is_none() {
            sim::compute(MS / 10).unwrap();
        }
        true
    });
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(outcome.results, [true, true]);
    assert!(outcome.time < 500 * MS, "{:?}", outcome.time);
}

#[test]
fn troubles_of_all_kinds_are_survived_and_counted() {
    let mut simulation = Simulation::new(2, 4);
    simulation.config.checksum = true;
    simulation.faults.impairment = Impairment {
        loss: 0.1,
        duplicate: 0.1,
        corrupt: 0.1,
        truncate: 0.05,
        late: 0.2,
        hold: MS,
    };
    simulation.faults.plan = vec![
        (MS, Fault::Isolate(vec![1])),
        (3 * MS, Fault::Pause(0, 5 * MS)),
        (20 * MS, Fault::Join),
        (100 * MS, Fault::Impair(Impairment::default())),
    ];
    let outcome = simulation.run(one_message).unwrap();
    assert_eq!(outcome.results, [true, true]);
    let faults = outcome.faults;
    assert!(
        faults.lost > 0 && faults.duplicated > 0 && faults.spoilt > 0 && faults.late > 0 && faults.crashes == 0,
        "{faults:?}"
    );
    assert_eq!(
        simulation.run(one_message).unwrap(),
        outcome,
        "everything follows from the seed"
    );
}

/// A job of three of which the last one crashes after a millisecond; gives what the others have seen.
fn crash(
    refuse: bool,
    program: impl Fn(&Communicator) -> Result<(), Error> + 'static,
) -> (Vec<Result<(), Error>>, Duration) {
    let mut simulation = Simulation::new(3, 1);
    simulation.faults.watch = true;
    simulation.faults.plan = vec![(MS, Fault::Crash { process: 2, refuse })];
    simulation.limit = Some(Duration::from_secs(30));
    let outcome = simulation.run(move |engine| {
        let world = Communicator::world(engine);
        if world.rank() == 2 {
            sim::compute(Duration::from_secs(100)).unwrap();
        }
        program(&world)
    });
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
    (outcome.results, outcome.time)
}

fn class(result: &Result<(), Error>) -> Option<ErrorClass> {
    result.as_ref().err().map(Error::class)
}

type Program<'a> = &'a dyn Fn(&Communicator) -> Result<(), Error>;

#[test]
fn who_crashes_is_missed_by_whatever_the_others_do() {
    let programs: [Program<'_>; 6] = [
        &|world| world.barrier(),
        &|world| receive(world, &mut [0; 8], 2),
        &|world| receive(world, &mut [0; 8], ANY_SOURCE),
        &|world| world.probe(ANY_SOURCE, ANY_TAG).map(drop),
        &|world| world.mprobe(2, ANY_TAG).map(drop),
        &|world| {
            while world.iprobe(ANY_SOURCE, ANY_TAG)?.is_none() {
                sim::compute(MS).unwrap();
            }
            Ok(())
        },
    ];
    for (index, program) in programs.into_iter().enumerate() {
        for refuse in [false, true] {
            let (results, time) = crash(refuse, program);
            assert_eq!(results.len(), 2, "the one that has crashed has no result");
            for result in &results {
                assert_eq!(class(result), Some(ErrorClass::ProcFailed), "program {index}");
            }
            assert!(time < Duration::from_secs(15), "program {index}: {time:?}");
        }
    }
}

/// Whatever ranks are doing when one of them crashes, all hear of it soon if its host says so: also those that have never
/// met it, and would have to wait for long if it might only be late.
#[test]
fn who_refuses_is_missed_at_once_in_a_large_reduction() {
    const COUNT: usize = 30_000;
    // An idle process is asked for a sign of life once a second.
    const BOUND: Duration = Duration::from_millis(1_500);
    let reduce = |world: &Communicator, algorithm| {
        let (float, sum) = (Datatype::predefined(Kind::F64), Operation::predefined(Predefined::Sum));
        // Leaked, since others may still write to it when it has failed.
        let [input, output] = [(); 2].map(|()| Box::leak(vec![1.0_f64; COUNT].into_boxed_slice()));
        let call = Call::of(Collective::Allreduce).with_count(COUNT);
        let buffers = Buffers {
            input: Region::Plain(input.as_mut_ptr().cast(), &float),
            output: Region::Plain(output.as_mut_ptr().cast(), &float),
        };
        // SAFETY: the memory stays for ever.
        let mut request = unsafe { world.collective("MPI_Allreduce", &call, &buffers, Some(&sum), Some(algorithm)) }?;
        request.wait_mut().map(drop)
    };
    let (mut failures, mut successes) = (0, 0);
    let algorithms = Collective::Allreduce.algorithms();
    for (index, algorithm) in (0..).zip(algorithms.iter().flat_map(|algorithm| [*algorithm; 60])) {
        let (processes, step) = (3 + index % 3, index / 3 % 20);
        let mut simulation = Simulation::new(processes, 1);
        let (process, at) = (processes - 1, step * Duration::from_micros(20));
        simulation.faults.watch = true;
        simulation.faults.plan = vec![(at, Fault::Crash { process, refuse: true })];
        simulation.limit = Some(at + BOUND);
        let outcome = simulation.run(move |engine| {
            let world = Communicator::world(engine);
            sim::compute(Duration::from_micros(100)).unwrap();
            reduce(&world, algorithm)
        });
        let outcome = outcome.unwrap_or_else(|error| panic!("{algorithm:?}, {process} crashes after {at:?}: {error}"));
        for result in &outcome.results {
            match class(result) {
                None => successes += 1,
                class => {
                    assert_eq!(
                        class,
                        Some(ErrorClass::ProcFailed),
                        "{algorithm:?}, a crash after {at:?}"
                    );
                    failures += 1;
                }
            }
        }
    }
    assert!(failures > 0 && successes > 0, "{failures} {successes}");
}

/// A rank that waits for any source learns of a failure once; then it can receive from the others.
#[test]
fn the_others_go_on() {
    let (results, _) = crash(true, |world| {
        let mut room = [0; 8];
        let lost = receive(world, &mut room, ANY_SOURCE);
        assert_eq!(class(&lost), Some(ErrorClass::ProcFailed));
        send(world, &[world.rank() as u8; 8], 1 - world.rank())?;
        receive(world, &mut room, ANY_SOURCE)?;
        assert_eq!(room, [1 - world.rank() as u8; 8]);
        Ok(())
    });
    assert_eq!(results, [Ok(()), Ok(())]);
}

#[test]
fn who_starts_again_is_a_stranger_and_is_told() {
    let mut simulation = Simulation::new(2, 1);
    simulation.faults.watch = true;
    let crash = Fault::Crash {
        process: 1,
        refuse: false,
    };
    simulation.faults.plan = vec![(MS, crash), (20 * MS, Fault::Restart(1))];
    simulation.limit = Some(Duration::from_secs(30));
    let outcome = simulation
        .run(|engine| {
            let world = Communicator::world(engine);
            let incarnation = Rank::current().unwrap().incarnation();
            let mut room = [0; 8];
            let result = if world.rank() == 0 {
                send(&world, &[7; 8], 1).and_then(|()| receive(&world, &mut room, 1))
            } else {
                let came = receive(&world, &mut room, 0);
                sim::compute(5 * MS).unwrap();
                came.and_then(|()| send(&world, &[incarnation as u8; 8], 0))
            };
            (incarnation, class(&result))
        })
        .unwrap();
    let failed = Some(ErrorClass::ProcFailed);
    assert_eq!(outcome.results, [(0, failed), (1, failed)]);
}

/// A collective that fails for the sake of one process, while its memory is still lent for others, ends when that is given
/// back. (Each rank places bytes at all others at once, one message at a time, on a slow network with short queues.)
#[test]
fn a_failed_collective_ends_when_its_memory_is_back() {
    const COUNT: usize = 417 * 8;
    let mut simulation = Simulation::new(4, 1);
    simulation.network.bandwidth = 100e6;
    simulation.network.queue = 20_000;
    simulation.config = Config {
        recovery: Recovery::GoBackN,
        congestion: Congestion::Fixed,
        window_bytes: 38_844,
        send_queue_messages: 1,
        ..simulation.config
    };
    simulation.options.eager_limit = 100;
    simulation.faults.watch = true;
    simulation.limit = Some(Duration::from_secs(60));
    let mut failures = 0;
    for step in 0..40 {
        let at = step * Duration::from_micros(25);
        simulation.faults.plan = vec![(
            at,
            Fault::Crash {
                process: 3,
                refuse: false,
            },
        )];
        let outcome = simulation.run(|engine| {
            let world = Communicator::world(engine);
            // Leaked, since others may still write to it when it has failed.
            let [input, output] = [(); 2].map(|()| Box::leak(vec![0_u8; 4 * COUNT].into_boxed_slice()));
            let call = Call::of(Collective::Alltoall).with_count(COUNT);
            let byte = byte();
            let buffers = Buffers {
                input: Region::Plain(input.as_mut_ptr().cast(), &byte),
                output: Region::Plain(output.as_mut_ptr().cast(), &byte),
            };
            let algorithm = Some(Algorithm::Bruck { radix: 8 });
            // SAFETY: the memory stays for ever.
            let mut request = unsafe { world.collective("MPI_Alltoall", &call, &buffers, None, algorithm) }?;
            request.wait_mut().map(drop)
        });
        let outcome = outcome.unwrap_or_else(|error| panic!("a crash after {at:?}: {error}"));
        for class in outcome.results.iter().filter_map(class) {
            assert_eq!(class, ErrorClass::ProcFailed, "a crash after {at:?}");
            failures += 1;
        }
    }
    assert!(failures > 0, "it is over before anybody crashes");
}

/// What a new incarnation says, in the packet that also ends the old one's session, is not taken for the old one's. (The
/// answer to the challenge is lost, so that the message comes with the next one.)
#[test]
fn who_starts_again_does_not_answer_for_who_was_lost() {
    let mut simulation = Simulation::new(2, 1);
    simulation.network.delay = MS;
    simulation.faults.watch = true;
    let crash = Fault::Crash {
        process: 1,
        refuse: false,
    };
    simulation.faults.plan = vec![
        (10 * MS, crash),
        (20 * MS, Fault::Restart(1)),
        (21 * MS, Fault::Cut(1, 0)),
        (25 * MS, Fault::Join),
    ];
    simulation.limit = Some(Duration::from_secs(30));
    let outcome = simulation
        .run(|engine| {
            let world = Communicator::world(engine);
            let incarnation = Rank::current().unwrap().incarnation();
            let mut room = [0; 8];
            if incarnation == 1 {
                // It may hear of it while it says this, or later: that is another test.
                let _ = send(&world, &[9; 8], 0);
                return (None, room);
            }
            if world.rank() == 1 {
                receive(&world, &mut room, 0).unwrap();
                sim::compute(Duration::from_secs(100)).unwrap();
            }
            send(&world, &[7; 8], 1).unwrap();
            let result = receive(&world, &mut room, 1);
            (class(&result), room)
        })
        .unwrap();
    assert!(outcome.faults.cut > 0);
    assert_eq!(outcome.results[0], (Some(ErrorClass::ProcFailed), [0; 8]));
}

/// Over 100 Mb/s its bytes are still on their way when its sender crashes: nothing is sent to it any more, so it must be
/// watched.
#[test]
fn the_receive_of_a_matched_message_ends_with_its_sender() {
    const LEN: usize = 2_000_000;
    let mut simulation = Simulation::new(2, 1);
    simulation.network.bandwidth = 100e6;
    simulation.faults.watch = true;
    let crash = Fault::Crash {
        process: 1,
        refuse: false,
    };
    simulation.faults.plan = vec![(5 * MS, crash)];
    simulation.limit = Some(Duration::from_secs(30));
    let outcome = simulation
        .run(|engine| {
            let world = Communicator::world(engine);
            let mut bytes = vec![0; LEN];
            if world.rank() == 1 {
                return send(&world, &bytes, 0);
            }
            sim::compute(2 * MS).unwrap();
            let message = world.improbe(1, 0)?.expect("it has come while this side was computing");
            // SAFETY: it is borrowed until it has ended.
            let receive = unsafe { Communicator::imreceive(message, bytes.as_mut_ptr(), LEN as u64, &byte()) };
            receive?.wait().map(drop)
        })
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(class(&outcome.results[0]), Some(ErrorClass::ProcFailed));
}

/// Rank 2 misses rank 0 and tells the others; rank 1, which has heard of it, leaves; rank 3 hears of rank 1 first.
#[test]
fn the_first_that_has_left_is_named_where_the_next_one_is_missed_first() {
    let mut simulation = Simulation::new(4, 1);
    simulation.faults.plan = vec![
        (5 * MS, Fault::Cut(0, 1)),
        (5 * MS, Fault::Cut(2, 3)),
        (60 * MS, Fault::Join),
    ];
    let outcome = simulation
        .run(|engine| {
            let world = Communicator::world(engine);
            let mut values = [1_i64, 0];
            let datatype = Datatype::predefined(Kind::I64);
            let [input, output] = values
                .each_mut()
                .map(|value| Region::Plain((value as *mut i64).cast(), &datatype));
            let buffers = Buffers { input, output };
            let call = Call::of(Collective::Allreduce).with_count(1);
            let (sum, algorithm) = (Operation::predefined(Predefined::Sum), Algorithm::RecursiveDoubling);
            world.barrier().unwrap();
            if world.rank() == 0 {
                sim::compute(10 * MS).unwrap();
                world.finalize(MS).unwrap();
                return None;
            }
            // SAFETY: the values are not used otherwise before the request has ended.
            let sums = unsafe { world.collective("MPI_Allreduce", &call, &buffers, Some(&sum), Some(algorithm)) };
            let error = sums.unwrap().wait().unwrap_err();
            world.finalize(MS).unwrap();
            Some((error.class(), error.peer()))
        })
        .unwrap_or_else(|error| panic!("{error}"));
    let missed = Some((ErrorClass::ProcFailed, Some(0)));
    assert_eq!(outcome.results, [None, missed, missed, missed]);
}

/// Many meet in a queue for one packet, and would again after each time-out if all of these were the same.
#[test]
fn who_is_crowded_out_is_not_taken_for_dead() {
    let mut simulation = Simulation::new(300, 1);
    simulation.network.queue = 1_600;
    let outcome = simulation
        .run(|engine| {
            let world = Communicator::world(engine);
            let mut room = [0; 1_200];
            if world.rank() > 0 {
                return send(&world, &room, 0);
            }
            (1..world.size()).try_for_each(|from| receive(&world, &mut room, from))
        })
        .unwrap_or_else(|error| panic!("{error}"));
    let lost = outcome.results.iter().filter(|result| result.is_err()).count();
    assert_eq!(lost, 0);
}

#[test]
fn packets_and_calls_are_written_down() {
    let directory = std::env::temp_dir().join(format!("hikyaku-faults-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let mut simulation = Simulation::new(2, 1);
    simulation.capture = Some(directory.join("packets.pcapng"));
    simulation.trace = Some(directory.join("trace"));
    let outcome = simulation.run(one_message).unwrap();
    let packets = fs::metadata(directory.join("packets.pcapng")).unwrap().len();
    assert!(packets > outcome.network.bytes, "{packets}");
    let trace = fs::read_to_string(directory.join("trace/rank-1.jsonl")).unwrap();
    assert!(
        trace.contains("\"host\":\"simulated\"") && trace.contains("MPI_Recv"),
        "{trace}"
    );
    fs::remove_dir_all(&directory).unwrap();
    simulation.capture = Some(directory.join("nowhere/packets.pcapng"));
    let error = simulation.run(one_message).unwrap_err();
    assert!(matches!(error, SimulationError::File { .. }), "{error}");
}

/// A capture that ends early is no silent one: whether the disk is full on the way or when the last packets are written.
#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_told() {
    for messages in [1, 20] {
        let mut simulation = Simulation::new(2, 1);
        let program = move |engine: &Arc<Engine>| (0..messages).all(|_| one_message(engine));
        assert_eq!(simulation.run(program).unwrap().results, [true, true]);
        simulation.capture = Some("/dev/full".into());
        match simulation.run(program) {
            Err(SimulationError::File { path, source }) => {
                assert_eq!(path, PathBuf::from("/dev/full"));
                assert_eq!(source.kind(), ErrorKind::StorageFull);
            }
            other => panic!("{messages} messages: {other:?}"),
        }
    }
}

/// The report of a deadlock says which rank waits for which.
#[test]
#[cfg(target_os = "linux")]
fn a_deadlock_goes_before_a_full_disk() {
    let mut simulation = Simulation::new(2, 1);
    simulation.capture = Some("/dev/full".into());
    let error = simulation.run(|engine| {
        one_message(engine);
        receive(&Communicator::world(engine), &mut [0; 8], ANY_SOURCE).is_ok()
    });
    assert!(matches!(error, Err(SimulationError::Deadlock { .. })), "{error:?}");
}

#[test]
fn faults_out_of_range_are_named() {
    let refused = |change: &dyn Fn(&mut Simulation)| {
        let mut simulation = Simulation::new(2, 1);
        change(&mut simulation);
        match simulation.run(|_| ()) {
            Err(SimulationError::Range(error)) => error.name,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(refused(&|simulation| simulation.faults.impairment.loss = 2.0), "loss");
    assert_eq!(
        refused(&|simulation| simulation.faults.plan = vec![(MS, Fault::Restart(2))]),
        "plan"
    );
    assert_eq!(
        refused(&|simulation| simulation.faults.plan = vec![(MS, Fault::Pause(1, Duration::MAX))]),
        "plan"
    );
    assert_eq!(refused(&|simulation| simulation.faults.watch = true), "limit");
}

/// Programs may compute for as long as they like; the simulation does not go on for so long.
#[test]
fn time_has_an_end() {
    for time in [Duration::from_secs(1 << 24), Duration::MAX] {
        let error = Simulation::new(2, 1).run(move |engine| {
            if engine.process() == 0 {
                sim::compute(time).unwrap();
            }
            one_message(engine)
        });
        assert!(matches!(error, Err(SimulationError::TimeLimit { .. })), "{error:?}");
    }
}
