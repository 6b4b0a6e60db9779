//! Requests that are waited for together.
#![expect(unsafe_code, reason = "MPI's engine takes pointers")]

use std::time::Duration;

use hikyaku::mpi::{
    engine::{Communicator, Mode, Request, Status},
    error::{Error, ErrorClass},
};

use crate::support::{byte, job, options, pattern, processes};

/// # Safety
/// Until the request has ended, `data` is not changed.
unsafe fn isend(world: &Communicator, data: &[u8], to: i32, tag: i32) -> Request {
    // SAFETY: the caller's contract.
    unsafe { world.isend(Mode::Standard, data.as_ptr(), data.len() as u64, &byte(), to, tag) }.unwrap()
}

/// # Safety
/// Until the request has ended, nothing else uses `place`.
unsafe fn ireceive(world: &Communicator, place: &mut [u8], from: i32, tag: i32) -> Request {
    // SAFETY: the caller's contract.
    unsafe { world.ireceive(place.as_mut_ptr(), place.len() as u64, &byte(), from, tag) }.unwrap()
}

fn wait_all(requests: &mut [Request]) -> Vec<Result<Status, Error>> {
    let mut all = Vec::new();
    Request::wait_all(requests, |ended| all.push(ended));
    all
}

/// # Safety
/// Until the requests have ended, nothing else uses the places.
unsafe fn ireceive_all(world: &Communicator, places: &mut [[u8; 8]], from: i32) -> Vec<Request> {
    // SAFETY: the caller's contract.
    let begin = |place: &mut [u8; 8]| unsafe { ireceive(world, place, from, 1) };
    places.iter_mut().map(begin).collect()
}

/// Lengths of records in a line, in two, beside them, of packets and of messages that ask first.
const LENS: [usize; 6] = [8, 1, 60, 2_000, 8, 200_000];
/// Other numbers of messages than 64 are not those of a ring, either.
const MESSAGES: usize = 150;

/// Each gets the result of its own message, in the order of the requests, however messages come and whatever lies between;
/// and they are over then.
#[test]
fn results_come_in_the_order_of_the_requests() {
    job(2, |world| {
        let other = world.rank() ^ 1;
        for round in 0..24_usize {
            let (has_long, tags) = (round % 3 == 2, 1 + round % 4);
            let len = |number: usize| if has_long { LENS[number % LENS.len()] } else { 8 };
            let tag = |number: usize| (number % tags) as i32;
            let mut places: Vec<Vec<u8>> = (0..MESSAGES).map(|number| vec![0; len(number)]).collect();
            let sent: Vec<Vec<u8>> = (0..MESSAGES)
                .map(|number| pattern(len(number), number + round))
                .collect();
            if round % 2 == 0 {
                // The messages of some receives have come before these.
                world.barrier().unwrap();
            }
            let mut order: Vec<usize> = (0..MESSAGES).collect();
            if round % 4 == 3 {
                // Another order than that in which they were posted.
                order.sort_by_key(|number| number % 7);
            }
            let mut requests: Vec<Option<Request>> = Vec::new();
            for (number, place) in places.iter_mut().enumerate() {
                // SAFETY: neither is touched before all have ended.
                unsafe {
                    requests.push(Some(ireceive(&world, place, other, tag(number))));
                    requests.push(Some(isend(&world, &sent[number], other, tag(number))));
                }
            }
            let mut sorted: Vec<Request> = Vec::new();
            for number in &order {
                sorted.extend(requests[2 * number].take());
                sorted.extend(requests[2 * number + 1].take());
            }
            let ended = wait_all(&mut sorted);
            assert_eq!(ended.len(), 2 * MESSAGES);
            for (pair, &number) in ended.chunks(2).zip(&order) {
                let received = pair[0].unwrap();
                assert_eq!(
                    (received.source, received.tag, received.len),
                    (other, tag(number), len(number) as u64),
                    "round {round}, message {number}"
                );
                assert_eq!(pair[1].unwrap().len, 0);
            }
            assert_eq!(places, sent, "round {round}");
            assert!(
                wait_all(&mut sorted)
                    .iter()
                    .all(|again| again.unwrap() == Status::EMPTY)
            );
            assert_eq!(world.engine().requests(), 0);
        }
    });
}

/// A message that is too long for its receive is an error in its place, whether it has come before the receive or not, and
/// all others are received.
#[test]
fn one_that_fails_is_told_in_its_place() {
    job(2, |world| {
        let other = world.rank() ^ 1;
        for (failing, has_come) in [(0_u8, false), (5, true), (19, false), (0, true), (19, true)] {
            if world.rank() == 0 {
                for number in 0..20 {
                    let data = vec![number; if number == failing { 40 } else { 8 }];
                    // SAFETY: the data stay until the send has ended.
                    unsafe { isend(&world, &data, other, 1) }.wait().unwrap();
                }
                // The messages have come before this is over.
                if has_come {
                    world.barrier().unwrap();
                }
            } else {
                if has_come {
                    world.barrier().unwrap();
                }
                let mut places = [[0xff_u8; 8]; 20];
                // SAFETY: the places are not touched before all have ended.
                let mut requests = unsafe { ireceive_all(&world, &mut places, other) };
                for (number, ended) in (0..).zip(wait_all(&mut requests)) {
                    match ended {
                        Ok(status) => assert!(number != failing && status.len == 8),
                        Err(error) => {
                            assert_eq!((number, error.class()), (failing, ErrorClass::Truncate));
                            continue;
                        }
                    }
                    assert_eq!(places[usize::from(number)], [number; 8]);
                }
            }
            world.barrier().unwrap();
        }
    });
}

/// What a process has sent before it left is received; the receives after it fail, and none waits for ever.
#[test]
fn receives_of_a_process_that_has_left_fail() {
    processes("loopback", 2, &options(), |world| {
        let other = world.rank() ^ 1;
        if world.rank() == 0 {
            for number in 0..10_u8 {
                // SAFETY: the data stay until the send has ended.
                unsafe { isend(&world, &[number; 8], other, 1) }.wait().unwrap();
            }
        } else {
            let mut places = [[0xff_u8; 8]; 20];
            // SAFETY: the places are not touched before all have ended.
            let mut requests = unsafe { ireceive_all(&world, &mut places, other) };
            for (number, ended) in (0..).zip(wait_all(&mut requests)) {
                match ended {
                    Ok(status) => assert!(number < 10 && status.source == other),
                    Err(error) => assert!(number >= 10 && error.class() == ErrorClass::ProcFailed),
                }
            }
            drop(requests);
            assert!((0..10_u8).all(|number| places[usize::from(number)] == [number; 8]));
        }
        world.finalize(Duration::from_secs(5)).unwrap();
    });
}

/// A communicator that the program has dropped lives as long as its requests need it: of those that are waited for, together
/// or alone, tested or given up.
#[test]
fn requests_outlive_their_communicator() {
    job(2, |world| {
        let other = world.rank() ^ 1;
        for round in 0..40_u8 {
            let (own, second) = (world.duplicate().unwrap(), world.duplicate().unwrap());
            world.barrier().unwrap();
            if world.rank() == 0 {
                for number in 0..6 {
                    // SAFETY: the data stay until the send has ended.
                    unsafe { isend(&own, &[number + round; 8], other, 1) }.wait().unwrap();
                }
                // SAFETY: as above.
                unsafe { isend(&second, &[round; 8], other, 1) }.wait().unwrap();
            } else {
                let (mut places, mut place, mut vain) = ([[0_u8; 8]; 6], [0_u8; 8], [0_u8; 8]);
                // SAFETY: the places are not touched before all have ended, or are cancelled.
                let (mut requests, elsewhere, left) = unsafe {
                    let requests = ireceive_all(&own, &mut places, other);
                    let elsewhere = ireceive(&second, &mut place, other, 1);
                    (requests, elsewhere, ireceive(&own, &mut vain, other, 2))
                };
                drop((own, second));
                let mut last = requests.split_off(4);
                assert!(wait_all(&mut requests).iter().all(Result::is_ok));
                last.pop().unwrap().wait().unwrap();
                while last[0].test().unwrap().is_none() {}
                left.cancel();
                match round % 2 {
                    0 => assert!(left.wait().unwrap().cancelled),
                    _ => drop(left),
                }
                assert_eq!(elsewhere.wait().unwrap().source, other);
                assert_eq!(place, [round; 8]);
                assert!((0..6_u8).all(|number| places[usize::from(number)] == [number + round; 8]));
            }
            world.barrier().unwrap();
        }
        assert_eq!(world.engine().requests(), 0);
    });
}
