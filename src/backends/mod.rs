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
#[cfg(any(feature = "loopback", all(feature = "udp", target_os = "linux")))]
mod pool;
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
#[cfg(all(feature = "udp", target_os = "linux"))]
pub mod udp;

use std::{
    fmt,
    io::{self, IoSlice},
    net::SocketAddr,
    os::fd::BorrowedFd,
    time::Duration,
};

use bytes::Bytes;

#[cfg(all(any(feature = "poller", feature = "shm"), target_os = "linux"))]
pub(crate) use self::refusals::Refusals;
pub use self::{
    captured::Captured,
    impaired::{Impaired, Impairments},
    registry::{BindError, BindOptions, Place, available, bind, has_own_addresses},
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
    /// [`Backend::transmit`] may still refer to the payload after it has returned; such references come back through
    /// [`Backend::reclaim`]. When false they are all free when `transmit` returns.
    pub holds_references: bool,
    /// The receiver acknowledges after this many bytes, even at the price of a datagram: the sender then uses its
    /// memory again while it is in a cache, which saves more than the datagram costs. `usize::MAX`: early
    /// acknowledgements do not pay.
    pub ack_bytes: usize,
    /// UDP port at which this backend receives, if its datagrams leave from another one; else 0.
    pub receive_port: u16,
}

/// One burst to one destination: consecutive datagrams of `segment_size` bytes each, the last may be shorter.
#[derive(Clone, Copy, Debug)]
pub struct Transmit<'a> {
    /// The address of the receiver.
    pub destination: SocketAddr,
    /// Bytes per datagram. At least 1 and at most [`Capabilities::max_datagram`] (more only with `dont_fragment` off).
    pub segment_size: usize,
    /// Bytes of the whole burst: the sum of `slices`, at most [`Capabilities::max_batch`], and at most `segment_size ×`
    /// [`Capabilities::max_segments`].
    pub len: usize,
    /// The payload, gathered. Slice borders and datagram borders are unrelated.
    pub slices: &'a [IoSlice<'a>],
    /// Forbids IP fragmentation. Usually on; off only to send old packets through a path whose MTU has shrunk.
    pub dont_fragment: bool,
    /// The backend returns this token once through [`Backend::reclaim`] if it keeps references to `slices`
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
    /// Bytes per datagram (receive offload); the last datagram may be shorter. Equals `data.len()` for a lone datagram.
    pub stride: usize,
    /// The payload. Mutable so that it can be decrypted in place.
    pub data: &'a mut [u8],
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

/// How the peers are reached that were introduced ([`Backend::meet`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Met {
    /// The number of peers that are reached through memory.
    pub memory: usize,
    /// The reason why a peer of this host is reached over the network, if one is.
    pub obstacle: Option<String>,
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

impl BackendStats {
    /// All counters, by name.
    pub fn fields(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        macro_rules! fields {
            ($($field:ident,)*) => {{
                let Self { $($field,)* } = *self;
                [$((stringify!($field), $field),)*]
            }};
        }
        let fields = fields! {
            datagrams_sent,
            bytes_sent,
            datagrams_received,
            bytes_received,
            transmit_calls,
            receive_calls,
            dropped,
            busy,
            segmentation_refused,
        };
        fields.into_iter()
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

/// Carries datagrams. See the module's documentation.
///
/// No call blocks but [`wait`](Self::wait). Errors mean that the backend can not be used any more (the socket is gone,
/// the device has vanished); a problem with one datagram or one peer is never an error.
pub trait Backend: Send {
    /// Name as on the command line: `"udp"`, `"loopback"`.
    fn name(&self) -> &'static str;

    /// The abilities of the backend at present.
    fn capabilities(&self) -> Capabilities;

    /// Returns whether the backend is a link. A link carries no datagrams, but records between this process and one
    /// that has an endpoint for it.
    fn is_link(&self) -> bool {
        false
    }

    /// The abilities of a link beside this backend, if there is one. The backend then carries the link's records to and
    /// from the address `0.0.0.0:0`, in addition to datagrams.
    fn link_beside(&self) -> Option<Capabilities> {
        None
    }

    /// The address at which peers reach this backend.
    fn local_addr(&self) -> SocketAddr;

    /// Sends a burst.
    ///
    /// # Errors
    /// The backend can not be used any more.
    fn transmit(&mut self, now: Instant, transmit: &Transmit<'_>) -> io::Result<Sent>;

    /// Passes to `free` the tokens of bursts whose memory is free again.
    fn reclaim(&mut self, free: &mut dyn FnMut(u64)) {
        let _ = free;
    }

    /// Receives waiting datagrams into the backend's own buffers, at most `budget` buffers (each may hold several
    /// datagrams of one source). Returns the number of filled buffers, which stay valid until the next call.
    ///
    /// # Errors
    /// The backend can not be used any more.
    fn receive(&mut self, now: Instant, budget: usize) -> io::Result<usize>;

    /// Returns buffer `index` of the last [`receive`](Self::receive).
    ///
    /// # Panics
    /// If `index` is not below the result of `receive`.
    fn received(&mut self, index: usize) -> Received<'_>;

    /// Returns buffer `index` of the last [`receive`](Self::receive) as bytes to copy from, each once, if the buffer is
    /// a record of a link ([`is_link`](Self::is_link), [`link_beside`](Self::link_beside)) in memory where another
    /// process may be writing. [`received`](Self::received) returns a copy of such a record. `None`: the buffer is no
    /// such record.
    ///
    /// # Panics
    /// If `index` is not below the result of `receive`.
    fn record(&mut self, index: usize) -> Option<Span<'_>> {
        let _ = index;
        None
    }

    /// Lends out buffer `index` of the last [`receive`](Self::receive). The buffer returns to the backend when the last
    /// handle is dropped, on any thread.
    ///
    /// # Panics
    /// If `index` is not below the result of `receive`, or was taken already.
    fn take(&mut self, index: usize) -> Bytes;

    /// Sleeps until something can be received or the time limit has passed (`None`: no limit). May wake early for no
    /// reason.
    ///
    /// # Errors
    /// The backend can not be used any more.
    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<Wake>;

    /// Information, beside the address, that peers need to reach this backend without asking the network, for instance
    /// an Ethernet address. The wire-up of a job passes it to the peers' [`introduce`](Self::introduce). At most 64
    /// bytes; by default none.
    fn link_address(&self) -> Vec<u8> {
        Vec::new()
    }

    /// Takes the [`link_address`](Self::link_address) of the backend at `address`. A backend that does not understand
    /// it ignores it, if it can find the peer without.
    ///
    /// # Errors
    /// The peer can not be reached by this information; the error says why, and what to do.
    fn introduce(&mut self, address: SocketAddr, link: &[u8]) -> io::Result<()> {
        let _ = (address, link);
        Ok(())
    }

    /// All peers have been introduced, and do the same: makes connections to those that are reached better than over the
    /// network. Waits for them.
    ///
    /// # Errors
    /// Some peer can not be reached in the way that was asked for; the error says why.
    fn meet(&mut self) -> io::Result<Met> {
        Ok(Met::default())
    }

    /// Returns a datagram of this backend for which no process listened, if the network has said so (ICMP port
    /// unreachable). Valid until the next call.
    fn poll_unreachable(&mut self) -> Option<Unreachable<'_>> {
        None
    }

    /// The file descriptor to watch for readability, for programs that drive a backend from their own event loop.
    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// The time at which to call [`receive`](Self::receive) again even if the descriptor has not become readable (for a
    /// backend that delays datagrams); `None`: never.
    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    /// Counters since the backend was opened.
    fn stats(&self) -> BackendStats;
}

impl<B: Backend + ?Sized> Backend for Box<B> {
    forward_backend!(self => (**self));
}
