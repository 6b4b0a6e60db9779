//! The settings that both ends of a measurement share; they travel over the control channel.

use std::{net::SocketAddr, time::Duration};

use clap::ValueEnum;
use hikyaku::{mpi::engine::Options, transport::WaitPolicy};
use serde::{Deserialize, Serialize};

use crate::transports::sizes::{self, Sizes};

/// How an end waits for data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Wait {
    /// Asks again and again, never sleeps: least latency, one core each.
    #[default]
    Spin,
    /// Sleeps in the kernel.
    Block,
    /// Spins for a moment, then sleeps.
    Adaptive,
    /// Asks again and again and lets others run in between, for a while, then sleeps: for more processes than cores.
    Yield,
}

impl Wait {
    /// Name as on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Spin => "spin",
            Self::Block => "block",
            Self::Adaptive => "adaptive",
            Self::Yield => "yield",
        }
    }

    /// The same for hikyaku.
    pub(crate) const fn policy(self) -> WaitPolicy {
        match self {
            Self::Spin => WaitPolicy::Spin,
            Self::Block => WaitPolicy::Block,
            Self::Adaptive => WaitPolicy::Adaptive {
                spin: WaitPolicy::SPIN,
                turns: Duration::ZERO,
            },
            Self::Yield => WaitPolicy::Yield {
                spin: WaitPolicy::TURNS,
            },
        }
    }
}

/// Which set of protocol settings hikyaku runs with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Preset {
    /// The default of a program that sets nothing.
    #[default]
    Default,
    /// The protocol of the DSE paper: 10 packets of at most 1024 B in a row, go-back-N.
    Dse,
}

/// How messages of MPI travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Way {
    /// At once.
    Eager,
    /// When the receiver has said where to.
    Rendezvous,
}

impl Way {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Eager => "eager",
            Self::Rendezvous => "rendezvous",
        }
    }

    /// The eager limit with which all messages go so; larger ones than [`Options::MAX_EAGER_LIMIT`] do not go eagerly.
    pub(crate) const fn eager_limit(self) -> u32 {
        match self {
            Self::Eager => Options::MAX_EAGER_LIMIT,
            Self::Rendezvous => 0,
        }
    }
}

/// The end of the names of this library's MPI.
const MPI: &str = "/mpi";

/// Transport and level of one of the things that are compared, from its name.
pub(crate) fn level_of(name: &str) -> (&str, &'static str) {
    match name.strip_suffix(MPI) {
        Some(transport) => (transport, "mpi"),
        None => (name, "transport"),
    }
}

/// One of the things that are compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// This library.
    Hikyaku {
        /// Name of the backend.
        backend: String,
        /// Protocol settings.
        preset: Preset,
    },
    /// This library's MPI.
    Mpi {
        /// Name of the backend.
        backend: String,
        /// How all messages go; `None`: by their size.
        way: Option<Way>,
    },
    /// Open MPI over its tcp btl.
    OpenMpi {
        /// How all messages go.
        way: Way,
        /// Where the program is, and the sockets of its ranks.
        directory: String,
    },
    /// Kernel TCP, one write a message.
    Tcp,
    /// Kernel TCP, small messages collected into writes of 64 KB.
    TcpBatched,
    /// Kernel TCP without `TCP_NODELAY`, one write a message, two receive calls a message.
    TcpPlain,
    /// Bare UDP: fast, and lost datagrams stay lost.
    Udp,
    /// DPDK's memif by itself, from C.
    Memif {
        /// Payload is copied from and to the application's memory; else it is not touched.
        copies: bool,
    },
    /// The KCP protocol over UDP.
    Kcp,
    /// QUIC.
    Quinn,
}

impl Kind {
    /// Name as in tables and JSON.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Hikyaku {
                backend,
                preset: Preset::Default,
            } => format!("hikyaku/{backend}"),
            Self::Hikyaku {
                backend,
                preset: Preset::Dse,
            } => format!("hikyaku/{backend}/dse"),
            Self::Mpi { backend, way: None } => format!("hikyaku/{backend}{MPI}"),
            Self::Mpi {
                backend,
                way: Some(way),
            } => format!("hikyaku/{backend}/{}{MPI}", way.name()),
            Self::OpenMpi { way, .. } => format!("openmpi/tcp/{}{MPI}", way.name()),
            Self::Tcp => "tcp".into(),
            Self::TcpBatched => "tcp/batched".into(),
            Self::TcpPlain => "tcp/plain".into(),
            Self::Udp => "udp".into(),
            Self::Memif { copies: false } => "memif".into(),
            Self::Memif { copies: true } => "memif/copied".into(),
            Self::Kcp => "kcp".into(),
            Self::Quinn => "quinn".into(),
        }
    }

    /// This library over this backend.
    pub(crate) fn is_over(&self, name: &str) -> bool {
        matches!(self, Self::Hikyaku { backend, .. } | Self::Mpi { backend, .. } if backend == name)
    }

    /// True for this library, false for what it is compared with.
    pub(crate) const fn is_ours(&self) -> bool {
        matches!(self, Self::Hikyaku { .. } | Self::Mpi { .. })
    }
}

/// Settings of one link, the same at both ends.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Settings {
    /// How both ends wait.
    pub wait: Wait,
    /// Largest UDP payload of one datagram.
    pub datagram: usize,
    /// Whether `datagram` was asked for with `--mtu` (else it is what the interface takes).
    pub datagram_forced: bool,
    /// Number of this link among those of the session.
    pub link: u32,
    /// Which spoke this is, from 0; means nothing to the hub.
    pub spoke: u32,
    /// All ends are threads of one process.
    pub threads: bool,
    /// Write what passes through hikyaku's backend at the hub to this file.
    pub capture: Option<String>,
    /// Devices of the backend dpdk: the hub's and the spoke's.
    pub devices: Option<[String; 2]>,
    /// The spoke is in this network namespace, and each link has an Ethernet of its own.
    pub wire: Option<String>,
}

/// Where one end can be reached, told to the other end.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Offer {
    /// Addresses, in an order that the transport knows.
    pub addresses: Vec<SocketAddr>,
    /// Anything else that the transport must tell (a certificate).
    #[serde(default)]
    pub extra: Vec<u8>,
}

/// The work of one round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Operation {
    /// Send a message, wait for its echo.
    PingPong,
    /// Send `window` messages, wait for a small reply.
    Stream,
}

/// One round of one transport at one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Job {
    /// The kind of exchange.
    pub operation: Operation,
    /// Bytes of a message; of the longest, where they are drawn.
    pub size: usize,
    /// Sizes are drawn from the mix of the DSE paper, with this seed.
    #[serde(default)]
    pub mix: Option<u64>,
    /// Operations before the clock starts.
    pub warmup: usize,
    /// Operations measured.
    pub count: usize,
    /// Messages per operation (streams).
    pub window: usize,
    /// How many spokes take part.
    pub spokes: usize,
    /// The clock is read before the first operation and after the last one only; else before and after each.
    pub whole: bool,
}

impl Job {
    /// Operations of one spoke, warm-up included.
    pub(crate) const fn operations(&self) -> usize {
        self.warmup + self.count
    }

    /// Sizes of the messages of each spoke: of a stream, of each window.
    pub(crate) fn sizes(&self) -> Sizes {
        let Some(seed) = self.mix else {
            return Sizes::Same(self.size);
        };
        Sizes::Each(sizes::draw(
            seed,
            match self.operation {
                Operation::PingPong => self.operations(),
                Operation::Stream => self.window,
            },
        ))
    }
}

/// The results of a spoke in one round.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Report {
    /// Nanoseconds of every measured operation.
    pub samples: Vec<u64>,
    /// Wall time of all of them.
    pub wall: u64,
    /// CPU time of all of them.
    pub cpu: u64,
    /// For how long of the whole round this end could run, and had no CPU.
    #[serde(default)]
    pub waited: u64,
    /// Something was lost on a transport that does not send again: the round is void.
    pub lost: bool,
}
