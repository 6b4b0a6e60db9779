//! One node: a stack, its socket buffer, its application, and the contracts that are checked at every step.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    net::SocketAddr,
    sync::Arc,
};

use hikyaku::{
    Config, PeerError, SendError,
    messaging::Messenger,
    reliability::{Burst, Endpoint, Event, Limits, Path, Payload, PeerId, SendToken},
    time::Instant,
};

use super::{
    memory::{Block, Memory},
    model::{Arrived, Job, Model},
    prng::Prng,
    proxy::ProxyStack,
    seal::{IS_ON, TestSealer},
    stack::{Bare, Stack},
    tagged::TaggedStack,
};

/// The secret of all nodes that seal.
const SECRET: u64 = 0x5ea1;
/// Rounds of one pump before it is taken for an endless loop.
const MAX_ROUNDS: u32 = 20_000;
/// Bursts of one poll before it is taken for an endless loop.
const MAX_BURSTS: u32 = 100_000;

/// Rails that a node can have beside the first, each a network in which it has an address.
pub(crate) const RAILS: u8 = 3;
/// The second number of an address on rail 0, plus this, is that on others.
const NETWORKS: u8 = 64;

/// The address of a node on a rail.
pub(crate) fn on_rail(address: SocketAddr, rail: u8) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) if rail > 0 => {
            let [a, _, c, d] = v4.ip().octets();
            SocketAddr::from(([a, NETWORKS + rail, c, d], v4.port()))
        }
        _ => address,
    }
}

/// The rail on which this is an address: what comes from there comes by that port.
pub(crate) fn rail_of(address: SocketAddr) -> u8 {
    match address {
        SocketAddr::V4(v4) => match v4.ip().octets()[1].checked_sub(NETWORKS) {
            Some(rail) if rail <= RAILS => rail,
            _ => 0,
        },
        SocketAddr::V6(_) => 0,
    }
}

/// The application of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum App {
    /// Takes them at once.
    Take,
    /// Does not take them.
    Hold,
    /// Answers each with one of the same length, in the same call.
    Echo,
}

/// How a node is made.
#[derive(Clone, Debug)]
pub(crate) struct NodeOptions {
    pub(crate) config: Config,
    pub(crate) limits: Limits,
    pub(crate) processors: usize,
    /// An endpoint without a messenger.
    pub(crate) bare: bool,
    /// A messenger whose endpoint is elsewhere.
    pub(crate) proxy: bool,
    /// With one of its own, for placements.
    pub(crate) split: bool,
    /// With queues of posted receives and unexpected messages, and this eager limit.
    pub(crate) eager_limit: Option<u32>,
    pub(crate) app: App,
    /// Longest time that the backend keeps references, ns.
    pub(crate) hold: u64,
    /// Chance, per mille, that neighbouring datagrams arrive as one receive-offload buffer.
    pub(crate) coalesce: u32,
    /// Longest time that a timer fires late, ns.
    pub(crate) slack: u64,
    /// Datagrams handled before the application and the transmitter get their turn.
    pub(crate) budget: usize,
    /// Seals with this secret.
    pub(crate) sealed: Option<u64>,
}

impl Default for NodeOptions {
    fn default() -> Self {
        Self {
            config: Config::default(),
            limits: Limits {
                max_datagram: 65_507,
                max_segments: 64,
                max_batch: 65_507,
                receive_buffer: 4 << 20,
                holds_references: false,
                ack_bytes: usize::MAX,
                receive_port: 0,
            },
            processors: 1,
            bare: false,
            proxy: false,
            split: false,
            eager_limit: None,
            app: App::Take,
            hold: 0,
            coalesce: 500,
            slack: 0,
            budget: 64,
            sealed: IS_ON.then_some(SECRET),
        }
    }
}

/// A datagram to put on the wire.
pub(crate) struct Departure {
    pub(crate) destination: SocketAddr,
    pub(crate) bytes: Vec<u8>,
    pub(crate) dont_fragment: bool,
    /// By this port, from the address there.
    pub(crate) port: u8,
    /// From the address beside.
    pub(crate) is_of_bulk: bool,
}

/// The output of a pump for the world.
#[derive(Default)]
pub(crate) struct Output {
    pub(crate) departures: Vec<Departure>,
    /// Bursts whose references the backend gives back later.
    pub(crate) held: Vec<u64>,
    pub(crate) events: Vec<Event>,
}

struct Pending {
    peer: PeerId,
    session: u32,
    block: Arc<Block>,
}

pub(crate) struct Node {
    pub(crate) options: NodeOptions,
    pub(crate) address: SocketAddr,
    pub(crate) processors: Vec<u32>,
    /// None: crashed.
    pub(crate) stack: Option<Box<dyn Stack>>,
    pub(crate) incarnation: u32,
    pub(crate) started: Instant,
    pub(crate) stalled_until: Instant,
    pub(crate) wake: Option<Instant>,
    /// Node numbers of the peers, by their index.
    pub(crate) peers: Vec<usize>,
    pub(crate) peer_of: BTreeMap<usize, PeerId>,
    pub(crate) inbox: VecDeque<(SocketAddr, Vec<u8>)>,
    pub(crate) inbox_bytes: usize,
    pub(crate) overflowed: u64,
    pub(crate) backlog: BTreeMap<usize, VecDeque<Job>>,
    blocked: BTreeSet<usize>,
    pub(crate) memory: Memory,
    tokens: BTreeMap<SendToken, Pending>,
    pub(super) held: BTreeMap<u64, Vec<Arc<Block>>>,
    /// Messages received, by node number of the sender: (when, bytes).
    pub(crate) log: Vec<(Instant, usize, usize)>,
    /// All events, with their times.
    pub(crate) events: Vec<(Instant, Event)>,
    /// Sends refused for good.
    pub(crate) refused: Vec<SendError>,
    pub(crate) sent: u64,
    burst: Burst,
}

impl Node {
    pub(crate) fn new(number: usize, options: NodeOptions) -> Self {
        let port = 4_000 + (number % 50_000) as u16;
        let host = (number / 50_000) as u8;
        let first = number as u32 * 16;
        Self {
            address: SocketAddr::from(([10, 0, host, 1], port)),
            processors: (first..first + options.processors as u32).collect(),
            options,
            stack: None,
            incarnation: 0,
            started: Instant::ZERO,
            stalled_until: Instant::ZERO,
            wake: None,
            peers: Vec::new(),
            peer_of: BTreeMap::new(),
            inbox: VecDeque::new(),
            inbox_bytes: 0,
            overflowed: 0,
            backlog: BTreeMap::new(),
            blocked: BTreeSet::new(),
            memory: Memory::default(),
            tokens: BTreeMap::new(),
            held: BTreeMap::new(),
            log: Vec::new(),
            events: Vec::new(),
            refused: Vec::new(),
            sent: 0,
            burst: Burst::default(),
        }
    }

    /// Starts a new incarnation without peers.
    pub(crate) fn start(&mut self, rng: &mut Prng) {
        let (config, limits) = (self.options.config.clone(), self.options.limits);
        if self.options.proxy {
            self.incarnation += 1;
            self.peers.clear();
            self.peer_of.clear();
            let own = [rng.next() | 1, rng.next()];
            let bulk = self.options.split.then(|| [rng.next() | 1, rng.next()]);
            let eager_limit = self.options.eager_limit;
            let proxy = ProxyStack::new(config, limits, own, bulk, &self.processors, eager_limit);
            self.stack = Some(Box::new(proxy));
            return;
        }
        let endpoint = match Endpoint::new(config, limits, rng.next() | 1, rng.next().into()) {
            Ok(endpoint) => endpoint,
            Err(error) => panic!("the scenario's configuration is wrong: {error}"),
        };
        let endpoint = match self.options.sealed {
            Some(secret) => endpoint.with_sealer(Box::new(TestSealer::new(secret))),
            None => endpoint,
        };
        self.incarnation += 1;
        self.peers.clear();
        self.peer_of.clear();
        self.stack = Some(if self.options.bare {
            Box::new(Bare::new(endpoint, &self.processors))
        } else {
            let messenger = Messenger::new(endpoint, &self.processors);
            match self.options.eager_limit {
                Some(limit) => Box::new(TaggedStack::new(messenger, limit)),
                None => Box::new(messenger),
            }
        });
    }

    /// Ends the incarnation: everything it had is gone.
    pub(crate) fn crash(&mut self) {
        self.held.values().flatten().for_each(|block| block.let_go());
        self.held.clear();
        self.tokens.clear();
        self.stack = None;
        self.backlog.clear();
        self.blocked.clear();
        self.inbox.clear();
        self.inbox_bytes = 0;
        assert_eq!(self.memory.outstanding(), 0, "memory outlives the stack");
    }

    pub(crate) fn stack(&self) -> &dyn Stack {
        match &self.stack {
            Some(stack) => stack.as_ref(),
            None => panic!("node at {} has crashed", self.address),
        }
    }

    pub(crate) fn stack_mut(&mut self) -> &mut dyn Stack {
        match &mut self.stack {
            Some(stack) => stack.as_mut(),
            None => panic!("node at {} has crashed", self.address),
        }
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        self.stack().endpoint()
    }

    /// The node that is this peer, if it has been up, or was added.
    pub(crate) fn node_of(&self, peer: PeerId) -> Option<usize> {
        self.peers.get(peer.index()).copied().filter(|&node| node != usize::MAX)
    }

    /// A datagram has come: it waits in the socket buffer if there is room.
    pub(crate) fn arrive(&mut self, from: SocketAddr, bytes: Vec<u8>) {
        if self.stack.is_none() {
            return;
        }
        // As the kernel does, each datagram costs more than its bytes; half of that is in the limit already.
        if self.inbox_bytes + bytes.len() > self.options.limits.receive_buffer {
            self.overflowed += 1;
            return;
        }
        self.inbox_bytes += bytes.len();
        self.inbox.push_back((from, bytes));
    }

    /// Sends one message to the node `to` at once.
    pub(crate) fn try_send(
        &mut self,
        now: Instant,
        model: &mut Model,
        to: (usize, &[u32]),
        job: &Job,
    ) -> Result<(), SendError> {
        let peer = self.peer_of[&to.0];
        let source = self.processors[job.source % self.processors.len()];
        let pair = (source, to.1[job.destination % to.1.len()]);
        let content = model.next_content(pair, job.len);
        let session = self.endpoint().session(peer);
        let incarnation = self.incarnation;
        let Some(stack) = &mut self.stack else {
            return Ok(());
        };
        if job.shared {
            let (shared, block) = self.memory.lend(content);
            let sent = stack.send(now, peer, pair, job, Payload::Shared(shared));
            match sent {
                Ok(Some(token)) => {
                    let pending = Pending { peer, session, block };
                    let old = self.tokens.insert(token, pending);
                    assert!(old.is_none(), "{token:?} was given twice");
                }
                Ok(None) => panic!("no token for a message by reference"),
                Err(error) => {
                    assert!(block.is_freed(), "a refused message is kept");
                    return Err(error);
                }
            }
        } else {
            let token = stack.send(now, peer, pair, job, Payload::Copy(&content))?;
            assert_eq!(token, None, "a token for a copied message");
        }
        assert_eq!(stack.endpoint().session(peer), session, "send changed the session");
        self.sent += 1;
        model.sent(pair, job, incarnation, session);
        Ok(())
    }

    /// Sends what waits to be sent, as far as there is room.
    fn work_off(&mut self, now: Instant, model: &mut Model, all: &[Vec<u32>]) {
        let open: Vec<usize> = self
            .backlog
            .keys()
            .copied()
            .filter(|to| !self.blocked.contains(to))
            .collect();
        for to in open {
            while let Some(job) = self.backlog.get(&to).and_then(VecDeque::front).copied() {
                match self.try_send(now, model, (to, &all[to]), &job) {
                    Ok(()) => {}
                    Err(SendError::WouldBlock(_)) => {
                        self.blocked.insert(to);
                        break;
                    }
                    Err(error) => self.refused.push(error),
                }
                if let Some(queue) = self.backlog.get_mut(&to) {
                    queue.pop_front();
                }
            }
            if self.backlog.get(&to).is_some_and(VecDeque::is_empty) {
                self.backlog.remove(&to);
            }
        }
    }

    fn handle_inbox(&mut self, now: Instant, rng: &mut Prng) {
        for _ in 0..self.options.budget {
            let Some((from, mut bytes)) = self.inbox.pop_front() else {
                break;
            };
            self.inbox_bytes -= bytes.len();
            let stride = bytes.len();
            let mut last = stride;
            while stride > 0
                && last == stride
                && bytes.len() + stride <= 65_535
                && rng.chance(self.options.coalesce)
                && self
                    .inbox
                    .front()
                    .is_some_and(|(source, next)| *source == from && next.len() <= stride && !next.is_empty())
            {
                let Some((_, next)) = self.inbox.pop_front() else {
                    break;
                };
                self.inbox_bytes -= next.len();
                last = next.len();
                bytes.extend_from_slice(&next);
            }
            let path = Path::new(from, rail_of(from));
            self.stack_mut().handle_datagrams(now, path, &mut bytes, stride);
            self.check_bounds(from);
        }
    }

    fn take_events(&mut self, now: Instant, output: &mut Output) -> bool {
        let mut any = false;
        while let Some(event) = self.stack_mut().poll_event() {
            any = true;
            self.events.push((now, event));
            output.events.push(event);
            match event {
                Event::Sent { peer, token } => {
                    let Some(pending) = self.tokens.remove(&token) else {
                        panic!("{token:?} to {peer} completed twice, or after its session was down");
                    };
                    assert_eq!(pending.peer, peer, "{token:?} completed for another peer");
                    assert!(pending.block.is_freed(), "{token:?} completed, its memory is in use");
                    pending.block.check();
                }
                Event::Down {
                    peer, session, error, ..
                } => {
                    self.tokens
                        .retain(|_, pending| pending.peer != peer || pending.session > session);
                    let Some(node) = self.node_of(peer) else { continue };
                    if !matches!(error, PeerError::Restarted | PeerError::Reset) {
                        self.backlog.remove(&node);
                    }
                    self.blocked.remove(&node);
                }
                Event::Writable { peer } => {
                    if let Some(node) = self.node_of(peer) {
                        self.blocked.remove(&node);
                    }
                }
                _ => {}
            }
        }
        assert_eq!(self.stack_mut().poll_event(), None, "I4: events after none");
        any
    }

    fn take_messages(&mut self, now: Instant, model: &mut Model, all: &[Vec<u32>]) -> bool {
        if self.options.app == App::Hold {
            return false;
        }
        let mut any = false;
        while let Some(message) = self.stack_mut().receive(now) {
            any = true;
            if let Err(error) = model.arrived(&message) {
                panic!("node at {} at {now:?}: {error}", self.address);
            }
            let from = message.source as usize / 16;
            self.log.push((now, from, message.data.len()));
            if self.options.app == App::Echo {
                self.echo(now, model, from, &message, all);
            }
        }
        any
    }

    fn echo(&mut self, now: Instant, model: &mut Model, from: usize, message: &Arrived, all: &[Vec<u32>]) {
        let job = Job {
            source: message.destination as usize % 16,
            destination: message.source as usize % 16,
            ..Job::new(message.data.len())
        };
        self.backlog.entry(from).or_default().push_back(job);
        self.work_off(now, model, all);
    }

    /// Polls out everything there is to transmit; checks contracts I2, I4 and I5. Gives whether there was anything.
    fn transmit(&mut self, now: Instant, output: &mut Output) -> bool {
        let mut burst = std::mem::take(&mut self.burst);
        let mut bursts = 0;
        loop {
            let deadline = self.stack().poll_timeout();
            if !self.stack_mut().poll_transmit(now, &mut burst) {
                break;
            }
            assert!(
                deadline.is_some_and(|deadline| deadline <= now),
                "I2: something can be sent at {now:?}, poll_timeout says {deadline:?}"
            );
            bursts += 1;
            assert!(bursts < MAX_BURSTS, "poll_transmit never ends");
            self.emit(&burst, output);
        }
        let again = self.stack_mut().poll_transmit(now, &mut burst);
        assert!(!again, "I4: something to transmit after nothing");
        self.burst = burst;
        bursts > 0
    }

    /// The backend gives back a burst.
    pub(crate) fn release(&mut self, token: u64) {
        if let Some(blocks) = self.held.remove(&token) {
            blocks.iter().for_each(|block| block.let_go());
            if let Some(stack) = &mut self.stack {
                stack.handle_released(token);
            }
        }
    }

    /// Does everything that there is to do at `now`; checks contracts I2 to I5.
    pub(crate) fn pump(&mut self, now: Instant, rng: &mut Prng, model: &mut Model, all: &[Vec<u32>]) -> Output {
        let mut output = Output::default();
        let mut fired = rng.chance(20);
        if fired {
            // A wake-up for no reason harms nothing.
            self.stack_mut().handle_timeout(now);
        }
        for round in 0.. {
            assert!(
                round < MAX_ROUNDS,
                "node at {} is busy for ever at {now:?}",
                self.address
            );
            self.handle_inbox(now, rng);
            let mut emitted = self.take_events(now, &mut output);
            self.take_messages(now, model, all);
            self.work_off(now, model, all);
            emitted |= self.transmit(now, &mut output);
            emitted |= self.take_events(now, &mut output);
            let deadline = self.stack().poll_timeout();
            let due = deadline.is_some_and(|deadline| deadline <= now);
            assert!(
                !(fired && due && !emitted),
                "I3: node at {}: nothing emitted by handle_timeout({now:?}) and the next deadline is {deadline:?}",
                self.address
            );
            fired = due;
            if due {
                self.stack_mut().handle_timeout(now);
            } else if self.inbox.is_empty() && !emitted {
                break;
            }
        }
        output
    }

    /// Messages by reference that have not completed.
    pub(crate) fn incomplete(&self) -> usize {
        self.tokens.len()
    }
}
