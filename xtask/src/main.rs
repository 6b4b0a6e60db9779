//! Build, test and measurement chores of hikyaku: `cargo xtask help`.
//!
//! A chore is a list of steps, each of which is a command that a person could type as well: what is printed for a
//! failure is the command that repeats it. No dependencies, so that `cargo xtask` starts in a second.

mod attack;
mod bench_dpdk;
mod bench_mpi;
mod callgrind;
mod check;
mod ci;
mod fuzz;
mod goodput;
mod guest;
mod install;
mod lines;
mod no_std;
mod packages;
mod setup;
mod shell;
mod soak;
mod steps;
mod suites;
mod toolchains;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask <chore>

  setup                     install what `ci` needs: Debian packages (as root), cargo-deny, cargo-fuzz, toolchains
  check                     format, clippy over the feature matrix, docs, no_std, dependencies' licences
  ci [--long]               check, then every test that is too long, or needs root or a tool, for `cargo test`; with
                            --long, instruction counts, too
  netns                     tests between two network namespaces (root)
  attack [--short] [--only TEXT]
                            an attacker who has seen no packet against an honest pair, on real sockets in a network
                            namespace (root; about 10 minutes, or one with --short)
  dpdk [bindings|devices|ranks|benchmarks]
                            what needs DPDK, over its virtual devices (some of it needs root), or a part of it
  rules                     the test of rte_flow's rules in a virtual machine whose kernel can make them
  launchers                 tests under MPICH's, Open MPI's and Slurm's launchers
  fuzz [TARGET [SECONDS]]   every fuzz target, or one, over its corpus and then for SECONDS (20)
  callgrind [--bless]       instruction counts of benches/instructions.rs against benches/instructions.toml
  veth-goodput [--format json]
                            goodput between two namespaces, with 1 % loss against without (root)
  bench-mpi [--format text|json|markdown] [--docs] [--turns N] [--only OPERATION]
            [--within-host | --libraries pair|types|collectives|network|python|life]
                            MPI's operations in turns with Open MPI and mpi-rs over kernel TCP (about 3 minutes);
                            --libraries: the C libraries, part by part; --docs writes the tables into docs/measured
  bench-dpdk [--latency] [--ranks 2|4] [--format text|json|markdown] [--turns N] [--device DEVICE]
                            programs that compute and communicate, over DPDK, kernel UDP, and Open MPI's TCP
  install --prefix DIR      the command, the C libraries, header, compilers' wrappers, manual pages and completions
  mpi-suites [--dev] [NAME…]
                            programs of others over the C libraries and over MPICH's wheel: sources from Debian and
                            PyPI, built, run, and their results compared; all, or those named. With --dev, our
                            libraries are built as tests have them
  soak [--minutes N] [--seed S]
                            whole simulated jobs, and the protocol alone, with fresh seeds (from S on) until one
                            fails or N minutes (10) are over
  mpi4py [--dev] [--ranks N,N] [mpich|abi|control]...
                            mpi4py's own tests over our libraries and over MPICH's wheel (from PyPI; half an hour)
  model                     every state of two endpoints within larger bounds than `cargo test` has (15 minutes)
  msrv                      compile everything with the oldest Rust that is promised
  loom                      rings and wake-ups in every order of threads, and mistakes that must be found
  miri                      unit tests of `unsafe` code and rings under miri
  lines                     lines of code per room, without tests and comments
  packages                  make the packages that are to be published, build them from each other, and document them
                            as docs.rs does (nightly)
  no-std                    prove that the core builds without std
  help                      this

What a step lacks (root, a tool, a file) is said in one line, and the step is skipped.";

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let chore = args.next().unwrap_or_else(|| "help".to_owned());
    let args: Vec<String> = args.collect();
    let mut steps = steps::Steps::default();
    let outcome = match (chore.as_str(), args.as_slice()) {
        ("setup", []) => setup::run(&mut steps),
        ("check", []) => check::run(&mut steps),
        ("ci", []) => ci::run(&mut steps, false),
        ("ci", [flag]) if flag == "--long" => ci::run(&mut steps, true),
        ("netns", []) => ci::netns(&mut steps),
        ("attack", _) => attack::run(&args),
        ("launchers", []) => ci::launchers(&mut steps),
        ("dpdk", []) => ci::dpdk(&mut steps, None),
        ("dpdk", [part]) if ci::is_part_of_dpdk(part) => ci::dpdk(&mut steps, Some(part)),
        ("rules", []) => guest::rules(&mut steps),
        ("fuzz", [] | [_] | [_, _]) => fuzz::run(&mut steps, &args),
        ("callgrind", []) => callgrind::run(&mut steps, false),
        ("callgrind", [flag]) if flag == "--bless" => callgrind::run(&mut steps, true),
        ("soak", _) => soak::run(&args),
        ("model", []) => ci::model(&mut steps),
        ("veth-goodput", _) => goodput::run(&args),
        ("bench-dpdk", _) => bench_dpdk::run(&args),
        ("bench-mpi", _) => bench_mpi::run(&args),
        ("mpi4py", _) => suites::mpi4py::run(&args),
        ("install", _) => install::run(&args),
        ("mpi-suites", _) => suites::run(&args),
        ("msrv", []) => toolchains::msrv(&mut steps),
        ("loom", []) => toolchains::loom(&mut steps),
        ("miri", []) => toolchains::miri(&mut steps),
        ("lines", []) => lines::run(),
        ("packages", []) => packages::run(&mut steps),
        ("no-std", []) => no_std::run(&mut steps),
        ("help" | "--help" | "-h", []) => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("{HELP}");
            return ExitCode::from(2);
        }
    };
    steps.print_summary();
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("\nfailed: {failure}");
            ExitCode::FAILURE
        }
    }
}
