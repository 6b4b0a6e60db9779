#![expect(unsafe_code, reason = "copies of raw memory are tried alone")]
use core::{
    ptr::NonNull,
    sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed},
};
use std::{collections::VecDeque, sync::Arc, thread, vec, vec::Vec};

use super::{
    copies::{Copies, LINE, machine},
    lines::ring_from,
    owner::Owner,
    places::LEVELS,
    *,
};
use crate::prng::Prng;

#[derive(Debug, PartialEq)]
struct Record {
    number: u32,
    bits: u64,
    data: Vec<u8>,
}

fn pop(consumer: &mut Consumer) -> Option<Record> {
    let front = consumer.front()?;
    let mut data = vec![0; front.len()];
    front.copy_to(&mut data);
    let (number, bits) = (front.number, front.bits);
    front.take();
    Some(Record { number, bits, data })
}

/// A ring is a queue of records of at most so many lines, of which some may not be known to be free yet.
#[test]
fn a_ring_is_a_queue() {
    const STEPS: u32 = if cfg!(miri) { 300 } else { 50_000 };
    for lines in [4, 8, 64] {
        let (mut producer, mut consumer) = ring(lines);
        let (mut model, mut rng) = (VecDeque::new(), Prng::new(lines.into()));
        for number in 0..STEPS {
            if rng.chance(0.5) {
                let most = [ROOM, TWO][usize::from(rng.chance(0.3))];
                let data: Vec<u8> = (0..rng.below(most as u64 + 1)).map(|_| rng.below(256) as u8).collect();
                let lines_of = |data: &Vec<u8>| 1 + usize::from(data.len() > ROOM);
                let used = lines_of(&data) + model.iter().map(|(_, data)| lines_of(data)).sum::<usize>();
                let taken = producer.push(u64::from(number) << 7, number, &data);
                assert!(used <= lines as usize || !taken, "no room is made up");
                assert!(
                    taken || (used - 1) * 4 > lines as usize * 3,
                    "three quarters can be used"
                );
                if taken {
                    model.push_back((number, data));
                }
            } else {
                assert_eq!(consumer.has_record(), !model.is_empty());
                let seen = pop(&mut consumer).map(|record| {
                    assert_eq!(record.bits, u64::from(record.number) << 7);
                    (record.number, record.data)
                });
                assert_eq!(seen, model.pop_front());
            }
        }
    }
}

/// Records of all lengths, with chunks of one level and of two: what is taken is what was pushed, and bytes that wait are
/// not written over.
#[test]
fn long_records_keep_their_bytes() {
    const STEPS: u32 = if cfg!(miri) { 60 } else { 20_000 };
    // (Miri takes minutes for the longest.)
    const MOST: usize = if cfg!(miri) { 9_000 } else { LONG };
    for (lines, levels) in [(4, [256, 0, 0]), (64, [64, 0, 0]), (64, LEVELS)] {
        let (mut producer, mut consumer) = ring_from(lines, levels, u32::MAX - 50);
        let (mut model, mut rng, mut refused) = (VecDeque::new(), Prng::new(lines.into()), 0);
        for number in 0..STEPS {
            // It fills and empties in turn.
            if rng.chance(if number / 200 % 2 == 0 { 0.6 } else { 0.4 }) {
                let most = [ROOM, TWO, 200, 3_000, MOST][rng.below(5) as usize];
                let len = rng.below(most as u64 + 1) as usize;
                let data: Vec<u8> = (0..len).map(|at| (at as u32 ^ number) as u8).collect();
                if producer.push(u64::from(number) << 7, number, &data) {
                    model.push_back(Record {
                        number,
                        bits: u64::from(number) << 7,
                        data,
                    });
                } else {
                    refused += 1;
                }
            } else {
                assert_eq!(pop(&mut consumer), model.pop_front());
            }
        }
        while let Some(record) = pop(&mut consumer) {
            assert_eq!(Some(record), model.pop_front());
        }
        assert!(model.is_empty() && (refused > 0 || cfg!(miri)));
        let most = LONG.min(levels[0].max(levels[1]) as usize * 64 / 2);
        assert!(producer.push(0, 0, &vec![1; most]) && !producer.push(0, 0, &vec![1; most + 1]));
    }
}

/// A stream of records of a kilobyte does not stop as long as they are taken: what was taken is told in time.
#[test]
fn room_for_long_records_comes_back() {
    let (mut producer, mut consumer) = ring_from(64, LEVELS, 0);
    for number in 0..2_000 {
        assert!(producer.push(0, number, &[7; 1_024]), "{number}");
        if number >= 32 {
            assert_eq!(pop(&mut consumer).map(|record| record.number), Some(number - 32));
        }
    }
}

/// An owner that counts.
#[derive(Debug, Default)]
struct Counting {
    has_none: AtomicBool,
    lent: AtomicU32,
    prepared: AtomicUsize,
    back: AtomicUsize,
}

impl Owner for (Arc<Counting>, Box<dyn Owner>) {
    fn lend(&self, is_for_stream: bool) -> bool {
        let lends = !is_for_stream || !self.0.has_none.load(Relaxed);
        self.0.lent.fetch_add(lends.into(), Relaxed);
        lends
    }

    fn prepare(&self, _at: NonNull<u8>, len: usize) {
        self.0.prepared.fetch_add(len, Relaxed);
    }

    fn take_back(&self, _at: NonNull<u8>, len: usize) {
        self.0.back.fetch_add(len, Relaxed);
    }
}

/// A stream gets more room, if its owner has some, and gives it back when it was silent from one rest to the next and all
/// was taken.
#[test]
fn a_stream_has_more_room_for_a_time() {
    let (mut producer, mut consumer) = ring_from(64, LEVELS, 0);
    let owner = Arc::new(Counting::default());
    producer.put_owner(|memory| Box::new((Arc::clone(&owner), memory)));
    let stream = |producer: &mut Producer, consumer: &mut Consumer, most: u32| {
        for number in 0..300 {
            assert!(producer.push(0, number, &[number as u8; 1_024]));
            let record = pop(consumer).expect("it was pushed");
            assert_eq!(record.data, [number as u8; 1_024]);
            assert!(producer.level() <= most as usize);
        }
    };
    owner.has_none.store(true, Relaxed);
    stream(&mut producer, &mut consumer, 0);
    owner.has_none.store(false, Relaxed);
    stream(&mut producer, &mut consumer, 2);
    assert_eq!((producer.level(), owner.lent.load(Relaxed)), (2, 1));

    assert!(producer.push(0, 0, &[7; 1_024]));
    producer.rest();
    producer.rest();
    assert_eq!(producer.level(), 2, "something has not been taken");
    assert!(pop(&mut consumer).is_some());
    consumer.publish();
    producer.rest();
    let beyond_first: u32 = LEVELS[1..].iter().sum();
    assert_eq!(
        (producer.level(), owner.back.load(Relaxed)),
        (0, beyond_first as usize * 64)
    );
    stream(&mut producer, &mut consumer, 2);
    producer.rest();
    assert_eq!(producer.level(), 2, "it was used since the last rest");
}

/// The memory of a stream is prepared piece by piece as the producer comes there, and once.
#[test]
fn memory_of_a_stream_is_prepared_once() {
    let (mut producer, mut consumer) = ring_from(64, LEVELS, 0);
    let owner = Arc::new(Counting::default());
    producer.put_owner(|memory| Box::new((Arc::clone(&owner), memory)));
    let mut carry = |bytes: usize| {
        for _ in 0..bytes / 1_024 {
            assert!(producer.push(0, 0, &[7; 1_024]));
            assert!(pop(&mut consumer).is_some());
        }
        owner.prepared.load(Relaxed)
    };
    // (What comes before it is a stream takes other memory.)
    assert_eq!(carry(256 << 10), 0);
    assert_eq!(carry(64 << 10), 64 << 10);
    assert_eq!(carry(1 << 10), 128 << 10);
    assert_eq!(carry(2 << 20), 2 << 20);
    assert_eq!(carry(2 << 20), 2 << 20);
}

/// (Plain copies between these threads are quick, so those that are timed find that soon: few records.)
#[test]
fn between_far_cores_a_lone_record_lies_where_the_last_one_lay() {
    let (mut producer, mut consumer) = ring_from(64, LEVELS, 0);
    producer.set_far();
    let mut send = |len: usize| {
        assert!(producer.push(0, 0, &vec![5; len]));
        producer.level()
    };
    let mut take = || {
        let front = consumer.front().expect("a record");
        let place = front.chunk;
        front.take();
        consumer.publish();
        place
    };
    // More than what is a stream, but each comes alone.
    let lone: Vec<(usize, u32)> = (0..6).map(|_| (send(LONG), take())).collect();
    assert!(lone.iter().all(|seen| *seen == (1, lone[0].1)), "{lone:?}");
    // Those behind a record that was not taken have places of their own.
    send(1_000);
    send(1_000);
    let places = [take(), take()];
    assert_ne!(places[0], places[1]);
    send(1_000);
    assert_eq!(take(), places[0]);
}

#[test]
fn a_record_that_is_too_long_is_refused() {
    let (mut producer, mut consumer) = ring_from(4, [0; 3], 0);
    assert!(!producer.push(0, 0, &[0; TWO + 1]));
    assert!(pop(&mut consumer).is_none());
    let (mut producer, mut consumer) = ring_from(4, LEVELS, 0);
    assert!(!producer.push(0, 0, &[0; LONG + 1]));
    assert!(pop(&mut consumer).is_none());
}

/// A producer that takes a line back, and goes on behind it.
#[test]
fn a_gap_is_found() {
    for lens in [[8; 3], [8, TWO, 8], [TWO, 8, 8]] {
        let (mut producer, mut consumer) = ring_from(8, [0; 3], 0);
        for turn in 0..20 {
            for len in lens {
                assert!(producer.push(1, turn, &vec![7; len]));
                assert_eq!(consumer.gap(), None, "the next one is there");
            }
            if turn == 19 {
                let at = consumer.position();
                producer.take_back(at);
                assert_eq!((consumer.gap(), pop(&mut consumer)), (Some(at), None));
                break;
            }
            while pop(&mut consumer).is_some() {
                assert_eq!(consumer.gap(), None);
            }
        }
    }
}

#[test]
fn counts_that_begin_anew_change_nothing() {
    let (mut producer, mut consumer) = ring_from(4, [0; 3], u32::MAX - 9);
    for number in 0..100 {
        // (Of one line and of two.)
        let data = vec![number as u8; number as usize];
        assert!(producer.push(1, number, &data), "{number}");
        let seen = pop(&mut consumer).map(|record| (record.number, record.data));
        assert_eq!(seen, Some((number, data)));
        assert!(pop(&mut consumer).is_none(), "{number}");
    }
}

#[test]
fn two_threads_pass_records_on_in_order() {
    const RECORDS: u32 = if cfg!(miri) { 300 } else { 100_000 };
    let (mut producer, mut consumer) = ring(16);
    let bytes = |number: u32| number.to_ne_bytes().repeat(1 + number as usize % 40);
    let writer = thread::spawn(move || {
        for number in 0..RECORDS {
            while !producer.push(!u64::from(number), number, &bytes(number)) {
                thread::yield_now();
            }
        }
    });
    for number in 0..RECORDS {
        let record = loop {
            match pop(&mut consumer) {
                Some(record) => break record,
                None => thread::yield_now(),
            }
        };
        assert_eq!((record.number, record.bits), (number, !u64::from(number)));
        assert_eq!(record.data, bytes(number));
    }
    writer.join().expect("the writer ends");
}

/// One side copies a record out while the other one copies it in: its bytes are those that were sent, and it is seen by
/// those that wait for the whole when it is whole.
#[cfg(feature = "mpi")]
#[test]
fn a_record_is_copied_while_it_comes() {
    const RECORDS: u32 = if cfg!(miri) { 5 } else { 2_000 };
    let (mut producer, mut consumer) = ring_from(16, LEVELS, 0);
    let bytes = |number: u32| number.to_ne_bytes().repeat(LONG / 4 - number as usize % 7);
    let writer = thread::spawn(move || {
        for number in 0..RECORDS {
            let data = bytes(number);
            while !producer.push(0, number, &data) {
                thread::yield_now();
            }
        }
    });
    let mut data = vec![0; LONG];
    for number in 0..RECORDS {
        loop {
            if number % 3 == 0 && consumer.has_record() {
                assert!(consumer.front().is_some_and(|front| front.copy_to(&mut data)));
            } else if number % 3 == 0 || !consumer.front_early().is_some_and(|front| front.copy_to(&mut data)) {
                // (Its producer does not run.)
                thread::yield_now();
                continue;
            }
            break;
        }
        let front = consumer.front().expect("all of it was copied");
        assert_eq!(front.number, number);
        assert_eq!(data[..front.len()], bytes(number));
        front.take();
    }
    writer.join().expect("the writer ends");
}

/// Whichever of the two looks first, a record is not left behind by a consumer that sleeps.
#[test]
fn a_consumer_that_sleeps_is_woken() {
    let (mut producer, consumer) = ring(4);
    assert!(producer.push(0, 0, &[]) && !producer.wakes());
    consumer.set_asleep(true);
    assert!(consumer.has_record(), "the last look before it sleeps");
    assert!(producer.push(0, 1, &[]) && producer.wakes());
    consumer.set_asleep(false);
    assert!(!producer.wakes());
}

#[test]
fn both_sides_of_a_session_get_the_same_rings() {
    let exchange = Exchange::default();
    let side = |processor, session| Side {
        processor,
        session,
        epoch: 7,
    };
    let at = SocketAddr::from(([127, 0, 0, 1], 1));
    let ends = |own, other| exchange.clone().meet(at, own, other).expect("rings");
    let (mut to_b, mut from_b) = ends(side(0, 1), side(1, 1));
    let (mut to_other, _from_other) = ends(side(0, 2), side(1, 1));
    let (mut to_a, mut from_a) = ends(side(1, 1), side(0, 1));
    assert!(to_other.push(0, 9, &[]) && to_b.push(0, 1, &[]) && to_a.push(0, 2, &[]));
    assert_eq!(pop(&mut from_a).map(|record| record.number), Some(1));
    assert_eq!(pop(&mut from_b).map(|record| record.number), Some(2));
    assert!(pop(&mut from_a).is_none() && pop(&mut from_b).is_none());
}

#[test]
fn copies_around_the_caches_copy_all_bytes_and_no_others() {
    let from: Vec<u8> = (0..3_000_u32).map(|at| (at % 251) as u8).collect();
    for begin in [0, 1, 15, 16, 63, 64] {
        for len in [0, 1, 15, 63, 64, 65, 127, 1_000, 2_048, 2_900] {
            for at in [0, 7, 64] {
                let mut to = vec![0xff; 3_000];
                let len = len.min(3_000 - begin.max(at));
                // SAFETY: both have so many bytes from there on.
                unsafe { machine::copy_around(from[begin..].as_ptr(), to[at..].as_mut_ptr(), len) };
                assert_eq!(to[at..at + len], from[begin..begin + len]);
                assert!(to[..at].iter().chain(&to[at + len..]).all(|byte| *byte == 0xff));
            }
        }
    }
}

#[test]
fn slow_copies_go_around_the_caches_until_they_are_quick_again() {
    let mut copies = Copies::default();
    let ticks = |pace: u64| pace * (16 << 10) / LINE as u64;
    copies.note(ticks(1_000_000), 16 << 10);
    assert!(!copies.is_far, "one may have been interrupted");
    let slow: Vec<bool> = (0..4)
        .map(|_| {
            copies.note(ticks(60), 16 << 10);
            copies.is_far
        })
        .collect();
    assert!(slow[3]);
    copies.note(ticks(20), 16 << 10);
    copies.note(ticks(20), 16 << 10);
    assert!(copies.is_far, "they are not quick enough");
    (0..8).for_each(|_| copies.note(ticks(8), 16 << 10));
    assert!(!copies.is_far);
}
