//! A call of a collective as one rank sees it, and its schedule.

use core::fmt;

use super::{algorithm::Algorithm, blocks::Blocks, collective::Collective};

/// Most elements of a buffer: offsets, also those in scratch memory of several vectors, must fit an `isize`.
const MAX_ELEMENTS: usize = isize::MAX as usize / 8;

/// `MPI_ROOT`: how the root of a collective between two groups names itself.
pub const ROOT: usize = usize::MAX;
/// `MPI_PROC_NULL`: the root is another rank of the own group, so this one has nothing to do.
pub const NOBODY: usize = usize::MAX - 1;

/// The arguments of a collective at one rank, as far as messages depend on them (MPI 4.1, chapters 6 and 8).
///
/// Counts and displacements are in elements of the datatype of that buffer; a count is 0 if its elements have no bytes.
/// `in_place` is `MPI_IN_PLACE`. The rule for blocks: `output`'s block for a rank and that rank's `input` have the same
/// length in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call<'a> {
    /// `MPI_Barrier`
    Barrier,
    /// `MPI_Bcast`. The buffer is the output, at the root, too; only a root that faces another group sends its input.
    ///
    /// Vectors are divided, and ranks may call this with different datatypes. So the count must be in a unit that is
    /// the same everywhere: bytes of packed data.
    Bcast {
        /// Rank whose data are sent.
        root: usize,
        /// Bytes of packed data.
        count: usize,
    },
    /// `MPI_Gather`; `MPI_Gatherv` if the output is uneven.
    Gather {
        /// Rank that receives the blocks.
        root: usize,
        /// Elements of the own block in the input (of its block in the output, for a root in place).
        input: usize,
        /// The output of the root. At other ranks only the kind counts (empty slices will do).
        output: Blocks<'a>,
        /// Only at the root: its block is in its place.
        in_place: bool,
    },
    /// `MPI_Scatter`; `MPI_Scatterv` if the input is uneven.
    Scatter {
        /// Rank that has the blocks.
        root: usize,
        /// The input of the root. At other ranks only the kind counts (empty slices will do).
        input: Blocks<'a>,
        /// Elements of the own block in the output.
        output: usize,
        /// Only at the root: its block stays in the input.
        in_place: bool,
    },
    /// `MPI_Allgather`; `MPI_Allgatherv` if the output is uneven.
    Allgather {
        /// Elements of the own block in the input.
        input: usize,
        /// All blocks.
        output: Blocks<'a>,
        /// The own block is in its place.
        in_place: bool,
    },
    /// `MPI_Alltoall`; `MPI_Alltoallv` and `MPI_Alltoallw` if blocks are uneven, at all ranks or at none.
    Alltoall {
        /// The blocks to send, by destination.
        input: Blocks<'a>,
        /// The blocks to receive, and to send if in place. (For alltoallw in place all counts are 1.)
        output: Blocks<'a>,
        /// There is no input.
        in_place: bool,
    },
    /// `MPI_Reduce`
    Reduce {
        /// Rank that gets the result.
        root: usize,
        /// Elements of the vector.
        count: usize,
        /// Whether operands commute.
        commutative: bool,
        /// Only at the root: its operand is in the output.
        in_place: bool,
    },
    /// `MPI_Allreduce`
    Allreduce {
        /// Elements of the vector.
        count: usize,
        /// Whether operands commute.
        commutative: bool,
        /// The operand is in the output.
        in_place: bool,
    },
    /// `MPI_Reduce_scatter_block`; `MPI_Reduce_scatter` if counts are given for each rank.
    ReduceScatter {
        /// Elements of each rank's block of the vector.
        counts: Counts<'a>,
        /// Whether operands commute.
        commutative: bool,
        /// The whole vector is in the output.
        in_place: bool,
    },
    /// `MPI_Scan`; `MPI_Exscan` if exclusive. Operands need not commute.
    Scan {
        /// Elements of the vector.
        count: usize,
        /// The rank's own operand is left out.
        exclusive: bool,
        /// The operand is in the output.
        in_place: bool,
    },
    /// `MPI_Neighbor_allgather` and `MPI_Neighbor_allgatherv`
    NeighborAllgather {
        /// Ranks to receive from, in the order of blocks; `None` for `MPI_PROC_NULL`.
        sources: &'a [Option<usize>],
        /// Ranks to send to.
        destinations: &'a [Option<usize>],
        /// Elements of the own block.
        input: usize,
        /// A block of each source.
        output: Blocks<'a>,
    },
    /// `MPI_Neighbor_alltoall`, `MPI_Neighbor_alltoallv` and `MPI_Neighbor_alltoallw`
    ///
    /// If a rank is a neighbour more than once, messages match in the order of the lists. In a periodic grid of one or
    /// two ranks, a message sent upwards must arrive from below: the list of destinations must be ordered accordingly.
    NeighborAlltoall {
        /// Ranks to receive from, in the order of blocks; `None` for `MPI_PROC_NULL`.
        sources: &'a [Option<usize>],
        /// Ranks to send to.
        destinations: &'a [Option<usize>],
        /// A block for each destination.
        input: Blocks<'a>,
        /// A block of each source.
        output: Blocks<'a>,
    },
}

/// How many elements each rank gets of a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counts<'a> {
    /// The same for each.
    Even(usize),
    /// One count for each rank.
    Each(&'a [usize]),
}

impl Counts<'_> {
    /// Elements of the whole vector, of `size` ranks.
    pub(in crate::mpi) fn total(&self, size: usize) -> usize {
        match self {
            Self::Even(count) => count.saturating_mul(size),
            Self::Each(counts) => sum(counts),
        }
    }
}

/// A call as the same few values, whatever its collective: how it uses its buffers, and with whom.
#[derive(Clone, Copy, Debug)]
pub(in crate::mpi) struct Parts<'a> {
    /// A number for the collective, below 64: the same at all ranks.
    pub(in crate::mpi) number: u8,
    collective: Collective,
    /// Only the root has the buffer of [blocks](Role::Blocks).
    pub(in crate::mpi) root: Option<usize>,
    pub(in crate::mpi) input: Role<'a>,
    pub(in crate::mpi) output: Role<'a>,
    /// Whether a block stays where it is (a reduction's vectors do not count).
    pub(in crate::mpi) in_place: bool,
    /// Ranks that blocks come from, and those they go to, if these are not all.
    pub(in crate::mpi) neighbours: Option<[&'a [Option<usize>]; 2]>,
}

/// How a collective uses a buffer.
#[derive(Clone, Copy, Debug)]
pub(in crate::mpi) enum Role<'a> {
    /// Not at all.
    None,
    /// So many bytes of packed data, the same at all ranks.
    Packed(usize),
    /// Elements of a vector that is reduced, or of the result.
    Vector(usize),
    /// The same with a block for each rank.
    Divided(Counts<'a>),
    /// Elements of this rank's block.
    Block(usize),
    /// A block for each rank, or neighbour.
    Blocks(Blocks<'a>),
}

impl<'a> Call<'a> {
    /// The description of the call, for all that does not make schedules.
    #[inline(always)]
    pub(in crate::mpi) fn parts(&self) -> Parts<'a> {
        use Collective as C;
        use Role::{Block, Divided, Packed, Vector};
        // The collective if blocks are alike, and if they are not.
        let of = |blocks: Blocks<'_>, even, uneven| {
            if matches!(blocks, Blocks::Even { .. }) {
                even
            } else {
                uneven
            }
        };
        let (number, collective, input, output) = match *self {
            Self::Barrier => (1, C::Barrier, Role::None, Role::None),
            Self::Bcast { count, .. } => (2, C::Bcast, Packed(count), Packed(count)),
            Self::Gather { input, output, .. } => {
                (3, of(output, C::Gather, C::Gatherv), Block(input), Role::Blocks(output))
            }
            Self::Scatter { input, output, .. } => (
                4,
                of(input, C::Scatter, C::Scatterv),
                Role::Blocks(input),
                Block(output),
            ),
            Self::Allgather { input, output, .. } => (
                5,
                of(output, C::Allgather, C::Allgatherv),
                Block(input),
                Role::Blocks(output),
            ),
            Self::Alltoall {
                input,
                output,
                in_place,
            } => {
                let sent = if in_place { output } else { input };
                let collective = of(sent, of(output, C::Alltoall, C::Alltoallv), C::Alltoallv);
                let input = if in_place { Role::None } else { Role::Blocks(input) };
                (6, collective, input, Role::Blocks(output))
            }
            Self::Reduce { count, .. } => (7, C::Reduce, Vector(count), Vector(count)),
            Self::Allreduce { count, .. } => (8, C::Allreduce, Vector(count), Vector(count)),
            Self::ReduceScatter { counts, .. } => {
                let is_even = matches!(counts, Counts::Even(_));
                let collective = if is_even {
                    C::ReduceScatterBlock
                } else {
                    C::ReduceScatter
                };
                (9, collective, Divided(counts), Divided(counts))
            }
            Self::Scan { count, exclusive, .. } => {
                let collective = if exclusive { C::Exscan } else { C::Scan };
                (10 + u8::from(exclusive), collective, Vector(count), Vector(count))
            }
            Self::NeighborAllgather { input, output, .. } => {
                (12, C::NeighborAllgather, Block(input), Role::Blocks(output))
            }
            Self::NeighborAlltoall { input, output, .. } => {
                (13, C::NeighborAlltoall, Role::Blocks(input), Role::Blocks(output))
            }
        };
        let in_place = match *self {
            Self::Gather { in_place, .. }
            | Self::Scatter { in_place, .. }
            | Self::Allgather { in_place, .. }
            | Self::Alltoall { in_place, .. } => in_place,
            _ => false,
        };
        let neighbours = match *self {
            Self::NeighborAllgather {
                sources, destinations, ..
            }
            | Self::NeighborAlltoall {
                sources, destinations, ..
            } => Some([sources, destinations]),
            _ => None,
        };
        Parts {
            number,
            collective,
            root: self.root(),
            input,
            output,
            in_place,
            neighbours,
        }
    }

    /// The collective.
    #[must_use]
    pub fn collective(&self) -> Collective {
        self.parts().collective
    }

    /// The root, if there is one.
    #[must_use]
    pub fn root(&self) -> Option<usize> {
        match *self {
            Self::Bcast { root, .. }
            | Self::Gather { root, .. }
            | Self::Scatter { root, .. }
            | Self::Reduce { root, .. } => Some(root),
            _ => None,
        }
    }

    /// False if operands are reduced that do not commute.
    #[must_use]
    pub fn commutative(&self) -> bool {
        match *self {
            Self::Reduce { commutative, .. }
            | Self::Allreduce { commutative, .. }
            | Self::ReduceScatter { commutative, .. } => commutative,
            _ => true,
        }
    }

    /// The same call without borrowed lists; `None` if it has blocks or neighbours.
    pub(in crate::mpi) fn without_lists(&self) -> Option<Call<'static>> {
        match *self {
            Self::Barrier => Some(Call::Barrier),
            Self::Bcast { root, count } => Some(Call::Bcast { root, count }),
            Self::Reduce {
                root,
                count,
                commutative,
                in_place,
            } => Some(Call::Reduce {
                root,
                count,
                commutative,
                in_place,
            }),
            Self::Allreduce {
                count,
                commutative,
                in_place,
            } => Some(Call::Allreduce {
                count,
                commutative,
                in_place,
            }),
            _ => None,
        }
    }

    /// Checks all arguments of `rank` of `size` ranks.
    pub(super) fn check(&self, rank: usize, size: usize, algorithm: Algorithm) -> Result<(), ScheduleError> {
        if rank >= size || u32::try_from(size).is_err() {
            return Err(ScheduleError::Rank { rank, size });
        }
        let collective = self.collective();
        if !algorithm.suits(collective, size, self.commutative()) {
            return Err(ScheduleError::Unsuited {
                collective,
                algorithm,
                size,
            });
        }
        if let Some(root) = self.root() {
            check_root(root, size)?;
        }
        self.check_sizes(self.root() == Some(rank), (size, size))
    }

    /// Checks counts and blocks of a rank; the sizes are those of its own group and of the group of its blocks.
    pub(super) fn check_sizes(&self, is_root: bool, (size, others): (usize, usize)) -> Result<(), ScheduleError> {
        let Parts {
            root,
            input,
            output,
            neighbours,
            ..
        } = self.parts();
        let mut blocks = [others; 2];
        if let Some([sources, destinations]) = neighbours {
            check_neighbours(sources, destinations, size)?;
            blocks = [destinations.len(), sources.len()];
        }
        for (role, needed) in [input, output].into_iter().zip(blocks) {
            match role {
                Role::None => {}
                Role::Packed(count) | Role::Vector(count) => fits(count)?,
                Role::Divided(counts) => check_counts(&counts, size)?,
                Role::Block(count) => fits(if root.is_some() {
                    count.saturating_mul(size)
                } else {
                    count
                })?,
                Role::Blocks(blocks) if is_root || root.is_none() => check_blocks(&blocks, needed)?,
                Role::Blocks(_) => {}
            }
        }
        Ok(())
    }
}

fn sum(counts: &[usize]) -> usize {
    counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
}

fn fits(elements: usize) -> Result<(), ScheduleError> {
    if elements <= MAX_ELEMENTS {
        Ok(())
    } else {
        Err(ScheduleError::TooLarge)
    }
}

fn check_root(root: usize, size: usize) -> Result<(), ScheduleError> {
    if root < size {
        Ok(())
    } else {
        Err(ScheduleError::Root { root, size })
    }
}

fn check_neighbours(
    sources: &[Option<usize>],
    destinations: &[Option<usize>],
    size: usize,
) -> Result<(), ScheduleError> {
    match sources.iter().chain(destinations).flatten().find(|rank| **rank >= size) {
        Some(rank) => Err(ScheduleError::Rank { rank: *rank, size }),
        None => Ok(()),
    }
}

fn enough(given: usize, needed: usize) -> Result<(), ScheduleError> {
    if given == needed {
        Ok(())
    } else {
        Err(ScheduleError::Blocks { given, needed })
    }
}

fn check_counts(counts: &Counts<'_>, size: usize) -> Result<(), ScheduleError> {
    match *counts {
        Counts::Even(count) => check_blocks(&Blocks::Even { count }, size),
        Counts::Each(counts) => {
            enough(counts.len(), size)?;
            fits(sum(counts))
        }
    }
}

/// Checks that there are `needed` blocks, with offsets that fit an `isize`.
fn check_blocks(blocks: &Blocks<'_>, needed: usize) -> Result<(), ScheduleError> {
    match *blocks {
        Blocks::Even { count } => fits(count.saturating_mul(needed)),
        Blocks::Pieces { total, parts } => {
            enough(parts, needed)?;
            fits(total)
        }
        Blocks::Uneven { counts, displacements } => {
            enough(counts.len(), needed)?;
            enough(displacements.len(), needed)?;
            fits(sum(counts))?;
            let reach = displacements
                .iter()
                .map(|displacement| displacement.unsigned_abs())
                .max();
            fits(reach.unwrap_or(0))
        }
    }
}

/// Why a call has no schedule.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScheduleError {
    /// There is no such rank, or more than 2^32 of them.
    Rank {
        /// The rank itself or that of a neighbour.
        rank: usize,
        /// Number of ranks.
        size: usize,
    },
    /// There is no such root.
    Root {
        /// Its rank.
        root: usize,
        /// Number of ranks.
        size: usize,
    },
    /// There are fewer counts or displacements than blocks.
    Blocks {
        /// Their number.
        given: usize,
        /// The number of blocks.
        needed: usize,
    },
    /// More elements than memory can have.
    TooLarge,
    /// The collective is not defined between two groups, or not in place there.
    Between(Collective),
    /// The algorithm does not suit the call.
    Unsuited {
        /// The collective.
        collective: Collective,
        /// The algorithm.
        algorithm: Algorithm,
        /// Number of ranks.
        size: usize,
    },
}

impl fmt::Display for ScheduleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rank { rank, size } => write!(f, "there is no rank {rank} among {size}"),
            Self::Root { root, size } => write!(f, "there is no rank {root} among {size} that could be the root"),
            Self::Blocks { given, needed } => {
                write!(f, "{given} counts or displacements were given, {needed} are needed")
            }
            Self::Between(collective) => write!(f, "there is no {collective} between two groups, or not in place"),
            Self::TooLarge => write!(f, "the buffers are larger than memory can be"),
            Self::Unsuited {
                collective,
                algorithm,
                size,
            } => write!(
                f,
                "{algorithm} is no algorithm for {collective} of {size} ranks with this operation; there are:"
            )
            .and_then(|()| {
                collective
                    .algorithms()
                    .iter()
                    .try_for_each(|other| write!(f, " {other}"))
            }),
        }
    }
}

crate::debug_as_display!(ScheduleError);

impl core::error::Error for ScheduleError {}
