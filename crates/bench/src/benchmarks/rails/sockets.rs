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
        let mut flood = Self::of(addresses, 0)?;
        let can = flood.backend.capabilities();
        flood.segment_size = can.max_datagram;
        let segments = can.max_segments.min(can.max_batch / can.max_datagram).max(1);
        flood.data = vec![0xa5; segments * can.max_datagram];
        Ok(flood)
    }

    /// Each piece is one datagram of `size` bytes.
    pub(super) fn of(addresses: &[SocketAddr], size: usize) -> io::Result<Self> {
        Ok(Self {
            backend: UdpBackend::bind_ports(addresses, &UdpOptions::default())?,
            data: vec![0xa5; size],
            segment_size: size.max(1),
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
