//! The backend `shm`: memory, and no network.

use std::{
    io,
    net::SocketAddr,
    os::{fd::BorrowedFd, unix::net::UnixStream},
    sync::Arc,
    time::Duration,
};

use super::{
    door::{self, Door, NotMet},
    limits,
    links::Links,
    near::Near,
    pair::{LONGEST, Pair},
    socket::{News, Sockets, Way},
    streams::Streams,
    watched::Watched,
};
use crate::{
    backends::{
        Backend, BackendStats, Capabilities, Notice, Received, Sent, Transmit, Wake,
        shm::{NAME, address_of, name_of},
    },
    config::{Config, ConfigError},
    events::event,
    progress::random,
    reliability::{MemoryLayer, Obstacle},
    time::Instant,
};

/// Nanoseconds between two looks at the connections, while messages come or a program does not sleep.
const LOOK: u64 = 1_000_000;

/// A backend whose peers are processes of this host. It connects to a peer when it first sends something.
#[derive(Debug)]
pub(crate) struct MemoryBackend {
    links: Links,
    door: Door,
    address: SocketAddr,
    received: usize,
    looked: Instant,
    near: Near,
}

impl MemoryBackend {
    /// Listens at `address`. With port 0: under a free name.
    ///
    /// # Errors
    /// The address is not one of memory, another process has it, or there are no more descriptors.
    pub(crate) fn bind(address: SocketAddr) -> io::Result<Self> {
        let name = match name_of(address) {
            _ if address.port() == 0 => random(),
            Some(name) => name,
            None => {
                let why = "an address of shared memory is [fd68:696b:7961:6b75:NAME]:1, or has port 0";
                return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
            }
        };
        let (sockets, streams) = (Sockets::new()?, Arc::new(Streams::of_this_host()));
        Ok(Self {
            door: Door::open(name, &sockets, &streams)?,
            links: Links::new(sockets, streams),
            address: address_of(name),
            received: 0,
            looked: Instant::ZERO,
            near: Near::default(),
        })
    }

    /// Returns what makes the packet layer that fits.
    pub(crate) fn layer(&self) -> impl Fn(Config) -> Result<MemoryLayer, ConfigError> + Send + Sync + use<> {
        let near = self.near.clone();
        move |config| {
            let (layer, crosses) = (MemoryLayer::new(config, limits(), random())?, near.clone());
            Ok(layer
                .with_rings(near.clone())
                .with_cross_memory(move |address| crosses.cross(address)))
        }
    }

    pub(crate) fn watched(&self) -> Watched {
        self.near.watched().clone()
    }

    /// There is a memory in common with a process. Returns the link.
    fn join(&mut self, name: u64, pair: Pair, socket: UnixStream) -> io::Result<usize> {
        let (address, is_own) = (address_of(name), pair.is_own());
        let way = Way::Connection(socket);
        let index = self.links.add(address, (pair.outward, pair.inward), way)?;
        let is_higher = name_of(self.address) > Some(name);
        self.near.add_rings(address, pair.short, is_own, is_higher);
        Ok(index)
    }

    /// Connects to a peer. Returns the link, or what became of the burst.
    #[cold]
    fn call(&mut self, address: SocketAddr) -> io::Result<Result<usize, Sent>> {
        // It may have called, too.
        self.attend(Some(Duration::ZERO))?;
        if let Some(index) = self.links.find_open(address) {
            return Ok(Ok(index));
        }
        // (If there was a memory in common with a process at this address, that process has ended.)
        self.near.forget(address);
        let Some(name) = name_of(address) else {
            self.links.refuse(address, None);
            return Ok(Err(Sent::Dropped));
        };
        let called = self.door.call(name, 0).unwrap_or_else(|error| {
            event!(WARN, %address, %error, "no memory in common with a process");
            drop(error);
            Err(NotMet::Refused(Some(Obstacle::Memory)))
        });
        match called {
            Ok((pair, socket)) => Ok(Ok(self.join(name, pair, socket)?)),
            Err(NotMet::Busy) => Ok(Err(Sent::Busy)),
            Err(NotMet::Refused(why)) => {
                self.links.refuse(address, why.map(|why| why as u8));
                Ok(Err(Sent::Dropped))
            }
        }
    }

    /// Looks at the connections for at most `timeout`, and lets callers in.
    fn attend(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let news = self.links.look(timeout)?;
        self.take_note(&news)
    }

    fn take_note(&mut self, news: &News) -> io::Result<()> {
        if news.is_called {
            for caller in self.door.answer(&self.links.sockets) {
                match caller.pair {
                    Ok(pair) => drop(self.join(caller.name, pair, caller.socket)?),
                    Err(why) => door::refuse(&caller.socket, why),
                }
            }
        }
        Ok(())
    }
}

impl Backend for MemoryBackend {
    fn name(&self) -> &'static str {
        NAME
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            checksummed: true,
            layered: true,
            ..Capabilities::new(LONGEST)
        }
    }

    fn local_addr(&self) -> SocketAddr {
        self.address
    }

    #[inline]
    fn transmit(&mut self, now: Instant, transmit: &Transmit<'_>) -> io::Result<Sent> {
        let index = match self.links.find_open(transmit.destination) {
            Some(index) => index,
            None => match self.call(transmit.destination)? {
                Ok(index) => index,
                Err(sent) => return Ok(sent),
            },
        };
        self.links.transmit(now, index, transmit)
    }

    fn receive(&mut self, now: Instant, budget: usize) -> io::Result<usize> {
        let is_watched = self.near.watched().is_so();
        if is_watched {
            self.links.disarm();
        }
        if is_watched || now.nanos_since(self.looked) >= LOOK {
            self.looked = now;
            self.attend(Some(Duration::ZERO))?;
        }
        self.received = self.links.receive(budget);
        if self.received == 0 && self.links.note_empty() {
            self.attend(Some(Duration::ZERO))?;
        }
        // What came in between is not told by the descriptor.
        while is_watched && budget > 0 && self.received == 0 && !self.links.arm() {
            self.links.disarm();
            self.received = self.links.receive(budget);
        }
        self.links.rest(now);
        Ok(self.received)
    }

    #[inline]
    fn received(&mut self, index: usize) -> Received<'_> {
        self.links.received(index)
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<Wake> {
        self.received = 0;
        let Some(news) = self.links.sleep(&[], timeout)? else {
            return Ok(Wake::Readable);
        };
        self.take_note(&news)?;
        Ok(if news.is_rung { Wake::Readable } else { Wake::TimedOut })
    }

    fn stats(&self) -> BackendStats {
        *self.links.stats()
    }

    fn poll_notices(&mut self, each: &mut dyn FnMut(Notice<'_>)) {
        let (links, mut ended) = (&mut self.links, Vec::new());
        links.report(&mut |notice| {
            if let Notice::Unreachable(told) = &notice {
                ended.push(told.address);
            }
            each(notice);
        });
        for address in ended {
            if links.find_open(address).is_none() {
                self.near.forget(address);
            }
        }
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.near.watched().note();
        Some(self.links.sockets.descriptor())
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.links.next_rest()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::IoSlice,
        os::{
            fd::{AsFd, OwnedFd},
            linux::net::SocketAddrExt,
            unix::net::{SocketAddr as UnixAddress, UnixListener, UnixStream},
        },
    };

    use super::*;
    use crate::{
        reliability::Obstacle,
        routes::pair::LAYOUT,
        shm::{
            Access, Segment, as_nobody,
            handshake::{self, Version},
        },
    };

    fn any() -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 0))
    }

    fn path(address: SocketAddr) -> UnixAddress {
        let name = name_of(address).unwrap();
        UnixAddress::from_abstract_name(format!("hikyaku-shm-{name:016x}")).unwrap()
    }

    fn send(from: &mut MemoryBackend, destination: SocketAddr) -> Sent {
        let data = [7; 3];
        let transmit = Transmit {
            destination,
            port: 0,
            segment_size: data.len(),
            len: data.len(),
            slices: &[IoSlice::new(&data)],
            dont_fragment: true,
            token: 0,
        };
        from.transmit(Instant::ZERO, &transmit).unwrap()
    }

    /// What a backend reports of an address, when it does.
    fn reported(at: &mut MemoryBackend, of: SocketAddr) -> Vec<u8> {
        loop {
            let mut quoted = None;
            at.poll_notices(&mut |notice| {
                if let Notice::Unreachable(unreachable) = notice {
                    assert_eq!(unreachable.address, of);
                    quoted = Some(unreachable.quoted.to_vec());
                }
            });
            if let Some(quoted) = quoted {
                return quoted;
            }
            at.wait(None).unwrap();
            assert_eq!(at.receive(Instant::ZERO, 8).unwrap(), 0);
        }
    }

    /// What a caller with this hello is told.
    fn answer(layout: u32, memory: &[OwnedFd]) -> Option<u8> {
        let mut at = MemoryBackend::bind(any()).unwrap();
        let caller = UnixStream::connect_addr(&path(at.local_addr())).unwrap();
        let mut hello = handshake::message();
        Version::ours(layout).put(&mut hello);
        let memory: Vec<_> = memory.iter().map(AsFd::as_fd).collect();
        handshake::send(&caller, &hello, &memory).unwrap();
        at.wait(None).unwrap();
        let answer = handshake::receive(&caller).ok()?;
        handshake::refusal(&answer.0)
    }

    #[test]
    fn another_release_and_memory_that_does_not_suit_are_refused() {
        assert_eq!(answer(LAYOUT + 1, &[]), Some(Obstacle::Release as u8));
        assert_eq!(answer(LAYOUT, &[]), Some(Obstacle::Memory as u8));
        let (_, small) = Segment::create("small", 4096, Access::Write).unwrap();
        assert_eq!(answer(LAYOUT, &[small]), Some(Obstacle::Memory as u8));
        let unsealed = rustix::fs::memfd_create("open", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&unsealed, 64 << 20).unwrap();
        assert_eq!(answer(LAYOUT, &[unsealed]), Some(Obstacle::Memory as u8));
    }

    #[test]
    fn who_is_refused_learns_why() {
        let to = address_of(random());
        let listener = UnixListener::bind_addr(&path(to)).unwrap();
        let mut at = MemoryBackend::bind(any()).unwrap();
        // What is sent before lies in the memory.
        assert_eq!(send(&mut at, to), Sent::All);
        let (caller, _) = listener.accept().unwrap();
        handshake::send(&caller, &handshake::refuse(Obstacle::Release as u8), &[]).unwrap();
        drop(caller);
        assert_eq!(reported(&mut at, to), [Obstacle::Release as u8]);
        // It may be gone without a word, and nobody may be there at all.
        assert_eq!(send(&mut at, to), Sent::All);
        drop(listener);
        assert_eq!(reported(&mut at, to), []);
        assert_eq!(send(&mut at, to), Sent::Dropped);
        assert_eq!(reported(&mut at, to), []);
    }

    #[test]
    fn a_process_of_another_user_is_not_met() {
        let Some(there) = as_nobody(|| MemoryBackend::bind(any()).unwrap()) else {
            return eprintln!("skipped: not root");
        };
        let mut at = MemoryBackend::bind(any()).unwrap();
        assert_eq!(send(&mut at, there.local_addr()), Sent::Dropped);
        assert_eq!(reported(&mut at, there.local_addr()), [Obstacle::User as u8]);
    }

    /// Memory of processes that have ended does not add up.
    #[test]
    fn the_place_of_one_that_has_ended_is_taken_by_the_next() {
        let mut at = MemoryBackend::bind(any()).unwrap();
        for _ in 0..20 {
            let mut other = MemoryBackend::bind(any()).unwrap();
            assert_eq!(send(&mut other, at.local_addr()), Sent::All);
            while at.receive(Instant::ZERO, 8).unwrap() == 0 {
                at.wait(None).unwrap();
            }
            assert_eq!(at.received(0).source, other.local_addr());
            let gone = other.local_addr();
            drop(other);
            assert_eq!(reported(&mut at, gone), []);
        }
        assert!(at.links.len() <= 2, "{}", at.links.len());
    }
}
