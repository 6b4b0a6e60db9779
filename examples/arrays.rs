//! Buffer arrays (the PACS-CS paper, section 5; `docs/papers.md`): ranks send a received array on as it is, in a
//! ping-pong, around a ring and down a tree, compared with copying it to a new buffer for each send.
//!
//! ```sh
//! cargo run --release --example arrays
//! ```
#![expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]

mod support;

use std::{
    error::Error,
    time::{Duration, Instant},
};

use hikyaku::mpi::{
    engine::{Array, Communicator},
    error::Error as MpiError,
};

const RANKS: u32 = 4;
const ROUNDS: usize = 20;

/// Sends arrays, and counts what it costs.
struct Sender<'a> {
    comm: &'a Communicator,
    copies: bool,
    gets: u64,
    copied: u64,
}

impl Sender<'_> {
    /// A new array with these bytes.
    fn fill(&mut self, from: &[u8]) -> Array {
        let mut array = self.comm.array(from.len());
        array.get_mut().expect("it is new").copy_from_slice(from);
        self.gets += 1;
        self.copied += 1;
        array
    }

    /// Sends what was received, or a copy of it.
    fn pass_on(&mut self, array: &Array, to: i32) -> Result<(), MpiError> {
        if self.copies {
            let copy = self.fill(array);
            self.comm.send_array(&copy, to, 0)?;
        } else {
            self.comm.send_array(array, to, 0)?;
        }
        Ok(())
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
        let own = sender.fill(first);
        comm.send_array(&own, other, 0)?;
    }
    for turn in 0..turns {
        let (array, _) = comm.receive_array(other, 0)?;
        // The last one of rank 0 stays there.
        if comm.rank() == 1 || turn + 1 < turns {
            sender.pass_on(&array, other)?;
        }
        last = Some(array);
    }
    assert!(
        last.is_none_or(|array| array[..] == *first),
        "it has changed on its way"
    );
    Ok(())
}

/// Once around: rank 0 begins.
fn ring(sender: &mut Sender<'_>, first: &[u8], turns: usize) -> Result<(), MpiError> {
    let comm = sender.comm;
    let (rank, size) = (comm.rank(), comm.size());
    let mut array = None;
    for turn in 0..turns {
        if rank == 0 {
            let own = match array.take() {
                Some(array) => array,
                None => sender.fill(first),
            };
            if turn == 0 {
                comm.send_array(&own, 1, 0)?;
            } else {
                sender.pass_on(&own, 1)?;
            }
            array = Some(comm.receive_array(size - 1, 0)?.0);
        } else {
            let (own, _) = comm.receive_array(rank - 1, 0)?;
            sender.pass_on(&own, (rank + 1) % size)?;
            // Released when the next one has come.
            array = Some(own);
        }
    }
    assert!(
        array.is_none_or(|array| array[..] == *first),
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
            own.get_or_insert_with(|| sender.fill(first));
            size.cast_unsigned().next_power_of_two().cast_signed()
        } else {
            let lowest = rank & -rank;
            own = Some(comm.receive_array(rank - lowest, 0)?.0);
            lowest
        };
        let array = own.as_ref().expect("filled or received");
        let mut distance = below / 2;
        while distance > 0 {
            if rank + distance < size {
                if rank == 0 && turn == 0 {
                    comm.send_array(array, rank + distance, 0)?;
                } else {
                    sender.pass_on(array, rank + distance)?;
                }
            }
            distance /= 2;
        }
    }
    assert!(own.is_none_or(|array| array[..] == *first), "it has changed on its way");
    Ok(())
}

type Pattern = fn(&mut Sender<'_>, &[u8], usize) -> Result<(), MpiError>;

/// The cost of one way: its time, and how often arrays were asked for and copied to, and messages copied by the library.
#[derive(Clone, Copy, Default)]
struct Cost {
    time: Duration,
    gets: u64,
    copied: u64,
    eager: u64,
}

/// Both ways in turns; for each the costs of all rounds.
fn measure(comm: &Communicator, pattern: Pattern, len: usize, turns: usize) -> Result<[Vec<Cost>; 2], MpiError> {
    let first: Vec<u8> = (0..len).map(|at| (at * 7 + at / 251) as u8).collect();
    let mut costs = [Vec::new(), Vec::new()];
    for round in 0..=ROUNDS {
        for copies in [false, true] {
            let mut sender = Sender {
                comm,
                copies,
                gets: 0,
                copied: 0,
            };
            comm.barrier()?;
            let (begun, before) = (Instant::now(), comm.engine().stats().eager);
            pattern(&mut sender, &first, turns)?;
            let eager = comm.engine().stats().eager - before;
            comm.barrier()?;
            let cost = Cost {
                time: begun.elapsed(),
                gets: sender.gets,
                copied: sender.copied,
                eager,
            };
            // The first round gets the memory.
            if round > 0 {
                costs[usize::from(copies)].push(cost);
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
    let patterns: [(&str, Pattern); 3] = [("ping-pong", ping_pong), ("ring", ring), ("tree", tree)];
    println!(
        "{RANKS} ranks, medians of {ROUNDS} rounds, {TURNS} turns each; gets and copies of a round, all ranks together"
    );
    println!("pattern      bytes  way      µs/turn  gets  copies  by the library  passing on/copying");
    for (name, pattern) in patterns {
        for len in [64 << 10, 1 << 20] {
            let results = support::job(RANKS, |comm| measure(comm, pattern, len, TURNS));
            let ranks = results.into_iter().collect::<Result<Vec<_>, _>>()?;
            let ratios = ranks[0][0].iter().zip(&ranks[0][1]);
            let ratio = median(
                ratios
                    .map(|(on, copy)| on.time.as_secs_f64() / copy.time.as_secs_f64())
                    .collect(),
            );
            for (way, label) in ["passing", "copying"].into_iter().enumerate() {
                let time = median(ranks[0][way].iter().map(|cost| cost.time).collect());
                let sum = |of: fn(&Cost) -> u64| ranks.iter().map(|rank| of(&rank[way][0])).sum::<u64>();
                println!(
                    "{name:9} {len:9}  {label}  {:9.1}  {:4}  {:6}  {:14}  {ratio:.3}",
                    time.as_secs_f64() * 1e6 / TURNS as f64,
                    sum(|cost| cost.gets),
                    sum(|cost| cost.copied),
                    sum(|cost| cost.eager),
                );
            }
        }
    }
    Ok(())
}

/// Times around the ring, or down the tree, in a round.
const TURNS: usize = 20;
