//! A distributed shared memory in the manner of DSE (the DSE paper, section 3.1; `docs/papers.md`): processes read and
//! write one array, wherever its parts are, meet in barriers and share work by a counter. The example solves a heat
//! equation with it and compares the result with that of one process.
//!
//! ```sh
//! cargo run --release --example dsm                      # four ranks, threads of one process
//! hikyaku run -n 4 target/release/examples/dsm           # or processes, made by the launcher
//! ```
#![expect(unsafe_code, reason = "windows take pointers")]
#![expect(clippy::disallowed_methods, reason = "an example reads the clock that it wants")]

mod support;

use std::{
    error::Error,
    net::SocketAddr,
    str,
    time::{Duration, Instant},
};

use hikyaku::{
    Config, Contact,
    bootstrap::{self, Environment, World},
    mpi::{
        datatype::{Datatype, Kind},
        engine::{Communicator, Engine, Operands, Target, Window},
        error::Error as MpiError,
        operation::{Operation, Predefined},
    },
    transport::Transport,
};

const RANKS: u32 = 4;
/// Cells along each side of the plate.
const SIDE: usize = 192;
const STEPS: usize = 30;

/// An array of numbers that lies in equal parts at all processes, and a counter at the first.
struct Shared {
    window: Window,
    part: usize,
}

impl Shared {
    fn new(comm: &Communicator, len: usize) -> Result<Self, MpiError> {
        let part = len.div_ceil(comm.size() as usize);
        let window = Window::allocate(comm, 8 * (part as u64 + 1), 8)?;
        window.lock_all()?;
        Ok(Self { window, part })
    }

    /// Reads or writes the elements from `at` on: at each process that has some of them.
    fn access(&self, mut at: usize, mut base: *mut f64, mut len: usize, writes: bool) -> Result<(), MpiError> {
        let datatype = &Datatype::predefined(Kind::F64);
        while len > 0 {
            let here = len.min(self.part - at % self.part);
            let count = here as u64;
            let side = Operands {
                base: base.cast(),
                count,
                datatype,
            };
            let target = Target {
                rank: (at / self.part) as i32,
                displacement: (at % self.part) as i64,
                count,
                datatype,
            };
            // SAFETY: `read` and `write` borrow the memory until all has been flushed.
            unsafe {
                if writes {
                    self.window.put(&side, &target)?;
                } else {
                    self.window.get(&side, &target)?;
                }
            }
            (at, base, len) = (at + here, base.wrapping_add(here), len - here);
        }
        self.window.flush_all()
    }

    fn read(&self, at: usize, into: &mut [f64]) -> Result<(), MpiError> {
        self.access(at, into.as_mut_ptr(), into.len(), false)
    }

    fn write(&self, at: usize, from: &[f64]) -> Result<(), MpiError> {
        self.access(at, from.as_ptr().cast_mut(), from.len(), true)
    }

    /// The next number of the counter.
    fn next(&self) -> Result<i64, MpiError> {
        let (one, mut was) = ([1_i64], [0_i64]);
        let sum = Operation::predefined(Predefined::Sum);
        let place = (0, self.part as i64);
        // SAFETY: both live until all has been flushed.
        unsafe {
            let (one, was) = (one.as_ptr().cast(), was.as_mut_ptr().cast());
            self.window.fetch_and_op(one, was, Kind::I64, place, &sum)?;
        }
        self.window.flush(0)?;
        Ok(was[0])
    }

    fn free(self) -> Result<(), MpiError> {
        self.window.unlock_all()?;
        self.window.free()
    }
}

/// Hot at the left edge, cold elsewhere.
fn plate() -> Vec<f64> {
    (0..SIDE * SIDE)
        .map(|cell| if cell % SIDE == 0 { 100.0 } else { 0.0 })
        .collect()
}

/// A row after a step, from it and those above and below.
fn step(rows: &[f64]) -> Vec<f64> {
    let (above, row, below) = (&rows[..SIDE], &rows[SIDE..2 * SIDE], &rows[2 * SIDE..]);
    let mut next = row.to_vec();
    for x in 1..SIDE - 1 {
        next[x] = (above[x] + below[x] + row[x - 1] + row[x + 1]) / 4.0;
    }
    next
}

fn serial() -> Vec<f64> {
    let mut now = plate();
    for _ in 0..STEPS {
        let mut next = now.clone();
        for y in 1..SIDE - 1 {
            next[y * SIDE..(y + 1) * SIDE].copy_from_slice(&step(&now[(y - 1) * SIDE..(y + 2) * SIDE]));
        }
        now = next;
    }
    now
}

/// The plate as a process sees it at the end, and how many rows it has done.
type Outcome = Result<(Vec<f64>, usize), MpiError>;

fn parallel(comm: &Communicator) -> Outcome {
    let plates = [Shared::new(comm, SIDE * SIDE)?, Shared::new(comm, SIDE * SIDE)?];
    if comm.rank() == 0 {
        for shared in &plates {
            shared.write(0, &plate())?;
        }
    }
    comm.barrier()?;
    let inner = SIDE - 2;
    let (mut done, mut mine) = (0, plates[0].next()? as usize);
    let mut rows = vec![0.0; 3 * SIDE];
    for n in 0..STEPS {
        let (from, to) = (&plates[n % 2], &plates[(n + 1) % 2]);
        // Who is free takes the next row.
        while mine < (n + 1) * inner {
            let y = mine - n * inner;
            from.read(y * SIDE, &mut rows)?;
            to.write((y + 1) * SIDE, &step(&rows))?;
            done += 1;
            mine = plates[0].next()? as usize;
        }
        comm.barrier()?;
    }
    let mut result = vec![0.0; SIDE * SIDE];
    plates[STEPS % 2].read(0, &mut result)?;
    for shared in plates {
        shared.free()?;
    }
    Ok((result, done))
}

/// This process's part of a job that a launcher has started.
fn launched(mut job: World) -> Result<Outcome, Box<dyn Error>> {
    let config = Config {
        contact: Contact::of_job(job.job_key().bytes()),
        ..Config::default()
    };
    let builder = Transport::builder().config(config);
    let bound = Engine::bind(builder, "udp", job.bind_address()?, job.rank())?;
    job.put("dsm", bound.local_addr().to_string().as_bytes())?;
    job.fence()?;
    let addresses: Result<Vec<SocketAddr>, Box<dyn Error>> = job
        .get_all("dsm")?
        .iter()
        .map(|address| Ok(str::from_utf8(address)?.parse()?))
        .collect();
    let engine = bound.connect(&addresses?, support::options())?;
    let world = Communicator::world(&engine);
    let result = parallel(&world);
    world.barrier()?;
    engine.finalize(Duration::from_secs(2))?;
    job.finalize()?;
    Ok(result)
}

fn main() -> Result<(), Box<dyn Error>> {
    let begun = Instant::now();
    let expected = serial();
    let alone = begun.elapsed();
    let job = bootstrap::discover(&Environment::of_process())?;
    let begun = Instant::now();
    let (first, results) = match job.rank() {
        rank if job.size() > 1 => (rank, vec![launched(job)?]),
        _ => (0, support::job(RANKS, parallel)),
    };
    let together = begun.elapsed();
    for (rank, result) in (first..).zip(results) {
        let (plate, rows) = result?;
        if plate != expected {
            return Err(format!("rank {rank} sees another plate than one process alone").into());
        }
        println!("rank {rank} did {rows} rows");
    }
    if first == 0 {
        println!("{STEPS} steps of {SIDE}x{SIDE} cells: the same as by one process, in {together:?} ({alone:?})");
    }
    Ok(())
}
