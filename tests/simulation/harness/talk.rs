//! Nodes that send and receive messages with match bits, and a reference that says what may come of it.
//!
//! Every message from one node to another with certain bits has a length of its own, so that what is known of a message
//! (its envelope) says which one it is. Everything that happens has a number, in order; from those follows whether messages
//! were matched in the right order (MPI standard, section 3.5):
//!
//! - what a receive, claim or probe gets is the first message of its sender that it could get: those before were taken by
//!   what was posted earlier;
//! - what a message meets is the first receive that could take it: those that were posted before had ended.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use hikyaku::{
    SendError,
    messaging::{
        SendOptions,
        tagged::{Claimed, Completion, Envelope, Handle, Outcome, Posting, Selector},
    },
    reliability::Payload,
};

use super::{
    App, World,
    memory::Block,
    prng,
    tagged::{Buffer, TaggedStack, UNTOUCHED},
};

/// Longer than any run may take to become idle, in virtual time.
const PATIENCE: Duration = Duration::from_secs(120);

/// Which message it is.
type Key = (usize, usize, u64, u64);

struct Letter {
    from: usize,
    to: usize,
    bits: u64,
    len: usize,
    /// It carries its bytes with it (or stays at home): whoever takes it has it at once.
    eager: bool,
    /// When its send ended.
    ended: Option<u64>,
    /// The operation that took it.
    taken: Option<usize>,
    block: Option<Arc<Block>>,
}

enum State {
    Posted(Handle),
    /// It has met a message that is not there yet.
    Matched,
    /// Of a matched probe, with when it was received.
    Claimed(Option<Claimed>),
    Ended,
}

/// A receive, or a matched probe with the receive that follows.
struct Receive {
    node: usize,
    selector: Selector,
    buffer: Buffer,
    posted: u64,
    state: State,
    /// When it met its message, as far as that can be seen from outside.
    met: Option<u64>,
}

/// A probe that found something.
struct Probe {
    at: u64,
    selector: Selector,
    letter: usize,
}

pub(crate) struct Talk {
    pub(crate) world: World,
    letters: Vec<Letter>,
    by_key: BTreeMap<Key, usize>,
    receives: Vec<Receive>,
    probes: Vec<Probe>,
    /// Numbers what happens.
    order: u64,
    /// Somebody has sent what no honest peer sends: sessions may end, and only what each node promises to its own
    /// application is checked.
    pub(crate) hostile: bool,
}

fn is_untouched(bytes: &[u8]) -> bool {
    bytes == vec![UNTOUCHED; bytes.len()]
}

fn content(letter: usize, len: usize) -> Vec<u8> {
    prng::bytes(&[letter as u64], len)
}

impl Talk {
    /// With a world of nodes that have an eager limit.
    pub(crate) fn new(world: World) -> Self {
        Self {
            world,
            letters: Vec::new(),
            by_key: BTreeMap::new(),
            receives: Vec::new(),
            probes: Vec::new(),
            order: 0,
            hostile: false,
        }
    }

    fn stack(&mut self, node: usize) -> &mut TaggedStack {
        match self.world.nodes[node].stack_mut().tagged() {
            Some(stack) => stack,
            None => panic!("node {node} has no match bits"),
        }
    }

    fn processor(&self, node: usize) -> u32 {
        self.world.nodes[node].processors[0]
    }

    fn tick(&mut self) -> u64 {
        self.order += 1;
        self.order
    }

    /// Sends a message of about `len` bytes: as an engine does, eagerly if that is possible; synchronously if wished.
    pub(crate) fn send(&mut self, from: usize, to: usize, bits: u64, len: usize, synchronous: bool) {
        self.harvest();
        let mut len = len as u64;
        while self.by_key.contains_key(&(from, to, bits, len)) {
            len += 1;
        }
        let index = self.letters.len();
        self.by_key.insert((from, to, bits, len), index);
        let data = content(index, len as usize);
        let now = self.world.now;
        let request = 2 * index as u64;
        let peer = self.world.nodes[from].peer_of.get(&to).copied();
        let stack = self.stack(from);
        let eager = match peer {
            None if synchronous || len > u64::from(stack.tagged.eager_limit()) => false,
            None => {
                stack.tagged.send_self(bits, &data);
                true
            }
            Some(peer) => {
                let TaggedStack { messenger, tagged, .. } = stack;
                !synchronous
                    && tagged.is_eager(messenger, peer, len)
                    && match tagged.send_eager(messenger, now, peer, bits, &data) {
                        Ok(()) => true,
                        Err(SendError::WouldBlock(_)) => false,
                        Err(error) => return self.refused(index, &error),
                    }
            }
        };
        let mut block = None;
        if !eager {
            let (shared, watched) = self.world.nodes[from].memory.lend(data);
            let TaggedStack { messenger, tagged, .. } = self.stack(from);
            let shared = Box::new(shared);
            match peer {
                None => tagged.send_self_later(bits, shared, request),
                Some(peer) => {
                    if let Err(error) = tagged.send(messenger, now, peer, bits, shared, request) {
                        return self.refused(index, &error);
                    }
                }
            }
            block = Some(watched);
        }
        let at = self.tick();
        self.letters.push(Letter {
            from,
            to,
            bits,
            len: len as usize,
            eager: eager || peer.is_none(),
            ended: eager.then_some(at),
            taken: None,
            block,
        });
        self.world.touch(from);
    }

    fn refused(&mut self, index: usize, error: &SendError) {
        assert!(self.hostile, "a message was refused: {error}");
        self.by_key.retain(|_, letter| *letter != index);
    }

    pub(crate) fn receive(&mut self, node: usize, source: Option<usize>, bits: u64, ignore: u64, room: usize) {
        self.harvest();
        let selector = self.selector(source, bits, ignore);
        let buffer = Buffer::new(room);
        let request = 2 * self.receives.len() as u64 + 1;
        let now = self.world.now;
        let TaggedStack { messenger, tagged, .. } = self.stack(node);
        let posting = tagged.receive(messenger, now, selector, buffer.clone(), request);
        let posted = self.tick();
        self.receives.push(Receive {
            node,
            selector,
            buffer,
            posted,
            state: State::Matched,
            met: None,
        });
        self.begun(node, request, posting);
    }

    /// The message that a receive gave at once.
    fn begun(&mut self, node: usize, request: u64, posting: Posting) {
        match posting {
            Posting::Done(done) => {
                assert_eq!(done.request, request, "another receive's end");
                // Our own send ends first, and is told later.
                let at = self.tick();
                self.handle_received(node, &done, at);
            }
            Posting::Posted(handle) => self.receives[request as usize / 2].state = State::Posted(handle),
            Posting::Matched => {}
        }
        self.harvest();
        self.world.touch(node);
    }

    pub(crate) fn selector(&self, source: Option<usize>, bits: u64, ignore: u64) -> Selector {
        Selector {
            source: source.map(|node| self.processor(node)),
            bits,
            ignore,
        }
    }

    pub(crate) fn probe(&mut self, node: usize, selector: Selector) {
        self.harvest();
        let found = self.stack(node).tagged.probe(&selector);
        if let Some(envelope) = found {
            let (at, letter) = (self.tick(), self.letter(node, &envelope));
            self.probes.push(Probe { at, selector, letter });
        }
    }

    /// Takes a message out of the queues, to be received into `room` bytes some time by [`receive_claimed`].
    pub(crate) fn claim(&mut self, node: usize, selector: Selector, room: usize) {
        self.harvest();
        let Some(claimed) = self.stack(node).tagged.claim(&selector) else {
            return;
        };
        let letter = self.letter(node, &claimed.envelope());
        assert_eq!(self.letters[letter].taken, None, "a message was claimed that is taken");
        self.letters[letter].taken = Some(self.receives.len());
        let posted = self.tick();
        self.receives.push(Receive {
            node,
            selector,
            buffer: Buffer::new(room),
            posted,
            state: State::Claimed(Some(claimed)),
            met: Some(posted),
        });
    }

    /// Receives the claimed messages of a node, the last one first.
    pub(crate) fn receive_claimed(&mut self, node: usize) {
        self.harvest();
        for index in (0..self.receives.len()).rev() {
            let receive = &mut self.receives[index];
            let State::Claimed(claimed) = &mut receive.state else {
                continue;
            };
            let Some(claimed) = (receive.node == node).then(|| claimed.take()).flatten() else {
                continue;
            };
            let (buffer, request, now) = (receive.buffer.clone(), 2 * index as u64 + 1, self.world.now);
            let TaggedStack { messenger, tagged, .. } = self.stack(node);
            let posting = tagged.receive_claimed(messenger, now, claimed, buffer, request);
            assert!(!matches!(posting, Posting::Posted(_)), "a claimed message is not there");
            self.begun(node, request, posting);
        }
    }

    /// Cancels the `n`-th of the receives that wait at a node, if there are any.
    pub(crate) fn cancel(&mut self, node: usize, n: usize) {
        self.harvest();
        let waiting: Vec<usize> = (0..self.receives.len())
            .filter(|&index| self.receives[index].node == node && self.handle(index).is_some())
            .collect();
        if let Some(&index) = n.checked_rem(waiting.len()).map(|n| &waiting[n]) {
            self.cancel_one(index);
        }
    }

    fn handle(&self, index: usize) -> Option<Handle> {
        match self.receives[index].state {
            State::Posted(handle) => Some(handle),
            _ => None,
        }
    }

    fn cancel_one(&mut self, index: usize) {
        let (node, Some(handle)) = (self.receives[index].node, self.handle(index)) else {
            return;
        };
        let at = self.tick();
        let cancelled = self.stack(node).tagged.cancel(handle);
        let receive = &mut self.receives[index];
        if cancelled.is_some() {
            let untouched = is_untouched(&receive.buffer.bytes());
            assert!(untouched, "something was placed for a receive that was cancelled");
            receive.state = State::Ended;
            receive.met = Some(at);
        } else {
            // Its message is on its way.
            receive.state = State::Matched;
        }
    }

    /// Sends what a peer may make of the messages of the protocol itself.
    pub(crate) fn forge(&mut self, from: usize, to: usize, bytes: &[u8]) {
        self.hostile = true;
        let (now, peer) = (self.world.now, self.world.nodes[from].peer_of[&to]);
        let (messenger, options) = (&mut self.stack(from).messenger, SendOptions::default());
        if messenger.send(now, peer, &options, Payload::Copy(bytes)).is_err() {
            // The session has ended, or there is no room: then not.
            return;
        }
        self.world.touch(from);
    }

    /// The node's process dies and, a while later, comes back. From now on sends and receives may fail.
    pub(crate) fn restart(&mut self, node: usize, after: Duration) {
        self.harvest();
        self.hostile = true;
        let at = self.tick();
        self.world.crash(node);
        for letter in self.letters.iter_mut().filter(|letter| letter.from == node) {
            letter.ended.get_or_insert(at);
        }
        for receive in self.receives.iter_mut().filter(|receive| receive.node == node) {
            receive.state = State::Ended;
        }
        self.world.run_for(after);
        self.world.restart(node);
    }

    /// Lets everything end that was begun, well or not, and forgets it: what comes now must go well.
    pub(crate) fn begin_again(&mut self) {
        self.settle();
        for node in 0..self.world.nodes.len() {
            // Who was to receive them may have died.
            while self.stack(node).tagged.unexpected() > 0 {
                self.receive(node, None, 0, u64::MAX, 1 << 20);
            }
        }
        self.settle();
        (0..self.receives.len()).for_each(|index| self.cancel_one(index));
        let left = self.letters.iter().filter(|letter| letter.ended.is_none());
        let left: Vec<_> = left.map(|it| (it.from, it.to, it.bits, it.len)).collect();
        assert_eq!(
            left,
            [],
            "sends that have not ended, one way or the other: from, to, bits, bytes"
        );
        self.letters.clear();
        self.receives.clear();
        self.probes.clear();
        self.by_key.clear();
        self.hostile = false;
    }

    /// Everything that was sent has been received, and everything posted has got something.
    pub(crate) fn check_all_received(&mut self) {
        self.settle();
        let missing = self
            .letters
            .iter()
            .filter(|it| it.taken.is_none() || it.ended.is_none());
        assert_eq!(missing.count(), 0, "messages are missing\n{}", self.world.describe());
    }

    /// How many messages from one to another that were sent eagerly have not been received, of how many.
    pub(crate) fn missing(&mut self, from: usize, to: usize) -> (usize, usize) {
        self.harvest();
        let all = self
            .letters
            .iter()
            .filter(|it| (it.from, it.to, it.eager) == (from, to, true));
        let missing = all.clone().filter(|it| it.taken.is_none());
        (missing.count(), all.count())
    }

    fn letter(&self, node: usize, envelope: &Envelope) -> usize {
        let from = self
            .world
            .nodes
            .iter()
            .position(|it| it.processors[0] == envelope.source);
        let key = from.map(|from| (from, node, envelope.bits, envelope.len));
        match key.and_then(|key| self.by_key.get(&key)) {
            Some(letter) => *letter,
            None => panic!("node {node} has a message that nobody sent: {envelope:?}"),
        }
    }

    /// Looks at what has ended.
    fn harvest(&mut self) {
        for node in 0..self.world.nodes.len() {
            for done in self.stack(node).take_completions() {
                let at = self.tick();
                if done.request.is_multiple_of(2) {
                    self.handle_sent(node, &done, at);
                } else {
                    self.handle_received(node, &done, at);
                }
            }
        }
    }

    fn handle_sent(&mut self, node: usize, done: &Completion, at: u64) {
        let hostile = self.hostile;
        let letter = &mut self.letters[done.request as usize / 2];
        assert_eq!(letter.from, node, "another node's send ended");
        assert_eq!(letter.ended.replace(at), None, "a send ended twice");
        assert!(
            hostile || done.outcome == Outcome::Complete,
            "a send ended as {:?}",
            done.outcome
        );
        let freed = letter.block.as_ref().is_none_or(|block| block.is_freed());
        assert!(hostile || freed, "a send has ended, its memory is in use");
    }

    fn handle_received(&mut self, node: usize, done: &Completion, at: u64) {
        let index = done.request as usize / 2;
        let receive = &self.receives[index];
        assert_eq!(receive.node, node, "another node's receive ended");
        let ended = matches!(receive.state, State::Ended);
        assert!(!ended, "a receive ended twice, or after it was cancelled");
        if self.hostile {
            self.receives[index].state = State::Ended;
            let Envelope { source, bits, len } = done.envelope;
            let from = self.world.nodes.iter().position(|it| it.processors[0] == source);
            let letter = from.and_then(|from| self.by_key.get(&(from, node, bits, len)));
            if let (Some(letter), Outcome::Complete) = (letter, &done.outcome) {
                self.letters[*letter].taken = Some(index);
            }
            return;
        }
        let number = self.letter(node, &done.envelope);
        let letter = &mut self.letters[number];
        let claimed = matches!(receive.state, State::Claimed(_));
        assert_eq!(
            letter.taken.replace(index),
            claimed.then_some(index),
            "a message was received twice"
        );
        let Envelope { source, bits, .. } = done.envelope;
        assert!(
            receive.selector.matches(source, bits),
            "{:?}, {done:?}",
            receive.selector
        );
        let bytes = receive.buffer.bytes();
        let placed = letter.len.min(bytes.len());
        let outcome = if letter.len > bytes.len() {
            Outcome::Truncated
        } else {
            Outcome::Complete
        };
        assert_eq!(done.outcome, outcome, "{done:?} into {} bytes", bytes.len());
        assert!(
            bytes[..placed] == content(number, letter.len)[..placed],
            "{done:?}: wrong bytes"
        );
        let untouched = is_untouched(&bytes[placed..]);
        assert!(untouched, "{done:?}: more bytes than were sent");
        drop(bytes);
        let eager = letter.eager;
        let receive = &mut self.receives[index];
        receive.state = State::Ended;
        if eager && receive.met.is_none() {
            receive.met = Some(at);
        }
    }

    /// Heals the network, receives what is left, and checks that all was as it should be.
    pub(crate) fn finish(mut self) -> World {
        self.world.network.heal();
        self.world.stalls = (0, 0);
        for node in 0..self.world.nodes.len() {
            self.world.nodes[node].options.app = App::Take;
            self.world.touch(node);
        }
        if self.hostile {
            self.world.run_for(PATIENCE);
            self.harvest();
            return self.world;
        }
        self.settle();
        for (index, letter) in self
            .letters
            .iter()
            .enumerate()
            .filter(|(_, letter)| letter.taken.is_none())
        {
            let source = self.processor(letter.from);
            let waits = |receive: &Receive| {
                receive.node == letter.to
                    && matches!(receive.state, State::Posted(_))
                    && receive.selector.matches(source, letter.bits)
            };
            let missed = self.receives.iter().position(waits);
            assert_eq!(missed, None, "message {index} and this receive have not met");
        }
        for node in 0..self.world.nodes.len() {
            self.receive_claimed(node);
            let left = self.letters.iter().filter(|it| it.to == node && it.taken.is_none());
            let lens: Vec<usize> = left.map(|it| it.len).collect();
            for len in lens {
                self.receive(node, None, 0, u64::MAX, len);
            }
        }
        self.settle();
        for index in 0..self.receives.len() {
            self.cancel_one(index);
        }
        self.check_order();
        self.check_nothing_left();
        self.check_ways();
        self.world.check_finished();
        self.world
    }

    /// Lets everything happen that can happen.
    fn settle(&mut self) {
        self.world.run_idle(PATIENCE);
        self.harvest();
    }

    fn check_order(&self) {
        let taker = |letter: &Letter| match letter.taken {
            Some(index) => &self.receives[index],
            None => panic!("a message was never received"),
        };
        // The first of its sender's: what was sent before and would have done was taken by something older.
        let first = |number: usize, selector: &Selector, at: u64| {
            let letter = &self.letters[number];
            let source = self.processor(letter.from);
            for (other, before) in self.letters[..number].iter().enumerate() {
                let same = (before.from, before.to) == (letter.from, letter.to);
                if same && selector.matches(source, before.bits) {
                    assert!(
                        taker(before).posted < at,
                        "message {number} has overtaken message {other}"
                    );
                }
            }
        };
        for probe in &self.probes {
            first(probe.letter, &probe.selector, probe.at);
            let taken = taker(&self.letters[probe.letter]).posted;
            assert!(taken > probe.at, "a probe has found what was taken");
        }
        for (number, letter) in self.letters.iter().enumerate() {
            let receive = taker(letter);
            first(number, &receive.selector, receive.posted);
            let Some(ended) = letter.ended else {
                panic!(
                    "the send of message {number} never ended: {} bytes from {} to {}, into {}",
                    letter.len,
                    letter.from,
                    letter.to,
                    receive.buffer.bytes().len()
                );
            };
            assert!(
                letter.block.is_none() || receive.posted < ended,
                "the send of message {number} ended before anybody had received it"
            );
            // The first receive: those that were posted before and would have done had ended.
            let source = self.processor(letter.from);
            for (other, before) in self.receives.iter().enumerate() {
                let earlier = before.node == letter.to && before.posted < receive.posted;
                if let (true, Some(met), Some(its)) = (earlier, receive.met, before.met) {
                    let would = before.selector.matches(source, letter.bits);
                    assert!(!would || its < met, "message {number} has passed receive {other}");
                }
            }
        }
    }

    /// Where there is a way for placements, what is large has taken it.
    fn check_ways(&self) {
        for (number, node) in self.world.nodes.iter().enumerate() {
            let large = self
                .letters
                .iter()
                .filter(|it| it.to == number && it.from != number && !it.eager);
            let room = |letter: &Letter| {
                letter
                    .taken
                    .map_or(0, |index| self.receives[index].buffer.bytes().len())
            };
            let most = large.map(|letter| letter.len.min(room(letter))).max().unwrap_or(0);
            if let Some(bulk) = node.stack().bulk()
                && most > 10_000
            {
                let placed = bulk.stats().payload_received;
                assert!(
                    placed >= most as u64,
                    "node {number}: {placed} bytes were placed, {most} in one message"
                );
            }
        }
    }

    fn check_nothing_left(&mut self) {
        for node in 0..self.world.nodes.len() {
            let config = self.world.nodes[node].options.config.clone();
            let peers: Vec<_> = self.world.nodes[node].peer_of.values().copied().collect();
            let own = |letter: &&Letter| letter.from == node && letter.to == node;
            let to_itself: usize = self.letters.iter().filter(own).map(|letter| letter.len).sum();
            let to_others = self
                .letters
                .iter()
                .filter(|letter| letter.from == node && letter.to != node)
                .count();
            let bound = peers.len() as u64 * u64::from(config.unexpected_bytes) + to_itself as u64;
            let tagged = &self.stack(node).tagged;
            let stats = tagged.stats();
            let waiting: usize = peers.iter().map(|peer| tagged.waiting(*peer)).sum();
            assert_eq!(
                (
                    tagged.posted(),
                    tagged.unexpected(),
                    stats.unexpected_bytes,
                    waiting,
                    stats.malformed
                ),
                (0, 0, 0, 0, 0),
                "node {node}: posted, unexpected, its bytes, answers that wait, nonsense"
            );
            assert!(
                stats.unexpected_peak <= bound,
                "node {node} has kept too much: {stats:?}"
            );
            assert_eq!(
                stats.eager + stats.rendezvous,
                to_others as u64,
                "node {node}: {stats:?}"
            );
        }
        assert_eq!(self.world.nodes.iter().map(|node| node.refused.len()).sum::<usize>(), 0);
    }
}
