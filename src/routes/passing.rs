//! Passing memory on between processes of one host, all of which take part at the same moment.
//!
//! Each process listens, and tells the others its [words](Passing::words). Then it connects to those whose memory it
//! takes, and gives its own to as many as connect. No step waits, so the caller makes progress elsewhere meanwhile.

use std::{
    io,
    os::{
        fd::{AsFd, OwnedFd},
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixListener, UnixStream},
    },
};

use rustix::{
    io::Errno,
    net::{AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, socket_with},
};

use super::identity::{self, Identity};
use crate::{
    progress::random,
    shm::{
        Access, Credentials, Segment,
        handshake::{self, LEN},
    },
};

/// What a process tells the others. Zeros: it takes no part.
pub(crate) type Words = [i64; 7];

const _: () = assert!(identity::LEN <= size_of::<Words>());

/// A text that is the same for all processes that can share memory with this one, and for no other. `None`: it can share
/// none.
pub(crate) fn domain(process: u32) -> Option<String> {
    let own = Identity::own(process, 0).ok()?;
    Segment::create("hikyaku-trial", 1, Access::Write).ok()?;
    Some(own.domain())
}

/// A process that takes part.
#[derive(Debug)]
pub(crate) struct Passing {
    listener: UnixListener,
    own: Identity,
}

fn path(of: &Identity) -> String {
    format!("hikyaku-pass-{:016x}", of.number())
}

fn read(words: &Words) -> Option<Identity> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    Some(Identity::read(bytes.get(..identity::LEN)?)?.0)
}

impl Passing {
    /// Listens, under a random name.
    pub(crate) fn open(process: u32) -> io::Result<Self> {
        let own = Identity::own(process, random())?;
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(path(&own))?)?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, own })
    }

    pub(crate) fn words(&self) -> Words {
        let mut bytes = self.own.bytes();
        bytes.resize(size_of::<Words>(), 0);
        let mut words = Words::default();
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = bytes.first_chunk().copied().map_or(0, i64::from_le_bytes);
        }
        words
    }

    /// The [`domain`] of a process with these words. `None`: it shares no memory.
    pub(crate) fn domain_of(words: &Words) -> Option<String> {
        Some(read(words).filter(|of| of.has_memory)?.domain())
    }

    /// Returns whether a process with these words can share memory with this one. (The other way round it is the same.)
    pub(crate) fn meets(&self, words: &Words) -> bool {
        read(words).is_some_and(|other| self.own.meets(&other).is_ok())
    }

    /// Begins to give `own` to so many `takers`, and to take from the processes with these words.
    pub(crate) fn begin(self, own: Option<OwnedFd>, takers: usize, givers: &[Words]) -> Exchange {
        let giver = |words| read(words).map_or(Giver::Done(None), |of| Giver::Named(path(&of)));
        Exchange {
            listener: self.listener,
            own,
            left: takers,
            givers: givers.iter().map(giver).collect(),
        }
    }
}

#[derive(Debug)]
enum Giver {
    /// Not connected yet.
    Named(String),
    Connected(UnixStream),
    /// `None`: it gives nothing.
    Done(Option<OwnedFd>),
}

/// Giving and taking, step by step.
#[derive(Debug)]
pub(crate) struct Exchange {
    listener: UnixListener,
    own: Option<OwnedFd>,
    left: usize,
    givers: Vec<Giver>,
}

impl Exchange {
    /// Does what can be done now. Returns whether that was all.
    pub(crate) fn step(&mut self) -> bool {
        while self.left > 0
            && let Ok((taker, _)) = self.listener.accept()
        {
            self.left -= 1;
            // A process that is given nothing sees that the connection ends.
            if let Some(own) = &self.own
                && is_trusted(&taker)
            {
                let _ = handshake::send(&taker, &handshake::message(), &[own.as_fd()]);
            }
        }
        self.givers.iter_mut().for_each(Giver::step);
        self.left == 0 && self.givers.iter().all(|giver| matches!(giver, Giver::Done(_)))
    }

    /// What was taken, in the order of the givers.
    pub(crate) fn taken(self) -> Vec<Option<OwnedFd>> {
        let taken = |giver| match giver {
            Giver::Done(taken) => taken,
            _ => None,
        };
        self.givers.into_iter().map(taken).collect()
    }
}

impl Giver {
    fn step(&mut self) {
        let next = match self {
            Self::Named(path) => call(path),
            Self::Connected(socket) => take(socket),
            Self::Done(_) => None,
        };
        if let Some(next) = next {
            *self = next;
        }
    }
}

/// `None`: later.
fn call(path: &str) -> Option<Giver> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let called = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).and_then(|socket| {
        connect(&socket, &SocketAddrUnix::new_abstract_name(path.as_bytes())?)?;
        Ok(UnixStream::from(socket))
    });
    match called {
        Ok(socket) if is_trusted(&socket) => Some(Giver::Connected(socket)),
        Err(Errno::AGAIN | Errno::INTR) => None,
        _ => Some(Giver::Done(None)),
    }
}

fn take(socket: &UnixStream) -> Option<Giver> {
    let mut bytes = [0; LEN];
    match recv(socket, &mut bytes, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
        Err(Errno::AGAIN | Errno::INTR) => None,
        Ok((_, len)) if (1..LEN).contains(&len) => None,
        Ok((_, LEN)) => {
            let taken = handshake::receive(socket).ok();
            Some(Giver::Done(taken.and_then(|(_, mut descriptors)| descriptors.pop())))
        }
        _ => Some(Giver::Done(None)),
    }
}

/// Only processes of the same user and of root are believed.
fn is_trusted(socket: &UnixStream) -> bool {
    Credentials::of(socket).is_ok_and(|peer| peer.check().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shm::without_shared_memory;

    fn run(exchanges: &mut [Exchange]) {
        while exchanges
            .iter_mut()
            .filter_map(|one| (!one.step()).then_some(()))
            .count()
            > 0
        {}
    }

    #[test]
    fn each_takes_what_the_others_give() {
        let passing = [0, 1, 2].map(|process| Passing::open(process).unwrap());
        let words = passing.each_ref().map(Passing::words);
        assert!(passing.iter().all(|one| words.iter().all(|other| one.meets(other))));
        assert!(!passing[0].meets(&Words::default()));
        assert!(domain(0).is_some_and(|own| domain(1) == Some(own)));
        assert_eq!(without_shared_memory(|| domain(0)), None);
        let memory = [0, 1, 2].map(|number| Segment::create("test", 4096 << number, Access::Write).unwrap());
        let mut memory = memory.map(|(segment, fd)| (segment, Some(fd)));
        let mut exchanges: Vec<Exchange> = passing
            .into_iter()
            .zip(&mut memory)
            .map(|(passing, (_, fd))| passing.begin(fd.take(), 3, &words))
            .collect();
        run(&mut exchanges);
        for exchange in exchanges {
            for ((own, _), taken) in memory.iter().zip(exchange.taken()) {
                let taken = Segment::map(taken.unwrap().as_fd(), own.len(), Access::Write).unwrap();
                own.write(8, b"seen");
                let mut seen = [0; 4];
                assert!(taken.copy(8, &mut seen));
                assert_eq!(seen, *b"seen");
            }
        }
    }

    #[test]
    fn who_gives_nothing_or_is_not_there_is_known_at_once() {
        let [giver, taker, gone] = [0, 1, 2].map(|process| Passing::open(process).unwrap());
        let words = [giver.words(), gone.words(), Words::default()];
        drop(gone);
        let mut exchanges = [giver.begin(None, 1, &[]), taker.begin(None, 0, &words)];
        run(&mut exchanges);
        let [_, taker] = exchanges;
        assert!(taker.taken().iter().all(Option::is_none));
    }
}
