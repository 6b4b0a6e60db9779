//! Which peers are connected when: for networks on which a connection must be set up before it is used (the optics
//! paper, section 3; `docs/papers.md`).

use alloc::{collections::BTreeMap, vec::Vec};
use core::cmp::Reverse;

use super::schedule::{Schedule, Step};

/// When connections are opened, and how many a process has at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planning {
    /// One connection for each exchange with a peer in a round, opened when it is needed, one after the other.
    Naive,
    /// Connections are opened ahead, this many at a time, at least 1. Each is kept until its last use, or until its
    /// place is needed sooner.
    Ahead(usize),
}

/// The peers of a [`Schedule`] in phases: those of one are connected at a time.
///
/// A phase is over when all messages of its uses are complete; peers that the next phase has as well stay connected.
/// The peers of a round come in an order of pairs that is the same at all ranks, so a phase that ends in the middle of
/// a round leaves no ranks waiting for each other. (On a ring, even ranks send first and odd ones receive: the optics
/// paper, section 3.3.)
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    phases: Vec<Phase>,
    /// The phase of each use: by round and peer.
    uses: BTreeMap<(u32, u32), u32>,
}

/// Peers that are connected at a time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Phase {
    /// Their ranks, in the order of first use.
    pub peers: Vec<usize>,
    /// Messages, sent and received, until it is over.
    pub messages: usize,
    /// Peers of the previous phase are connected anew.
    pub anew: bool,
}

impl Plan {
    /// The plan of process `own` for its schedule. `process` maps a rank to a process, out of `size`: pairs are ordered
    /// by numbers of processes.
    #[must_use]
    pub fn new(
        schedule: &Schedule,
        planning: Planning,
        own: usize,
        size: usize,
        process: impl Fn(usize) -> usize,
    ) -> Self {
        let most = match planning {
            Planning::Naive => 1,
            Planning::Ahead(ports) => ports.max(1),
        };
        let naive = planning == Planning::Naive;
        let uses = uses(schedule, |peer| order(own, process(peer), size));
        let mut plan = Self::default();
        let mut at = 0;
        while at < uses.len() {
            let mut phase = Phase {
                anew: naive,
                ..Phase::default()
            };
            for (_, peer, _) in &uses[at..] {
                if phase.peers.len() < most && !phase.peers.contains(peer) {
                    phase.peers.push(*peer);
                } else if phase.peers.len() == most {
                    break;
                }
            }
            let number = plan.phases.len() as u32;
            let round = uses[at].0;
            while let Some((of, peer, messages)) = uses.get(at)
                && phase.peers.contains(peer)
                && (!naive || *of == round)
            {
                plan.uses.insert((*of as u32, *peer as u32), number);
                phase.messages += messages;
                at += 1;
            }
            plan.phases.push(phase);
        }
        plan
    }

    /// The phases, in their order.
    #[must_use]
    pub fn phases(&self) -> &[Phase] {
        &self.phases
    }

    /// The phase to which the messages of a round with a peer belong; `None` if there are none.
    #[must_use]
    pub fn phase_of(&self, round: usize, peer: usize) -> Option<usize> {
        self.uses.get(&(round as u32, peer as u32)).map(|phase| *phase as usize)
    }

    /// The phase to which the first messages of a round belong; `None` if there are none.
    #[must_use]
    pub fn begin_of(&self, round: usize) -> Option<usize> {
        let round = round as u32;
        let of_round = self.uses.range((round, 0)..=(round, u32::MAX));
        of_round.map(|(_, phase)| *phase as usize).min()
    }
}

/// Round, peer and number of messages of each use, in the order in which they get their connections.
fn uses<O: Ord>(schedule: &Schedule, order: impl Fn(usize) -> O) -> Vec<(usize, usize, usize)> {
    let mut uses: Vec<(usize, usize, usize)> = Vec::new();
    for round in 0..schedule.rounds() {
        let begin = uses.len();
        let mut index = BTreeMap::new();
        for step in schedule.round(round) {
            let (Step::Send { to: peer, .. } | Step::Receive { from: peer, .. }) = step else {
                continue;
            };
            let at = *index.entry(peer).or_insert(uses.len());
            if at == uses.len() {
                uses.push((round, peer, 0));
            }
            uses[at].2 += 1;
        }
        uses[begin..].sort_by_key(|(_, peer, _)| order(*peer));
    }
    uses
}

/// The position of a pair of processes in an order of all pairs in which no two pairs of one process have the same
/// position: the farthest apart on the ring first (in trees they have most to do), then pairs at one distance in turns
/// around it.
fn order(one: usize, other: usize, size: usize) -> (Reverse<usize>, usize) {
    let (low, high) = (one.min(other), one.max(other));
    let straight = high - low;
    let around = size.max(high + 1) - straight;
    if straight == 0 || straight <= around {
        (Reverse(straight), (low / straight.max(1)) % 2)
    } else {
        // The ring closes here: no turn is free for certain.
        (Reverse(around), 2)
    }
}

#[cfg(test)]
mod tests {
    use alloc::{collections::BTreeSet, vec};

    use super::*;
    use crate::mpi::collectives::{Algorithm, Call, Collective};

    fn plan(call: &Call<'_>, algorithm: Algorithm, (rank, size): (usize, usize), planning: Planning) -> Plan {
        let schedule = call.schedule(rank, size, algorithm).unwrap();
        Plan::new(&schedule, planning, rank, size, |rank| rank)
    }

    fn peers(plan: &Plan) -> Vec<&[usize]> {
        plan.phases.iter().map(|phase| &phase.peers[..]).collect()
    }

    fn allgather() -> Call<'static> {
        Call::of(Collective::Allgather).with_count(1)
    }

    #[test]
    fn no_process_has_two_pairs_at_one_place() {
        for size in 2..40 {
            for one in 0..size {
                let others = (0..size).filter(|other| *other != one);
                let places: BTreeSet<_> = others.map(|other| order(one, other, size)).collect();
                assert_eq!(places.len(), size - 1, "{one} of {size}");
                for other in 0..size {
                    assert_eq!(order(one, other, size), order(other, one, size));
                }
            }
        }
    }

    #[test]
    fn as_many_at_a_time_as_there_are_ports() {
        let call = Call::of(Collective::Bcast).with_count(1);
        let linear = plan(&call, Algorithm::Linear, (0, 6), Planning::Ahead(2));
        let phases = peers(&linear);
        assert_eq!(phases.len(), 3);
        assert_eq!(phases.concat().iter().collect::<BTreeSet<_>>().len(), 5);
        assert!(linear.phases.iter().map(|phase| phase.messages).eq([2, 2, 1]));
        let doubling = plan(&allgather(), Algorithm::RecursiveDoubling, (0, 32), Planning::Ahead(3));
        assert_eq!(peers(&doubling), [vec![1, 2, 4], vec![8, 16]]);
        let naive = plan(&allgather(), Algorithm::RecursiveDoubling, (0, 8), Planning::Naive);
        assert_eq!(peers(&naive), [[1], [2], [4]]);
    }

    #[test]
    fn a_ring_is_open_once_or_each_time() {
        let ahead = plan(&allgather(), Algorithm::Ring, (3, 8), Planning::Ahead(2));
        assert_eq!((ahead.phases.len(), ahead.phases[0].messages), (1, 14));
        for planning in [Planning::Naive, Planning::Ahead(1)] {
            let one = plan(&allgather(), Algorithm::Ring, (4, 8), planning);
            assert_eq!(peers(&one), [[5], [3]].repeat(7), "even ranks turn right first");
            let odd = plan(&allgather(), Algorithm::Ring, (5, 8), planning);
            assert_eq!(peers(&odd)[..2], [[4], [6]]);
        }
    }

    /// With halving and doubling the peers recur in reverse order: a peer that is needed again stays connected.
    #[test]
    fn what_is_needed_again_stays() {
        let call = Call::of(Collective::Allreduce).with_count(64);
        let plan = plan(&call, Algorithm::Rabenseifner, (0, 8), Planning::Ahead(2));
        assert_eq!(peers(&plan), [vec![1, 2], vec![4, 2], vec![1]]);
    }
}
