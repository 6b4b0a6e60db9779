//! The experiments of `hikyaku sim`: those of the four papers that hikyaku implements, with thousands of simulated ranks in
//! virtual time, and recorded jobs once more on another network. `docs/papers.md` names the papers,
//! `docs/measured/simulation.md` shows what comes out.
//!
//! | room | holds |
//! |---|---|
//! | `experiments` | what is simulated: one module a paper, and those of our own (`scale`, `incast`) |
//! | `replay` | traces (`hikyaku_bench::traces`) as programs, and an engine that runs them |
//! | [`programs`] | programs that compute as well as talk; they run as real ranks, too (examples of `hikyaku-mpi`) |
//!
//! Without the feature `sim` there are the programs only, which need MPI and nothing else.

#[cfg(feature = "sim")]
mod command;
#[cfg(feature = "sim")]
mod experiments;
#[cfg(feature = "sim")]
mod options;
pub mod programs;
#[cfg(feature = "sim")]
mod ranks;
#[cfg(feature = "sim")]
mod replay;

#[cfg(feature = "sim")]
pub use self::command::{SimArgs, run};
