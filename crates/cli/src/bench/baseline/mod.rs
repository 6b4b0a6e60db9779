//! What hikyaku is compared with.

pub(crate) mod segments;
pub(crate) mod tcp;
pub(crate) mod udp;
pub(crate) mod wait;
