//! The compared transports: hikyaku, its MPI, and others. Each answers as a *hub* and asks as a *spoke* ([`link`]).

pub(crate) mod device;
mod hikyaku;
#[cfg(feature = "peers")]
mod kcp;
pub(crate) mod link;
#[cfg(feature = "dpdk")]
mod memif;
mod mpi;
pub(crate) mod open;
pub(crate) mod openmpi;
#[cfg(feature = "peers")]
mod quinn;
pub(crate) mod segments;
pub(crate) mod settings;
pub(crate) mod sizes;
mod tcp;
pub(crate) mod timeout;
mod udp;
mod wait;
