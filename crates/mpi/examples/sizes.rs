//! Sums over all ranks of lists whose length changes from call to call: what RS-DFT does, with its large `allreduce`.
//!
//! ```text
//! hikyaku run -n 4 target/release/examples/sizes [LARGEST [CALLS]]
//! ```
//!
//! CALLS (default 200) times, all add up lists of as many numbers as the call's number decides: any number up to LARGEST
//! (default 100000), small ones as often as large ones. Every sum is compared with one that this rank computes alone
//! from what it knows that the others have: the numbers are whole, so the order of adding makes no difference.
//!
//! Rank 0 prints a table: for each power of two, how many calls had at least as many numbers but less than twice, the
//! median of their times, and the rate of the list's bytes.

use mpi::{Error, Rank, collective::SystemOperation, topology::SimpleCommunicator, traits::*};

/// Well-mixed bits of a number (the finaliser of SplitMix64).
fn mix(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

/// How many numbers the lists of a call have: all lengths of bits up to that of `largest` are equally frequent.
fn length(call: u64, largest: u64) -> usize {
    let random = mix(2 * call + 1);
    let bits = random >> 32 & 63;
    let magnitude = 1 << (bits % u64::from(largest.ilog2() + 1));
    (magnitude + random % magnitude).min(largest) as usize
}

/// The number at a place of a rank's list.
fn element(call: u64, rank: Rank, index: usize) -> f64 {
    (mix(call << 40 ^ (index as u64) << 16 ^ rank as u64) % 2_000_001) as f64 - 1_000_000.0
}

/// Adds up `calls` lists of up to `largest` numbers, compares each sum, and prints the table at rank 0.
pub(crate) fn add_up(world: &SimpleCommunicator, largest: u64, calls: u64) -> Result<(), Error> {
    let (rank, size) = (world.rank(), world.size());

    // Times and bytes, by the length's bits.
    let mut table = vec![Vec::new(); largest.ilog2() as usize + 1];
    let (mut together, mut serial) = (0.0, 0.0);
    for call in 0..calls {
        let len = length(call, largest);
        let own: Vec<f64> = (0..len).map(|index| element(call, rank, index)).collect();
        let mut sums = vec![f64::NAN; len];
        world.barrier()?;
        let start = mpi::time();
        world.all_reduce_into(&own[..], &mut sums[..], SystemOperation::sum())?;
        let time = mpi::time() - start;
        table[len.ilog2() as usize].push((time, len));
        together += time;

        let start = mpi::time();
        for (index, sum) in sums.into_iter().enumerate() {
            let expected: f64 = (0..size).map(|rank| element(call, rank, index)).sum();
            assert_eq!(sum, expected, "call {call}, rank {rank}: element {index} of {len}");
        }
        serial += mpi::time() - start;
    }
    if rank == 0 {
        println!("{:>8} {:>6} {:>10} {:>8}", "numbers", "calls", "median us", "MB/s");
        for (bits, row) in table.iter_mut().enumerate().filter(|(_, row)| !row.is_empty()) {
            row.sort_by(|a, b| a.0.total_cmp(&b.0));
            let (time, len) = row[row.len() / 2];
            println!(
                "{:>8} {:>6} {:>10.1} {:>8.1}",
                format!("{}..", 1_u64 << bits),
                row.len(),
                time * 1e6,
                (len * size_of::<f64>()) as f64 / time / 1e6
            );
        }
        println!(
            "sizes: {calls} sums over {size} ranks of up to {largest} numbers: as in one process; {:.1} ms (one process: \
             {:.1} ms)",
            together * 1e3,
            serial * 1e3
        );
    }
    Ok(())
}

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1).map(|argument| {
        argument
            .parse::<u64>()
            .unwrap_or_else(|_| panic!("usage: sizes [LARGEST [CALLS]]"))
    });
    let (largest, calls) = (
        arguments.next().unwrap_or(100_000).max(1),
        arguments.next().unwrap_or(200),
    );
    let universe = mpi::initialize().unwrap();
    add_up(&universe.world(), largest, calls)
}
