//! All nodes, the network between them, and the event loop.

use std::{
    collections::VecDeque,
    net::{Ipv4Addr, SocketAddr},
    task::Waker,
    time::Duration,
};

use super::{
    condition::Condition,
    faults::{Fault, Trouble},
    heap,
    network::RangeError,
    paths::{Paths, Surroundings},
    polling::{Poller, Polling, Queues},
    queue::{Event, Queue},
    wires::{Arrival, LATEST, Packet, Wires},
};
use crate::{
    messaging::Messenger,
    mpi::engine::{Called, Core, FabricError},
    prng::mix,
    reliability::{Burst, Event as Told, Part, PeerId, named_peer},
    time::{Instant, nanos},
};

/// The cost of a packet at its host, in core time. Default: 300 ns per packet and 0.05 ns per byte at each side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cpu {
    /// Per packet sent, ns. Up to 1e9.
    pub send: f64,
    /// Per packet received, ns. Up to 1e9.
    pub receive: f64,
    /// Per byte sent or received, ns. Up to 1e6.
    pub octet: f64,
    /// A poll without result (`MPI_Test`), ns. At least 1, so that time goes on; up to 1e9. Default 500: a system call.
    pub look: f64,
}

impl Default for Cpu {
    fn default() -> Self {
        Self {
            send: 300.0,
            receive: 300.0,
            octet: 0.05,
            look: 500.0,
        }
    }
}

impl Cpu {
    /// A host where only polls cost time.
    pub const FREE: Self = Self {
        send: 0.0,
        receive: 0.0,
        octet: 0.0,
        look: 500.0,
    };

    /// Checks every range.
    ///
    /// # Errors
    /// Names the first value that is out of its range.
    pub fn validate(&self) -> Result<(), RangeError> {
        let checks = [
            ((0.0..=1e9).contains(&self.send), "send", "from 0 to 1e9 ns"),
            ((0.0..=1e9).contains(&self.receive), "receive", "from 0 to 1e9 ns"),
            ((0.0..=1e6).contains(&self.octet), "octet", "from 0 to 1e6 ns"),
            ((1.0..=1e9).contains(&self.look), "look", "from 1 to 1e9 ns"),
        ];
        RangeError::first(&checks)
    }

    fn cost(&self, packet: f64, octets: usize) -> u64 {
        round(packet + self.octet * octets as f64)
    }
}

/// Rounds a number that is not negative, halves up; not by a library call, since not every processor has an instruction
/// for it.
fn round(number: f64) -> u64 {
    // By way of signed integers, for which there are instructions.
    let below = number as i64;
    (below as u64).saturating_add(u64::from(number - below as f64 >= 0.5))
}

/// State of a node's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    /// It runs, or is about to.
    Running,
    /// It waits for its condition.
    Waiting,
    /// The same, at most until this time, ns.
    WaitingUntil(u64),
    /// It computes until this time, ns.
    Away(u64),
    /// It is over.
    Over,
    /// It has crashed, and the protocol with it; `refuse`: its host answers packets with an ICMP error.
    Crashed { refuse: bool },
}

/// Why [`World::run`] has returned.
pub(super) enum Next {
    /// The program of this node is to be resumed.
    Resume(u32),
    /// A program has crashed.
    Crashed,
    /// The program of this node starts again from the beginning.
    Restart(u32),
    /// Tasks are to be woken.
    Tasks,
    /// The time limit is reached.
    Late,
    /// There are no more events.
    Nothing,
}

/// Number of peers for which it is remembered to which peer a process sends after having heard from them: a hint.
const NEXT: usize = 32;

/// A process, with its core.
pub(super) struct Node {
    /// Time until which its core is busy, ns: its next action happens then.
    pub(super) local: u64,
    /// Time of its timer in the queue; `u64::MAX`: it has none.
    armed: u64,
    pub(super) doing: Doing,
    /// The condition that its program waits for.
    pub(super) condition: Option<Condition>,
    /// Packets that have arrived and were not taken at once: when each will be taken, and its bytes.
    unread: VecDeque<(u64, u32)>,
    pub(super) messenger: Messenger,
    pub(super) core: Core,
    unread_octets: u32,
    /// Packets that wait until the program has computed, where processes poll for themselves.
    left: VecDeque<u32>,
    pub(super) ended_sessions: usize,
    /// The peer last heard from, if nothing was sent since, and for each such peer (by the lowest bits of their
    /// numbers) to which one the process sent next: it is expected to do so again.
    heard: Option<PeerId>,
    next: [u16; NEXT],
    /// The call that its program is in, and since when, to be reported in case it waits for ever.
    pub(super) call: Option<(u64, Called)>,
}

impl Node {
    pub(super) fn new(messenger: Messenger, core: Core) -> Self {
        Self {
            messenger,
            core,
            local: 0,
            armed: u64::MAX,
            doing: Doing::Running,
            condition: None,
            unread: VecDeque::new(),
            unread_octets: 0,
            left: VecDeque::new(),
            ended_sessions: 0,
            heard: None,
            next: [0; NEXT],
            call: None,
        }
    }

    pub(super) fn now(&self) -> Instant {
        Instant::from_nanos(self.local)
    }

    /// Takes everything that the messenger has.
    #[inline(always)]
    pub(super) fn pump(&mut self) {
        if self.core.has_work(&self.messenger) || self.messenger.has_events() {
            self.take_in();
        }
    }

    #[inline(never)]
    fn take_in(&mut self) {
        let now = self.now();
        self.core.pump(&mut self.messenger, now);
        if !self.messenger.has_events() {
            return;
        }
        while let Some(event) = self.messenger.poll_event() {
            if let Told::Down { .. } = event {
                self.ended_sessions += 1;
            }
            self.core.handle_event(&mut self.messenger, now, event);
        }
        self.core.pump(&mut self.messenger, now);
    }

    /// Whether there is room for `octets` more bytes at `now` in a buffer of `most`; if so, they are taken at `start`.
    fn accept(&mut self, now: u64, octets: u32, most: u32) -> bool {
        while let Some(&(taken, octets)) = self.unread.front()
            && taken <= now
        {
            self.unread.pop_front();
            self.unread_octets -= octets;
        }
        if self.local <= now {
            return true;
        }
        let fits = self.unread_octets + octets <= most;
        if fits {
            self.unread.push_back((self.local, octets));
            self.unread_octets += octets;
        }
        fits
    }
}

/// Address of process `process`: a private network with room for the largest job.
pub(super) fn address_of(process: u32) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::from_bits(0x0a00_0000 | process), 1))
}

fn process_at(address: SocketAddr) -> Option<u32> {
    match address {
        SocketAddr::V4(v4) => Some(v4.ip().to_bits() & 0x00ff_ffff),
        SocketAddr::V6(_) => None,
    }
}

/// Whether a packet has no token of the receiver: its sender may not be the receiver's peer yet.
fn opens(data: &[u8]) -> bool {
    data.get(12..16).is_none_or(|token| token == [0; 4])
}

/// See the module's documentation.
pub(super) struct World {
    /// Time of the event that is being handled, ns.
    pub(super) now: u64,
    pub(super) queue: Queue,
    pub(super) wires: Wires,
    /// Light paths, where packets need them.
    pub(super) paths: Option<Paths>,
    #[expect(clippy::vec_box, reason = "each lies with what else its process has")]
    pub(super) nodes: Vec<Box<Node>>,
    pub(super) cpu: Cpu,
    pub(super) trouble: Trouble,
    /// The planned faults.
    plan: Vec<Fault>,
    /// Number of planned faults still to come.
    planned: usize,
    /// No light path can ever be set up again, and all programs wait for one.
    pub(super) stuck: bool,
    /// A process that was waited for outside of its own program.
    pub(super) misplaced: Option<u32>,
    /// Bytes that may wait at a host to be read.
    receive_buffer: u32,
    polling: Polling,
    queues: Queues,
    /// Pollers by host, where there are any.
    pollers: Vec<Poller>,
    burst: Burst,
    /// A hash of all arrivals.
    pub(super) digest: u64,
    /// Tasks to be woken after the lock is released.
    pub(super) wakers: Vec<Waker>,
    /// Set when the simulation has failed: nothing goes on any more.
    pub(super) failure: Option<FabricError>,
}

impl World {
    pub(super) fn new(
        wires: Wires,
        cpu: Cpu,
        receive_buffer: u32,
        (polling, queues): (Polling, Queues),
        (trouble, plan): (Trouble, &[(Duration, Fault)]),
    ) -> Self {
        let pollers = match polling {
            Polling::Helper | Polling::Process => 0,
            Polling::Dedicated | Polling::Combined => wires.hosts(),
        };
        let mut queue = Queue::default();
        for (index, (at, _)) in (0..).zip(plan) {
            queue.push(nanos(*at), Event::Fault(index));
        }
        Self {
            now: 0,
            queue,
            wires,
            paths: None,
            nodes: Vec::new(),
            cpu,
            trouble,
            plan: plan.iter().map(|(_, fault)| fault.clone()).collect(),
            planned: plan.len(),
            stuck: false,
            misplaced: None,
            receive_buffer,
            polling,
            queues,
            pollers: (0..pollers).map(|_| Poller::new(queues)).collect(),
            burst: Burst::default(),
            digest: 0,
            wakers: Vec::new(),
            failure: None,
        }
    }

    pub(super) fn add(&mut self, node: Node) {
        let node = Box::new(node);
        heap::mark(&*node);
        self.nodes.push(node);
    }

    /// Handles events up to `last` until the caller has something to do.
    pub(super) fn run(&mut self, last: u64) -> Next {
        while let Some((time, event)) = self.queue.pop() {
            self.now = time;
            if time > last {
                return Next::Late;
            }
            self.ask_ahead();
            if heap::is_far() {
                self.ask_part(event, Part::Copied);
            }
            heap::turn(self.turn(event));
            let resumed = match event {
                Event::Arrive(packet) => self.arrive(packet),
                Event::Timer(node) => self.timer(node),
                Event::Wake(node) => self.wake(node),
                Event::Depart(packet) => {
                    let &mut Packet {
                        source, destination, ..
                    } = self.wires.get(packet);
                    self.wires.send(&mut self.queue, time, packet, source, destination);
                    None
                }
                Event::Fault(index) => match self.go_wrong(index) {
                    Next::Nothing => None,
                    next => return next,
                },
                Event::Optics => self.handle_paths(),
                Event::Medium(who) => {
                    self.wires.handle_medium(&mut self.queue, time, who);
                    None
                }
            };
            if let Some(index) = resumed {
                // Its core may be busy for longer.
                let late = self.nodes[index as usize].local > last;
                return if late { Next::Late } else { Next::Resume(index) };
            }
            if !self.wakers.is_empty() {
                return Next::Tasks;
            }
        }
        Next::Nothing
    }

    /// The process whose state an event needs.
    #[inline]
    fn turn(&self, event: Event) -> Option<u32> {
        match event {
            Event::Arrive(packet) => self.wires.ends_at(packet),
            Event::Timer(process) | Event::Wake(process) => Some(process),
            Event::Depart(_) | Event::Medium(_) | Event::Optics | Event::Fault(_) => None,
        }
    }

    /// Prefetches for the next events while this one is handled, in steps: each uses what the step before has
    /// prefetched.
    #[inline]
    fn ask_ahead(&self) {
        if !heap::is_far() {
            return;
        }
        if let Some(Event::Arrive(packet)) = self.queue.peek(6) {
            self.wires.ask(packet);
        }
        if let Some(event) = self.queue.peek(5)
            && let Some(process) = self.turn(event)
        {
            heap::announce(process);
            if let Event::Arrive(packet) = event {
                self.wires.ask_data(packet);
            }
        }
        if let Some(process) = self.queue.peek(4).and_then(|event| self.turn(event)) {
            heap::ask(process);
        }
        for (after, part) in [(3, Part::Peer), (2, Part::Flow), (1, Part::Active), (0, Part::Sent)] {
            if let Some(event) = self.queue.peek(after) {
                self.ask_part(event, part);
            }
        }
    }

    /// Prefetches a part of a process's state about the peer that a packet comes from, and about the one that it will
    /// probably send to next.
    #[inline]
    fn ask_part(&self, event: Event, part: Part) {
        if let Event::Arrive(packet) = event
            && let Some(process) = self.wires.ends_at(packet)
            && let Some(peer) = named_peer(self.wires.data(packet))
        {
            let node = &self.nodes[process as usize];
            let Some(endpoint) = node.messenger.layer().as_endpoint() else {
                return;
            };
            let next = PeerId(node.next[peer.index() % NEXT].into());
            endpoint.locate(peer, part, heap::ask_lines);
            if next != peer {
                endpoint.locate(next, part, heap::ask_lines);
            }
            if part == Part::Peer {
                node.messenger.locate_numbers(peer, heap::ask_lines);
                node.messenger.locate_numbers(next, heap::ask_lines);
            }
        }
    }

    fn wake(&mut self, index: u32) -> Option<u32> {
        let node = &mut self.nodes[index as usize];
        match node.doing {
            Doing::Away(until) | Doing::WaitingUntil(until) if until == self.now => {
                node.local = node.local.max(until);
                let index = self.resume(index);
                while let Some(packet) = self.nodes[index as usize].left.pop_front() {
                    self.take(packet, Polling::Process);
                }
                Some(index)
            }
            _ => None,
        }
    }

    /// A planned fault happens.
    fn go_wrong(&mut self, index: u32) -> Next {
        let fault = self.plan[index as usize].clone();
        self.planned -= 1;
        self.trouble.change(&fault);
        match fault {
            Fault::Pause(process, time) => {
                // Its core is busy until then.
                let node = &mut self.nodes[process as usize];
                node.local = node.local.max(self.now).saturating_add(nanos(time)).min(LATEST);
                Next::Nothing
            }
            Fault::Crash { process, refuse } => {
                let node = &mut self.nodes[process as usize];
                if let Doing::Crashed { .. } = node.doing {
                    return Next::Nothing;
                }
                let was = std::mem::replace(&mut node.doing, Doing::Crashed { refuse });
                node.condition = None;
                let left = std::mem::take(&mut node.left);
                left.into_iter().for_each(|packet| self.wires.drop_packet(packet));
                node.core.abandon(&node.messenger);
                self.trouble.stats.crashes += 1;
                self.with_paths(|paths, around, now| paths.forget(around, process, now));
                self.digest = mix(self.digest ^ self.now ^ u64::from(process) << 40);
                match was {
                    Doing::Over => Next::Nothing,
                    _ => Next::Crashed,
                }
            }
            Fault::Restart(process) => match self.nodes[process as usize].doing {
                Doing::Crashed { .. } => Next::Restart(process),
                _ => Next::Nothing,
            },
            Fault::Impair(_) | Fault::Isolate(_) | Fault::Cut(..) | Fault::Join => Next::Nothing,
        }
    }

    /// Replaces a crashed process by a new incarnation.
    pub(super) fn replace(&mut self, index: u32, messenger: Messenger, core: Core) {
        let mut node = Node::new(messenger, core);
        node.local = self.now;
        if let Some(paths) = &self.paths {
            paths.tell_ports(index as usize, &mut node);
        }
        *self.nodes[index as usize] = node;
    }

    /// Drops all events and packets.
    pub(super) fn empty(&mut self) {
        self.queue.clear();
        self.wires.clear();
    }

    /// A packet has arrived at a crashed process: tells its sender, if the host does so.
    fn refuse(&mut self, packet: u32, refuse: bool) -> Option<u32> {
        self.trouble.stats.refused += 1;
        let p = self.wires.get(packet);
        let (source, destination, quoted) = (p.source, p.destination, std::mem::take(&mut p.data));
        self.wires.drop_packet(packet);
        let node = &mut self.nodes[source as usize];
        if !refuse || matches!(node.doing, Doing::Crashed { .. }) {
            return None;
        }
        node.local = node.local.max(self.now);
        node.messenger
            .handle_unreachable(node.now(), address_of(destination), &quoted);
        self.settle(source)
    }

    /// An event of the light paths is due.
    fn handle_paths(&mut self) -> Option<u32> {
        let index = self.with_paths(|paths, around, now| paths.handle(around, now))?;
        let Some(index) = index else {
            self.give_up_if_stuck();
            return None;
        };
        // There may be more.
        self.queue.push(self.now, Event::Optics);
        let node = &mut self.nodes[index as usize];
        node.local = node.local.max(self.now);
        node.core.finish_release();
        self.settle(index)
    }

    /// If all programs wait, and everything that was sent waits for paths that can never be, nothing will go on: the
    /// protocol would only retry as long as it may. (With watched peers, silence is noticed instead.)
    fn give_up_if_stuck(&mut self) {
        let doubt = self
            .paths
            .as_mut()
            .is_some_and(|paths| std::mem::take(&mut paths.doubt));
        let waits = |node: &Node| matches!(node.doing, Doing::Waiting | Doing::Over | Doing::Crashed { .. });
        if doubt
            && !self.trouble.watch
            && self.planned == 0
            && self.nodes.iter().all(|node| waits(node))
            && self.with_paths(|paths, around, _| paths.is_stuck(around)) == Some(true)
        {
            self.stuck = true;
            self.queue.clear();
        }
    }

    fn with_paths<R>(&mut self, f: impl FnOnce(&mut Paths, &mut Surroundings<'_>, u64) -> R) -> Option<R> {
        let Self {
            now,
            queue,
            wires,
            paths,
            nodes,
            trouble,
            ..
        } = self;
        let paths = paths.as_mut()?;
        let mut around = Surroundings {
            queue,
            wires,
            nodes,
            trouble,
        };
        Some(f(paths, &mut around, *now))
    }

    /// Resumes the program of a node.
    fn resume(&mut self, index: u32) -> u32 {
        self.nodes[index as usize].doing = Doing::Running;
        index
    }

    fn arrive(&mut self, packet: u32) -> Option<u32> {
        match self.wires.arrive(&mut self.queue, self.now, packet) {
            Arrival::There => {}
            Arrival::Between => return None,
            Arrival::Relay(index) => {
                self.pass_on(index, packet);
                return None;
            }
        }
        let &mut Packet {
            source, destination, ..
        } = self.wires.get(packet);
        if self.is_dark(source, destination) {
            self.wires.stats.delivered -= 1;
            self.wires.stats.dark += 1;
            self.wires.drop_packet(packet);
            return None;
        }
        let taker = self.taker(packet);
        match taker {
            Polling::Process if self.leave_it(packet) => None,
            Polling::Dedicated if !self.poll(packet) => None,
            _ => self.take(packet, taker),
        }
    }

    /// Which process takes a packet, the poller or its own.
    fn taker(&mut self, packet: u32) -> Polling {
        match self.polling {
            // The payload of rendezvous has a channel of its own.
            Polling::Combined if self.wires.get(packet).data.get(1) == Some(&0) => Polling::Dedicated,
            Polling::Combined => Polling::Process,
            other => other,
        }
    }

    /// The poller of a host takes a packet; the process handles it when that is done. False: the packet is lost.
    fn poll(&mut self, packet: u32) -> bool {
        let (cpu, now) = (&self.cpu, self.now);
        let p = self.wires.get(packet);
        let (index, cost) = (p.destination, cpu.cost(cpu.receive, p.data.len()));
        let host = self.wires.host(index) as usize;
        let taken = self.pollers[host].take(now, cost, self.queues);
        match taken {
            Some(taken) => {
                let node = &mut self.nodes[index as usize];
                node.local = node.local.max(taken);
            }
            None => self.lose_unread(packet),
        }
        taken.is_some()
    }

    /// Leaves a packet in its queue while the process computes. Gives whether it does.
    fn leave_it(&mut self, packet: u32) -> bool {
        let index = self.wires.get(packet).destination;
        let node = &mut self.nodes[index as usize];
        let Doing::Away(_) = node.doing else { return false };
        if node.left.len() < (self.queues.count * self.queues.length) as usize {
            node.left.push_back(packet);
        } else {
            self.lose_unread(packet);
        }
        true
    }

    fn lose_unread(&mut self, packet: u32) {
        self.wires.stats.unread += 1;
        self.wires.drop_packet(packet);
    }

    /// Whether the path that a packet needs has been cut.
    #[inline(always)]
    fn is_dark(&self, source: u32, destination: u32) -> bool {
        let paths = self.paths.as_ref();
        paths.is_some_and(|paths| !paths.carries(source, destination))
    }

    /// Hands a packet to the protocol.
    fn take(&mut self, packet: u32, taker: Polling) -> Option<u32> {
        let polled = taker == Polling::Dedicated;
        let Self {
            now,
            wires,
            nodes,
            cpu,
            receive_buffer,
            digest,
            ..
        } = self;
        let p = wires.get(packet);
        let (source, index, octets) = (p.source, p.destination, p.data.len());
        let node = &mut nodes[index as usize];
        if let Doing::Crashed { refuse } = node.doing {
            return self.refuse(packet, refuse);
        }
        if !polled && !node.accept(*now, octets as u32, *receive_buffer) {
            self.lose_unread(packet);
            return None;
        }
        *digest = mix(*digest ^ *now ^ u64::from(source) << 40 ^ u64::from(index) << 16 ^ octets as u64);
        let cost = if polled { 0 } else { cpu.cost(cpu.receive, octets) };
        node.local = node.local.max(*now) + cost;
        if opens(&p.data) {
            // A process that has been heard of is a peer from then on.
            node.core.peers.meet(&mut node.messenger, source);
        }
        node.heard = named_peer(&p.data);
        let at = node.now();
        node.messenger
            .handle_datagrams(at, address_of(source), &mut p.data, octets);
        heap::go_on();
        wires.drop_packet(packet);
        self.settle(index)
    }

    /// A node relays a packet that is not for it.
    fn pass_on(&mut self, index: u32, packet: u32) {
        let octets = self.wires.get(packet).data.len();
        let node = &mut self.nodes[index as usize];
        if matches!(node.doing, Doing::Crashed { .. }) || !node.accept(self.now, octets as u32, self.receive_buffer) {
            return self.lose_unread(packet);
        }
        let cpu = &self.cpu;
        node.local = node.local.max(self.now) + cpu.cost(cpu.receive, octets) + cpu.cost(cpu.send, octets);
        self.wires.pass_on(&mut self.queue, node.local, packet, index);
    }

    fn timer(&mut self, index: u32) -> Option<u32> {
        let node = &mut self.nodes[index as usize];
        if node.armed != self.now || matches!(node.doing, Doing::Crashed { .. }) {
            // Another timer has replaced it, or none.
            return None;
        }
        node.armed = u64::MAX;
        if let (Polling::Process, Doing::Away(until)) = (self.polling, node.doing) {
            // A program that computes does not look at the clock.
            node.armed = until;
            self.queue.push(until, Event::Timer(index));
            return None;
        }
        node.local = node.local.max(self.now);
        let now = node.now();
        if node.messenger.poll_timeout().is_some_and(|at| at <= now) {
            node.messenger.handle_timeout(now);
        }
        self.settle(index)
    }

    /// Something has happened at a node: if its program waits, the condition is checked; otherwise the protocol goes on
    /// by itself.
    fn settle(&mut self, index: u32) -> Option<u32> {
        let node = &mut self.nodes[index as usize];
        node.pump();
        heap::go_on();
        if let Some(mut condition) = node.condition.take() {
            // If the program goes on, its reply carries the acknowledgement.
            if condition.is_met(node) {
                return Some(self.resume(index));
            }
            self.watch(index);
            if self.push_out(index, &mut |node| condition.is_met(node)) {
                return Some(self.resume(index));
            }
            let node = &mut self.nodes[index as usize];
            node.condition = Some(condition);
        } else {
            self.transmit(index);
        }
        let node = &mut self.nodes[index as usize];
        if node.core.has_tasks() {
            self.wakers.append(&mut node.core.take_woken());
        }
        None
    }

    /// Sends everything possible for a program that waits. Gives whether it may go on then.
    pub(super) fn push_out(&mut self, index: u32, done: &mut dyn FnMut(&mut Node) -> bool) -> bool {
        heap::go_on();
        self.transmit(index);
        let node = &mut self.nodes[index as usize];
        node.pump();
        done(node)
    }

    /// Sends everything that can be sent, and schedules the node's next deadline.
    pub(super) fn transmit(&mut self, index: u32) {
        if self.failure.is_some() {
            // Queued messages may be in memory that was given back.
            return;
        }
        // Paths that are not needed any more carry no new packets.
        self.settle_paths(index);
        let Self {
            queue,
            wires,
            paths,
            nodes,
            cpu,
            trouble,
            burst,
            ..
        } = self;
        // A process that has just sent queues behind the others of its host that wait for the same wire.
        let mut sent = 0;
        let blocked = loop {
            let node = &mut nodes[index as usize];
            let blocked = wires.blocked(node.local, index);
            if blocked.is_some() || !node.messenger.poll_transmit(Instant::from_nanos(node.local), burst) {
                break blocked.map(|at| at + sent);
            }
            sent = 1;
            let Some(destination) = process_at(burst.destination()) else {
                continue;
            };
            heap::go_on();
            if let Some(heard) = node.heard.take()
                && let Some(next) = node.core.peers.get(destination)
            {
                node.next[heard.index() % NEXT] = next.0 as u16;
            }
            let packet = wires.packet(burst.len());
            let data = &mut wires.get(packet).data;
            node.messenger.gather(burst, |octets| data.extend_from_slice(octets));
            node.local += cpu.cost(cpu.send, data.len());
            let local = node.local;
            match paths {
                None => trouble.depart(queue, wires, local, packet, (index, destination)),
                Some(paths) => {
                    let around = &mut Surroundings {
                        queue,
                        wires,
                        nodes,
                        trouble,
                    };
                    paths.send(around, local, packet, (index, destination));
                }
            }
        };
        self.settle_paths(index);
        self.arm(index, blocked);
    }

    #[inline(always)]
    fn settle_paths(&mut self, index: u32) {
        if self.paths.is_some() {
            self.settle_all_paths(index);
        }
    }

    #[cold]
    fn settle_all_paths(&mut self, index: u32) {
        let local = self.nodes[index as usize].local;
        self.with_paths(|paths, around, _| paths.settle(around, index, local));
    }

    /// Schedules the node's next deadline, but not before it may send again.
    fn arm(&mut self, index: u32, blocked: Option<u64>) {
        let node = &mut self.nodes[index as usize];
        let Some(deadline) = node.messenger.poll_timeout() else {
            return;
        };
        let deadline = deadline.as_nanos().max(node.local).max(blocked.unwrap_or(0));
        if deadline < node.armed {
            node.armed = deadline;
            self.queue.push(deadline, Event::Timer(index));
        }
    }

    /// The program of a node computes for `delay`.
    pub(super) fn leave(&mut self, index: u32, delay: Duration) {
        let node = &mut self.nodes[index as usize];
        let until = node.local.saturating_add(nanos(delay));
        node.doing = Doing::Away(until);
        self.queue.push(until, Event::Wake(index));
    }

    /// The program of a node waits for `condition`, at most until `end`.
    pub(super) fn wait(&mut self, index: u32, end: Option<u64>, condition: Condition) {
        let doing = match end {
            None => Doing::Waiting,
            Some(end) => {
                self.queue.push(end, Event::Wake(index));
                Doing::WaitingUntil(end)
            }
        };
        let node = &mut self.nodes[index as usize];
        node.doing = doing;
        node.condition = Some(condition);
    }

    /// The simulation has failed: from here on nothing refers to the memory of programs.
    pub(super) fn fail(&mut self, why: FabricError) {
        self.failure.get_or_insert(why);
        self.trouble.flush();
        for node in &mut self.nodes {
            node.core.abandon(&node.messenger);
        }
    }

    /// If silence is to be noticed, watches the peers that a node's program waits for.
    #[inline(always)]
    pub(super) fn watch(&mut self, index: u32) {
        if self.trouble.watch {
            self.watch_awaited(index);
        }
    }

    #[cold]
    fn watch_awaited(&mut self, index: u32) {
        let size = self.nodes.len() as u32;
        let node = &mut self.nodes[index as usize];
        // A program that waits for any source waits for processes, too, with which it has not exchanged anything yet.
        (0..size).for_each(|process| _ = node.core.peers.meet(&mut node.messenger, process));
        let (now, awaited) = (node.now(), node.core.awaited().collect::<Vec<_>>());
        for peer in awaited {
            node.messenger.watch(now, peer, true);
        }
    }

    /// Says goodbye to all peers. Gives the number of sessions that must have ended when that is done.
    pub(super) fn close(&mut self, index: u32) -> usize {
        let node = &mut self.nodes[index as usize];
        let now = node.now();
        let endpoint = node.messenger.layer();
        let peers = (0..endpoint.peers() as u32).map(PeerId);
        let open: Vec<_> = peers.filter(|peer| endpoint.down(*peer).is_none()).collect();
        let done = node.ended_sessions + open.len();
        node.core.refuse_returned(&mut node.messenger, now);
        for peer in open {
            node.messenger.close(now, peer);
        }
        node.messenger.request_acks(now);
        done
    }
}
