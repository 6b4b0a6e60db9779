//! Which messages are sent without asking.
#![expect(unsafe_code, reason = "MPI's engine takes pointers")]

use hikyaku::mpi::engine::{Communicator, Mode};

use crate::support::{byte, job, pattern};

/// The longest message that goes eagerly within a host.
const LIMIT: usize = 64 << 10;

fn send(world: &Communicator, data: &[u8], to: i32, tag: i32) {
    // SAFETY: the data are borrowed until the call returns.
    unsafe { world.send(Mode::Standard, data.as_ptr(), data.len() as u64, &byte(), to, tag) }.unwrap();
}

fn receive(world: &Communicator, len: usize, from: i32, tag: i32) -> Vec<u8> {
    let mut place = vec![0; len];
    // SAFETY: the place is borrowed until the call returns.
    unsafe { world.receive(place.as_mut_ptr(), len as u64, &byte(), from, tag) }.unwrap();
    place
}

/// A message that a ring takes has ended when its send returns; a longer one asks first, though the eager limit is higher.
#[test]
fn in_memory_no_message_is_eager_that_a_ring_does_not_take() {
    const ASKED: i32 = 1;
    const MET: i32 = 2;
    let is_eager = job(2, |world| {
        let (rank, other) = (world.rank(), world.rank() ^ 1);
        // They tell each other of more credit when they need it.
        for _ in 0..16 {
            send(&world, &[1; LIMIT / 4], other, MET);
            receive(&world, LIMIT / 4, other, MET);
        }
        [LIMIT, LIMIT + 1].map(|len| {
            let data = pattern(len, 3);
            if rank == 1 {
                receive(&world, 1, other, ASKED);
                assert_eq!(receive(&world, len, other, MET), data);
                return false;
            }
            // SAFETY: the data are borrowed until the request has been waited for.
            let mut sent =
                unsafe { world.isend(Mode::Standard, data.as_ptr(), len as u64, &byte(), other, MET) }.unwrap();
            // The receive is not posted before the message below is there.
            let is_eager = sent.test().unwrap().is_some();
            send(&world, &[1], other, ASKED);
            if !is_eager {
                sent.wait().unwrap();
            }
            is_eager
        })
    });
    assert_eq!(is_eager[0], [true, false]);
}
