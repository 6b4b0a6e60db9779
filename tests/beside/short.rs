//! Short messages by rings, among others that go as packets.
#![expect(unsafe_code, reason = "MPI's engine takes pointers")]

use hikyaku::mpi::{
    datatype::Datatype,
    engine::{ANY_SOURCE, ANY_TAG, Communicator, Mode, Request},
};

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

/// Lies in the gaps between elements.
const GAP: u8 = 0xee;

/// These bytes in pieces of eight, with gaps of as many bytes between them.
fn with_gaps(data: &[u8]) -> Vec<u8> {
    data.chunks(8).flat_map(|piece| [piece, &[GAP; 8]].concat()).collect()
}

/// Elements with gaps on either side or both: in one line, in two, in pieces of long records, and in packets.
#[test]
fn elements_with_gaps_keep_their_order() {
    const COUNTS: [usize; 9] = [1, 5, 6, 13, 14, 1_000, 1_025, 8_193, 100_000];
    job(4, |world| {
        let (rank, other) = (world.rank(), world.rank() ^ 1);
        for round in 0..12 {
            let (leaves, lands) = (round % 2 == 0, round % 3 == 0);
            for (salt, count) in COUNTS.into_iter().enumerate() {
                let data = pattern(8 * count, salt + round);
                let strided = Datatype::vector(count as i64, 8, 16, &byte()).unwrap();
                if rank % 2 > 0 {
                    let mut room = with_gaps(&vec![0; 8 * count]);
                    if lands {
                        let base = room.as_mut_ptr();
                        // SAFETY: nothing else uses the vector during the call.
                        unsafe { world.receive(base, 1, &strided, other, 3) }.unwrap();
                        assert_eq!(room, with_gaps(&data));
                    } else {
                        assert_eq!(receive(&world, 8 * count, other, 3), data);
                    }
                } else if leaves {
                    let spread = with_gaps(&data);
                    // SAFETY: the vector outlives the call.
                    unsafe { world.send(Mode::Standard, spread.as_ptr(), 1, &strided, other, 3) }.unwrap();
                } else {
                    send(&world, &data, other, 3);
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

/// One rank sends without end, in memory or on the network, and two others each wait for an answer to each message: a
/// receiver that takes what comes from any source answers them all the same.
#[test]
fn any_source_starves_nobody() {
    const QUESTIONS: usize = 50;
    for flooder in [1_u8, 2] {
        job(4, move |world| {
            let rank = world.rank() as u8;
            if rank == 0 {
                let (mut flood, mut questions) = (0, 0);
                while questions < 2 * QUESTIONS {
                    let from = receive(&world, 1, ANY_SOURCE, 1)[0];
                    if from == flooder {
                        flood += 1;
                    } else {
                        questions += 1;
                        send(&world, &[], from.into(), 2);
                    }
                }
                send(&world, &[], flooder.into(), 3);
                while !receive(&world, 1, flooder.into(), ANY_TAG).is_empty() {}
                assert!(flood > questions, "{flood} messages are no flood");
            } else if rank == flooder {
                let mut room = [0; 64];
                // SAFETY: the request has ended when the room goes.
                let mut end = unsafe { post(&world, &mut room, 0, 3) };
                while end.test().unwrap().is_none() {
                    send(&world, &[rank], 0, 1);
                }
                send(&world, &[], 0, 4);
            } else {
                for _ in 0..QUESTIONS {
                    send(&world, &[rank], 0, 1);
                    receive(&world, 0, 0, 2);
                }
            }
            world.barrier().unwrap();
        });
    }
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

/// Numbers that look random, the same each time.
struct Draws(u64);

impl Draws {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Posts a receive of up to 64 bytes at `place`.
///
/// # Safety
/// Until the request has ended, nothing else uses the place.
unsafe fn post(world: &Communicator, place: &mut [u8; 64], from: i32, tag: i32) -> Request {
    // SAFETY: the caller's contract.
    unsafe { world.ireceive(place.as_mut_ptr(), 64, &byte(), from, tag) }.unwrap()
}

/// Receives that are posted one by one and together, tested, waited for, cancelled and given up, between calls of other
/// kinds: each gets the message that it should, and none stays behind.
#[test]
fn requests_get_their_messages_whatever_is_called_between() {
    job(2, |world| {
        let other = world.rank() ^ 1;
        let (mut rng, mut own) = (Draws(7), Draws(8));
        for round in 0..400_u64 {
            // Both ranks draw the same.
            let (posts, kind, from_any) = (1 + rng.below(3), rng.below(6), rng.below(5) == 0);
            if world.rank() == 0 {
                for number in 0..posts {
                    send(&world, &(round * 10 + number).to_ne_bytes(), other, 5);
                }
            } else {
                let mut places = [[0; 64]; 4];
                let source = if from_any { ANY_SOURCE } else { other };
                let (spare, used) = places.split_at_mut(1);
                // SAFETY: the places are not touched before the requests have ended.
                let vain = (kind == 0).then(|| unsafe { post(&world, &mut spare[0], other, 77) });
                let used = used[..posts as usize].iter_mut();
                // SAFETY: as above.
                let mut requests: Vec<_> = used.map(|place| unsafe { post(&world, place, source, 5) }).collect();
                match kind {
                    // Something that looks at all requests, and at the network.
                    1 => assert!(world.engine().requests() >= posts as usize),
                    2 => world.engine().progress().unwrap(),
                    // The last one first.
                    3 => requests.reverse(),
                    4 => {
                        let _ = world.iprobe(other, 6).unwrap();
                    }
                    _ => {}
                }
                for mut request in requests {
                    let status = loop {
                        if own.below(2) == 0 {
                            break request.wait_mut().unwrap();
                        }
                        if let Some(status) = request.test().unwrap() {
                            break status;
                        }
                    };
                    assert_eq!((status.source, status.tag, status.len), (other, 5, 8));
                }
                if let Some(vain) = vain {
                    vain.cancel();
                    assert!(vain.wait().unwrap().cancelled);
                }
                for (number, place) in (0..posts).zip(&places[1..]) {
                    assert_eq!(place[..8], (round * 10 + number).to_ne_bytes());
                }
                assert_eq!(world.engine().requests(), 0);
            }
            if world.rank() == 1 {
                send(&world, &[], other, 6);
            } else {
                receive(&world, 0, other, 6);
            }
        }
    });
}

/// A posted receive whose message is too long reports it, and the one after it goes on.
#[test]
fn a_posted_receive_that_is_too_short_says_so() {
    job(2, |world| {
        let other = world.rank() ^ 1;
        if world.rank() == 0 {
            send(&world, &[1; 40], other, 1);
            send(&world, &[2; 4], other, 1);
        } else {
            let mut place = [0_u8; 8];
            for is_well in [false, true] {
                // SAFETY: nothing else uses the place until the request has ended.
                let request = unsafe { world.ireceive(place.as_mut_ptr(), 8, &byte(), other, 1) }.unwrap();
                assert_eq!(request.wait().is_ok(), is_well);
            }
            assert_eq!(place[0], 2);
        }
    });
}
