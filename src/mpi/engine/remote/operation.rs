//! Operations on the windows of other processes, as they are called, and their parts in flight.

use alloc::{collections::VecDeque, vec::Vec};

use super::{
    message::{self, MAX_RUNS, Run, Runs},
    window::Failure,
};
use crate::{
    messaging::LandingId,
    mpi::{
        datatype::{Datatype, Kind},
        engine::{
            buffer::{Buffer, Lender, Loans},
            core::RequestId,
        },
        operation::Predefined,
    },
};

/// Kinds of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::mpi::engine) enum What {
    Put,
    Get,
    Accumulate {
        kind: Kind,
        operation: Predefined,
    },
    /// Value to compare with and new value: elements of `kind`, in the first bytes.
    Swap {
        kind: Kind,
        operands: [[u8; 8]; 2],
    },
}

impl What {
    /// Whether elements of this kind can be compared and swapped.
    pub(in crate::mpi::engine) fn swaps(kind: Kind) -> bool {
        message::swaps(kind)
    }

    /// `expected` and `new` are elements of `kind`.
    pub(in crate::mpi::engine) fn swap(kind: Kind, expected: &[u8], new: &[u8]) -> Self {
        let operands = [expected, new].map(|element| {
            let mut bytes = [0; 8];
            bytes[..element.len()].copy_from_slice(element);
            bytes
        });
        Self::Swap { kind, operands }
    }

    /// The reduction, by its MPI name.
    pub(in crate::mpi::engine) fn operation(self) -> Option<&'static str> {
        match self {
            Self::Accumulate { operation, .. } => Some(operation.name()),
            _ => None,
        }
    }

    /// Bytes that must stay in one part.
    pub(super) fn unit(self) -> u64 {
        match self {
            Self::Put | Self::Get => 1,
            Self::Accumulate { kind, .. } | Self::Swap { kind, .. } => kind.size(),
        }
    }
}

/// Location of elements in the window of a process.
#[derive(Clone, Debug)]
pub(in crate::mpi::engine) struct Place {
    pub(in crate::mpi::engine) process: u32,
    /// Name of the target's window.
    pub(in crate::mpi::engine) window: u64,
    pub(in crate::mpi::engine) is_dynamic: bool,
    /// Offset from the beginning of the window, bytes; in a dynamic window the address.
    pub(in crate::mpi::engine) base: i64,
    pub(in crate::mpi::engine) count: u64,
    pub(in crate::mpi::engine) datatype: Datatype,
}

impl Place {
    /// Writes the runs of the bytes from `at` on to `runs`: as many as fit one message, at most `most` bytes, in whole
    /// units. Gives their length in bytes.
    pub(super) fn runs(&self, at: u64, end: u64, most: u64, unit: u64, runs: &mut Vec<u8>) -> u64 {
        let mut list = Vec::new();
        let mut len = 0;
        for segment in self
            .datatype
            .segments(self.count, at..end.min(at + most))
            .take(MAX_RUNS)
        {
            list.push((self.base.wrapping_add(segment.offset) as u64, segment.len));
            len += segment.len;
        }
        len -= len % unit;
        let mut left = len;
        for (offset, run) in list {
            let run = run.min(left) as u32;
            left -= u64::from(run);
            if run > 0 {
                Runs::push(runs, Run { offset, len: run });
            }
        }
        len
    }
}

/// An operation that the program has called.
pub(super) struct Operation {
    /// Name of this process's own window.
    pub(super) window: u64,
    pub(super) place: Place,
    pub(super) what: What,
    pub(super) operand: Option<Lender>,
    pub(super) loans: Option<Loans>,
    pub(super) result: Option<Buffer>,
    /// Bytes at the target: already sent, and in all.
    pub(super) at: u64,
    pub(super) len: u64,
    /// Number of parts that have not ended.
    pub(super) in_flight: u32,
    pub(super) request: Option<RequestId>,
    pub(super) failure: Option<Failure>,
}

/// A request that awaits an answer.
#[derive(Clone, Copy, Debug)]
pub(super) enum Flight {
    /// A part of an operation: `len` bytes from `at` on.
    Part {
        process: u32,
        operation: u32,
        at: u64,
        len: u64,
        /// The landing for the answer's data.
        landing: Option<LandingId>,
    },
    /// A lock; `window` is the own window.
    Lock { process: u32, window: u64 },
}

impl Flight {
    pub(super) fn process(&self) -> u32 {
        match self {
            Self::Part { process, .. } | Self::Lock { process, .. } => *process,
        }
    }
}

/// Operations to one process, in order.
#[derive(Debug, Default)]
pub(super) struct Queue {
    pub(super) waiting: VecDeque<u32>,
    pub(super) in_flight: usize,
}
