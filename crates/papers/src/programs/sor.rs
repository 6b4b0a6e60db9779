//! Successive over-relaxation: a plate whose left edge is hot, on a grid of ranks that talk to their neighbours.
//!
//! An iteration is one sweep over the red points and one over the black ones, as on a chessboard; after each half, ranks
//! exchange the edges of their parts. Every tenth iteration all agree how much still changes, and stop below 1e-9.
//!
//! Which points a sweep reads does not depend on how the plate is divided, so the result is that of one process to the
//! last bit. Rank 0 collects the parts and compares.
#![expect(unsafe_code, reason = "looks at a part of the whole by a datatype")]

use std::ops::Range;

use mpi::{
    Count, Error, Rank,
    collective::SystemOperation,
    datatype::{MutView, Partition, PartitionMut, UserDatatype},
    topology::{CartesianCommunicator, SimpleCommunicator, dimensions},
    traits::*,
};

const ENOUGH: f64 = 1e-9;
const CHECK_EVERY: usize = 10;

/// The points of one rank (or all of them), with a border of one point: the neighbours' points, or the plate's edge.
struct Plate {
    rows: usize,
    columns: usize,
    /// Where its first point lies in the whole.
    origin: (usize, usize),
    points: Vec<f64>,
}

impl Plate {
    fn new(rows: Range<usize>, columns: Range<usize>) -> Self {
        let mut plate = Self {
            rows: rows.len(),
            columns: columns.len(),
            origin: (rows.start, columns.start),
            points: vec![0.0; (rows.len() + 2) * (columns.len() + 2)],
        };
        if columns.start == 0 {
            for row in 0..plate.rows + 2 {
                let edge = plate.at(row, 0);
                plate.points[edge] = 100.0;
            }
        }
        plate
    }

    /// Where a point is; 0 and the last row or column are the border.
    fn at(&self, row: usize, column: usize) -> usize {
        row * (self.columns + 2) + column
    }

    /// Relaxes the points of one colour, and gives the largest change.
    fn sweep(&mut self, colour: usize, omega: f64) -> f64 {
        let mut most = 0.0_f64;
        for row in 1..=self.rows {
            let odd = (self.origin.0 + self.origin.1 + row + colour) % 2;
            for column in (1 + odd..=self.columns).step_by(2) {
                let here = self.at(row, column);
                let (above, below) = (self.at(row - 1, column), self.at(row + 1, column));
                let points = &mut self.points;
                let mean = (points[above] + points[below] + points[here - 1] + points[here + 1]) / 4.0;
                let change = omega * (mean - points[here]);
                points[here] += change;
                most = most.max(change.abs());
            }
        }
        most
    }

    /// The indices of the outermost points of its own on each side: above, below, left, right; `outwards` by one, those
    /// of the border beside them.
    fn edges(&self, outwards: usize) -> [Vec<usize>; 4] {
        let (first, last) = (1 - outwards, [self.rows + outwards, self.columns + outwards]);
        let row = |row| (1..=self.columns).map(|column| self.at(row, column)).collect();
        let column = |column| (1..=self.rows).map(|row| self.at(row, column)).collect();
        [row(first), row(last[0]), column(first), column(last[1])]
    }

    /// Swaps edges with the neighbours, and with `replies` waits until they say that they have them. Beyond the plate
    /// nothing comes, and the border stays what it was.
    fn exchange(&mut self, grid: &CartesianCommunicator, replies: bool) -> Result<(), Error> {
        let (own, border) = (self.edges(0).concat(), self.edges(1).concat());
        let counts = [self.columns, self.columns, self.rows, self.rows].map(|count| count as Count);
        let starts = [0, counts[0], 2 * counts[0], 2 * counts[0] + counts[2]];
        let sent: Vec<f64> = own.iter().map(|index| self.points[*index]).collect();
        let mut received: Vec<f64> = border.iter().map(|index| self.points[*index]).collect();
        grid.neighbor_all_to_all_varcount_into(
            &Partition::new(&sent[..], counts, starts),
            &mut PartitionMut::new(&mut received[..], counts, starts),
        )?;
        if replies {
            grid.neighbor_all_to_all_into(&[1_u8; 4][..], &mut [0_u8; 4][..])?;
        }
        for (index, point) in border.into_iter().zip(received) {
            self.points[index] = point;
        }
        Ok(())
    }

    /// Its own points, without the border, row by row.
    fn inner(&self) -> Vec<f64> {
        (1..=self.rows)
            .flat_map(|row| &self.points[self.at(row, 1)..=self.at(row, self.columns)])
            .copied()
            .collect()
    }
}

/// How a plate is relaxed.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// Points along each side.
    pub size: usize,
    /// At most so many.
    pub iterations: usize,
    /// Whole rows for each rank, instead of parts that are as square as can be.
    pub strips: bool,
    /// Rank 0 gets the whole plate, as an interim result, after every so many iterations; 0: never.
    pub report: usize,
    /// Each message is answered by a byte, and its sender waits for that, as for each write to a shared memory.
    pub replies: bool,
}

/// Relaxes until little changes; gives the iterations that took. `exchange` brings the border up to date, `agree` makes
/// the largest change of all out of the own one, `report` tells of interim results.
fn relax(
    plate: &mut Plate,
    job: Job,
    mut exchange: impl FnMut(&mut Plate) -> Result<(), Error>,
    agree: impl Fn(f64) -> Result<f64, Error>,
    report: impl Fn(&Plate, usize) -> Result<(), Error>,
) -> Result<usize, Error> {
    let omega = 2.0 / (1.0 + (std::f64::consts::PI / (job.size + 1) as f64).sin());
    for iteration in 1..=job.iterations {
        let mut change = 0.0_f64;
        for colour in 0..2 {
            change = change.max(plate.sweep(colour, omega));
            exchange(plate)?;
        }
        if job.report > 0 && iteration % job.report == 0 {
            report(plate, iteration)?;
        }
        if iteration % CHECK_EVERY == 0 && agree(change)? < ENOUGH {
            return Ok(iteration);
        }
    }
    Ok(job.iterations)
}

/// Rank 0 gets all parts to show them, a message for each row, and gives the mean of all points.
fn interim(grid: &CartesianCommunicator, plate: &Plate, size: usize, replies: bool) -> Result<Option<f64>, Error> {
    if grid.rank() != 0 {
        let root = grid.process_at_rank(0);
        for own in plate.inner().chunks(plate.columns) {
            root.send(own)?;
            if replies {
                root.receive::<u8>()?;
            }
        }
        return Ok(None);
    }
    let mut sum = plate.inner().iter().sum::<f64>();
    // Row by row of all ranks, so that no rank waits until another has sent its whole part.
    for row in 0..size {
        for rank in (1..grid.size()).filter(|rank| row < part(grid, size, *rank).0.len()) {
            let other = grid.process_at_rank(rank);
            sum += other.receive_vec::<f64>()?.0.iter().sum::<f64>();
            if replies {
                other.send(&1_u8)?;
            }
        }
    }
    Ok(Some(sum / (size * size) as f64))
}

/// The part of `size` points that the `index`-th of `parts` has.
fn share(size: usize, parts: Count, index: Count) -> Range<usize> {
    let (parts, index) = (parts as usize, index as usize);
    size * index / parts..size * (index + 1) / parts
}

/// The part of the whole plate that a rank has.
fn part(grid: &CartesianCommunicator, size: usize, rank: Rank) -> (Range<usize>, Range<usize>) {
    let (dims, coords) = (grid.get_layout().dims, grid.rank_to_coordinates(rank));
    (share(size, dims[0], coords[0]), share(size, dims[1], coords[1]))
}

/// Rank 0 gets all parts, each received to where it belongs.
fn collect(grid: &CartesianCommunicator, plate: &Plate, size: usize) -> Result<Option<Vec<f64>>, Error> {
    if grid.rank() != 0 {
        grid.process_at_rank(0).send(&plate.inner()[..])?;
        return Ok(None);
    }
    let mut whole = vec![f64::NAN; size * size];
    let mut place = |rank: Rank, inner: Option<&[f64]>| {
        let (rows, columns) = part(grid, size, rank);
        let block = UserDatatype::subarray(
            &[size as Count; 2],
            &[rows.len() as Count, columns.len() as Count],
            &[rows.start as Count, columns.start as Count],
            &f64::equivalent_datatype(),
        );
        // SAFETY: the block is within the whole.
        let mut view = unsafe { MutView::with_count_and_datatype(&mut whole[..], 1, &block) };
        match inner {
            Some(own) => {
                let this = grid.this_process();
                mpi::point_to_point::send_receive_into(own, &this, &mut view, &this)
            }
            None => grid.process_at_rank(rank).receive_into(&mut view),
        }
    };
    place(0, Some(&plate.inner()))?;
    for rank in 1..grid.size() {
        place(rank, None)?;
    }
    Ok(Some(whole))
}

/// The result, at rank 0.
pub struct Solved {
    /// Rows and columns of ranks.
    pub dims: [Count; 2],
    /// Iterations until little changed.
    pub iterations: usize,
    /// The value in the middle.
    pub middle: f64,
    /// Seconds by all ranks.
    pub together: f64,
    /// Seconds by one process.
    pub alone: f64,
}

/// Does a job. `swept` is told of each sweep at this rank: over how many points; `told` of interim results at rank 0: after
/// how many iterations, and the mean.
pub fn solve(
    world: &SimpleCommunicator,
    job: Job,
    swept: &dyn Fn(u64),
    told: &dyn Fn(usize, f64),
) -> Result<Option<Solved>, Error> {
    let size = job.size;
    let mut dims = [0, if job.strips { 1 } else { 0 }];
    dimensions(world.size(), &mut dims)?;
    assert!(dims[0] <= size as Count, "{size} rows for {} rows of ranks", dims[0]);
    let grid = world
        .create_cartesian_communicator(&dims, &[false, false], true)?
        .expect("the grid has place for all");

    let (rows, columns) = part(&grid, size, grid.rank());
    let mut plate = Plate::new(rows, columns);
    grid.barrier()?;
    let start = mpi::time();
    let agree = |change| {
        let mut most = 0.0;
        grid.all_reduce_into(&change, &mut most, SystemOperation::max())?;
        Ok(most)
    };
    let exchange = |plate: &mut Plate| {
        swept((plate.rows * plate.columns / 2) as u64);
        plate.exchange(&grid, job.replies)
    };
    let report = |plate: &Plate, iteration| {
        if let Some(mean) = interim(&grid, plate, size, job.replies)? {
            told(iteration, mean);
        }
        Ok(())
    };
    let took = relax(&mut plate, job, exchange, agree, report)?;
    let together = mpi::time() - start;

    let Some(whole) = collect(&grid, &plate, size)? else {
        return Ok(None);
    };
    let mut alone = Plate::new(0..size, 0..size);
    let start = mpi::time();
    let expected = relax(&mut alone, job, |_| Ok(()), Ok, |_, _| Ok(()))?;
    let serial = mpi::time() - start;
    assert_eq!(took, expected, "iterations");
    for (index, (point, expected)) in whole.iter().zip(alone.inner()).enumerate() {
        let same = point.to_bits() == expected.to_bits();
        assert!(
            same,
            "row {}, column {}: {point} is not {expected}",
            index / size,
            index % size
        );
    }
    Ok(Some(Solved {
        dims,
        iterations: took,
        middle: whole[size / 2 * size + size / 2],
        together,
        alone: serial,
    }))
}
