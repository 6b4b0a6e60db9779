//! Options that several benchmarks share.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::{
    report::{Output, size},
    transports::settings::{Preset, Wait},
};

/// The transports that hikyaku is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Opponent {
    /// Kernel TCP with `TCP_NODELAY`.
    Tcp,
    /// Bare UDP, which sends nothing again.
    Udp,
    /// DPDK's memif by itself, from C: no protocol (with --backend dpdk --device memif).
    Memif,
    /// KCP over UDP (needs the build feature `peers`).
    Kcp,
    /// QUIC over loopback (needs the build feature `peers`).
    Quinn,
}

/// The level or operation that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Level {
    /// Messages of the transport.
    Transport,
    /// MPI's sends and receives.
    Mpi,
}

impl Level {
    /// Name as in JSON.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Transport => "transport",
            Self::Mpi => "mpi",
        }
    }
}

/// Options of benchmarks between the ranks of an MPI job.
#[derive(Clone, Debug, Args)]
pub(crate) struct World {
    /// The level to measure: only mpi has these operations
    #[arg(
        long,
        value_enum,
        default_value = "mpi",
        value_name = "LEVEL",
        hide_possible_values = true
    )]
    pub level: Level,
    /// Ranks, all on this machine [default: 4; bibw, put, get: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=257))]
    pub np: Option<u32>,
    /// The rest.
    #[command(flatten)]
    pub turns: Turns,
}

/// Options of measurements that ranks of an MPI job make in turns.
#[derive(Clone, Debug, Args)]
pub(crate) struct Turns {
    /// How ranks reach each other: udp, shm (memory), or loopback (all ranks are threads of one process)
    #[arg(long, default_value = "udp", value_name = "NAME")]
    pub backend: String,
    /// How ranks wait [default: spin; with more ranks than cores: as in a job of `hikyaku run`]
    #[arg(long, value_enum, value_name = "HOW")]
    pub wait: Option<Wait>,
    /// Sizes in bytes, with K (1024) or M (1024 K); each benchmark has defaults of its own
    #[arg(long, value_delimiter = ',', value_parser = size::parse, value_name = "LIST")]
    pub sizes: Vec<usize>,
    /// Operations per round [default: by size]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub iterations: Option<u32>,
    /// Rounds in which all that is compared takes turns [default: 20]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub rounds: Option<u32>,
    /// Bytes of an IP packet [default: the interface's own]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(576..=65_536))]
    pub mtu: Option<u32>,
    /// The output.
    #[command(flatten)]
    pub output: Output,
}

impl Common {
    /// The options that benchmarks of ranks have, too.
    pub(crate) fn turns(&self) -> Turns {
        Turns {
            backend: self.backend.clone(),
            wait: self.wait,
            sizes: self.sizes.clone(),
            iterations: self.iterations,
            rounds: self.rounds,
            mtu: self.mtu,
            output: self.output.clone(),
        }
    }
}

/// Options that all benchmarks of transports share.
#[derive(Clone, Debug, Args)]
pub(crate) struct Common {
    /// How hikyaku's ends reach each other: udp, shm (memory), loopback (both are threads of one process), or dpdk
    #[arg(long, default_value = "udp", value_name = "NAME")]
    pub backend: String,
    /// Device of the backend dpdk: memif, af_packet:iface=NAME, …; `A+B`: of the driver and of the worker
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<String>,
    /// The level to measure: transport, mpi (sends and receives of MPI over it), or both
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "transport",
        value_name = "LEVEL",
        hide_possible_values = true
    )]
    pub level: Vec<Level>,
    /// Processes in all
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=257))]
    pub np: Option<u32>,
    /// How both ends wait, hikyaku's and the others' [default: spin; incast with more processes than cores: adaptive]
    #[arg(long, value_enum, value_name = "HOW")]
    pub wait: Option<Wait>,
    /// Message sizes in bytes, with K (1024) or M (1024 K); each benchmark has defaults of its own
    #[arg(long, value_delimiter = ',', value_parser = size::parse, value_name = "LIST")]
    pub sizes: Vec<usize>,
    /// Operations per round and transport: ping-pongs, windows, bursts [default: by size]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub iterations: Option<u32>,
    /// Rounds in which all transports take turns; fewer than 20 are for trying out [default: 20]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub rounds: Option<u32>,
    /// Transports to compare with
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "tcp,udp",
        value_name = "LIST"
    )]
    pub vs: Vec<Opponent>,
    /// Bytes of an IP packet, e.g. 1500 for datagrams of 1472 bytes [default: the interface's own]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(576..=65_536))]
    pub mtu: Option<u32>,
    /// Settings of hikyaku's protocol
    #[arg(long, value_enum, default_value = "default", value_name = "PRESET")]
    pub config: Preset,
    /// The output.
    #[command(flatten)]
    pub output: Output,
    /// Be the answering host: wait here for one driver. Options of the measurement are the driver's
    #[arg(long, value_name = "ADDR", conflicts_with = "connect")]
    pub listen: Option<String>,
    /// Drive a measurement against a host that runs `--listen`; without a port: 7475
    #[arg(long, value_name = "ADDR")]
    pub connect: Option<String>,
    /// Write the packets of hikyaku's backend to this file
    #[arg(long, value_name = "FILE.pcapng")]
    pub capture: Option<PathBuf>,
}
