//! Times of single operations, in the manner of the OSU micro-benchmarks: `xtask/peers/osu.c` does the same for other
//! MPIs, and `cargo xtask bench-mpi` compares them.
//!
//! `osu OPERATION ITERATIONS SIZE…` prints a line `SIZE NANOSECONDS` for each size: of a one-way message (`latency`), of a
//! message in a window of 64 (`bandwidth`), or of one `barrier`, `allreduce`, `bcast` or `alltoall`; the median of ten
//! batches. Of collectives it is the mean over ranks, and before each there is a barrier that does not count. Beyond 16
//! KiB there are fewer iterations, in proportion.

use mpi::{Error, collective::SystemOperation, topology::SimpleCommunicator, traits::*};

const WINDOW: usize = 64;
const BATCHES: usize = 10;
/// Bytes beyond which there are fewer iterations.
const LARGE: usize = 16 << 10;

struct Bench<'a> {
    world: &'a SimpleCommunicator,
    out: Vec<u8>,
    into: Vec<u8>,
    numbers: (Vec<f64>, Vec<f64>),
}

impl Bench<'_> {
    fn latency(&mut self) -> Result<(), Error> {
        let rank = self.world.rank();
        if rank > 1 {
            return Ok(());
        }
        let other = self.world.process_at_rank(1 - rank);
        if rank == 0 {
            other.send(&self.out[..])?;
            other.receive_into(&mut self.into[..])?;
        } else {
            other.receive_into(&mut self.into[..])?;
            other.send(&self.out[..])?;
        }
        Ok(())
    }

    fn bandwidth(&mut self) -> Result<(), Error> {
        let rank = self.world.rank();
        if rank > 1 {
            return Ok(());
        }
        let other = self.world.process_at_rank(1 - rank);
        let (out, into) = (&self.out, &mut self.into);
        let mut ended = Vec::new();
        if rank == 0 {
            mpi::request::multiple_scope(WINDOW, |scope, requests| {
                for _ in 0..WINDOW {
                    requests.add(other.immediate_send(scope, &out[..]));
                }
                requests.wait_all(&mut ended)
            })?;
            other.receive_into(&mut into[..1])?;
        } else {
            mpi::request::multiple_scope(WINDOW, |scope, requests| {
                for place in into.chunks_exact_mut(out.len()) {
                    requests.add(other.immediate_receive_into(scope, place));
                }
                requests.wait_all(&mut ended)
            })?;
            other.send(&out[..1])?;
        }
        Ok(())
    }

    fn allreduce(&mut self) -> Result<(), Error> {
        let (own, sum) = &mut self.numbers;
        self.world
            .all_reduce_into(&own[..], &mut sum[..], SystemOperation::sum())
    }

    /// Seconds of so many operations, one after the other.
    fn loop_of(&mut self, operation: &str, iterations: usize) -> Result<f64, Error> {
        let start = mpi::time();
        for _ in 0..iterations {
            self.run(operation)?;
        }
        Ok(mpi::time() - start)
    }

    /// The same with a barrier before each, which does not count.
    fn in_step(&mut self, operation: &str, iterations: usize) -> Result<f64, Error> {
        let mut seconds = 0.0;
        for _ in 0..iterations {
            self.world.barrier()?;
            let start = mpi::time();
            self.run(operation)?;
            seconds += mpi::time() - start;
        }
        Ok(seconds)
    }

    fn run(&mut self, operation: &str) -> Result<(), Error> {
        match operation {
            "latency" => self.latency(),
            "bandwidth" => self.bandwidth(),
            "barrier" => self.world.barrier(),
            "allreduce" => self.allreduce(),
            "bcast" => self.world.process_at_rank(0).broadcast_into(&mut self.out[..]),
            "alltoall" => self.world.all_to_all_into(&self.out[..], &mut self.into[..]),
            other => panic!("there is no operation `{other}`"),
        }
    }
}

/// Measures an operation with messages of each of the `sizes`, and prints the lines at rank 0.
pub(crate) fn measure(
    world: &SimpleCommunicator,
    operation: &str,
    iterations: usize,
    sizes: &[usize],
) -> Result<(), Error> {
    let ranks = world.size() as usize;
    let (per_iteration, sent, received) = match operation {
        "latency" => (2, 1, 1),
        "bandwidth" => (WINDOW, 1, WINDOW),
        "alltoall" => (1, ranks, ranks),
        _ => (1, 1, 1),
    };
    let in_step = matches!(operation, "allreduce" | "bcast" | "alltoall");
    let alone = matches!(operation, "latency" | "bandwidth");
    for &size in sizes {
        let mut bench = Bench {
            world,
            out: vec![0; size * sent],
            into: vec![0; size * received],
            numbers: (vec![0.0; size / 8], vec![0.0; size / 8]),
        };
        let iterations = (iterations / BATCHES / (size / LARGE).max(1)).max(1);
        let mut times = Vec::new();
        // The first batch warms up.
        for _ in 0..=BATCHES {
            world.barrier()?;
            let mut seconds = if in_step {
                bench.in_step(operation, iterations)?
            } else {
                bench.loop_of(operation, iterations)?
            };
            if !alone {
                let own = seconds;
                world.all_reduce_into(&own, &mut seconds, SystemOperation::sum())?;
                seconds /= ranks as f64;
            }
            times.push(seconds * 1e9 / (iterations * per_iteration) as f64);
        }
        times.remove(0);
        times.sort_by(f64::total_cmp);
        if world.rank() == 0 {
            println!(
                "{size} {:.1}",
                f64::midpoint(times[BATCHES / 2 - 1], times[BATCHES / 2])
            );
        }
    }
    Ok(())
}

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [operation, iterations, sizes @ ..] = &arguments[..] else {
        panic!("usage: osu OPERATION ITERATIONS SIZE…");
    };
    let number = |text: &String| {
        text.parse::<usize>()
            .unwrap_or_else(|_| panic!("`{text}` is no number"))
    };
    let universe = mpi::initialize().unwrap();
    let sizes: Vec<usize> = sizes.iter().map(number).collect();
    measure(&universe.world(), operation, number(iterations), &sizes)
}
