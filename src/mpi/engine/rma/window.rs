//! A window at its owner: memory, lock and epochs.

use alloc::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use bytes::Bytes;

use super::{
    lock::{Lock, Spot},
    memory::Memory,
};
use crate::{
    error::PeerError,
    mpi::{error::ErrorClass, group::Group},
};

/// Why an operation has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::mpi::engine) enum Failure {
    Lost(PeerError),
    Refused(ErrorClass),
}

/// Access epochs (MPI 12.5): when this process may access the windows of others.
#[derive(Debug)]
pub(in crate::mpi::engine) enum Epoch {
    None,
    /// Between fences; `used`: there has been an operation since the last fence.
    Fence {
        used: bool,
    },
    /// Between start and complete, with the group of targets.
    Started(Group),
    /// Locks by target; `true`: granted. `all`: requested by `lock_all`, and released by `unlock_all` only.
    Locked {
        locks: BTreeMap<u32, bool>,
        all: bool,
    },
}

impl Epoch {
    /// Whether another kind of synchronisation may begin.
    pub(in crate::mpi::engine) fn is_free(&self) -> bool {
        matches!(self, Self::None | Self::Fence { used: false })
    }

    pub(in crate::mpi::engine) fn allows(&mut self, process: u32) -> bool {
        match self {
            Self::None => false,
            Self::Fence { used } => {
                *used = true;
                true
            }
            Self::Started(group) => group.rank_of(process).is_some(),
            Self::Locked { locks, .. } => locks.get(&process) == Some(&true),
        }
    }
}

/// Operations in flight to one process through a window, and the first failure since failures were last taken.
#[derive(Debug, Default)]
pub(in crate::mpi::engine) struct Pending {
    pub(in crate::mpi::engine) operations: u32,
    pub(in crate::mpi::engine) failure: Option<Failure>,
}

/// A window at this process.
#[derive(Debug)]
pub(in crate::mpi::engine) struct WindowState {
    pub(in crate::mpi::engine) memory: Memory,
    pub(in crate::mpi::engine) group: Group,
    pub(super) lock: Lock,
    /// How often processes have posted to this one, and how often they have completed their accesses.
    pub(in crate::mpi::engine) posted: BTreeMap<u32, u32>,
    pub(in crate::mpi::engine) completed: BTreeMap<u32, u32>,
    pub(in crate::mpi::engine) epoch: Epoch,
    /// The group to which this process has posted.
    pub(in crate::mpi::engine) exposed: Option<Group>,
    pub(in crate::mpi::engine) pending: BTreeMap<u32, Pending>,
}

impl WindowState {
    /// The word of the lock lies in memory of other processes, too.
    pub(in crate::mpi::engine) fn share_lock(&mut self, spot: Arc<dyn Spot>) {
        self.lock.lie_at(spot);
    }

    /// Counts one down for `process`; false if the count is zero.
    pub(in crate::mpi::engine) fn take_one(counts: &mut BTreeMap<u32, u32>, process: u32) -> bool {
        let Some(count) = counts.get_mut(&process) else {
            return false;
        };
        *count -= 1;
        if *count == 0 {
            counts.remove(&process);
        }
        true
    }

    /// Number of operations in flight to the processes that are `wanted`.
    pub(in crate::mpi::engine) fn operations(&self, wanted: impl Fn(u32) -> bool) -> u32 {
        let pending = self.pending.iter().filter(|(process, _)| wanted(**process));
        pending.map(|(_, pending)| pending.operations).sum()
    }

    /// Takes a failure with a process that is `wanted`.
    pub(in crate::mpi::engine) fn take_failure(&mut self, wanted: impl Fn(u32) -> bool) -> Option<(u32, Failure)> {
        let mut found = None;
        self.pending.retain(|&process, pending| {
            if wanted(process)
                && let Some(failure) = pending.failure.take()
            {
                found = found.or(Some((process, failure)));
            }
            pending.operations > 0 || pending.failure.is_some()
        });
        found
    }

    pub(in crate::mpi::engine) fn fail(&mut self, process: u32, failure: Failure) {
        self.pending.entry(process).or_default().failure.get_or_insert(failure);
    }
}

/// Requested bytes that wait for room to be sent.
pub(super) struct Serving {
    pub(super) process: u32,
    pub(super) window: u64,
    pub(super) region: u64,
    /// Offset in the region and data of each piece.
    pub(super) pieces: VecDeque<(u64, Bytes)>,
}
