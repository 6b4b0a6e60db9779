//! A backend that has every UDP port of its address, for a process that serves others: the node-wide poller.
//!
//! Packets lie in memory that others may look at, and can be lent to them.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use super::{
    DpdkBackend, DpdkError, DpdkOptions, DpdkPort,
    frame::{Usual, destination_port},
    sys::{Payload, Pool},
};
use crate::backends::poller::memory::Memory;

/// A packet that has been lent: its buffer goes back when this is dropped.
pub(crate) struct Lent {
    _payload: Payload,
    /// Dropped after the packet.
    _pool: Arc<Pool>,
}

/// Memory for the packets of a port, and how many there are.
pub(crate) struct Lending {
    pub(crate) memory: Arc<Memory>,
    pub(crate) buffers: u32,
}

/// Bytes of memory that `buffers` packets take with these options: whole pages.
pub(crate) fn lending_size(options: &DpdkOptions, buffers: u32) -> usize {
    const PAGE: usize = 4_096;
    let room = options.device.buffer(options.packet_size());
    (buffers as usize * Pool::element(room)).next_multiple_of(PAGE)
}

impl DpdkPort {
    /// A backend for all UDP ports of `ip`, with all eager queues. No other backend of this port is at that address.
    pub(crate) fn bind_whole(&self, ip: IpAddr) -> Result<DpdkBackend, DpdkError> {
        let queues = self.shared.options.queues;
        let mut backend = self.bind(SocketAddr::new(ip, 0), queues)?;
        backend.whole = true;
        backend.usual = Usual::NONE;
        Ok(backend)
    }
}

impl DpdkBackend {
    /// Datagrams sent from now on leave from this UDP port.
    #[inline]
    pub(crate) fn send_from(&mut self, port: u16) {
        self.host.addr.set_port(port);
    }

    /// The UDP port for which datagram `index` of the last receive is, as long as the bytes before it are untouched.
    #[inline]
    pub(crate) fn received_port(&mut self, index: usize) -> u16 {
        destination_port(self.slots[index].payload().headers())
    }

    /// Where datagram `index` comes from, and its bytes with the `before` bytes before them, which are free to use (at
    /// most the headers of UDP and IP).
    #[inline]
    pub(crate) fn received_with(&mut self, index: usize, before: usize) -> (SocketAddr, &mut [u8]) {
        let slot = &mut self.slots[index];
        let source = slot.source;
        (source, slot.payload().data_with(before))
    }

    /// Takes the packet of datagram `index` away.
    #[inline]
    pub(crate) fn lend(&mut self, index: usize) -> Lent {
        Lent {
            _payload: self.slots[index].take(),
            _pool: Arc::clone(&self.port.shared.pools.receive),
        }
    }
}
