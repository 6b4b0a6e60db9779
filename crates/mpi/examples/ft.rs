//! A Fourier transform in three dimensions, in the manner of the benchmark FT of NPB (NAS Parallel Benchmarks 3).
//!
//! ```text
//! hikyaku run -n 4 target/release/examples/ft [S | W | A | SIZE]
//! ```
//!
//! The heat equation is solved by its spectrum: a field of random numbers (NPB's generator) is transformed once; then
//! in each iteration the spectrum is multiplied by what time does to it, transformed back, and 1024 of its points are
//! summed up. Each rank has some planes of the field for two of the dimensions; for the third, all ranks swap columns
//! once a transform (`MPI_Alltoall`, or `MPI_Alltoallv` if planes do not go round evenly). The calls are those of NPB:
//! rank 0 reads the arguments and tells the others (two broadcasts); all is transformed once before the clock starts (a
//! barrier); the points are summed up at rank 0. That makes 8 alltoalls, 6 reductions, 2 broadcasts and a barrier.
//!
//! The classes S (64 x 64 x 64, the default), W and A (256 x 256 x 128) are verified by the checksums that NPB publishes,
//! to 12 digits. With a SIZE, a power of two, a cube of that is transformed, and rank 0 compares with the checksums of
//! one process. Any number of ranks will do; some have nothing to do if there are more than planes.

use std::{f64::consts::PI, ops::Range};

use mpi::{
    Count, Error,
    collective::SystemOperation,
    datatype::{Partition, PartitionMut},
    topology::SimpleCommunicator,
    traits::*,
};

/// How fast heat spreads.
const ALPHA: f64 = 1e-6;
/// NPB's generator: x -> 5^13 x mod 2^46, beginning with this.
const SEED: u64 = 314_159_265;
const FACTOR: u64 = 1_220_703_125;
const MODULUS: u64 = 1 << 46;

#[derive(Clone, Copy, Debug, Default, Equivalence)]
struct Complex {
    re: f64,
    im: f64,
}

impl std::ops::Add for Complex {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            re: self.re + other.re,
            im: self.im + other.im,
        }
    }
}

impl std::ops::Sub for Complex {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self {
            re: self.re - other.re,
            im: self.im - other.im,
        }
    }
}

impl std::ops::Mul for Complex {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        Self {
            re: self.re * other.re - self.im * other.im,
            im: self.re * other.im + self.im * other.re,
        }
    }
}

impl std::ops::Mul<f64> for Complex {
    type Output = Self;
    fn mul(self, factor: f64) -> Self {
        Self {
            re: self.re * factor,
            im: self.im * factor,
        }
    }
}

#[derive(Clone, Copy)]
enum Direction {
    Forward,
    Back,
}

/// Transforms of one length: a power of two.
struct Transform {
    roots: Vec<Complex>,
    scratch: Vec<Complex>,
}

impl Transform {
    fn new(len: usize) -> Self {
        assert!(len.is_power_of_two(), "{len} is no power of two");
        let root = |k: usize| {
            let angle = 2.0 * PI * k as f64 / len as f64;
            Complex {
                re: angle.cos(),
                im: angle.sin(),
            }
        };
        Self {
            roots: (0..len / 2).map(root).collect(),
            scratch: vec![Complex::default(); len],
        }
    }

    /// Transforms a line in place, without scaling (Stockham's way: each pass puts halves in order). As in NPB, forward
    /// has the positive sign in its exponent.
    fn run(&mut self, line: &mut [Complex], direction: Direction) {
        let half = line.len() / 2;
        let mut run = 1;
        while run < line.len() {
            for start in (0..half).step_by(run) {
                let mut root = self.roots[start];
                if matches!(direction, Direction::Back) {
                    root.im = -root.im;
                }
                let halves = line[start..][..run].iter().zip(&line[half + start..][..run]);
                let (sums, differences) = self.scratch[2 * start..][..2 * run].split_at_mut(run);
                for ((a, b), (sum, difference)) in halves.zip(sums.iter_mut().zip(differences)) {
                    *sum = *a + *b;
                    *difference = (*a - *b) * root;
                }
            }
            line.copy_from_slice(&self.scratch);
            run *= 2;
        }
    }

    /// Transforms all lines whose elements are `stride` apart; `block` elements have `stride` of them.
    fn run_strided(&mut self, field: &mut [Complex], stride: usize, direction: Direction) {
        let len = self.scratch.len();
        let mut line = vec![Complex::default(); len];
        for block in field.chunks_exact_mut(len * stride) {
            for first in 0..stride {
                for (element, from) in line.iter_mut().zip(block[first..].iter().step_by(stride)) {
                    *element = *from;
                }
                self.run(&mut line, direction);
                for (element, to) in line.iter().zip(block[first..].iter_mut().step_by(stride)) {
                    *to = *element;
                }
            }
        }
    }
}

/// A problem: the lengths of x, y and z, and how many iterations.
#[derive(Clone, Copy)]
struct Problem {
    len: [usize; 3],
    iterations: usize,
}

/// One rank's part. The field lies as planes of constant z, in each of them rows along x; the spectrum as planes of
/// constant y, in each of them columns along z, one for each x.
struct Part<'a> {
    comm: &'a SimpleCommunicator,
    problem: Problem,
    transforms: [Transform; 3],
    /// The blocks to swap. Kept, like all large memory: new pages take longer than writing to them.
    sent: Vec<Complex>,
    received: Vec<Complex>,
}

fn share(len: usize, parts: i32, index: i32) -> Range<usize> {
    len * index as usize / parts as usize..len * (index + 1) as usize / parts as usize
}

fn power(mut exponent: u64) -> u64 {
    let (mut result, mut factor) = (1, FACTOR);
    while exponent > 0 {
        if exponent % 2 == 1 {
            result = times(result, factor);
        }
        factor = times(factor, factor);
        exponent /= 2;
    }
    result
}

fn times(a: u64, b: u64) -> u64 {
    (u128::from(a) * u128::from(b) % u128::from(MODULUS)) as u64
}

impl<'a> Part<'a> {
    fn new(comm: &'a SimpleCommunicator, problem: Problem) -> Self {
        Self {
            comm,
            problem,
            transforms: problem.len.map(Transform::new),
            sent: Vec::new(),
            received: Vec::new(),
        }
    }

    /// The z of a rank's planes of the field.
    fn field_of(&self, rank: i32) -> Range<usize> {
        share(self.problem.len[2], self.comm.size(), rank)
    }

    /// The y of a rank's planes of the spectrum.
    fn spectrum_of(&self, rank: i32) -> Range<usize> {
        share(self.problem.len[1], self.comm.size(), rank)
    }

    /// All ranks have as many planes.
    fn is_even(&self) -> bool {
        let ranks = self.comm.size() as usize;
        self.problem.len[1..].iter().all(|len| len % ranks == 0)
    }

    /// The own part of NPB's random field: real and imaginary parts are drawn in turns, x first.
    fn random_field(&self, field: &mut Vec<Complex>) {
        let [nx, ny, _] = self.problem.len;
        let planes = self.field_of(self.comm.rank());
        let mut state = times(SEED, power(2 * (planes.start * nx * ny) as u64));
        let mut draw = || {
            state = times(state, FACTOR);
            state as f64 / MODULUS as f64
        };
        field.clear();
        field.extend((0..planes.len() * nx * ny).map(|_| Complex { re: draw(), im: draw() }));
    }

    /// Elements of the rank's planes of the field that are of each rank's planes of the spectrum.
    fn field_parts(&self) -> Vec<usize> {
        let own = self.field_of(self.comm.rank()).len();
        let part = |rank| self.spectrum_of(rank).len() * self.problem.len[0] * own;
        (0..self.comm.size()).map(part).collect()
    }

    /// Elements of the rank's planes of the spectrum that are of each rank's planes of the field.
    fn spectrum_parts(&self) -> Vec<usize> {
        let own = self.spectrum_of(self.comm.rank()).len();
        let part = |rank| own * self.problem.len[0] * self.field_of(rank).len();
        (0..self.comm.size()).map(part).collect()
    }

    /// Swaps with all: each rank gets as many elements, one rank's after the other's, as `sent` says, and gives as many as
    /// `received` says.
    fn swap(&mut self, sent: &[usize], received: &[usize]) -> Result<(), Error> {
        self.received.resize(received.iter().sum(), Complex::default());
        if self.is_even() {
            return self.comm.all_to_all_into(&self.sent[..], &mut self.received[..]);
        }
        let table = |counts: &[usize]| {
            let mut total = 0;
            let row = |count: &usize| {
                total += *count as Count;
                (*count as Count, total - *count as Count)
            };
            counts.iter().map(row).unzip::<Count, Count, Vec<_>, Vec<_>>()
        };
        let (sent, received) = (table(sent), table(received));
        self.comm.all_to_all_varcount_into(
            &Partition::new(&self.sent[..], sent.0, sent.1),
            &mut PartitionMut::new(&mut self.received[..], received.0, received.1),
        )
    }

    /// From planes of the field to planes of the spectrum.
    fn transpose(&mut self, field: &[Complex], spectrum: &mut Vec<Complex>) -> Result<(), Error> {
        let [nx, ny, nz] = self.problem.len;
        self.sent.clear();
        for column in 0..nx * ny {
            self.sent.extend(field.iter().skip(column).step_by(nx * ny));
        }
        self.swap(&self.field_parts(), &self.spectrum_parts())?;
        spectrum.resize(self.received.len(), Complex::default());
        let mut received = &self.received[..];
        for rank in 0..self.comm.size() {
            let z = self.field_of(rank);
            for column in spectrum.chunks_exact_mut(nz) {
                let (part, rest) = received.split_at(z.len());
                column[z.clone()].copy_from_slice(part);
                received = rest;
            }
        }
        Ok(())
    }

    /// The way back.
    fn transpose_back(&mut self, spectrum: &[Complex], field: &mut Vec<Complex>) -> Result<(), Error> {
        let [nx, ny, nz] = self.problem.len;
        self.sent.clear();
        for rank in 0..self.comm.size() {
            let z = self.field_of(rank);
            for column in spectrum.chunks_exact(nz) {
                self.sent.extend_from_slice(&column[z.clone()]);
            }
        }
        self.swap(&self.spectrum_parts(), &self.field_parts())?;
        field.resize(self.received.len(), Complex::default());
        let planes = field.len() / (nx * ny);
        for (column, values) in self.received.chunks_exact(planes.max(1)).enumerate() {
            let into = field.iter_mut().skip(column).step_by(nx * ny);
            into.zip(values).for_each(|(into, value)| *into = *value);
        }
        Ok(())
    }

    /// From the field, which is not of use any more, to the spectrum.
    fn forward(&mut self, field: &mut [Complex], spectrum: &mut Vec<Complex>) -> Result<(), Error> {
        let nx = self.problem.len[0];
        self.transforms[0].run_strided(field, 1, Direction::Forward);
        self.transforms[1].run_strided(field, nx, Direction::Forward);
        self.transpose(field, spectrum)?;
        self.transforms[2].run_strided(spectrum, 1, Direction::Forward);
        Ok(())
    }

    /// From the spectrum, which is not of use any more, to the field.
    fn back(&mut self, spectrum: &mut [Complex], field: &mut Vec<Complex>) -> Result<(), Error> {
        let nx = self.problem.len[0];
        self.transforms[2].run_strided(spectrum, 1, Direction::Back);
        self.transpose_back(spectrum, field)?;
        self.transforms[1].run_strided(field, nx, Direction::Back);
        self.transforms[0].run_strided(field, 1, Direction::Back);
        Ok(())
    }

    /// The factors by which one step of time multiplies each element of the own spectrum.
    fn evolution(&self) -> Vec<f64> {
        let [nx, _, nz] = self.problem.len;
        // A frequency above half of the length is a negative one.
        let square = |dimension: usize, index: usize| {
            let len = self.problem.len[dimension];
            let frequency = (index + len / 2) as f64 % len as f64 - (len / 2) as f64;
            frequency * frequency
        };
        let own = self.spectrum_of(self.comm.rank());
        own.flat_map(|y| (0..nx).flat_map(move |x| (0..nz).map(move |z| [x, y, z])))
            .map(|[x, y, z]| (-4.0 * ALPHA * PI * PI * (square(0, x) + square(1, y) + square(2, z))).exp())
            .collect()
    }

    /// The sum of 1024 points of the field, over all ranks; of use at rank 0.
    fn checksum(&self, field: &[Complex]) -> Result<Complex, Error> {
        let [nx, ny, nz] = self.problem.len;
        let planes = self.field_of(self.comm.rank());
        let points = (1..=1024).map(|j| [j % nx, 3 * j % ny, 5 * j % nz]);
        let own = points
            .filter(|[_, _, z]| planes.contains(z))
            .map(|[x, y, z]| field[((z - planes.start) * ny + y) * nx + x])
            .fold(Complex::default(), |sum, point| sum + point);
        let (own, mut sum) = ([own.re, own.im], [0.0; 2]);
        let root = self.comm.process_at_rank(0);
        if root.is_self() {
            root.reduce_into_root(&own, &mut sum, SystemOperation::sum())?;
        } else {
            root.reduce_into(&own, SystemOperation::sum())?;
        }
        Ok(Complex { re: sum[0], im: sum[1] } * (1.0 / (nx * ny * nz) as f64))
    }

    /// The checksums of all iterations, and the seconds that they took.
    fn run(&mut self) -> Result<(Vec<Complex>, f64), Error> {
        let (mut field, mut spectrum) = (Vec::new(), Vec::new());
        self.random_field(&mut field);
        self.forward(&mut field, &mut spectrum)?;
        self.comm.barrier()?;
        let start = mpi::time();
        let sums = self.timed(&mut field, &mut spectrum)?;
        Ok((sums, mpi::time() - start))
    }

    fn timed(&mut self, field: &mut Vec<Complex>, spectrum: &mut Vec<Complex>) -> Result<Vec<Complex>, Error> {
        self.random_field(field);
        self.forward(field, spectrum)?;
        let (evolution, iterations, mut copy) = (self.evolution(), 0..self.problem.iterations, Vec::new());
        let iteration = |_| {
            for (element, factor) in spectrum.iter_mut().zip(&evolution) {
                *element = *element * *factor;
            }
            copy.clone_from(spectrum);
            self.back(&mut copy, field)?;
            self.checksum(field)
        };
        iterations.map(iteration).collect()
    }
}

/// The checksums that NPB gives.
const CLASS_S: [(f64, f64); 6] = [
    (554.6087004964, 484.5363331978),
    (554.6385409189, 486.5304269511),
    (554.6148406171, 488.3910722336),
    (554.5423607415, 490.1273169046),
    (554.4255039624, 491.7475857993),
    (554.2683411902, 493.2597244941),
];
const CLASS_W: [(f64, f64); 6] = [
    (567.3612178944, 529.3246849175),
    (563.1436885271, 528.2149986629),
    (559.4024089970, 527.0996558037),
    (556.0698047020, 526.0027904925),
    (553.0898991250, 524.9400845633),
    (550.4159734538, 523.9212247086),
];
const CLASS_A: [(f64, f64); 6] = [
    (504.6735008193, 511.4047905510),
    (505.9412319734, 509.8809666433),
    (506.9376896287, 509.8144042213),
    (507.7892868474, 510.1336130759),
    (508.5233095391, 510.4914655194),
    (509.1487099959, 510.7917842803),
];

/// A problem by its name, and its checksums if they are published.
fn problem(name: &str) -> (Problem, Option<[(f64, f64); 6]>) {
    let (len, published) = match name {
        "S" => ([64, 64, 64], Some(CLASS_S)),
        "W" => ([128, 128, 32], Some(CLASS_W)),
        "A" => ([256, 256, 128], Some(CLASS_A)),
        size => match size.parse::<usize>() {
            Ok(size) if size.is_power_of_two() && size > 1 => ([size; 3], None),
            _ => panic!("usage: ft [S | W | A | SIZE], where SIZE is a power of two"),
        },
    };
    (Problem { len, iterations: 6 }, published)
}

/// Solves the problem of a name (which only rank 0 looks at), and compares checksums there.
pub(crate) fn solve(world: &SimpleCommunicator, name: &str) -> Result<(), Error> {
    let root = world.process_at_rank(0);
    let (mut len, mut iterations, mut published) = ([0_u64; 3], 0_u64, None);
    if root.is_self() {
        let (problem, sums) = problem(name);
        (len, iterations, published) = (problem.len.map(|len| len as u64), problem.iterations as u64, sums);
    }
    root.broadcast_into(&mut len)?;
    root.broadcast_into(&mut iterations)?;
    let problem = Problem {
        len: len.map(|len| len as usize),
        iterations: iterations as usize,
    };
    let (sums, together) = Part::new(world, problem).run()?;
    if world.rank() != 0 {
        return Ok(());
    }

    let (expected, source) = match published {
        Some(sums) => (
            sums.map(|(re, im)| Complex { re, im }).to_vec(),
            "as published".to_owned(),
        ),
        None => {
            let alone = SimpleCommunicator::self_comm();
            let (sums, seconds) = Part::new(&alone, problem).run()?;
            (sums, format!("as in one process, which takes {:.1} ms", seconds * 1e3))
        }
    };
    for (iteration, (sum, expected)) in sums.iter().zip(expected).enumerate() {
        println!("iteration {}: checksum {:.10} {:.10}", iteration + 1, sum.re, sum.im);
        let close = |a: f64, b: f64| ((a - b) / b).abs() <= 1e-12;
        assert!(
            close(sum.re, expected.re) && close(sum.im, expected.im),
            "expected {expected:?}"
        );
    }
    println!(
        "ft: {} on {} ranks: {source}; {:.1} ms",
        problem.len.map(|len| len.to_string()).join(" x "),
        world.size(),
        together * 1e3
    );
    Ok(())
}

fn main() -> Result<(), Error> {
    let name = std::env::args().nth(1).unwrap_or_else(|| "S".to_owned());
    let universe = mpi::initialize().unwrap();
    solve(&universe.world(), &name)
}
