//! The collectives, and what is known of each without its arguments. (With them: [`Call::parts`](super::Call).)

use alloc::string::String;
use core::fmt;

use super::{
    algorithm::Algorithm::{
        self, Bruck, Chain, Dissemination, Knomial, Linear, NeighbourExchange, Pairwise, Rabenseifner,
        RecursiveDoubling, RecursiveHalving, Ring, ScatterAllgather,
    },
    terms::Terms,
    work::{Ranks, Work},
};

/// Properties that all calls of a collective share.
struct Description {
    name: &'static str,
    variable: &'static str,
    reduces: bool,
    algorithms: &'static [Algorithm],
    path: fn(&Terms<'_>, Algorithm) -> f64,
    work: fn(&Ranks, Algorithm) -> Work,
}

/// Defines [`Collective`]. Each row has the name, the environment variable, whether operands are reduced, the formulas
/// of cost and work (methods of [`Terms`] and [`Ranks`]), and the algorithms.
macro_rules! collectives {
    ($(
        $(#[$doc:meta])*
        $kind:ident: $name:literal, $variable:literal, $reduces:literal, $formula:ident, $algorithms:tt;
    )*) => {
        /// A collective of MPI-3. Names are MPI's, in lower case and without the prefix.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[expect(missing_docs, reason = "the names are MPI's")]
        pub enum Collective {
            $($(#[$doc])* $kind,)*
        }

        impl Collective {
            /// All of them.
            pub const ALL: [Self; 18] = [$(Self::$kind),*];

            const fn describe(self) -> &'static Description {
                match self {
                    $(Self::$kind => &Description {
                        name: $name,
                        variable: $variable,
                        reduces: $reduces,
                        algorithms: &$algorithms,
                        path: |terms, algorithm| terms.$formula(algorithm),
                        work: |ranks, algorithm| ranks.$formula(algorithm),
                    },)*
                }
            }
        }
    };
}

collectives! {
    Barrier: "barrier", "HIKYAKU_BARRIER", false, barrier,
        [Dissemination { radix: 2 }, RecursiveDoubling, BINOMIAL, Linear, Ring];
    Bcast: "bcast", "HIKYAKU_BCAST", false, bcast, [BINOMIAL, Chain { segments: 0 }, ScatterAllgather, Ring, Linear];
    Gather: "gather", "HIKYAKU_GATHER", false, gather, [BINOMIAL, Linear];
    Gatherv: "gatherv", "HIKYAKU_GATHERV", false, gather, [Linear];
    Scatter: "scatter", "HIKYAKU_SCATTER", false, scatter, [BINOMIAL, Linear];
    Scatterv: "scatterv", "HIKYAKU_SCATTERV", false, scatter, [Linear];
    Allgather: "allgather", "HIKYAKU_ALLGATHER", false, allgather,
        [RecursiveDoubling, Bruck { radix: 2 }, NeighbourExchange, Ring, Linear];
    Allgatherv: "allgatherv", "HIKYAKU_ALLGATHERV", false, allgather,
        [RecursiveDoubling, Bruck { radix: 2 }, NeighbourExchange, Ring, Linear];
    Alltoall: "alltoall", "HIKYAKU_ALLTOALL", false, alltoall,
        [Pairwise, Bruck { radix: 2 }, Bruck { radix: 4 }, Bruck { radix: 8 }, RecursiveDoubling, Linear];
    /// Alltoallw too.
    Alltoallv: "alltoallv", "HIKYAKU_ALLTOALLV", false, alltoall, [Pairwise, Linear];
    Reduce: "reduce", "HIKYAKU_REDUCE", true, reduce, [BINOMIAL, Chain { segments: 0 }, Rabenseifner, Linear];
    Allreduce: "allreduce", "HIKYAKU_ALLREDUCE", true, allreduce,
        [RecursiveDoubling, Rabenseifner, Ring, BINOMIAL, Linear];
    ReduceScatter: "reduce_scatter", "HIKYAKU_REDUCE_SCATTER", true, reduce_scatter,
        [RecursiveHalving, Ring, BINOMIAL, Linear];
    ReduceScatterBlock: "reduce_scatter_block", "HIKYAKU_REDUCE_SCATTER_BLOCK", true, reduce_scatter,
        [RecursiveHalving, Ring, BINOMIAL, Linear];
    Scan: "scan", "HIKYAKU_SCAN", true, scan, [RecursiveDoubling, Chain { segments: 0 }, Linear];
    Exscan: "exscan", "HIKYAKU_EXSCAN", true, scan, [RecursiveDoubling, Chain { segments: 0 }, Linear];
    /// Neighbor_allgatherv too.
    NeighborAllgather: "neighbor_allgather", "HIKYAKU_NEIGHBOR_ALLGATHER", false, alltoall, [Linear];
    /// Neighbor_alltoallv and neighbor_alltoallw too.
    NeighborAlltoall: "neighbor_alltoall", "HIKYAKU_NEIGHBOR_ALLTOALL", false, alltoall, [Linear];
}

const BINOMIAL: Algorithm = Knomial { radix: 2 };

impl Collective {
    /// MPI's name, as in `reduce_scatter_block`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.describe().name
    }

    /// The environment variable that forces an algorithm.
    #[must_use]
    pub const fn variable(self) -> &'static str {
        self.describe().variable
    }

    /// Whether operands are reduced.
    #[must_use]
    pub const fn reduces(self) -> bool {
        self.describe().reduces
    }

    /// Its algorithms, with the parameters that are worth trying.
    #[must_use]
    pub const fn algorithms(self) -> &'static [Algorithm] {
        self.describe().algorithms
    }

    /// Seconds of the longest path through the schedules.
    pub(super) fn path(self, algorithm: Algorithm, terms: &Terms<'_>) -> f64 {
        (self.describe().path)(terms, algorithm)
    }

    /// The work of all ranks.
    pub(super) fn work(self, algorithm: Algorithm, ranks: &Ranks) -> Work {
        (self.describe().work)(ranks, algorithm)
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
                Knomial { .. } => "binomial, knomial:RADIX",
                Chain { .. } => "chain[:SEGMENTS]",
                Bruck { .. } => "bruck[:RADIX]",
                Dissemination { .. } => "dissemination[:RADIX]",
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

impl Algorithm {
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
