//! A link to a poller, combined with a backend of the process's own (the DPDK paper, sections 4.1 and 4.2.2).

use std::{
    collections::HashMap,
    fmt, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use super::{
    PollerBackend,
    backend::{BULK_VARIABLE, NAME, OF_PORT},
    protocol::LINK,
};
#[cfg(feature = "dpdk")]
use crate::backends::dpdk::{DpdkBackend, Guest};
use crate::{
    backends::{
        Backend, BackendStats, BindOptions, Capabilities, Neighbours, Notice, Received, Refusals, Sent, Transmit,
        Unreachable, Wake, bind, has_own_addresses,
    },
    time::Instant,
};

/// Stands for every peer that has not been introduced: no host has this address.
const NOBODY: SocketAddr = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0);
/// The first byte of the link address of a joined backend. The link address of another backend is an Ethernet address
/// of an individual host, which never begins with this byte.
const TAG: u8 = 0xff;
const ALONE: &str = "it has no backend for placements beside its poller, as this process has: HIKYAKU_POLLER_BULK is for \
                     all processes of a job, or for none";
/// The longest sleep if our own backend has no file descriptor, so that a thread cannot wait for both at once.
const SLEEP: Duration = Duration::from_micros(50);

/// A [`PollerBackend`] and a backend of our own, which carries the placements.
///
/// Peers are named by the addresses that they have at their pollers. The address of a peer's own backend is part of its
/// [introduction](Neighbours::introduce). A datagram to a peer that has not been introduced is dropped, and the peer is
/// reported as unreachable.
pub struct Joined {
    link: PollerBackend,
    own: Box<dyn Backend>,
    /// The link address of our own backend, which peers must know beside its address.
    own_link: Vec<u8>,
    /// Maps the addresses of peers at their pollers to those of their own backends, and back.
    there: HashMap<SocketAddr, SocketAddr>,
    back: HashMap<SocketAddr, SocketAddr>,
    /// Refused datagrams to peers that have not been introduced.
    unknown: Refusals,
    /// The number of buffers of the last receive that the backend asked first has filled, and whether that was the
    /// link.
    first: usize,
    link_first: bool,
    dropped: u64,
}

impl Joined {
    /// Joins the two. `own` must have an address that peers can reach, and must not be a link.
    #[must_use]
    pub fn new(link: PollerBackend, mut own: Box<dyn Backend>) -> Self {
        Self {
            link,
            own_link: own.neighbours().map_or_else(Vec::new, |own| own.link_address()),
            own,
            there: HashMap::new(),
            back: HashMap::new(),
            unknown: Refusals::default(),
            first: 0,
            link_first: false,
            dropped: 0,
        }
    }

    /// The link to the poller.
    pub(super) fn link(&self) -> &PollerBackend {
        &self.link
    }

    /// Whether buffer `index` belongs to the link, and its index there.
    #[inline]
    fn find(&self, index: usize) -> (bool, usize) {
        match index.checked_sub(self.first) {
            None => (self.link_first, index),
            Some(index) => (!self.link_first, index),
        }
    }

    #[inline]
    fn receive_from(&mut self, link: bool, now: Instant, budget: usize) -> io::Result<usize> {
        if link {
            self.link.receive(now, budget)
        } else {
            self.own.receive(now, budget)
        }
    }
}

impl Backend for Joined {
    fn name(&self) -> &'static str {
        NAME
    }

    /// The capabilities of our own backend.
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            layered: true,
            ..self.own.capabilities()
        }
    }

    fn local_addr(&self) -> SocketAddr {
        self.link.local_addr()
    }

    #[inline]
    fn transmit(&mut self, now: Instant, transmit: &Transmit<'_>) -> io::Result<Sent> {
        if transmit.destination == LINK {
            return self.link.transmit(now, transmit);
        }
        let Some(&destination) = self.there.get(&transmit.destination) else {
            let slices = transmit.slices.iter().map(|slice| &**slice);
            self.unknown.push(transmit.destination, slices);
            self.dropped += 1;
            return Ok(Sent::Dropped);
        };
        self.own.transmit(
            now,
            &Transmit {
                destination,
                ..*transmit
            },
        )
    }

    fn receive(&mut self, now: Instant, budget: usize) -> io::Result<usize> {
        // The link and our own backend take turns at being asked first.
        self.link_first = !self.link_first;
        self.first = self.receive_from(self.link_first, now, budget)?;
        let left = budget - self.first;
        if left == 0 {
            return Ok(budget);
        }
        Ok(self.first + self.receive_from(!self.link_first, now, left)?)
    }

    fn received(&mut self, index: usize) -> Received<'_> {
        let (link, index) = self.find(index);
        if link {
            return self.link.received(index);
        }
        let received = self.own.received(index);
        let source = self.back.get(&received.source).copied().unwrap_or(NOBODY);
        Received { source, ..received }
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<Wake> {
        if let Some(fd) = self.own.as_fd() {
            return self.link.wait_beside(timeout, Some(fd));
        }
        let sleep = timeout.map_or(SLEEP, |timeout| timeout.min(SLEEP));
        self.link.wait(Some(sleep))?;
        // Our own backend may have received something.
        Ok(Wake::Readable)
    }

    fn poll_notices(&mut self, each: &mut dyn FnMut(Notice<'_>)) {
        self.unknown.report(each);
        let back = &self.back;
        self.own.poll_notices(&mut |notice| {
            each(match notice {
                Notice::Unreachable(unreachable) => Notice::Unreachable(Unreachable {
                    address: back.get(&unreachable.address).copied().unwrap_or(NOBODY),
                    ..unreachable
                }),
                Notice::Released(_) => notice,
            });
        });
    }

    fn neighbours(&mut self) -> Option<&mut dyn Neighbours> {
        Some(self)
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.own.next_deadline()
    }

    /// The sum of both backends.
    fn stats(&self) -> BackendStats {
        let (link, own) = (self.link.stats(), self.own.stats());
        BackendStats {
            datagrams_sent: link.datagrams_sent + own.datagrams_sent,
            bytes_sent: link.bytes_sent + own.bytes_sent,
            datagrams_received: link.datagrams_received + own.datagrams_received,
            bytes_received: link.bytes_received + own.bytes_received,
            transmit_calls: link.transmit_calls + own.transmit_calls,
            receive_calls: link.receive_calls + own.receive_calls,
            dropped: link.dropped + own.dropped + self.dropped,
            busy: link.busy + own.busy,
            segmentation_refused: own.segmentation_refused,
        }
    }
}

impl Neighbours for Joined {
    /// The address of our own backend, followed by that backend's link address.
    fn link_address(&self) -> Vec<u8> {
        let addr = self.own.local_addr();
        let mut bytes = vec![TAG, if addr.is_ipv4() { 4 } else { 6 }];
        bytes.extend(addr.port().to_le_bytes());
        match addr.ip() {
            IpAddr::V4(ip) => bytes.extend(ip.octets()),
            IpAddr::V6(ip) => bytes.extend(ip.octets()),
        }
        bytes.extend(&self.own_link);
        bytes
    }

    fn introduce(&mut self, address: SocketAddr, link: &[u8]) -> io::Result<()> {
        let refused = |why: &str| io::Error::new(io::ErrorKind::AddrNotAvailable, format!("{address}: {why}"));
        let Some((there, link)) = read_address(link) else {
            return Err(refused(ALONE));
        };
        if there.is_ipv4() != self.own.local_addr().is_ipv4() {
            return Err(refused(&format!(
                "{there}, where it takes placements, is of another family of addresses than ours"
            )));
        }
        if let Some(before) = self.there.insert(address, there) {
            self.back.remove(&before);
        }
        self.back.insert(there, address);
        match self.own.neighbours() {
            Some(neighbours) => neighbours.introduce(there, link),
            None => Ok(()),
        }
    }
}

/// Opens the backend that [`BULK_VARIABLE`] names at the IP address of `addr`. `None`: the variable is unset or empty.
///
/// # Errors
/// It cannot be opened, or has no address that peers can reach.
pub(super) fn own_backend(
    link: &PollerBackend,
    addr: SocketAddr,
    options: &BindOptions,
) -> io::Result<Option<Box<dyn Backend>>> {
    let Some(name) = options.environment.get(BULK_VARIABLE) else {
        return Ok(None);
    };
    let invalid = |why: &str| io::Error::new(io::ErrorKind::InvalidInput, format!("{BULK_VARIABLE}={name}: {why}"));
    if name == NAME {
        return Err(invalid("it names what goes beside the poller"));
    }
    if name == OF_PORT {
        return queue_of_port(link)
            .map(Some)
            .map_err(|error| invalid(&error.to_string()));
    }
    let at = if has_own_addresses(name) {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED)
    } else {
        addr.ip()
    };
    let own = bind(name, SocketAddr::new(at, 0), options).map_err(|error| invalid(&error.to_string()))?;
    if own.local_addr().ip().is_unspecified() {
        return Err(invalid("peers need an address: bind to one of this host's"));
    }
    Ok(Some(own))
}

/// The queue of the poller's port that the poller has given to this process.
#[cfg(feature = "dpdk")]
fn queue_of_port(link: &PollerBackend) -> io::Result<Box<dyn Backend>> {
    let Some(queue) = link.queue() else {
        return Err(io::Error::other("the poller has given no queue"));
    };
    let own = DpdkBackend::of_guest(link.local_addr(), &Guest::from(queue)).map_err(io::Error::other)?;
    Ok(Box::new(own))
}

#[cfg(not(feature = "dpdk"))]
fn queue_of_port(_: &PollerBackend) -> io::Result<Box<dyn Backend>> {
    Err(io::Error::other("this program is built without the feature dpdk"))
}

/// Reads an address. Returns it with the bytes that follow it.
fn read_address(bytes: &[u8]) -> Option<(SocketAddr, &[u8])> {
    let (&[TAG, family, low, high], rest) = bytes.split_first_chunk()? else {
        return None;
    };
    let port = u16::from_le_bytes([low, high]);
    let (ip, rest) = match family {
        4 => {
            let (ip, rest) = rest.split_first_chunk::<4>()?;
            (IpAddr::from(*ip), rest)
        }
        6 => {
            let (ip, rest) = rest.split_first_chunk::<16>()?;
            (IpAddr::from(*ip), rest)
        }
        _ => return None,
    };
    Some((SocketAddr::new(ip, port), rest))
}

impl fmt::Debug for Joined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Joined")
            .field("link", &self.link)
            .field("own", &self.own.name())
            .finish_non_exhaustive()
    }
}
