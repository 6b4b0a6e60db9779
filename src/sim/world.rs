//! All nodes, the network between them, and what happens next.

use std::{
    collections::VecDeque,
    net::{Ipv4Addr, SocketAddr},
    task::Waker,
    time::Duration,
};

use super::{
    network::{NetworkStats, RangeError, Wires},
    paths::{Paths, Surroundings},
    queue::{Event, Queue},
};
use crate::{
    messaging::Messenger,
    mpi::engine::{Core, FabricError},
    prng::mix,
    reliability::{Burst, Event as Told, PeerId},
    time::Instant,
};

/// What a packet costs the processor of a host, in time. Default: 300 ns a packet and 0.05 ns an octet each way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cpu {
    /// Per packet sent, ns. Up to 1e9.
    pub send: f64,
    /// Per packet received, ns. Up to 1e9.
    pub receive: f64,
    /// Per octet sent or received, ns. Up to 1e6.
    pub octet: f64,
    /// A look that finds nothing (`MPI_Test`), ns. At least 1, so that time goes on; up to 1e9. Default 500: a system
    /// call.
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
    /// A host that costs no time but for looks.
    pub const FREE: Self = Self {
        send: 0.0,
        receive: 0.0,
        octet: 0.0,
        look: 500.0,
    };

    /// Checks every range.
    ///
    /// # Errors
    /// The first that is out of its range.
    pub fn validate(&self) -> Result<(), RangeError> {
        let checks = [
            ((0.0..=1e9).contains(&self.send), "send", "from 0 to 1e9 ns"),
            ((0.0..=1e9).contains(&self.receive), "receive", "from 0 to 1e9 ns"),
            ((0.0..=1e6).contains(&self.octet), "octet", "from 0 to 1e6 ns"),
            ((1.0..=1e9).contains(&self.look), "look", "from 1 to 1e9 ns"),
        ];
        match checks.iter().find(|(valid, ..)| !valid) {
            Some(&(_, name, range)) => Err(RangeError { name, range }),
            None => Ok(()),
        }
    }

    fn cost(&self, packet: f64, octets: usize) -> u64 {
        (packet + self.octet * octets as f64).round() as u64
    }
}

/// What the program of a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    /// It runs, or is about to.
    Running,
    /// It waits for something to happen.
    Waiting,
    /// The same, but not longer than until then.
    WaitingUntil(u64),
    /// It is away until then.
    Away(u64),
    /// It is over.
    Over,
}

/// A host with one process on it.
pub(super) struct Node {
    pub(super) messenger: Messenger,
    pub(super) core: Core,
    /// Until when its processor has been used, ns: what is done next is done then.
    pub(super) local: u64,
    /// When its timer is in the queue; `u64::MAX`: it is not.
    armed: u64,
    pub(super) doing: Doing,
    /// What has come and was not taken at once: when it is, and how many octets it has.
    unread: VecDeque<(u64, u32)>,
    unread_octets: u32,
    pub(super) ended_sessions: usize,
}

impl Node {
    pub(super) fn new(messenger: Messenger, core: Core) -> Self {
        Self {
            messenger,
            core,
            local: 0,
            armed: u64::MAX,
            doing: Doing::Running,
            unread: VecDeque::new(),
            unread_octets: 0,
            ended_sessions: 0,
        }
    }

    pub(super) fn now(&self) -> Instant {
        Instant::from_nanos(self.local)
    }

    /// Takes in all that the messenger has.
    pub(super) fn pump(&mut self) {
        let now = self.now();
        self.core.pump(&mut self.messenger, now);
        let mut told = false;
        while let Some(event) = self.messenger.poll_event() {
            if let Told::Down { .. } = event {
                self.ended_sessions += 1;
            }
            self.core.handle_event(&mut self.messenger, now, event);
            told = true;
        }
        if told {
            self.core.pump(&mut self.messenger, now);
        }
    }

    /// Room for `octets` more at `now` in a buffer of `most`; if there is, they are taken at `start`.
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

/// Where process `process` is: a private network with room for as many as there can be.
pub(super) fn address_of(process: u32) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::from_bits(0x0a00_0000 | process), 1))
}

fn process_at(address: SocketAddr) -> Option<u32> {
    match address {
        SocketAddr::V4(v4) => Some(v4.ip().to_bits() & 0x00ff_ffff),
        SocketAddr::V6(_) => None,
    }
}

/// See the module's documentation.
pub(super) struct World {
    /// When the event that is being handled happens, ns.
    pub(super) now: u64,
    pub(super) queue: Queue,
    pub(super) wires: Wires,
    /// Light paths, where packets need them.
    pub(super) paths: Option<Paths>,
    pub(super) nodes: Vec<Node>,
    pub(super) cpu: Cpu,
    /// Octets that may wait at a host to be read.
    receive_buffer: u32,
    burst: Burst,
    /// Follows from all that has happened.
    pub(super) digest: u64,
    /// Tasks to be woken when the lock is free.
    pub(super) wakers: Vec<Waker>,
    /// Nothing goes on any more.
    pub(super) failure: Option<FabricError>,
}

impl World {
    pub(super) fn new(wires: Wires, cpu: Cpu, receive_buffer: u32) -> Self {
        Self {
            now: 0,
            queue: Queue::default(),
            wires,
            paths: None,
            nodes: Vec::new(),
            cpu,
            receive_buffer,
            burst: Burst::default(),
            digest: 0,
            wakers: Vec::new(),
            failure: None,
        }
    }

    pub(super) fn stats(&self) -> NetworkStats {
        self.wires.stats
    }

    /// Handles the next event. `None`: there is none. Otherwise the node whose program is to go on, if one is.
    pub(super) fn step(&mut self) -> Option<Option<u32>> {
        let (time, event) = self.queue.pop()?;
        self.now = time;
        Some(match event {
            Event::Arrive(packet) => self.arrive(packet),
            Event::Timer(node) => self.timer(node),
            Event::Optics => {
                self.with_paths(|paths, around, now| paths.handle(around, now));
                None
            }
            Event::Wake(index) => {
                let node = &mut self.nodes[index as usize];
                let woken = match node.doing {
                    Doing::Away(until) | Doing::WaitingUntil(until) => until == time,
                    Doing::Running | Doing::Waiting | Doing::Over => false,
                };
                if woken {
                    node.local = node.local.max(time);
                }
                woken.then(|| self.resume(index))
            }
        })
    }

    fn with_paths(&mut self, f: impl FnOnce(&mut Paths, &mut Surroundings<'_>, u64)) {
        let Self {
            now,
            queue,
            wires,
            paths,
            nodes,
            ..
        } = self;
        if let Some(paths) = paths {
            f(paths, &mut Surroundings { queue, wires, nodes }, *now);
        }
    }

    /// The program of a node goes on.
    fn resume(&mut self, index: u32) -> u32 {
        self.nodes[index as usize].doing = Doing::Running;
        index
    }

    fn arrive(&mut self, packet: u32) -> Option<u32> {
        if !self.wires.arrive(&mut self.queue, self.now, packet) {
            return None;
        }
        let Self {
            now,
            wires,
            paths,
            nodes,
            cpu,
            receive_buffer,
            digest,
            ..
        } = self;
        let p = wires.get(packet);
        let (source, index, octets) = (p.source, p.destination, p.data.len());
        if paths.as_ref().is_some_and(|paths| !paths.carries(source, index)) {
            wires.stats.lost += 1;
            wires.drop_packet(packet);
            return None;
        }
        let node = &mut nodes[index as usize];
        if !node.accept(*now, octets as u32, *receive_buffer) {
            wires.stats.unread += 1;
            wires.drop_packet(packet);
            return None;
        }
        *digest = mix(*digest ^ *now ^ u64::from(source) << 40 ^ u64::from(index) << 16 ^ octets as u64);
        node.local = node.local.max(*now) + cpu.cost(cpu.receive, octets);
        // Who is heard of is known from then on.
        node.core.peers.meet(&mut node.messenger, source);
        let at = node.now();
        node.messenger
            .handle_datagrams(at, address_of(source), &mut p.data, octets);
        wires.drop_packet(packet);
        self.settle(index)
    }

    fn timer(&mut self, index: u32) -> Option<u32> {
        let node = &mut self.nodes[index as usize];
        if node.armed != self.now {
            // Another one has taken its place.
            return None;
        }
        node.armed = u64::MAX;
        node.local = node.local.max(self.now);
        let now = node.now();
        if node.messenger.poll_timeout().is_some_and(|at| at <= now) {
            node.messenger.handle_timeout(now);
        }
        self.settle(index)
    }

    /// Something has happened at a node: its program looks again if it waits; otherwise the protocol goes on by itself.
    fn settle(&mut self, index: u32) -> Option<u32> {
        let node = &mut self.nodes[index as usize];
        node.pump();
        if matches!(node.doing, Doing::Waiting | Doing::WaitingUntil(_)) {
            // Its answer carries the acknowledgement.
            return Some(self.resume(index));
        }
        let woken = node.core.take_woken();
        self.wakers.extend(woken);
        self.transmit(index);
        None
    }

    /// Sends all that can be sent, and sees to it that the node is called when its next deadline is due.
    pub(super) fn transmit(&mut self, index: u32) {
        let Self {
            queue,
            wires,
            paths,
            nodes,
            cpu,
            burst,
            ..
        } = self;
        loop {
            let node = &mut nodes[index as usize];
            if !node.messenger.poll_transmit(Instant::from_nanos(node.local), burst) {
                break;
            }
            let Some(destination) = process_at(burst.destination()) else {
                continue;
            };
            let packet = wires.packet();
            let data = &mut wires.get(packet).data;
            node.messenger.gather(burst, |octets| data.extend_from_slice(octets));
            node.local += cpu.cost(cpu.send, data.len());
            let local = node.local;
            match paths {
                None => wires.send(queue, local, packet, index, destination),
                Some(paths) => {
                    let around = &mut Surroundings { queue, wires, nodes };
                    paths.send(around, local, packet, (index, destination));
                }
            }
        }
        let local = self.nodes[index as usize].local;
        self.with_paths(|paths, around, _| paths.settle(around, index, local));
        self.arm(index);
    }

    /// Sees to it that the node is called when its next deadline is due.
    pub(super) fn arm(&mut self, index: u32) {
        let node = &mut self.nodes[index as usize];
        let Some(deadline) = node.messenger.poll_timeout() else {
            return;
        };
        let deadline = deadline.as_nanos().max(node.local);
        if deadline < node.armed {
            node.armed = deadline;
            self.queue.push(deadline, Event::Timer(index));
        }
    }

    /// The program of a node does not go on before `delay` is over.
    pub(super) fn leave(&mut self, index: u32, delay: Duration) {
        let node = &mut self.nodes[index as usize];
        let until = node.local.saturating_add(delay.as_nanos() as u64);
        node.doing = Doing::Away(until);
        self.queue.push(until, Event::Wake(index));
    }

    /// The program of a node waits for something to happen, at most until `end`.
    pub(super) fn wait(&mut self, index: u32, end: Option<u64>) {
        let doing = match end {
            None => Doing::Waiting,
            Some(end) => {
                self.queue.push(end, Event::Wake(index));
                Doing::WaitingUntil(end)
            }
        };
        self.nodes[index as usize].doing = doing;
    }

    /// Nothing goes on any more: nobody refers to the memory of programs from here on.
    pub(super) fn fail(&mut self, why: FabricError) {
        self.failure = Some(why);
        for node in &mut self.nodes {
            node.core.abandon(&node.messenger);
        }
    }

    /// Says goodbye to everybody. Gives how many sessions must have ended when it is done.
    pub(super) fn close(&mut self, index: u32) -> usize {
        let node = &mut self.nodes[index as usize];
        let now = node.now();
        let peers = (0..node.messenger.endpoint().peers() as u32).map(PeerId);
        let open: Vec<_> = peers
            .filter(|peer| node.messenger.endpoint().down(*peer).is_none())
            .collect();
        let done = node.ended_sessions + open.len();
        for peer in open {
            node.messenger.close(now, peer);
        }
        node.messenger.request_acks(now);
        done
    }
}
