//! One bit of a header flips on the way, and there are no checksums.

use std::{cell::Cell, rc::Rc, time::Duration};

use hikyaku::wire::{Kind, Packet};

use crate::harness::{Job, NodeOptions, World, scenario};

/// A bit that flipped: of which packet, and where it is in the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Flipped {
    kind: Kind,
    bit: usize,
}

/// What has become of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// All messages have arrived.
    Arrived,
    /// A session has ended, with an error that says why.
    Ended,
    /// Neither.
    Stalled,
}

/// Messages of several kinds each way, while bit `bit` of the header of datagram number `nth` flips; and some more when
/// that is long past. `None`: there is no such datagram, or its header is shorter.
fn exchange(seed: u64, nth: usize, bit: usize) -> Option<(Flipped, Outcome)> {
    let mut options = NodeOptions::default();
    options.limits.max_datagram = 1_472;
    let mut world = World::pair(seed, &options);
    world.model.tolerate();
    world.send(0, 1, Job::new(8));
    world.send(1, 0, Job::new(8));
    world.run_for(Duration::from_secs(3));
    let flipped = Rc::new(Cell::new(None));
    let (note, mut left) = (Rc::clone(&flipped), nth);
    world.spoil = Some(Box::new(move |_, bytes| {
        if left > 0 {
            left -= 1;
            return;
        }
        left = usize::MAX;
        let Ok(packet) = Packet::new_checked(&bytes[..]) else {
            return;
        };
        let (kind, len) = (packet.kind(), packet.header_len());
        if bit / 8 < len {
            bytes[bit / 8] ^= 128 >> (bit % 8);
            note.set(Some(Flipped { kind, bit }));
        }
    }));
    let mut sent = 1;
    for len in [3_000, 100, 0, 8, 20_000, 1_000] {
        for (from, to) in [(0, 1), (1, 0)] {
            let mut job = Job::new(len);
            (job.shared, job.tag) = (len == 20_000, (len == 100).then_some(7));
            world.send(from, to, job);
        }
        sent += 1;
        world.run_for(Duration::from_micros(if len == 100 { 700 } else { 5 }));
    }
    world.run_for(Duration::from_secs(1));
    for (from, to) in [(0, 1), (1, 0)] {
        world.send(from, to, Job::new(50));
    }
    world.run_for(Duration::from_secs(20));
    let flipped = flipped.get()?;
    let outcome = if world.nodes.iter().all(|node| node.log.len() > sent) {
        Outcome::Arrived
    } else if world.downs(0).is_empty() && world.downs(1).is_empty() {
        Outcome::Stalled
    } else {
        Outcome::Ended
    };
    Some((flipped, outcome))
}

/// All of `bits` of all datagrams. Gives what has stalled.
fn stalled(seed: u64, bits: std::ops::Range<usize>) -> Vec<(usize, Flipped)> {
    let mut stalled = Vec::new();
    for bit in bits {
        for nth in 0..20 {
            match exchange(seed, nth, bit) {
                Some((flipped, Outcome::Stalled)) => stalled.push((nth, flipped)),
                Some(_) => {}
                None if nth > 8 => break,
                None => {}
            }
        }
    }
    stalled
}

#[test]
fn flipped_destination_stalls_nothing() {
    const DESTINATION: std::ops::Range<usize> = 64..96;
    scenario("flips::flipped_destination_stalls_nothing", 2, |seed| {
        assert_eq!(stalled(seed, DESTINATION), []);
    });
}

#[test]
fn other_flipped_bits_stall_nothing() {
    scenario("flips::other_flipped_bits_stall_nothing", 1, |seed| {
        assert_eq!(stalled(seed, 0..8 * 64), []);
    });
}
