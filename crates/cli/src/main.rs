//! The `hikyaku` command: benchmarks, the launcher and tools.

mod allocation;
mod args;
mod bench;
mod clock;
mod doctor;
mod failure;
mod hello;
mod manual;
mod poller;
mod run;
#[cfg(feature = "sim")]
mod sim;
mod trace;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = args::Cli::parse();
    let result = match cli.command {
        args::Command::Bench(benchmark) => bench::run(&benchmark).map(|()| 0),
        args::Command::Tune(options) => bench::tune(&options).map(|()| 0),
        args::Command::BenchWorker { address, key } => bench::work(&address, &key).map(|()| 0),
        args::Command::Completions(args) => manual::completions(&args).map(|()| 0),
        args::Command::Doctor(args) => doctor::run(&args).map(|()| 0),
        args::Command::Hello(args) => hello::run(&args).map(|()| 0),
        args::Command::Man(args) => manual::man(&args).map(|()| 0),
        args::Command::Poller(args) => poller::run(&args).map(|()| 0),
        args::Command::Run(args) => run::run(&args),
        #[cfg(feature = "sim")]
        args::Command::Sim(experiment) => sim::run(&experiment).map(|()| 0),
        args::Command::Trace(args) => trace::run(&args).map(|()| 0),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            eprintln!("hikyaku: {failure}");
            ExitCode::from(failure.code())
        }
    }
}
