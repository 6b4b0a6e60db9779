//! A peer that lies: with a real session it sends packets of every kind, right, nearly right and absurd, to a process that
//! talks with honest ones at the same time.
//!
//! It may lose its session, and what was exchanged with it may end as it likes. The others' messages all arrive, with the
//! right bytes; memory is bounded; and when the liar is gone nothing of it is left.

mod heap;
mod packets;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use hikyaku::{
    messaging::tagged::{Completion, Outcome, Posting, Selector},
    reliability::Event,
};

use self::{
    heap::in_use,
    packets::{Liar, Mixture},
};
use crate::harness::{
    NodeOptions, Prng, World,
    draw::duration,
    memory::Block,
    note, prng, scenario,
    tagged::{Buffer, TaggedStack},
};

/// The process that is lied to; the honest ones follow, and the liar is the last node.
const HONEST: usize = 0;
/// Match bits of what is exchanged with the liar.
const WITH_LIAR: u64 = 1 << 32;
/// Requests of what is exchanged with the liar.
const OF_LIAR: u64 = 1 << 63;
/// The longest time of an honest message, in virtual time, while the liar is there and keeps its promises.
const PATIENCE: Duration = Duration::from_secs(3);

fn content(message: usize, len: usize) -> Vec<u8> {
    prng::bytes(&[message as u64], len)
}

/// A message from one honest process to another.
struct Exchange {
    from: usize,
    to: usize,
    len: usize,
    buffer: Buffer,
    sent: bool,
    received: bool,
    /// The rest of what was to be done has been done.
    complete: bool,
    receives_first: bool,
    block: Option<Arc<Block>>,
}

struct Scene {
    world: World,
    rng: Prng,
    liar: Liar,
    exchanges: Vec<Exchange>,
    /// Sends to the liar and receives from it: how often each has ended.
    with_liar: Vec<u32>,
    /// Bytes of the exchanges' own.
    own: isize,
    /// So many packets at most come from the liar at once.
    burst: u64,
}

impl Scene {
    fn draw(seed: u64) -> Self {
        let mut rng = Prng::new(seed ^ 0x11a7);
        let mut world = World::new(seed);
        let others = rng.between(1, 3) as usize;
        let checksum = rng.chance(200);
        let mut options = NodeOptions {
            eager_limit: Some(rng.pick(&[0, 1_000, 4_096, 60_000])),
            ..NodeOptions::default()
        };
        options.config.unexpected_bytes = rng.pick(&[64 << 10, 64 << 10, 256 << 10]);
        options.config.checksum = checksum;
        options.config.path_mtu_discovery = rng.chance(500);
        options.config.timestamps = rng.chance(700);
        options.limits.max_datagram = rng.pick(&[1_472, 8_972]);
        note(format!("{others} other honest processes, {options:?}"));
        for _ in 0..others + 2 {
            world.add(options.clone());
        }
        world.network.usual.delay = rng.skewed(100_000);
        for a in 0..=others {
            for b in a + 1..=others {
                world.connect(a, b);
            }
        }
        world.connect(HONEST, others + 1);
        world.tap = Some(Vec::new());
        let mixture = Mixture::draw(&mut rng);
        let burst = rng.pick(&[30, 30, 30, 300]);
        note(format!("{mixture:?}, at most {burst} packets at once"));
        Self {
            world,
            rng,
            liar: Liar::new(mixture, checksum),
            exchanges: Vec::new(),
            with_liar: Vec::new(),
            own: 0,
            burst,
        }
    }

    fn number_of_liar(&self) -> usize {
        self.world.nodes.len() - 1
    }

    fn stack(&mut self, node: usize) -> &mut TaggedStack {
        match self.world.nodes[node].stack_mut().tagged() {
            Some(stack) => stack,
            None => panic!("node {node} has no match bits"),
        }
    }

    // ---- what is exchanged

    /// Honest processes have sessions with each other before the liar comes: a first contact is believed.
    fn meet(&mut self) {
        let honest = self.number_of_liar();
        for (from, to) in (0..honest).flat_map(|from| (0..honest).map(move |to| (from, to))) {
            if from != to {
                self.begin(from, to, 10);
            }
        }
        self.finish_exchanges();
    }

    /// Begins an exchange of honest processes; what is not done now is done by [`Self::work`].
    fn exchange(&mut self) {
        let honest = self.number_of_liar() as u64;
        let from = self.rng.below(honest) as usize;
        let to = (from + self.rng.between(1, honest - 1) as usize) % honest as usize;
        // Most have to do with the process that is lied to.
        let (from, to) = match self.rng.below(3) {
            0 if to != HONEST => (HONEST, to),
            1 if from != HONEST => (from, HONEST),
            _ => (from, to),
        };
        let max = self.rng.pick(&[100, 5_000, 100_000, 400_000]);
        let len = self.rng.skewed(max) as usize;
        self.begin(from, to, len);
    }

    fn begin(&mut self, from: usize, to: usize, len: usize) {
        self.own += 4 * len as isize + 4_096;
        let receives_first = self.rng.chance(500);
        self.exchanges.push(Exchange {
            from,
            to,
            len,
            buffer: Buffer::new(len),
            sent: false,
            received: false,
            complete: false,
            receives_first,
            block: None,
        });
        self.half(self.exchanges.len() - 1, receives_first);
    }

    /// One side of an exchange does its part.
    fn half(&mut self, index: usize, receive: bool) {
        let Exchange { from, to, len, .. } = self.exchanges[index];
        if receive {
            let selector = self.selector(Some(from), index as u64);
            let buffer = self.exchanges[index].buffer.clone();
            self.post(to, selector, buffer, 2 * index as u64 + 1);
        } else {
            let bits = index as u64;
            self.exchanges[index].block = self.send(from, to, bits, content(index, len), 2 * index as u64);
            self.exchanges[index].sent |= self.exchanges[index].block.is_none();
        }
    }

    fn selector(&self, source: Option<usize>, bits: u64) -> Selector {
        Selector {
            source: source.map(|node| self.world.nodes[node].processors[0]),
            bits,
            ignore: 0,
        }
    }

    fn post(&mut self, node: usize, selector: Selector, buffer: Buffer, request: u64) {
        let now = self.world.now;
        let TaggedStack { messenger, tagged, .. } = self.stack(node);
        if let Posting::Done(done) = tagged.receive(messenger, now, selector, buffer, request) {
            self.handle(node, &done);
        }
        self.world.touch(node);
    }

    /// `None`: it is gone.
    fn send(&mut self, from: usize, to: usize, bits: u64, data: Vec<u8>, request: u64) -> Option<Arc<Block>> {
        let (now, peer) = (self.world.now, self.world.nodes[from].peer_of[&to]);
        self.world.touch(from);
        let TaggedStack { messenger, tagged, .. } = self.stack(from);
        if tagged.is_eager(messenger, peer, data.len() as u64)
            && tagged.send_eager(messenger, now, peer, bits, &data).is_ok()
        {
            return None;
        }
        let (shared, block) = self.world.nodes[from].memory.lend(data);
        let TaggedStack { messenger, tagged, .. } = self.stack(from);
        let sent = tagged.send(messenger, now, peer, bits, Box::new(shared), request);
        if let Err(error) = sent {
            assert!(request & OF_LIAR != 0, "an honest send was refused: {error}");
            self.with_liar[(request ^ OF_LIAR) as usize] += 1;
            return None;
        }
        Some(block)
    }

    /// The honest process sends to the liar, or receives from it.
    fn deal_with_liar(&mut self) {
        let (liar, bits) = (self.number_of_liar(), WITH_LIAR | self.rng.below(3));
        let max = self.rng.pick(&[100, 5_000, 1_000_000]);
        let len = if self.rng.chance(500) {
            max
        } else {
            self.rng.skewed(max)
        } as usize;
        let request = OF_LIAR | self.with_liar.len() as u64;
        self.own += 4 * len as isize + 4_096;
        if self.rng.chance(300) {
            self.with_liar.push(0);
            if self.send(HONEST, liar, bits, content(0, len), request).is_none() && self.with_liar.last() == Some(&0) {
                // It has gone with its bytes, and nothing more is said of it.
                self.with_liar.pop();
            }
            return;
        }
        self.with_liar.push(0);
        let source = self.rng.chance(800).then_some(liar);
        let selector = self.selector(source, bits);
        self.post(HONEST, selector, Buffer::new(len), request);
    }

    fn handle(&mut self, node: usize, done: &Completion) {
        if done.request & OF_LIAR != 0 {
            let times = &mut self.with_liar[(done.request ^ OF_LIAR) as usize];
            *times += 1;
            assert_eq!(*times, 1, "{done:?} ended twice");
            return;
        }
        let (index, received) = (done.request as usize / 2, done.request % 2 == 1);
        if node == self.number_of_liar() {
            return;
        }
        assert_eq!(
            done.outcome,
            Outcome::Complete,
            "an exchange of honest processes: {done:?}"
        );
        let exchange = &mut self.exchanges[index];
        let ended = if received {
            &mut exchange.received
        } else {
            &mut exchange.sent
        };
        assert!(!*ended, "{done:?} ended twice");
        *ended = true;
        if received {
            assert_eq!(node, exchange.to);
            assert_eq!(done.envelope.len, exchange.len as u64, "{done:?}");
            let bytes = exchange.buffer.bytes();
            assert!(*bytes == content(index, exchange.len), "{done:?}: wrong bytes");
        }
    }

    /// Looks at what has ended, and does the other half of some exchanges.
    fn work(&mut self) {
        for node in 0..self.world.nodes.len() {
            if self.world.nodes[node].stack.is_none() {
                continue;
            }
            for done in self.stack(node).take_completions() {
                self.handle(node, &done);
            }
        }
        for index in 0..self.exchanges.len() {
            if !self.exchanges[index].complete && self.rng.chance(300) {
                self.exchanges[index].complete = true;
                let receive = !self.exchanges[index].receives_first;
                self.half(index, receive);
            }
        }
    }

    // ---- what the liar does

    /// The liar's process begins, and behaves for a while.
    fn behave(&mut self) {
        let liar = self.number_of_liar();
        if self.world.nodes[liar].stack.is_none() {
            self.world.restart(liar);
        }
        self.liar.forget();
        for _ in 0..self.rng.between(1, 4) {
            let (bits, request) = (WITH_LIAR | self.rng.below(3), u64::MAX >> 1);
            let (now, peer) = (self.world.now, self.world.nodes[liar].peer_of[&HONEST]);
            let large = self.rng.chance(500).then(|| self.rng.skewed(500_000) as usize);
            let TaggedStack { messenger, tagged, .. } = self.stack(liar);
            let _ = match large {
                Some(len) => {
                    let content = Box::new(Bytes::from(vec![1; len]));
                    tagged.send(messenger, now, peer, bits, content, request)
                }
                None => tagged.send_eager(messenger, now, peer, bits, &[1; 30]),
            };
            self.deal_with_liar();
            self.world.touch(liar);
        }
        let time = duration(&mut self.rng, 3_000_000) + Duration::from_micros(600);
        self.world.run_for(time);
        self.listen();
        self.world.crash(liar);
    }

    /// The liar looks at what has passed.
    fn listen(&mut self) {
        let liar = self.number_of_liar();
        let captured = std::mem::take(self.world.tap.get_or_insert_default());
        for packet in captured {
            match (packet.from, packet.to) {
                (from, HONEST) if from == liar => self.liar.learn_own(&packet.bytes),
                (HONEST, to) if to == liar => self.liar.learn(&packet.bytes),
                _ => {}
            }
        }
        self.world.nodes[HONEST]
            .events
            .retain(|(_, event)| matches!(event, Event::Down { .. } | Event::Up { .. }));
    }

    fn lie(&mut self) {
        let liar = self.number_of_liar();
        let processors: Vec<u32> = self.world.nodes.iter().map(|node| node.processors[0]).collect();
        for _ in 0..self.rng.skewed(self.burst) {
            let bits = if self.rng.chance(900) {
                WITH_LIAR | self.rng.below(3)
            } else {
                // What an honest process waits for, or will.
                (self.exchanges.len() as u64 + 2).saturating_sub(self.rng.skewed(20))
            };
            let Some(bytes) = self.liar.draw(&mut self.rng, bits, &processors) else {
                return;
            };
            let from = if self.rng.chance(990) {
                liar
            } else {
                // (Not its own: no network carries that.)
                self.rng.between(1, liar as u64) as usize
            };
            let address = self.world.nodes[from].address;
            self.world.inject(HONEST, address, bytes);
        }
        if self.rng.chance(500) {
            self.acknowledge();
        }
    }

    /// The liar acknowledges what has come: it lives.
    fn acknowledge(&mut self) {
        let address = self.world.nodes[self.number_of_liar()].address;
        for channel in self.liar.channels().into_iter().take(8) {
            if let Some(bytes) = self.liar.acknowledge(channel) {
                self.world.inject(HONEST, address, bytes);
            }
        }
    }

    // ---- what is claimed

    /// Bytes that the thread may use for what the liar has sent.
    fn bound(&self) -> isize {
        let unexpected = self.world.nodes[HONEST].options.config.unexpected_bytes as isize;
        // What messages may take before they have landed; the rest is paid for by credit.
        let claims = if self.liar.mixture.has_fragments() { 4 << 20 } else { 0 };
        claims + 8 * unexpected + (512 << 10) + self.own
    }

    fn check(&mut self, before: isize) {
        let liar = self.number_of_liar();
        for node in 0..liar {
            for (_, lost, error) in self.world.downs(node) {
                assert_eq!((node, lost), (HONEST, liar), "an honest peer was lost: {error:?}");
            }
        }
        let used = in_use() - before;
        assert!(used <= self.bound(), "{used} bytes in use, {} at most", self.bound());
        let posted = self.with_liar.len();
        let peer = self.world.nodes[HONEST].peer_of[&liar];
        let waiting = self.stack(HONEST).tagged.waiting(peer);
        assert!(waiting <= 2 * posted, "{waiting} answers wait, to {posted} receives");
    }

    /// All that was begun between honest processes ends well, while the liar does no more than to live.
    fn finish_exchanges(&mut self) {
        let until = self.world.now + PATIENCE;
        while self.world.now < until && self.exchanges.iter().any(|it| !(it.sent && it.received)) {
            self.acknowledge();
            self.world.run_for(Duration::from_millis(10));
            self.listen();
            self.work();
        }
        let left = self.exchanges.iter().enumerate();
        let left: Vec<_> = left
            .filter(|(_, it)| !(it.sent && it.received))
            .map(|(index, it)| (index, it.from, it.to, it.len, it.sent, it.received))
            .collect();
        assert!(
            left.is_empty(),
            "have not ended: number, from, to, bytes, sent, received: {left:?}"
        );
        for exchange in &self.exchanges {
            let freed = exchange.block.as_ref().is_none_or(|block| block.is_freed());
            assert!(freed, "memory of a message that has arrived is in use");
        }
    }

    /// The liar falls silent for ever: what was begun with it ends, and nothing is left.
    fn bury_the_liar(&mut self) {
        let liar = self.number_of_liar();
        let peer = self.world.nodes[HONEST].peer_of[&liar];
        if self.world.nodes[HONEST].endpoint().down(peer).is_none() {
            // A peer is missed only by a process that waits for it.
            let now = self.world.now;
            self.world.nodes[HONEST].stack_mut().watch(now, peer, true);
            self.world.touch(HONEST);
        }
        self.world.run_for(Duration::from_secs(60));
        self.work();
        if self.world.nodes[HONEST].endpoint().down(peer).is_none() {
            // A peer that is called and has never answered may be late.
            let up = self.world.nodes[HONEST].endpoint().is_up(peer);
            assert!(!up, "the liar is silent, and not missed");
            let now = self.world.now;
            self.world.nodes[HONEST].stack_mut().close(now, peer);
            self.world.touch(HONEST);
            self.world.run_for(Duration::from_secs(60));
            let down = self.world.nodes[HONEST].endpoint().down(peer);
            assert!(down.is_some(), "a peer that never came is not given up");
        }
        // What it had said before it said goodbye can still be received, and then nothing is left to be received.
        for bits in (0..3)
            .map(|bits| WITH_LIAR | bits)
            .chain(0..self.exchanges.len() as u64 + 3)
        {
            loop {
                let selector = self.selector(None, bits);
                if self.stack(HONEST).tagged.probe(&selector).is_none() {
                    break;
                }
                let request = OF_LIAR | self.with_liar.len() as u64;
                self.with_liar.push(0);
                self.post(HONEST, selector, Buffer::new(100), request);
            }
        }
        self.world.run_idle(Duration::from_secs(60));
        self.work();
        let stack = self.stack(HONEST);
        let (stats, posted) = (stack.tagged.stats(), stack.tagged.posted());
        let waiting = stack.tagged.waiting(peer);
        let open = self.with_liar.iter().filter(|times| **times == 0).count();
        assert_eq!(posted, open, "receives of any source wait, and nothing else");
        assert_eq!((stats.unexpected_bytes, waiting), (0, 0), "{stats:?}");
        assert_eq!(
            self.world.nodes[HONEST].memory.outstanding(),
            0,
            "memory of sends to the liar is in use"
        );
    }
}

fn run(seed: u64) {
    let mut scene = Scene::draw(seed);
    let sessions = scene.rng.between(1, 3);
    let rounds = scene.rng.skewed(400);
    let honest = scene.rng.pick(&[0, 100, 500]);
    scene.meet();
    let before = in_use();
    for _ in 0..sessions {
        scene.behave();
        for _ in 0..rounds {
            if !scene.liar.is_in() {
                break;
            }
            scene.lie();
            if scene.rng.chance(honest) && scene.exchanges.len() < 100 {
                scene.exchange();
            }
            if scene.rng.chance(honest) && scene.with_liar.len() < 200 {
                scene.deal_with_liar();
            }
            let time = duration(&mut scene.rng, 300_000);
            scene.world.run_for(time);
            scene.listen();
            scene.work();
            scene.check(before);
        }
    }
    for _ in 0..3 {
        scene.exchange();
    }
    scene.finish_exchanges();
    scene.bury_the_liar();
    scene.check(before);
}

/// Whatever a peer says, the others' messages arrive.
#[test]
fn swarm() {
    scenario("liar::swarm", 50, run);
}

/// A sender that was granted room for a large message and stops keeps no room from others, though it is not lost yet.
#[test]
fn a_sender_that_stops_holds_nobody_up() {
    let mut scene = Scene::draw(1);
    scene.meet();
    let (liar, len) = (scene.number_of_liar(), 8 << 20);
    scene.with_liar.push(0);
    let selector = scene.selector(Some(liar), WITH_LIAR);
    scene.post(HONEST, selector, Buffer::new(len), OF_LIAR);
    scene.send(liar, HONEST, WITH_LIAR, vec![1; len], OF_LIAR);
    scene.world.run_for(Duration::from_millis(1));
    scene.listen();
    assert!(scene.liar.is_in(), "it has been granted something, and sends it");
    scene.world.crash(liar);
    scene.begin(1, HONEST, 300_000);
    scene.finish_exchanges();
    assert_eq!(scene.world.downs(HONEST), []);
}
