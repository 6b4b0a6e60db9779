//! The work of all ranks of a collective together.

use core::iter::successors;

use super::algorithm::Algorithm;

/// The work of all ranks of a collective together: it bounds the time where ranks share cores.
///
/// Messages, bytes and reductions are exact where [`cost`](super::cost()) is, and for most other sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Messages sent.
    pub messages: f64,
    /// Bytes sent.
    pub bytes: f64,
    /// Bytes reduced.
    pub reduced: f64,
    /// Rounds in which a rank waits for messages, for which it may have to be put to sleep and woken up.
    pub waits: f64,
}

impl core::ops::Add for Work {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            messages: self.messages + other.messages,
            bytes: self.bytes + other.bytes,
            reduced: self.reduced + other.reduced,
            waits: self.waits + other.waits,
        }
    }
}

/// The parameters of the formulas.
pub(super) struct Ranks {
    pub(super) p: usize,
    pub(super) n: f64,
}

impl Work {
    fn sent(messages: usize, bytes: f64, waits: usize) -> Self {
        Self {
            messages: messages as f64,
            bytes,
            reduced: 0.0,
            waits: waits as f64,
        }
    }
}

impl Ranks {
    /// The vector is sent once to or from every rank but one.
    fn all_but_one(&self) -> f64 {
        (self.p - 1) as f64 * self.n
    }

    /// Ranks after folding to a power of two, its logarithm, and those that were folded away.
    fn fold(&self) -> (usize, usize, usize) {
        let levels = self.p.ilog2() as usize;
        (1 << levels, levels, self.p - (1 << levels))
    }

    fn radix(&self, algorithm: Algorithm) -> usize {
        match algorithm {
            Algorithm::Knomial { radix } | Algorithm::Bruck { radix } | Algorithm::Dissemination { radix } => {
                radix.min(self.p)
            }
            Algorithm::Linear => self.p,
            _ => 2,
        }
    }

    fn strides(&self, radix: usize) -> impl Iterator<Item = usize> {
        let p = self.p;
        successors(Some(1_usize), move |stride| stride.checked_mul(radix)).take_while(move |stride| *stride < p)
    }

    /// Number of messages of each rank in Bruck's pattern, and of their rounds.
    fn digits(&self, radix: usize) -> (usize, usize) {
        let fans = self.strides(radix).map(|stride| (radix - 1).min((self.p - 1) / stride));
        fans.fold((0, 0), |(messages, rounds), fan| (messages + fan, rounds + 1))
    }

    /// Digits that are not 0 in the numbers of all ranks: how far they are from rank 0 in a tree, in all.
    fn depths(&self, radix: usize) -> usize {
        let zeros = |stride: usize| {
            let next = stride * radix;
            self.p / next * stride + (self.p % next).min(stride)
        };
        self.strides(radix).map(|stride| self.p - zeros(stride)).sum()
    }

    /// Ranks with children, once for each level at which they have some.
    fn parents(&self, radix: usize) -> usize {
        let parents = |stride: usize| (self.p - stride).div_ceil(stride * radix);
        self.strides(radix).map(parents).sum()
    }

    pub(super) fn barrier(&self, algorithm: Algorithm) -> Work {
        let p = self.p;
        let radix = self.radix(algorithm);
        match algorithm {
            Algorithm::Dissemination { .. } => {
                let (messages, rounds) = self.digits(radix);
                Work::sent(p * messages, 0.0, p * rounds)
            }
            Algorithm::RecursiveDoubling => {
                let (folded, levels, pairs) = self.fold();
                let messages = folded * levels + 2 * pairs;
                Work::sent(messages, 0.0, messages)
            }
            Algorithm::Ring => Work::sent(2 * (p - 1), 0.0, 2 * (p - 1)),
            _ => Work::sent(2 * (p - 1), 0.0, self.parents(radix) + p - 1),
        }
    }

    pub(super) fn bcast(&self, algorithm: Algorithm) -> Work {
        let p = self.p;
        match algorithm {
            Algorithm::Chain { segments } => {
                let messages = (p - 1) * segments.max(1);
                Work::sent(messages, self.all_but_one(), messages)
            }
            Algorithm::Ring => self.scatter(Algorithm::BINOMIAL) + self.allgather(Algorithm::Ring),
            Algorithm::ScatterAllgather => {
                self.scatter(Algorithm::BINOMIAL) + self.allgather(Algorithm::Bruck { radix: 2 })
            }
            _ => Work::sent(p - 1, self.all_but_one(), p - 1),
        }
    }

    /// Bytes that go up or down a tree.
    fn blocks(&self, algorithm: Algorithm) -> f64 {
        self.depths(self.radix(algorithm)) as f64 * self.n / self.p as f64
    }

    pub(super) fn scatter(&self, algorithm: Algorithm) -> Work {
        Work::sent(self.p - 1, self.blocks(algorithm), self.p - 1)
    }

    pub(super) fn gather(&self, algorithm: Algorithm) -> Work {
        let waits = self.parents(self.radix(algorithm));
        Work::sent(self.p - 1, self.blocks(algorithm), waits)
    }

    pub(super) fn allgather(&self, algorithm: Algorithm) -> Work {
        let p = self.p;
        let (messages, waits) = match algorithm {
            Algorithm::RecursiveDoubling => {
                let (folded, levels, pairs) = self.fold();
                let messages = folded * levels + 2 * pairs;
                (messages, messages)
            }
            Algorithm::Bruck { radix } => {
                let (messages, rounds) = self.digits(radix);
                (p * messages, p * rounds)
            }
            Algorithm::NeighbourExchange => (p * p / 2, p * p / 2),
            Algorithm::Linear => (p * (p - 1), p),
            _ => (p * (p - 1), p * (p - 1)),
        };
        Work::sent(messages, self.all_but_one(), waits)
    }

    pub(super) fn alltoall(&self, algorithm: Algorithm) -> Work {
        let p = self.p;
        match algorithm {
            Algorithm::Bruck { .. } | Algorithm::RecursiveDoubling => {
                let radix = self.radix(algorithm);
                let (messages, rounds) = self.digits(radix);
                Work::sent(p * messages, self.depths(radix) as f64 * self.n, p * rounds)
            }
            Algorithm::Pairwise => Work::sent(p * (p - 1), self.all_but_one(), p * (p - 1)),
            _ => Work::sent(p * (p - 1), self.all_but_one(), p),
        }
    }

    /// Pairs are folded, then every remaining rank sends as many bytes as it reduces, in this number of messages.
    fn halving(&self) -> Work {
        let (folded, levels, pairs) = self.fold();
        let bytes = (folded - 1 + pairs) as f64 * self.n;
        let messages = folded * levels + pairs;
        Work {
            reduced: bytes,
            ..Work::sent(messages, bytes, messages)
        }
    }

    /// The reverse, without reductions. `all`: the ranks that were folded away get the result, too.
    fn doubling(&self, all: bool) -> Work {
        let (folded, levels, pairs) = self.fold();
        let told = if all { pairs } else { 0 };
        let messages = folded * levels + told;
        Work::sent(messages, (folded - 1 + told) as f64 * self.n, messages)
    }

    pub(super) fn reduce(&self, algorithm: Algorithm) -> Work {
        let (p, bytes) = (self.p, self.all_but_one());
        let sent = match algorithm {
            Algorithm::Chain { segments } => {
                let messages = (p - 1) * segments.max(1);
                Work::sent(messages, bytes, messages)
            }
            Algorithm::Rabenseifner => {
                let (folded, levels, _) = self.fold();
                let gathered = (folded * levels / 2) as f64 * self.n / folded as f64;
                return self.halving() + Work::sent(folded - 1, gathered, folded - 1);
            }
            _ => Work::sent(p - 1, bytes, self.parents(self.radix(algorithm))),
        };
        Work { reduced: bytes, ..sent }
    }

    pub(super) fn allreduce(&self, algorithm: Algorithm) -> Work {
        let p = self.p;
        match algorithm {
            Algorithm::RecursiveDoubling => {
                let (folded, levels, pairs) = self.fold();
                let messages = folded * levels + 2 * pairs;
                Work {
                    reduced: (folded * levels + pairs) as f64 * self.n,
                    ..Work::sent(messages, messages as f64 * self.n, messages)
                }
            }
            Algorithm::Rabenseifner => self.halving() + self.doubling(true),
            Algorithm::Ring => Work {
                reduced: self.all_but_one(),
                ..Work::sent(2 * p * (p - 1), 2.0 * self.all_but_one(), 2 * p * (p - 1))
            },
            _ => self.reduce(algorithm) + self.bcast(algorithm),
        }
    }

    pub(super) fn reduce_scatter(&self, algorithm: Algorithm) -> Work {
        let p = self.p;
        match algorithm {
            Algorithm::RecursiveHalving => {
                let (.., pairs) = self.fold();
                self.halving() + Work::sent(pairs, pairs as f64 * self.n / p as f64, pairs)
            }
            Algorithm::Ring => Work {
                reduced: self.all_but_one(),
                ..Work::sent(p * (p - 1), self.all_but_one(), p * (p - 1))
            },
            _ => self.reduce(algorithm) + self.scatter(algorithm),
        }
    }

    pub(super) fn scan(&self, algorithm: Algorithm) -> Work {
        let p = self.p;
        match algorithm {
            Algorithm::RecursiveDoubling => {
                // A rank without a partner at some distance skips that round.
                let pairs = |stride: usize| p / (2 * stride) * stride + (p % (2 * stride)).saturating_sub(stride);
                let messages = 2 * self.strides(2).map(pairs).sum::<usize>();
                let bytes = messages as f64 * self.n;
                // The sums of all rounds but the last go on, and in each half of the ranks add to their results.
                Work {
                    reduced: 1.5 * bytes - p as f64 * self.n,
                    ..Work::sent(messages, bytes, messages)
                }
            }
            Algorithm::Chain { segments } => self.reduce(Algorithm::Chain { segments }),
            _ => self.reduce(Algorithm::Chain { segments: 1 }),
        }
    }
}
