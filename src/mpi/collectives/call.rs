//! A call of a collective as one rank sees it, and its schedule.

use core::fmt;

use super::{
    algorithm::Algorithm,
    blocks::Blocks,
    collective::{Collective, Partners, Role},
    schedule::Region,
};

/// Most elements of a buffer: offsets, also those in scratch memory of several vectors, must fit an `isize`.
const MAX_ELEMENTS: usize = isize::MAX as usize / 8;

/// `MPI_ROOT`: how the root of a collective between two groups names itself.
pub const ROOT: usize = usize::MAX;
/// `MPI_PROC_NULL`: the root is another rank of the own group, so this one has nothing to do.
pub const NOBODY: usize = usize::MAX - 1;

/// The arguments of a collective at one rank, as far as messages depend on them (MPI 4.1, chapters 6 and 8).
///
/// [`Collective::input`] and [`Collective::output`] say what the two buffers hold, and so what their sizes mean: a
/// [`Block`](Role::Block), [`Vector`](Role::Vector) or [`Packed`](Role::Packed) data have one count, the others have
/// [`Blocks`]. Counts and displacements are in elements of the datatype of that buffer (in bytes for `Packed`); a count
/// is 0 if its elements have no bytes. The rule for blocks: `output`'s block for a rank and that rank's `input` have the
/// same length in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    collective: Collective,
    root: usize,
    pub(in crate::mpi) input: Blocks<'a>,
    pub(in crate::mpi) output: Blocks<'a>,
    pub(in crate::mpi) sources: &'a [Option<usize>],
    pub(in crate::mpi) destinations: &'a [Option<usize>],
    pub(super) crossed: bool,
    commutative: bool,
    pub(in crate::mpi) in_place: bool,
}

/// A call is made from its collective and the arguments that the collective has.
impl<'a> Call<'a> {
    /// A call of `collective` with root 0 and without elements; operands commute, and nothing is in place.
    #[must_use]
    pub const fn of(collective: Collective) -> Self {
        Self {
            collective,
            root: 0,
            input: Blocks::NONE,
            output: Blocks::NONE,
            sources: &[],
            destinations: &[],
            crossed: false,
            commutative: true,
            in_place: false,
        }
    }

    /// With this root.
    #[must_use]
    pub const fn with_root(self, root: usize) -> Self {
        Self { root, ..self }
    }

    /// With these elements to send: the count of the only block, or blocks. Of a scatter, only the root has them.
    #[must_use]
    pub fn with_input(self, input: impl Into<Blocks<'a>>) -> Self {
        let input = input.into();
        Self { input, ..self }
    }

    /// With these elements to receive: the count of the only block, or blocks. Of a gather, only the root has them.
    #[must_use]
    pub fn with_output(self, output: impl Into<Blocks<'a>>) -> Self {
        let output = output.into();
        Self { output, ..self }
    }

    /// With so many elements to send and to receive: of a vector, of packed data, or in each block.
    #[must_use]
    pub fn with_count(self, count: impl Into<Blocks<'a>>) -> Self {
        let count = count.into();
        self.with_input(count).with_output(count)
    }

    /// Of a neighbourhood: with these ranks to receive from, in the order of blocks, and these to send to; `None` for
    /// `MPI_PROC_NULL`.
    ///
    /// If a rank is a neighbour more than once, messages match in the order of the lists; in a grid, see
    /// [`with_crossed`](Self::with_crossed).
    #[must_use]
    pub const fn with_neighbours(self, sources: &'a [Option<usize>], destinations: &'a [Option<usize>]) -> Self {
        Self {
            sources,
            destinations,
            ..self
        }
    }

    /// Of a neighbourhood: says whether its lists are both those of a grid
    /// ([`Cartesian::neighbors`](crate::mpi::topology::Cartesian::neighbors)), where a message that is sent upwards
    /// arrives from below, and the other way round. That counts where both are one rank: in a periodic dimension of one
    /// or two.
    #[must_use]
    pub const fn with_crossed(self, crossed: bool) -> Self {
        Self { crossed, ..self }
    }

    /// Of a reduction: says whether operands commute. (Those of a scan need not.)
    #[must_use]
    pub const fn with_commutative(self, commutative: bool) -> Self {
        Self { commutative, ..self }
    }

    /// Says whether the call is in place (`MPI_IN_PLACE`): whether this rank's block or operand is in the output, or, at
    /// the root of a scatter, stays in the input. Of a collective with a root, only the root's word counts. (For an
    /// alltoallw in place all counts are 1.)
    #[must_use]
    pub const fn with_in_place(self, in_place: bool) -> Self {
        Self { in_place, ..self }
    }

    /// The collective.
    #[must_use]
    pub const fn collective(&self) -> Collective {
        self.collective
    }

    /// The root, if the collective has one.
    #[must_use]
    pub const fn root(&self) -> Option<usize> {
        match self.collective.partners() {
            Partners::Root => Some(self.root),
            _ => None,
        }
    }

    /// False if operands are reduced that do not commute.
    #[must_use]
    pub const fn commutative(&self) -> bool {
        self.commutative
    }
}

/// Readers of the description with its arguments.
impl Call<'_> {
    /// The roles of input and output in this call: an alltoall in place has no input.
    #[inline(always)]
    pub(in crate::mpi) fn roles(&self) -> (Role, Role) {
        let (input, output) = (self.collective.input(), self.collective.output());
        match (input, output) {
            (Role::Blocks, Role::Blocks) if self.in_place && !self.is_among_neighbours() => (Role::None, output),
            roles => roles,
        }
    }

    /// The ranks exchange with their neighbours only.
    pub(in crate::mpi) fn is_among_neighbours(&self) -> bool {
        self.collective.partners() == Partners::Neighbours
    }

    /// Whether `rank` has the buffer of blocks, if there is one.
    pub(in crate::mpi) fn has_blocks(&self, rank: usize) -> bool {
        self.root().is_none_or(|root| root == rank)
    }

    /// The size by which an algorithm for `size` ranks is chosen, in the sense of [`cost`](super::cost()): in elements,
    /// and the buffer to which they belong. All ranks must come to the same, so it depends on nothing that only one of
    /// them knows: there are no elements where MPI gives each rank only its own counts.
    pub(in crate::mpi) fn extent(&self, size: usize) -> (usize, Region) {
        let is_even = !self.collective.may_be_uneven();
        let blocks = (self.output.total(size), Region::Output);
        match (
            self.collective.partners(),
            self.collective.input(),
            self.collective.output(),
        ) {
            (Partners::All, Role::Block, Role::Blocks) => blocks,
            (Partners::All, Role::Blocks, _) if is_even => blocks,
            (Partners::Root, Role::Block, _) if is_even => (self.input.single().saturating_mul(size), Region::Input),
            (Partners::Root, _, Role::Block) if is_even => (self.output.single().saturating_mul(size), Region::Output),
            (_, Role::Packed | Role::Vector, _) => (self.output.single(), Region::Output),
            (_, Role::Divided, _) => blocks,
            _ => (0, Region::Output),
        }
    }

    /// The same call without borrowed lists; `None` if it has some.
    pub(in crate::mpi) fn without_lists(&self) -> Option<Call<'static>> {
        match (self.input, self.output) {
            (Blocks::Even { count: input }, Blocks::Even { count: output }) if !self.is_among_neighbours() => {
                Some(Call {
                    root: self.root,
                    input: input.into(),
                    output: output.into(),
                    commutative: self.commutative,
                    in_place: self.in_place,
                    ..Call::of(self.collective)
                })
            }
            _ => None,
        }
    }

    /// Checks all arguments of `rank` of `size` ranks, and whether the algorithm suits them.
    pub(super) fn check(&self, rank: usize, size: usize, algorithm: Algorithm) -> Result<(), ScheduleError> {
        let collective = self.collective;
        if !algorithm.suits(collective, size, self.commutative()) {
            return Err(ScheduleError::Unsuited {
                collective,
                algorithm,
                size,
            });
        }
        self.check_for(rank, size)
    }

    /// Checks all arguments of `rank` of `size` ranks.
    pub(in crate::mpi) fn check_for(&self, rank: usize, size: usize) -> Result<(), ScheduleError> {
        if rank >= size || u32::try_from(size).is_err() {
            return Err(ScheduleError::Rank { rank, size });
        }
        if let Some(root) = self.root() {
            check_root(root, size)?;
        }
        self.check_sizes(self.root() == Some(rank), (size, size))
    }

    /// Checks counts and blocks of a rank; the sizes are those of its own group and of the group of its blocks.
    pub(super) fn check_sizes(&self, is_root: bool, (size, others): (usize, usize)) -> Result<(), ScheduleError> {
        let mut numbers = [others; 2];
        if self.is_among_neighbours() {
            check_neighbours(self.sources, self.destinations, size)?;
            numbers = [self.destinations.len(), self.sources.len()];
        }
        let is_rooted = self.root().is_some();
        let (input, output) = self.roles();
        for ((role, blocks), needed) in [(input, self.input), (output, self.output)].into_iter().zip(numbers) {
            match role {
                Role::None => {}
                Role::Packed | Role::Vector => fits(blocks.single())?,
                Role::Block => fits(blocks.single().saturating_mul(if is_rooted { size } else { 1 }))?,
                Role::Divided => {
                    self.check_even(&blocks)?;
                    check_counts(&blocks, size)?;
                }
                Role::Blocks if is_root || !is_rooted => {
                    self.check_even(&blocks)?;
                    check_blocks(&blocks, needed)?;
                }
                Role::Blocks => {}
            }
        }
        Ok(())
    }

    fn check_even(&self, blocks: &Blocks<'_>) -> Result<(), ScheduleError> {
        match blocks {
            Blocks::Uneven { .. } if !self.collective.may_be_uneven() => Err(ScheduleError::Uneven(self.collective)),
            _ => Ok(()),
        }
    }
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

/// Checks the blocks of a vector: they lie one after the other, so displacements do not count.
fn check_counts(blocks: &Blocks<'_>, size: usize) -> Result<(), ScheduleError> {
    if let Blocks::Uneven { counts, .. } = blocks {
        enough(counts.len(), size)?;
    }
    fits(blocks.total(size))
}

/// Checks that there are `needed` blocks, with offsets that fit an `isize`.
fn check_blocks(blocks: &Blocks<'_>, needed: usize) -> Result<(), ScheduleError> {
    match *blocks {
        Blocks::Even { .. } => {}
        Blocks::Pieces { parts, .. } => enough(parts, needed)?,
        Blocks::Uneven { counts, displacements } => {
            enough(counts.len(), needed)?;
            enough(displacements.len(), needed)?;
            let reach = displacements
                .iter()
                .map(|displacement| displacement.unsigned_abs())
                .max();
            fits(reach.unwrap_or(0))?;
        }
    }
    fits(blocks.total(needed))
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
    /// Blocks of different lengths, where the collective has all alike.
    Uneven(Collective),
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
            Self::Uneven(collective) => write!(f, "the blocks of {collective} have one length"),
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
