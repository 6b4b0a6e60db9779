//! The rings by which short messages come in.

use alloc::{boxed::Box, vec::Vec};

use crate::{
    id::PeerId,
    reliability::Short,
    ring::{Consumer, Meet, Producer, Record, Side},
};

/// The rings that come in, and where to get them.
#[derive(Debug, Default)]
pub(super) struct Rings {
    meet: Option<Box<dyn Meet>>,
    /// By peer, without an order.
    inward: Vec<Inward>,
    /// Where the next look begins.
    next: usize,
}

#[derive(Debug)]
struct Inward {
    peer: PeerId,
    source: u32,
    session: u32,
    ring: Consumer,
}

impl Inward {
    fn short(&self, record: Record) -> Short {
        Short {
            peer: self.peer,
            source: self.source,
            session: self.session,
            record,
        }
    }
}

impl Rings {
    /// Brings two sides together from now on.
    pub(super) fn set_meet(&mut self, meet: impl Meet + 'static) {
        self.meet = Some(Box::new(meet));
    }

    /// Gets the rings of a session with a peer, if there are any, and returns the one that goes out.
    pub(super) fn open(&mut self, peer: PeerId, own: Side, other: Side) -> Option<Producer> {
        let (outward, ring) = self.meet.as_mut()?.meet(own, other)?;
        self.inward.push(Inward {
            peer,
            source: other.processor,
            session: own.session,
            ring,
        });
        Some(outward)
    }

    /// Gives the ring of a peer up.
    pub(super) fn close(&mut self, peer: PeerId) {
        self.inward.retain(|inward| inward.peer != peer);
        self.next = 0;
    }

    /// Returns whether there may be rings.
    pub(super) fn may_exist(&self) -> bool {
        self.meet.is_some()
    }

    /// Returns whether there is a message in one.
    #[inline]
    pub(super) fn has_record(&self) -> bool {
        self.inward.iter().any(|inward| inward.ring.has_record())
    }

    /// Takes the next message; rings are looked at in turn.
    #[inline]
    pub(super) fn poll(&mut self, short: &mut Short) -> bool {
        let Self { inward, next, .. } = self;
        for _ in 0..inward.len() {
            if *next >= inward.len() {
                *next = 0;
            }
            let here = &mut inward[*next];
            if let Some(record) = here.ring.pop() {
                *short = here.short(record);
                return true;
            }
            *next += 1;
        }
        false
    }

    /// Takes the next message; of one peer only, if one is given. The rings are emptied one by one.
    pub(super) fn pop_of(&mut self, peer: Option<u32>) -> Option<Short> {
        let mut inward = self.inward.iter_mut().rev();
        inward.find_map(|inward| {
            let is_meant = peer.is_none_or(|peer| inward.peer.0 == peer);
            let record = is_meant.then(|| inward.ring.pop())??;
            Some(inward.short(record))
        })
    }

    /// Says to the other sides that this one is about to sleep, or awake.
    pub(super) fn set_asleep(&mut self, asleep: bool) {
        for inward in &self.inward {
            inward.ring.set_asleep(asleep);
        }
    }
}
