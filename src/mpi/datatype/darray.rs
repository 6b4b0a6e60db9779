//! Arrays that are distributed over a grid of processes (MPI 5.1.4).

use alloc::vec::Vec;

use super::{Combiner, Datatype, DatatypeError, Order, Quantity};

/// How a dimension of an array is distributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// In one block for each process (`MPI_DISTRIBUTE_BLOCK`).
    Block,
    /// In blocks that go round the processes (`MPI_DISTRIBUTE_CYCLIC`).
    Cyclic,
    /// Not at all: there is one process in this dimension (`MPI_DISTRIBUTE_NONE`).
    None,
}

/// A dimension of a distributed array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Distributed {
    /// Elements of the whole array.
    pub size: i64,
    /// How they are distributed.
    pub distribution: Distribution,
    /// Elements of a block; `None`: as few as give each process one block (`Block`), or 1 (`Cyclic`)
    /// (`MPI_DISTRIBUTE_DFLT_DARG`).
    pub block: Option<i64>,
    /// Processes in this dimension of the grid.
    pub processes: i64,
}

/// The part of a process in one dimension, in elements: whole blocks, and a last one that is shorter.
struct Part {
    first: i64,
    blocks: i64,
    block: i64,
    /// From one block to the next.
    stride: i64,
    rest: i64,
}

impl Distributed {
    fn part(&self, place: i64) -> Part {
        let (size, processes) = (self.size, self.processes);
        let cyclic = |block: i64| {
            let first = place.saturating_mul(block);
            let round = processes.saturating_mul(block);
            let left = (size - first).max(0);
            let (blocks, rest) = (left / round, (left % round).min(block));
            Part {
                first,
                blocks: blocks + rest / block,
                block,
                stride: round,
                rest: rest % block,
            }
        };
        match (self.distribution, self.block) {
            (Distribution::None, _) => cyclic(size.max(1)),
            (Distribution::Block, None) => cyclic(((size + processes - 1) / processes).max(1)),
            (Distribution::Block | Distribution::Cyclic, Some(block)) => cyclic(block),
            (Distribution::Cyclic, None) => cyclic(1),
        }
    }

    fn is_right(&self) -> bool {
        let block = self.block.unwrap_or(1);
        let covers = match (self.distribution, self.block) {
            (Distribution::Block, Some(block)) => block.saturating_mul(self.processes) >= self.size,
            (Distribution::None, _) => self.processes == 1,
            _ => true,
        };
        self.size >= 1 && self.processes >= 1 && block >= 1 && covers
    }
}

impl Datatype {
    /// The part of process `rank` in an array that is distributed over a grid of processes, with the extent of the
    /// whole array (`MPI_Type_create_darray`). The grid is in row-major order, whatever the `order` of the array is.
    ///
    /// # Errors
    /// A size, block or number of processes less than 1; blocks that do not cover a dimension; several processes in one
    /// that is not distributed; a rank that the grid has not; overflow; nesting.
    pub fn darray(rank: i64, dimensions: &[Distributed], order: Order, child: &Self) -> Result<Self, DatatypeError> {
        for (dimension, one) in dimensions.iter().enumerate() {
            if !one.is_right() {
                return Err(DatatypeError::Subarray {
                    dimension,
                    size: one.size,
                    subsize: one.processes,
                    start: one.block.unwrap_or(1),
                });
            }
        }
        let overflow = DatatypeError::Overflow {
            argument: "sizes",
            index: None,
            quantity: Quantity::Extent,
        };
        // Places in the grid: the last dimension changes fastest.
        let mut places = Vec::with_capacity(dimensions.len());
        let mut left = rank;
        for one in dimensions.iter().rev() {
            places.push(left.rem_euclid(one.processes));
            left = left.div_euclid(one.processes);
        }
        if left != 0 {
            return Err(DatatypeError::Negative {
                argument: "rank beyond the grid",
                index: None,
                value: rank,
            });
        }
        places.reverse();
        let mut indices: Vec<usize> = (0..dimensions.len()).collect();
        if order == Order::C {
            indices.reverse();
        }
        // From the contiguous dimension on outwards.
        let (mut datatype, mut stride, mut first) = (child.clone(), child.extent(), 0_i64);
        for index in indices {
            let part = dimensions[index].part(places[index]);
            let bytes = |elements: i64| stride.checked_mul(elements).ok_or(overflow);
            let block = Self::hvector(part.block, 1, stride, &datatype)?;
            let whole = Self::hvector(part.blocks, 1, bytes(part.stride)?, &block)?;
            if part.blocks + part.rest > 0 {
                first = first.checked_add(bytes(part.first)?).ok_or(overflow)?;
            }
            let rest = Self::hvector(part.rest, 1, stride, &datatype)?;
            let after = match part.rest {
                0 => 0,
                _ => part.stride.checked_mul(part.blocks).ok_or(overflow)?,
            };
            datatype = Self::structure(&[1, 1], &[0, bytes(after)?], &[whole, rest])?;
            stride = bytes(dimensions[index].size)?;
        }
        let placed = Self::hindexed(&[1], &[first], &datatype)?;
        let all = Self::resized(0, stride, &placed)?;
        let integers = dimensions.iter().map(|one| one.size);
        let integers = integers.chain(dimensions.iter().map(|one| one.distribution as i64));
        let integers = integers.chain(dimensions.iter().map(|one| one.block.unwrap_or(-1)));
        let integers = integers.chain(dimensions.iter().map(|one| one.processes));
        let size = dimensions
            .iter()
            .fold(1_i64, |all, one| all.saturating_mul(one.processes));
        let head = [size, rank, dimensions.len() as i64];
        let integers = head.into_iter().chain(integers).chain([order as i64]);
        Ok(all.made(Combiner::Darray, integers, &[], core::slice::from_ref(child)))
    }
}
