//! Which way of a collective is the cheapest, where several ranks share a host: in one level, or in two.

use super::{
    collective::Collective,
    cost::{Policy, cost},
    levels::{Levels, Shape, Way},
    model::Model,
};

impl Policy {
    /// The way of a collective: the cheapest, unless [`levels`](Self::levels) says otherwise. As in
    /// [`choose`](Self::choose), all ranks must come to the same.
    pub(in crate::mpi) fn way(&self, collective: Collective, bytes: usize, commutative: bool, shape: &Shape) -> Way {
        let suits = |way: &Way| way.suits(collective, commutative, shape);
        let ways = match self.levels {
            Levels::Off => return Way::Flat,
            Levels::Leaders => return Some(Way::Leaders).filter(suits).unwrap_or(Way::Flat),
            Levels::Shares => {
                let mut ways = [Way::Shares, Way::Leaders].into_iter().filter(suits);
                return ways.next().unwrap_or(Way::Flat);
            }
            // What is as cheap goes in two levels: of flat messages the model counts those within hosts as others.
            Levels::Auto => [Way::Leaders, Way::Shares, Way::Flat],
        };
        let seconds = |way: &Way| self.seconds(*way, collective, bytes, commutative, shape);
        let ways = ways.into_iter().filter(suits);
        ways.min_by(|a, b| seconds(a).total_cmp(&seconds(b)))
            .unwrap_or(Way::Flat)
    }

    /// Seconds that a collective takes in this way.
    fn seconds(&self, way: Way, collective: Collective, bytes: usize, commutative: bool, shape: &Shape) -> f64 {
        let Model { sharing, gamma, .. } = self.model;
        let (n, q) = (bytes as f64, shape.most as f64);
        // Where ranks share cores, a rank that waits is put to sleep and woken, and the others of its core come first.
        let turn = if sharing > 1.0 { self.model.alpha / 2.0 } else { 0.0 };
        let sharing = sharing.max(1.0);
        let alpha = self.within.alpha.max(turn * sharing);
        let copy = |bytes: f64| bytes * self.within.beta * sharing;
        let reduce = |bytes: f64| bytes * gamma * sharing;
        // What a host does of a vector: all ranks get it; one rank reduces it; each reduces its share; all take the shares.
        let bcast = alpha + copy(n);
        let reduced = alpha + copy((q - 1.0) * n) + reduce((q - 1.0) * n);
        // (Each waits for all others, not for one.)
        let scattered = 2.0 * alpha + copy(n) + reduce(n);
        let gathered = 2.0 * alpha + copy(n);
        match (way, collective) {
            (Way::Flat, _) => {
                let algorithm = self.choose(collective, shape.size, bytes, commutative);
                cost(collective, algorithm, shape.size, bytes, &self.model)
            }
            (Way::Leaders, Collective::Barrier) => 2.0 * alpha + self.between(collective, 1, 0, commutative, shape),
            (Way::Leaders, Collective::Bcast) => self.between(collective, 1, bytes, commutative, shape) + bcast,
            (Way::Leaders, Collective::Reduce) => reduced + self.between(collective, 1, bytes, commutative, shape),
            (Way::Leaders, _) => reduced + self.between(collective, 1, bytes, commutative, shape) + bcast,
            (Way::Shares, Collective::Bcast) => {
                bcast + self.between(collective, shape.most, bytes, commutative, shape) + gathered
            }
            (Way::Shares, _) => scattered + self.between(collective, shape.most, bytes, commutative, shape) + gathered,
        }
    }

    /// Seconds of what goes between hosts: among so many ranks of each, which divide the bytes.
    fn between(&self, collective: Collective, each: usize, bytes: usize, commutative: bool, shape: &Shape) -> f64 {
        let own = Self::new(self.model_between(each, shape));
        let (hosts, bytes) = (shape.hosts, bytes.div_ceil(each));
        let algorithm = own.choose(collective, hosts, bytes, commutative);
        cost(collective, algorithm, hosts, bytes, &own.model)
    }

    /// The model for so many ranks of each host: where ranks share cores, these have more of them.
    pub(in crate::mpi) fn model_between(&self, each: usize, shape: &Shape) -> Model {
        let active = (each * shape.hosts) as f64 / shape.size as f64;
        Model {
            sharing: self.model.sharing * active.min(1.0),
            ..self.model
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::levels::Within, *};

    const SHAPE: Shape = Shape {
        size: 16,
        hosts: 4,
        most: 4,
        is_even: true,
        is_ordered: true,
    };

    fn way(policy: &Policy, collective: Collective, bytes: usize, shape: &Shape) -> Way {
        policy.way(collective, bytes, true, shape)
    }

    #[test]
    fn small_ones_go_by_leaders_and_large_ones_by_shares() {
        let policy = Policy::default();
        assert_eq!(way(&policy, Collective::Barrier, 0, &SHAPE), Way::Leaders);
        assert_eq!(way(&policy, Collective::Allreduce, 8, &SHAPE), Way::Leaders);
        assert_eq!(way(&policy, Collective::Allreduce, 1 << 20, &SHAPE), Way::Shares);
        assert_eq!(way(&policy, Collective::Bcast, 8, &SHAPE), Way::Leaders);
        assert_eq!(way(&policy, Collective::Bcast, 1 << 20, &SHAPE), Way::Shares);
        assert_eq!(way(&policy, Collective::Alltoall, 8, &SHAPE), Way::Flat);
    }

    /// Where memory is slow, messages are better.
    #[test]
    fn the_model_may_speak_for_messages() {
        let slow = Within {
            alpha: 1e-3,
            beta: 1e-6,
        };
        let mut policy = Policy::default();
        policy.within = slow;
        assert_eq!(way(&policy, Collective::Barrier, 0, &SHAPE), Way::Flat);
        assert_eq!(way(&policy, Collective::Allreduce, 1 << 20, &SHAPE), Way::Flat);
    }

    #[test]
    fn a_way_may_be_forced_where_it_can_be() {
        let forced = |levels| {
            let mut policy = Policy::default();
            policy.levels = levels;
            policy
        };
        let [off, leaders, shares] = [Levels::Off, Levels::Leaders, Levels::Shares].map(forced);
        assert_eq!(way(&off, Collective::Barrier, 0, &SHAPE), Way::Flat);
        assert_eq!(way(&leaders, Collective::Allreduce, 1 << 20, &SHAPE), Way::Leaders);
        assert_eq!(way(&shares, Collective::Allreduce, 8, &SHAPE), Way::Shares);
        assert_eq!(way(&shares, Collective::Barrier, 0, &SHAPE), Way::Leaders);
        let uneven = Shape {
            is_even: false,
            is_ordered: false,
            ..SHAPE
        };
        assert_eq!(way(&shares, Collective::Allreduce, 8, &uneven), Way::Leaders);
        assert_eq!(shares.way(Collective::Allreduce, 8, false, &uneven), Way::Flat);
    }
}
