//! One medium for all hosts: carrier sense, collisions, exponential back-off (IEEE 802.3 clause 4).

use std::collections::VecDeque;

use super::{
    network::{Network, NetworkStats},
    queue::{Event, Queue},
};
use crate::prng::Prng;

/// A host gives up a packet after this many collisions.
const ATTEMPTS: u32 = 16;
/// The range of random waits stops growing after this many collisions.
const LIMIT: u32 = 10;
/// The unit of random waits, bits: longer than the round trip of the medium.
const SLOT: u64 = 512;
/// Bits of a colliding packet that are sent in any case: preamble and jam.
const FRAGMENT: u64 = 96;

/// The number in [`Event::Medium`] is a host, or this value: time to see which hosts have begun.
const SETTLE: u32 = u32::MAX;

#[derive(Debug, Default)]
struct Station {
    /// Packets to send, and their sizes on the medium, bytes.
    waiting: VecDeque<(u32, u32)>,
    bytes: u32,
    attempts: u32,
}

/// Times are in ps. A host with packets either has an attempt scheduled or is sending; never both.
#[derive(Debug)]
pub(super) struct Medium {
    byte: u64,
    delay: u64,
    limit: u32,
    stations: Vec<Station>,
    idle_at: u64,
    begun: u64,
    talking: Vec<u32>,
    rng: Prng,
}

impl Medium {
    pub(super) fn new(network: &Network, hosts: u32, seed: u64) -> Self {
        Self {
            byte: network.byte(),
            delay: network.delay.as_nanos() as u64 * 1_000,
            limit: network.queue,
            stations: (0..hosts).map(|_| Station::default()).collect(),
            idle_at: 0,
            begun: 0,
            talking: Vec::new(),
            rng: Prng::new(seed),
        }
    }

    /// Bytes that wait at a host.
    pub(super) fn waiting(&self, host: u32) -> u32 {
        self.stations[host as usize].bytes
    }

    /// A host has a packet of `bytes` bytes to send. False: its queue is full.
    pub(super) fn offer(&mut self, queue: &mut Queue, now: u64, host: u32, packet: u32, bytes: u32) -> bool {
        let station = &mut self.stations[host as usize];
        if station.bytes + bytes > self.limit {
            return false;
        }
        station.bytes += bytes;
        station.waiting.push_back((packet, bytes));
        if station.waiting.len() == 1 {
            queue.push(now, Event::Medium(host));
        }
        true
    }

    /// Handles an attempt of a host, or `SETTLE`. Gives a packet that is lost, if one is.
    pub(super) fn handle(&mut self, queue: &mut Queue, now: u64, who: u32, stats: &mut NetworkStats) -> Option<u32> {
        if who == SETTLE {
            return self.settle(queue, stats);
        }
        let now = now * 1_000;
        if !self.talking.is_empty() {
            // Other hosts have begun to send, which this one does not hear yet.
            self.talking.push(who);
        } else if now < self.idle_at {
            queue.push(self.idle_at.div_ceil(1_000), Event::Medium(who));
        } else {
            self.begun = now;
            self.talking.push(who);
            queue.push((now + self.delay).div_ceil(1_000), Event::Medium(SETTLE));
        }
        None
    }

    /// By now every host hears that a host has begun to send.
    fn settle(&mut self, queue: &mut Queue, stats: &mut NetworkStats) -> Option<u32> {
        let bit = self.byte / 8;
        if let [host] = self.talking[..] {
            self.talking.clear();
            let (packet, bytes) = self.next(host)?;
            self.idle_at = self.begun + u64::from(bytes) * self.byte;
            queue.push((self.idle_at + self.delay).div_ceil(1_000), Event::Arrive(packet));
            self.again(queue, host, self.idle_at);
            return None;
        }
        stats.collisions += 1;
        self.idle_at = self.begun + 2 * self.delay + FRAGMENT * bit;
        let mut lost = None;
        for host in std::mem::take(&mut self.talking) {
            let station = &mut self.stations[host as usize];
            station.attempts += 1;
            let mut slots = 0;
            if station.attempts >= ATTEMPTS && lost.is_none() {
                stats.given_up += 1;
                lost = self.next(host).map(|(packet, _)| packet);
            } else {
                let range = 1 << station.attempts.min(LIMIT);
                slots = self.rng.next_u64() % range;
            }
            self.again(queue, host, self.idle_at + slots * SLOT * bit);
        }
        lost
    }

    /// Removes a host's first packet from its queue.
    fn next(&mut self, host: u32) -> Option<(u32, u32)> {
        let station = &mut self.stations[host as usize];
        let next = station.waiting.pop_front()?;
        station.bytes -= next.1;
        station.attempts = 0;
        Some(next)
    }

    /// Schedules the next attempt of a host, if it has a packet.
    fn again(&self, queue: &mut Queue, host: u32, at: u64) {
        if !self.stations[host as usize].waiting.is_empty() {
            queue.push(at.div_ceil(1_000), Event::Medium(host));
        }
    }
}
