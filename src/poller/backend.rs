//! The link to a node-wide poller: another process of this machine, which owns the network and runs the protocol for
//! this process (the DPDK paper, section 4.1; `docs/papers.md`).
//!
//! This backend carries no datagrams, but the records of [`protocol`](super::protocol)
//! ([`Capabilities::layered`]): commands, reports, and packets as they were received. Two rings in shared memory carry the
//! records. All packets but very short ones stay where the port has put them, in memory of the poller that this process
//! only reads; the next receive gives them back. Large records of this process lie in an area of the shared memory
//! until the poller reports that all their bytes are acknowledged.
//!
//! - **Waiting**: polling needs no system call; the poller wakes a sleeping process by an eventfd.
//! - **The end**: when the poller is gone, its socket hangs up. The backend then fails with [`PollerError::Gone`], at
//!   the latest after some thousand empty polls.
//!
//! With a backend of our own beside it ([`Joined`](super::Joined)), only messages go through the poller, and placements go directly
//! from process to process. This module needs nothing of DPDK.

use std::{
    fmt,
    io::{self, IoSlice},
    net::SocketAddr,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::Path,
    sync::Arc,
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    net::{RecvFlags, recv},
};

use super::{
    PollerError,
    hello::{self, Answer, Hello, Queues, Wish},
    layout::{self, INLINE, kind, numbered, numbers},
    protocol::LINK,
};
use crate::{
    backends::{Backend, BackendStats, Capabilities, Data, Received, Sent, Transmit, Wake},
    environment::Environment,
    shm::{Access, Consumer, Corrupt, Credentials, Extents, Found, Producer, Segment, handshake},
    span::Span,
    time::Instant,
};

/// The name by which a transport opens a way to a poller.
pub(crate) const NAME: &str = "poller";
/// Names the environment variable with the path of the poller's socket.
pub const VARIABLE: &str = "HIKYAKU_POLLER";

/// Says how placements go: `auto` (the default: over queues of the poller's port, if the poller gives any, else through the
/// poller), `port` (over such queues, or not at all), `off` (through the poller), or by a backend, `udp` or `dpdk`.
pub const BULK_VARIABLE: &str = "HIKYAKU_POLLER_BULK";
/// Values that name no backend.
pub(super) const AUTO: &str = "auto";
pub(super) const OF_PORT: &str = "port";
pub(super) const OFF: &str = "off";

/// The longest record. The area for large records holds two.
const LONGEST: usize = layout::AREA_LEN / 2;
/// The number of empty polls between two checks whether the poller is alive.
const LOOKS: u32 = 4_096;
/// The longest time that a poller may take to answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The place of a record.
#[derive(Clone, Copy, Debug)]
struct Slot {
    lent: bool,
    at: usize,
    len: usize,
}

/// A [`Backend`] whose network is that of a poller.
pub struct PollerBackend {
    slots: Vec<Slot>,
    up: Consumer,
    down: Producer,
    memory: Arc<Segment>,
    packets: Segment,
    extents: Extents,
    socket: UnixStream,
    /// The eventfds: the poller rings the first for us, and we ring the second for the poller.
    bells: [OwnedFd; 2],
    addr: SocketAddr,
    /// The ports of the poller, if it has several.
    ports: Vec<Box<dyn Backend>>,
    max_datagram: usize,
    /// Queues of the poller's port for this process's large messages.
    queues: Queues,
    empty: u32,
    /// The poller has ended.
    gone: bool,
    stats: BackendStats,
}

impl PollerBackend {
    /// Connects to the poller that [`VARIABLE`] names. `port`: the UDP port to use, 0 for any.
    ///
    /// # Errors
    /// [`PollerError`].
    pub fn from_environment(environment: &Environment, port: u16) -> Result<Self, PollerError> {
        let path = environment.path(VARIABLE).ok_or(PollerError::Unnamed)?;
        let wish = match environment.get(BULK_VARIABLE) {
            None | Some(AUTO) if cfg!(feature = "dpdk") => Wish::IfFree,
            Some(OF_PORT) => Wish::Must,
            _ => Wish::No,
        };
        Self::connect_for(path, port, wish)
    }

    /// Connects to the poller whose socket is at `path`. `port`: the UDP port to use, 0 for any.
    ///
    /// # Errors
    /// [`PollerError`].
    pub fn connect(path: &Path, port: u16) -> Result<Self, PollerError> {
        Self::connect_for(path, port, Wish::No)
    }

    fn connect_for(path: &Path, port: u16, wish: Wish) -> Result<Self, PollerError> {
        let unreachable = |source| PollerError::Unreachable {
            path: path.to_owned(),
            source,
        };
        let strange = |source| PollerError::Strange {
            path: path.to_owned(),
            source,
        };
        let socket = UnixStream::connect(path).map_err(unreachable)?;
        let peer = Credentials::of(&socket).map_err(unreachable)?;
        peer.check().map_err(|foreign| PollerError::Foreign {
            path: path.to_owned(),
            user: foreign.user,
            own: foreign.own,
        })?;
        socket.set_read_timeout(Some(TIMEOUT)).map_err(unreachable)?;
        let hello = Hello::new(port, wish, dpdk_version());
        handshake::send(&socket, &hello.bytes(), &[]).map_err(unreachable)?;
        let (bytes, descriptors) = handshake::receive(&socket).map_err(strange)?;
        let invalid = || strange(io::ErrorKind::InvalidData.into());
        let (addresses, max_datagram, len, queues) = match Answer::read(&bytes).ok_or_else(invalid)? {
            Answer::Refused(why) => {
                let path = path.to_owned();
                return Err(PollerError::Refused { path, why });
            }
            Answer::Welcome {
                udp_port,
                addresses,
                max_datagram,
                packets,
                queues,
            } => {
                let addresses = addresses.into_iter().map(|address| SocketAddr::new(address, udp_port));
                let addresses: Vec<SocketAddr> = addresses.collect();
                (addresses, max_datagram as usize, packets as usize, queues)
            }
        };
        let [addr, further @ ..] = &addresses[..] else {
            return Err(invalid());
        };
        let all = addresses.iter().filter(|_| !further.is_empty());
        let ports = all.map(|&addr| Box::new(Port { addr, max_datagram }) as _);
        let [packets, memory, ours, theirs] =
            <[OwnedFd; hello::DESCRIPTORS]>::try_from(descriptors).map_err(|_| invalid())?;
        let packets = Segment::map(packets.as_fd(), len, Access::Read).map_err(strange)?;
        let memory = Arc::new(Segment::map(memory.as_fd(), layout::MEMORY, Access::Write).map_err(strange)?);
        Ok(Self {
            slots: Vec::with_capacity(64),
            up: Consumer::new(Arc::clone(&memory), layout::UP),
            down: Producer::new(Arc::clone(&memory), layout::DOWN),
            memory,
            packets,
            extents: Extents::new(layout::AREA, layout::AREA_LEN),
            socket,
            bells: [ours, theirs],
            addr: *addr,
            ports: ports.collect(),
            max_datagram,
            queues,
            empty: 0,
            gone: false,
            stats: BackendStats::default(),
        })
    }

    /// The queues of the poller's port that this process has.
    pub(super) fn queues(&self) -> &Queues {
        &self.queues
    }

    /// The number of large records that the poller still needs.
    #[must_use]
    pub fn lent(&self) -> usize {
        self.extents.taken()
    }

    /// The memory that this process shares with the poller.
    #[cfg(all(test, feature = "dpdk"))]
    pub(crate) fn memory(&self) -> &Arc<Segment> {
        &self.memory
    }

    /// Fails if the poller is gone.
    #[cold]
    fn look_for_life(&mut self) -> io::Result<()> {
        self.empty = 0;
        if self.gone {
            return Err(PollerError::Gone.into());
        }
        match recv(&self.socket, &mut [0_u8; 1], RecvFlags::DONTWAIT) {
            Err(error) if error == rustix::io::Errno::AGAIN || error == rustix::io::Errno::INTR => Ok(()),
            // The poller sends nothing after its answer, so any other result means that it is gone.
            _ => {
                self.gone = true;
                Err(PollerError::Gone.into())
            }
        }
    }

    #[inline]
    fn ring(&mut self, wake: bool) {
        if wake {
            self.wake();
        }
    }

    #[cold]
    fn wake(&mut self) {
        self.stats.transmit_calls += 1;
        // A write fails only if the poller's counter is full, and then the poller has been rung already.
        let _ = rustix::io::write(&self.bells[1], &1_u64.to_ne_bytes());
    }

    /// Handles one record of the ring.
    #[inline]
    fn note(&mut self, found: Found) -> Result<(), Corrupt> {
        let Found { kind, at, len } = found;
        if kind == kind::WHOLE {
            self.slots.push(Slot { lent: false, at, len });
            return Ok(());
        }
        let [first, second] = numbers(&self.memory, at, len).ok_or(Corrupt)?;
        match kind {
            kind::AWAY if self.packets.holds(first, second) => {
                self.slots.push(Slot {
                    lent: true,
                    at: first,
                    len: second,
                });
                Ok(())
            }
            kind::FREED => {
                self.extents.give(first);
                Ok(())
            }
            _ => Err(Corrupt),
        }
    }

    /// Sleeps until the poller rings, `other` becomes readable, or the time is over.
    pub(super) fn wait_beside(&mut self, timeout: Option<Duration>, other: Option<BorrowedFd<'_>>) -> io::Result<Wake> {
        self.slots.clear();
        self.up.release();
        if !self.up.arm().map_err(broken)? {
            return Ok(Wake::Readable);
        }
        self.stats.receive_calls += 1;
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut fds = [
            PollFd::new(&self.bells[0], PollFlags::IN),
            PollFd::new(&self.socket, PollFlags::IN),
            // Without `other` the socket stands here a second time, which is harmless.
            PollFd::from_borrowed_fd(other.unwrap_or_else(|| self.socket.as_fd()), PollFlags::IN),
        ];
        let polled = poll(&mut fds, timeout.as_ref());
        let [rung, spoken, more] = [0, 1, 2].map(|fd: usize| !fds[fd].revents().is_empty());
        self.up.disarm();
        match polled {
            Err(rustix::io::Errno::INTR) => return Ok(Wake::TimedOut),
            Err(error) => return Err(error.into()),
            Ok(_) => {}
        }
        if rung {
            let _ = rustix::io::read(&self.bells[0], &mut [0_u8; 8]);
            return Ok(Wake::Readable);
        }
        if spoken {
            self.look_for_life()?;
        }
        if more {
            return Ok(Wake::Readable);
        }
        Ok(Wake::TimedOut)
    }
}

/// The version of DPDK that this process has; empty: none.
fn dpdk_version() -> String {
    #[cfg(feature = "dpdk")]
    return crate::backends::dpdk::version();
    #[cfg(not(feature = "dpdk"))]
    String::new()
}

/// The bytes of a slot's record. The range was checked when the slot was made.
#[inline]
fn span_of<'a>(memory: &'a Segment, packets: &'a Segment, slot: &Slot) -> Span<'a> {
    let memory = if slot.lent { packets } else { memory };
    memory.span(slot.at, slot.len).unwrap_or_default()
}

fn broken(Corrupt: Corrupt) -> io::Error {
    PollerError::Broken.into()
}

impl Backend for PollerBackend {
    fn name(&self) -> &'static str {
        NAME
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            max_batch: LONGEST,
            receive_buffer: layout::REPORTS,
            layered: true,
            ..Capabilities::new(self.max_datagram)
        }
    }

    fn local_addr(&self) -> SocketAddr {
        self.addr
    }

    fn transmit(&mut self, _: Instant, transmit: &Transmit<'_>) -> io::Result<Sent> {
        if self.gone {
            return Err(PollerError::Gone.into());
        }
        let len = transmit.len;
        let room = self.down.has_room(len.min(INLINE)).map_err(broken)?;
        let extent = if len <= INLINE || !room {
            None
        } else {
            self.extents.take(len)
        };
        if !room || (len > INLINE && extent.is_none()) {
            self.stats.busy += 1;
            self.look_for_life()?;
            // The next receive learns which large records are not needed any more.
            return Ok(Sent::Busy);
        }
        if let Some(at) = extent {
            let mut to = at;
            for slice in transmit.slices {
                self.memory.write(to, slice);
                to += slice.len();
            }
            self.down.push(kind::AWAY, &[IoSlice::new(&numbered(at, len))]);
        } else {
            self.down.push(kind::WHOLE, transmit.slices);
        }
        let wake = self.down.publish();
        self.ring(wake);
        self.stats.datagrams_sent += 1;
        self.stats.bytes_sent += len as u64;
        Ok(Sent::All)
    }

    fn receive(&mut self, _: Instant, budget: usize) -> io::Result<usize> {
        self.slots.clear();
        // The records of the last receive go back to the poller.
        self.up.release();
        while self.slots.len() < budget {
            let Some(found) = self.up.next().map_err(broken)? else {
                break;
            };
            self.note(found).map_err(broken)?;
        }
        if self.slots.is_empty() {
            self.up.release();
            self.empty += 1;
            if self.empty >= LOOKS || self.gone {
                self.look_for_life()?;
            }
            return Ok(0);
        }
        self.stats.datagrams_received += self.slots.len() as u64;
        self.stats.bytes_received += self.slots.iter().map(|slot| slot.len as u64).sum::<u64>();
        Ok(self.slots.len())
    }

    #[inline]
    fn received(&mut self, index: usize) -> Received<'_> {
        let slot = &self.slots[index];
        Received {
            source: LINK,
            port: 0,
            stride: slot.len,
            data: Data::Shared(span_of(&self.memory, &self.packets, slot)),
        }
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<Wake> {
        self.wait_beside(timeout, None)
    }

    fn stats(&self) -> BackendStats {
        self.stats
    }

    /// The poller's: each has its address, and nothing passes through it but at the poller.
    fn ports(&self) -> &[Box<dyn Backend>] {
        &self.ports
    }
}

/// Stands for a port of the poller, by which records say how a peer is reached.
struct Port {
    addr: SocketAddr,
    max_datagram: usize,
}

impl Backend for Port {
    fn name(&self) -> &'static str {
        NAME
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(self.max_datagram)
    }

    fn local_addr(&self) -> SocketAddr {
        self.addr
    }

    fn transmit(&mut self, _: Instant, _: &Transmit<'_>) -> io::Result<Sent> {
        Ok(Sent::Dropped)
    }

    fn receive(&mut self, _: Instant, _: usize) -> io::Result<usize> {
        Ok(0)
    }

    fn received(&mut self, _: usize) -> Received<'_> {
        Received {
            source: self.addr,
            port: 0,
            stride: 0,
            data: (&mut [][..]).into(),
        }
    }

    fn wait(&mut self, _: Option<Duration>) -> io::Result<Wake> {
        Ok(Wake::TimedOut)
    }

    /// The poller has them.
    fn stats(&self) -> BackendStats {
        BackendStats::default()
    }
}

impl fmt::Debug for PollerBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PollerBackend")
            .field("addr", &self.addr)
            .finish_non_exhaustive()
    }
}
