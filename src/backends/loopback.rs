//! The in-process backend: threads of one process, lock-free rings, no system call unless a thread sleeps.
//!
//! Each pair of sender and receiver has two rings: one carries filled buffers to the receiver, one brings empty buffers
//! back. The number of buffers of a pair is fixed, so memory is bounded and the rings never fill. A sender that finds
//! no empty buffer knows that the receiver is behind, and drops the burst, as a network does. An address is a key of a
//! process-wide table; the operating system opens nothing.

use std::{
    collections::BTreeMap,
    fmt, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering, fence},
    },
    time::Duration,
};

use rtrb::{Consumer, Producer, RingBuffer};

use super::{Backend, BackendStats, Capabilities, Data, Notice, Received, Sent, Transmit, Wake, refusals::Refusals};
use crate::{sync::Bell, time::Instant};

/// The buffer sizes, bytes.
const SIZES: [usize; 2] = [4 << 10, 64 << 10];
/// Buffers of each size that a pair can have under way: 4 MiB each.
const LIMITS: [usize; 2] = [1024, 64];
/// Buffers of all sizes that a pair can have under way.
const BUFFERS: usize = LIMITS[0] + LIMITS[1];
/// Largest UDP payload over IPv4, so that datagrams that pass here pass elsewhere as well.
const LARGEST: usize = 65_507;
/// Most datagrams in one burst.
const MAX_SEGMENTS: usize = 256;
/// Polls before sleeping: a few microseconds.
const SPINS: usize = 200;
/// First of the ports that [`LoopbackBackend::bind`] hands out for port 0.
const FIRST_FREE_PORT: u16 = 49_152;

/// The receivers of this process, by address.
static REGISTRY: Mutex<BTreeMap<SocketAddr, Arc<Mailbox>>> = Mutex::new(BTreeMap::new());

/// Number of ports handed out. Ports are given in turn, so that a new backend is not mistaken for one that has just
/// gone.
static HANDED_OUT: AtomicUsize = AtomicUsize::new(0);

/// Nothing here panics while it holds a lock, so a poisoned lock can be used.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Settings of a [`LoopbackBackend`].
#[derive(Clone, Debug)]
pub struct LoopbackOptions {
    /// Largest datagram, bytes. 1 to 65,507 (the default); other values are moved to the nearer end.
    pub max_datagram: usize,
    /// When the receiver is behind, answer [`Sent::Busy`] instead of dropping. Default false.
    pub busy_when_full: bool,
}

impl Default for LoopbackOptions {
    fn default() -> Self {
        Self {
            max_datagram: LARGEST,
            busy_when_full: false,
        }
    }
}

/// The part of a receiver that senders see.
#[derive(Debug, Default)]
struct Mailbox {
    /// The receiver is gone.
    closed: AtomicBool,
    /// Goes up when a sender comes or goes.
    generation: AtomicUsize,
    /// Senders that the receiver has not noticed yet.
    arrivals: Mutex<Vec<Inlet>>,
    /// The receiver sleeps on it.
    bell: Bell,
}

/// A filled buffer.
#[derive(Debug)]
struct Burst {
    buffer: Box<[u8]>,
    len: usize,
    stride: usize,
}

/// The receiver's end of a pair.
#[derive(Debug)]
struct Inlet {
    source: SocketAddr,
    bursts: Consumer<Burst>,
    empties: Producer<Box<[u8]>>,
}

/// The sender's end of a pair.
struct Outlet {
    destination: SocketAddr,
    mailbox: Arc<Mailbox>,
    bursts: Producer<Burst>,
    empties: Consumer<Box<[u8]>>,
    /// Empty buffers by size, and the number of all buffers, here or under way.
    free: [Vec<Box<[u8]>>; 2],
    made: [usize; 2],
}

impl Outlet {
    /// Joins `source` to the receiver at `destination`, if there is one.
    fn connect(source: SocketAddr, destination: SocketAddr) -> Option<Self> {
        let mailbox = Arc::clone(lock(&REGISTRY).get(&destination)?);
        let (bursts, bursts_end) = RingBuffer::new(BUFFERS);
        let (empties_end, empties) = RingBuffer::new(BUFFERS);
        let inlet = Inlet {
            source,
            bursts: bursts_end,
            empties: empties_end,
        };
        lock(&mailbox.arrivals).push(inlet);
        mailbox.generation.fetch_add(1, Ordering::Release);
        Some(Self {
            destination,
            mailbox,
            bursts,
            empties,
            free: [vec![], vec![]],
            made: [0; 2],
        })
    }

    /// Returns an empty buffer of at least `len` bytes, unless the receiver is behind.
    fn empty_buffer(&mut self, len: usize) -> Option<Box<[u8]>> {
        let smallest = usize::from(len > SIZES[0]);
        let Self {
            empties, free, made, ..
        } = self;
        if free[smallest..].iter().all(Vec::is_empty) {
            while let Ok(buffer) = empties.pop() {
                free[usize::from(buffer.len() > SIZES[0])].push(buffer);
            }
        }
        // Latest first: it is the one still in the cache.
        if let Some(buffer) = free[smallest..].iter_mut().find_map(Vec::pop) {
            return Some(buffer);
        }
        let size = (smallest..SIZES.len()).find(|&size| made[size] < LIMITS[size])?;
        made[size] += 1;
        Some(vec![0; SIZES[size]].into_boxed_slice())
    }
}

/// A [`Backend`] between the threads of one process. See the module's documentation.
pub struct LoopbackBackend {
    local: SocketAddr,
    options: LoopbackOptions,
    mailbox: Arc<Mailbox>,
    inlets: Vec<Inlet>,
    /// The mailbox's generation when `inlets` was last up to date.
    seen: usize,
    /// The inlet that the next receive polls first: the inlets take turns.
    turn: usize,
    /// The bursts of the last receive, with the inlet of each.
    filled: Vec<(usize, Burst)>,
    outlets: Vec<Outlet>,
    outlet_of: BTreeMap<SocketAddr, usize>,
    /// The outlet used last.
    last: usize,
    refusals: Refusals,
    stats: BackendStats,
}

impl LoopbackBackend {
    /// Registers `addr` with the default options.
    ///
    /// # Errors
    /// As [`bind_with`](Self::bind_with).
    pub fn bind(addr: SocketAddr) -> io::Result<Self> {
        Self::bind_with(addr, LoopbackOptions::default())
    }

    /// Registers `addr`; port 0 picks a free one, and a wildcard becomes 127.0.0.1 or ::1. The address need not be one
    /// of this machine's.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`]: the address is registered already, or no port is free.
    pub fn bind_with(mut addr: SocketAddr, mut options: LoopbackOptions) -> io::Result<Self> {
        options.max_datagram = options.max_datagram.clamp(1, LARGEST);
        if addr.ip().is_unspecified() {
            let v4 = addr.is_ipv4();
            addr.set_ip(if v4 {
                IpAddr::V4(Ipv4Addr::LOCALHOST)
            } else {
                IpAddr::V6(Ipv6Addr::LOCALHOST)
            });
        }
        let mailbox = Arc::new(Mailbox::default());
        let mut registry = lock(&REGISTRY);
        if addr.port() == 0 {
            let ports = usize::from(u16::MAX - FIRST_FREE_PORT) + 1;
            let free = (0..ports).find(|_| {
                let turn = HANDED_OUT.fetch_add(1, Ordering::Relaxed) % ports;
                addr.set_port(FIRST_FREE_PORT + turn as u16);
                !registry.contains_key(&addr)
            });
            free.ok_or(io::ErrorKind::AddrInUse)?;
        } else if registry.contains_key(&addr) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        registry.insert(addr, Arc::clone(&mailbox));
        drop(registry);
        Ok(Self {
            local: addr,
            options,
            mailbox,
            inlets: Vec::new(),
            seen: 0,
            turn: 0,
            filled: Vec::new(),
            outlets: Vec::new(),
            outlet_of: BTreeMap::new(),
            last: 0,
            refusals: Refusals::default(),
            stats: BackendStats::default(),
        })
    }

    /// The index of the outlet to `destination`, if there is a receiver.
    fn outlet(&mut self, destination: SocketAddr) -> Option<usize> {
        let fits = |outlet: &Outlet| outlet.destination == destination;
        let index = if self.outlets.get(self.last).is_some_and(fits) {
            Some(self.last)
        } else {
            self.outlet_of.get(&destination).copied()
        };
        if let Some(index) = index {
            if !self.outlets[index].mailbox.closed.load(Ordering::Acquire) {
                self.last = index;
                return Some(index);
            }
            self.outlets.swap_remove(index);
            self.outlet_of.remove(&destination);
            if let Some(moved) = self.outlets.get(index) {
                self.outlet_of.insert(moved.destination, index);
            }
        }
        // Another receiver may have registered the same address since.
        self.outlets.push(Outlet::connect(self.local, destination)?);
        self.last = self.outlets.len() - 1;
        self.outlet_of.insert(destination, self.last);
        Some(self.last)
    }

    /// Returns whether there is a burst to receive, or a change of senders to notice.
    fn anything(&self) -> bool {
        self.mailbox.generation.load(Ordering::Acquire) != self.seen
            || self.inlets.iter().any(|inlet| !inlet.bursts.is_empty())
    }

    /// Adds new senders and removes those that are gone.
    fn notice(&mut self) {
        let generation = self.mailbox.generation.load(Ordering::Acquire);
        if generation == self.seen {
            return;
        }
        self.inlets.append(&mut lock(&self.mailbox.arrivals));
        let mut leftovers = false;
        self.inlets.retain(|inlet| {
            // Checked in this order, so that bursts sent just before the sender went are seen.
            let gone = inlet.bursts.is_abandoned();
            fence(Ordering::Acquire);
            let empty = inlet.bursts.is_empty();
            leftovers |= gone && !empty;
            !(gone && empty)
        });
        if !leftovers {
            self.seen = generation;
        }
    }

    fn dropped(&mut self) -> Sent {
        self.stats.dropped += 1;
        Sent::Dropped
    }
}

impl Backend for LoopbackBackend {
    fn name(&self) -> &'static str {
        "loopback"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            max_segments: MAX_SEGMENTS,
            max_batch: SIZES[1],
            receive_buffer: SIZES[1] * LIMITS[1],
            ..Capabilities::new(self.options.max_datagram)
        }
    }

    fn local_addr(&self) -> SocketAddr {
        self.local
    }

    fn transmit(&mut self, _now: Instant, transmit: &Transmit<'_>) -> io::Result<Sent> {
        let len = transmit.len;
        if len == 0 {
            return Ok(Sent::All);
        }
        let limit = if transmit.dont_fragment {
            self.options.max_datagram
        } else {
            LARGEST
        };
        let stride = transmit.segment_size.min(len);
        if stride == 0 || stride > limit || len > SIZES[1] {
            return Ok(self.dropped());
        }
        let Some(index) = self.outlet(transmit.destination) else {
            let slices = transmit.slices.iter().map(|slice| &**slice);
            self.refusals.push(transmit.destination, slices);
            return Ok(self.dropped());
        };
        let outlet = &mut self.outlets[index];
        let Some(mut buffer) = outlet.empty_buffer(len) else {
            if self.options.busy_when_full {
                self.stats.busy += 1;
                return Ok(Sent::Busy);
            }
            return Ok(self.dropped());
        };
        let mut at = 0;
        for slice in transmit.slices {
            buffer[at..at + slice.len()].copy_from_slice(slice);
            at += slice.len();
        }
        debug_assert_eq!(at, len, "a transmit's length is the sum of its slices");
        // There are no more buffers than places in the ring, so it cannot be full.
        let pushed = outlet.bursts.push(Burst { buffer, len, stride });
        debug_assert!(pushed.is_ok(), "more buffers than places in the ring");
        outlet.mailbox.bell.ring();
        self.stats.transmit_calls += 1;
        self.stats.datagrams_sent += transmit.segments() as u64;
        self.stats.bytes_sent += len as u64;
        Ok(Sent::All)
    }

    fn receive(&mut self, _now: Instant, budget: usize) -> io::Result<usize> {
        for (index, Burst { buffer, .. }) in self.filled.drain(..) {
            // As in `transmit`, the ring cannot be full. (If the sender is gone, the buffer may go too.)
            let _ = self.inlets[index].empties.push(buffer);
        }
        self.notice();
        self.stats.receive_calls += 1;
        let inlets = self.inlets.len();
        for step in 0..inlets {
            let index = (self.turn + step) % inlets;
            while self.filled.len() < budget {
                let Ok(burst) = self.inlets[index].bursts.pop() else {
                    break;
                };
                self.stats.datagrams_received += burst.len.div_ceil(burst.stride) as u64;
                self.stats.bytes_received += burst.len as u64;
                self.filled.push((index, burst));
            }
        }
        self.turn = if self.turn + 1 < inlets { self.turn + 1 } else { 0 };
        Ok(self.filled.len())
    }

    fn received(&mut self, index: usize) -> Received<'_> {
        let (inlet, burst) = &mut self.filled[index];
        Received {
            source: self.inlets[*inlet].source,
            port: 0,
            stride: burst.stride,
            data: Data::Own(&mut burst.buffer[..burst.len]),
        }
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<Wake> {
        for _ in 0..SPINS {
            if self.anything() {
                return Ok(Wake::Readable);
            }
            std::hint::spin_loop();
        }
        if timeout == Some(Duration::ZERO) {
            return Ok(Wake::TimedOut);
        }
        let maybe = self.mailbox.bell.sleep(timeout, || self.anything());
        Ok(if maybe { Wake::Readable } else { Wake::TimedOut })
    }

    fn poll_notices(&mut self, each: &mut dyn FnMut(Notice<'_>)) {
        self.refusals.report(each);
    }

    fn stats(&self) -> BackendStats {
        self.stats
    }
}

impl Drop for LoopbackBackend {
    fn drop(&mut self) {
        lock(&REGISTRY).remove(&self.local);
        self.mailbox.closed.store(true, Ordering::Release);
        // Senders keep the mailbox alive, so it must not in turn keep inlets alive that have arrived since the last
        // receive.
        lock(&self.mailbox.arrivals).clear();
        for Outlet { mailbox, bursts, .. } in self.outlets.drain(..) {
            drop(bursts);
            mailbox.generation.fetch_add(1, Ordering::Release);
        }
    }
}

impl fmt::Debug for LoopbackBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoopbackBackend")
            .field("local", &self.local)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::{io::IoSlice, thread};

    use super::*;

    /// Bursts between two threads; few, because miri runs this test too.
    const BURSTS: u8 = 40;

    fn bind() -> LoopbackBackend {
        LoopbackBackend::bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap()
    }

    fn send(from: &mut LoopbackBackend, destination: SocketAddr, bytes: &[u8]) -> Sent {
        let transmit = Transmit {
            destination,
            port: 0,
            segment_size: bytes.len(),
            len: bytes.len(),
            slices: &[IoSlice::new(bytes)],
            dont_fragment: true,
            token: 0,
        };
        from.transmit(Instant::ZERO, &transmit).unwrap()
    }

    /// Tests the rings, the sleep of the receiver and the return of buffers, all at once.
    #[test]
    fn rings_between_threads() {
        let (mut sender, mut receiver) = (bind(), bind());
        let to = receiver.local_addr();
        let from = sender.local_addr();
        let receiving = thread::spawn(move || {
            let mut next = 0;
            while next < BURSTS {
                receiver.wait(None).unwrap();
                for index in 0..receiver.receive(Instant::ZERO, 3).unwrap() {
                    assert_eq!(receiver.received(index).source, from);
                    assert_eq!(receiver.received(index).data.to_vec(), [next; 100]);
                    next += 1;
                }
            }
        });
        for number in 0..BURSTS {
            assert_eq!(send(&mut sender, to, &[number; 100]), Sent::All);
        }
        receiving.join().unwrap();
        // The receiver is gone: the sender drops the burst.
        assert_eq!(send(&mut sender, to, b"too late"), Sent::Dropped);
    }
}
