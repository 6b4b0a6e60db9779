//! Short messages that go by a ring instead of as packets.
//!
//! A session that is up has a ring for each direction, if the two sides can [meet](Meet). A message with match bits that
//! fits into a record goes there; when the ring is full, or the message is longer, it becomes a packet. Numbers of messages
//! keep the order of both ways, and both take the same credit.

use super::MemoryLayer;
use crate::{
    id::PeerId,
    reliability::{MESSAGE_COST, Short, Sink},
    ring::{Meet, Side},
    time::Instant,
    wire::{BASE_LEN, Base, Builder, Kind, Packet, Seq, Token},
};

/// Bytes of a packet that a short message becomes: base header, match bits, payload.
const MOST: usize = BASE_LEN + 8 + crate::ring::ROOM;

impl MemoryLayer {
    /// Short messages go by rings between sides that `meet` brings together.
    #[must_use]
    pub fn with_rings(mut self, meet: impl Meet + 'static) -> Self {
        self.rings.set_meet(meet);
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
        p.outward = self.rings.open(PeerId(peer), own, other);
    }

    /// The session with a peer is over.
    pub(super) fn close_rings(&mut self, peer: u32) {
        self.peers[peer as usize].outward = None;
        self.rings.close(PeerId(peer));
    }

    /// Sends a message by the ring. `None`: it has to go as a packet. Else returns whether there is something to transmit.
    #[inline]
    pub(in crate::reliability) fn send_short(
        &mut self,
        peer: PeerId,
        session: u32,
        number: Seq,
        bits: u64,
        data: &[u8],
    ) -> Option<bool> {
        let p = self.peers.get_mut(peer.index())?;
        let outward = p.outward.as_mut()?;
        let cost = data.len() as u32 + MESSAGE_COST;
        if p.session != session || p.is_closing || !p.queue.can_pay(cost) || !outward.push(bits, number.0, data) {
            return None;
        }
        p.queue.pay(cost);
        if outward.wakes() {
            p.queue.announce(p.limit_told);
            self.mark_ready(peer.0);
            return Some(true);
        }
        // (A peer that does not know of this session yet does not look into the ring.)
        Some(p.queue.is_ready)
    }

    /// Returns whether there may be rings.
    pub(in crate::reliability) fn takes_short(&self) -> bool {
        self.rings.may_exist()
    }

    /// Returns whether [`poll_short`](Self::poll_short) would find a message.
    #[inline]
    pub(in crate::reliability) fn has_short(&self) -> bool {
        self.rings.has_record()
    }

    /// Takes the next message out of the rings, which are looked at in turn.
    #[inline]
    pub(in crate::reliability) fn poll_short(&mut self, short: &mut Short) -> bool {
        self.rings.poll(short)
    }

    /// A message from a ring was received at once: its credit is free again.
    #[inline]
    pub(in crate::reliability) fn accept_short(&mut self, short: &Short) {
        let cost = short.record.data().len() as u32 + MESSAGE_COST;
        let p = &mut self.peers[short.peer.index()];
        p.cost_received = p.cost_received.wrapping_add(cost);
        p.cost_released = p.cost_released.wrapping_add(cost);
        self.tell_credit(short.peer.0);
    }

    /// Delivers a message from a ring as the packet that it would have been.
    pub(in crate::reliability) fn deliver_short<S: Sink + ?Sized>(
        &mut self,
        now: Instant,
        short: &Short,
        sink: &mut S,
    ) {
        self.now = self.now.max(now);
        let data = short.record.data();
        let base = Base {
            kind: Kind::Data,
            channel: 0,
            source: short.source,
            destination: self.processor,
            session: Token::NONE,
            sequence: Seq(0),
            acknowledgement: Seq(0),
            rail: 0,
            message: Seq(short.record.number),
        };
        let mut bytes = [0; MOST];
        let mut header = Builder::new(&mut bytes, &base);
        header.match_bits(short.record.bits);
        let len = header.finish(data.len() as u16);
        bytes[len..len + data.len()].copy_from_slice(data);
        let bytes = &bytes[..len + data.len()];
        self.stats.packets_received += 1;
        let p = &mut self.peers[short.peer.index()];
        if !p.put_off.is_empty() {
            p.put_off.push_back(bytes.to_vec());
        } else if let Ok(packet) = Packet::new_checked(bytes)
            && let Err(reason) = self.deliver(short.peer.0, packet, bytes, sink)
        {
            self.stats.dropped.count(reason);
        }
    }

    /// Delivers everything in the rings; or in that of one peer, which sends nothing more.
    pub(in crate::reliability) fn deliver_rings<S: Sink + ?Sized>(&mut self, of: Option<u32>, sink: &mut S) {
        while let Some(short) = self.rings.pop_of(of) {
            self.deliver_short(self.now, &short, sink);
        }
    }

    /// Says to the other sides that this one is about to sleep, or awake.
    pub(in crate::reliability) fn set_asleep(&mut self, asleep: bool) {
        self.rings.set_asleep(asleep);
    }
}
