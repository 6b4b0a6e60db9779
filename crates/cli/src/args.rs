//! The command line as people see it.

use std::path::PathBuf;

use clap::{
    Args, Parser, Subcommand, ValueEnum,
    builder::{PathBufValueParser, TypedValueParser},
};

use crate::{
    bench::{
        overflow::OverflowArgs,
        plot,
        settings::{Preset, Wait},
        size,
    },
    doctor::{self, DoctorArgs},
    hello::HelloArgs,
    manual::{self, CompletionsArgs, ManArgs},
    poller::{self, PollerArgs},
    run::{RunArgs, args::EXAMPLES},
    trace::{self, TraceArgs},
};

/// Reliable messages over plain datagrams: benchmarks, a launcher and tools.
#[derive(Debug, Parser)]
#[command(name = "hikyaku", version, about, disable_help_subcommand = true)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The tools.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure speed, side by side with what the kernel offers
    #[command(subcommand)]
    Bench(Box<Bench>),
    /// Measure this machine: find the settings of MPI that suit it
    #[command(after_help = TUNE)]
    Tune(Tune),
    /// Start the processes of a job, here or on several hosts
    #[command(after_help = EXAMPLES)]
    Run(Box<RunArgs>),
    /// Be a process of a job: say which one, and where the others are. Tries out a launcher
    #[command(after_help = HELLO)]
    Hello(HelloArgs),
    /// Own a port of DPDK and run the protocol for the processes of this host
    #[command(after_help = poller::EXAMPLES)]
    Poller(PollerArgs),
    /// Simulate thousands of ranks in virtual time
    #[cfg(feature = "sim")]
    #[command(subcommand)]
    Sim(crate::sim::Experiment),
    /// Show what ranks have called: a timeline of their traces, or where the time went
    #[command(after_help = trace::EXAMPLES)]
    Trace(TraceArgs),
    /// Say what this machine offers, and what to do about what is missing
    #[command(after_help = doctor::EXAMPLES)]
    Doctor(DoctorArgs),
    /// Print what makes a shell complete this command's words
    #[command(after_help = manual::COMPLETIONS)]
    Completions(CompletionsArgs),
    /// Print this command's manual page, or write those of all commands into a directory
    #[command(after_help = manual::MAN)]
    Man(ManArgs),
    /// The other end of a benchmark; started by `bench`, not by people
    #[command(hide = true)]
    BenchWorker {
        /// Control socket of the driver.
        address: String,
        /// What to say to it.
        key: String,
    },
}

const HELLO: &str = "\
Examples:
  hikyaku run -n 2 hikyaku hello
  mpiexec -n 2 hikyaku hello                            MPICH
  mpirun -n 2 hikyaku hello                             Open MPI
  srun --mpi=pmi2 -n 2 hikyaku hello                    Slurm
  HIKYAKU_IFACE=eth1 hikyaku run --host a,b hikyaku hello";

const LATENCY: &str = "\
Examples:
  hikyaku bench latency                                 both ends here, against TCP and bare UDP
  hikyaku bench latency --sizes 8,2048 --mtu 1500       as over Ethernet: 1472-byte datagrams
  hikyaku bench latency --wait block --vs tcp           both ends sleep in the kernel
  hikyaku bench latency --level transport,mpi           what MPI adds to the transport
  hikyaku bench latency --format json --plot lat.svg    for programs, and for eyes
  hikyaku bench latency --backend dpdk --device memif   without the kernel (feature dpdk)
  hikyaku bench latency --backend dpdk --device memif --vs memif,tcp
  hikyaku bench latency --listen 0.0.0.0:7475           on one host, then on the other:
  hikyaku bench latency --connect first-host:7475

Columns: p50 is the median over rounds of each round's median, p99 is taken over all samples, cpu is processor time per \
message of both ends together; all in microseconds. A ratio below 1 says that hikyaku is faster. `--vs memif` is DPDK by itself, \
from C: frames with a fixed header and nothing checked, whose payload nobody touches (memif), or which is copied from and \
to its place (memif/copied).";

const FIGURE11: &str = "\
Examples:
  hikyaku bench figure11 --backend dpdk --device memif --plot figure11.svg
  hikyaku bench figure11                                without DPDK: over the kernel's UDP, and TCP

One-way time of MPI's messages between two processes, as in figure 11 of the DPDK paper (Shimada and Hayasaka, 2017; \
docs/papers.md): all sizes eagerly (up to 1 MB), all sizes by rendezvous, each over the kernel's UDP and over DPDK; \
and TCP without MPI.";

const BANDWIDTH: &str = "\
Examples:
  hikyaku bench bandwidth --sizes 2048,64K,1M           a window of messages, then a small reply
  hikyaku bench bandwidth --mtu 1500 --vs udp           against the wall of a 1500-byte network

MB are 10^6 bytes. Bare UDP copies each message to its place, keeps 292 KB in flight and sends nothing again; a round \
in which it loses something is void. A ratio above 1 says that hikyaku is faster.";

const RATE: &str = "\
Examples:
  hikyaku bench rate                                    bursts of 64 B messages
  hikyaku bench rate --sizes 8,64,256

`tcp` makes one write a message, `tcp/batched` collects 64 KB first; bare UDP sends one datagram a message in batches \
(segmentation offload). A ratio above 1 says that hikyaku is faster.";

const PAIRS: &str = "\
Examples:
  hikyaku bench bibw --sizes 64K,1M                     both ranks send and receive 64
  hikyaku bench put --sizes 8,64K                       a put and its flush; and 64 puts: MB/s
  hikyaku bench get --wait block --format json

As osu_bibw, osu_put_latency and osu_put_bw do: lock, operations, flush. The target takes no part; it waits in a barrier. \
MB are 10^6 bytes; bibw counts both directions.";

const COLLECTIVES: &str = "\
Examples:
  hikyaku bench allreduce --np 8 --sizes 8,1M           eight ranks on this machine
  hikyaku bench allreduce --algorithm auto,ring         what was chosen beside a ring, in turns
  hikyaku bench barrier --np 8 --wait block
  HIKYAKU_EAGER_LIMIT=16K hikyaku bench alltoall        with settings of an MPI program

As the OSU micro-benchmarks: before each operation there is a barrier (but for `barrier`), each rank takes its time; \
avg is the mean over ranks and iterations, max that of the slowest rank; p50 and p99 are over iterations, of the mean over \
ranks. All are medians over rounds, p99 is over all rounds. Sizes are octets of the vector; alltoall: of each block.";

const OVERFLOW: &str = "\
Examples:
  hikyaku bench overflow                                50 ms of computing between two looks
  hikyaku bench overflow --compute 10 --descriptors 64
  hikyaku bench overflow --queues 1,2,8 --format json

Processes joined by memif (shared memory) in the place of a card; it takes neither root nor hugepages. What finds no room \
in the queue is lost, and sent again: that is what is counted. With fewer processors than processes (three), times say more \
about the system's turns than about the poller. The flood is counted in packets, by one thread.";

const TUNE: &str = "\
Examples:
  hikyaku tune                                          about half a minute
  hikyaku tune --format json
  hikyaku tune --wait block --mtu 1500                  for programs that sleep, over Ethernet
  hikyaku tune --sim                                    what packets cost here, for hikyaku sim
  hikyaku tune --sim --mtu 1500                         the same for packets of Ethernet

Sends messages of growing size between two ranks in turns eagerly and by rendezvous, and says from which size on asking \
first is cheaper; fits the time of a message, alpha + octets x beta, and measures gamma, the time to reduce an octet. \
The lines that begin with `export` make these the settings of MPI programs. With --sim the messages are sent once more, \
packet by packet (without segmentation offload), which is what simulated hosts do; what a packet and an octet cost is \
fitted to these times by the simulator itself, whose times stand beside those measured. Costs hold for packets of the \
size measured: `hikyaku sim` has the same option --mtu.";

const INCAST: &str = "\
Examples:
  hikyaku bench incast                                  1, 2, 4 and 8 senders to one receiver
  hikyaku bench incast --senders 16 --sizes 64K
  hikyaku bench incast --np 5                           4 senders

Each sender sends a message, waits for a small reply, and so on; p99 is over those times. With more processes than \
cores they share cores, and the default wait is `adaptive`.";

const DSE: &str = "\
Examples:
  hikyaku bench dse                                     one-way messages and ping-pongs
  hikyaku bench dse --sizes 16,1024 --iterations 2000

The experiments of the DSE paper (docs/papers.md), on today's sockets: its protocol (`dse`), hikyaku's defaults and \
TCP, with wall time and the processor time of each side; and the sockets that 60 processors need.";

const CORE: &str = "\
Two endpoints in one thread, no socket: what the protocol itself costs. One copy puts a datagram \
together, delivery is in place; with a checksum, and with a second copy, are rows of their own. --mtu (default 1500) \
says how large datagrams are; options that concern sockets do nothing here.";

const PEERS: &str = "\
Memory that a peer needs while nothing is in flight, as heap counted by the allocator.";

/// The benchmarks.
#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// One-way time of a message (half of a ping-pong)
    #[command(after_help = LATENCY)]
    Latency(Common),
    /// Figure 11 of the DPDK paper: MPI's messages eagerly and by rendezvous, each at all sizes
    #[command(after_help = FIGURE11)]
    Figure11(Common),
    /// Streaming in one direction
    #[command(after_help = BANDWIDTH)]
    Bandwidth(Common),
    /// Small messages per second
    #[command(after_help = RATE)]
    Rate(Common),
    /// Streaming in both directions at once, between two MPI ranks
    #[command(after_help = PAIRS)]
    Bibw(World),
    /// Writing into the memory of another MPI rank
    #[command(after_help = PAIRS)]
    Put(World),
    /// Reading the memory of another MPI rank
    #[command(after_help = PAIRS)]
    Get(World),
    /// Time of MPI's barrier
    #[command(after_help = COLLECTIVES)]
    Barrier(Collective),
    /// Time of MPI's bcast
    #[command(after_help = COLLECTIVES)]
    Bcast(Collective),
    /// Time of MPI's allreduce (sum of 32-bit floats)
    #[command(after_help = COLLECTIVES)]
    Allreduce(Collective),
    /// Time of MPI's alltoall
    #[command(after_help = COLLECTIVES)]
    Alltoall(Collective),
    /// Many senders, one receiver
    #[command(after_help = INCAST)]
    Incast(Incast),
    /// What is lost while a process computes, with and without a poller (feature dpdk)
    #[command(after_help = OVERFLOW)]
    Overflow(OverflowArgs),
    /// The protocol alone: two endpoints in one thread
    #[command(after_help = CORE)]
    Core(Common),
    /// The experiments of the DSE paper
    #[command(after_help = DSE)]
    Dse(Common),
    /// Memory per idle peer
    #[command(after_help = PEERS)]
    Peers(Peers),
}

/// Options of `tune`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Tune {
    /// Also find a simulated host that is as fast as this one, as options of `hikyaku sim`, and compare
    #[cfg(feature = "sim")]
    #[arg(long)]
    pub sim: bool,
    /// The rest.
    #[command(flatten)]
    pub turns: Turns,
}

/// Options of `bench incast`.
#[derive(Debug, Args)]
pub(crate) struct Incast {
    /// Numbers of senders, one row each [default: 1,2,4,8]
    #[arg(long, value_delimiter = ',', value_name = "LIST", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub senders: Vec<u32>,
    /// The rest.
    #[command(flatten)]
    pub common: Common,
}

/// Options of `bench peers`.
#[derive(Debug, Args)]
pub(crate) struct Peers {
    /// Peers on one endpoint
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=16_000_000))]
    pub peers: u32,
    /// The rest.
    #[command(flatten)]
    pub common: Common,
}

/// What hikyaku is compared with.
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

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Level {
    /// Messages of the transport.
    Transport,
    /// MPI's sends and receives.
    Mpi,
}

/// How results are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table.
    #[default]
    Text,
    /// One JSON object on standard output, nothing else.
    Json,
}

/// Options about what comes out.
#[derive(Clone, Debug, Args)]
pub(crate) struct Output {
    /// How results are printed
    #[arg(long, value_enum, default_value = "text", value_name = "FORMAT")]
    pub format: Format,
    /// Draw the figure into this file
    #[arg(long, value_name = "FILE.svg", value_parser = PathBufValueParser::new().try_map(plot::file))]
    pub plot: Option<PathBuf>,
    /// Say how far it is even if standard error is not a terminal
    #[arg(long)]
    pub progress: bool,
}

/// Options of benchmarks between the ranks of an MPI job.
#[derive(Clone, Debug, Args)]
pub(crate) struct World {
    /// What is measured: only mpi has these operations
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

/// Options of what ranks of an MPI job measure in turns.
#[derive(Clone, Debug, Args)]
pub(crate) struct Turns {
    /// How datagrams travel: udp, or loopback (all ranks are threads of one process)
    #[arg(long, default_value = "udp", value_name = "NAME")]
    pub backend: String,
    /// How ranks wait [default: spin; with more ranks than cores: as in a job of `hikyaku run`]
    #[arg(long, value_enum, value_name = "HOW")]
    pub wait: Option<Wait>,
    /// Sizes in octets, with K (1024) or M (1024 K); each benchmark has defaults of its own
    #[arg(long, value_delimiter = ',', value_parser = size::parse, value_name = "LIST")]
    pub sizes: Vec<usize>,
    /// Operations per round [default: by size]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub iterations: Option<u32>,
    /// Rounds in which all that is compared takes turns [default: 20]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub rounds: Option<u32>,
    /// Octets of an IP packet [default: the interface's own]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(576..=65_536))]
    pub mtu: Option<u32>,
    /// What comes out.
    #[command(flatten)]
    pub output: Output,
}

/// Options of benchmarks of collectives.
#[derive(Clone, Debug, Args)]
pub(crate) struct Collective {
    /// Algorithms that are compared, `auto` for the one that is chosen by cost; see docs/collectives.md
    #[arg(long, value_delimiter = ',', default_value = "auto", value_name = "LIST")]
    pub algorithm: Vec<String>,
    /// The rest.
    #[command(flatten)]
    pub world: World,
}

/// Options that all benchmarks of transports share.
#[derive(Clone, Debug, Args)]
pub(crate) struct Common {
    /// How hikyaku's datagrams travel: udp, loopback (both ends are threads of one process), or dpdk
    #[arg(long, default_value = "udp", value_name = "NAME")]
    pub backend: String,
    /// Device of the backend dpdk: memif, af_packet:iface=NAME, …; `A+B`: of the driver and of the worker
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<String>,
    /// What is measured: transport, mpi (sends and receives of MPI over it), or both
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
    /// Message sizes in octets, with K (1024) or M (1024 K); each benchmark has defaults of its own
    #[arg(long, value_delimiter = ',', value_parser = size::parse, value_name = "LIST")]
    pub sizes: Vec<usize>,
    /// Operations per round and transport: ping-pongs, windows, bursts [default: by size]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub iterations: Option<u32>,
    /// Rounds in which all transports take turns; fewer than 20 are for trying out [default: 20]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub rounds: Option<u32>,
    /// What to compare with
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "tcp,udp",
        value_name = "LIST"
    )]
    pub vs: Vec<Opponent>,
    /// Octets of an IP packet, e.g. 1500 for datagrams of 1472 octets [default: the interface's own]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(576..=65_536))]
    pub mtu: Option<u32>,
    /// Settings of hikyaku's protocol
    #[arg(long, value_enum, default_value = "default", value_name = "PRESET")]
    pub config: Preset,
    /// What comes out.
    #[command(flatten)]
    pub output: Output,
    /// Be the answering host: wait here for one driver. Options of the measurement are the driver's
    #[arg(long, value_name = "ADDR", conflicts_with = "connect")]
    pub listen: Option<String>,
    /// Drive a measurement against a host that runs `--listen`; without a port: 7475
    #[arg(long, value_name = "ADDR")]
    pub connect: Option<String>,
    /// Write what passes through hikyaku's backend to this file
    #[arg(long, value_name = "FILE.pcapng")]
    pub capture: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    /// Help is wrapped at 100 columns: examples fit, and what is prose is not broken before.
    #[test]
    fn help_is_wrapped_once() {
        fn check(command: &clap::Command) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let name = command.get_name();
            let mut before = "";
            for line in help.lines() {
                let is_prose = |line: &str| !line.is_empty() && !line.starts_with("  ") && line != "Examples:";
                assert!(is_prose(line) || line.chars().count() <= 100, "{name}: {line}");
                assert!(!(is_prose(line) && is_prose(before)), "{name}: {line}");
                before = line;
            }
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }

    #[test]
    fn options_of_the_contract() {
        let line = "hikyaku bench latency --backend udp --level transport --np 2 --wait block --sizes 8,2048,64K,1M \
                    --iterations 10 --rounds 3 --vs tcp,udp --mtu 1500 --format json --connect host";
        let cli = Cli::try_parse_from(line.split_whitespace()).unwrap();
        let Command::Bench(bench) = cli.command else {
            panic!("not a benchmark")
        };
        let Bench::Latency(common) = *bench else {
            panic!("not latency")
        };
        assert_eq!(common.sizes, [8, 2048, 65_536, 1 << 20]);
        assert_eq!(common.vs, [Opponent::Tcp, Opponent::Udp]);
        assert_eq!(
            (common.wait, common.mtu, common.output.format),
            (Some(Wait::Block), Some(1500), Format::Json)
        );
    }
}
