//! Bursts that wait beside others.

use std::net::SocketAddr;

/// A burst that waits for room in its port.
pub(super) struct Parked {
    pub(super) port: u8,
    pub(super) destination: SocketAddr,
    pub(super) segment_size: usize,
    pub(super) dont_fragment: bool,
    pub(super) bytes: Vec<u8>,
}
