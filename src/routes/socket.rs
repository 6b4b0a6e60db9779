//! The connections to the processes of this host: they wake, and they tell of the end.

use std::{
    io,
    mem::MaybeUninit,
    os::{
        fd::{BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    time::Duration,
};

use rustix::{
    event::{Timespec, epoll},
    io::Errno,
    net::{RecvFlags, SendFlags, recv, send},
};

/// Descriptors that one call reports.
const EVENTS: usize = 16;
/// Stands for the network's descriptor.
const NETWORK: u64 = u64::MAX;

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
    /// The processes at these connections have ended.
    pub(super) ended: Vec<usize>,
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

    /// Adds the next one.
    pub(super) fn add(&mut self, socket: UnixStream) -> io::Result<()> {
        let data = epoll::EventData::new_u64(self.sockets.len() as u64);
        epoll::add(&self.epoll, &socket, data, epoll::EventFlags::IN)?;
        self.sockets.push(Some(socket));
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
            let index = event.data.u64() as usize;
            if let Some(Some(socket)) = self.sockets.get(index)
                && has_ended(socket)
            {
                self.close(index);
                news.ended.push(index);
            }
        }
        Ok(news)
    }
}

/// Reads what has rung. Returns whether the other end is closed.
fn has_ended(socket: &UnixStream) -> bool {
    let mut bytes = [0; 64];
    match recv(socket, &mut bytes, RecvFlags::DONTWAIT) {
        Ok((_, 0)) => true,
        Ok(_) | Err(Errno::AGAIN | Errno::INTR) => false,
        Err(_) => true,
    }
}
