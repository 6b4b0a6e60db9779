//! Reports of failed ranks, in a job that goes on without them: `hikyaku run --on-failure continue`.

use std::{
    io::{BufRead, BufReader},
    net::{Shutdown, TcpStream},
};

use super::{
    Launcher,
    channel::{Channel, connect},
    deadline::Deadline,
    error::{BootstrapError, Cause},
    message::{Message, NEWS, Version},
    news::News,
    rendezvous,
};

/// Failed ranks, as an iterator that waits for the next one. It ends with the job, or when [its end](Self::ender) is
/// requested.
#[derive(Debug)]
pub struct Failures {
    /// Bytes received together with the welcome.
    begun: Vec<u8>,
    stream: BufReader<TcpStream>,
}

/// Ends the iteration of [`Failures`] from another thread.
#[derive(Debug)]
pub struct FailuresEnd(TcpStream);

impl Failures {
    /// Opens a connection of its own, so that reports are sent without being asked for.
    pub(super) fn listen(news: &News) -> Result<Self, BootstrapError> {
        rendezvous::patiently(Launcher::Hikyaku, &|| {
            Self::hello(news)
                .map_err(|cause| BootstrapError::new(Launcher::Hikyaku, "listening for ranks that are lost", cause))
        })
    }

    fn hello(news: &News) -> Result<Self, Cause> {
        let stream = connect(&news.address, news.timeout)?;
        let mut channel = Channel::new(stream.try_clone()?);
        let hello = Message::new("hello")
            .with("rank", news.rank)
            .with("ticket", &news.ticket)
            .with("for", NEWS);
        let deadline = Deadline::after(news.timeout);
        channel.send(Version::One, &hello, deadline)?;
        let answer = channel.receive(Version::One, deadline)?;
        if answer.number("rc") != Some(0) {
            let reason = answer.get("msg").unwrap_or("no").replace('_', " ");
            return Err(Cause::Refused(reason));
        }
        // The next line may wait for as long as the job takes.
        stream.set_read_timeout(None)?;
        Ok(Self {
            begun: channel.into_input(),
            stream: BufReader::new(stream),
        })
    }

    /// A handle that ends the iteration from another thread.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn ender(&self) -> std::io::Result<FailuresEnd> {
        self.stream.get_ref().try_clone().map(FailuresEnd)
    }
}

impl FailuresEnd {
    /// Ends the iteration.
    pub fn end(&self) {
        // If this fails, it has ended already.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

impl Iterator for Failures {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        loop {
            // The bytes received with the welcome may end within a line.
            let whole = self.begun.iter().position(|byte| *byte == b'\n');
            let line: Vec<u8> = match whole {
                Some(end) => self.begun.drain(..=end).collect(),
                None => {
                    let mut line = std::mem::take(&mut self.begun);
                    self.stream.read_until(b'\n', &mut line).ok()?;
                    line
                }
            };
            if !line.ends_with(b"\n") {
                return None;
            }
            let message = Message::parse_line(&line).ok()?;
            if message.command() == "lost"
                && let Some(rank) = message.number("rank")
            {
                return Some(rank);
            }
        }
    }
}
