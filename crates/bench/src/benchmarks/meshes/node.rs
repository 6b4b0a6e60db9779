//! A process of `bench meshes`: its messages, over connections with relays or by the protocol, and what it does with them.

use std::{
    collections::{BTreeMap, VecDeque},
    io::{self, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    time::{Duration, Instant},
};

use hikyaku::{
    Config,
    sim::Routing,
    transport::{Incoming, Transport},
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::way::{Program, Way};

/// A process that waits longer gives up.
const LIMIT: Duration = Duration::from_secs(60);
/// Port of each process.
const PORT: u16 = 7_000;
/// Bytes before a message on a connection: its length, source and destination.
const HEADER: usize = 12;

/// Address of a process in its namespace.
pub(super) fn address_of(index: u32) -> Ipv4Addr {
    Ipv4Addr::new(10, 99, 0, index as u8 + 1)
}

fn late(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::TimedOut,
        format!("{what}: nothing came within {LIMIT:?}"),
    )
}

/// A message, and who sent it.
type Message = (u32, Vec<u8>);

/// How processes talk.
trait Exchange {
    fn send(&mut self, to: u32, message: &[u8]) -> io::Result<()>;

    /// The next message, if one comes within `limit`; passes those for others on meanwhile.
    fn receive(&mut self, limit: Duration) -> io::Result<Option<Message>>;
}

/// TCP connections to some of the others; messages to the rest go by way of these.
struct Mesh {
    index: u32,
    size: u32,
    routing: Option<Routing>,
    streams: BTreeMap<u32, TcpStream>,
    inbox: VecDeque<Message>,
}

impl Mesh {
    /// Connects to the neighbours with higher numbers, and waits for those with lower ones.
    fn open(index: u32, size: u32, routing: Option<Routing>) -> io::Result<Self> {
        let next = |from, to| routing.map_or(to, |routing: Routing| routing.next(from, to, size));
        let are_neighbours = |a, b| next(a, b) == b || next(b, a) == a;
        let neighbours: Vec<u32> = (0..size)
            .filter(|other| *other != index && are_neighbours(index, *other))
            .collect();
        let listener = TcpListener::bind((address_of(index), PORT))?;
        let mut streams = BTreeMap::new();
        for &other in neighbours.iter().filter(|other| **other > index) {
            let begun = Instant::now();
            let mut stream = loop {
                match TcpStream::connect((address_of(other), PORT)) {
                    Ok(stream) => break stream,
                    Err(error) if begun.elapsed() > LIMIT => return Err(error),
                    // It does not listen yet.
                    Err(_) => std::thread::sleep(Duration::from_millis(10)),
                }
            };
            stream.write_all(&index.to_le_bytes())?;
            streams.insert(other, stream);
        }
        while streams.len() < neighbours.len() {
            let (mut stream, _) = listener.accept()?;
            let mut other = [0; 4];
            stream.read_exact(&mut other)?;
            streams.insert(u32::from_le_bytes(other), stream);
        }
        for stream in streams.values() {
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(LIMIT))?;
        }
        Ok(Self {
            index,
            size,
            routing,
            streams,
            inbox: VecDeque::new(),
        })
    }

    /// Writes a message to the neighbour that is nearer to its destination.
    fn write(&mut self, from: u32, to: u32, message: &[u8]) -> io::Result<()> {
        let next = self
            .routing
            .map_or(to, |routing| routing.next(self.index, to, self.size));
        let mut bytes = Vec::with_capacity(HEADER + message.len());
        for number in [message.len() as u32, from, to] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(message);
        let stream = self.streams.get_mut(&next);
        let stream = stream.ok_or_else(|| io::Error::other("a relay is no neighbour"))?;
        stream.write_all(&bytes)
    }

    /// Takes one message from each connection that has some: the header, then the rest, in two calls.
    fn take(&mut self, limit: Duration) -> io::Result<()> {
        let numbers: Vec<u32> = self.streams.keys().copied().collect();
        let mut fds: Vec<PollFd<'_>> = self
            .streams
            .values()
            .map(|stream| PollFd::new(stream, PollFlags::IN))
            .collect();
        let limit = Timespec {
            tv_sec: limit.as_secs() as i64,
            tv_nsec: limit.subsec_nanos().into(),
        };
        poll(&mut fds, Some(&limit))?;
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        for (number, _) in numbers.into_iter().zip(ready).filter(|(_, ready)| *ready) {
            let Some(stream) = self.streams.get_mut(&number) else {
                continue;
            };
            let mut header = [0; HEADER];
            stream.read_exact(&mut header)?;
            let field = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
            let (len, from, to) = (field(0), field(4), field(8));
            let mut message = vec![0; len as usize];
            stream.read_exact(&mut message)?;
            if to == self.index {
                self.inbox.push_back((from, message));
            } else {
                self.write(from, to, &message)?;
            }
        }
        Ok(())
    }
}

impl Exchange for Mesh {
    fn send(&mut self, to: u32, message: &[u8]) -> io::Result<()> {
        self.write(self.index, to, message)
    }

    fn receive(&mut self, limit: Duration) -> io::Result<Option<Message>> {
        let begun = Instant::now();
        loop {
            let left = limit.saturating_sub(begun.elapsed());
            if !self.inbox.is_empty() || left.is_zero() {
                return Ok(self.inbox.pop_front());
            }
            self.take(left)?;
        }
    }
}

/// The protocol of the DSE paper.
struct Protocol {
    transport: Transport,
    peers: Vec<Option<hikyaku::PeerId>>,
}

impl Protocol {
    fn open(index: u32, size: u32) -> io::Result<Self> {
        let config = Config {
            late_peers: true,
            ..Config::dse()
        };
        let own = SocketAddr::from((address_of(index), PORT));
        // 0 would be no number of a processor.
        let builder = Transport::builder().config(config).processor(index + 1).environment();
        let mut transport = builder.bind_udp(own).map_err(io::Error::other)?;
        let peers = (0..size).map(|other| {
            let address = SocketAddr::from((address_of(other), PORT));
            let peer = (other != index).then(|| transport.add_peer(address, other + 1));
            peer.transpose().map_err(io::Error::other)
        });
        let peers = peers.collect::<io::Result<_>>()?;
        Ok(Self { transport, peers })
    }
}

impl Exchange for Protocol {
    fn send(&mut self, to: u32, message: &[u8]) -> io::Result<()> {
        let peer = self.peers[to as usize].ok_or_else(|| io::Error::other("a message to itself"))?;
        self.transport.send(peer, message).map_err(io::Error::other)
    }

    fn receive(&mut self, limit: Duration) -> io::Result<Option<Message>> {
        let begun = Instant::now();
        loop {
            let left = limit.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return Ok(None);
            }
            match self.transport.wait_any(Some(left)) {
                Ok(Incoming::Message(message)) => {
                    let from = self.peers.iter().position(|peer| *peer == Some(message.peer()));
                    let from = from.ok_or_else(|| io::Error::other("a message of a stranger"))?;
                    return Ok(Some((from as u32, message.to_vec())));
                }
                Ok(Incoming::Event(_)) => {}
                Err(error) if begun.elapsed() < limit => return Err(io::Error::other(error)),
                Err(_) => return Ok(None),
            }
        }
    }
}

/// First bytes of messages.
const READY: u8 = 0;
const GO: u8 = 1;
const DONE: u8 = 2;
const ASK: u8 = 3;
const TASK: u8 = 4;
const OVER: u8 = 5;
const EDGE: u8 = 6;
const GOT: u8 = 7;
const RESULT: u8 = 8;
const SEEN: u8 = 9;

/// Searches that rank 0 hands out, the time of one, and bytes of a question and of a search.
const SEARCHES: u32 = 210;
const SEARCH: Duration = Duration::from_millis(2);
const QUESTION: usize = 24;
const ANSWER: usize = 44;
/// Iterations of SOR, the time of half of one, and bytes of an edge.
const ITERATIONS: u32 = 20;
const SWEEP: Duration = Duration::from_micros(300);
const ROW: usize = 768;

struct Node<'a> {
    exchange: &'a mut dyn Exchange,
    index: u32,
    size: u32,
    /// How many of each kind have come, by source.
    counts: BTreeMap<(u8, u32), u32>,
}

fn message(kind: u8, len: usize) -> Vec<u8> {
    let mut message = vec![0; len.max(1)];
    message[0] = kind;
    message
}

impl Node<'_> {
    /// Takes a message in, and answers it if it is one that is answered. Gives whether one came.
    fn handle(&mut self, limit: Duration) -> io::Result<Option<(u8, u32)>> {
        let Some((from, message)) = self.exchange.receive(limit)? else {
            return Ok(None);
        };
        let kind = message[0];
        *self.counts.entry((kind, from)).or_default() += 1;
        match kind {
            EDGE => self.exchange.send(from, &[GOT])?,
            RESULT => self.exchange.send(from, &[SEEN])?,
            _ => {}
        }
        Ok(Some((kind, from)))
    }

    /// Waits until so many messages of a kind have come from each of these.
    fn until(&mut self, kind: u8, from: &[u32], count: u32) -> io::Result<()> {
        let missing = |node: &Self| {
            let has = |from: &u32| node.counts.get(&(kind, *from)).is_some_and(|has| *has >= count);
            !from.iter().all(has)
        };
        while missing(self) {
            if self.handle(LIMIT)?.is_none() {
                return Err(late("a program"));
            }
        }
        Ok(())
    }

    /// Computes, and takes in what comes meanwhile.
    fn compute(&mut self, time: Duration) -> io::Result<()> {
        let begun = Instant::now();
        while let Some(left) = time.checked_sub(begun.elapsed()).filter(|left| !left.is_zero()) {
            self.handle(left)?;
        }
        Ok(())
    }

    fn others(&self) -> Vec<u32> {
        (0..self.size).filter(|other| *other != self.index).collect()
    }

    fn othello(&mut self) -> io::Result<()> {
        if self.index > 0 {
            for turn in 1.. {
                self.exchange.send(0, &message(ASK, QUESTION))?;
                let before = self.counts.get(&(OVER, 0)).copied();
                while self.counts.get(&(TASK, 0)).copied() != Some(turn)
                    && self.counts.get(&(OVER, 0)).copied() == before
                {
                    if self.handle(LIMIT)?.is_none() {
                        return Err(late("othello"));
                    }
                }
                if self.counts.contains_key(&(OVER, 0)) {
                    return Ok(());
                }
                self.compute(SEARCH)?;
            }
        }
        let (mut left, mut idle) = (SEARCHES, 0);
        while idle + 1 < self.size {
            match self.handle(LIMIT)? {
                Some((ASK, from)) if left > 0 => {
                    left -= 1;
                    self.exchange.send(from, &message(TASK, ANSWER))?;
                }
                Some((ASK, from)) => {
                    idle += 1;
                    self.exchange.send(from, &message(OVER, ANSWER))?;
                }
                Some(_) => {}
                None => return Err(late("othello")),
            }
        }
        Ok(())
    }

    fn sor(&mut self) -> io::Result<()> {
        let neighbours: Vec<u32> = self
            .others()
            .into_iter()
            .filter(|other| other.abs_diff(self.index) == 1)
            .collect();
        for iteration in 1..=ITERATIONS {
            for half in [1, 0] {
                self.compute(SWEEP)?;
                for other in &neighbours {
                    self.exchange.send(*other, &message(EDGE, ROW))?;
                }
                let step = 2 * iteration - half;
                self.until(EDGE, &neighbours, step)?;
                self.until(GOT, &neighbours, step)?;
            }
            if self.index == 0 {
                self.until(RESULT, &self.others(), iteration)?;
            } else {
                self.exchange.send(0, &message(RESULT, ROW))?;
                self.until(SEEN, &[0], iteration)?;
            }
        }
        Ok(())
    }
}

/// Runs a program as one of the processes. Rank 0 gives its seconds; the others pass messages on until they are killed.
pub(super) fn run(way: Way, program: Program, index: u32, size: u32) -> io::Result<f64> {
    let mut exchange: Box<dyn Exchange> = match way.routing() {
        None => Box::new(Protocol::open(index, size)?),
        Some(routing) => Box::new(Mesh::open(index, size, routing)?),
    };
    let mut node = Node {
        exchange: &mut *exchange,
        index,
        size,
        counts: BTreeMap::new(),
    };
    let others = node.others();
    if index == 0 {
        node.until(READY, &others, 1)?;
        others.iter().try_for_each(|other| node.exchange.send(*other, &[GO]))?;
    } else {
        node.exchange.send(0, &[READY])?;
        node.until(GO, &[0], 1)?;
    }
    let begun = Instant::now();
    match program {
        Program::Othello => node.othello()?,
        Program::Sor => node.sor()?,
    }
    if index == 0 {
        node.until(DONE, &others, 1)?;
        return Ok(begun.elapsed().as_secs_f64());
    }
    node.exchange.send(0, &[DONE])?;
    // The first to be killed closes its connections.
    while node.handle(LIMIT).is_ok() {}
    Ok(0.0)
}
