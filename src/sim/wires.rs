//! Wires, switches, and the packets on them.

use super::{
    ethernet::Medium,
    heap,
    network::{Network, NetworkStats, Routing, Topology, UDP_IPV4},
    queue::{Event, Queue},
};
use crate::{
    prng::{Prng, mix},
    wire::{self, Kind},
};

/// Latest time, ns: wires count picoseconds.
pub(super) const LATEST: u64 = 1 << 53;

/// No wire: the packet goes from one process to another on the same host.
const LOCAL: u32 = u32::MAX;

/// Bytes for which a new packet has room. A longer one gets room for the largest datagram.
const USUAL: usize = 192;

/// Number of program messages that begin in a datagram. (Messages between engines, such as requests to send, have no
/// match bits.)
fn messages(data: &[u8]) -> u64 {
    let Ok(packet) = wire::Packet::new_checked(data) else {
        return 0;
    };
    if packet.kind() != Kind::Data {
        return 0;
    }
    let begins = match (packet.placement(), packet.fragment()) {
        (Some(placement), _) => placement.offset == 0,
        (None, Some(fragment)) => fragment.offset == 0 && packet.match_bits().is_some(),
        (None, None) => packet.match_bits().is_some(),
    };
    let bundled = packet.records().filter(|record| record.match_bits.is_some());
    u64::from(begins) + bundled.count() as u64
}

/// One datagram in flight.
#[derive(Debug, Default)]
pub(super) struct Packet {
    pub(super) data: Vec<u8>,
    /// The processes at its ends.
    pub(super) source: u32,
    pub(super) destination: u32,
    /// The rail that it takes.
    pub(super) rail: u8,
    /// The process that it reaches next: its destination, or a relay.
    hop: u32,
    /// The hosts between which it is in flight.
    from: u32,
    to: u32,
    wire: u32,
}

/// The place that a packet has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// A switch; the packet goes on.
    Between,
    /// Its destination.
    There,
    /// A process that relays it.
    Relay(u32),
}

/// A network with the packets on it.
///
/// A wire and its queue are one number: when the last byte accepted so far will have been sent. So a packet is one
/// event per wire. Wires are numbered: from hosts (those of one host together), to hosts, between switches.
#[derive(Debug)]
pub(super) struct Wires {
    network: Network,
    processes: u32,
    /// Number of hosts, or of nodes of a grid.
    hosts: u32,
    /// Number of wires of each host.
    ports: u32,
    /// Time of one byte, ps, and the wire's delay.
    byte: u64,
    delay: u64,
    /// Additional time of each message, ps.
    gap: u64,
    /// When each wire is free, ps.
    free_at: Vec<u64>,
    /// The medium, where all hosts share one instead of wires.
    medium: Option<Medium>,
    packets: Vec<Packet>,
    free: Vec<u32>,
    rng: Prng,
    pub(super) stats: NetworkStats,
}

impl Wires {
    pub(super) fn new(network: Network, processes: u32, seed: u64) -> Self {
        let mut hosts = processes.div_ceil(network.per_host);
        let (mut ports, mut between) = (network.rails, 0);
        match network.topology {
            Topology::Switch | Topology::Direct => {}
            Topology::Shared => ports = 0,
            Topology::LeafSpine { hosts: leaf, spines } => between = 2 * hosts.div_ceil(leaf) * spines,
            Topology::HyperCrossbar { sides } => {
                hosts = sides.iter().product();
                ports = 3 * network.rails;
            }
        }
        Self {
            network,
            processes,
            hosts,
            ports,
            byte: network.byte(),
            delay: network.delay.as_nanos() as u64 * 1_000,
            gap: network.gap.as_nanos() as u64 * 1_000,
            free_at: vec![0; (2 * hosts * ports + between) as usize],
            medium: (network.topology == Topology::Shared).then(|| Medium::new(&network, hosts, mix(seed))),
            packets: Vec::new(),
            free: Vec::new(),
            rng: Prng::new(seed),
            stats: NetworkStats::default(),
        }
    }

    /// Number of hosts with processes.
    pub(super) fn hosts(&self) -> u32 {
        self.processes.div_ceil(self.network.per_host)
    }

    /// The host of a process.
    pub(super) fn host(&self, process: u32) -> u32 {
        // A branch for the usual case, since a division is slow.
        match self.network.per_host {
            1 => process,
            several => process / several,
        }
    }

    /// An empty packet with room for `bytes` bytes, to be filled and given to [`send`](Self::send).
    pub(super) fn packet(&mut self, bytes: usize) -> u32 {
        let packet = self.free.pop().unwrap_or_else(|| self.new_packet());
        if self.packets[packet as usize].data.capacity() < bytes {
            self.enlarge(packet, bytes);
        }
        packet
    }

    /// Copies a packet, with the same ends.
    pub(super) fn copy(&mut self, packet: u32) -> u32 {
        let data = std::mem::take(&mut self.packets[packet as usize].data);
        let copy = self.packet(data.len());
        let p = &mut self.packets[packet as usize];
        let (source, destination, rail) = (p.source, p.destination, p.rail);
        let twin = &mut self.packets[copy as usize];
        (twin.source, twin.destination, twin.rail) = (source, destination, rail);
        twin.data.extend_from_slice(&data);
        self.packets[packet as usize].data = data;
        copy
    }

    #[cold]
    fn new_packet(&mut self) -> u32 {
        heap::apart(|| {
            self.packets.push(Packet {
                data: Vec::with_capacity(USUAL),
                ..Packet::default()
            })
        });
        self.packets.len() as u32 - 1
    }

    #[cold]
    fn enlarge(&mut self, packet: u32, bytes: usize) {
        let bytes = bytes.max(self.network.datagram());
        heap::apart(|| self.packets[packet as usize].data = Vec::with_capacity(bytes));
    }

    /// The process that a packet is for, if this wire is its last.
    #[inline]
    pub(super) fn ends_at(&self, packet: u32) -> Option<u32> {
        let packet = &self.packets[packet as usize];
        let up = self.network.topology == Topology::Switch && packet.wire < self.hosts * self.ports;
        (!up).then_some(packet.destination)
    }

    #[inline]
    pub(super) fn data(&self, packet: u32) -> &[u8] {
        &self.packets[packet as usize].data
    }

    #[inline]
    pub(super) fn ask_data(&self, packet: u32) {
        let data = self.data(packet);
        heap::ask_lines(data.as_ptr(), data.len());
    }

    /// Prefetches a packet that will be needed.
    #[inline]
    pub(super) fn ask(&self, packet: u32) {
        heap::ask_line(&raw const self.packets[packet as usize]);
    }

    pub(super) fn get(&mut self, packet: u32) -> &mut Packet {
        &mut self.packets[packet as usize]
    }

    /// Number of packets in flight.
    pub(super) fn under_way(&self) -> usize {
        self.packets.len() - self.free.len()
    }

    /// Forgets all packets.
    pub(super) fn clear(&mut self) {
        (self.packets, self.free) = (Vec::new(), Vec::new());
    }

    /// Frees a packet.
    pub(super) fn drop_packet(&mut self, packet: u32) {
        self.packets[packet as usize].data.clear();
        self.free.push(packet);
    }

    /// Number of rails of each host.
    pub(super) fn rails(&self) -> u32 {
        self.network.rails
    }

    /// When a host may go on sending by a rail, ns, if more waits before each of its wires there than its limit. (`None` on
    /// a shared medium: there hosts have queues of their own.)
    pub(super) fn blocked(&self, now: u64, process: u32, rail: u32) -> Option<u64> {
        let first = self.host(process) * self.ports;
        let wires = &self.free_at[first as usize..(first + self.ports) as usize];
        let of_rail = wires.iter().skip(rail as usize).step_by(self.network.rails as usize);
        let free_at = *of_rail.min()?;
        let most = u64::from(self.network.ahead) * self.byte;
        (free_at > now * 1_000 + most).then(|| (free_at - most / 2).div_ceil(1_000))
    }

    /// Process `source` sends a packet at `now`, ns.
    pub(super) fn send(&mut self, queue: &mut Queue, now: u64, packet: u32, source: u32, destination: u32) {
        let p = &mut self.packets[packet as usize];
        (p.source, p.destination) = (source, destination);
        self.stats.sent += 1;
        self.stats.bytes += p.data.len() as u64;
        self.leave(queue, now, packet, source);
    }

    /// A process relays a packet that is not for it.
    pub(super) fn pass_on(&mut self, queue: &mut Queue, now: u64, packet: u32, at: u32) {
        self.stats.relayed += 1;
        self.leave(queue, now, packet, at);
    }

    /// A packet leaves process `at`.
    fn leave(&mut self, queue: &mut Queue, now: u64, packet: u32, at: u32) {
        let next = |routing: Routing, to| routing.next(at, to, self.processes);
        let p = &mut self.packets[packet as usize];
        p.hop = self
            .network
            .routing
            .map_or(p.destination, |routing| next(routing, p.destination));
        let hop = p.hop;
        let (from, to) = (self.host(at), self.host(hop));
        let p = &mut self.packets[packet as usize];
        (p.from, p.to) = (from, to);
        if from == to {
            p.wire = LOCAL;
            let delay = self.network.local_delay.as_nanos() as u64;
            queue.push(now + delay, Event::Arrive(packet));
            return;
        }
        if self.medium.is_some() {
            return self.offer(queue, now, packet);
        }
        let first = match self.network.topology {
            Topology::HyperCrossbar { .. } => self.along(from, to, 0),
            _ => from * self.ports,
        };
        let wire = first + u32::from(self.packets[packet as usize].rail);
        let gap = match self.gap {
            0 => 0,
            gap => gap * messages(&self.packets[packet as usize].data),
        };
        self.enter(queue, now, packet, (wire, gap));
    }

    /// A packet reaches the end of its wire.
    pub(super) fn arrive(&mut self, queue: &mut Queue, now: u64, packet: u32) -> Arrival {
        let &mut Packet {
            destination,
            hop,
            from,
            to,
            wire,
            ..
        } = self.get(packet);
        let next = match self.network.topology {
            _ if wire == LOCAL => None,
            Topology::Shared | Topology::Direct => None,
            Topology::Switch => {
                // On the same rail.
                (wire < self.hosts * self.ports).then(|| wire + (self.hosts + to - from) * self.ports)
            }
            Topology::LeafSpine { hosts, spines } => self.climb((hosts, spines), packet, wire),
            Topology::HyperCrossbar { .. } => self.cross(to, wire),
        };
        match next {
            Some(next) => {
                let up = next < self.hosts * self.ports;
                let forward = if up { self.network.forward.as_nanos() as u64 } else { 0 };
                self.enter(queue, now + forward, packet, (next, 0));
                Arrival::Between
            }
            None if hop != destination => Arrival::Relay(hop),
            None => {
                self.stats.delivered += 1;
                Arrival::There
            }
        }
    }

    /// The next wire, between leaves and spines. `None`: this one ends at a host.
    fn climb(&self, (leaf, spines): (u32, u32), packet: u32, wire: u32) -> Option<u32> {
        let &Packet { from, to, rail, .. } = &self.packets[packet as usize];
        let ends = self.hosts * self.ports;
        let spine = (mix(u64::from(from) << 32 | u64::from(to)) % u64::from(spines)) as u32;
        let ups = self.hosts.div_ceil(leaf) * spines;
        if (ends..2 * ends).contains(&wire) {
            None
        } else if from / leaf == to / leaf || wire >= 2 * ends + ups {
            Some(ends + to * self.ports + u32::from(rail))
        } else if wire < ends {
            Some(2 * ends + from / leaf * spines + spine)
        } else {
            Some(2 * ends + ups + to / leaf * spines + spine)
        }
    }

    /// Strides and sides of a grid along each dimension.
    fn strides(&self) -> [(u32, u32); 3] {
        let sides = match self.network.topology {
            Topology::HyperCrossbar { sides } => sides,
            _ => [1; 3],
        };
        [(sides[1] * sides[2], sides[0]), (sides[2], sides[1]), (1, sides[2])]
    }

    /// The wire from a node of a grid towards another one: along the first dimension in which they differ.
    fn along(&self, from: u32, to: u32, rail: u32) -> u32 {
        let differs = |&(stride, side): &(u32, u32)| from / stride % side != to / stride % side;
        let dimension = self.strides().iter().position(differs).unwrap_or(0) as u32;
        from * self.ports + dimension * self.network.rails + rail
    }

    /// The next wire in a grid. `None`: this one ends at the packet's destination.
    fn cross(&self, to: u32, wire: u32) -> Option<u32> {
        let ends = self.hosts * self.ports;
        let (node, port) = (wire % ends / self.ports, wire % self.ports);
        if wire < ends {
            // A switch: to the node of this line that has the right coordinate.
            let (stride, side) = self.strides()[(port / self.network.rails) as usize];
            let (here, there) = (node / stride % side, to / stride % side);
            return Some(ends + (node + there * stride - here * stride) * self.ports + port);
        }
        (node != to).then(|| self.along(node, to, port % self.network.rails))
    }

    /// Bytes of a packet on a wire.
    fn size(&self, packet: u32) -> u32 {
        self.packets[packet as usize].data.len() as u32 + UDP_IPV4 + self.network.framing
    }

    /// Puts a packet into the queue of a wire, which it occupies for a gap (ps) beyond the time of its bytes.
    #[inline(always)]
    fn enter(&mut self, queue: &mut Queue, now: u64, packet: u32, (wire, gap): (u32, u64)) {
        let bytes = self.size(packet);
        let now = now * 1_000;
        let start = self.free_at[wire as usize].max(now);
        let ahead = match start - now {
            0 => 0,
            wait => wait / self.byte,
        };
        if ahead + u64::from(bytes) > u64::from(self.network.queue) {
            self.stats.overflowed += 1;
            self.drop_packet(packet);
            return;
        }
        self.stats.marked += u64::from(ahead > u64::from(self.network.mark));
        let end = start + gap + u64::from(bytes) * self.byte;
        self.free_at[wire as usize] = end;
        if self.is_lost() {
            self.drop_packet(packet);
            return;
        }
        self.packets[packet as usize].wire = wire;
        queue.push((end + self.delay).div_ceil(1_000), Event::Arrive(packet));
    }

    fn is_lost(&mut self) -> bool {
        let lost = self.network.loss > 0.0 && self.rng.chance(self.network.loss);
        self.stats.lost += u64::from(lost);
        lost
    }

    /// The same on a shared medium. (Packets lost at random do not occupy it.)
    fn offer(&mut self, queue: &mut Queue, now: u64, packet: u32) {
        // The shortest frame has 64 bytes, of which 18 are framing.
        let bytes = self.size(packet).max(46 + self.network.framing);
        if self.is_lost() {
            return self.drop_packet(packet);
        }
        let Some(medium) = &mut self.medium else { return };
        let p = &mut self.packets[packet as usize];
        p.wire = 0;
        self.stats.marked += u64::from(medium.waiting(p.from) > self.network.mark);
        if !medium.offer(queue, now, p.from, packet, bytes) {
            self.stats.overflowed += 1;
            self.drop_packet(packet);
        }
    }

    /// An event of the shared medium is due.
    pub(super) fn handle_medium(&mut self, queue: &mut Queue, now: u64, who: u32) {
        let Some(medium) = &mut self.medium else { return };
        if let Some(lost) = medium.handle(queue, now, who, &mut self.stats) {
            self.drop_packet(lost);
        }
    }
}
