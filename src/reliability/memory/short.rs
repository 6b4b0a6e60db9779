//! Short messages that go by a ring instead of as packets.
//!
//! A session that is up has a ring for each direction, if the two sides can [meet](Meet). A message that
//! fits into a record, in its line or beside it, goes there; when the ring is full, or the message is longer, it becomes a
//! packet. Numbers of messages keep the order of both ways, and both take the same credit.

use alloc::{boxed::Box, vec::Vec};
use core::{net::SocketAddr, time::Duration};

use super::{CrossMemory, MemoryLayer, rings::Inward};
use crate::{
    error::{DropReason, PeerError},
    id::PeerId,
    reliability::{MESSAGE_COST, Sink},
    ring::{Front, LONG, Meet, Pieces, Producer, Side, TWO},
    time::Instant,
    wire::{BASE_LEN, Base, Builder, Fragment, Kind, Packet, Seq, Token},
};

/// Room for the headers of a packet that a short message becomes: base header, match bits, fragment.
const HEADERS: usize = BASE_LEN + 8 + 8;
/// Payload of a packet that a part of a long message becomes.
const PART: usize = 32 << 10;

/// Credit of received messages, in bytes, that becomes free together. It is little beside
/// [`Config::unexpected_bytes`](crate::Config::unexpected_bytes).
const ACCEPTED: u32 = 2 << 10;

/// A ring that was silent so long gives memory back.
const REST: Duration = Duration::from_secs(1);

/// Which messages in a ring are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// Those that lie in their lines.
    #[cfg(feature = "mpi")]
    InLine,
    /// All, also such of which some is not there yet.
    #[cfg(feature = "mpi")]
    Begun,
    /// All that are there.
    Whole,
}

/// A message that has come by a ring, where it lies. It is of the usual pair of processors: the peer's and our first one.
pub(crate) struct Arriving<'a> {
    /// The peer.
    pub(crate) peer: PeerId,
    /// The peer's processor.
    pub(crate) source: u32,
    /// Which session with this peer, counted from 1.
    pub(crate) session: u32,
    /// Match bits, number and bytes.
    pub(crate) front: Front<'a>,
    accepted: &'a mut u32,
}

impl Arriving<'_> {
    /// The match bits of a message that has none.
    pub(crate) const UNTAGGED: u64 = u64::MAX;
    /// Most bytes that are read with the rest; longer ones lie beside it.
    pub(crate) const IN_LINE: usize = TWO;
    /// The longest one that a ring takes, bytes.
    pub(crate) const LONGEST: usize = LONG;

    /// Takes the message, as it was received at once, and raises the `number` of its pair's next message. Its credit is
    /// free again: returns how much has to be [told](MemoryLayer::accept_short) to which peer, mostly nothing.
    #[inline(always)]
    pub(crate) fn take(self, number: &mut Seq) -> (PeerId, u32) {
        *number = number.plus(1);
        *self.accepted += self.front.len() as u32 + MESSAGE_COST;
        self.front.take();
        if *self.accepted < ACCEPTED {
            return (self.peer, 0);
        }
        (self.peer, core::mem::take(self.accepted))
    }
}

/// The ring that is read now.
#[cfg(feature = "mpi")]
pub(crate) struct Run<'a>(&'a mut Inward);

#[cfg(feature = "mpi")]
impl Run<'_> {
    /// The peer.
    pub(crate) fn peer(&self) -> PeerId {
        self.0.peer
    }

    /// The next message, if it lies in its lines.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> Option<Arriving<'_>> {
        self.0.arriving(Which::InLine)
    }
}

impl Inward {
    #[inline(always)]
    fn arriving(&mut self, which: Which) -> Option<Arriving<'_>> {
        Some(Arriving {
            peer: self.peer,
            source: self.source,
            session: self.session,
            front: match which {
                #[cfg(feature = "mpi")]
                Which::InLine => self.ring.front_in_line()?,
                #[cfg(feature = "mpi")]
                Which::Begun => self.ring.front_early()?,
                Which::Whole => self.ring.front()?,
            },
            accepted: &mut self.accepted,
        })
    }
}

impl MemoryLayer {
    /// Short messages go by rings between sides that `meet` brings together.
    #[must_use]
    pub fn with_rings(mut self, meet: impl Meet + 'static) -> Self {
        self.rings.set_meet(meet);
        self
    }

    /// `crosses` gives what copies straight between the memory of a process and that of this one, by its address, when a
    /// session with it has got its [rings](Self::with_rings).
    #[must_use]
    pub fn with_cross_memory(
        mut self,
        crosses: impl Fn(SocketAddr) -> Option<Box<dyn CrossMemory>> + Send + 'static,
    ) -> Self {
        self.crosses = Some(Box::new(crosses));
        self
    }

    /// A session with a peer is up.
    pub(super) fn open_rings(&mut self, peer: u32) {
        let p = &mut self.peers[peer as usize];
        let own = Side {
            processor: self.processor,
            session: p.session,
            epoch: self.epoch,
        };
        let other = Side {
            processor: p.processor,
            session: p.theirs.index,
            epoch: p.theirs.secret,
        };
        p.outward = self.rings.open(PeerId(peer), p.address, own, other);
        let crosses = self.crosses.as_ref().filter(|_| p.outward.is_some());
        p.cross = crosses.and_then(|cross| cross(p.address));
    }

    /// What copies straight between the memory of a peer and that of this process, if it can.
    pub(crate) fn cross(&mut self, peer: PeerId) -> Option<&mut dyn CrossMemory> {
        let cross = self.peers.get_mut(peer.index())?.cross.as_deref_mut()?;
        cross.is_open().then_some(cross)
    }

    /// Returns whether something copies straight between the memory of a peer and that of this process.
    pub(crate) fn crosses(&self, peer: PeerId) -> bool {
        let cross = self.peers.get(peer.index()).and_then(|p| p.cross.as_deref());
        cross.is_some_and(CrossMemory::is_open)
    }

    /// Returns whether the way to the core of a peer is long, as far as copies to it have shown.
    pub(crate) fn is_far(&self, peer: PeerId) -> bool {
        let outward = self.peers.get(peer.index()).and_then(|p| p.outward.as_ref());
        outward.is_some_and(Producer::is_far)
    }

    #[cfg(test)]
    pub(crate) fn set_far(&mut self, peer: PeerId) {
        let outward = self.peers[peer.index()].outward.as_mut();
        outward.expect("a ring to that peer").set_far();
    }

    /// Returns whether packets to a peer wait to be transmitted.
    pub(crate) fn has_queued(&self, peer: PeerId) -> bool {
        self.peers.get(peer.index()).is_some_and(|p| !p.queue.is_empty())
    }

    /// The memory of this process that a peer may read or write is used otherwise from now on.
    pub(crate) fn withdraw(&mut self, peer: PeerId) {
        let peer = self.peers.get_mut(peer.index());
        if let Some(cross) = peer.and_then(|p| p.cross.as_deref_mut()) {
            cross.withdraw();
        }
    }

    /// The same for all peers.
    #[cfg(feature = "mpi")]
    pub(crate) fn withdraw_all(&mut self) {
        for p in &mut self.peers {
            if let Some(cross) = p.cross.as_deref_mut() {
                cross.withdraw();
            }
        }
    }

    /// The session with a peer is over.
    pub(super) fn close_rings(&mut self, peer: u32) {
        let p = &mut self.peers[peer as usize];
        (p.outward, p.cross) = (None, None);
        self.rings.close(PeerId(peer));
    }

    /// Sends a message of this session and of the usual pair of processors by the ring. `None`: it has to go as a packet.
    /// Else returns whether there is something to transmit.
    #[inline(always)]
    pub(crate) fn send_short(
        &mut self,
        peer: PeerId,
        session: u32,
        number: Seq,
        bits: u64,
        data: impl Pieces,
    ) -> Option<bool> {
        let p = self.peers.get_mut(peer.index())?;
        let outward = p.outward.as_mut()?;
        let len = data.len();
        let cost = len as u32 + MESSAGE_COST;
        if p.session != session || !p.queue.can_pay(cost) {
            return None;
        }
        // (A long one that comes before packets that wait has to wait, too, at its receiver.)
        if len > TWO && !p.queue.is_empty() || !outward.push_pieces(bits, number.0, data) {
            return None;
        }
        p.queue.pay(cost);
        if outward.wakes() {
            self.wake(peer);
            return Some(true);
        }
        // (A peer that does not know of this session yet does not look into the ring.)
        Some(p.queue.is_ready)
    }

    /// A message of so many bytes went by a ring, as a packet would have.
    #[inline]
    pub(crate) fn note_short_sent(&mut self, len: usize) {
        self.stats.packets_sent += 1;
        self.stats.payload_sent += len as u64;
    }

    /// The same of one that has come.
    #[inline]
    pub(crate) fn note_short_received(&mut self, len: usize) {
        self.stats.packets_received += 1;
        self.stats.note_delivered(1, len as u32);
        self.rings.note_taken();
    }

    /// A packet tells the peer that there is something in the ring.
    #[cold]
    fn wake(&mut self, peer: PeerId) {
        let p = &mut self.peers[peer.index()];
        p.queue.announce(p.limit_told);
        self.mark_ready(peer.0);
    }

    /// Returns whether there may be rings.
    #[cfg(feature = "mpi")]
    pub(crate) fn takes_short(&self) -> bool {
        self.rings.may_exist()
    }

    /// Returns whether there is a ring to and from this peer.
    #[cfg(feature = "mpi")]
    #[inline]
    pub(crate) fn has_ring(&self, peer: PeerId) -> bool {
        self.peers.get(peer.index()).is_some_and(|p| p.outward.is_some())
    }

    /// Returns whether a message lies in a ring.
    #[inline]
    pub(crate) fn has_short(&self) -> bool {
        self.rings.has_record()
    }

    /// Returns whether the program watches a descriptor.
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        self.rings.is_watched()
    }

    /// Returns whether the next message in a ring, by its ring and number, is such a one.
    #[inline]
    pub(crate) fn has_short_such_that(&self, is_such: impl Fn(&Inward, u32) -> bool) -> bool {
        self.rings.has_such(is_such)
    }

    /// Returns whether there is a next message, which is in another ring if that of the last one is empty.
    #[inline]
    pub(crate) fn find_short(&mut self) -> bool {
        self.rings.find()
    }

    /// The next message, where it lies, if it is in the ring of the last one.
    #[inline(always)]
    pub(crate) fn next_short(&mut self, which: Which) -> Option<Arriving<'_>> {
        self.rings.current()?.arriving(which)
    }

    /// The messages of the ring of the last one.
    #[cfg(feature = "mpi")]
    pub(crate) fn run(&mut self) -> Option<Run<'_>> {
        self.rings.current().map(Run)
    }

    /// Messages of this cost were received at once: their credit is free again.
    #[cold]
    pub(crate) fn accept_short(&mut self, peer: PeerId, cost: u32) {
        let p = &mut self.peers[peer.index()];
        p.cost_received = p.cost_received.wrapping_add(cost);
        p.cost_released = p.cost_released.wrapping_add(cost);
        self.tell_credit(peer.0);
    }

    /// Delivers the next message in the rings, or in that of one peer, as the packets that it would have been. Returns
    /// whether there was one.
    pub(crate) fn deliver_short<S: Sink + ?Sized>(&mut self, now: Instant, of: Option<u32>, sink: &mut S) -> bool {
        self.now = self.now.max(now);
        let mut bytes = core::mem::take(&mut self.rings.scratch);
        let any = self.deliver_front(of, &mut bytes, sink);
        self.rings.scratch = bytes;
        any
    }

    fn deliver_front<S: Sink + ?Sized>(&mut self, of: Option<u32>, bytes: &mut Vec<u8>, sink: &mut S) -> bool {
        let Some(inward) = self.rings.next_of(of) else {
            return false;
        };
        let (peer, source, session) = (inward.peer, inward.source, inward.session);
        let Some(front) = inward.ring.front() else { return false };
        let (number, bits) = (Seq(front.number), front.bits);
        bytes.resize(HEADERS + front.len(), 0);
        front.copy_to(&mut bytes[HEADERS..]);
        front.take();
        let base = Base {
            kind: Kind::Data,
            channel: 0,
            source,
            destination: self.processor,
            session: Token::NONE,
            sequence: Seq(0),
            acknowledgement: Seq(0),
            rail: 0,
            message: number,
        };
        let total = bytes.len() - HEADERS;
        let mut at = 0;
        loop {
            let len = (total - at).min(PART);
            let mut room = [0; HEADERS];
            let mut header = Builder::new(&mut room, &base);
            if at == 0 && bits != Arriving::UNTAGGED {
                header.match_bits(bits);
            }
            if len < total {
                let (offset, total) = (at as u32, total as u32);
                header.fragment(Fragment { offset, total });
            }
            // It goes before its payload, in the place of what has been delivered.
            let header = header.finish(len as u16);
            let begin = HEADERS + at - header;
            bytes[begin..HEADERS + at].copy_from_slice(&room[..header]);
            self.deliver_from_ring(peer, session, &bytes[begin..HEADERS + at + len], sink);
            at += len;
            if at >= total {
                return true;
            }
        }
    }

    fn deliver_from_ring<S: Sink + ?Sized>(&mut self, peer: PeerId, session: u32, packet: &[u8], sink: &mut S) {
        sink.leave_datagram();
        self.stats.packets_received += 1;
        let p = &mut self.peers[peer.index()];
        if p.session != session || p.down.is_some() {
            return;
        }
        if !p.put_off.is_empty() {
            p.put_off.push_back(packet.to_vec());
        } else if let Ok(view) = Packet::new_checked(packet)
            && let Err(reason) = self.deliver(peer.0, view, packet, sink)
        {
            self.stats.dropped.count(reason);
        }
    }

    /// Delivers everything in the rings; or in that of one peer, which sends nothing more.
    pub(crate) fn deliver_rings<S: Sink + ?Sized>(&mut self, of: Option<u32>, sink: &mut S) {
        while self.deliver_short(self.now, of, sink) {}
    }

    /// Gives the memory of silent rings back, and ends the sessions of peers that have spoilt theirs, once a [`REST`].
    #[inline]
    pub(super) fn rest(&mut self) {
        if self.now >= self.rings.rested + REST {
            self.rest_all();
        }
    }

    #[cold]
    fn rest_all(&mut self) {
        self.rings.rested = self.now;
        self.rings.publish();
        for peer in self.rings.find_gaps() {
            self.stats.dropped.count(DropReason::Malformed);
            self.end_session(peer.0, PeerError::Misbehaved);
        }
        let producers = self.peers.iter_mut().filter_map(|p| p.outward.as_mut());
        producers.for_each(Producer::rest);
    }

    /// Says to the other sides that this one is about to sleep, or awake.
    pub(crate) fn set_asleep(&mut self, asleep: bool) {
        self.rings.set_asleep(asleep);
    }
}
