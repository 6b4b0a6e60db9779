//! The ways to the processes of this host: they wake, and they tell of the end.
//!
//! A process without a job keeps a connection to each other one; the end of a process hangs it up. The processes of a job
//! have a *bell* each, a socket for datagrams, so that their descriptors do not grow with their peers: a datagram wakes, and
//! a bell that is not there any more belongs to a process that has ended.

use std::{
    io,
    mem::MaybeUninit,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixDatagram, UnixStream},
    },
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, epoll, poll},
    io::Errno,
    net::{RecvFlags, SendFlags, SocketAddrUnix, bind, recv, send},
};

use crate::{
    reliability::Obstacle,
    shm::handshake::{self, LEN},
};

/// Descriptors that one call reports.
const EVENTS: usize = 16;
/// Rings of the bell that one look takes.
const RINGS: usize = 64;
/// Stands for the descriptors of the door, and for the bell.
const DOOR: u64 = u64::MAX - 1;
const BELL: u64 = u64::MAX - 2;
/// The place of the secret in a refusal.
const SECRET: usize = 16;

/// All of them, behind one descriptor.
#[derive(Debug)]
pub(super) struct Sockets {
    epoll: OwnedFd,
    bell: Option<Bell>,
    /// `None`: its process has ended.
    ways: Vec<Option<Way>>,
}

/// The bell of this process.
#[derive(Debug)]
struct Bell {
    socket: UnixDatagram,
    /// Is connected to other bells, which shows whether they are there and wakes nobody.
    probe: UnixDatagram,
}

/// The way to a process.
#[derive(Debug)]
pub(super) enum Way {
    Connection(UnixStream),
    /// Its bell, and a number that only the two processes know.
    Bell(SocketAddr, u64),
}

impl Way {
    /// The bell of the process with this name.
    pub(super) fn bell(name: u64, secret: u64) -> io::Result<Self> {
        Ok(Self::Bell(bell(name)?, secret))
    }
}

fn bell(name: u64) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("hikyaku-bell-{name:016x}"))
}

/// The name that the process's probe gets when the process leaves.
fn sign(name: u64) -> String {
    format!("hikyaku-left-{name:016x}")
}

/// What a look for a process has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    There,
    /// It is there, and begins nothing more.
    Leaves,
    Gone,
}

/// What is new.
#[derive(Debug, Default)]
pub(super) struct News {
    /// Something rings, or the network has received something.
    pub(super) is_rung: bool,
    /// A process is at the door.
    pub(super) is_called: bool,
    pub(super) ended: Vec<Ended>,
}

/// A connection whose process has ended, or wants none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    pub(super) index: usize,
    /// Why it wants none.
    pub(super) why: Option<u8>,
}

impl Sockets {
    /// None yet.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            bell: None,
            ways: Vec::new(),
        })
    }

    /// Watches a descriptor of the door, too.
    pub(super) fn watch(&self, door: impl AsFd) -> io::Result<()> {
        let data = epoll::EventData::new_u64(DOOR);
        Ok(epoll::add(&self.epoll, door, data, epoll::EventFlags::IN)?)
    }

    /// Watches it no longer.
    pub(super) fn forget(&self, door: impl AsFd) {
        // It was added by `watch`.
        let _ = epoll::delete(&self.epoll, door);
    }

    /// The one descriptor.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// Can be rung from now on, as the process of this name.
    pub(super) fn hang_bell(&mut self, name: u64) -> io::Result<()> {
        let socket = UnixDatagram::bind_addr(&bell(name)?)?;
        socket.set_nonblocking(true)?;
        let data = epoll::EventData::new_u64(BELL);
        epoll::add(&self.epoll, &socket, data, epoll::EventFlags::IN)?;
        let probe = UnixDatagram::unbound()?;
        self.bell = Some(Bell { socket, probe });
        Ok(())
    }

    /// Can no longer be rung.
    pub(super) fn take_bell(&mut self) {
        self.bell = None;
    }

    /// Tells a process that has called that its memory is not taken.
    #[cold]
    pub(super) fn refuse(&self, name: u64, secret: u64, why: Obstacle) {
        if let (Some(own), Ok(address)) = (&self.bell, bell(name)) {
            let mut bytes = handshake::refuse(why as u8);
            bytes[SECRET..SECRET + 8].copy_from_slice(&secret.to_le_bytes());
            // If its bell takes nothing more, it keeps what it has sent, and waits for an answer.
            let _ = own.socket.send_to_addr(&bytes, &address);
        }
    }

    /// Adds the next one, or one in the place of another that is closed.
    pub(super) fn put(&mut self, index: usize, way: Way) -> io::Result<()> {
        if let Way::Connection(socket) = &way {
            let data = epoll::EventData::new_u64(index as u64);
            epoll::add(&self.epoll, socket, data, epoll::EventFlags::IN)?;
        }
        if index >= self.ways.len() {
            self.ways.resize_with(index + 1, || None);
        }
        self.ways[index] = Some(way);
        Ok(())
    }

    /// Wakes a process. Returns whether it is there, as far as is known.
    #[cold]
    pub(super) fn ring(&self, index: usize) -> bool {
        match self.ways.get(index) {
            Some(Some(Way::Connection(socket))) => {
                // A socket that takes nothing more has been rung; that its process has ended is seen by `look`.
                let _ = send(socket, &[1], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
                true
            }
            Some(Some(Way::Bell(address, _))) => {
                let rung = self.bell.as_ref().map(|own| own.socket.send_to_addr(&[1], address));
                !matches!(rung, Some(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused)
            }
            _ => true,
        }
    }

    /// Returns whether a process is there, as far as is known without a look.
    #[cold]
    pub(super) fn probe(&self, index: usize) -> bool {
        let Some(Some(Way::Bell(address, _))) = self.ways.get(index) else {
            return true;
        };
        let found = self.bell.as_ref().map(|own| own.probe.connect_addr(address));
        !matches!(found, Some(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused)
    }

    /// Looks for the process of this name.
    #[cold]
    pub(super) fn find(&self, name: u64) -> Presence {
        let Some(own) = &self.bell else { return Presence::There };
        let is_there = |address: io::Result<SocketAddr>| {
            let found = address.and_then(|address| own.probe.connect_addr(&address));
            found.map_or_else(|error| error.kind() != io::ErrorKind::ConnectionRefused, |()| true)
        };
        if !is_there(bell(name)) {
            Presence::Gone
        } else if is_there(SocketAddr::from_abstract_name(sign(name))) {
            Presence::Leaves
        } else {
            Presence::There
        }
    }

    /// Shows to those that look for this process, of this name, that it leaves.
    pub(super) fn show_that_it_leaves(&self, name: u64) -> io::Result<()> {
        match &self.bell {
            Some(own) => Ok(bind(
                &own.probe,
                &SocketAddrUnix::new_abstract_name(sign(name).as_bytes())?,
            )?),
            None => Ok(()),
        }
    }

    /// Closes a connection.
    pub(super) fn close(&mut self, index: usize) {
        if let Some(way) = self.ways.get_mut(index) {
            *way = None;
        }
    }

    /// Waits for news, for at most `timeout` (`None`: without a limit).
    pub(super) fn look(&mut self, timeout: Option<Duration>) -> io::Result<News> {
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut events = [MaybeUninit::uninit(); EVENTS];
        let mut news = News::default();
        let (events, _) = match epoll::wait(&self.epoll, &mut events, timeout.as_ref()) {
            Ok(events) => events,
            Err(Errno::INTR) => return Ok(news),
            Err(error) => return Err(error.into()),
        };
        for event in events.iter() {
            news.is_rung = true;
            news.is_called |= event.data.u64() == DOOR;
            if event.data.u64() == BELL {
                self.answer_bell(&mut news);
            }
            let index = event.data.u64() as usize;
            if let Some(Some(Way::Connection(socket))) = self.ways.get(index)
                && let Some(why) = has_ended(socket)
            {
                self.close(index);
                news.ended.push(Ended { index, why });
            }
        }
        Ok(news)
    }

    /// Sleeps until there is news, or one of `network`, the descriptors of the network, is readable: that is returned. (Those
    /// are not watched at other times, which would make each packet that comes dearer.)
    pub(super) fn sleep(&self, network: &[BorrowedFd<'_>], timeout: Option<Duration>) -> io::Result<bool> {
        let all = network.iter().copied().chain([self.epoll.as_fd()]);
        let mut all: Vec<PollFd<'_>> = all.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match poll(&mut all, timeout.as_ref()) {
            Ok(_) => Ok(all[..network.len()].iter().any(|fd| !fd.revents().is_empty())),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads what has rung. Among it may be processes that have not taken memory.
    fn answer_bell(&self, news: &mut News) {
        let mut bytes = [0; LEN];
        for _ in 0..RINGS {
            let Some(Ok(len)) = self.bell.as_ref().map(|own| own.socket.recv(&mut bytes)) else {
                return;
            };
            let secret = bytes[SECRET..].first_chunk().copied().map_or(0, u64::from_le_bytes);
            let is_it = |way: &Option<Way>| matches!(way, Some(Way::Bell(_, own)) if *own == secret);
            if len == LEN
                && let Some(why) = handshake::refusal(&bytes)
                && let Some(index) = self.ways.iter().position(is_it)
            {
                news.ended.push(Ended { index, why: Some(why) });
            }
        }
    }
}

/// Reads what has rung. Returns whether the other end is closed, and why if it says so.
fn has_ended(socket: &UnixStream) -> Option<Option<u8>> {
    let mut bytes = [0; 64];
    match recv(socket, &mut bytes, RecvFlags::DONTWAIT) {
        Ok((_, 0)) => Some(None),
        Ok((_, len)) => handshake::refusal(&bytes[..len]).map(Some),
        Err(Errno::AGAIN | Errno::INTR) => None,
        Err(_) => Some(None),
    }
}
