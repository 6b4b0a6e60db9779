//! `hikyaku run`: starts the processes of a job, on this host and on others, and ends them together.
//!
//! The launcher talks to one agent for each host (this command again, over a pipe or over ssh), and the agents to the
//! ranks. Neither has threads: each waits for all that can happen at once.

use hikyaku_bench::failure::Failure;

mod agent;
mod args;
mod frame;
mod hosts;
mod launcher;
mod limits;
mod output;
mod pipes;
mod plan;
mod private;
mod remote;
pub(crate) mod signals;
mod spawn;

pub(crate) use args::{EXAMPLES, RunArgs};
pub(crate) use remote::quoted;

/// Runs the job; gives the exit code.
pub(crate) fn run(args: &RunArgs) -> Result<u8, Failure> {
    if args.agent {
        return agent::run();
    }
    let plan = plan::Plan::new(args)?;
    launcher::run(&plan)
}
