//! Measures speed, side by side with what the kernel offers.
//!
//! A *driver* (this process) holds the answering ends of all transports, one or more *workers* hold the asking ends and
//! the stop-watch; they agree over a control channel. [`rounds`] is the method, one module a benchmark says what is
//! done and printed.

mod bandwidth;
mod baseline;
mod collective;
mod control;
mod core;
mod device;
mod dse;
mod engine;
pub(crate) mod environment;
mod hikyaku;
mod incast;
pub(crate) mod json;
mod latency;
mod link;
mod listen;
mod mpi;
pub(crate) mod output;
pub(crate) mod overflow;
mod pair;
mod peers;
pub(crate) mod pin;
pub(crate) mod plot;
pub(crate) mod progress;
mod ranks;
mod rate;
mod rounds;
mod session;
pub(crate) mod settings;
mod setup;
#[cfg(feature = "sim")]
mod simulated;
pub(crate) mod size;
mod sockets;
pub(crate) mod stats;
mod streaming;
pub(crate) mod table;
mod tune;
mod work;
mod worker;
mod world;

use std::net::TcpStream;

use nix::sys::{prctl, signal::Signal};

pub(crate) use self::output::publish;

use self::work::Task;
use crate::{
    args::{self, Bench, Common},
    failure::Failure,
};

/// Runs a benchmark, or the answering host of one.
pub(crate) fn run(benchmark: &Bench) -> Result<(), Failure> {
    if let Some(common) = common(benchmark) {
        if let Some(address) = &common.listen {
            return listen::run(address);
        }
        if !matches!(benchmark, Bench::Latency(_)) {
            size::not_empty(&common.sizes)?;
        }
    }
    match benchmark {
        Bench::Latency(common) => latency::run(common),
        Bench::Figure11(common) => latency::figure11(common),
        Bench::Bandwidth(common) => bandwidth::run(common),
        Bench::Rate(common) => rate::run(common),
        Bench::Incast(incast) => incast::run(incast),
        Bench::Dse(common) => dse::run(common),
        Bench::Core(common) => core::run(common),
        Bench::Overflow(overflow) => overflow::run(overflow),
        Bench::Peers(peers) => peers::run(peers),
        Bench::Bibw(world) => pair::run(world, pair::Pair::Bibw),
        Bench::Put(world) => pair::run(world, pair::Pair::Put),
        Bench::Get(world) => pair::run(world, pair::Pair::Get),
        Bench::Barrier(options) => collective::run(options, Task::Barrier),
        Bench::Bcast(options) => collective::run(options, Task::Bcast),
        Bench::Allreduce(options) => collective::run(options, Task::Allreduce),
        Bench::Alltoall(options) => collective::run(options, Task::Alltoall),
    }
}

/// Finds settings that suit this machine.
pub(crate) fn tune(options: &args::Tune) -> Result<(), Failure> {
    tune::run(options)
}

/// The options of those that measure transports.
const fn common(benchmark: &Bench) -> Option<&Common> {
    match benchmark {
        Bench::Latency(common) | Bench::Figure11(common) | Bench::Bandwidth(common) | Bench::Rate(common) => {
            Some(common)
        }
        Bench::Core(common) | Bench::Dse(common) => Some(common),
        Bench::Incast(incast) => Some(&incast.common),
        Bench::Peers(peers) => Some(&peers.common),
        _ => None,
    }
}

/// The worker process that a driver has started.
pub(crate) fn work(address: &str, key: &str) -> Result<(), Failure> {
    // The kernel sends this process away when its driver goes, however the driver goes.
    let _ = prctl::set_pdeathsig(Signal::SIGKILL);
    let stream = TcpStream::connect(address)
        .map_err(|error| Failure::usage(format!("bench-worker: can not reach a driver at {address}: {error}")))?;
    worker::run(stream, key).map_err(|failure| match failure {
        // The driver says what happened; twice is once too often.
        Failure::Run(_) => Failure::run("the worker ends: its driver has gone"),
        other => other,
    })
}
