//! The benchmarks: each module says what it does and prints.

pub(crate) mod bandwidth;
pub(crate) mod cache_line;
pub(crate) mod collective;
pub(crate) mod connect_ahead;
pub(crate) mod copy;
pub(crate) mod core;
pub(crate) mod dse;
mod endpoints;
pub(crate) mod figure11;
pub(crate) mod idle_peers;
pub(crate) mod incast;
pub(crate) mod latency;
#[cfg(feature = "sim")]
pub(crate) mod meshes;
pub(crate) mod overflow;
pub(crate) mod pairs;
pub(crate) mod rails;
pub(crate) mod rate;
mod sockets;
mod streaming;
pub(crate) mod within_host;
