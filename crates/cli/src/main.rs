//! The `hikyaku` command: the launcher and tools; benchmarks and simulations, which are libraries.

mod command;
mod doctor;
#[cfg(test)]
mod documents;
mod hello;
mod info;
mod manual;
mod memory;
mod papers;
mod poller;
mod run;
mod trace;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use hikyaku::{environment::Environment, transport::environment::print_events};
use hikyaku_bench::{failure::Failure, machine::allocation::Counting, tune};

use self::command::{Cli, Command};

/// Benchmarks and simulations say how much memory a peer or a rank takes.
#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() -> ExitCode {
    let command = Cli::parse().command;
    let printed = print_events(&Environment::of_process()).map_err(|error| Failure::usage(error.to_string()));
    match printed.and_then(|()| execute(command)) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            eprintln!("hikyaku: {failure}");
            ExitCode::from(failure.code())
        }
    }
}

fn execute(command: Command) -> Result<u8, Failure> {
    match command {
        Command::Bench(args) => hikyaku_bench::run(&args).map(|()| 0),
        Command::Tune(args) => tune::run(&args).map(|()| 0),
        Command::BenchWorker(args) => hikyaku_bench::work(&args).map(|()| 0),
        Command::Completions(args) => manual::completions(&args, &Cli::command()).map(|()| 0),
        Command::Doctor(args) => doctor::run(&args).map(|()| 0),
        Command::Hello(args) => hello::run(&args).map(|()| 0),
        Command::Info(args) => info::run(&args).map(|()| 0),
        Command::Man(args) => manual::man(&args, &Cli::command()).map(|()| 0),
        Command::Papers(args) => papers::run(&args).map(|()| 0),
        Command::Poller(args) => poller::run(&args).map(|()| 0),
        Command::Run(args) => run::run(&args),
        #[cfg(feature = "sim")]
        Command::Sim(args) => hikyaku_papers::run(&args).map(|()| 0),
        Command::Trace(args) => trace::run(&args).map(|()| 0),
    }
}
