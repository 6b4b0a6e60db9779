//! Rings of small records, from one thread or process to another, in memory that both see.
//!
//! A record is one cache line: a flag, a few fields, and up to [`ROOM`] bytes; or two lines, if it has up to 60 bytes more.
//! The producer writes a line once and the consumer reads it once; neither reads a counter of the other to pass a record on.
//! The bytes of a longer record, up to
//! [`LONG`], lie in chunks beside the lines, where the producer has found room; its line says where. (Bytes never lie in
//! place of a flag, which they could look like.) Of more than 8 KB the consumer copies one piece while the producer copies
//! the next. The flag of a line is the number of its record, so a line needs no clearing. The consumer publishes how far
//! it is once a quarter of the ring, and the producer looks there only when the ring seems to be full. Where bytes lie is
//! the producer's choice alone: a stream walks through more memory, which its owner lends and takes back.
//!
//! A consumer that is about to sleep says so ([`Consumer::set_asleep`]); a producer that finds it asleep
//! ([`Producer::wakes`]) must wake it by other means.

mod cell;
#[cfg(feature = "std")]
mod exchange;
mod fence;
mod lines;
mod owner;
mod pieces;
mod places;
mod record;
#[cfg(all(test, feature = "std"))]
mod tests;

use core::{fmt, net::SocketAddr};

#[cfg(feature = "mpi")]
pub(crate) use self::cell::PIECE;
#[cfg(feature = "std")]
pub use self::exchange::Exchange;
#[cfg(all(feature = "shm", target_os = "linux"))]
pub(crate) use self::lines::Place;
pub use self::lines::{Consumer, Front, LONG, Producer, ring};
#[cfg(all(feature = "shm", target_os = "linux"))]
pub(crate) use self::owner::Owner;
pub use self::record::ROOM;
pub(crate) use self::{pieces::Pieces, record::TWO};
use crate::copies;

/// The parts of the ring. Its models use the same sources with loom's atomics.
mod primitives {
    pub(super) use alloc::sync::Arc;
    pub(super) use core::hint;

    pub(super) mod atomic {
        pub(in super::super) use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

        pub(in super::super) use super::super::fence::fence;
    }
}

/// One side of a session between two processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Side {
    /// Its processor.
    pub processor: u32,
    /// Its session with the other side.
    pub session: u32,
    /// Its incarnation.
    pub epoch: u64,
}

/// Joins two sides that see the same memory.
pub trait Meet: fmt::Debug + Send {
    /// Gives `own` side its ends of the two rings between it and the `other` side, whose address is `at`, once; `None`: there
    /// are none.
    fn meet(&mut self, at: SocketAddr, own: Side, other: Side) -> Option<(Producer, Consumer)>;

    /// Returns whether the program waits by itself until a descriptor is readable. Then this side says that it sleeps
    /// whenever it does not look.
    fn is_watched(&self) -> bool {
        false
    }
}
