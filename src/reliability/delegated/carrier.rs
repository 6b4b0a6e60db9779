//! What carries the packets of a messenger.

use alloc::{boxed::Box, vec::Vec};
use core::net::SocketAddr;

use bytes::Bytes;

use super::{Remote, Split};
use crate::{
    config::Config,
    error::{AddPeerError, PeerError, SendError},
    id::{PeerId, SendToken},
    reliability::{Burst, Endpoint, Event, Limits, LostMessages, Outgoing, Payload, Sink, Target},
    span::Span,
    stats::{PeerStats, Stats},
    time::Instant,
};

/// An endpoint, here or in another process, or one in each. Its methods are those of [`Endpoint`], where they are described.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one, and it lives as long as its messenger"
)]
pub enum Carrier {
    /// In this process.
    Here(Endpoint),
    /// In a process that runs the protocol for us.
    There(Box<Remote>),
    /// There for messages, here for placements.
    Both(Box<Split>),
}

impl From<Endpoint> for Carrier {
    fn from(endpoint: Endpoint) -> Self {
        Self::Here(endpoint)
    }
}

impl From<Remote> for Carrier {
    fn from(remote: Remote) -> Self {
        Self::There(Box::new(remote))
    }
}

impl From<Split> for Carrier {
    fn from(split: Split) -> Self {
        Self::Both(Box::new(split))
    }
}

/// The same call, whichever it is.
macro_rules! each {
    ($carrier:expr, $it:ident => $call:expr) => {
        match $carrier {
            Carrier::Here($it) => $call,
            Carrier::There($it) => $call,
            Carrier::Both($it) => $call,
        }
    };
}

/// Getters.
impl Carrier {
    /// The endpoint, if it is in this process; of both, the one that places.
    #[must_use]
    pub fn here(&self) -> Option<&Endpoint> {
        match self {
            Self::Here(endpoint) => Some(endpoint),
            Self::There(_) => None,
            Self::Both(split) => Some(split.bulk()),
        }
    }

    /// The settings.
    #[must_use]
    #[inline]
    pub fn config(&self) -> &Config {
        each!(self, it => it.config())
    }

    /// Counters since the start. Those of a remote one are its own: what it has been handed and has handed on.
    #[must_use]
    #[inline]
    pub fn stats(&self) -> Stats {
        each!(self, it => it.stats())
    }

    /// A peer has answered in this session.
    #[must_use]
    #[inline]
    pub fn is_up(&self, peer: PeerId) -> bool {
        each!(self, it => it.is_up(peer))
    }

    /// State of a peer; of a remote one only what is known here.
    #[must_use]
    #[inline]
    pub fn peer_stats(&self, peer: PeerId) -> Option<PeerStats> {
        each!(self, it => it.peer_stats(peer))
    }

    /// Where a peer is.
    #[must_use]
    #[inline]
    pub fn address(&self, peer: PeerId) -> Option<SocketAddr> {
        each!(self, it => it.address(peer))
    }

    /// The processor number of a peer.
    #[must_use]
    #[inline]
    pub fn processor(&self, peer: PeerId) -> Option<u32> {
        each!(self, it => it.processor(peer))
    }

    /// Peers, whatever their state.
    #[must_use]
    #[inline]
    pub fn peers(&self) -> usize {
        each!(self, it => it.peers())
    }

    /// Number of the session with a peer that runs, or would be the next.
    #[must_use]
    #[inline]
    pub fn session(&self, peer: PeerId) -> u32 {
        each!(self, it => it.session(peer))
    }

    /// Why this peer is down; `None` if it is not.
    #[must_use]
    #[inline]
    pub fn down(&self, peer: PeerId) -> Option<PeerError> {
        each!(self, it => it.down(peer))
    }

    /// Nothing is queued for or unacknowledged by this peer. What a remote one has not told since acknowledgements were last
    /// asked for counts as unacknowledged.
    #[must_use]
    #[inline]
    pub fn is_idle(&self, peer: PeerId) -> bool {
        each!(self, it => it.is_idle(peer))
    }

    /// The same of all peers.
    #[must_use]
    #[inline]
    pub fn all_idle(&self) -> bool {
        each!(self, it => it.all_idle())
    }

    /// Worth transmitting at once.
    #[must_use]
    #[inline]
    pub fn should_transmit(&self, peer: PeerId, channel: u8) -> bool {
        each!(self, it => it.should_transmit(peer, channel))
    }

    /// Nothing is in flight to this peer on this channel.
    #[must_use]
    #[inline]
    pub fn is_quiet(&self, peer: PeerId, channel: u8) -> bool {
        each!(self, it => it.is_quiet(peer, channel))
    }

    /// A full batch waits for this peer on this channel.
    #[must_use]
    #[inline]
    pub fn has_batch(&self, peer: PeerId, channel: u8) -> bool {
        each!(self, it => it.has_batch(peer, channel))
    }

    /// Credit that messages to this peer may still cost.
    #[must_use]
    #[inline]
    pub fn credit(&self, peer: PeerId) -> u64 {
        each!(self, it => it.credit(peer))
    }

    /// When time must be handled again.
    #[must_use]
    #[inline]
    pub fn poll_timeout(&self) -> Option<Instant> {
        each!(self, it => it.poll_timeout())
    }

    /// The octets of a burst in order.
    #[inline]
    pub(crate) fn gather<'a>(&'a self, burst: &'a Burst, each: impl FnMut(&'a [u8])) {
        each!(self, it => it.gather(burst, each))
    }
}

/// Commands, what comes in and what goes out.
impl Carrier {
    #[inline]
    pub(crate) fn set_processor(&mut self, processor: u32) {
        each!(self, it => it.set_processor(processor))
    }

    #[inline]
    pub(crate) fn add_peer(&mut self, address: SocketAddr, processor: u32) -> Result<PeerId, AddPeerError> {
        each!(self, it => it.add_peer(address, processor))
    }

    #[inline]
    pub(crate) fn send(
        &mut self,
        now: Instant,
        peer: PeerId,
        channel: u8,
        message: &Outgoing,
        payload: Payload<'_>,
    ) -> Result<Option<SendToken>, SendError> {
        each!(self, it => it.send(now, peer, channel, message, payload))
    }

    #[inline]
    #[expect(clippy::too_many_arguments, reason = "those of the endpoint's")]
    pub(crate) fn send_alone(
        &mut self,
        now: Instant,
        peer: PeerId,
        channel: u8,
        message: &Outgoing,
        data: &[u8],
        burst: &mut Burst,
        transmit: impl FnOnce(&mut Burst, &[u8]),
    ) -> bool {
        match self {
            Self::Here(endpoint) => endpoint.send_alone(now, peer, channel, message, data, burst, transmit),
            Self::There(_) | Self::Both(_) => false,
        }
    }

    #[inline]
    pub(crate) fn place(
        &mut self,
        now: Instant,
        peer: PeerId,
        channel: u8,
        target: &Target,
        data: Bytes,
    ) -> Result<SendToken, SendError> {
        each!(self, it => it.place(now, peer, channel, target, data))
    }

    #[inline]
    pub(crate) fn release(&mut self, peer: PeerId, session: u32, cost: u32) {
        each!(self, it => it.release(peer, session, cost))
    }

    #[inline]
    pub(crate) fn request_acks(&mut self, now: Instant) {
        each!(self, it => it.request_acks(now))
    }

    #[inline]
    pub(crate) fn watch(&mut self, now: Instant, peer: PeerId, on: bool) {
        each!(self, it => it.watch(now, peer, on))
    }

    #[inline]
    pub(crate) fn connect(&mut self, now: Instant, peer: PeerId) {
        each!(self, it => it.connect(now, peer))
    }

    #[inline]
    pub(crate) fn close(&mut self, now: Instant, peer: PeerId) {
        each!(self, it => it.close(now, peer))
    }

    #[inline]
    pub(crate) fn take_lost(&mut self, peer: PeerId) -> Vec<LostMessages> {
        match self {
            Self::Here(endpoint) => endpoint.take_lost(peer),
            // The process that has the endpoint does not tell.
            Self::There(_) | Self::Both(_) => Vec::new(),
        }
    }

    #[inline]
    pub(crate) fn reconnect(&mut self, peer: PeerId) {
        each!(self, it => it.reconnect(peer))
    }

    #[inline]
    pub(crate) fn set_limits(&mut self, limits: Limits) {
        each!(self, it => it.set_limits(limits))
    }

    #[inline]
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        each!(self, it => it.handle_timeout(now))
    }

    #[inline]
    pub(crate) fn handle_unreachable(&mut self, now: Instant, address: SocketAddr, quoted: &[u8]) {
        each!(self, it => it.handle_unreachable(now, address, quoted))
    }

    #[inline]
    pub(crate) fn handle_released(&mut self, token: u64) {
        each!(self, it => it.handle_released(token))
    }

    /// [`poll_event`](Self::poll_event) may give something.
    #[inline]
    pub(crate) fn has_events(&self) -> bool {
        match self {
            Self::Here(endpoint) => endpoint.has_events(),
            Self::There(_) | Self::Both(_) => true,
        }
    }

    #[inline]
    pub(crate) fn poll_transmit(&mut self, now: Instant, burst: &mut Burst) -> bool {
        each!(self, it => it.poll_transmit(now, burst))
    }

    #[inline]
    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        each!(self, it => it.poll_event())
    }

    #[inline]
    pub(crate) fn handle_datagrams<S: Sink>(
        &mut self,
        now: Instant,
        source: SocketAddr,
        data: &mut [u8],
        stride: usize,
        sink: &mut S,
    ) {
        match self {
            Self::Here(endpoint) => endpoint.handle_datagrams(now, source, data, stride, sink),
            Self::There(remote) => remote.handle_record(now, Span::new(data), sink),
            Self::Both(split) => split.handle_datagrams(now, source, data, stride, sink),
        }
    }

    /// Takes in a record of the link.
    #[inline]
    pub(crate) fn handle_record<S: Sink>(&mut self, now: Instant, record: Span<'_>, sink: &mut S) {
        match self {
            // There is no link.
            Self::Here(_) => {}
            Self::There(remote) => remote.handle_record(now, record, sink),
            Self::Both(split) => split.handle_record(now, record, sink),
        }
    }
}
