//! Classes of messages, and what their match bits hold.

use crate::{
    messaging::tagged::{MARK, MARKED},
    mpi::collectives::Call,
};

/// Match bits: a number in the low 32 bits (a tag, or a count per class), then the class, then the context.
pub(super) const CLASS_SHIFT: u32 = 32;
pub(super) const CONTEXT_SHIFT: u32 = 35;

/// Classes of messages of a communicator. Each class has a number space of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Messages of the program: numbers are tags.
    Message = 0,
    /// Collectives among some of the processes, or among both groups of an intercommunicator: numbers are chosen by the
    /// caller.
    Part = 1,
    /// Set-up messages of partitioned communication: numbers are tags.
    Setup = 2,
    /// Messages of partitioned communication, counted by their sender.
    Partition = 3,
    // Classes from here on have the bit `MARKED`.
    /// Collectives, counted.
    Collective = 4,
    /// Persistent collectives, counted.
    Persistent = 5,
    /// The last barrier, in `MPI_Finalize`: it is never matched with another collective.
    Finalize = 6,
    /// Collectives that a program begins and waits for later, counted by themselves: MPI wants one order of all
    /// collectives (MPI 6.12), but other libraries keep these apart from blocking ones, and programs have come to rely
    /// on it.
    Immediate = 7,
}

impl Class {
    /// Numbers of collectives leave room for a mark; there are so many that none is used again while it is in use.
    pub(super) const COLLECTIVES: u32 = (1 << 20) - 1;

    /// A hash of the call that a collective adds to its match bits, so that a different collective is not taken for it.
    pub(super) fn mark(self, call: &Call<'_>, bytes: usize) -> u64 {
        if (self as u64) << CLASS_SHIFT & MARKED == 0 {
            return 0;
        }
        let number = call.collective() as u64 + 1;
        let root = call.root().unwrap_or(0);
        let said = number << 58 ^ (root as u64) << 40 ^ bytes as u64;
        said.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 & MARK
    }
}

const _: () = assert!(MARKED == 1 << (CLASS_SHIFT + 2) && MARK & Class::COLLECTIVES as u64 == 0);

/// Whether these are match bits of the barrier in `MPI_Finalize`.
pub(super) fn is_of_finalize(bits: u64) -> bool {
    bits >> CLASS_SHIFT & 7 == Class::Finalize as u64
}
