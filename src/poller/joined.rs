//! A link to a poller, combined with a backend of the process's own (the DPDK paper, sections 4.1 and 4.2.2).

use std::{
    collections::{HashMap, HashSet},
    fmt, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use super::{
    PollerBackend,
    backend::{AUTO, BULK_VARIABLE, NAME, OF_PORT, OFF},
    hello::Queues,
    protocol::{LINK, Straight},
};
#[cfg(feature = "dpdk")]
use crate::backends::dpdk::{Guest, GuestBackend};
use crate::{
    backends::{
        Backend, BackendStats, BindOptions, Capabilities, Met, Neighbours, Notice, Received, Refusals, Sent, Transmit,
        Unreachable, Wake, bind, has_own_addresses,
    },
    events::event,
    time::Instant,
};

/// Stands for every peer that has not been introduced: no host has this address.
const NOBODY: SocketAddr = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0);
/// The first byte of the link address of a joined backend. The link address of another backend is an Ethernet address
/// of an individual host, which never begins with this byte.
const TAG: u8 = 0xff;
/// The same, if it has queues of the poller's port: then it has only peers that have some, too.
const TAG_OF_PORT: u8 = 0xfd;
const ALONE: &str = "it has no backend for placements beside its poller, as this process has: HIKYAKU_POLLER_BULK is for \
                     all processes of a job, or for none";
const NO_QUEUES: &str = "it has no queues of its poller's port";
/// The longest sleep if our own backend has no file descriptor, so that a thread cannot wait for both at once.
const SLEEP: Duration = Duration::from_micros(50);

/// The peers that our own backend reaches, by their addresses.
#[derive(Debug, Default)]
pub(super) struct Reached(RwLock<HashSet<SocketAddr>>);

impl Straight for Reached {
    fn leads_to(&self, address: SocketAddr) -> bool {
        let reached = self.0.read().unwrap_or_else(PoisonError::into_inner);
        reached.contains(&address)
    }
}

/// A backend of our own.
pub(super) enum Own {
    Backend(Box<dyn Backend>),
    /// Queues of the poller's port.
    OfPort(Box<dyn Backend>),
}

/// Queues of the poller's port, which do not lead to all peers.
#[derive(Default)]
struct OfPort {
    reached: Arc<Reached>,
    /// The number of the others, which get placements through the poller.
    through: usize,
}

/// A [`PollerBackend`] and a backend of our own, which carries the placements.
///
/// Peers are named by the addresses that they have at their pollers. The address of a peer's own backend is part of its
/// [introduction](Neighbours::introduce). A datagram to a peer that has not been introduced is dropped, and the peer is
/// reported as unreachable.
pub struct Joined {
    // Dropped before the link: then the poller may give its queues to another process.
    own: Box<dyn Backend>,
    link: PollerBackend,
    of_port: Option<OfPort>,
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
            of_port: None,
            there: HashMap::new(),
            back: HashMap::new(),
            unknown: Refusals::default(),
            first: 0,
            link_first: false,
            dropped: 0,
        }
    }

    /// Joins the link with queues of the poller's port.
    pub(super) fn of_port(link: PollerBackend, own: Box<dyn Backend>) -> Self {
        Self {
            of_port: Some(OfPort::default()),
            ..Self::new(link, own)
        }
    }

    /// The peers that our own backend reaches, if it does not reach all.
    pub(super) fn reached(&self) -> Option<Arc<Reached>> {
        self.of_port.as_ref().map(|of_port| Arc::clone(&of_port.reached))
    }

    /// The link to the poller.
    pub(super) fn link(&self) -> &PollerBackend {
        &self.link
    }

    fn tag(&self) -> u8 {
        if self.of_port.is_some() { TAG_OF_PORT } else { TAG }
    }

    /// Adds a peer with this link address to those that our own backend reaches, or says why it does not.
    fn add(&mut self, address: SocketAddr, link: &[u8]) -> Result<(), String> {
        let Some((there, link)) = read_address(self.tag(), link) else {
            let why = if self.of_port.is_some() { NO_QUEUES } else { ALONE };
            return Err(why.to_owned());
        };
        if there.is_ipv4() != self.own.local_addr().is_ipv4() {
            return Err(format!(
                "{there}, where it takes placements, is of another family of addresses than ours"
            ));
        }
        if let Some(neighbours) = self.own.neighbours() {
            neighbours.introduce(there, link).map_err(|error| error.to_string())?;
        }
        if let Some(before) = self.there.insert(address, there) {
            self.back.remove(&before);
        }
        self.back.insert(there, address);
        Ok(())
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

    /// Those of the poller.
    fn ports(&self) -> &[Box<dyn Backend>] {
        self.link.ports()
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
        let mut bytes = vec![self.tag(), if addr.is_ipv4() { 4 } else { 6 }];
        bytes.extend(addr.port().to_le_bytes());
        match addr.ip() {
            IpAddr::V4(ip) => bytes.extend(ip.octets()),
            IpAddr::V6(ip) => bytes.extend(ip.octets()),
        }
        bytes.extend(&self.own_link);
        bytes
    }

    fn introduce(&mut self, address: SocketAddr, link: &[u8]) -> io::Result<()> {
        let met = self.add(address, link);
        let Some(of_port) = &mut self.of_port else {
            return met.map_err(|why| io::Error::new(io::ErrorKind::AddrNotAvailable, format!("{address}: {why}")));
        };
        match met {
            Ok(()) => {
                let mut reached = of_port.reached.0.write().unwrap_or_else(PoisonError::into_inner);
                reached.insert(address);
            }
            Err(why) => {
                event!(DEBUG, %address, why, "large messages to a peer go through the poller");
                let _ = why;
                of_port.through += 1;
            }
        }
        Ok(())
    }

    fn meet(&mut self) -> io::Result<Met> {
        if let Some(of_port) = &self.of_port {
            let (straight, through) = (self.there.len(), of_port.through);
            event!(INFO, straight, through, "ways of large messages");
            let _ = (straight, through);
        }
        Ok(Met::default())
    }
}

/// Opens the backend that [`BULK_VARIABLE`] names at the IP address of `addr`, or queues of the poller's port. `None`:
/// placements go through the poller, too.
///
/// # Errors
/// It cannot be opened, or has no address that peers can reach.
pub(super) fn own_backend(link: &PollerBackend, addr: SocketAddr, options: &BindOptions) -> io::Result<Option<Own>> {
    let name = options.environment.get(BULK_VARIABLE).unwrap_or(AUTO);
    let invalid = |why: &str| io::Error::new(io::ErrorKind::InvalidInput, format!("{BULK_VARIABLE}={name}: {why}"));
    if name == NAME {
        return Err(invalid("it names what goes beside the poller"));
    }
    match name {
        OFF => return Ok(None),
        OF_PORT => {
            let queues = queues_of_port(link).map_err(|why| invalid(&why))?;
            return Ok(Some(Own::OfPort(queues)));
        }
        AUTO => {
            let queues = queues_of_port(link).inspect_err(|why| tell(link, why));
            return Ok(queues.ok().map(Own::OfPort));
        }
        _ => {}
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
    Ok(Some(Own::Backend(own)))
}

/// Says why a process goes without queues that it would have taken.
fn tell(link: &PollerBackend, why: &str) {
    // It had got some, and cannot use them: that is seldom, and a user expects their speed.
    if matches!(link.queues(), Queues::Given(_)) {
        eprintln!("hikyaku: large messages go through the poller: {why}");
    }
    event!(INFO, why, "large messages go through the poller");
}

/// The queues of its port that the poller has given to this process, or the reason why it has none.
#[cfg(feature = "dpdk")]
fn queues_of_port(link: &PollerBackend) -> Result<Box<dyn Backend>, String> {
    let place = match link.queues() {
        Queues::Given(place) => place,
        Queues::Denied(why) => return Err(why.clone()),
        Queues::Unasked => return Err("it was not asked for queues".to_owned()),
    };
    let guest = Guest::read(place).ok_or("the poller's answer is no place at its port")?;
    let own = GuestBackend::open(link.local_addr(), guest.clone()).map_err(|error| error.to_string())?;
    event!(
        INFO,
        place = guest.place,
        "large messages go over queues of the poller's port"
    );
    Ok(Box::new(own))
}

#[cfg(not(feature = "dpdk"))]
fn queues_of_port(_: &PollerBackend) -> Result<Box<dyn Backend>, String> {
    Err("this program is built without the feature dpdk".to_owned())
}

/// Reads an address that begins with `tag`. Returns it with the bytes that follow it.
fn read_address(tag: u8, bytes: &[u8]) -> Option<(SocketAddr, &[u8])> {
    let (&[first, family, low, high], rest) = bytes.split_first_chunk()?;
    if first != tag {
        return None;
    }
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
