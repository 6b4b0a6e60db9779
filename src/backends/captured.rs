//! A backend that captures its traffic, in both directions, in a pcapng file.

use std::{
    fmt,
    io::{self, Write},
    net::SocketAddr,
};

use super::{Backend, Data, Sent, Transmit, pcapng::Writer};
use crate::{forward_backend, time::Instant};

/// Captures the traffic of the backend `B` to `W`.
///
/// If writing fails, the capture ends, not the traffic; [`error`](Self::error) returns the reason. Only one burst is
/// held in memory at a time. Above an `Impaired`, the capture shows the datagrams that the protocol meant to send;
/// below it, those that left.
pub struct Captured<B, W> {
    inner: B,
    tape: Tape<W>,
    /// The addresses of the ports.
    local: Vec<SocketAddr>,
    /// The burst being sent, in one piece.
    scratch: Vec<u8>,
}

/// The writer while it works, then the reason why it stopped.
struct Tape<W> {
    writer: Result<Writer<W>, io::Error>,
    datagrams: u64,
}

/// Where a burst was seen.
struct Seen {
    port: u8,
    /// From and to.
    path: [SocketAddr; 2],
}

impl<W: Write> Tape<W> {
    /// Writes `data` as datagrams of `stride` bytes, the last one shorter.
    fn burst(&mut self, now: Instant, seen: &Seen, data: &[u8], stride: usize, comment: Option<&str>) {
        let Ok(writer) = &mut self.writer else { return };
        for datagram in data.chunks(stride.max(1)) {
            let [from, to] = seen.path;
            if let Err(error) = writer.datagram_on(seen.port.into(), now, from, to, datagram, comment) {
                self.writer = Err(error);
                return;
            }
            self.datagrams += 1;
        }
    }
}

impl<B: Backend, W: Write + Send> Captured<B, W> {
    /// Captures the traffic of `inner` to `to` (buffer it if it is a file).
    ///
    /// # Errors
    /// The file's header cannot be written.
    pub fn new(inner: B, to: W) -> io::Result<Self> {
        Ok(Self::with_writer(inner, Writer::new(to)?))
    }

    /// Like [`new`](Self::new), with a writer that has been set up, for example with an epoch. Of a backend with several
    /// ports, each is an interface of the capture, named by its address.
    #[must_use]
    pub fn with_writer(inner: B, mut writer: Writer<W>) -> Self {
        let further = inner.ports().iter().skip(1);
        let added = further
            .map(|port| port.local_addr().ip().to_string())
            .try_for_each(|name| writer.add_interface(&name));
        let mut local: Vec<SocketAddr> = inner.ports().iter().map(|port| port.local_addr()).collect();
        if local.is_empty() {
            local.push(inner.local_addr());
        }
        Self {
            local,
            inner,
            tape: Tape {
                writer: added.map(|()| writer),
                datagrams: 0,
            },
            scratch: Vec::new(),
        }
    }

    /// Why the capture ended early, if it did.
    #[must_use]
    pub fn error(&self) -> Option<&io::Error> {
        self.tape.writer.as_ref().err()
    }

    /// Datagrams written.
    #[must_use]
    pub fn datagrams(&self) -> u64 {
        self.tape.datagrams
    }

    /// The backend below.
    #[must_use]
    pub fn inner(&self) -> &B {
        &self.inner
    }

    /// Ends the capture. Returns the backend, and the flushed writer or else the failure that ended the capture.
    pub fn finish(self) -> (B, io::Result<W>) {
        let written = self.tape.writer.and_then(|mut writer| {
            writer.flush()?;
            Ok(writer.into_inner())
        });
        (self.inner, written)
    }
}

impl<B: Backend, W: Write + Send> Backend for Captured<B, W> {
    forward_backend!(self => self.inner; name, capabilities, local_addr, received, wait, stats, poll_notices, as_fd,
        descriptors, next_deadline, ports, neighbours);

    fn transmit(&mut self, now: Instant, transmit: &Transmit<'_>) -> io::Result<Sent> {
        let sent = self.inner.transmit(now, transmit)?;
        let comment = match sent {
            Sent::Busy => return Ok(sent),
            Sent::All => None,
            Sent::Dropped => Some("dropped before it was sent"),
        };
        // A dropped datagram that is too large for the interface may be too large for UDP too, and never was a
        // datagram.
        let written = sent == Sent::All || transmit.segment_size <= self.inner.capabilities().max_datagram;
        // Nor did one for a port that does not exist.
        let written = written && usize::from(transmit.port) < self.local.len();
        if written && self.tape.writer.is_ok() {
            self.scratch.clear();
            transmit
                .slices
                .iter()
                .for_each(|slice| self.scratch.extend_from_slice(slice));
            let port = transmit.port;
            let path = [self.local[usize::from(port)], transmit.destination];
            let seen = Seen { port, path };
            self.tape
                .burst(now, &seen, &self.scratch, transmit.segment_size, comment);
        }
        Ok(sent)
    }

    fn receive(&mut self, now: Instant, budget: usize) -> io::Result<usize> {
        let filled = self.inner.receive(now, budget)?;
        for index in 0..filled {
            let received = self.inner.received(index);
            let data = match &received.data {
                Data::Own(data) => &**data,
                Data::Shared(span) => {
                    self.scratch.clear();
                    span.append_to(&mut self.scratch);
                    &self.scratch
                }
            };
            let seen = Seen {
                port: received.port,
                path: [received.source, self.local[usize::from(received.port)]],
            };
            self.tape.burst(now, &seen, data, received.stride, None);
        }
        Ok(filled)
    }
}

impl<B: fmt::Debug, W> fmt::Debug for Captured<B, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Captured")
            .field("inner", &self.inner)
            .field("error", &self.tape.writer.as_ref().err())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            pcapng::tests::parse,
            script::{Script, send},
        },
        *,
    };

    #[test]
    fn both_directions_are_captured_datagram_by_datagram() {
        let mut backend = Captured::new(Script::default(), Vec::new()).unwrap();
        let now = Instant::from_nanos;
        assert_eq!(send(&mut backend, now(1), 2, b"abcde", 0).unwrap(), Sent::All);
        backend.inner.incoming.push_back((b"123456789".to_vec(), 4));
        assert_eq!(backend.receive(now(2), 8).unwrap(), 1);
        assert_eq!(backend.receive(now(3), 8).unwrap(), 0);
        backend.inner.busy = true;
        assert_eq!(send(&mut backend, now(4), 2, b"busy", 0).unwrap(), Sent::Busy);
        assert_eq!(backend.datagrams(), 6);
        let (script, file) = backend.finish();
        assert_eq!(script.sent.len(), 3);
        let (local, peer) = (Script::local(), Script::peer());
        let packets: Vec<_> = parse(&file.unwrap())
            .into_iter()
            .map(|packet| (packet.nanos, packet.source, packet.destination, packet.data))
            .collect();
        assert_eq!(
            packets,
            [
                (1, local, peer, b"ab".to_vec()),
                (1, local, peer, b"cd".to_vec()),
                (1, local, peer, b"e".to_vec()),
                (2, peer, local, b"1234".to_vec()),
                (2, peer, local, b"5678".to_vec()),
                (2, peer, local, b"9".to_vec()),
            ]
        );
    }

    #[cfg(all(feature = "udp", target_os = "linux"))]
    #[test]
    fn each_port_is_an_interface() {
        use super::super::{ports::Ports, udp::UdpBackend};

        let socket =
            |host: u8| -> Box<dyn Backend> { Box::new(UdpBackend::bind(([127, 0, 0, host], 0).into()).unwrap()) };
        let ports = Ports::new(vec![socket(1), socket(2)]).unwrap();
        let mut backend = Captured::new(ports, Vec::new()).unwrap();
        let own = [0, 1].map(|port: usize| backend.ports()[port].local_addr());
        // From each to the other one.
        for port in [1, 0] {
            let data = [port; 4];
            let transmit = Transmit {
                destination: own[1 - usize::from(port)],
                port,
                segment_size: 4,
                len: 4,
                slices: &[io::IoSlice::new(&data)],
                dont_fragment: true,
                token: 0,
            };
            assert_eq!(backend.transmit(Instant::ZERO, &transmit).unwrap(), Sent::All);
        }
        let mut received = 0;
        while received < 2 {
            backend.wait(None).unwrap();
            received += backend.receive(Instant::ZERO, 8).unwrap();
        }
        let file = backend.finish().1.unwrap();
        let has = |name: &[u8]| file.windows(name.len()).any(|bytes| bytes == name);
        assert!(has(b"127.0.0.2"), "the second one has its address for a name");
        let mut packets: Vec<_> = parse(&file)
            .into_iter()
            .map(|p| (p.interface, p.source, p.data[0]))
            .collect();
        packets.sort_unstable();
        assert_eq!(
            packets,
            [(0, own[0], 0), (0, own[1], 1), (1, own[0], 0), (1, own[1], 1)]
        );
    }

    #[test]
    fn a_datagram_larger_than_udp_ends_nothing() {
        let mut backend = Captured::new(Script::default(), Vec::new()).unwrap();
        assert_eq!(
            send(&mut backend, Instant::ZERO, 70_000, &[0; 70_000], 0).unwrap(),
            Sent::Dropped
        );
        assert!(backend.error().is_none());
        assert_eq!(backend.datagrams(), 0);
    }

    /// Fails once it is full.
    struct Full(usize);

    impl Write for Full {
        fn write(&mut self, data: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(data.len()).ok_or(io::ErrorKind::StorageFull)?;
            Ok(data.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_write_error_ends_the_capture_and_not_the_traffic() {
        let mut backend = Captured::new(Script::default(), Full(300)).unwrap();
        for _ in 0..10 {
            assert_eq!(send(&mut backend, Instant::ZERO, 50, &[7; 100], 0).unwrap(), Sent::All);
            backend.inner.incoming.push_back((vec![8; 100], 50));
            assert_eq!(backend.receive(Instant::ZERO, 1).unwrap(), 1);
            assert_eq!(backend.received(0).data.to_vec(), [8; 100]);
        }
        assert_eq!(backend.error().unwrap().kind(), io::ErrorKind::StorageFull);
        let (script, written) = backend.finish();
        assert_eq!(script.sent.len(), 20);
        assert!(written.is_err());
    }

    #[test]
    fn no_room_for_the_header_is_told_at_once() {
        assert!(Captured::new(Script::default(), Full(3)).is_err());
    }
}
