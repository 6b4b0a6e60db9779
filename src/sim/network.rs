//! The parameters of a network, and its counters.

use std::{fmt, time::Duration};

use crate::reliability::MAX_RAILS;

/// Bytes that UDP and IPv4 put before a datagram.
pub(super) const UDP_IPV4: u32 = 28;
/// Most wires of a network, so that numbers of wires are small.
const MAX_WIRES: u64 = 1 << 28;

/// How hosts are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    /// All on one switch, which has a queue for each of its outputs.
    Switch,
    /// A wire from each host straight to the destination of a packet: nothing lies in between (circuits).
    Direct,
    /// One medium for all, one packet at a time: 10BASE-T with a hub, as in the experiments of the DSE paper (section
    /// 4). A host begins to send when it hears no other. Hosts that begin within `delay` of each other (or have waited
    /// for the same end) collide and try again after random times (CSMA/CD with exponential back-off, IEEE 802.3 clause
    /// 4). Each host has a queue of its own.
    Shared,
    /// Leaf switches with `hosts` hosts each, every one connected to each of `spines` others. Source and destination of
    /// a packet decide its spine (ECMP), so packets of a pair do not overtake each other.
    LeafSpine {
        /// Hosts on a leaf switch; at least 1.
        hosts: u32,
        /// Spine switches; at least 1. As many as `hosts` for full bisection bandwidth.
        spines: u32,
    },
    /// Nodes at the points of a grid, such as the 16×16×10 nodes of the PACS-CS paper (section 2). The nodes of a line
    /// along a dimension are on one switch. Packets go along one dimension after the other, and nodes in between pass
    /// them on. `rails` counts the wires of each dimension. Hosts are numbered with the last coordinate changing
    /// fastest; there may be fewer hosts than nodes.
    HyperCrossbar {
        /// Nodes along each dimension: 1 for a dimension that is not used. At least as many nodes as hosts.
        sides: [u32; 3],
    },
}

/// Processes that pass packets on where not all may talk to all: the meshes of the DSE paper (section 4.2). Each of
/// them receives the packet and sends it again, at the cost of its core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    /// Each process is connected to the next and to the one before.
    Chain,
    /// A binary tree, numbered from left to right. Process 0 is a leaf, so the mean distance to process 0 lies between
    /// those of ring and chain, as in the paper.
    Tree,
    /// A chain whose ends are neighbours as well; packets take the shorter way.
    Ring,
    /// A grid that is as square as possible, each line of which is a ring; packets go along the rows first, which are
    /// the shorter lines.
    Torus,
}

impl Routing {
    /// The next process on the way from `at` to `to`, in a job of `size` processes.
    #[must_use]
    pub fn next(self, at: u32, to: u32, size: u32) -> u32 {
        let around = |at: u32, to: u32, size: u32| {
            let ahead = (to + size - at) % size;
            if 2 * ahead <= size {
                (at + 1) % size
            } else {
                (at + size - 1) % size
            }
        };
        match self {
            _ if at == to => to,
            Self::Chain if to > at => at + 1,
            Self::Chain => at - 1,
            Self::Ring => around(at, to, size),
            Self::Tree => {
                // In order of the numbers plus one, a node's place in the tree is its lowest bit.
                let lowest = |node: u32| node & node.wrapping_neg();
                let up = |node: u32| {
                    let parents =
                        std::iter::successors(Some(node), |node| Some((node ^ lowest(*node)) | lowest(*node) << 1));
                    parents.skip(1).find(|parent| *parent <= size).unwrap_or(node)
                };
                let (here, mut below) = (at + 1, to + 1);
                if below.abs_diff(here) >= lowest(here) {
                    return up(here) - 1;
                }
                while up(below) != here {
                    below = up(below);
                }
                below - 1
            }
            Self::Torus => {
                let columns = (1..=size.isqrt())
                    .rev()
                    .find(|side| size.is_multiple_of(*side))
                    .unwrap_or(1);
                let rows = size / columns;
                let ((row, column), (to_row, to_column)) = ((at / columns, at % columns), (to / columns, to % columns));
                if column == to_column {
                    around(row, to_row, rows) * columns + column
                } else {
                    row * columns + around(column, to_column, columns)
                }
            }
        }
    }
}

/// A network: [`Network::default`] is 10 Gb/s Ethernet with one switch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Network {
    /// How hosts are connected.
    pub topology: Topology,
    /// Bits per second of each wire. 1 kb/s to 1 Tb/s; default 10 Gb/s.
    pub bandwidth: f64,
    /// Time from one end of a wire to the other. Up to 1 s; default 500 ns, which includes the switch behind it.
    pub delay: Duration,
    /// Time for which each message occupies the first wire beside the time of its bytes: g of LogGP, α of the optics
    /// paper (section 2). Not used where all share one medium. Up to 1 s; default 0.
    pub gap: Duration,
    /// Largest IP packet, bytes. 576 to 65,535; default 1,500.
    pub mtu: u32,
    /// Bytes that a packet takes on the wire beside the IP packet. Up to 1,000; default 38: Ethernet's header,
    /// checksum, preamble and gap.
    pub framing: u32,
    /// Bytes that wait before a wire; packets that meet a full queue are lost. At least one packet; default 512 KiB.
    pub queue: u32,
    /// A host stops sending by a rail while this many bytes wait before each of its own wires there, as sockets and drivers
    /// do, so that acknowledgements and grants need not wait behind them. At most 1 GiB; default 64 KiB.
    pub ahead: u32,
    /// A packet that finds more bytes than this waiting is counted as marked (ECN). Default 64 KiB.
    pub mark: u32,
    /// Wires between a host and its switch, or each of its switches. Each is a rail of the sessions of its processes, as a
    /// network interface with a socket is, with numbers and a congestion window of its own
    /// ([`Endpoint::add_rail`](crate::reliability::Endpoint::add_rail)). 1 to 16; default 1.
    pub rails: u32,
    /// Processes on each host, in the order of their ranks; each has a core of its own. At least 1; default 1.
    pub per_host: u32,
    /// Time from one process to another on the same host. Up to 1 s; default 500 ns.
    pub local_delay: Duration,
    /// Time that a node needs to pass a packet on from one switch of a hyper-crossbar to the next. Up to 1 s; default 2
    /// µs.
    pub forward: Duration,
    /// Processes that pass packets on. Default: packets go straight to their destination.
    pub routing: Option<Routing>,
    /// Share of packets that each wire loses at random, drawn from the seed, in addition to full queues. A packet
    /// between two hosts on one switch takes two wires. 0 to 1; default 0.
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
            ahead: 64 << 10,
            mark: 64 << 10,
            rails: 1,
            per_host: 1,
            local_delay: Duration::from_nanos(500),
            forward: Duration::from_micros(2),
            routing: None,
            loss: 0.0,
        }
    }
}

/// A parameter of a simulation is out of its range.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RangeError {
    /// Name of the parameter: a field of [`Network`], [`Cpu`](super::Cpu), [`Faults`](super::Faults) or
    /// [`Simulation`](super::Simulation).
    pub name: &'static str,
    /// The values that are allowed.
    pub range: &'static str,
}

impl fmt::Display for RangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "parameter `{}` of the simulation must be {}", self.name, self.range)
    }
}

crate::debug_as_display!(RangeError);

impl std::error::Error for RangeError {}

impl RangeError {
    /// Names the first check that failed.
    pub(super) fn first(checks: &[(bool, &'static str, &'static str)]) -> Result<(), Self> {
        match checks.iter().find(|(valid, ..)| !valid) {
            Some(&(_, name, range)) => Err(Self { name, range }),
            None => Ok(()),
        }
    }
}

impl Network {
    /// 10BASE-T, one medium for all, as in the DSE paper (section 4.1): 1 µs between any two hosts, which are 200 m.
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
    /// Names the first value that is out of its range.
    pub fn validate(&self) -> Result<(), RangeError> {
        let checks = [
            (
                (1e3..=1e12).contains(&self.bandwidth),
                "bandwidth",
                "from 1e3 to 1e12 bits per second",
            ),
            (self.delay <= Duration::from_secs(1), "delay", "at most 1 s"),
            (self.gap <= Duration::from_secs(1), "gap", "at most 1 s"),
            ((576..=65_535).contains(&self.mtu), "mtu", "from 576 to 65535 bytes"),
            (self.framing <= 1_000, "framing", "at most 1000 bytes"),
            (
                (self.mtu.saturating_add(self.framing)..=1 << 30).contains(&self.queue),
                "queue",
                "from one packet (mtu + framing) to 1 GiB",
            ),
            (self.ahead <= 1 << 30, "ahead", "at most 1 GiB"),
            ((1..=MAX_RAILS as u32).contains(&self.rails), "rails", "from 1 to 16"),
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
            (
                self.topology != Topology::Shared || self.delay <= self.longest(),
                "delay",
                "at most half of 512 bits' time where all share one medium, so that collisions are heard",
            ),
            (self.per_host >= 1, "per_host", "at least 1"),
            (self.local_delay <= Duration::from_secs(1), "local_delay", "at most 1 s"),
            (self.forward <= Duration::from_secs(1), "forward", "at most 1 s"),
        ];
        RangeError::first(&checks)
    }

    /// Checks every range, for a job of `processes` processes.
    ///
    /// # Errors
    /// The grid has no place for all, or there are too many wires.
    pub(super) fn validate_for(&self, processes: u32) -> Result<(), RangeError> {
        self.validate()?;
        let hosts = u64::from(processes.div_ceil(self.per_host));
        let nodes = match self.topology {
            Topology::HyperCrossbar { sides } => {
                let nodes = sides
                    .iter()
                    .try_fold(1, |nodes: u64, side| nodes.checked_mul((*side).into()));
                nodes.unwrap_or(u64::MAX)
            }
            Topology::LeafSpine { hosts: leaf, spines } => {
                hosts.max(hosts.div_ceil(leaf.into()).saturating_mul(spines.into()))
            }
            Topology::Switch | Topology::Direct | Topology::Shared => hosts,
        };
        let fits = nodes >= hosts && nodes.saturating_mul(6 * u64::from(self.rails)) <= MAX_WIRES;
        match fits {
            true => Ok(()),
            false => Err(RangeError {
                name: "topology",
                range: "of a node for each host at least, and 2^28 wires at most",
            }),
        }
    }

    /// Longest time that a packet may travel on a shared medium.
    fn longest(&self) -> Duration {
        Duration::try_from_secs_f64(256.0 / self.bandwidth).unwrap_or_default()
    }

    /// Bytes of the largest datagram.
    pub(super) fn datagram(&self) -> usize {
        (self.mtu - UDP_IPV4) as usize
    }

    /// Time of one byte on a wire, ps.
    pub(super) fn byte(&self) -> u64 {
        (8e12 / self.bandwidth).round().max(1.0) as u64
    }
}

/// Counts packets by their fate. Each packet is counted once per wire, but for `sent` and `delivered`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct NetworkStats {
    /// Packets that hosts have sent.
    pub sent: u64,
    /// Bytes of these packets, as datagrams.
    pub bytes: u64,
    /// Packets that reached their hosts. (Packets that are under way when the last program ends count neither here nor
    /// as lost.)
    pub delivered: u64,
    /// Packets lost because a queue of the network was full.
    pub overflowed: u64,
    /// Packets lost because the host had not yet taken earlier ones.
    pub unread: u64,
    /// Packets lost at random.
    pub lost: u64,
    /// Packets lost because their circuit was torn down or cut while they were on it.
    pub dark: u64,
    /// Packets that found a long queue.
    pub marked: u64,
    /// Times at which several hosts began to send on a shared medium.
    pub collisions: u64,
    /// Packets lost because they collided 16 times.
    pub given_up: u64,
    /// Packets that a process passed on to another one.
    pub relayed: u64,
}

crate::table::display_as_table!(NetworkStats {
    sent,
    bytes,
    delivered,
    overflowed,
    unread,
    lost,
    dark,
    marked,
    collisions,
    given_up,
    relayed,
});

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of relays between two processes.
    fn hops(routing: Routing, from: u32, to: u32, size: u32) -> u32 {
        let (mut at, mut hops) = (from, 0);
        while at != to {
            at = routing.next(at, to, size);
            hops += 1;
            assert!(at < size && hops <= size, "{routing:?} from {from} to {to} of {size}");
        }
        hops
    }

    #[test]
    fn relays_lead_everywhere() {
        for size in 1..20 {
            for routing in [Routing::Chain, Routing::Tree, Routing::Ring, Routing::Torus] {
                for pair in 0..size * size {
                    hops(routing, pair / size, pair % size, size);
                }
            }
        }
        let to_first = |routing| (1..8).map(|from| hops(routing, from, 0, 8)).sum::<u32>();
        let sums = [Routing::Torus, Routing::Ring, Routing::Tree, Routing::Chain].map(to_first);
        assert_eq!(sums, [12, 16, 19, 28]);
    }
}
