//! Tests of rings between two threads, and of what a broken side may write into a ring.

use std::{io::IoSlice, sync::Arc, thread};

use super::{Access, CONTROL, Consumer, Corrupt, Place, Producer, Segment};

const KIND: u32 = 1;
const RING: Place = Place {
    control: 0,
    data: 4096,
    size: 4096,
};

fn memory() -> Arc<Segment> {
    Arc::new(Segment::create("test", 8192, Access::Write).unwrap().0)
}

#[test]
fn records_come_in_order_and_whole() {
    let memory = memory();
    let mut producer = Producer::new(Arc::clone(&memory), RING);
    let mut consumer = Consumer::new(Arc::clone(&memory), RING);
    const RECORDS: u32 = if cfg!(miri) { 200 } else { 100_000 };
    let writer = thread::spawn(move || {
        for number in 0..RECORDS {
            let len = (number * 37 % 700) as usize;
            while !producer.has_room(len + 4).unwrap() {
                thread::yield_now();
            }
            let bytes = vec![number as u8; len];
            producer.push(KIND, &[IoSlice::new(&number.to_le_bytes()), IoSlice::new(&bytes)]);
            producer.publish();
        }
    });
    for number in 0..RECORDS {
        let found = loop {
            match consumer.next().unwrap() {
                Some(found) => break found,
                None => thread::yield_now(),
            }
        };
        let mut bytes = vec![0; found.len];
        assert!(memory.copy(found.at, &mut bytes));
        assert_eq!((found.kind, &bytes[..4]), (KIND, &number.to_le_bytes()[..]));
        assert_eq!(bytes.len(), 4 + (number * 37 % 700) as usize);
        assert!(bytes[4..].iter().all(|byte| *byte == number as u8));
        consumer.release();
    }
    writer.join().unwrap();
    assert!(consumer.next().unwrap().is_none());
}

#[test]
fn nobody_sleeps_while_there_is_something() {
    let memory = memory();
    let mut producer = Producer::new(Arc::clone(&memory), RING);
    let mut consumer = Consumer::new(Arc::clone(&memory), RING);
    assert!(consumer.arm().unwrap());
    assert!(!producer.publish(), "there was nothing to show");
    producer.push(KIND, &[]);
    assert!(producer.publish(), "it sleeps");
    producer.push(KIND, &[]);
    assert!(!producer.publish(), "it has been woken up");
    assert!(!consumer.arm().unwrap());
    producer.push(KIND, &[]);
    assert!(!producer.publish());
}

#[test]
fn what_can_not_be_is_found() {
    use std::sync::atomic::Ordering::Relaxed;
    for head in [16 + 4096, u64::MAX, 1 << 40, 8] {
        let memory = memory();
        let mut consumer = Consumer::new(Arc::clone(&memory), RING);
        memory.atomic(0).store(head, Relaxed);
        assert_eq!(consumer.next().err(), Some(Corrupt), "head {head}");
    }
    for header in [u64::MAX, 4096, 1 << 32 | 4089, 2 << 32 | 9] {
        let memory = memory();
        let mut consumer = Consumer::new(Arc::clone(&memory), RING);
        memory.atomic(4096).store(header, Relaxed);
        memory.atomic(0).store(16, Relaxed);
        assert_eq!(consumer.next().err(), Some(Corrupt), "header {header:x}");
    }
    for tail in [32, u64::MAX] {
        let memory = memory();
        let mut producer = Producer::new(Arc::clone(&memory), RING);
        producer.push(KIND, &[]);
        producer.publish();
        memory.atomic(64).store(tail, Relaxed);
        assert_eq!(producer.refresh(), Err(Corrupt), "tail {tail}");
    }
    // The tail must never move back.
    let memory = memory();
    let mut producer = Producer::new(Arc::clone(&memory), RING);
    producer.push(KIND, &[]);
    producer.publish();
    memory.atomic(64).store(16, Relaxed);
    assert_eq!(producer.refresh(), Ok(16));
    memory.atomic(64).store(0, Relaxed);
    assert_eq!(producer.refresh(), Err(Corrupt));
    const { assert!(CONTROL >= 136) };
}

#[test]
fn memory_for_reading_can_not_be_written() {
    use std::os::fd::AsFd;
    let (ours, fd) = Segment::create("test", 4096, Access::Read).unwrap();
    assert!(Segment::map(fd.as_fd(), 4096, Access::Write).is_err());
    let theirs = Segment::map(fd.as_fd(), 4096, Access::Read).unwrap();
    ours.write(7, b"seen");
    let mut bytes = [0; 4];
    assert!(theirs.copy(7, &mut bytes));
    assert_eq!(&bytes, b"seen");
    for outside in [4093, usize::MAX, usize::MAX - 2] {
        assert!(!theirs.copy(outside, &mut bytes) && theirs.number(outside).is_none());
        assert!(theirs.span(outside, 4).is_none());
    }
    assert!(Segment::map(fd.as_fd(), 8192, Access::Read).is_err());
}
