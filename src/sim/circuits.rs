//! Schedules on a circuit-switched optical network (S3): a connection must be set up before it is used.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt,
};

use crate::mpi::collectives::{Schedule, Step};

/// When connections are opened, and how long they are kept (S3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handling {
    /// One for each exchange with a peer, when it is due, one at a time.
    Naive,
    /// Ahead, as many as there are ports side by side, each kept until its last use; the next ones when all of these are over.
    Planned,
    /// Connections are there and cost nothing.
    Ideal,
}

/// A network of circuits (S3.1): full duplex, and whatever lies between nodes has no limits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Circuits {
    /// Connections that a node can have at a time; at least 1.
    pub ports: usize,
    /// Seconds per message: α.
    pub alpha: f64,
    /// Seconds per octet: β.
    pub beta: f64,
    /// Seconds to set up a connection, the tear-down included: γ.
    pub setup: f64,
}

/// A rank that waits for ever: its peers and it open their connections in orders that do not go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// The rank.
    pub rank: usize,
    /// Messages that were not sent, of all ranks.
    pub messages: usize,
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "rank {} waits for ever for a connection; {} messages are left",
            self.rank, self.messages
        )
    }
}

impl std::error::Error for Blocked {}

/// One message of a round, from one end.
#[derive(Clone, Copy, Debug)]
struct Exchange {
    peer: usize,
    /// The phase in which its connection is open.
    phase: usize,
    /// Octets; `None`: it is received.
    sent: Option<f64>,
}

struct Node {
    rounds: Vec<Vec<Exchange>>,
    /// Peers of each phase: those connected at a time.
    phases: Vec<BTreeSet<usize>>,
    /// Messages of each phase that are not complete.
    left: Vec<usize>,
    round: usize,
    open: usize,
    phase: usize,
    /// When the phase began, and when all that is known to be complete was.
    since: f64,
    clock: f64,
    out_port: f64,
    in_port: f64,
    /// Messages that may be sent: since when.
    outgoing: VecDeque<(f64, Exchange)>,
    /// Receives of the running round that wait, by peer; and messages that came before.
    waiting: BTreeMap<usize, VecDeque<usize>>,
    arrived: BTreeMap<usize, VecDeque<f64>>,
}

/// Seconds from when all ranks begin until the last one is done. `schedules[i]` is that of rank `i`, and an element has
/// `element` octets. Each rank sends one message at a time and receives one at a time. Reductions cost nothing (S3.3).
///
/// # Errors
/// Connections are wanted in orders that do not go together.
pub fn run(schedules: &[Schedule], element: usize, network: &Circuits, handling: Handling) -> Result<f64, Blocked> {
    let colours = colours(schedules);
    let mut nodes: Vec<Node> = schedules
        .iter()
        .enumerate()
        .map(|(rank, schedule)| Node::new(rank, schedule, element, network, handling, &colours))
        .collect();
    for node in &mut nodes {
        node.advance();
    }
    while let Some((start, from, index)) = next(&nodes, network, handling) {
        let (_, exchange) = nodes[from]
            .outgoing
            .remove(index)
            .unwrap_or_else(|| unreachable!("just found"));
        let end = start + network.alpha + exchange.sent.unwrap_or(0.0) * network.beta;
        nodes[from].out_port = end;
        nodes[exchange.peer].in_port = end;
        nodes[from].complete(exchange.phase, end);
        nodes[exchange.peer].take(from, end);
        nodes[from].advance();
        nodes[exchange.peer].advance();
    }
    match nodes.iter().position(|node| node.round < node.rounds.len()) {
        Some(rank) => Err(Blocked {
            rank,
            messages: nodes.iter().map(|node| node.outgoing.len()).sum(),
        }),
        None => Ok(nodes.iter().map(|node| node.clock).fold(0.0, f64::max)),
    }
}

/// The message that can be sent first: when, by whom, and which of its messages.
fn next(nodes: &[Node], network: &Circuits, handling: Handling) -> Option<(f64, usize, usize)> {
    let mut first: Option<(f64, usize, usize)> = None;
    for (from, node) in nodes.iter().enumerate() {
        for (index, (ready, exchange)) in node.outgoing.iter().enumerate() {
            let peer = &nodes[exchange.peer];
            let mut start = ready.max(node.out_port).max(peer.in_port);
            if handling != Handling::Ideal {
                let connected = exchange.phase == node.phase && peer.is_connected(from);
                if !connected {
                    continue;
                }
                start = start.max(node.since.max(peer.since) + network.setup);
            }
            if first.is_none_or(|(earliest, ..)| start < earliest) {
                first = Some((start, from, index));
            }
        }
    }
    first
}

/// Gives each pair of ranks with messages a number, such that no rank has two pairs with the same one. Where there are
/// more peers in a round than ports, pairs go by their numbers: so nobody waits for somebody who waits for him. (On a ring,
/// even ranks send first and odd ones receive: S3.3.)
fn colours(schedules: &[Schedule]) -> BTreeMap<(usize, usize), usize> {
    let mut colours = BTreeMap::new();
    let mut used: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); schedules.len()];
    for (rank, schedule) in schedules.iter().enumerate() {
        for peer in schedule.peers() {
            let pair = (rank.min(peer.rank), rank.max(peer.rank));
            if colours.contains_key(&pair) {
                continue;
            }
            let free = (0..).find(|colour| !used[pair.0].contains(colour) && !used[pair.1].contains(colour));
            let colour = free.unwrap_or_else(|| unreachable!("there are more numbers than peers"));
            used[pair.0].insert(colour);
            used[pair.1].insert(colour);
            colours.insert(pair, colour);
        }
    }
    colours
}

impl Node {
    fn new(
        rank: usize,
        schedule: &Schedule,
        element: usize,
        network: &Circuits,
        handling: Handling,
        colours: &BTreeMap<(usize, usize), usize>,
    ) -> Self {
        let most = if handling == Handling::Naive {
            1
        } else {
            network.ports.max(1)
        };
        let mut phases: Vec<BTreeSet<usize>> = vec![BTreeSet::new()];
        let mut rounds = Vec::with_capacity(schedule.rounds());
        for round in 0..schedule.rounds() {
            let mut exchanges: Vec<Exchange> = schedule
                .round(round)
                .filter_map(|step| match step {
                    Step::Send { to, spans } => {
                        let elements: usize = spans.iter().map(|span| span.count).sum();
                        let octets = (elements * element) as f64;
                        Some((to, Some(octets)))
                    }
                    Step::Receive { from, .. } => Some((from, None)),
                    Step::Reduce { .. } | Step::Copy { .. } => None,
                })
                .map(|(peer, sent)| Exchange { peer, phase: 0, sent })
                .collect();
            let mut peers: Vec<usize> = Vec::new();
            for exchange in &exchanges {
                if !peers.contains(&exchange.peer) {
                    peers.push(exchange.peer);
                }
            }
            if peers.len() > most {
                peers.sort_by_key(|peer| colours.get(&(rank.min(*peer), rank.max(*peer))));
            }
            if handling == Handling::Naive && !peers.is_empty() && round > 0 {
                phases.push(BTreeSet::new());
            }
            for peer in peers {
                let last = phases.len() - 1;
                if !phases[last].contains(&peer) && phases[last].len() == most {
                    phases.push(BTreeSet::new());
                }
                let phase = phases.len() - 1;
                phases[phase].insert(peer);
                for exchange in exchanges.iter_mut().filter(|exchange| exchange.peer == peer) {
                    exchange.phase = phase;
                }
            }
            rounds.push(exchanges);
        }
        let mut left = vec![0; phases.len()];
        for exchange in rounds.iter().flatten() {
            left[exchange.phase] += 1;
        }
        Self {
            rounds,
            phases,
            left,
            round: 0,
            open: usize::MAX,
            phase: 0,
            since: 0.0,
            clock: 0.0,
            out_port: 0.0,
            in_port: 0.0,
            outgoing: VecDeque::new(),
            waiting: BTreeMap::new(),
            arrived: BTreeMap::new(),
        }
    }

    fn is_connected(&self, peer: usize) -> bool {
        self.phases.get(self.phase).is_some_and(|peers| peers.contains(&peer))
    }

    /// A message of a phase is complete.
    fn complete(&mut self, phase: usize, time: f64) {
        self.open -= 1;
        self.left[phase] -= 1;
        self.clock = self.clock.max(time);
    }

    /// A message has come.
    fn take(&mut self, from: usize, time: f64) {
        match self.waiting.get_mut(&from).and_then(VecDeque::pop_front) {
            Some(phase) => self.complete(phase, time),
            None => self.arrived.entry(from).or_default().push_back(time),
        }
    }

    /// Goes on to the next round and phase as far as messages are complete.
    fn advance(&mut self) {
        loop {
            while self.phase + 1 < self.phases.len() && self.left[self.phase] == 0 {
                (self.phase, self.since) = (self.phase + 1, self.clock);
            }
            match self.open {
                usize::MAX => {}
                0 => self.round += 1,
                _ => return,
            }
            let Some(exchanges) = self.rounds.get(self.round).cloned() else {
                return;
            };
            self.open = exchanges.len();
            let now = self.clock;
            for exchange in exchanges {
                if exchange.sent.is_some() {
                    self.outgoing.push_back((now, exchange));
                } else if let Some(time) = self.arrived.get_mut(&exchange.peer).and_then(VecDeque::pop_front) {
                    self.complete(exchange.phase, time);
                } else {
                    self.waiting.entry(exchange.peer).or_default().push_back(exchange.phase);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpi::collectives::{Algorithm, Blocks, Call};

    fn time(call: &Call<'_>, algorithm: Algorithm, size: usize, ports: usize, handling: Handling) -> f64 {
        let schedules: Vec<_> = (0..size)
            .map(|rank| call.schedule(rank, size, algorithm).unwrap())
            .collect();
        let network = Circuits {
            ports,
            alpha: 0.1e-3,
            beta: 8e-9,
            setup: 10e-3,
        };
        run(&schedules, 1, &network, handling).unwrap_or_else(|error| panic!("{algorithm}, {size}: {error}"))
    }

    /// The table of S3.4 at 1 MB; seconds.
    #[test]
    fn the_published_figures() {
        let bcast = Call::Bcast {
            root: 0,
            count: 1_000_000,
        };
        let allgather = Call::Allgather {
            input: 1_000_000 / 32,
            output: Blocks::Even { count: 1_000_000 / 32 },
            in_place: false,
        };
        let expected = [
            (&bcast, Algorithm::Linear, [0.5611, 0.4111, 0.3611, 0.3311, 0.2511]),
            (&allgather, Algorithm::Ring, [0.6417, 0.0209, 0.0209, 0.0209, 0.0109]),
            (
                &allgather,
                Algorithm::RecursiveDoubling,
                [0.0583, 0.0383, 0.0283, 0.0283, 0.0083],
            ),
            (
                &bcast,
                Algorithm::Knomial { radix: 2 },
                [0.0905, 0.0705, 0.0605, 0.0605, 0.0405],
            ),
        ];
        for (call, algorithm, seconds) in expected {
            let cases = [
                (4, Handling::Naive),
                (2, Handling::Planned),
                (3, Handling::Planned),
                (4, Handling::Planned),
                (4, Handling::Ideal),
            ];
            for ((ports, handling), expected) in cases.into_iter().zip(seconds) {
                let got = time(call, algorithm, 32, ports, handling);
                // The table has four places.
                assert!(
                    (got - expected).abs() < 0.01 * expected,
                    "{algorithm}, {ports} ports, {handling:?}: {got} for {expected}"
                );
            }
        }
    }

    #[test]
    fn any_number_of_ranks_and_ports() {
        for size in [1, 2, 3, 5, 7, 12, 31, 33] {
            for ports in 1..4 {
                let bcast = Call::Bcast {
                    root: size / 2,
                    count: 100,
                };
                let allgather = Call::Allgather {
                    input: 10,
                    output: Blocks::Even { count: 10 },
                    in_place: false,
                };
                for (call, algorithm) in [
                    (&bcast, Algorithm::Linear),
                    (&bcast, Algorithm::Knomial { radix: 2 }),
                    (&allgather, Algorithm::Ring),
                    (&allgather, Algorithm::RecursiveDoubling),
                ] {
                    let naive = time(call, algorithm, size, ports, Handling::Naive);
                    let planned = time(call, algorithm, size, ports, Handling::Planned);
                    let ideal = time(call, algorithm, size, ports, Handling::Ideal);
                    assert!(
                        ideal <= planned && planned <= naive + 1e-12,
                        "{algorithm}, {size} ranks, {ports} ports: {ideal} {planned} {naive}"
                    );
                }
            }
        }
    }
}
