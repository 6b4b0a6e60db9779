//! Memory that two processes of one host share, and how they come to share it.
//!
//! - A [`Segment`] is memory in a sealed file without a name (`memfd`). Its descriptor is passed over a Unix socket.
//! - A ring ([`Producer`], [`Consumer`]) carries records of bytes from one process to another, through a segment.
//! - [`Extents`] keeps the books of a part of a segment in which records lie that are too large for a ring.
//! - A [`handshake`] passes messages of fixed length, with descriptors, over a Unix socket.
//! - A [`Credentials`] value names the process at the other end of that socket, and says whether it is trusted.
//!
//! # Trust
//!
//! The other process may be broken, and write anything at any time. So nothing here makes a reference to bytes of a
//! segment: numbers are read once, as atomics, and bytes are copied. Positions in a ring are checked against what is
//! possible: a broken process cannot make this one read or write outside the segment.

#[cfg(feature = "poller")]
mod extents;
pub(crate) mod handshake;
#[cfg_attr(
    not(feature = "dpdk"),
    expect(dead_code, reason = "the half of the process that makes the memory")
)]
mod ring;
#[cfg_attr(
    not(feature = "dpdk"),
    expect(dead_code, reason = "the half of the process that makes the memory")
)]
mod segment;
#[cfg(test)]
mod tests;
mod trust;

#[cfg(feature = "poller")]
pub(crate) use self::extents::Extents;
#[cfg(feature = "shm")]
pub(crate) use self::ring::taken;
#[cfg(all(test, feature = "poller"))]
pub(crate) use self::trust::NOBODY;
#[cfg(test)]
pub(crate) use self::trust::as_nobody;
#[cfg(all(test, feature = "shm"))]
pub(crate) use self::trust::{without_call, without_shared_memory};
pub(crate) use self::{
    ring::{CONTROL, Consumer, Corrupt, Found, Place, Producer},
    segment::{Access, Segment},
    trust::Credentials,
};
use crate::{copies, sync::primitives};
