//! The work of the ranks of a job; travels over the control channel.

use hikyaku::mpi::collectives::Collective;
use serde::{Deserialize, Serialize};

use crate::transports::settings::Wait;

/// Name of the backend with which all ranks reach each other through memory.
pub(crate) const MEMORY: &str = "shm";

/// Settings of a rank, the same at all of them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Place {
    /// Name of the backend.
    pub backend: String,
    /// Ranks of the job.
    pub size: u32,
    /// Bytes of a datagram, if it was asked for.
    pub datagram: Option<usize>,
    /// How to wait, if it was asked for.
    pub wait: Option<Wait>,
    /// There are more ranks than cores.
    pub crowded: bool,
    /// All ranks are threads of one process.
    pub threads: bool,
    /// Packets to one rank may go to the kernel together (GSO).
    pub offload: bool,
    /// Collectives open their sessions ahead, or not, and an alltoall is pairwise; nothing: as set.
    pub connect_ahead: Option<bool>,
}

/// The operation that is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Task {
    /// Rank 0 sends a message, rank 1 sends it back.
    PingPong,
    /// Rank 0 sends a window of messages, rank 1 answers with a byte.
    Stream,
    /// Both send a window of messages and receive one.
    Bibw,
    /// Rank 0 writes a window of messages to rank 1, and waits until they are there.
    Put,
    /// Rank 0 reads.
    Get,
    /// A barrier.
    Barrier,
    /// A broadcast from rank 0.
    Bcast,
    /// A sum of 32-bit floats.
    Allreduce,
    /// A block for each rank.
    Alltoall,
}

impl Task {
    /// Name of the benchmark.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::PingPong => "ping-pong",
            Self::Stream => "stream",
            Self::Bibw => "bibw",
            Self::Put => "put",
            Self::Get => "get",
            Self::Barrier => "barrier",
            Self::Bcast => "bcast",
            Self::Allreduce => "allreduce",
            Self::Alltoall => "alltoall",
        }
    }

    /// MPI's name of the collective.
    pub(crate) const fn call(self) -> &'static str {
        match self {
            Self::Bcast => "MPI_Bcast",
            Self::Allreduce => "MPI_Allreduce",
            Self::Alltoall => "MPI_Alltoall",
            _ => "MPI_Barrier",
        }
    }

    /// The collective that it is.
    pub(crate) const fn collective(self) -> Option<Collective> {
        match self {
            Self::Barrier => Some(Collective::Barrier),
            Self::Bcast => Some(Collective::Bcast),
            Self::Allreduce => Some(Collective::Allreduce),
            Self::Alltoall => Some(Collective::Alltoall),
            _ => None,
        }
    }
}

/// One round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Work {
    /// The operation that is timed.
    pub task: Task,
    /// Bytes of a message, block or vector.
    pub size: usize,
    /// Messages per operation, where several are on their way.
    pub window: usize,
    /// The clock is read before the first operation and after the last one only; else before and after each.
    pub whole: bool,
    /// Operations before the clock starts; at least one, which is checked.
    pub warmup: usize,
    /// Operations measured.
    pub count: usize,
    /// Algorithm of a collective; nothing: the one that is chosen.
    pub algorithm: Option<String>,
    /// Largest message that is sent without asking; nothing: as set.
    pub eager_limit: Option<u32>,
    /// Largest message that the kernel does not copy; nothing: as set.
    pub cma_limit: Option<u32>,
}
