//! Collectives of a trace.

use hikyaku::mpi::{
    collectives::{Collective as Kind, NOBODY, ROOT},
    engine::ANY_SOURCE,
};
use hikyaku_bench::traces::Call;

use super::fields::{PROC_NULL, lacks, unknown};

/// A collective. What it does not have is 0 or empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Collective {
    pub kind: Kind,
    /// Between two groups that is [`ROOT`] at the root itself, and [`NOBODY`] at others of its group.
    pub root: Option<usize>,
    /// Bytes of this rank's block, or of all that a root sends to all.
    pub own: usize,
    pub sent: Lengths,
    pub received: Lengths,
    pub vector: Vector,
    pub sources: Vec<i32>,
    pub destinations: Vec<i32>,
}

impl Collective {
    /// A collective of `own` bytes from each rank, or from the root.
    pub(crate) fn new(kind: Kind, root: Option<usize>, own: usize) -> Self {
        Self {
            kind,
            root,
            own,
            sent: Lengths::Even(own),
            received: Lengths::Even(own),
            vector: Vector::default(),
            sources: Vec::new(),
            destinations: Vec::new(),
        }
    }
}

/// Bytes of blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Lengths {
    Even(usize),
    Each(Vec<usize>),
}

/// What is reduced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Vector {
    /// Elements, and bytes of one: 1, 2, 4 or 8.
    pub count: usize,
    pub element: usize,
    pub commutative: bool,
}

impl Vector {
    pub(crate) fn bytes(&self) -> usize {
        self.count * self.element
    }
}

fn bytes(number: u64) -> Result<usize, String> {
    let most = 1 << 40;
    if number > most {
        return Err(format!("{number} bytes: at most {most} were expected"));
    }
    Ok(number as usize)
}

fn lengths(list: &[u64], even: bool) -> Result<Lengths, String> {
    let each: Vec<usize> = list.iter().map(|number| bytes(*number)).collect::<Result<_, _>>()?;
    Ok(if even {
        Lengths::Even(each.first().copied().unwrap_or(0))
    } else {
        Lengths::Each(each)
    })
}

fn vector(call: &Call) -> Result<Vector, String> {
    let (total, count) = (bytes(call.bytes)?, bytes(call.count)?);
    let whole = |element: &usize| element * count == total;
    let element = [2, 4, 8].into_iter().find(whole).unwrap_or(1);
    Ok(Vector {
        count: total / element,
        element,
        commutative: call.operation.as_deref() != Some("user"),
    })
}

/// What the call is, and its name.
pub(super) fn read(call: &Call) -> Result<(&'static str, Collective), String> {
    let find = |(kind, names): &(Kind, [&'static str; 3])| {
        let name = names.iter().find(|name| **name == call.call)?;
        Some((*kind, names[0], *name))
    };
    let (kind, plain, name) = COLLECTIVES.iter().find_map(find).ok_or_else(|| unknown(&call.call))?;
    let even = !plain.ends_with(['v', 'w']) && kind != Kind::ReduceScatter;
    let root = match (kind, call.peer) {
        (Kind::Bcast | Kind::Gather | Kind::Gatherv | Kind::Scatter | Kind::Scatterv | Kind::Reduce, peer) => {
            Some(match peer {
                Some(ANY_SOURCE) => ROOT,
                Some(PROC_NULL) => NOBODY,
                peer => {
                    let root = peer.and_then(|peer| usize::try_from(peer).ok());
                    root.ok_or_else(|| lacks(name, "peer", "the root's rank"))?
                }
            })
        }
        _ => None,
    };
    let what = Collective {
        kind,
        root,
        own: bytes(call.bytes)?,
        sent: lengths(&call.sent, even)?,
        received: lengths(&call.received, even)?,
        vector: if kind.reduces() {
            vector(call)?
        } else {
            Vector::default()
        },
        sources: call.sources.clone(),
        destinations: call.destinations.clone(),
    };
    Ok((name, what))
}

/// The blocking, the immediate and the persistent one of each kind.
macro_rules! names {
    ($($kind:ident: $($blocking:literal $immediate:literal)*;)*) => {
        &[$($((Kind::$kind, [
            concat!("MPI_", $blocking),
            concat!("MPI_I", $immediate),
            concat!("MPI_", $blocking, "_init"),
        ])),*),*]
    };
}

/// The collectives that can be replayed.
const COLLECTIVES: &[(Kind, [&str; 3])] = names! {
    Barrier: "Barrier" "barrier";
    Bcast: "Bcast" "bcast";
    Gather: "Gather" "gather";
    Gatherv: "Gatherv" "gatherv";
    Scatter: "Scatter" "scatter";
    Scatterv: "Scatterv" "scatterv";
    Allgather: "Allgather" "allgather";
    Allgatherv: "Allgatherv" "allgatherv";
    Alltoall: "Alltoall" "alltoall";
    Alltoallv: "Alltoallv" "alltoallv" "Alltoallw" "alltoallw";
    Reduce: "Reduce" "reduce";
    Allreduce: "Allreduce" "allreduce";
    ReduceScatter: "Reduce_scatter" "reduce_scatter";
    ReduceScatterBlock: "Reduce_scatter_block" "reduce_scatter_block";
    Scan: "Scan" "scan";
    Exscan: "Exscan" "exscan";
    NeighborAllgather: "Neighbor_allgather" "neighbor_allgather" "Neighbor_allgatherv" "neighbor_allgatherv";
    NeighborAlltoall: "Neighbor_alltoall" "neighbor_alltoall" "Neighbor_alltoallv" "neighbor_alltoallv"
        "Neighbor_alltoallw" "neighbor_alltoallw";
};
