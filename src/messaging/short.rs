//! Short messages, which come and go by rings in memory, past packets.

#[cfg(feature = "mpi")]
use super::pair::Inbound;
use super::{Messenger, SendOptions, staged::Taken};
#[cfg(feature = "mpi")]
use crate::reliability;
use crate::{
    reliability::{Arriving, PeerId, Pieces, Which},
    time::Instant,
    wire::Seq,
};

/// The longest message that goes by a ring unasked, bytes: a longer one takes as long as a packet, and a stream of them
/// longer.
const PLAIN: usize = 4 << 10;

/// The messages of a ring, past the inbox.
#[cfg(feature = "mpi")]
pub(super) struct Run<'a> {
    ring: reliability::Run<'a>,
    pair: &'a mut Inbound,
}

#[cfg(feature = "mpi")]
impl Run<'_> {
    /// As [`Messenger::next_short`], if it lies in its lines.
    #[inline(always)]
    pub(super) fn next(&mut self) -> Option<(Arriving<'_>, &mut Seq)> {
        let arriving = self.ring.next()?;
        let number = self.pair.next_of_short(&arriving)?;
        Some((arriving, number))
    }
}

impl Messenger {
    /// Sends a message with match bits at once, if its peer is reached by a ring. `None`: it is not, or there is no room,
    /// and [`send`](Self::send) takes the message. Else returns whether there is something to transmit.
    #[inline(always)]
    pub(super) fn send_short(&mut self, peer: PeerId, bits: u64, data: impl Pieces) -> Option<bool> {
        let (session, number) = self.numbers.usual(peer)?;
        let transmits = self
            .layer
            .memory_mut()?
            .send_short(peer, session, *number, bits, data)?;
        *number = number.plus(1);
        Some(transmits)
    }

    /// The same for a message with these `options`: a record carries no more than a tag.
    #[inline]
    pub fn send_plain(&mut self, peer: PeerId, options: &SendOptions, data: &[u8]) -> Option<bool> {
        // (No more than this is asked where there is no memory.)
        self.layer.memory()?;
        let SendOptions {
            source: None,
            destination: None,
            channel: 0,
            immediate: None,
            tag,
            more: _,
        } = *options
        else {
            return None;
        };
        if data.len() > PLAIN || tag == Some(Arriving::UNTAGGED) {
            return None;
        }
        let transmits = self.send_short(peer, tag.unwrap_or(Arriving::UNTAGGED), data)?;
        self.layer.memory_mut()?.note_short_sent(data.len());
        Some(transmits)
    }

    /// Takes the next short message out of the ring that was [found](Self::find_short), if it is the next of its pair.
    #[inline]
    pub(super) fn take_short(&mut self) -> Option<Taken> {
        let destination = self.inbox.processor();
        let memory = self.layer.memory_mut()?;
        let arriving = memory.next_short(Which::Whole)?;
        if !self.inbox.takes(arriving.front.len()) {
            return None;
        }
        let number = self.inbox.next_of_short(&arriving)?;
        let taken = self.staged.copy(&arriving, destination);
        let (peer, cost) = arriving.take(number);
        memory.note_short_received(taken.len());
        self.accept_short(peer, cost);
        Some(taken)
    }

    /// Returns whether short messages wait where they came in.
    #[inline]
    pub fn has_short(&self) -> bool {
        self.layer.memory().is_some_and(|memory| memory.has_short())
    }

    /// Returns whether one of them is the next of its pair, and so can be received.
    #[inline]
    pub(super) fn has_next_short(&self) -> bool {
        let memory = self.layer.memory();
        memory.is_some_and(|memory| memory.has_short_such_that(|of, number| self.inbox.is_next_short(of, number)))
    }

    /// Moves short messages that have come before others of their pair to the inbox, where they wait for those. Returns
    /// whether there were any.
    #[inline]
    pub fn admit_early(&mut self) -> bool {
        let are_early = self.has_short() && !self.has_next_short();
        if are_early {
            self.deliver_all_short();
        }
        are_early
    }

    /// Moves the next short message to the inbox, if nothing is there. Returns whether something is.
    #[cfg(feature = "tokio")]
    pub(crate) fn admit_next(&mut self) -> bool {
        self.inbox.messages() > 0 || self.deliver_short() && self.inbox.messages() > 0
    }

    /// Returns whether a short message waits, of which some may not be there yet, and goes to its ring.
    #[inline]
    pub(crate) fn find_short(&mut self) -> bool {
        self.layer.memory_mut().is_some_and(|memory| memory.find_short())
    }

    /// The next short message where it came in, past the inbox, if it is the next of its pair; and the number of that pair's
    /// next message, which its taker raises.
    #[inline(always)]
    pub(super) fn next_short(&mut self, which: Which) -> Option<(Arriving<'_>, &mut Seq)> {
        let arriving = self.layer.memory_mut()?.next_short(which)?;
        let number = self.inbox.next_of_short(&arriving)?;
        Some((arriving, number))
    }

    /// The same for the messages of one ring, one after the other.
    #[cfg(feature = "mpi")]
    #[inline]
    pub(super) fn run_of_short(&mut self) -> Option<Run<'_>> {
        let ring = self.layer.memory_mut()?.run()?;
        let pair = self.inbox.inbound_of_short(ring.peer())?;
        Some(Run { ring, pair })
    }

    /// Messages of this cost, mostly 0, were received at once, and their credit is to be given back.
    #[inline(always)]
    pub(super) fn accept_short(&mut self, peer: PeerId, cost: u32) {
        if cost > 0 {
            self.give_back_short(peer, cost);
        }
    }

    #[cold]
    fn give_back_short(&mut self, peer: PeerId, cost: u32) {
        if let Some(memory) = self.layer.memory_mut() {
            memory.accept_short(peer, cost);
        }
    }

    /// Moves the next short message to the inbox. Returns whether there was one.
    #[cold]
    pub(super) fn deliver_short(&mut self) -> bool {
        let Some(memory) = self.layer.memory_mut() else {
            return false;
        };
        let any = memory.deliver_short(Instant::ZERO, None, &mut self.inbox);
        self.apply_releases();
        any
    }

    /// Moves all short messages to the inbox.
    #[inline]
    pub(crate) fn deliver_all_short(&mut self) {
        // (One that is in place is before them.)
        if self.has_short() && !self.is_in_place() {
            while self.deliver_short() {}
        }
    }

    /// Returns whether short messages to and from this peer go by rings now.
    #[cfg(feature = "mpi")]
    #[inline]
    pub(crate) fn has_ring(&self, peer: PeerId) -> bool {
        self.layer.memory().is_some_and(|memory| memory.has_ring(peer))
    }

    /// Returns whether the program waits by itself until a descriptor is readable, while this side says that it sleeps.
    #[inline]
    pub fn is_watched(&self) -> bool {
        self.layer.memory().is_some_and(|memory| memory.is_watched())
    }

    /// This side is about to sleep, or has woken up: peers that send short messages wake it. Returns whether it may sleep.
    pub fn set_asleep(&mut self, asleep: bool) -> bool {
        let Some(memory) = self.layer.memory_mut() else {
            return true;
        };
        memory.set_asleep(asleep);
        !memory.has_short()
    }
}
