//! What carries the packets of a messenger.

use alloc::boxed::Box;
use core::net::SocketAddr;

use bytes::Bytes;

use super::{Remote, Split};
use crate::{
    config::Config,
    error::{AddPeerError, PeerError, SendError},
    id::{PeerId, SendToken},
    reliability::{Burst, Endpoint, Event, Limits, Outgoing, Payload, Sink, Target},
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
        match self {
            Self::Here(endpoint) => endpoint.config(),
            Self::There(remote) => remote.config(),
            Self::Both(split) => split.config(),
        }
    }

    /// Counters since the start. Those of a remote one are its own: what it has been handed and has handed on.
    #[must_use]
    #[inline]
    pub fn stats(&self) -> Stats {
        match self {
            Self::Here(endpoint) => endpoint.stats(),
            Self::There(remote) => remote.stats(),
            Self::Both(split) => split.stats(),
        }
    }

    /// A peer has answered in this session.
    #[must_use]
    #[inline]
    pub fn is_up(&self, peer: PeerId) -> bool {
        match self {
            Self::Here(endpoint) => endpoint.is_up(peer),
            Self::There(remote) => remote.is_up(peer),
            Self::Both(split) => split.is_up(peer),
        }
    }

    /// State of a peer; of a remote one only what is known here.
    #[must_use]
    #[inline]
    pub fn peer_stats(&self, peer: PeerId) -> Option<PeerStats> {
        match self {
            Self::Here(endpoint) => endpoint.peer_stats(peer),
            Self::There(remote) => remote.peer_stats(peer),
            Self::Both(split) => split.peer_stats(peer),
        }
    }

    /// Where a peer is.
    #[must_use]
    #[inline]
    pub fn address(&self, peer: PeerId) -> Option<SocketAddr> {
        match self {
            Self::Here(endpoint) => endpoint.address(peer),
            Self::There(remote) => remote.address(peer),
            Self::Both(split) => split.address(peer),
        }
    }

    /// The processor number of a peer.
    #[must_use]
    #[inline]
    pub fn processor(&self, peer: PeerId) -> Option<u32> {
        match self {
            Self::Here(endpoint) => endpoint.processor(peer),
            Self::There(remote) => remote.processor(peer),
            Self::Both(split) => split.processor(peer),
        }
    }

    /// Peers, whatever their state.
    #[must_use]
    #[inline]
    pub fn peers(&self) -> usize {
        match self {
            Self::Here(endpoint) => endpoint.peers(),
            Self::There(remote) => remote.peers(),
            Self::Both(split) => split.peers(),
        }
    }

    /// Number of the session with a peer that runs, or would be the next.
    #[must_use]
    #[inline]
    pub fn session(&self, peer: PeerId) -> u32 {
        match self {
            Self::Here(endpoint) => endpoint.session(peer),
            Self::There(remote) => remote.session(peer),
            Self::Both(split) => split.session(peer),
        }
    }

    /// Why this peer is down; `None` if it is not.
    #[must_use]
    #[inline]
    pub fn down(&self, peer: PeerId) -> Option<PeerError> {
        match self {
            Self::Here(endpoint) => endpoint.down(peer),
            Self::There(remote) => remote.down(peer),
            Self::Both(split) => split.down(peer),
        }
    }

    /// Nothing is queued for or unacknowledged by this peer. What a remote one has not told since acknowledgements were last
    /// asked for counts as unacknowledged.
    #[must_use]
    #[inline]
    pub fn is_idle(&self, peer: PeerId) -> bool {
        match self {
            Self::Here(endpoint) => endpoint.is_idle(peer),
            Self::There(remote) => remote.is_idle(peer),
            Self::Both(split) => split.is_idle(peer),
        }
    }

    /// The same of all peers.
    #[must_use]
    #[inline]
    pub fn all_idle(&self) -> bool {
        match self {
            Self::Here(endpoint) => endpoint.all_idle(),
            Self::There(remote) => remote.all_idle(),
            Self::Both(split) => split.all_idle(),
        }
    }

    /// Worth transmitting at once.
    #[must_use]
    #[inline]
    pub fn should_transmit(&self, peer: PeerId, channel: u8) -> bool {
        match self {
            Self::Here(endpoint) => endpoint.should_transmit(peer, channel),
            Self::There(remote) => remote.should_transmit(peer, channel),
            Self::Both(split) => split.should_transmit(peer, channel),
        }
    }

    /// Nothing is in flight to this peer on this channel.
    #[must_use]
    #[inline]
    pub fn is_quiet(&self, peer: PeerId, channel: u8) -> bool {
        match self {
            Self::Here(endpoint) => endpoint.is_quiet(peer, channel),
            Self::There(remote) => remote.is_quiet(peer, channel),
            Self::Both(split) => split.is_quiet(peer, channel),
        }
    }

    /// A full batch waits for this peer on this channel.
    #[must_use]
    #[inline]
    pub fn has_batch(&self, peer: PeerId, channel: u8) -> bool {
        match self {
            Self::Here(endpoint) => endpoint.has_batch(peer, channel),
            Self::There(remote) => remote.has_batch(peer, channel),
            Self::Both(split) => split.has_batch(peer, channel),
        }
    }

    /// Credit that messages to this peer may still cost.
    #[must_use]
    #[inline]
    pub fn credit(&self, peer: PeerId) -> u64 {
        match self {
            Self::Here(endpoint) => endpoint.credit(peer),
            Self::There(remote) => remote.credit(peer),
            Self::Both(split) => split.credit(peer),
        }
    }

    /// When time must be handled again.
    #[must_use]
    #[inline]
    pub fn poll_timeout(&self) -> Option<Instant> {
        match self {
            Self::Here(endpoint) => endpoint.poll_timeout(),
            Self::There(remote) => remote.poll_timeout(),
            Self::Both(split) => split.poll_timeout(),
        }
    }

    /// The octets of a burst in order.
    #[inline]
    pub(crate) fn gather<'a>(&'a self, burst: &'a Burst, each: impl FnMut(&'a [u8])) {
        match self {
            Self::Here(endpoint) => endpoint.gather(burst, each),
            Self::There(remote) => remote.gather(burst, each),
            Self::Both(split) => split.gather(burst, each),
        }
    }
}

/// Commands, what comes in and what goes out.
impl Carrier {
    #[inline]
    pub(crate) fn set_processor(&mut self, processor: u32) {
        match self {
            Self::Here(endpoint) => endpoint.set_processor(processor),
            Self::There(remote) => remote.set_processor(processor),
            Self::Both(split) => split.set_processor(processor),
        }
    }

    #[inline]
    pub(crate) fn add_peer(&mut self, address: SocketAddr, processor: u32) -> Result<PeerId, AddPeerError> {
        match self {
            Self::Here(endpoint) => endpoint.add_peer(address, processor),
            Self::There(remote) => remote.add_peer(address, processor),
            Self::Both(split) => split.add_peer(address, processor),
        }
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
        match self {
            Self::Here(endpoint) => endpoint.send(now, peer, channel, message, payload),
            Self::There(remote) => remote.send(now, peer, channel, message, payload),
            Self::Both(split) => split.send(now, peer, channel, message, payload),
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
        match self {
            Self::Here(endpoint) => endpoint.place(now, peer, channel, target, data),
            Self::There(remote) => remote.place(now, peer, channel, target, data),
            Self::Both(split) => split.place(now, peer, channel, target, data),
        }
    }

    #[inline]
    pub(crate) fn release(&mut self, peer: PeerId, session: u32, cost: u32) {
        match self {
            Self::Here(endpoint) => endpoint.release(peer, session, cost),
            Self::There(remote) => remote.release(peer, session, cost),
            Self::Both(split) => split.release(peer, session, cost),
        }
    }

    #[inline]
    pub(crate) fn request_acks(&mut self, now: Instant) {
        match self {
            Self::Here(endpoint) => endpoint.request_acks(now),
            Self::There(remote) => remote.request_acks(now),
            Self::Both(split) => split.request_acks(now),
        }
    }

    #[inline]
    pub(crate) fn watch(&mut self, now: Instant, peer: PeerId, on: bool) {
        match self {
            Self::Here(endpoint) => endpoint.watch(now, peer, on),
            Self::There(remote) => remote.watch(now, peer, on),
            Self::Both(split) => split.watch(now, peer, on),
        }
    }

    #[inline]
    pub(crate) fn connect(&mut self, now: Instant, peer: PeerId) {
        match self {
            Self::Here(endpoint) => endpoint.connect(now, peer),
            Self::There(remote) => remote.connect(now, peer),
            Self::Both(split) => split.connect(now, peer),
        }
    }

    #[inline]
    pub(crate) fn close(&mut self, now: Instant, peer: PeerId) {
        match self {
            Self::Here(endpoint) => endpoint.close(now, peer),
            Self::There(remote) => remote.close(now, peer),
            Self::Both(split) => split.close(now, peer),
        }
    }

    #[inline]
    pub(crate) fn reconnect(&mut self, peer: PeerId) {
        match self {
            Self::Here(endpoint) => endpoint.reconnect(peer),
            Self::There(remote) => remote.reconnect(peer),
            Self::Both(split) => split.reconnect(peer),
        }
    }

    #[inline]
    pub(crate) fn set_limits(&mut self, limits: Limits) {
        match self {
            Self::Here(endpoint) => endpoint.set_limits(limits),
            Self::There(remote) => remote.set_limits(limits),
            Self::Both(split) => split.set_limits(limits),
        }
    }

    #[inline]
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        match self {
            Self::Here(endpoint) => endpoint.handle_timeout(now),
            Self::There(remote) => remote.handle_timeout(now),
            Self::Both(split) => split.handle_timeout(now),
        }
    }

    #[inline]
    pub(crate) fn handle_unreachable(&mut self, now: Instant, address: SocketAddr) {
        match self {
            Self::Here(endpoint) => endpoint.handle_unreachable(now, address),
            Self::There(remote) => remote.handle_unreachable(now, address),
            Self::Both(split) => split.handle_unreachable(now, address),
        }
    }

    #[inline]
    pub(crate) fn handle_released(&mut self, token: u64) {
        match self {
            Self::Here(endpoint) => endpoint.handle_released(token),
            Self::There(remote) => remote.handle_released(token),
            Self::Both(split) => split.handle_released(token),
        }
    }

    #[inline]
    pub(crate) fn poll_transmit(&mut self, now: Instant, burst: &mut Burst) -> bool {
        match self {
            Self::Here(endpoint) => endpoint.poll_transmit(now, burst),
            Self::There(remote) => remote.poll_transmit(now, burst),
            Self::Both(split) => split.poll_transmit(now, burst),
        }
    }

    #[inline]
    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        match self {
            Self::Here(endpoint) => endpoint.poll_event(),
            Self::There(remote) => remote.poll_event(),
            Self::Both(split) => split.poll_event(),
        }
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
            Self::There(remote) => remote.handle_record(now, data, sink),
            Self::Both(split) => split.handle_datagrams(now, source, data, stride, sink),
        }
    }
}
