//! The `hikyaku` command: benchmarks and tools.

mod allocation;
mod args;
mod bench;
mod clock;
mod failure;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = args::Cli::parse();
    let result = match cli.command {
        args::Command::Bench(benchmark) => bench::run(&benchmark),
        args::Command::BenchWorker { address, key } => bench::work(&address, &key),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("hikyaku: {failure}");
            ExitCode::from(failure.code())
        }
    }
}
