//! Large messages that the kernel copies from one rank straight to another.
#![expect(unsafe_code, reason = "MPI's engine takes pointers")]

use hikyaku::mpi::engine::{Communicator, Mode, Options};

use crate::support::{byte, job_on, options, pattern};

const TAG: i32 = 1;

/// Sends messages of these lengths there and back, several at a time. Returns how many ranges this rank has had copied.
fn exchange(world: &Communicator, lengths: &[usize]) -> u64 {
    let other = world.rank() ^ 1;
    let count = |len: usize| len as u64;
    for turn in 0..3_usize {
        let sent: Vec<Vec<u8>> = lengths
            .iter()
            .enumerate()
            .map(|(index, len)| pattern(*len, index + turn + world.rank() as usize))
            .collect();
        let mut received: Vec<Vec<u8>> = lengths.iter().map(|len| vec![0; *len]).collect();
        let mut requests = Vec::new();
        for (into, from) in received.iter_mut().zip(&sent) {
            // SAFETY: both live until all requests have been waited for.
            requests
                .push(unsafe { world.ireceive(into.as_mut_ptr(), count(into.len()), &byte(), other, TAG) }.unwrap());
            // SAFETY: as above.
            let send = unsafe { world.isend(Mode::Standard, from.as_ptr(), count(from.len()), &byte(), other, TAG) };
            requests.push(send.unwrap());
        }
        for request in requests {
            request.wait().unwrap();
        }
        for (index, into) in received.iter().enumerate() {
            assert!(
                *into == pattern(lengths[index], index + turn + other as usize),
                "{turn}, {index}"
            );
        }
    }
    world.engine().stats().crossed
}

fn crossed(limit: Option<u32>, lengths: &'static [usize]) -> Vec<u64> {
    let options = Options {
        cma_limit: limit,
        ..options()
    };
    job_on("udp", 2, &options, |world| exchange(&world, lengths))
}

#[test]
fn the_kernel_copies_large_messages() {
    let crossed = crossed(
        Options::default().cma_limit,
        &[5_000_000, 100, 65_537, 1 << 20, 64 << 10, 300_001],
    );
    // Of each of the four messages, and in each direction, one rank reads a range and the other one writes a range.
    assert!(crossed.iter().all(|&ranges| ranges >= 3 * 4 * 2), "{crossed:?}");
}

#[test]
fn it_copies_none_where_it_is_not_to() {
    assert_eq!(crossed(Some(u32::MAX), &[5_000_000, 100, 65_537]), [0, 0]);
}

/// When the limit is low, messages that would go by a ring ask first, once the way is known.
#[test]
fn the_limit_may_be_below_that_of_rings() {
    let crossed = crossed(Some(16 << 10), &[100_000, 20_000, 16 << 10, 40_000]);
    // (The first turn finds the way.)
    assert!(crossed.iter().all(|&ranges| ranges > 3 * 2), "{crossed:?}");
}

/// Windows of large messages, so that ranks copy while nothing else comes that would make them go on.
#[test]
fn a_stream_of_large_messages_does_not_stop() {
    const WINDOW: usize = 8;
    const LEN: usize = 600_000;
    let ends = job_on("udp", 2, &options(), |world| {
        let (rank, mut place) = (world.rank(), vec![0; WINDOW * LEN]);
        let data = pattern(LEN, 3);
        for _ in 0..200 {
            let requests: Vec<_> = (0..WINDOW)
                .map(|index| match rank {
                    // SAFETY: the data live until all requests have been waited for.
                    0 => unsafe { world.isend(Mode::Standard, data.as_ptr(), LEN as u64, &byte(), 1, TAG) },
                    _ => {
                        let into = place[index * LEN..].as_mut_ptr();
                        // SAFETY: so do the places, one for each request.
                        unsafe { world.ireceive(into, LEN as u64, &byte(), 0, TAG) }
                    }
                })
                .collect();
            for request in requests {
                request.unwrap().wait().unwrap();
            }
        }
        rank == 0 || place.chunks(LEN).all(|message| message == data)
    });
    assert_eq!(ends, [true, true]);
}
