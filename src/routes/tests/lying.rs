//! A process that lies in memory: between its steps, others' and its own part of the memory is written over with what no
//! process writes, at places and with values that are drawn. Three processes take turns in one thread, in virtual time.
//!
//! What is exchanged with the liar may end as it likes. Nothing panics or goes around without end, the messages of the
//! others all arrive, and when the liar is gone nothing waits for it.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use bytes::Bytes;

use super::*;
use crate::{
    config::Config,
    error::PeerError,
    messaging::{
        MemoryRegion, Messenger,
        tagged::{Completion, Outcome, Posting, Selector, Tagged},
    },
    reliability::{Beside, Burst, Endpoint, Event, Limits, MemoryLayer, PeerId},
    routes::{limits, pair::LEN},
    shm::CONTROL,
    span::Span,
};

/// The process that is lied to, the liar, and one that is honest, too.
const VICTIM: usize = 0;
const LIAR: usize = 1;
const HONEST: usize = 2;
/// Match bits of what is exchanged with the liar.
const WITH_LIAR: u64 = 1 << 32;
/// Virtual time of a turn.
const TURN: Duration = Duration::from_millis(1);
/// Where the lines of short messages and the smallest rings of packets lie (`pair.rs`).
const LINES: Range<u64> = 4_096..12_288;
const PACKETS: Range<u64> = 12_288..16_384;
/// Rings of packets of each direction.
const LEVELS: u64 = 4;

/// A buffer that can be looked at after it was given away.
#[derive(Clone)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl MemoryRegion for Buffer {
    fn capacity(&self) -> u64 {
        self.0.lock().unwrap().len() as u64
    }

    fn place(&mut self, offset: u64, bytes: Span<'_>) {
        MemoryRegion::place(&mut *self.0.lock().unwrap(), offset, bytes);
    }
}

/// A process with all that MPI's engine stands on. (Nothing copies past the memory: an address that a liar gives would be
/// one of this process.)
struct Process {
    backend: Routed,
    messenger: Messenger,
    tagged: Tagged<Buffer>,
    /// A burst for which there was no room.
    held: Option<(SocketAddr, Vec<u8>)>,
    lost: Vec<(PeerId, PeerError)>,
    ended: Vec<Completion>,
}

impl Process {
    fn new(backend: Routed, number: u32, others: &[(SocketAddr, u32)]) -> Self {
        let (config, near, gates) = (Config::default(), backend.near.clone(), backend.near.clone());
        let epoch = u64::from(number) + 1;
        let network = Endpoint::new(config.clone(), Limits::from(&backend.capabilities()), epoch, 9).unwrap();
        let memory = MemoryLayer::new(config, limits(), epoch).unwrap();
        let memory = memory
            .with_rings(near.clone())
            .with_gates(move |address| gates.gate(address));
        let layer = Beside::new(network, memory, move |address, _| near.gate(address).is_some());
        let mut messenger = Messenger::new(Box::new(layer), &[number]);
        for &(address, other) in others {
            messenger.add_peer(address, other).unwrap();
        }
        Self {
            tagged: Tagged::new(&messenger, 16 << 10),
            messenger,
            backend,
            held: None,
            lost: Vec::new(),
            ended: Vec::new(),
        }
    }

    /// A turn.
    fn step(&mut self, now: Instant) {
        let Self { backend, messenger, .. } = self;
        for _ in 0..50 {
            let count = backend.receive(now, 8).unwrap();
            for index in 0..count {
                let received = backend.received(index);
                let (source, stride) = (received.source, received.stride);
                match received.data {
                    Data::Own(data) => messenger.handle_datagrams(now, source, data, stride),
                    Data::Shared(data) => messenger.handle_shared(now, source, data),
                }
            }
            backend.poll_notices(&mut |notice| {
                if let Notice::Unreachable(told) = notice {
                    messenger.handle_unreachable(now, told.address, told.quoted);
                }
            });
            if count == 0 {
                break;
            }
        }
        if self.messenger.poll_timeout().is_some_and(|at| at <= now) {
            self.messenger.handle_timeout(now);
        }
        self.hear();
        self.tagged.handle_ready(&mut self.messenger, now, &mut ());
        self.transmit(now);
        self.hear();
        self.ended.extend(std::iter::from_fn(|| self.tagged.poll_completion()));
    }

    fn hear(&mut self) {
        while let Some(event) = self.messenger.poll_event() {
            match event {
                Event::Sent { token, .. } => drop(self.tagged.handle_sent(token)),
                Event::Down { peer, error, .. } => {
                    self.lost.push((peer, error));
                    self.tagged.handle_down(&mut self.messenger, peer, error);
                }
                _ => {}
            }
        }
    }

    fn transmit(&mut self, now: Instant) {
        let mut burst = Burst::default();
        for _ in 0..1_000 {
            let next = self.held.take().or_else(|| {
                let any = self.messenger.poll_transmit(now, &mut burst);
                any.then(|| {
                    let mut bytes = Vec::new();
                    self.messenger.gather(&burst, |part| bytes.extend_from_slice(part));
                    (burst.destination(), bytes)
                })
            });
            let Some((destination, bytes)) = next else { return };
            let transmit = Transmit {
                destination,
                port: 0,
                segment_size: bytes.len(),
                len: bytes.len(),
                slices: &[IoSlice::new(&bytes)],
                dont_fragment: true,
                token: 0,
            };
            if self.backend.transmit(now, &transmit).unwrap() == Sent::Busy {
                self.held = Some((destination, bytes));
                return;
            }
        }
        panic!("packets without end");
    }

    /// Sends as MPI's engine does: by the ring, eagerly, or after a question.
    fn send(&mut self, now: Instant, peer: PeerId, bits: u64, data: &[u8]) {
        let Self { messenger, tagged, .. } = self;
        if tagged.may_send_short(peer) && tagged.send_short(messenger, peer, bits, data).is_some() {
            return;
        }
        // (To a peer that is lost nothing is sent.)
        if tagged.is_eager(messenger, peer, data.len() as u64) {
            let _ = tagged.send_eager(messenger, now, peer, bits, data);
        } else {
            let content = Box::new(Bytes::copy_from_slice(data));
            let _ = tagged.send(messenger, now, peer, bits, content, bits);
        }
    }

    fn receive(&mut self, now: Instant, source: u32, bits: u64, len: usize) -> Buffer {
        let buffer = Buffer(Arc::new(Mutex::new(vec![0xee; len])));
        let selector = Selector {
            source: Some(source),
            bits,
            ignore: 0,
        };
        let posting = self
            .tagged
            .receive(&mut self.messenger, now, selector, buffer.clone(), bits);
        if let Posting::Done(done) = posting {
            self.ended.push(done);
        }
        buffer
    }

    /// How the receive, or the send, with these match bits has ended.
    fn outcome(&self, bits: u64) -> Option<Outcome> {
        let mut of = self.ended.iter().filter(|done| done.request == bits);
        of.next().map(|done| done.outcome)
    }

    /// Why the session with a peer has ended.
    fn why(&self, peer: PeerId) -> Option<PeerError> {
        self.lost
            .iter()
            .find(|(lost, _)| *lost == peer)
            .map(|(_, error)| *error)
    }
}

/// The number that process `own` gives to another one.
fn peer(own: usize, other: usize) -> PeerId {
    PeerId(other as u32 - u32::from(other > own))
}

struct Scene {
    processes: Vec<Process>,
    now: Instant,
}

impl Scene {
    /// Three that have talked with each other.
    fn new() -> Self {
        let backends = all(3);
        let addresses: Vec<_> = backends.iter().map(Backend::local_addr).zip(0..).collect();
        let process = |(backend, own): (Routed, u32)| {
            let others: Vec<_> = addresses.iter().copied().filter(|other| other.1 != own).collect();
            Process::new(backend, own, &others)
        };
        let mut this = Self {
            processes: backends.into_iter().zip(0..).map(process).collect(),
            now: Instant::ZERO + Duration::from_secs(1),
        };
        for (from, to) in [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)] {
            let now = this.now;
            this.processes[to].receive(now, from as u32, 1 << 40, 8);
            this.processes[from].send(now, peer(from, to), 1 << 40, &[5; 8]);
        }
        (0..20).for_each(|_| this.turn());
        for process in &mut this.processes {
            assert_eq!(process.ended.drain(..).count(), 2);
        }
        this
    }

    /// Each that is there has a turn.
    fn turn(&mut self) {
        self.now += TURN;
        for process in &mut self.processes {
            process.step(self.now);
        }
    }

    fn send(&mut self, from: usize, to: usize, bits: u64, data: &[u8]) {
        self.processes[from].send(self.now, peer(from, to), bits, data);
    }

    fn receive(&mut self, at: usize, from: usize, bits: u64, len: usize) -> Buffer {
        self.processes[at].receive(self.now, from as u32, bits, len)
    }

    /// Sends from the one to the other and receives there, unless that one has lost it: MPI's engine asks before.
    fn exchange(&mut self, from: usize, to: usize, bits: u64, (len, room): (usize, usize)) {
        self.send(from, to, bits, &vec![3; len]);
        if self.processes[to].why(peer(to, from)).is_none() {
            self.receive(to, from, bits, room);
        }
    }

    /// A part of the memories that the liar has in common with others is written over.
    fn lie(&mut self, rng: &mut Prng) {
        let links = &self.processes[LIAR].backend.links;
        let memory = links.memory(rng.below(links.len() as u64) as usize);
        let (at, step) = match rng.below(8) {
            // The flag, number, match bits, bytes or length of a line.
            0..4 => {
                let line = rng.range(LINES) & !63;
                let within = [0, 0, 0, 4, 8, 16, 60][rng.below(7) as usize];
                (line + within, 1)
            }
            // How far a ring of packets is; how far one of lines.
            4 | 5 => (rng.below(2 * LEVELS * CONTROL as u64) & !63, 64),
            6 => (rng.below(2_048) & !7, 1),
            // A packet, or what stands before one; anything.
            _ if rng.chance(0.5) => (rng.range(PACKETS) & !3, 1),
            _ => (rng.below(LEN as u64 - 4) & !3, 1),
        };
        let number = match rng.below(8) {
            0 => 0,
            1 => rng.below(8),
            2 => 44 + rng.below(3),
            3 => 104 + rng.below(2),
            4 => (64 << 10) + rng.below(2),
            5 => u64::from(u32::MAX) - rng.below(2),
            6 => rng.below(1 << 21),
            _ => rng.next_u64(),
        };
        let (mut old, at) = ([0; 4], at as usize);
        memory.copy(at, &mut old);
        let old = u32::from_le_bytes(old);
        // Nearly right, or nonsense.
        let value = match rng.below(3) {
            0 => old.wrapping_add(step),
            1 => old.wrapping_sub(step),
            _ => number as u32,
        };
        memory.write(at, &value.to_le_bytes());
    }
}

/// Says how a run is repeated, if it panics.
struct Replay(u64);

impl Drop for Replay {
    fn drop(&mut self) {
        if thread::panicking() {
            let test = "routes::tests::lying::a_process_that_lies_in_memory";
            eprintln!(
                "replay: HIKYAKU_SEED={} cargo test -p hikyaku --lib --features shm {test}",
                self.0
            );
        }
    }
}

/// A length that takes one line, two, the chunks, packets, or a question.
fn length(rng: &mut Prng) -> usize {
    let most = [45, 105, 3_000, 40_000, 100_000][rng.below(5) as usize];
    rng.below(most) as usize
}

/// Gives why the victim has lost the liar.
fn run(seed: u64) -> Option<PeerError> {
    let _replay = Replay(seed);
    let mut rng = Prng::new(seed);
    let mut scene = Scene::new();
    let (turns, often) = (40, [0.1, 0.5, 0.8][rng.below(3) as usize]);
    let mut honest = Vec::new();
    for bits in 0..turns {
        let (from, to) = [(VICTIM, HONEST), (HONEST, VICTIM)][rng.below(2) as usize];
        let len = length(&mut rng);
        let data = pattern(&mut rng, len);
        let buffer = scene.receive(to, from, bits, data.len());
        scene.send(from, to, bits, &data);
        honest.push((to, bits, data, buffer));
        for victim in [VICTIM, HONEST] {
            let bits = WITH_LIAR + 2 * bits;
            let len = length(&mut rng);
            let room = [len, 10, 100_000][rng.below(3) as usize];
            scene.exchange(LIAR, victim, bits, (len, room));
            scene.exchange(victim, LIAR, bits + 1, (length(&mut rng), 40_000));
        }
        scene.now += TURN;
        for index in [LIAR, VICTIM, LIAR, HONEST] {
            while rng.chance(often) {
                scene.lie(&mut rng);
            }
            if rng.chance(0.8) {
                scene.processes[index].step(scene.now);
            }
        }
    }
    (0..5).for_each(|_| scene.turn());
    let why = scene.processes[VICTIM].why(peer(VICTIM, LIAR));
    // The liar ends.
    let liar = scene.processes.remove(LIAR);
    drop(liar);
    for _ in 0..60 {
        scene.now += Duration::from_millis(100);
        scene.turn();
    }
    let [victim, other] = &scene.processes[..] else {
        unreachable!()
    };
    for (process, own) in [(victim, VICTIM), (other, HONEST)] {
        assert!(
            process.why(peer(own, LIAR)).is_some(),
            "process {own} knows that it has gone"
        );
        assert_eq!(process.tagged.posted(), 0, "process {own} waits for nobody");
        assert_eq!(process.why(peer(own, HONEST - own)), None, "process {own}");
    }
    for (to, bits, data, buffer) in honest {
        let process = if to == VICTIM { victim } else { other };
        assert_eq!(process.outcome(bits), Some(Outcome::Complete), "message {bits}");
        assert!(*buffer.0.lock().unwrap() == data, "message {bits}");
    }
    why
}

#[test]
fn a_process_that_lies_in_memory() {
    if let Ok(seed) = std::env::var("HIKYAKU_SEED") {
        run(seed.parse().unwrap());
        return;
    }
    let (mut caught, mut unnoticed) = (0, 0);
    for seed in 1..=150 {
        match run(seed) {
            Some(PeerError::Misbehaved) => caught += 1,
            None => unnoticed += 1,
            // What it said of itself: that it begins anew, says goodbye, does not know the session.
            Some(_) => {}
        }
    }
    println!("{caught} of 150 misbehaved, {unnoticed} did no harm");
    assert!(
        caught > 30 && unnoticed > 5,
        "{caught} of 150 misbehaved, {unnoticed} did no harm"
    );
}

/// A message whose flag is cleared again, with others behind it, would be waited for for ever: the session ends.
#[test]
fn a_message_that_is_taken_back_is_noticed() {
    let mut scene = Scene::new();
    let texts = [*b"number 0", *b"number 1", *b"number 2", *b"number 3"];
    for (text, bits) in texts.iter().zip(0..) {
        scene.receive(VICTIM, LIAR, bits, 8);
        scene.send(LIAR, VICTIM, bits, text);
    }
    let links = &scene.processes[LIAR].backend.links;
    for index in 0..links.len() {
        for at in LINES.step_by(64) {
            let (mut line, at) = ([0; 64], at as usize);
            links.memory(index).copy(at, &mut line);
            if line[16..24] == texts[0] {
                links.memory(index).write(at, &[0; 4]);
            }
        }
    }
    (0..900).for_each(|_| scene.turn());
    let victim = &scene.processes[VICTIM];
    assert_eq!(
        (victim.why(peer(VICTIM, LIAR)), victim.ended.len()),
        (None, 0),
        "not at once"
    );
    (0..2_000).for_each(|_| scene.turn());
    let victim = &scene.processes[VICTIM];
    assert_eq!(victim.why(peer(VICTIM, LIAR)), Some(PeerError::Misbehaved));
    for bits in 0..4 {
        assert_eq!(victim.outcome(bits), Some(Outcome::Failed(PeerError::Misbehaved)));
    }
}

/// Spoilt positions end what waits for that process, and nothing else.
#[test]
fn what_waits_for_a_process_that_scribbles_ends() {
    let mut scene = Scene::new();
    scene.receive(VICTIM, LIAR, 1, 100);
    scene.receive(VICTIM, HONEST, 2, 100);
    let links = &scene.processes[LIAR].backend.links;
    (0..links.len()).for_each(|index| links.scribble(index));
    (0..20).for_each(|_| scene.turn());
    scene.send(HONEST, VICTIM, 2, &[1; 100]);
    (0..20).for_each(|_| scene.turn());
    let victim = &scene.processes[VICTIM];
    assert_eq!(victim.lost, [(peer(VICTIM, LIAR), PeerError::Misbehaved)]);
    assert_eq!(victim.outcome(1), Some(Outcome::Failed(PeerError::Misbehaved)));
    assert_eq!(victim.outcome(2), Some(Outcome::Complete));
}
