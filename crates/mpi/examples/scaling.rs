//! How many ranks, and which network, is this program worth? Heat that spreads over a plate, on the ranks that there are,
//! or on up to a thousand simulated ones and networks that are not there.
//!
//! ```text
//! hikyaku run -n 4 target/release/examples/scaling [SIDE [STEPS]]
//! cargo run --release -p hikyaku-mpi --features sim --example scaling -- [SIDE [STEPS]] simulate
//! ```
//!
//! The plate has SIDE × SIDE points (default 1024), and each of STEPS steps (default 10) makes every point the mean of
//! itself and its four neighbours; after each all agree on the largest change. The plate has no edges: it goes around in
//! both directions. Each rank has some of its rows, and swaps the outer ones with its neighbours.
//!
//! With `simulate` the same function runs as 1, 4, 16, ... ranks up to SIDE, over Ethernet of 1, 10 and 100 Gb/s, in
//! virtual time, and a table says how much faster each is than one rank. Points are computed for real, and by all alike;
//! [`POINT`] says how long that takes there. What networks count and lose is at hand as well: `hikyaku::sim::Outcome`.

use std::{ops::Range, time::Duration};

use mpi::{Error, collective::SystemOperation, point_to_point as p2p, topology::SimpleCommunicator, traits::*};

/// The time in which a simulated rank computes a point.
#[cfg(feature = "sim")]
const POINT: Duration = Duration::from_nanos(1);

/// Simulations of more than a hundred ranks are faster with it.
#[cfg(feature = "sim")]
#[global_allocator]
static HEAP: hikyaku::sim::Heap = hikyaku::sim::Heap;

/// The result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    /// Time of all steps.
    pub(crate) time: Duration,
    /// The largest change of a point in the last one, which is the same for any number of ranks.
    pub(crate) change: f64,
}

/// The rows of a rank.
fn rows(side: usize, rank: i32, size: i32) -> Range<usize> {
    let first = |rank: i32| side * rank as usize / size as usize;
    first(rank)..first(rank + 1)
}

/// How warm a point is at first: one quarter of the plate is hot.
fn warmth(side: usize, row: usize, column: usize) -> f64 {
    let hot = row < side / 2 && column < side / 2;
    f64::from(u8::from(hot))
}

/// One step: `new` from the rows and those before and after them. Gives the largest change.
fn step(rows: &[f64], new: &mut [f64], side: usize) -> f64 {
    let mut change = 0.0_f64;
    for (row, new) in new.chunks_exact_mut(side).enumerate() {
        let [above, here, below] = [row, row + 1, row + 2].map(|row| &rows[row * side..][..side]);
        for column in 0..side {
            let left = here[column.checked_sub(1).unwrap_or(side - 1)];
            let right = here[if column + 1 < side { column + 1 } else { 0 }];
            new[column] = (here[column] + above[column] + below[column] + left + right) / 5.0;
            change = change.max((new[column] - here[column]).abs());
        }
    }
    change
}

/// Computing so many points takes time: natively by itself, and for a simulated rank as much as this says.
fn compute(points: usize) {
    #[cfg(feature = "sim")]
    hikyaku::sim::compute(POINT * points as u32).expect("the simulation goes on");
    #[cfg(not(feature = "sim"))]
    let _ = points;
}

/// Lets heat spread for `steps` steps. Every rank has at least one row.
pub(crate) fn spread(world: &SimpleCommunicator, side: usize, steps: u32) -> Result<Spread, Error> {
    let (rank, size) = (world.rank(), world.size());
    let next = world.process_at_rank((rank + 1) % size);
    let previous = world.process_at_rank((rank + size - 1) % size);
    let own = rows(side, rank, size);
    let points = own.flat_map(|row| (0..side).map(move |column| warmth(side, row, column)));

    // With a row before and one after them, which others have.
    let mut all = vec![0.0; side];
    all.extend(points);
    all.resize(all.len() + side, 0.0);
    let last = all.len() - side;
    let (mut new, mut change) = (vec![0.0; last - side], 0.0);
    world.barrier()?;
    let begun = mpi::time();
    for _ in 0..steps {
        let (before, own) = all.split_at_mut(side);
        let (own, after) = own.split_at_mut(last - side);
        p2p::send_receive_into(&own[own.len() - side..], &next, before, &previous)?;
        p2p::send_receive_into(&own[..side], &previous, after, &next)?;
        let most = step(&all, &mut new, side);
        compute(new.len());
        all[side..last].copy_from_slice(&new);
        world.all_reduce_into(&most, &mut change, SystemOperation::max())?;
    }
    let time = Duration::from_secs_f64(mpi::time() - begun);
    Ok(Spread { time, change })
}

/// The same program as many ranks that there are not.
#[cfg(feature = "sim")]
fn simulate(side: usize, steps: u32) -> Result<(), Box<dyn std::error::Error>> {
    use hikyaku::sim::Simulation;

    const NETWORKS: [f64; 3] = [1e9, 10e9, 100e9];

    println!("{side} x {side} points, {steps} steps: how many times faster than one rank");
    println!("{:>6} {:>9} {:>9} {:>9}", "ranks", "1 Gb/s", "10 Gb/s", "100 Gb/s");
    let run = |ranks: u32, bandwidth: f64| {
        let mut simulation = Simulation::new(ranks, 1);
        simulation.network.bandwidth = bandwidth;
        simulation.run(move |_| spread(&mpi::initialize().unwrap().world(), side, steps).unwrap())
    };
    let alone = run(1, NETWORKS[0])?.results[0];
    for ranks in (0..8)
        .map(|power| 4_u32.pow(power))
        .take_while(|ranks| *ranks as usize <= side)
    {
        print!("{ranks:>6}");
        for bandwidth in NETWORKS {
            let outcome = run(ranks, bandwidth)?;
            assert_eq!(outcome.results[0].change, alone.change, "as one rank has it");
            let time = outcome.results.iter().map(|spread| spread.time).max();
            let time = time.unwrap_or_default();
            print!(" {:>9.2}", alone.time.as_secs_f64() / time.as_secs_f64());
        }
        println!();
    }
    Ok(())
}

#[cfg(not(feature = "sim"))]
fn simulate(_: usize, _: u32) -> Result<(), Box<dyn std::error::Error>> {
    Err("simulated ranks need the feature `sim`: cargo run --features sim ...".into())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    const USAGE: &str = "usage: scaling [SIDE [STEPS]] [simulate]";
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let simulated = arguments.pop_if(|last| last == "simulate").is_some();
    let numbers: Result<Vec<u32>, _> = arguments.iter().map(|argument| argument.parse()).collect();
    let (side, steps) = match numbers.map_err(|_| USAGE)?[..] {
        [] => (1_024, 10),
        [side] => (side, 10),
        [side, steps] => (side, steps),
        _ => return Err(USAGE.into()),
    };
    if !(2..=1 << 15).contains(&side) || steps == 0 {
        return Err("SIDE is 2 to 32768, STEPS at least 1".into());
    }
    let side = side as usize;
    if simulated {
        return simulate(side, steps);
    }
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    if world.size() as usize > side {
        return Err(format!("{} ranks, but {side} rows", world.size()).into());
    }
    let Spread { time, change } = spread(&world, side, steps)?;
    if world.rank() == 0 {
        let size = world.size();
        println!("scaling: {steps} steps of {side} x {side} points on {size} ranks: {time:.1?}, last change {change}");
    }
    Ok(())
}
