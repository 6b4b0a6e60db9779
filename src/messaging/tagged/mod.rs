//! Messages with match bits: posted receives, unexpected messages, eager and rendezvous (MPI standard, chapter 3; the
//! DPDK paper, section 3.2: `docs/papers.md`).
//!
//! [`Tagged`] stands beside a [`Messenger`] and is handed it with every call. Like everything here it does no IO and reads
//! no clock.
//!
//! - **Eager**: a message with match bits, sent at once, with its payload. It is matched in the order of admission. If
//!   a receive matches, the payload is copied to its buffer; otherwise it is kept until one is posted.
//! - **Rendezvous**: a *request to send* is matched in the same order. The receiver grants a region, piece by piece,
//!   and the sender places its payload there, on a channel of its own: no reassembly, no copy.
//!
//! # Memory
//!
//! Unexpected messages and requests to send that are kept hold the credit that they cost
//! ([`Config::unexpected_bytes`](crate::Config::unexpected_bytes) per peer). A sender that would run out of credit, or use
//! more than half of it for one message, sends requests instead ([`TaggedStats::converted`] counts them), and keeps those
//! back, too, when only the reserve is left: grants and answers always get through, so that no one waits for ever.
//!
//! # Grants
//!
//! The receiver paces its senders: what is granted and has not landed is at most [`GRANT_BYTES`] for one of them, which its
//! own wire paces, and [`SHARED_GRANT_BYTES`] in all for several: what these send at once meets in the queue before the
//! receiver, which must hold it. If one of them can be reached by several rails, it is [`RAIL_GRANT_BYTES`] for each rail.
//! The oldest messages come first. What does not move for a tenth of a second is not counted until it does: its sender has
//! been stopped, or lies.
//!
//! A sender that revokes what it has asked for *withdraws* it, so that its receiver does not wait for ever.

mod completion;
mod content;
mod control;
mod copying;
mod crossing;
mod hash;
mod outbox;
mod posted;
mod rendezvous;
mod selector;
mod short;
mod sorted;
mod stats;
mod stored;
#[cfg(test)]
mod tests;
mod unexpected;

use alloc::{
    boxed::Box,
    collections::{BTreeMap, VecDeque},
    vec::Vec,
};
use core::fmt;

use bytes::Bytes;

pub use self::{
    completion::{Completion, Envelope, Outcome},
    content::Content,
    crossing::{CMA_LIMIT, FAR_CMA_LIMIT},
    rendezvous::{BULK, GRANT_BYTES, RAIL_GRANT_BYTES, SERVED, SHARED_GRANT_BYTES},
    selector::{MARK, MARKED, PROTOCOL, Selector},
    stats::TaggedStats,
};
use self::{
    control::{Control, Exposure, FollowUp, Grant},
    crossing::Limits,
    outbox::{Answers, Outbox, RESERVE},
    posted::{Place, Posted},
    rendezvous::{Incoming, Rendezvous},
    selector::matched,
    stored::Stored,
    unexpected::Unexpected,
};
use super::{MemoryRegion, Message, Messenger, RegionId, SendOptions};
use crate::{
    error::{PeerError, SendError},
    reliability::{Arriving, MESSAGE_COST, Payload, PeerId, SendToken},
    span::Span,
    time::Instant,
    wire::ANY_PROCESSOR,
};

/// The result of posting a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posting {
    /// It has ended.
    Done(Completion),
    /// It waits for its message.
    Posted(Handle),
    /// It has its message, which is on its way.
    Matched,
}

/// A receive that was posted, to cancel it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle(Place);

/// A message that has been taken out of the queues for one receive (MPI's matched probe).
pub struct Claimed {
    envelope: Envelope,
    stored: Stored,
}

impl Claimed {
    /// Its source, match bits and length.
    #[must_use]
    pub fn envelope(&self) -> Envelope {
        self.envelope
    }
}

impl fmt::Debug for Claimed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claimed")
            .field("envelope", &self.envelope)
            .finish_non_exhaustive()
    }
}

/// The answer of a receiver that wants no bytes: there is no region, and no turn to wait for.
const NOTHING: FollowUp = FollowUp::Grant(Grant {
    region: RegionId { region: 0, key: 0 },
    until: 0,
    limit: 0,
    exposure: None,
});

/// A posted receive.
struct Receive<B> {
    request: u64,
    buffer: B,
}

/// The handler of the layer above, for its own messages and regions.
pub trait ActiveMessages {
    /// A message for `handler` from processor `source` at `peer`. Answers are sent after the call.
    fn handle(&mut self, peer: PeerId, source: u32, handler: u32, data: &[u8]);

    /// All has landed in this region of the layer above ([`Messenger::register`]).
    fn landed(&mut self, id: RegionId);
}

impl ActiveMessages for () {
    fn handle(&mut self, _: PeerId, _: u32, _: u32, _: &[u8]) {}
    fn landed(&mut self, _: RegionId) {}
}

/// Posted and unexpected queues of a [`Messenger`], and its rendezvous. `B`: buffers that receives are posted with. See
/// the module's documentation.
pub struct Tagged<B> {
    /// Our processor.
    processor: u32,
    eager_limit: u32,
    scratch: Vec<u8>,
    stats: TaggedStats,
    /// Lost processors. No messages go to or come from them any more: a successor is another incarnation.
    lost: BTreeMap<u32, PeerError>,
    completions: VecDeque<Completion>,
    outbox: Outbox,
    rendezvous: Rendezvous,
    posted: Posted<Receive<B>>,
    unexpected: Unexpected<Stored>,
    /// Contents of claimed sends to ourselves, by their requests: a claim may be kept for longer than the sender's
    /// memory may be referenced.
    own_claimed: BTreeMap<u64, Box<dyn Content>>,
}

impl<B> fmt::Debug for Tagged<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tagged")
            .field("processor", &self.processor)
            .field("posted", &self.posted.len())
            .field("unexpected", &self.unexpected.len())
            .finish_non_exhaustive()
    }
}

impl<B: MemoryRegion + 'static> Tagged<B> {
    /// For `messenger`; messages of up to `eager_limit` bytes are sent eagerly.
    #[must_use]
    pub fn new(messenger: &Messenger, eager_limit: u32) -> Self {
        Self {
            processor: messenger.processor(),
            eager_limit,
            posted: Posted::default(),
            unexpected: Unexpected::new(messenger.seed),
            rendezvous: Rendezvous::default(),
            outbox: Outbox::default(),
            completions: VecDeque::new(),
            scratch: Vec::new(),
            lost: BTreeMap::new(),
            stats: TaggedStats::default(),
            own_claimed: BTreeMap::new(),
        }
    }

    /// Largest message that is sent eagerly, bytes.
    #[must_use]
    pub fn eager_limit(&self) -> u32 {
        self.eager_limit
    }

    /// Sets [`eager_limit`](Self::eager_limit).
    pub fn set_eager_limit(&mut self, bytes: u32) {
        self.eager_limit = bytes;
    }

    /// Sets the length beyond which messages between processes of one host are copied by the system, where it can.
    /// `None`, the default: [`CMA_LIMIT`], and [`FAR_CMA_LIMIT`] between cores that are far from each other. `u32::MAX`: none
    /// are.
    pub fn set_cma_limit(&mut self, bytes: Option<u32>) {
        self.rendezvous.cma_limits = Limits::new(bytes);
    }

    /// Counters.
    #[must_use]
    pub fn stats(&self) -> TaggedStats {
        TaggedStats {
            crossed: self.rendezvous.copies.done,
            ..self.stats
        }
    }

    /// Receives that wait for their message.
    #[must_use]
    pub fn posted(&self) -> usize {
        self.posted.len()
    }

    /// Messages that wait for their receive.
    #[must_use]
    pub fn unexpected(&self) -> usize {
        self.unexpected.len()
    }

    /// No completion is ready, and nothing waits for room or data: [`handle_ready`](Self::handle_ready) has nothing to
    /// do until something arrives.
    #[must_use]
    #[inline]
    pub fn is_settled(&self) -> bool {
        self.completions.is_empty() && self.outbox.is_empty() && self.rendezvous.is_settled()
    }

    /// [`poll_completion`](Self::poll_completion) has something.
    #[must_use]
    #[inline]
    pub fn has_completions(&self) -> bool {
        !self.completions.is_empty()
    }

    /// The next send or receive that has ended.
    #[inline]
    pub fn poll_completion(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }

    // ---- sends

    /// A message of `len` bytes to `peer` would go eagerly now.
    #[must_use]
    #[inline]
    pub fn is_eager(&mut self, messenger: &Messenger, peer: PeerId, len: u64) -> bool {
        if len > u64::from(self.eager_limit) || self.asks_first(messenger, peer, len) {
            return false;
        }
        let room = self.has_room(messenger, peer, len);
        self.stats.converted += u64::from(!room);
        room
    }

    /// A message of `len` bytes would go eagerly once the peer has announced its credit: it has not answered yet, and
    /// the initial credit is used up. (A peer to which nothing is in flight has nothing to answer.)
    #[must_use]
    #[inline]
    pub fn is_early(&self, messenger: &Messenger, peer: PeerId, len: u64) -> bool {
        let endpoint = messenger.layer();
        len <= u64::from(self.eager_limit)
            && !self.asks_first(messenger, peer, len)
            && !endpoint.is_up(peer)
            && !endpoint.is_idle(peer)
            && !self.has_room(messenger, peer, len)
    }

    /// Between processes of one host a question costs less than the copies of an eager message that no ring takes.
    #[inline(always)]
    fn asks_first(&self, messenger: &Messenger, peer: PeerId, len: u64) -> bool {
        match len > Arriving::LONGEST as u64 {
            true => messenger.layer().is_in_memory(peer),
            false => self.crosses(messenger, peer, len),
        }
    }

    /// The system copies messages of so many bytes to this peer.
    #[inline(always)]
    fn crosses(&self, messenger: &Messenger, peer: PeerId, len: u64) -> bool {
        let limits = self.rendezvous.cma_limits;
        limits.may_cross(len)
            && messenger
                .layer()
                .memory()
                .is_some_and(|memory| memory.crosses(peer) && (limits.crosses_anyway(len) || memory.is_far(peer)))
    }

    #[inline(always)]
    fn has_room(&self, messenger: &Messenger, peer: PeerId, len: u64) -> bool {
        let cost = len + u64::from(MESSAGE_COST);
        // The peer cannot keep a message that takes more than half of its bound.
        let cost = cost + cost.max(RESERVE);
        !self.outbox.holds_requests(peer) && messenger.layer().credit(peer) >= cost
    }

    /// Sends a copy of `data`; complete at once. [`is_eager`](Self::is_eager) said that it can be.
    ///
    /// # Errors
    /// See [`Messenger::send`]. After [`SendError::WouldBlock`] it can still go by [`send`](Self::send).
    #[inline]
    pub fn send_eager(
        &mut self,
        messenger: &mut Messenger,
        now: Instant,
        peer: PeerId,
        bits: u64,
        data: &[u8],
    ) -> Result<(), SendError> {
        if !self.lost.is_empty() {
            self.check_not_lost(messenger, peer)?;
        }
        let options = SendOptions {
            tag: Some(bits),
            ..SendOptions::default()
        };
        messenger.send(now, peer, &options, Payload::Copy(data))?;
        self.stats.eager += 1;
        Ok(())
    }

    /// Sends `content` by rendezvous: a [`Completion`] with `request` follows when the receiver has all that it wants.
    /// (So it is also how to send synchronously, whatever the length.)
    ///
    /// # Errors
    /// The peer is unknown, closed or lost.
    pub fn send(
        &mut self,
        messenger: &mut Messenger,
        now: Instant,
        peer: PeerId,
        bits: u64,
        content: Box<dyn Content>,
        request: u64,
    ) -> Result<(), SendError> {
        self.check_not_lost(messenger, peer)?;
        if let Some(error) = messenger.layer().down(peer) {
            return Err(SendError::Peer(peer, error));
        }
        let len = content.len();
        let id = self.rendezvous.begin_send(peer, bits, content, request);
        self.stats.rendezvous += 1;
        let offer = self.rendezvous.offer(messenger, id);
        self.request(messenger, now, peer, &Control::RequestToSend { id, bits, len, offer });
        Ok(())
    }

    /// Agreements with a lost peer do not hold for its new incarnation, which may have opened a session.
    fn check_not_lost(&self, messenger: &Messenger, peer: PeerId) -> Result<(), SendError> {
        let processor = messenger.layer().processor(peer);
        match processor.and_then(|processor| self.lost.get(&processor)) {
            Some(&error) => Err(SendError::Peer(peer, error)),
            None => Ok(()),
        }
    }

    /// Sends a copy of `data` to ourselves; complete at once.
    pub fn send_self(&mut self, bits: u64, data: &[u8]) {
        match self.posted.take(self.processor, matched(bits)) {
            Some(receive) => self.place(receive, self.processor, bits, data),
            None => {
                let own = Stored::Own(Bytes::copy_from_slice(data));
                self.keep(self.processor, bits, own);
            }
        }
    }

    /// Sends `content` to ourselves: a [`Completion`] with `request` follows when it is received.
    pub fn send_self_later(&mut self, bits: u64, content: Box<dyn Content>, request: u64) {
        match self.posted.take(self.processor, matched(bits)) {
            Some(receive) => self.receive_own(receive, bits, content, request),
            None => self.keep(self.processor, bits, Stored::OwnContent { content, request }),
        }
    }

    /// Sends a message for a handler of the layer above ([`ActiveMessages`]), in order with others to this peer.
    pub fn send_active(&mut self, messenger: &mut Messenger, now: Instant, peer: PeerId, handler: u32, data: &[u8]) {
        self.outbox.send(
            messenger,
            now,
            peer,
            &Control::Active { handler, data },
            &mut self.scratch,
        );
    }

    /// Something was said to a peer that sleeps: the caller transmits, which wakes it.
    #[cfg(feature = "mpi")]
    #[inline]
    pub(crate) fn take_wakes(&mut self) -> bool {
        self.outbox.take_wakes()
    }

    /// Active messages and grants to this peer that wait for credit.
    #[must_use]
    pub fn waiting(&self, peer: PeerId) -> usize {
        self.outbox.answers(peer)
    }

    fn request(&mut self, messenger: &mut Messenger, now: Instant, peer: PeerId, control: &Control<'_>) {
        self.outbox.request(messenger, now, peer, control, &mut self.scratch);
    }

    // ---- receives

    /// Receives into `buffer` the oldest message that `selector` takes, now or when it comes. Unless it is done at once,
    /// a [`Completion`] with `request` follows.
    #[inline]
    pub fn receive(
        &mut self,
        messenger: &mut Messenger,
        now: Instant,
        selector: Selector,
        buffer: B,
        request: u64,
    ) -> Posting {
        let receive = Receive { request, buffer };
        match self.unexpected.take(&selector) {
            None => Posting::Posted(Handle(self.posted.push(&selector, receive))),
            Some((source, bits, stored)) => self.receive_stored(messenger, now, source, bits, stored, receive),
        }
    }

    /// Whether a receive still waits for its message.
    #[must_use]
    pub fn is_posted(&self, handle: Handle) -> bool {
        self.posted.holds(handle.0)
    }

    /// Cancels a receive that still waits for its message. Gives its buffer; there is no [`Completion`].
    pub fn cancel(&mut self, handle: Handle) -> Option<B> {
        Some(self.posted.cancel(handle.0)?.buffer)
    }

    /// The oldest message that matches `selector`, if one is there.
    #[must_use]
    pub fn probe(&self, selector: &Selector) -> Option<Envelope> {
        let (source, bits, stored) = self.unexpected.peek(selector)?;
        let len = stored.len();
        Some(Envelope { source, bits, len })
    }

    /// Takes this message out of the queues, for [`receive_claimed`](Self::receive_claimed).
    pub fn claim(&mut self, selector: &Selector) -> Option<Claimed> {
        let (source, bits, stored) = self.unexpected.take(selector)?;
        let len = stored.len();
        let envelope = Envelope { source, bits, len };
        let stored = match stored {
            Stored::OwnContent { content, request } => {
                self.own_claimed.insert(request, content);
                Stored::OwnClaimed { len, request }
            }
            other => other,
        };
        Some(Claimed { envelope, stored })
    }

    /// Receives a claimed message into `buffer`. One of our own that was given up meanwhile never comes.
    pub fn receive_claimed(
        &mut self,
        messenger: &mut Messenger,
        now: Instant,
        claimed: Claimed,
        buffer: B,
        request: u64,
    ) -> Posting {
        let Envelope { source, bits, .. } = claimed.envelope;
        let receive = Receive { request, buffer };
        self.receive_stored(messenger, now, source, bits, claimed.stored, receive)
    }

    fn receive_stored(
        &mut self,
        messenger: &mut Messenger,
        now: Instant,
        source: u32,
        bits: u64,
        stored: Stored,
        receive: Receive<B>,
    ) -> Posting {
        self.stats.unexpected_bytes -= stored.kept();
        match stored {
            Stored::Eager(kept) => {
                self.place(receive, source, bits, &kept.data);
                messenger.release(&kept);
            }
            Stored::Own(data) => self.place(receive, source, bits, &data),
            Stored::OwnContent { content, request } => self.receive_own(receive, bits, content, request),
            Stored::OwnClaimed { request, .. } => {
                if let Some(content) = self.own_claimed.remove(&request) {
                    self.receive_own(receive, bits, content, request);
                }
            }
            Stored::Request { kept, id, len, offer } => {
                let peer = kept.peer;
                messenger.release(&kept);
                let envelope = Envelope { source, bits, len };
                let offer = offer.map(|offer| (offer, false));
                if !self.accept(messenger, now, (peer, id), envelope, offer, receive) {
                    return Posting::Matched;
                }
            }
        }
        match self.completions.pop_back() {
            Some(done) => Posting::Done(done),
            None => Posting::Matched,
        }
    }

    /// The payload of a message is here.
    #[inline]
    fn place(&mut self, receive: Receive<B>, source: u32, bits: u64, data: &[u8]) {
        let envelope = (source, bits, data.len());
        self.completions.push_back(place(receive, envelope, data));
    }

    /// Our own send meets our own receive.
    fn receive_own(&mut self, mut receive: Receive<B>, bits: u64, mut content: Box<dyn Content>, request: u64) {
        let len = content.len();
        let room = receive.buffer.capacity();
        let mut at = 0;
        while at < len.min(room) {
            let chunk = content.chunk(at, len.min(room) - at);
            if chunk.is_empty() {
                break;
            }
            receive.buffer.place(at, Span::new(&chunk));
            at += chunk.len() as u64;
        }
        let envelope = Envelope {
            source: self.processor,
            bits,
            len,
        };
        let done = |request, outcome| Completion {
            request,
            envelope,
            outcome,
        };
        let outcome = Outcome::of(len, room);
        self.completions.push_back(done(request, Outcome::Complete));
        self.completions.push_back(done(receive.request, outcome));
    }

    /// A receive has met a request to send: reads what it offers, or grants it a region. With an offer comes whether more
    /// messages wait. Returns whether the receive has ended; its completion is the last one then.
    fn accept(
        &mut self,
        messenger: &mut Messenger,
        now: Instant,
        (peer, id): (PeerId, u32),
        envelope: Envelope,
        offer: Option<(Exposure, bool)>,
        mut receive: Receive<B>,
    ) -> bool {
        let limit = envelope.len.min(receive.buffer.capacity());
        let request = receive.request;
        let (rendezvous, completions, mut answers) = self.rendezvous_at(now);
        let outcome = if let Some(error) = messenger.layer().down(peer) {
            Outcome::Failed(error)
        } else if limit == 0 {
            answers.say(messenger, peer, &Control::FollowUp { id, what: NOTHING });
            Outcome::of(envelope.len, limit)
        } else if let Some((offer, waits)) = offer
            && let Some(whole) = receive.buffer.whole()
            && let into = &mut whole[..limit as usize]
            && rendezvous.take_offer(messenger, (peer, id), offer, into, waits, &mut answers)
        {
            Outcome::of(envelope.len, limit)
        } else {
            let incoming = Incoming::new(peer, id, limit, envelope, request, Box::new(receive.buffer));
            rendezvous.incoming.push_back(incoming);
            rendezvous.grant(messenger, now, &mut answers);
            return false;
        };
        completions.push_back(Completion {
            request,
            envelope,
            outcome,
        });
        true
    }

    fn grant(&mut self, messenger: &mut Messenger, now: Instant) {
        let (rendezvous, _, mut answers) = self.rendezvous_at(now);
        rendezvous.grant(messenger, now, &mut answers);
    }

    fn keep(&mut self, source: u32, bits: u64, stored: Stored) {
        self.stats.unexpected += 1;
        self.stats.unexpected_bytes += stored.kept();
        self.stats.unexpected_peak = self.stats.unexpected_peak.max(self.stats.unexpected_bytes);
        self.unexpected.push(source, bits, stored);
    }

    // ---- what came in

    /// Handles the messages that the messenger has ready. Those of the layer above go to `handler`.
    pub fn handle_ready<A: ActiveMessages>(&mut self, messenger: &mut Messenger, now: Instant, handler: &mut A) {
        self.handle_ready_in_place(messenger, now, handler, &[]);
    }

    /// The same, also if a message [is in place](Messenger::is_in_place), at the end of `datagram`.
    pub fn handle_ready_in_place<A: ActiveMessages>(
        &mut self,
        messenger: &mut Messenger,
        now: Instant,
        handler: &mut A,
        datagram: &[u8],
    ) {
        self.handle_admitted(messenger, now, handler, datagram);
        while self.handle_short(messenger, now, handler) {
            self.handle_admitted(messenger, now, handler, &[]);
        }
        if !self.rendezvous.copies.is_empty() {
            self.copy(messenger, now);
        }
        while let Some(id) = messenger.poll_landed() {
            match self.rendezvous.landed(messenger, id) {
                Some(done) => self.completions.push_back(done),
                None => handler.landed(id),
            }
        }
        if !self.outbox.is_empty() || !self.rendezvous.is_settled() {
            self.retry(messenger, now);
        }
    }

    /// Handles the messages that have been admitted.
    fn handle_admitted<A: ActiveMessages>(
        &mut self,
        messenger: &mut Messenger,
        now: Instant,
        handler: &mut A,
        datagram: &[u8],
    ) {
        while let Some((message, processor)) = messenger.receive_from(datagram) {
            // Who is in another session than the first was lost before, though that may not have been told yet: nothing of
            // the old incarnation's receives is for the new one.
            if message.session > 1 || !self.lost.is_empty() && self.lost.contains_key(&message.source()) {
                continue;
            }
            let (peer, source) = (message.peer(), message.source());
            if processor != Some(source) && processor != Some(ANY_PROCESSOR) {
                // A peer speaks for its own processors only.
                self.stats.malformed += 1;
                continue;
            }
            if let Some(bits) = message.tag_if_any().filter(|bits| *bits != PROTOCOL) {
                self.handle_eager(message, bits);
                continue;
            }
            match Control::parse(&message) {
                Ok(Control::Active { handler: id, data }) => handler.handle(peer, source, id, data),
                Ok(Control::RequestToSend { id, bits, len, offer }) => {
                    let envelope = Envelope { source, bits, len };
                    match (self.posted.take(source, matched(bits)), message) {
                        (Some(receive), _) => {
                            let offer = offer.map(|offer| (offer, false));
                            self.accept(messenger, now, (peer, id), envelope, offer, receive);
                        }
                        (None, message) => self.keep_request(message, id, envelope, offer),
                    }
                }
                Ok(Control::FollowUp { id, what }) => self.follow_up(messenger, now, (peer, id), what),
                Err(_) => self.stats.malformed += 1,
            }
        }
    }

    /// Sender and receiver of a rendezvous go on.
    fn follow_up(&mut self, messenger: &mut Messenger, now: Instant, (peer, id): (PeerId, u32), what: FollowUp) {
        let mut is_valid = true;
        let (rendezvous, _, mut answers) = self.rendezvous_at(now);
        let done = match what {
            FollowUp::Grant(_) if rendezvous.take_withdrawn(peer, id) => {
                let what = FollowUp::Withdraw;
                answers.say(messenger, peer, &Control::FollowUp { id, what });
                None
            }
            FollowUp::Grant(grant) => rendezvous.granted(messenger, now, (peer, id), &grant, &mut answers),
            FollowUp::Withdraw => rendezvous.handle_withdrawn(messenger, peer, id),
            FollowUp::Read { range, from } => {
                is_valid = rendezvous.read(peer, id, range, from);
                None
            }
            FollowUp::Written { range } => {
                is_valid = messenger.note_written(peer, range.region, (range.offset, range.len));
                None
            }
            FollowUp::WasRead { .. } if rendezvous.take_withdrawn(peer, id) => None,
            FollowUp::WasRead { len } => rendezvous.was_read(messenger, now, (peer, id), len),
        };
        self.completions.extend(done);
        self.stats.malformed += u64::from(!is_valid);
    }

    /// Tells a receiver that a message it waits for is not sent any more.
    #[cold]
    fn withdraw(&mut self, messenger: &mut Messenger, now: Instant, peer: PeerId, id: u32) {
        let Self { outbox, scratch, .. } = self;
        let what = FollowUp::Withdraw;
        outbox.send(messenger, now, peer, &Control::FollowUp { id, what }, scratch);
    }

    /// Continues sends and grants that waited for room or data.
    fn retry(&mut self, messenger: &mut Messenger, now: Instant) {
        self.grant(messenger, now);
        if !self.outbox.is_empty() {
            self.outbox.retry(messenger, now);
        }
        let (rendezvous, completions, mut answers) = self.rendezvous_at(now);
        rendezvous.retry(messenger, now, completions, &mut answers);
    }

    /// Has the system copy a peer's bytes from `address` on, whatever the [limit](Self::set_cma_limit) for messages is. The
    /// peer keeps them until it is told that they have been read. Returns whether they were copied.
    #[cfg(feature = "mpi")]
    pub(crate) fn read_from(&mut self, messenger: &mut Messenger, peer: PeerId, address: u64, into: &mut [u8]) -> bool {
        let may = self.rendezvous.cma_limits.may_cross(u64::MAX);
        let cross = messenger.cross(peer).filter(|_| may);
        let is_read = cross.is_some_and(|cross| cross.read(None, address, into));
        self.rendezvous.copies.done += u64::from(is_read);
        is_read
    }

    /// Has the system copy what is due.
    fn copy(&mut self, messenger: &mut Messenger, now: Instant) {
        let (rendezvous, completions, mut answers) = self.rendezvous_at(now);
        rendezvous.copy(messenger, now, completions, &mut answers);
    }

    /// The rendezvous, where what ends goes, and what it answers at this time.
    fn rendezvous_at(&mut self, now: Instant) -> (&mut Rendezvous, &mut VecDeque<Completion>, Answers<'_>) {
        let answers = self.outbox.at(now, &mut self.scratch);
        (&mut self.rendezvous, &mut self.completions, answers)
    }

    #[inline]
    fn handle_eager(&mut self, message: Message<'_>, bits: u64) {
        let source = message.source();
        match self.posted.take(source, matched(bits)) {
            Some(receive) => self.place(receive, source, bits, &message),
            None => match message.keep() {
                Some(kept) => self.keep(source, bits, Stored::Eager(kept)),
                None => self.stats.malformed += 1,
            },
        }
    }

    /// Its memory is paid for by its credit, as that of other messages.
    fn keep_request(&mut self, message: Message<'_>, id: u32, envelope: Envelope, offer: Option<Exposure>) {
        let Envelope { source, bits, len } = envelope;
        match message.keep_credit() {
            Some(kept) => self.keep(source, bits, Stored::Request { kept, id, len, offer }),
            None => self.stats.malformed += 1,
        }
    }

    /// A placement has landed: [`Event::Sent`](crate::reliability::Event::Sent). Returns whether it was ours.
    pub fn handle_sent(&mut self, token: SendToken) -> bool {
        let Some(done) = self.rendezvous.sent(token) else {
            return false;
        };
        self.completions.extend(done);
        true
    }

    /// The peer is lost ([`Event::Down`](crate::reliability::Event::Down)): ends everything that is pending with it.
    /// Receives from any source stay; those that name it end. Its unreceived messages are dropped, unless it has said
    /// goodbye. Later messages from it are dropped.
    pub fn handle_down(&mut self, messenger: &mut Messenger, peer: PeerId, error: PeerError) {
        let processor = messenger.layer().processor(peer);
        self.outbox.forget(peer);
        self.rendezvous.fail(messenger, peer, error, &mut self.completions);
        let Some(processor) = processor else { return };
        let bits = |selector: &Selector| selector.source == Some(processor);
        self.end_posted(bits, Outcome::Failed(error));
        self.lost.entry(processor).or_insert(error);
        if error == PeerError::Closed {
            // It has sent all its messages.
            return;
        }
        let gone = self.unexpected.drain(|source, _| source == processor);
        self.drop_stored(messenger, gone, Outcome::Failed(error));
    }

    /// The peer, whose processor this is, begins nothing more: ends the receives that name it and the sends to it that it
    /// has not matched, if their match bits are among `which`. What is matched goes on, and what it has sent stays.
    pub fn end_unmatched(
        &mut self,
        messenger: &mut Messenger,
        (peer, processor): (PeerId, u32),
        which: impl Fn(u64) -> bool,
        error: PeerError,
    ) {
        let outcome = Outcome::Failed(error);
        self.end_posted(
            |selector| selector.source == Some(processor) && which(selector.bits),
            outcome,
        );
        self.rendezvous
            .end_ungranted(messenger, peer, which, outcome, &mut self.completions);
    }

    /// Requests to this peer wait for credit: active messages would overtake them.
    #[must_use]
    pub fn holds_requests(&self, peer: PeerId) -> bool {
        self.outbox.holds_requests(peer)
    }

    /// Ends every send and receive, and drops every unexpected message, that has these match bits (but for those in
    /// `ignore`). Receives elsewhere that such a send was requested for end, too.
    pub fn revoke(&mut self, messenger: &mut Messenger, now: Instant, bits: u64, ignore: u64) {
        for (peer, id, granted) in self.end_bits(messenger, bits, ignore) {
            if granted {
                self.withdraw(messenger, now, peer, id);
            } else {
                self.rendezvous.withdraw_later(peer, id);
            }
        }
    }

    /// The same here alone: the others have their own reasons to end theirs.
    pub fn give_up(&mut self, messenger: &mut Messenger, bits: u64) {
        self.end_bits(messenger, bits, 0);
    }

    /// Gives the sends that were not all sent, and whether something was granted to them.
    fn end_bits(&mut self, messenger: &mut Messenger, bits: u64, ignore: u64) -> Vec<(PeerId, u32, bool)> {
        let same = |other: u64| (matched(other) ^ bits) & !ignore == 0;
        self.end_posted(
            |selector| same(selector.bits & !selector.ignore | bits & selector.ignore),
            Outcome::Revoked,
        );
        let gone = self.unexpected.drain(|_, other| same(other));
        self.drop_stored(messenger, gone, Outcome::Revoked);
        self.rendezvous.revoke(messenger, same, &mut self.completions)
    }

    fn end_posted(&mut self, which: impl FnMut(&Selector) -> bool, outcome: Outcome) {
        for receive in self.posted.drain(which) {
            self.completions.push_back(Completion {
                request: receive.request,
                envelope: Envelope::default(),
                outcome,
            });
        }
    }

    fn drop_stored(&mut self, messenger: &mut Messenger, gone: Vec<Stored>, outcome: Outcome) {
        for stored in gone {
            self.stats.unexpected_bytes -= stored.kept();
            match stored {
                Stored::Eager(kept) | Stored::Request { kept, .. } => messenger.release(&kept),
                Stored::OwnContent { request, .. } | Stored::OwnClaimed { request, .. } => {
                    self.completions.push_back(Completion {
                        request,
                        envelope: Envelope::default(),
                        outcome,
                    })
                }
                Stored::Own(_) => {}
            }
        }
    }
}

/// The payload of a message of `len` bytes goes to its receive: `data`, or nothing, if it is there already.
#[inline(always)]
fn place<B: MemoryRegion>(mut receive: Receive<B>, (source, bits, len): (u32, u64, usize), data: &[u8]) -> Completion {
    let len = len as u64;
    let room = receive.buffer.capacity();
    let fits = data.len().min(room as usize);
    if fits > 0 {
        receive.buffer.place(0, Span::new(&data[..fits]));
    }
    Completion {
        request: receive.request,
        envelope: Envelope { source, bits, len },
        outcome: Outcome::of(len, room),
    }
}
