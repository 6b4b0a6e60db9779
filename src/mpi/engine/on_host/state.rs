//! What a communicator knows of memory that its ranks have mapped: all of them, or those of each host.

use alloc::boxed::Box;

use super::{asked::Asked, board::Board, hosts::Hosts};
use crate::{
    mpi::collectives::{Collective as Kind, Policy, Way},
    sync::{Guard, Lock},
};

/// What a communicator knows of memory that its ranks have mapped: all of them, or those of each host.
#[derive(Debug)]
pub(in crate::mpi::engine) struct OnHost(Lock<State>);

impl Default for OnHost {
    fn default() -> Self {
        Self(Lock::new(State::Early(FIRST)))
    }
}

/// What it knows, for as long as a collective uses it.
pub(in crate::mpi::engine) type Borrowed<'a> = Guard<'a, State>;

impl OnHost {
    /// `None`: a collective uses it.
    #[inline]
    pub(super) fn try_lock(&self) -> Option<Borrowed<'_>> {
        self.0.try_lock()
    }
}

/// Blocking collectives of a communicator that go by messages before its ranks find out who shares a host.
const FIRST: u32 = 4;

#[derive(Debug)]
pub(in crate::mpi::engine) enum State {
    /// So many collectives are left until they find out.
    Early(u32),
    /// They are all treated alike, and talk by messages.
    Without,
    /// All ranks have it.
    Made(Board),
    /// Some ranks share a host, others do not.
    Levels(Box<TwoLevels>),
}

/// What a communicator knows of hosts that some of its ranks share.
#[derive(Debug)]
pub(in crate::mpi::engine) struct TwoLevels {
    pub(super) hosts: Hosts,
    /// Memory of the ranks of this host. `None`: it has one rank, or (in a simulation) they talk by messages.
    pub(super) board: Option<Board>,
    /// The way of the last collective: of so many bytes, whose operands commute or do not.
    decided: Option<((Kind, usize, bool), Way)>,
}

impl TwoLevels {
    pub(super) fn new(hosts: Hosts, board: Option<Board>) -> Self {
        Self {
            hosts,
            board,
            decided: None,
        }
    }

    /// The way of a collective.
    pub(super) fn way(&mut self, policy: &Policy, asked: &Asked<'_>) -> Way {
        let (kind, commutative) = (asked.call.collective(), asked.call.commutative());
        let key = (kind, asked.bytes, commutative);
        match self.decided {
            Some((decided, way)) if decided == key => way,
            _ => {
                let way = policy.way(kind, asked.bytes, commutative, &self.hosts.shape);
                self.decided = Some((key, way));
                way
            }
        }
    }
}
