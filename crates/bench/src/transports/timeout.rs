//! How long an end waits for something that must come: on a busy machine longer, while the other end is there.

use std::{
    cell::RefCell,
    io::{self, ErrorKind, IsTerminal},
    net::TcpStream,
    time::Duration,
};

use rustix::{
    io::Errno,
    net::{RecvFlags, recv},
};

use crate::machine::{busy, interrupt};

/// An end that has waited this long asks whether the other end is still there; bare UDP takes it for lost.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(2);
/// How long an end waits at most for an end that is there.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// The error for data that does not come.
pub(crate) fn timed_out(what: &str) -> io::Error {
    io::Error::new(ErrorKind::TimedOut, format!("nothing came in time ({what})"))
}

/// How this thread sees whether the others are still there.
struct Others {
    /// Control connections, which are silent during a round.
    connections: Vec<TcpStream>,
    /// Says on standard error that it waits.
    tells: bool,
}

thread_local! {
    static OTHERS: RefCell<Option<Others>> = const { RefCell::new(None) };
}

/// While this lives, this thread waits for the others without a time limit.
pub(crate) struct Watch(());

impl Watch {
    /// Over these control connections; `tells`: says on standard error that it waits.
    pub(crate) fn new<'a>(connections: impl Iterator<Item = &'a TcpStream>, tells: bool) -> io::Result<Self> {
        let connections = connections.map(TcpStream::try_clone).collect::<io::Result<_>>()?;
        OTHERS.set(Some(Others { connections, tells }));
        Ok(Self(()))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        OTHERS.set(None);
    }
}

/// Repeats an attempt of [`TIMEOUT`] until it has a result: for what loses nothing, so that what does not come must be
/// late.
///
/// # Errors
/// Those of the attempt, and `TimedOut` when the other end has gone or has given up, or after [`LIMIT`].
#[inline]
pub(crate) fn until_timeout<T>(what: &str, mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let mut waited = Duration::ZERO;
    loop {
        match attempt() {
            Err(error) if error.kind() == ErrorKind::TimedOut => {
                waited += TIMEOUT;
                if !late(what, waited) {
                    return Err(error);
                }
            }
            other => return other,
        }
    }
}

/// Whether to wait longer for what is late.
#[cold]
fn late(what: &str, waited: Duration) -> bool {
    OTHERS.with_borrow(|others| {
        let Some(others) = others else { return false };
        if waited >= LIMIT || interrupt::pressed() || !there(&others.connections) {
            return false;
        }
        if others.tells && waited.as_secs() % 10 == TIMEOUT.as_secs() {
            // A progress bar has begun the line.
            let over = if io::stderr().is_terminal() { "\r\x1b[K" } else { "" };
            eprintln!(
                "{over}hikyaku bench: {what}: nothing has come for {} s; machine busy ({}): waiting for up to {} s",
                waited.as_secs(),
                busy::load(),
                LIMIT.as_secs()
            );
        }
        true
    })
}

/// No other end has gone, and not all have something to say, which they have when they are done or have given up.
fn there(connections: &[TcpStream]) -> bool {
    let said = connections.iter().map(|connection| {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        recv(connection, &mut [0_u8][..], flags).map(|(got, _)| got)
    });
    let mut silent = false;
    for said in said {
        match said {
            Err(Errno::AGAIN | Errno::INTR) => silent = true,
            Ok(1..) => {}
            Ok(0) | Err(_) => return false,
        }
    }
    silent
}

#[cfg(test)]
mod tests {
    use std::{io::Write, net::TcpListener};

    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (one, listener.accept().unwrap().0)
    }

    /// How often something that never comes is tried.
    fn tries(connections: &[&TcpStream]) -> u64 {
        let _watch = Watch::new(connections.iter().copied(), false).unwrap();
        let mut tries = 0;
        let result: io::Result<()> = until_timeout("a test", || {
            tries += 1;
            Err(timed_out("a test"))
        });
        assert_eq!(result.unwrap_err().kind(), ErrorKind::TimedOut);
        tries
    }

    #[test]
    fn an_end_that_is_there_is_waited_for_to_the_limit() {
        let (ours, theirs) = pair();
        assert_eq!(tries(&[&ours]), LIMIT.as_secs() / TIMEOUT.as_secs());
        drop(theirs);
        assert_eq!(tries(&[&ours]), 1);
    }

    #[test]
    fn an_end_that_has_given_up_is_not_waited_for_and_others_are() {
        let ((one, mut first), (two, mut second)) = (pair(), pair());
        first.write_all(b"x").unwrap();
        assert_eq!(tries(&[&one]), 1);
        assert!(tries(&[&one, &two]) > 1);
        second.write_all(b"x").unwrap();
        assert_eq!(tries(&[&one, &two]), 1);
    }

    #[test]
    fn without_a_watch_nothing_is_waited_for_twice() {
        let mut tries = 0;
        let result: io::Result<()> = until_timeout("a test", || {
            tries += 1;
            Err(timed_out("a test"))
        });
        assert!(result.is_err() && tries == 1);
    }
}
