//! `hikyaku bench`: which benchmark is asked for, and `hikyaku bench-worker`, which it starts.

use std::net::TcpStream;

use clap::{Args, Subcommand};
use nix::sys::{prctl, signal::Signal};

#[cfg(feature = "sim")]
use crate::benchmarks::meshes;
use crate::{
    benchmarks::{
        bandwidth, cache_line,
        collective::{self, CollectiveArgs},
        connect_ahead, copy, core,
        dse::{self, DseArgs},
        figure11,
        idle_peers::{self, PeersArgs},
        incast::{self, IncastArgs},
        latency,
        overflow::{self, OverflowArgs},
        pairs, rails, rate, within_host,
    },
    failure::Failure,
    harness::{listen, worker},
    machine::interrupt,
    options::{Common, World},
    ranks::{
        work::Task,
        world::{Ranks, number},
    },
    report::{Output, size},
};

/// Arguments of `hikyaku bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    benchmark: Bench,
}

/// Arguments of the process that a benchmark starts as its other end.
#[derive(Debug, Args)]
pub struct WorkerArgs {
    /// Control socket of the driver.
    address: String,
    /// The command for it.
    key: String,
}

/// The benchmarks.
#[derive(Debug, Subcommand)]
enum Bench {
    /// One-way time of a message (half of a ping-pong)
    #[command(after_help = latency::EXAMPLES)]
    Latency(Common),
    /// Figure 11 of the DPDK paper: MPI's messages eagerly and by rendezvous, over DPDK, UDP and TCP
    #[command(after_help = figure11::EXAMPLES)]
    Figure11(Common),
    /// Streaming in one direction
    #[command(after_help = bandwidth::EXAMPLES)]
    Bandwidth(Common),
    /// Small messages per second
    #[command(after_help = rate::EXAMPLES)]
    Rate(Common),
    /// Streaming in both directions at once, between two MPI ranks
    #[command(after_help = pairs::EXAMPLES)]
    Bibw(World),
    /// Writing into the memory of another MPI rank
    #[command(after_help = pairs::EXAMPLES)]
    Put(World),
    /// Reading the memory of another MPI rank
    #[command(after_help = pairs::EXAMPLES)]
    Get(World),
    /// Time of MPI's barrier
    #[command(after_help = collective::EXAMPLES)]
    Barrier(CollectiveArgs),
    /// Time of MPI's bcast
    #[command(after_help = collective::EXAMPLES)]
    Bcast(CollectiveArgs),
    /// Time of MPI's allreduce (sum of 32-bit floats)
    #[command(after_help = collective::EXAMPLES)]
    Allreduce(CollectiveArgs),
    /// Time of MPI's alltoall
    #[command(after_help = collective::EXAMPLES)]
    Alltoall(CollectiveArgs),
    /// The first alltoall of fresh ranks, with sessions opened as needed and ahead
    #[command(after_help = connect_ahead::EXAMPLES)]
    ConnectAhead(World),
    /// Many senders, one receiver
    #[command(after_help = incast::EXAMPLES)]
    Incast(IncastArgs),
    /// Packets that are lost while a process computes, with and without a poller (feature dpdk)
    #[command(after_help = overflow::EXAMPLES)]
    Overflow(OverflowArgs),
    /// The protocol alone: two endpoints in one thread
    #[command(after_help = core::EXAMPLES)]
    Core(Common),
    /// The experiments of the DSE paper
    #[command(after_help = dse::EXAMPLES)]
    Dse(DseArgs),
    /// The programs of the DSE paper in network namespaces: its protocol, and TCP over meshes with relays
    #[cfg(feature = "sim")]
    #[command(after_help = meshes::EXAMPLES)]
    Meshes(meshes::Meshes),
    /// Several Ethernets as one, in network namespaces: bare UDP on all of them, the transport, MPI
    #[command(after_help = rails::EXAMPLES)]
    Rails(rails::Rails),
    /// Time of a cache line between two cores
    #[command(after_help = cache_line::EXAMPLES)]
    CacheLine(Output),
    /// Time of a copied byte
    #[command(after_help = copy::EXAMPLES)]
    Copy(Output),
    /// Memory per idle peer
    #[command(after_help = idle_peers::EXAMPLES)]
    Peers(PeersArgs),
}

/// Runs a benchmark, or the answering host of one.
pub fn run(args: &BenchArgs) -> Result<(), Failure> {
    let benchmark = &args.benchmark;
    if let Some(common) = common(benchmark) {
        if let Some(address) = &common.listen {
            return listen::run(address);
        }
        if !matches!(benchmark, Bench::Latency(_)) {
            size::not_empty(&common.sizes)?;
        }
    }
    #[cfg(feature = "sim")]
    if let Bench::Meshes(options) = benchmark
        && options.is_node()
    {
        return meshes::run(options);
    }
    if let Bench::Rails(options) = benchmark
        && options.is_node()
    {
        return rails::run(options);
    }
    if let Some(output) = without_figure(benchmark) {
        output.refuse_plot()?;
    }
    // The others have one row, and nothing to keep.
    if !matches!(benchmark, Bench::Overflow(_) | Bench::Peers(_)) {
        interrupt::note();
    }
    if let Some(outcome) = within_host(benchmark) {
        return outcome;
    }
    match benchmark {
        Bench::Latency(common) => latency::run(common),
        Bench::Figure11(common) => figure11::run(common),
        Bench::Bandwidth(common) => bandwidth::run(common),
        Bench::Rate(common) => rate::run(common),
        Bench::ConnectAhead(world) => connect_ahead::run(world),
        Bench::Incast(incast) => incast::run(incast),
        Bench::Dse(dse) => dse::run(dse),
        Bench::Core(common) => core::run(common),
        #[cfg(feature = "sim")]
        Bench::Meshes(options) => meshes::run(options),
        Bench::Rails(options) => rails::run(options),
        Bench::CacheLine(output) => cache_line::run(output),
        Bench::Copy(output) => copy::run(output),
        Bench::Overflow(overflow) => overflow::run(overflow),
        Bench::Peers(peers) => idle_peers::run(peers),
        Bench::Bibw(world) => pairs::run(world, pairs::Pair::Bibw),
        Bench::Put(world) => pairs::run(world, pairs::Pair::Put),
        Bench::Get(world) => pairs::run(world, pairs::Pair::Get),
        Bench::Barrier(options) => collective::run(options, Task::Barrier),
        Bench::Bcast(options) => collective::run(options, Task::Bcast),
        Bench::Allreduce(options) => collective::run(options, Task::Allreduce),
        Bench::Alltoall(options) => collective::run(options, Task::Alltoall),
    }
}

/// Runs what is asked for between processes of one host, through memory.
fn within_host(benchmark: &Bench) -> Option<Result<(), Failure>> {
    use within_host::Benchmark as Within;

    let of_pair =
        |common: &Common, what| within_host::is_asked(&common.backend).then(|| within_host::of_pair(common, what));
    let of_job = |world: &World, ranks, what| {
        within_host::is_asked(&world.turns.backend).then(|| {
            let np = number(world, ranks)?;
            within_host::run(&world.turns, &[world.level], np, what)
        })
    };
    let of_ranks = |options: &CollectiveArgs, task| match &options.algorithm[..] {
        [one] if one == collective::AUTO => of_job(&options.world, Ranks::Default(2), Within::Collective(task)),
        _ if !within_host::is_asked(&options.world.turns.backend) => None,
        _ => Some(Err(Failure::usage("--algorithm: not with --backend shm"))),
    };
    match benchmark {
        Bench::Latency(common) => of_pair(common, Within::Latency),
        Bench::Bandwidth(common) => of_pair(common, Within::Bandwidth),
        Bench::Rate(common) => of_pair(common, Within::Rate),
        Bench::Put(world) => of_job(world, Ranks::Exactly(2), Within::Put),
        Bench::Get(world) => of_job(world, Ranks::Exactly(2), Within::Get),
        Bench::Barrier(options) => of_ranks(options, Task::Barrier),
        Bench::Bcast(options) => of_ranks(options, Task::Bcast),
        Bench::Allreduce(options) => of_ranks(options, Task::Allreduce),
        Bench::Alltoall(options) => of_ranks(options, Task::Alltoall),
        _ => None,
    }
}

/// The output of those that have no figure. (Options of `rails` exclude each other.)
const fn without_figure(benchmark: &Bench) -> Option<&Output> {
    match benchmark {
        Bench::ConnectAhead(world) => Some(&world.turns.output),
        Bench::Overflow(overflow) => Some(&overflow.output),
        Bench::Dse(dse) => Some(&dse.common.output),
        #[cfg(feature = "sim")]
        Bench::Meshes(options) => Some(&options.output),
        Bench::CacheLine(output) | Bench::Copy(output) => Some(output),
        Bench::Peers(peers) => Some(&peers.common.output),
        _ => None,
    }
}

/// The options of those that measure transports.
const fn common(benchmark: &Bench) -> Option<&Common> {
    match benchmark {
        Bench::Latency(common) | Bench::Figure11(common) | Bench::Bandwidth(common) | Bench::Rate(common) => {
            Some(common)
        }
        Bench::Core(common) => Some(common),
        Bench::Dse(dse) => Some(&dse.common),
        Bench::Incast(incast) => Some(&incast.common),
        Bench::Peers(peers) => Some(&peers.common),
        _ => None,
    }
}

/// The worker process that a driver has started.
pub fn work(args: &WorkerArgs) -> Result<(), Failure> {
    let WorkerArgs { address, key } = args;
    // Ctrl-C at a terminal is for the driver, which prints what this process has measured.
    interrupt::block();
    // The kernel sends this process away when its driver goes, however the driver goes.
    let _ = prctl::set_pdeathsig(Signal::SIGKILL);
    let stream = TcpStream::connect(address)
        .map_err(|error| Failure::usage(format!("bench-worker: cannot reach a driver at {address}: {error}")))?;
    worker::run(stream, key).map_err(|failure| match failure {
        // The driver says what happened; twice is once too often.
        Failure::Run(_) => Failure::run("the worker ends: its driver has gone"),
        other => other,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use clap::FromArgMatches;

    use super::*;
    use crate::{options::Opponent, report::Format, transports::settings::Wait};

    /// The options of `bench latency` in such a line.
    pub(crate) fn latency(line: &str) -> Common {
        let command = BenchArgs::augment_args(clap::Command::new("bench"));
        let matches = command.try_get_matches_from(["bench", "latency"].into_iter().chain(line.split_whitespace()));
        match BenchArgs::from_arg_matches(&matches.unwrap()).unwrap().benchmark {
            Bench::Latency(common) => common,
            other => panic!("not latency: {other:?}"),
        }
    }

    #[test]
    fn options_of_the_contract() {
        let common = latency(
            "--backend udp --level transport --np 2 --wait block --sizes 8,2048,64K,1M --iterations 10 --rounds 3 \
             --vs tcp,udp --mtu 1500 --format json --connect host",
        );
        assert_eq!(common.sizes, [8, 2048, 65_536, 1 << 20]);
        assert_eq!(common.vs, [Opponent::Tcp, Opponent::Udp]);
        assert_eq!(
            (common.wait, common.mtu, common.output.format),
            (Some(Wait::Block), Some(1500), Format::Json)
        );
    }
}
