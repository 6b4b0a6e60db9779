//! The connections to the processes of this host: they wake, and they tell of the end.

use std::{
    io,
    mem::MaybeUninit,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    time::Duration,
};

use rustix::{
    event::{Timespec, epoll},
    io::Errno,
    net::{RecvFlags, SendFlags, recv, send},
};

use crate::shm::handshake;

/// Descriptors that one call reports.
const EVENTS: usize = 16;
/// Stands for the network's descriptor, and for those of the door.
const NETWORK: u64 = u64::MAX;
const DOOR: u64 = u64::MAX - 1;

/// All of them, behind one descriptor.
#[derive(Debug)]
pub(super) struct Sockets {
    epoll: OwnedFd,
    /// `None`: its process has ended.
    sockets: Vec<Option<UnixStream>>,
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
    /// None yet. `network`: the descriptor of the network.
    pub(super) fn new(network: Option<BorrowedFd<'_>>) -> io::Result<Self> {
        let this = Self {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            sockets: Vec::new(),
        };
        if let Some(network) = network {
            let data = epoll::EventData::new_u64(NETWORK);
            epoll::add(&this.epoll, network, data, epoll::EventFlags::IN)?;
        }
        Ok(this)
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

    /// Adds the next one, or one in the place of another that is closed.
    pub(super) fn put(&mut self, index: usize, socket: UnixStream) -> io::Result<()> {
        let data = epoll::EventData::new_u64(index as u64);
        epoll::add(&self.epoll, &socket, data, epoll::EventFlags::IN)?;
        if index >= self.sockets.len() {
            self.sockets.resize_with(index + 1, || None);
        }
        self.sockets[index] = Some(socket);
        Ok(())
    }

    /// Wakes the process at the other end.
    #[cold]
    pub(super) fn ring(&self, index: usize) {
        if let Some(Some(socket)) = self.sockets.get(index) {
            // A socket that takes nothing more has been rung; that its process has ended is seen by `look`.
            let _ = send(socket, &[1], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        }
    }

    /// Closes a connection.
    pub(super) fn close(&mut self, index: usize) {
        if let Some(socket) = self.sockets.get_mut(index) {
            *socket = None;
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
            let index = event.data.u64() as usize;
            if let Some(Some(socket)) = self.sockets.get(index)
                && let Some(why) = has_ended(socket)
            {
                self.close(index);
                news.ended.push(Ended { index, why });
            }
        }
        Ok(news)
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
