//! The options of `hikyaku run`.

use std::path::PathBuf;

use clap::{Args, Parser, ValueEnum, ValueHint};

use super::hosts::Binding;

pub(crate) const EXAMPLES: &str = "\
Examples:
  hikyaku run -n 4 ./prog arg                    four processes here, each on its core
  hikyaku run -n 4 -l ./prog                     lines of output say which rank they are from
  hikyaku run --host a:2,b:2 ./prog              four on two hosts, by ssh
  hikyaku run -n 8 --hostfile hosts ./prog       hosts from a file: `name slots=2` in each line
  hikyaku run -n 1 ./server : -n 3 ./worker      two programs in one job: rank 0 and ranks 1 to 3
  hikyaku run -n 2 --env HIKYAKU_IFACE=eth1 ./p  a setting for all ranks
  hikyaku run --backend dpdk --device memif -n 2 ./p   without the kernel: docs/dpdk.md
  HIKYAKU_POLLER=/tmp/p hikyaku run --backend poller -n 2 ./p   see `hikyaku poller`
  hikyaku run -n 64 --bind-to none ./prog        more ranks than cores: let them share
  hikyaku run -n 8 --on-failure continue ./prog  a rank that dies does not end the others

Ranks are processes; any program can be one. Those that use hikyaku find each other through this command: `docs/launchers.md`. \
The job ends when a rank fails: with the exit code of the first that did (128 + N if signal N killed it), and a line that \
says which one and why. With --on-failure continue, once all have met at start-up, the others go on and learn at once \
which rank is gone; the last line names all that have failed, and the exit code is that of the first. Ctrl-C ends all \
ranks, a second Ctrl-C kills them. Neither leaves a process behind. \
HIKYAKU_* variables of this command are passed to ranks on all hosts, others only to those on this host.";

/// The fate of a job when a rank fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnFailure {
    /// It ends.
    #[default]
    End,
    /// It goes on: calls that need the rank fail (`MPI_ERR_PROC_FAILED`).
    Continue,
}

/// Options of the job.
#[derive(Clone, Debug, Args)]
pub(crate) struct RunArgs {
    /// Number of processes [default: one for each slot]
    #[arg(short = 'n', long = "np", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(super) n: Option<u32>,
    /// Hosts with their numbers of slots: a:2,b [default: this one, a slot for each core]
    #[arg(long, value_name = "LIST", conflicts_with = "hostfile")]
    pub(super) host: Option<String>,
    /// File with a host in each line: `name slots=2` or `name:2`; # begins a comment
    #[arg(long, value_name = "FILE")]
    pub(super) hostfile: Option<PathBuf>,
    /// How datagrams travel: HIKYAKU_BACKEND for all ranks
    #[arg(long, value_name = "NAME")]
    pub(super) backend: Option<String>,
    /// Devices of the backend dpdk: memif (two ranks), or one for each rank in the order of ranks: A+B+…; needs
    /// --backend dpdk, or HIKYAKU_POLLER_BULK=dpdk
    #[arg(long, value_name = "DEVICES")]
    pub(super) device: Option<String>,
    /// Where ranks may run: each on a core of its own, or anywhere [default: core, if there are enough]
    #[arg(long, value_enum, value_name = "WHERE")]
    pub(super) bind_to: Option<Binding>,
    /// Say on which core each rank runs
    #[arg(long)]
    pub(super) report_bindings: bool,
    /// When a rank fails: end the job, or tell the others and go on with them
    #[arg(long, value_enum, value_name = "WHAT", default_value_t)]
    pub(super) on_failure: OnFailure,
    /// Begin each line of output with its rank
    #[arg(short = 'l', long)]
    pub(super) tag_output: bool,
    /// End the job after so many seconds, with exit code 124
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub(super) timeout: Option<f64>,
    /// How long to wait for hosts, and for ranks that others wait for at start-up
    #[arg(long, value_name = "S", value_parser = seconds, default_value = "60")]
    pub(super) startup_timeout: f64,
    /// Set a variable for the ranks, or pass one on to other hosts; may be repeated
    #[arg(long, value_name = "K[=V]", value_parser = variable)]
    pub(super) env: Vec<(String, String)>,
    /// Directory in which ranks start [default: this one]
    #[arg(long, value_name = "DIR")]
    pub(super) wdir: Option<PathBuf>,
    /// The command that reaches other hosts; its arguments are a host and a command line for the shell there
    #[arg(
        long,
        value_name = "CMD",
        default_value = "ssh -o BatchMode=yes -o ConnectTimeout=15"
    )]
    pub(super) ssh: String,
    /// Where this program is on other hosts [default: at the same path as here]
    #[arg(long, value_name = "PATH")]
    pub(super) remote_path: Option<String>,
    /// Be the agent on a host of ranks; started by `run`, not by people
    #[arg(long, hide = true)]
    pub(super) agent: bool,
    /// The program and its arguments; `:` begins another program, with its own -n and --env
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required_unless_present = "agent",
        value_name = "PROGRAM",
        value_hint = ValueHint::CommandWithArguments
    )]
    pub(super) command: Vec<String>,
}

/// The text that may follow a `:`.
#[derive(Debug, Parser)]
#[command(name = "hikyaku run … :", no_binary_name = true, disable_help_flag = true)]
pub(super) struct AppArgs {
    /// Number of processes
    #[arg(short = 'n', long = "np", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(super) n: u32,
    /// Set a variable for the ranks of this program
    #[arg(long, value_name = "K[=V]", value_parser = variable)]
    pub(super) env: Vec<(String, String)>,
    /// The program and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    pub(super) command: Vec<String>,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 1e6 => Ok(seconds),
        _ => Err("a number of seconds above 0 and up to 1000000".into()),
    }
}

fn variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, value.to_owned()),
        None => {
            let value = std::env::var(text).map_err(|_| format!("{text} is not set here; say {text}=value"))?;
            (text, value)
        }
    };
    if name.is_empty() {
        return Err("a variable needs a name".into());
    }
    Ok((name.to_owned(), value))
}
