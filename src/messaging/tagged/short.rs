//! Short messages, which go by a ring in memory to a peer of this host, past the messenger's queues.

#[cfg(feature = "mpi")]
use alloc::vec::Vec;

use super::{
    ActiveMessages, Completion, Envelope, MemoryRegion, Messenger, PROTOCOL, Tagged, control::Control, matched, place,
};
#[cfg(feature = "mpi")]
use super::{Handle, Receive, Selector};
use crate::{
    reliability::{Arriving, Which},
    time::Instant,
};
#[cfg(feature = "mpi")]
use crate::{
    reliability::{PeerId, Pieces},
    wire::Seq,
};

/// So many eager limits may a message have that goes by a ring: two copies take less time there than to ask first.
#[cfg(feature = "mpi")]
const RING_LIMITS: u64 = 4;

impl<B: MemoryRegion + 'static> Tagged<B> {
    /// Sends a copy of `data`, complete at once, if the peer is reached by a ring. `None`:
    /// [`send_eager`](Self::send_eager) takes it. Else returns whether there is something to transmit. It is
    /// [permitted](Self::may_send_short).
    #[cfg(feature = "mpi")]
    #[inline(always)]
    pub(crate) fn send_short(
        &mut self,
        messenger: &mut Messenger,
        peer: PeerId,
        bits: u64,
        data: impl Pieces,
    ) -> Option<bool> {
        if data.len() > Arriving::IN_LINE {
            return self.send_long(messenger, peer, bits, data);
        }
        let transmits = messenger.send_short(peer, bits, data)?;
        self.stats.eager += 1;
        Some(transmits)
    }

    #[cfg(feature = "mpi")]
    #[inline(never)]
    fn send_long(&mut self, messenger: &mut Messenger, peer: PeerId, bits: u64, data: impl Pieces) -> Option<bool> {
        let len = data.len() as u64;
        if !self.goes_by_ring(messenger, peer, len) || !self.has_room(messenger, peer, len) {
            return None;
        }
        let transmits = messenger.send_short(peer, bits, data)?;
        self.stats.eager += 1;
        Some(transmits)
    }

    /// Returns whether a message of so many bytes goes by a ring as soon as there is room in it.
    #[cfg(feature = "mpi")]
    pub(crate) fn goes_by_ring(&self, messenger: &Messenger, peer: PeerId, len: u64) -> bool {
        len <= RING_LIMITS * u64::from(self.eager_limit) && !self.crosses(messenger, peer, len)
    }

    /// Returns whether [`send_short`](Self::send_short) may be asked: nothing is lost, and no request waits that would be
    /// overtaken.
    #[cfg(feature = "mpi")]
    #[inline]
    pub(crate) fn may_send_short(&self, peer: PeerId) -> bool {
        self.lost.is_empty() && !self.outbox.holds_requests(peer)
    }

    /// Returns whether nothing is out of the ordinary: no message waits outside of the rings, nothing is lost, and nothing
    /// waits to be sent.
    #[cfg(feature = "mpi")]
    pub(crate) fn is_calm(&self, messenger: &Messenger) -> bool {
        messenger.inbox.messages() == 0 && self.unexpected.len() == 0 && self.lost.is_empty() && self.outbox.is_empty()
    }

    /// Posts a receive; no [unexpected](Self::unexpected) message waits.
    #[cfg(feature = "mpi")]
    #[inline(always)]
    pub(crate) fn post(&mut self, selector: &Selector, buffer: B, request: u64) -> Handle {
        Handle(self.posted.push(selector, Receive { request, buffer }))
    }

    /// Returns whether [`take_short`](Self::take_short) may be asked: nothing that came before the messages in the rings is
    /// to be handled first.
    #[cfg(feature = "mpi")]
    #[inline]
    pub(crate) fn may_take_short(&self, messenger: &Messenger) -> bool {
        messenger.inbox.messages() == 0 && self.lost.is_empty()
    }

    /// Takes the next message out of the rings, if it ends this request, which is the oldest that is posted, and is one
    /// of `which`. It is [permitted](Self::may_take_short). `None`: nothing was done.
    #[cfg(feature = "mpi")]
    #[inline(always)]
    pub(crate) fn take_short(&mut self, messenger: &mut Messenger, request: u64, which: Which) -> Option<Envelope> {
        let (arriving, number) = messenger.next_short(which)?;
        let (envelope, (peer, cost)) = self.take_arriving(arriving, number, request)?;
        messenger.accept_short(peer, cost);
        Some(envelope)
    }

    /// The same for one after the other that lies in its lines, from `request` on. `ended` is told how it has ended, and says
    /// which one comes next, if any. Gives the one that has not ended.
    #[cfg(feature = "mpi")]
    #[inline(always)]
    pub(crate) fn take_run(
        &mut self,
        messenger: &mut Messenger,
        request: u64,
        mut ended: impl FnMut(&Envelope) -> Option<u64>,
    ) -> Option<u64> {
        let mut awaited = request;
        while let Some(mut run) = messenger.run_of_short() {
            let credit = loop {
                let Some((arriving, number)) = run.next() else {
                    return Some(awaited);
                };
                let Some((envelope, credit)) = self.take_arriving(arriving, number, awaited) else {
                    return Some(awaited);
                };
                let next = ended(&envelope);
                awaited = next.unwrap_or(awaited);
                if next.is_none() || credit.1 > 0 {
                    break (credit, next);
                }
            };
            let ((peer, cost), next) = credit;
            messenger.accept_short(peer, cost);
            next?;
        }
        Some(awaited)
    }

    /// Takes a message that ends this request, which is the oldest that is posted. With it comes what it says of credit.
    #[cfg(feature = "mpi")]
    #[inline(always)]
    fn take_arriving(
        &mut self,
        arriving: Arriving<'_>,
        number: &mut Seq,
        request: u64,
    ) -> Option<(Envelope, (PeerId, u32))> {
        let (source, bits, len) = (arriving.source, arriving.front.bits, arriving.front.len());
        let receive = self.posted.oldest(source, matched(bits))?;
        let room = receive.buffer.run()?;
        if receive.request != request || arriving.session > 1 || len > room.len() {
            return None;
        }
        if !arriving.front.copy_to(room) {
            return None;
        }
        self.posted.forget_oldest();
        let credit = arriving.take(number);
        let len = len as u64;
        Some((Envelope { source, bits, len }, credit))
    }

    /// The same for a receive that is not posted, because it ends here or not at all: if `selector` takes the message and
    /// it fits into `room`.
    #[cfg(feature = "mpi")]
    #[inline(always)]
    pub(crate) fn take_short_into(
        &mut self,
        messenger: &mut Messenger,
        selector: &Selector,
        room: &mut [u8],
        which: Which,
    ) -> Option<Envelope> {
        Self::take_into(messenger, selector, which, |len| room.get_mut(..len))
    }

    /// The same for a message of any length, into the first of these `bytes`, which become more if there are too few.
    #[cfg(feature = "mpi")]
    #[inline]
    pub(crate) fn claim_short(
        &mut self,
        messenger: &mut Messenger,
        selector: &Selector,
        bytes: &mut Vec<u8>,
        which: Which,
    ) -> Option<Envelope> {
        Self::take_into(messenger, selector, which, |len| {
            if bytes.len() < len {
                bytes.resize(len, 0);
            }
            bytes.get_mut(..len)
        })
    }

    /// The same into the room that there is for so many bytes.
    #[cfg(feature = "mpi")]
    #[inline(always)]
    fn take_into<'r>(
        messenger: &mut Messenger,
        selector: &Selector,
        which: Which,
        room: impl FnOnce(usize) -> Option<&'r mut [u8]>,
    ) -> Option<Envelope> {
        let (arriving, number) = messenger.next_short(which)?;
        let (source, bits, len) = (arriving.source, arriving.front.bits, arriving.front.len());
        if arriving.session > 1 || !selector.matches(source, matched(bits)) {
            return None;
        }
        if !arriving.front.copy_to(room(len)?) {
            return None;
        }
        let (peer, cost) = arriving.take(number);
        messenger.accept_short(peer, cost);
        let len = len as u64;
        Some(Envelope { source, bits, len })
    }

    /// Returns whether messages in the rings are the oldest that have come, and nothing is lost.
    #[cfg(feature = "mpi")]
    pub(crate) fn is_clear(&self, messenger: &Messenger) -> bool {
        messenger.inbox.messages() == 0 && self.unexpected.len() == 0 && self.lost.is_empty()
    }

    /// Takes all short messages for which receives wait. Returns whether messages can be received from the messenger's
    /// inbox: these come first.
    #[inline]
    pub(super) fn handle_short<A: ActiveMessages>(
        &mut self,
        messenger: &mut Messenger,
        now: Instant,
        handler: &mut A,
    ) -> bool {
        if messenger.inbox.messages() > 0 {
            // (One that is in place has to be received first, from there.)
            return !messenger.is_in_place();
        }
        while messenger.find_short() {
            if let Some(completion) = self.place_short(messenger) {
                self.completions.push_back(completion);
            } else if !self.handle_short_control(messenger, now, handler) {
                return messenger.deliver_short();
            }
        }
        false
    }

    /// Handles the next short message, if it is one of the protocol that leaves nothing to be kept.
    fn handle_short_control<A: ActiveMessages>(
        &mut self,
        messenger: &mut Messenger,
        now: Instant,
        handler: &mut A,
    ) -> bool {
        let mut bytes = [0; Arriving::IN_LINE];
        let Some((arriving, number)) = messenger.next_short(Which::Whole) else {
            return false;
        };
        let (peer, source, len) = (arriving.peer, arriving.source, arriving.front.len());
        let is_plain = arriving.session == 1 && self.lost.is_empty();
        if arriving.front.bits != PROTOCOL || !is_plain || len > bytes.len() || !arriving.front.copy_to(&mut bytes) {
            return false;
        }
        let control = Control::parse(&bytes[..len]);
        let receive = match control {
            Ok(Control::RequestToSend { bits, .. }) => match self.posted.take(source, matched(bits)) {
                None => return false,
                receive => receive,
            },
            _ => None,
        };
        let (of, cost) = arriving.take(number);
        messenger.accept_short(of, cost);
        match (control, receive) {
            (Ok(Control::RequestToSend { id, bits, len, offer }), Some(receive)) => {
                let envelope = Envelope { source, bits, len };
                let offer = offer.map(|offer| (offer, messenger.find_short()));
                self.accept(messenger, now, (peer, id), envelope, offer, receive);
            }
            (Ok(Control::FollowUp { id, what }), _) => self.follow_up(messenger, now, (peer, id), what),
            (Ok(Control::Active { handler: id, data }), _) => handler.handle(peer, source, id, data),
            _ => self.stats.malformed += 1,
        }
        true
    }

    /// Places the next short message, if a receive waits for it.
    fn place_short(&mut self, messenger: &mut Messenger) -> Option<Completion> {
        if !self.lost.is_empty() {
            return None;
        }
        let (arriving, number) = messenger.next_short(Which::Whole)?;
        if arriving.session > 1 || arriving.front.bits == PROTOCOL {
            return None;
        }
        let (source, bits, len) = (arriving.source, arriving.front.bits, arriving.front.len());
        let mut receive = self.posted.take(source, matched(bits))?;
        let completion = match receive.buffer.run() {
            Some(room) if len <= room.len() => {
                arriving.front.copy_to(room);
                place(receive, (source, bits, len), &[])
            }
            _ => {
                self.scratch.resize(len, 0);
                arriving.front.copy_to(&mut self.scratch);
                place(receive, (source, bits, len), &self.scratch)
            }
        };
        let (peer, cost) = arriving.take(number);
        messenger.accept_short(peer, cost);
        Some(completion)
    }
}
