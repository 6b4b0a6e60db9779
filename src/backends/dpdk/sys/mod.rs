//! DPDK itself: everything here that is `unsafe`, behind safe types.
//!
//! - [`Packet`] owns an mbuf: dropping it gives the mbuf back, so each is freed exactly once on every path.
//! - [`Pool`] owns a mempool, and frees it only if all its mbufs are back.
//! - [`Port`] owns a started port and holds on to its pools, because the driver has mbufs of them in its queues. Each
//!   queue is a value of its own ([`ReceiveQueue`], [`SendQueue`]), so that it is used by one thread at a time.
#![expect(
    unsafe_code,
    reason = "DPDK is C; what makes each call right is in the types of this module"
)]

mod attach;
mod connections;
mod packet;
mod pid_override;
mod port;

use std::{
    ffi::{CStr, CString},
    fmt, io, mem, ptr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

use dpdk_sys as sys;

pub(in crate::backends::dpdk) use self::attach::{Attached, Scope};
pub(in crate::backends::dpdk) use self::packet::{BURST, Burst, Found, Packet, Payload, Returning};
pub(in crate::backends::dpdk) use self::port::{Port, ReceiveQueue, Rule, SendQueue, Setup};
use super::error::DpdkError;
use crate::shm::Segment;

/// The settings that EAL was started with, once it runs.
static RUNNING: Mutex<Option<Vec<String>>> = Mutex::new(None);
/// Held while devices come and go: DPDK allows that by one thread at a time.
static DEVICES: Mutex<Devices> = Mutex::new(Devices { stuck: None });
/// Numbers for the names of pools and devices.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// State of all devices.
struct Devices {
    /// The one that DPDK's own thread has not closed in time. From then on no device comes or goes.
    stuck: Option<String>,
}

/// A number that no other caller in this process has.
pub(in crate::backends::dpdk) fn unique() -> u32 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Locks a mutex. A panic leaves guarded values whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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

/// Starts EAL, if that has not been done with these settings. `prepare` gives its arguments, and what has to last until it
/// runs.
pub(in crate::backends::dpdk) fn start<T>(
    settings: Vec<String>,
    prepare: impl FnOnce() -> (Vec<String>, T),
) -> Result<(), DpdkError> {
    let mut running = lock(&RUNNING);
    if let Some(running) = &*running {
        return if *running == settings {
            Ok(())
        } else {
            Err(DpdkError::Started {
                running: running.clone(),
                wanted: settings,
            })
        };
    }
    let (arguments, _prepared) = prepare();
    let words: Vec<CString> = std::iter::once("hikyaku")
        .chain(arguments.iter().map(String::as_str))
        .map(c_string)
        .collect();
    // EAL keeps pointers to some of them.
    let words: &'static [CString] = Vec::leak(words);
    let mut pointers: Vec<_> = words.iter().map(|word| word.as_ptr().cast_mut()).collect();
    let elsewhere = Elsewhere::new();
    // SAFETY: as many pointers to C strings as are said; EAL permutes the pointers and only reads the strings, which live
    // for ever. The lock keeps others from starting it at the same time.
    let result = unsafe { sys::rte_eal_init(pointers.len() as i32, pointers.as_mut_ptr()) };
    drop(elsewhere);
    if result < 0 {
        let source = last_error();
        return Err(DpdkError::Start { arguments, source });
    }
    *running = Some(settings);
    Ok(())
}

/// While it lives, this thread may run on all CPUs, so that EAL has some left for its own threads, which look after
/// control connections: one that interrupts this thread within a look into a memif whose other end has just gone would take
/// the memory away under it.
struct Elsewhere(libc::cpu_set_t);

const CPU_SET: usize = size_of::<libc::cpu_set_t>();

impl Elsewhere {
    /// `None`: the system does not say where the thread may run.
    fn new() -> Option<Self> {
        // SAFETY: plain data, of which all bytes may be zero or one.
        let (mut own, all) = unsafe {
            (
                mem::zeroed(),
                mem::transmute::<[u8; CPU_SET], libc::cpu_set_t>([0xff; CPU_SET]),
            )
        };
        // SAFETY: 0 is this thread; `own` may be written and has the size that is said.
        let told = unsafe { libc::sched_getaffinity(0, CPU_SET, &mut own) } == 0;
        // SAFETY: as above, and `all` is only read. A refusal changes nothing.
        (told && unsafe { libc::sched_setaffinity(0, CPU_SET, &all) } == 0).then_some(Self(own))
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        // SAFETY: 0 is this thread; the set is only read, and has the size that is said. It was so before.
        unsafe { libc::sched_setaffinity(0, CPU_SET, &self.0) };
    }
}

/// Gives this thread a network of its own, which goes with the thread and what it has opened.
#[cfg(test)]
pub(in crate::backends::dpdk) fn own_network() -> io::Result<()> {
    // SAFETY: takes no memory; from here on this thread sees other interfaces.
    match unsafe { libc::unshare(libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Has the kernel give memifs all pages of the memory that they share with their other ends. Else it does so when the first
/// packet comes to a page: at each end, in the middle of a message, for as long as the rings have not been around once.
///
/// A failure (a kernel before 5.14) is ignored.
pub(in crate::backends::dpdk) fn populate_rings() {
    for (start, len) in rings(&std::fs::read_to_string("/proc/self/maps").unwrap_or_default()) {
        // SAFETY: whatever is mapped there by now, its contents stay as they are; nothing refers to `start`.
        unsafe { libc::madvise(ptr::without_provenance_mut(start), len, libc::MADV_POPULATE_WRITE) };
    }
}

/// Where memifs' memory is among the mappings of a process, as the kernel lists them.
fn rings(maps: &str) -> impl Iterator<Item = (usize, usize)> {
    let number = |text| usize::from_str_radix(text, 16).ok();
    maps.lines()
        .filter(|line| line.contains(" /memfd:memif_region_"))
        .filter_map(move |line| {
            let (start, end) = line.split_whitespace().next()?.split_once('-')?;
            let (start, end) = (number(start)?, number(end)?);
            Some((start, end.checked_sub(start)?))
        })
}

/// DPDK's version, for instance `DPDK 22.11.11`.
pub(in crate::backends::dpdk) fn version() -> String {
    // SAFETY: a C string that is never freed.
    unsafe { CStr::from_ptr(sys::rte_version()) }
        .to_string_lossy()
        .into_owned()
}

/// A pool of packet buffers of one size.
pub(in crate::backends::dpdk) struct Pool {
    raw: *mut sys::rte_mempool,
    count: u32,
    room: u16,
    /// Where the packets are, if not in DPDK's own memory.
    memory: Option<Arc<Segment>>,
    /// Another process has made it, and frees it.
    borrowed: bool,
}

// SAFETY: a mempool may be used by any thread at the same time (it is a ring for many producers and consumers; its
// caches belong to EAL's threads).
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

impl Pool {
    /// `count` buffers for packets of up to `room` bytes.
    pub(in crate::backends::dpdk) fn new(count: u32, room: u16) -> Result<Arc<Self>, DpdkError> {
        Self::named(&format!("hikyaku{}", unique()), count, room)
    }

    /// The same, by a name by which processes that share DPDK's memory [find](Self::find) it.
    pub(in crate::backends::dpdk) fn named(name: &str, count: u32, room: u16) -> Result<Arc<Self>, DpdkError> {
        /// Of each of EAL's threads.
        const CACHE: u32 = 256;
        let name = c_string(name);
        let data_room = room + sys::RTE_PKTMBUF_HEADROOM as u16;
        let cache = CACHE.min(count / 4);
        // SAFETY: EAL has been started (`DpdkBackend::bind` does that first), the name is a C string; -1 is any socket.
        let raw = unsafe { sys::rte_pktmbuf_pool_create(name.as_ptr(), count, cache, 0, data_room, -1) };
        if raw.is_null() {
            return Err(DpdkError::Pool {
                bytes: count as usize * (usize::from(data_room) + 256),
                source: last_error(),
            });
        }
        Ok(Self::of(raw, (count, room), false))
    }

    /// A pool of DPDK's memory. `borrowed`: another process has made it.
    fn of(raw: *mut sys::rte_mempool, (count, room): (u32, u16), borrowed: bool) -> Arc<Self> {
        Arc::new(Self {
            raw,
            count,
            room,
            memory: None,
            borrowed,
        })
    }

    /// The pool of this name that the process has made whose memory this one shares.
    pub(in crate::backends::dpdk) fn find(name: &str, count: u32, room: u16) -> io::Result<Arc<Self>> {
        let name = c_string(name);
        // SAFETY: EAL has been started, and the name is a C string.
        let raw = unsafe { sys::rte_mempool_lookup(name.as_ptr()) };
        match raw.is_null() {
            true => Err(last_error()),
            false => Ok(Self::of(raw, (count, room), true)),
        }
    }

    /// Puts all buffers back, in whatever state a process that was killed has left the pool. None may be in use.
    pub(in crate::backends::dpdk) fn refill(&self) -> io::Result<()> {
        // SAFETY: the pool lives as long as `self`; that no process uses it is the caller's duty.
        check(unsafe { sys::dpdk_refill(self.raw) })
    }

    /// Bytes that each buffer for packets of up to `room` bytes takes in memory of one's own.
    pub(in crate::backends::dpdk) fn element(room: u16) -> usize {
        (usize::from(room) + sys::RTE_PKTMBUF_HEADROOM as usize).next_multiple_of(64)
    }

    /// `count` buffers whose packets lie in `memory`, whole pages, at multiples of [`element`](Self::element). What DPDK
    /// notes down of each is elsewhere, so that others may see this memory.
    pub(in crate::backends::dpdk) fn outside(
        count: u32,
        room: u16,
        memory: Arc<Segment>,
    ) -> Result<Arc<Self>, DpdkError> {
        const PAGE: usize = 4_096;
        let element = Self::element(room);
        assert!(count as usize * element <= memory.len(), "the memory is too small");
        let (base, len) = (memory.base().cast(), memory.len());
        let failed = |source| DpdkError::Pool { bytes: len, source };
        // SAFETY: a mapping of whole pages that stays until it is unregistered in `drop`; null: its bus addresses are
        // what DPDK finds out (or the same, with --iova-mode=va).
        check(unsafe { sys::rte_extmem_register(base, len, ptr::null_mut(), 0, PAGE) })
            .map_err(|_| failed(last_error()))?;
        let name = c_string(&format!("hikyaku{}", unique()));
        let extent = sys::rte_pktmbuf_extmem {
            buf_ptr: base,
            buf_iova: base as u64,
            buf_len: len,
            elt_size: element as u16,
        };
        // SAFETY: EAL has been started, the name is a C string, and `extent` describes the mapping. No cache: loans are
        // counted exactly.
        let raw =
            unsafe { sys::rte_pktmbuf_pool_create_extbuf(name.as_ptr(), count, 0, 0, element as u16, -1, &extent, 1) };
        if raw.is_null() {
            let source = last_error();
            // SAFETY: registered above, and not in use.
            unsafe { sys::rte_extmem_unregister(base, len) };
            return Err(failed(source));
        }
        Ok(Arc::new(Self {
            raw,
            count,
            room,
            memory: Some(memory),
            borrowed: false,
        }))
    }

    /// Bytes of a packet.
    pub(in crate::backends::dpdk) fn room(&self) -> usize {
        self.room.into()
    }

    /// Buffers in all.
    pub(in crate::backends::dpdk) fn count(&self) -> u32 {
        self.count
    }

    /// Buffers that are not in the pool.
    pub(in crate::backends::dpdk) fn in_use(&self) -> u32 {
        // SAFETY: the pool lives as long as `self`.
        unsafe { sys::rte_mempool_in_use_count(self.raw) }
    }

    /// Takes `count` (at most [`BURST`]) packets of `len` bytes each out of the pool and adds them to `packets`;
    /// `false`: there are not that many, or they are not that large. Their content is arbitrary, but it has been
    /// written.
    #[inline]
    pub(in crate::backends::dpdk) fn take(&self, count: usize, len: usize, packets: &mut Burst) -> bool {
        if count > BURST || len > self.room() {
            return false;
        }
        // SAFETY: there is room for `count` packets, and the pool lives as long as `self`; all are taken or none.
        let taken = unsafe {
            packets.fill(
                |mbufs| match sys::dpdk_alloc(self.raw, len as u32, mbufs, count as u32) {
                    0 => count,
                    _ => 0,
                },
            )
        };
        taken == count
    }

    /// Takes one packet of `len` bytes out of the pool; `None`: there is none, or it is not that large. Its content
    /// is arbitrary, but it has been written.
    #[inline]
    pub(in crate::backends::dpdk) fn take_one(&self, len: usize) -> Option<Packet> {
        if len > self.room() {
            return None;
        }
        // SAFETY: the pool lives as long as `self`.
        let mbuf = unsafe { sys::dpdk_alloc_one(self.raw, len as u32) };
        // SAFETY: it has just been taken.
        ptr::NonNull::new(mbuf).map(|mbuf| unsafe { Packet::new(mbuf) })
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if self.borrowed {
            return;
        }
        // Who still has an mbuf may still use it; memory that is lost is the smaller harm. Loans hold the pool, ports do.
        if self.in_use() == 0 {
            // SAFETY: all mbufs are back, and this is the only owner.
            unsafe { sys::rte_mempool_free(self.raw) };
            if let Some(memory) = &self.memory {
                // SAFETY: registered with these numbers; no buffer in it is in use.
                unsafe { sys::rte_extmem_unregister(memory.base().cast(), memory.len()) };
            }
        } else if let Some(memory) = self.memory.take() {
            mem::forget(memory);
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

#[cfg(test)]
mod tests {
    use super::{Burst, Pool, rings};

    #[test]
    fn a_pool_of_a_killed_process_becomes_whole_again() {
        crate::backends::dpdk::tests::start();
        let pool = Pool::new(255, 2048).unwrap();
        for _ in 0..3 {
            let mut held = Burst::new();
            let mut taken = 0;
            while pool.take(32, 100, &mut held) {
                taken += held.len();
                std::mem::forget(std::mem::replace(&mut held, Burst::new()));
            }
            assert!(taken >= 224 && pool.in_use() as usize == taken, "{taken}");
            pool.refill().unwrap();
            assert_eq!(pool.in_use(), 0);
        }
    }

    #[test]
    fn rings_are_found_among_mappings() {
        let maps = "7f31e1aeb000-7f31e2c94000 rw-s 00000000 00:01 49407      /memfd:memif_region_0 (deleted)\n\
                    7f31e6033000-7f31e6035000 r--p 00000000 fe:00 15696980   /usr/lib/librte_net_memif.so.23.0\n\
                    7ffc12300000-7ffc12400000 rw-p 00000000 00:00 0          [stack]\n";
        assert!(rings(maps).eq([(0x7f31_e1ae_b000, 0x011a_9000)]));
        assert_eq!(rings("nonsense /memfd:memif_region_0\n").count(), 0);
    }
}
