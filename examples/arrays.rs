//! Buffer arrays (the PACS-CS paper, section 5; `docs/papers.md`): ranks send a received array on as it is, in a
//! ping-pong, around a ring and down a tree, compared with copying it to a new buffer for each send, and with the calls
//! that such arrays replace: a buffer, a copy, a send and a receive for each piece of the size of a packet.
//!
//! ```sh
//! cargo run --release --example arrays          # or with a number of rounds, which is 20 else
//! ```
#![expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]

mod support;

use std::{
    env,
    error::Error,
    time::{Duration, Instant},
};

use hikyaku::mpi::{
    engine::{Array, Communicator},
    error::Error as MpiError,
};

const RANKS: u32 = 4;
/// Bytes of the packets of the paper's network.
const MTU: usize = 9000;

/// How a message is sent on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The received array itself.
    Passing,
    /// A new array with its bytes.
    Copying,
    /// The same in pieces, each with calls of its own (section 6.1): the interface before there were arrays.
    Pieces,
}

const WAYS: [(Way, &str); 3] = [
    (Way::Passing, "passing"),
    (Way::Copying, "copying"),
    (Way::Pieces, "per-MTU"),
];

/// A message: one array, or one for each piece.
type Message = Vec<Array>;

fn holds(message: &Message, bytes: &[u8]) -> bool {
    message.iter().flat_map(|array| &array[..]).eq(bytes)
}

/// Sends and receives messages of one size, and counts what it costs.
struct Sender<'a> {
    comm: &'a Communicator,
    way: Way,
    len: usize,
    gets: u64,
    copied: u64,
    calls: u64,
}

impl Sender<'_> {
    /// Bytes of an array.
    fn piece(&self) -> usize {
        match self.way {
            Way::Pieces => MTU,
            Way::Passing | Way::Copying => self.len,
        }
    }

    /// A new message with these bytes.
    fn fill<'b>(&mut self, pieces: impl Iterator<Item = &'b [u8]>) -> Message {
        let one = |from: &[u8]| {
            let mut array = self.comm.array(from.len());
            array.get_mut().expect("it is new").copy_from_slice(from);
            self.gets += 1;
            self.copied += 1;
            array
        };
        pieces.map(one).collect()
    }

    /// The message with which all begins.
    fn begin(&mut self, bytes: &[u8]) -> Message {
        let piece = self.piece();
        self.fill(bytes.chunks(piece))
    }

    fn send(&mut self, message: &Message, to: i32) -> Result<(), MpiError> {
        for array in message {
            self.comm.send_array(array, to, 0)?;
            self.calls += 1;
        }
        Ok(())
    }

    fn receive(&mut self, from: i32) -> Result<Message, MpiError> {
        let count = self.len.div_ceil(self.piece());
        self.calls += count as u64;
        (0..count).map(|_| Ok(self.comm.receive_array(from, 0)?.0)).collect()
    }

    /// Sends what was received, or a copy of it.
    fn pass_on(&mut self, message: &Message, to: i32) -> Result<(), MpiError> {
        if self.way == Way::Passing {
            return self.send(message, to);
        }
        let copy = self.fill(message.iter().map(|array| &array[..]));
        self.send(&copy, to)
    }
}

/// Two ranks: what is received goes back, and the one received before is released (section 6.2).
fn ping_pong(sender: &mut Sender<'_>, first: &[u8], turns: usize) -> Result<(), MpiError> {
    let comm = sender.comm;
    if comm.rank() > 1 {
        return Ok(());
    }
    let other = 1 - comm.rank();
    let mut last = None;
    if comm.rank() == 0 {
        let own = sender.begin(first);
        sender.send(&own, other)?;
    }
    for turn in 0..turns {
        let message = sender.receive(other)?;
        // The last one of rank 0 stays there.
        if comm.rank() == 1 || turn + 1 < turns {
            sender.pass_on(&message, other)?;
        }
        last = Some(message);
    }
    assert!(
        last.is_none_or(|message| holds(&message, first)),
        "it has changed on its way"
    );
    Ok(())
}

/// Once around: rank 0 begins.
fn ring(sender: &mut Sender<'_>, first: &[u8], turns: usize) -> Result<(), MpiError> {
    let comm = sender.comm;
    let (rank, size) = (comm.rank(), comm.size());
    let mut message = None;
    for turn in 0..turns {
        if rank == 0 {
            let own = match message.take() {
                Some(message) => message,
                None => sender.begin(first),
            };
            if turn == 0 {
                sender.send(&own, 1)?;
            } else {
                sender.pass_on(&own, 1)?;
            }
            message = Some(sender.receive(size - 1)?);
        } else {
            let own = sender.receive(rank - 1)?;
            sender.pass_on(&own, (rank + 1) % size)?;
            // Released when the next one has come.
            message = Some(own);
        }
    }
    assert!(
        message.is_none_or(|message| holds(&message, first)),
        "it has changed on its way"
    );
    Ok(())
}

/// Broadcasts down a binomial tree, again and again.
fn tree(sender: &mut Sender<'_>, first: &[u8], turns: usize) -> Result<(), MpiError> {
    let comm = sender.comm;
    let (rank, size) = (comm.rank(), comm.size());
    let mut own = None;
    for turn in 0..turns {
        let below = if rank == 0 {
            own.get_or_insert_with(|| sender.begin(first));
            size.cast_unsigned().next_power_of_two().cast_signed()
        } else {
            let lowest = rank & -rank;
            own = Some(sender.receive(rank - lowest)?);
            lowest
        };
        let message = own.as_ref().expect("filled or received");
        let mut distance = below / 2;
        while distance > 0 {
            if rank + distance < size {
                if rank == 0 && turn == 0 {
                    sender.send(message, rank + distance)?;
                } else {
                    sender.pass_on(message, rank + distance)?;
                }
            }
            distance /= 2;
        }
    }
    assert!(
        own.is_none_or(|message| holds(&message, first)),
        "it has changed on its way"
    );
    Ok(())
}

type Pattern = fn(&mut Sender<'_>, &[u8], usize) -> Result<(), MpiError>;

/// The cost of one way: its time, how often arrays were asked for, copied to, and sent or received, and how often the
/// library has copied one.
#[derive(Clone, Copy, Default)]
struct Cost {
    time: Duration,
    gets: u64,
    copied: u64,
    calls: u64,
    eager: u64,
}

/// All ways in turns; for each the costs of all rounds.
fn measure(
    comm: &Communicator,
    pattern: Pattern,
    len: usize,
    rounds: usize,
) -> Result<[Vec<Cost>; WAYS.len()], MpiError> {
    let first: Vec<u8> = (0..len).map(|at| (at * 7 + at / 251) as u8).collect();
    let mut costs = WAYS.map(|_| Vec::new());
    for round in 0..=rounds {
        for ((way, _), costs) in WAYS.into_iter().zip(&mut costs) {
            let mut sender = Sender {
                comm,
                way,
                len,
                gets: 0,
                copied: 0,
                calls: 0,
            };
            comm.barrier()?;
            let (begun, before) = (Instant::now(), comm.engine().stats().eager);
            pattern(&mut sender, &first, TURNS)?;
            let eager = comm.engine().stats().eager - before;
            comm.barrier()?;
            let cost = Cost {
                time: begun.elapsed(),
                gets: sender.gets,
                copied: sender.copied,
                calls: sender.calls,
                eager,
            };
            // The first round gets the memory.
            if round > 0 {
                costs.push(cost);
            }
        }
    }
    Ok(costs)
}

fn median<T: PartialOrd + Copy>(mut values: Vec<T>) -> T {
    values.sort_by(|a, b| a.partial_cmp(b).expect("no NaN"));
    values[values.len() / 2]
}

fn main() -> Result<(), Box<dyn Error>> {
    let rounds = env::args().nth(1).map_or(Ok(20), |word| word.parse())?;
    let patterns: [(&str, Pattern); 3] = [("ping-pong", ping_pong), ("ring", ring), ("tree", tree)];
    println!(
        "{RANKS} ranks, medians of {rounds} rounds, {TURNS} turns each; gets, copies and calls of a round, all ranks together"
    );
    println!("pattern      bytes  way        µs/turn   gets  copies  calls  by the library  time/passing");
    for (name, pattern) in patterns {
        for len in [64 << 10, 1 << 20] {
            let results = support::job(RANKS, |comm| measure(comm, pattern, len, rounds));
            let ranks = results.into_iter().collect::<Result<Vec<_>, _>>()?;
            for (way, (_, label)) in WAYS.into_iter().enumerate() {
                let ratios = ranks[0][way].iter().zip(&ranks[0][0]);
                let ratio = median(
                    ratios
                        .map(|(cost, passing)| cost.time.as_secs_f64() / passing.time.as_secs_f64())
                        .collect(),
                );
                let time = median(ranks[0][way].iter().map(|cost| cost.time).collect());
                let sum = |of: fn(&Cost) -> u64| ranks.iter().map(|rank| of(&rank[way][0])).sum::<u64>();
                println!(
                    "{name:9} {len:9}  {label}  {:9.1}  {:5}  {:6}  {:5}  {:14}  {ratio:12.3}",
                    time.as_secs_f64() * 1e6 / TURNS as f64,
                    sum(|cost| cost.gets),
                    sum(|cost| cost.copied),
                    sum(|cost| cost.calls),
                    sum(|cost| cost.eager),
                );
            }
        }
    }
    Ok(())
}

/// Times around the ring, or down the tree, in a round.
const TURNS: usize = 20;
