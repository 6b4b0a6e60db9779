//! A served process: its rings, its endpoint, and its loans.

use std::{
    collections::VecDeque,
    io::{self, IoSlice},
    ops::Range,
    os::{fd::OwnedFd, unix::net::UnixStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use rustix::{
    event::{EventfdFlags, eventfd},
    net::{RecvFlags, recv},
};

use super::{
    net::Net,
    parked::Parked,
    table::{Person, Reason},
};
use crate::{
    backends::dpdk::Lent,
    poller::{
        layout::{self, INLINE, kind, numbered, numbers},
        protocol::{Broken, DELIVERY, ProxyServer, REPORT},
    },
    progress::{random, random_key},
    reliability::{Burst, Path},
    shm::{Access, Consumer, Corrupt, Found, Producer, Segment},
    span::{Foreign, Keeper, Span},
    stats::Stats,
    time::Instant,
};

/// Time that a process has for its first message, and that an endpoint stays after its process has said goodbye, ns.
pub(super) const PATIENCE: u64 = 2_000_000_000;
/// Packets up to this size are copied, which costs less than a loan; bytes.
const SMALL: usize = 256;
/// Bytes of a process's ring that are kept free for reports.
const RESERVE: usize = 64 << 10;
/// Commands and bursts handled per process and pass.
const COMMANDS: usize = 64;
const BURSTS: usize = 4;
/// Most bytes of the first command: settings, and the numbers of a million processors.
const MOST_SETTINGS: usize = 4 << 20;

/// Why a process cannot be served any more.
pub(super) enum Thrown {
    /// It has broken the rules of records, or (`None`) of the rings.
    Broken(Option<Broken>),
    Net(io::Error),
}

impl From<Corrupt> for Thrown {
    fn from(_: Corrupt) -> Self {
        Self::Broken(None)
    }
}

impl From<Broken> for Thrown {
    fn from(why: Broken) -> Self {
        Self::Broken(Some(why))
    }
}

/// Extents of a process's memory that are free again.
#[derive(Default)]
struct Freed {
    /// Every pass asks for this, and most find nothing, so it takes no lock.
    any: AtomicBool,
    extents: Mutex<Vec<usize>>,
}

impl Freed {
    fn push(&self, at: usize) {
        let mut extents = self.extents.lock().unwrap_or_else(PoisonError::into_inner);
        extents.push(at);
        self.any.store(true, Ordering::Release);
    }

    #[inline(always)]
    fn is_empty(&self) -> bool {
        !self.any.load(Ordering::Acquire)
    }

    fn pop(&self) -> Option<usize> {
        let mut extents = self.extents.lock().unwrap_or_else(PoisonError::into_inner);
        let popped = extents.pop();
        self.any.store(!extents.is_empty(), Ordering::Release);
        popped
    }
}

/// A record in the process's memory, until the whole of it is acknowledged.
struct Extent {
    memory: Arc<Segment>,
    at: usize,
    bytes: Range<usize>,
    freed: Arc<Freed>,
}

impl Keeper for Extent {
    fn span(&self) -> Span<'_> {
        let Range { start, end } = self.bytes;
        self.memory.span(start, end - start).unwrap_or_default()
    }
}

impl Drop for Extent {
    fn drop(&mut self) {
        self.freed.push(self.at);
    }
}

/// A command of `len` bytes in `memory`, where its process may still write: a copy of its record, on which decisions
/// are based, and the bytes of its message.
#[inline(always)]
fn command(memory: &Segment, at: usize, len: usize) -> Result<([u8; REPORT], Span<'_>), Corrupt> {
    if len < REPORT {
        return Err(Corrupt);
    }
    let (beginning, carried) = memory.span(at, len).ok_or(Corrupt)?.split_at(REPORT);
    let mut record = [0; REPORT];
    beginning.copy_to(&mut record);
    Ok((record, carried))
}

pub(super) struct Rank {
    socket: UnixStream,
    process: u32,
    port: u16,
    up: Producer,
    down: Consumer,
    memory: Arc<Segment>,
    /// The bell that the poller rings for it.
    bell: OwnedFd,
    /// `None` until it has sent its settings.
    host: Option<ProxyServer>,
    most_peers: u32,
    /// Its loans, each with the position in its ring after which the process has read it.
    loans: VecDeque<(u64, Lent)>,
    freed: Arc<Freed>,
    burst: Burst,
    parked: Parked,
    /// Its socket has hung up: commands that it has sent before are still executed, some in each pass.
    hung_up: bool,
    /// When it hung up, if its endpoint stays for its peers' goodbyes.
    gone: Option<Instant>,
}

impl Rank {
    /// Also gives the process's memory and bell, to be handed to it.
    pub(super) fn new(
        socket: UnixStream,
        process: u32,
        port: u16,
        most_peers: u32,
    ) -> io::Result<(Self, [OwnedFd; 2])> {
        let (memory, fd) = Segment::create("hikyaku-rank", layout::MEMORY, Access::Write)?;
        let memory = Arc::new(memory);
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let theirs = bell.try_clone()?;
        let this = Self {
            process,
            socket,
            port,
            up: Producer::new(Arc::clone(&memory), layout::UP),
            down: Consumer::new(Arc::clone(&memory), layout::DOWN),
            memory,
            bell,
            host: None,
            most_peers,
            loans: VecDeque::new(),
            freed: Arc::default(),
            burst: Burst::default(),
            parked: Parked::default(),
            hung_up: false,
            gone: None,
        };
        Ok((this, [fd, theirs]))
    }

    pub(super) fn socket(&self) -> &UnixStream {
        &self.socket
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn has_gone(&self) -> bool {
        self.gone.is_some()
    }

    /// Whether its process has ended, or has left.
    pub(super) fn is_away(&self) -> bool {
        self.hung_up || self.gone.is_some()
    }

    /// Whether it has hung up with commands left to execute.
    pub(super) fn is_leaving(&self) -> bool {
        self.hung_up && self.gone.is_none() && !self.down.is_drained()
    }

    pub(super) fn on_loan(&self) -> u32 {
        self.loans.len() as u32
    }

    /// Counters of its endpoint.
    pub(super) fn stats(&self) -> Stats {
        let host = self.host.as_ref();
        host.map_or_else(Stats::default, |host| host.endpoint().stats())
    }

    pub(super) fn person(&self) -> Person {
        Person {
            process: self.process,
            port: self.port,
        }
    }

    /// A datagram has arrived for it.
    #[inline]
    pub(super) fn receive(
        &mut self,
        now: Instant,
        net: &mut Net,
        packets: &Segment,
        index: usize,
    ) -> Result<(), Thrown> {
        let Some(host) = &mut self.host else { return Ok(()) };
        let (source, data) = net.backend.received_with(index, 0);
        let path = Path::new(source, net.port);
        let len = DELIVERY + data.len();
        let share = net.most / 2;
        let lend = len > SMALL && net.on_loan < net.most && (self.loans.len() as u32) < share;
        let need = if lend { 16 } else { len };
        let room = self.gone.is_none() && self.up.has_room(need + RESERVE)?;
        let full = host.is_full();
        let Some(header) = host.handle_datagram(now, path, data, room) else {
            net.note_untaken(room, full);
            return Ok(());
        };
        // Reports first: that the peer exists, for example.
        Self::write_reports(host, &mut self.up, need + 64)?;
        if !lend {
            net.copied += 1;
            self.up.push(kind::WHOLE, &[IoSlice::new(&header), IoSlice::new(data)]);
            return Ok(());
        }
        let (_, record) = net.backend.received_with(index, DELIVERY);
        record[..DELIVERY].copy_from_slice(&header);
        // The port receives into no other memory.
        let Some(at) = packets.offset_of(record) else {
            return Ok(());
        };
        let lent = net.backend.lend(index);
        self.up.push(kind::AWAY, &[IoSlice::new(&numbered(at, len))]);
        self.loans.push_back((self.up.position(), lent));
        net.on_loan += 1;
        net.lent += 1;
        Ok(())
    }

    /// A datagram of a local process has arrived for it.
    pub(super) fn receive_local(
        &mut self,
        now: Instant,
        net: &mut Net,
        path: Path,
        data: &mut [u8],
    ) -> Result<(), Thrown> {
        let Some(host) = &mut self.host else { return Ok(()) };
        let need = DELIVERY + data.len();
        let room = self.gone.is_none() && self.up.has_room(need + RESERVE)?;
        let full = host.is_full();
        let Some(header) = host.handle_datagram(now, path, data, room) else {
            net.note_untaken(room, full);
            return Ok(());
        };
        Self::write_reports(host, &mut self.up, need + 64)?;
        net.copied += 1;
        self.up.push(kind::WHOLE, &[IoSlice::new(&header), IoSlice::new(data)]);
        Ok(())
    }

    /// Writes reports to its ring, as far as there is room, leaving room for a record of `keep` bytes.
    #[inline]
    fn write_reports(host: &mut ProxyServer, up: &mut Producer, keep: usize) -> Result<(), Thrown> {
        while up.has_room(REPORT + keep)? {
            let Some(report) = host.poll_report() else { break };
            up.push(kind::WHOLE, &[IoSlice::new(&report)]);
        }
        Ok(())
    }

    /// Executes its commands, and handles deadlines. Gives whether there was anything to do.
    pub(super) fn serve(&mut self, now: Instant, net: &mut Net) -> Result<bool, Thrown> {
        let mut any = false;
        if self.gone.is_none() {
            any = self.obey(now, net)?;
        }
        let Some(host) = &mut self.host else { return Ok(any) };
        if host.poll_timeout().is_some_and(|at| at <= now) {
            host.handle_timeout(now);
        }
        if !self.parked.is_empty() {
            net.send_from(self.port);
            any |= self.parked.transmit(now, net, host).map_err(Thrown::Net)?;
        }
        for _ in 0..BURSTS {
            let burst = &mut self.burst;
            if self.parked.is_blocked || !host.poll_transmit(now, burst) {
                break;
            }
            net.send_from(self.port);
            let shown: &ProxyServer = host;
            let sent = net.transmit(now, burst, |each| shown.gather(burst, each));
            if !sent.map_err(Thrown::Net)? {
                self.parked.push(burst, host, net);
                break;
            }
            any = true;
        }
        if self.hung_up {
            // The process does not read reports any more.
            while host.poll_report().is_some() {}
            return Ok(any);
        }
        Self::write_reports(host, &mut self.up, 0)?;
        self.give_back(net)?;
        if self.up.publish() {
            any = true;
            // A write fails only if the counter is full, and then the bell has rung already.
            let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
        }
        Ok(any)
    }

    /// Executes some of its commands.
    #[inline]
    fn obey(&mut self, now: Instant, net: &Net) -> Result<bool, Thrown> {
        let mut count = 0;
        // A process that does not read its reports gets no commands executed.
        while count < COMMANDS && !self.host.as_ref().is_some_and(ProxyServer::is_full) {
            let Some(found) = self.down.next()? else { break };
            count += 1;
            self.command(now, net, found)?;
        }
        self.down.release();
        Ok(count > 0)
    }

    fn command(&mut self, now: Instant, net: &Net, found: Found) -> Result<(), Thrown> {
        let Found { kind, at, len } = found;
        match kind {
            kind::WHOLE if len <= INLINE => {
                let Some(host) = &mut self.host else {
                    return self.begin(net, at, len);
                };
                let (record, carried) = command(&self.memory, at, len)?;
                Ok(host.handle_command(now, &record, carried, None)?)
            }
            kind::AWAY => {
                let [start, len] = numbers(&self.memory, at, len).ok_or(Corrupt)?;
                if start < layout::AREA || !self.memory.holds(start, len) {
                    return Err(Corrupt.into());
                }
                self.command_away(now, net, start, len)
            }
            _ => Err(Corrupt.into()),
        }
    }

    /// Executes a command in shared memory.
    fn command_away(&mut self, now: Instant, net: &Net, start: usize, len: usize) -> Result<(), Thrown> {
        let Some(host) = &mut self.host else {
            self.begin(net, start, len)?;
            self.freed.push(start);
            return Ok(());
        };
        let (record, carried) = command(&self.memory, start, len)?;
        // Freed with the last reference, which may be at once.
        let stays = Foreign::new(Extent {
            memory: Arc::clone(&self.memory),
            at: start,
            bytes: start + REPORT..start + len,
            freed: Arc::clone(&self.freed),
        });
        Ok(host.handle_command(now, &record, carried, Some(&stays))?)
    }

    /// Makes the endpoint from its first command.
    #[cold]
    fn begin(&mut self, net: &Net, at: usize, len: usize) -> Result<(), Thrown> {
        if len > MOST_SETTINGS {
            return Err(Corrupt.into());
        }
        let mut bytes = vec![0; len];
        if !self.memory.copy(at, &mut bytes) {
            return Err(Corrupt.into());
        }
        let mut host = ProxyServer::new(&bytes, net.limits, random(), random_key(), self.most_peers)?;
        for (port, most) in net.smaller() {
            host.limit_port(port, most);
        }
        self.host = Some(host);
        Ok(())
    }

    /// Takes back the loans that it has read, and tells it which of its memory is free again.
    #[inline]
    fn give_back(&mut self, net: &mut Net) -> Result<(), Thrown> {
        if !self.loans.is_empty() {
            let read = self.up.refresh()?;
            while self.loans.front().is_some_and(|(end, _)| *end <= read) {
                self.loans.pop_front();
                net.on_loan -= 1;
            }
        }
        while !self.freed.is_empty() && self.up.has_room(16)? {
            let Some(at) = self.freed.pop() else { break };
            self.up.push(kind::FREED, &[IoSlice::new(&numbered(at, 0))]);
        }
        Ok(())
    }

    /// Gives why it has ended, if it has. After it has hung up, that takes passes in which it is [served](Self::serve).
    pub(super) fn look_for_life(&mut self, now: Instant, net: &mut Net) -> Option<Reason> {
        if let Some(gone) = self.gone {
            let seen_off = self.host.as_ref().is_none_or(|host| !host.is_parting());
            return (seen_off || now.nanos_since(gone) >= PATIENCE).then_some(Reason::Left);
        }
        if !self.hung_up {
            match recv(&self.socket, &mut [0_u8; 1], RecvFlags::DONTWAIT) {
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {
                    return self.up.refresh().is_err().then_some(Reason::Broken(None));
                }
                // Neither the process nor its peers have anything more to say.
                Ok((_, 1..)) => return Some(Reason::Broken(Some(Broken::Order))),
                _ => {}
            }
            // Commands that it has sent before it went still count, but not later writes of another process that has
            // the memory, too.
            if self.down.close().is_err() {
                return Some(Reason::Died);
            }
            self.hung_up = true;
        }
        if !self.down.is_drained() {
            return None;
        }
        net.on_loan -= self.loans.len() as u32;
        self.loans.clear();
        self.gone = Some(now);
        match &self.host {
            Some(host) if host.is_parting() => None,
            Some(host) if host.has_sessions() => Some(Reason::Died),
            _ => Some(Reason::Left),
        }
    }

    /// Asks to be woken by it; `false`: there is something to do.
    pub(super) fn arm(&mut self) -> bool {
        // A process that does not read its reports gets no commands executed, so it need not ring for them.
        let is_full = self.host.as_ref().is_some_and(ProxyServer::is_full);
        // The next pass finds errors.
        self.gone.is_some() || self.parked.is_blocked || is_full || self.down.arm().unwrap_or(false)
    }

    pub(super) fn disarm(&self) {
        self.down.disarm();
    }
}
