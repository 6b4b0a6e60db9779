//! Collectives of a trace.

use hikyaku::mpi::{
    collectives::{NOBODY, ROOT},
    engine::ANY_SOURCE,
};
use hikyaku_bench::traces::Call;

use super::{PROC_NULL, lacks, unknown};

/// A collective: octets of blocks, and the root. Between two groups that is [`ROOT`] at the root itself, and [`NOBODY`] at
/// others of its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Collective {
    Barrier,
    Bcast {
        root: usize,
        octets: usize,
    },
    Gather {
        root: usize,
        own: usize,
        blocks: Lengths,
    },
    Scatter {
        root: usize,
        own: usize,
        blocks: Lengths,
    },
    Allgather {
        own: usize,
        blocks: Lengths,
    },
    Alltoall {
        sent: Lengths,
        received: Lengths,
    },
    Reduce {
        root: usize,
        vector: Vector,
    },
    Allreduce(Vector),
    /// The vector's, and elements of each block.
    ReduceScatter {
        vector: Vector,
        blocks: Lengths,
    },
    Scan {
        vector: Vector,
        exclusive: bool,
    },
    NeighborAllgather {
        own: usize,
        received: Lengths,
        sources: Vec<i32>,
        destinations: Vec<i32>,
    },
    NeighborAlltoall {
        sent: Lengths,
        received: Lengths,
        sources: Vec<i32>,
        destinations: Vec<i32>,
    },
}

/// Octets of blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Lengths {
    Even(usize),
    Each(Vec<usize>),
}

/// What is reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Vector {
    /// Elements, and octets of one: 1, 2, 4 or 8.
    pub count: usize,
    pub element: usize,
    pub commutative: bool,
}

impl Vector {
    pub(crate) fn octets(&self) -> usize {
        self.count * self.element
    }
}
/// The name of the blocking call of the same kind.
fn blocking(name: &str) -> String {
    let name = name.strip_suffix("_init").unwrap_or(name);
    let rest = name.strip_prefix("MPI_I").unwrap_or_default();
    let mut rest = rest.chars();
    match rest.next() {
        Some(first) => format!("MPI_{}{}", first.to_ascii_uppercase(), rest.as_str()),
        None => name.to_owned(),
    }
}

fn octets(number: u64) -> Result<usize, String> {
    let most = 1 << 40;
    if number > most {
        return Err(format!("{number} octets: at most {most} were expected"));
    }
    Ok(number as usize)
}

fn lengths(list: &[u64], even: bool) -> Result<Lengths, String> {
    let each: Vec<usize> = list.iter().map(|number| octets(*number)).collect::<Result<_, _>>()?;
    Ok(if even {
        Lengths::Even(each.first().copied().unwrap_or(0))
    } else {
        Lengths::Each(each)
    })
}

fn vector(call: &Call) -> Result<Vector, String> {
    let (total, count) = (octets(call.octets)?, octets(call.count)?);
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
    let known = NAMES.iter().flatten().find(|name| **name == call.call);
    let name = *known.ok_or_else(|| unknown(&call.call))?;
    Ok((name, collective(call)?))
}

fn collective(call: &Call) -> Result<Collective, String> {
    let name = call.call.as_str();
    let plain = blocking(name);
    let even = !plain.ends_with('v') && !plain.ends_with('w');
    let own = octets(call.octets)?;
    let root = || match call.peer {
        Some(ANY_SOURCE) => Ok(ROOT),
        Some(PROC_NULL) => Ok(NOBODY),
        peer => {
            let root = peer.and_then(|peer| usize::try_from(peer).ok());
            root.ok_or_else(|| lacks(name, "peer", "the root's rank"))
        }
    };
    let sent = || lengths(&call.sent, even);
    let received = || lengths(&call.received, even);
    let (sources, destinations) = (call.sources.clone(), call.destinations.clone());
    Ok(match plain.as_str() {
        "MPI_Barrier" => Collective::Barrier,
        "MPI_Bcast" => Collective::Bcast {
            root: root()?,
            octets: own,
        },
        "MPI_Gather" | "MPI_Gatherv" => Collective::Gather {
            root: root()?,
            own,
            blocks: received()?,
        },
        "MPI_Scatter" | "MPI_Scatterv" => Collective::Scatter {
            root: root()?,
            own,
            blocks: sent()?,
        },
        "MPI_Allgather" | "MPI_Allgatherv" => Collective::Allgather {
            own,
            blocks: received()?,
        },
        "MPI_Alltoall" | "MPI_Alltoallv" | "MPI_Alltoallw" => Collective::Alltoall {
            sent: sent()?,
            received: received()?,
        },
        "MPI_Reduce" => Collective::Reduce {
            root: root()?,
            vector: vector(call)?,
        },
        "MPI_Allreduce" => Collective::Allreduce(vector(call)?),
        "MPI_Reduce_scatter" => Collective::ReduceScatter {
            vector: vector(call)?,
            blocks: lengths(&call.received, false)?,
        },
        "MPI_Reduce_scatter_block" => Collective::ReduceScatter {
            vector: vector(call)?,
            blocks: lengths(&call.received, true)?,
        },
        "MPI_Scan" | "MPI_Exscan" => Collective::Scan {
            vector: vector(call)?,
            exclusive: plain == "MPI_Exscan",
        },
        "MPI_Neighbor_allgather" | "MPI_Neighbor_allgatherv" => Collective::NeighborAllgather {
            own,
            received: received()?,
            sources,
            destinations,
        },
        "MPI_Neighbor_alltoall" | "MPI_Neighbor_alltoallv" | "MPI_Neighbor_alltoallw" => Collective::NeighborAlltoall {
            sent: sent()?,
            received: received()?,
            sources,
            destinations,
        },
        _ => return Err(unknown(name)),
    })
}

/// The blocking, the immediate and the persistent one of each kind.
macro_rules! names {
    ($($blocking:literal $immediate:literal)*) => {
        &[$([
            concat!("MPI_", $blocking),
            concat!("MPI_I", $immediate),
            concat!("MPI_", $blocking, "_init"),
        ]),*]
    };
}

/// The collectives that can be replayed.
const NAMES: &[[&str; 3]] = names! {
    "Barrier" "barrier"
    "Bcast" "bcast"
    "Gather" "gather"
    "Gatherv" "gatherv"
    "Scatter" "scatter"
    "Scatterv" "scatterv"
    "Allgather" "allgather"
    "Allgatherv" "allgatherv"
    "Alltoall" "alltoall"
    "Alltoallv" "alltoallv"
    "Alltoallw" "alltoallw"
    "Reduce" "reduce"
    "Allreduce" "allreduce"
    "Reduce_scatter" "reduce_scatter"
    "Reduce_scatter_block" "reduce_scatter_block"
    "Scan" "scan"
    "Exscan" "exscan"
    "Neighbor_allgather" "neighbor_allgather"
    "Neighbor_allgatherv" "neighbor_allgatherv"
    "Neighbor_alltoall" "neighbor_alltoall"
    "Neighbor_alltoallv" "neighbor_alltoallv"
    "Neighbor_alltoallw" "neighbor_alltoallw"
};
