//! Options and results.

use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::{
    failure::Failure,
    report::{Group, Output, Table, emit},
};

/// The end of `--help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  hikyaku bench overflow                                50 ms of computing between two looks
  hikyaku bench overflow --compute 10 --descriptors 64
  hikyaku bench overflow --queues 1,2,4,8 --format json

Processes joined by memif (shared memory) in the place of a card; it takes neither root nor hugepages. What finds no room \
in the queue is lost, and sent again: that is what is counted. Second table: behind one poller are eight processes, which \
send to one process behind another poller, all at once at the end of each computation; two neighbours call each other. The \
receiving poller is stopped (SIGSTOP) for the time of a computation, and runs for as long. With fewer cores than processes, times say more about the system's turns than about the poller.";

/// Options of `bench overflow`.
#[derive(Clone, Debug, Args)]
pub(crate) struct OverflowArgs {
    /// Time that the receiver computes between two looks, or that its poller does not run, ms
    #[arg(long, default_value_t = 50, value_name = "MS", value_parser = clap::value_parser!(u64).range(0..=1_000))]
    pub(super) compute: u64,
    /// Time that is sent for, s
    #[arg(long, default_value_t = 4, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=60))]
    pub(super) seconds: u64,
    /// Bytes of a message; each goes in a packet of its own
    #[arg(long, default_value_t = 2_048, value_name = "N", value_parser = clap::value_parser!(u32).range(8..=8_000))]
    pub(super) size: u32,
    /// Messages a second: what comes in a computation is to be more than a queue holds, and less than a poller can take
    #[arg(long, default_value_t = 15_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(super) rate: u32,
    /// Packets that wait in a queue of the port
    #[arg(long, default_value_t = 128, value_name = "N", value_parser = clap::value_parser!(u16).range(64..=16_384))]
    pub(super) descriptors: u16,
    /// Queues of the pollers' ports
    #[arg(long, default_value = "1,8", value_delimiter = ',', value_name = "LIST",
          value_parser = clap::value_parser!(u16).range(1..=16))]
    pub(super) queues: Vec<u16>,
    /// The output.
    #[command(flatten)]
    pub(crate) output: Output,
    /// The part that a process started by this benchmark plays
    #[arg(long, hide = true, value_enum)]
    pub(super) part: Option<Part>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Part {
    /// Takes messages, and computes in between.
    Compute,
    /// Sends messages.
    Flood,
    /// Sends one after the other, each when the last one has come back.
    Call,
    /// Takes messages.
    Take,
    /// Sends messages back.
    Answer,
}

impl Part {
    #[cfg(feature = "dpdk")]
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Flood => "flood",
            Self::Call => "call",
            Self::Take => "take",
            Self::Answer => "answer",
        }
    }
}

/// A line of results.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) table: &'static str,
    pub(super) transport: &'static str,
    pub(super) queues: u16,
    pub(super) messages: u64,
    pub(super) resends: u64,
    /// Packets for which there was no room in the port.
    pub(super) lost: u64,
    pub(super) lost_percent: f64,
    pub(super) mb_per_s: f64,
    /// Those of the neighbours, and the longest one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) round_trips: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) longest_ms: Option<f64>,
}

#[derive(Serialize)]
struct Document {
    pub(super) benchmark: &'static str,
    pub(super) compute_ms: u64,
    pub(super) size: u32,
    pub(super) rate: u32,
    pub(super) descriptors: u16,
    pub(super) rows: Vec<Row>,
}

pub(super) fn print(args: &OverflowArgs, rows: Vec<Row>) -> Result<(), Failure> {
    const COUNTS: [&str; 5] = ["messages", "lost", "lost %", "resends", "MB/s"];
    let what = format!(
        "{} messages of {} B a second, queues of {} packets, over memif",
        args.rate, args.size, args.descriptors
    );
    let mut loss = Table::new(
        vec![format!(
            "The receiver computes {} ms between two looks; {what}",
            args.compute
        )],
        vec![Group::new("", &["who looks"]), Group::new("", &COUNTS)],
    );
    let mut queues = Table::new(
        vec![format!(
            "The receiving poller is stopped for {} ms of each {}; {what}",
            args.compute,
            2 * args.compute
        )],
        vec![
            Group::new("", &["queues"]),
            Group::new("", &COUNTS),
            Group::new("neighbours", &["round trips", "longest, ms"]),
        ],
    );
    for row in &rows {
        let mut cells = vec![
            row.messages.to_string(),
            row.lost.to_string(),
            format!("{:.2}", row.lost_percent),
            row.resends.to_string(),
            format!("{:.1}", row.mb_per_s),
        ];
        if let (Some(round_trips), Some(longest)) = (row.round_trips, row.longest_ms) {
            cells.insert(0, row.queues.to_string());
            cells.extend([round_trips.to_string(), format!("{longest:.1}")]);
            queues.row(cells);
        } else {
            cells.insert(0, row.transport.to_owned());
            loss.row(cells);
        }
    }
    let document = Document {
        benchmark: "overflow",
        compute_ms: args.compute,
        size: args.size,
        rate: args.rate,
        descriptors: args.descriptors,
        rows,
    };
    emit(&args.output, &document, &[loss, queues], None)
}
