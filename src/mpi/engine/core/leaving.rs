//! What is known of processes that have called `MPI_Finalize`.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use crate::{messaging::tagged::MARKED, mpi::group::Group, reliability::PeerId};

/// The processes from which a receive takes messages if it names no source.
#[derive(Clone)]
pub(crate) struct AnyOf {
    pub(crate) group: Group,
    /// Context of the communicator.
    pub(crate) context: u32,
}

/// Processes that have called `MPI_Finalize`: they send nothing any more but their part of the last barrier.
#[derive(Default)]
pub(in crate::mpi::engine) struct Leaving {
    pub(super) others: BTreeSet<u32>,
    /// Set when this process leaves, too: peers that have not been told.
    pub(super) untold: Option<Vec<PeerId>>,
    /// By context and class: the first collective that a process which has left took no part in.
    missed: BTreeMap<u64, Missed>,
}

/// A process has left without taking part in a collective.
pub(super) struct Missed {
    process: u32,
    /// The match bits of the collective.
    bits: u64,
    /// Another process has told of it. It tells the other members as well, but not in order with messages of this process.
    is_heard: bool,
    /// The members, if this process has given up a collective because of what it has heard.
    members: Option<Group>,
}

impl Missed {
    pub(super) const fn new(process: u32, bits: u64) -> Self {
        Self {
            process,
            bits,
            is_heard: false,
            members: None,
        }
    }

    pub(super) const fn process(&self) -> u32 {
        self.process
    }

    /// As this process tells others of it.
    pub(super) fn to_bytes(&self) -> [u8; 12] {
        let mut data = [0; 12];
        data[..4].copy_from_slice(&self.process.to_be_bytes());
        data[4..].copy_from_slice(&self.bits.to_be_bytes());
        data
    }

    /// As another process tells of it.
    pub(super) fn heard(data: &[u8]) -> Option<Self> {
        let (process, bits) = data.split_first_chunk()?;
        let missed = Self::new(u32::from_be_bytes(*process), u64::from_be_bytes(bits.try_into().ok()?));
        Some(Self {
            is_heard: true,
            ..missed
        })
    }
}

/// Limit of the entries of `missed`: when it is full, further communicators are not recorded.
const MAX_MISSED: usize = 1 << 12;

/// Context and class of a collective, and its number; numbers that are not marked are scaled to be comparable.
pub(super) fn split(bits: u64) -> (u64, u32) {
    let number = bits as u32;
    (bits >> 32, if bits & MARKED == 0 { number } else { number << 12 })
}

/// Whether `number` is `first` or comes after it (serial arithmetic).
pub(super) fn is_from(number: u32, first: u32) -> bool {
    number.wrapping_sub(first) < 1 << 31
}

impl Leaving {
    #[inline]
    pub(in crate::mpi::engine) fn has_untold(&self) -> bool {
        self.untold.as_ref().is_some_and(|untold| !untold.is_empty())
    }

    /// Notes that a process takes no part in a collective. False if that follows from what is known.
    pub(super) fn miss(&mut self, missed: Missed) -> bool {
        let (kind, number) = split(missed.bits);
        match self.missed.get(&kind) {
            Some(first) if is_from(number, split(first.bits).1) => return false,
            None if self.missed.len() >= MAX_MISSED => return false,
            _ => {}
        }
        self.missed.insert(kind, missed);
        true
    }

    /// The process that is missed in the collective with these match bits, or was in an earlier one of the same kind, if it
    /// is one of the members: they give it up.
    pub(super) fn give_up(&mut self, bits: u64, members: &Group) -> Option<u32> {
        if self.missed.is_empty() {
            return None;
        }
        let (kind, number) = split(bits);
        let first = self.missed.get_mut(&kind)?;
        if !is_from(number, split(first.bits).1) || members.rank_of(first.process).is_none() {
            return None;
        }
        if first.is_heard && first.members.is_none() {
            first.members = Some(members.clone());
        }
        Some(first.process)
    }

    /// The collectives that this process has given up by hearsay, of which `process` is a member: it may not have heard.
    pub(super) fn given_up_with(&self, process: u32) -> impl Iterator<Item = &Missed> {
        let is_member = move |members: &Group| members.rank_of(process).is_some();
        self.missed
            .values()
            .filter(move |missed| missed.members.as_ref().is_some_and(is_member))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messaging::tagged::MARK;

    /// Numbers begin anew after 2^20 collectives where bits have room for a mark, and elsewhere after 2^32.
    #[test]
    fn the_first_collective_comes_after_the_last() {
        for (class, last) in [(MARKED, (1 << 20) - 1), (0, u64::from(u32::MAX))] {
            let comes_after = |number: u64, first: u64| is_from(split(class | number).1, split(class | first).1);
            assert!(comes_after(5, 5) && comes_after(6, 5) && !comes_after(5, 6));
            assert!(comes_after(0, last) && !comes_after(last, 0));
        }
        assert_eq!(split(MARKED | MARK | 5), split(MARKED | 5));
        assert_ne!(split(MARKED | 5).0, split(5).0);
    }
}
