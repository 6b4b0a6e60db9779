//! A simulated process: its protocol, its engine, and what its program is doing.

use std::{
    collections::VecDeque,
    net::{Ipv4Addr, SocketAddr},
};

use super::condition::Condition;
use crate::{
    messaging::Messenger,
    mpi::engine::{CallNote, Process},
    reliability::{Event, PeerId},
    time::Instant,
};

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

/// Number of peers for which it is remembered to which peer a process sends after having heard from them.
const NEXT: usize = 32;

/// To which peer a process sends after having heard from another: it is expected to do so again. Only a hint.
#[derive(Default)]
pub(super) struct Habit {
    /// The peer last heard from, if nothing was sent since.
    heard: Option<PeerId>,
    /// By the lowest bits of the number of the peer heard from.
    next: [u16; NEXT],
}

impl Habit {
    pub(super) fn hear(&mut self, from: Option<PeerId>) {
        self.heard = from;
    }

    /// It sends: to the peer that `to` gives, if it was not known already that it would send.
    pub(super) fn send(&mut self, to: impl FnOnce() -> Option<PeerId>) {
        if let Some(heard) = self.heard.take()
            && let Some(next) = to()
        {
            self.next[heard.index() % NEXT] = next.0 as u16;
        }
    }

    /// The peer to which it will probably send when it has heard from `peer`.
    pub(super) fn after(&self, peer: PeerId) -> PeerId {
        PeerId(self.next[peer.index() % NEXT].into())
    }
}

/// A process, with its core.
pub(super) struct Node {
    /// Time until which its core is busy, ns: its next action happens then.
    pub(super) local: u64,
    /// Time of its timer in the queue; `u64::MAX`: it has none.
    pub(super) armed: u64,
    pub(super) doing: Doing,
    /// The condition that its program waits for.
    pub(super) condition: Option<Condition<Self>>,
    /// Packets that have arrived and were not taken at once: when each will be taken, and its bytes.
    unread: VecDeque<(u64, u32)>,
    pub(super) messenger: Messenger,
    pub(super) core: Process,
    unread_bytes: u32,
    /// The rails whose wires are full, a bit each.
    pub(super) held: u16,
    /// Packets that wait until the program has computed, where processes poll for themselves.
    pub(super) left: VecDeque<u32>,
    pub(super) ended_sessions: usize,
    pub(super) habit: Habit,
    /// The call that its program is in, and since when, to be reported in case it waits for ever.
    pub(super) call: Option<(u64, CallNote)>,
}

impl Node {
    pub(super) fn new(messenger: Messenger, core: Process) -> Self {
        Self {
            messenger,
            core,
            local: 0,
            armed: u64::MAX,
            doing: Doing::Running,
            condition: None,
            unread: VecDeque::new(),
            unread_bytes: 0,
            held: 0,
            left: VecDeque::new(),
            ended_sessions: 0,
            habit: Habit::default(),
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
            if let Event::Down { .. } = event {
                self.ended_sessions += 1;
            }
            self.core.handle_event(&mut self.messenger, now, event);
        }
        self.core.pump(&mut self.messenger, now);
    }

    /// Whether there is room for `bytes` more bytes at `now` in a buffer of `most`; if so, they are taken at `start`.
    pub(super) fn accept(&mut self, now: u64, bytes: u32, most: u32) -> bool {
        while let Some(&(taken, bytes)) = self.unread.front()
            && taken <= now
        {
            self.unread.pop_front();
            self.unread_bytes -= bytes;
        }
        if self.local <= now {
            return true;
        }
        let fits = self.unread_bytes + bytes <= most;
        if fits {
            self.unread.push_back((self.local, bytes));
            self.unread_bytes += bytes;
        }
        fits
    }
}

/// Address of process `process`: a private network with room for the largest job.
pub(super) fn address_of(process: u32) -> SocketAddr {
    address_on(process, 0)
}

/// The same on a rail.
pub(crate) fn address_on(process: u32, rail: u8) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::from_bits(0x0a00_0000 | process), 1 + u16::from(rail)))
}

/// The process that has an address.
pub(super) fn process_at(address: SocketAddr) -> Option<u32> {
    match address {
        SocketAddr::V4(v4) => Some(v4.ip().to_bits() & 0x00ff_ffff),
        SocketAddr::V6(_) => None,
    }
}
