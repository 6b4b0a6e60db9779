//! Partitioned messages: parts that threads make ready, drop, forget or leave behind in a panic.

use std::{
    panic::{self, AssertUnwindSafe},
    thread,
};

use mpi::{ErrorClass, point_to_point::partitioned, traits::*};

use super::support::{job, job_on};

const LONG: usize = 60_000;

#[test]
fn threads_fill_parts_and_read_what_arrives() {
    for backend in ["loopback", "udp"] {
        job_on(backend, 2, |world| {
            let other = world.process_at_rank(1 - world.rank());
            let (mut news, mut room) = (vec![0_u32; LONG], vec![0_u32; LONG]);
            let mut sending = partitioned::send_init(&other, &mut news, 12, 0).unwrap();
            let mut receiving = partitioned::receive_init(&other, &mut room, 5, 0).unwrap();
            for round in 1..5 {
                mpi::request::scope(|scope| {
                    let (arrivals, received) = receiving.start(scope);
                    let (parts, sent) = sending.start(scope);
                    assert_eq!((parts.len(), arrivals.partitions()), (12, 5));
                    thread::scope(|threads| {
                        for mut part in parts {
                            threads.spawn(move || {
                                let first = part.index() * part.len();
                                part.iter_mut()
                                    .zip(first..)
                                    .for_each(|(x, at)| *x = (at as u32) * round);
                                if first % 2 == 0 {
                                    part.ready().unwrap();
                                }
                            });
                        }
                        for partition in 0..5 {
                            threads.spawn(move || {
                                let there = loop {
                                    match arrivals.get(partition).unwrap() {
                                        Some(there) => break there,
                                        None => thread::yield_now(),
                                    }
                                };
                                let first = partition * there.len();
                                assert!(there.iter().zip(first..).all(|(x, at)| *x == at as u32 * round));
                            });
                        }
                    });
                    sent.wait().unwrap();
                    received.wait().unwrap();
                    assert_eq!(arrivals.get(5).unwrap_err().class(), ErrorClass::Arg);
                });
                assert_eq!(receiving.buffer()[LONG - 1], (LONG as u32 - 1) * round);
            }
            assert!(sending.buffer_mut().iter().any(|x| *x > 0));
            true
        });
    }
}

#[test]
fn parts_that_a_panic_leaves_are_sent_as_they_are() {
    job(2, |world| {
        let other = world.process_at_rank(1 - world.rank());
        let (mut news, mut room) = (vec![1_u8; LONG], vec![0_u8; LONG]);
        let mut sending = partitioned::send_init(&other, &mut news, 3, 7).unwrap();
        let mut receiving = partitioned::receive_init(&other, &mut room, 1, 7).unwrap();
        mpi::request::scope(|scope| {
            let (_, received) = receiving.start(scope);
            let left = panic::catch_unwind(AssertUnwindSafe(|| {
                mpi::request::scope(|scope| {
                    let (mut parts, _sent) = sending.start(scope);
                    parts[1].fill(2);
                    parts.swap_remove(0).ready().unwrap();
                    panic::resume_unwind(Box::new("on purpose"));
                });
            }));
            assert_eq!(left.unwrap_err().downcast_ref(), Some(&"on purpose"));
            received.wait().unwrap();
        });
        let third = LONG / 3;
        assert!(room[..third].iter().all(|x| *x == 1) && room[third..2 * third].iter().all(|x| *x == 2));
        assert_eq!(world.as_raw().engine().requests(), 0);
    });
}

#[test]
fn what_can_not_be_cut_or_never_comes() {
    job(1, |world| {
        let myself = world.this_process();
        let mut news = [0_u16; 10];
        for partitions in [0, 3] {
            let refused = partitioned::send_init(&myself, &mut news, partitions, 0);
            assert_eq!(refused.unwrap_err().class(), ErrorClass::Count);
        }
        let any = partitioned::receive_init(&world.any_process(), &mut news, 1, 0);
        assert_eq!(any.unwrap_err().class(), ErrorClass::Rank);
        // A scope cancels what has not come.
        let mut receiving = partitioned::receive_init(&myself, &mut news, 2, 0).unwrap();
        mpi::request::scope(|scope| drop(receiving.start(scope)));
        drop(receiving);
        assert_eq!(world.as_raw().engine().requests(), 0);
    });
}
