//! The rings by which short messages come in.

use alloc::{boxed::Box, vec::Vec};
use core::net::SocketAddr;

use crate::{
    id::PeerId,
    ring::{Consumer, Meet, Producer, Side},
    time::Instant,
};

/// After so many messages of one peer, those of another one have their turn.
const IN_A_ROW: u32 = 32;

/// The rings that come in, and where to get them.
#[derive(Debug, Default)]
pub(super) struct Rings {
    meet: Option<Box<dyn Meet>>,
    /// By peer, without an order.
    inward: Vec<Inward>,
    /// The one that is read now.
    next: usize,
    /// Messages taken since the last turn.
    in_a_row: u32,
    /// Room for a message that becomes a packet.
    pub(super) scratch: Vec<u8>,
    /// When silent ones were last looked for.
    pub(super) rested: Instant,
}

/// The ring by which a peer's messages come in.
#[derive(Debug)]
pub(crate) struct Inward {
    pub(crate) peer: PeerId,
    pub(crate) source: u32,
    pub(crate) session: u32,
    pub(super) ring: Consumer,
    /// Credit of messages received from it that is not free again yet.
    pub(super) accepted: u32,
    /// Where there was a gap in the ring at the last look for one.
    gap: Option<u32>,
}

impl Rings {
    /// Brings two sides together from now on.
    pub(super) fn set_meet(&mut self, meet: impl Meet + 'static) {
        self.meet = Some(Box::new(meet));
    }

    /// Returns whether the program watches a descriptor.
    #[inline]
    pub(super) fn is_watched(&self) -> bool {
        self.meet.as_ref().is_some_and(|meet| meet.is_watched())
    }

    /// Gets the rings of a session with a peer, if there are any, and returns the one that goes out.
    pub(super) fn open(&mut self, peer: PeerId, at: SocketAddr, own: Side, other: Side) -> Option<Producer> {
        let (outward, ring) = self.meet.as_mut()?.meet(at, own, other)?;
        self.inward.push(Inward {
            peer,
            source: other.processor,
            session: own.session,
            ring,
            accepted: 0,
            gap: None,
        });
        Some(outward)
    }

    /// Gives the ring of a peer up.
    pub(super) fn close(&mut self, peer: PeerId) {
        self.inward.retain(|inward| inward.peer != peer);
        self.next = 0;
    }

    /// Returns whether there may be rings.
    #[cfg(feature = "mpi")]
    pub(super) fn may_exist(&self) -> bool {
        self.meet.is_some()
    }

    /// Returns whether there is a message in one.
    #[inline]
    pub(super) fn has_record(&self) -> bool {
        self.inward.iter().any(|inward| inward.ring.has_record())
    }

    /// Returns whether the next message in one, by its number, is such a one.
    #[inline]
    pub(super) fn has_such(&self, is_such: impl Fn(&Inward, u32) -> bool) -> bool {
        let next = |inward: &Inward| inward.ring.next_number().is_some_and(|number| is_such(inward, number));
        self.inward.iter().any(next)
    }

    /// The ring that is read now.
    #[inline(always)]
    pub(super) fn current(&mut self) -> Option<&mut Inward> {
        self.inward.get_mut(self.next)
    }

    /// Finds a ring with a message, of which some may not be there yet, which is read from now on; the rings are looked at in turn.
    #[inline]
    pub(super) fn find(&mut self) -> bool {
        let is_next = |inward: &Inward| inward.ring.has_begun();
        self.inward.get(self.next).is_some_and(is_next) || self.find_other()
    }

    /// A message was taken from the ring that is read now: another one has its turn after [`IN_A_ROW`].
    #[inline]
    pub(super) fn note_taken(&mut self) {
        self.in_a_row += 1;
        if self.in_a_row >= IN_A_ROW {
            self.in_a_row = 0;
            self.next = (self.next + 1) % self.inward.len().max(1);
        }
    }

    fn find_other(&mut self) -> bool {
        let rings = self.inward.len();
        let mut others = (self.next + 1..rings).chain(0..self.next.min(rings));
        let found = others.find(|index| self.inward[*index].ring.has_begun());
        self.next = found.unwrap_or(self.next);
        found.is_some()
    }

    /// A ring with a message; that of one peer, if one is given. The rings are emptied one by one.
    pub(super) fn next_of(&mut self, peer: Option<u32>) -> Option<&mut Inward> {
        let is_meant = |inward: &&mut Inward| peer.is_none_or(|peer| inward.peer.0 == peer);
        let mut inward = self.inward.iter_mut().rev().filter(is_meant);
        inward.find(|inward| inward.ring.has_record())
    }

    /// Looks for gaps. Gives the peers in whose rings there was the same one at the last look: they wrote lines and took
    /// one of them back.
    pub(super) fn find_gaps(&mut self) -> Vec<PeerId> {
        let stays = |inward: &mut Inward| {
            let last = core::mem::replace(&mut inward.gap, inward.ring.gap());
            last.is_some() && last == inward.gap
        };
        let found = self.inward.iter_mut().filter_map(|i| stays(i).then_some(i.peer));
        found.collect()
    }

    /// Tells the other sides what has been taken.
    pub(super) fn publish(&self) {
        self.inward.iter().for_each(|inward| inward.ring.publish());
    }

    /// Says to the other sides that this one is about to sleep, or awake.
    pub(super) fn set_asleep(&mut self, asleep: bool) {
        for inward in &self.inward {
            inward.ring.set_asleep(asleep);
        }
    }
}
