//! Measures speed, side by side with what the kernel offers.
//!
//! A *driver* (this process) holds the answering ends of all transports, one or more *workers* hold the asking ends and
//! the stop-watch; they agree over a control channel. [`rounds`] is the method, one module a benchmark says what is
//! done and printed.

mod bandwidth;
mod baseline;
mod control;
mod core;
mod dse;
mod engine;
mod environment;
mod hikyaku;
mod incast;
mod json;
mod latency;
mod link;
mod listen;
mod mpi;
mod output;
mod peers;
pub(crate) mod pin;
mod plot;
mod rate;
mod rounds;
mod session;
pub(crate) mod settings;
mod setup;
pub(crate) mod size;
mod sockets;
mod stats;
mod streaming;
mod table;
mod worker;

use std::net::TcpStream;

use nix::sys::{prctl, signal::Signal};

use crate::{
    args::{Bench, Common},
    failure::Failure,
};

/// Runs a benchmark, or the answering host of one.
pub(crate) fn run(benchmark: &Bench) -> Result<(), Failure> {
    let common = common(benchmark);
    if let Some(address) = &common.listen {
        return listen::run(address);
    }
    if !matches!(benchmark, Bench::Latency(_)) {
        size::not_empty(&common.sizes)?;
    }
    match benchmark {
        Bench::Latency(common) => latency::run(common),
        Bench::Bandwidth(common) => bandwidth::run(common),
        Bench::Rate(common) => rate::run(common),
        Bench::Incast(incast) => incast::run(incast),
        Bench::Dse(common) => dse::run(common),
        Bench::Core(common) => core::run(common),
        Bench::Peers(peers) => peers::run(peers),
    }
}

const fn common(benchmark: &Bench) -> &Common {
    match benchmark {
        Bench::Latency(common) | Bench::Bandwidth(common) | Bench::Rate(common) => common,
        Bench::Core(common) | Bench::Dse(common) => common,
        Bench::Incast(incast) => &incast.common,
        Bench::Peers(peers) => &peers.common,
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
