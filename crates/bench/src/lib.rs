//! The benchmarks of `hikyaku bench` and `hikyaku tune`, the transports that they compare hikyaku with, and how results are
//! shown.
//!
//! This is a part of the command line, in a crate of its own because what it compares with (QUIC, KCP, memif) and what
//! draws its figures are dependencies of this crate alone. Commands own their arguments: [`BenchArgs`] goes to [`run`],
//! [`TuneArgs`](tune::TuneArgs) to [`tune::run`].
//!
//! | room | holds |
//! |---|---|
//! | `benchmarks` | what is measured, a module for each |
//! | `harness` | how: a driver and its workers, a control channel between them, rounds in which all take turns |
//! | `transports` | what is compared: hikyaku, its MPI and the others, each as a hub and spokes |
//! | `ranks` | jobs of MPI ranks as what is measured |
//! | [`tune`] | settings, and simulated hosts, that suit this machine |
//! | [`machine`] | clocks, CPUs, memory in use, and the description of where a measurement was made |
//! | [`report`] | tables, JSON, figures, progress; medians and percentiles |
//! | [`traces`] | what ranks have recorded of their calls, read back |

mod benchmarks;
mod command;
pub mod failure;
mod harness;
pub mod machine;
mod options;
mod ranks;
pub mod report;
pub mod traces;
mod transports;
pub mod tune;

pub use self::command::{BenchArgs, WorkerArgs, run, work};
