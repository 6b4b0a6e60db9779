//! Where processes meet, each when it first sends something to the other.
//!
//! A process listens at a socket without a file. A caller makes the memory, passes it on, and puts packets into it at once;
//! it waits for no answer. A process that does not take the memory says why.
//!
//! ```text
//! hello: a first message; 56 name of the caller(8), 64 a secret for the answer(8), with a descriptor
//! ```

use std::{
    collections::VecDeque,
    io,
    os::{
        fd::AsFd,
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixListener, UnixStream},
    },
    sync::Arc,
};

use rustix::{
    io::Errno,
    net::{AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, socket_with},
};

use super::{
    pair::{LAYOUT, Pair},
    socket::Sockets,
    streams::Streams,
};
use crate::{
    reliability::Obstacle,
    shm::{
        Credentials,
        handshake::{self, LEN, Version},
    },
};

const NAME: usize = 56;
const SECRET: usize = 64;
/// Callers that have not said anything yet; the oldest gives way to another one.
const CALLERS: usize = 64;
/// Callers that are let in at once.
const AT_ONCE: usize = 16;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Door {
    listener: UnixListener,
    name: u64,
    callers: VecDeque<UnixStream>,
    streams: Arc<Streams>,
}

/// Why a call came to nothing.
#[derive(Clone, Copy, Debug)]
pub(super) enum NotMet {
    /// Too many are calling: later.
    Busy,
    /// `None`: nobody listens there.
    Refused(Option<Obstacle>),
}

/// A process that has called.
#[derive(Debug)]
pub(super) struct Caller {
    pub(super) name: u64,
    pub(super) secret: u64,
    /// The memory that it has brought.
    pub(super) pair: Result<Pair, Obstacle>,
    pub(super) socket: UnixStream,
}

/// The name of the socket, without the zero in front.
fn path(name: u64) -> String {
    format!("hikyaku-shm-{name:016x}")
}

impl Door {
    /// Listens under this name, which `sockets` watches.
    pub(super) fn open(name: u64, sockets: &Sockets, streams: &Arc<Streams>) -> io::Result<Self> {
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(path(name))?)?;
        listener.set_nonblocking(true)?;
        sockets.watch(&listener)?;
        Ok(Self {
            listener,
            name,
            callers: VecDeque::new(),
            streams: Arc::clone(streams),
        })
    }

    /// Calls this process itself, and takes the memory. Where that works, it is expected to work later.
    ///
    /// # Errors
    /// The system does not allow it.
    pub(super) fn try_it(&mut self, sockets: &Sockets) -> io::Result<()> {
        let why = match self.call(self.name, 0)? {
            Ok(_called) => {
                let caller = self.answer(sockets).pop();
                if matches!(&caller, Some(caller) if caller.pair.is_ok()) {
                    return Ok(());
                }
                // As many descriptors are open as when one was to come: was there none left for it?
                self.listener.try_clone()?;
                "what is passed on does not arrive"
            }
            Err(NotMet::Busy) => "too many processes call at once",
            Err(NotMet::Refused(Some(_))) => "this process is told to be another user than it is",
            Err(NotMet::Refused(None)) => "a socket of this process does not answer",
        };
        Err(io::Error::other(why))
    }

    /// Calls the process of this name. An error is one of this process, or what it is not allowed.
    pub(super) fn call(&self, other: u64, secret: u64) -> io::Result<Result<(Pair, UnixStream), NotMet>> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        match connect(&socket, &SocketAddrUnix::new_abstract_name(path(other).as_bytes())?) {
            Ok(()) => {}
            Err(Errno::AGAIN) => return Ok(Err(NotMet::Busy)),
            Err(Errno::CONNREFUSED) => return Ok(Err(NotMet::Refused(None))),
            Err(error) => return Err(error.into()),
        }
        let socket = UnixStream::from(socket);
        let Ok(other) = Credentials::of(&socket)?.check() else {
            return Ok(Err(NotMet::Refused(Some(Obstacle::User))));
        };
        let (pair, memory) = Pair::create(&self.streams, other.process)?;
        let mut hello = handshake::message();
        Version::ours(LAYOUT).put(&mut hello);
        hello[NAME..NAME + 8].copy_from_slice(&self.name.to_le_bytes());
        hello[SECRET..SECRET + 8].copy_from_slice(&secret.to_le_bytes());
        match handshake::send(&socket, &hello, &[memory.as_fd()]) {
            Ok(()) => Ok(Ok((pair, socket))),
            // It has ended meanwhile.
            Err(error) if has_ended(&error) => Ok(Err(NotMet::Refused(None))),
            Err(error) => Err(error),
        }
    }

    /// Lets callers in. Returns those that have said who they are.
    pub(super) fn answer(&mut self, sockets: &Sockets) -> Vec<Caller> {
        for _ in 0..AT_ONCE {
            let Ok((caller, _)) = self.listener.accept() else { break };
            let is_welcome = caller.set_nonblocking(true).is_ok() && check(&caller).is_ok();
            if is_welcome && sockets.watch(&caller).is_ok() {
                if self.callers.len() == CALLERS {
                    self.callers.pop_front();
                }
                self.callers.push_back(caller);
            }
        }
        let mut met = Vec::new();
        for _ in 0..self.callers.len() {
            let Some(caller) = self.callers.pop_front() else { break };
            match has_said_all(&caller) {
                Some(true) => {
                    sockets.forget(&caller);
                    met.extend(self.let_in(caller));
                }
                Some(false) => self.callers.push_back(caller),
                None => {}
            }
        }
        met
    }

    /// Takes the memory of a caller whose hello is there.
    fn let_in(&self, caller: UnixStream) -> Option<Caller> {
        let (hello, descriptors) = handshake::receive(&caller).ok()?;
        let process = Credentials::of(&caller).map_or(0, |caller| caller.process);
        let number = |at: usize| hello[at..].first_chunk().copied().map_or(0, u64::from_le_bytes);
        let pair = match &descriptors[..] {
            _ if Version::read(&hello)? != Version::ours(LAYOUT) => Err(Obstacle::Release),
            [memory] => Pair::take(memory, &self.streams, process).map_err(|_| Obstacle::Memory),
            _ => Err(Obstacle::Memory),
        };
        Some(Caller {
            name: number(NAME),
            secret: number(SECRET),
            pair,
            socket: caller,
        })
    }
}

/// Returns whether a process to which nothing can be sent has ended.
fn has_ended(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset | io::ErrorKind::NotConnected
    )
}

/// Only processes of the same user and of root are let in.
fn check(caller: &UnixStream) -> Result<(), ()> {
    let peer = Credentials::of(caller).map_err(drop)?;
    peer.check().map(drop).map_err(|_| refuse(caller, Obstacle::User))
}

/// Says why the memory is not taken, to a caller that has stayed.
pub(super) fn refuse(caller: &UnixStream, why: Obstacle) {
    // If that fails, the caller sees that the connection ends.
    let _ = handshake::send(caller, &handshake::refuse(why as u8), &[]);
}

/// Returns whether the whole hello is there. `None`: the caller has gone.
fn has_said_all(caller: &UnixStream) -> Option<bool> {
    let mut bytes = [0; LEN];
    match recv(caller, &mut bytes, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
        Ok((_, 0)) => None,
        Ok((_, len)) => Some(len == LEN),
        Err(Errno::AGAIN | Errno::INTR) => Some(false),
        Err(_) => None,
    }
}
