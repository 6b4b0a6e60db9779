//! The backend of a process that reaches some peers through memory and the others over the network.

use std::{fmt, io, mem, net::SocketAddr, time::Duration};

use super::{
    entrance::Entrance,
    identity::{Apart, Identity},
    limits,
    links::Links,
    near::Near,
    socket::Sockets,
};
use crate::{
    backends::{Backend, BackendStats, Capabilities, Met, Neighbours, Notice, Received, Sent, Transmit, Wake},
    config::{Config, ConfigError},
    events::event,
    progress::random,
    reliability::{Beside, Endpoint, MemoryLayer},
    time::Instant,
};

/// The longest time that a process of this host may need until it comes to the entrance.
const MEET: Duration = Duration::from_secs(30);
/// Passes in a row that find nothing in memory between two looks at the network, and passes that find something.
const PASSES: u32 = 8;
/// The same if no peer is on the network.
const LONELY_PASSES: u32 = 1_024;
/// After this time, ns, the network's turn has come whatever the number of passes.
const LONG: u64 = 5_000;
/// The longest sleep beside a network without a file descriptor.
const NAP: Duration = Duration::from_micros(50);

/// A backend of the network with memories beside it, through which the processes of this host are reached.
///
/// Its peers are named by their addresses on the network. Whether a peer shares memory with this process is known after
/// [`meet`](Neighbours::meet); until then all peers are reached over the network. The packet layer that fits is that of
/// [`layer`](Self::layer).
pub(crate) struct Routed {
    network: Box<dyn Backend>,
    /// The link address of the network's backend.
    own_link: Vec<u8>,
    /// Gone after the meeting.
    entrance: Option<Entrance>,
    /// The processes of this host that may be met.
    candidates: Vec<(SocketAddr, Identity)>,
    /// Introduced processes that are reached over the network.
    far: usize,
    near: Near,
    links: Links,
    /// Packets of the last pass that came through memory.
    received: usize,
    /// Passes since the last look at the network.
    passes: u32,
    looked: Instant,
    /// Processes of this host must be reached through memory.
    is_forced: bool,
    /// The reason why one of them is not.
    obstacle: Option<String>,
}

impl Routed {
    /// Puts memories beside `network`, for the process of this number in its job. If memory `is_forced`, the processes
    /// of this host are reached so, or not at all.
    ///
    /// # Errors
    /// This system does not tell what has to be known, or lets no socket be opened.
    pub(crate) fn new(mut network: Box<dyn Backend>, process: u32, is_forced: bool) -> io::Result<Self> {
        Ok(Self {
            entrance: Some(Entrance::open(Identity::own(process, random())?)?),
            links: Links::new(Sockets::new(network.as_fd())?),
            own_link: network
                .neighbours()
                .map_or_else(Vec::new, |neighbours| neighbours.link_address()),
            network,
            candidates: Vec::new(),
            far: 0,
            near: Near::default(),
            received: 0,
            passes: 0,
            looked: Instant::ZERO,
            is_forced,
            obstacle: None,
        })
    }

    /// Returns what makes the packet layer that fits, from the endpoint of the network.
    pub(crate) fn layer(&self) -> impl Fn(Endpoint, Config) -> Result<Beside, ConfigError> + Send + Sync + use<> {
        let near = self.near.clone();
        move |endpoint, config| {
            let memory = MemoryLayer::new(config, limits(), random())?.with_rings(near.clone());
            let gates = near.clone();
            let memory = memory.with_gates(move |address| gates.gate(address));
            let near = near.clone();
            Ok(Beside::new(endpoint, memory, move |address, _| {
                near.gate(address).is_some()
            }))
        }
    }

    fn introduce_to_network(&mut self, address: SocketAddr, link: &[u8]) -> io::Result<()> {
        match self.network.neighbours() {
            Some(neighbours) => neighbours.introduce(address, link),
            None => Ok(()),
        }
    }

    fn note_failure(&mut self, process: u32, why: &str) {
        event!(WARN, process, why, "a process of this host is reached over the network");
        self.obstacle.get_or_insert_with(|| format!("process {process}: {why}"));
    }

    /// Returns whether this pass looks at the network.
    #[inline]
    fn is_networks_turn(&mut self, now: Instant) -> bool {
        let passes = if self.far == 0 { LONELY_PASSES } else { PASSES };
        self.passes += 1;
        if self.passes < passes && !self.links.is_empty() && now.nanos_since(self.looked) < LONG {
            return false;
        }
        self.passes = 0;
        self.looked = now;
        true
    }
}

impl Backend for Routed {
    fn name(&self) -> &'static str {
        self.network.name()
    }

    /// Those of the network. The memory's packet layer knows its own.
    fn capabilities(&self) -> Capabilities {
        self.network.capabilities()
    }

    fn local_addr(&self) -> SocketAddr {
        self.network.local_addr()
    }

    #[inline]
    fn transmit(&mut self, now: Instant, transmit: &Transmit<'_>) -> io::Result<Sent> {
        match self.links.find(transmit.destination) {
            Some(index) => self.links.transmit(index, transmit),
            None => self.network.transmit(now, transmit),
        }
    }

    fn receive(&mut self, now: Instant, budget: usize) -> io::Result<usize> {
        let looks = self.is_networks_turn(now);
        // On its turn, the network gets half of the buffers at least.
        self.received = self.links.receive(if looks { budget.div_ceil(2) } else { budget });
        if self.received == 0 && self.links.note_empty() {
            self.links.look(Some(Duration::ZERO))?;
        }
        let mut count = self.received;
        if looks {
            count += self.network.receive(now, budget - count)?;
        }
        self.links.rest(now);
        Ok(count)
    }

    #[inline]
    fn received(&mut self, index: usize) -> Received<'_> {
        if index >= self.received {
            return self.network.received(index - self.received);
        }
        self.links.received(index)
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<Wake> {
        if self.links.is_empty() {
            return self.network.wait(timeout);
        }
        self.received = 0;
        // The next pass looks at the network.
        self.passes = LONELY_PASSES;
        let has_descriptor = self.network.as_fd().is_some();
        let nap = timeout.map_or(NAP, |timeout| timeout.min(NAP));
        let Some(news) = self.links.sleep(if has_descriptor { timeout } else { Some(nap) })? else {
            return Ok(Wake::Readable);
        };
        // A network without a descriptor may have received something.
        Ok(if news.is_rung || !has_descriptor {
            Wake::Readable
        } else {
            Wake::TimedOut
        })
    }

    fn poll_notices(&mut self, each: &mut dyn FnMut(Notice<'_>)) {
        self.links.report(each);
        self.network.poll_notices(each);
    }

    fn neighbours(&mut self) -> Option<&mut dyn Neighbours> {
        Some(self)
    }

    fn next_deadline(&self) -> Option<Instant> {
        match (self.links.next_rest(), self.network.next_deadline()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// The sum of both.
    fn stats(&self) -> BackendStats {
        let (memory, network) = (*self.links.stats(), self.network.stats());
        BackendStats {
            datagrams_sent: memory.datagrams_sent + network.datagrams_sent,
            bytes_sent: memory.bytes_sent + network.bytes_sent,
            transmit_calls: memory.transmit_calls + network.transmit_calls,
            receive_calls: memory.receive_calls + network.receive_calls,
            dropped: memory.dropped + network.dropped,
            busy: memory.busy + network.busy,
            ..network
        }
    }
}

impl Neighbours for Routed {
    /// What [`Identity`] says of this process, and the network's link address.
    fn link_address(&self) -> Vec<u8> {
        let mut bytes = self
            .entrance
            .as_ref()
            .map_or_else(Vec::new, |entrance| entrance.own().bytes());
        bytes.extend(&self.own_link);
        bytes
    }

    fn introduce(&mut self, address: SocketAddr, link: &[u8]) -> io::Result<()> {
        self.far += 1;
        let Some((identity, rest)) = Identity::read(link) else {
            return self.introduce_to_network(address, link);
        };
        if let Some(entrance) = &self.entrance {
            match entrance.own().meets(&identity) {
                Ok(()) => self.candidates.push((address, identity)),
                Err(Apart::Host) => {}
                Err(Apart::Namespace) => self.note_failure(identity.process, "it sees another network (a container)"),
                Err(Apart::User) => {
                    let why = format!("it belongs to the user {}", identity.user);
                    self.note_failure(identity.process, &why);
                }
            }
        }
        self.introduce_to_network(address, rest)
    }

    fn meet(&mut self) -> io::Result<Met> {
        let Some(entrance) = self.entrance.take() else {
            return Ok(Met::default());
        };
        let candidates = mem::take(&mut self.candidates);
        let identities: Vec<_> = candidates.iter().map(|(_, identity)| *identity).collect();
        let met = entrance.meet(&identities, MEET);
        for ((address, identity), met) in candidates.into_iter().zip(met) {
            match met {
                Ok((pair, socket)) => {
                    // From here on the other side counts on it.
                    let link = self.links.add(address, (pair.outward, pair.inward), socket)?;
                    let gate = self.near.add(address, identity.process, pair.short);
                    self.links.set_gate(link, gate);
                    self.far -= 1;
                }
                Err(failed) => self.note_failure(identity.process, &failed.to_string()),
            }
        }
        event!(INFO, memory = self.links.len(), network = self.far, "routes chosen");
        match self.obstacle.take() {
            Some(obstacle) if self.is_forced => Err(io::Error::other(obstacle)),
            obstacle => Ok(Met {
                memory: self.links.len(),
                obstacle,
            }),
        }
    }
}

impl fmt::Debug for Routed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Routed")
            .field("network", &self.network.name())
            .field("links", &self.links)
            .finish_non_exhaustive()
    }
}
