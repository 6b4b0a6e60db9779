//! The backend of a process that reaches some peers through memory and the others over the network.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    fmt, io,
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use super::{
    door::{Caller, Door, NotMet},
    identity::{Apart, Identity},
    limits,
    links::{Links, PROBE},
    near::Near,
    pair::Pair,
    socket::{News, Presence, Sockets, Way},
    streams::Streams,
};
use crate::{
    backends::{Backend, BackendStats, Capabilities, Met, Neighbours, Notice, Received, Sent, Transmit, Wake},
    config::{Config, ConfigError},
    events::event,
    progress::random,
    reliability::{Beside, Endpoint, Gate, MemoryLayer, Obstacle},
    time::Instant,
};

/// Passes in a row that find nothing in memory between two looks at the network, and passes that find something.
const PASSES: u32 = 8;
/// The same if no peer is on the network.
const LONELY_PASSES: u32 = 1_024;
/// After this time, ns, the network's turn has come whatever the number of passes.
const LONG: u64 = 5_000;
/// Nanoseconds between two looks at the door while messages come.
const LOOK: u64 = 1_000_000;
/// Callers that wait until this process hears of them; the oldest gives way to another one.
const EARLY: usize = 64;
/// The longest sleep beside a network without a file descriptor.
const NAP: Duration = Duration::from_micros(50);

/// A backend of the network with memories beside it, through which the processes of this host are reached.
///
/// Its peers are named by their addresses on the network. Whether a peer shares memory with this process is known when it
/// has been [introduced](Neighbours::introduce); the memory is made when one of the two first sends something to the other.
/// The packet layer that fits is that of [`layer`](Self::layer).
pub(crate) struct Routed {
    network: Box<dyn Backend>,
    /// The link address of the network's backend.
    own_link: Vec<u8>,
    /// What this process says of itself. `None`: this system does not tell it.
    pub(super) own: Option<Identity>,
    pub(super) door: Option<Door>,
    /// The processes that are reached through memory, by their addresses, and their addresses by their names.
    pub(super) host: HashMap<SocketAddr, Identity>,
    names: HashMap<u64, SocketAddr>,
    /// Those of them with which there is no memory yet; and when this process has last looked for those that it waits for.
    uncalled: BTreeMap<SocketAddr, Gate>,
    looked_for: Instant,
    /// Callers of which this process has not heard yet: those that it spawns may be faster than the launcher.
    early: VecDeque<Caller>,
    /// Introduced processes that are reached over the network.
    far: usize,
    pub(super) near: Near,
    pub(super) links: Links,
    /// Packets of the last pass that came through memory.
    received: usize,
    /// Passes since the last look at the network.
    passes: u32,
    looked: Instant,
    attended: Instant,
    /// Processes of this host must be reached through memory.
    is_forced: bool,
    obstacles: Obstacles,
}

/// The reasons why processes of this host are reached over the network.
#[derive(Debug, Default)]
struct Obstacles {
    /// Why this process can have no memory in common with others.
    own: Option<String>,
    /// Why one of the others cannot be reached.
    other: Option<String>,
    /// A process of this host has a lower number; and one of those has no memory either.
    has_lower: bool,
    lower_has_none: bool,
}

impl Obstacles {
    /// The one that this process tells the user: of the processes of a host that have the same one, the lowest does.
    fn told(self) -> Option<String> {
        let own = self.own.filter(|_| !self.lower_has_none);
        own.or_else(|| self.other.filter(|_| !self.has_lower))
    }
}

/// Opens what others of this host come to.
fn open(name: u64, sockets: &mut Sockets, streams: &Arc<Streams>) -> io::Result<Door> {
    let mut door = Door::open(name, sockets, streams)?;
    sockets.hang_bell(name)?;
    door.try_it(sockets)?;
    Ok(door)
}

impl Routed {
    /// Puts memories beside `network`, for the process of this number in its job. If memory `is_forced`, the processes
    /// of this host are reached so, or not at all.
    ///
    /// # Errors
    /// The system gives no descriptor. If memory `is_forced`: memory cannot be had.
    pub(crate) fn new(mut network: Box<dyn Backend>, process: u32, is_forced: bool) -> io::Result<Self> {
        let mut sockets = Sockets::new()?;
        let (name, streams) = (random(), Arc::new(Streams::of_this_host()));
        let (mut own, mut door, mut obstacles) = (None, None, Obstacles::default());
        let opened = Identity::own(process, name).and_then(|identity| {
            own = Some(identity);
            open(name, &mut sockets, &streams)
        });
        match opened {
            Ok(opened) => door = Some(opened),
            Err(error) if is_forced => return Err(error),
            Err(error) => {
                event!(WARN, %error, "this process can have no memory in common with others");
                sockets.take_bell();
                obstacles.own = Some(format!("process {process} can have none: {error}"));
                own = own.map(Identity::without_memory);
            }
        }
        Ok(Self {
            own,
            door,
            host: HashMap::new(),
            names: HashMap::new(),
            uncalled: BTreeMap::new(),
            looked_for: Instant::ZERO,
            early: VecDeque::new(),
            links: Links::new(sockets, streams),
            own_link: network
                .neighbours()
                .map_or_else(Vec::new, |neighbours| neighbours.link_address()),
            network,
            far: 0,
            near: Near::default(),
            received: 0,
            passes: 0,
            looked: Instant::ZERO,
            attended: Instant::ZERO,
            is_forced,
            obstacles,
        })
    }

    /// Returns what makes the packet layer that fits, from the endpoint of the network.
    pub(crate) fn layer(&self) -> impl Fn(Endpoint, Config) -> Result<Beside, ConfigError> + Send + Sync + use<> {
        let near = self.near.clone();
        move |endpoint, config| {
            let memory = MemoryLayer::new(config, limits(), random())?.with_rings(near.clone());
            let (gates, crosses) = (near.clone(), near.clone());
            let memory = memory
                .with_gates(move |address| gates.gate(address))
                .with_cross_memory(move |address| crosses.cross(address));
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

    /// Why a process is reached over the network. `None`: it is on another host.
    fn apart(&mut self, other: &Identity) -> Option<String> {
        let own = self.own.as_ref()?;
        let apart = own.meets(other).err()?;
        if apart != Apart::Host && other.process < own.process {
            self.obstacles.has_lower = true;
            self.obstacles.lower_has_none |= !other.has_memory;
        }
        match apart {
            Apart::Host => None,
            Apart::Namespace => Some("it sees another network (a container)".into()),
            Apart::User if own.user == other.user => Some(format!(
                "it belongs to the user {} outside of its namespace",
                other.outer
            )),
            Apart::User => Some(format!("it belongs to the user {}", other.user)),
            Apart::Release => Some("it is of another release".into()),
            Apart::Memory if other.has_memory => Some("this process can have no memory in common with others".into()),
            Apart::Memory => Some("it can have no memory in common with others".into()),
        }
    }

    /// Connects to a process of this host, with which there is no memory yet. Returns the link, or what became of the
    /// burst.
    #[cold]
    fn call(&mut self, address: SocketAddr, other: &Identity) -> io::Result<Result<usize, Sent>> {
        // It may have called, too.
        self.attend(Some(Duration::ZERO))?;
        if let Some(index) = self.links.find(address) {
            return Ok(Ok(index));
        }
        let secret = random();
        let called = match &self.door {
            Some(door) => door.call(other.number(), secret),
            None => Ok(Err(NotMet::Refused(None))),
        };
        let why = match called {
            Ok(Ok((pair, _))) => return self.join(address, other, pair, secret).map(Ok),
            Ok(Err(NotMet::Busy)) => return Ok(Err(Sent::Busy)),
            Ok(Err(NotMet::Refused(why))) => why,
            Err(error) => {
                event!(WARN, process = other.process, %error, "no memory in common with a process");
                drop(error);
                Some(Obstacle::Memory)
            }
        };
        self.links.refuse(address, why.map(|why| why as u8));
        Ok(Err(Sent::Dropped))
    }

    /// There is a memory in common with a process. Returns the link.
    pub(super) fn join(&mut self, address: SocketAddr, other: &Identity, pair: Pair, secret: u64) -> io::Result<usize> {
        self.uncalled.remove(&address);
        // If both call there are two memories. Each direction of packets stays with one of them; of the rings for short
        // messages both sides take those that the higher one has made.
        let is_higher = self.own.is_some_and(|own| own.process > other.process);
        let is_own = pair.is_own();
        let way = Way::bell(other.number(), secret)?;
        let index = self.links.add(address, (pair.outward, pair.inward), way)?;
        if let Some(gate) = self.near.gate(address) {
            self.links.set_gate(index, gate);
        }
        self.near.add_rings(address, pair.short, is_own, is_higher);
        event!(DEBUG, process = other.process, "memory in common");
        Ok(index)
    }

    /// Looks at the connections for at most `timeout`, and lets callers in.
    pub(super) fn attend(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let news = self.links.look(timeout)?;
        self.let_in(&news)
    }

    fn let_in(&mut self, news: &News) -> io::Result<()> {
        let Some(door) = self.door.as_mut().filter(|_| news.is_called) else {
            return Ok(());
        };
        for caller in door.answer(&self.links.sockets) {
            match self.names.get(&caller.name) {
                Some(&address) => self.welcome(address, caller)?,
                None => {
                    if self.early.len() == EARLY {
                        self.early.pop_front();
                    }
                    self.early.push_back(caller);
                }
            }
        }
        Ok(())
    }

    fn welcome(&mut self, address: SocketAddr, caller: Caller) -> io::Result<()> {
        match (caller.pair, self.host.get(&address).copied()) {
            (Ok(pair), Some(other)) => drop(self.join(address, &other, pair, caller.secret)?),
            (Err(why), _) => {
                event!(WARN, %address, ?why, "the memory of a process is not taken");
                self.links.sockets.refuse(caller.name, caller.secret, why);
            }
            (Ok(_), None) => {}
        }
        Ok(())
    }

    /// A process is introduced that has the address of another one, which has ended.
    fn forget(&mut self, address: SocketAddr) {
        if let Some(old) = self.host.remove(&address) {
            self.names.remove(&old.number());
            self.near.forget(address);
            self.uncalled.remove(&address);
            self.links.forget(address);
        }
    }

    /// Looks for the processes that this one waits for, and with which there is no memory: of those that are not there the
    /// end is told, and to those that leave a session is opened, in which they say so.
    fn look_for_awaited(&mut self, now: Instant) {
        if self.uncalled.is_empty() || now.nanos_since(self.looked_for) < PROBE {
            return;
        }
        self.looked_for = now;
        for (address, gate) in self.uncalled.iter().filter(|(_, gate)| gate.take_question()) {
            let Some(other) = self.host.get(address) else { continue };
            match self.links.find_process(other.number()) {
                Presence::There => {}
                Presence::Leaves => gate.set_wanted(),
                Presence::Gone => self.links.refuse(*address, None),
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

    /// Returns whether this pass, in which it is the network's turn, looks at the door and the bell, too.
    #[inline]
    fn is_doors_turn(&mut self, now: Instant) -> bool {
        let is_turn = now.nanos_since(self.attended) >= LOOK && !self.host.is_empty();
        if is_turn {
            self.attended = now;
        }
        is_turn
    }

    /// Sends something to a process with which there may be no memory yet.
    #[cold]
    fn transmit_first(&mut self, now: Instant, transmit: &Transmit<'_>) -> io::Result<Sent> {
        let Some(other) = self.host.get(&transmit.destination).copied() else {
            return self.network.transmit(now, transmit);
        };
        match self.call(transmit.destination, &other)? {
            Ok(index) => self.links.transmit(now, index, transmit),
            Err(sent) => Ok(sent),
        }
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
            Some(index) => self.links.transmit(now, index, transmit),
            None if !self.uncalled.is_empty() => self.transmit_first(now, transmit),
            None => self.network.transmit(now, transmit),
        }
    }

    fn receive(&mut self, now: Instant, budget: usize) -> io::Result<usize> {
        let looks = self.is_networks_turn(now);
        // On its turn, the network gets half of the buffers at least.
        self.received = self.links.receive(if looks { budget.div_ceil(2) } else { budget });
        if self.received == 0 && self.links.note_empty() || looks && self.is_doors_turn(now) {
            self.attend(Some(Duration::ZERO))?;
            self.look_for_awaited(now);
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
        if self.host.is_empty() {
            return self.network.wait(timeout);
        }
        self.received = 0;
        // The next pass looks at the network.
        self.passes = LONELY_PASSES;
        let network = self.network.descriptors();
        let has_descriptor = !network.is_empty();
        let nap = timeout.map_or(NAP, |timeout| timeout.min(NAP));
        let timeout = if has_descriptor { timeout } else { Some(nap) };
        let Some(news) = self.links.sleep(&network, timeout)? else {
            return Ok(Wake::Readable);
        };
        self.let_in(&news)?;
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

    fn ports(&self) -> &[Box<dyn Backend>] {
        self.network.ports()
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
        let mut bytes = self.own.map_or_else(Vec::new, |own| own.bytes());
        bytes.extend(&self.own_link);
        bytes
    }

    fn introduce(&mut self, address: SocketAddr, link: &[u8]) -> io::Result<()> {
        self.forget(address);
        let Some((other, rest)) = Identity::read(link) else {
            self.far += 1;
            return self.introduce_to_network(address, link);
        };
        if self.own.is_some_and(|own| own.meets(&other).is_ok()) {
            event!(DEBUG, process = other.process, route = "memory", "route chosen");
            self.obstacles.has_lower |= self.own.is_some_and(|own| other.process < own.process);
            self.names.insert(other.number(), address);
            self.host.insert(address, other);
            self.uncalled.insert(address, self.near.add(address));
            if let Some(at) = self.early.iter().position(|caller| caller.name == other.number())
                && let Some(caller) = self.early.remove(at)
            {
                self.welcome(address, caller)?;
            }
        } else {
            self.far += 1;
            let process = other.process;
            if let Some(why) = self.apart(&other) {
                event!(WARN, process, why, "a process of this host is reached over the network");
                self.obstacles
                    .other
                    .get_or_insert_with(|| format!("process {process}: {why}"));
            } else {
                event!(DEBUG, process, route = "network", "route chosen");
            }
        }
        self.introduce_to_network(address, rest)
    }

    fn leave(&mut self) {
        if let Some(own) = &self.own
            && let Err(error) = self.links.sockets.show_that_it_leaves(own.number())
        {
            // Those that wait for this process without having talked with it learn of its end later.
            event!(WARN, %error, "this process cannot show that it leaves");
            drop(error);
        }
    }

    fn meet(&mut self) -> io::Result<Met> {
        event!(INFO, memory = self.host.len(), network = self.far, "routes chosen");
        let mut obstacles = std::mem::take(&mut self.obstacles);
        match obstacles.other.take() {
            Some(obstacle) if self.is_forced => Err(io::Error::other(obstacle)),
            other => Ok(Met {
                memory: self.host.len(),
                obstacle: Obstacles { other, ..obstacles }.told(),
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
