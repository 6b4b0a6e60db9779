//! The TCP side: who connects, who has the ticket, and lines in and out. Nothing in it waits.

use std::{
    collections::BTreeMap,
    io::{self, ErrorKind, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    ops::Range,
    os::fd::{AsFd, BorrowedFd},
    time::Duration,
};

use crate::bootstrap::{
    deadline::Deadline,
    message::{Message, Version},
};

/// Longest line that is accepted; longer than any that a rank has reason to send.
const MAX_LINE: usize = 4 << 10;
/// How much may wait to be sent to a rank. Ranks wait for each answer, so more is a rank that does not read.
const MAX_WAITING: usize = 64 << 10;
/// How long a stranger may take to say hello, and how many there may be at once.
const HELLO_LIMIT: Duration = Duration::from_secs(5);
const MAX_STRANGERS: usize = 64;

/// What happened at the gate.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GateEvent {
    /// A rank was let in.
    Joined(u32),
    /// A rank sent a line.
    Line(u32, Vec<u8>),
    /// The connection of a rank has ended.
    Left(u32),
    /// Somebody without a ticket, or without manners, was sent away.
    Dropped(SocketAddr),
}

struct Connection {
    stream: TcpStream,
    from: SocketAddr,
    input: Vec<u8>,
    output: Vec<u8>,
    open: bool,
}

struct Stranger {
    connection: Connection,
    until: Deadline,
}

/// Listens for the ranks of a job. Never blocks: call [`pump`](Self::pump) when one of [`descriptors`](Self::descriptors)
/// is ready, and once a second for those who say nothing.
pub struct Gate {
    listener: TcpListener,
    ticket: String,
    expected: Range<u32>,
    strangers: Vec<Stranger>,
    ranks: BTreeMap<u32, Connection>,
    /// Ranks that were here once; nobody comes twice.
    seen: Vec<u32>,
}

impl Gate {
    /// Lets ranks `expected` in that have `ticket`.
    ///
    /// # Errors
    /// If the listener can not be made non-blocking.
    pub fn new(listener: TcpListener, ticket: &str, expected: Range<u32>) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener,
            ticket: ticket.to_owned(),
            expected,
            strangers: Vec::new(),
            ranks: BTreeMap::new(),
            seen: Vec::new(),
        })
    }

    /// What to wait for: each descriptor, and whether it also waits to be written to.
    #[must_use]
    pub fn descriptors(&self) -> Vec<(BorrowedFd<'_>, bool)> {
        let strangers = self.strangers.iter().map(|stranger| &stranger.connection);
        let connections = strangers.chain(self.ranks.values());
        let mut descriptors = vec![(self.listener.as_fd(), false)];
        descriptors.extend(connections.map(|connection| (connection.stream.as_fd(), !connection.output.is_empty())));
        descriptors
    }

    /// Somebody waits to be let in, so time matters.
    #[must_use]
    pub fn has_strangers(&self) -> bool {
        !self.strangers.is_empty()
    }

    /// Nothing waits to be sent.
    #[must_use]
    pub fn is_flushed(&self) -> bool {
        self.ranks.values().all(|connection| connection.output.is_empty())
    }

    /// Sends `line` to `rank`, as soon as it takes it. A rank that is not here misses it.
    pub fn send(&mut self, rank: u32, line: &str) {
        if let Some(connection) = self.ranks.get_mut(&rank) {
            connection.send(line);
        }
    }

    /// Accepts, reads and writes what can be done now.
    pub fn pump(&mut self) -> Vec<GateEvent> {
        let mut events = Vec::new();
        self.accept(&mut events);
        self.greet(&mut events);
        for (&rank, connection) in &mut self.ranks {
            connection.read();
            while let Some(line) = connection.take_line() {
                events.push(GateEvent::Line(rank, line));
            }
            connection.write();
            if !connection.open {
                events.push(GateEvent::Left(rank));
            }
        }
        self.ranks.retain(|_, connection| connection.open);
        events
    }

    fn accept(&mut self, events: &mut Vec<GateEvent>) {
        while let Ok((stream, from)) = self.listener.accept() {
            if self.strangers.len() == MAX_STRANGERS {
                let first = self.strangers.remove(0);
                events.push(GateEvent::Dropped(first.connection.from));
            }
            let set = stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true));
            if set.is_ok() {
                let connection = Connection {
                    stream,
                    from,
                    input: Vec::new(),
                    output: Vec::new(),
                    open: true,
                };
                let until = Deadline::after(HELLO_LIMIT);
                self.strangers.push(Stranger { connection, until });
            }
        }
    }

    /// Hears strangers, and lets them in or drops them.
    fn greet(&mut self, events: &mut Vec<GateEvent>) {
        for mut stranger in std::mem::take(&mut self.strangers) {
            stranger.connection.read();
            let Some(line) = stranger.connection.take_line() else {
                if stranger.connection.open && !stranger.until.is_over() {
                    self.strangers.push(stranger);
                } else {
                    events.push(GateEvent::Dropped(stranger.connection.from));
                }
                continue;
            };
            let mut connection = stranger.connection;
            match self.check(&line) {
                Ok(rank) => {
                    connection.send("cmd=welcome rc=0\n");
                    self.seen.push(rank);
                    self.ranks.insert(rank, connection);
                    events.push(GateEvent::Joined(rank));
                }
                Err(reason) => {
                    if let Some(reason) = reason {
                        let refusal = Message::new("welcome").with("rc", -1).with("msg", reason);
                        connection.send(&refusal.encode(Version::One));
                    }
                    events.push(GateEvent::Dropped(connection.from));
                }
            }
        }
    }

    /// The rank that a first line names, or what to say to who has the ticket and still does not belong here.
    fn check(&self, line: &[u8]) -> Result<u32, Option<&'static str>> {
        let hello = Message::parse_line(line).map_err(|_| None)?;
        let ticket = hello.get("ticket").unwrap_or_default();
        if hello.command() != "hello" || !same(ticket, &self.ticket) {
            return Err(None);
        }
        match hello.number::<u32>("rank") {
            Some(rank) if !self.expected.contains(&rank) => Err(Some("no_such_rank")),
            Some(rank) if self.seen.contains(&rank) => Err(Some("this_rank_is_here_already")),
            Some(rank) => Ok(rank),
            None => Err(Some("no_rank")),
        }
    }
}

/// Compares without telling by its time how much is right.
fn same(one: &str, other: &str) -> bool {
    let differences = one.bytes().zip(other.bytes()).fold(0, |sum, (a, b)| sum | (a ^ b));
    one.len() == other.len() && differences == 0
}

impl Connection {
    fn send(&mut self, line: &str) {
        self.output.extend_from_slice(line.as_bytes());
        self.write();
        if self.output.len() > MAX_WAITING {
            self.open = false;
        }
    }

    fn read(&mut self) {
        let mut octets = [0; MAX_LINE];
        while self.open && self.input.len() <= MAX_LINE {
            match self.stream.read(&mut octets) {
                Ok(0) => self.open = false,
                Ok(count) => self.input.extend_from_slice(&octets[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => self.open = false,
            }
        }
    }

    fn take_line(&mut self) -> Option<Vec<u8>> {
        let Some(end) = self.input.iter().position(|octet| *octet == b'\n') else {
            if self.input.len() > MAX_LINE {
                self.open = false;
            }
            return None;
        };
        Some(self.input.drain(..=end).collect())
    }

    fn write(&mut self) {
        while self.open && !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(count) => drop(self.output.drain(..count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => self.open = false,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};

    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    use super::*;

    fn gate() -> (Gate, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        (Gate::new(listener, "secret", 0..2).unwrap(), address)
    }

    /// Pumps until something happens.
    fn next(gate: &mut Gate) -> Vec<GateEvent> {
        for _ in 0..20 {
            let mut descriptors: Vec<PollFd<'_>> = gate
                .descriptors()
                .into_iter()
                .map(|(descriptor, _)| PollFd::new(descriptor, PollFlags::POLLIN))
                .collect();
            poll(&mut descriptors, PollTimeout::from(500_u16)).unwrap();
            let events = gate.pump();
            if !events.is_empty() {
                return events;
            }
        }
        panic!("nothing happens at the gate");
    }

    fn say(address: SocketAddr, line: &str) -> TcpStream {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(line.as_bytes()).unwrap();
        stream
    }

    fn heard(stream: &TcpStream) -> String {
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        line
    }

    #[test]
    fn strangers_are_dropped_and_ranks_let_in() {
        let (mut gate, address) = gate();
        for bad in [
            "GET / HTTP/1.1\r\n",
            "cmd=hello rank=0 ticket=guess\n",
            "cmd=hello rank=0\n",
            "\n",
            &"x".repeat(2 * MAX_LINE),
        ] {
            let stranger = say(address, bad);
            assert!(matches!(next(&mut gate)[..], [GateEvent::Dropped(_)]), "{bad}");
            // Closed, or reset because not all of it was read.
            let mut rest = Vec::new();
            let _ = (&stranger).read_to_end(&mut rest);
            assert!(rest.is_empty(), "a stranger is told nothing");
        }
        let rank = say(address, "cmd=hello rank=1 ticket=secret\n");
        assert_eq!(next(&mut gate), [GateEvent::Joined(1)]);
        assert_eq!(heard(&rank), "cmd=welcome rc=0\n");
        for (number, reason) in [(1, "this_rank_is_here_already"), (2, "no_such_rank")] {
            let other = say(address, &format!("cmd=hello rank={number} ticket=secret\n"));
            assert!(matches!(next(&mut gate)[..], [GateEvent::Dropped(_)]));
            assert!(heard(&other).contains(reason));
        }
        (&rank).write_all(b"cmd=put\ncmd=get\n").unwrap();
        let lines = [
            GateEvent::Line(1, b"cmd=put\n".to_vec()),
            GateEvent::Line(1, b"cmd=get\n".to_vec()),
        ];
        assert_eq!(next(&mut gate), lines);
        drop(rank);
        assert_eq!(next(&mut gate), [GateEvent::Left(1)]);
    }

    #[test]
    fn silent_strangers_make_room() {
        let (mut gate, address) = gate();
        let mut silent = Vec::new();
        for _ in 0..=MAX_STRANGERS {
            silent.push(TcpStream::connect(address).unwrap());
            gate.pump();
        }
        while gate.strangers.len() < MAX_STRANGERS {
            gate.pump();
        }
        let rank = say(address, "cmd=hello rank=0 ticket=secret\n");
        while !next(&mut gate).contains(&GateEvent::Joined(0)) {}
        assert_eq!(heard(&rank), "cmd=welcome rc=0\n");
        assert!(gate.strangers.len() <= MAX_STRANGERS);
    }
}
