//! The UDP socket backend: IPv4 and IPv6, segmentation offload (GSO), receive offload (GRO).
//!
//! One unconnected socket carries all peers. The system call determines the latency, so each case takes the cheapest
//! one: a small single datagram goes out by `sendto` (gathered by copying) and comes in by `recvfrom`; larger gather
//! lists and bursts take `sendmsg`, and while there is bulk to receive, GRO and `recvmsg`.

mod bulk;
mod socket;
mod sys;

use std::{
    io,
    net::{IpAddr, SocketAddr},
    os::fd::BorrowedFd,
    time::Duration,
};

pub use self::socket::{Gro, UdpOptions};
use self::{
    bulk::{Advice, Bulk},
    socket::UdpSocket,
    sys::RawAddr,
};
use super::{
    Backend, BackendStats, Capabilities, Data, Notice, Received, Sent, Transmit, Wake,
    ports::Ports,
    refusals::{QUOTE, Refusals},
};
use crate::time::Instant;

/// Most datagrams in one burst: `UDP_MAX_SEGMENTS` of the older kernels.
const MAX_SEGMENTS: usize = 64;
/// Size of a receive buffer, bytes: any datagram and any coalesced burst fits.
const BUFFER: usize = 64 << 10;
/// Most buffers filled by one receive.
const MAX_SLOTS: usize = 64;
/// Most calls in one receive that give nothing usable (errors of peers, empty datagrams).
const MAX_USELESS: usize = 64;
/// A gather list of at most this many bytes is copied together: cheaper than `sendmsg`.
const COPY: usize = 2048;
/// Most slices that the kernel takes (`UIO_MAXIOV`).
const MAX_SLICES: usize = 1024;

/// A buffer of the last receive.
struct Slot {
    buffer: Box<[u8]>,
    len: usize,
    stride: usize,
    source: SocketAddr,
}

/// A [`Backend`] on a UDP socket.
pub struct UdpBackend {
    socket: UdpSocket,
    /// The socket that sends, if it is another one.
    sender: Option<UdpSocket>,
    /// Bytes per datagram.
    max_datagram: usize,
    /// Datagrams per burst; 1 once the kernel has refused.
    max_segments: usize,
    receive_buffer: usize,
    gro: Gro,
    gro_on: bool,
    bulk: Bulk,
    slots: Vec<Slot>,
    filled: usize,
    /// Where small gather lists are copied together.
    scratch: Vec<u8>,
    /// The last destination, in Rust's form and in the kernel's.
    destination: (SocketAddr, RawAddr),
    refusals: Refusals,
    stats: BackendStats,
}

/// The reaction to a failed send call.
enum Failure {
    Again,
    Busy,
    Dropped,
    Fatal,
}

impl UdpBackend {
    /// Opens a socket at `addr` with the default options; port 0 picks a free one.
    ///
    /// # Errors
    /// As [`bind_with`](Self::bind_with).
    pub fn bind(addr: SocketAddr) -> io::Result<Self> {
        Self::bind_with(addr, &UdpOptions::default())
    }

    /// Opens a socket at `addr`; port 0 picks a free one. An IPv6 wildcard accepts IPv6 only.
    ///
    /// # Errors
    /// Those of the socket calls: the address is in use or not ours, IPv6 is not available.
    pub fn bind_with(addr: SocketAddr, options: &UdpOptions) -> io::Result<Self> {
        let socket = UdpSocket::bind(addr, options)?;
        let sender = if options.separate_send_socket {
            Some(UdpSocket::bind(SocketAddr::new(addr.ip(), 0), options)?)
        } else {
            None
        };
        let interface = socket.interface_payload();
        let max_segments = if options.gso && socket.knows_gso() {
            MAX_SEGMENTS
        } else {
            1
        };
        let mut this = Self {
            max_datagram: options
                .max_datagram
                .map_or(interface, |wanted| wanted.clamp(1, interface)),
            max_segments,
            receive_buffer: socket.receive_buffer(),
            gro: options.gro,
            gro_on: false,
            bulk: Bulk::default(),
            slots: Vec::new(),
            filled: 0,
            scratch: Vec::with_capacity(COPY),
            destination: (addr, RawAddr::new(addr)),
            refusals: Refusals::default(),
            stats: BackendStats::default(),
            socket,
            sender,
        };
        if this.gro == Gro::On {
            this.turn_gro(true);
        }
        Ok(this)
    }

    /// Opens a socket at each of the addresses, which are those of different interfaces of this host, and makes one
    /// backend of them: the sockets are its ports. Each but the first keeps to
    /// [its own interface](UdpOptions::own_interface); the first does so if it shares its network with another.
    ///
    /// # Errors
    /// As [`bind_with`](Self::bind_with), and there are 1 to 256 addresses, none of them the wildcard if there are
    /// several.
    pub fn bind_ports(addresses: &[SocketAddr], options: &UdpOptions) -> io::Result<Ports> {
        if addresses.len() > 1 && addresses.iter().any(|address| address.ip().is_unspecified()) {
            let why = "the wildcard is the address of no port: each of several ports has its interface";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let ips: Vec<IpAddr> = addresses.iter().map(SocketAddr::ip).collect();
        let mut ports: Vec<Box<dyn Backend>> = Vec::new();
        for (number, &address) in addresses.iter().enumerate() {
            let own_interface = options.own_interface || number > 0 || socket::is_shared(ips[0], &ips[1..]);
            let options = UdpOptions {
                own_interface,
                ..options.clone()
            };
            let port = Self::bind_with(address, &options).map_err(|error| match number {
                0 => error,
                // The caller knows the first address only.
                _ => io::Error::new(error.kind(), format!("its port at {address}: {error}")),
            })?;
            ports.push(Box::new(port));
        }
        Ports::new(ports)
    }

    /// The source address of this backend's datagrams: that of [`Backend::local_addr`] unless
    /// [`UdpOptions::separate_send_socket`] is on.
    #[must_use]
    pub fn send_addr(&self) -> SocketAddr {
        self.out().local()
    }

    fn out(&self) -> &UdpSocket {
        self.sender.as_ref().unwrap_or(&self.socket)
    }

    fn turn_gro(&mut self, on: bool) {
        if self.gro_on == on {
            return;
        }
        if self.socket.set_gro(on).is_err() {
            // An old kernel; no point in asking again.
            self.gro = Gro::Off;
        } else if !on && sys::has_data(self.socket.fd()) {
            // The data may have been coalesced before GRO went off, and would then be read without its datagram
            // borders.
            self.gro_on = self.socket.set_gro(true).is_ok();
        } else {
            self.gro_on = on;
        }
    }

    fn follow(&mut self, advice: Advice) {
        match advice {
            Advice::On if self.gro == Gro::Adaptive => self.turn_gro(true),
            Advice::Off if self.gro == Gro::Adaptive => self.turn_gro(false),
            Advice::Keep | Advice::On | Advice::Off => {}
        }
    }

    /// One send call: single datagrams and bursts alike.
    fn send_call(&mut self, transmit: &Transmit<'_>) -> io::Result<()> {
        let fd = self.sender.as_ref().unwrap_or(&self.socket).fd();
        let to = &self.destination.1;
        let segment = if transmit.segments() > 1 {
            Some(transmit.segment_size as u16)
        } else {
            None
        };
        self.stats.transmit_calls += 1;
        let sent = match transmit.slices {
            [one] if segment.is_none() => sys::send_to(fd, to, one)?,
            slices if segment.is_some() && slices.len() <= MAX_SLICES => sys::send_gather(fd, to, slices, segment)?,
            slices if transmit.len > COPY && slices.len() <= MAX_SLICES => sys::send_gather(fd, to, slices, None)?,
            slices => {
                self.scratch.clear();
                slices.iter().for_each(|slice| self.scratch.extend_from_slice(slice));
                match segment {
                    None => sys::send_to(fd, to, &self.scratch)?,
                    segment => sys::send_gather(fd, to, &[io::IoSlice::new(&self.scratch)], segment)?,
                }
            }
        };
        debug_assert_eq!(sent, transmit.len, "a transmit's length is the sum of its slices");
        self.stats.datagrams_sent += transmit.segments() as u64;
        self.stats.bytes_sent += sent as u64;
        Ok(())
    }

    /// Sends by one call, and tries again while errors caused by other datagrams stand in the way.
    fn send_whole(&mut self, transmit: &Transmit<'_>) -> Result<(), (io::Error, Failure)> {
        let mut tries = 0;
        loop {
            let Err(error) = self.send_call(transmit) else {
                return Ok(());
            };
            tries += 1;
            match self.judge(&error, tries) {
                // Each pending error of a peer takes one call; a flood of them must not keep this loop busy.
                Failure::Again if tries < 16 => {}
                Failure::Again => return Err((error, Failure::Dropped)),
                failure => return Err((error, failure)),
            }
        }
    }

    /// The meaning of a send call's error, the `tries`-th of the same datagram or burst.
    fn judge(&mut self, error: &io::Error, tries: u32) -> Failure {
        match error.raw_os_error().unwrap_or(0) {
            libc::EINTR => Failure::Again,
            libc::EAGAIN => Failure::Busy,
            libc::EBADF | libc::ENOTSOCK => Failure::Fatal,
            libc::ENOBUFS | libc::ENOMEM => Failure::Dropped,
            // The error may report an earlier datagram (the path MTU, which the protocol finds itself, and which any
            // host can forge). If it is about this datagram, the next try returns it again.
            libc::EMSGSIZE if self.drain_errors() || tries == 1 => Failure::Again,
            libc::EMSGSIZE => Failure::Dropped,
            // The error may report an earlier datagram: the socket returns it to the next caller, whichever call that
            // is.
            libc::ECONNREFUSED => {
                self.drain_errors();
                Failure::Again
            }
            _ if self.drain_errors() => Failure::Again,
            _ => {
                // The interface is gone, and perhaps another one has its address by now.
                self.out().find_own_interface();
                Failure::Dropped
            }
        }
    }

    /// Empties the error queues, and remembers refused datagrams. Returns whether there was an entry.
    fn drain_errors(&mut self) -> bool {
        let mut any = false;
        let mut quote = [0; QUOTE];
        for socket in [Some(&self.socket), self.sender.as_ref()].into_iter().flatten() {
            for _ in 0..MAX_USELESS {
                let Ok(error) = sys::receive_error(socket.fd(), &mut quote) else {
                    break;
                };
                any = true;
                if let Some(address) = error.refused() {
                    self.refusals.push(address, [&quote[..error.quoted]]);
                }
            }
        }
        any
    }

    /// Sends a burst datagram by datagram.
    fn send_one_by_one(&mut self, transmit: &Transmit<'_>) -> Result<(), (io::Error, Failure)> {
        let mut burst = Vec::with_capacity(transmit.len);
        transmit.slices.iter().for_each(|slice| burst.extend_from_slice(slice));
        for (index, datagram) in burst.chunks(transmit.segment_size).enumerate() {
            let slices = [io::IoSlice::new(datagram)];
            let lone = Transmit {
                len: datagram.len(),
                slices: &slices,
                ..*transmit
            };
            match self.send_whole(&lone) {
                // The datagrams before this one are sent and cannot be called back, so this is a loss and no longer
                // "nothing was sent".
                Err((error, Failure::Busy)) if index > 0 => return Err((error, Failure::Dropped)),
                result => result?,
            }
        }
        Ok(())
    }

    fn send_burst(&mut self, transmit: &Transmit<'_>) -> Result<(), (io::Error, Failure)> {
        let segments = transmit.segments();
        if segments == 1 {
            return self.send_whole(transmit);
        }
        if segments > self.max_segments || transmit.len > self.max_batch() {
            return self.send_one_by_one(transmit);
        }
        let Err((error, failure)) = self.send_whole(transmit) else {
            return Ok(());
        };
        if !matches!(
            error.raw_os_error(),
            Some(libc::EIO | libc::EINVAL | libc::EMSGSIZE | libc::EOPNOTSUPP)
        ) {
            return Err((error, failure));
        }
        // If the datagrams pass one by one, it was segmentation that was refused: by an interface without checksum
        // offload, or by a filter in the path. Such a refusal is permanent.
        self.stats.segmentation_refused += 1;
        self.send_one_by_one(transmit)?;
        // These two errors may also come from the network, and a forged report must not turn segmentation off.
        if !matches!(error.raw_os_error(), Some(libc::EMSGSIZE | libc::EOPNOTSUPP)) {
            self.max_segments = 1;
        }
        Ok(())
    }

    fn max_batch(&self) -> usize {
        socket::largest_payload(self.socket.local())
    }

    /// Receives into slot `self.filled`. Returns the number of datagrams, or `None` if there is nothing.
    fn receive_one(&mut self) -> io::Result<Option<usize>> {
        if self.filled == self.slots.len() {
            self.slots.push(Slot {
                // Zeroed pages come from the kernel as they are touched, so large buffers cost nothing in advance.
                buffer: vec![0; BUFFER].into_boxed_slice(),
                len: 0,
                stride: 0,
                source: self.socket.local(),
            });
        }
        for _ in 0..MAX_USELESS {
            let slot = &mut self.slots[self.filled];
            let buffer = &mut slot.buffer;
            let mut from = RawAddr::empty();
            self.stats.receive_calls += 1;
            let result = if self.gro_on {
                sys::receive_coalesced(self.socket.fd(), buffer, &mut from)
            } else {
                sys::receive_from(self.socket.fd(), buffer, &mut from).map(|len| (len, None))
            };
            match result {
                Ok((len, stride)) => {
                    // An empty datagram carries nothing, and it would make a stride of zero.
                    let Some(source) = from.get().filter(|_| len > 0) else {
                        continue;
                    };
                    slot.len = len;
                    slot.stride = stride.map_or(len, |stride| stride.min(len));
                    slot.source = source;
                    let datagrams = len.div_ceil(slot.stride);
                    self.stats.datagrams_received += datagrams as u64;
                    self.stats.bytes_received += len as u64;
                    return Ok(Some(datagrams));
                }
                Err(error) => match error.raw_os_error().unwrap_or(0) {
                    libc::EAGAIN => return Ok(None),
                    libc::EINTR => {}
                    libc::EBADF | libc::ENOTSOCK => return Err(error),
                    // The error reports a datagram sent earlier. The socket returned it once, and the error queue has
                    // it now.
                    _ => {
                        self.drain_errors();
                    }
                },
            }
        }
        Ok(None)
    }
}

impl Backend for UdpBackend {
    fn name(&self) -> &'static str {
        "udp"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            max_segments: self.max_segments,
            max_batch: self.max_batch(),
            receive_buffer: self.receive_buffer,
            receive_port: if self.sender.is_some() {
                self.local_addr().port()
            } else {
                0
            },
            ..Capabilities::new(self.max_datagram)
        }
    }

    fn local_addr(&self) -> SocketAddr {
        self.socket.local()
    }

    fn transmit(&mut self, _now: Instant, transmit: &Transmit<'_>) -> io::Result<Sent> {
        if transmit.len == 0 {
            return Ok(Sent::All);
        }
        self.bulk.sent();
        let limit = if transmit.dont_fragment {
            self.max_datagram
        } else {
            self.max_batch()
        };
        let family_fits = transmit.destination.is_ipv4() == self.socket.local().is_ipv4();
        if transmit.segment_size.min(transmit.len) > limit || transmit.segment_size == 0 || !family_fits {
            self.stats.dropped += 1;
            return Ok(Sent::Dropped);
        }
        if self.destination.0 != transmit.destination {
            self.destination = (transmit.destination, RawAddr::new(transmit.destination));
        }
        let result = if transmit.dont_fragment {
            self.send_burst(transmit)
        } else {
            self.out().set_dont_fragment(false)?;
            // Segmentation offload needs segments that fit.
            let result = if transmit.segments() > 1 {
                self.send_one_by_one(transmit)
            } else {
                self.send_whole(transmit)
            };
            self.out().set_dont_fragment(true)?;
            result
        };
        match result {
            Ok(()) => Ok(Sent::All),
            Err((error, Failure::Fatal)) => Err(error),
            Err((_, Failure::Busy)) => {
                self.stats.busy += 1;
                Ok(Sent::Busy)
            }
            Err((_, Failure::Dropped | Failure::Again)) => {
                self.stats.dropped += 1;
                Ok(Sent::Dropped)
            }
        }
    }

    fn receive(&mut self, _now: Instant, budget: usize) -> io::Result<usize> {
        self.filled = 0;
        while self.filled < budget.min(MAX_SLOTS) {
            let Some(datagrams) = self.receive_one()? else {
                let advice = self.bulk.empty();
                self.follow(advice);
                break;
            };
            self.filled += 1;
            let advice = self.bulk.found(datagrams);
            self.follow(advice);
            if !self.bulk.more() {
                break;
            }
        }
        Ok(self.filled)
    }

    fn received(&mut self, index: usize) -> Received<'_> {
        let slot = &mut self.slots[..self.filled][index];
        Received {
            source: slot.source,
            port: 0,
            stride: slot.stride,
            data: Data::Own(&mut slot.buffer[..slot.len]),
        }
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<Wake> {
        if timeout != Some(Duration::ZERO) {
            // A caller that wants to sleep has found nothing to receive, and a datagram that arrives after a sleep is
            // no backlog.
            let advice = self.bulk.empty();
            self.follow(advice);
        }
        let ready = sys::poll(self.socket.fd(), timeout)?;
        if ready.error {
            // Otherwise the next wait would return at once for the same reason.
            self.drain_errors();
        }
        Ok(if ready.readable || ready.error {
            Wake::Readable
        } else {
            Wake::TimedOut
        })
    }

    fn poll_notices(&mut self, each: &mut dyn FnMut(Notice<'_>)) {
        self.refusals.report(each);
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.fd())
    }

    fn stats(&self) -> BackendStats {
        self.stats
    }
}

impl std::fmt::Debug for UdpBackend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UdpBackend")
            .field("local", &self.socket.local())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;

    use super::*;

    #[test]
    fn refused_segmentation_is_made_up_for_and_remembered() {
        let any = "127.0.0.1:0".parse().unwrap();
        let (mut a, mut b) = (UdpBackend::bind(any).unwrap(), UdpBackend::bind(any).unwrap());
        if a.max_segments == 1 {
            eprintln!("skipped: no segmentation offload on this machine");
            return;
        }
        // The kernel refuses to segment datagrams that carry no checksum.
        sys::set_option(a.socket.fd(), libc::SOL_SOCKET, libc::SO_NO_CHECK, 1).unwrap();
        let data: Vec<u8> = (0..=255).collect();
        let slices = [IoSlice::new(&data[..7]), IoSlice::new(&data[7..])];
        let transmit = Transmit {
            destination: b.local_addr(),
            port: 0,
            segment_size: 100,
            len: 256,
            slices: &slices,
            dont_fragment: true,
            token: 0,
        };
        for _ in 0..2 {
            assert_eq!(a.transmit(Instant::ZERO, &transmit).unwrap(), Sent::All);
            let mut got = Vec::new();
            while got.len() < 3 {
                b.wait(None).unwrap();
                for index in 0..b.receive(Instant::ZERO, 8).unwrap() {
                    let received = b.received(index);
                    let data = received.data.to_vec();
                    got.extend(data.chunks(received.stride).map(<[u8]>::to_vec));
                }
            }
            assert_eq!(got, data.chunks(100).collect::<Vec<_>>());
            assert_eq!(a.capabilities().max_segments, 1);
        }
        assert_eq!(a.stats().segmentation_refused, 1);
    }
}
