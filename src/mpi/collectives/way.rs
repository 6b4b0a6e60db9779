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
        let host = Host::new(self, bytes, shape);
        let between = |each, bytes| self.between(collective, each, bytes, commutative, shape);
        match way {
            Way::Flat => {
                let algorithm = self.choose(collective, shape.size, bytes, commutative);
                cost(collective, algorithm, shape.size, bytes, &self.model)
            }
            Way::Leaders if collective == Collective::Alltoall => {
                host.by_leaders(collective) + between(1, bytes.saturating_mul(shape.most))
            }
            Way::Leaders => host.by_leaders(collective) + between(1, bytes),
            Way::Shares => host.by_shares(collective) + between(shape.most, bytes),
        }
    }

    /// Seconds of what goes between hosts: among so many ranks of each, which divide the bytes.
    fn between(&self, collective: Collective, each: usize, bytes: usize, commutative: bool, shape: &Shape) -> f64 {
        let own = Self::new(self.model_between(each, shape));
        let (hosts, bytes) = (shape.hosts, bytes.div_ceil(each));
        let collective = collective.among_hosts(shape.is_even);
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

/// What the ranks of a host take for their part: seconds.
struct Host<'a> {
    /// Until the others see what a rank writes.
    alpha: f64,
    /// For each byte that a rank writes or copies, and that it reduces.
    beta: f64,
    gamma: f64,
    /// The bytes of the collective, and ranks.
    n: f64,
    q: f64,
    shape: &'a Shape,
}

impl<'a> Host<'a> {
    fn new(policy: &Policy, bytes: usize, shape: &'a Shape) -> Self {
        let Model { sharing, gamma, .. } = policy.model;
        // Where ranks share cores, a rank that waits is put to sleep and woken, and the others of its core come first.
        let turn = if sharing > 1.0 { policy.model.alpha / 2.0 } else { 0.0 };
        let sharing = sharing.max(1.0);
        Self {
            alpha: policy.within.alpha.max(turn * sharing),
            beta: policy.within.beta * sharing,
            gamma: gamma * sharing,
            n: bytes as f64,
            q: shape.most as f64,
            shape,
        }
    }

    /// All ranks get so many bytes.
    fn bcast(&self, bytes: f64) -> f64 {
        self.alpha + bytes * self.beta
    }

    /// One rank reduces the vectors of the others.
    fn reduce(&self) -> f64 {
        self.alpha + (self.q - 1.0) * self.n * (self.beta + self.gamma)
    }

    /// One rank gets blocks of so many bytes from the others, or gives them to these.
    fn blocks(&self, bytes: f64) -> f64 {
        self.alpha + (self.q - 1.0) * bytes * self.beta
    }

    /// Blocks are put into the order of ranks.
    fn order(&self, bytes: f64) -> f64 {
        if self.shape.is_ordered { 0.0 } else { bytes * self.beta }
    }

    /// All ranks take the shares of the others. (Each waits for all others, not for one.)
    fn shares(&self) -> f64 {
        2.0 * self.alpha + self.n * self.beta
    }

    /// Each rank reduces its share.
    fn reduced_shares(&self) -> f64 {
        2.0 * self.alpha + self.n * (self.beta + self.gamma)
    }

    fn by_leaders(&self, collective: Collective) -> f64 {
        let (n, q, block) = (self.n, self.q, self.n / self.shape.size as f64);
        match collective {
            Collective::Barrier => 2.0 * self.alpha,
            Collective::Bcast => self.bcast(n),
            Collective::Reduce => self.reduce(),
            Collective::Gather | Collective::Scatter => self.blocks(block) + self.order(n),
            Collective::Allgather | Collective::Allgatherv => self.blocks(block) + self.bcast(n) + self.order(n),
            Collective::ReduceScatter | Collective::ReduceScatterBlock => {
                self.reduce() + self.order(n) + self.blocks(block)
            }
            // Each rank reduces the operands of all before it, and in the end those of the hosts before.
            Collective::Scan | Collective::Exscan => self.reduce() + self.bcast(n) + n * self.gamma,
            // The leader has the blocks of all its ranks, and arranges them before and after.
            Collective::Alltoall => 2.0 * self.blocks(n) + 2.0 * q * n * self.beta,
            _ => self.reduce() + self.bcast(n),
        }
    }

    fn by_shares(&self, collective: Collective) -> f64 {
        let n = self.n;
        match collective {
            Collective::Bcast => self.bcast(n) + self.shares(),
            // Here and below, the slowest group of peers is waited for. Blocks come in the order of places.
            Collective::Allgather | Collective::Allgatherv => self.alpha + self.shares() + n * self.beta,
            // They are put into the order of places, and each reduces those of its place.
            Collective::ReduceScatter | Collective::ReduceScatterBlock => {
                self.alpha + n * self.beta + self.reduced_shares()
            }
            // Each reduces its share first.
            _ => self.reduced_shares() + self.shares(),
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
        for collective in [Collective::Gather, Collective::Scatter, Collective::Allgather] {
            assert_eq!(way(&policy, collective, 128, &SHAPE), Way::Leaders);
        }
        assert_eq!(way(&policy, Collective::Gather, 1 << 20, &SHAPE), Way::Leaders);
        assert_eq!(way(&policy, Collective::Allgather, 1 << 20, &SHAPE), Way::Shares);
        // A leader sends the blocks of all ranks of its host: if they are large, all send their own.
        assert_eq!(way(&policy, Collective::Alltoall, 128, &SHAPE), Way::Leaders);
        assert_eq!(way(&policy, Collective::Alltoall, 1 << 20, &SHAPE), Way::Flat);
        assert_eq!(way(&policy, Collective::Gatherv, 0, &SHAPE), Way::Flat);
        for collective in [Collective::ReduceScatter, Collective::ReduceScatterBlock] {
            assert_eq!(way(&policy, collective, 128, &SHAPE), Way::Leaders);
            assert_eq!(way(&policy, collective, 1 << 20, &SHAPE), Way::Shares);
        }
        for collective in [Collective::Scan, Collective::Exscan] {
            assert_eq!(way(&policy, collective, 128, &SHAPE), Way::Leaders);
            let unordered = Shape {
                is_ordered: false,
                ..SHAPE
            };
            assert_eq!(way(&policy, collective, 128, &unordered), Way::Flat);
        }
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
        for collective in [
            Collective::Gather,
            Collective::Scatter,
            Collective::Allgather,
            Collective::Allgatherv,
            Collective::Alltoall,
            Collective::ReduceScatter,
            Collective::Scan,
        ] {
            for bytes in [128, 1 << 20] {
                assert_eq!(way(&policy, collective, bytes, &SHAPE), Way::Flat, "{collective}");
            }
        }
    }

    /// Between hosts with different numbers of ranks, blocks have different lengths, and only one algorithm gathers them.
    #[test]
    fn uneven_hosts_gather_straight() {
        let policy = Policy::default();
        let many = Shape {
            size: 128,
            hosts: 64,
            most: 3,
            is_even: false,
            is_ordered: true,
        };
        assert_eq!(way(&policy, Collective::Gather, 128, &many), Way::Flat);
        let even = Shape { is_even: true, ..many };
        assert_eq!(way(&policy, Collective::Gather, 128, &even), Way::Leaders);
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
