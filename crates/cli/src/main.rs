//! The `hikyaku` command: the launcher and tools; benchmarks and simulations, which are libraries.

mod command;
mod compiler;
mod doctor;
#[cfg(test)]
mod documents;
mod hello;
mod info;
mod manual;
mod memory;
mod names;
mod papers;
mod poller;
mod run;
mod trace;

use std::{env, ffi::OsString, path::Path, process::ExitCode};

use clap::{CommandFactory, Parser};
use hikyaku::{environment::Environment, transport::environment::print_events};
use hikyaku_bench::{failure::Failure, machine::allocation::Counting, tune};

use self::{
    command::{Cli, Command},
    compiler::Language,
    names::NAMES,
};

/// Benchmarks and simulations say how much memory a peer or a rank takes.
#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() -> ExitCode {
    let command = Cli::parse_from(command_line(env::args_os())).command;
    let printed = print_events(&Environment::of_process()).map_err(|error| Failure::usage(error.to_string()));
    match printed.and_then(|()| execute(command)) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            eprintln!("hikyaku: {failure}");
            ExitCode::from(failure.code())
        }
    }
}

/// The arguments by which this program is called. A name of another program stands for a command, and options by which
/// users know those programs for ours.
fn command_line(mut given: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let own = given.next().unwrap_or_default();
    let name = Path::new(&own).file_name().unwrap_or_default();
    let command = NAMES.iter().find(|(known, _)| name == *known);
    let line = command.map_or_else(
        || vec![own.clone()],
        |(_, command)| ["hikyaku", command].map(OsString::from).into(),
    );
    let mut line = [line, given.collect()].concat();
    if let [_, command, option, ..] = &mut line[..] {
        match (command.to_str(), option.to_str()) {
            (Some("run"), Some("-np")) => *option = "-n".into(),
            (Some("cc" | "cxx"), Some("-help")) => *option = "--help".into(),
            _ => {}
        }
    }
    line
}

fn execute(command: Command) -> Result<u8, Failure> {
    match command {
        Command::Bench(args) => hikyaku_bench::run(&args).map(|()| 0),
        Command::Tune(args) => tune::run(&args).map(|()| 0),
        Command::BenchWorker(args) => hikyaku_bench::work(&args).map(|()| 0),
        Command::Cc(args) => compiler::run(Language::C, &args).map(|()| 0),
        Command::Cxx(args) => compiler::run(Language::Cxx, &args).map(|()| 0),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_for_commands() {
        for (given, expected) in [
            ("/opt/bin/hikyaku run -n 2 a", "/opt/bin/hikyaku run -n 2 a"),
            ("/opt/bin/mpicc -c a.c", "hikyaku cc -c a.c"),
            ("mpic++", "hikyaku cxx"),
            ("mpiexec -np 2 a -np", "hikyaku run -n 2 a -np"),
            ("hikyaku run -np 2 a", "hikyaku run -n 2 a"),
            ("hikyaku cc -np", "hikyaku cc -np"),
            ("mpicxx -help", "hikyaku cxx --help"),
            ("mpicc a.c -help", "hikyaku cc a.c -help"),
        ] {
            let line = command_line(given.split(' ').map(OsString::from));
            assert_eq!(line, expected.split(' ').map(OsString::from).collect::<Vec<_>>());
        }
    }
}
