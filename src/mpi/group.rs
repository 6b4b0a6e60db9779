//! Groups: ordered sets of processes (MPI 7.3).
//!
//! A process is a number: its rank in the world that the launcher made. A group of the whole world, of every second
//! process, or of a few such pieces takes a few words, whatever its size; only groups without such order have a list.

use alloc::{sync::Arc, vec, vec::Vec};

use super::{Rank, class::ErrorClass};

/// A group is kept as pieces if it has at least this many members per piece, otherwise as a list.
const MEMBERS_PER_PIECE: usize = 4;

/// An ordered set of processes. Cheap to clone; never changes.
#[derive(Clone, Debug)]
pub struct Group(Members);

#[derive(Clone, Debug)]
enum Members {
    Range(Piece),
    /// Ranges that do not interleave.
    Pieces(Arc<Pieces>),
    List(Arc<List>),
}

/// Processes at equal distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    /// The rank of the first one in the group.
    start: u32,
    first: u32,
    /// Not 0.
    stride: i64,
    len: u32,
}

#[derive(Debug)]
struct Pieces {
    by_rank: Vec<Piece>,
    /// The same, sorted by their least process.
    by_process: Vec<Piece>,
    len: u32,
}

#[derive(Debug)]
struct List {
    by_rank: Vec<u32>,
    /// Processes and their ranks, sorted by process.
    by_process: Vec<(u32, u32)>,
}

/// Why a group could not be made.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum GroupError {
    /// A rank that the group does not have.
    Rank {
        /// Index of the wrong element of the argument.
        index: usize,
        /// Its value, or the rank that results from it.
        rank: i64,
        /// Number of members of the group.
        size: Rank,
    },
    /// A rank that occurs twice.
    Duplicate {
        /// Index of its second occurrence.
        index: usize,
        /// The rank.
        rank: Rank,
    },
    /// A range with a stride of zero.
    Stride {
        /// Index of the range.
        index: usize,
    },
}

/// How two groups relate (`MPI_Group_compare`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// The same members in the same order (`MPI_IDENT`).
    Identical,
    /// The same members in another order (`MPI_SIMILAR`).
    Similar,
    /// Different members (`MPI_UNEQUAL`).
    Unequal,
}

/// Ranks `first`, `first + stride`, … up to `last`, which need not be one of them (`MPI_Group_range_incl`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankRange {
    /// The first rank.
    pub first: Rank,
    /// The limit, included.
    pub last: Rank,
    /// The distance of ranks; not 0, may be negative.
    pub stride: Rank,
}

impl Group {
    /// The empty group (`MPI_GROUP_EMPTY`).
    pub const EMPTY: Self = Self::world(0);

    /// Processes 0 to `size` − 1; empty if `size` is negative.
    #[must_use]
    pub const fn world(size: Rank) -> Self {
        Self::range(0, size)
    }

    /// Processes `first` to `first` + `size` − 1; empty if `size` is negative.
    pub(crate) const fn range(first: u32, size: Rank) -> Self {
        Self(Members::Range(Piece {
            start: 0,
            first,
            stride: 1,
            len: if size < 0 { 0 } else { size as u32 },
        }))
    }

    /// These processes in this order, none of them twice.
    ///
    /// # Errors
    /// [`GroupError::Duplicate`]; [`GroupError::Rank`] if there are more processes than ranks.
    pub fn of_processes(processes: &[u32]) -> Result<Self, GroupError> {
        if let Some(rank) = processes.get(Rank::MAX as usize).map(|_| processes.len() as i64) {
            return Err(GroupError::Rank {
                index: Rank::MAX as usize,
                rank,
                size: Rank::MAX,
            });
        }
        let mut by_process: Vec<(u32, u32)> = (processes.iter().copied()).zip(0..).collect();
        by_process.sort_unstable();
        if let Some(pair) = by_process.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(GroupError::Duplicate {
                index: pair[1].1 as usize,
                rank: pair[1].0 as Rank,
            });
        }
        Ok(Self::new(processes.to_vec(), by_process))
    }

    /// From members without duplicates; `by_process` is sorted.
    fn new(by_rank: Vec<u32>, by_process: Vec<(u32, u32)>) -> Self {
        let pieces = pieces(&by_rank);
        match pieces[..] {
            [] => return Self::EMPTY,
            [piece] => return Self(Members::Range(piece)),
            _ if pieces.len() * MEMBERS_PER_PIECE <= by_rank.len() => {}
            _ => return Self(Members::List(Arc::new(List { by_rank, by_process }))),
        }
        let mut sorted = pieces.clone();
        sorted.sort_unstable_by_key(Piece::low);
        Self(if sorted.windows(2).all(|pair| pair[0].high() < pair[1].low()) {
            Members::Pieces(Arc::new(Pieces {
                by_rank: pieces,
                by_process: sorted,
                len: by_rank.len() as u32,
            }))
        } else {
            Members::List(Arc::new(List { by_rank, by_process }))
        })
    }

    /// From members that are known to have no duplicates.
    fn of_distinct(by_rank: Vec<u32>) -> Self {
        let mut by_process: Vec<(u32, u32)> = by_rank.iter().copied().zip(0..).collect();
        by_process.sort_unstable();
        Self::new(by_rank, by_process)
    }

    /// Number of members.
    #[must_use]
    pub fn size(&self) -> Rank {
        let len = match &self.0 {
            Members::Range(piece) => piece.len,
            Members::Pieces(pieces) => pieces.len,
            Members::List(list) => list.by_rank.len() as u32,
        };
        len as Rank
    }

    /// The process of a rank; `None` if there is no such rank.
    #[must_use]
    #[inline]
    pub fn process(&self, rank: Rank) -> Option<u32> {
        match &self.0 {
            // (Most often it is the world.)
            Members::Range(piece) if piece.stride == 1 => {
                let index = (rank as u32).wrapping_sub(piece.start);
                (rank >= 0 && index < piece.len).then(|| piece.first + index)
            }
            _ => self.find_process(rank),
        }
    }

    /// The first process and the number of them, if each rank has the next one.
    pub(super) fn row(&self) -> Option<(u32, u32)> {
        match &self.0 {
            Members::Range(piece) if piece.stride == 1 && piece.start == 0 => Some((piece.first, piece.len)),
            _ => None,
        }
    }

    fn find_process(&self, rank: Rank) -> Option<u32> {
        let rank = u32::try_from(rank).ok()?;
        match &self.0 {
            Members::Range(piece) => piece.process(rank),
            Members::Pieces(pieces) => {
                let after = pieces.by_rank.partition_point(|piece| piece.start <= rank);
                pieces.by_rank[after.checked_sub(1)?].process(rank)
            }
            Members::List(list) => list.by_rank.get(rank as usize).copied(),
        }
    }

    /// The rank of a process; `None` if it is no member (`MPI_UNDEFINED`).
    #[must_use]
    #[inline(always)]
    pub fn rank_of(&self, process: u32) -> Option<Rank> {
        match &self.0 {
            // (Most often it is the world.)
            Members::Range(piece) if piece.stride == 1 => {
                let index = process.wrapping_sub(piece.first);
                (index < piece.len).then(|| (piece.start + index) as Rank)
            }
            _ => self.find_rank_of(process),
        }
    }

    fn find_rank_of(&self, process: u32) -> Option<Rank> {
        let rank = match &self.0 {
            Members::Range(piece) => piece.rank_of(process)?,
            Members::Pieces(pieces) => {
                let after = pieces.by_process.partition_point(|piece| piece.low() <= process);
                pieces.by_process[after.checked_sub(1)?].rank_of(process)?
            }
            Members::List(list) => {
                let found = list.by_process.binary_search_by_key(&process, |(process, _)| *process);
                list.by_process[found.ok()?].1
            }
        };
        Some(rank as Rank)
    }

    /// All processes in the order of their ranks.
    pub fn processes(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.size()).filter_map(|rank| self.process(rank))
    }

    /// The members of these ranks in this order (`MPI_Group_incl`).
    ///
    /// # Errors
    /// [`GroupError::Rank`], [`GroupError::Duplicate`].
    pub fn incl(&self, ranks: &[Rank]) -> Result<Self, GroupError> {
        let mut seen = Seen::new(self.size());
        let mut members = Vec::with_capacity(ranks.len());
        for (index, rank) in ranks.iter().enumerate() {
            seen.add(index, i64::from(*rank))?;
            members.extend(self.process(*rank));
        }
        Ok(Self::of_distinct(members))
    }

    /// All members but those of these ranks, in their order (`MPI_Group_excl`).
    ///
    /// # Errors
    /// [`GroupError::Rank`], [`GroupError::Duplicate`].
    pub fn excl(&self, ranks: &[Rank]) -> Result<Self, GroupError> {
        let mut seen = Seen::new(self.size());
        for (index, rank) in ranks.iter().enumerate() {
            seen.add(index, i64::from(*rank))?;
        }
        Ok(self.filtered(|rank, _| !seen.contains(rank)))
    }

    /// As [`incl`](Self::incl), of ranges (`MPI_Group_range_incl`).
    ///
    /// # Errors
    /// [`GroupError::Rank`], [`GroupError::Duplicate`], [`GroupError::Stride`].
    pub fn range_incl(&self, ranges: &[RankRange]) -> Result<Self, GroupError> {
        let mut seen = Seen::new(self.size());
        let mut members = Vec::new();
        each_rank(ranges, |index, rank| {
            seen.add(index, rank)?;
            members.extend(self.process(rank as Rank));
            Ok(())
        })?;
        Ok(Self::of_distinct(members))
    }

    /// As [`excl`](Self::excl), of ranges (`MPI_Group_range_excl`).
    ///
    /// # Errors
    /// [`GroupError::Rank`], [`GroupError::Duplicate`], [`GroupError::Stride`].
    pub fn range_excl(&self, ranges: &[RankRange]) -> Result<Self, GroupError> {
        let mut seen = Seen::new(self.size());
        each_rank(ranges, |index, rank| seen.add(index, rank))?;
        Ok(self.filtered(|rank, _| !seen.contains(rank)))
    }

    /// All members of this group, then those members of `other` that are not in it (`MPI_Group_union`).
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let new = other.processes().filter(|process| self.rank_of(*process).is_none());
        Self::of_distinct(self.processes().chain(new).collect())
    }

    /// The members of this group that are in `other`, too, in the order of this group (`MPI_Group_intersection`).
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.filtered(|_, process| other.rank_of(process).is_some())
    }

    /// The members of this group that are not in `other` (`MPI_Group_difference`).
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        self.filtered(|_, process| other.rank_of(process).is_none())
    }

    /// The rank in `other` of the member that has `rank` here (`MPI_Group_translate_ranks`, for one rank).
    ///
    /// # Errors
    /// [`GroupError::Rank`] if this group has no such rank. If `other` has no such member, the result is `None`.
    pub fn translate_rank(&self, rank: Rank, other: &Self) -> Result<Option<Rank>, GroupError> {
        match self.process(rank) {
            Some(process) => Ok(other.rank_of(process)),
            None => Err(GroupError::Rank {
                index: 0,
                rank: i64::from(rank),
                size: self.size(),
            }),
        }
    }

    /// How this and `other` relate.
    #[must_use]
    pub fn compare(&self, other: &Self) -> Comparison {
        if self.size() != other.size() {
            return Comparison::Unequal;
        }
        if let (Members::Range(a), Members::Range(b)) = (&self.0, &other.0)
            && a == b
        {
            return Comparison::Identical;
        }
        if self.processes().eq(other.processes()) {
            Comparison::Identical
        } else if self.processes().all(|process| other.rank_of(process).is_some()) {
            Comparison::Similar
        } else {
            Comparison::Unequal
        }
    }

    fn filtered(&self, keep: impl Fn(Rank, u32) -> bool) -> Self {
        let members = (0..)
            .zip(self.processes())
            .filter(|(rank, process)| keep(*rank, *process));
        Self::of_distinct(members.map(|(_, process)| process).collect())
    }
}

impl Piece {
    /// The process of a rank of the group.
    #[inline]
    fn process(&self, rank: u32) -> Option<u32> {
        let index = rank.checked_sub(self.start).filter(|index| *index < self.len)?;
        Some((i64::from(self.first) + i64::from(index) * self.stride) as u32)
    }

    /// The rank in the group of a process.
    #[inline]
    fn rank_of(&self, process: u32) -> Option<u32> {
        let distance = i64::from(process) - i64::from(self.first);
        let (index, rest) = match self.stride {
            1 => (distance, 0),
            stride => (distance / stride, distance % stride),
        };
        let index = u32::try_from(index).ok().filter(|index| *index < self.len)?;
        (rest == 0).then(|| self.start + index)
    }

    fn low(&self) -> u32 {
        self.first.min(self.last())
    }

    fn high(&self) -> u32 {
        self.first.max(self.last())
    }

    fn last(&self) -> u32 {
        (i64::from(self.first) + i64::from(self.len - 1) * self.stride) as u32
    }
}

/// `members` as ranges, each as long as possible from the left. There are no duplicates, so no stride is 0.
fn pieces(members: &[u32]) -> Vec<Piece> {
    let mut pieces = Vec::<Piece>::new();
    for (start, &process) in (0..).zip(members) {
        if let Some(piece) = pieces.last_mut() {
            let step = i64::from(process) - i64::from(piece.last());
            if piece.len == 1 {
                piece.stride = step;
            }
            if step == piece.stride {
                piece.len += 1;
                continue;
            }
        }
        pieces.push(Piece {
            start,
            first: process,
            stride: 1,
            len: 1,
        });
    }
    pieces
}

/// Calls `visit` with the index of its range and each rank. A rank may be out of range, which ends the iteration.
fn each_rank(
    ranges: &[RankRange],
    mut visit: impl FnMut(usize, i64) -> Result<(), GroupError>,
) -> Result<(), GroupError> {
    for (index, range) in ranges.iter().enumerate() {
        let (last, stride) = (i64::from(range.last), i64::from(range.stride));
        let mut rank = i64::from(range.first);
        if stride == 0 {
            return Err(GroupError::Stride { index });
        }
        while if stride > 0 { rank <= last } else { rank >= last } {
            visit(index, rank)?;
            rank += stride;
        }
    }
    Ok(())
}

/// The ranks seen so far: a bit for each.
struct Seen {
    size: Rank,
    bits: Vec<u64>,
}

impl Seen {
    fn new(size: Rank) -> Self {
        let bits = vec![0; (size as usize).div_ceil(64)];
        Self { size, bits }
    }

    fn add(&mut self, index: usize, rank: i64) -> Result<(), GroupError> {
        let size = self.size;
        if !(0..i64::from(size)).contains(&rank) {
            return Err(GroupError::Rank { index, rank, size });
        }
        let rank = rank as Rank;
        if self.contains(rank) {
            return Err(GroupError::Duplicate { index, rank });
        }
        self.bits[rank as usize / 64] |= 1 << (rank % 64);
        Ok(())
    }

    fn contains(&self, rank: Rank) -> bool {
        self.bits[rank as usize / 64] >> (rank % 64) & 1 == 1
    }
}

impl GroupError {
    /// Its MPI class.
    #[must_use]
    pub const fn class(&self) -> ErrorClass {
        match self {
            Self::Rank { .. } | Self::Duplicate { .. } => ErrorClass::Rank,
            Self::Stride { .. } => ErrorClass::Arg,
        }
    }
}

impl core::fmt::Display for GroupError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Rank { index, rank, size } => {
                write!(f, "element {index} is rank {rank}, and the group has {size} members")
            }
            Self::Duplicate { index, rank } => write!(f, "element {index} repeats rank {rank}"),
            Self::Stride { index } => write!(f, "range {index} has a stride of 0"),
        }
    }
}

crate::debug_as_display!(GroupError);

impl core::error::Error for GroupError {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn list(group: &Group) -> Vec<u32> {
        group.processes().collect()
    }

    /// Different processes in any order, often with ranges in it.
    fn members() -> impl Strategy<Value = Vec<u32>> {
        let piece = (0..60_u32, 1..12_u32, -3..4_i32);
        prop::collection::vec(piece, 0..6).prop_map(|pieces| {
            let mut members = Vec::new();
            for (first, len, stride) in pieces {
                for index in 0..len as i32 {
                    let process = (first as i32 + index * stride).unsigned_abs();
                    if !members.contains(&process) {
                        members.push(process);
                    }
                }
            }
            members
        })
    }

    proptest! {
        #[test]
        fn model(a in members(), b in members()) {
            let (group_a, group_b) = (Group::of_processes(&a).unwrap(), Group::of_processes(&b).unwrap());
            prop_assert_eq!(list(&group_a), a.clone());
            for process in 0..100 {
                let expected = a.iter().position(|member| *member == process).map(|rank| rank as Rank);
                prop_assert_eq!(group_a.rank_of(process), expected);
            }
            prop_assert_eq!(group_a.process(a.len() as Rank), None);

            let only_b = b.iter().filter(|process| !a.contains(process));
            let union: Vec<u32> = a.iter().chain(only_b).copied().collect();
            prop_assert_eq!(list(&group_a.union(&group_b)), union);
            let (both, only_a): (Vec<u32>, Vec<u32>) = a.iter().partition(|process| b.contains(process));
            prop_assert_eq!(list(&group_a.intersection(&group_b)), both);
            prop_assert_eq!(list(&group_a.difference(&group_b)), only_a);

            let sorted = |list: &[u32]| { let mut list = list.to_vec(); list.sort_unstable(); list };
            let expected = match (a == b, sorted(&a) == sorted(&b)) {
                (true, _) => Comparison::Identical,
                (_, true) => Comparison::Similar,
                _ => Comparison::Unequal,
            };
            prop_assert_eq!(group_a.compare(&group_b), expected);
            for rank in 0..group_a.size() {
                let expected = group_b.rank_of(a[rank as usize]);
                prop_assert_eq!(group_a.translate_rank(rank, &group_b).unwrap(), expected);
            }
        }

        #[test]
        fn ranges_are_lists(
            a in members(),
            ranges in prop::collection::vec((-2..30, -2..30, -3..4), 0..4),
        ) {
            let group = Group::of_processes(&a).unwrap();
            let ranges: Vec<RankRange> =
                ranges.into_iter().map(|(first, last, stride)| RankRange { first, last, stride }).collect();
            let mut ranks = Vec::new();
            let listed = each_rank(&ranges, |_, rank| { ranks.push(rank as Rank); Ok(()) });
            if listed.is_err() {
                prop_assert!(group.range_incl(&ranges).is_err() && group.range_excl(&ranges).is_err());
            } else {
                let lists = |result: Result<Group, GroupError>| result.ok().map(|group| list(&group));
                prop_assert_eq!(lists(group.range_incl(&ranges)), lists(group.incl(&ranks)));
                prop_assert_eq!(lists(group.range_excl(&ranges)), lists(group.excl(&ranks)));
            }
        }

        #[test]
        fn included_is_what_is_not_excluded(a in members(), chosen in prop::collection::vec(any::<bool>(), 80)) {
            let group = Group::of_processes(&a).unwrap();
            let ranks: Vec<Rank> = (0..group.size()).filter(|rank| chosen[*rank as usize]).collect();
            let (kept, rest) = (group.incl(&ranks).unwrap(), group.excl(&ranks).unwrap());
            prop_assert_eq!(list(&kept), ranks.iter().map(|rank| a[*rank as usize]).collect::<Vec<_>>());
            prop_assert_eq!(list(&group.difference(&kept)), list(&rest));
        }
    }

    #[test]
    fn large_groups_with_order_are_small() {
        let world = Group::world(16_384);
        let range = |first, last, stride| RankRange { first, last, stride };
        let odd = world.range_incl(&[range(1, 16_383, 2)]).unwrap();
        assert!(matches!(odd.0, Members::Range(_)));
        assert_eq!(
            (odd.size(), odd.rank_of(4_097), odd.rank_of(4_096)),
            (8_192, Some(2_048), None)
        );
        let reversed = world.range_incl(&[range(16_383, 0, -1)]).unwrap();
        assert!(matches!(reversed.0, Members::Range(_)));
        assert_eq!(reversed.compare(&world), Comparison::Similar);
        let survivors = world.excl(&[5_000]).unwrap();
        assert!(matches!(&survivors.0, Members::Pieces(pieces) if pieces.by_rank.len() == 2));
        assert_eq!(
            (survivors.process(5_000), survivors.rank_of(5_000)),
            (Some(5_001), None)
        );
    }

    #[test]
    fn bad_ranks_are_named() {
        let world = Group::world(4);
        let rank = |index, rank| Err(GroupError::Rank { index, rank, size: 4 });
        assert_eq!(world.incl(&[0, 4]).map(|_| ()), rank(1, 4));
        assert_eq!(world.excl(&[-1]).map(|_| ()), rank(0, -1));
        assert_eq!(world.translate_rank(9, &world).map(|_| ()), rank(0, 9));
        let twice = GroupError::Duplicate { index: 2, rank: 1 };
        assert_eq!(world.incl(&[1, 2, 1]).map(|_| ()), Err(twice));
        let range = RankRange {
            first: 0,
            last: 3,
            stride: 0,
        };
        assert_eq!(
            world.range_incl(&[range]).map(|_| ()),
            Err(GroupError::Stride { index: 0 })
        );
        assert!(Group::of_processes(&[3, 3]).is_err());
    }

    #[test]
    fn extreme_ranges_end() {
        let world = Group::world(2);
        let range = RankRange {
            first: 0,
            last: Rank::MAX,
            stride: Rank::MAX,
        };
        assert!(world.range_incl(&[range]).is_err());
        let range = RankRange {
            first: 1,
            last: 0,
            stride: Rank::MIN,
        };
        assert_eq!(world.range_incl(&[range]).map(|group| list(&group)), Ok(vec![1]));
    }
}
