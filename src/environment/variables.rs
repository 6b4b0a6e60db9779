//! All variables, with their meaning.

use Part::{Algorithms, Dpdk, Job, Mpi, Poller, Protocol, Rank, Tests, Transport};

/// The part of the software that a variable belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Part {
    /// The backend of a transport, and how it waits.
    Transport,
    /// Fields of [`Config`](crate::Config).
    Protocol,
    /// The backend `dpdk`.
    Dpdk,
    /// The way to the node-wide poller.
    Poller,
    /// The engine of MPI.
    Mpi,
    /// Algorithms of MPI's collectives.
    Algorithms,
    /// How the processes of a job find each other.
    Job,
    /// Set by `hikyaku run` for each rank.
    Rank,
    /// The project's tests.
    Tests,
}

impl Part {
    /// All of them, in the order in which people look at them.
    pub const ALL: [Self; 9] = [
        Self::Transport,
        Self::Protocol,
        Self::Dpdk,
        Self::Poller,
        Self::Mpi,
        Self::Algorithms,
        Self::Job,
        Self::Rank,
        Self::Tests,
    ];

    /// Its name, in small letters.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Transport => "transport",
            Self::Protocol => "protocol",
            Self::Dpdk => "dpdk",
            Self::Poller => "poller",
            Self::Mpi => "mpi",
            Self::Algorithms => "algorithms",
            Self::Job => "job",
            Self::Rank => "rank",
            Self::Tests => "tests",
        }
    }

    /// Whether people set its variables. (Others are set by programs.)
    #[must_use]
    pub const fn is_for_users(self) -> bool {
        !matches!(self, Self::Rank | Self::Tests)
    }
}

/// A variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Variable {
    /// The part that reads it.
    pub part: Part,
    /// Its name.
    pub name: &'static str,
    /// The setting that it changes.
    pub meaning: &'static str,
    /// The values that it takes, with units.
    pub takes: &'static str,
    /// The value that stands where it is not set, if that is always the same and no other part knows it better. Empty
    /// for none.
    pub default: &'static str,
}

const fn of(part: Part, name: &'static str, meaning: &'static str, takes: &'static str) -> Variable {
    Variable {
        part,
        name,
        meaning,
        takes,
        default: "",
    }
}

impl Variable {
    /// The unit of its values, if they are written without one.
    #[must_use]
    pub fn unit(&self) -> Option<&'static str> {
        let (unit, range) = self.takes.split_once(", ")?;
        let is_range = range.starts_with(|c: char| c.is_ascii_digit()) || range.starts_with("above");
        (is_range && !unit.contains(' ')).then_some(unit)
    }

    const fn or(self, default: &'static str) -> Self {
        Self { default, ..self }
    }
}

const SWITCH: &str = "on or off";
const ALGORITHM: &str = "auto (the cheapest), or a name of docs/collectives.md";
const NONE: &str = "none";

/// Every environment variable of this software, whatever this build contains.
///
/// Sizes and numbers may have `K`, `M` or `G` (times 1,024); times have a unit (`ns`, `us`, `ms`, `s`); switches are
/// `on` or `off`; choices are written in small letters with hyphens (`go-back-n`). `hikyaku info` prints this table
/// with the values that hold.
#[rustfmt::skip]
pub const VARIABLES: &[Variable] = &[
    of(Transport, "HIKYAKU_BACKEND",
        "the backend that carries datagrams, whatever the program names",
        "udp, loopback, dpdk or poller").or("named by the program"),
    of(Transport, "HIKYAKU_WAIT",
        "how to wait",
        "spin, block, adaptive, yield, or how long to spin (and then to yield) before blocking: 20us, 50us+2ms"),
    of(Transport, "HIKYAKU_LOG",
        "events of this level and above are printed to standard error", "off, error, warn, info, debug or trace")
        .or("off"),
    of(Transport, "HIKYAKU_STATS",
        "counters are appended there at the end, a JSON object a line", "a file; -: standard error").or(NONE),
    of(Transport, "HIKYAKU_PRESET",
        "settings of a published protocol, which the variables below change further", "default or dse").or("default"),

    of(Protocol, "HIKYAKU_MAX_DATAGRAM", "the largest datagram ever sent", "bytes, 512 to 65507"),
    of(Protocol, "HIKYAKU_SAFE_DATAGRAM",
        "datagrams that are taken to pass everywhere", "bytes, 512 to HIKYAKU_MAX_DATAGRAM"),
    of(Protocol, "HIKYAKU_PATH_MTU_DISCOVERY", "look for a larger path MTU by probes", SWITCH),
    of(Protocol, "HIKYAKU_MAX_PAYLOAD", "the largest payload of a packet", "bytes, 1 to 65507"),
    of(Protocol, "HIKYAKU_BUNDLE", "small messages share datagrams", SWITCH),
    of(Protocol, "HIKYAKU_TIMESTAMPS", "packets carry timestamps", SWITCH),
    of(Protocol, "HIKYAKU_CHECKSUM", "ask for a CRC-32C in every packet", SWITCH),
    of(Protocol, "HIKYAKU_RECOVERY", "how lost packets are sent again", "selective-repeat or go-back-n"),
    of(Protocol, "HIKYAKU_NACK", "ask for missing packets", SWITCH),
    of(Protocol, "HIKYAKU_REORDERING_WINDOW", "a gap younger than this is taken for reordering", "a time, 0 to 1s"),
    of(Protocol, "HIKYAKU_WINDOW_PACKETS", "most packets in flight per flow", "packets, 1 to 1024"),
    of(Protocol, "HIKYAKU_WINDOW_MODE", "how the window is used", "sliding or burst-then-wait"),
    of(Protocol, "HIKYAKU_WINDOW_BYTES", "most bytes in flight per flow", "bytes, 1K to 64M"),
    of(Protocol, "HIKYAKU_CONGESTION", "how the bytes in flight are limited", "fixed, aimd or delay"),
    of(Protocol, "HIKYAKU_TARGET_DELAY", "delay that the delay-based window aims at", "a time, 1us to 1s"),
    of(Protocol, "HIKYAKU_ACK_DELAY", "longest time that an acknowledgement waits", "a time, 0 to 100ms"),
    of(Protocol, "HIKYAKU_ACK_BYTES", "acknowledge after this many bytes at the latest", "bytes, 1 to 16M"),
    of(Protocol, "HIKYAKU_INITIAL_RTO", "retransmission time-out before the first sample", "a time, 1ms to 10s"),
    of(Protocol, "HIKYAKU_MIN_RTO", "smallest retransmission time-out", "a time, 10us to 10s"),
    of(Protocol, "HIKYAKU_MAX_RTO", "largest retransmission time-out", "a time, HIKYAKU_MIN_RTO to 60s"),
    of(Protocol, "HIKYAKU_RETRY_LIMIT",
        "a peer is dead only after so many unanswered resends …", "resends, 1 to 1000"),
    of(Protocol, "HIKYAKU_DEATH_TIMEOUT", "… and this long after its last packet", "a time, 1ms to 3600s"),
    of(Protocol, "HIKYAKU_OPEN_TIMEOUT", "the same while a session opens", "a time, 1ms to 3600s"),
    of(Protocol, "HIKYAKU_LATE_PEERS", "peers may start later than this side", SWITCH),
    of(Protocol, "HIKYAKU_RECONNECT", "call a lost peer until it answers", SWITCH),
    of(Protocol, "HIKYAKU_KEEPALIVE", "time between questions to a watched idle peer", "a time, 1ms to 3600s"),
    of(Protocol, "HIKYAKU_UNEXPECTED_BYTES", "bytes of one peer that the program has not taken", "bytes, 64K to 1G"),
    of(Protocol, "HIKYAKU_MAX_MESSAGE", "the largest message that is accepted", "bytes, 1 to 4G - 1"),
    of(Protocol, "HIKYAKU_SEND_QUEUE_BYTES", "copied bytes that may be queued per flow", "bytes, 4K to 1G"),
    of(Protocol, "HIKYAKU_SEND_QUEUE_MESSAGES",
        "messages by reference that may be queued per flow", "messages, 1 to 1M"),
    of(Protocol, "HIKYAKU_MAX_PEERS", "most peers", "peers, 1 to 1048575"),
    of(Protocol, "HIKYAKU_ACCEPT_STRANGERS", "accept sessions from addresses that are no peers", SWITCH),
    of(Protocol, "HIKYAKU_RESETS_PER_SECOND", "most resets a second", "resets, 0 to 1000000"),
    of(Protocol, "HIKYAKU_CHALLENGES_PER_SECOND", "most challenges a second", "challenges, 1 to 1000000"),

    of(Dpdk, "HIKYAKU_DPDK_DEVICE",
        "the device, or several; in a job those of each process, joined by +",
        "memif:socket=/tmp/s, af_packet:iface=eth1, port:0000:03:00.0, ...").or(NONE),
    of(Dpdk, "HIKYAKU_DPDK_ADDRESS",
        "the address of process 0, or of each of its ports; others count on from it",
        "IP addresses, separated by commas").or("198.18.0.1"),
    of(Dpdk, "HIKYAKU_DPDK_MEMORY", "the source of memory", "auto, in-memory, hugepages or no-huge").or("auto"),
    of(Dpdk, "HIKYAKU_DPDK_MEMORY_MB", "memory of all ports of the process", "MiB, 64 to 65536").or("256"),
    of(Dpdk, "HIKYAKU_DPDK_MTU", "the largest IP packet", "bytes, 576 to 16000").or("by device: 16000 or 1500"),
    of(Dpdk, "HIKYAKU_DPDK_DESCRIPTORS",
        "packets that wait in each queue", "packets, 64 to 16384").or("by device: 256 or 1024"),
    of(Dpdk, "HIKYAKU_DPDK_QUEUES",
        "eager queues in each direction, and further ones", "1 to 64, or two numbers: 4+2").or("1"),
    of(Dpdk, "HIKYAKU_DPDK_CHECKSUM", "UDP checksums", "auto, on or off").or("auto"),
    of(Dpdk, "HIKYAKU_DPDK_PCI", "look for cards", SWITCH).or("off"),
    of(Dpdk, "HIKYAKU_DPDK_EAL", "further arguments of DPDK", "arguments separated by spaces").or(NONE),

    of(Poller, "HIKYAKU_POLLER", "the socket of the node-wide poller", "a path").or(NONE),
    of(Poller, "HIKYAKU_POLLER_BULK",
        "the way of MPI's large messages beside the poller", "auto, port, udp, dpdk or off").or("auto"),

    of(Mpi, "HIKYAKU_EAGER_LIMIT", "the largest message that is sent without asking (within a host 64K at most)",
        "bytes, 0 to 1M"),
    of(Mpi, "HIKYAKU_CMA_LIMIT", "longer messages within a host are copied by the kernel, where it does that (CMA)",
        "bytes, less than 4G, off, or auto (64K; 32K between cores that are far from each other)"),
    of(Mpi, "HIKYAKU_CHECK", "compare the calls of ranks, to find mistakes", SWITCH),
    of(Mpi, "HIKYAKU_CONNECT_AHEAD", "collectives open their sessions before they need them", SWITCH),
    of(Mpi, "HIKYAKU_ROUTES",
        "how processes of one host reach each other",
        "network, memory (an error where that fails) or auto (memory, else the network)"),
    of(Mpi, "HIKYAKU_LEVELS",
        "whether collectives go within hosts and between them",
        "auto (where that is cheaper), off, leaders (one rank of a host talks with others), or shares (all do)"),
    of(Mpi, "HIKYAKU_TRACE", "each rank writes a trace of its calls there", "a directory").or(NONE),
    of(Mpi, "HIKYAKU_MODEL_ALPHA", "cost of a message, by which algorithms are chosen", "a time: 8us"),
    of(Mpi, "HIKYAKU_MODEL_BETA", "cost of a byte that is sent", "a time: 0.5ns"),
    of(Mpi, "HIKYAKU_MODEL_GAMMA", "cost of a byte that is reduced", "a time: 0.2ns"),
    of(Mpi, "HIKYAKU_MODEL_WITHIN_ALPHA", "time until ranks of a host see what another one writes", "a time: 0.4us"),
    of(Mpi, "HIKYAKU_MODEL_WITHIN_BETA", "cost of a byte that a rank writes for these", "a time: 0.04ns"),

    of(Algorithms, "HIKYAKU_BARRIER", "the algorithm of MPI_Barrier", ALGORITHM),
    of(Algorithms, "HIKYAKU_BCAST", "the algorithm of MPI_Bcast", ALGORITHM),
    of(Algorithms, "HIKYAKU_GATHER", "the algorithm of MPI_Gather", ALGORITHM),
    of(Algorithms, "HIKYAKU_GATHERV", "the algorithm of MPI_Gatherv", ALGORITHM),
    of(Algorithms, "HIKYAKU_SCATTER", "the algorithm of MPI_Scatter", ALGORITHM),
    of(Algorithms, "HIKYAKU_SCATTERV", "the algorithm of MPI_Scatterv", ALGORITHM),
    of(Algorithms, "HIKYAKU_ALLGATHER", "the algorithm of MPI_Allgather", ALGORITHM),
    of(Algorithms, "HIKYAKU_ALLGATHERV", "the algorithm of MPI_Allgatherv", ALGORITHM),
    of(Algorithms, "HIKYAKU_ALLTOALL", "the algorithm of MPI_Alltoall", ALGORITHM),
    of(Algorithms, "HIKYAKU_ALLTOALLV", "the algorithm of MPI_Alltoallv and MPI_Alltoallw", ALGORITHM),
    of(Algorithms, "HIKYAKU_REDUCE", "the algorithm of MPI_Reduce", ALGORITHM),
    of(Algorithms, "HIKYAKU_ALLREDUCE", "the algorithm of MPI_Allreduce", ALGORITHM),
    of(Algorithms, "HIKYAKU_REDUCE_SCATTER", "the algorithm of MPI_Reduce_scatter", ALGORITHM),
    of(Algorithms, "HIKYAKU_REDUCE_SCATTER_BLOCK", "the algorithm of MPI_Reduce_scatter_block", ALGORITHM),
    of(Algorithms, "HIKYAKU_SCAN", "the algorithm of MPI_Scan", ALGORITHM),
    of(Algorithms, "HIKYAKU_EXSCAN", "the algorithm of MPI_Exscan", ALGORITHM),
    of(Algorithms, "HIKYAKU_NEIGHBOR_ALLGATHER",
        "the algorithm of MPI_Neighbor_allgather and _allgatherv", ALGORITHM),
    of(Algorithms, "HIKYAKU_NEIGHBOR_ALLTOALL",
        "the algorithm of MPI_Neighbor_alltoall, _alltoallv and _alltoallw", ALGORITHM),

    of(Job, "HIKYAKU_IFACE",
        "the network interfaces", "names, addresses, or networks: eth0,10.1.0.0/16").or(NONE),
    of(Job, "HIKYAKU_PORT_BASE",
        "the first UDP port; each process adds its local rank", "a port; 0: any free ones").or("0"),
    of(Job, "HIKYAKU_BOOTSTRAP",
        "how to start up", "hikyaku, pmi1, pmi2, pmix, slurm, rendezvous or alone").or("recognised"),
    of(Job, "HIKYAKU_BOOTSTRAP_TIMEOUT", "how long to wait for other processes", "seconds, above 0").or("60"),
    of(Job, "HIKYAKU_RENDEZVOUS", "where rank 0 waits for the others if there is no launcher", "host:port").or(NONE),

    of(Rank, "HIKYAKU_RANK", "the number of this process in the job", "a number from 0"),
    of(Rank, "HIKYAKU_SIZE", "the number of processes in the job", "a number from 1"),
    of(Rank, "HIKYAKU_LOCAL_RANK", "the number of this process on this host", "a number from 0"),
    of(Rank, "HIKYAKU_LOCAL_SIZE", "the number of processes of the job on this host", "a number from 1"),
    of(Rank, "HIKYAKU_APP", "the number of this process's program in the job", "a number from 0"),
    of(Rank, "HIKYAKU_FIRST", "the number in the job of a spawned world's first process", "a number from 0"),
    of(Rank, "HIKYAKU_SPAWNED_BY", "the processes that have spawned this world", "set by hikyaku run"),
    of(Rank, "HIKYAKU_CONTACT", "where a process finds those that have spawned it by another launcher", "set by those"),
    of(Rank, "HIKYAKU_ON_FAILURE", "the job goes on without failed ranks", "continue"),
    of(Rank, "HIKYAKU_JOB_KEY", "the secret of the job", "32 hexadecimal digits"),
    of(Rank, "HIKYAKU_HOST_ADDRESS", "the address of this host as other hosts of the job reach it", "an IP address"),
    of(Rank, "HIKYAKU_RUN_ADDRESS", "where the wire-up server of this host listens", "host:port"),
    of(Rank, "HIKYAKU_RUN_TICKET", "the ticket with which it admits a rank", "a word"),

    of(Tests, "HIKYAKU_TEST_CASES", "how many random cases to try", "a number"),
    of(Tests, "HIKYAKU_FUZZ_CORPUS", "tests write their packets there", "a directory"),
    of(Tests, "HIKYAKU_SEED", "the seed to run", "a number"),
    of(Tests, "HIKYAKU_SIM_RUNS", "how many seeds to run", "a number"),
    of(Tests, "HIKYAKU_SIM_FROM", "the first seed", "a number"),
    of(Tests, "HIKYAKU_SIM_DIR", "where seeds that fail are written", "a directory"),
    of(Tests, "HIKYAKU_SIM_TRACE", "write what happens", SWITCH),
];
