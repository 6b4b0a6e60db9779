//! A port that several backends of a process share. It gives queues to backends, and brings datagrams to the backends
//! to which they are addressed.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt, io,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use super::{
    DpdkError, DpdkOptions,
    discovery::Notice,
    eal,
    ethernet::Host,
    frame::UdpChecksum,
    guests::{self, Guests, Wires},
    options::Checksum,
    sleep::pause,
    slots::Slot,
    sys::{self, BURST, Pool, Port, ReceiveQueue, Rule, SendQueue, Setup},
};
use crate::shm::Segment;

/// The first UDP port that port 0 may choose.
const FIRST_FREE_PORT: u16 = 49_152;
/// The smallest burst. A call for fewer packets is not worth its cost.
const FEW: usize = 8;
/// Time between two attempts to start a port whose other end is not there yet.
const RETRY: Duration = Duration::from_millis(20);
/// The most notices that wait for a backend that does not receive; later ones are lost.
const NOTICES: usize = 64;

/// Where the link is memory, this many bytes are moved in one go and then acknowledged (measured over memif): the other
/// end can work while this one copies, and bytes that are copied twice are still in a cache the second time.
pub(super) const STRIDE: usize = 64 << 10;

/// The memory of this process's packets has been shown to another end, or this has been tried. It is possible once.
static SHOWN: AtomicBool = AtomicBool::new(false);

/// Checks whether a device may be opened whose other end reads the packets in this process's memory. `elsewhere`: some
/// packets are not in EAL's memory.
fn may_show(options: &DpdkOptions, elsewhere: bool) -> Result<(), DpdkError> {
    let why = if elsewhere {
        "packets that are lent to other processes cannot be shown to another end, too: use it without zero-copy"
    } else if SHOWN.swap(true, Ordering::Relaxed) {
        "DPDK closes the file of its memory when it shows that to another end: a process can open one such link, once"
    } else {
        return Ok(());
    };
    Err(DpdkError::Device {
        device: options.device.to_string(),
        source: io::Error::new(io::ErrorKind::Unsupported, why),
    })
}

/// Where the packets that a port receives are to lie, so that they can be lent.
pub(crate) enum Lending {
    /// So many buffers, for packets of up to `room` bytes, in memory of one's own.
    Memory {
        memory: Arc<Segment>,
        buffers: u32,
        room: u16,
        /// Further queues are made, for so many processes that share DPDK's memory.
        places: u16,
    },
    /// The buffers of another port.
    With(DpdkPort),
}

/// Size and use of a pool of buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolUse {
    /// Buffers of the pool.
    pub buffers: u32,
    /// Buffers in the port's queues, under way, or on loan.
    pub in_use: u32,
}

/// Shows how the pools of a backend are used, even after the backend is gone: then no buffer is in use, except for
/// loans.
#[derive(Clone, Debug)]
pub struct Pools {
    pub(super) receive: Arc<Pool>,
    pub(super) send: Arc<Pool>,
}

impl Pools {
    /// The pool for received packets.
    #[must_use]
    pub fn receive(&self) -> PoolUse {
        pool_use(&self.receive)
    }

    /// The pool for packets to send.
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

/// How datagrams reach the backend to which their UDP port belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Steering {
    /// The port puts them into the backend's own queue, by a rule (`rte_flow`).
    Port,
    /// The backend that finds the datagrams in a queue hands them over; the port does not support rules.
    Software,
    /// As [`Software`](Self::Software): the port accepted the rule when it was checked, but could not create it.
    Refused,
}

/// A started port of DPDK, shared by several [`DpdkBackend`](super::DpdkBackend)s of one process, on any threads.
///
/// Each backend has an address (UDP port) and queues of its own, out of those that were made at the start. If the port
/// can make rules, it puts a backend's datagrams into the backend's queue. If not, the backend that finds a datagram
/// hands it over: each backend looks into its own queues most of the time and into all others in turn, so that no
/// datagram is stuck in the queue of a backend that is busy.
///
/// A backend that does not receive has a bounded number of datagrams waiting ([`DpdkOptions::descriptors`]). Further
/// ones are lost, and counted. So a flood to one backend costs the others only the time to drop it.
#[derive(Clone)]
pub struct DpdkPort {
    pub(super) shared: Arc<Shared>,
}

/// State that the backends of a port share. Fields that hold packets come before the pools: they are dropped in this
/// order.
pub(super) struct Shared {
    mailboxes: RwLock<BTreeMap<SocketAddr, Arc<Mailbox>>>,
    /// Each is locked while a backend receives from it; a backend that finds a queue locked tries another one. `None`:
    /// one backend has all of them.
    queues: Vec<Mutex<Option<ReceiveQueue>>>,
    /// Send queues that no backend has, the lowest number last: the eager queues, and the own queues.
    free: Mutex<[Vec<SendQueue>; 2]>,
    pub(super) port: Arc<Port>,
    pub(super) pools: Pools,
    /// The queues for other processes.
    pub(super) guests: Option<Guests>,
    /// The most packets that are sent or received in one call.
    pub(super) burst: usize,
    /// The pages of the link's memory are all present.
    populated: AtomicBool,
    pub(super) options: DpdkOptions,
}

/// Datagrams and notices that other backends have found for one backend.
pub(super) struct Mailbox {
    waits: Mutex<Waiting>,
    /// The number of datagrams and notices in `waits`.
    waiting: AtomicUsize,
    /// The number of datagrams that other backends have put here.
    handed_over: AtomicU64,
    /// The number of datagrams for which there was no room here.
    overflows: AtomicU64,
}

#[derive(Default)]
struct Waiting {
    datagrams: VecDeque<Slot>,
    notices: VecDeque<Notice>,
}

/// A datagram or a notice for a backend.
pub(super) enum Item {
    Datagram(Slot),
    Notice(Notice),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Queues and lists are consistent even after a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Mailbox {
    fn new() -> Self {
        Self {
            waits: Mutex::default(),
            waiting: AtomicUsize::new(0),
            handed_over: AtomicU64::new(0),
            overflows: AtomicU64::new(0),
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.load(Ordering::Acquire) == 0
    }

    /// Returns the oldest item, notices first.
    pub(super) fn pop(&self) -> Option<Item> {
        let mut waits = lock(&self.waits);
        let notice = waits.notices.pop_front().map(Item::Notice);
        let item = notice.or_else(|| waits.datagrams.pop_front().map(Item::Datagram));
        self.count(&waits);
        item
    }

    fn count(&self, waits: &Waiting) {
        let count = waits.notices.len() + waits.datagrams.len();
        self.waiting.store(count, Ordering::Release);
    }

    /// Adds a datagram if fewer than `limit` wait. Otherwise drops it.
    fn hand_over(&self, datagram: Slot, limit: usize) {
        let mut waits = lock(&self.waits);
        let counter = if waits.datagrams.len() < limit {
            waits.datagrams.push_back(datagram);
            &self.handed_over
        } else {
            &self.overflows
        };
        counter.fetch_add(1, Ordering::Relaxed);
        self.count(&waits);
    }

    fn tell(&self, notice: Notice) {
        let mut waits = lock(&self.waits);
        if waits.notices.len() < NOTICES {
            waits.notices.push_back(notice);
        }
        self.count(&waits);
    }

    pub(super) fn handed_over(&self) -> u64 {
        self.handed_over.load(Ordering::Relaxed)
    }

    pub(super) fn overflows(&self) -> u64 {
        self.overflows.load(Ordering::Relaxed)
    }
}

impl Shared {
    /// Receives from a queue, unless another backend does so now. Returns whether there were packets.
    #[inline]
    pub(super) fn receive(&self, queue: u16, packets: &mut sys::Burst) -> bool {
        let queue = match self.queues[usize::from(queue)].try_lock() {
            Ok(queue) => Some(queue),
            Err(std::sync::TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(std::sync::TryLockError::WouldBlock) => None,
        };
        let mut queue = queue;
        let queue = queue.as_mut().and_then(|queue| queue.as_mut());
        queue.is_some_and(|queue| queue.receive(packets) > 0)
    }

    /// The most datagrams that may wait for one backend, and the most that it may have on loan.
    pub(super) fn share(&self) -> usize {
        self.port.descriptors.into()
    }

    /// Returns whether a backend of the port has this address.
    fn is_here(&self, ip: IpAddr) -> bool {
        let mailboxes = self.mailboxes.read().unwrap_or_else(PoisonError::into_inner);
        mailboxes.keys().any(|addr| addr.ip() == ip)
    }

    /// Hands a datagram to the backend with the address `to`. `false`: no backend of the port has it.
    pub(super) fn hand_over(&self, to: SocketAddr, datagram: Slot) -> bool {
        let mailboxes = self.mailboxes.read().unwrap_or_else(PoisonError::into_inner);
        let Some(mailbox) = mailboxes.get(&to) else {
            return false;
        };
        mailbox.hand_over(datagram, self.share());
        true
    }

    /// Passes a notice to all backends but `from`. Returns whether the notice requests the address of a backend of the
    /// port, and so must be answered.
    pub(super) fn tell(&self, from: &Arc<Mailbox>, notice: &Notice) -> bool {
        let mailboxes = self.mailboxes.read().unwrap_or_else(PoisonError::into_inner);
        for mailbox in mailboxes.values().filter(|mailbox| !Arc::ptr_eq(mailbox, from)) {
            mailbox.tell(*notice);
        }
        drop(mailboxes);
        notice.is_request && notice.sender != notice.target && self.is_here(notice.target)
    }

    /// Removes a backend, and makes its queues available again.
    pub(super) fn leave(&self, addr: SocketAddr, queues: &mut Vec<SendQueue>, alone: &mut Vec<ReceiveQueue>) {
        for (place, queue) in self.queues.iter().zip(alone.drain(..)) {
            *lock(place) = Some(queue);
        }
        let mut mailboxes = self.mailboxes.write().unwrap_or_else(PoisonError::into_inner);
        mailboxes.remove(&addr);
        drop(mailboxes);
        let mut free = lock(&self.free);
        for queue in queues.drain(..) {
            free[usize::from(queue.index() >= self.options.queues)].push(queue);
        }
        free.iter_mut().for_each(|free| sort(free));
    }
}

/// Sorts the queues so that the lowest number is taken first.
fn sort(queues: &mut [SendQueue]) {
    queues.sort_by_key(|queue| std::cmp::Reverse(queue.index()));
}

/// The parts of a port that belong to one backend.
pub(super) struct Seat {
    pub(super) host: Host,
    pub(super) queues: Vec<SendQueue>,
    /// All receive queues, if the backend has all send queues: then the port can have no other backend, and no locks
    /// are needed.
    pub(super) alone: Vec<ReceiveQueue>,
    pub(super) mailbox: Arc<Mailbox>,
    /// Removed with the backend.
    pub(super) rule: Option<Rule>,
    pub(super) steering: Steering,
}

impl DpdkPort {
    /// Opens the port of [`DpdkOptions::device`], with [`queues`](DpdkOptions::queues) and
    /// [`own_queues`](DpdkOptions::own_queues) in each direction.
    ///
    /// # Errors
    /// [`DpdkError`] says what to do.
    pub fn open(options: &DpdkOptions) -> Result<Self, DpdkError> {
        Self::open_with(options, None)
    }

    /// Opens the port as [`open`](Self::open) does. Packets are received into the memory of `lending`, if it is given.
    pub(crate) fn open_with(options: &DpdkOptions, lending: Option<Lending>) -> Result<Self, DpdkError> {
        if options.device.shows_memory() {
            may_show(options, lending.is_some())?;
        }
        let places = match lending {
            Some(Lending::Memory { places, .. }) => places,
            _ => 0,
        };
        let wires = guests::wires(options, places)?;
        eal::start(options)?;
        let mtu = options.packet_size();
        let room = options.device.buffer(mtu);
        let queues = options.queues.max(1) + options.own_queues;
        // Buffers for each queue and its backend: those in the queue, as many that are handed up or on loan, and, if
        // there are several queues, those that wait in a mailbox.
        let parts = if queues > 1 { 3 } else { 2 };
        let count = u32::from(queues) * (u32::from(options.queue_size()) * parts + 8 * BURST as u32);
        let send = u32::from(queues) * (u32::from(options.queue_size()) * 2 + 8 * BURST as u32);
        let pools = Pools {
            receive: match lending {
                Some(Lending::Memory {
                    memory, buffers, room, ..
                }) => Pool::outside(buffers, room, memory)?,
                Some(Lending::With(port)) => Arc::clone(&port.shared.pools.receive),
                None => Pool::new(count.next_power_of_two() - 1, room)?,
            },
            send: Pool::new(send.next_power_of_two() - 1, room)?,
        };
        let queues = queues + wires.as_ref().map_or(0, Wires::queues);
        let (device, made) = options.device.words(sys::unique(), mtu, options.queue_size(), queues);
        let burst = burst_of(options);
        let guests = wires.map(|wires| Guests::new(options, &device, wires)).transpose()?;
        let setup = Setup {
            device: &device,
            arguments: options.device.is_virtual().then_some(made.as_str()),
            mtu,
            descriptors: options.queue_size(),
            queues,
            burst,
            spread: options.queues.max(1),
            offload: options.checksum != Checksum::Off,
            segments: options.device.copies_when_sent(),
            joins: options.device.needs_other_end(),
            receive: Arc::clone(&pools.receive),
            send: Arc::clone(&pools.send),
            guests: guests.iter().flat_map(Guests::receive).collect(),
        };
        let mut left = options.link_timeout;
        let opened = Port::open(&setup, &mut || {
            let again = options.device.needs_other_end() && left >= RETRY;
            if again {
                left -= RETRY;
                pause(RETRY);
            }
            again
        })?;
        let mut free = [Vec::new(), Vec::new()];
        for queue in opened.send {
            free[usize::from(queue.index() >= options.queues.max(1))].push(queue);
        }
        free.iter_mut().for_each(|free| sort(free));
        let this = Self {
            shared: Arc::new(Shared {
                mailboxes: RwLock::default(),
                queues: opened
                    .receive
                    .into_iter()
                    .map(|queue| Mutex::new(Some(queue)))
                    .collect(),
                free: Mutex::new(free),
                port: opened.port,
                pools,
                guests,
                burst,
                populated: AtomicBool::new(false),
                options: DpdkOptions {
                    queues: options.queues.max(1),
                    ..options.clone()
                },
            }),
        };
        this.shared.populate();
        Ok(this)
    }

    /// A port of which this process has the queues `lanes` (to send, and to receive); another one has opened it.
    pub(super) fn of_queues(
        device: &str,
        lanes: &[[u16; 2]],
        pools: [Arc<Pool>; 2],
        options: DpdkOptions,
    ) -> Result<Self, DpdkError> {
        let kept = pools.to_vec();
        let opened = Port::borrow(device, lanes, options.queue_size(), burst_of(&options), kept)?;
        let [receive, send] = pools;
        let queues = opened.receive.into_iter().map(|queue| Mutex::new(Some(queue)));
        let mut free = opened.send;
        sort(&mut free);
        Ok(Self {
            shared: Arc::new(Shared {
                mailboxes: RwLock::default(),
                queues: queues.collect(),
                free: Mutex::new([free, Vec::new()]),
                port: opened.port,
                pools: Pools { receive, send },
                guests: None,
                burst: burst_of(&options),
                // The rings are of the other process.
                populated: AtomicBool::new(true),
                options: DpdkOptions {
                    queues: lanes.len() as u16,
                    ..options
                },
            }),
        })
    }

    pub(super) fn seat(&self, addr: SocketAddr, count: u16, kind: usize) -> Result<Seat, DpdkError> {
        check_address(addr)?;
        let shared = &*self.shared;
        let mailbox = Arc::new(Mailbox::new());
        let mut mailboxes = shared.mailboxes.write().unwrap_or_else(PoisonError::into_inner);
        let addr = match addr.port() {
            0 => free_port(addr.ip(), |addr| mailboxes.contains_key(addr)),
            port => SocketAddr::new(addr.ip(), port),
        };
        if mailboxes.contains_key(&addr) {
            return Err(DpdkError::AddressTaken { addr });
        }
        let mut free = lock(&shared.free);
        let left = free[kind].len();
        if usize::from(count) > left {
            return Err(DpdkError::NoQueue {
                device: shared.options.device.to_string(),
                wanted: count,
                left: left as u16,
            });
        }
        let queues: Vec<_> = (0..count).filter_map(|_| free[kind].pop()).collect();
        drop(free);
        let alone = match queues.len() == shared.queues.len() {
            true => shared.queues.iter().filter_map(|queue| lock(queue).take()).collect(),
            false => Vec::new(),
        };
        mailboxes.insert(addr, Arc::clone(&mailbox));
        drop(mailboxes);
        let (mut rule, mut steering) = (None, Steering::Software);
        if let ([queue], true) = (&queues[..], shared.queues.len() > 1) {
            let version = if addr.is_ipv4() { 4 } else { 6 };
            match Rule::new(&shared.port, version, addr.port(), queue.index()) {
                Ok(made) => (rule, steering) = (Some(made), Steering::Port),
                Err((_, true)) => steering = Steering::Refused,
                Err((_, false)) => {}
            }
        }
        Ok(Seat {
            host: Host {
                mac: shared.port.mac,
                addr,
            },
            queues,
            alone,
            mailbox,
            rule,
            steering,
        })
    }

    /// Number of queues in each direction.
    #[must_use]
    pub fn queues(&self) -> u16 {
        self.shared.port.queues
    }

    /// The numbers of queues that no backend has: eager queues, and own queues.
    #[must_use]
    pub fn free_queues(&self) -> [u16; 2] {
        lock(&self.shared.free).each_ref().map(|free| free.len() as u16)
    }

    /// The queues over which the port spreads datagrams that no rule steers: a hash over addresses and UDP ports (RSS)
    /// chooses one of these entries. Empty: the port does not hash, or does not report its table.
    #[must_use]
    pub fn spread(&self) -> Vec<u16> {
        self.shared.port.spread()
    }

    /// Returns whether the port hashes addresses and UDP ports, to spread datagrams that no rule steers over its eager
    /// queues (RSS).
    #[must_use]
    pub fn hashes(&self) -> bool {
        self.shared.port.hashes
    }

    /// Returns whether the other end of the link is there, as far as the port knows.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.shared.port.is_up()
    }

    /// Packets that the driver reports as sent since the port was opened.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.shared.port.counters().sent
    }

    /// Speed of the link, 10^6 bit/s, as far as the port knows.
    #[must_use]
    pub fn speed(&self) -> u32 {
        self.shared.port.link().1
    }

    /// The port's Ethernet address.
    #[must_use]
    pub fn mac(&self) -> [u8; 6] {
        self.shared.port.mac
    }

    /// Shows how the packet buffers are used.
    #[must_use]
    pub fn pools(&self) -> Pools {
        self.shared.pools.clone()
    }
}

impl fmt::Debug for DpdkPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DpdkPort")
            .field("driver", &self.shared.port.driver)
            .field("queues", &self.queues())
            .finish_non_exhaustive()
    }
}

/// The most packets that are moved in one call.
pub(super) fn burst_of(options: &DpdkOptions) -> usize {
    match options.device.copies_when_sent() {
        true => (STRIDE / usize::from(options.packet_size())).clamp(FEW, BURST),
        false => BURST,
    }
}

/// Checks that an address is no wildcard, no group or broadcast, not IPv4-mapped, and not link-local (which would mean
/// another host on each link).
pub(super) fn check_address(addr: SocketAddr) -> Result<(), DpdkError> {
    let can_be_own = match addr.ip() {
        IpAddr::V4(ip) => !(ip.is_unspecified() || ip.is_multicast() || ip.is_broadcast()),
        IpAddr::V6(ip) => {
            !(ip.is_unspecified() || ip.is_multicast() || ip.is_unicast_link_local() || ip.to_ipv4_mapped().is_some())
        }
    };
    if can_be_own {
        Ok(())
    } else {
        Err(DpdkError::Address { addr })
    }
}

/// A UDP port that no backend has. Every port of the range may be used. The search starts at a different port in
/// processes that follow one another.
fn free_port(ip: IpAddr, taken: impl Fn(&SocketAddr) -> bool) -> SocketAddr {
    let range = u32::from(u16::MAX - FIRST_FREE_PORT);
    let first = std::process::id() % range;
    (0..range)
        .map(|i| SocketAddr::new(ip, FIRST_FREE_PORT + ((first + i) % range) as u16))
        .find(|addr| !taken(addr))
        .unwrap_or_else(|| SocketAddr::new(ip, FIRST_FREE_PORT))
}

impl Shared {
    /// Makes the pages of the link's memory present before packets come, as soon as the other end is there.
    #[cold]
    pub(super) fn populate(&self) {
        if self.options.device.is_memory() && self.port.is_up() && !self.populated.swap(true, Ordering::Relaxed) {
            sys::populate_rings();
        }
    }

    /// The way in which UDP checksums are made on this port, for IPv4 or IPv6.
    pub(super) fn checksum(&self, is_ipv4: bool) -> UdpChecksum {
        match self.options.checksum {
            Checksum::Off if is_ipv4 => UdpChecksum::Absent,
            _ if self.port.offload => UdpChecksum::Port,
            Checksum::Auto if self.options.device.is_memory() && is_ipv4 => UdpChecksum::Absent,
            Checksum::Auto | Checksum::On | Checksum::Off => UdpChecksum::Software,
        }
    }
}
