//! Point to point.

use hikyaku::mpi::{
    datatype::{Datatype, Kind},
    engine::{ANY_SOURCE, ANY_TAG, Communicator, Mode, PROC_NULL, Request, Status},
    error::{Error, ErrorClass},
};

use super::support::{THREADS, byte, job, job_on, options, pattern};

pub(crate) fn send(comm: &Communicator, data: &[u8], to: i32, tag: i32) -> Result<(), Error> {
    // SAFETY: `data` is borrowed until the call returns, when it is not needed any more.
    unsafe { comm.send(Mode::Standard, data.as_ptr(), data.len() as u64, &byte(), to, tag) }
}

pub(crate) fn receive(comm: &Communicator, data: &mut [u8], from: i32, tag: i32) -> Result<Status, Error> {
    // SAFETY: as above.
    unsafe { comm.receive(data.as_mut_ptr(), data.len() as u64, &byte(), from, tag) }
}

/// Every rank sends to every rank, itself included, messages of several sizes, and receives them by source and tag.
pub(crate) fn all_to_all(comm: &Communicator, sizes: &[usize]) {
    let (rank, size) = (comm.rank() as usize, comm.size() as usize);
    let mut requests = Vec::new();
    let mut buffers = Vec::new();
    for from in 0..size {
        for (tag, &len) in sizes.iter().enumerate() {
            let mut buffer = vec![0; len];
            // SAFETY: the buffer is on the heap, kept until all requests have been waited for, and not touched before.
            let request = unsafe { comm.ireceive(buffer.as_mut_ptr(), len as u64, &byte(), from as i32, tag as i32) };
            requests.push(request.unwrap());
            buffers.push((from, tag, buffer));
        }
    }
    let outgoing: Vec<(usize, usize, Vec<u8>)> = (0..size)
        .flat_map(|to| {
            sizes
                .iter()
                .enumerate()
                .rev()
                .map(move |(tag, &len)| (to, tag, pattern(len, rank * 100 + to * 10 + tag)))
        })
        .collect();
    for (to, tag, data) in &outgoing {
        // SAFETY: `outgoing` lives until all requests have been waited for.
        let request = unsafe {
            comm.isend(
                Mode::Standard,
                data.as_ptr(),
                data.len() as u64,
                &byte(),
                *to as i32,
                *tag as i32,
            )
        };
        requests.push(request.unwrap());
    }
    for request in requests {
        request.wait().unwrap();
    }
    for (from, tag, buffer) in buffers {
        assert!(
            buffer == pattern(buffer.len(), from * 100 + rank * 10 + tag),
            "{from} -> {rank}, tag {tag}"
        );
    }
}

#[test]
fn everybody_to_everybody() {
    for backend in ["loopback", "udp"] {
        job_on(backend, 4, &options(), |comm| {
            all_to_all(&comm, &[0, 1, 100, 16_384, 16_385, 200_000, 3_000_000]);
            assert_eq!(comm.engine().requests(), 0);
        });
    }
}

#[test]
fn wildcards_probe_and_order() {
    job(3, |comm| {
        let second = comm.duplicate().unwrap();
        if comm.rank() == 0 {
            for _ in 0..200 {
                let status = comm.probe(ANY_SOURCE, ANY_TAG).unwrap();
                let mut data = vec![0; status.len as usize];
                let got = receive(&comm, &mut data, status.source, status.tag).unwrap();
                assert_eq!(got, status);
                assert_eq!(data, pattern(status.len as usize, status.tag as usize));
            }
            // In order from each, whatever the size.
            for from in 1..3 {
                for n in 0..50 {
                    let message = second.mprobe(from, 7).unwrap();
                    let len = message.status().len as usize;
                    assert_eq!(len, n * 997);
                    let mut data = vec![0; len];
                    // SAFETY: borrowed until it is waited for.
                    let request = unsafe { Communicator::imreceive(message, data.as_mut_ptr(), len as u64, &byte()) };
                    request.unwrap().wait().unwrap();
                    assert!(data == pattern(len, n));
                }
            }
            assert_eq!(comm.iprobe(ANY_SOURCE, ANY_TAG).unwrap(), None);
        } else {
            for n in 0..100 {
                send(&comm, &pattern(n * 400, n), 0, n as i32).unwrap();
            }
            for n in 0..50 {
                send(&second, &pattern(n * 997, n), 0, 7).unwrap();
            }
        }
    });
}

/// Messages that a matched probe finds one at a time, as each is sent after the one before has been received.
#[test]
fn matched_probes_in_turn() {
    job(2, |comm| {
        let other = 1 - comm.rank();
        for (n, len) in [0, 1, 47, 48, 49, 1_000, 1_024, 1_025, 70_000, 8]
            .into_iter()
            .enumerate()
        {
            let data = pattern(len, n);
            for turn in 0..2 {
                if comm.rank() == turn {
                    send(&comm, &data, other, n as i32).unwrap();
                    continue;
                }
                let from = if n % 2 == 0 { other } else { ANY_SOURCE };
                let message = comm.mprobe(from, ANY_TAG).unwrap();
                let status = message.status();
                assert_eq!((status.source, status.tag, status.len), (other, n as i32, len as u64));
                // The last one does not fit.
                let mut room = vec![0; if len == 8 { 7 } else { len }];
                let count = room.len() as u64;
                // SAFETY: `room` is borrowed until the call returns.
                let received = unsafe { Communicator::mreceive(message, room.as_mut_ptr(), count, &byte()) };
                if room.len() < len {
                    assert_eq!(received.unwrap_err().class(), ErrorClass::Truncate);
                } else {
                    assert_eq!(received, Ok(status));
                }
                assert!(room == data[..room.len()], "{len} bytes");
            }
        }
        assert_eq!(comm.engine().requests(), 0);
    });
}

#[test]
fn errors_name_the_call_and_the_rank() {
    job(2, |comm| {
        let mut room = [0; 10];
        let wrong = send(&comm, &room, 7, 0).unwrap_err();
        assert_eq!(wrong.class(), ErrorClass::Rank);
        assert!(
            wrong.to_string().contains("MPI_Send") && wrong.to_string().contains("rank 7"),
            "{wrong}"
        );
        assert_eq!(send(&comm, &room, 1, -5).unwrap_err().class(), ErrorClass::Tag);
        assert_eq!(receive(&comm, &mut room, 9, 0).unwrap_err().class(), ErrorClass::Rank);
        assert_eq!(receive(&comm, &mut room, PROC_NULL, 0), Ok(Status::NULL));
        assert_eq!(send(&comm, &room, PROC_NULL, 0), Ok(()));
        if comm.rank() == 0 {
            for len in [100, 200_000, 10] {
                send(&comm, &pattern(len, 1), 1, 3).unwrap();
            }
        } else {
            for len in [100, 200_000] {
                let long = receive(&comm, &mut room, 0, 3).unwrap_err();
                assert_eq!(long.class(), ErrorClass::Truncate, "{long}");
                assert!(long.to_string().contains(&len.to_string()));
                assert_eq!(room, pattern(len, 1)[..10]);
            }
            assert_eq!(receive(&comm, &mut room, 0, 3).unwrap().len, 10);
        }
    });
}

#[test]
fn synchronous_sends_end_when_they_are_received() {
    job(2, |comm| {
        if comm.rank() == 0 {
            let data = [1, 2, 3];
            // SAFETY: borrowed until it is waited for.
            let request = unsafe { comm.isend(Mode::Synchronous, data.as_ptr(), 3, &byte(), 1, 1) };
            let mut request = request.unwrap();
            send(&comm, &data, 1, 2).unwrap();
            receive(&comm, &mut [0], 1, 0).unwrap();
            // The other one has received only the second message.
            assert_eq!(request.test().unwrap(), None);
            send(&comm, &data, 1, 2).unwrap();
            request.wait().unwrap();
        } else {
            let mut data = [0; 3];
            receive(&comm, &mut data, 0, 2).unwrap();
            send(&comm, &[9], 0, 0).unwrap();
            receive(&comm, &mut data, 0, 2).unwrap();
            receive(&comm, &mut data, 0, 1).unwrap();
            assert_eq!(data, [1, 2, 3]);
        }
    });
}

#[test]
fn waiting_for_any_and_some_and_cancelling() {
    job(2, |comm| {
        let mut rooms = [[0_u8; 4]; 5];
        if comm.rank() == 0 {
            for tag in [3, 1, 4, 2] {
                receive(&comm, &mut [0], 1, 9).unwrap();
                send(&comm, &[tag as u8; 4], 1, tag).unwrap();
            }
            return;
        }
        let base = rooms.as_mut_ptr().cast::<u8>();
        let mut requests: Vec<Option<Request>> = (0..5)
            // SAFETY: each has four bytes of `rooms`, which is not touched before all have ended.
            .map(|tag| Some(unsafe { comm.ireceive(base.add(4 * tag), 4, &byte(), 0, tag as i32) }.unwrap()))
            .collect();
        for expected in [3, 1] {
            send(&comm, &[0], 0, 9).unwrap();
            let (index, status) = Request::wait_any(&mut requests).unwrap();
            assert_eq!((index, status.unwrap().tag), (expected, expected as i32));
        }
        let mut found = Vec::new();
        for _ in 0..2 {
            send(&comm, &[0], 0, 9).unwrap();
        }
        while found.len() < 2 {
            found.extend(Request::wait_some(&mut requests).into_iter().map(|(index, _)| index));
        }
        found.sort_unstable();
        assert_eq!(found, [2, 4]);
        let last = requests[0].take().unwrap();
        last.cancel();
        assert!(last.wait().unwrap().cancelled);
        assert!(Request::wait_any(&mut requests).is_none());
        assert_eq!(rooms, [[0; 4], [1; 4], [2; 4], [3; 4], [4; 4]]);
    });
}

#[test]
fn derived_datatypes_on_both_sides() {
    job(2, |comm| {
        for count in [10_i64, 30_000] {
            let f64s = Datatype::predefined(Kind::F64);
            let strided = Datatype::vector(count, 2, 5, &f64s).unwrap();
            let len = count as usize * 5;
            if comm.rank() == 0 {
                let data: Vec<f64> = (0..len).map(|i| i as f64).collect();
                // SAFETY: all data of the type lie in `data`, which is borrowed meanwhile.
                unsafe { comm.send(Mode::Standard, data.as_ptr().cast(), 1, &strided, 1, 0) }.unwrap();
                // SAFETY: as above.
                unsafe { comm.send(Mode::Standard, data.as_ptr().cast(), 2 * count as u64, &f64s, 1, 0) }.unwrap();
            } else {
                let mut plain = vec![0.0_f64; 2 * count as usize];
                // SAFETY: as above.
                unsafe { comm.receive(plain.as_mut_ptr().cast(), 2 * count as u64, &f64s, 0, 0) }.unwrap();
                assert!(plain.iter().enumerate().all(|(i, x)| *x == (i / 2 * 5 + i % 2) as f64));
                let mut spread = vec![-1.0_f64; len];
                // SAFETY: as above.
                unsafe { comm.receive(spread.as_mut_ptr().cast(), 1, &strided, 0, 0) }.unwrap();
                for (i, x) in spread.iter().enumerate() {
                    let expected = if i % 5 < 2 { (i / 5 * 2 + i % 5) as f64 } else { -1.0 };
                    assert!(*x == expected, "{i}: {x}");
                }
            }
        }
    });
}

#[test]
fn threads_share_a_rank() {
    if !THREADS {
        return;
    }
    job(2, |comm| {
        let other = 1 - comm.rank();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let comm = &comm;
                scope.spawn(move || {
                    for n in 0..100 {
                        let data = pattern(n * 50, thread);
                        let mut room = vec![0; data.len()];
                        if comm.rank() == 0 {
                            send(comm, &data, other, thread as i32).unwrap();
                            receive(comm, &mut room, other, thread as i32).unwrap();
                        } else {
                            receive(comm, &mut room, other, thread as i32).unwrap();
                            send(comm, &data, other, thread as i32).unwrap();
                        }
                        assert!(room == data);
                    }
                });
            }
        });
    });
}

#[test]
fn a_revoked_communicator_ends_what_is_pending() {
    job(2, |comm| {
        let dup = comm.duplicate().unwrap();
        let mut room = [0; 4];
        // SAFETY: borrowed until it has ended.
        let request = unsafe { dup.ireceive(room.as_mut_ptr(), 4, &byte(), 1 - comm.rank(), 0) }.unwrap();
        dup.revoke();
        assert_eq!(request.wait().unwrap_err().class(), ErrorClass::Revoked);
        assert_eq!(dup.barrier().unwrap_err().class(), ErrorClass::Revoked);
        comm.barrier().unwrap();
    });
}

/// Small messages go even if nobody has received anything yet, also before the receiver has said how much room it has.
#[test]
fn many_small_messages_need_no_receive() {
    job(2, |comm| {
        let byte = byte();
        let (small, last) = (pattern(1_000, 1), pattern(1, 2));
        if comm.rank() == 0 {
            for _ in 0..500 {
                // SAFETY: borrowed until it has ended.
                unsafe { comm.send(Mode::Standard, small.as_ptr(), 1_000, &byte, 1, 1) }.unwrap();
            }
            // SAFETY: as above.
            unsafe { comm.send(Mode::Standard, last.as_ptr(), 1, &byte, 1, 2) }.unwrap();
        } else {
            let mut buffer = vec![0; 1_000];
            // SAFETY: borrowed until it has ended.
            unsafe { comm.receive(buffer.as_mut_ptr(), 1_000, &byte, 0, 2) }.unwrap();
            for _ in 0..500 {
                // SAFETY: as above.
                unsafe { comm.receive(buffer.as_mut_ptr(), 1_000, &byte, 0, 1) }.unwrap();
                assert_eq!(buffer, small);
            }
        }
    });
}

#[test]
fn the_first_message_may_take_more_than_is_granted_before_an_answer() {
    for backend in ["loopback", "udp"] {
        job_on(backend, 2, &options(), |comm| {
            let len = 60_000;
            if comm.rank() == 0 {
                let data = pattern(len, 3);
                // SAFETY: it is borrowed until it has ended.
                unsafe { comm.send(Mode::Standard, data.as_ptr(), len as u64, &byte(), 1, 0) }.unwrap();
            } else {
                let mut data = vec![0; len];
                // SAFETY: as above.
                unsafe { comm.receive(data.as_mut_ptr(), len as u64, &byte(), 0, 0) }.unwrap();
                assert_eq!(data, pattern(len, 3));
            }
        });
    }
}
