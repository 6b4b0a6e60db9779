//! The backend of a process that reaches some peers through memory and the others over the network.

use std::{collections::HashMap, fmt, io, mem, net::SocketAddr, time::Duration};

use super::{
    entrance::Entrance,
    identity::{Apart, Identity},
    near::Near,
    pair::{Inward, LONGEST, Outward, Pushed},
    socket::Sockets,
};
use crate::{
    backends::{
        Backend, BackendStats, Capabilities, Data, Met, Neighbours, Notice, Received, Refusals, Sent, Transmit, Wake,
    },
    config::{Config, ConfigError},
    events::event,
    progress::random,
    reliability::{Beside, Endpoint, Gate, Limits, MemoryLayer},
    shm::Corrupt,
    time::{Instant, nanos},
};

/// The longest time that a process of this host may need until it comes to the entrance.
const MEET: Duration = Duration::from_secs(30);
/// Passes in a row that find nothing in memory between two looks at the network, and passes that find something.
const PASSES: u32 = 8;
/// The same if no peer is on the network.
const LONELY_PASSES: u32 = 1_024;
/// After this time, ns, the network's turn has come whatever the number of passes.
const LONG: u64 = 5_000;
/// Passes that find nothing in memory between two looks at the connections.
const LOOKS: u32 = 1_024;
/// A direction that was silent so long gives memory back.
const REST: Duration = Duration::from_secs(1);
/// The longest sleep beside a network without a file descriptor.
const NAP: Duration = Duration::from_micros(50);
/// A datagram that no process of hikyaku sends: the packet layer ends the session with who sends it.
const NONSENSE: [u8; 1] = [0xff];

/// A process of this host.
#[derive(Debug)]
struct Link {
    address: SocketAddr,
    outward: Outward,
    inward: Inward,
    state: State,
    /// Closed while there is no room for packets to it.
    gate: Gate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// The process has ended; what it sent before can still be read.
    Ended,
    /// It has ended, or does not keep to the rules, and nothing more is read from it.
    Closed,
}

/// A received datagram.
#[derive(Clone, Copy, Debug)]
enum Slot {
    /// In a buffer: from this link, of this length.
    Memory(usize, usize),
    /// The network's, by its index.
    Network(usize),
}

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
    links: Vec<Link>,
    places: HashMap<SocketAddr, usize>,
    /// The links whose gates are closed.
    full: Vec<usize>,
    /// The link of the last burst.
    last: usize,
    sockets: Sockets,
    buffers: Vec<Box<[u8; LONGEST]>>,
    slots: Vec<Slot>,
    /// The link that is read first next time.
    first: usize,
    /// Passes since the last look at the network, and at the connections.
    passes: u32,
    looked: Instant,
    empty: u32,
    refusals: Refusals,
    rested: Instant,
    stats: BackendStats,
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
            sockets: Sockets::new(network.as_fd())?,
            own_link: network
                .neighbours()
                .map_or_else(Vec::new, |neighbours| neighbours.link_address()),
            network,
            candidates: Vec::new(),
            far: 0,
            near: Near::default(),
            links: Vec::new(),
            places: HashMap::new(),
            full: Vec::new(),
            last: 0,
            buffers: Vec::new(),
            slots: Vec::new(),
            first: 0,
            passes: 0,
            looked: Instant::ZERO,
            empty: 0,
            refusals: Refusals::default(),
            rested: Instant::ZERO,
            stats: BackendStats::default(),
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

    /// The link to an address.
    #[inline]
    fn link_to(&self, address: SocketAddr) -> Option<usize> {
        match self.links.get(self.last) {
            Some(link) if link.address == address => Some(self.last),
            _ => self.places.get(&address).copied(),
        }
    }

    /// Sends a burst through memory.
    #[inline]
    fn transmit_near(&mut self, index: usize, transmit: &Transmit<'_>) -> io::Result<Sent> {
        self.last = index;
        let link = &mut self.links[index];
        if link.state != State::Open {
            self.stats.dropped += 1;
            self.refusals.push(link.address, []);
            return Ok(Sent::Dropped);
        }
        let Ok(Pushed { is_sent, wakes }) = link.outward.push(transmit.slices, transmit.len) else {
            self.break_off(index);
            return Ok(Sent::Dropped);
        };
        if wakes {
            self.stats.transmit_calls += 1;
            self.sockets.ring(index);
        }
        if !is_sent {
            self.stats.busy += 1;
            self.look_for_ends()?;
            return Ok(Sent::Busy);
        }
        self.stats.datagrams_sent += 1;
        self.stats.bytes_sent += transmit.len as u64;
        if !self.links[index].outward.has_room().unwrap_or(true) {
            self.links[index].gate.set_open(false);
            self.full.push(index);
        }
        Ok(Sent::All)
    }

    /// Opens the gates of the links that have room again, or have ended: then packets are refused.
    fn open_gates(&mut self) {
        let links = &mut self.links;
        self.full.retain(|index| {
            let link = &mut links[*index];
            let is_open = link.state != State::Open || link.outward.has_room().unwrap_or(true);
            if is_open {
                link.gate.set_open(true);
            }
            !is_open
        });
    }

    /// Reads what has come through memory, into at most `budget` buffers.
    #[inline]
    fn receive_near(&mut self, budget: usize) {
        while self.buffers.len() < budget {
            self.buffers.push(Box::new([0; LONGEST]));
        }
        let links = self.links.len();
        for turn in 0..links {
            let index = (self.first + turn) % links;
            let link = &mut self.links[index];
            if link.state == State::Closed {
                continue;
            }
            while self.slots.len() < budget {
                match link.inward.next(&mut self.buffers[self.slots.len()][..]) {
                    Ok(Some(len)) => self.slots.push(Slot::Memory(index, len)),
                    Ok(None) if link.state == State::Ended => {
                        link.state = State::Closed;
                        self.refusals.push(link.address, []);
                        break;
                    }
                    Ok(None) => break,
                    Err(Corrupt) => {
                        let buffer = &mut self.buffers[self.slots.len()];
                        buffer[..NONSENSE.len()].copy_from_slice(&NONSENSE);
                        self.slots.push(Slot::Memory(index, NONSENSE.len()));
                        self.break_off(index);
                        break;
                    }
                }
            }
            let link = &mut self.links[index];
            link.inward.release();
            if self.slots.len() >= budget {
                self.first = index + 1;
                break;
            }
        }
    }

    /// Ends the connection to a process that does not keep to the rules.
    #[cold]
    fn break_off(&mut self, index: usize) {
        self.stats.dropped += 1;
        self.sockets.close(index);
        let link = &mut self.links[index];
        link.state = State::Closed;
        self.refusals.push(link.address, []);
        event!(WARN, address = %link.address, "a process has written into shared memory what no process writes");
    }

    /// Looks for processes that have ended.
    #[cold]
    fn look_for_ends(&mut self) -> io::Result<()> {
        let news = self.sockets.look(Some(Duration::ZERO))?;
        self.note_ends(&news.ended);
        Ok(())
    }

    fn note_ends(&mut self, ended: &[usize]) {
        for &index in ended {
            let link = &mut self.links[index];
            if link.state == State::Open {
                link.state = State::Ended;
            }
        }
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

    /// Gives memory of silent directions back.
    #[cold]
    fn rest(&mut self, now: Instant) {
        self.rested = now;
        for index in 0..self.links.len() {
            match self.links[index].outward.rest() {
                Ok(true) => self.sockets.ring(index),
                Ok(false) => {}
                Err(Corrupt) => self.break_off(index),
            }
        }
    }

    /// Asks all processes of this host to wake this one. `false`: there is something to read already.
    fn arm(&mut self) -> bool {
        let open = |link: &Link| link.state == State::Open;
        let armed = self
            .links
            .iter_mut()
            .filter(|link| open(link))
            .all(|link| link.inward.arm().unwrap_or(false));
        armed && self.links.iter().all(|link| link.state != State::Ended)
    }

    fn disarm(&self) {
        self.links.iter().for_each(|link| link.inward.disarm());
    }
}

/// The limits of the memory's packet layer.
fn limits() -> Limits {
    Limits {
        max_datagram: LONGEST,
        max_segments: 1,
        max_batch: LONGEST,
        receive_buffer: LONGEST,
        holds_references: false,
        ack_bytes: usize::MAX,
        receive_port: 0,
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
        match self.link_to(transmit.destination) {
            Some(index) => self.transmit_near(index, transmit),
            None => self.network.transmit(now, transmit),
        }
    }

    fn receive(&mut self, now: Instant, budget: usize) -> io::Result<usize> {
        self.slots.clear();
        if !self.full.is_empty() {
            self.open_gates();
        }
        let looks = self.is_networks_turn(now);
        // On its turn, the network gets half of the buffers at least.
        self.receive_near(if looks { budget.div_ceil(2) } else { budget });
        if self.slots.is_empty() {
            self.empty += 1;
            if self.empty >= LOOKS {
                self.empty = 0;
                self.look_for_ends()?;
            }
        }
        if looks {
            let count = self.network.receive(now, budget - self.slots.len())?;
            self.slots.extend((0..count).map(Slot::Network));
        }
        if now.nanos_since(self.rested) >= nanos(REST) {
            self.rest(now);
        }
        Ok(self.slots.len())
    }

    #[inline]
    fn received(&mut self, index: usize) -> Received<'_> {
        match self.slots[index] {
            Slot::Network(index) => self.network.received(index),
            Slot::Memory(link, len) => Received {
                source: self.links[link].address,
                stride: len,
                data: Data::Own(&mut self.buffers[index][..len]),
            },
        }
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<Wake> {
        if self.links.is_empty() {
            return self.network.wait(timeout);
        }
        self.slots.clear();
        // The next pass looks at the network.
        self.passes = LONELY_PASSES;
        if !self.arm() {
            self.disarm();
            return Ok(Wake::Readable);
        }
        self.stats.receive_calls += 1;
        let has_descriptor = self.network.as_fd().is_some();
        let nap = timeout.map_or(NAP, |timeout| timeout.min(NAP));
        let news = self.sockets.look(if has_descriptor { timeout } else { Some(nap) });
        self.disarm();
        let news = news?;
        self.note_ends(&news.ended);
        // A network without a descriptor may have received something.
        Ok(if news.is_rung || !has_descriptor {
            Wake::Readable
        } else {
            Wake::TimedOut
        })
    }

    fn poll_notices(&mut self, each: &mut dyn FnMut(Notice<'_>)) {
        self.refusals.report(each);
        self.network.poll_notices(each);
    }

    fn neighbours(&mut self) -> Option<&mut dyn Neighbours> {
        Some(self)
    }

    fn next_deadline(&self) -> Option<Instant> {
        let rest = self
            .links
            .iter()
            .any(|link| link.outward.is_large())
            .then(|| self.rested + REST);
        match (rest, self.network.next_deadline()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// The sum of both.
    fn stats(&self) -> BackendStats {
        let (memory, network) = (self.stats, self.network.stats());
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
                    self.sockets.add(socket)?;
                    let gate = self.near.add(address, identity.process, pair.short);
                    self.places.insert(address, self.links.len());
                    self.links.push(Link {
                        address,
                        outward: pair.outward,
                        inward: pair.inward,
                        state: State::Open,
                        gate,
                    });
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
