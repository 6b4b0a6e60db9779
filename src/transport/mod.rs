//! Messages between processes: the whole stack, with a socket, a clock and a way to wait.
//!
//! ```
//! # #[cfg(feature = "udp")]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use hikyaku::transport::Transport;
//!
//! let mut alice = Transport::builder().processor(1).bind_udp("127.0.0.1:0")?;
//! let mut bob = Transport::builder().processor(2).bind_udp("127.0.0.1:0")?;
//! let to_bob = alice.add_peer(bob.local_addr(), 2)?;
//! bob.add_peer(alice.local_addr(), 1)?;
//!
//! alice.send(to_bob, b"hello")?;
//! let message = bob.receive(Duration::from_secs(5))?;
//! assert_eq!((message.source(), &message[..]), (1, &b"hello"[..]));
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "udp"))]
//! # fn main() {}
//! ```
//!
//! # Which send do I use?
//!
//! | A program that… | calls | the bytes are | the call |
//! |---|---|---|---|
//! | sends small messages and does something else when there is no room | [`send`](Transport::send) | copied | never waits: [`SendError::WouldBlock`] |
//! | gives away memory that it need not keep | [`send_bytes`](Transport::send_bytes) | referred to until [`Event::Sent`] | never waits |
//! | sends from memory that it keeps, and waits | [`send_blocking`](Transport::send_blocking) | copied up to 64 KiB, else referred to | waits for room; for more than 64 KiB until all is acknowledged |
//! | names processors, a channel, a tag or immediate data | [`send_with`](Transport::send_with), [`send_blocking_with`](Transport::send_blocking_with) | as above | as above |
//! | runs on tokio (feature `tokio`) | `AsyncTransport::send`, `send_bytes`, `send_with` | copied or referred to | is a future that waits for room |
//!
//! # Which receive do I use?
//!
//! | A program that… | calls | when nothing is there |
//! |---|---|---|
//! | takes each message as it comes | [`receive`](Transport::receive) | waits |
//! | asked one peer and wants its answer next | [`receive_from`](Transport::receive_from) | waits |
//! | does something else when there is no message | [`try_receive`](Transport::try_receive) | returns `None` |
//! | waits for a peer or for [`Event::Sent`] | [`wait_event`](Transport::wait_event) | waits |
//! | serves peers that come and go | [`wait_any`](Transport::wait_any): a message or an event | waits |
//! | has an event loop of its own | [`descriptor`](Transport::descriptor), [`next_deadline`](Transport::next_deadline), [`progress`](Transport::progress) | |
//!
//! # Time limits
//!
//! A method that waits takes its time limit last, as a [`Duration`] or as an `Option`: `None` waits without limit. When
//! the time is over before the method has what it waited for, that is an error with the name `TimedOut`
//! ([`WaitError`], [`FlushError`]), and nothing is lost by it. A method that never waits returns `None` when there is
//! nothing. A limit of zero makes one pass.
//!
//! # Progress
//!
//! A transport has no thread of its own: it sends and receives, acknowledges and resends only while one of its methods
//! runs. Methods that receive, flush, or wait to send make progress. A program that computes for longer than a peer
//! waits ([`Config::death_timeout`](crate::Config::death_timeout)) calls [`Transport::progress`] now and then, or lets
//! a helper thread do it: [`Transport::with_progress_thread`].
//!
//! # Threads, processes, signals
//!
//! - A transport is `Send` and not `Sync`: one thread uses it at a time. Several threads each take a transport of their
//!   own, or share an [`SharedTransport`].
//! - After `fork`, the transport belongs to the parent, because both processes would write to one socket with the same
//!   numbers. The child must not use it; dropping it there only closes the descriptor. (`Command` is no problem:
//!   sockets are closed on exec.)
//! - Signals may interrupt a wait, which then goes on; no method returns early because of one. No method may be called
//!   from a signal handler.
//! - No input from the network makes a method panic. If a method unwinds all the same (a bug), drop the transport.

#[cfg(feature = "tokio")]
mod asynchronous;
mod borrow;
mod builder;
mod descriptor;
pub mod environment;
mod error;
mod progress_thread;
mod resolve;

use std::{
    fmt::{self, Debug},
    io,
    net::{SocketAddr, ToSocketAddrs},
    process,
    time::Duration,
};

use bytes::Bytes;

use self::resolve::resolve;
#[cfg(feature = "tokio")]
pub use self::{asynchronous::AsyncTransport, error::AsyncError};
pub use self::{
    builder::Builder,
    environment::Routes,
    error::{
        BackendError, BuildError, CloseError, FlushError, NoDescriptor, ProgressThreadError, ResolveError,
        SendBlockingError, WaitError,
    },
    progress_thread::{Guard, SharedTransport},
};
use crate::{
    backends::{Backend, BackendStats, Capabilities, Received, Sent, Transmit, Wake},
    error::{AddPeerError, AddRailError, PeerError, SendError},
    messaging::Aside,
    progress::{Acks, Driver},
    reliability::{self, Path, Payload, PeerId, RailStats, SendToken},
    stats::{PeerStats, Stats},
    time::Instant,
};
pub use crate::{
    environment::EnvironmentError,
    messaging::{Message, SendOptions},
    progress::WaitPolicy,
    reliability::LostMessages,
};

/// Up to this many bytes, copying is cheaper than waiting.
const COPY: usize = 64 << 10;

/// An event of a transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A peer has answered: a session has begun, perhaps after earlier ones have ended.
    PeerUp {
        /// The peer.
        peer: PeerId,
    },
    /// A peer is lost, together with everything under way to it, which [`Transport::take_lost`] names.
    PeerDown {
        /// The peer.
        peer: PeerId,
        /// The reason.
        error: PeerError,
    },
    /// The session was closed, by the peer or by this side.
    PeerClosed {
        /// The peer.
        peer: PeerId,
    },
    /// All of a message sent by reference is acknowledged, and its memory is free.
    Sent {
        /// The peer.
        peer: PeerId,
        /// The token that [`Transport::send_bytes`] returned.
        token: SendToken,
    },
    /// This peer has thrown messages away because they were for a processor that it does not have. Nothing else is
    /// affected. (The messages count as acknowledged, for [`Event::Sent`] and [`Transport::flush`] too.)
    Returned {
        /// The peer.
        peer: PeerId,
        /// The source processor of the first of them.
        source: u32,
        /// The destination processor of the first of them.
        destination: u32,
        /// Number of messages, for all such processors together.
        messages: u64,
    },
    /// There is room again after [`SendError::WouldBlock`].
    Writable {
        /// The peer.
        peer: PeerId,
    },
    /// A rail to a peer works (again): data may go there.
    RailUp {
        /// The peer.
        peer: PeerId,
        /// The number of the rail ([`Transport::add_rail`]).
        rail: u8,
    },
    /// A rail to a peer is dead while others are not: what was under way there goes elsewhere.
    RailDown {
        /// The peer.
        peer: PeerId,
        /// The number of the rail.
        rail: u8,
    },
}

/// A message or an event, whichever there is: see [`Transport::wait_any`].
#[derive(Debug)]
pub enum Incoming<'a> {
    /// A message, lent until the next call.
    Message(Message<'a>),
    /// An event.
    Event(Event),
}

/// Messages between processes. See the module's documentation.
pub struct Transport {
    driver: Driver,
    /// Messages that [`receive_from`](Transport::receive_from) has passed over.
    aside: Aside,
    processors: Vec<u32>,
    /// The process that may use the transport.
    process: u32,
    closed: bool,
}

impl Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport")
            .field("processors", &self.processors)
            .field("driver", &self.driver)
            .finish_non_exhaustive()
    }
}

/// Getters.
impl Transport {
    /// Opens a transport of processor 0 with default settings on a UDP socket: see [`Builder::bind_udp`].
    ///
    /// # Errors
    /// See there.
    pub fn bind_udp(address: impl ToSocketAddrs + Debug) -> Result<Self, BuildError> {
        Self::builder().bind_udp(address)
    }

    /// Opens a transport of processor 0 with default settings within this process: see [`Builder::bind_loopback`].
    ///
    /// # Errors
    /// See there.
    pub fn bind_loopback() -> Result<Self, BuildError> {
        Self::builder().bind_loopback()
    }

    fn new(driver: Driver, processors: &[u32]) -> Self {
        Self {
            driver,
            aside: Aside::default(),
            processors: processors.to_vec(),
            process: process::id(),
            closed: false,
        }
    }

    /// The address at which peers reach this transport.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.driver.local_addr()
    }

    /// Number of this transport's (first) processor.
    #[must_use]
    pub fn processor(&self) -> u32 {
        self.processors[0]
    }

    /// Number of peers, in any state.
    #[must_use]
    pub fn peers(&self) -> usize {
        self.driver.messenger().layer().peers()
    }

    /// The address of a peer.
    #[must_use]
    pub fn address(&self, peer: PeerId) -> Option<SocketAddr> {
        self.driver.messenger().layer().address(peer)
    }

    /// Messages that can be received without waiting.
    #[must_use]
    #[inline]
    pub fn ready(&self) -> usize {
        self.aside.len() + self.driver.ready()
    }

    /// Counters of the protocol.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.driver.messenger().layer().stats()
    }

    /// State of a peer.
    #[must_use]
    pub fn peer_stats(&self, peer: PeerId) -> Option<PeerStats> {
        self.driver.messenger().layer().peer_stats(peer)
    }

    /// State and counters of a rail to a peer ([`add_rail`](Self::add_rail)); 0 is the path to the peer's own address.
    /// `None`: there is no such rail. Behind a poller, they are as they were when the rail last came or went, or a session
    /// last began or ended.
    #[must_use]
    pub fn rail_stats(&self, peer: PeerId, rail: u8) -> Option<RailStats> {
        self.driver.messenger().layer().rail_stats(peer, rail)
    }

    /// Counters of the backend: of all its ports together.
    #[must_use]
    pub fn backend_stats(&self) -> BackendStats {
        self.driver.backend_stats()
    }

    /// The local address and the counters of a port of the backend, from 0; a backend that has no several ports is its own
    /// port 0. `None`: there is no such port. The ports of a poller count for all of its processes, and so not here.
    #[must_use]
    pub fn port_stats(&self, port: u8) -> Option<(SocketAddr, BackendStats)> {
        let backend = self.driver.backend();
        match backend.ports() {
            [] => (port == 0).then(|| (self.local_addr(), backend.stats())),
            ports => { ports.get(usize::from(port)) }.map(|port| (port.local_addr(), port.stats())),
        }
    }

    /// Name of the backend.
    #[must_use]
    pub fn backend_name(&self) -> &'static str {
        self.driver.backend().name()
    }

    /// The time at which to call [`progress`](Self::progress) even if the descriptor has not become readable. Ask again
    /// after every other call.
    #[must_use]
    pub fn next_deadline(&self) -> Option<std::time::Instant> {
        self.driver.std_deadline()
    }

    /// Returns an address of `name` (`"host:port"`) that this transport can reach.
    ///
    /// # Errors
    /// `name` has no such address.
    pub fn resolve(&self, name: impl ToSocketAddrs + Debug) -> Result<SocketAddr, ResolveError> {
        let ours = self.local_addr();
        resolve(&name, |address| address.is_ipv4() == ours.is_ipv4())
    }
}

/// Commands.
impl Transport {
    /// Adds a peer: the process at `address`, whose processor has the number `processor`
    /// ([`ANY_PROCESSOR`](crate::wire::ANY_PROCESSOR) if the number is not known). The process need not have started
    /// yet.
    ///
    /// # Errors
    /// There are too many peers, or one with this address exists.
    pub fn add_peer(&mut self, address: SocketAddr, processor: u32) -> Result<PeerId, AddPeerError> {
        self.driver.add_peer(address, processor)
    }

    /// Adds a rail to a peer: a path that may be used beside the one to its address, which is rail 0. Returns its number.
    /// Nothing but probes goes there until the peer has answered one ([`Event::RailUp`]).
    ///
    /// A rail whose port and address both belong to rails that were added before is a backup: it is probed and used only
    /// while its port or its address has no other rail that is up.
    ///
    /// # Errors
    /// There is no such peer, it has this path already, or it can have no more.
    pub fn add_rail(&mut self, peer: PeerId, path: impl Into<Path>) -> Result<u8, AddRailError> {
        self.driver.add_rail(peer, path.into())
    }

    /// Sends a copy of `data`. Does not wait.
    ///
    /// # Errors
    /// The message was not taken. [`SendError::WouldBlock`] is back-pressure: make progress, then try again.
    #[inline]
    pub fn send(&mut self, peer: PeerId, data: &[u8]) -> Result<(), SendError> {
        self.driver.send(peer, &SendOptions::default(), Payload::Copy(data))?;
        Ok(())
    }

    /// Sends `data` by reference. Does not wait; when everything is acknowledged, [`Event::Sent`] returns this token.
    /// Up to 65,536 such events are kept until the program takes them ([`next_event`](Self::next_event)).
    ///
    /// # Errors
    /// See [`send`](Self::send). [`SendError::EventsWaiting`]: the program does not take the events.
    pub fn send_bytes(&mut self, peer: PeerId, data: Bytes) -> Result<SendToken, SendError> {
        let token = self.driver.send(peer, &SendOptions::default(), Payload::Shared(data))?;
        match token {
            Some(token) => Ok(token),
            None => unreachable!("a payload by reference has a token"),
        }
    }

    /// Sends with all options. Does not wait. The call returns a token for [`Payload::Shared`].
    ///
    /// # Errors
    /// See [`send`](Self::send).
    #[inline]
    pub fn send_with(
        &mut self,
        peer: PeerId,
        payload: Payload<'_>,
        options: &SendOptions,
    ) -> Result<Option<SendToken>, SendError> {
        self.driver.send(peer, options, payload)
    }

    /// Sends `data`. Waits for room, making progress, instead of returning [`SendError::WouldBlock`].
    ///
    /// Data of more than 64 KiB is not copied but sent from where it is, so the call returns when all of it is
    /// acknowledged. For that the peer must make progress; it need not receive the message. Two programs that send to
    /// each other in this way without receiving do not block each other as long as the messages that wait fit
    /// [`Config::unexpected_bytes`](crate::Config::unexpected_bytes).
    ///
    /// # Errors
    /// The peer is unknown, closed or lost, or the backend has failed.
    pub fn send_blocking(&mut self, peer: PeerId, data: &[u8]) -> Result<(), SendBlockingError> {
        self.send_blocking_with(peer, data, &SendOptions::default())
    }

    /// Like [`send_blocking`](Self::send_blocking), with all options.
    ///
    /// # Errors
    /// See [`send_blocking`](Self::send_blocking).
    pub fn send_blocking_with(
        &mut self,
        peer: PeerId,
        data: &[u8],
        options: &SendOptions,
    ) -> Result<(), SendBlockingError> {
        if data.len() <= COPY {
            self.send_waiting(peer, options, || Payload::Copy(data))?;
            return Ok(());
        }
        borrow::lend(
            self,
            data,
            |transport, loan| {
                let bytes = loan.bytes();
                let token = transport.send_waiting(peer, options, move || Payload::Shared(bytes.clone()))?;
                // No other call waits for this acknowledgement, so it would come late.
                transport.driver.request_acks();
                let returned = transport.driver.run(None, Acks::Now, |_| loan.is_returned());
                returned.map_err(|error| transport.failed(error))?;
                // Either all of it was acknowledged, and the peer may have closed since; or the session has ended and it
                // was given up.
                if token.is_some_and(|token| !transport.driver.is_sent(token)) {
                    let endpoint = transport.driver.messenger().layer();
                    let error = endpoint.down(peer).unwrap_or(PeerError::Restarted);
                    return Err(SendError::Peer(peer, error).into());
                }
                Ok(())
            },
            Self::recall,
        )
    }

    /// Ends a loan: waits until the peer has everything. If that is impossible, it gives up all peers.
    #[cold]
    fn recall(&mut self, loan: &borrow::Loan<'_>) {
        if self.driver.run(None, Acks::Now, |_| loan.is_returned()).is_err() {
            let backend: Box<dyn Backend> = Box::new(Gone(self.local_addr(), self.backend_name()));
            self.start_anew_on(backend);
        }
    }

    fn send_waiting<'p>(
        &mut self,
        peer: PeerId,
        options: &SendOptions,
        payload: impl Fn() -> Payload<'p>,
    ) -> Result<Option<SendToken>, SendBlockingError> {
        let mut result = self.driver.send_untold(peer, options, payload());
        if !matches!(result, Err(SendError::WouldBlock(_))) {
            return Ok(result?);
        }
        let ran = self.driver.run(None, Acks::Now, |driver| {
            result = driver.send_untold(peer, options, payload());
            !matches!(result, Err(SendError::WouldBlock(_)))
        });
        ran.map_err(|error| self.failed(error))?;
        Ok(result?)
    }

    /// Watches a peer to which nothing is sent, so that [`Event::PeerDown`] reports its death; `false` stops watching.
    pub fn watch(&mut self, peer: PeerId, on: bool) {
        self.driver.watch(peer, on);
    }

    /// Tries again to reach a peer that was lost or closed. The peer need not have restarted, and need not call this
    /// too. [`Event::PeerUp`] reports that it has answered, [`Event::PeerDown`] that it has not done so within
    /// [`Config::open_timeout`](crate::Config::open_timeout). Messages sent meanwhile go to the new session. See also
    /// [`Config::reconnect`](crate::Config::reconnect).
    pub fn reconnect(&mut self, peer: PeerId) {
        self.driver.reconnect(peer);
        self.driver.transmit_now();
    }

    /// Names the messages that were under way to this peer when sessions with it ended ([`Event::PeerDown`]), since the
    /// last call. They were not acknowledged, and may or may not have arrived. Messages sent by reference are
    /// unacknowledged until there is an [`Event::Sent`]. (With a poller nothing is named.)
    pub fn take_lost(&mut self, peer: PeerId) -> Vec<LostMessages> {
        self.driver.take_lost(peer)
    }

    /// Says goodbye to one peer, after all messages to it. [`Event::PeerClosed`] reports the end.
    pub fn close_peer(&mut self, peer: PeerId) {
        self.driver.close(peer);
        self.driver.transmit_now();
    }
}

/// Progress.
impl Transport {
    /// Makes one pass: sends and receives as much as it can now. Returns the number of messages that are ready.
    ///
    /// # Errors
    /// The backend has failed: the transport cannot be used any more.
    pub fn progress(&mut self) -> Result<usize, BackendError> {
        self.pass(Acks::Later)?;
        Ok(self.ready())
    }

    /// Returns the next message, if there is one. Makes progress once if none is ready, and never waits. The message is
    /// lent until the next call.
    ///
    /// # Errors
    /// The backend has failed: the transport cannot be used any more.
    #[inline]
    pub fn try_receive(&mut self) -> Result<Option<Message<'_>>, BackendError> {
        if self.ready() == 0 {
            self.pass(Acks::Later)?;
        } else if self.driver.is_pass_due() {
            self.poll(Acks::Later)?;
        }
        Ok(self.next_message())
    }

    /// Waits for the next message, not longer than `timeout`, and returns it. The message is lent until the next call.
    ///
    /// # Errors
    /// No message arrived within this time, or the backend has failed.
    #[inline]
    pub fn receive(&mut self, timeout: impl Into<Option<Duration>>) -> Result<Message<'_>, WaitError> {
        let timeout = timeout.into();
        if self.aside.is_empty() {
            let ready = self.driver.wait_ready(timeout);
            ready.map_err(|error| self.failed(error))?;
        }
        self.next_message().ok_or_else(|| timed_out(timeout))
    }

    /// Waits for the next message of `peer`, not longer than `timeout`, and returns it. The message is lent until the
    /// next call. Messages of other peers are set aside: [`receive`](Self::receive) and all others return them later,
    /// in their order. They count as unreceived, so each peer can send only as much as
    /// [`Config::unexpected_bytes`](crate::Config::unexpected_bytes) allows.
    ///
    /// Meant for an answer that is due. A program that selects among many messages by source and tag uses
    /// [`Tagged`](crate::messaging::tagged::Tagged), or MPI.
    ///
    /// # Errors
    /// No message of this peer arrived within this time; a message of another peer is too large to be set aside
    /// ([`WaitError::InTheWay`]); or the backend has failed.
    pub fn receive_from(
        &mut self,
        peer: PeerId,
        timeout: impl Into<Option<Duration>>,
    ) -> Result<Message<'_>, WaitError> {
        let timeout = timeout.into();
        let mut found = self.pass_over(peer);
        if found == Ok(false) {
            let aside = &mut self.aside;
            let ran = self.driver.run(timeout, Acks::Later, |driver| {
                found = driver.set_aside(aside, peer);
                found != Ok(false)
            });
            ran.map_err(|error| self.failed(error))?;
        }
        match found.map_err(WaitError::InTheWay)? {
            true => self.next_of(peer).ok_or_else(|| timed_out(timeout)),
            false => Err(timed_out(timeout)),
        }
    }

    /// Passes over messages of other peers. Returns whether a message of `peer` is ready, or which other peer's message
    /// is in the way.
    fn pass_over(&mut self, peer: PeerId) -> Result<bool, PeerId> {
        match self.aside.find(peer) {
            Some(_) => Ok(true),
            None => self.driver.set_aside(&mut self.aside, peer),
        }
    }

    /// Takes the message that [`pass_over`](Self::pass_over) has found.
    fn next_of(&mut self, peer: PeerId) -> Option<Message<'_>> {
        match self.aside.find(peer) {
            Some(index) => self.driver.take_aside(&mut self.aside, index),
            None => self.driver.receive(),
        }
    }

    /// Returns the next event. Makes no progress. (A program that takes no events while a peer comes and goes gets only
    /// the first [`Event::PeerUp`] and the last [`Event::PeerDown`]. While 65,536 [`Event::Sent`] wait, nothing can be
    /// sent by reference.)
    pub fn next_event(&mut self) -> Option<Event> {
        Some(match self.driver.poll_event()? {
            reliability::Event::Up { peer, .. } => Event::PeerUp { peer },
            reliability::Event::Down {
                peer,
                error: PeerError::Closed,
                ..
            } => Event::PeerClosed { peer },
            reliability::Event::Down { peer, error, .. } => Event::PeerDown { peer, error },
            reliability::Event::Sent { peer, token } => Event::Sent { peer, token },
            reliability::Event::Writable { peer } => Event::Writable { peer },
            reliability::Event::RailUp { peer, rail } => Event::RailUp { peer, rail },
            reliability::Event::RailDown { peer, rail } => Event::RailDown { peer, rail },
            reliability::Event::Returned {
                peer,
                source,
                destination,
                messages,
                ..
            } => Event::Returned {
                peer,
                source,
                destination,
                messages,
            },
        })
    }

    /// Waits for the next event, making progress, not longer than `timeout`.
    ///
    /// # Errors
    /// There was no event within this time, or the backend has failed.
    pub fn wait_event(&mut self, timeout: impl Into<Option<Duration>>) -> Result<Event, WaitError> {
        let timeout = timeout.into();
        if let Some(event) = self.next_event() {
            return Ok(event);
        }
        let ran = self.driver.run(timeout, Acks::Now, |driver| driver.has_event());
        ran.map_err(|error| self.failed(error))?;
        self.next_event().ok_or_else(|| timed_out(timeout))
    }

    /// Waits for the next message or event, messages first, not longer than `timeout`. All messages of a session come
    /// before the event that it has ended.
    ///
    /// # Errors
    /// There was neither within this time, or the backend has failed.
    pub fn wait_any(&mut self, timeout: impl Into<Option<Duration>>) -> Result<Incoming<'_>, WaitError> {
        let timeout = timeout.into();
        if !self.has_incoming() {
            let ran = self
                .driver
                .run(timeout, Acks::Later, |driver| driver.ready() > 0 || driver.has_event());
            ran.map_err(|error| self.failed(error))?;
        }
        self.next_incoming().ok_or_else(|| timed_out(timeout))
    }

    /// Returns whether a message can be received, whatever its sender does meanwhile.
    #[cfg(feature = "tokio")]
    fn is_sure_of_message(&mut self) -> bool {
        !self.aside.is_empty() || self.driver.admit_next()
    }

    fn has_incoming(&self) -> bool {
        self.ready() > 0 || self.driver.has_event()
    }

    fn next_incoming(&mut self) -> Option<Incoming<'_>> {
        if self.ready() > 0 {
            return self.next_message().map(Incoming::Message);
        }
        self.next_event().map(Incoming::Event)
    }

    /// The next message, one that was set aside first.
    #[inline]
    fn next_message(&mut self) -> Option<Message<'_>> {
        if self.aside.is_empty() {
            return self.driver.receive();
        }
        self.driver.take_aside(&mut self.aside, 0)
    }

    #[inline]
    fn pass(&mut self, acks: Acks) -> Result<(), BackendError> {
        self.driver.admit();
        self.poll(acks)
    }

    #[inline]
    fn poll(&mut self, acks: Acks) -> Result<(), BackendError> {
        match self.driver.progress(acks) {
            Ok(_) => Ok(()),
            Err(error) => Err(self.failed(error)),
        }
    }

    #[cold]
    fn failed(&self, source: io::Error) -> BackendError {
        BackendError::new(self.backend_name(), source)
    }

    /// Waits until all peers have acknowledged everything sent so far.
    ///
    /// # Errors
    /// A peer was lost before it had acknowledged everything, the time is over, or the backend has failed.
    pub fn flush(&mut self, timeout: impl Into<Option<Duration>>) -> Result<(), FlushError> {
        let timeout = timeout.into();
        self.driver.watch_losses(true);
        self.driver.request_acks();
        let flushed = self
            .driver
            .run(timeout, Acks::Now, |driver| driver.messenger().layer().all_idle());
        let losses = self.driver.watch_losses(false);
        match flushed {
            Err(error) => Err(self.failed(error).into()),
            Ok(false) => {
                let endpoint = self.driver.messenger().layer();
                let peers = self.all_peers().filter(|&peer| !endpoint.is_idle(peer)).count();
                let timeout = timeout.unwrap_or_default();
                Err(FlushError::TimedOut { timeout, peers })
            }
            Ok(true) => match losses.first() {
                Some(&(peer, error)) => Err(FlushError::Peer(peer, error)),
                None => Ok(()),
            },
        }
    }

    /// Says goodbye to all peers, after all messages to them, and waits until they have heard it, not longer than
    /// `linger`.
    ///
    /// # Errors
    /// A peer was lost before it had acknowledged everything, the time is over, or the backend has failed. The
    /// transport is gone all the same.
    pub fn close(mut self, linger: impl Into<Option<Duration>>) -> Result<(), CloseError> {
        let linger = linger.into();
        let ends = self.begin_close();
        let left = self.driver.wait_ended(ends, linger);
        self.end_close(left, linger)
    }

    /// Begins to say goodbye to all peers. Returns how many sessions have ended when all have heard it.
    fn begin_close(&mut self) -> u64 {
        self.closed = true;
        self.driver.watch_losses(true);
        self.driver.close_all()
    }

    /// The result of a goodbye that `left` peers have not heard in time.
    fn end_close(&self, left: io::Result<u64>, linger: Option<Duration>) -> Result<(), CloseError> {
        let left = left.map_err(|error| self.failed(error))?;
        match (left, self.driver.losses().first()) {
            (0, None) => Ok(()),
            (0, Some(&(peer, error))) => Err(FlushError::Peer(peer, error)),
            (left, _) => Err(FlushError::TimedOut {
                timeout: linger.unwrap_or_default(),
                peers: left as usize,
            }),
        }
    }

    fn all_peers(&self) -> impl Iterator<Item = PeerId> + use<> {
        (0..self.peers() as u32).map(PeerId)
    }

    /// A pass of the helper.
    fn assist(&mut self) -> Result<(), BackendError> {
        self.pass(Acks::Now)
    }

    fn passes(&self) -> u64 {
        self.driver.passes()
    }
}

impl Drop for Transport {
    /// Says goodbye once, without waiting for an answer; [`close`](Self::close) waits.
    fn drop(&mut self) {
        if self.process != process::id() {
            return;
        }
        if !self.closed && !std::thread::panicking() {
            for peer in self.all_peers() {
                self.driver.close(peer);
            }
            self.driver.transmit_now();
        }
        self.driver.write_report(None);
    }
}

/// The error of a wait whose time is over. (Without a limit, a wait ends only with what it waited for.)
#[cold]
fn timed_out(timeout: Option<Duration>) -> WaitError {
    WaitError::TimedOut(timeout.unwrap_or_default())
}

/// Stands in for a backend that has failed.
struct Gone(SocketAddr, &'static str);

impl Gone {
    fn error() -> io::Error {
        io::Error::new(io::ErrorKind::NotConnected, "the backend had failed before")
    }
}

impl Backend for Gone {
    fn name(&self) -> &'static str {
        self.1
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            receive_buffer: 0,
            ..Capabilities::new(512)
        }
    }

    fn local_addr(&self) -> SocketAddr {
        self.0
    }

    fn transmit(&mut self, _: Instant, _: &Transmit<'_>) -> io::Result<Sent> {
        Err(Self::error())
    }

    fn receive(&mut self, _: Instant, _: usize) -> io::Result<usize> {
        Err(Self::error())
    }

    fn received(&mut self, _: usize) -> Received<'_> {
        unreachable!("nothing is ever received")
    }

    fn wait(&mut self, _: Option<Duration>) -> io::Result<Wake> {
        Err(Self::error())
    }

    fn stats(&self) -> BackendStats {
        BackendStats::default()
    }
}
