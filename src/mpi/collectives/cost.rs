//! Costs in closed form, and the choice of algorithms by cost.

use alloc::collections::BTreeMap;

use super::{
    algorithm::Algorithm,
    collective::Collective,
    levels::{Levels, Within},
    model::Model,
    terms::Terms,
    work::{Ranks, Work},
};

/// Seconds that a collective of `size` ranks takes in the model, or infinity if the algorithm does not suit it.
///
/// `bytes` is the number of bytes
/// - of the vector, for bcast, reduce, allreduce, reduce_scatter(_block), scan and exscan (before it is scattered);
/// - of all blocks together, for gather, scatter and allgather;
/// - of all blocks that one rank sends, for alltoall and neighbourhoods (then `size` is the number of neighbours + 1).
///
/// Equal to the result of [`simulate`](super::simulate) if `size` divides the vector and is a power of two (of the
/// radix, for reductions along trees), and reducing is not slower than sending. For algorithms that only forward data,
/// without folding ranks to a power of two, it is exact for any `size`. Otherwise the simulation gives 0.9 to 1.4 times
/// as much (ranks that are late hold up others). The table of formulas is in `docs/collectives.md`.
///
/// Where ranks share cores ([`Model::sharing`]), the result is at least the time that the cores need for the work of
/// all ranks.
#[must_use]
pub fn cost(collective: Collective, algorithm: Algorithm, size: usize, bytes: usize, model: &Model) -> f64 {
    if !algorithm.suits(collective, size, true) {
        return f64::INFINITY;
    }
    if size <= 1 {
        return 0.0;
    }
    let n = bytes as f64;
    if model.sharing <= 1.0 {
        return collective.path(algorithm, &Terms { model, p: size, n });
    }
    // A message takes time of two ranks; while one waits for its core, others use theirs.
    let halved = Model {
        alpha: model.alpha / 2.0,
        ..*model
    };
    let terms = Terms {
        model: &halved,
        p: size,
        n,
    };
    let path = collective.path(algorithm, &terms);
    path.max(shared(&Work::of(collective, algorithm, size, bytes), size, model))
}

impl Work {
    /// For `size` ranks (none for fewer than 2); `bytes` as in [`cost`](super::cost()).
    #[must_use]
    pub fn of(collective: Collective, algorithm: Algorithm, size: usize, bytes: usize) -> Self {
        if size < 2 {
            return Self::default();
        }
        let ranks = Ranks {
            p: size,
            n: bytes as f64,
        };
        collective.work(algorithm, &ranks)
    }
}

/// Seconds that the cores need for the work of all ranks, if ranks share them. Putting a rank to sleep and waking it up
/// costs about as much as one side of a message.
fn shared(work: &Work, size: usize, model: &Model) -> f64 {
    let messages = (work.messages + work.waits / 2.0) * model.start(work.bytes / work.messages.max(1.0));
    let seconds = messages + work.bytes * model.beta + work.reduced * model.gamma;
    seconds * model.sharing.min(size as f64) / size as f64
}

/// Chooses algorithms.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy {
    /// The cost of messages and reductions.
    pub model: Model,
    /// The cost of memory that ranks of one host have in common.
    pub within: Within,
    /// Whether collectives know which ranks share a host.
    pub levels: Levels,
    forced: BTreeMap<Collective, Algorithm>,
}

impl Policy {
    /// A policy that takes the cheapest algorithm in this model.
    #[must_use]
    pub fn new(model: Model) -> Self {
        Self {
            model,
            ..Self::default()
        }
    }

    /// Always takes `algorithm` for `collective`, where [it suits](Algorithm::suits).
    pub fn force(&mut self, collective: Collective, algorithm: Algorithm) {
        self.forced.insert(collective, algorithm);
    }

    /// The algorithm that [`force`](Self::force) has set for `collective`.
    #[must_use]
    pub fn forced(&self, collective: Collective) -> Option<Algorithm> {
        self.forced.get(&collective).copied()
    }

    /// The cheapest algorithm, unless one is forced. `bytes` as in [`cost`].
    ///
    /// All ranks must come to the same choice, so no argument may depend on what only some of them know. Where MPI
    /// gives each rank only its own counts (alltoallv), pass 0.
    #[must_use]
    pub fn choose(&self, collective: Collective, size: usize, bytes: usize, commutative: bool) -> Algorithm {
        let suits = |algorithm: &Algorithm| algorithm.suits(collective, size, commutative);
        let forced = self.forced.get(&collective).copied().filter(suits);
        let cheapest = || {
            let all = collective.algorithms().iter().copied().filter(suits);
            let definite = all.map(|algorithm| self.definite(collective, algorithm, size, bytes));
            let seconds = |algorithm: &Algorithm| cost(collective, *algorithm, size, bytes, &self.model);
            definite.min_by(|a, b| seconds(a).total_cmp(&seconds(b)))
        };
        let forced = forced.map(|algorithm| self.definite(collective, algorithm, size, bytes));
        forced.or_else(cheapest).unwrap_or(Algorithm::Linear)
    }

    /// Fills in the best number of segments, if the algorithm leaves it open.
    fn definite(&self, collective: Collective, algorithm: Algorithm, size: usize, bytes: usize) -> Algorithm {
        if algorithm != (Algorithm::Chain { segments: 0 }) || size < 2 {
            return algorithm;
        }
        let terms = Terms {
            model: &self.model,
            p: size,
            n: bytes as f64,
        };
        let reduces = if collective.reduces() { self.model.gamma } else { 0.0 };
        Algorithm::Chain {
            segments: terms.best_segments(self.model.beta + reduces),
        }
    }
}
