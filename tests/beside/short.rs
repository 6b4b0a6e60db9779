//! Short messages by rings, among others that go as packets.
#![expect(unsafe_code, reason = "MPI's engine takes pointers")]

use hikyaku::mpi::engine::{ANY_SOURCE, ANY_TAG, Communicator, Mode};

use crate::support::{byte, job, pattern};

fn send(world: &Communicator, data: &[u8], to: i32, tag: i32) {
    // SAFETY: the slice outlives the call.
    unsafe { world.send(Mode::Standard, data.as_ptr(), data.len() as u64, &byte(), to, tag) }.unwrap();
}

fn receive(world: &Communicator, len: usize, from: i32, tag: i32) -> Vec<u8> {
    let mut data = vec![0; len];
    // SAFETY: nothing else uses the vector during the call.
    let status = unsafe { world.receive(data.as_mut_ptr(), len as u64, &byte(), from, tag) }.unwrap();
    data.truncate(status.len as usize);
    data
}

/// The lengths around what a record of a ring holds, and far more: each kind of message meets each other one.
const LENS: [usize; 8] = [0, 8, 43, 44, 45, 2_000, 44, 200_000];

/// Records, packets, fragments and requests to send keep one order, whether they are expected or not; and thousands of
/// messages are more than a ring holds.
#[test]
fn messages_of_all_kinds_keep_their_order() {
    job(4, |world| {
        let (rank, other) = (world.rank(), world.rank() ^ 1);
        for round in 0..40 {
            for (salt, len) in LENS.into_iter().enumerate() {
                if rank % 2 == 0 {
                    send(&world, &pattern(len, salt + round), other, 3);
                } else {
                    assert_eq!(receive(&world, 200_000, other, ANY_TAG), pattern(len, salt + round));
                }
            }
        }
        if rank % 2 == 0 {
            for number in 0..3_000_u32 {
                send(&world, &number.to_ne_bytes(), other, (number % 3) as i32);
            }
            send(&world, &[], other, 9);
        } else {
            // All of them are unexpected, and are taken in another order than they came in.
            receive(&world, 0, other, 9);
            for tag in [2, 0, 1] {
                for number in (tag..3_000_u32).step_by(3) {
                    assert_eq!(receive(&world, 4, other, tag as i32), number.to_ne_bytes());
                }
            }
        }
        world.barrier().unwrap();
    });
}

/// A receive from any source finds messages of peers in memory and of peers on the network.
#[test]
fn any_source_finds_both_ways() {
    job(4, |world| {
        if world.rank() == 0 {
            let mut seen = [0_u32; 4];
            for _ in 0..300 {
                let from = receive(&world, 1, ANY_SOURCE, ANY_TAG)[0];
                seen[usize::from(from)] += 1;
            }
            assert_eq!(seen, [0, 100, 100, 100]);
        } else {
            for _ in 0..100 {
                send(&world, &[world.rank() as u8], 0, 1);
            }
        }
    });
}

/// A sender wakes its receiver by a packet; and what lies in the ring when the goodbye comes is received.
#[test]
fn a_receiver_that_sleeps_is_woken_and_nothing_is_lost_at_the_end() {
    job(2, |world| {
        let other = world.rank() ^ 1;
        for turn in 0..200_i32 {
            if turn % 2 == world.rank() {
                // The other one has gone to sleep meanwhile.
                for _ in 0..turn {
                    std::thread::yield_now();
                }
                send(&world, &turn.to_ne_bytes(), other, turn);
            } else {
                assert_eq!(receive(&world, 4, other, turn), turn.to_ne_bytes());
            }
        }
    });
}
