//! The command line as people see it: the commands, each with arguments of its own.

use clap::{Parser, Subcommand};
use hikyaku_bench::{
    BenchArgs, WorkerArgs,
    tune::{self, TuneArgs},
};

use crate::{
    compiler::{self, CompilerArgs},
    doctor::{self, DoctorArgs},
    hello::{self, HelloArgs},
    info::{self, InfoArgs},
    manual::{self, CompletionsArgs, ManArgs},
    papers::{self, PapersArgs},
    poller::{self, PollerArgs},
    run::{self, RunArgs},
    trace::{self, TraceArgs},
};

/// Reliable messages over plain datagrams: benchmarks, a launcher and tools.
#[derive(Debug, Parser)]
#[command(name = "hikyaku", version, about, disable_help_subcommand = true)]
pub(crate) struct Cli {
    /// The command to run.
    #[command(subcommand)]
    pub command: Command,
}

/// The tools.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure speed, side by side with what the kernel offers
    Bench(Box<BenchArgs>),
    /// Measure this machine: find the settings of MPI that suit it
    #[command(after_help = tune::EXAMPLES)]
    Tune(TuneArgs),
    /// Start the processes of a job, here or on several hosts
    #[command(after_help = run::EXAMPLES)]
    Run(Box<RunArgs>),
    /// Compile C for the C library: the machine's compiler, with the header and the library of MPI
    #[command(after_help = compiler::EXAMPLES_OF_C)]
    Cc(CompilerArgs),
    /// Compile C++ for the C library
    #[command(after_help = compiler::EXAMPLES_OF_CXX)]
    Cxx(CompilerArgs),
    /// Try out a launcher: print this process's rank, and where the others are
    #[command(after_help = hello::EXAMPLES)]
    Hello(HelloArgs),
    /// Own a port of DPDK and run the protocol for the processes of this host
    #[command(after_help = poller::EXAMPLES)]
    Poller(PollerArgs),
    /// Simulate thousands of ranks in virtual time
    #[cfg(feature = "sim")]
    Sim(hikyaku_papers::SimArgs),
    /// List every part of the papers that this project implements, with both figures, and run their commands
    #[command(after_help = papers::EXAMPLES)]
    Papers(PapersArgs),
    /// Show the calls of ranks from their traces: a timeline, or the time per call
    #[command(after_help = trace::EXAMPLES)]
    Trace(TraceArgs),
    /// Show what this machine offers, and how to get the rest
    #[command(after_help = doctor::EXAMPLES)]
    Doctor(DoctorArgs),
    /// List every setting with its value and its source, and the features of this build
    #[command(after_help = info::EXAMPLES)]
    Info(InfoArgs),
    /// Print a script that lets a shell complete this command's options
    #[command(after_help = manual::COMPLETIONS)]
    Completions(CompletionsArgs),
    /// Print this command's manual page, or write those of all commands into a directory
    #[command(after_help = manual::MAN)]
    Man(ManArgs),
    /// The other end of a benchmark; started by `bench`, not by people
    #[command(hide = true)]
    BenchWorker(WorkerArgs),
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
}
