//! Ways between the processes of a job: processes of one host talk through memory, all others over the network.
//!
//! - [`Identity`](identity::Identity) is what a process publishes of itself, so that each pair learns whether it shares a host.
//! - [`Door`](door::Door) is the socket at which processes of one host meet and get a memory in common, when one of them first
//!   sends something to the other.
//! - [`Outward`](pair::Outward) and [`Inward`](pair::Inward) carry packets through that memory, a ring each.
//! - [`Routed`] is the backend: that of the network, with the memories beside it. Its packet layer is a
//!   [`Beside`](crate::reliability::Beside).
//!
//! - [`MemoryBackend`] is that of a transport without a job: only memory.
//!
//! - [`Passing`](passing::Passing) passes the memory of windows on.
//!
//! Two processes of a job share memory if their identities say so, which both compare, so that both use the same way. A
//! process finds out whether it can have memory at all before it publishes its own.

mod attached;
mod backend;
mod claim;
mod door;
mod identity;
mod links;
mod memory;
mod near;
mod pair;
#[cfg(feature = "mpi")]
mod passing;
mod socket;
mod streams;
#[cfg(test)]
mod tests;
mod watched;

#[cfg(feature = "mpi")]
pub(crate) use self::passing::{Passing, domain};
pub(crate) use self::{backend::Routed, memory::MemoryBackend};
use crate::reliability::Limits;

/// The limits of the packet layer of memory.
fn limits() -> Limits {
    Limits {
        max_datagram: pair::LONGEST,
        max_segments: 1,
        max_batch: pair::LONGEST,
        receive_buffer: pair::LONGEST,
        holds_references: false,
        ack_bytes: usize::MAX,
        receive_port: 0,
    }
}
