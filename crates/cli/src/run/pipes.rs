//! Pipes that are read and written when they are ready, and never waited for alone.

use std::{
    io::{self, ErrorKind, Read, Write},
    os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd},
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, OFlag, fcntl},
    poll::{PollFd, PollFlags, PollTimeout, poll},
};

/// While more than this waits in a queue, the pipe that fills it is not read.
pub(super) const FULL: usize = 1 << 20;
/// A pipe that says it is ready takes this many bytes without blocking (`PIPE_BUF`).
const ATOMIC: usize = 4096;

/// A descriptor without the buffer that the standard library puts before its own.
pub(super) struct Raw<T>(pub(super) T);

impl<T: AsFd> Read for Raw<T> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        Ok(nix::unistd::read(&self.0, bytes)?)
    }
}

impl<T: AsFd> Write for Raw<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(nix::unistd::write(&self.0, bytes)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(super) fn set_nonblocking(descriptor: impl AsFd) -> io::Result<()> {
    let flags = fcntl(&descriptor, FcntlArg::F_GETFL)?;
    let flags = OFlag::from_bits_retain(flags) | OFlag::O_NONBLOCK;
    fcntl(&descriptor, FcntlArg::F_SETFL(flags))?;
    Ok(())
}

/// Reads all bytes that are there into `buffer`, up to `limit` bytes at once; `false` once the other end has closed it.
pub(super) fn read_some(source: &mut impl Read, buffer: &mut Vec<u8>, limit: usize) -> bool {
    let mut bytes = [0; 16 << 10];
    let mut count = 0;
    while count < limit {
        match source.read(&mut bytes) {
            Ok(0) => return false,
            Ok(more) => {
                buffer.extend_from_slice(&bytes[..more]);
                count += more;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
            Err(_) => return false,
        }
    }
    true
}

/// Bytes that wait to be written.
#[derive(Debug, Default)]
pub(super) struct Queue {
    pub(super) bytes: Vec<u8>,
    /// The reader has gone: bytes are thrown away.
    pub(super) broken: bool,
}

impl Queue {
    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() > FULL
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Writes to a non-blocking pipe as much as it takes.
    pub(super) fn flush(&mut self, sink: &mut impl Write) {
        self.write(sink, usize::MAX, true);
    }

    /// Writes to something that may block, but has just said that it is ready: one small piece.
    pub(super) fn flush_piece(&mut self, sink: &mut impl Write) {
        self.write(sink, ATOMIC, false);
    }

    fn write(&mut self, sink: &mut impl Write, piece: usize, again: bool) {
        let mut done = 0;
        while done < self.bytes.len() && !self.broken {
            let end = self.bytes.len().min(done.saturating_add(piece));
            match sink.write(&self.bytes[done..end]) {
                Ok(count) => done += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => self.broken = true,
            }
            if !again {
                break;
            }
        }
        self.bytes.drain(..done);
        if self.broken {
            self.bytes.clear();
        }
    }
}

/// Descriptors to wait for.
#[derive(Default)]
pub(super) struct Interest<'a> {
    descriptors: Vec<PollFd<'a>>,
}

impl<'a> Interest<'a> {
    pub(super) fn read(&mut self, descriptor: BorrowedFd<'a>) {
        self.descriptors.push(PollFd::new(descriptor, PollFlags::POLLIN));
    }

    pub(super) fn write(&mut self, descriptor: BorrowedFd<'a>) {
        self.descriptors.push(PollFd::new(descriptor, PollFlags::POLLOUT));
    }

    /// Waits until one is ready or `until` has come.
    pub(super) fn wait(&mut self, until: Option<Instant>) -> io::Result<()> {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        // Rounded up, so that the time has come when the wait is over.
        let timeout = left.map_or(PollTimeout::NONE, |left| {
            PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
        });
        match poll(&mut self.descriptors, timeout) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Those that became ready.
    pub(super) fn ready(&self) -> Ready {
        let ready = self.descriptors.iter().filter(|entry| entry.any().unwrap_or(true));
        let mut numbers: Vec<RawFd> = ready.map(|entry| entry.as_fd().as_raw_fd()).collect();
        numbers.sort_unstable();
        Ready(numbers)
    }
}

/// Descriptors that are ready: of hundreds mostly one or two.
#[derive(Debug, Default)]
pub(super) struct Ready(Vec<RawFd>);

impl Ready {
    pub(super) fn has(&self, descriptor: impl AsFd) -> bool {
        self.0.binary_search(&descriptor.as_fd().as_raw_fd()).is_ok()
    }
}

/// Lines out of a stream of bytes.
#[derive(Debug, Default)]
pub(super) struct Lines {
    rest: Vec<u8>,
}

impl Lines {
    /// A longer line is handed on in pieces.
    const LONGEST: usize = 64 << 10;

    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.rest
    }

    /// All whole lines, at the `end` also an incomplete one.
    pub(super) fn take(&mut self, end: bool) -> Option<Vec<u8>> {
        let whole = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let until = if end || self.rest.len() - whole > Self::LONGEST {
            self.rest.len()
        } else {
            whole
        };
        (until > 0).then(|| self.rest.drain(..until).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole() {
        let mut lines = Lines::default();
        lines.buffer().extend(b"one\ntwo\nthr");
        assert_eq!(lines.take(false).unwrap(), b"one\ntwo\n");
        assert_eq!(lines.take(false), None);
        lines.buffer().extend(b"ee");
        assert_eq!(lines.take(true).unwrap(), b"three");
        assert_eq!(lines.take(true), None);
        lines.buffer().extend([b'x'; Lines::LONGEST + 1]);
        assert_eq!(lines.take(false).map(|line| line.len()), Some(Lines::LONGEST + 1));
    }
}
