//! The DPDK backend: datagrams without the kernel, by DPDK's poll-mode drivers.
//!
//! A port of a device carries Ethernet frames with IPv4 and UDP in them, so they cross switches, and a process that has
//! a UDP socket of the kernel can be the other end. Who has which Ethernet address is found by ARP, asked and answered
//! here. The port has an IPv4 address of its own, which no interface of the kernel has.
//!
//! - **Out**: payload is copied once, behind headers from a template of the neighbour, into buffers of a pool for
//!   sending. Datagrams to somebody whose address is not known yet wait for it, a few of them.
//! - **In**: bursts are received into buffers of a pool of their own, so that neither direction can starve the other;
//!   payload is handed up where it lies.
//! - **Waiting** is asking again and again (there are no interrupts), with short naps after a while.
//!
//! There is one queue in each direction, used by the thread that has the backend. DPDK starts once per process, by the
//! first port; its settings count for all.

mod error;
mod frame;
mod neighbours;
mod options;
mod sys;
#[cfg(test)]
mod tests;

use std::{
    fmt, io,
    net::{Ipv4Addr, SocketAddr, SocketAddrV4},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;

pub use self::{
    error::DpdkError,
    options::{Checksum, Device, DpdkOptions, Memory, VARIABLES},
};
use self::{
    frame::{ETHERNET, Frame, HEADERS, Host, IPV4, OVERHEAD, Template, UdpChecksum, Useless},
    neighbours::Neighbours,
    sys::{BURST, Burst, Packet, Pool, Port, Setup},
};
use super::{Backend, BackendStats, Capabilities, Received, Sent, Transmit, Wake};
use crate::time::Instant;

/// First of the ports that are taken for port 0.
const FIRST_FREE_PORT: u16 = 49_152;
/// Calls that find the port full, after which it is busy.
const TRIES: usize = 64;
/// A port that takes nothing for so long will not; its datagrams are thrown away, ns.
const STUCK: u64 = 10_000_000;
/// Datagrams that wait for their neighbour's address, all neighbours together.
const PARKED: usize = BURST;
/// Bursts that one receive looks through for something usable.
const LOOKS: usize = 4;
/// Looks before a wait begins to nap: some tens of microseconds.
const SPINS: u32 = 2_000;
/// A nap of a wait.
const NAP: Duration = Duration::from_micros(50);
/// Between two tries to start a port whose other end is not there yet.
const RETRY: Duration = Duration::from_millis(20);
/// The other end of a link may take so long to notice that this one is there.
const LINK: Duration = Duration::from_secs(2);

/// What came that was of no use, and what else only this backend counts. All since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DpdkStats {
    /// Frames with lengths that do not fit each other, or of another version of IP.
    pub malformed: u64,
    /// Frames with a VLAN tag.
    pub vlan: u64,
    /// Frames that are neither UDP over IPv4 nor ARP.
    pub other_protocol: u64,
    /// Frames for another host, or another port of this one.
    pub not_ours: u64,
    /// Parts of IPv4 packets.
    pub fragments: u64,
    /// Frames with a wrong checksum of IPv4 or UDP.
    pub bad_checksum: u64,
    /// Frames that do not fit a packet buffer: the other end has a larger MTU.
    pub oversized: u64,
    /// ARP questions asked.
    pub arp_asked: u64,
    /// ARP questions answered.
    pub arp_answered: u64,
    /// Datagrams thrown away because their neighbour has not told its address.
    pub unresolved: u64,
    /// The other end of the link is there, as far as the port knows.
    pub link_up: bool,
    /// Packets that the driver says it has received.
    pub port_received: u64,
    /// Packets that the driver says it has sent.
    pub port_sent: u64,
    /// Packets lost because nobody received them in time.
    pub port_missed: u64,
    /// Packets that the driver received damaged.
    pub port_receive_errors: u64,
    /// Packets that the driver could not send.
    pub port_send_errors: u64,
    /// Times that there was no buffer for a packet.
    pub port_no_buffer: u64,
}

/// How many buffers of a pool there are, and how many of them are not in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolUse {
    /// All of them.
    pub buffers: u32,
    /// Those in the port's queues, on their way, or on loan.
    pub in_use: u32,
}

/// A look at the pools of a backend, also when it is gone: then nothing is in use, unless loans are out.
#[derive(Clone, Debug)]
pub struct Pools {
    receive: Arc<Pool>,
    send: Arc<Pool>,
}

impl Pools {
    /// Of received packets.
    #[must_use]
    pub fn receive(&self) -> PoolUse {
        pool_use(&self.receive)
    }

    /// Of packets to send.
    #[must_use]
    pub fn send(&self) -> PoolUse {
        pool_use(&self.send)
    }
}

fn pool_use(pool: &Pool) -> PoolUse {
    PoolUse {
        buffers: pool.count(),
        in_use: pool.in_use(),
    }
}

/// A received datagram.
struct Slot {
    /// `None` once taken.
    packet: Option<Packet>,
    source: SocketAddr,
    start: usize,
    end: usize,
}

/// A datagram that waits for its neighbour's address.
struct Parked {
    to: SocketAddrV4,
    packet: Packet,
}

/// A [`Bytes`] that is a packet: the buffer goes back when the last handle is dropped.
struct Loan {
    packet: Packet,
    start: usize,
    end: usize,
    /// Dropped after the packet.
    _pool: Arc<Pool>,
}

impl AsRef<[u8]> for Loan {
    fn as_ref(&self) -> &[u8] {
        &self.packet.data()[self.start..self.end]
    }
}

/// A [`Backend`] on a port of DPDK.
pub struct DpdkBackend {
    // Fields that hold packets come before the port and the pools: they are dropped in this order.
    slots: Vec<Slot>,
    staged: Burst,
    outgoing: Burst,
    parked: Vec<Parked>,
    port: Port,
    pools: Pools,
    neighbours: Neighbours,
    host: Host,
    checksum: UdpChecksum,
    max_datagram: usize,
    identification: u16,
    /// Since when the port has taken nothing.
    full_since: Option<Instant>,
    stats: BackendStats,
    more: DpdkStats,
}

impl DpdkBackend {
    /// Opens a port with the address `addr`, which must be IPv4 and not a wildcard; port 0 takes one.
    ///
    /// # Errors
    /// [`DpdkError`] says what to do.
    pub fn bind(addr: SocketAddr, options: &DpdkOptions) -> Result<Self, DpdkError> {
        let SocketAddr::V4(addr) = addr else {
            return Err(DpdkError::Address { addr });
        };
        let ip = *addr.ip();
        if ip.is_unspecified() || ip.is_multicast() || ip.is_broadcast() {
            return Err(DpdkError::Address { addr: addr.into() });
        }
        let port = match addr.port() {
            // The whole range is free. Processes that follow one another take different ones.
            0 => FIRST_FREE_PORT + (std::process::id() % u32::from(u16::MAX - FIRST_FREE_PORT)) as u16,
            port => port,
        };
        sys::start(arguments(options))?;
        let mtu = options.packet_size();
        let room = options.device.buffer(mtu);
        let count = u32::from(options.descriptors) * 2 + 8 * BURST as u32;
        let pools = Pools {
            // Twice the queue, so that as many can be handed up or on loan.
            receive: Pool::new(count.next_power_of_two() - 1, room)?,
            send: Pool::new(count.next_power_of_two() - 1, room)?,
        };
        let (device, made) = options.device.words(sys::unique(), mtu, options.descriptors);
        let setup = Setup {
            device: &device,
            arguments: options.device.is_virtual().then_some(made.as_str()),
            mtu,
            descriptors: options.descriptors,
            offload: options.checksum != Checksum::Off,
            receive: Arc::clone(&pools.receive),
            send: Arc::clone(&pools.send),
        };
        let mut left = options.patience;
        let port_of_device = Port::open(&setup, &mut || {
            let again = options.device.needs_other_end() && left >= RETRY;
            if again {
                left -= RETRY;
                pause(RETRY);
            }
            again
        })?;
        let host = Host {
            mac: port_of_device.mac,
            addr: SocketAddrV4::new(ip, port),
        };
        let checksum = match options.checksum {
            Checksum::Off => UdpChecksum::Absent,
            _ if port_of_device.offload => UdpChecksum::Port,
            Checksum::Auto if options.device.is_memory() => UdpChecksum::Absent,
            Checksum::Auto | Checksum::On => UdpChecksum::Software,
        };
        let mut this = Self {
            slots: Vec::with_capacity(BURST),
            staged: Burst::new(),
            outgoing: Burst::new(),
            parked: Vec::with_capacity(PARKED),
            port: port_of_device,
            pools,
            neighbours: Neighbours::new(host),
            host,
            checksum,
            max_datagram: usize::from(mtu) - OVERHEAD,
            identification: 0,
            full_since: None,
            stats: BackendStats::default(),
            more: DpdkStats::default(),
        };
        this.wait_for_link(options);
        // Who knew this address with another card learns the new one.
        this.send_arp(frame::arp_request(&host, ip));
        Ok(this)
    }

    /// The side that starts second finds the other one there.
    fn wait_for_link(&self, options: &DpdkOptions) {
        let mut left = LINK;
        while options.device.needs_other_end() && !self.port.is_up() && left > Duration::ZERO {
            let nap = Duration::from_millis(1);
            pause(nap);
            left = left.saturating_sub(nap);
        }
    }

    /// Largest datagram, octets: the smaller of this and what the MTU allows.
    #[must_use]
    pub fn max_datagram(mut self, octets: usize) -> Self {
        self.max_datagram = octets.clamp(1, self.max_datagram);
        self
    }

    /// A look at the packet buffers.
    #[must_use]
    pub fn pools(&self) -> Pools {
        self.pools.clone()
    }

    /// The port's Ethernet address.
    #[must_use]
    pub fn mac(&self) -> [u8; 6] {
        self.host.mac
    }

    /// What only this backend counts.
    #[must_use]
    pub fn dpdk_stats(&self) -> DpdkStats {
        let counters = self.port.counters();
        DpdkStats {
            link_up: self.port.is_up(),
            port_received: counters.received,
            port_sent: counters.sent,
            port_missed: counters.missed,
            port_receive_errors: counters.receive_errors,
            port_send_errors: counters.send_errors,
            port_no_buffer: counters.no_buffer,
            ..self.more
        }
    }

    /// Sends a frame of our own; if that can not be done now, it is as if it were lost.
    fn send_arp(&mut self, octets: [u8; frame::ARP_FRAME]) {
        let mut one = Burst::new();
        if self.pools.send.take(1, octets.len(), &mut one) {
            one.for_each(|_, packet| packet.data_mut().copy_from_slice(&octets));
            self.port.send(&mut one);
        }
    }

    /// Fills `self.outgoing` with the datagrams of `transmit`, their headers left out.
    #[inline]
    fn load(&mut self, transmit: &Transmit<'_>) -> bool {
        let len = HEADERS + transmit.segment_size.min(transmit.len);
        let segments = transmit.segments();
        if !self.pools.send.take(segments, len, &mut self.outgoing) {
            return false;
        }
        let mut gather = Gather::new(transmit.slices);
        let last = transmit.len - (segments - 1) * transmit.segment_size.min(transmit.len);
        self.outgoing.for_each(|index, packet| {
            if index + 1 == segments {
                packet.cut(HEADERS + last);
            }
            gather.copy(&mut packet.data_mut()[HEADERS..]);
        });
        true
    }

    /// Sends what is in `outgoing`; what the port does not take is thrown away.
    #[inline]
    fn push_out(&mut self, now: Instant) -> Sent {
        let all = self.outgoing.len();
        let mut sent = 0;
        for _ in 0..TRIES {
            self.stats.transmit_calls += 1;
            sent += self.port.send(&mut self.outgoing);
            if sent == all {
                self.full_since = None;
                return Sent::All;
            }
            std::hint::spin_loop();
        }
        self.outgoing.clear();
        let since = *self.full_since.get_or_insert(now);
        let stuck = now.saturating_since(since).as_nanos() as u64 >= STUCK;
        if sent > 0 {
            self.full_since = None;
        }
        if sent > 0 || stuck || !self.port.is_up() {
            Sent::Dropped
        } else {
            Sent::Busy
        }
    }

    /// Keeps what is in `outgoing` until `to` has told its address; the oldest have to go.
    fn park(&mut self, to: SocketAddrV4) {
        while let Some(packet) = self.outgoing.pop() {
            if self.parked.len() == PARKED {
                self.parked.remove(0);
                self.more.unresolved += 1;
            }
            self.parked.push(Parked { to, packet });
        }
    }

    /// Sends what has waited for the address of `ip`.
    fn unpark(&mut self, now: Instant, ip: Ipv4Addr) {
        let Some(template) = self.neighbours.route(now, ip).template.cloned() else {
            return;
        };
        let (ready, waiting) = std::mem::take(&mut self.parked)
            .into_iter()
            .partition(|parked| *parked.to.ip() == ip);
        self.parked = waiting;
        for Parked { to, packet } in ready {
            if self.outgoing.push(packet).is_err() {
                continue;
            }
            let identification = &mut self.identification;
            address(&mut self.outgoing, &template, to.port(), self.checksum, identification);
            let _ = self.push_out(now);
        }
    }

    fn hear(&mut self, now: Instant, arp: &frame::Arp) {
        let heard = self.neighbours.hear(now, arp);
        if heard.answer {
            self.more.arp_answered += 1;
            self.send_arp(frame::arp_reply(&self.host, arp.sender_mac, arp.sender));
        }
        if let Some(ip) = heard.resolved {
            self.unpark(now, ip);
        }
    }

    fn count(&mut self, useless: Useless) {
        let counter = match useless {
            Useless::Malformed => &mut self.more.malformed,
            Useless::Vlan => &mut self.more.vlan,
            Useless::OtherProtocol => &mut self.more.other_protocol,
            Useless::NotOurs => &mut self.more.not_ours,
            Useless::Fragment => &mut self.more.fragments,
            Useless::BadChecksum => &mut self.more.bad_checksum,
        };
        *counter += 1;
    }

    /// Looks at a received packet, which becomes a slot if it is a datagram for us.
    #[inline]
    fn look(&mut self, now: Instant, packet: Packet) {
        if !packet.is_whole() {
            self.more.oversized += 1;
            return;
        }
        let checked = packet.udp_checksum();
        let read = if checked == Some(false) {
            Err(Useless::BadChecksum)
        } else {
            frame::parse(packet.data(), &self.host, checked == Some(true))
        };
        match read {
            // As with sockets, an empty datagram is nothing to hand up.
            Ok(Frame::Datagram { start, end, .. }) if start == end => {}
            Ok(Frame::Datagram { source, start, end }) => {
                self.stats.datagrams_received += 1;
                self.stats.bytes_received += (end - start) as u64;
                self.slots.push(Slot {
                    packet: Some(packet),
                    source: source.into(),
                    start,
                    end,
                });
            }
            Ok(Frame::Arp(arp)) => self.hear(now, &arp),
            Err(useless) => self.count(useless),
        }
    }

    fn dropped(&mut self) -> Sent {
        self.stats.dropped += 1;
        Sent::Dropped
    }
}

/// Writes the headers of all packets of a burst.
#[inline]
fn address(burst: &mut Burst, template: &Template, port: u16, checksum: UdpChecksum, identification: &mut u16) {
    burst.for_each(|_, packet| {
        *identification = identification.wrapping_add(1);
        template.write(packet.data_mut(), port, *identification, checksum);
        if checksum == UdpChecksum::Port {
            packet.ask_udp_checksum(ETHERNET, IPV4);
        }
    });
}

/// Arguments of EAL.
fn arguments(options: &DpdkOptions) -> Vec<String> {
    let mut arguments = vec![
        "--iova-mode=va".to_owned(),
        "--no-telemetry".to_owned(),
        // Processes do not share anything unless they want to.
        format!("--file-prefix=hikyaku-{}", std::process::id()),
    ];
    let given = |names: &[&str]| {
        options
            .eal
            .iter()
            .any(|argument| names.iter().any(|name| argument.starts_with(name)))
    };
    if !options.pci {
        arguments.push("--no-pci".to_owned());
    }
    if !given(&["--log-level"]) {
        arguments.push("--log-level=*:critical".to_owned());
    }
    // One of EAL's threads, which is this one and stays on the processors on which it is.
    if !given(&["-l", "-c", "--lcores"]) {
        arguments.push(format!("--lcores=0@({})", processors()));
    }
    let memory = match options.memory {
        Memory::Auto if free_hugepages() >= u64::from(options.memory_mb) * 1_000_000 => Memory::InMemory,
        Memory::Auto => Memory::NoHuge,
        other => other,
    };
    match memory {
        // In few files, which is what virtio-user and memif without copies hand to the other end.
        Memory::InMemory => arguments.extend(["--in-memory", "--single-file-segments"].map(str::to_owned)),
        Memory::Hugepages => {}
        Memory::NoHuge | Memory::Auto => arguments.extend([
            "--no-huge".to_owned(),
            "--no-shconf".to_owned(),
            format!("-m{}", options.memory_mb),
        ]),
    }
    arguments.extend(options.eal.iter().cloned());
    arguments
}

/// Processors on which this thread may run, in the kernel's words, for instance `0-3,8`.
fn processors() -> String {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.map_or("0", str::trim).to_owned()
}

/// Octets of free hugepages of the default size.
fn free_hugepages() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let number = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    let pages = number("HugePages_Free:").unwrap_or(0);
    pages * number("Hugepagesize:").unwrap_or(0) * 1024
}

#[expect(
    clippy::disallowed_methods,
    reason = "a poll-mode port has nothing to sleep on; waits for it nap instead, with a deadline"
)]
fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Copies a gather list piece by piece.
struct Gather<'a> {
    slices: &'a [io::IoSlice<'a>],
    /// Octets of the first slice that are done.
    done: usize,
}

impl<'a> Gather<'a> {
    fn new(slices: &'a [io::IoSlice<'a>]) -> Self {
        Self { slices, done: 0 }
    }

    /// Fills `to` with the next octets; less if there are no more.
    #[inline]
    fn copy(&mut self, mut to: &mut [u8]) {
        while let Some((first, rest)) = self.slices.split_first() {
            let left = &first[self.done..];
            let (now, later) = to.split_at_mut(left.len().min(to.len()));
            now.copy_from_slice(&left[..now.len()]);
            to = later;
            if now.len() == left.len() {
                (self.slices, self.done) = (rest, 0);
            } else {
                self.done += now.len();
                return;
            }
        }
    }
}

impl Backend for DpdkBackend {
    fn name(&self) -> &'static str {
        "dpdk"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            max_datagram: self.max_datagram,
            max_segments: BURST,
            max_batch: BURST * self.max_datagram,
            receive_buffer: usize::from(self.port.descriptors) * self.max_datagram,
            checksummed: true,
            holds_references: false,
            receive_port: 0,
        }
    }

    fn local_addr(&self) -> SocketAddr {
        self.host.addr.into()
    }

    fn transmit(&mut self, now: Instant, transmit: &Transmit<'_>) -> io::Result<Sent> {
        if transmit.len == 0 {
            return Ok(Sent::All);
        }
        let SocketAddr::V4(to) = transmit.destination else {
            return Ok(self.dropped());
        };
        // Nothing is fragmented here, so what does not fit can not go, whatever the caller allows.
        let datagram = transmit.segment_size.min(transmit.len);
        if datagram > self.max_datagram || datagram == 0 || transmit.segments() > BURST {
            return Ok(self.dropped());
        }
        if !self.load(transmit) {
            // The port has them in its queue.
            self.stats.busy += 1;
            return Ok(Sent::Busy);
        }
        let route = self.neighbours.route(now, *to.ip());
        let ask = route.ask;
        let sent = if let Some(template) = route.template {
            let identification = &mut self.identification;
            address(&mut self.outgoing, template, to.port(), self.checksum, identification);
            self.push_out(now)
        } else {
            self.park(to);
            Sent::All
        };
        if ask {
            self.more.arp_asked += 1;
            self.send_arp(frame::arp_request(&self.host, *to.ip()));
        }
        match sent {
            Sent::All => {
                self.stats.datagrams_sent += transmit.segments() as u64;
                self.stats.bytes_sent += transmit.len as u64;
            }
            Sent::Busy => self.stats.busy += 1,
            Sent::Dropped => self.stats.dropped += 1,
        }
        Ok(sent)
    }

    fn receive(&mut self, now: Instant, budget: usize) -> io::Result<usize> {
        self.slots.clear();
        let mut looks = 0;
        while self.slots.len() < budget.min(BURST) {
            if let Some(packet) = self.staged.pop() {
                self.look(now, packet);
                continue;
            }
            if looks == LOOKS || !self.slots.is_empty() {
                break;
            }
            looks += 1;
            self.stats.receive_calls += 1;
            if self.port.receive(&mut self.staged) == 0 {
                break;
            }
        }
        Ok(self.slots.len())
    }

    fn received(&mut self, index: usize) -> Received<'_> {
        let slot = &mut self.slots[index];
        let packet = slot.packet.as_mut().expect("the buffer has been taken");
        Received {
            source: slot.source,
            stride: slot.end - slot.start,
            data: &mut packet.data_mut()[slot.start..slot.end],
        }
    }

    fn take(&mut self, index: usize) -> Bytes {
        let slot = &mut self.slots[index];
        let packet = slot.packet.take().expect("the buffer has been taken");
        Bytes::from_owner(Loan {
            packet,
            start: slot.start,
            end: slot.end,
            _pool: Arc::clone(&self.pools.receive),
        })
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<Wake> {
        let mut left = timeout;
        let mut looks = 0;
        loop {
            if !self.staged.is_empty() || self.port.receive(&mut self.staged) > 0 {
                return Ok(Wake::Readable);
            }
            looks += 1;
            if left == Some(Duration::ZERO) {
                return Ok(Wake::TimedOut);
            }
            if looks < SPINS {
                std::hint::spin_loop();
                continue;
            }
            let nap = left.map_or(NAP, |left| left.min(NAP));
            pause(nap);
            // A nap takes longer than it says; those who wait have a clock and ask again.
            left = left.map(|left| left - nap);
        }
    }

    fn stats(&self) -> BackendStats {
        self.stats
    }
}

impl fmt::Debug for DpdkBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DpdkBackend")
            .field("local", &self.host.addr)
            .field("driver", &self.port.driver)
            .finish_non_exhaustive()
    }
}

/// DPDK's version, for instance `DPDK 22.11.11`.
#[must_use]
pub fn version() -> String {
    sys::version()
}
