//! Ranks in pairs throw messages of growing sizes back and forth.

use mpi::{Error, traits::*};

const ROUNDS: usize = 20;

pub(crate) fn main() -> Result<(), Error> {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (rank, partner) = (world.rank(), world.rank() ^ 1);
    if partner >= world.size() {
        return Ok(());
    }
    let partner = world.process_at_rank(partner);
    for size in [0, 1, 8, 1_000, 30_000, 1_000_000] {
        let mut ball: Vec<u8> = (0..size).map(|i| i as u8).collect();
        let start = mpi::time();
        for _ in 0..ROUNDS {
            if rank % 2 == 0 {
                partner.send(&ball)?;
                partner.receive_into(&mut ball)?;
            } else {
                partner.receive_into(&mut ball)?;
                // Who throws it back changes it.
                ball.iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
                partner.send(&ball)?;
            }
        }
        let changed = ROUNDS as u8;
        assert!(
            ball.iter()
                .enumerate()
                .all(|(i, byte)| *byte == (i as u8).wrapping_add(changed))
        );
        if rank == 0 {
            println!(
                "{size} bytes: {:.1} us there and back",
                (mpi::time() - start) / ROUNDS as f64 * 1e6
            );
        }
    }
    Ok(())
}
