//! A way to a host.

use core::net::SocketAddr;

/// Most rails of a session, counting the first.
pub const MAX_RAILS: usize = 16;

/// A way to a host: an address there, and the port of the backend here (a network interface) by which its datagrams leave
/// and come. An address alone stands for port 0, which is the only one of most backends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// The address of the host.
    pub address: SocketAddr,
    /// The number of the backend's port.
    pub port: u8,
}

impl Path {
    /// The way to `address` by a port of the backend.
    #[must_use]
    pub const fn new(address: SocketAddr, port: u8) -> Self {
        Self { address, port }
    }
}

impl From<SocketAddr> for Path {
    #[inline]
    fn from(address: SocketAddr) -> Self {
        Self { address, port: 0 }
    }
}
