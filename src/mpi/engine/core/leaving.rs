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
    /// By context and class: the first collective that a process which has left took no part in, and that process.
    pub(super) missed: BTreeMap<u64, (u32, u32)>,
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

    /// Notes that a process takes no part in the collective with these bits. False if that follows from what is known.
    pub(super) fn miss(&mut self, bits: u64, process: u32) -> bool {
        let (kind, number) = split(bits);
        match self.missed.get(&kind) {
            Some(&(first, _)) if is_from(number, first) => return false,
            None if self.missed.len() >= MAX_MISSED => return false,
            _ => {}
        }
        self.missed.insert(kind, (number, process));
        true
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
