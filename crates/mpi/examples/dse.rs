//! A distributed shared memory that creates its processes at run time, in the manner of DSE (the DSE paper, section 3.1;
//! `docs/papers.md`), and two of the programs that the paper traced: a matrix product and the knight's tour.
//!
//! ```text
//! hikyaku run -n 1 target/release/examples/dse [PROCESSES [SIDE]]
//! ```
//!
//! The job's processes create PROCESSES others (default 3) for each piece of work, and share memory with them, which lies
//! in parts at all of them: each reads and writes it wherever it is. Work is taken from a shared counter, and barriers
//! divide its steps. The matrix product (of SIDE rows, default 48) creates processes once, and moves much; the knight's
//! tour creates them again for each square to begin at, and its messages are small. Without a launcher that can start
//! processes, the example says so and ends.
//!
//! Not in rsmpi.

use std::{
    env,
    process::{Command, ExitCode},
};

use mpi::{
    Rank,
    collective::SystemOperation,
    environment::Universe,
    topology::{InterCommunicator, MergeOrder, SimpleCommunicator},
    traits::*,
    window::{LockKind, Window},
};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let mut universe = mpi::initialize().unwrap();
    let words: Vec<String> = env::args().skip(1).collect();
    let worked = match universe.world().parent() {
        Some(parent) => help(&mut universe, &parent, &words),
        None => lead(&universe, &words),
    };
    match worked {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("dse: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A memory of numbers that lies in equal parts at processes of which some were created for it, with a counter.
struct Shared {
    processes: SimpleCommunicator,
    window: Window<i64>,
    part: usize,
}

impl Shared {
    /// All processes on both sides open it together: those that have created others, and those that were created.
    fn open(between: &InterCommunicator, order: MergeOrder, len: usize) -> Outcome<Self> {
        let processes = between.merge(order)?;
        let part = len.div_ceil(processes.size() as usize);
        Ok(Self {
            window: Window::allocate(&processes, part + 1)?,
            processes,
            part,
        })
    }

    /// Where the number `at` is, and how many of the next `len` are there, too.
    fn place(&self, at: usize, len: usize) -> (Rank, usize, usize) {
        let offset = at % self.part;
        ((at / self.part) as Rank, offset, len.min(self.part - offset))
    }

    fn read(&self, mut at: usize, mut into: &mut [i64]) -> Outcome<()> {
        while !into.is_empty() {
            let (rank, offset, here) = self.place(at, into.len());
            let (first, rest) = into.split_at_mut(here);
            self.window
                .lock(LockKind::Shared, rank, |epoch| epoch.get_into(first, rank, offset))?;
            (at, into) = (at + here, rest);
        }
        Ok(())
    }

    fn write(&self, mut at: usize, mut from: &[i64]) -> Outcome<()> {
        while !from.is_empty() {
            let (rank, offset, here) = self.place(at, from.len());
            let (first, rest) = from.split_at(here);
            self.window
                .lock(LockKind::Shared, rank, |epoch| epoch.put(first, rank, offset))?;
            (at, from) = (at + here, rest);
        }
        Ok(())
    }

    /// Adds to a number; gives what it was.
    fn add(&self, at: usize, by: i64) -> Outcome<i64> {
        let (rank, offset, _) = self.place(at, 1);
        self.add_at(rank, offset, by)
    }

    /// The next number of the counter.
    fn next(&self) -> Outcome<usize> {
        Ok(self.add_at(0, self.part, 1)? as usize)
    }

    fn add_at(&self, rank: Rank, offset: usize, by: i64) -> Outcome<i64> {
        Ok(self.window.lock(LockKind::Shared, rank, |epoch| {
            epoch.fetch_and_op(&by, rank, offset, SystemOperation::sum())
        })?)
    }

    fn barrier(&self) -> Outcome<()> {
        Ok(self.processes.barrier()?)
    }

    /// The process at which a person looks at results.
    fn is_console(&self) -> bool {
        self.processes.rank() == 0
    }
}

/// A program: what all processes do, those that were created with its words, the others with what they have created.
trait Program {
    /// Numbers of shared memory.
    fn memory(&self) -> usize;

    /// The console's part before the others begin, and after they have ended.
    fn prepare(&self, _: &Shared) -> Outcome<()> {
        Ok(())
    }

    /// Everyone's part.
    fn work(&self, memory: &Shared) -> Outcome<()>;

    /// The words from which a created process makes the same program.
    fn words(&self) -> Vec<String>;
}

/// Creates processes, runs a program with them, lets the console look at the results, and sees them off.
fn run(
    world: &SimpleCommunicator,
    processes: Rank,
    program: &dyn Program,
    look: impl FnOnce(&Shared) -> Outcome<()>,
) -> Outcome<()> {
    let mut command = Command::new(env::current_exe()?);
    command.args(program.words());
    let between = world.process_at_rank(0).spawn(&command, processes)?;
    take_part(&between, MergeOrder::Low, program, look)?;
    Ok(between.disconnect()?)
}

fn take_part(
    between: &InterCommunicator,
    order: MergeOrder,
    program: &dyn Program,
    look: impl FnOnce(&Shared) -> Outcome<()>,
) -> Outcome<()> {
    let memory = Shared::open(between, order, program.memory())?;
    if memory.is_console() {
        program.prepare(&memory)?;
    }
    memory.barrier()?;
    program.work(&memory)?;
    memory.barrier()?;
    if memory.is_console() {
        look(&memory)?;
    }
    Ok(memory.window.free()?)
}

/// The processes of the job: they begin programs, and take part.
fn lead(universe: &Universe, words: &[String]) -> Outcome<()> {
    let world = universe.world();
    let number = |at: usize, default: usize| words.get(at).map_or(Ok(default), |word| word.parse());
    let (processes, side) = (number(0, 3)? as Rank, number(1, 48)?);
    let product = Product { side };
    let multiplied = run(&world, processes, &product, |memory| product.check(memory));
    if let Err(error) = multiplied {
        // Whether processes can be created is the launcher's matter.
        if env::var_os("HIKYAKU_RUN_ADDRESS").is_none() {
            if world.rank() == 0 {
                println!("no processes are created: {error}");
            }
            return Ok(());
        }
        return Err(error);
    }
    let (mut tours, mut searches) = (0, 0);
    // Squares that a turn or a reflection of the board brings together have as many tours.
    for (square, alike) in [(0, 4), (1, 8), (2, 4), (6, 4), (7, 4), (12, 1)] {
        let tour = Tour { square };
        run(&world, processes, &tour, |memory| {
            let mut found = [0];
            memory.read(0, &mut found)?;
            tours += alike * found[0];
            Ok(())
        })?;
        searches += 1;
    }
    if world.rank() == 0 {
        println!(
            "{side}x{side} matrices, multiplied by {} processes: as by one; {tours} knight's tours of {BOARD}x{BOARD} \
             squares; {} processes were created, {processes} at a time",
            world.size() + processes,
            processes * (1 + searches)
        );
        if tours != TOURS {
            return Err(format!("there are {TOURS} tours").into());
        }
    }
    Ok(())
}

/// A process that was created.
fn help(universe: &mut Universe, parent: &InterCommunicator, words: &[String]) -> Outcome<()> {
    let [name, number] = words else {
        return Err("a created process has the words of its program".into());
    };
    let program: Box<dyn Program> = match &name[..] {
        PRODUCT => Box::new(Product { side: number.parse()? }),
        TOUR => Box::new(Tour {
            square: number.parse()?,
        }),
        other => return Err(format!("there is no program `{other}`").into()),
    };
    take_part(parent, MergeOrder::High, &*program, |_| Ok(()))?;
    universe.disconnect_parent();
    Ok(())
}

const PRODUCT: &str = "product";

/// C = A B. A process that is free takes the next row of C: it reads a row of A, and once all of B.
struct Product {
    side: usize,
}

impl Product {
    /// A and B, one after the other.
    fn factors(&self) -> Vec<i64> {
        let entry = |at: usize| (at * at % 19) as i64 - 9;
        (0..2 * self.side * self.side).map(entry).collect()
    }

    fn row(&self, a: &[i64], b: &[i64]) -> Vec<i64> {
        let mut row = vec![0; self.side];
        for (factor, of_b) in a.iter().zip(b.chunks(self.side)) {
            for (sum, entry) in row.iter_mut().zip(of_b) {
                *sum += factor * entry;
            }
        }
        row
    }

    /// Compares with what one process computes.
    fn check(&self, memory: &Shared) -> Outcome<()> {
        let (side, factors) = (self.side, self.factors());
        let (a, b) = factors.split_at(side * side);
        let alone: Vec<i64> = a.chunks(side).flat_map(|a| self.row(a, b)).collect();
        let mut together = vec![0; side * side];
        memory.read(2 * side * side, &mut together)?;
        if together == alone {
            Ok(())
        } else {
            Err("the product differs from that of one process".into())
        }
    }
}

impl Program for Product {
    fn memory(&self) -> usize {
        3 * self.side * self.side
    }

    fn prepare(&self, memory: &Shared) -> Outcome<()> {
        memory.write(0, &self.factors())
    }

    fn work(&self, memory: &Shared) -> Outcome<()> {
        let side = self.side;
        let (mut a, mut b) = (vec![0; side], Vec::new());
        loop {
            let row = memory.next()?;
            if row >= side {
                return Ok(());
            }
            if b.is_empty() {
                b.resize(side * side, 0);
                memory.read(side * side, &mut b)?;
            }
            memory.read(row * side, &mut a)?;
            memory.write((2 * side + row) * side, &self.row(&a, &b))?;
        }
    }

    fn words(&self) -> Vec<String> {
        vec![PRODUCT.into(), self.side.to_string()]
    }
}

const TOUR: &str = "tour";
/// Squares along each side of the board.
const BOARD: i32 = 5;
const SQUARES: u32 = (BOARD * BOARD) as u32;
/// Tours of it that may end anywhere: a known number.
const TOURS: i64 = 1728;
/// Squares of a tour that make a task.
const BEGUN: u32 = 6;

/// All tours of a knight from one square: it visits each square once. A process that is free takes
/// the next beginning of a tour.
struct Tour {
    square: u32,
}

/// The squares that a knight on `square` reaches.
fn moves(square: u32) -> impl Iterator<Item = u32> {
    let (x, y) = (square as i32 % BOARD, square as i32 / BOARD);
    let steps = [(1, 2), (2, 1), (2, -1), (1, -2), (-1, -2), (-2, -1), (-2, 1), (-1, 2)];
    steps.into_iter().filter_map(move |(right, down)| {
        let (x, y) = (x + right, y + down);
        let is_there = (0..BOARD).contains(&x) && (0..BOARD).contains(&y);
        is_there.then_some((y * BOARD + x) as u32)
    })
}

/// Goes on from `square`, where `visited` are done, and shows each way of `len` squares: its squares, and the last one.
fn ways(square: u32, visited: u32, len: u32, seen: &mut dyn FnMut(u32, u32)) {
    let visited = visited | 1 << square;
    if visited.count_ones() == len {
        return seen(visited, square);
    }
    for next in moves(square) {
        if visited & 1 << next == 0 {
            ways(next, visited, len, seen);
        }
    }
}

impl Program for Tour {
    /// The number of tours.
    fn memory(&self) -> usize {
        1
    }

    fn work(&self, memory: &Shared) -> Outcome<()> {
        // All find the same beginnings, in the same order.
        let mut tasks = Vec::new();
        ways(self.square, 0, BEGUN, &mut |visited, last| tasks.push((visited, last)));
        while let Some(&(visited, last)) = tasks.get(memory.next()?) {
            let mut tours = 0;
            ways(last, visited, SQUARES, &mut |_, _| tours += 1);
            if tours > 0 {
                memory.add(0, tours)?;
            }
        }
        Ok(())
    }

    fn words(&self) -> Vec<String> {
        vec![TOUR.into(), self.square.to_string()]
    }
}
