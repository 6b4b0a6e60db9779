//! A connection to a launcher: requests and their answers, each within a deadline.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::{TcpStream, ToSocketAddrs},
    os::unix::net::UnixStream,
    time::Duration,
};

use super::{
    deadline::Deadline,
    error::Cause,
    message::{LENGTH_BYTES, MAX_MESSAGE, Message, MessageError, Version},
};

/// A stream whose waits can be limited.
pub(super) trait Stream: Read + Write + Send {
    fn limit(&self, limit: Duration) -> io::Result<()>;
}

impl Stream for TcpStream {
    fn limit(&self, limit: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(limit))?;
        self.set_write_timeout(Some(limit))
    }
}

impl Stream for UnixStream {
    fn limit(&self, limit: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(limit))?;
        self.set_write_timeout(Some(limit))
    }
}

pub(super) struct Channel {
    stream: Box<dyn Stream>,
    /// Received bytes that are not part of a message yet.
    input: Vec<u8>,
}

impl Channel {
    pub(super) fn new(stream: impl Stream + 'static) -> Self {
        Self {
            stream: Box::new(stream),
            input: Vec::new(),
        }
    }

    /// Received bytes that are not part of a message yet.
    pub(super) fn into_input(self) -> Vec<u8> {
        self.input
    }

    pub(super) fn send(&mut self, version: Version, message: &Message, deadline: Deadline) -> Result<(), Cause> {
        self.send_text(&message.encode(version), deadline)
    }

    pub(super) fn send_text(&mut self, text: &str, deadline: Deadline) -> Result<(), Cause> {
        if text.len() > MAX_MESSAGE {
            return Err(Cause::Argument(format!(
                "a message of {} bytes is too long",
                text.len()
            )));
        }
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            self.stream.limit(deadline.remaining()?)?;
            match self.stream.write(rest) {
                Ok(0) => return Err(Cause::Closed),
                Ok(written) => rest = &rest[written..],
                Err(error) => passing(error)?,
            }
        }
        Ok(())
    }

    pub(super) fn receive(&mut self, version: Version, deadline: Deadline) -> Result<Message, Cause> {
        let bytes = match version {
            Version::One => self.line(deadline)?,
            Version::Two => {
                let length = self.exactly(LENGTH_BYTES, deadline)?;
                let length = Message::parse_length(&length).map_err(|error| malformed(&length, error))?;
                self.exactly(length, deadline)?
            }
        };
        let message = match version {
            Version::One => Message::parse_line(&bytes),
            Version::Two => Message::parse_body(&bytes),
        };
        message.map_err(|error| malformed(&bytes, error))
    }

    fn line(&mut self, deadline: Deadline) -> Result<Vec<u8>, Cause> {
        let mut seen = 0;
        loop {
            if let Some(end) = self.input[seen..].iter().position(|byte| *byte == b'\n') {
                return Ok(self.input.drain(..=seen + end).collect());
            }
            seen = self.input.len();
            if seen > MAX_MESSAGE {
                return Err(malformed(&self.input, MessageError::TooLong));
            }
            self.read_some(deadline)?;
        }
    }

    fn exactly(&mut self, count: usize, deadline: Deadline) -> Result<Vec<u8>, Cause> {
        while self.input.len() < count {
            self.read_some(deadline)?;
        }
        Ok(self.input.drain(..count).collect())
    }

    fn read_some(&mut self, deadline: Deadline) -> Result<(), Cause> {
        let mut bytes = [0; 4096];
        self.stream.limit(deadline.remaining()?)?;
        match self.stream.read(&mut bytes) {
            Ok(0) => Err(Cause::Closed),
            Ok(count) => {
                self.input.extend_from_slice(&bytes[..count]);
                Ok(())
            }
            Err(error) => passing(error),
        }
    }
}

/// Filters errors after which waiting goes on, up to the deadline: an interruption, or a time-out of one wait.
fn passing(error: io::Error) -> Result<(), Cause> {
    match error.kind() {
        ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::TimedOut => Ok(()),
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => Err(Cause::Closed),
        _ => Err(Cause::Io(error)),
    }
}

fn malformed(bytes: &[u8], error: MessageError) -> Cause {
    Cause::Malformed {
        text: bytes[..bytes.len().min(80)].escape_ascii().to_string(),
        error,
    }
}

/// Connects to `host:port`, trying each of its addresses.
pub(super) fn connect(address: &str, timeout: Duration) -> Result<TcpStream, Cause> {
    let deadline = Deadline::after(timeout);
    let mut last = None;
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, deadline.remaining()?) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => last = Some(error),
        }
    }
    Err(last.map_or_else(|| Cause::Argument(format!("'{address}' has no address")), Cause::Io))
}
