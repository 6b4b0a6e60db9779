//! Names of collectives and algorithms, and which algorithm suits which collective.

use alloc::string::{String, ToString};
use core::{fmt, str::FromStr};

/// A collective of MPI-3. Names are MPI's, in lower case and without the prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names are MPI's")]
pub enum Collective {
    Barrier,
    Bcast,
    Gather,
    Gatherv,
    Scatter,
    Scatterv,
    Allgather,
    Allgatherv,
    Alltoall,
    /// Alltoallw too.
    Alltoallv,
    Reduce,
    Allreduce,
    ReduceScatter,
    ReduceScatterBlock,
    Scan,
    Exscan,
    /// Neighbor_allgatherv too.
    NeighborAllgather,
    /// Neighbor_alltoallv and neighbor_alltoallw too.
    NeighborAlltoall,
}

impl Collective {
    /// All of them.
    pub const ALL: [Self; 18] = [
        Self::Barrier,
        Self::Bcast,
        Self::Gather,
        Self::Gatherv,
        Self::Scatter,
        Self::Scatterv,
        Self::Allgather,
        Self::Allgatherv,
        Self::Alltoall,
        Self::Alltoallv,
        Self::Reduce,
        Self::Allreduce,
        Self::ReduceScatter,
        Self::ReduceScatterBlock,
        Self::Scan,
        Self::Exscan,
        Self::NeighborAllgather,
        Self::NeighborAlltoall,
    ];

    /// MPI's name, as in `reduce_scatter_block`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Barrier => "barrier",
            Self::Bcast => "bcast",
            Self::Gather => "gather",
            Self::Gatherv => "gatherv",
            Self::Scatter => "scatter",
            Self::Scatterv => "scatterv",
            Self::Allgather => "allgather",
            Self::Allgatherv => "allgatherv",
            Self::Alltoall => "alltoall",
            Self::Alltoallv => "alltoallv",
            Self::Reduce => "reduce",
            Self::Allreduce => "allreduce",
            Self::ReduceScatter => "reduce_scatter",
            Self::ReduceScatterBlock => "reduce_scatter_block",
            Self::Scan => "scan",
            Self::Exscan => "exscan",
            Self::NeighborAllgather => "neighbor_allgather",
            Self::NeighborAlltoall => "neighbor_alltoall",
        }
    }

    /// Its algorithms, with the parameters that are worth trying.
    #[must_use]
    pub const fn algorithms(self) -> &'static [Algorithm] {
        use Algorithm::{
            Bruck, Chain, Dissemination, Knomial, Linear, NeighbourExchange, Pairwise, Rabenseifner, RecursiveDoubling,
            RecursiveHalving, Ring, ScatterAllgather,
        };
        const BINOMIAL: Algorithm = Algorithm::BINOMIAL;
        match self {
            Self::Barrier => &[Dissemination { radix: 2 }, RecursiveDoubling, BINOMIAL, Linear, Ring],
            Self::Bcast => &[BINOMIAL, Chain { segments: 0 }, ScatterAllgather, Ring, Linear],
            Self::Gather | Self::Scatter => &[BINOMIAL, Linear],
            Self::Gatherv | Self::Scatterv | Self::NeighborAllgather | Self::NeighborAlltoall => &[Linear],
            Self::Allgather | Self::Allgatherv => {
                &[RecursiveDoubling, Bruck { radix: 2 }, NeighbourExchange, Ring, Linear]
            }
            Self::Alltoall => &[
                Pairwise,
                Bruck { radix: 2 },
                Bruck { radix: 4 },
                Bruck { radix: 8 },
                RecursiveDoubling,
                Linear,
            ],
            Self::Alltoallv => &[Pairwise, Linear],
            Self::Reduce => &[Knomial { radix: 2 }, Chain { segments: 0 }, Rabenseifner, Linear],
            Self::Allreduce => &[RecursiveDoubling, Rabenseifner, Ring, BINOMIAL, Linear],
            Self::ReduceScatter | Self::ReduceScatterBlock => &[RecursiveHalving, Ring, BINOMIAL, Linear],
            Self::Scan | Self::Exscan => &[RecursiveDoubling, Chain { segments: 0 }, Linear],
        }
    }
}

impl Collective {
    /// The environment variable that forces an algorithm.
    #[must_use]
    pub const fn variable(self) -> &'static str {
        match self {
            Self::Barrier => "HIKYAKU_BARRIER",
            Self::Bcast => "HIKYAKU_BCAST",
            Self::Gather => "HIKYAKU_GATHER",
            Self::Gatherv => "HIKYAKU_GATHERV",
            Self::Scatter => "HIKYAKU_SCATTER",
            Self::Scatterv => "HIKYAKU_SCATTERV",
            Self::Allgather => "HIKYAKU_ALLGATHER",
            Self::Allgatherv => "HIKYAKU_ALLGATHERV",
            Self::Alltoall => "HIKYAKU_ALLTOALL",
            Self::Alltoallv => "HIKYAKU_ALLTOALLV",
            Self::Reduce => "HIKYAKU_REDUCE",
            Self::Allreduce => "HIKYAKU_ALLREDUCE",
            Self::ReduceScatter => "HIKYAKU_REDUCE_SCATTER",
            Self::ReduceScatterBlock => "HIKYAKU_REDUCE_SCATTER_BLOCK",
            Self::Scan => "HIKYAKU_SCAN",
            Self::Exscan => "HIKYAKU_EXSCAN",
            Self::NeighborAllgather => "HIKYAKU_NEIGHBOR_ALLGATHER",
            Self::NeighborAlltoall => "HIKYAKU_NEIGHBOR_ALLTOALL",
        }
    }

    /// The algorithm of this name, if it suits this collective.
    #[must_use]
    pub fn algorithm(self, name: &str) -> Option<Algorithm> {
        // With 2 ranks every algorithm of a collective is possible.
        let algorithm: Algorithm = name.parse().ok()?;
        algorithm.suits(self, 2, true).then_some(algorithm)
    }

    /// The names of its algorithms, for messages to users.
    #[must_use]
    pub fn choices(self) -> String {
        let mut names = String::new();
        let mut last = "";
        for algorithm in self.algorithms() {
            let name = match algorithm {
                Algorithm::Knomial { .. } => "binomial, knomial:RADIX",
                Algorithm::Chain { .. } => "chain[:SEGMENTS]",
                Algorithm::Bruck { .. } => "bruck[:RADIX]",
                Algorithm::Dissemination { .. } => "dissemination[:RADIX]",
                other => other.name(),
            };
            if name != last {
                names.push_str(if names.is_empty() { "" } else { ", " });
                names.push_str(name);
            }
            last = name;
        }
        names
    }
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Algorithms of collectives. `docs/collectives.md` says what each does for which collective, and at what cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// `linear`: straight from origin to destination, all at once; in rooted collectives all directly to or from the
    /// root.
    Linear,
    /// `ring`: from neighbour to neighbour.
    Ring,
    /// `recursive-doubling`: partners whose ranks differ in one bit.
    RecursiveDoubling,
    /// `recursive-halving`: the reverse, with half as much in each round.
    RecursiveHalving,
    /// `binomial` if the radix is 2, else `knomial:4` and the like: a tree in which a rank differs from its parent in
    /// one digit.
    Knomial {
        /// The base of the number system; at least 2.
        radix: usize,
    },
    /// `chain`, `chain:16`: a pipeline along all ranks.
    Chain {
        /// Number of segments of the vector; 0: the cheapest number ([`Policy::choose`](super::Policy)), for which a
        /// schedule takes 1.
        segments: usize,
    },
    /// `bruck`, `bruck:4`: logarithmically many rounds for any number of ranks.
    Bruck {
        /// By how much the number of blocks of a rank grows in each round; at least 2.
        radix: usize,
    },
    /// `dissemination`, `dissemination:4`: the same without data.
    Dissemination {
        /// By how much the number of ranks that a rank has heard of grows in each round; at least 2.
        radix: usize,
    },
    /// `pairwise`: as linear, but one message after the other, so that no receiver has two senders.
    Pairwise,
    /// `neighbour-exchange`: a ring in half as many rounds, for an even number of ranks.
    NeighbourExchange,
    /// `scatter-allgather` (van de Geijn): a binomial scatter of pieces, then Bruck's allgather.
    ScatterAllgather,
    /// `rabenseifner`: recursive halving, then recursive doubling.
    Rabenseifner,
}

impl Algorithm {
    /// The binomial tree.
    pub const BINOMIAL: Self = Self::Knomial { radix: 2 };

    /// Whether this is an algorithm for `collective`. `commutative` only matters to reductions.
    #[must_use]
    pub fn suits(self, collective: Collective, size: usize, commutative: bool) -> bool {
        let same = |other: &Self| core::mem::discriminant(other) == core::mem::discriminant(&self);
        collective.algorithms().iter().any(same)
            && match self {
                Self::Knomial { radix } | Self::Bruck { radix } | Self::Dissemination { radix } => radix >= 2,
                Self::NeighbourExchange => size.is_multiple_of(2),
                Self::RecursiveDoubling => collective != Collective::Alltoall || size.is_power_of_two(),
                Self::Ring => commutative || !collective.reduces(),
                _ => true,
            }
    }
}

impl Collective {
    /// Whether operands are reduced.
    #[must_use]
    pub const fn reduces(self) -> bool {
        matches!(
            self,
            Self::Reduce | Self::Allreduce | Self::ReduceScatter | Self::ReduceScatterBlock | Self::Scan | Self::Exscan
        )
    }
}

impl Algorithm {
    /// Its name, without the parameter.
    const fn name(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Ring => "ring",
            Self::RecursiveDoubling => "recursive-doubling",
            Self::RecursiveHalving => "recursive-halving",
            Self::Knomial { radix: 2 } => "binomial",
            Self::Knomial { .. } => "knomial",
            Self::Chain { .. } => "chain",
            Self::Bruck { .. } => "bruck",
            Self::Dissemination { .. } => "dissemination",
            Self::Pairwise => "pairwise",
            Self::NeighbourExchange => "neighbour-exchange",
            Self::ScatterAllgather => "scatter-allgather",
            Self::Rabenseifner => "rabenseifner",
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Knomial { radix: 2 }
            | Self::Bruck { radix: 2 }
            | Self::Dissemination { radix: 2 }
            | Self::Chain { segments: 0 } => f.pad(self.name()),
            Self::Knomial { radix: number }
            | Self::Bruck { radix: number }
            | Self::Dissemination { radix: number }
            | Self::Chain { segments: number } => write!(f, "{}:{number}", self.name()),
            _ => f.pad(self.name()),
        }
    }
}

impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, number) = match text.split_once(':') {
            Some((name, number)) => (name, Some(number)),
            None => (text, None),
        };
        let unknown = || UnknownAlgorithm(text.to_string());
        let number = number.map(|number| number.parse().map_err(|_| unknown())).transpose()?;
        let radix = number.unwrap_or(2);
        let algorithm = match name {
            "linear" => Self::Linear,
            "ring" => Self::Ring,
            "recursive-doubling" => Self::RecursiveDoubling,
            "recursive-halving" => Self::RecursiveHalving,
            "binomial" => Self::BINOMIAL,
            "knomial" => Self::Knomial { radix },
            "chain" => Self::Chain {
                segments: number.unwrap_or(0),
            },
            "bruck" => Self::Bruck { radix },
            "dissemination" => Self::Dissemination { radix },
            "pairwise" => Self::Pairwise,
            "neighbour-exchange" => Self::NeighbourExchange,
            "scatter-allgather" => Self::ScatterAllgather,
            "rabenseifner" => Self::Rabenseifner,
            _ => return Err(unknown()),
        };
        let takes_number = matches!(name, "knomial" | "chain" | "bruck" | "dissemination");
        if radix < 2 && name != "chain" || number.is_some() && !takes_number {
            return Err(unknown());
        }
        Ok(algorithm)
    }
}

/// A text that names no [`Algorithm`].
#[derive(Clone, PartialEq, Eq)]
pub struct UnknownAlgorithm(String);

impl fmt::Display for UnknownAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "no algorithm is called '{}'; there are linear, ring, recursive-doubling, recursive-halving, binomial, \
             knomial:RADIX, chain[:SEGMENTS], bruck[:RADIX], dissemination[:RADIX], pairwise, neighbour-exchange, \
             scatter-allgather and rabenseifner",
            self.0
        )
    }
}

crate::debug_as_display!(UnknownAlgorithm);

impl core::error::Error for UnknownAlgorithm {}
