#![expect(unsafe_code, reason = "implements the trait of handles")]
//! Groups: ordered sets of processes.

use hikyaku::mpi::group::{Comparison, Group as RawGroup, GroupError};

use super::Rank;
use crate::{environment, raw::AsRaw};

/// The empty group.
///
/// ```
/// use mpi::{topology::SystemGroup, traits::*};
///
/// let universe = mpi::initialize().unwrap();
/// let everybody = universe.world().group();
/// assert_eq!(SystemGroup::empty().union(&everybody).size(), everybody.size());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SystemGroup(());

impl SystemGroup {
    /// The empty group (`MPI_GROUP_EMPTY`).
    #[must_use]
    pub fn empty() -> Self {
        Self(())
    }
}

// SAFETY: it is always the same.
unsafe impl AsRaw for SystemGroup {
    type Raw = RawGroup;

    fn as_raw(&self) -> RawGroup {
        RawGroup::EMPTY
    }
}

impl Group for SystemGroup {
    fn process(&self) -> u32 {
        environment::number()
    }
}

/// A group of processes.
#[derive(Clone, Debug)]
pub struct UserGroup {
    group: RawGroup,
    /// The number of this process in the job.
    process: u32,
}

impl UserGroup {
    pub(super) fn new(group: RawGroup, process: u32) -> Self {
        Self { group, process }
    }
}

// SAFETY: it never changes.
unsafe impl AsRaw for UserGroup {
    type Raw = RawGroup;

    fn as_raw(&self) -> RawGroup {
        self.group.clone()
    }
}

impl Group for UserGroup {
    fn process(&self) -> u32 {
        self.process
    }
}

/// Operations of groups. None of them needs the network.
pub trait Group: AsRaw<Raw = RawGroup> {
    /// The number of this process in the job.
    #[doc(hidden)]
    fn process(&self) -> u32;

    /// All processes of this group, then those that only the other group has (`MPI_Group_union`).
    #[must_use]
    fn union<G: Group>(&self, other: &G) -> UserGroup
    where
        Self: Sized,
    {
        UserGroup::new(self.as_raw().union(&other.as_raw()), self.process())
    }

    /// The processes of this group that are in the other one as well (`MPI_Group_intersection`).
    #[must_use]
    fn intersection<G: Group>(&self, other: &G) -> UserGroup
    where
        Self: Sized,
    {
        UserGroup::new(self.as_raw().intersection(&other.as_raw()), self.process())
    }

    /// The processes of this group that are not in the other one (`MPI_Group_difference`).
    #[must_use]
    fn difference<G: Group>(&self, other: &G) -> UserGroup
    where
        Self: Sized,
    {
        UserGroup::new(self.as_raw().difference(&other.as_raw()), self.process())
    }

    /// The processes at these ranks, in this order (`MPI_Group_incl`).
    ///
    /// # Panics
    /// If there is no such rank, or a rank appears twice.
    #[must_use]
    fn include(&self, ranks: &[Rank]) -> UserGroup {
        UserGroup::new(made("include", self.as_raw().incl(ranks)), self.process())
    }

    /// All processes but those at these ranks (`MPI_Group_excl`).
    ///
    /// # Panics
    /// If there is no such rank, or a rank appears twice.
    #[must_use]
    fn exclude(&self, ranks: &[Rank]) -> UserGroup {
        UserGroup::new(made("exclude", self.as_raw().excl(ranks)), self.process())
    }

    /// Number of processes (`MPI_Group_size`).
    #[must_use]
    fn size(&self) -> Rank {
        self.as_raw().size()
    }

    /// The rank of this process, if it is a member (`MPI_Group_rank`).
    #[must_use]
    fn rank(&self) -> Option<Rank> {
        self.as_raw().rank_of(self.process())
    }

    /// The rank, in another group, of the process with `rank` in this one (`MPI_Group_translate_ranks`).
    ///
    /// # Panics
    /// If there is no such rank.
    #[must_use]
    fn translate_rank<G: Group>(&self, rank: Rank, other: &G) -> Option<Rank>
    where
        Self: Sized,
    {
        made("translate_rank", self.as_raw().translate_rank(rank, &other.as_raw()))
    }

    /// The same for several ranks.
    ///
    /// # Panics
    /// If there is no such rank.
    #[must_use]
    fn translate_ranks<G: Group>(&self, ranks: &[Rank], other: &G) -> Vec<Option<Rank>>
    where
        Self: Sized,
    {
        ranks.iter().map(|rank| self.translate_rank(*rank, other)).collect()
    }

    /// How this group relates to another one (`MPI_Group_compare`).
    #[must_use]
    fn compare<G: Group>(&self, other: &G) -> GroupRelation
    where
        Self: Sized,
    {
        match self.as_raw().compare(&other.as_raw()) {
            Comparison::Identical => GroupRelation::Identical,
            Comparison::Similar => GroupRelation::Similar,
            Comparison::Unequal => GroupRelation::Unequal,
        }
    }
}

fn made<T>(name: &str, group: Result<T, GroupError>) -> T {
    group.unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The relation of two groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupRelation {
    /// The same processes in the same order.
    Identical,
    /// The same processes in another order.
    Similar,
    /// Different processes.
    Unequal,
}
