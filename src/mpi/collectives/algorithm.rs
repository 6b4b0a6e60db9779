//! Algorithms: their names, and which suits which collective.

use alloc::string::{String, ToString};
use core::{fmt, str::FromStr};

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
}

impl Algorithm {
    /// Its name, without the parameter.
    pub(super) const fn name(self) -> &'static str {
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
