//! A backend for all UDP ports of its address, for a process that serves others: the node-wide poller.
//!
//! Its packets lie in memory that other processes may read, and can be lent to them.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use super::{
    DpdkBackend, DpdkError, DpdkOptions, DpdkPort,
    frame::{Usual, destination_port},
    sys::{Payload, Pool},
};

/// A packet on loan. Its buffer goes back to the pool when this is dropped.
pub(crate) struct Lent {
    _payload: Payload,
    /// Dropped after the packet.
    _pool: Arc<Pool>,
}

/// The most bytes of a packet, as a buffer has room for it.
pub(crate) fn lending_room(options: &DpdkOptions) -> u16 {
    options.device.buffer(options.packet_size())
}

/// Bytes of memory that `buffers` for packets of up to `room` bytes take, in whole pages.
pub(crate) fn lending_size(room: u16, buffers: u32) -> usize {
    const PAGE: usize = 4_096;
    (buffers as usize * Pool::element(room)).next_multiple_of(PAGE)
}

impl DpdkPort {
    /// Makes a backend for all UDP ports of `ip`, with all eager queues. No other backend of this port may use that
    /// address.
    pub(crate) fn bind_exclusive(&self, ip: IpAddr) -> Result<DpdkBackend, DpdkError> {
        let queues = self.shared.options.queues;
        let mut backend = self.bind(SocketAddr::new(ip, 0), queues)?;
        backend.exclusive = true;
        backend.usual = Usual::NONE;
        Ok(backend)
    }
}

impl DpdkBackend {
    /// Sets the UDP port from which datagrams are sent from now on.
    #[inline]
    pub(crate) fn send_from(&mut self, port: u16) {
        self.host.addr.set_port(port);
    }

    /// The destination UDP port of datagram `index` of the last receive. The bytes before the datagram must be
    /// unchanged.
    #[inline]
    pub(crate) fn received_port(&mut self, index: usize) -> u16 {
        destination_port(self.slots[index].payload().headers())
    }

    /// The source of datagram `index`, and its bytes together with the `before` bytes before them, which the caller may
    /// use (at most the headers of UDP and IP).
    #[inline]
    pub(crate) fn received_with(&mut self, index: usize, before: usize) -> (SocketAddr, &mut [u8]) {
        let slot = &mut self.slots[index];
        let source = slot.source;
        (source, slot.payload().data_with(before))
    }

    /// Takes the packet of datagram `index` out of its slot.
    #[inline]
    pub(crate) fn lend(&mut self, index: usize) -> Lent {
        Lent {
            _payload: self.slots[index].take(),
            _pool: Arc::clone(&self.port.shared.pools.receive),
        }
    }
}
