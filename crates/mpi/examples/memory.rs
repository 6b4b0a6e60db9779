//! How much memory do the ranks of a host take when each has sent to each other one?
//!
//! ```text
//! hikyaku run -n 16 target/release/examples/memory [BYTES]
//! ```
//!
//! All ranks exchange blocks of BYTES (default 1024) with all others. Then each reads what the kernel says that it takes (Linux:
//! `Pss` in `/proc/self/smaps_rollup`, where memory that several processes share counts for each in part), and the first
//! rank prints the sums.

use mpi::{Error, collective::SystemOperation, traits::*};

/// A number of this process's, KB; 0 where the kernel does not say it.
fn kilobytes(of: &str) -> u64 {
    let all = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let line = all.lines().find_map(|line| line.strip_prefix(of));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).unwrap_or_default()
}

fn main() -> Result<(), Error> {
    let block = std::env::args()
        .nth(1)
        .map_or(1_024, |block| block.parse().expect("BYTES is a number"));
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (rank, size) = (world.rank(), world.size() as usize);
    let sent: Vec<u8> = (0..size * block).map(|at| (rank as usize + at / block) as u8).collect();
    let mut received = vec![0; size * block];
    world.all_to_all_into(&sent[..], &mut received[..])?;
    assert!(
        received
            .iter()
            .enumerate()
            .all(|(at, byte)| *byte == (rank as usize + at / block) as u8)
    );
    let own = [kilobytes("Pss:"), kilobytes("Pss_Shmem:")];
    let mut all = [0_u64; 2];
    world.all_reduce_into(&own[..], &mut all[..], SystemOperation::sum())?;
    if rank == 0 {
        let [all, shared] = all.map(|kilobytes| kilobytes / 1_024);
        println!("{size} ranks take {all} MB, {shared} MB of them memory in common");
    }
    Ok(())
}
