//! The packet layer: what a messenger stands on.
//!
//! A [`PacketLayer`] delivers packets exactly once, in any order, to a [`Sink`]. An [`Endpoint`] is one. A [`Layer`] is an
//! endpoint or any other of them.

use alloc::{boxed::Box, vec::Vec};
use core::{fmt::Debug, net::SocketAddr};

use bytes::Bytes;

use super::{
    Burst, Due, Endpoint, Event, Inline, Limits, LostMessages, MemoryLayer, Outgoing, Path, Payload, RailStats, Sink,
    Target,
};
use crate::{
    config::Config,
    error::{AddPeerError, AddRailError, PeerError, SendError},
    id::{PeerId, SendToken},
    span::Span,
    stats::{PeerStats, Stats},
    time::Instant,
};

/// What messages to a peer are addressed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The processor number of the peer.
    pub processor: u32,
    /// The number of the session that runs, or would be the next.
    pub session: u32,
}

/// Passes the methods that every packet layer must have to the macro `$with`: getters, then commands.
macro_rules! methods {
    ($with:ident!($($head:tt)*)) => {
        $with! {
            $($head)*
            getters {
                /// The settings.
                fn config() -> &Config;
                /// Counters since the start. A stand-in for an endpoint counts what has passed through itself.
                fn stats() -> Stats;
                /// Returns whether a peer has answered in this session.
                fn is_up(peer: PeerId) -> bool;
                /// The state of a peer, as far as it is known in this process.
                fn peer_stats(peer: PeerId) -> Option<PeerStats>;
                /// The address of a peer.
                fn address(peer: PeerId) -> Option<SocketAddr>;
                /// The processor number of a peer.
                fn processor(peer: PeerId) -> Option<u32>;
                /// Number of peers, in any state. Their numbers are those below.
                fn peers() -> usize;
                /// The number of the session with a peer that runs, or would be the next.
                fn session(peer: PeerId) -> u32;
                /// The reason that a peer is down; `None` if it is not.
                fn down(peer: PeerId) -> Option<PeerError>;
                /// Returns whether nothing is queued for a peer or unacknowledged by it. A stand-in counts as
                /// unacknowledged what has not been reported to it since acknowledgements were last asked for.
                fn is_idle(peer: PeerId) -> bool;
                /// Returns whether every peer is [idle](PacketLayer::is_idle).
                fn all_idle() -> bool;
                /// Returns whether what is queued for a peer on a channel is worth a transmission at once.
                fn should_transmit(peer: PeerId, channel: u8) -> bool;
                /// Returns when a message of `len` bytes to a peer on a channel, if it is queued now, is to be
                /// transmitted.
                fn due(peer: PeerId, channel: u8, len: usize) -> Due;
                /// Returns whether a full batch is queued for a peer on a channel.
                fn has_batch(peer: PeerId, channel: u8) -> bool;
                /// Credit that messages to a peer may still cost, in bytes.
                fn credit(peer: PeerId) -> u64;
                /// The time of the next [`handle_timeout`](PacketLayer::handle_timeout).
                fn poll_timeout() -> Option<Instant>;
                /// Returns whether [`poll_event`](PacketLayer::poll_event) may return an event.
                fn has_events() -> bool;
            }
            commands {
                /// Gives this side the number `processor`.
                fn set_processor(processor: u32);
                /// Adds the peer at `address`, whose processor has the number `processor`. Its own number is the next.
                ///
                /// # Errors
                /// There are too many peers, or one with this address exists.
                fn add_peer(address: SocketAddr, processor: u32) -> Result<PeerId, AddPeerError>;
                /// Queues a message. The token names a message by reference until its [`Event::Sent`].
                ///
                /// # Errors
                /// Nothing of the message was taken.
                fn send(now: Instant, peer: PeerId, channel: u8, message: &Outgoing, payload: Payload<'_>)
                    -> Result<Option<SendToken>, SendError>;
                /// Queues bytes for memory that a peer has lent.
                ///
                /// # Errors
                /// Nothing was taken.
                fn place(now: Instant, peer: PeerId, channel: u8, target: &Target, data: Bytes)
                    -> Result<SendToken, SendError>;
                /// Gives back the credit of a packet that came in `session` and whose memory is free.
                fn release(peer: PeerId, session: u32, cost: u32);
                /// Asks for acknowledgement of everything outstanding, at once.
                fn request_acks(now: Instant);
                /// Begins or ends the watch over a peer to which nothing is sent: its silence ends the session.
                fn watch(now: Instant, peer: PeerId, on: bool);
                /// Opens a session with a peer before there is anything to send.
                fn connect(now: Instant, peer: PeerId);
                /// Says goodbye to a peer, after all that is queued for it.
                fn close(now: Instant, peer: PeerId);
                /// Names the messages that may have been lost with the sessions of a peer. A layer that cannot tell
                /// names none.
                fn take_lost(peer: PeerId) -> Vec<LostMessages>;
                /// Tries a peer that is down again, with a new session.
                fn reconnect(peer: PeerId);
                /// Takes new abilities of the backend.
                fn set_limits(limits: Limits);
                /// Takes note that the time of [`poll_timeout`](PacketLayer::poll_timeout) has come.
                fn handle_timeout(now: Instant);
                /// Takes note that no process listens at `address`, as the network says, quoting a datagram.
                fn handle_unreachable(now: Instant, address: SocketAddr, quoted: &[u8]);
                /// Takes note that the backend has let go of the memory of the burst with this token.
                fn handle_released(token: u64);
                /// Fills `burst` with something to transmit, and returns whether there was anything.
                fn poll_transmit(now: Instant, burst: &mut Burst) -> bool;
                /// The next event.
                fn poll_event() -> Option<Event>;
            }
        }
    };
}

macro_rules! declare {
    (getters { $($(#[$about:meta])* fn $get:ident($($a:ident: $A:ty),*) $(-> $G:ty)?;)* }
     commands { $($(#[$does:meta])* fn $do:ident($($b:ident: $B:ty),*) $(-> $D:ty)?;)* }) => {
        /// Delivers packets exactly once, in any order. It does no IO and reads no clock: datagrams and the time are
        /// handed in, bursts to transmit and events are polled out. [`Endpoint`] has the same methods and says more.
        pub trait PacketLayer: Debug + Send {
            $($(#[$about])* fn $get(&self $(, $a: $A)*) $(-> $G)?;)*
            $($(#[$does])* fn $do(&mut self $(, $b: $B)*) $(-> $D)?;)*

            /// [`processor`](PacketLayer::processor) and [`session`](PacketLayer::session) of a peer in one call, which
            /// each message asks for.
            fn route(&self, peer: PeerId) -> Option<Route> {
                Some(Route {
                    processor: self.processor(peer)?,
                    session: self.session(peer),
                })
            }

            /// Adds a peer as [`add_peer`](PacketLayer::add_peer) does, in the place of the one at this address, if there
            /// is one and the layer can do that: the process of that one has ended, as the caller knows.
            fn replace_peer(&mut self, address: SocketAddr, processor: u32) -> Result<PeerId, AddPeerError> {
                self.add_peer(address, processor)
            }

            /// Takes in datagrams of `stride` bytes each (the last may be shorter) that came by `path`.
            fn handle_datagrams(
                &mut self,
                now: Instant,
                path: Path,
                data: &mut [u8],
                stride: usize,
                sink: &mut dyn Sink,
            );

            /// Takes in one datagram, or one record of a link, from memory where another process may be writing: no
            /// byte is read twice. By default, a copy is taken in.
            fn handle_shared(&mut self, now: Instant, source: SocketAddr, data: Span<'_>, sink: &mut dyn Sink) {
                let mut data = data.to_vec();
                let stride = data.len();
                self.handle_datagrams(now, source.into(), &mut data, stride, sink);
            }

            /// Returns whether this peer is reached through memory.
            fn is_in_memory(&self, peer: PeerId) -> bool {
                let _ = peer;
                false
            }

            /// The layer that reaches peers through memory, if this is one or has one: short messages go by its rings.
            fn memory(&self) -> Option<&MemoryLayer> {
                None
            }

            /// The same, to send and to receive.
            fn memory_mut(&mut self) -> Option<&mut MemoryLayer> {
                None
            }

            /// Delivers packets that the layer has kept because there was no room for them, or that have come to it by
            /// itself. It is called at the time of [`poll_timeout`](PacketLayer::poll_timeout).
            fn deliver_waiting(&mut self, now: Instant, sink: &mut dyn Sink) {
                let _ = (now, sink);
            }

            /// Passes the bytes of the last burst to `each`, in order.
            fn gather<'a>(&'a self, burst: &'a Burst, each: &mut dyn FnMut(&'a [u8]));

            /// Adds a rail to a peer: [`Endpoint::add_rail`].
            ///
            /// # Errors
            /// There is no such peer, it has this path already, or it can have no more.
            fn add_rail(&mut self, now: Instant, peer: PeerId, path: Path) -> Result<u8, AddRailError> {
                let _ = (now, peer, path);
                Err(AddRailError::Unsupported)
            }

            /// The first rail to a peer leaves by this port of the backend, instead of the first. It is told before a session
            /// is opened. A layer that does not know ports does nothing.
            fn leave_by(&mut self, peer: PeerId, port: u8) {
                let _ = (peer, port);
            }

            /// Number of rails by which data goes to a peer now, at least 1.
            fn rails_up(&self, peer: PeerId) -> usize {
                let _ = peer;
                1
            }

            /// The state of a rail to a peer: [`Endpoint::rail_stats`]. A stand-in for an endpoint knows it as it was when the
            /// rail last changed, or a session last began or ended.
            fn rail_stats(&self, peer: PeerId, rail: u8) -> Option<RailStats> {
                self.as_endpoint()?.rail_stats(peer, rail)
            }

            /// A port of the backend takes smaller datagrams than others: [`Endpoint::limit_port`].
            fn limit_port(&mut self, port: u8, max_datagram: usize) {
                let _ = (port, max_datagram);
            }

            /// A port of the backend is full, or is not any more: [`Endpoint::hold_port`]. A layer that does not know ports
            /// goes on, and the driver waits.
            fn hold_port(&mut self, port: u8, is_full: bool) {
                let _ = (port, is_full);
            }

            /// The endpoint in this process that the layer is, or has.
            fn as_endpoint(&self) -> Option<&Endpoint> {
                None
            }
        }
    };
}
methods!(declare!());

/// A packet layer whose own methods have the trait's names.
macro_rules! implement {
    ($type:ty { $($more:tt)* } getters { $($(#[$about:meta])* fn $get:ident($($a:ident: $A:ty),*) $(-> $G:ty)?;)* }
     commands { $($(#[$does:meta])* fn $do:ident($($b:ident: $B:ty),*) $(-> $D:ty)?;)* }) => {
        impl PacketLayer for $type {
            $(#[inline] fn $get(&self $(, $a: $A)*) $(-> $G)? { <$type>::$get(self $(, $a)*) })*
            $(#[inline] fn $do(&mut self $(, $b: $B)*) $(-> $D)? { <$type>::$do(self $(, $b)*) })*

            #[inline]
            fn handle_datagrams(
                &mut self,
                now: Instant,
                path: Path,
                data: &mut [u8],
                stride: usize,
                sink: &mut dyn Sink,
            ) {
                <$type>::handle_datagrams(self, now, path, data, stride, sink);
            }

            $($more)*

            #[inline]
            fn gather<'a>(&'a self, burst: &'a Burst, each: &mut dyn FnMut(&'a [u8])) {
                <$type>::gather(self, burst, each);
            }
        }
    };
}

methods!(implement!(Endpoint {
    fn add_rail(&mut self, now: Instant, peer: PeerId, path: Path) -> Result<u8, AddRailError> {
        Self::add_rail(self, now, peer, path)
    }

    fn leave_by(&mut self, peer: PeerId, port: u8) {
        Self::leave_by(self, peer, port);
    }

    fn rails_up(&self, peer: PeerId) -> usize {
        Self::rails_up(self, peer)
    }

    fn limit_port(&mut self, port: u8, max_datagram: usize) {
        Self::limit_port(self, port, max_datagram);
    }

    fn hold_port(&mut self, port: u8, is_full: bool) {
        Self::hold_port(self, port, is_full);
    }

    fn replace_peer(&mut self, address: SocketAddr, processor: u32) -> Result<PeerId, AddPeerError> {
        Self::replace_peer(self, address, processor)
    }

    fn as_endpoint(&self) -> Option<&Endpoint> {
        Some(self)
    }
}));
methods!(implement!(MemoryLayer {
    #[inline]
    fn handle_shared(&mut self, now: Instant, source: SocketAddr, data: Span<'_>, sink: &mut dyn Sink) {
        Self::handle_shared(self, now, source, data, sink);
    }

    fn is_in_memory(&self, _: PeerId) -> bool {
        true
    }

    #[inline]
    fn memory(&self) -> Option<&MemoryLayer> {
        Some(self)
    }

    #[inline]
    fn memory_mut(&mut self) -> Option<&mut MemoryLayer> {
        Some(self)
    }

    fn deliver_waiting(&mut self, now: Instant, sink: &mut dyn Sink) {
        Self::deliver_waiting(self, now, sink);
    }
}));

/// Any packet layer. Calls of an [`Endpoint`] are static, all others go by way of a pointer.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one, and it lives as long as its messenger"
)]
pub enum Layer {
    /// An endpoint in this process.
    Endpoint(Endpoint),
    /// Another layer.
    Other(Box<dyn PacketLayer>),
}

impl From<Endpoint> for Layer {
    fn from(endpoint: Endpoint) -> Self {
        Self::Endpoint(endpoint)
    }
}

impl<L: PacketLayer + 'static> From<Box<L>> for Layer {
    fn from(layer: Box<L>) -> Self {
        Self::Other(layer)
    }
}

/// The methods of [`PacketLayer`], on whichever layer it is.
macro_rules! dispatch {
    (getters { $($(#[$about:meta])* fn $get:ident($($a:ident: $A:ty),*) $(-> $G:ty)?;)* }
     commands { $($(#[$does:meta])* fn $do:ident($($b:ident: $B:ty),*) $(-> $D:ty)?;)* }) => {
        impl Layer {
            $(
                $(#[$about])*
                #[inline]
                pub fn $get(&self $(, $a: $A)*) $(-> $G)? {
                    match self {
                        Self::Endpoint(endpoint) => endpoint.$get($($a),*),
                        Self::Other(layer) => layer.$get($($a),*),
                    }
                }
            )*
            $(
                $(#[$does])*
                #[inline]
                pub(crate) fn $do(&mut self $(, $b: $B)*) $(-> $D)? {
                    match self {
                        Self::Endpoint(endpoint) => endpoint.$do($($b),*),
                        Self::Other(layer) => layer.$do($($b),*),
                    }
                }
            )*
        }
    };
}
methods!(dispatch!());

impl Layer {
    /// The endpoint in this process that the layer is, or has.
    #[must_use]
    pub fn as_endpoint(&self) -> Option<&Endpoint> {
        match self {
            Self::Endpoint(endpoint) => Some(endpoint),
            Self::Other(layer) => layer.as_endpoint(),
        }
    }

    /// [`PacketLayer::rail_stats`].
    #[cfg(feature = "std")]
    pub(crate) fn rail_stats(&self, peer: PeerId, rail: u8) -> Option<RailStats> {
        match self {
            Self::Endpoint(endpoint) => endpoint.rail_stats(peer, rail),
            Self::Other(layer) => layer.rail_stats(peer, rail),
        }
    }

    /// [`PacketLayer::limit_port`].
    pub(crate) fn limit_port(&mut self, port: u8, max_datagram: usize) {
        match self {
            Self::Endpoint(endpoint) => endpoint.limit_port(port, max_datagram),
            Self::Other(layer) => layer.limit_port(port, max_datagram),
        }
    }

    /// [`PacketLayer::hold_port`].
    #[cold]
    pub(crate) fn hold_port(&mut self, port: u8, is_full: bool) {
        match self {
            Self::Endpoint(endpoint) => endpoint.hold_port(port, is_full),
            Self::Other(layer) => layer.hold_port(port, is_full),
        }
    }

    /// [`PacketLayer::rails_up`].
    pub(crate) fn rails_up(&self, peer: PeerId) -> usize {
        match self {
            Self::Endpoint(endpoint) => endpoint.rails_up(peer),
            Self::Other(layer) => layer.rails_up(peer),
        }
    }

    /// [`PacketLayer::add_rail`].
    pub(crate) fn add_rail(&mut self, now: Instant, peer: PeerId, path: Path) -> Result<u8, AddRailError> {
        match self {
            Self::Endpoint(endpoint) => endpoint.add_rail(now, peer, path),
            Self::Other(layer) => layer.add_rail(now, peer, path),
        }
    }

    /// [`PacketLayer::leave_by`].
    pub(crate) fn leave_by(&mut self, peer: PeerId, port: u8) {
        match self {
            Self::Endpoint(endpoint) => endpoint.leave_by(peer, port),
            Self::Other(layer) => layer.leave_by(peer, port),
        }
    }

    /// [`PacketLayer::route`].
    #[inline]
    pub(crate) fn route(&self, peer: PeerId) -> Option<Route> {
        match self {
            Self::Endpoint(endpoint) => PacketLayer::route(endpoint, peer),
            Self::Other(layer) => layer.route(peer),
        }
    }

    /// [`PacketLayer::replace_peer`].
    pub(crate) fn replace_peer(&mut self, address: SocketAddr, processor: u32) -> Result<PeerId, AddPeerError> {
        match self {
            Self::Endpoint(endpoint) => endpoint.replace_peer(address, processor),
            Self::Other(layer) => layer.replace_peer(address, processor),
        }
    }

    /// [`Endpoint::begin_inline`]; no other layer has that way.
    #[inline]
    pub(crate) fn begin_inline(
        &mut self,
        now: Instant,
        peer: PeerId,
        channel: u8,
        message: &Outgoing,
        data: &[u8],
        burst: &mut Burst,
    ) -> Option<Inline> {
        match self {
            Self::Endpoint(endpoint) => endpoint.begin_inline(now, peer, channel, message, data, burst),
            Self::Other(_) => None,
        }
    }

    /// [`Endpoint::finish_inline`].
    #[inline]
    pub(crate) fn finish_inline(&mut self, inline: &Inline, data: &[u8], burst: &mut Burst) {
        if let Self::Endpoint(endpoint) = self {
            endpoint.finish_inline(inline, data, burst);
        }
    }

    #[inline]
    pub(crate) fn handle_datagrams<S: Sink>(
        &mut self,
        now: Instant,
        path: Path,
        data: &mut [u8],
        stride: usize,
        sink: &mut S,
    ) {
        match self {
            Self::Endpoint(endpoint) => endpoint.handle_datagrams(now, path, data, stride, sink),
            Self::Other(layer) => layer.handle_datagrams(now, path, data, stride, sink),
        }
    }

    #[inline]
    pub(crate) fn handle_shared<S: Sink>(&mut self, now: Instant, source: SocketAddr, data: Span<'_>, sink: &mut S) {
        match self {
            Self::Endpoint(endpoint) => PacketLayer::handle_shared(endpoint, now, source, data, sink),
            Self::Other(layer) => layer.handle_shared(now, source, data, sink),
        }
    }

    /// Returns whether this peer is reached through memory.
    pub(crate) fn is_in_memory(&self, peer: PeerId) -> bool {
        match self {
            Self::Endpoint(_) => false,
            Self::Other(layer) => layer.is_in_memory(peer),
        }
    }

    /// The layer that reaches peers through memory, if there is one.
    #[inline]
    pub(crate) fn memory(&self) -> Option<&MemoryLayer> {
        match self {
            Self::Endpoint(_) => None,
            Self::Other(layer) => layer.memory(),
        }
    }

    #[inline]
    pub(crate) fn memory_mut(&mut self) -> Option<&mut MemoryLayer> {
        match self {
            Self::Endpoint(_) => None,
            Self::Other(layer) => layer.memory_mut(),
        }
    }

    /// Delivers packets that the layer has kept.
    #[inline]
    pub(crate) fn deliver_waiting<S: Sink>(&mut self, now: Instant, sink: &mut S) {
        if let Self::Other(layer) = self {
            layer.deliver_waiting(now, sink);
        }
    }

    /// Passes the bytes of the last burst to `each`, in order.
    #[inline]
    pub(crate) fn gather<'a>(&'a self, burst: &'a Burst, mut each: impl FnMut(&'a [u8])) {
        match self {
            Self::Endpoint(endpoint) => endpoint.gather(burst, each),
            Self::Other(layer) => layer.gather(burst, &mut each),
        }
    }
}
