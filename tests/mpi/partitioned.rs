//! Partitioned messages.

use std::thread;

use hikyaku::mpi::{
    datatype::{Datatype, Kind},
    engine::{Communicator, PROC_NULL, PartitionedReceive, PartitionedSend},
    error::ErrorClass,
};

use super::support::{byte, job, job_on, options, pattern, processes};

/// # Safety
/// As [`Communicator::psend_init`].
unsafe fn sender(comm: &Communicator, data: &[u8], partitions: u32, to: i32, tag: i32) -> PartitionedSend {
    let count = data.len() as u64 / u64::from(partitions);
    // SAFETY: the caller's contract.
    unsafe { comm.psend_init(data.as_ptr(), (partitions, count), &byte(), to, tag) }.unwrap()
}

/// # Safety
/// As [`Communicator::precv_init`].
unsafe fn receiver(comm: &Communicator, room: &mut [u8], partitions: u32, from: i32, tag: i32) -> PartitionedReceive {
    let count = room.len() as u64 / u64::from(partitions);
    // SAFETY: the caller's contract.
    unsafe { comm.precv_init(room.as_mut_ptr(), (partitions, count), &byte(), from, tag) }.unwrap()
}

#[test]
fn threads_make_partitions_ready_and_both_sides_cut_as_they_like() {
    for backend in ["loopback", "udp"] {
        for (len, sends, receives) in [(24, 6, 4), (12_000, 60, 8), (960_000, 4, 6), (960_000, 12, 1)] {
            job_on(backend, 2, &options(), |comm| {
                if comm.rank() == 0 {
                    let mut data = vec![0; len];
                    // SAFETY: what is ready is not written to before the round has ended; it lives until then.
                    let mut sending = unsafe { sender(&comm, &data, sends, 1, 3) };
                    assert_eq!(sending.partitions(), sends);
                    for round in 0..6 {
                        let request = sending.start().unwrap();
                        let part = len / sends as usize;
                        let base = data.as_mut_ptr();
                        // SAFETY: the same memory, as it may be used now.
                        unsafe { sending.move_to(base) };
                        let parts: Vec<_> = data.chunks_exact_mut(part).enumerate().collect();
                        let mut groups: Vec<Vec<_>> = (0..3).map(|_| Vec::new()).collect();
                        for (index, part) in parts.into_iter().rev() {
                            groups[(index * 7 + round) % 3].push((index, part));
                        }
                        let sending = &sending;
                        thread::scope(|scope| {
                            for group in groups {
                                scope.spawn(move || {
                                    for (index, part) in group {
                                        part.copy_from_slice(&pattern(len, round)[index * part.len()..][..part.len()]);
                                        sending.ready(index as u32).unwrap();
                                    }
                                });
                            }
                        });
                        request.wait().unwrap();
                    }
                } else {
                    let mut room = vec![0; len];
                    // SAFETY: it lives until the end, and is not used while a round runs.
                    let receiving = unsafe { receiver(&comm, &mut room, receives, 0, 3) };
                    for round in 0..6 {
                        let status = receiving.start().unwrap().wait().unwrap();
                        assert_eq!((status.source, status.tag, status.len), (0, 3, len as u64));
                        assert!((0..receives).all(|partition| receiving.arrived(partition).unwrap()));
                        assert!(room == pattern(len, round), "{backend} {len} {round}");
                        room.fill(99);
                    }
                }
            });
        }
    }
}

#[test]
fn partitions_without_bytes_arrive_when_they_are_sent() {
    job(2, |comm| {
        let mut room = [];
        if comm.rank() == 0 {
            // SAFETY: there is no memory.
            let sending = unsafe { sender(&comm, &room, 3, 1, 4) };
            for _ in 0..3 {
                comm.barrier().unwrap();
                let request = sending.start().unwrap();
                sending.ready_range(0..3).unwrap();
                request.wait().unwrap();
            }
        } else {
            // SAFETY: there is no memory.
            let receiving = unsafe { receiver(&comm, &mut room, 3, 0, 4) };
            for _ in 0..3 {
                let request = receiving.start().unwrap();
                assert!((0..3).all(|partition| !receiving.arrived(partition).unwrap()));
                comm.barrier().unwrap();
                request.wait().unwrap();
                assert!((0..3).all(|partition| receiving.arrived(partition).unwrap()));
            }
        }
    });
}

#[test]
fn a_partition_arrives_before_the_others_are_ready() {
    for len in [10_000, 400_000] {
        job(2, |comm| {
            let data = pattern(4 * len, 1);
            if comm.rank() == 0 {
                // SAFETY: nobody writes to it, and it lives until the round has ended.
                let sending = unsafe { sender(&comm, &data, 4, 1, 0) };
                let request = sending.start().unwrap();
                sending.ready_list(&[2]).unwrap();
                // The other side has it.
                comm.barrier().unwrap();
                sending.ready_range(0..2).unwrap();
                assert_eq!(sending.ready_range(1..4).unwrap_err().class(), ErrorClass::Arg);
                sending.ready(3).unwrap();
                request.wait().unwrap();
            } else {
                let mut room = vec![0; 4 * len];
                let base = room.as_mut_ptr();
                // SAFETY: it lives until the round has ended; only what has arrived is looked at.
                let receiving = unsafe { comm.precv_init(base, (8, len as u64 / 2), &byte(), 0, 0) }.unwrap();
                let request = receiving.start().unwrap();
                assert_eq!(receiving.start().unwrap_err().class(), ErrorClass::Request);
                while !(receiving.arrived(4).unwrap() && receiving.arrived(5).unwrap()) {
                    thread::yield_now();
                }
                assert!(!receiving.arrived(0).unwrap() && !request.is_done());
                // SAFETY: these have arrived.
                let there = unsafe { core::slice::from_raw_parts(base.add(2 * len), len) };
                assert!(*there == data[2 * len..3 * len]);
                comm.barrier().unwrap();
                request.wait().unwrap();
                assert!(room == data);
            }
        });
    }
}

#[test]
fn either_side_may_come_first_and_channels_match_in_order() {
    job(3, |comm| {
        let others: Vec<i32> = (0..3).filter(|other| *other != comm.rank()).collect();
        let len = 400_000;
        let mut memory = Vec::new();
        if comm.rank() == 1 {
            // Receivers that are started before anybody sends: they go on while this process is in a barrier.
            comm.barrier().unwrap();
        }
        for other in &others {
            // Two with the same tag: the second is for the second.
            for salt in 0..2 {
                memory.push((
                    *other,
                    salt,
                    pattern(len, salt + comm.rank() as usize * 10),
                    vec![0; len],
                ));
            }
        }
        let mut channels = Vec::new();
        for (other, salt, data, room) in &mut memory {
            // SAFETY: both are on the heap, live until the end, and are not used while a round runs.
            channels.push(unsafe {
                (
                    sender(&comm, data, 10, *other, 5),
                    receiver(&comm, room, 4 + *salt as u32 * 6 - *salt as u32 * 5, *other, 5),
                )
            });
        }
        for _ in 0..3 {
            let mut requests = Vec::new();
            for (_, receiving) in &channels {
                requests.push(receiving.start().unwrap());
            }
            if comm.rank() == 0 {
                comm.barrier().unwrap();
            }
            for (sending, _) in channels.iter().rev() {
                requests.push(sending.start().unwrap());
                sending.ready_range(0..10).unwrap();
            }
            if comm.rank() > 0 {
                comm.barrier().unwrap();
            }
            requests.into_iter().for_each(|request| _ = request.wait().unwrap());
        }
        if comm.rank() != 1 {
            comm.barrier().unwrap();
        }
        drop(channels);
        for (other, salt, _, room) in &memory {
            assert!(*room == pattern(len, salt + *other as usize * 10));
        }
        assert_eq!(comm.engine().requests(), 0);
    });
}

#[test]
fn to_oneself_to_nobody_and_of_nothing() {
    job(1, |comm| {
        for (len, partitions) in [(0, 3), (30, 3), (300_000, 3)] {
            let (data, mut room) = (pattern(len, 4), vec![0; len]);
            // SAFETY: both live until the end, and are not used while a round runs.
            let (receiving, sending) = unsafe {
                (
                    receiver(&comm, &mut room, 1, 0, 0),
                    sender(&comm, &data, partitions, 0, 0),
                )
            };
            assert_eq!(
                sending.ready(0).unwrap_err().class(),
                ErrorClass::Request,
                "not started"
            );
            for _ in 0..3 {
                let requests = [sending.start().unwrap(), receiving.start().unwrap()];
                sending.ready_list(&[1, 0, 2]).unwrap();
                assert_eq!(sending.ready(1).unwrap_err().class(), ErrorClass::Arg);
                requests.into_iter().for_each(|request| _ = request.wait().unwrap());
            }
            assert_eq!(sending.ready(3).unwrap_err().class(), ErrorClass::Arg);
            drop((receiving, sending));
            assert!(room == data);
        }
        // SAFETY: nobody uses it.
        let nobody = unsafe { sender(&comm, &[1, 2], 2, PROC_NULL, 0) };
        let request = nobody.start().unwrap();
        nobody.ready_range(0..2).unwrap();
        request.wait().unwrap();
    });
}

#[test]
fn what_is_not_contiguous_is_cut_by_its_data() {
    job(2, |comm| {
        let datatype = Datatype::vector(3, 1, 2, &Datatype::predefined(Kind::I32)).unwrap();
        if comm.rank() == 0 {
            let data: Vec<i32> = (0..5_000).collect();
            // SAFETY: 1,000 elements of 5 numbers' extent; nobody writes to it, and it lives until the round has ended.
            let sending = unsafe { comm.psend_init(data.as_ptr().cast(), (500, 2), &datatype, 1, 0) }.unwrap();
            let request = sending.start().unwrap();
            (0..500).rev().for_each(|partition| sending.ready(partition).unwrap());
            request.wait().unwrap();
        } else {
            let mut room = vec![0_i32; 3_000];
            // SAFETY: it lives until the round has ended, and is not used before.
            let receiving = unsafe { comm.precv_init(room.as_mut_ptr().cast(), (1, 12_000), &byte(), 0, 0) }.unwrap();
            receiving.start().unwrap().wait().unwrap();
            let expected = (0..1_000).flat_map(|element| [0, 2, 4].map(|at| element * 5 + at));
            assert!(room.into_iter().eq(expected));
        }
    });
}

#[test]
fn what_does_not_fit_is_told_and_what_nobody_sends_is_cancelled() {
    job(2, |comm| {
        let data = pattern(90_000, 0);
        if comm.rank() == 0 {
            // SAFETY: nobody writes to it, and it lives until the round has ended.
            let sending = unsafe { sender(&comm, &data[..90_000], 3, 1, 0) };
            comm.barrier().unwrap();
            drop(sending);
        } else {
            let (mut room, mut never) = (vec![0; 80_000], vec![7; 10]);
            // SAFETY: both live until the rounds have ended, and are not used before.
            let (receiving, waiting) = unsafe {
                (
                    receiver(&comm, &mut room, 4, 0, 0),
                    receiver(&comm, &mut never, 5, 0, 1),
                )
            };
            assert_eq!(
                receiving.start().unwrap().wait().unwrap_err().class(),
                ErrorClass::Truncate
            );
            assert_eq!(
                receiving.start().unwrap().wait().unwrap_err().class(),
                ErrorClass::Truncate
            );
            let request = waiting.start().unwrap();
            request.cancel();
            assert!(request.wait().unwrap().cancelled);
            comm.barrier().unwrap();
            drop((receiving, waiting));
            assert_eq!(never, [7; 10]);
            // SAFETY: as above.
            let unused = unsafe { receiver(&comm, &mut never, 5, 0, 1) };
            drop(unused);
            assert_eq!(comm.engine().requests(), 0);
        }
    });
}

#[test]
fn a_revoked_communicator_ends_its_rounds() {
    job(2, |world| {
        let comm = world.duplicate().unwrap();
        let mut room = vec![0; 50_000];
        // SAFETY: it lives until the round has ended, and is not used before.
        let receiving = unsafe { receiver(&comm, &mut room, 5, 1 - comm.rank(), 0) };
        let request = receiving.start().unwrap();
        comm.revoke();
        assert_eq!(request.wait().unwrap_err().class(), ErrorClass::Revoked);
        assert_eq!(receiving.start().unwrap_err().class(), ErrorClass::Revoked);
    });
}

#[test]
fn a_lost_process_ends_its_rounds() {
    processes("udp", 2, &options(), |comm| {
        // Too long to be sent before anybody asks.
        let mut data = pattern(800_000, 0);
        // SAFETY: it lives until the rounds have ended, and is not used before.
        let (sending, receiving) = unsafe {
            let base = data.as_mut_ptr();
            let half = core::slice::from_raw_parts(base, 400_000);
            let room = core::slice::from_raw_parts_mut(base.add(400_000), 400_000);
            (
                sender(&comm, half, 2, 1 - comm.rank(), 0),
                receiver(&comm, room, 2, 1 - comm.rank(), 0),
            )
        };
        comm.barrier().unwrap();
        if comm.rank() == 1 {
            comm.engine().finalize(std::time::Duration::from_secs(2)).unwrap();
            return;
        }
        let (sent, received) = (sending.start().unwrap(), receiving.start().unwrap());
        sending.ready_range(0..2).unwrap();
        assert_eq!(sent.wait().unwrap_err().class(), ErrorClass::ProcFailed);
        assert_eq!(received.wait().unwrap_err().class(), ErrorClass::ProcFailed);
    });
}
