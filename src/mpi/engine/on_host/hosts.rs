//! Which ranks of a communicator share a host.

use alloc::{collections::BTreeMap, vec, vec::Vec};

use crate::mpi::collectives::Shape;

/// The hosts of a communicator's ranks. Hosts are numbered by their first ranks, and the ranks of a host have *places*.
#[derive(Debug)]
pub(super) struct Hosts {
    /// The host of each rank.
    of: Vec<u32>,
    /// This rank's host, and its place there.
    pub(super) own: usize,
    pub(super) place: usize,
    /// The ranks of this host.
    pub(super) here: Vec<u32>,
    /// The first rank of each host.
    pub(super) firsts: Vec<u32>,
    /// The ranks at this rank's place on all hosts, if these have equally many.
    pub(super) peers: Vec<u32>,
    /// How many ranks each host has.
    pub(super) sizes: Vec<usize>,
    /// All ranks in *host order*: host by host, and place by place.
    pub(super) order: Vec<u32>,
    pub(super) shape: Shape,
}

impl Hosts {
    /// Ranks share a host if their labels are equal; without a label, a rank has a host of its own. `None`: they share one
    /// host, or none at all.
    pub(super) fn new<L: Ord>(labels: impl Iterator<Item = Option<L>>, rank: usize) -> Option<Self> {
        let (mut of, mut members) = (Vec::new(), Vec::<Vec<u32>>::new());
        let mut known = BTreeMap::new();
        for (label, rank) in labels.zip(0_u32..) {
            let next = members.len();
            let host = label.map_or(next, |label| *known.entry(label).or_insert(next));
            if host == next {
                members.push(vec![]);
            }
            members[host].push(rank);
            of.push(host as u32);
        }
        let own = *of.get(rank)? as usize;
        let most = members.iter().map(Vec::len).max()?;
        let (size, hosts) = (of.len(), members.len());
        if hosts == 1 || most == 1 {
            return None;
        }
        let sizes = members.iter().map(Vec::len).collect();
        let order = members.concat();
        let is_even = members.iter().all(|members| members.len() == most);
        let here = core::mem::take(&mut members[own]);
        let place = here.iter().position(|member| *member as usize == rank)?;
        let first = |members: &Vec<u32>| members.first().copied().unwrap_or(here[0]);
        let firsts = members.iter().map(first).collect();
        let at_place = |members: &Vec<u32>| members.get(place).copied().unwrap_or(here[place]);
        let peers = if is_even {
            members.iter().map(at_place).collect()
        } else {
            Vec::new()
        };
        Some(Self {
            shape: Shape {
                size,
                hosts,
                most,
                is_even,
                is_ordered: of.is_sorted(),
            },
            of,
            own,
            place,
            here,
            firsts,
            peers,
            sizes,
            order,
        })
    }

    /// The host of a rank.
    pub(super) fn host_of(&self, rank: usize) -> usize {
        self.of.get(rank).map_or(0, |host| *host as usize)
    }

    /// The place of a rank of this host.
    pub(super) fn place_of(&self, rank: usize) -> usize {
        self.here
            .iter()
            .position(|member| *member as usize == rank)
            .unwrap_or(0)
    }

    /// How many ranks are before those of this host, in host order.
    pub(super) fn before(&self) -> usize {
        self.sizes[..self.own].iter().sum()
    }

    /// All ranks place by place, and host by host, if all hosts have as many.
    pub(super) fn by_place(&self) -> Vec<u32> {
        let most = self.shape.most;
        let at = |place: usize| self.order.iter().skip(place).step_by(most);
        (0..most).flat_map(at).copied().collect()
    }

    /// The last rank of each host.
    pub(super) fn lasts(&self) -> Vec<u32> {
        let mut order = self.order.iter().copied();
        let last = |ranks: &usize| order.by_ref().nth(ranks.saturating_sub(1));
        self.sizes.iter().filter_map(last).collect()
    }

    /// One rank of each host: `root` on its own, the first one on the others.
    pub(super) fn with_root(&self, root: usize) -> Vec<u32> {
        let mut ranks = self.firsts.clone();
        ranks[self.host_of(root)] = root as u32;
        ranks
    }
}

/// What ranks that follow each other have together, so many of them in each sum; `of` says what each rank has.
pub(super) fn sums(order: &[u32], ranks: impl Iterator<Item = usize>, of: &[usize]) -> Vec<usize> {
    let mut order = order.iter();
    ranks
        .map(|ranks| order.by_ref().take(ranks).map(|rank| of[*rank as usize]).sum())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(labels: &[u8], rank: usize) -> Option<Hosts> {
        Hosts::new(labels.iter().map(|label| Some(*label).filter(|label| *label > 0)), rank)
    }

    #[test]
    fn ranks_with_one_label_share_a_host() {
        let even = hosts(&[7, 3, 7, 3], 3).unwrap();
        assert_eq!((even.own, even.place, &even.here[..]), (1, 1, &[1, 3][..]));
        assert_eq!((&even.firsts[..], &even.peers[..]), (&[0, 1][..], &[2, 3][..]));
        assert!(even.shape.is_even && !even.shape.is_ordered);
        assert_eq!((even.host_of(2), even.place_of(3)), (0, 1));
        assert_eq!((even.with_root(3), even.with_root(2)), (vec![0, 3], vec![2, 1]));
        assert_eq!((&even.sizes[..], even.before()), (&[2, 2][..], 2));
        assert_eq!(
            (&even.order[..], even.by_place()),
            (&[0, 2, 1, 3][..], vec![0, 1, 2, 3])
        );
        // Without a label each is alone.
        let uneven = hosts(&[9, 9, 0, 0], 2).unwrap();
        assert_eq!((uneven.shape.hosts, uneven.shape.most), (3, 2));
        assert!(uneven.peers.is_empty() && uneven.shape.is_ordered);
        assert_eq!((&uneven.here[..], &uneven.firsts[..]), (&[2][..], &[0, 2, 3][..]));
        assert_eq!((&uneven.sizes[..], uneven.before()), (&[2, 1, 1][..], 2));
        assert_eq!((&uneven.order[..], uneven.lasts()), (&[0, 1, 2, 3][..], vec![1, 2, 3]));
        let sizes = uneven.sizes.iter().copied();
        assert_eq!(sums(&uneven.order, sizes, &[5, 6, 7, 8]), [11, 7, 8]);
    }

    #[test]
    fn one_level_is_enough_on_one_host_and_with_one_rank_on_each() {
        assert!(hosts(&[1, 1, 1], 0).is_none());
        assert!(hosts(&[1, 2, 0], 0).is_none());
    }
}
