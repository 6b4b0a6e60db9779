use std::{collections::VecDeque, thread, vec::Vec};

use super::{lines::ring_from, *};
use crate::prng::Prng;

/// A ring is a queue of at most so many records, of which some room may not be known to be free yet.
#[test]
fn a_ring_is_a_queue() {
    const STEPS: u32 = if cfg!(miri) { 300 } else { 50_000 };
    for lines in [4, 8, 64] {
        let (mut producer, mut consumer) = ring(lines);
        let (mut model, mut rng) = (VecDeque::new(), Prng::new(lines.into()));
        for number in 0..STEPS {
            if rng.chance(0.5) {
                let data: Vec<u8> = (0..rng.below(ROOM as u64 + 1)).map(|_| rng.below(256) as u8).collect();
                let taken = producer.push(u64::from(number) << 7, number, &data);
                assert!(model.len() < lines as usize || !taken, "no room is made up");
                assert!(
                    taken || model.len() * 4 > lines as usize * 3,
                    "three quarters can be used"
                );
                if taken {
                    model.push_back((number, data));
                }
            } else {
                assert_eq!(consumer.has_record(), !model.is_empty());
                let record = consumer.pop();
                let seen = record.map(|record| {
                    assert_eq!({ record.bits }, u64::from(record.number) << 7);
                    (record.number, record.data().to_vec())
                });
                assert_eq!(seen, model.pop_front());
            }
        }
    }
}

#[test]
fn a_record_that_is_too_long_is_refused() {
    let (mut producer, mut consumer) = ring(4);
    assert!(!producer.push(0, 0, &[0; ROOM + 1]));
    assert!(consumer.pop().is_none());
}

#[test]
fn counts_that_begin_anew_change_nothing() {
    let (mut producer, mut consumer) = ring_from(4, u32::MAX - 9);
    for number in 0..100 {
        assert!(producer.push(1, number, &[]), "{number}");
        assert_eq!(consumer.pop().map(|record| record.number), Some(number));
        assert!(consumer.pop().is_none(), "{number}");
    }
}

#[test]
fn two_threads_pass_records_on_in_order() {
    const RECORDS: u32 = if cfg!(miri) { 300 } else { 100_000 };
    let (mut producer, mut consumer) = ring(16);
    let writer = thread::spawn(move || {
        for number in 0..RECORDS {
            while !producer.push(!u64::from(number), number, &number.to_ne_bytes()) {
                thread::yield_now();
            }
        }
    });
    for number in 0..RECORDS {
        let record = loop {
            match consumer.pop() {
                Some(record) => break record,
                None => thread::yield_now(),
            }
        };
        assert_eq!((record.number, record.bits), (number, !u64::from(number)));
        assert_eq!(record.data(), number.to_ne_bytes());
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
    let ends = |own, other| exchange.clone().meet(own, other).expect("rings");
    let (mut to_b, mut from_b) = ends(side(0, 1), side(1, 1));
    let (mut to_other, _from_other) = ends(side(0, 2), side(1, 1));
    let (mut to_a, mut from_a) = ends(side(1, 1), side(0, 1));
    assert!(to_other.push(0, 9, &[]) && to_b.push(0, 1, &[]) && to_a.push(0, 2, &[]));
    assert_eq!(from_a.pop().map(|record| record.number), Some(1));
    assert_eq!(from_b.pop().map(|record| record.number), Some(2));
    assert!(from_a.pop().is_none() && from_b.pop().is_none());
}
