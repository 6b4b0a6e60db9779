//! Backends move datagrams and know nothing of the protocol.
//!
//! A backend sends bursts of equal-sized datagrams gathered from several places in memory, receives bursts into
//! buffers of its own, and can sleep until something arrives. Backends are chosen at build time by feature and at run
//! time by name, and they stack: `Impaired` makes any of them bad on purpose, `Captured` writes what passes
//! through any of them to a pcapng file.

pub mod captured;
#[cfg(all(feature = "dpdk", target_os = "linux"))]
pub mod dpdk;
mod forward;
pub mod impaired;
#[cfg(feature = "loopback")]
pub mod loopback;
pub mod pcapng;
#[cfg(all(feature = "poller", target_os = "linux"))]
pub mod poller;
#[cfg(any(feature = "loopback", all(feature = "udp", target_os = "linux")))]
mod pool;
#[cfg(any(feature = "loopback", feature = "poller", all(feature = "udp", target_os = "linux")))]
mod refusals;
mod registry;
#[cfg(test)]
mod script;
#[cfg(all(feature = "udp", target_os = "linux"))]
pub mod udp;

use std::{
    io::{self, IoSlice},
    net::SocketAddr,
    os::fd::BorrowedFd,
    time::Duration,
};

use bytes::Bytes;

pub use self::{
    captured::Captured,
    impaired::{Impaired, Impairments},
    registry::{BindError, BindOptions, Place, available, bind, has_own_addresses},
};
use crate::{forward_backend, time::Instant};

/// What a backend can do, as data; may change at run time (GSO refused by the kernel), so ask again after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// Largest datagram (UDP payload, octets) that the local interface takes without IP fragmentation.
    pub max_datagram: usize,
    /// Most datagrams in one [`Transmit`]; 1: no segmentation offload.
    pub max_segments: usize,
    /// Most octets in one [`Transmit`].
    pub max_batch: usize,
    /// Octets that may wait at the receiving side before datagrams are lost to overflow.
    pub receive_buffer: usize,
    /// Somebody below checks the payload (UDP checksum, Ethernet FCS, plain memory), so ours can stay off.
    pub checksummed: bool,
    /// [`Backend::transmit`] may still refer to the payload after it has returned; such references come back through
    /// [`Backend::reclaim`]. When false they are all free when `transmit` returns.
    pub holds_references: bool,
    /// Octets after which it is worth a datagram to tell their sender that they have come, because a datagram costs less
    /// than what is gained when memory is used again as long as it is in a cache; `usize::MAX`: it is not.
    pub ack_bytes: usize,
    /// UDP port at which it receives, if its datagrams come from another one; else 0.
    pub receive_port: u16,
}

/// One burst to one destination: consecutive datagrams of `segment_size` octets each, the last may be shorter.
#[derive(Clone, Copy, Debug)]
pub struct Transmit<'a> {
    /// Where to.
    pub destination: SocketAddr,
    /// Octets per datagram. At least 1 and at most [`Capabilities::max_datagram`] (more only with
    /// `dont_fragment` off).
    pub segment_size: usize,
    /// Octets in all: the sum of `slices`, at most [`Capabilities::max_batch`], and at most
    /// `segment_size ×` [`Capabilities::max_segments`].
    pub len: usize,
    /// The octets, gathered. Slice borders and datagram borders are unrelated.
    pub slices: &'a [IoSlice<'a>],
    /// Forbid IP fragmentation (the rule; off only to get old packets through a path whose MTU has shrunk).
    pub dont_fragment: bool,
    /// Comes back once through [`Backend::reclaim`] if the backend keeps references to `slices`
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
    /// Where from.
    pub source: SocketAddr,
    /// Octets per datagram (receive offload); the last may be shorter. Equals `data.len()` for a lone datagram.
    pub stride: usize,
    /// The octets. Mutable so that they can be decrypted in place.
    pub data: &'a mut [u8],
}

/// What became of a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Taken whole. (That does not say that it arrives.)
    All,
    /// Not taken: queues are full. Nothing of it was sent; try again after [`Backend::wait`] or later.
    Busy,
    /// Thrown away for a reason that sending again cures or the protocol handles (no buffers, no route, datagram
    /// larger than the interface takes, segmentation refused); a statistic counts it. When a burst had to go datagram
    /// by datagram, some of it may have been sent.
    Dropped,
}

/// Why [`Backend::wait`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// There may be something to receive.
    Readable,
    /// The time is over.
    TimedOut,
}

/// Counters of a backend since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackendStats {
    /// Datagrams handed to the network.
    pub datagrams_sent: u64,
    /// Octets of them.
    pub bytes_sent: u64,
    /// Datagrams got from the network.
    pub datagrams_received: u64,
    /// Octets of them.
    pub bytes_received: u64,
    /// System calls (or their like) made to send.
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

/// A datagram for which nobody listened, as the network says. Anybody can forge this but for what it quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreachable<'a> {
    /// Where the datagram went.
    pub address: SocketAddr,
    /// How the datagram began, as far as that was quoted: Linux hosts quote 520 bytes and more, others nothing. At most
    /// 256 bytes.
    pub quoted: &'a [u8],
}

/// Carries datagrams. See the module's documentation.
///
/// All calls are non-blocking but [`wait`](Self::wait). Errors are for what ends the backend's use (the socket is
/// gone, the device has vanished); what concerns one datagram or one peer is never an error.
pub trait Backend: Send {
    /// Name as on the command line: `"udp"`, `"loopback"`.
    fn name(&self) -> &'static str;

    /// What it can do now.
    fn capabilities(&self) -> Capabilities;

    /// It carries no datagrams but records between us and a process that has an endpoint for us.
    fn is_link(&self) -> bool {
        false
    }

    /// Beside its datagrams it carries the records of a link, to and from
    /// [`LINK`](crate::reliability::delegated::LINK): what that can do.
    fn link_beside(&self) -> Option<Capabilities> {
        None
    }

    /// The address at which others reach it.
    fn local_addr(&self) -> SocketAddr;

    /// Sends a burst.
    ///
    /// # Errors
    /// The backend can not be used any more.
    fn transmit(&mut self, now: Instant, transmit: &Transmit<'_>) -> io::Result<Sent>;

    /// Tells the tokens of bursts whose memory is free again.
    fn reclaim(&mut self, free: &mut dyn FnMut(u64)) {
        let _ = free;
    }

    /// Receives what is there into its own buffers, at most `budget` of them (each may hold several datagrams of one
    /// source). Gives the number filled; they stay valid until the next call.
    ///
    /// # Errors
    /// The backend can not be used any more.
    fn receive(&mut self, now: Instant, budget: usize) -> io::Result<usize>;

    /// Buffer `index` of the last [`receive`](Self::receive).
    ///
    /// # Panics
    /// If `index` is not below what `receive` gave.
    fn received(&mut self, index: usize) -> Received<'_>;

    /// Takes buffer `index` of the last [`receive`](Self::receive) out on loan: it goes back to the backend when the
    /// last handle is dropped, on any thread.
    ///
    /// # Panics
    /// If `index` is not below what `receive` gave, or is taken twice.
    fn take(&mut self, index: usize) -> Bytes;

    /// Sleeps until something can be received or the time is over (`None`: no limit). May wake early for no reason.
    ///
    /// # Errors
    /// The backend can not be used any more.
    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<Wake>;

    /// What others must know besides its address to reach it without asking, for instance an Ethernet address: whoever
    /// wires a job up tells it to the others' [`introduce`](Self::introduce). At most 64 octets; none: nothing.
    fn link_address(&self) -> Vec<u8> {
        Vec::new()
    }

    /// Tells the [`link_address`](Self::link_address) of the backend at `address`. What can not be understood is ignored
    /// if it can be found as if nobody had said anything.
    ///
    /// # Errors
    /// It can not be reached by what it says: why, and what to do.
    fn introduce(&mut self, address: SocketAddr, link: &[u8]) -> io::Result<()> {
        let _ = (address, link);
        Ok(())
    }

    /// A datagram of ours for which nobody listened, if the network has said so (ICMP port unreachable). Valid until the
    /// next call.
    fn poll_unreachable(&mut self) -> Option<Unreachable<'_>> {
        None
    }

    /// The file descriptor to watch for readability, for those who drive a backend from an event loop of their own.
    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// When to call [`receive`](Self::receive) again even though nothing becomes readable (a backend that delays
    /// datagrams); `None`: never.
    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    /// Counters since the start.
    fn stats(&self) -> BackendStats;
}

impl<B: Backend + ?Sized> Backend for Box<B> {
    forward_backend!(self => (**self));
}
