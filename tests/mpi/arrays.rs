//! Buffer arrays: sent in one call, received by id, sent on without a copy.

use hikyaku::mpi::{
    engine::{ANY_SOURCE, ANY_TAG, Array, Arriving, Communicator, PROC_NULL, Request},
    error::ErrorClass,
};

use super::support::{job, job_on, options, pattern};

fn filled(comm: &Communicator, len: usize, salt: usize) -> Array {
    let mut array = comm.array(len);
    array.get_mut().unwrap().copy_from_slice(&pattern(len, salt));
    array
}

#[test]
fn a_ring_passes_on_what_it_has_received() {
    for backend in ["loopback", "udp"] {
        let places = job_on(backend, 3, &options(), |comm| {
            let (rank, size) = (comm.rank(), comm.size());
            let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
            let mut array = filled(&comm, 300_000, rank as usize);
            let mut places = vec![array.as_ptr() as usize];
            for round in 1..=6 {
                let sent = comm.send_array(&array, next, round).unwrap();
                let (received, _) = comm.receive_array(previous, round).unwrap();
                sent.wait().unwrap();
                // The one before is released here.
                array = received;
                places.push(array.as_ptr() as usize);
                let from = (rank + 6 * size - round) % size;
                assert!(array[..] == pattern(300_000, from as usize), "round {round}");
            }
            // Nothing was copied by the library: all went by reference and landed where it was used.
            assert_eq!(comm.engine().stats().rendezvous, 6);
            assert_eq!(comm.engine().stats().eager, 0);
            places
        });
        for mut places in places {
            places.sort_unstable();
            places.dedup();
            assert!(places.len() == 2, "memory is used again: {places:x?}");
        }
    }
}

#[test]
fn arrays_are_written_again_when_they_have_been_sent() {
    job(2, |comm| {
        for len in [0, 10, 200_000] {
            if comm.rank() == 0 {
                let mut array = filled(&comm, len, 1);
                let request = comm.send_array(&array, 1, 5).unwrap();
                if len > 50_000 {
                    // Nobody has received it.
                    assert!(!array.is_free() && array.get_mut().is_none());
                }
                comm.send_array(&filled(&comm, 1, 3), 1, 6).unwrap();
                request.wait().unwrap();
                while !array.is_free() {
                    comm.engine().progress().unwrap();
                }
                let clone = array.clone();
                assert!(array.get_mut().is_none());
                drop(clone);
                array.get_mut().unwrap().copy_from_slice(&pattern(len, 2));
                array.truncate(len / 2);
                comm.send_array(&array, 1, 5).unwrap();
                // The send goes on.
                drop(array);
            } else {
                let (later, _) = comm.receive_array(0, 6).unwrap();
                assert_eq!(later[..], pattern(1, 3));
                let (array, status) = comm.receive_array(ANY_SOURCE, 5).unwrap();
                assert_eq!((status.source, status.tag, status.len), (0, 5, len as u64));
                assert!(array[..] == pattern(len, 1));
                let arriving = loop {
                    if let Some(arriving) = comm.poll_array(0, ANY_TAG).unwrap() {
                        break arriving;
                    }
                };
                while !arriving.is_done() {
                    comm.engine().progress().unwrap();
                }
                assert!(arriving.wait().unwrap().0[..] == pattern(len, 2)[..len / 2]);
            }
        }
    });
}

/// Receives that were begun before anything was sent: each waits for what comes first, and a short array stays short.
#[test]
fn arrays_come_into_receives_that_wait() {
    job(2, |comm| {
        let other = 1 - comm.rank();
        let lens = [0, 10, 200_000, 300_000];
        let mut arriving: Vec<_> = lens
            .iter()
            .map(|_| comm.ireceive_array(300_000, other, 7).unwrap())
            .collect();
        let nobody = comm.ireceive_array(10, PROC_NULL, 7).unwrap();
        assert!(nobody.is_done());
        assert_eq!(nobody.wait().unwrap().0.len(), 0);
        comm.barrier().unwrap();
        for (salt, len) in lens.into_iter().enumerate() {
            comm.send_array(&filled(&comm, len, salt), other, 7).unwrap();
        }
        let mut got = Vec::new();
        while let Some(first) = Request::wait_ready(arriving.iter().map(Arriving::request)) {
            let (array, status) = arriving.remove(first).wait().unwrap();
            let salt = lens.iter().position(|len| *len == array.len()).unwrap();
            assert!(array[..] == pattern(array.len(), salt) && status.len == array.len() as u64);
            got.push(array.len());
        }
        got.sort_unstable();
        assert_eq!(got, lens);
        // One that is too long is an error, as for any receive.
        let too_short = comm.ireceive_array(5, other, 8).unwrap();
        comm.barrier().unwrap();
        comm.send_array(&filled(&comm, 6, 0), other, 8).unwrap();
        assert_eq!(too_short.wait().unwrap_err().class(), ErrorClass::Truncate);
        assert_eq!(comm.ireceive_array(5, 2, 8).unwrap_err().class(), ErrorClass::Rank);
    });
}

#[test]
fn arrays_that_are_given_up_harm_nobody() {
    job(2, |comm| {
        let other = 1 - comm.rank();
        assert_eq!(
            comm.send_array(&comm.array(10), 2, 0).unwrap_err().class(),
            ErrorClass::Rank
        );
        assert_eq!(
            comm.send_array(&comm.array(10), 1, -3).unwrap_err().class(),
            ErrorClass::Tag
        );
        assert!(comm.poll_array(other, 1).unwrap().is_none());
        for round in 0..20 {
            comm.send_array(&filled(&comm, 200_000, round), other, 0).unwrap();
            let arriving = loop {
                if let Some(arriving) = comm.poll_array(other, 0).unwrap() {
                    break arriving;
                }
            };
            if round % 2 == 0 {
                // Its memory stays until all has landed.
                drop(arriving);
            } else {
                assert!(arriving.wait().unwrap().0[..] == pattern(200_000, round));
            }
        }
        comm.barrier().unwrap();
    });
}
