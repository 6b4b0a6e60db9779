//! Othello: a search of the game tree, in which all get their work from rank 0.
//!
//! ```text
//! hikyaku run -n 4 target/release/examples/othello [DEPTH [MOVES]]
//! ```
//!
//! From the opening position, MOVES moves (default 6) are played, each the best one by a search of DEPTH (default 6)
//! half-moves with alpha-beta pruning. Rank 0 divides each search into the answers to the possible moves; a rank that has
//! nothing to do asks for one, with the value of its last one, and rank 0 answers the first that asks, with the bounds
//! that are known by then. Alone, rank 0 does all of them.
//!
//! Which positions are searched depends on who is fast; move and value do not, and rank 0 compares them with those of a
//! search in one process. This is one of the programs with which the UDP protocol of DSE was measured: small messages
//! between processor 0 and all others.
//!
//! The program is `hikyaku_papers::programs::othello`, which simulated ranks run as well.

use hikyaku_papers::programs::othello::play;
use mpi::{Error, traits::*};

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1).map(|argument| {
        argument
            .parse::<u32>()
            .unwrap_or_else(|_| panic!("usage: othello [DEPTH [MOVES]]"))
    });
    let (depth, moves) = (arguments.next().unwrap_or(6).max(2), arguments.next().unwrap_or(6));
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let game = play(&world, depth, moves, &|_| ())?;
    if world.rank() == 0 {
        println!(
            "othello:{}, {depth} half-moves deep, last value {}: as in one process; {} positions by {} ranks in {:.1} ms \
             (one process: {} in {:.1} ms)",
            game.moves,
            game.value,
            game.seen,
            world.size(),
            game.together * 1e3,
            game.seen_alone,
            game.alone * 1e3
        );
    }
    Ok(())
}
