//! A model checker: two endpoints, the real ones, in every order of what can happen to them within bounds: packets that
//! arrive in any order, get lost, come twice; deadlines; sides that start again. Of every state that is reached:
//!
//! - *safety*: no packet is delivered twice, changed, in another session than the one that it was sent in, or before
//!   something was sent; what is said to be acknowledged was delivered;
//! - *liveness*: if nothing goes wrong any more, what was sent in sessions that live arrives, both sides become idle, and
//!   either side can reach the other, even if that one says nothing by itself: at the third attempt at the latest, since two
//!   sessions may have to be found dead before.
//!
//! States are compared by all that an endpoint knows but its counters, and by what was delivered, in whatever order. Time
//! goes on only to the next deadline, which may be at any moment: so packets may take arbitrarily long.

use alloc::{collections::BTreeSet, format, string::String, vec, vec::Vec};
use core::{
    fmt::{self, Debug, Write},
    mem,
    net::SocketAddr,
    time::Duration,
};
use std::collections::HashSet;

use bytes::Bytes;

use super::Endpoint;
use crate::{
    config::{Config, Congestion, Recovery},
    prng::mix,
    reliability::{Burst, Event, Limits, Origin, Outgoing, Payload, PeerId, SendToken, Sink, Verdict},
    time::Instant,
    wire::{Kind, Packet, Seq},
};

/// Fair steps after which everything must have become quiet.
const PATIENCE: usize = 400;

/// The events that may happen, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Budget {
    /// Messages of either side.
    messages: [u8; 2],
    losses: u8,
    copies: u8,
    deadlines: u8,
    restarts: [u8; 2],
}

/// What is wrong with the world in which the protocol runs: nothing, or what the checker must notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broken {
    Nothing,
    /// The network changes sequence numbers, and checksums do not notice.
    Sequence,
    /// The layer above takes packets and forgets every second one.
    Sink,
    /// Deadlines are never told.
    Clock,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Send(usize),
    /// The n-th packet arrives.
    Arrive(usize),
    Lose(usize),
    /// It arrives, and stays on its way.
    Copy(usize),
    Deadline,
    Restart(usize),
}

/// What was delivered to one incarnation: its session, the message, its number and offset.
type Delivered = (u32, u8, u32, u32);

/// The layer above.
#[derive(Clone, Debug, Default)]
struct Above {
    delivered: Vec<Delivered>,
    calls: usize,
    forgets: bool,
    wrong: Option<String>,
}

impl Sink for Above {
    fn deliver(&mut self, origin: Origin, packet: Packet<&[u8]>) -> Verdict {
        self.calls += 1;
        if self.forgets && self.calls.is_multiple_of(2) {
            return Verdict::Taken;
        }
        let payload = packet.payload();
        let id = payload.first().copied().unwrap_or(0);
        if payload.iter().any(|byte| *byte != id) {
            self.wrong = Some(format!("bytes of several messages in one packet: {payload:?}"));
        }
        let offset = packet.fragment().map_or(0, |fragment| fragment.offset);
        self.delivered
            .push((origin.session, id, packet.base().message.0, offset));
        Verdict::Taken
    }
}

#[derive(Clone, Debug)]
struct End {
    endpoint: Endpoint,
    above: Above,
    incarnation: u8,
    /// Messages sent in the session that runs.
    sent: u8,
    session: u32,
    /// What was delivered to those before.
    past: Vec<u8>,
    /// Messages by reference that have not completed.
    tokens: Vec<(SendToken, u8)>,
    /// Its fingerprint, until something happens to it.
    print: Option<u64>,
}

fn address(end: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, end as u8 + 1], 1))
}

const PEER: PeerId = PeerId(0);
const LIMITS: Limits = Limits {
    max_datagram: 1_472,
    max_segments: 1,
    max_batch: 1_472,
    receive_buffer: 1 << 20,
    holds_references: false,
    ack_bytes: usize::MAX,
    receive_port: 0,
};

impl End {
    fn new(config: &Config, end: usize, incarnation: u8, forgets: bool) -> Self {
        let number = 1 + end as u64 * 8 + u64::from(incarnation);
        let mut endpoint = match Endpoint::new(config.clone(), LIMITS, mix(number), mix(number << 8).into()) {
            Ok(endpoint) => endpoint,
            Err(error) => panic!("{error}"),
        };
        endpoint.set_processor(end as u32);
        assert_eq!(endpoint.add_peer(address(1 - end), 1 - end as u32), Ok(PEER));
        Self {
            endpoint,
            above: Above {
                forgets,
                ..Above::default()
            },
            incarnation,
            sent: 0,
            session: 1,
            past: Vec::new(),
            tokens: Vec::new(),
            print: None,
        }
    }

    /// What it is told apart by. The order of what was delivered is no part of that: nothing depends on it.
    fn fingerprint(&self) -> u64 {
        let mut hash = Hash(0);
        let e = &self.endpoint;
        hash.add(&(&e.peers, &e.down, &e.flows, &e.actives, &e.free_actives, &e.free_flows));
        hash.add(&(
            &e.ready,
            &e.heap,
            &e.control,
            e.now,
            e.stalled,
            e.busy,
            e.resets,
            e.challenges,
        ));
        let (mut delivered, mut past) = (self.above.delivered.clone(), self.past.clone());
        delivered.sort_unstable();
        past.sort_unstable();
        hash.add(&(delivered, self.above.calls, self.incarnation, self.sent, past));
        hash.0
    }

    /// Says which message it is, in one byte: of which end, incarnation and session, and which of that.
    fn id(&self, end: usize) -> u8 {
        (end as u8) << 7 | (self.incarnation & 3) << 5 | (self.session as u8 & 3) << 3 | self.sent & 7
    }
}

/// A datagram under way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Datagram {
    to: usize,
    bytes: Vec<u8>,
}

#[derive(Clone)]
struct State {
    ends: [End; 2],
    /// Sorted: the order in which they were sent makes no difference.
    network: Vec<Datagram>,
    now: Instant,
    left: Budget,
}

/// The checks, and how often each was made.
struct Checker {
    config: Config,
    broken: Broken,
    seen: HashSet<u64>,
    deepest: usize,
    path: Vec<Action>,
    /// The states before this one in which nothing else was done than letting the first packet arrive.
    fair: Vec<u64>,
    most: usize,
}

/// Hashes what is printed.
struct Hash(u64);

impl Write for Hash {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.bytes(text.as_bytes());
        Ok(())
    }
}

impl Hash {
    fn word(&mut self, word: u64) {
        self.0 = mix(self.0.rotate_left(5) ^ word);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(u64::from_le_bytes(word));
        }
    }

    fn add(&mut self, what: &dyn Debug) {
        let _ = write!(self, "{what:?};");
    }
}

impl State {
    fn new(config: &Config, budget: Budget, broken: Broken) -> Self {
        let forgets = broken == Broken::Sink;
        Self {
            ends: [End::new(config, 0, 0, forgets), End::new(config, 1, 0, forgets)],
            network: Vec::new(),
            now: Instant::from_nanos(1_000_000_000),
            left: budget,
        }
    }

    fn fingerprint(&mut self) -> u64 {
        let mut hash = Hash(0);
        for end in &mut self.ends {
            let print = end.print.unwrap_or_else(|| end.fingerprint());
            end.print = Some(print);
            hash.word(print);
        }
        for datagram in &self.network {
            hash.word(datagram.to as u64);
            hash.bytes(&datagram.bytes);
        }
        hash.add(&(self.now, self.left));
        hash.0
    }

    /// All that can happen next.
    fn actions(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        if !self.network.is_empty() {
            // First of all what happens if nothing goes wrong: `explore` relies on that.
            actions.push(Action::Arrive(0));
        }
        for end in 0..2 {
            if self.left.messages[end] > 0 {
                actions.push(Action::Send(end));
            }
            if self.left.restarts[end] > 0 {
                actions.push(Action::Restart(end));
            }
        }
        for index in 0..self.network.len() {
            if index > 0 && self.network[index] == self.network[index - 1] {
                continue;
            }
            if index > 0 {
                actions.push(Action::Arrive(index));
            }
            if self.left.losses > 0 {
                actions.push(Action::Lose(index));
            }
            if self.left.copies > 0 {
                actions.push(Action::Copy(index));
            }
        }
        if self.left.deadlines > 0 && self.deadline().is_some() {
            actions.push(Action::Deadline);
        }
        actions
    }

    fn deadline(&self) -> Option<Instant> {
        self.ends.iter().filter_map(|end| end.endpoint.poll_timeout()).min()
    }
}

impl Checker {
    fn new(config: Config, broken: Broken, most: usize) -> Self {
        Self {
            config,
            broken,
            seen: HashSet::new(),
            deepest: 0,
            path: Vec::new(),
            fair: Vec::new(),
            most,
        }
    }

    /// Goes through all states that can be reached from `state`. The error says what is wrong, and how to get there.
    ///
    /// Where packets are under way, the first of them arrives in one of the next states, before anything else is tried, and
    /// liveness is asked for there: so in the end where no packet is under way. Unless packets go round for ever.
    fn explore(&mut self, state: &mut State) -> Result<(), String> {
        let print = state.fingerprint();
        if self.fair.contains(&print) {
            return Err(format!("packets go round for ever\n  after {:?}", self.path));
        }
        if self.seen.len() >= self.most || !self.seen.insert(print) {
            return Ok(());
        }
        self.deepest = self.deepest.max(self.path.len());
        if state.network.is_empty() {
            self.check_liveness(state)
                .map_err(|wrong| format!("{wrong}\n  after {:?}", self.path))?;
        }
        for action in state.actions() {
            let before = match action {
                Action::Arrive(0) => None,
                _ => Some(mem::take(&mut self.fair)),
            };
            if before.is_none() {
                self.fair.push(print);
            }
            self.path.push(action);
            let mut next = state.clone();
            self.act(&mut next, action)
                .map_err(|wrong| format!("{wrong}\n  after {:?}", self.path))?;
            self.explore(&mut next)?;
            self.path.pop();
            match before {
                None => drop(self.fair.pop()),
                Some(before) => self.fair = before,
            }
        }
        Ok(())
    }

    fn act(&self, state: &mut State, action: Action) -> Result<(), String> {
        match action {
            Action::Send(end) => {
                state.left.messages[end] -= 1;
                self.send(state, end)
            }
            Action::Arrive(index) => {
                let datagram = state.network.remove(index);
                self.arrive(state, &datagram)
            }
            Action::Lose(index) => {
                state.left.losses -= 1;
                state.network.remove(index);
                Ok(())
            }
            Action::Copy(index) => {
                state.left.copies -= 1;
                let datagram = state.network[index].clone();
                self.arrive(state, &datagram)
            }
            Action::Deadline => {
                state.left.deadlines -= 1;
                self.pass(state)
            }
            Action::Restart(end) => {
                state.left.restarts[end] -= 1;
                let old = &state.ends[end];
                let forgets = self.broken == Broken::Sink;
                let mut new = End::new(&self.config, end, old.incarnation + 1, forgets);
                new.past.clone_from(&old.past);
                new.past.extend(old.above.delivered.iter().map(|(_, id, ..)| *id));
                state.ends[end] = new;
                Ok(())
            }
        }
    }

    /// Sends a message: the second one of a session is longer than a packet.
    fn send(&self, state: &mut State, end: usize) -> Result<(), String> {
        let (now, it) = (state.now, &mut state.ends[end]);
        if it.endpoint.down(PEER).is_some() {
            // It has started again, or will.
            it.endpoint.reconnect(PEER);
        }
        let session = it.endpoint.session(PEER);
        if session != it.session {
            (it.session, it.sent) = (session, 0);
        }
        let id = it.id(end);
        let message = Outgoing {
            source: end as u32,
            destination: 1 - end as u32,
            message: Seq(it.sent.into()),
            match_bits: None,
            immediate: None,
        };
        let len = if it.sent == 1 { 12 } else { 5 };
        let payload = Payload::Shared(Bytes::from(vec![id; len]));
        let token = it.endpoint.send(now, PEER, 0, &message, payload);
        let token = token.map_err(|error| format!("end {end} cannot send: {error}"))?;
        it.tokens.extend(token.map(|token| (token, id)));
        it.sent += 1;
        self.settle(state, end)
    }

    fn arrive(&self, state: &mut State, datagram: &Datagram) -> Result<(), String> {
        let (now, it) = (state.now, &mut state.ends[datagram.to]);
        let mut bytes = datagram.bytes.clone();
        if self.broken == Broken::Sequence {
            spoil(&mut bytes);
        }
        let stride = bytes.len();
        it.endpoint
            .handle_datagrams(now, address(1 - datagram.to), &mut bytes, stride, &mut it.above);
        self.settle(state, datagram.to)
    }

    /// Time goes on to the next deadline.
    fn pass(&self, state: &mut State) -> Result<(), String> {
        let Some(deadline) = state.deadline() else {
            return Ok(());
        };
        state.now = state.now.max(deadline);
        if self.broken == Broken::Clock {
            return Ok(());
        }
        for end in 0..2 {
            let due = state.ends[end].endpoint.poll_timeout();
            if due.is_some_and(|due| due <= state.now) {
                state.ends[end].endpoint.handle_timeout(state.now);
                self.settle(state, end)?;
            }
        }
        Ok(())
    }

    /// What comes out of an endpoint after something has come in; checks what was delivered.
    fn settle(&self, state: &mut State, end: usize) -> Result<(), String> {
        let mut burst = Burst::default();
        let it = &mut state.ends[end];
        it.print = None;
        while it.endpoint.poll_transmit(state.now, &mut burst) {
            let mut bytes = Vec::new();
            it.endpoint.gather(&burst, |slice| bytes.extend_from_slice(slice));
            let datagram = Datagram { to: 1 - end, bytes };
            let place = state.network.partition_point(|other| *other < datagram);
            state.network.insert(place, datagram);
        }
        let mut complete = Vec::new();
        while let Some(event) = it.endpoint.poll_event() {
            match event {
                Event::Sent { token, .. } => {
                    let place = it.tokens.iter().position(|(other, _)| *other == token);
                    let Some(place) = place else {
                        return Err(format!("{token:?} was completed twice"));
                    };
                    complete.push(it.tokens.remove(place).1);
                }
                Event::Down { .. } => it.tokens.clear(),
                _ => {}
            }
        }
        check_delivered(it, end)?;
        let other = &state.ends[1 - end];
        for id in complete {
            let here = other.above.delivered.iter().any(|(_, its, ..)| *its == id);
            if !here && !other.past.contains(&id) {
                return Err(format!(
                    "message {id:#04x} is said to be acknowledged, and was not delivered"
                ));
            }
        }
        Ok(())
    }

    /// Nothing is under way, and nothing goes wrong any more: everything that was sent arrives, and what is sent then.
    fn check_liveness(&self, state: &State) -> Result<(), String> {
        let mut state = state.clone();
        self.become_quiet(&mut state)?;
        self.check_arrived(&state)?;
        for end in [0, 1] {
            let mut state = state.clone();
            // Who still has a session with who is no more finds out with the first of these.
            for _ in 0..2 {
                self.send(&mut state, end)?;
                self.become_quiet(&mut state)?;
            }
            let before = state.ends[1 - end].above.delivered.len();
            self.send(&mut state, end)?;
            self.become_quiet(&mut state)?;
            if state.ends[1 - end].above.delivered.len() == before {
                return Err(format!("after all has healed, end {end} is not heard"));
            }
        }
        Ok(())
    }

    fn become_quiet(&self, state: &mut State) -> Result<(), String> {
        for _ in 0..PATIENCE {
            if !state.network.is_empty() {
                let datagram = state.network.remove(0);
                self.arrive(state, &datagram)?;
            } else if state.deadline().is_some() {
                self.pass(state)?;
            } else {
                let idle = state.ends.iter().all(|end| end.endpoint.all_idle());
                return if idle {
                    Ok(())
                } else {
                    Err("something waits for ever".into())
                };
            }
        }
        Err("it never becomes quiet".into())
    }

    /// What was sent in sessions that live has arrived, at whoever was there.
    fn check_arrived(&self, state: &State) -> Result<(), String> {
        for (end, it) in state.ends.iter().enumerate() {
            let lives = it.endpoint.session(PEER) == it.session && it.endpoint.down(PEER).is_none();
            if !lives {
                continue;
            }
            let other = &state.ends[1 - end];
            for sent in 0..it.sent {
                let id = (it.id(end) & !7) | sent;
                let parts = other.above.delivered.iter().filter(|(_, its, ..)| *its == id).count();
                if parts == 0 && !other.past.contains(&id) {
                    return Err(format!("message {id:#04x} of end {end} was lost"));
                }
            }
        }
        Ok(())
    }
}

/// Nothing twice, nothing changed, nothing in the wrong session.
fn check_delivered(it: &End, end: usize) -> Result<(), String> {
    let above = &it.above;
    if let Some(wrong) = &above.wrong {
        return Err(wrong.clone());
    }
    let mut seen = BTreeSet::new();
    for (index, &(session, id, number, offset)) in above.delivered.iter().enumerate() {
        if usize::from(id >> 7) != 1 - end || u32::from(id & 7) != number {
            return Err(format!("message {id:#04x} came to end {end} as its number {number}"));
        }
        if !seen.insert((id, offset)) {
            return Err(format!("message {id:#04x} at {offset} was delivered twice"));
        }
        // All of a session are of one session of one incarnation, and those of no other session.
        let sender = id >> 3;
        let crossed = above.delivered[..index]
            .iter()
            .find(|(other, its, ..)| (*other == session) != (its >> 3 == sender));
        if let Some((other, its, ..)) = crossed {
            return Err(format!(
                "message {id:#04x} in session {session} of end {end}, and message {its:#04x} in session {other}"
            ));
        }
    }
    Ok(())
}

/// Changes the sequence number of a packet with data that does not open a session (what does has a checksum).
fn spoil(bytes: &mut [u8]) {
    let Ok(packet) = Packet::new_checked(&*bytes) else {
        return;
    };
    if packet.kind() == Kind::Data && packet.open().is_none() {
        let sequence = packet.base().sequence.plus(1).0.to_be_bytes();
        bytes[16..20].copy_from_slice(&sequence);
    }
}

fn config(window: u16, recovery: Recovery) -> Config {
    Config {
        window_packets: window,
        recovery,
        congestion: Congestion::Fixed,
        max_payload: 8,
        bundle: false,
        timestamps: false,
        path_mtu_discovery: false,
        ack_delay: Duration::ZERO,
        reordering_window: Duration::ZERO,
        ..Config::default()
    }
}

const NONE: Budget = Budget {
    messages: [0; 2],
    losses: 0,
    copies: 0,
    deadlines: 0,
    restarts: [0; 2],
};

/// Goes through everything; gives states and depth.
fn check(config: &Config, budget: Budget, broken: Broken, most: usize) -> Result<(usize, usize), String> {
    let mut checker = Checker::new(config.clone(), broken, most);
    checker.explore(&mut State::new(config, budget, broken))?;
    Ok((checker.seen.len(), checker.deepest))
}

/// All of these; says how much there was.
fn check_all(window: u16, recovery: Recovery, budgets: &[Budget], most: usize) -> bool {
    let mut all = true;
    for budget in budgets {
        match check(&config(window, recovery), *budget, Broken::Nothing, most) {
            Ok((states, depth)) => {
                let rest = if states < most { "all" } else { "the first" };
                std::println!("{rest} {states} states, {depth} deep: window {window}, {recovery:?}, {budget:?}");
                all &= states < most;
            }
            Err(wrong) => panic!("window {window}, {recovery:?}, {budget:?}: {wrong}"),
        }
    }
    all
}

#[test]
fn nothing_is_lost_doubled_or_crossed_and_nobody_waits_for_ever() {
    let budgets = [
        Budget {
            messages: [1, 1],
            copies: 1,
            deadlines: 1,
            ..NONE
        },
        Budget {
            messages: [1, 1],
            losses: 1,
            deadlines: 1,
            ..NONE
        },
        Budget {
            messages: [1, 0],
            losses: 1,
            copies: 1,
            deadlines: 1,
            restarts: [0, 1],
        },
        Budget {
            messages: [1, 1],
            restarts: [1, 1],
            ..NONE
        },
        Budget {
            messages: [1, 1],
            losses: 1,
            restarts: [0, 1],
            ..NONE
        },
        Budget {
            messages: [1, 1],
            copies: 1,
            restarts: [1, 0],
            ..NONE
        },
    ];
    for recovery in [Recovery::SelectiveRepeat, Recovery::GoBackN] {
        assert!(check_all(2, recovery, &budgets, 100_000), "not all states were seen");
    }
    let more = Budget {
        messages: [2, 0],
        losses: 1,
        copies: 1,
        deadlines: 1,
        ..NONE
    };
    let again = Budget {
        messages: [2, 0],
        losses: 1,
        deadlines: 1,
        restarts: [0, 1],
        ..NONE
    };
    assert!(
        check_all(2, Recovery::SelectiveRepeat, &[again], 100_000),
        "not all states were seen"
    );
    let all = check_all(2, Recovery::SelectiveRepeat, &[more], 100_000);
    assert!(all, "not all states were seen");
    // Window 3: a packet may be missing between a gap and what has arrived beyond it.
    let between = Budget {
        messages: [2, 0],
        losses: 1,
        ..NONE
    };
    let all = check_all(3, Recovery::SelectiveRepeat, &[between], 100_000);
    assert!(all, "not all states were seen");
}

/// More of everything: about a quarter of an hour. Not all kinds have an end within that.
#[test]
#[ignore = "long: cargo xtask model"]
fn the_same_with_more_of_everything() {
    let budgets = [
        Budget {
            messages: [2, 0],
            losses: 1,
            copies: 1,
            deadlines: 1,
            ..NONE
        },
        Budget {
            messages: [2, 1],
            losses: 1,
            deadlines: 1,
            ..NONE
        },
        Budget {
            messages: [2, 0],
            losses: 1,
            deadlines: 1,
            restarts: [0, 1],
            ..NONE
        },
        Budget {
            messages: [1, 1],
            losses: 1,
            copies: 1,
            deadlines: 1,
            restarts: [1, 1],
        },
    ];
    for window in [2, 3] {
        for recovery in [Recovery::SelectiveRepeat, Recovery::GoBackN] {
            check_all(window, recovery, &budgets, 2_000_000);
        }
    }
}

/// The checker finds what is wrong where something is.
#[test]
fn a_broken_world_is_found() {
    let budget = Budget {
        messages: [3, 1],
        deadlines: 1,
        losses: 1,
        ..NONE
    };
    for broken in [Broken::Sequence, Broken::Sink, Broken::Clock] {
        let found = check(&config(2, Recovery::SelectiveRepeat), budget, broken, 100_000);
        assert!(found.is_err(), "{broken:?} was not noticed: {found:?}");
    }
}
