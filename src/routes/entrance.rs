//! Where processes of one host meet, and get a memory in common.
//!
//! Each process listens at a socket without a file, so that nothing stays behind. Of two processes the one with the higher
//! number connects, makes the memory, and passes its descriptor on; the other one answers whether it has taken it. The
//! connection stays: it wakes its other end, and hangs up when that one ends.
//!
//! ```text
//! hello:  a first message; 12 number of the process(4), 64 why there is no memory (with a descriptor: empty)
//! answer: 8 taken(1), 16 why not
//! ```

use std::{
    fmt, io,
    os::{
        fd::AsFd,
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixListener, UnixStream},
    },
    time::{Duration, Instant},
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{
    identity::Identity,
    pair::{LAYOUT, Pair},
};
use crate::shm::{
    Credentials,
    handshake::{self, Version},
};

/// The places of what these messages say.
const PROCESS: usize = 12;
const REFUSAL: usize = 64;
const TAKEN: usize = 8;
const REASON: usize = 16;

/// The socket of a process. See the module's documentation.
#[derive(Debug)]
pub(super) struct Entrance {
    listener: UnixListener,
    own: Identity,
}

/// Why two processes of one host have no memory in common.
#[derive(Debug)]
pub(super) enum Failed {
    /// A call of this process failed.
    Here(&'static str, io::Error),
    /// The other side can not.
    There(String),
    /// The other side is not what it should be.
    Stranger(String),
    /// It has not come within the time.
    Absent(Duration),
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Here(what, error) => write!(f, "{what}: {error}"),
            Self::There(why) => write!(f, "the other process says: {why}"),
            Self::Stranger(why) => f.write_str(why),
            Self::Absent(limit) => write!(f, "the other process has not come within {} s", limit.as_secs()),
        }
    }
}

/// A memory in common with another process, and the connection to it.
pub(super) type Meeting = Result<(Pair, UnixStream), Failed>;

fn here(what: &'static str) -> impl Fn(io::Error) -> Failed {
    move |error| Failed::Here(what, error)
}

fn address(of: &Identity) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("hikyaku-{:016x}", u64::from_be_bytes(of.name)))
}

impl Entrance {
    /// Listens as `own`.
    pub(super) fn open(own: Identity) -> io::Result<Self> {
        let listener = UnixListener::bind_addr(&address(&own)?)?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, own })
    }

    pub(super) fn own(&self) -> &Identity {
        &self.own
    }

    /// Meets `others`, all of which do the same. Returns what came of each, in the same order. Takes at most about
    /// `limit` if some of them do not come.
    pub(super) fn meet(self, others: &[Identity], limit: Duration) -> Vec<Meeting> {
        let mut met: Vec<Option<Meeting>> = others
            .iter()
            .map(|other| (other.process < self.own.process).then(|| self.call(other)))
            .collect();
        self.answer(others, limit, &mut met);
        let end = |met: Option<Meeting>| match met {
            None => Err(Failed::Absent(limit)),
            Some(Ok((pair, socket))) if pair.is_own() => hear_answer(&socket).map(|()| (pair, socket)),
            Some(met) => met,
        };
        met.into_iter().map(end).collect()
    }

    /// Connects to a process, and offers it a memory.
    fn call(&self, other: &Identity) -> Meeting {
        let socket = address(other).and_then(|address| UnixStream::connect_addr(&address));
        let socket = socket.map_err(here("connecting"))?;
        check(&socket)?;
        let mut hello = handshake::message();
        Version::ours(LAYOUT).put(&mut hello);
        hello[PROCESS..PROCESS + 4].copy_from_slice(&self.own.process.to_le_bytes());
        match Pair::create() {
            Ok((pair, fd)) => {
                handshake::send(&socket, &hello, &[fd.as_fd()]).map_err(here("passing memory on"))?;
                Ok((pair, socket))
            }
            Err(error) => {
                handshake::put_text(&mut hello, REFUSAL, &error.to_string());
                // If this fails, the other side sees that the connection ends.
                let _ = handshake::send(&socket, &hello, &[]);
                Err(Failed::Here("making memory", error))
            }
        }
    }

    /// Answers the processes with higher numbers.
    #[expect(
        clippy::disallowed_methods,
        reason = "a limit on a call that waits, before there is a driver"
    )]
    fn answer(&self, others: &[Identity], limit: Duration, met: &mut [Option<Meeting>]) {
        let end = Instant::now() + limit;
        while met.iter().any(Option::is_none) {
            let left = end.saturating_duration_since(Instant::now());
            let Some(socket) = self.next_caller(left) else { return };
            // (A caller that says nothing only costs time.)
            let _ = socket.set_read_timeout(Some(left.max(Duration::from_millis(1))));
            let Ok((process, pair)) = take_offer(&socket) else {
                continue;
            };
            let place = others.iter().position(|other| other.process == process);
            if let Some(place) = place.and_then(|place| met.get_mut(place))
                && place.is_none()
            {
                *place = Some(give_answer(&socket, pair).map(|pair| (pair, socket)));
            }
        }
    }

    fn next_caller(&self, left: Duration) -> Option<UnixStream> {
        if let Ok((socket, _)) = self.listener.accept() {
            return socket.set_nonblocking(false).is_ok().then_some(socket);
        }
        let timeout = Timespec::try_from(left).ok().filter(|_| !left.is_zero())?;
        let mut fds = [PollFd::new(&self.listener, PollFlags::IN)];
        match poll(&mut fds, Some(&timeout)) {
            Ok(0) => None,
            Ok(_) | Err(rustix::io::Errno::INTR) => self.next_caller(left.min(Duration::from_secs(1))),
            Err(_) => None,
        }
    }
}

/// Only processes of the same user and of root are believed.
fn check(socket: &UnixStream) -> Result<(), Failed> {
    let peer = Credentials::of(socket).map_err(here("asking who it is"))?;
    let untrusted = |_| Failed::Stranger(format!("the process there belongs to the user {}", peer.user));
    peer.check().map(drop).map_err(untrusted)
}

/// Receives the offer of a process: its number, and the memory.
fn take_offer(socket: &UnixStream) -> Result<(u32, Result<Pair, Failed>), Failed> {
    check(socket)?;
    let (hello, descriptors) = handshake::receive(socket).map_err(here("reading an offer"))?;
    let version = Version::read(&hello).ok_or_else(|| Failed::Stranger("it is not from hikyaku".into()))?;
    let [a, b, c, d] = [0, 1, 2, 3].map(|at| hello[PROCESS + at]);
    let process = u32::from_le_bytes([a, b, c, d]);
    let ours = Version::ours(LAYOUT);
    let pair = match &*descriptors {
        _ if version != ours => Err(Failed::Stranger(format!(
            "it is of the release {} (memory {}), and this process of {} (memory {})",
            version.release, version.layout, ours.release, ours.layout
        ))),
        [fd] => Pair::take(fd).map_err(here("mapping memory")),
        _ => Err(Failed::There(handshake::text(&hello, REFUSAL))),
    };
    Ok((process, pair))
}

/// Says whether the memory was taken.
fn give_answer(socket: &UnixStream, pair: Result<Pair, Failed>) -> Result<Pair, Failed> {
    let mut answer = handshake::message();
    match &pair {
        Ok(_) => answer[TAKEN] = 1,
        Err(error) => handshake::put_text(&mut answer, REASON, &error.to_string()),
    }
    handshake::send(socket, &answer, &[]).map_err(here("answering"))?;
    pair
}

/// Learns whether the memory was taken. There is no time limit: who has made the memory does not know better than who
/// answers, and a process that is not there any more hangs up.
fn hear_answer(socket: &UnixStream) -> Result<(), Failed> {
    let (answer, _) = handshake::receive(socket).map_err(here("waiting for an answer"))?;
    if !handshake::is_ours(&answer) {
        return Err(Failed::Stranger("it is not from hikyaku".into()));
    }
    match answer[TAKEN] {
        1 => Ok(()),
        _ => Err(Failed::There(handshake::text(&answer, REASON))),
    }
}
