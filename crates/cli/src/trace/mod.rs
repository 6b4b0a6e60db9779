//! `hikyaku trace`: what the traces of a job's ranks say, as a timeline or as a table.

mod pairs;
mod summary;
mod timeline;

use std::{
    fs,
    io::{self, Write},
    path::PathBuf,
};

use clap::Args;
use hikyaku_bench::{
    failure::{Failure, While},
    report::Format,
    traces,
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  HIKYAKU_TRACE=traces hikyaku run -n 4 ./prog           each rank writes traces/rank-N.jsonl
  hikyaku trace traces --output timeline.json            open it in ui.perfetto.dev
  hikyaku trace traces --summary                         where the time went, per call
  hikyaku trace traces/rank-0.jsonl --summary            the same for one rank
  hikyaku trace traces --summary --format json           for programs

In the timeline each rank is a process, each call a slice with its arguments, and arrows lead from sends to the receives \
that got their messages (for messages of which both ranks' traces are given). Ranks on different hosts are put side by \
side by the hosts' clocks, so arrows between hosts may seem to go back in time by as much as these differ.

In the summary, bytes are those of the calls' own buffers, `share` is the part of all ranks' run time (from their \
beginning of MPI to their end) that was spent in the call, and the last line is what was spent outside of MPI. \
`docs/tracing.md` describes the files.";

/// Options.
#[derive(Clone, Debug, Args)]
pub(crate) struct TraceArgs {
    /// Traces of ranks of one job, or directories with them
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Write the result to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// A table per call (count, bytes, time, share of the run time) instead of the timeline
    #[arg(long)]
    summary: bool,
    /// How the summary is printed; a timeline is always JSON
    #[arg(
        long,
        value_enum,
        default_value = "text",
        value_name = "FORMAT",
        requires = "summary"
    )]
    format: Format,
}

pub(crate) fn run(args: &TraceArgs) -> Result<(), Failure> {
    let (traces, warnings) = traces::read(&args.paths).map_err(|error| Failure::run(error.to_string()))?;
    for warning in warnings {
        eprintln!("hikyaku: warning: {warning}");
    }
    let text = match (args.summary, args.format) {
        (false, _) => timeline::timeline(&traces).to_string() + "\n",
        (true, Format::Text) => summary::Summary::new(&traces).table(),
        (true, Format::Json) => summary::Summary::new(&traces).json() + "\n",
    };
    match &args.output {
        Some(path) => fs::write(path, text).or_fail(&format!("writing {}", path.display())),
        None => io::stdout().write_all(text.as_bytes()).or_fail("standard output"),
    }
}
