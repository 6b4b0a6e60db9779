//! The TCP side of the wire-up server: accepts connections, checks tickets, reads and writes lines. It never blocks.
//!
//! Every connection begins as a stranger's and becomes a rank's by its first line, which has the job's ticket. The
//! number of strangers is limited to the number of ranks that are still missing, so that all of them can connect at the
//! same moment, plus [`SPARE_PLACES`]. A rank may connect a second time to listen for [news](WireUpListener::announce). When
//! strangers fill all places, the oldest is read once more and then closed; a rank to which this happens connects
//! again.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    fs::File,
    io::{self, ErrorKind, Read, Write},
    mem,
    net::{SocketAddr, TcpListener, TcpStream},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Duration,
};

use rustix::{
    event::{
        Timespec,
        epoll::{self, Event, EventData, EventFlags},
    },
    io::Errno,
    process::{Resource, getrlimit},
};

use crate::bootstrap::{
    deadline::Deadline,
    message::{Message, NEWS, Version},
};

/// Longest line that is accepted; longer than any that a rank has reason to send.
const MAX_LINE: usize = 4 << 10;
/// Most bytes that may wait to be sent to a rank. Ranks wait for each answer, so a rank with more does not read.
const MAX_WAITING: usize = 64 << 10;
/// How long a stranger may take to say hello.
const HELLO_LIMIT: Duration = Duration::from_secs(5);
/// Places for strangers in addition to those of the missing ranks.
const SPARE_PLACES: usize = 64;
/// How long no connection is accepted after the system has refused a descriptor and there was none in reserve.
const PAUSE: Duration = Duration::from_millis(100);
/// Connections accepted before others are served.
const ACCEPTS: usize = 256;
/// Number of the listener in epoll events; connections are numbered from 1.
const LISTENER: u64 = 0;

/// An event at the listener.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ListenerEvent {
    /// A rank was admitted.
    Joined(u32),
    /// A rank sent a line.
    Line(u32, Vec<u8>),
    /// The connection of a rank has ended.
    Left(u32),
    /// A connection without a ticket, or with a malformed line, was closed.
    Dropped(SocketAddr),
    /// A limit was reached for the first time: the user should be told.
    Limit(ListenerLimit),
}

/// A limit that keeps connections out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ListenerLimit {
    /// Open files of this process, or of the whole system: connections are refused with a message that says so.
    Descriptors {
        /// `RLIMIT_NOFILE` of this process.
        limit: u64,
    },
    /// Connections that have not shown the ticket: the oldest are closed for newer ones.
    Strangers {
        /// Most connections without a ticket.
        limit: usize,
    },
}

impl fmt::Display for ListenerLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Descriptors { limit } => write!(
                f,
                "the wire-up server can open no more files, of which it may have {limit} (RLIMIT_NOFILE): raise that with \
                 `ulimit -n`, or run fewer ranks on a host"
            ),
            Self::Strangers { limit } => write!(
                f,
                "{limit} connections to the wire-up server have not shown the job's ticket, which is as many as may be \
                 open: the oldest are closed, and ranks among them come again; look for what else connects to 127.0.0.1"
            ),
        }
    }
}

struct Connection {
    stream: TcpStream,
    from: SocketAddr,
    input: Vec<u8>,
    output: Vec<u8>,
    open: bool,
    /// Whether epoll watches for room to write.
    awaits_room: bool,
    of: Owner,
}

#[derive(Clone, Copy)]
enum Owner {
    /// A stranger; it must say hello by this deadline.
    Stranger(Deadline),
    Rank(u32),
    /// A rank's second connection, which only receives news.
    Listener(u32),
}

/// The connections that a rank may still make.
#[derive(Clone, Copy, Default)]
struct Expected {
    joined: bool,
    listens: bool,
}

/// Accepts the ranks of a job. Never blocks: call [`pump`](Self::pump) when its descriptor is readable, and ten times a
/// second while it [`has_strangers`](Self::has_strangers).
pub struct WireUpListener {
    listener: TcpListener,
    /// Finds the ready connections, however many there are.
    epoll: OwnedFd,
    ticket: String,
    expected: BTreeMap<u32, Expected>,
    connections: BTreeMap<u64, Connection>,
    /// Numbers of strangers' connections: the oldest first.
    strangers: BTreeSet<u64>,
    ranks: BTreeMap<u32, u64>,
    /// Number of connections that ranks may still make.
    missing: usize,
    /// The news so far, which listeners that connect later will get, too.
    news: Vec<String>,
    next: u64,
    /// Connections on which a write has failed.
    failed: Vec<u64>,
    /// A spare descriptor, closed for a moment when there is no other one, so that a connection can be refused with a
    /// message.
    reserve: Option<File>,
    /// No connection is accepted before this deadline.
    paused: Option<Deadline>,
    told_descriptors: bool,
    told_strangers: bool,
}

impl WireUpListener {
    /// A listener for `ranks` that have `ticket`.
    ///
    /// # Errors
    /// The listener cannot be made non-blocking, or no descriptor is left.
    pub fn new(listener: TcpListener, ticket: &str, ranks: impl IntoIterator<Item = u32>) -> io::Result<Self> {
        let expected: BTreeMap<_, _> = ranks.into_iter().map(|rank| (rank, Expected::default())).collect();
        let missing = 2 * expected.len();
        listener.set_nonblocking(true)?;
        // All ranks may connect before the first one is accepted; the system limits this to net.core.somaxconn.
        rustix::net::listen(&listener, i32::try_from(missing + SPARE_PLACES).unwrap_or(i32::MAX))?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
        Ok(Self {
            listener,
            epoll,
            ticket: ticket.to_owned(),
            connections: BTreeMap::new(),
            strangers: BTreeSet::new(),
            ranks: BTreeMap::new(),
            missing,
            news: Vec::new(),
            expected,
            next: LISTENER + 1,
            failed: Vec::new(),
            reserve: Some(File::open("/dev/null")?),
            paused: None,
            told_descriptors: false,
            told_strangers: false,
        })
    }

    /// These ranks will come, too.
    pub fn expect(&mut self, ranks: impl IntoIterator<Item = u32>) {
        for rank in ranks {
            if self.expected.insert(rank, Expected::default()).is_none() {
                self.missing += 2;
            }
        }
        // As in `new`; if that is refused, ranks try again.
        let _ = rustix::net::listen(
            &self.listener,
            i32::try_from(self.missing + SPARE_PLACES).unwrap_or(i32::MAX),
        );
    }

    /// Whether time matters: a stranger's deadline is running, or accepting is paused.
    #[must_use]
    pub fn has_strangers(&self) -> bool {
        !self.strangers.is_empty() || self.paused.is_some()
    }

    /// Sends `line` to `rank`, as soon as there is room. A rank that is not connected misses it.
    pub fn send(&mut self, rank: u32, line: &str) {
        if let Some(&number) = self.ranks.get(&rank)
            && let Some(connection) = self.connections.get_mut(&number)
        {
            connection.send(line);
            self.watch(number);
        }
    }

    /// Sends `line` to all ranks that listen for news, now or later.
    pub fn announce(&mut self, line: &str) {
        self.news.push(line.to_owned());
        let listeners: Vec<u64> = self
            .connections
            .iter_mut()
            .filter(|(_, connection)| matches!(connection.of, Owner::Listener(_)))
            .map(|(&number, connection)| {
                connection.send(line);
                number
            })
            .collect();
        listeners.into_iter().for_each(|number| self.watch(number));
    }

    /// Accepts, reads and writes what is possible now.
    pub fn pump(&mut self) -> Vec<ListenerEvent> {
        let mut events = Vec::new();
        if self.paused.is_some_and(|until| until.is_over()) {
            self.paused = None;
            let _ = epoll::add(
                &self.epoll,
                &self.listener,
                EventData::new_u64(LISTENER),
                EventFlags::IN,
            );
        }
        let nothing = Event {
            flags: EventFlags::empty(),
            data: EventData::new_u64(LISTENER),
        };
        let mut ready = [nothing; 64];
        // Each connection is served once; more rounds would let the most active ones starve others.
        for _ in 0..=self.connections.len() / ready.len() {
            let count = epoll::wait(&self.epoll, &mut ready, Some(&Timespec::default())).unwrap_or(0);
            for event in &ready[..count] {
                match event.data.u64() {
                    LISTENER => self.accept(&mut events),
                    number => self.serve(number, &mut events),
                }
            }
            if count < ready.len() {
                break;
            }
        }
        for number in mem::take(&mut self.failed) {
            self.close(number, &mut events);
        }
        self.expire(&mut events);
        events
    }

    fn accept(&mut self, events: &mut Vec<ListenerEvent>) {
        for _ in 0..ACCEPTS {
            match self.listener.accept() {
                Ok((stream, from)) => self.admit(stream, from, events),
                Err(error) => {
                    let error = Errno::from_io_error(&error);
                    if let Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS) = error {
                        if !self.refuse(events) {
                            return;
                        }
                    } else if error == Some(Errno::AGAIN) {
                        return;
                    }
                }
            }
        }
    }

    /// Admits a connection as a stranger's; its first line may already be there.
    fn admit(&mut self, stream: TcpStream, from: SocketAddr, events: &mut Vec<ListenerEvent>) {
        let limit = self.missing + SPARE_PLACES;
        if self.strangers.len() >= limit
            && let Some(&oldest) = self.strangers.first()
        {
            self.serve(oldest, events);
            if self.strangers.first() == Some(&oldest) {
                if !mem::replace(&mut self.told_strangers, true) {
                    events.push(ListenerEvent::Limit(ListenerLimit::Strangers { limit }));
                }
                self.close(oldest, events);
            }
        }
        let number = self.next;
        let set = stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true));
        let interest = EventData::new_u64(number);
        if set.is_err() || epoll::add(&self.epoll, &stream, interest, EventFlags::IN).is_err() {
            events.push(ListenerEvent::Dropped(from));
            return;
        }
        self.next += 1;
        let connection = Connection {
            stream,
            from,
            input: Vec::new(),
            output: Vec::new(),
            open: true,
            awaits_room: false,
            of: Owner::Stranger(Deadline::after(HELLO_LIMIT)),
        };
        self.connections.insert(number, connection);
        self.strangers.insert(number);
        self.serve(number, events);
    }

    /// There is no descriptor for the next connection: refuses it by means of the spare one. False: no connection is
    /// accepted for a while.
    fn refuse(&mut self, events: &mut Vec<ListenerEvent>) -> bool {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        if !mem::replace(&mut self.told_descriptors, true) {
            events.push(ListenerEvent::Limit(ListenerLimit::Descriptors { limit }));
        }
        let had_one = self.reserve.take().is_some();
        if had_one && let Ok((mut stream, from)) = self.listener.accept() {
            let reason =
                format!("no_more_files_can_be_opened_there,_of_which_{limit}_are_allowed:_`ulimit_-n`_raises_that");
            let refusal = Message::new("welcome").with("rc", -1).with("msg", reason);
            // The buffer of a new connection has room for a line.
            let _ = stream.write(refusal.encode(Version::One).as_bytes());
            events.push(ListenerEvent::Dropped(from));
        }
        self.reserve = File::open("/dev/null").ok();
        if self.reserve.is_none() {
            let _ = epoll::delete(&self.epoll, &self.listener);
            self.paused = Some(Deadline::after(PAUSE));
        }
        self.reserve.is_some()
    }

    /// Reads and writes on one connection.
    fn serve(&mut self, number: u64, events: &mut Vec<ListenerEvent>) {
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        connection.read();
        while let Some(connection) = self.connections.get_mut(&number) {
            let Some(line) = connection.take_line() else { break };
            match connection.of {
                Owner::Rank(rank) => events.push(ListenerEvent::Line(rank, line)),
                Owner::Stranger(_) => self.greet(number, &line, events),
                Owner::Listener(_) => {}
            }
        }
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.write();
            if connection.open {
                self.watch(number);
            } else {
                self.close(number, events);
            }
        }
    }

    /// Admits the stranger that has sent this first line, or closes its connection.
    fn greet(&mut self, number: u64, line: &[u8], events: &mut Vec<ListenerEvent>) {
        let verdict = self.check(line);
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        match verdict {
            Ok(owner) => {
                connection.send("cmd=welcome rc=0\n");
                connection.of = owner;
                self.strangers.remove(&number);
                self.missing -= 1;
                match owner {
                    Owner::Rank(rank) => {
                        self.expected.entry(rank).or_default().joined = true;
                        self.ranks.insert(rank, number);
                        events.push(ListenerEvent::Joined(rank));
                    }
                    Owner::Listener(rank) => {
                        self.expected.entry(rank).or_default().listens = true;
                        self.news.iter().for_each(|line| connection.send(line));
                    }
                    Owner::Stranger(_) => {}
                }
            }
            Err(reason) => {
                if let Some(reason) = reason {
                    let refusal = Message::new("welcome").with("rc", -1).with("msg", reason);
                    connection.send(&refusal.encode(Version::One));
                }
                self.close(number, events);
            }
        }
    }

    /// Closes the strangers whose deadline is over.
    fn expire(&mut self, events: &mut Vec<ListenerEvent>) {
        while let Some(&oldest) = self.strangers.first() {
            match self.connections.get(&oldest).map(|connection| connection.of) {
                Some(Owner::Stranger(until)) if !until.is_over() => return,
                _ => self.close(oldest, events),
            }
        }
    }

    fn close(&mut self, number: u64, events: &mut Vec<ListenerEvent>) {
        let Some(connection) = self.connections.remove(&number) else {
            return;
        };
        match connection.of {
            Owner::Stranger(_) => {
                self.strangers.remove(&number);
                events.push(ListenerEvent::Dropped(connection.from));
            }
            Owner::Rank(rank) => {
                self.ranks.remove(&rank);
                events.push(ListenerEvent::Left(rank));
            }
            Owner::Listener(_) => {}
        }
    }

    /// Watches for room to write as long as bytes wait to be written.
    fn watch(&mut self, number: u64) {
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        let awaits_room = !connection.output.is_empty();
        if awaits_room != connection.awaits_room {
            let room = if awaits_room {
                EventFlags::OUT
            } else {
                EventFlags::empty()
            };
            let number = EventData::new_u64(number);
            connection.open &= epoll::modify(&self.epoll, &connection.stream, number, EventFlags::IN | room).is_ok();
            connection.awaits_room = awaits_room;
        }
        if !connection.open {
            self.failed.push(number);
        }
    }

    /// The owner of a connection by its first line, or the answer to a stranger that has the ticket but is not
    /// expected.
    fn check(&self, line: &[u8]) -> Result<Owner, Option<&'static str>> {
        let hello = Message::parse_line(line).map_err(|_| None)?;
        let ticket = hello.get("ticket").unwrap_or_default();
        if hello.command() != "hello" || !same(ticket, &self.ticket) {
            return Err(None);
        }
        let Some(rank) = hello.number::<u32>("rank") else {
            return Err(Some("no_rank"));
        };
        let listens = hello.get("for") == Some(NEWS);
        match self.expected.get(&rank) {
            None => Err(Some("no_such_rank")),
            Some(state) if !listens && state.joined => Err(Some("this_rank_is_here_already")),
            Some(state) if listens && (state.listens || !state.joined) => Err(Some("this_rank_does_not_listen_now")),
            Some(_) if listens => Ok(Owner::Listener(rank)),
            Some(_) => Ok(Owner::Rank(rank)),
        }
    }
}

/// Readable when [`pump`](WireUpListener::pump) has something to do.
impl AsFd for WireUpListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

/// Compares in constant time.
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
        let mut bytes = [0; MAX_LINE];
        while self.open && self.input.len() <= MAX_LINE {
            match self.stream.read(&mut bytes) {
                Ok(0) => self.open = false,
                Ok(count) => self.input.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => self.open = false,
            }
        }
    }

    fn take_line(&mut self) -> Option<Vec<u8>> {
        let Some(end) = self.input.iter().position(|byte| *byte == b'\n') else {
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

    use rustix::event::{PollFd, PollFlags, poll};

    use super::*;

    fn wire_up(ranks: u32) -> (WireUpListener, SocketAddr) {
        // An address that no other test calls: a port that one of them has given back may be this one.
        let listener = TcpListener::bind("127.0.0.2:0").unwrap();
        let address = listener.local_addr().unwrap();
        (WireUpListener::new(listener, "secret", 0..ranks).unwrap(), address)
    }

    /// Pumps until there is an event.
    fn next(wire_up: &mut WireUpListener) -> Vec<ListenerEvent> {
        for _ in 0..20 {
            let limit = Timespec::try_from(Duration::from_millis(500)).unwrap();
            poll(&mut [PollFd::new(wire_up, PollFlags::IN)], Some(&limit)).unwrap();
            let events = wire_up.pump();
            if !events.is_empty() {
                return events;
            }
        }
        panic!("nothing happens at the listener");
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
        let (mut wire_up, address) = wire_up(2);
        for bad in [
            "GET / HTTP/1.1\r\n",
            "cmd=hello rank=0 ticket=guess\n",
            "cmd=hello rank=0\n",
            "\n",
            &"x".repeat(2 * MAX_LINE),
        ] {
            let stranger = say(address, bad);
            assert!(matches!(next(&mut wire_up)[..], [ListenerEvent::Dropped(_)]), "{bad}");
            // Closed, or reset because not all of the line was read.
            let mut rest = Vec::new();
            let _ = (&stranger).read_to_end(&mut rest);
            assert!(rest.is_empty(), "a stranger is told nothing");
        }
        let rank = say(address, "cmd=hello rank=1 ticket=secret\n");
        assert_eq!(next(&mut wire_up), [ListenerEvent::Joined(1)]);
        assert_eq!(heard(&rank), "cmd=welcome rc=0\n");
        for (number, reason) in [(1, "this_rank_is_here_already"), (2, "no_such_rank")] {
            let other = say(address, &format!("cmd=hello rank={number} ticket=secret\n"));
            assert!(matches!(next(&mut wire_up)[..], [ListenerEvent::Dropped(_)]));
            assert!(heard(&other).contains(reason));
        }
        (&rank).write_all(b"cmd=put\ncmd=get\n").unwrap();
        let lines = [
            ListenerEvent::Line(1, b"cmd=put\n".to_vec()),
            ListenerEvent::Line(1, b"cmd=get\n".to_vec()),
        ];
        assert_eq!(next(&mut wire_up), lines);
        drop(rank);
        assert_eq!(next(&mut wire_up), [ListenerEvent::Left(1)]);
    }

    #[test]
    fn all_ranks_of_a_large_host_may_connect_before_the_first_speaks() {
        const RANKS: u32 = 300;
        let (mut wire_up, address) = wire_up(RANKS);
        // No connection is accepted meanwhile: they wait in the listener's queue.
        let ranks: Vec<TcpStream> = (0..RANKS).map(|_| TcpStream::connect(address).unwrap()).collect();
        while wire_up.strangers.len() < RANKS as usize {
            assert_eq!(wire_up.pump(), []);
        }
        for (rank, mut stream) in ranks.iter().enumerate() {
            stream
                .write_all(format!("cmd=hello rank={rank} ticket=secret\n").as_bytes())
                .unwrap();
        }
        let mut joined = Vec::new();
        while joined.len() < RANKS as usize {
            joined.extend(next(&mut wire_up));
        }
        joined.sort_by_key(|event| match event {
            ListenerEvent::Joined(rank) => *rank,
            other => panic!("{other:?}"),
        });
        assert_eq!(joined, (0..RANKS).map(ListenerEvent::Joined).collect::<Vec<_>>());
        assert!(ranks.iter().all(|rank| heard(rank) == "cmd=welcome rc=0\n"));
    }

    #[test]
    fn silent_strangers_make_room_and_that_is_told_once() {
        let (mut wire_up, address) = wire_up(2);
        let limit = SPARE_PLACES + 4;
        let mut first = TcpStream::connect(address).unwrap();
        let silent: Vec<TcpStream> = (1..limit).map(|_| TcpStream::connect(address).unwrap()).collect();
        while wire_up.strangers.len() < limit {
            assert_eq!(wire_up.pump(), []);
        }
        // The oldest has sent its line by now: it is read before it would be closed.
        first.write_all(b"cmd=hello rank=1 ticket=secret\n").unwrap();
        let mut events = Vec::new();
        let more: Vec<TcpStream> = (0..3).map(|_| TcpStream::connect(address).unwrap()).collect();
        while events.len() < 4 {
            events.extend(next(&mut wire_up));
        }
        let told =
            |event: &&ListenerEvent| matches!(event, ListenerEvent::Limit(ListenerLimit::Strangers { limit: 67 | 68 }));
        assert_eq!(events.iter().filter(told).count(), 1, "{events:?}");
        assert!(events.contains(&ListenerEvent::Joined(1)), "{events:?}");
        assert_eq!(heard(&first), "cmd=welcome rc=0\n");
        let rank = say(address, "cmd=hello rank=0 ticket=secret\n");
        while !next(&mut wire_up).contains(&ListenerEvent::Joined(0)) {}
        assert_eq!(heard(&rank), "cmd=welcome rc=0\n");
        assert!(wire_up.strangers.len() <= limit);
        drop((silent, more));
    }

    #[test]
    fn ranks_may_listen_for_news_and_miss_none() {
        let (mut wire_up, address) = wire_up(2);
        let hello = |rank: u32, more: &str| say(address, &format!("cmd=hello rank={rank} ticket=secret{more}\n"));
        let early = hello(0, " for=news");
        assert!(matches!(next(&mut wire_up)[..], [ListenerEvent::Dropped(_)]));
        assert!(heard(&early).contains("this_rank_does_not_listen_now"));
        let ranks = [hello(0, ""), hello(1, "")];
        let mut joined = 0;
        while joined < 2 {
            joined += next(&mut wire_up).len();
        }
        assert_eq!(heard(&ranks[0]), "cmd=welcome rc=0\n");
        wire_up.announce("cmd=lost rank=1\n");
        let mut listener = BufReader::new(hello(0, " for=news"));
        while wire_up.missing > 1 {
            assert_eq!(wire_up.pump(), []);
        }
        wire_up.announce("cmd=lost rank=2\n");
        let mut lines = [const { String::new() }; 3];
        for line in &mut lines {
            listener.read_line(line).unwrap();
        }
        assert_eq!(lines, ["cmd=welcome rc=0\n", "cmd=lost rank=1\n", "cmd=lost rank=2\n"]);
        let second = hello(0, " for=news");
        assert!(matches!(next(&mut wire_up)[..], [ListenerEvent::Dropped(_)]));
        assert!(heard(&second).contains("this_rank_does_not_listen_now"));
        drop(listener);
        while wire_up.connections.len() > 2 {
            assert_eq!(wire_up.pump(), [], "the end of a listener is no news");
        }
    }

    #[test]
    fn an_answer_that_does_not_fit_is_sent_when_there_is_room() {
        let (mut wire_up, address) = wire_up(1);
        let rank = say(address, "cmd=hello rank=0 ticket=secret\n");
        assert_eq!(next(&mut wire_up), [ListenerEvent::Joined(0)]);
        assert_eq!(heard(&rank), "cmd=welcome rc=0\n");
        let line = format!("{}\n", "x".repeat(MAX_LINE - 1));
        let mut sent = 0;
        while wire_up
            .connections
            .values()
            .all(|connection| connection.output.is_empty())
        {
            wire_up.send(0, &line);
            sent += line.len();
        }
        let reader = std::thread::spawn(move || {
            let mut bytes = vec![0; sent];
            (&rank).read_exact(&mut bytes).unwrap();
            // The connection must stay open until the listener has been pumped for the last time.
            rank
        });
        while !reader.is_finished() {
            assert_eq!(wire_up.pump(), []);
            std::thread::yield_now();
        }
        reader.join().unwrap();
    }
}
