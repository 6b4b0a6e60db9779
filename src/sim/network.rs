//! Wires, switches, and the packets on them.

use std::{fmt, time::Duration};

use super::queue::{Event, Queue};
use crate::{
    prng::{Prng, mix},
    wire::{self, Kind},
};

/// Octets that UDP and IPv4 put before a datagram.
const UDP_IPV4: u32 = 28;

/// How hosts are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    /// All on one switch, which has a queue for each of its outputs.
    Switch,
    /// A wire from each host, at the end of which is whoever a packet is for: nothing lies in between (light paths).
    Direct,
    /// One medium for all, one packet at a time: 10BASE-T with a hub (S4.8). Whoever wants to send first is first; there
    /// are no collisions, so it is as good as such a network can be. Each host has a queue of its own.
    Shared,
    /// Leaf switches with `hosts` hosts each, every one connected to each of `spines` others. Which spine packets take
    /// follows from their source and destination (ECMP), so packets of a pair do not overtake each other.
    LeafSpine {
        /// Hosts on a leaf switch; at least 1.
        hosts: u32,
        /// Spine switches; at least 1. As many as `hosts` for full bisection bandwidth.
        spines: u32,
    },
}

/// A network: [`Network::default`] is 10 Gb/s Ethernet with one switch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Network {
    /// How hosts are connected.
    pub topology: Topology,
    /// Bits per second of each wire. 1 kb/s to 1 Tb/s; default 10 Gb/s.
    pub bandwidth: f64,
    /// From one end of a wire to the other. Up to 1 s; default 500 ns, which includes the switch behind it.
    pub delay: Duration,
    /// What each message takes of the first wire beside its octets: g of LogGP, α of S3.1. Up to 1 s; default 0.
    pub gap: Duration,
    /// Largest IP packet, octets. 576 to 65,535; default 1,500.
    pub mtu: u32,
    /// Octets that a packet takes on the wire beside the IP packet. Up to 1,000; default 38: Ethernet's header, checksum,
    /// preamble and gap.
    pub framing: u32,
    /// Octets that wait before a wire; what comes to a full queue is lost. At least one packet; default 512 KiB.
    pub queue: u32,
    /// A packet that finds more octets than this waiting is counted as marked (ECN). Default 64 KiB.
    pub mark: u32,
    /// Wires between a host and its switch; packets take them in turn (S2.6). 1 to 64; default 1.
    pub rails: u32,
    /// The part of all packets that is lost beside those, as drawn by the seed. 0 to 1; default 0.
    pub loss: f64,
}

impl Default for Network {
    fn default() -> Self {
        Self {
            topology: Topology::Switch,
            bandwidth: 10e9,
            delay: Duration::from_nanos(500),
            gap: Duration::ZERO,
            mtu: 1_500,
            framing: 38,
            queue: 512 << 10,
            mark: 64 << 10,
            rails: 1,
            loss: 0.0,
        }
    }
}

/// A parameter of a simulation that makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeError {
    /// Its name: a field of [`Network`], [`Cpu`](super::Cpu) or [`Simulation`](super::Simulation).
    pub name: &'static str,
    /// What it must be.
    pub range: &'static str,
}

impl fmt::Display for RangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "parameter `{}` of the simulation must be {}", self.name, self.range)
    }
}

impl std::error::Error for RangeError {}

impl Network {
    /// 10BASE-T, one medium for all (S4.8).
    #[must_use]
    pub fn ethernet_10() -> Self {
        Self {
            topology: Topology::Shared,
            bandwidth: 10e6,
            delay: Duration::from_micros(1),
            queue: 64 << 10,
            mark: 32 << 10,
            ..Self::default()
        }
    }

    /// Checks every range.
    ///
    /// # Errors
    /// The first that is out of its range.
    pub fn validate(&self) -> Result<(), RangeError> {
        let checks = [
            (
                (1e3..=1e12).contains(&self.bandwidth),
                "bandwidth",
                "from 1e3 to 1e12 bits per second",
            ),
            (self.delay <= Duration::from_secs(1), "delay", "at most 1 s"),
            (self.gap <= Duration::from_secs(1), "gap", "at most 1 s"),
            ((576..=65_535).contains(&self.mtu), "mtu", "from 576 to 65535 octets"),
            (self.framing <= 1_000, "framing", "at most 1000 octets"),
            (
                (self.mtu + self.framing..=1 << 30).contains(&self.queue),
                "queue",
                "from one packet (mtu + framing) to 1 GiB",
            ),
            ((1..=64).contains(&self.rails), "rails", "from 1 to 64"),
            ((0.0..=1.0).contains(&self.loss), "loss", "from 0 to 1"),
            (
                !matches!(
                    self.topology,
                    Topology::LeafSpine { hosts: 0, .. } | Topology::LeafSpine { spines: 0, .. }
                ),
                "topology",
                "of at least one host on a leaf, and one spine",
            ),
            (
                self.topology != Topology::Shared || self.rails == 1,
                "rails",
                "1 where all share one medium",
            ),
        ];
        match checks.iter().find(|(valid, ..)| !valid) {
            Some(&(_, name, range)) => Err(RangeError { name, range }),
            None => Ok(()),
        }
    }

    /// Octets of the largest datagram.
    pub(super) fn datagram(&self) -> usize {
        (self.mtu - UDP_IPV4) as usize
    }

    /// Time of one octet on a wire, ps.
    fn octet(&self) -> u64 {
        (8e12 / self.bandwidth).round().max(1.0) as u64
    }
}

/// What has become of packets. Each packet is counted once per wire, but for `sent` and `delivered`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NetworkStats {
    /// Packets that hosts have sent.
    pub sent: u64,
    /// Octets of these as datagrams.
    pub octets: u64,
    /// Packets that have come to their hosts.
    pub delivered: u64,
    /// Lost since a queue of the network was full.
    pub overflowed: u64,
    /// Lost since the host had not taken enough of what came before.
    pub unread: u64,
    /// Lost by chance.
    pub lost: u64,
    /// Have found a long queue.
    pub marked: u64,
}

/// Messages that begin in a datagram.
fn messages(data: &[u8]) -> u64 {
    let Ok(packet) = wire::Packet::new_checked(data) else {
        return 0;
    };
    let continues = packet.fragment().is_some_and(|fragment| fragment.offset > 0)
        || packet.placement().is_some_and(|placement| placement.offset > 0);
    match packet.kind() {
        _ if continues => 0,
        Kind::Data => packet.records().count().max(1) as u64,
        _ => 0,
    }
}

/// One datagram under way.
#[derive(Debug, Default)]
pub(super) struct Packet {
    pub(super) data: Vec<u8>,
    pub(super) source: u32,
    pub(super) destination: u32,
    wire: u32,
}

/// A network with packets on it.
///
/// A wire and the queue before it are one number: when the last octet that has been accepted will be sent. So a packet is
/// one event per wire. Wires are numbered: from hosts (those of one host together), to hosts, between switches.
#[derive(Debug)]
pub(super) struct Wires {
    network: Network,
    hosts: u32,
    /// Time of one octet, ps, and the wire's delay.
    octet: u64,
    delay: u64,
    /// Time of each message, ps.
    gap: u64,
    /// When each wire is free, ps.
    free_at: Vec<u64>,
    /// Octets that wait at each host; only where the medium is shared.
    waiting: Vec<u32>,
    /// Next rail of each host; only where there are several.
    turns: Vec<u8>,
    packets: Vec<Packet>,
    free: Vec<u32>,
    rng: Prng,
    pub(super) stats: NetworkStats,
}

impl Wires {
    pub(super) fn new(network: Network, hosts: u32, seed: u64) -> Self {
        let wires = match network.topology {
            Topology::Shared => 1,
            Topology::Direct => hosts * network.rails,
            Topology::Switch => 2 * hosts * network.rails,
            Topology::LeafSpine { hosts: leaf, spines } => {
                2 * hosts * network.rails + 2 * hosts.div_ceil(leaf) * spines
            }
        };
        let only = |wanted: bool| if wanted { hosts as usize } else { 0 };
        Self {
            network,
            hosts,
            octet: network.octet(),
            delay: network.delay.as_nanos() as u64 * 1_000,
            gap: network.gap.as_nanos() as u64 * 1_000,
            free_at: vec![0; wires as usize],
            waiting: vec![0; only(network.topology == Topology::Shared)],
            turns: vec![0; only(network.rails > 1)],
            packets: Vec::new(),
            free: Vec::new(),
            rng: Prng::new(seed),
            stats: NetworkStats::default(),
        }
    }

    /// An empty packet, to be filled and given to [`send`](Self::send).
    pub(super) fn packet(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.packets.push(Packet::default());
            self.packets.len() as u32 - 1
        })
    }

    pub(super) fn get(&mut self, packet: u32) -> &mut Packet {
        &mut self.packets[packet as usize]
    }

    /// The packet is over.
    pub(super) fn drop_packet(&mut self, packet: u32) {
        self.packets[packet as usize].data.clear();
        self.free.push(packet);
    }

    /// Host `source` sends a packet at `now`, ns.
    pub(super) fn send(&mut self, queue: &mut Queue, now: u64, packet: u32, source: u32, destination: u32) {
        let wire = match self.network.topology {
            Topology::Shared => 0,
            Topology::Direct | Topology::Switch | Topology::LeafSpine { .. } => {
                source * self.network.rails + self.rail(source)
            }
        };
        let p = &mut self.packets[packet as usize];
        (p.source, p.destination) = (source, destination);
        self.stats.sent += 1;
        self.stats.octets += p.data.len() as u64;
        if self.gap > 0 {
            let gap = self.gap * messages(&p.data);
            let free_at = &mut self.free_at[wire as usize];
            *free_at = (*free_at).max(now * 1_000) + gap;
        }
        self.enter(queue, now, packet, wire);
    }

    /// A packet has come to the end of its wire. Gives whether that is its host.
    pub(super) fn arrive(&mut self, queue: &mut Queue, now: u64, packet: u32) -> bool {
        let &mut Packet {
            source,
            destination,
            wire,
            ..
        } = self.get(packet);
        let ends = self.hosts * self.network.rails;
        match self.network.topology {
            Topology::Shared => {
                let octets = self.size(packet);
                self.waiting[source as usize] -= octets;
                self.stats.delivered += 1;
                true
            }
            Topology::Direct => {
                self.stats.delivered += 1;
                true
            }
            _ if (ends..2 * ends).contains(&wire) => {
                self.stats.delivered += 1;
                true
            }
            topology => {
                let next = self.next(topology, source, destination, wire);
                self.enter(queue, now, packet, next);
                false
            }
        }
    }

    /// The wire after one that does not end at a host.
    fn next(&self, topology: Topology, source: u32, destination: u32, wire: u32) -> u32 {
        let rails = self.network.rails;
        let ends = self.hosts * rails;
        let down = |rail: u32| ends + destination * rails + rail;
        let Topology::LeafSpine { hosts, spines } = topology else {
            return down(wire % rails);
        };
        let (from, to) = (source / hosts, destination / hosts);
        let spine = (mix(u64::from(source) << 32 | u64::from(destination)) % u64::from(spines)) as u32;
        let ups = self.hosts.div_ceil(hosts) * spines;
        if from == to || wire >= 2 * ends + ups {
            down(spine % rails)
        } else if wire < ends {
            2 * ends + from * spines + spine
        } else {
            2 * ends + ups + to * spines + spine
        }
    }

    fn rail(&mut self, host: u32) -> u32 {
        let Some(turn) = self.turns.get_mut(host as usize) else {
            return 0;
        };
        let rail = u32::from(*turn);
        *turn = ((rail + 1) % self.network.rails) as u8;
        rail
    }

    /// Octets of a packet on a wire.
    fn size(&self, packet: u32) -> u32 {
        self.packets[packet as usize].data.len() as u32 + UDP_IPV4 + self.network.framing
    }

    /// Puts a packet into the queue before a wire.
    fn enter(&mut self, queue: &mut Queue, now: u64, packet: u32, wire: u32) {
        let octets = self.size(packet);
        let now = now * 1_000;
        let start = self.free_at[wire as usize].max(now);
        let source = self.packets[packet as usize].source as usize;
        let ahead = match self.waiting.get(source) {
            Some(waiting) => u64::from(*waiting),
            None => (start - now) / self.octet,
        };
        if ahead + u64::from(octets) > u64::from(self.network.queue) {
            self.stats.overflowed += 1;
            self.drop_packet(packet);
            return;
        }
        self.stats.marked += u64::from(ahead > u64::from(self.network.mark));
        let end = start + u64::from(octets) * self.octet;
        self.free_at[wire as usize] = end;
        if self.network.loss > 0.0 && self.rng.chance(self.network.loss) {
            self.stats.lost += 1;
            self.drop_packet(packet);
            return;
        }
        if let Some(waiting) = self.waiting.get_mut(source) {
            *waiting += octets;
        }
        self.packets[packet as usize].wire = wire;
        queue.push((end + self.delay).div_ceil(1_000), Event::Arrive(packet));
    }
}
