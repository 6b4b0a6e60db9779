//! Messages between processors: numbered per ordered pair, admitted in that order, put together where they land.
//!
//! A [`Messenger`] is an [`Endpoint`](crate::reliability::Endpoint) or another [packet layer](crate::reliability::PacketLayer), together with the order
//! of messages, which that layer knows nothing of: it delivers packets exactly once but in any order. Like the
//! endpoint it does no IO and reads no clock; it is driven in the same way ([`crate`] shows the loop), and has one more
//! thing to give: [`Messenger::receive`].
//!
//! # Order
//!
//! Messages from one processor to another are received in the order in which they were sent; between different pairs
//! of processors there is no order. Numbers start at 0 in each session.
//!
//! # Memory
//!
//! - A packet that holds whole messages which are next in order is copied once, to where the application reads it; or
//!   not at all, if there is only one and the caller that hands it in keeps it until it is taken.
//!   Fragments are copied once, to their place in the message, in any order. Buffers are used again.
//! - What a peer has sent and the application has not taken holds *credit*
//!   ([`Config::unexpected_bytes`](crate::Config::unexpected_bytes)); it is given back when the memory is free again.
//! - A message too large for that credit gets it back as it lands, once it is the oldest of its pair. So the memory
//!   that a peer can fill is that credit and one message of
//!   [`Config::max_message`](crate::Config::max_message).

mod arena;
#[cfg(feature = "std")]
mod aside;
mod assembly;
mod coverage;
mod inbox;
mod memory_region;
mod message;
mod pair;
mod ready;
mod ring;
mod short;
mod staged;
pub mod tagged;
#[cfg(test)]
mod tests;

use alloc::{boxed::Box, vec::Vec};
use core::{fmt, net::SocketAddr};

use bytes::Bytes;

#[cfg(feature = "std")]
pub(crate) use self::aside::Aside;
use self::{inbox::Inbox, message::Kept, pair::Numbers, staged::Staged};
pub use self::{
    memory_region::{Access, MemoryRegion, RegionId},
    message::Message,
};
use crate::{
    error::{AddPeerError, AddRailError, SendError},
    prefetch::Locate,
    reliability::{
        Burst, CrossMemory, Event, Inline, Layer, Limits, LostMessages, Outgoing, Path, Payload, PeerId, Route,
        SendToken, Target,
    },
    span::Span,
    time::Instant,
    wire::Seq,
};

/// How a message is to be sent; [`SendOptions::default`] is right for most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendOptions {
    /// Processor that sends; default: our first one.
    pub source: Option<u32>,
    /// Processor that is meant; default: the peer's.
    pub destination: Option<u32>,
    /// Channel (flow): messages on different channels do not wait for each other on the way, but are received in
    /// order all the same.
    pub channel: u8,
    /// Tag to carry (match bits).
    pub tag: Option<u64>,
    /// Immediate data to carry.
    pub immediate: Option<u64>,
    /// More messages follow at once, so the driver need not transmit yet. It makes no difference to the message.
    pub more: bool,
}

/// Messages in order, over a packet layer. See the module's documentation.
pub struct Messenger {
    layer: Layer,
    inbox: Inbox,
    numbers: Numbers,
    seed: u64,
    /// When the layer above wants to be called again.
    alarm: Option<Instant>,
    staged: Staged,
}

impl fmt::Debug for Messenger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Messenger")
            .field("processor", &self.inbox.processor())
            .field("ready", &self.ready())
            .finish_non_exhaustive()
    }
}

/// Getters.
impl Messenger {
    /// Messages for `processors` over `layer`: an [`Endpoint`](crate::reliability::Endpoint), or any other packet layer.
    /// The first processor is the source of messages that name no other; if the list is empty, that is processor 0.
    #[must_use]
    pub fn new(layer: impl Into<Layer>, processors: &[u32]) -> Self {
        let mut layer = layer.into();
        let inbox = Inbox::new(layer.config(), processors);
        layer.set_processor(inbox.processor());
        Self {
            layer,
            inbox,
            numbers: Numbers::default(),
            seed: 0,
            alarm: None,
            staged: Staged::default(),
        }
    }

    /// The packet layer below, for its getters.
    #[must_use]
    #[inline]
    pub fn layer(&self) -> &Layer {
        &self.layer
    }

    /// Number of our first processor.
    #[must_use]
    pub fn processor(&self) -> u32 {
        self.inbox.processor()
    }

    /// Messages that [`receive`](Self::receive) would give now, and regions that
    /// [`poll_landed`](Self::poll_landed) would.
    #[must_use]
    #[inline]
    pub fn ready(&self) -> usize {
        self.inbox.messages() + self.inbox.regions.has_landed() + usize::from(self.has_next_short())
    }
}

/// The message numbers to and from a peer.
impl Locate<PeerId> for Messenger {
    #[inline]
    fn locate(&self, peer: PeerId, mut tell: impl FnMut(*const u8, usize)) {
        self.numbers.locate(peer, &mut tell);
        self.inbox.locate(peer, tell);
    }
}

/// Commands.
impl Messenger {
    /// Adds the peer at `address`, whose processor has the number `processor`
    /// ([`ANY_PROCESSOR`](crate::wire::ANY_PROCESSOR) if that is not known).
    ///
    /// # Errors
    /// There are too many, or one with this address exists.
    pub fn add_peer(&mut self, address: SocketAddr, processor: u32) -> Result<PeerId, AddPeerError> {
        self.layer.add_peer(address, processor)
    }

    /// Adds a rail to a peer: see [`Endpoint::add_rail`](crate::reliability::Endpoint::add_rail).
    ///
    /// # Errors
    /// There is no such peer, it has this path already, or it can have no more.
    pub fn add_rail(&mut self, now: Instant, peer: PeerId, path: impl Into<Path>) -> Result<u8, AddRailError> {
        self.layer.add_rail(now, peer, path.into())
    }

    /// The first rail to a peer leaves by this port of the backend, instead of the first.
    #[cfg(feature = "mpi")]
    pub(crate) fn leave_by(&mut self, peer: PeerId, port: u8) {
        self.layer.leave_by(peer, port);
    }

    /// Adds the peer of a process that has begun at this address after the one of any other peer there has ended, which
    /// is closed. (Only layers that are an [`Endpoint`](crate::reliability::Endpoint), or have one, can do that.)
    ///
    /// # Errors
    /// As [`add_peer`](Self::add_peer).
    #[cfg(feature = "mpi")]
    pub(crate) fn replace_peer(&mut self, address: SocketAddr, processor: u32) -> Result<PeerId, AddPeerError> {
        self.layer.replace_peer(address, processor)
    }

    /// Queues a message; nothing is transmitted before the next [`poll_transmit`](Self::poll_transmit). The token
    /// names a message by reference ([`Payload::Shared`]) until its [`Event::Sent`].
    ///
    /// # Errors
    /// Nothing of the message was taken, and no message number used up.
    #[inline]
    pub fn send(
        &mut self,
        now: Instant,
        peer: PeerId,
        options: &SendOptions,
        payload: Payload<'_>,
    ) -> Result<Option<SendToken>, SendError> {
        self.finish();
        let (message, number) = number(&self.layer, &self.inbox, &mut self.numbers, peer, options)?;
        let token = self.layer.send(now, peer, options.channel, &message, payload)?;
        *number = number.plus(1);
        Ok(token)
    }

    /// Fills `burst` with the packet of a small message if nothing is before it on its channel. The caller transmits the
    /// burst and calls [`finish_inline`](Self::finish_inline). `None`: nothing was done; [`send`](Self::send) takes the
    /// message, or says why not. See [`Endpoint::begin_inline`](crate::reliability::Endpoint::begin_inline).
    #[inline]
    pub fn begin_inline(
        &mut self,
        now: Instant,
        peer: PeerId,
        options: &SendOptions,
        data: &[u8],
        burst: &mut Burst,
    ) -> Option<Inline> {
        // A lent message is retired later, when no latency depends on it.
        let (message, number) = number(&self.layer, &self.inbox, &mut self.numbers, peer, options).ok()?;
        let inline = self
            .layer
            .begin_inline(now, peer, options.channel, &message, data, burst)?;
        *number = number.plus(1);
        Some(inline)
    }

    /// Keeps the message of [`begin_inline`](Self::begin_inline) until it is acknowledged.
    #[inline]
    pub fn finish_inline(&mut self, inline: &Inline, data: &[u8], burst: &mut Burst) {
        self.layer.finish_inline(inline, data, burst);
    }

    /// The next message, in order of admission. It is lent until the next call of a method of `&mut self`, which
    /// frees its memory and gives its credit back.
    #[inline]
    pub fn receive(&mut self) -> Option<Message<'_>> {
        self.finish();
        if self.is_in_place() {
            return None;
        }
        if self.inbox.messages() == 0 && self.find_short() {
            match self.take_short() {
                Some(taken) => return Some(self.staged.lend(taken)),
                None => self.deliver_all_short(),
            }
        }
        self.inbox.take(&[])
    }

    /// The same, with the processor that its peer was added with, also if a message [is in place](Self::is_in_place), at
    /// the end of `datagram`.
    #[inline]
    fn receive_from<'a>(&'a mut self, datagram: &'a [u8]) -> Option<(Message<'a>, Option<u32>)> {
        self.finish();
        if datagram.is_empty() && self.is_in_place() {
            return None;
        }
        let message = self.inbox.take(datagram)?;
        let processor = self.layer.processor(message.peer());
        Some((message, processor))
    }

    /// The same, also if a message [is in place](Self::is_in_place), at the end of `datagram`.
    #[inline]
    pub fn receive_in_place<'a>(&'a mut self, datagram: &'a [u8]) -> Option<Message<'a>> {
        self.finish();
        self.inbox.take(datagram)
    }

    /// Registers memory that a peer, or every peer, may write to. `None`: there are too many regions (2^20).
    ///
    /// [`poll_landed`](Self::poll_landed) reports the regions that are complete; a region lasts until it is deregistered.
    pub fn register(&mut self, access: Access, memory: Box<dyn MemoryRegion>) -> Option<RegionId> {
        self.inbox.regions.register(access, memory)
    }

    /// [`register`](Self::register) would give one.
    fn has_regions(&self) -> bool {
        self.inbox.regions.has_room()
    }

    /// Ends a region and returns its memory. Placements that arrive for it later are dropped and counted.
    pub fn deregister(&mut self, id: RegionId) -> Option<Box<dyn MemoryRegion>> {
        self.inbox.regions.deregister(id)
    }

    /// Allows writes to a region of [`Access::Once`] only before `until`; without this call, to all of it. A peer that
    /// writes elsewhere, or twice to the same place, is given up
    /// ([`PeerError::Misbehaved`](crate::PeerError::Misbehaved)).
    pub fn allow(&mut self, id: RegionId, until: u64) {
        self.inbox.regions.allow(id, until);
    }

    /// Sets the secret `seed` from which the keys of regions are derived, and those of hash tables whose entries peers
    /// choose ([`tagged::Tagged`] made after this). Without one they are the same in each run.
    pub fn seed_keys(&mut self, seed: u64) {
        self.seed = seed;
        self.inbox.regions.seed(seed);
    }

    /// Bytes that have landed so far in a region of [`Access::Once`].
    pub fn landed(&mut self, id: RegionId) -> u64 {
        self.inbox.regions.progress(id)
    }

    /// A region of [`Access::Once`] in which all bytes have landed.
    #[inline]
    pub fn poll_landed(&mut self) -> Option<RegionId> {
        self.inbox.regions.poll_landed()
    }

    /// Packets for regions that were not there (any more), or from peers that may not write to them.
    #[must_use]
    pub fn unmatched_placements(&self) -> u64 {
        self.inbox.regions.unmatched_placements()
    }

    /// Places bytes at `offset` of a region of the peer, on `channel`. They take no credit and have no order;
    /// [`Event::Sent`] reports that they have landed.
    ///
    /// # Errors
    /// Nothing was taken: the queue is full, there are more than 2^32 − 1 bytes, or the peer is gone.
    pub fn place(
        &mut self,
        now: Instant,
        peer: PeerId,
        channel: u8,
        to: RegionId,
        offset: u64,
        data: Bytes,
    ) -> Result<SendToken, SendError> {
        self.finish();
        let Some(processor) = self.layer.processor(peer) else {
            return Err(SendError::UnknownPeer(peer));
        };
        let target = Target {
            source: self.inbox.processor(),
            destination: processor,
            region: to.region,
            key: to.key,
            offset,
        };
        self.layer.place(now, peer, channel, &target, data)
    }

    /// What copies straight between the memory of a peer and that of this process, if it can.
    pub(crate) fn cross(&mut self, peer: PeerId) -> Option<&mut dyn CrossMemory> {
        self.layer.memory_mut()?.cross(peer)
    }

    /// Returns whether something for a peer in memory waits to be transmitted.
    fn has_queued(&self, peer: PeerId) -> bool {
        self.layer.memory().is_some_and(|memory| memory.has_queued(peer))
    }

    /// Memory of this process that a peer may read or write is used otherwise from now on.
    fn withdraw(&mut self, peer: PeerId) {
        if let Some(memory) = self.layer.memory_mut() {
            memory.withdraw(peer);
        }
    }

    /// Copies the peer's bytes from `address` on to a range of a region. Returns whether it did.
    fn pull(&mut self, peer: PeerId, id: RegionId, range: (u64, u64), (address, permission): (u64, u32)) -> bool {
        let Self { layer, inbox, .. } = self;
        let Some(cross) = layer.memory_mut().and_then(|memory| memory.cross(peer)) else {
            return false;
        };
        inbox
            .regions
            .fill(peer, id, range, |into| cross.read(Some(permission), address, into))
    }

    /// The peer says that it has written a range of a region. `false`: it may not. (The region may have ended.)
    fn note_written(&mut self, peer: PeerId, id: RegionId, range: (u64, u64)) -> bool {
        let regions = &mut self.inbox.regions;
        !regions.has(id) || regions.fill(peer, id, range, |_| true)
    }

    /// No peer may read or write memory of this process any more.
    #[cfg(feature = "mpi")]
    pub(crate) fn withdraw_all(&mut self) {
        if let Some(memory) = self.layer.memory_mut() {
            memory.withdraw_all();
        }
    }

    /// Gives back the credit of a message that was kept.
    fn release(&mut self, kept: &Kept) {
        self.inbox.release(kept.peer, kept.session, kept.cost);
        self.apply_releases();
    }

    /// Asks for acknowledgement of everything outstanding, at once.
    pub fn request_acks(&mut self, now: Instant) {
        self.layer.request_acks(now);
    }

    /// See [`Endpoint::connect`](crate::reliability::Endpoint::connect).
    pub fn connect(&mut self, now: Instant, peer: PeerId) {
        self.layer.connect(now, peer);
    }

    /// Watches a peer though nothing is sent to it: its silence ends the session.
    pub fn watch(&mut self, now: Instant, peer: PeerId, on: bool) {
        self.layer.watch(now, peer, on);
    }

    /// Says goodbye to a peer once its queue is drained. [`Event::Down`] reports the end.
    pub fn close(&mut self, now: Instant, peer: PeerId) {
        // (Those that were told to be ready can still be received.)
        self.deliver_all_short();
        self.finish();
        self.layer.close(now, peer);
    }

    /// Tries a peer that is down again, with a new session.
    pub fn reconnect(&mut self, peer: PeerId) {
        self.layer.reconnect(peer);
    }

    /// See [`Endpoint::take_lost`](crate::reliability::Endpoint::take_lost).
    pub fn take_lost(&mut self, peer: PeerId) -> Vec<LostMessages> {
        self.layer.take_lost(peer)
    }

    /// The backend can do something else now.
    pub fn set_limits(&mut self, limits: Limits) {
        self.layer.set_limits(limits);
    }

    /// A port of the backend takes datagrams of that size at most, bytes: see
    /// [`Endpoint::limit_port`](crate::reliability::Endpoint::limit_port).
    pub fn limit_port(&mut self, port: u8, max_datagram: usize) {
        self.layer.limit_port(port, max_datagram);
    }

    /// A port of the backend is full, or is not any more: see
    /// [`Endpoint::hold_port`](crate::reliability::Endpoint::hold_port).
    pub fn hold_port(&mut self, port: u8, is_full: bool) {
        self.layer.hold_port(port, is_full);
    }
}

/// Input.
impl Messenger {
    /// Handles datagrams of `stride` bytes each (the last may be shorter) that came by one path; an address stands for
    /// the path by port 0.
    #[inline]
    pub fn handle_datagrams(&mut self, now: Instant, path: impl Into<Path>, data: &mut [u8], stride: usize) {
        self.finish();
        self.layer
            .handle_datagrams(now, path.into(), data, stride, &mut self.inbox);
        self.apply_releases();
    }

    /// Handles one datagram, or one record of a link, from memory where another process may be writing: no byte is read
    /// twice.
    #[inline]
    pub fn handle_shared(&mut self, now: Instant, source: SocketAddr, data: Span<'_>) {
        self.finish();
        self.layer.handle_shared(now, source, data, &mut self.inbox);
        self.apply_releases();
    }

    /// Like [`handle_datagrams`](Self::handle_datagrams), but a single message that becomes ready may stay where it is:
    /// see [`is_in_place`](Self::is_in_place).
    #[inline]
    pub fn handle_datagrams_in_place(&mut self, now: Instant, path: impl Into<Path>, data: &mut [u8], stride: usize) {
        self.inbox.lend(data.len() <= stride);
        self.handle_datagrams(now, path, data, stride);
        self.inbox.lend(false);
    }

    /// A message is ready that was not copied: it is at the end of the datagram that was handed in last. It must be
    /// [received](Self::receive_in_place) or [copied](Self::copy_out) before the datagram's memory is reused and before
    /// other datagrams are handed in; [`receive`](Self::receive) does not return it.
    #[must_use]
    #[inline]
    pub fn is_in_place(&self) -> bool {
        self.inbox.is_in_place()
    }

    /// Copies the message that is in place, at the end of `datagram`.
    pub fn copy_out(&mut self, datagram: &[u8]) {
        self.inbox.copy_out(datagram);
    }

    /// The layer that takes messages wants its turn then, whether some come or not.
    pub(crate) fn wake_at(&mut self, at: Instant) {
        self.alarm = Some(self.alarm.map_or(at, |alarm| alarm.min(at)));
    }

    /// The time of [`poll_timeout`](Self::poll_timeout) has come.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.finish();
        self.alarm = self.alarm.filter(|alarm| *alarm > now);
        self.layer.handle_timeout(now);
        self.layer.deliver_waiting(now, &mut self.inbox);
        self.apply_releases();
    }

    /// See [`Endpoint::handle_unreachable`](crate::reliability::Endpoint::handle_unreachable).
    pub fn handle_unreachable(&mut self, now: Instant, address: SocketAddr, quoted: &[u8]) {
        // (What a peer sent before it ended may lie in its ring.)
        self.deliver_all_short();
        self.layer.handle_unreachable(now, address, quoted);
    }

    /// The backend has released the memory of the burst with this token.
    pub fn handle_released(&mut self, token: u64) {
        self.layer.handle_released(token);
    }
}

/// Output: poll transmits until `false`, then the time-out, then events until `None`.
impl Messenger {
    /// Fills `burst` with something to transmit, if there is anything.
    #[inline]
    pub fn poll_transmit(&mut self, now: Instant, burst: &mut Burst) -> bool {
        self.finish();
        self.layer.poll_transmit(now, burst)
    }

    /// The bytes of a burst in order, as slices. Call it before any other method of `&mut self`.
    #[inline]
    pub fn gather<'a>(&'a self, burst: &'a Burst, each: impl FnMut(&'a [u8])) {
        self.layer.gather(burst, each);
    }

    /// When to call [`handle_timeout`](Self::handle_timeout).
    #[must_use]
    #[inline]
    pub fn poll_timeout(&self) -> Option<Instant> {
        match (self.layer.poll_timeout(), self.alarm) {
            (deadline, None) => deadline,
            (None, alarm) => alarm,
            (Some(deadline), Some(alarm)) => Some(deadline.min(alarm)),
        }
    }

    /// [`poll_event`](Self::poll_event) may give something.
    #[must_use]
    #[inline]
    pub fn has_events(&self) -> bool {
        self.layer.has_events()
    }

    /// The next event.
    #[inline]
    pub fn poll_event(&mut self) -> Option<Event> {
        let event = self.layer.poll_event()?;
        if let Event::Down { peer, session, .. } = event {
            self.inbox.end(peer, session);
            self.apply_releases();
        }
        Some(event)
    }
}

impl Messenger {
    /// Retires the message that is lent, if any.
    #[inline(always)]
    fn finish(&mut self) {
        if self.inbox.is_lent() {
            self.retire();
        }
    }

    fn retire(&mut self) {
        if let Some((peer, session, cost)) = self.inbox.retire() {
            self.layer.release(peer, session, cost);
        }
        self.apply_releases();
    }

    #[inline(always)]
    fn apply_releases(&mut self) {
        if self.inbox.has_releases() {
            self.release_more();
        }
    }

    #[cold]
    fn release_more(&mut self) {
        for (peer, session, cost) in self.inbox.releases() {
            self.layer.release(peer, session, cost);
        }
    }
}

/// A message as it goes to the packet layer, and its pair's next number, which is its own until it is taken.
#[inline(always)]
fn number<'a>(
    layer: &Layer,
    inbox: &Inbox,
    numbers: &'a mut Numbers,
    peer: PeerId,
    options: &SendOptions,
) -> Result<(Outgoing, &'a mut Seq), SendError> {
    let Some(Route { processor, session }) = layer.route(peer) else {
        return Err(SendError::UnknownPeer(peer));
    };
    let source = options.source.unwrap_or_else(|| inbox.processor());
    let destination = options.destination.unwrap_or(processor);
    let usual = source == inbox.processor() && destination == processor;
    let other = if usual { None } else { Some((source, destination)) };
    let Some(number) = numbers.next(peer, session, other) else {
        return Err(SendError::TooManyPairs {
            peer,
            max: pair::MAX_PAIRS as u32,
        });
    };
    let message = Outgoing {
        source,
        destination,
        message: *number,
        match_bits: options.tag,
        immediate: options.immediate,
    };
    Ok((message, number))
}
