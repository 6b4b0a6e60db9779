//! Nodes, a network and a virtual clock.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, BinaryHeap},
    net::SocketAddr,
    time::Duration,
};

use hikyaku::{
    PeerError,
    reliability::{Event, Path, PeerId},
    time::Instant,
    wire::{Flags, Packet},
};

use super::{
    link::Network,
    model::{Job, Model},
    node::{Node, NodeOptions, Output, RAILS, on_rail},
    prng::{Prng, Transcript},
    proxy::beside,
    record::Record,
    seeds::directory,
};

/// Steps of one run before it is taken for an endless loop.
const MAX_STEPS: u64 = 20_000_000;
/// Steps without time passing before that is taken for an endless loop.
const MAX_STEPS_AT_ONCE: u64 = 100_000;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Arrive {
        node: usize,
        from: SocketAddr,
        bytes: Vec<u8>,
    },
    /// A host says to a node that nobody listens at an address.
    Refuse {
        node: usize,
        address: SocketAddr,
        quoted: Vec<u8>,
    },
    Release {
        node: usize,
        incarnation: u32,
        token: u64,
    },
}

/// Something that will happen. The number keeps the order of what happens at once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Future {
    at: Instant,
    number: u64,
    what: What,
}

/// A datagram seen on the wire.
#[derive(Clone, Debug)]
pub(crate) struct Captured {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) bytes: Vec<u8>,
}

/// Decides about a datagram from one node to another: false drops it.
pub(crate) type Filter = Box<dyn FnMut(usize, usize, &Packet<&[u8]>) -> bool>;

/// Changes a datagram of a node on the way.
pub(crate) type Spoil = Box<dyn FnMut(usize, &mut Vec<u8>)>;

pub(crate) struct World {
    pub(crate) now: Instant,
    pub(crate) rng: Prng,
    pub(crate) nodes: Vec<Node>,
    pub(crate) network: Network,
    pub(crate) model: Model,
    pub(crate) transcript: Transcript,
    /// Keeps a copy of everything that is sent, if it is there.
    pub(crate) tap: Option<Vec<Captured>>,
    /// Keeps what is sent to addresses of no node, if it is there.
    pub(crate) outside: Option<Vec<(SocketAddr, Vec<u8>)>>,
    pub(crate) filter: Option<Filter>,
    /// Changes the datagrams of a node on the way.
    pub(crate) spoil: Option<Spoil>,
    /// Hosts say that nobody listens at an address (ICMP port unreachable), and quote so many bytes of the packet; none: they
    /// are silent.
    pub(crate) quote: Option<usize>,
    /// Whoever is told that its session is not known tries again.
    pub(crate) retries: bool,
    /// What refusals have used up, for each address: see [`Self::may_refuse`].
    refused: BTreeMap<SocketAddr, u64>,
    /// Messages of 8 bytes and more are told from each other where some may get lost.
    pub(crate) min_len: usize,
    /// Chance per mille that a node falls into a stall when it has been pumped, and the longest stall in ns.
    pub(crate) stalls: (u32, u64),
    future: BinaryHeap<Reverse<Future>>,
    number: u64,
    wakes: BTreeSet<(Instant, usize)>,
    by_address: BTreeMap<SocketAddr, usize>,
    processors: Vec<Vec<u32>>,
    steps: u64,
    steps_at_once: u64,
    trace: bool,
    record: Option<Record>,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            // Not zero, so that nobody takes zero for "never".
            now: Instant::from_nanos(1_000_000_000),
            rng: Prng::new(seed),
            nodes: Vec::new(),
            network: Network::default(),
            model: Model::new(seed),
            transcript: Transcript::new(),
            tap: None,
            outside: None,
            filter: None,
            spoil: None,
            quote: None,
            retries: true,
            refused: BTreeMap::new(),
            min_len: 0,
            stalls: (0, 0),
            future: BinaryHeap::new(),
            number: 0,
            wakes: BTreeSet::new(),
            by_address: BTreeMap::new(),
            processors: Vec::new(),
            steps: 0,
            steps_at_once: 0,
            trace: std::env::var_os("HIKYAKU_SIM_TRACE").is_some(),
            record: directory().map(|path| match Record::create(&path) {
                Ok(record) => record,
                Err(error) => panic!("HIKYAKU_SIM_DIR: {}: {error}", path.display()),
            }),
        }
    }

    /// Two connected nodes, 0 and 1.
    pub(crate) fn pair(seed: u64, options: &NodeOptions) -> Self {
        let mut world = Self::new(seed);
        world.add(options.clone());
        world.add(options.clone());
        world.connect(0, 1);
        world
    }

    pub(crate) fn add(&mut self, options: NodeOptions) -> usize {
        let number = self.nodes.len();
        let mut node = Node::new(number, options);
        node.start(&mut self.rng);
        self.by_address.insert(node.address, number);
        for rail in 1..=RAILS {
            self.by_address.insert(on_rail(node.address, rail), number);
        }
        if node.options.split {
            self.by_address.insert(beside(node.address), number);
        }
        self.processors.push(node.processors.clone());
        self.nodes.push(node);
        number
    }

    /// Makes each know the other.
    pub(crate) fn connect(&mut self, a: usize, b: usize) {
        self.introduce(a, b);
        self.introduce(b, a);
    }

    /// Makes `a` know `b`.
    pub(crate) fn introduce(&mut self, a: usize, b: usize) -> PeerId {
        let (address, processor) = (self.nodes[b].address, self.nodes[b].processors[0]);
        let node = &mut self.nodes[a];
        let peer = match node.stack_mut().add_peer(address, processor) {
            Ok(peer) => peer,
            Err(error) => panic!("{error}"),
        };
        self.knows(a, peer, b);
        peer
    }

    /// Notes that `peer` of `a` is the node `b`.
    fn knows(&mut self, a: usize, peer: PeerId, b: usize) {
        let node = &mut self.nodes[a];
        if node.peers.len() <= peer.index() {
            node.peers.resize(peer.index() + 1, usize::MAX);
        }
        node.peers[peer.index()] = b;
        node.peer_of.insert(b, peer);
    }

    /// A node gets a rail to another one, beside the first, and reaches it there by the port of that number.
    pub(crate) fn add_rail(&mut self, from: usize, to: usize, rail: u8) {
        let path = Path::new(on_rail(self.nodes[to].address, rail), rail);
        let (now, peer) = (self.now, self.nodes[from].peer_of[&to]);
        self.nodes[from].stack_mut().add_rail(now, peer, path);
        self.touch(from);
    }

    /// Queues a message; it is sent as soon as there is room, when the world goes on.
    pub(crate) fn send(&mut self, from: usize, to: usize, mut job: Job) {
        job.len = job.len.max(self.min_len);
        self.nodes[from].backlog.entry(to).or_default().push_back(job);
        self.touch(from);
    }

    /// Makes a node run at this instant (or when its stall ends).
    pub(crate) fn touch(&mut self, node: usize) {
        self.wake_at(node, self.now);
    }

    fn wake_at(&mut self, node: usize, at: Instant) {
        let target = &mut self.nodes[node];
        let at = at.max(target.stalled_until).max(self.now);
        if target.wake.is_some_and(|wake| wake <= at) {
            return;
        }
        if let Some(old) = target.wake.replace(at) {
            self.wakes.remove(&(old, node));
        }
        self.wakes.insert((at, node));
    }

    /// The node does not run for this time.
    pub(crate) fn stall(&mut self, node: usize, time: Duration) {
        let until = self.now + time;
        let target = &mut self.nodes[node];
        target.stalled_until = target.stalled_until.max(until);
        if let Some(old) = target.wake.take() {
            self.wakes.remove(&(old, node));
        }
        self.wake_at(node, until);
    }

    /// The node's process dies.
    pub(crate) fn crash(&mut self, node: usize) {
        self.nodes[node].crash();
        if let Some(old) = self.nodes[node].wake.take() {
            self.wakes.remove(&(old, node));
        }
        for other in 0..self.nodes.len() {
            if other == node {
                continue;
            }
            let (mine, theirs) = (
                self.nodes[node].processors.clone(),
                self.nodes[other].processors.clone(),
            );
            self.model.excuse(&mine, &theirs, u32::MAX, u32::MAX);
            self.model.excuse(&theirs, &mine, u32::MAX, u32::MAX);
            if let Some((incarnation, session)) = self.unheard(other, node) {
                self.model.may_repeat(&theirs, &mine, incarnation, session);
            }
        }
        self.transcript.number(0xdead);
    }

    /// The incarnation of `from` and its session with `to`, if it has never heard of `to` in it.
    fn unheard(&self, from: usize, to: usize) -> Option<(u32, u32)> {
        let node = &self.nodes[from];
        let peer = *node.peer_of.get(&to)?;
        let session = node.stack.as_ref()?.endpoint().session(peer);
        let up = Event::Up { peer, session };
        let heard = node.events.iter().any(|&(at, event)| at >= node.started && event == up);
        (!heard).then_some((node.incarnation, session))
    }

    /// A new incarnation of a crashed node starts, with the same peers.
    pub(crate) fn restart(&mut self, node: usize) {
        let peers = std::mem::take(&mut self.nodes[node].peers);
        self.nodes[node].started = self.now;
        self.nodes[node].start(&mut self.rng);
        for peer in peers {
            self.introduce(node, peer);
        }
        self.touch(node);
    }

    /// All packets under way are lost.
    pub(crate) fn lose_in_flight(&mut self) {
        self.future
            .retain(|future| !matches!(future.0.what, What::Arrive { .. }));
    }

    /// Lets a datagram arrive at a node at this instant, from anywhere.
    pub(crate) fn inject(&mut self, node: usize, from: SocketAddr, bytes: Vec<u8>) {
        self.schedule(self.now, What::Arrive { node, from, bytes });
    }

    /// Nobody listens at `address`: its host tells the sender, if hosts do that.
    fn refuse(&mut self, sender: Option<usize>, address: SocketAddr, bytes: &[u8]) {
        if let (Some(node), Some(quote)) = (sender, self.quote)
            && self.may_refuse(address)
        {
            let at = self.now.plus_nanos(self.network.usual.delay);
            let quoted = bytes[..bytes.len().min(quote)].to_vec();
            self.schedule(at, What::Refuse { node, address, quoted });
        }
    }

    /// A host may send so many refusals at once, and then one a second: as Linux does.
    fn may_refuse(&mut self, address: SocketAddr) -> bool {
        const SECOND: u64 = 1_000_000_000;
        let earned = self.now.as_nanos() + 6 * SECOND;
        let spent = self.refused.entry(address).or_default();
        let more = (*spent).max(earned - 6 * SECOND) + SECOND;
        if more <= earned {
            *spent = more;
        }
        more <= earned
    }

    /// From now on a node sends from another address, and is reached there: somebody on the way has given it another one.
    pub(crate) fn relocate(&mut self, node: usize, address: SocketAddr) {
        let old = std::mem::replace(&mut self.nodes[node].address, address);
        self.by_address.remove(&old);
        self.by_address.insert(address, node);
    }

    fn schedule(&mut self, at: Instant, what: What) {
        self.number += 1;
        self.future.push(Reverse(Future {
            at,
            number: self.number,
            what,
        }));
    }

    fn next_instant(&self) -> Option<Instant> {
        let future = self.future.peek().map(|future| future.0.at);
        let wake = self.wakes.first().map(|wake| wake.0);
        future.into_iter().chain(wake).min()
    }

    /// Goes on to the next instant at which something happens, if that is not after `until`.
    fn step(&mut self, until: Instant) -> bool {
        let Some(next) = self.next_instant().filter(|next| *next <= until) else {
            return false;
        };
        assert!(next >= self.now, "time goes on");
        self.steps_at_once = if next > self.now { 0 } else { self.steps_at_once + 1 };
        self.steps += 1;
        assert!(self.steps_at_once < MAX_STEPS_AT_ONCE, "busy for ever at {next:?}");
        assert!(self.steps < MAX_STEPS, "no end in sight at {next:?}");
        self.now = next;
        while self.future.peek().is_some_and(|future| future.0.at <= next) {
            let Some(Reverse(future)) = self.future.pop() else {
                break;
            };
            self.happen(future.what);
        }
        while let Some(&(at, node)) = self.wakes.first()
            && at <= next
        {
            self.wakes.pop_first();
            self.nodes[node].wake = None;
            self.pump(node);
        }
        true
    }

    fn happen(&mut self, what: What) {
        match what {
            What::Arrive { node, from, bytes } => {
                if self.nodes[node].stack.is_none() {
                    let (address, sender) = (self.nodes[node].address, self.by_address.get(&from).copied());
                    self.refuse(sender, address, &bytes);
                }
                self.nodes[node].arrive(from, bytes);
                if self.nodes[node].stack.is_some() {
                    self.touch(node);
                }
            }
            What::Refuse { node, address, quoted } => {
                if let Some(stack) = &mut self.nodes[node].stack {
                    stack.handle_unreachable(self.now, address, &quoted);
                    self.touch(node);
                }
            }
            What::Release {
                node,
                incarnation,
                token,
            } => {
                if self.nodes[node].incarnation == incarnation && self.nodes[node].stack.is_some() {
                    self.nodes[node].release(token);
                    self.touch(node);
                }
            }
        }
    }

    /// Runs one node at this instant.
    pub(crate) fn pump(&mut self, number: usize) {
        let now = self.now;
        let node = &mut self.nodes[number];
        let output = node.pump(now, &mut self.rng, &mut self.model, &self.processors);
        let deadline = node.stack().poll_timeout();
        let slack = node.options.slack;
        self.dispose(number, output);
        if self.stalls.0 > 0 && self.rng.chance(self.stalls.0) {
            let time = self.rng.below(self.stalls.1.max(1));
            self.nodes[number].stalled_until = now.plus_nanos(time);
        }
        if let Some(deadline) = deadline {
            let late = if slack > 0 { self.rng.below(slack) } else { 0 };
            self.wake_at(number, deadline.plus_nanos(late));
        }
    }

    fn dispose(&mut self, number: usize, output: Output) {
        let now = self.now;
        for event in output.events {
            self.note_event(number, event);
        }
        for token in output.held {
            let hold = self.nodes[number].options.hold;
            let at = now.plus_nanos(self.rng.below(hold.max(1)));
            let incarnation = self.nodes[number].incarnation;
            self.schedule(
                at,
                What::Release {
                    node: number,
                    incarnation,
                    token,
                },
            );
        }
        let own = self.nodes[number].address;
        for departure in output.departures {
            let (from, destination) = if departure.is_of_bulk {
                (beside(own), beside(departure.destination))
            } else {
                (on_rail(own, departure.port), departure.destination)
            };
            self.transcript.number(now.as_nanos());
            self.transcript.bytes(&departure.bytes);
            let Some(&to) = self.by_address.get(&destination) else {
                self.refuse(Some(number), destination, &departure.bytes);
                if let Some(outside) = &mut self.outside {
                    outside.push((destination, departure.bytes));
                }
                continue;
            };
            let mut bytes = departure.bytes;
            if let Some(spoil) = &mut self.spoil {
                spoil(number, &mut bytes);
            }
            let mut pass = !self.network.dead_rails.contains(&(number, departure.port));
            if let Ok(packet) = Packet::new_checked(&bytes[..]) {
                self.network.count((number, to), &packet, bytes.len());
                if let Some(filter) = &mut self.filter {
                    pass &= filter(number, to, &packet);
                }
                if self.trace {
                    self.print(number, to, &packet, pass);
                }
            }
            if let Some(tap) = &mut self.tap {
                tap.push(Captured {
                    from: number,
                    to,
                    bytes: bytes.clone(),
                });
            }
            if !pass {
                if let Some(record) = &mut self.record {
                    record.packet(now, from, destination, &bytes, 0);
                }
                continue;
            }
            let mut arrivals = Vec::new();
            let (network, rng) = (&mut self.network, &mut self.rng);
            network.carry(
                now,
                rng,
                (number, to),
                &bytes,
                departure.dont_fragment,
                &mut |at, bytes| {
                    arrivals.push((at, bytes));
                },
            );
            if let Some(record) = &mut self.record {
                record.packet(now, from, destination, &bytes, arrivals.len());
            }
            for (at, bytes) in arrivals {
                self.schedule(at, What::Arrive { node: to, from, bytes });
            }
        }
    }

    fn print(&self, from: usize, to: usize, packet: &Packet<&[u8]>, pass: bool) {
        let base = packet.base();
        eprintln!(
            "{:?} {from}→{to} {:?} ch {} session {} seq {} ack {} message {} payload {} flags {:?}{}{}",
            self.now,
            base.kind,
            base.channel,
            base.session,
            base.sequence,
            base.acknowledgement,
            base.message,
            packet.payload().len(),
            packet.flags(),
            if packet.flags().contains(Flags::SACK) {
                format!(" sack {:x?}", packet.sack().collect::<Vec<_>>())
            } else {
                String::new()
            },
            if pass { "" } else { " FILTERED" },
        );
    }

    fn note_event(&mut self, number: usize, event: Event) {
        if let Some(record) = &mut self.record {
            record.event(self.now, number, event);
        }
        if self.trace {
            eprintln!("{:?} node {number}: {event:?}", self.now);
        }
        let (peer, session, error) = match event {
            Event::Up { peer, .. } => return self.meet(number, peer),
            Event::Down {
                peer, session, error, ..
            } => (peer, session, error),
            _ => return,
        };
        if error == PeerError::Reset && self.retries {
            // It has restarted, or will: try again.
            self.nodes[number].stack_mut().reconnect(peer);
            self.touch(number);
        }
        self.transcript.number(0xd0 + u64::from(session));
        self.meet(number, peer);
        let Some(other) = self.nodes[number].node_of(peer) else {
            return;
        };
        let (mine, theirs) = (&self.nodes[number], &self.nodes[other]);
        self.model
            .excuse(&mine.processors, &theirs.processors, mine.incarnation, session);
        // What the other side had sent before it noticed is lost too, but not what a new incarnation of it sends.
        let incarnation = match error {
            PeerError::Restarted => theirs.incarnation - 1,
            PeerError::Closed => return,
            _ => theirs.incarnation,
        };
        let theirs_session = match (&theirs.stack, theirs.peer_of.get(&number)) {
            (Some(stack), Some(&peer)) => stack.endpoint().session(peer),
            _ => u32::MAX,
        };
        self.model
            .excuse(&theirs.processors, &mine.processors, incarnation, theirs_session);
    }

    /// It may be a stranger, at the place of another one that has left.
    fn meet(&mut self, number: usize, peer: PeerId) {
        let address = self.nodes[number].endpoint().address(peer);
        if let Some(&other) = address.and_then(|address| self.by_address.get(&address)) {
            self.knows(number, peer, other);
        }
    }

    pub(crate) fn run_until(&mut self, until: Instant) {
        while self.step(until) {}
        self.now = until;
    }

    pub(crate) fn run_for(&mut self, time: Duration) {
        self.run_until(self.now + time);
    }

    /// Runs until nothing happens any more, which must be before `limit` has passed. An idle world has no timers.
    pub(crate) fn run_idle(&mut self, limit: Duration) {
        let until = self.now + limit;
        while self.step(until) {}
        if let Some(next) = self.next_instant() {
            panic!(
                "not idle after {limit:?}: something will happen at {next:?}\n{}",
                self.describe()
            );
        }
    }
}
