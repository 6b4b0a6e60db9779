//! Formulas of cost: the time of each collective by each of its algorithms, from the parameters of the model.

use core::iter::successors;

use super::{algorithm::Algorithm, model::Model};

/// The parameters, by the letters of the formulas.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms<'a> {
    pub(super) model: &'a Model,
    /// Ranks; at least 2.
    pub(super) p: usize,
    pub(super) n: f64,
}

impl Terms<'_> {
    /// Seconds for `messages` equal messages, one after the other, with `bytes` bytes in all.
    fn messages(&self, messages: usize, bytes: f64) -> f64 {
        let messages = messages as f64;
        messages * self.model.message(bytes / messages.max(1.0))
    }

    /// Seconds to send the vector once.
    fn h(&self) -> f64 {
        self.messages(1, self.n)
    }

    /// Seconds to reduce `bytes` bytes.
    fn w(&self, bytes: f64) -> f64 {
        bytes * self.model.gamma
    }

    /// (p − 1) / p of all bytes: all but the own block.
    fn others(&self) -> f64 {
        self.n * self.rest(self.p)
    }

    fn rest(&self, parts: usize) -> f64 {
        (parts - 1) as f64 / parts as f64
    }

    /// For each power of the radix, how many multiples of it there are below the next one and below p: the children of
    /// a k-nomial tree's root at this level, and the messages of this round of Bruck's.
    fn fans(&self, radix: usize) -> impl Iterator<Item = usize> {
        let powers = successors(Some(1_usize), move |power| power.checked_mul(radix));
        let p = self.p;
        powers
            .take_while(move |power| *power < p)
            .map(move |power| (radix - 1).min((p - 1) / power))
    }

    fn fan(&self, radix: usize) -> usize {
        self.fans(radix).sum()
    }

    /// How many distances on the ring have a digit that is not 0 at a place, for all places: the blocks that a rank
    /// sends in Bruck's alltoall.
    fn moves(&self, radix: usize) -> usize {
        let powers = successors(Some(1_usize), |power| power.checked_mul(radix));
        let zeros = |power: usize| match power.checked_mul(radix) {
            Some(next) => self.p / next * power + (self.p % next).min(power),
            None => power,
        };
        powers
            .take_while(|power| *power < self.p)
            .map(|power| self.p - zeros(power))
            .sum()
    }

    /// The logarithm of the number of groups, and whether there are pairs among them.
    fn fold(&self) -> (usize, bool) {
        (self.p.ilog2() as usize, !self.p.is_power_of_two())
    }

    /// Tree of this radix; linear is one of radix p.
    fn radix(&self, algorithm: Algorithm) -> usize {
        match algorithm {
            Algorithm::Knomial { radix } => radix.min(self.p),
            _ => self.p,
        }
    }

    pub(super) fn barrier(&self, algorithm: Algorithm) -> f64 {
        let rounds = match algorithm {
            Algorithm::Dissemination { radix } => self.fan(radix),
            Algorithm::RecursiveDoubling => {
                let (levels, pairs) = self.fold();
                levels + 2 * usize::from(pairs)
            }
            Algorithm::Ring => 2 * (self.p - 1),
            _ => {
                let radix = self.radix(algorithm);
                2 * self.fan(radix)
            }
        };
        self.messages(rounds, 0.0)
    }

    pub(super) fn bcast(&self, algorithm: Algorithm) -> f64 {
        let scatter = self.messages(self.fan(2), self.others());
        match algorithm {
            Algorithm::Chain { segments } => self.chain(segments, self.model.beta),
            Algorithm::Ring => scatter + self.messages(self.p - 1, self.others()),
            Algorithm::ScatterAllgather => scatter + self.messages(self.fan(2), self.others()),
            _ => {
                let radix = self.radix(algorithm);
                self.fan(radix) as f64 * self.h()
            }
        }
    }

    pub(super) fn gather(&self, algorithm: Algorithm) -> f64 {
        let radix = self.radix(algorithm);
        self.messages(self.fan(radix), self.others())
    }

    /// The same in reverse.
    pub(super) fn scatter(&self, algorithm: Algorithm) -> f64 {
        self.gather(algorithm)
    }

    pub(super) fn allgather(&self, algorithm: Algorithm) -> f64 {
        let messages = match algorithm {
            Algorithm::RecursiveDoubling => {
                let (levels, pairs) = self.fold();
                let around = self.messages(2, self.n);
                return self.messages(levels, self.uneven_shares()) + if pairs { around } else { 0.0 };
            }
            Algorithm::Bruck { radix } => self.fan(radix),
            Algorithm::NeighbourExchange => self.p / 2,
            _ => self.p - 1,
        };
        self.messages(messages, self.others())
    }

    pub(super) fn alltoall(&self, algorithm: Algorithm) -> f64 {
        let radix = match algorithm {
            Algorithm::Bruck { radix } => radix,
            Algorithm::RecursiveDoubling => 2,
            _ => return self.messages(self.p - 1, self.others()),
        };
        self.messages(self.fan(radix), self.moves(radix) as f64 * self.n / self.p as f64)
    }

    pub(super) fn reduce(&self, algorithm: Algorithm) -> f64 {
        match algorithm {
            Algorithm::Chain { segments } => self.chain(segments, self.model.beta + self.model.gamma),
            Algorithm::Rabenseifner => self.halving() + self.messages(self.fold().0, self.shares()),
            _ => {
                let radix = self.radix(algorithm);
                let (h, w) = (self.h(), self.w(self.n));
                let levels = self.fans(radix).map(|fan| h + (fan - 1) as f64 * h.max(w) + w);
                levels.sum()
            }
        }
    }

    pub(super) fn allreduce(&self, algorithm: Algorithm) -> f64 {
        let unfold = if self.fold().1 { self.h() } else { 0.0 };
        match algorithm {
            Algorithm::RecursiveDoubling => {
                let (levels, pairs) = self.fold();
                (levels + usize::from(pairs)) as f64 * (self.h() + self.w(self.n)) + unfold
            }
            Algorithm::Rabenseifner => self.halving() + self.messages(self.fold().0, self.shares()) + unfold,
            Algorithm::Ring => self.messages(2 * (self.p - 1), 2.0 * self.others()) + self.w(self.others()),
            _ => self.reduce(algorithm) + self.bcast(algorithm),
        }
    }

    pub(super) fn reduce_scatter(&self, algorithm: Algorithm) -> f64 {
        match algorithm {
            Algorithm::RecursiveHalving => {
                let (levels, pairs) = self.fold();
                let around = self.h() + self.w(self.n) + self.messages(1, self.n / self.p as f64);
                let halving = self.messages(levels, self.uneven_shares()) + self.w(self.uneven_shares());
                halving + if pairs { around } else { 0.0 }
            }
            Algorithm::Ring => self.messages(self.p - 1, self.others()) + self.w(self.others()),
            _ => self.reduce(algorithm) + self.gather(algorithm),
        }
    }

    pub(super) fn scan(&self, algorithm: Algorithm) -> f64 {
        match algorithm {
            Algorithm::RecursiveDoubling => {
                let rounds = self.fan(2);
                rounds as f64 * self.h() + self.w((2 * rounds - 1) as f64 * self.n)
            }
            Algorithm::Chain { segments } => self.chain(segments, self.model.beta + self.model.gamma),
            _ => self.chain(1, self.model.beta + self.model.gamma),
        }
    }

    /// Reduce-scatter between groups, after pairs have been folded.
    fn halving(&self) -> f64 {
        let (levels, pairs) = self.fold();
        let fold = self.h() + self.w(self.n);
        self.messages(levels, self.shares()) + self.w(self.shares()) + if pairs { fold } else { 0.0 }
    }

    /// The blocks of all ranks but those of one group, where they are the most: those of pairs are twice as large, and
    /// pairs are together.
    fn uneven_shares(&self) -> f64 {
        let levels = self.p.ilog2();
        let pairs = self.p - (1 << levels);
        let blocks = (0..levels).map(|level| (1_usize << level) + pairs.min(1 << level));
        blocks.sum::<usize>() as f64 * self.n / self.p as f64
    }

    /// All shares but the own one, if they are of equal size.
    fn shares(&self) -> f64 {
        self.n * self.rest(1 << self.fold().0)
    }

    /// A pipeline whose stages take `per_byte` seconds per byte, with this number of segments (0: the best number).
    fn chain(&self, segments: usize, per_byte: f64) -> f64 {
        let segments = if segments == 0 {
            self.best_segments(per_byte)
        } else {
            segments
        } as f64;
        let bytes = self.n / segments;
        (self.p as f64 - 2.0 + segments) * (self.model.start(bytes) + bytes * per_byte)
    }

    /// The minimum of the above is at √((p − 2) n · per_byte / α).
    pub(super) fn best_segments(&self, per_byte: f64) -> usize {
        let small = self.segments_for(per_byte, self.model.alpha);
        let bytes = self.n / small as f64;
        if bytes <= self.model.eager_limit {
            small
        } else {
            self.segments_for(per_byte, self.model.start(bytes))
        }
    }

    fn segments_for(&self, per_byte: f64, alpha: f64) -> usize {
        // Where cores are shared, each segment costs time on all of them.
        let alpha = if self.model.sharing > 1.0 {
            alpha * (1.0 + 1.5 * self.model.sharing)
        } else {
            alpha
        };
        let square = (self.p - 2) as f64 * self.n * per_byte / alpha;
        // The conversion to an unsigned integer saturates: no NaN, nothing negative, nothing too large.
        let best = (square as u64).isqrt().clamp(1, MAX_SEGMENTS);
        best as usize
    }
}

/// Most segments: a schedule has steps for each.
const MAX_SEGMENTS: u64 = 4_096;
