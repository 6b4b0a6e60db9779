//! Successive over-relaxation: a plate whose left edge is hot, on a grid of ranks that talk to their neighbours.
//!
//! ```text
//! hikyaku run -n 4 target/release/examples/sor [SIZE [ITERATIONS]] [strips] [replies] [report=N]
//! ```
//!
//! SIZE (default 64) is the number of points along each side of the plate, ITERATIONS (default 10000) the most that are
//! done. Each is one sweep over the red points and one over the black ones, as on a chessboard; after each half, ranks
//! exchange the edges of their parts. Every tenth iteration all agree how much still changes, and stop below 1e-9.
//! With `strips` each rank has whole rows, so two neighbours at most. With `replies` each message is answered by a byte
//! that its sender waits for, as for a write to shared memory. With `report=N` all send their rows to rank 0 after
//! every so many iterations, and it prints how warm the plate is on the average.
//!
//! Which points a sweep reads does not depend on how the plate is divided, so the result is that of one process to the
//! last bit. Rank 0 collects the parts, compares, and says how long both took. The program is
//! `hikyaku_papers::programs::sor`, which simulated ranks run as well.

use hikyaku_papers::programs::sor::{Job, solve};
use mpi::Error;

/// The options of the command line.
fn job(arguments: impl Iterator<Item = String>) -> Option<Job> {
    let mut job = Job {
        size: 64,
        iterations: 10_000,
        strips: false,
        report: 0,
        replies: false,
    };
    let mut numbers = 0;
    for argument in arguments {
        if argument == "strips" {
            job.strips = true;
        } else if argument == "replies" {
            job.replies = true;
        } else if let Some(every) = argument.strip_prefix("report=") {
            job.report = every.parse().ok()?;
        } else {
            let number = argument.parse().ok()?;
            match numbers {
                0 => job.size = number,
                1 => job.iterations = number,
                _ => return None,
            }
            numbers += 1;
        }
    }
    Some(job)
}

fn main() -> Result<(), Error> {
    let job = job(std::env::args().skip(1)).expect("usage: sor [SIZE [ITERATIONS]] [strips] [replies] [report=N]");
    let universe = mpi::initialize().unwrap();
    let told = |iteration, mean| println!("sor: after {iteration} iterations, mean of the first rows {mean:.6}");
    if let Some(solved) = solve(&universe.world(), job, &|_| (), &told)? {
        println!(
            "sor: {} x {} points on {} x {} ranks, {} iterations, middle {:.6}: as in one process; {:.1} ms \
             (one process: {:.1} ms)",
            job.size,
            job.size,
            solved.dims[0],
            solved.dims[1],
            solved.iterations,
            solved.middle,
            solved.together * 1e3,
            solved.alone * 1e3
        );
    }
    Ok(())
}
