//! Several backends as the ports of one: each network interface of a host has one, and a sender says by which a burst
//! leaves.
//!
//! The ports have nothing in common: each has its address, its queues and its counters ([`Backend::ports`]). A port that
//! fails for good (its device has vanished) only drops from then on; the whole fails with its last port.

use std::{
    fmt, io,
    net::SocketAddr,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::OnceLock,
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, epoll, poll},
    io::Errno,
};

use super::{Backend, BackendStats, Capabilities, Neighbours, Notice, Received, Sent, Transmit, Wake};
use crate::{events::event, time::Instant};

/// Most ports: a number of 8 bits names one.
const MAX_PORTS: usize = 256;
/// A port that brought nothing in so many looks is quiet: a look costs a system call even if it finds nothing.
const QUIET: u8 = 16;
/// Of so many passes, one looks at quiet ports, too.
const SELDOM: u32 = 9;
/// Of so many passes, one looks even at quiet ports by which nothing was ever sent, and nothing ever came.
const UNUSED: u32 = 28 * SELDOM;
/// The longest sleep if a port has no descriptor to wait for.
const NAP: Duration = Duration::from_micros(50);

/// A [`Backend`] that consists of others.
///
/// ```
/// # #[cfg(feature = "udp")]
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use hikyaku::backends::{Backend, ports::Ports, udp::UdpBackend};
///
/// let sockets = ["127.0.0.1:0", "127.0.0.2:0"].map(|address| UdpBackend::bind(address.parse().unwrap()));
/// let sockets = sockets.into_iter().map(|socket| Ok(Box::new(socket?) as _));
/// let backend = Ports::new(sockets.collect::<std::io::Result<_>>()?)?;
/// assert_eq!(backend.ports().len(), 2);
/// assert_eq!(backend.local_addr().ip().to_string(), "127.0.0.1");
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "udp"))]
/// # fn main() {}
/// ```
pub struct Ports {
    ports: Vec<Box<dyn Backend>>,
    /// Whether the port of this number can be used.
    alive: Vec<bool>,
    /// Readable if a port is, from when a program asks for it: a socket that is watched makes each of its packets dearer.
    /// None if a port has no descriptor.
    epoll: Option<OwnedFd>,
    watches: OnceLock<()>,
    /// The port that has received last.
    current: usize,
    /// The port that is looked at first next time.
    first: usize,
    /// How often each port brought nothing since it brought something; up to [`QUIET`].
    empty: Vec<u8>,
    /// Passes since one that looked at all ports; 0 after a nap, as any port can have ended it.
    passes: u32,
    /// Whether something was sent or received by the port of this number.
    used: Vec<bool>,
    /// Bursts for ports that do not exist, or not any more.
    dropped: u64,
}

impl Ports {
    /// Makes one backend of `ports`, which have the numbers from 0 on. The first is the one at whose address peers reach
    /// the whole.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if there is none, or more than 256; if one has a packet layer of its own
    /// ([`Capabilities::layered`]); or if some hold references and others do not
    /// ([`Capabilities::holds_references`]). Else the kernel gives no descriptor.
    pub fn new(ports: Vec<Box<dyn Backend>>) -> io::Result<Self> {
        let refuse = |why: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        let abilities = || ports.iter().map(|port| port.capabilities());
        if ports.is_empty() || ports.len() > MAX_PORTS {
            return refuse("a backend has 1 to 256 ports");
        }
        if abilities().any(|port| port.layered) {
            return refuse("a backend with a packet layer of its own cannot be one of several ports");
        }
        if abilities().any(|port| port.holds_references != ports[0].capabilities().holds_references) {
            return refuse("some of the ports hold references, and some do not");
        }
        Ok(Self {
            epoll: { ports.iter().all(|port| port.as_fd().is_some()) }
                .then(|| epoll::create(epoll::CreateFlags::CLOEXEC))
                .transpose()?,
            watches: OnceLock::new(),
            alive: vec![true; ports.len()],
            empty: vec![0; ports.len()],
            passes: 0,
            used: vec![false; ports.len()],
            ports,
            current: 0,
            first: 0,
            dropped: 0,
        })
    }

    /// A port cannot be used any more.
    ///
    /// # Errors
    /// It was the last one.
    #[cold]
    fn fail(&mut self, number: usize, error: io::Error) -> io::Result<()> {
        self.alive[number] = false;
        event!(WARN, port = number, address = %self.ports[number].local_addr(), %error, "a port has failed");
        if let (Some(epoll), Some(descriptor)) = (&self.epoll, self.ports[number].as_fd()) {
            // It may be gone already.
            let _ = epoll::delete(epoll, descriptor);
        }
        if self.alive.contains(&true) { Ok(()) } else { Err(error) }
    }

    /// The numbers of all ports, from the `first` on. (Without remainders: each look for packets comes here.)
    fn in_turn(&self, first: usize) -> impl Iterator<Item = usize> + use<> {
        let count = self.ports.len();
        (first..count).chain(0..first.min(count))
    }

    /// Waits for all ports by their descriptors. Returns which have something.
    fn poll(&self, timeout: Option<Duration>) -> io::Result<Vec<(usize, PollFlags)>> {
        let alive = |number: &usize| self.alive[*number];
        let numbers: Vec<usize> = (0..self.ports.len()).filter(alive).collect();
        let mut descriptors: Vec<PollFd<'_>> = numbers
            .iter()
            .filter_map(|&number| self.ports[number].as_fd())
            .map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN))
            .collect();
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: timeout.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        });
        match poll(&mut descriptors, timeout.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        }
        let flags = descriptors.iter().map(PollFd::revents);
        let found = numbers.into_iter().zip(flags);
        Ok(found.filter(|(_, flags)| !flags.is_empty()).collect())
    }

    /// Has the one descriptor watch all ports that can be used.
    fn watch_all(&self, all: &OwnedFd) {
        for (number, port) in self.ports.iter().enumerate().filter(|(number, _)| self.alive[*number]) {
            let data = epoll::EventData::new_u64(number as u64);
            let Some(descriptor) = port.as_fd() else { continue };
            let added = epoll::add(all, descriptor, data, epoll::EventFlags::IN);
            if added.is_err() {
                event!(WARN, port = number, error = ?added, "the descriptor does not tell of what comes by a port");
            }
        }
    }

    /// Sleeps when a port has no descriptor: on one port after the other, and not for long.
    fn nap(&mut self, timeout: Option<Duration>) -> io::Result<Wake> {
        let Some(number) = self.in_turn(self.current + 1).find(|&number| self.alive[number]) else {
            return Ok(Wake::TimedOut);
        };
        let nap = timeout.map_or(NAP, |timeout| timeout.min(NAP));
        if let Err(error) = self.ports[number].wait(Some(nap)) {
            self.fail(number, error)?;
        }
        self.current = number;
        Ok(Wake::Readable)
    }
}

/// What all of several ports can do, but for the size of datagrams, which is that of the port that takes the largest. `None`:
/// there are no ports.
pub(crate) fn capabilities_of(ports: impl Iterator<Item = Capabilities>) -> Option<Capabilities> {
    ports.reduce(|a, b| Capabilities {
        max_datagram: a.max_datagram.max(b.max_datagram),
        max_segments: a.max_segments.min(b.max_segments),
        max_batch: a.max_batch.min(b.max_batch),
        receive_buffer: a.receive_buffer.min(b.receive_buffer),
        checksummed: a.checksummed && b.checksummed,
        ack_bytes: a.ack_bytes.min(b.ack_bytes),
        ..a
    })
}

impl Backend for Ports {
    fn name(&self) -> &'static str {
        self.ports[0].name()
    }

    /// What all ports can do, but for the size of datagrams: some may take larger ones than others
    /// ([`Backend::ports`]).
    fn capabilities(&self) -> Capabilities {
        capabilities_of(self.ports.iter().map(|port| port.capabilities())).expect("there is a port")
    }

    fn local_addr(&self) -> SocketAddr {
        self.ports[0].local_addr()
    }

    #[inline]
    fn transmit(&mut self, now: Instant, transmit: &Transmit<'_>) -> io::Result<Sent> {
        let number = usize::from(transmit.port);
        if self.alive.get(number) != Some(&true) {
            self.dropped += 1;
            return Ok(Sent::Dropped);
        }
        self.used[number] = true;
        match self.ports[number].transmit(now, transmit) {
            Ok(sent) => Ok(sent),
            Err(error) => self.fail(number, error).map(|()| Sent::Dropped),
        }
    }

    /// The first port that has something fills the buffers; the others come first next time. While nothing comes, the one
    /// that has received last comes first, and quiet ones are asked seldom: small messages to this process take the same
    /// rail.
    fn receive(&mut self, now: Instant, budget: usize) -> io::Result<usize> {
        let (quiet_too, all) = (self.passes.is_multiple_of(SELDOM), self.passes == 0);
        self.passes = (self.passes + 1) % UNUSED;
        for number in self.in_turn(self.first) {
            let is_quiet = self.empty[number] == QUIET && number != self.current;
            let is_due = all || quiet_too && self.used[number];
            if !self.alive[number] || is_quiet && !is_due {
                continue;
            }
            match self.ports[number].receive(now, budget) {
                Ok(0) => self.empty[number] = (self.empty[number] + 1).min(QUIET),
                Ok(filled) => {
                    self.empty[number] = 0;
                    self.used[number] = true;
                    self.current = number;
                    self.first = number + 1;
                    return Ok(filled);
                }
                Err(error) => self.fail(number, error)?,
            }
        }
        self.first = self.current;
        Ok(0)
    }

    #[inline]
    fn received(&mut self, index: usize) -> Received<'_> {
        Received {
            port: self.current as u8,
            ..self.ports[self.current].received(index)
        }
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<Wake> {
        if self.epoll.is_none() {
            self.passes = 0;
            return self.nap(timeout);
        }
        let found = self.poll(timeout)?;
        for &(number, flags) in &found {
            // It is looked at next.
            self.empty[number] = 0;
            // The port alone knows what to do about its error, without which the next wait would not wait.
            if flags != PollFlags::IN
                && let Err(error) = self.ports[number].wait(Some(Duration::ZERO))
            {
                self.fail(number, error)?;
            }
        }
        Ok(if found.is_empty() {
            Wake::TimedOut
        } else {
            Wake::Readable
        })
    }

    /// The sums over all ports.
    fn stats(&self) -> BackendStats {
        let mut stats: BackendStats = self.ports.iter().map(|port| port.stats()).sum();
        stats.dropped += self.dropped;
        stats
    }

    fn poll_notices(&mut self, each: &mut dyn FnMut(Notice<'_>)) {
        self.ports.iter_mut().for_each(|port| port.poll_notices(each));
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        let epoll = self.epoll.as_ref()?;
        self.watches.get_or_init(|| self.watch_all(epoll));
        Some(epoll.as_fd())
    }

    /// Those of all ports that can be used.
    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        if self.epoll.is_none() {
            return Vec::new();
        }
        let alive = self.ports.iter().zip(&self.alive).filter(|(_, alive)| **alive);
        alive.flat_map(|(port, _)| port.descriptors()).collect()
    }

    /// Those of the first port. Further ones find the neighbours of their networks themselves.
    fn neighbours(&mut self) -> Option<&mut dyn Neighbours> {
        self.ports[0].neighbours()
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.ports.iter().filter_map(|port| port.next_deadline()).min()
    }

    fn ports(&self) -> &[Box<dyn Backend>] {
        &self.ports
    }
}

impl fmt::Debug for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addresses: Vec<SocketAddr> = self.ports.iter().map(|port| port.local_addr()).collect();
        f.debug_struct("Ports")
            .field("addresses", &addresses)
            .field("alive", &self.alive)
            .finish_non_exhaustive()
    }
}

#[cfg(feature = "udp")]
#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::{
        super::{
            script::Script,
            udp::{UdpBackend, UdpOptions},
        },
        *,
    };

    const NOW: Instant = Instant::ZERO;

    fn sockets(addresses: &[&str]) -> Ports {
        let addresses: Vec<SocketAddr> = addresses.iter().map(|address| address.parse().unwrap()).collect();
        UdpBackend::bind_ports(&addresses, &UdpOptions::default()).unwrap()
    }

    fn send(from: &mut Ports, port: u8, to: &dyn Backend, data: &[u8]) -> Sent {
        let transmit = Transmit {
            destination: to.local_addr(),
            port,
            segment_size: data.len(),
            len: data.len(),
            slices: &[io::IoSlice::new(data)],
            dont_fragment: true,
            token: 0,
        };
        from.transmit(NOW, &transmit).unwrap()
    }

    /// Receives until there have been `count` datagrams: each with its port and its source.
    fn receive(at: &mut Ports, count: usize) -> Vec<(u8, SocketAddr, Vec<u8>)> {
        let mut all = Vec::new();
        while all.len() < count {
            assert_eq!(at.wait(Some(Duration::from_secs(10))).unwrap(), Wake::Readable);
            for index in 0..at.receive(NOW, 4).unwrap() {
                let received = at.received(index);
                all.push((received.port, received.source, received.data.to_vec()));
            }
        }
        all.sort();
        all
    }

    #[test]
    fn each_port_sends_and_receives_by_itself() {
        let (mut a, mut b) = (
            sockets(&["127.0.0.1:0", "127.0.0.2:0", "[::1]:0"]),
            sockets(&["127.0.0.1:0", "127.0.0.3:0", "[::1]:0"]),
        );
        for port in 0..3 {
            let to = &b.ports()[usize::from(port)];
            assert_eq!(send(&mut a, port, &**to, &[port; 9]), Sent::All);
        }
        let expected: Vec<_> = (0..3)
            .map(|port| (port, a.ports()[usize::from(port)].local_addr(), vec![port; 9]))
            .collect();
        assert_eq!(receive(&mut b, 3), expected);
        assert_eq!((a.stats().datagrams_sent, a.stats().bytes_sent), (3, 27));
        assert_eq!(b.ports()[1].stats().datagrams_received, 1);
        // A port that does not exist.
        assert_eq!(send(&mut a, 3, &b, b"lost"), Sent::Dropped);
        assert_eq!(a.stats().dropped, 1);
        // Nothing is left.
        assert_eq!(b.wait(Some(Duration::ZERO)).unwrap(), Wake::TimedOut);
        assert_eq!(b.receive(NOW, 4).unwrap(), 0);
    }

    #[test]
    fn a_busy_port_does_not_starve_the_others() {
        let (mut a, mut b) = (
            sockets(&["127.0.0.1:0", "127.0.0.2:0"]),
            sockets(&["127.0.0.1:0", "127.0.0.2:0"]),
        );
        for _ in 0..100 {
            send(&mut a, 0, &*b.ports()[0], b"flood");
        }
        send(&mut a, 1, &*b.ports()[1], b"drop");
        let mut calls = 0;
        loop {
            calls += 1;
            assert!(b.receive(NOW, 4).unwrap() > 0);
            if b.received(0).port == 1 {
                break;
            }
        }
        assert!(calls <= 2, "{calls}");
    }

    /// The one descriptor for all is what a program with an event loop of its own watches.
    #[test]
    fn one_descriptor_is_readable_when_any_port_is() {
        let (mut a, mut b) = (sockets(&["127.0.0.1:0"]), sockets(&["127.0.0.1:0", "127.0.0.2:0"]));
        let is_readable = |at: &Ports| {
            let descriptor = at.as_fd().unwrap();
            let mut watched = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
            poll(&mut watched, Some(&Timespec::default())).unwrap() == 1
        };
        assert!(!is_readable(&b));
        send(&mut a, 0, &*b.ports()[1], b"here");
        assert!(is_readable(&b));
        assert_eq!(receive(&mut b, 1)[0].0, 1);
        assert!(!is_readable(&b));
    }

    /// A process that polls the sockets themselves has none of them watched by another descriptor.
    #[test]
    fn the_descriptors_are_those_of_the_ports_that_can_be_used() {
        let mut all = sockets(&["127.0.0.1:0", "127.0.0.2:0"]);
        let numbers = |all: &Ports| -> Vec<i32> { all.descriptors().iter().map(AsRawFd::as_raw_fd).collect() };
        let own = [0, 1].map(|port: usize| all.ports()[port].as_fd().unwrap().as_raw_fd());
        assert_eq!(numbers(&all), own);
        all.fail(0, Errno::BADF.into()).unwrap();
        assert_eq!(numbers(&all), own[1..]);
    }

    #[test]
    fn a_quiet_port_is_asked_seldom_but_after_a_wait_at_once() {
        let (mut a, mut b) = (sockets(&["127.0.0.1:0"]), sockets(&["127.0.0.1:0", "127.0.0.2:0"]));
        let mut send_to = |b: &Ports, port: usize| {
            send(&mut a, 0, &*b.ports()[port], b"here");
            let mut watched = [PollFd::from_borrowed_fd(b.as_fd().unwrap(), PollFlags::IN)];
            assert_eq!(poll(&mut watched, None).unwrap(), 1);
        };
        let quiet = |b: &mut Ports| {
            for _ in 0..2 * UNUSED {
                assert_eq!(b.receive(NOW, 4).unwrap(), 0);
            }
        };
        let looks = |b: &mut Ports| (1..=2 * UNUSED).find(|_| b.receive(NOW, 4).unwrap() > 0);
        quiet(&mut b);
        // Nothing has come by either yet.
        send_to(&b, 1);
        let first = looks(&mut b);
        assert!(first.is_some_and(|looks| looks <= UNUSED), "{first:?}");
        quiet(&mut b);
        send_to(&b, 0);
        assert_eq!(b.wait(Some(Duration::ZERO)).unwrap(), Wake::Readable);
        assert_eq!((looks(&mut b), b.received(0).port), (Some(1), 0));
        // The one that has come by a port once may not be the last.
        quiet(&mut b);
        send_to(&b, 1);
        let again = looks(&mut b);
        assert!(again.is_some_and(|looks| looks <= SELDOM), "{again:?}");
        assert_eq!(b.received(0).port, 1);
        assert_eq!(b.wait(Some(Duration::ZERO)).unwrap(), Wake::TimedOut);
        quiet(&mut b);
        send_to(&b, 0);
        assert_eq!(b.wait(Some(Duration::ZERO)).unwrap(), Wake::Readable);
        assert_eq!(b.receive(NOW, 4).unwrap(), 1);
        assert_eq!(b.received(0).port, 0);
        // The port that received last is asked each time.
        for _ in 0..3 {
            send_to(&b, 0);
            assert_eq!(b.receive(NOW, 4).unwrap(), 1);
        }
    }

    /// An error of a socket that nobody takes away would end every wait at once.
    #[test]
    fn a_refused_datagram_is_a_notice_and_no_busy_loop() {
        let mut a = sockets(&["127.0.0.1:0", "127.0.0.2:0"]);
        let gone = UdpBackend::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = gone.local_addr();
        let held = gone.capabilities();
        assert!(!held.holds_references);
        drop(gone);
        let transmit = Transmit {
            destination: address,
            port: 1,
            segment_size: 5,
            len: 5,
            slices: &[io::IoSlice::new(b"hello")],
            dont_fragment: true,
            token: 0,
        };
        assert_eq!(a.transmit(NOW, &transmit).unwrap(), Sent::All);
        assert_eq!(a.wait(Some(Duration::from_secs(10))).unwrap(), Wake::Readable);
        assert_eq!(a.wait(Some(Duration::ZERO)).unwrap(), Wake::TimedOut);
        let mut notices = 0;
        a.poll_notices(&mut |notice| {
            assert!(matches!(notice, Notice::Unreachable(report) if report.address == address));
            notices += 1;
        });
        assert_eq!(notices, 1);
    }

    /// Fails as a device that has been taken away.
    struct Failing(bool);

    impl Backend for Failing {
        crate::forward_backend!(self => Script::default(); name, capabilities, wait, stats);

        fn local_addr(&self) -> SocketAddr {
            Script::local()
        }

        fn transmit(&mut self, _: Instant, _: &Transmit<'_>) -> io::Result<Sent> {
            if self.0 {
                Err(io::ErrorKind::NotFound.into())
            } else {
                Ok(Sent::All)
            }
        }

        fn receive(&mut self, _: Instant, _: usize) -> io::Result<usize> {
            Ok(0)
        }

        fn received(&mut self, _: usize) -> Received<'_> {
            unreachable!("it receives nothing")
        }
    }

    #[test]
    fn the_whole_outlives_all_ports_but_the_last() {
        let to = Script::default();
        let mut all = Ports::new(vec![Box::new(Failing(true)), Box::new(Failing(false))]).unwrap();
        assert_eq!(send(&mut all, 0, &to, b"x"), Sent::Dropped);
        assert_eq!(send(&mut all, 0, &to, b"x"), Sent::Dropped);
        assert_eq!(send(&mut all, 1, &to, b"x"), Sent::All);
        // There is nothing to wait by: it naps.
        assert!(all.as_fd().is_none());
        assert_eq!(all.wait(Some(Duration::from_secs(10))).unwrap(), Wake::Readable);
        let mut last = Ports::new(vec![Box::new(Failing(true))]).unwrap();
        let transmit = Transmit {
            destination: Script::peer(),
            port: 0,
            segment_size: 1,
            len: 1,
            slices: &[io::IoSlice::new(b"x")],
            dont_fragment: true,
            token: 0,
        };
        assert_eq!(
            last.transmit(NOW, &transmit).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }

    #[test]
    fn what_cannot_be_bundled_is_refused() {
        let script = |holds_references| -> Box<dyn Backend> {
            let mut script = Script::default();
            script.holds_references = holds_references;
            Box::new(script)
        };
        assert!(Ports::new(Vec::new()).is_err());
        assert!(Ports::new((0..257).map(|_| script(false)).collect()).is_err());
        assert!(Ports::new(vec![script(true), script(false)]).is_err());
        assert!(Ports::new(vec![script(true), script(true)]).is_ok());
        let wildcard = ["127.0.0.1:0", "0.0.0.0:0"].map(|address| address.parse().unwrap());
        let error = UdpBackend::bind_ports(&wildcard, &UdpOptions::default()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
}
