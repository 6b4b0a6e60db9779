//! The collectives, and all that is known of each without its arguments.

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

/// The properties that all calls of a collective share: all that the rest of the project knows of it, but its
/// schedules.
struct Description {
    /// The functions of MPI that call it.
    functions: &'static [Function],
    variable: &'static str,
    partners: Partners,
    input: Role,
    output: Role,
    algorithms: &'static [Algorithm],
    path: fn(&Terms<'_>, Algorithm) -> f64,
    work: fn(&Ranks, Algorithm) -> Work,
}

/// How a collective uses a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Not at all.
    None,
    /// Bytes of packed data, as many at all ranks: ranks may call it with different datatypes.
    Packed,
    /// Elements that are reduced, or of the result.
    Vector,
    /// The same with a block for each rank.
    Divided,
    /// This rank's block.
    Block,
    /// A block for each rank, or for each neighbour; only at the root, if there is one.
    Blocks,
}

/// With whom a rank exchanges blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partners {
    /// With all ranks.
    All,
    /// All with one of them, the root.
    Root,
    /// With its neighbours.
    Neighbours,
}

/// The lengths of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lengths {
    /// All blocks have as many elements, or there is one block.
    Alike,
    /// Each block has a length of its own.
    Each,
}

/// The names of a function of MPI, and the lengths of the blocks that it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    /// The function that waits, as `MPI_Gatherv`.
    pub blocking: &'static str,
    /// The function that begins it, as `MPI_Igatherv`.
    pub immediate: &'static str,
    /// The function that plans it, as `MPI_Gatherv_init`.
    pub persistent: &'static str,
    /// The lengths of its blocks.
    pub lengths: Lengths,
}

impl Function {
    /// All three names.
    #[must_use]
    pub const fn names(&self) -> [&'static str; 3] {
        [self.blocking, self.immediate, self.persistent]
    }
}

/// Defines [`Collective`]. A row has the names of its functions without `MPI_` and the lengths of their blocks; the
/// environment variable; the partners, and what the input and the output hold; the formula of cost and work (methods of
/// [`Terms`] and [`Ranks`]); and the algorithms.
macro_rules! collectives {
    ($(
        $(#[$doc:meta])*
        $kind:ident: $($blocking:literal $immediate:literal $lengths:ident),+; $variable:literal;
        $partners:ident, $input:ident => $output:ident; $formula:ident, $algorithms:tt;
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

            #[inline]
            const fn describe(self) -> &'static Description {
                match self {
                    $(Self::$kind => &Description {
                        functions: &[$(Function {
                            blocking: concat!("MPI_", $blocking),
                            immediate: concat!("MPI_I", $immediate),
                            persistent: concat!("MPI_", $blocking, "_init"),
                            lengths: Lengths::$lengths,
                        }),+],
                        variable: $variable,
                        partners: Partners::$partners,
                        input: Role::$input,
                        output: Role::$output,
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
    Barrier: "Barrier" "barrier" Alike; "HIKYAKU_BARRIER";
        All, None => None; barrier, [Dissemination { radix: 2 }, RecursiveDoubling, BINOMIAL, Linear, Ring];
    /// The buffer is the output, at the root, too; only a root that faces another group sends its input.
    Bcast: "Bcast" "bcast" Alike; "HIKYAKU_BCAST";
        Root, Packed => Packed; bcast, [BINOMIAL, Chain { segments: 0 }, ScatterAllgather, Ring, Linear];
    Gather: "Gather" "gather" Alike; "HIKYAKU_GATHER"; Root, Block => Blocks; gather, [BINOMIAL, Linear];
    Gatherv: "Gatherv" "gatherv" Each; "HIKYAKU_GATHERV"; Root, Block => Blocks; gather, [Linear];
    Scatter: "Scatter" "scatter" Alike; "HIKYAKU_SCATTER"; Root, Blocks => Block; scatter, [BINOMIAL, Linear];
    Scatterv: "Scatterv" "scatterv" Each; "HIKYAKU_SCATTERV"; Root, Blocks => Block; scatter, [Linear];
    Allgather: "Allgather" "allgather" Alike; "HIKYAKU_ALLGATHER";
        All, Block => Blocks; allgather, [RecursiveDoubling, Bruck { radix: 2 }, NeighbourExchange, Ring, Linear];
    Allgatherv: "Allgatherv" "allgatherv" Each; "HIKYAKU_ALLGATHERV";
        All, Block => Blocks; allgather, [RecursiveDoubling, Bruck { radix: 2 }, NeighbourExchange, Ring, Linear];
    Alltoall: "Alltoall" "alltoall" Alike; "HIKYAKU_ALLTOALL";
        All, Blocks => Blocks; alltoall,
        [Pairwise, Bruck { radix: 2 }, Bruck { radix: 4 }, Bruck { radix: 8 }, RecursiveDoubling, Linear];
    /// Alltoallw too: then each element is a block, of a datatype of its own (see [`Span`](super::Span)).
    Alltoallv: "Alltoallv" "alltoallv" Each, "Alltoallw" "alltoallw" Each; "HIKYAKU_ALLTOALLV";
        All, Blocks => Blocks; alltoall, [Pairwise, Linear];
    Reduce: "Reduce" "reduce" Alike; "HIKYAKU_REDUCE";
        Root, Vector => Vector; reduce, [BINOMIAL, Chain { segments: 0 }, Rabenseifner, Linear];
    Allreduce: "Allreduce" "allreduce" Alike; "HIKYAKU_ALLREDUCE";
        All, Vector => Vector; allreduce, [RecursiveDoubling, Rabenseifner, Ring, BINOMIAL, Linear];
    ReduceScatter: "Reduce_scatter" "reduce_scatter" Each; "HIKYAKU_REDUCE_SCATTER";
        All, Divided => Divided; reduce_scatter, [RecursiveHalving, Ring, BINOMIAL, Linear];
    ReduceScatterBlock: "Reduce_scatter_block" "reduce_scatter_block" Alike; "HIKYAKU_REDUCE_SCATTER_BLOCK";
        All, Divided => Divided; reduce_scatter, [RecursiveHalving, Ring, BINOMIAL, Linear];
    Scan: "Scan" "scan" Alike; "HIKYAKU_SCAN";
        All, Vector => Vector; scan, [RecursiveDoubling, Chain { segments: 0 }, Linear];
    Exscan: "Exscan" "exscan" Alike; "HIKYAKU_EXSCAN";
        All, Vector => Vector; scan, [RecursiveDoubling, Chain { segments: 0 }, Linear];
    /// Neighbor_allgatherv too.
    NeighborAllgather: "Neighbor_allgather" "neighbor_allgather" Alike,
        "Neighbor_allgatherv" "neighbor_allgatherv" Each; "HIKYAKU_NEIGHBOR_ALLGATHER";
        Neighbours, Block => Blocks; alltoall, [Linear];
    /// Neighbor_alltoallv and neighbor_alltoallw too.
    NeighborAlltoall: "Neighbor_alltoall" "neighbor_alltoall" Alike,
        "Neighbor_alltoallv" "neighbor_alltoallv" Each, "Neighbor_alltoallw" "neighbor_alltoallw" Each;
        "HIKYAKU_NEIGHBOR_ALLTOALL"; Neighbours, Blocks => Blocks; alltoall, [Linear];
}

const BINOMIAL: Algorithm = Knomial { radix: 2 };

impl Collective {
    /// MPI's name, as in `reduce_scatter_block`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.functions()[0].immediate.split_at("MPI_I".len()).1
    }

    /// The functions of MPI that call it; at least one.
    #[must_use]
    pub const fn functions(self) -> &'static [Function] {
        self.describe().functions
    }

    /// The collective that an MPI function calls, and the function. `call` may be any of its three names, such as
    /// `MPI_Igatherv`.
    #[must_use]
    pub fn of_function(call: &str) -> Option<(Self, &'static Function)> {
        let functions = |collective: Self| {
            collective
                .functions()
                .iter()
                .map(move |function| (collective, function))
        };
        let mut all = Self::ALL.into_iter().flat_map(functions);
        all.find(|(_, function)| function.names().contains(&call))
    }

    /// The environment variable that forces an algorithm.
    #[must_use]
    pub const fn variable(self) -> &'static str {
        self.describe().variable
    }

    /// With whom each rank exchanges blocks.
    #[must_use]
    #[inline]
    pub const fn partners(self) -> Partners {
        self.describe().partners
    }

    /// The role of the send buffer.
    #[must_use]
    #[inline]
    pub const fn input(self) -> Role {
        self.describe().input
    }

    /// The role of the receive buffer.
    #[must_use]
    #[inline]
    pub const fn output(self) -> Role {
        self.describe().output
    }

    /// Whether the lengths of blocks may differ.
    pub(in crate::mpi) fn may_be_uneven(self) -> bool {
        let each = |function: &Function| function.lengths == Lengths::Each;
        self.functions().iter().any(each)
    }

    /// Whether operands are reduced.
    #[must_use]
    pub const fn reduces(self) -> bool {
        matches!(self.input(), Role::Vector | Role::Divided)
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
