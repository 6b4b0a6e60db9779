//! The network: what becomes of a datagram between two nodes.

use std::collections::{BTreeMap, BTreeSet};

use hikyaku::{
    time::Instant,
    wire::{Flags, Kind, Packet},
};

use super::prng::Prng;

/// Bytes of Ethernet, IP and UDP around each datagram.
const OVERHEAD: u64 = 66;

/// How bad a link is. Chances are per mille.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) loss: u32,
    /// Chance that a loss takes the next datagrams with it (each with this chance again).
    pub(crate) loss_run: u32,
    pub(crate) duplicate: u32,
    /// Bits flip (1 to 3 of them).
    pub(crate) corrupt: u32,
    pub(crate) truncate: u32,
    /// Held back by up to `hold_back` ns.
    pub(crate) reorder: u32,
    pub(crate) hold_back: u64,
    /// One-way, ns.
    pub(crate) delay: u64,
    /// Added at random, ns; datagrams overtake each other by it.
    pub(crate) jitter: u64,
    /// Further paths: each datagram takes one at random, with this added delay in ns.
    pub(crate) paths: Vec<u64>,
    /// Bytes a second; 0: no limit.
    pub(crate) rate: u64,
    /// Bytes that wait for the rate; what does not fit is dropped.
    pub(crate) queue: u64,
    /// Largest datagram, bytes of UDP payload.
    pub(crate) mtu: usize,
}

impl Default for Link {
    fn default() -> Self {
        Self {
            loss: 0,
            loss_run: 0,
            duplicate: 0,
            corrupt: 0,
            truncate: 0,
            reorder: 0,
            hold_back: 0,
            delay: 20_000,
            jitter: 0,
            paths: Vec::new(),
            rate: 0,
            queue: 1 << 20,
            mtu: 65_507,
        }
    }
}

impl Link {
    /// The same way, without any fault (but its MTU and rate).
    pub(crate) fn healed(&self) -> Self {
        Self {
            delay: self.delay,
            rate: self.rate,
            queue: self.queue,
            mtu: self.mtu,
            ..Self::default()
        }
    }
}

/// What has left for where, seen on the wire before the network does anything to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) datagrams: u64,
    pub(crate) bytes: u64,
    pub(crate) data: u64,
    pub(crate) acks_alone: u64,
    pub(crate) nacks: u64,
    pub(crate) resets: u64,
    pub(crate) goodbyes: u64,
    pub(crate) probes: u64,
    pub(crate) largest_data: usize,
    pub(crate) lost: u64,
}

#[derive(Default)]
struct Pipe {
    busy_until: Instant,
    losing: bool,
}

impl Pipe {
    /// When a datagram of `len` bytes is through, or `None` if the queue is full.
    fn pass(&mut self, now: Instant, len: usize, rate: u64, queue: u64) -> Option<Instant> {
        if rate == 0 {
            return Some(now);
        }
        let time = |bytes: u64| bytes * 1_000_000_000 / rate;
        let waiting = self.busy_until.nanos_since(now);
        if waiting > time(queue) {
            return None;
        }
        self.busy_until = self.busy_until.max(now).plus_nanos(time(len as u64 + OVERHEAD).max(1));
        Some(self.busy_until)
    }
}

/// All links.
#[derive(Default)]
pub(crate) struct Network {
    pub(crate) usual: Link,
    links: BTreeMap<(usize, usize), Link>,
    /// Bytes a second and queue of the last hop to a node, shared by all who send to it.
    pub(crate) ingress: BTreeMap<usize, (u64, u64)>,
    pipes: BTreeMap<(usize, usize), Pipe>,
    cut: BTreeSet<(usize, usize)>,
    /// Nothing that a node sends by these rails arrives.
    pub(crate) dead_rails: BTreeSet<(usize, u8)>,
    counts: BTreeMap<(usize, usize), Counts>,
}

impl Network {
    pub(crate) fn link(&self, from: usize, to: usize) -> &Link {
        self.links.get(&(from, to)).unwrap_or(&self.usual)
    }

    /// The link from `from` to `to`, to be changed.
    pub(crate) fn link_mut(&mut self, from: usize, to: usize) -> &mut Link {
        let usual = &self.usual;
        self.links.entry((from, to)).or_insert_with(|| usual.clone())
    }

    /// Nothing passes between the two in either direction.
    pub(crate) fn cut(&mut self, a: usize, b: usize) {
        self.cut.extend([(a, b), (b, a)]);
    }

    pub(crate) fn cut_one_way(&mut self, from: usize, to: usize) {
        self.cut.insert((from, to));
    }

    pub(crate) fn join(&mut self, a: usize, b: usize) {
        self.cut.remove(&(a, b));
        self.cut.remove(&(b, a));
    }

    /// Takes all faults away.
    pub(crate) fn heal(&mut self) {
        self.cut.clear();
        self.dead_rails.clear();
        self.usual = self.usual.healed();
        self.links.values_mut().for_each(|link| *link = link.healed());
    }

    pub(crate) fn counts(&self, from: usize, to: usize) -> Counts {
        self.counts.get(&(from, to)).copied().unwrap_or_default()
    }

    pub(crate) fn reset_counts(&mut self) {
        self.counts.clear();
    }

    /// Notes that a packet has left, whatever becomes of it.
    pub(crate) fn count(&mut self, way: (usize, usize), packet: &Packet<&[u8]>, len: usize) {
        let counts = self.counts.entry(way).or_default();
        counts.datagrams += 1;
        counts.bytes += len as u64;
        match packet.kind() {
            Kind::Data => {
                counts.data += 1;
                counts.largest_data = counts.largest_data.max(len);
            }
            Kind::Ack => counts.acks_alone += 1,
            Kind::Reset => counts.resets += 1,
            Kind::Goodbye => counts.goodbyes += 1,
            Kind::Probe | Kind::ProbeAck => counts.probes += 1,
            Kind::Return | Kind::Challenge | Kind::Settle | Kind::Settled => {}
        }
        counts.nacks += u64::from(packet.flags().contains(Flags::NACK));
    }

    /// Carries a datagram: gives when copies of it arrive, and as what.
    pub(crate) fn carry(
        &mut self,
        now: Instant,
        rng: &mut Prng,
        way: (usize, usize),
        bytes: &[u8],
        dont_fragment: bool,
        arrive: &mut dyn FnMut(Instant, Vec<u8>),
    ) {
        if self.try_carry(now, rng, way, bytes, dont_fragment, arrive).is_none() {
            self.counts.entry(way).or_default().lost += 1;
        }
    }

    fn try_carry(
        &mut self,
        now: Instant,
        rng: &mut Prng,
        way: (usize, usize),
        bytes: &[u8],
        dont_fragment: bool,
        arrive: &mut dyn FnMut(Instant, Vec<u8>),
    ) -> Option<()> {
        let link = self.links.get(&way).unwrap_or(&self.usual);
        if self.cut.contains(&way) || dont_fragment && bytes.len() > link.mtu {
            return None;
        }
        let pipe = self.pipes.entry(way).or_default();
        let chance = if pipe.losing { link.loss_run } else { link.loss };
        pipe.losing = rng.chance(chance);
        if pipe.losing {
            return None;
        }
        let through = pipe.pass(now, bytes.len(), link.rate, link.queue)?;
        let copies = 1 + u64::from(rng.chance(link.duplicate));
        for _ in 0..copies {
            let mut delay = link.delay;
            if link.jitter > 0 {
                delay += rng.below(link.jitter);
            }
            if !link.paths.is_empty() {
                delay += rng.pick(&link.paths);
            }
            if rng.chance(link.reorder) {
                delay += rng.below(link.hold_back.max(1));
            }
            let mut at = through.plus_nanos(delay);
            if let Some(&(rate, queue)) = self.ingress.get(&way.1) {
                let port = self.pipes.entry((usize::MAX, way.1)).or_default();
                let Some(passed) = port.pass(at, bytes.len(), rate, queue) else {
                    continue;
                };
                at = passed;
            }
            arrive(at, spoil(rng, link, bytes));
        }
        Some(())
    }
}

/// Flips bits and cuts off the end.
fn spoil(rng: &mut Prng, link: &Link, bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if rng.chance(link.truncate) {
        bytes.truncate(rng.below(bytes.len() as u64) as usize);
    }
    if rng.chance(link.corrupt) && !bytes.is_empty() {
        for _ in 0..rng.between(1, 3) {
            // Half of the time in the header, where it hurts.
            let within = if rng.chance(500) {
                bytes.len().min(64)
            } else {
                bytes.len()
            };
            bytes[rng.below(within as u64) as usize] ^= 1 << rng.below(8);
        }
    }
    bytes
}
