//! DPDK itself: everything here that is `unsafe`, behind safe types.
//!
//! - [`Packet`] owns an mbuf: dropping it gives the mbuf back, so each is freed exactly once on every path.
//! - [`Pool`] owns a mempool, and frees it only if all its mbufs are back.
//! - [`Port`] owns a started port and holds on to its pools, because the driver has mbufs of them in its queues.
#![expect(
    unsafe_code,
    reason = "DPDK is C; what makes each call right is in the types of this module"
)]

use std::{
    ffi::{CStr, CString},
    fmt, io, mem, ptr, slice,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

use dpdk_sys as sys;

use super::{error::DpdkError, frame::Mac};

/// Most packets of one call.
pub(super) const BURST: usize = 32;

/// Octets of a frame besides the packet: the header and the check sequence.
const FRAME: u32 = 18;

/// Arguments of EAL once it runs.
static RUNNING: Mutex<Option<Vec<String>>> = Mutex::new(None);
/// Held while devices come and go: DPDK allows that by one thread at a time.
static DEVICES: Mutex<()> = Mutex::new(());
/// Numbers for the names of pools and devices.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// A number that no other caller in this process has.
pub(super) fn unique() -> u32 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn errno(code: i32) -> io::Error {
    io::Error::from_raw_os_error(code.abs())
}

/// The error of the last call on this thread that tells it by `rte_errno`.
fn last_error() -> io::Error {
    // SAFETY: reads a variable of this thread.
    errno(unsafe { sys::dpdk_errno() })
}

/// A negative result is an error.
fn check(result: i32) -> io::Result<()> {
    if result < 0 { Err(errno(result)) } else { Ok(()) }
}

fn c_string(text: &str) -> CString {
    // Settings come without them; the rest of a text with one would be lost.
    CString::new(text.replace('\0', "")).unwrap_or_default()
}

/// Starts EAL, if that has not been done with these arguments.
pub(super) fn start(arguments: Vec<String>) -> Result<(), DpdkError> {
    let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(running) = &*running {
        return if *running == arguments {
            Ok(())
        } else {
            Err(DpdkError::Started {
                running: running.clone(),
                wanted: arguments,
            })
        };
    }
    let words: Vec<CString> = std::iter::once("hikyaku")
        .chain(arguments.iter().map(String::as_str))
        .map(c_string)
        .collect();
    // EAL keeps pointers to some of them.
    let words: &'static [CString] = Vec::leak(words);
    let mut pointers: Vec<_> = words.iter().map(|word| word.as_ptr().cast_mut()).collect();
    // SAFETY: as many pointers to C strings as are said; EAL permutes the pointers and only reads the strings, which live
    // for ever. The lock keeps others from starting it at the same time.
    let result = unsafe { sys::rte_eal_init(pointers.len() as i32, pointers.as_mut_ptr()) };
    if result < 0 {
        let source = last_error();
        return Err(DpdkError::Start { arguments, source });
    }
    *running = Some(arguments);
    Ok(())
}

/// DPDK's version, for instance `DPDK 22.11.11`.
pub(super) fn version() -> String {
    // SAFETY: a C string that is never freed.
    unsafe { CStr::from_ptr(sys::rte_version()) }
        .to_string_lossy()
        .into_owned()
}

/// A pool of packet buffers of one size.
pub(super) struct Pool {
    raw: *mut sys::rte_mempool,
    count: u32,
    room: u16,
}

// SAFETY: a mempool may be used by any thread at the same time (it is a ring for many producers and consumers; its
// caches belong to EAL's threads).
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

impl Pool {
    /// `count` buffers for packets of up to `room` octets.
    pub(super) fn new(count: u32, room: u16) -> Result<Arc<Self>, DpdkError> {
        /// Of each of EAL's threads.
        const CACHE: u32 = 256;
        let name = c_string(&format!("hikyaku{}", unique()));
        let data_room = room + sys::RTE_PKTMBUF_HEADROOM as u16;
        let cache = CACHE.min(count / 4);
        // SAFETY: EAL has been started (`DpdkBackend::bind` does that first), the name is a C string; -1 is any socket.
        let raw = unsafe { sys::rte_pktmbuf_pool_create(name.as_ptr(), count, cache, 0, data_room, -1) };
        if raw.is_null() {
            return Err(DpdkError::Pool {
                octets: count as usize * (usize::from(data_room) + 256),
                source: last_error(),
            });
        }
        Ok(Arc::new(Self { raw, count, room }))
    }

    /// Octets of a packet.
    pub(super) fn room(&self) -> usize {
        self.room.into()
    }

    /// Buffers in all.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Buffers that are not in the pool.
    pub(super) fn in_use(&self) -> u32 {
        // SAFETY: the pool lives as long as `self`.
        unsafe { sys::rte_mempool_in_use_count(self.raw) }
    }

    /// Takes `count` (at most [`BURST`]) packets of `len` octets each out of the pool and adds them to `packets`; `false`:
    /// there are not that many, or they are not that large. What is in them is anybody's guess, but it has been written.
    #[inline]
    pub(super) fn take(&self, count: usize, len: usize, packets: &mut Burst) -> bool {
        debug_assert!(packets.is_empty());
        if count > BURST || len > self.room() {
            return false;
        }
        packets.clear();
        // SAFETY: room for `count` packets; the pool lives as long as `self`. `dpdk_alloc` fills in all or none.
        let result = unsafe { sys::dpdk_alloc(self.raw, len as u32, packets.slots.as_mut_ptr(), count as u32) };
        if result == 0 {
            packets.end = count;
        }
        result == 0
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // Who still has an mbuf may still use it; memory that is lost is the smaller harm. Loans hold the pool, ports do.
        if self.in_use() == 0 {
            // SAFETY: all mbufs are back, and this is the only owner.
            unsafe { sys::rte_mempool_free(self.raw) };
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("count", &self.count)
            .field("in_use", &self.in_use())
            .finish_non_exhaustive()
    }
}

/// A packet of one segment, with its buffer.
pub(super) struct Packet(sys::dpdk_packet);

// SAFETY: it owns its mbuf; freeing one is allowed on any thread.
unsafe impl Send for Packet {}
// SAFETY: shared, it can only be read.
unsafe impl Sync for Packet {}

impl Packet {
    /// The octets of the frame.
    #[inline]
    pub(super) fn data(&self) -> &[u8] {
        // SAFETY: the first segment has `data_len` octets at `data`, which nobody else refers to.
        unsafe { slice::from_raw_parts(self.0.data, self.0.data_len as usize) }
    }

    /// The octets of the frame.
    #[inline]
    pub(super) fn data_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `data`, and `self` is borrowed for writing.
        unsafe { slice::from_raw_parts_mut(self.0.data, self.0.data_len as usize) }
    }

    /// All of the packet is in its first segment.
    #[inline]
    pub(super) fn is_whole(&self) -> bool {
        self.0.data_len == self.0.packet_len
    }

    /// Whether the port has looked at the UDP checksum: right, wrong, or not looked.
    #[inline]
    pub(super) fn udp_checksum(&self) -> Option<bool> {
        match self.0.flags & sys::DPDK_RX_L4_CHECKSUM_MASK {
            // "None": the other end has left it to a card that there is not (virtio); the data is right.
            sys::DPDK_RX_L4_CHECKSUM_GOOD | sys::DPDK_RX_L4_CHECKSUM_NONE => Some(true),
            sys::DPDK_RX_L4_CHECKSUM_BAD => Some(false),
            _ => None,
        }
    }

    /// Cuts it to `len` octets, at most what it has.
    #[inline]
    pub(super) fn cut(&mut self, len: usize) {
        let len = (len as u32).min(self.0.data_len);
        // SAFETY: the mbuf is ours.
        unsafe { sys::dpdk_cut(self.0.mbuf, len as u16) };
        self.0.data_len = len;
        self.0.packet_len = len;
    }

    /// Asks the port to compute the UDP checksum, behind headers of these sizes.
    #[inline]
    pub(super) fn ask_udp_checksum(&mut self, ethernet: usize, ipv4: usize) {
        // SAFETY: the mbuf is ours.
        unsafe { sys::dpdk_ask_udp_checksum(self.0.mbuf, ethernet as u16, ipv4 as u16) };
    }
}

impl Drop for Packet {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the mbuf is ours, and this is the end of it.
        unsafe { sys::dpdk_free(self.0.mbuf) };
    }
}

/// Up to [`BURST`] packets in a row.
pub(super) struct Burst {
    /// Those from `next` to `end` are packets that are owned.
    slots: [sys::dpdk_packet; BURST],
    next: usize,
    end: usize,
}

// SAFETY: as `Packet`.
unsafe impl Send for Burst {}

impl Burst {
    pub(super) fn new() -> Self {
        Self {
            // SAFETY: plain integers and pointers, which may be zero.
            slots: unsafe { mem::zeroed() },
            next: 0,
            end: 0,
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.next == self.end
    }

    pub(super) fn len(&self) -> usize {
        self.end - self.next
    }

    /// Takes the oldest out.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Packet> {
        let next = self.next;
        if next == self.end {
            return None;
        }
        self.next += 1;
        Some(Packet(self.slots[next]))
    }

    /// Adds one at the end; gives it back if there is no room.
    pub(super) fn push(&mut self, packet: Packet) -> Result<(), Packet> {
        if self.is_empty() {
            (self.next, self.end) = (0, 0);
        }
        if self.end == BURST {
            return Err(packet);
        }
        self.slots[self.end] = packet.0;
        self.end += 1;
        mem::forget(packet);
        Ok(())
    }

    /// Shows each packet, oldest first.
    #[inline]
    pub(super) fn for_each(&mut self, mut each: impl FnMut(usize, &mut Packet)) {
        for (index, slot) in self.slots[self.next..self.end].iter_mut().enumerate() {
            // The burst stays the owner.
            let mut packet = mem::ManuallyDrop::new(Packet(*slot));
            each(index, &mut packet);
            *slot = packet.0;
        }
    }

    /// Gives all back.
    pub(super) fn clear(&mut self) {
        while self.pop().is_some() {}
        (self.next, self.end) = (0, 0);
    }
}

impl Drop for Burst {
    fn drop(&mut self) {
        self.clear();
    }
}

/// What the driver has counted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    pub(super) received: u64,
    pub(super) sent: u64,
    pub(super) missed: u64,
    pub(super) receive_errors: u64,
    pub(super) send_errors: u64,
    pub(super) no_buffer: u64,
}

/// What to set a port up with.
pub(super) struct Setup<'a> {
    /// DPDK's name of the device.
    pub(super) device: &'a str,
    /// Arguments of a device to be made; `None`: it is there.
    pub(super) arguments: Option<&'a str>,
    pub(super) mtu: u16,
    pub(super) descriptors: u16,
    /// Let the port compute UDP checksums if it can.
    pub(super) offload: bool,
    pub(super) receive: Arc<Pool>,
    pub(super) send: Arc<Pool>,
}

/// A started port with one queue in each direction.
pub(super) struct Port {
    id: u16,
    device: String,
    /// Made here, so to be taken away.
    made: bool,
    /// It computes UDP checksums.
    pub(super) offload: bool,
    /// Packets that wait in it until they are received.
    pub(super) descriptors: u16,
    pub(super) mac: Mac,
    /// The driver's name.
    pub(super) driver: String,
    /// Kept because the driver has mbufs of them.
    _pools: [Arc<Pool>; 2],
}

impl Port {
    /// Makes the device, sets it up and starts it. `again`: asked after a failure to start, whether to try once more.
    pub(super) fn open(setup: &Setup<'_>, again: &mut dyn FnMut() -> bool) -> Result<Self, DpdkError> {
        let devices = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
        let id = attach(setup)?;
        drop(devices);
        let mut this = Self {
            id,
            device: setup.device.to_owned(),
            made: setup.arguments.is_some(),
            offload: false,
            descriptors: 0,
            mac: [0; 6],
            driver: String::new(),
            _pools: [Arc::clone(&setup.receive), Arc::clone(&setup.send)],
        };
        // From here on a failure drops it, which closes it.
        this.configure(setup)?;
        loop {
            // SAFETY: the port exists and its queues are set up.
            match check(unsafe { sys::rte_eth_dev_start(this.id) }) {
                Ok(()) => break,
                Err(_) if again() => {}
                Err(source) => return Err(this.failed("starting", source)),
            }
        }
        Ok(this)
    }

    fn failed(&self, doing: &'static str, source: io::Error) -> DpdkError {
        DpdkError::Port {
            device: self.device.clone(),
            doing,
            source,
        }
    }

    fn configure(&mut self, setup: &Setup<'_>) -> Result<(), DpdkError> {
        let id = self.id;
        // SAFETY: plain data, of which all octets may be zero; DPDK fills it in.
        let mut info: sys::rte_eth_dev_info = unsafe { mem::zeroed() };
        // SAFETY: the port exists, and `info` may be written.
        check(unsafe { sys::rte_eth_dev_info_get(id, &mut info) }).map_err(|e| self.failed("asking it", e))?;
        if !info.driver_name.is_null() {
            // SAFETY: a C string of the driver's, which stays.
            let name = unsafe { CStr::from_ptr(info.driver_name) };
            self.driver = name.to_string_lossy().into_owned();
        }
        let mut conf = sys::rte_eth_conf::default();
        self.offload = setup.offload && info.tx_offload_capa & sys::DPDK_TX_OFFLOAD_UDP_CHECKSUM != 0;
        if self.offload {
            conf.txmode.offloads |= sys::DPDK_TX_OFFLOAD_UDP_CHECKSUM;
        }
        conf.rxmode.offloads |= info.rx_offload_capa & sys::DPDK_RX_OFFLOAD_UDP_CHECKSUM;
        // Virtual devices carry more than the frames of Ethernet that they tell of; their buffers are made for it.
        let told = info.max_rx_pktlen.saturating_sub(FRAME).min(info.max_mtu.into()).max(1);
        conf.rxmode.mtu = if self.made {
            u32::from(setup.mtu).min(told)
        } else {
            setup.mtu.into()
        };
        // SAFETY: the port exists and is not started; `conf` is only read.
        check(unsafe { sys::rte_eth_dev_configure(id, 1, 1, &conf) })
            .map_err(|e| self.failed("setting one queue up for each direction", e))?;
        let (mut receive, mut send) = (setup.descriptors, setup.descriptors);
        // SAFETY: the port exists, and both numbers may be written.
        check(unsafe { sys::rte_eth_dev_adjust_nb_rx_tx_desc(id, &mut receive, &mut send) })
            .map_err(|e| self.failed("choosing the length of its queues", e))?;
        // SAFETY: the port is configured with one queue, the pool lives as long as the port; null is the default.
        check(unsafe { sys::rte_eth_rx_queue_setup(id, 0, receive, 0, ptr::null(), setup.receive.raw) })
            .map_err(|e| self.failed("setting up its receive queue", e))?;
        // SAFETY: as before.
        check(unsafe { sys::rte_eth_tx_queue_setup(id, 0, send, 0, ptr::null()) })
            .map_err(|e| self.failed("setting up its send queue", e))?;
        self.descriptors = receive;
        // Drivers that know no MTU take what fits the buffers.
        // SAFETY: the port exists.
        match check(unsafe { sys::rte_eth_dev_set_mtu(id, conf.rxmode.mtu as u16) }) {
            Err(source) if source.raw_os_error() != Some(libc::ENOTSUP) => {
                return Err(self.failed("setting its MTU (HIKYAKU_DPDK_MTU)", source));
            }
            _ => {}
        }
        let mut mac = sys::rte_ether_addr::default();
        // SAFETY: the port exists, and `mac` may be written.
        check(unsafe { sys::rte_eth_macaddr_get(id, &mut mac) }).map_err(|e| self.failed("asking its address", e))?;
        self.mac = mac.addr_bytes;
        Ok(())
    }

    /// The other end is there, as far as the port knows.
    pub(super) fn is_up(&self) -> bool {
        let mut link = sys::rte_eth_link::default();
        // SAFETY: the port exists, and `link` may be written.
        let result = unsafe { sys::rte_eth_link_get_nowait(self.id, &mut link) };
        result == 0 && link.link_status() != 0
    }

    /// What the driver has counted.
    pub(super) fn counters(&self) -> Counters {
        let mut stats = sys::rte_eth_stats::default();
        // SAFETY: the port exists, and `stats` may be written.
        if unsafe { sys::rte_eth_stats_get(self.id, &mut stats) } != 0 {
            return Counters::default();
        }
        Counters {
            received: stats.ipackets,
            sent: stats.opackets,
            missed: stats.imissed,
            receive_errors: stats.ierrors,
            send_errors: stats.oerrors,
            no_buffer: stats.rx_nombuf,
        }
    }

    /// Receives what is there into `packets`, which is empty.
    #[inline]
    pub(super) fn receive(&mut self, packets: &mut Burst) -> usize {
        debug_assert!(packets.is_empty());
        packets.clear();
        // SAFETY: the port is started, its queue is used by the owner of `self` only, and there is room for a burst.
        let got = unsafe { sys::dpdk_rx_burst(self.id, 0, packets.slots.as_mut_ptr(), BURST as u16) };
        packets.end = usize::from(got);
        packets.end
    }

    /// Sends as many as the port takes, from the oldest; gives how many those are. The rest stays in `packets`.
    #[inline]
    pub(super) fn send(&mut self, packets: &mut Burst) -> usize {
        let mut mbufs = [ptr::null_mut(); BURST];
        let count = packets.len();
        for (mbuf, slot) in mbufs.iter_mut().zip(&packets.slots[packets.next..packets.end]) {
            *mbuf = slot.mbuf;
        }
        // SAFETY: the port is started, its queue is used by the owner of `self` only; `count` of `mbufs` are packets that
        // are ours. Those that are taken belong to the port from then on, and are forgotten here.
        let taken = unsafe { sys::dpdk_tx_burst(self.id, 0, mbufs.as_mut_ptr(), count as u16) };
        packets.next += usize::from(taken);
        usize::from(taken)
    }
}

/// Finds the port of a device, making the device if it shall be made.
fn attach(setup: &Setup<'_>) -> Result<u16, DpdkError> {
    let device = c_string(setup.device);
    let failed = |source| DpdkError::Device {
        device: format!("{},{}", setup.device, setup.arguments.unwrap_or_default()),
        source,
    };
    if let Some(arguments) = setup.arguments {
        let arguments = c_string(arguments);
        // SAFETY: C strings, of which DPDK makes copies.
        check(unsafe { sys::rte_vdev_init(device.as_ptr(), arguments.as_ptr()) }).map_err(failed)?;
    }
    let mut id = 0;
    // SAFETY: a C string, and a number that may be written.
    let found = check(unsafe { sys::rte_eth_dev_get_port_by_name(device.as_ptr(), &mut id) });
    found.map_err(|source| {
        if setup.arguments.is_some() {
            // SAFETY: it has just been made, and has no port that could be in use.
            unsafe { sys::rte_vdev_uninit(device.as_ptr()) };
        }
        failed(source)
    })?;
    Ok(id)
}

impl Drop for Port {
    fn drop(&mut self) {
        let device = c_string(&self.device);
        let _devices = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the port exists and nobody else uses it; stopping one that has not started is an error without
        // consequences. Closing gives the mbufs in its queues back to the pools, which are dropped after this.
        unsafe {
            let _ = sys::rte_eth_dev_stop(self.id);
            let _ = sys::rte_eth_dev_close(self.id);
            if self.made {
                let _ = sys::rte_vdev_uninit(device.as_ptr());
            }
        }
    }
}
