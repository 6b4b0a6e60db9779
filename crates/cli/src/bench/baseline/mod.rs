//! What hikyaku is compared with.

#[cfg(feature = "peers")]
pub(crate) mod kcp;
#[cfg(feature = "dpdk")]
pub(crate) mod memif;
#[cfg(feature = "peers")]
pub(crate) mod quinn;
pub(crate) mod segments;
pub(crate) mod tcp;
pub(crate) mod udp;
pub(crate) mod wait;
