//! The honest pair: two transports that talk to each other, in one thread, and notice everything that should not be.

use std::{
    net::{SocketAddr, SocketAddrV4},
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
        mpsc::{self, Receiver, Sender},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use bytes::Bytes;
use hikyaku::{
    Config, PeerId, SendError, Stats,
    backends::{
        Backend,
        udp::{UdpBackend, UdpOptions},
    },
    reliability::{Path, RailState},
    transport::{Event, Transport},
};

use crate::raw;

/// Messages that are on their way from each side, at most.
const ON_THE_WAY: u64 = 32;
/// Bytes of messages: lone ones, bundles, fragments, and by rendezvous if there is one.
const SIZES: [usize; 8] = [8, 8, 100, 8, 1_200, 30, 9_000, 70_000];
/// Messages of [`Task::Stream`] that are on their way.
const STREAMED: u64 = 4;
/// For messages on their way to arrive, after an attack.
const LIMIT: Duration = Duration::from_secs(20);

/// The traffic of the pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Task {
    /// Messages of many sizes both ways, every byte of which is checked.
    Talk,
    /// Nothing new is sent.
    Rest,
    /// Large messages one way.
    Stream,
    /// 8 bytes there and back.
    PingPong,
    /// The thread ends.
    End,
}

const TASKS: [Task; 5] = [Task::Talk, Task::Rest, Task::Stream, Task::PingPong, Task::End];

/// How the pair is set up.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// Addresses of the two ends; port 0 stands for a free one.
    pub(crate) addresses: [SocketAddrV4; 2],
    /// Settings of the two ends.
    pub(crate) configs: [Config; 2],
    /// Bytes of a message of [`Task::Stream`].
    pub(crate) streamed: usize,
    /// Largest datagram.
    pub(crate) max_datagram: Option<usize>,
    /// The first end sends what strangers send back to them.
    pub(crate) echo: bool,
    /// Bursts are split by the kernel and not by the interface.
    pub(crate) gso: bool,
    /// The second end is not there before [`Pair::complete`].
    pub(crate) late: bool,
    /// Addresses of a second port of each end, by which there is a second rail.
    pub(crate) beside: Option<[SocketAddrV4; 2]>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            addresses: [
                "127.1.0.1:0".parse().expect("an address"),
                "127.1.0.2:0".parse().expect("an address"),
            ],
            configs: [Config::default(), Config::default()],
            streamed: 256 << 10,
            max_datagram: Some(1_472),
            echo: false,
            gso: true,
            late: false,
            beside: None,
        }
    }
}

/// How the pair is doing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    /// Counters of the two ends.
    pub(crate) sides: [Stats; 2],
    /// Messages that have arrived, of both.
    pub(crate) messages: u64,
    /// The error of a failed check.
    pub(crate) trouble: Vec<String>,
    /// Every message that was sent has arrived.
    pub(crate) complete: bool,
    /// How many rails each end may send data on now, of several.
    pub(crate) working: [usize; 2],
}

impl Report {
    /// Packets dropped for any reason, by both.
    pub(crate) fn dropped(&self) -> u64 {
        self.sides.iter().map(|side| side.dropped.total()).sum()
    }

    /// How many rails have been proven, and have not fallen since, at each end.
    pub(crate) fn rails(&self) -> [u64; 2] {
        [0, 1].map(|side: usize| self.sides[side].rails_up - self.sides[side].rails_down)
    }
}

enum Command {
    Report(Sender<Report>),
    /// Both processes restart, at the same addresses.
    Restart(Sender<()>),
    /// The second end starts.
    Complete,
}

/// Figures that change all the time.
#[derive(Debug, Default)]
struct Figures {
    task: AtomicU32,
    /// Bytes streamed and arrived.
    bytes: AtomicU64,
    /// Round trips.
    turns: AtomicU64,
    /// Messages of [`Task::Talk`] that have arrived.
    messages: AtomicU64,
}

/// The thread of the pair, as others see it.
pub(crate) struct Pair {
    figures: Arc<Figures>,
    commands: Sender<Command>,
    thread: Option<JoinHandle<()>>,
    thread_id: i32,
    /// Addresses of the two ends.
    pub(crate) addresses: [SocketAddrV4; 2],
    /// Addresses of their second ports.
    pub(crate) beside: Option<[SocketAddrV4; 2]>,
}

impl Pair {
    /// Starts it, and waits until both have heard each other.
    pub(crate) fn start(setup: &Setup) -> Self {
        let figures = Arc::new(Figures::default());
        let (commands, inbox) = mpsc::channel();
        let (tell, told) = mpsc::channel();
        let (shared, setup) = (figures.clone(), setup.clone());
        let late = setup.late;
        let thread = thread::spawn(move || {
            raw::pin(0);
            let mut talk = Talk::new(setup, shared);
            tell.send((talk.setup.addresses, talk.setup.beside, raw::thread_id()))
                .expect("the battery waits for it");
            talk.run(&inbox);
        });
        let (addresses, beside, thread_id) = told.recv().expect("both ends can be bound");
        let pair = Self {
            figures,
            commands,
            thread: Some(thread),
            thread_id,
            addresses,
            beside,
        };
        if !late {
            pair.wait_until_talking();
        }
        pair
    }

    /// Waits until a good number of messages has arrived.
    ///
    /// # Panics
    /// They do not.
    pub(crate) fn wait_until_talking(&self) {
        let before = self.messages();
        let deadline = raw::now() + LIMIT;
        while self.messages() < before + 200 {
            assert!(
                raw::now() < deadline,
                "the pair does not talk: {:?}",
                self.report().trouble
            );
            raw::pause(Duration::from_millis(1));
        }
    }

    pub(crate) fn assign(&self, task: Task) {
        self.figures.task.store(task as u32, Ordering::Relaxed);
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.figures.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn turns(&self) -> u64 {
        self.figures.turns.load(Ordering::Relaxed)
    }

    pub(crate) fn messages(&self) -> u64 {
        self.figures.messages.load(Ordering::Relaxed)
    }

    /// Time that it has had a CPU, all of which it works.
    pub(crate) fn cpu_time(&self) -> Duration {
        raw::cpu_time(self.thread_id)
    }

    pub(crate) fn report(&self) -> Report {
        let (tell, told) = mpsc::channel();
        self.commands.send(Command::Report(tell)).expect("the pair lives");
        told.recv_timeout(LIMIT).expect("the pair answers")
    }

    /// Both processes restart, at the same addresses, and talk again.
    pub(crate) fn restart(&self) {
        let (tell, told) = mpsc::channel();
        self.commands.send(Command::Restart(tell)).expect("the pair lives");
        told.recv_timeout(LIMIT).expect("the pair answers");
        self.wait_until_talking();
    }

    /// The second end starts, and the two talk.
    pub(crate) fn complete(&self) {
        self.commands.send(Command::Complete).expect("the pair lives");
        self.wait_until_talking();
    }

    /// Sends nothing more and waits until everything has arrived.
    pub(crate) fn settle(&self) -> Report {
        self.assign(Task::Rest);
        let deadline = raw::now() + LIMIT;
        loop {
            let report = self.report();
            if report.complete || raw::now() > deadline {
                return report;
            }
            raw::pause(Duration::from_millis(1));
        }
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.assign(Task::End);
        // (It may have panicked, which has been printed.)
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// One end.
struct End {
    transport: Transport,
    peer: PeerId,
    /// Number of the next message to send, and of the next to arrive.
    next: u64,
    expected: u64,
    /// A session has come up.
    up: bool,
}

struct Talk {
    setup: Setup,
    ends: [Option<End>; 2],
    figures: Arc<Figures>,
    seed: u64,
    block: Bytes,
    streaming: u64,
    /// A ping is on its way.
    pinging: bool,
    trouble: Vec<String>,
}

fn mix(word: u64) -> u64 {
    let word = (word ^ word >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word ^ word >> 29
}

/// A number that nobody can guess.
pub(crate) fn chance() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}

/// Message `number` from side `side`: nobody without the seed can forge one.
fn content(seed: u64, side: usize, number: u64) -> impl Iterator<Item = u8> {
    let len = SIZES[(number % SIZES.len() as u64) as usize];
    let base = mix(seed ^ number << 1 ^ side as u64);
    (0..len.div_ceil(8) as u64)
        .flat_map(move |at| (base ^ at.wrapping_mul(0x0101_0101_0101_0101)).to_le_bytes())
        .take(len)
}

impl Talk {
    fn new(mut setup: Setup, figures: Arc<Figures>) -> Self {
        let first = open(&mut setup, 0);
        let second = open(&mut setup, 1);
        let late = setup.late;
        let mut this = Self {
            block: Bytes::from(vec![0x5a; setup.streamed]),
            ends: [None, None],
            figures,
            seed: chance(),
            streaming: 0,
            pinging: false,
            trouble: Vec::new(),
            setup,
        };
        this.ends[0] = Some(this.end(first, 0));
        this.ends[1] = (!late).then(|| this.end(second, 1));
        this
    }

    fn end(&self, mut transport: Transport, side: usize) -> End {
        let peer = transport
            .add_peer(self.setup.addresses[1 - side].into(), processor(1 - side))
            .expect("the first peer");
        if let Some(beside) = self.setup.beside {
            let path = Path::new(beside[1 - side].into(), 1);
            transport.add_rail(peer, path).expect("the first rail");
        }
        End {
            transport,
            peer,
            next: 0,
            expected: 0,
            up: false,
        }
    }

    fn run(&mut self, inbox: &Receiver<Command>) {
        loop {
            let task = TASKS[self.figures.task.load(Ordering::Relaxed) as usize];
            for _ in 0..16 {
                match task {
                    Task::Talk => self.talk(),
                    Task::Stream => self.stream(),
                    Task::PingPong => self.ping(),
                    Task::Rest => {}
                    Task::End => return,
                }
                self.take(0);
                self.take(1);
            }
            while let Ok(command) = inbox.try_recv() {
                match command {
                    Command::Report(tell) => tell.send(self.report()).expect("who asks waits"),
                    Command::Restart(tell) => {
                        self.restart();
                        tell.send(()).expect("who asks waits");
                    }
                    Command::Complete => self.complete(),
                }
            }
        }
    }

    fn restart(&mut self) {
        self.ends = [None, None];
        self.seed = chance();
        for side in 0..2 {
            let opened = open(&mut self.setup, side);
            self.ends[side] = Some(self.end(opened, side));
        }
        (self.pinging, self.streaming) = (false, 0);
    }

    fn complete(&mut self) {
        if self.ends[1].is_none() {
            let opened = open(&mut self.setup, 1);
            self.ends[1] = Some(self.end(opened, 1));
        }
    }

    /// Messages that have been sent to `side` and not arrived.
    fn on_the_way(&self, side: usize) -> u64 {
        let sent = self.ends[1 - side].as_ref().map_or(0, |end| end.next);
        let arrived = self.ends[side].as_ref().map_or(0, |end| end.expected);
        sent.saturating_sub(arrived)
    }

    fn talk(&mut self) {
        for side in 0..2 {
            let on_the_way = self.on_the_way(1 - side);
            let seed = self.seed;
            let Some(end) = &mut self.ends[side] else { continue };
            for _ in on_the_way..ON_THE_WAY {
                let data: Vec<u8> = content(seed, side, end.next).collect();
                match end.transport.send(end.peer, &data) {
                    Ok(()) => end.next += 1,
                    Err(SendError::WouldBlock(_)) => break,
                    // (Its end has been noted as an event.)
                    Err(_) => break,
                }
            }
        }
    }

    fn stream(&mut self) {
        let Some(end) = &mut self.ends[0] else { return };
        while self.streaming < STREAMED {
            match end.transport.send_bytes(end.peer, self.block.clone()) {
                Ok(_) => self.streaming += 1,
                Err(_) => return,
            }
        }
    }

    fn ping(&mut self) {
        let Some(end) = &mut self.ends[0] else { return };
        if !self.pinging {
            self.pinging = end.transport.send(end.peer, &[0x77; 8]).is_ok();
        }
    }

    /// Takes in what has come to `side`.
    fn take(&mut self, side: usize) {
        let task = self.figures.task.load(Ordering::Relaxed);
        let seed = self.seed;
        let Some(end) = &mut self.ends[side] else { return };
        for _ in 0..64 {
            let message = match end.transport.try_receive() {
                Ok(Some(message)) => message,
                Ok(None) => break,
                Err(error) => {
                    self.trouble
                        .push(format!("side {side}: the backend has failed: {error}"));
                    break;
                }
            };
            let from = message.peer();
            let data = message.data();
            if from != end.peer {
                if self.setup.echo {
                    let data = data.to_vec();
                    // One who does not take it gets nothing more.
                    let _ = end.transport.send(from, &data);
                }
            } else if data == [0x77; 8] {
                if side == 0 {
                    self.pinging = false;
                    self.figures.turns.fetch_add(1, Ordering::Relaxed);
                } else {
                    let _ = end.transport.send(from, &[0x77; 8]);
                }
            } else if data.len() == self.setup.streamed && data[..] == self.block[..] {
                self.streaming = self.streaming.saturating_sub(1);
                self.figures.bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
            } else if data.iter().copied().eq(content(seed, 1 - side, end.expected)) {
                end.expected += 1;
                self.figures.messages.fetch_add(1, Ordering::Relaxed);
            } else if self.trouble.len() < 8 {
                let (len, expected) = (data.len(), end.expected);
                let start = String::from_utf8_lossy(&data[..len.min(16)]).into_owned();
                self.trouble
                    .push(format!("FORGED: {len} bytes {start:?} instead of message {expected}"));
            }
        }
        while let Some(event) = end.transport.next_event() {
            match event {
                Event::PeerUp { peer } if peer == end.peer && !end.up => end.up = true,
                Event::PeerUp { peer } | Event::PeerClosed { peer } if peer != end.peer => {}
                Event::PeerDown { peer, .. } if peer != end.peer => {}
                Event::Sent { .. } | Event::Writable { .. } => {}
                // (They are counted.)
                Event::RailUp { peer, rail: 1 } | Event::RailDown { peer, rail: 0 | 1 } if peer == end.peer => {}
                Event::RailUp { peer, rail: 0 } if peer == end.peer && self.setup.beside.is_some() => {}
                other if self.trouble.len() < 8 => self.trouble.push(format!("side {side}, task {task}: {other:?}")),
                _ => {}
            }
        }
    }

    fn report(&self) -> Report {
        let mut trouble = self.trouble.clone();
        for (side, end) in (0..).zip(&self.ends) {
            let Some(end) = end else { continue };
            if end.transport.address(end.peer) != Some(self.setup.addresses[1 - side].into()) {
                trouble.push(format!("REDIRECTED to {:?}", end.transport.address(end.peer)));
            }
        }
        let stats = |end: &Option<End>| end.as_ref().map(|end| end.transport.stats()).unwrap_or_default();
        let working = |end: &Option<End>| {
            let Some(End { transport, peer, .. }) = end else {
                return 0;
            };
            let all = (0..).map_while(|rail| transport.rail_stats(*peer, rail));
            all.filter(|stats| stats.state == RailState::Up).count()
        };
        Report {
            working: [working(&self.ends[0]), working(&self.ends[1])],
            sides: [stats(&self.ends[0]), stats(&self.ends[1])],
            messages: self.figures.messages.load(Ordering::Relaxed),
            trouble,
            complete: self.on_the_way(0) == 0 && self.on_the_way(1) == 0 && self.streaming == 0 && !self.pinging,
        }
    }
}

/// Number of the processor of a side: the first that anybody would guess.
pub(crate) fn processor(side: usize) -> u32 {
    side as u32
}

/// Opens an end, and notes its addresses.
fn open(setup: &mut Setup, side: usize) -> Transport {
    let options = UdpOptions {
        max_datagram: setup.max_datagram,
        gso: setup.gso,
        ..UdpOptions::default()
    };
    let beside = setup.beside.map(|beside| beside[side]);
    let addresses: Vec<SocketAddr> = { [Some(setup.addresses[side]), beside].into_iter().flatten() }
        .map(SocketAddr::from)
        .collect();
    let backend = UdpBackend::bind_ports(&addresses, &options).expect("the addresses are ours");
    setup.addresses[side] = v4(backend.local_addr());
    if let (Some(beside), Some(port)) = (&mut setup.beside, backend.ports().get(1)) {
        beside[side] = v4(port.local_addr());
    }
    Transport::builder()
        .processor(processor(side))
        .config(setup.configs[side].clone())
        .backend(Box::new(backend))
        .expect("the settings are in their ranges")
}

fn v4(address: SocketAddr) -> SocketAddrV4 {
    match address {
        SocketAddr::V4(address) => address,
        SocketAddr::V6(address) => unreachable!("{address} was not asked for"),
    }
}
