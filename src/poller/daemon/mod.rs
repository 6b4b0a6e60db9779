//! The node-wide poller: a process that owns a DPDK port and runs the protocol for the processes of its machine (the
//! DPDK paper, section 4.1; `docs/papers.md`).
//!
//! It polls the network all the time, so no packet is lost while a process computes: packets are acknowledged and kept
//! for it. A process connects by a Unix socket ([`PollerBackend`](super::PollerBackend)) and gets a UDP port of
//! the poller's address; the poller runs an endpoint for it
//! ([`protocol`](super::protocol)).
//!
//! - **In**: received packets lie in one shared memory, which every process may read. A packet is lent to its process:
//!   the poller keeps it in a table, and takes it back when the process has read on. Small packets are copied into the
//!   process's ring instead.
//! - **Out**: large messages are transmitted from the memory that the process shares; the process gets that memory back
//!   when the whole message is acknowledged.
//! - **Several ports** ([`PollerOptions::further`]) receive into the same memory. A process has its UDP port at the address
//!   of each, and reaches its peers by as many rails.
//! - **Limits**: loans to one process are bounded, and so is its ring; beyond that, packets are put off, and their
//!   senders send them again. Buffers that the port needs are not lent at all.
//!
//! # The end of a process
//!
//! When a process ends, in whatever way, its socket hangs up. Its loans are taken back, its endpoint is removed, and
//! peers that still send to its UDP port are told so (as by a restarted process). If the process has said goodbye to
//! its peers, its endpoint stays for a moment to acknowledge theirs. A process that breaks the rules of the rings or
//! records is disconnected in the same way.
//!
//! A process that can use the socket can read the packets of all processes of this poller. So the socket is for its
//! owner only, and each side asks the kernel for the user of the other one, which must be the same user, or root.
//! [`default_socket`] is in a folder that only its owner can use.

mod error;
mod net;
mod options;
mod parked;
mod place;
mod places;
mod rank;
mod socket;
mod table;
#[cfg(test)]
mod tests;

use std::{
    fs,
    io::{self, ErrorKind},
    iter,
    net::IpAddr,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::{UnixListener, UnixStream},
    },
    sync::Arc,
    time::Duration,
};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

pub use self::{
    error::StartError,
    options::PollerOptions,
    socket::default_socket,
    table::{PollerStats, Reason},
};
use self::{
    net::{Local, Net},
    place::Place,
    rank::{PATIENCE, Rank, Thrown},
    socket::{Lock, listen, lock_device, lock_socket},
    table::Table,
};
use super::{
    hello::{Answer, Hello},
    layout::{LAYOUT, MOST_PORTS},
};
use crate::{
    backends::{
        Backend, BackendStats,
        dpdk::{self, DpdkOptions, DpdkPort, DpdkStats, Lending, Pools, lending_room, lending_size, remove_files},
        ports::capabilities_of,
    },
    config::Config,
    progress::{Clock, random, random_key},
    reliability::{Burst, Endpoint, Limits, Origin, Path, Sink, Verdict},
    shm::{Access, Credentials, Segment, handshake},
    span::Span,
    time::Instant,
    wire::Packet,
};

/// Interval of checks for processes that connect or hang up, ns.
const LOOK: u64 = 1_000_000;
/// Length of a sleep while nothing happens: the port cannot wake a thread.
const SLEEP: Duration = Duration::from_micros(50);
/// Bursts received before processes are served.
const BURSTS: usize = 4;
/// Datagrams per burst.
const BUDGET: usize = 32;
/// First of the UDP ports that are allocated.
const FIRST_PORT: u16 = 49_152;
/// Marks a UDP port without a process.
const NOBODY: u16 = u16::MAX;
/// Marks a UDP port whose datagrams the network port steers to a process itself.
const STEERED: u16 = u16::MAX - 1;
/// Most processes at a time.
const MOST: usize = 4_096;

/// A process that has connected and has not sent its first message yet.
struct Visitor {
    socket: UnixStream,
    since: Instant,
}

/// Delivers nothing: the sink of the endpoint that has no process.
struct Refuse;

impl Sink for Refuse {
    fn deliver(&mut self, _: Origin, _: Packet<&[u8]>) -> Verdict {
        Verdict::NoRoom
    }
}

/// A port of a poller.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PollerPort {
    /// Its address, for all UDP ports.
    pub address: IpAddr,
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// Its device.
    pub device: String,
    /// Counters of its datagrams.
    pub stats: BackendStats,
    /// Counters of the device and of frames.
    pub dpdk_stats: DpdkStats,
}

/// Each port has a device and an address of its own, and there are not too many.
fn check_ports(options: &PollerOptions) -> Result<(), StartError> {
    let ports: Vec<_> = options.ports().collect();
    if ports.len() > MOST_PORTS {
        return Err(StartError::Ports {
            ports: ports.len(),
            most: MOST_PORTS,
        });
    }
    for (index, (port, address)) in ports.iter().enumerate() {
        let before = &ports[..index];
        let what = if before.iter().any(|(other, _)| other.device.is_same(&port.device)) {
            format!("the device {}", port.device)
        } else if before.iter().any(|(_, other)| other == address) {
            format!("the address {address}")
        } else {
            continue;
        };
        return Err(StartError::Twice { what });
    }
    Ok(())
}

/// A node-wide poller. See the module's documentation.
pub struct Poller {
    ranks: Vec<Option<Rank>>,
    /// Index in `ranks` of the process with each UDP port.
    ports: Box<[u16]>,
    /// Endpoint that answers for ports without a process: it knows no sessions.
    nobody: Endpoint,
    burst: Burst,
    visitors: Vec<Visitor>,
    net: Net,
    memory: Arc<Segment>,
    packets: OwnedFd,
    listener: UnixListener,
    /// The bell that processes ring for the poller.
    bell: OwnedFd,
    options: PollerOptions,
    clock: Clock,
    looked: Instant,
    next_port: u16,
    /// Places of processes that have queues of the port.
    places: Vec<Place>,
    /// The reason why there are none.
    no_places: Option<String>,
    table: Table,
    /// Keep other pollers from the devices.
    _devices: Vec<UnixListener>,
    /// Keeps other pollers from the socket.
    _lock: Lock,
}

impl Poller {
    /// Opens the port and the socket.
    ///
    /// # Errors
    /// [`StartError`] says what to do.
    pub fn start(options: PollerOptions) -> Result<Self, StartError> {
        check_ports(&options)?;
        let queue_buffers = |port: &DpdkOptions| u32::from(port.queues.max(1)) * u32::from(port.queue_size());
        let least = 4 * options.ports().map(|(port, _)| queue_buffers(port)).sum::<u32>();
        if options.buffers < least.max(512) || options.buffers > 1 << 20 {
            return Err(StartError::Buffers {
                buffers: options.buffers,
                least: least.max(512),
            });
        }
        let lock = lock_socket(&options)?;
        let devices = options.ports().map(|(port, _)| lock_device(&port.device));
        let devices = devices.collect::<Result<Vec<_>, _>>()?;
        let system = |doing| move |source| StartError::System { doing, source };
        let room = options
            .ports()
            .map(|(port, _)| lending_room(port))
            .max()
            .unwrap_or_default();
        let len = lending_size(room, options.buffers);
        let (memory, packets) =
            Segment::create("hikyaku-packets", len, Access::Read).map_err(system("making memory for packets"))?;
        let memory = Arc::new(memory);
        let mut dpdk = options.dpdk.clone();
        let offered = match options.bulk_queues {
            Some(0) => Err("they are off (--bulk-queues 0)".to_owned()),
            None if !options.further.is_empty() => Err("its ports share them (--bulk-queues)".to_owned()),
            Some(places) => Ok((places, dpdk::require(&dpdk, places).map_err(StartError::Port)?)),
            None => dpdk::offer(&dpdk),
        };
        if let Ok((_, memory)) = offered {
            dpdk.memory = memory;
        }
        let open = |places| {
            let lending = Lending::Memory {
                memory: Arc::clone(&memory),
                buffers: options.buffers,
                room,
                places,
            };
            DpdkPort::open_with(&dpdk, Some(lending))
        };
        let (port, no_places) = match offered {
            Err(why) => (open(0), Some(why)),
            Ok((places, _)) => match open(places) {
                Err(error) if options.bulk_queues.is_none() && error.is_refused() => {
                    (open(0), Some("the other end has fewer queues".to_owned()))
                }
                opened => (opened, None),
            },
        };
        let port = port.map_err(StartError::Port)?;
        let first = port.bind_exclusive(options.address).map_err(StartError::Port)?;
        let further = options.further.iter().map(|settings| {
            // All ports receive into the same buffers.
            let lending = Lending::With(port.clone());
            DpdkPort::open_with(settings, Some(lending))?.bind_exclusive(settings.address)
        });
        let further = further.collect::<Result<Vec<_>, _>>().map_err(StartError::Port)?;
        let all = iter::once(&first).chain(&further).map(Backend::capabilities);
        let limits = capabilities_of(all).map_or_else(|| Limits::from(&first.capabilities()), |all| Limits::from(&all));
        let clock = Clock::new();
        let nobody = Endpoint::new(Config::default(), limits, random(), random_key()).map_err(StartError::Config)?;
        let listener = listen(&options)?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| system("making a bell")(error.into()))?;
        let all = iter::once(&first).chain(&further).zip(options.ports());
        let queues =
            all.map(|(port, (settings, _))| u32::from(port.port().queues()) * u32::from(settings.queue_size()));
        let queues: u32 = queues.sum();
        Ok(Self {
            ranks: Vec::new(),
            ports: vec![NOBODY; 1 << 16].into_boxed_slice(),
            nobody,
            burst: Burst::default(),
            visitors: Vec::new(),
            net: Net::new(first, further, limits, options.buffers - 2 * queues),
            memory,
            packets,
            listener,
            bell,
            clock,
            looked: clock.now(),
            next_port: FIRST_PORT,
            places: (0..port.places()).map(|_| Place::default()).collect(),
            no_places,
            table: Table::default(),
            options,
            _devices: devices,
            _lock: lock,
        })
    }

    /// The address of its first port, for all UDP ports.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        self.options.address
    }

    /// The addresses of its ports, and their counters, in the order of their numbers.
    pub fn ports(&self) -> impl Iterator<Item = PollerPort> {
        let ports = self.net.ports().zip(self.options.ports());
        ports.map(|(port, (settings, address))| PollerPort {
            address,
            mac: port.mac(),
            device: settings.device.to_string(),
            stats: port.stats(),
            dpdk_stats: port.dpdk_stats(),
        })
    }

    /// The number of processes that can have queues of the port for their large messages at the same time, or the reason
    /// why none can.
    ///
    /// # Errors
    /// That reason.
    pub fn bulk_queues(&self) -> Result<u16, &str> {
        match &self.no_places {
            Some(why) => Err(why),
            None => Ok(self.places.len() as u16),
        }
    }

    /// The Ethernet address of its first port.
    #[must_use]
    pub fn mac(&self) -> [u8; 6] {
        self.net.first().mac()
    }

    /// State of the packet buffers: those to receive, which all ports have in common, and those of the first port to send.
    #[must_use]
    pub fn pools(&self) -> Pools {
        self.net.first().pools()
    }

    /// Counters of its first port and of frames there.
    #[must_use]
    pub fn dpdk_stats(&self) -> DpdkStats {
        self.net.first().dpdk_stats()
    }

    /// Counters of the poller.
    #[must_use]
    pub fn stats(&self) -> PollerStats {
        let backend = self.net.stats();
        let mut all = self.table.stats;
        all.dropped.add(&self.nobody.stats().dropped);
        self.ranks.iter().flatten().for_each(|rank| all.add(&rank.stats()));
        PollerStats {
            processes: self.ranks.iter().flatten().count(),
            on_loan: self.net.on_loan,
            datagrams_received: backend.datagrams_received,
            datagrams_sent: backend.datagrams_sent,
            bytes_received: backend.bytes_received,
            bytes_sent: backend.bytes_sent,
            lent: self.net.lent,
            copied: self.net.copied,
            put_off: self.net.put_off,
            unread: self.net.unread,
            ..all
        }
    }

    /// Serves until `stop` gives true; `stop` is called about every millisecond.
    ///
    /// # Errors
    /// The port has failed.
    pub fn run(&mut self, mut stop: impl FnMut() -> bool) -> io::Result<()> {
        let spin = self.options.spin.map(|spin| spin.as_nanos() as u64);
        let mut idle_since = self.clock.now();
        let mut asked = idle_since;
        loop {
            let now = self.clock.now();
            if now.nanos_since(asked) >= LOOK {
                asked = now;
                if stop() {
                    return Ok(());
                }
            }
            if self.turn(now)? {
                idle_since = now;
            } else if spin.is_some_and(|spin| now.nanos_since(idle_since) >= spin) {
                self.sleep();
            } else {
                std::hint::spin_loop();
            }
        }
    }

    /// One round of [`run`](Self::run), for a caller with a loop and a clock of its own: checks once a millisecond for
    /// processes that connect or hang up, receives, serves every process, transmits. Gives whether there was anything
    /// to do.
    ///
    /// # Errors
    /// The port has failed.
    pub fn turn(&mut self, now: Instant) -> io::Result<bool> {
        if now.nanos_since(self.looked) >= LOOK {
            self.looked = now;
            self.look_around(now);
        }
        self.pass(now)
    }

    fn pass(&mut self, now: Instant) -> io::Result<bool> {
        let mut any = false;
        let mut left = self.net.count();
        loop {
            for _ in 0..BURSTS {
                let count = self.net.backend.receive(now, BUDGET)?;
                if count == 0 {
                    break;
                }
                any = true;
                for index in 0..count {
                    self.hand_over(now, index)?;
                }
            }
            left -= 1;
            if left == 0 {
                break;
            }
            self.net.choose_next();
        }
        while let Some(local) = self.net.next_local() {
            any = true;
            self.hand_over_local(now, local)?;
        }
        for index in 0..self.ranks.len() {
            let Some(rank) = &mut self.ranks[index] else { continue };
            match rank.serve(now, &mut self.net) {
                Ok(busy) => any |= busy,
                Err(thrown) => self.throw_out(index, thrown)?,
            }
        }
        Ok(any)
    }

    /// Hands a received datagram to its process.
    #[inline]
    fn hand_over(&mut self, now: Instant, index: usize) -> io::Result<()> {
        let port = self.net.backend.received_port(index);
        let owner = usize::from(self.ports[usize::from(port)]);
        if let Some(Some(rank)) = self.ranks.get_mut(owner) {
            if let Err(thrown) = rank.receive(now, &mut self.net, &self.memory, index) {
                self.throw_out(owner, thrown)?;
            }
            return Ok(());
        }
        if owner == usize::from(STEERED) {
            // It has come before the rule was there, or is steered no more: its sender sends it again.
            return Ok(());
        }
        let (source, data) = self.net.backend.received_with(index, 0);
        let (path, stride) = (Path::new(source, self.net.port), data.len());
        self.nobody.handle_datagrams(now, path, data, stride, &mut Refuse);
        self.answer_for_nobody(now, port)?;
        // The rest of what it has received is looked at next.
        self.net.choose(path.port);
        Ok(())
    }

    /// Hands a datagram of a local process to another local process.
    fn hand_over_local(&mut self, now: Instant, mut local: Local) -> io::Result<()> {
        let path = self.net.way_back(&local);
        let owner = usize::from(self.ports[usize::from(local.to)]);
        if let Some(Some(rank)) = self.ranks.get_mut(owner) {
            if let Err(thrown) = rank.receive_local(now, &mut self.net, path, &mut local.bytes) {
                self.throw_out(owner, thrown)?;
            }
        } else {
            let stride = local.bytes.len();
            self.nobody
                .handle_datagrams(now, path, &mut local.bytes, stride, &mut Refuse);
            self.answer_for_nobody(now, local.to)?;
        }
        self.net.done(local);
        Ok(())
    }

    /// Tells the sender of a datagram for a UDP port without a process that its session is not known.
    #[cold]
    fn answer_for_nobody(&mut self, now: Instant, port: u16) -> io::Result<()> {
        self.table.stats.for_nobody += 1;
        self.net.send_from(port);
        while self.nobody.poll_transmit(now, &mut self.burst) {
            let nobody = &self.nobody;
            self.net.transmit(now, &self.burst, |each| {
                nobody.gather(&self.burst, |bytes| each(Span::new(bytes)));
            })?;
        }
        while self.nobody.poll_event().is_some() {}
        Ok(())
    }

    #[cold]
    fn throw_out(&mut self, index: usize, thrown: Thrown) -> io::Result<()> {
        match thrown {
            Thrown::Net(error) => return Err(error),
            Thrown::Broken(why) => self.remove(index, Reason::Broken(why)),
        }
        Ok(())
    }

    /// Removes a process.
    fn remove(&mut self, index: usize, reason: Reason) {
        let Some(rank) = self.ranks.get_mut(index).and_then(Option::take) else {
            return;
        };
        self.ports[usize::from(rank.port())] = NOBODY;
        self.vacate(index, reason);
        self.net.on_loan -= rank.on_loan();
        self.table.stats.add(&rank.stats());
        self.table.note_end(&rank.person(), reason);
    }

    /// Checks for processes that connect, and for some that hang up.
    fn look_around(&mut self, now: Instant) {
        while let Ok((socket, _)) = self.listener.accept() {
            let ready = socket.set_nonblocking(true).is_ok();
            if ready && self.visitors.len() < MOST {
                self.visitors.push(Visitor { socket, since: now });
            }
        }
        for visitor in std::mem::take(&mut self.visitors) {
            match handshake::receive(&visitor.socket) {
                Ok((bytes, _)) => self.welcome(now, visitor.socket, Hello::read(&bytes)),
                Err(error) if error.kind() == ErrorKind::WouldBlock && now.nanos_since(visitor.since) < PATIENCE => {
                    self.visitors.push(visitor);
                }
                Err(_) => self.table.stats.strangers += 1,
            }
        }
        for index in 0..self.ranks.len() {
            self.look_at(now, index);
        }
    }

    /// Removes a process if it has ended.
    fn look_at(&mut self, now: Instant, index: usize) {
        if let Some(Some(rank)) = self.ranks.get_mut(index)
            && let Some(reason) = rank.look_for_life(now, &mut self.net)
        {
            self.remove(index, reason);
        }
    }

    fn welcome(&mut self, now: Instant, socket: UnixStream, hello: Option<Hello>) {
        let Some(hello) = hello else {
            self.table.stats.strangers += 1;
            return;
        };
        let refusal = match self.admit(now, &socket, &hello) {
            Ok(()) => return,
            Err(refusal) => refusal,
        };
        self.table.stats.refused += 1;
        // A process that has gone already need not hear it.
        let _ = handshake::send(&socket, &Answer::Refused(refusal).bytes(), &[]);
    }

    /// Makes a rank of a process, or gives the reason for refusing it.
    fn admit(&mut self, now: Instant, socket: &UnixStream, hello: &Hello) -> Result<(), String> {
        if !hello.fits() {
            let ours = env!("CARGO_PKG_VERSION");
            let layouts = format!("their memory has the layouts {} and {}", hello.version.layout, LAYOUT);
            return Err(format!(
                "it is of release {} and the poller of {ours}; {layouts}",
                hello.version.release
            ));
        }
        let unknown = |error| format!("the kernel does not tell its user: {error}");
        let peer = Credentials::of(socket).map_err(unknown)?;
        peer.check().map_err(|foreign| {
            let (user, own) = (foreign.user, foreign.own);
            format!("it is of user {user}, and the poller serves processes of user {own} and of root only")
        })?;
        if self.ranks.iter().flatten().count() >= MOST {
            return Err(format!("it has {MOST} processes, which is the most"));
        }
        let (queues, place) = self.grant(now, hello)?;
        let port = self.choose_port(now, hello.port)?;
        let failed = |error: io::Error| format!("it has no memory for another process: {error}");
        let socket = socket.try_clone().map_err(failed)?;
        let (rank, descriptors) = Rank::new(socket, peer.process, port, self.options.most_peers).map_err(failed)?;
        let welcome = Answer::Welcome {
            udp_port: port,
            addresses: self.net.addresses().collect(),
            max_datagram: self.net.limits.max_datagram as u32,
            packets: self.memory.len() as u64,
            queues,
        };
        let [memory, theirs] = &descriptors;
        let all = [self.packets.as_fd(), memory.as_fd(), theirs.as_fd(), self.bell.as_fd()];
        handshake::send(rank.socket(), &welcome.bytes(), &all).map_err(failed)?;
        let index = match self.ranks.iter().position(Option::is_none) {
            Some(index) => index,
            None => {
                self.ranks.push(None);
                self.ranks.len() - 1
            }
        };
        self.ports[usize::from(port)] = index as u16;
        self.occupy(place, index);
        self.table.note_begin(&rank.person());
        self.ranks[index] = Some(rank);
        Ok(())
    }

    fn choose_port(&mut self, now: Instant, wanted: u16) -> Result<u16, String> {
        if wanted != 0 {
            let owner = self.ports[usize::from(wanted)];
            if owner == STEERED {
                return Err(format!("another process has UDP port {wanted}"));
            }
            let owner = usize::from(owner);
            // Its process may have gone just now.
            self.look_at(now, owner);
            while let Some(Some(rank)) = self.ranks.get_mut(owner)
                && rank.is_leaving()
                && rank.serve(now, &mut self.net).is_ok()
            {}
            self.look_at(now, owner);
            match self.ranks.get(owner).and_then(Option::as_ref) {
                None => {}
                // An endpoint without a process makes place for a new process.
                Some(rank) if rank.has_gone() => self.remove(owner, Reason::Left),
                Some(_) => return Err(format!("another process has UDP port {wanted}")),
            }
            return Ok(wanted);
        }
        // The port that has been free for longest, so that a late packet for its former process reaches no other one.
        for _ in FIRST_PORT..u16::MAX {
            let port = self.next_port;
            self.next_port = if port == u16::MAX { FIRST_PORT } else { port + 1 };
            if self.ports[usize::from(port)] == NOBODY {
                return Ok(port);
            }
        }
        Err("all UDP ports are taken".to_owned())
    }

    /// Sleeps until a process rings, or for a moment.
    #[cold]
    fn sleep(&mut self) {
        let mut armed = true;
        for rank in self.ranks.iter_mut().flatten() {
            armed &= rank.arm();
        }
        if armed {
            let mut fds = [
                PollFd::new(&self.bell, PollFlags::IN),
                PollFd::new(&self.listener, PollFlags::IN),
            ];
            let sleep = Timespec::try_from(SLEEP).ok();
            // A signal only makes it look again.
            if poll(&mut fds, sleep.as_ref()).is_ok_and(|ready| ready > 0) {
                let _ = rustix::io::read(&self.bell, &mut [0_u8; 8]);
                if !fds[1].revents().is_empty() {
                    self.looked = Instant::ZERO;
                }
            }
        }
        self.ranks.iter().flatten().for_each(Rank::disarm);
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        // Before the lock is released.
        let _ = fs::remove_file(&self.options.socket);
        if !self.places.is_empty() {
            remove_files();
        }
    }
}

impl std::fmt::Debug for Poller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Poller")
            .field("address", &self.options.address)
            .field("socket", &self.options.socket)
            .finish_non_exhaustive()
    }
}
