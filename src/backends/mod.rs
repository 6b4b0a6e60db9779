//! Backends move datagrams and know nothing of the protocol.
//!
//! A backend sends bursts of equal-sized datagrams gathered from several places in memory, receives bursts into buffers
//! of its own, and can sleep until something arrives. A build chooses its backends by features, a program by name at
//! run time. Backends stack: `Impaired` adds faults to any of them, `Captured` writes the traffic of any of them to a
//! pcapng file.

pub mod captured;
#[cfg(all(feature = "dpdk", target_os = "linux"))]
pub mod dpdk;
mod forward;
pub mod impaired;
#[cfg(feature = "loopback")]
pub mod loopback;
pub mod pcapng;
#[cfg(all(any(feature = "dpdk", feature = "udp"), target_os = "linux"))]
pub mod ports;
#[cfg(any(
    feature = "loopback",
    feature = "poller",
    feature = "shm",
    all(feature = "udp", target_os = "linux")
))]
mod refusals;
mod registry;
#[cfg(test)]
mod script;
#[cfg(all(feature = "shm", target_os = "linux"))]
pub mod shm;
#[cfg(all(feature = "udp", target_os = "linux"))]
pub mod udp;

use std::{
    fmt,
    io::{self, IoSlice},
    iter::Sum,
    net::SocketAddr,
    os::fd::BorrowedFd,
    time::Duration,
};

#[cfg(all(any(feature = "poller", feature = "shm"), target_os = "linux"))]
pub(crate) use self::refusals::Refusals;
pub use self::{
    captured::Captured,
    impaired::{Impaired, Impairments},
    registry::{BindError, BindOptions, Place, available, bind, has_own_addresses, has_ports},
};
pub use crate::span::Span;
use crate::{forward_backend, time::Instant};

/// The abilities of a backend. They may change at run time (the kernel refuses GSO), so ask again after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// Largest datagram (UDP payload, bytes) that the local interface takes without IP fragmentation.
    pub max_datagram: usize,
    /// Most datagrams in one [`Transmit`]; 1: no segmentation offload.
    pub max_segments: usize,
    /// Most bytes in one [`Transmit`].
    pub max_batch: usize,
    /// Bytes that may wait at the receiving side before datagrams are lost to overflow.
    pub receive_buffer: usize,
    /// A layer below checks the payload (UDP checksum, Ethernet FCS, plain memory), so the protocol's own checksum can
    /// stay off.
    pub checksummed: bool,
    /// [`Backend::transmit`] may still refer to the payload after it has returned, until [`Notice::Released`]. When
    /// false, the payload is free when `transmit` returns.
    pub holds_references: bool,
    /// The receiver acknowledges after this many bytes, even at the price of a datagram: the sender then uses its
    /// memory again while it is in a cache, which saves more than the datagram costs. `usize::MAX`: early
    /// acknowledgements do not pay.
    pub ack_bytes: usize,
    /// UDP port at which this backend receives, if its datagrams leave from another one; else 0.
    pub receive_port: u16,
    /// The backend carries what a packet layer of its own says instead of the protocol's datagrams, as the link to a
    /// poller does. A transport refuses it without that layer.
    pub layered: bool,
}

impl Capabilities {
    /// Those of a plain backend: datagrams of at most `max_datagram` bytes (512 and more), sent one by one, checked by
    /// the layer below, of which 256 may wait at the receiving side. The fields can be changed.
    #[must_use]
    pub const fn new(max_datagram: usize) -> Self {
        Self {
            max_datagram,
            max_segments: 1,
            max_batch: max_datagram,
            receive_buffer: 256 * max_datagram,
            checksummed: true,
            holds_references: false,
            ack_bytes: usize::MAX,
            receive_port: 0,
            layered: false,
        }
    }
}

/// One burst to one destination: consecutive datagrams of `segment_size` bytes each, the last may be shorter.
#[derive(Clone, Copy, Debug)]
pub struct Transmit<'a> {
    /// The address of the receiver.
    pub destination: SocketAddr,
    /// Number of the backend's port (network interface) by which the burst leaves; 0 with backends that have one.
    pub port: u8,
    /// Bytes per datagram. At least 1 and at most [`Capabilities::max_datagram`] (more only with `dont_fragment` off).
    pub segment_size: usize,
    /// Bytes of the whole burst: the sum of `slices`, at most [`Capabilities::max_batch`], and at most `segment_size ×`
    /// [`Capabilities::max_segments`].
    pub len: usize,
    /// The payload, gathered. Slice borders and datagram borders are unrelated.
    pub slices: &'a [IoSlice<'a>],
    /// Forbids IP fragmentation. Usually on; off only to send old packets through a path whose MTU has shrunk.
    pub dont_fragment: bool,
    /// The backend gives this token back once ([`Notice::Released`]) if it keeps references to `slices`
    /// ([`Capabilities::holds_references`]).
    pub token: u64,
}

impl Transmit<'_> {
    /// Number of datagrams in the burst.
    #[must_use]
    pub fn segments(&self) -> usize {
        self.len.div_ceil(self.segment_size.max(1))
    }
}

/// Datagrams of one source, back to back in one buffer of the backend.
#[derive(Debug)]
pub struct Received<'a> {
    /// The address of the sender.
    pub source: SocketAddr,
    /// Number of the backend's port at which the datagrams came; 0 with backends that have one.
    pub port: u8,
    /// Bytes per datagram (receive offload); the last datagram may be shorter. Equals `data.len()` for a single datagram.
    pub stride: usize,
    /// The payload.
    pub data: Data<'a>,
}

/// The bytes of received datagrams.
#[derive(Debug)]
pub enum Data<'a> {
    /// They lie in memory of this process. Mutable so that they can be decrypted in place.
    Own(&'a mut [u8]),
    /// One datagram, in memory where another process may be writing: each byte is to be copied, and once only.
    Shared(Span<'a>),
}

impl<'a> Data<'a> {
    /// The bytes, if they lie in memory of this process.
    #[must_use]
    #[inline]
    pub fn own(self) -> Option<&'a mut [u8]> {
        match self {
            Self::Own(bytes) => Some(bytes),
            Self::Shared(_) => None,
        }
    }

    /// Copies the bytes.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        match self {
            Self::Own(bytes) => bytes.to_vec(),
            Self::Shared(span) => span.to_vec(),
        }
    }

    /// Number of bytes.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Self::Own(bytes) => bytes.len(),
            Self::Shared(span) => span.len(),
        }
    }

    /// Returns whether there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<'a> From<&'a mut [u8]> for Data<'a> {
    fn from(bytes: &'a mut [u8]) -> Self {
        Self::Own(bytes)
    }
}

/// The fate of a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The whole burst was taken. (That does not mean that it arrives.)
    All,
    /// Nothing was taken, because queues are full. Try again after [`Backend::wait`] or later.
    Busy,
    /// The burst was dropped for a reason that a resend cures or the protocol handles: no buffers, no route, a datagram
    /// larger than the interface takes, segmentation refused. A statistic counts it. If the burst had to go datagram by
    /// datagram, some of it may have been sent.
    Dropped,
}

/// Why [`Backend::wait`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// There may be something to receive.
    Readable,
    /// The time limit has passed.
    TimedOut,
}

/// Counters of a backend since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct BackendStats {
    /// Datagrams handed to the network.
    pub datagrams_sent: u64,
    /// Bytes of these datagrams.
    pub bytes_sent: u64,
    /// Datagrams received from the network.
    pub datagrams_received: u64,
    /// Bytes of these datagrams.
    pub bytes_received: u64,
    /// System calls (or their equivalent) made to send.
    pub transmit_calls: u64,
    /// System calls made to receive, empty ones included.
    pub receive_calls: u64,
    /// Bursts answered with [`Sent::Dropped`].
    pub dropped: u64,
    /// Bursts answered with [`Sent::Busy`].
    pub busy: u64,
    /// Times that segmentation offload was refused and the burst was sent datagram by datagram instead.
    pub segmentation_refused: u64,
}

/// Hands all counters of [`BackendStats`] to a macro.
macro_rules! with_counters {
    ($macro:ident) => {
        $macro! {
            datagrams_sent, bytes_sent, datagrams_received, bytes_received, transmit_calls, receive_calls, dropped, busy,
            segmentation_refused
        }
    };
}

impl BackendStats {
    /// All counters, by name.
    pub fn fields(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        macro_rules! named {
            ($($field:ident),*) => {{
                let Self { $($field),* } = *self;
                [$((stringify!($field), $field)),*]
            }};
        }
        with_counters!(named).into_iter()
    }
}

impl Sum for BackendStats {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |a, b| {
            macro_rules! added {
                ($($field:ident),*) => {
                    Self { $($field: a.$field + b.$field),* }
                };
            }
            with_counters!(added)
        })
    }
}

impl fmt::Display for BackendStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::table::write_rows(f, &crate::table::rows_of(self.fields()))
    }
}

/// A datagram that the network reports as undeliverable: no process listened at its address. Any host can forge such a
/// report, except for the bytes that it quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreachable<'a> {
    /// The destination of the datagram.
    pub address: SocketAddr,
    /// The beginning of the datagram, as far as the report quotes it: Linux hosts quote 520 bytes and more, others
    /// nothing. At most 256 bytes.
    pub quoted: &'a [u8],
}

/// An event that concerns datagrams that were sent before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice<'a> {
    /// The memory of the burst with this [token](Transmit::token) is free again.
    Released(u64),
    /// The network could not deliver a datagram.
    Unreachable(Unreachable<'a>),
}

/// Carries datagrams.
///
/// No call blocks but [`wait`](Self::wait). Errors mean that the backend cannot be used any more (the socket is gone,
/// the device has vanished); a problem with one datagram or one peer is never an error. Datagrams may be lost,
/// duplicated and reordered: the protocol above copes.
///
/// # How to write one
///
/// Eight methods suffice; the others have defaults for what a backend does not have. Received datagrams stay in the
/// backend's own buffers until the next [`receive`](Self::receive), so that nothing is copied on the way up.
///
/// ```
/// use std::{io, net::SocketAddr, sync::mpsc, thread, time::Duration};
///
/// use hikyaku::{
///     backends::{Backend, BackendStats, Capabilities, Received, Sent, Transmit, Wake},
///     time::Instant,
///     transport::Transport,
/// };
///
/// /// Carries datagrams to one peer, through a channel.
/// struct Pipe {
///     local: SocketAddr,
///     peer: SocketAddr,
///     outgoing: mpsc::Sender<Vec<u8>>,
///     incoming: mpsc::Receiver<Vec<u8>>,
///     /// The datagram of the last receive.
///     current: Vec<u8>,
///     stats: BackendStats,
/// }
///
/// impl Backend for Pipe {
///     fn name(&self) -> &'static str {
///         "pipe"
///     }
///
///     fn capabilities(&self) -> Capabilities {
///         Capabilities::new(1472)
///     }
///
///     fn local_addr(&self) -> SocketAddr {
///         self.local
///     }
///
///     fn transmit(&mut self, _: Instant, transmit: &Transmit<'_>) -> io::Result<Sent> {
///         // The capabilities allow one datagram a burst; its bytes may lie in several places.
///         let datagram: Vec<u8> = transmit.slices.iter().flat_map(|slice| slice.to_vec()).collect();
///         // A datagram that is too large, for another address or for a peer that is gone is dropped, as a network does.
///         let fits = transmit.len <= 1472 && transmit.destination == self.peer;
///         if !fits || self.outgoing.send(datagram).is_err() {
///             self.stats.dropped += 1;
///             return Ok(Sent::Dropped);
///         }
///         self.stats.datagrams_sent += 1;
///         Ok(Sent::All)
///     }
///
///     fn receive(&mut self, _: Instant, budget: usize) -> io::Result<usize> {
///         let Some(datagram) = (budget > 0).then(|| self.incoming.try_recv().ok()).flatten() else {
///             return Ok(0);
///         };
///         self.current = datagram;
///         self.stats.datagrams_received += 1;
///         Ok(1)
///     }
///
///     fn received(&mut self, _: usize) -> Received<'_> {
///         Received {
///             source: self.peer,
///             port: 0,
///             stride: self.current.len(),
///             data: self.current.as_mut_slice().into(),
///         }
///     }
///
///     fn wait(&mut self, timeout: Option<Duration>) -> io::Result<Wake> {
///         // A channel cannot be waited for without taking from it, so this backend naps.
///         thread::sleep(timeout.unwrap_or(Duration::MAX).min(Duration::from_micros(50)));
///         Ok(Wake::Readable)
///     }
///
///     fn stats(&self) -> BackendStats {
///         self.stats
///     }
/// }
///
/// fn pipe() -> [Pipe; 2] {
///     let addresses = [1, 2].map(|port| SocketAddr::from(([192, 0, 2, 1], port)));
///     let ((to_second, from_first), (to_first, from_second)) = (mpsc::channel(), mpsc::channel());
///     let end = |local: usize, outgoing, incoming| Pipe {
///         local: addresses[local],
///         peer: addresses[1 - local],
///         outgoing,
///         incoming,
///         current: Vec::new(),
///         stats: BackendStats::default(),
///     };
///     [end(0, to_second, from_second), end(1, to_first, from_first)]
/// }
///
/// let [first, second] = pipe();
/// let addresses = [first.local_addr(), second.local_addr()];
/// let limit = Duration::from_secs(10);
/// let receiver = thread::spawn(move || {
///     let mut transport = Transport::builder().processor(1).backend(Box::new(second)).unwrap();
///     transport.add_peer(addresses[0], 0).unwrap();
///     assert_eq!(transport.receive(limit).unwrap().data(), b"by a backend of my own");
///     // Acknowledges the message, and says goodbye.
///     transport.close(limit).unwrap();
/// });
/// let mut transport = Transport::builder().processor(0).backend(Box::new(first)).unwrap();
/// let peer = transport.add_peer(addresses[1], 1).unwrap();
/// transport.send(peer, b"by a backend of my own").unwrap();
/// transport.flush(limit).unwrap();
/// transport.close(limit).unwrap();
/// receiver.join().unwrap();
/// ```
///
/// A backend around another one writes only what it changes, and passes the rest on with
/// [`forward_backend!`](crate::forward_backend).
pub trait Backend: Send {
    /// Name as on the command line: `"udp"`, `"loopback"`.
    fn name(&self) -> &'static str;

    /// The abilities of the backend at present.
    fn capabilities(&self) -> Capabilities;

    /// The address at which peers reach this backend.
    fn local_addr(&self) -> SocketAddr;

    /// Sends a burst.
    ///
    /// # Errors
    /// The backend cannot be used any more.
    fn transmit(&mut self, now: Instant, transmit: &Transmit<'_>) -> io::Result<Sent>;

    /// Receives waiting datagrams into the backend's own buffers, at most `budget` buffers (each may hold several
    /// datagrams of one source). Returns the number of filled buffers, which stay valid until the next call.
    ///
    /// # Errors
    /// The backend cannot be used any more.
    fn receive(&mut self, now: Instant, budget: usize) -> io::Result<usize>;

    /// Returns buffer `index` of the last [`receive`](Self::receive).
    ///
    /// # Panics
    /// If `index` is not below the result of `receive`.
    fn received(&mut self, index: usize) -> Received<'_>;

    /// Sleeps until something can be received or the time limit has passed (`None`: no limit). May wake early for no
    /// reason.
    ///
    /// # Errors
    /// The backend cannot be used any more.
    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<Wake>;

    /// Counters since the backend was opened.
    fn stats(&self) -> BackendStats;

    /// Passes to `each` what has happened, since the last call, to datagrams that were sent. By default nothing.
    fn poll_notices(&mut self, each: &mut dyn FnMut(Notice<'_>)) {
        let _ = each;
    }

    /// The file descriptor to watch for readability, for programs that drive a backend from their own event loop.
    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// All file descriptors to poll before a sleep; none if the backend cannot be waited for by descriptors. By default
    /// that of [`as_fd`](Self::as_fd). A backend that watches several sockets by one descriptor (epoll) pays for that with
    /// each packet that comes, so it need not begin to for those that can poll all.
    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.as_fd().into_iter().collect()
    }

    /// The time at which to call [`receive`](Self::receive) again even if the descriptor has not become readable (for a
    /// backend that delays datagrams); `None`: never.
    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    /// The ports of a backend that has several, in the order of their numbers; none if it is one itself.
    fn ports(&self) -> &[Box<dyn Backend>] {
        &[]
    }

    /// The neighbours of the backend, if peers need to know more of each other than their addresses.
    fn neighbours(&mut self) -> Option<&mut dyn Neighbours> {
        None
    }
}

/// The facts that backends exchange beside their addresses, so that none has to ask the network: an Ethernet address,
/// for instance. The wire-up of a job carries it from each process to all others.
pub trait Neighbours {
    /// Returns the bytes that peers need to reach this backend, beside its address. At most 64 bytes.
    fn link_address(&self) -> Vec<u8>;

    /// Takes the [`link_address`](Self::link_address) of the backend at `address`. A backend that does not understand
    /// it ignores it, if it can find the peer without.
    ///
    /// # Errors
    /// The peer cannot be reached by this information; the error says why, and what to do.
    fn introduce(&mut self, address: SocketAddr, link: &[u8]) -> io::Result<()>;

    /// All peers have been introduced: says how they are reached.
    ///
    /// # Errors
    /// Some peer cannot be reached in the way that was asked for; the error says why.
    fn meet(&mut self) -> io::Result<Met> {
        Ok(Met::default())
    }

    /// This process begins nothing more: peers that wait for it may have to learn of it, also those that it has never
    /// talked with.
    fn leave(&mut self) {}
}

/// How the peers are reached that were introduced ([`Neighbours::meet`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Met {
    /// The number of peers that are reached through memory.
    pub memory: usize,
    /// The reason why a peer of this host is reached over the network, if one is and this process is the one to say so:
    /// of several processes of a host with the same reason, the one with the lowest number is.
    pub obstacle: Option<String>,
}

impl<B: Backend + ?Sized> Backend for Box<B> {
    forward_backend!(self => (**self));
}
