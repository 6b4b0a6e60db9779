//! Simulates all schedules of a collective against a model of the network.

use alloc::{
    collections::{BTreeMap, BinaryHeap, VecDeque},
    vec::Vec,
};
use core::{
    cmp::{Ordering, Reverse},
    fmt,
};

use super::schedule::{Schedule, Span, Step};

/// Hockney's model, with reductions: each rank sends one message at a time and receives one at a time, both at once,
/// and a message of `n` bytes takes `alpha + n · beta` of both, or `3 · alpha + n · beta` if it goes by rendezvous. The
/// network between ranks has no limits. Copies are free.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Model {
    /// Seconds per message.
    pub alpha: f64,
    /// Seconds per byte sent.
    pub beta: f64,
    /// Seconds per byte reduced. (The γ of the optics paper is another one: the time to open a connection.)
    pub gamma: f64,
    /// Ranks per core; at most 1: each has its own. Only [`cost`](super::cost()) uses it.
    pub sharing: f64,
    /// Bytes beyond which a message goes by rendezvous: a request, a grant, and then the data.
    pub eager_limit: f64,
}

impl Default for Model {
    /// A guess, for want of measurements: 10 µs, 10 Gb/s, reductions at 10 GB/s, a core for each rank, and no
    /// rendezvous.
    fn default() -> Self {
        Self {
            alpha: 10e-6,
            beta: 0.8e-9,
            gamma: 0.1e-9,
            sharing: 1.0,
            eager_limit: f64::INFINITY,
        }
    }
}

impl Model {
    /// Seconds for a message.
    pub(super) fn message(&self, bytes: f64) -> f64 {
        self.start(bytes) + bytes * self.beta
    }

    /// Seconds for a message, not counting its bytes.
    pub(super) fn start(&self, bytes: f64) -> f64 {
        if bytes > self.eager_limit {
            3.0 * self.alpha
        } else {
            self.alpha
        }
    }
}

/// Seconds from the start of all ranks until the last one is done. `schedules[i]` is that of rank `i`; an element of
/// any region has `element` bytes.
///
/// Messages may arrive before their receives are started. A free port takes the message that was ready first.
///
/// # Errors
///
/// A rank waits for a message that no rank sends.
pub fn simulate(schedules: &[Schedule], element: usize, model: &Model) -> Result<f64, Stuck> {
    let mut simulation = Simulation {
        model,
        element,
        ranks: schedules.iter().map(Rank::new).collect(),
        channels: BTreeMap::new(),
        ready: BinaryHeap::new(),
    };
    for rank in 0..schedules.len() {
        simulation.advance(rank);
    }
    while let Some(Reverse((.., rank))) = simulation.ready.pop() {
        simulation.transmit(rank);
    }
    let stuck = simulation
        .ranks
        .iter()
        .position(|rank| rank.round < rank.schedule.rounds());
    match stuck {
        Some(rank) => Err(Stuck {
            rank,
            round: simulation.ranks[rank].round,
        }),
        None => Ok(simulation.ranks.iter().map(|rank| rank.clock.0).fold(0.0, f64::max)),
    }
}

/// A rank that waits for ever.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Stuck {
    /// The rank.
    pub rank: usize,
    /// The round in which it waits.
    pub round: usize,
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "rank {} waits for ever in round {} of its schedule",
            self.rank, self.round
        )
    }
}

crate::debug_as_display!(Stuck);

impl core::error::Error for Stuck {}

/// Seconds since the start, which have an order.
#[derive(Clone, Copy, Debug)]
struct Time(f64);

impl Ord for Time {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Time {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Time {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Time {}

struct Rank<'a> {
    schedule: &'a Schedule,
    round: usize,
    /// Whether the round has been started.
    started: bool,
    /// Messages of the round that are not complete.
    open: usize,
    /// When the messages of the round that are complete so far were complete.
    clock: Time,
    /// Messages to send, in their order: when ready, destination, bytes.
    outgoing: VecDeque<(Time, usize, f64)>,
    /// Until when the ports are taken.
    out_port: Time,
    in_port: Time,
}

impl<'a> Rank<'a> {
    fn new(schedule: &'a Schedule) -> Self {
        Self {
            schedule,
            round: 0,
            started: false,
            open: 0,
            clock: Time(0.0),
            outgoing: VecDeque::new(),
            out_port: Time(0.0),
            in_port: Time(0.0),
        }
    }
}

/// From one rank to another.
#[derive(Default)]
struct Channel {
    /// Arrival times of messages that have not been received.
    arrived: VecDeque<Time>,
    /// Number of waiting receives.
    waiting: usize,
}

struct Simulation<'a> {
    model: &'a Model,
    element: usize,
    ranks: Vec<Rank<'a>>,
    channels: BTreeMap<(usize, usize), Channel>,
    /// Ranks with something to send: by the earliest time at which the first message may go, then by when it was ready.
    ready: BinaryHeap<Reverse<(Time, Time, usize)>>,
}

impl Simulation<'_> {
    fn bytes(&self, spans: &[Span]) -> f64 {
        spans.iter().map(|span| span.elements() * self.element).sum::<usize>() as f64
    }

    /// Goes on with a rank's rounds as far as messages are complete.
    fn advance(&mut self, index: usize) {
        loop {
            let rank = &mut self.ranks[index];
            if rank.started && rank.open == 0 {
                (rank.started, rank.round) = (false, rank.round + 1);
            }
            if rank.started || rank.round == rank.schedule.rounds() {
                return;
            }
            rank.started = true;
            self.start(index);
        }
    }

    fn start(&mut self, index: usize) {
        let (schedule, round) = (self.ranks[index].schedule, self.ranks[index].round);
        let mut now = self.ranks[index].clock;
        let mut clock = now;
        for step in schedule.round(round) {
            match step {
                Step::Reduce { into, .. } => {
                    now.0 += self.bytes(&[into]) * self.model.gamma;
                    clock = clock.max(now);
                }
                Step::Copy { .. } => {}
                Step::Send { to, spans } => {
                    let bytes = self.bytes(spans);
                    let rank = &mut self.ranks[index];
                    rank.open += 1;
                    rank.outgoing.push_back((now, to, bytes));
                    if rank.outgoing.len() == 1 {
                        self.ready.push(Reverse((now.max(rank.out_port), now, index)));
                    }
                }
                Step::Receive { from, .. } => {
                    let channel = self.channels.entry((from, index)).or_default();
                    match channel.arrived.pop_front() {
                        Some(time) => clock = clock.max(time),
                        None => {
                            channel.waiting += 1;
                            self.ranks[index].open += 1;
                        }
                    }
                }
            }
        }
        self.ranks[index].clock = clock;
    }

    /// Sends a rank's first message, or has it wait for its ports.
    fn transmit(&mut self, index: usize) {
        let rank = &self.ranks[index];
        let Some((ready, to, bytes)) = rank.outgoing.front().copied() else {
            return;
        };
        let may = ready.max(rank.out_port);
        let start = may.max(self.ranks.get(to).map_or(may, |receiver| receiver.in_port));
        // Another message may have become ready first meanwhile.
        if self
            .ready
            .peek()
            .is_some_and(|Reverse(next)| *next < (start, ready, index))
        {
            self.ready.push(Reverse((start, ready, index)));
            return;
        }
        let end = Time(start.0 + self.model.message(bytes));
        let sender = &mut self.ranks[index];
        sender.outgoing.pop_front();
        sender.out_port = end;
        if let Some((next, ..)) = sender.outgoing.front() {
            self.ready.push(Reverse(((*next).max(end), *next, index)));
        }
        self.complete(index, end);
        let channel = self.channels.entry((index, to)).or_default();
        if let Some(receiver) = self.ranks.get_mut(to) {
            receiver.in_port = end;
        }
        if channel.waiting > 0 {
            channel.waiting -= 1;
            self.complete(to, end);
        } else {
            channel.arrived.push_back(end);
        }
    }

    fn complete(&mut self, index: usize, time: Time) {
        let rank = &mut self.ranks[index];
        rank.open -= 1;
        rank.clock = rank.clock.max(time);
        self.advance(index);
    }
}
