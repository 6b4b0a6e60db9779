//! Queues of a port that another process has opened: at the process that uses them.

use std::{
    collections::HashMap,
    fs, io,
    net::SocketAddr,
    ops::Range,
    path::{Path, PathBuf},
};

use super::{
    DpdkBackend, DpdkError, DpdkPort, eal,
    ethernet::Mac,
    guests::{Guest, Renewal, Wires, Wiring, find_pools, mounts},
    sys::Rule,
};
use crate::{
    backends::{Backend, Neighbours, Sent, Transmit},
    time::Instant,
};

/// Bytes of a link address.
const LINK: usize = Wires::LEN + 2 + 6;

impl DpdkPort {
    /// The number of places for other processes.
    pub(crate) fn places(&self) -> u16 {
        self.shared.guests.as_ref().map_or(0, |guests| guests.wires.places)
    }

    /// The queues of such a place; `None`: the port has none. `udp_port`: from which datagrams are
    /// [steered](Self::steer) there.
    pub(crate) fn guest(&self, place: u16, udp_port: u16) -> Option<Guest> {
        let guests = self.shared.guests.as_ref()?;
        (place < guests.wires.places).then(|| guests.guest(&self.shared.options, place, udp_port))
    }

    /// Datagrams come to a place only if they are [steered](Self::steer) there.
    pub(crate) fn must_steer(&self) -> bool {
        let guests = self.shared.guests.as_ref();
        guests.is_some_and(|guests| guests.wires.wiring == Wiring::Card)
    }

    /// Has the port put datagrams for an address into the queue of a place, for as long as what it gives lives.
    ///
    /// # Errors
    /// The port has no such rules.
    pub(crate) fn steer(&self, addr: SocketAddr, place: u16) -> io::Result<Steered> {
        let Some(guests) = &self.shared.guests else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let version = if addr.is_ipv4() { 4 } else { 6 };
        let [_, queue] = guests.wires.lane(place, 0);
        let rule = Rule::new(&self.shared.port, version, addr.port(), queue);
        rule.map(Steered).map_err(|(error, _)| error)
    }

    /// How places are made ready for other processes.
    pub(crate) fn renewal(&self) -> Renewal {
        let guests = self.shared.guests.as_ref();
        guests.map_or(Renewal::Never, |guests| guests.wires.renewal())
    }

    /// Makes places as they were before a process had them. No process may have one of them any more; they are all
    /// places, if they are renewed [together](Renewal::Together).
    pub(crate) fn renew(&self, places: Range<u16>) -> Result<(), DpdkError> {
        let Some(guests) = &self.shared.guests else {
            return Ok(());
        };
        let wires = guests.wires;
        if wires.renewal() == Renewal::Together {
            let queues = wires.first..wires.first + wires.queues();
            queues.for_each(|queue| self.shared.port.forget(queue));
        }
        places.into_iter().try_for_each(|place| guests.refill(place))
    }
}

/// A rule of the port by which datagrams come to a place.
pub(crate) struct Steered(#[expect(dead_code, reason = "it ends when it is dropped")] Rule);

/// A [`Backend`] on such queues: one for each place at the other end.
pub(crate) struct GuestBackend {
    backend: DpdkBackend,
    guest: Guest,
    /// The places of peers.
    peers: HashMap<SocketAddr, usize>,
    /// The last destination.
    last: Option<SocketAddr>,
}

impl GuestBackend {
    /// Joins the process that has opened the port. `addr`: this backend's address, which is one of the port's.
    ///
    /// # Errors
    /// DPDK does not start with that process's memory, or runs already.
    pub(crate) fn open(addr: SocketAddr, guest: Guest) -> Result<Self, DpdkError> {
        let card = (guest.wires.wiring == Wiring::Card).then_some(&*guest.device);
        eal::join(guest.process, guest.place, card)?;
        let options = guest.options()?;
        let pools = find_pools(&guest, &options)?;
        let lanes = guest.wires.lanes(guest.place);
        let addr = match guest.udp_port {
            0 => addr,
            port => SocketAddr::new(addr.ip(), port),
        };
        let port = DpdkPort::of_queues(&guest.device, &lanes, pools, options)?;
        let mut backend = port.bind(addr, lanes.len() as u16)?;
        if guest.wires.is_of_memif() {
            backend.poll_no_queue();
        }
        Ok(Self {
            backend,
            guest,
            peers: HashMap::new(),
            last: None,
        })
    }

    /// The way to a peer that has such queues, too.
    fn lane_to(&self, address: SocketAddr, link: &[u8]) -> Result<(usize, Mac), String> {
        let strange = || "its queues are of another kind".to_owned();
        let link = <[u8; LINK]>::try_from(link).map_err(|_| strange())?;
        let (wires, rest) = link.split_first_chunk().ok_or_else(strange)?;
        let wires = Wires::read(*wires).ok_or_else(strange)?;
        let (place, rest) = rest.split_first_chunk().ok_or_else(strange)?;
        let (mac, _) = rest.split_first_chunk().ok_or_else(strange)?;
        let place = u16::from_le_bytes(*place);
        let is_here = address.ip() == self.backend.local_addr().ip();
        match self.guest.wires.wiring {
            Wiring::Server | Wiring::Client | Wiring::Card if is_here => {
                return Err("the port does not lead back to the processes of its own host".to_owned());
            }
            Wiring::Ring if !is_here => return Err("the port leads to no other host".to_owned()),
            _ => {}
        }
        if !self.guest.wires.fits(&wires) || place >= wires.places {
            return Err(
                "its poller's port has other queues: give both pollers the same --queues and --bulk-queues, and \
                        one the role of the server"
                    .to_owned(),
            );
        }
        let lane = if self.guest.wires.wiring == Wiring::Card {
            0
        } else {
            place
        };
        Ok((lane.into(), *mac))
    }
}

impl Backend for GuestBackend {
    crate::forward_backend!(self => self.backend; name, capabilities, local_addr, received, wait, stats,
        poll_notices, as_fd, descriptors, next_deadline, ports);

    #[inline]
    fn transmit(&mut self, now: Instant, transmit: &Transmit<'_>) -> io::Result<Sent> {
        if self.last != Some(transmit.destination) {
            let Some(&lane) = self.peers.get(&transmit.destination) else {
                return Ok(Sent::Dropped);
            };
            self.backend.use_queue(lane);
            self.last = Some(transmit.destination);
        }
        self.backend.transmit(now, transmit)
    }

    #[inline]
    fn receive(&mut self, now: Instant, budget: usize) -> io::Result<usize> {
        // (Asked here, because the backend receives from an only queue without looking at its schedule.)
        if self.backend.polls_no_queue() {
            return Ok(0);
        }
        self.backend.receive(now, budget)
    }

    fn neighbours(&mut self) -> Option<&mut dyn Neighbours> {
        Some(self)
    }
}

impl Neighbours for GuestBackend {
    /// The queues, the place, and the port's Ethernet address.
    fn link_address(&self) -> Vec<u8> {
        let mut bytes = self.guest.wires.bytes().to_vec();
        bytes.extend(self.guest.place.to_le_bytes());
        bytes.extend(self.backend.mac());
        bytes
    }

    fn introduce(&mut self, address: SocketAddr, link: &[u8]) -> io::Result<()> {
        let (place, mac) = self.lane_to(address, link).map_err(io::Error::other)?;
        self.last = None;
        self.peers.insert(address, place);
        if self.guest.wires.is_of_memif() {
            self.backend.poll_queue(place);
        }
        self.backend.add_neighbour(address.ip(), mac);
        Ok(())
    }
}

/// Removes the files of this process that DPDK leaves behind: its hugepages, and what other processes find it by.
pub(crate) fn remove_files() {
    let prefix = eal::prefix(std::process::id());
    let pages = format!("{prefix}map_");
    for folder in mounts() {
        let files = fs::read_dir(Path::new(&folder)).into_iter().flatten().flatten();
        for file in files.filter(|file| file.file_name().to_string_lossy().starts_with(&pages)) {
            let _ = fs::remove_file(file.path());
        }
    }
    let _ = fs::remove_dir_all(PathBuf::from(eal::runtime_folder()).join(prefix));
}
