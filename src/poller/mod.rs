//! The node-wide poller: a process that owns a port, polls it all the time, and runs the protocol for the processes of its
//! host (the DPDK paper, section 4.1; `docs/papers.md`).
//!
//! - [`protocol`]: what a process and its poller say to each other, without IO. A [`ProxyEndpoint`] is the
//!   [packet layer](crate::reliability::PacketLayer) of a process whose endpoint is in the poller; a [`ProxyServer`] has
//!   that endpoint. A [`DualPath`] sends messages by way of the poller, and placements from process to process.
//! - `PollerBackend`: the way of a process to its poller, through shared memory. `Joined` is one with a backend of the
//!   process's own beside it. (Feature `poller`.)
//! - `Poller`: the process that polls. (Feature `dpdk`.)

#[cfg(all(feature = "poller", target_os = "linux"))]
mod backend;
#[cfg(all(feature = "dpdk", target_os = "linux"))]
mod daemon;
#[cfg(all(feature = "poller", target_os = "linux"))]
mod error;
#[cfg(all(feature = "poller", target_os = "linux"))]
#[cfg_attr(
    not(any(feature = "dpdk", all(test, feature = "mpi"))),
    expect(dead_code, reason = "the poller's half")
)]
mod hello;
#[cfg(all(feature = "poller", target_os = "linux"))]
mod joined;
#[cfg(all(feature = "poller", target_os = "linux"))]
mod layout;
#[cfg(all(feature = "poller", target_os = "linux"))]
mod path;
pub mod protocol;
#[cfg(all(test, feature = "poller", target_os = "linux"))]
mod tests;

#[cfg(all(feature = "dpdk", target_os = "linux"))]
pub use self::daemon::{Poller, PollerOptions, PollerPort, PollerStats, Reason, StartError, default_socket};
pub use self::protocol::{Broken, DualPath, ProxyEndpoint, ProxyServer};
#[cfg(all(feature = "poller", target_os = "linux"))]
pub(crate) use self::{backend::NAME, path::open};
#[cfg(all(feature = "poller", target_os = "linux"))]
pub use self::{
    backend::{BULK_VARIABLE, PollerBackend, VARIABLE},
    error::PollerError,
    joined::Joined,
    path::Path,
};
