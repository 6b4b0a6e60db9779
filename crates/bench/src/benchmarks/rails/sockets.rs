//! Bare sockets, one at each rail.

use std::{fmt::Display, io, net::SocketAddr};

use hikyaku::{
    backends::{
        Backend, Sent, Transmit,
        ports::Ports,
        udp::{UdpBackend, UdpOptions},
    },
    time::Instant,
};

pub(super) fn failed(error: impl Display) -> io::Error {
    io::Error::other(error.to_string())
}

/// Sockets that are handed datagrams in the largest pieces that they take.
pub(super) struct Flood {
    pub(super) backend: Ports,
    data: Vec<u8>,
    segment_size: usize,
}

impl Flood {
    pub(super) fn bind(addresses: &[SocketAddr]) -> io::Result<Self> {
        let backend = UdpBackend::bind_ports(addresses, &UdpOptions::default())?;
        let can = backend.capabilities();
        let segment_size = can.max_datagram;
        let segments = can.max_segments.min(can.max_batch / segment_size).max(1);
        Ok(Self {
            backend,
            data: vec![0xa5; segments * segment_size],
            segment_size,
        })
    }

    /// Sends one piece. `false`: that socket is full.
    pub(super) fn send(&mut self, port: u8, destination: SocketAddr) -> io::Result<bool> {
        let transmit = Transmit {
            destination,
            port,
            segment_size: self.segment_size,
            len: self.data.len(),
            slices: &[io::IoSlice::new(&self.data)],
            dont_fragment: true,
            token: 0,
        };
        Ok(self.backend.transmit(Instant::ZERO, &transmit)? == Sent::All)
    }

    /// Takes what has come: so many bytes, 0 if there is nothing.
    pub(super) fn take(&mut self) -> io::Result<usize> {
        let filled = self.backend.receive(Instant::ZERO, 16)?;
        Ok((0..filled).map(|index| self.backend.received(index).data.len()).sum())
    }
}
