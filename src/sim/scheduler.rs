//! All nodes, the network between them, and the event loop.

use std::{task::Waker, time::Duration};

use super::{
    circuits::{Circuits, Surroundings},
    condition::Condition,
    cpu::Cpu,
    faults::{Fault, Trouble},
    heap,
    node::{Doing, Node, process_at},
    polling::{Poller, Polling, Queues},
    prefetch::{ask_ahead, ask_part, turn},
    queue::{Event, Queue},
    wires::{LATEST, Packet, Wires},
};
use crate::{
    messaging::Messenger,
    mpi::engine::{FabricError, Process},
    prefetch::Part,
    prng::mix,
    reliability::{Burst, PeerId},
    time::{Instant, nanos},
};

/// Why [`Scheduler::run`] has returned.
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

/// See the module's documentation.
pub(super) struct Scheduler {
    /// Time of the event that is being handled, ns.
    pub(super) now: u64,
    pub(super) queue: Queue,
    pub(super) wires: Wires,
    /// Circuits, where packets need them.
    pub(super) circuits: Option<Circuits>,
    pub(super) nodes: Vec<Box<Node>>,
    pub(super) cpu: Cpu,
    pub(super) trouble: Trouble,
    /// The planned faults.
    plan: Vec<Fault>,
    /// Number of planned faults still to come.
    planned: usize,
    /// No circuit can ever be set up again, and all programs wait for one.
    pub(super) stuck: bool,
    /// A process that was waited for outside of its own program.
    pub(super) misplaced: Option<u32>,
    /// Processes of the same host reach each other through memory.
    pub(super) shared_memory: bool,
    /// Bytes that may wait at a host to be read.
    pub(super) receive_buffer: u32,
    pub(super) polling: Polling,
    pub(super) queues: Queues,
    /// Pollers by host, where there are any.
    pub(super) pollers: Vec<Poller>,
    burst: Burst,
    /// A hash of all arrivals.
    pub(super) digest: u64,
    /// Tasks to be woken after the lock is released.
    pub(super) wakers: Vec<Waker>,
    /// Set when the simulation has failed: nothing goes on any more.
    pub(super) failure: Option<FabricError>,
}

impl Scheduler {
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
            circuits: None,
            nodes: Vec::new(),
            cpu,
            trouble,
            plan: plan.iter().map(|(_, fault)| fault.clone()).collect(),
            planned: plan.len(),
            stuck: false,
            misplaced: None,
            shared_memory: false,
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
            ask_ahead(&self.queue, &self.wires, &self.nodes);
            if heap::is_far() {
                ask_part(&self.wires, &self.nodes, event, Part::Copied);
            }
            heap::turn(turn(&self.wires, event));
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
                node.core.abandon(&mut node.messenger);
                self.trouble.stats.crashes += 1;
                self.with_circuits(|circuits, around, now| circuits.forget(around, process, now));
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
            Fault::Impair(_) | Fault::Isolate(_) | Fault::Cut(..) | Fault::CutRail(..) | Fault::Join => Next::Nothing,
        }
    }

    /// Replaces a crashed process by a new incarnation.
    pub(super) fn replace(&mut self, index: u32, messenger: Messenger, core: Process) {
        let mut node = Node::new(messenger, core);
        node.local = self.now;
        if let Some(circuits) = &self.circuits {
            circuits.tell_ports(index as usize, &mut node);
        }
        *self.nodes[index as usize] = node;
    }

    /// Drops all events and packets.
    pub(super) fn empty(&mut self) {
        self.queue.clear();
        self.wires.clear();
    }

    /// An event of the circuits is due.
    fn handle_paths(&mut self) -> Option<u32> {
        let index = self.with_circuits(|circuits, around, now| circuits.handle(around, now))?;
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

    /// If all programs wait, and everything that was sent waits for circuits that can never be, nothing will go on: the
    /// protocol would only retry as long as it may. (With watched peers, silence is noticed instead.)
    fn give_up_if_stuck(&mut self) {
        let doubt = self
            .circuits
            .as_mut()
            .is_some_and(|circuits| std::mem::take(&mut circuits.doubt));
        let waits = |node: &Node| matches!(node.doing, Doing::Waiting | Doing::Over | Doing::Crashed { .. });
        if doubt
            && !self.trouble.watch
            && self.planned == 0
            && self.nodes.iter().all(|node| waits(node))
            && self.with_circuits(|circuits, around, _| circuits.is_stuck(around)) == Some(true)
        {
            self.stuck = true;
            self.queue.clear();
        }
    }

    fn with_circuits<R>(&mut self, f: impl FnOnce(&mut Circuits, &mut Surroundings<'_>, u64) -> R) -> Option<R> {
        let Self {
            now,
            queue,
            wires,
            circuits,
            nodes,
            trouble,
            ..
        } = self;
        let circuits = circuits.as_mut()?;
        let mut around = Surroundings {
            queue,
            wires,
            nodes,
            trouble,
        };
        Some(f(circuits, &mut around, *now))
    }

    /// Resumes the program of a node.
    fn resume(&mut self, index: u32) -> u32 {
        self.nodes[index as usize].doing = Doing::Running;
        index
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
    pub(super) fn settle(&mut self, index: u32) -> Option<u32> {
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
        // Circuits that are not needed any more carry no new packets.
        self.settle_circuits(index);
        let Self {
            queue,
            wires,
            circuits,
            nodes,
            cpu,
            trouble,
            burst,
            shared_memory,
            ..
        } = self;
        // A process that has just sent queues behind the others of its host that wait for the same wire.
        let (mut sent, mut room_at) = (0, None);
        let blocked = loop {
            let node = &mut nodes[index as usize];
            let blocked = match wires.rails() {
                1 => wires.blocked(node.local, index, 0),
                _ => {
                    room_at = hold_rails(wires, node, index);
                    None
                }
            };
            if blocked.is_some() || !node.messenger.poll_transmit(Instant::from_nanos(node.local), burst) {
                break blocked.map(|at| at + sent);
            }
            sent = 1;
            let Some(destination) = process_at(burst.destination()) else {
                continue;
            };
            heap::go_on();
            let Node { habit, core, .. } = &mut **node;
            habit.send(|| core.peers.get(destination));
            let packet = wires.packet(burst.len());
            let written = wires.get(packet);
            written.rail = burst.port();
            let data = &mut written.data;
            node.messenger.gather(burst, |bytes| data.extend_from_slice(bytes));
            node.local += cpu.cost(cpu.send, data.len());
            let local = node.local;
            match circuits {
                None if *shared_memory && wires.host(index) == wires.host(destination) => {
                    wires.send(queue, local, packet, index, destination);
                }
                None => trouble.depart(queue, wires, local, packet, (index, destination)),
                Some(circuits) => {
                    let around = &mut Surroundings {
                        queue,
                        wires,
                        nodes,
                        trouble,
                    };
                    circuits.send(around, local, packet, (index, destination));
                }
            }
        };
        self.settle_circuits(index);
        self.arm(index, blocked, room_at.map(|at| at + sent));
    }

    #[inline(always)]
    fn settle_circuits(&mut self, index: u32) {
        if self.circuits.is_some() {
            self.settle_all_circuits(index);
        }
    }

    #[cold]
    fn settle_all_circuits(&mut self, index: u32) {
        let local = self.nodes[index as usize].local;
        self.with_circuits(|circuits, around, _| circuits.settle(around, index, local));
    }

    /// Schedules the node's next deadline, but not before it may send again; at `room_at`, it may send by one more rail.
    fn arm(&mut self, index: u32, blocked: Option<u64>, room_at: Option<u64>) {
        let node = &mut self.nodes[index as usize];
        let deadline = node.messenger.poll_timeout();
        let deadline = deadline.map(|at| at.as_nanos().max(node.local).max(blocked.unwrap_or(0)));
        let Some(deadline) = deadline.into_iter().chain(room_at).min() else {
            return;
        };
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
    pub(super) fn wait(&mut self, index: u32, end: Option<u64>, condition: Condition<Node>) {
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
            node.core.abandon(&mut node.messenger);
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

/// Flows of rails whose wires are full wait, and others go on. Gives when the first of those that are full has room, ns.
fn hold_rails(wires: &Wires, node: &mut Node, index: u32) -> Option<u64> {
    let mut room_at = None;
    for rail in 0..wires.rails() {
        let blocked = wires.blocked(node.local, index, rail);
        room_at = room_at.into_iter().chain(blocked).min();
        let (is_full, bit) = (blocked.is_some(), 1 << rail);
        if is_full != (node.held & bit != 0) {
            node.held ^= bit;
            node.messenger.hold_port(rail as u8, is_full);
        }
    }
    room_at
}
