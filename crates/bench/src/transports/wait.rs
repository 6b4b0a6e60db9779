//! The ways to wait, over blocking sockets that have a time limit.

use std::{hint::spin_loop, io, net::TcpStream, net::UdpSocket, thread, time::Duration};

use hikyaku::transport::WaitPolicy;
use rustix::{
    io::Errno,
    net::{RecvFlags, SendFlags},
};

use crate::{
    machine::clock,
    transports::{
        settings::Wait,
        timeout::{TIMEOUT, timed_out},
    },
};

/// How long `adaptive` spins before it sleeps: as long as hikyaku's own.
const SPIN_FIRST: Duration = Duration::from_micros(50);

/// Whether one attempt may sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// Return at once.
    Now,
    /// Sleep until there is something, up to the socket's own limit.
    Sleep,
}

impl Attempt {
    /// Flags for a receive call.
    pub(crate) const fn receive(self) -> RecvFlags {
        match self {
            Self::Now => RecvFlags::DONTWAIT,
            Self::Sleep => RecvFlags::empty(),
        }
    }

    /// Flags for a send call.
    pub(crate) const fn send(self) -> SendFlags {
        match self {
            Self::Now => SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL),
            Self::Sleep => SendFlags::NOSIGNAL,
        }
    }
}

impl Wait {
    /// Repeats `attempt` in this way until it has a result.
    ///
    /// # Errors
    /// The error of the attempt, or `TimedOut` after [`TIMEOUT`].
    #[inline]
    pub(crate) fn until<T>(self, mut attempt: impl FnMut(Attempt) -> rustix::io::Result<T>) -> io::Result<T> {
        if self == Self::Block {
            return sleep(attempt);
        }
        let limit = match self {
            Self::Spin => TIMEOUT,
            Self::Yield => WaitPolicy::TURNS,
            Self::Adaptive | Self::Block => SPIN_FIRST,
        };
        let mut since = None;
        for misses in 0_u32.. {
            match attempt(Attempt::Now) {
                Ok(value) => return Ok(value),
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            if self == Self::Yield {
                thread::yield_now();
            } else {
                spin_loop();
            }
            // A clock reading costs a tenth of an empty call: one in sixteen.
            if misses % 16 == 15 {
                let now = clock::now();
                let started = *since.get_or_insert(now);
                if now - started > limit.as_nanos() as u64 {
                    break;
                }
            }
        }
        if self == Self::Spin {
            Err(timed_out("spinning"))
        } else {
            sleep(attempt)
        }
    }
}

fn sleep<T>(mut attempt: impl FnMut(Attempt) -> rustix::io::Result<T>) -> io::Result<T> {
    loop {
        match attempt(Attempt::Sleep) {
            Ok(value) => return Ok(value),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Err(timed_out("sleeping")),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Puts the time limit on a stream.
pub(crate) fn limit_stream(stream: &TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))
}

/// Puts the time limit on a datagram socket.
pub(crate) fn limit_socket(socket: &UdpSocket) -> io::Result<()> {
    socket.set_read_timeout(Some(TIMEOUT))?;
    socket.set_write_timeout(Some(TIMEOUT))
}
