//! A rank ends MPI while the others still need it, or contributes less to a collective than the others: no rank that
//! depends on it gets a result as if all were well.

use std::{
    sync::{Arc, Barrier},
    thread,
    time::Duration,
};

use hikyaku::mpi::{
    collectives::{Algorithm, Call, Collective, Role},
    datatype::{Datatype, Kind},
    engine::{ANY_SOURCE, ANY_TAG, Buffers, Communicator, Mode, Options, Region, Request},
    error::{Error, ErrorClass},
    operation::{Operation, Predefined},
};

use super::support::{THREADS, byte, options, processes};

const LINGER: Duration = Duration::from_secs(5);
/// The root, where there is one.
const ROOT: usize = 0;

const COLLECTIVES: [Collective; 10] = [
    Collective::Barrier,
    Collective::Bcast,
    Collective::Reduce,
    Collective::Allreduce,
    Collective::Gather,
    Collective::Scatter,
    Collective::Allgather,
    Collective::Alltoall,
    Collective::ReduceScatterBlock,
    Collective::Scan,
];

fn call(collective: Collective, count: usize) -> Call<'static> {
    let unit = if collective.output() == Role::Packed { 8 } else { 1 };
    Call::of(collective).with_root(ROOT).with_count(unit * count)
}

/// Element `i` of the input of `rank`.
fn given(rank: usize, i: usize) -> i64 {
    (rank as i64 + 1) * 1_000_003 + i as i64 * 31
}

/// Element `i` of the output that `rank` of `size` must have if all is well; `None`: undefined.
fn expected(collective: Collective, count: usize, (rank, size): (usize, usize), i: usize) -> Option<i64> {
    let (block, place) = (i / count, i % count);
    let sum = |ranks: usize, i| (0..ranks).map(|rank| given(rank, i)).sum();
    Some(match collective {
        Collective::Barrier => return None,
        Collective::Reduce | Collective::Gather if rank != ROOT => return None,
        Collective::Bcast => given(ROOT, i),
        Collective::Reduce | Collective::Allreduce => sum(size, i),
        Collective::Scan => sum(rank + 1, i),
        Collective::Gather | Collective::Allgather => given(block, place),
        Collective::Scatter => given(ROOT, rank * count + i),
        Collective::Alltoall => given(block, rank * count + place),
        _ => sum(size, rank * count + i),
    })
}

/// Whether the output of `rank` depends on the input of `other`.
fn depends(collective: Collective, rank: usize, other: usize) -> bool {
    match collective {
        Collective::Bcast | Collective::Scatter => other == ROOT,
        Collective::Reduce | Collective::Gather => rank == ROOT,
        Collective::Scan => rank > other,
        _ => true,
    }
}

/// Takes part in the collective; its output is right, or it fails.
fn come_together(comm: &Communicator, collective: Collective, algorithm: Algorithm, count: usize) -> Result<(), Error> {
    let (rank, size) = (comm.rank() as usize, comm.size() as usize);
    let (one, all) = (count, count * size);
    let (inputs, outputs) = match collective {
        Collective::Barrier => (0, 0),
        Collective::Gather | Collective::Allgather => (one, all),
        Collective::Scatter | Collective::ReduceScatterBlock => (all, one),
        Collective::Alltoall => (all, all),
        _ => (one, one),
    };
    // Other ranks may still write to it after a failure.
    let input = Box::leak((0..inputs).map(|i| given(rank, i)).collect::<Box<[i64]>>());
    let output = Box::leak(vec![-1_i64; outputs].into_boxed_slice());
    if collective == Collective::Bcast && rank == ROOT {
        output.copy_from_slice(input);
    }
    let (input, output) = (&raw mut *input, &raw mut *output);
    let datatype = Datatype::predefined(Kind::I64);
    let buffers = Buffers {
        input: Region::Plain(input.cast(), &datatype),
        output: Region::Plain(output.cast(), &datatype),
    };
    let sum = Operation::predefined(Predefined::Sum);
    let call = call(collective, count);
    // SAFETY: the buffers are leaked unless it has ended well, and not used otherwise.
    let begun = unsafe { comm.collective("MPI_Collective", &call, &buffers, Some(&sum), Some(algorithm)) };
    begun?.wait()?;
    // SAFETY: it has ended, so nothing else refers to them.
    let (_, output) = unsafe { (Box::from_raw(input), Box::from_raw(output)) };
    for (i, value) in output.iter().enumerate() {
        let expected = expected(collective, count, (rank, size), i);
        assert!(
            expected.is_none_or(|expected| expected == *value),
            "rank {rank} of {size}: element {i} of {collective} by {algorithm} is {value}, not {expected:?}"
        );
    }
    Ok(())
}

/// The deviation of one rank.
#[derive(Clone, Copy, Debug)]
enum Instead {
    /// It ends MPI.
    Leaves,
    /// It takes part with one element less.
    Less,
}

fn check(collective: Collective, algorithm: Algorithm, size: u32, count: usize, odd: usize, instead: Instead) {
    let what = format!("{collective} by {algorithm}, {count} elements, {size} ranks; rank {odd} {instead:?}");
    processes("loopback", size, &options(), move |world| {
        let rank = world.rank() as usize;
        // So that all have sessions.
        let well = come_together(&world, collective, algorithm, 2);
        assert_eq!(well, Ok(()), "rank {rank} before {what}");
        let done = match instead {
            Instead::Leaves if rank == odd => Ok(()),
            Instead::Less if rank == odd => come_together_with_less(&world, collective, algorithm, count - 1),
            _ => come_together(&world, collective, algorithm, count),
        };
        if rank != odd && depends(collective, rank, odd) {
            let error = done.expect_err(&format!("rank {rank} at {what}"));
            match instead {
                Instead::Leaves => {
                    assert_eq!(error.class(), ErrorClass::ProcFailed, "rank {rank} at {what}: {error}");
                    // (Itself, or another rank that has left because of it.)
                    assert!(error.peer().is_some(), "rank {rank} at {what}: {error}");
                }
                Instead::Less => {
                    let known = [ErrorClass::Truncate, ErrorClass::NotSame, ErrorClass::ProcFailed];
                    assert!(known.contains(&error.class()), "rank {rank} at {what}: {error}");
                }
            }
        }
        let ended = world.finalize(LINGER);
        assert_eq!(ended, Ok(()), "the end of rank {rank} at {what}");
    });
}

/// Its receive is shorter than the message, so its output is undefined.
fn come_together_with_less(
    comm: &Communicator,
    collective: Collective,
    algorithm: Algorithm,
    count: usize,
) -> Result<(), Error> {
    let (rank, size) = (comm.rank() as usize, comm.size() as usize);
    let input = Box::leak((0..count * size).map(|i| given(rank, i)).collect::<Box<[i64]>>());
    let output = Box::leak(vec![-1_i64; count * size].into_boxed_slice());
    let datatype = Datatype::predefined(Kind::I64);
    let buffers = Buffers {
        input: Region::Plain(input.as_mut_ptr().cast(), &datatype),
        output: Region::Plain(output.as_mut_ptr().cast(), &datatype),
    };
    let sum = Operation::predefined(Predefined::Sum);
    // SAFETY: both are leaked.
    let begun = unsafe {
        comm.collective(
            "MPI_Collective",
            &call(collective, count),
            &buffers,
            Some(&sum),
            Some(algorithm),
        )
    };
    begun?.wait().map(drop)
}

/// Small operands are sent eagerly, large ones by rendezvous.
fn all_collectives(sizes: &[u32], counts: &[usize], instead: Instead) {
    for collective in COLLECTIVES {
        for &algorithm in collective.algorithms() {
            for &size in sizes {
                if !algorithm.suits(collective, size as usize, true) {
                    continue;
                }
                for (index, &count) in counts.iter().enumerate() {
                    // Large ones take their time.
                    if count > 1_000 && size > 4 {
                        continue;
                    }
                    // Each of them leaves in some of the runs.
                    let odd = (size as usize - 1) * (index + 1) % size as usize;
                    if matches!(instead, Instead::Less) && collective == Collective::Barrier {
                        continue;
                    }
                    check(collective, algorithm, size, count, odd, instead);
                    if index == 0 {
                        check(collective, algorithm, size, count, ROOT, instead);
                    }
                }
            }
        }
    }
}

/// Fewer sizes as threads: the simulated version has all.
fn sizes() -> &'static [u32] {
    if THREADS {
        &[2, 3, 4]
    } else {
        &[2, 3, 4, 5, 6, 7, 8, 13]
    }
}

fn counts() -> &'static [usize] {
    if THREADS { &[3] } else { &[3, 20_000] }
}

#[test]
fn who_needs_a_rank_that_has_left_is_told_so() {
    all_collectives(sizes(), counts(), Instead::Leaves);
}

#[test]
fn an_operand_that_is_too_short_is_an_error() {
    all_collectives(sizes(), counts(), Instead::Less);
}

/// The error names both lengths.
#[test]
fn a_short_operand_is_named_with_both_lengths() {
    processes("loopback", 2, &options(), |world| {
        let rank = world.rank() as usize;
        let (collective, algorithm) = (Collective::Gather, Algorithm::Linear);
        if rank == ROOT {
            let error = come_together(&world, collective, algorithm, 5).unwrap_err();
            let said = error.to_string();
            assert_eq!((error.class(), error.peer()), (ErrorClass::Truncate, Some(1)), "{said}");
            assert!(said.contains("24 bytes were sent, 40 are expected"), "{said}");
        } else {
            come_together(&world, collective, algorithm, 3).unwrap();
        }
        world.finalize(LINGER).unwrap();
    });
}

/// A message that rank `source` never sends, with several ways to wait for it.
#[test]
fn messages_of_a_rank_that_has_left_are_not_waited_for() {
    processes("loopback", 3, &options(), |world| {
        let mut letter = [0_u8; 8];
        let place = letter.as_mut_ptr();
        let failed = |error: Error| {
            assert_eq!(
                (error.class(), error.peer()),
                (ErrorClass::ProcFailed, Some(2)),
                "{error}"
            )
        };
        match world.rank() {
            0 => {
                // Messages that it has sent before it left are there.
                // SAFETY: the buffer outlives the calls.
                let (first, second) = unsafe {
                    let first = world.receive(place, 8, &byte(), 2, 7).unwrap();
                    (first, world.receive(place, 8, &byte(), 2, 7))
                };
                assert_eq!(first.len, 3);
                failed(second.unwrap_err());
                failed(world.probe(2, 7).unwrap_err());
            }
            1 => {
                // It has never exchanged anything with that rank before (a simulation would call that a deadlock); and
                // messages that that rank would have to receive.
                if !THREADS {
                    // SAFETY: as above.
                    unsafe { world.receive(place, 8, &byte(), 2, 7) }.unwrap();
                }
                let large = vec![1_u8; 300_000];
                // SAFETY: as above.
                unsafe {
                    failed(world.receive(place, 8, &byte(), 2, ANY_TAG).unwrap_err());
                    failed(world.send(Mode::Synchronous, place, 8, &byte(), 2, 0).unwrap_err());
                    failed(
                        world
                            .send(Mode::Standard, large.as_ptr(), 300_000, &byte(), 2, 0)
                            .unwrap_err(),
                    );
                }
            }
            _ => {
                // SAFETY: as above.
                let send = |rank| unsafe { world.send(Mode::Standard, [1_u8; 3].as_ptr(), 3, &byte(), rank, 7) };
                send(0).unwrap();
                if !THREADS {
                    send(1).unwrap();
                }
            }
        }
        world.finalize(LINGER).unwrap();
    });
}

/// The receiver has no room for all that is sent: its sender holds back the rest, and also the notice that it leaves,
/// which would overtake it.
#[test]
fn messages_that_are_held_back_when_their_sender_leaves_are_received() {
    const MESSAGES: usize = 3_000;
    const LEN: usize = 4_000;
    let alone = Options {
        helper: None,
        ..options()
    };
    let all_sent = Arc::new(Barrier::new(2));
    processes("loopback", 2, &alone, move |world| {
        let letters = vec![0_u8; MESSAGES * LEN].leak().chunks_exact_mut(LEN);
        let (byte, len) = (byte(), LEN as u64);
        if world.rank() == 0 {
            world.barrier().unwrap();
            for letter in letters {
                // SAFETY: the buffer is leaked.
                drop(unsafe { world.isend(Mode::Standard, letter.as_ptr(), len, &byte, 1, 7) }.unwrap());
            }
            if THREADS {
                all_sent.wait();
            }
        } else {
            // SAFETY: as above.
            let receive = |letter: &mut [u8]| unsafe { world.ireceive(letter.as_mut_ptr(), len, &byte, 0, 7) }.unwrap();
            let requests: Vec<_> = letters.map(receive).collect();
            world.barrier().unwrap();
            if THREADS {
                // It makes no progress meanwhile, so most of them are held back when their sender leaves.
                all_sent.wait();
            }
            for (n, request) in requests.into_iter().enumerate() {
                assert_eq!(request.wait().map(|status| status.len), Ok(len), "message {n}");
            }
        }
        world.finalize(LINGER).unwrap();
    });
}

/// No rank is left that could send.
#[test]
fn when_all_others_have_left_nobody_waits_for_any_of_them() {
    processes("loopback", 3, &options(), |world| {
        world.barrier().unwrap();
        if world.rank() == 1 {
            let mut letter = [0_u8; 8];
            // SAFETY: the buffer outlives the call.
            let received = unsafe { world.receive(letter.as_mut_ptr(), 8, &byte(), ANY_SOURCE, ANY_TAG) };
            assert_eq!(received.unwrap_err().class(), ErrorClass::ProcFailed);
        }
        world.finalize(LINGER).unwrap();
    });
}

/// Waits until process 0 has left.
fn see_the_first_off(world: &Communicator) {
    let mut letter = [0_u8; 8];
    // SAFETY: the buffer outlives the call.
    let received = unsafe { world.receive(letter.as_mut_ptr(), 8, &byte(), 0, 1) };
    assert_eq!(received.unwrap_err().class(), ErrorClass::ProcFailed);
}

/// A process that is left alone may still send to itself, so only a call that nobody can end fails.
#[test]
fn a_process_that_is_left_alone_receives_from_itself() {
    processes("loopback", 2, &options(), |world| {
        if world.rank() == 1 {
            let (mut early, mut late, mut other) = ([0_u8; 8], [0_u8; 8], [0_u8; 8]);
            // SAFETY: here and below, the buffers outlive the requests.
            let early_request = unsafe { world.ireceive(early.as_mut_ptr(), 8, &byte(), ANY_SOURCE, ANY_TAG) }.unwrap();
            see_the_first_off(&world);
            // SAFETY: as above.
            let late_request = unsafe { world.ireceive(late.as_mut_ptr(), 8, &byte(), ANY_SOURCE, ANY_TAG) }.unwrap();
            for letter in [[1_u8; 8], [2; 8]] {
                // SAFETY: as above.
                unsafe { world.send(Mode::Standard, letter.as_ptr(), 8, &byte(), 1, 3) }.unwrap();
            }
            assert_eq!(early_request.wait().unwrap().source, 1);
            assert_eq!(late_request.wait().unwrap().source, 1);
            assert_eq!((early, late), ([1; 8], [2; 8]));

            // SAFETY: as above.
            let mut both = [&mut early, &mut other]
                .map(|room| unsafe { world.ireceive(room.as_mut_ptr(), 8, &byte(), ANY_SOURCE, ANY_TAG) }.ok());
            let (index, ended) = Request::wait_any(&mut both).unwrap();
            assert_eq!((index, ended.unwrap_err().class()), (0, ErrorClass::ProcFailed));
            let mut second = both[1].take().unwrap();
            assert!(second.test().unwrap().is_none(), "this process could still send");
            second.cancel();
            assert!(second.wait().unwrap().cancelled);

            assert_eq!(
                world.probe(ANY_SOURCE, ANY_TAG).unwrap_err().class(),
                ErrorClass::ProcFailed
            );
        }
        world.finalize(LINGER).unwrap();
    });
}

/// While one thread waits, another one of the process may send to it.
#[test]
fn a_thread_waits_for_another_one_after_all_others_have_left() {
    if !THREADS {
        return;
    }
    processes("loopback", 2, &options(), |world| {
        if world.rank() == 1 {
            let begun = Barrier::new(2);
            thread::scope(|scope| {
                let server = scope.spawn(|| {
                    world.iprobe(ANY_SOURCE, ANY_TAG).unwrap();
                    begun.wait();
                    let mut letter = [0_u8; 8];
                    // SAFETY: the buffer outlives the call.
                    let received = unsafe { world.receive(letter.as_mut_ptr(), 8, &byte(), ANY_SOURCE, ANY_TAG) };
                    received.map(|status| status.source)
                });
                begun.wait();
                see_the_first_off(&world);
                // SAFETY: the buffer outlives the call.
                unsafe { world.send(Mode::Standard, [4_u8; 8].as_ptr(), 8, &byte(), 1, 2) }.unwrap();
                assert_eq!(server.join().unwrap().unwrap(), 1);
            });
        }
        world.finalize(LINGER).unwrap();
    });
}

/// The same if the other thread's first call is one that waits.
#[test]
fn a_thread_that_has_only_waited_so_far_may_send_later() {
    if !THREADS {
        return;
    }
    processes("loopback", 2, &options(), |world| {
        if world.rank() == 0 {
            // It ends when the other thread of process 1 has begun to receive.
            // SAFETY: the buffer outlives the call.
            unsafe { world.send(Mode::Synchronous, [9_u8; 8].as_ptr(), 8, &byte(), 1, 9) }.unwrap();
        } else {
            thread::scope(|scope| {
                scope.spawn(|| {
                    let mut letter = [0_u8; 8];
                    // SAFETY: the buffer outlives the call.
                    unsafe { world.receive(letter.as_mut_ptr(), 8, &byte(), 0, 9) }.unwrap();
                    see_the_first_off(&world);
                    // SAFETY: the buffer outlives the call.
                    unsafe { world.send(Mode::Standard, [4_u8; 8].as_ptr(), 8, &byte(), 1, 2) }.unwrap();
                });
                let mut letter = [0_u8; 8];
                // SAFETY: the buffer outlives the call.
                let received = unsafe { world.receive(letter.as_mut_ptr(), 8, &byte(), ANY_SOURCE, 2) };
                assert_eq!(received.unwrap().source, 1);
            });
        }
        world.finalize(LINGER).unwrap();
    });
}
