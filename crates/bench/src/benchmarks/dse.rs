//! `bench dse`: the experiments of the DSE paper, section 4.1, on today's sockets (`docs/papers.md`).
//!
//! One-way bursts and ping-pongs of 10,000 messages, one and two senders to one receiver; and the sockets that a job of
//! 60 processors needs, counted.

use crate::{
    benchmarks::{
        sockets,
        streaming::{rate, ratios},
    },
    failure::Failure,
    harness::{
        rounds::{Entry, Series, headings},
        setup::{Setup, check, dse_kinds},
    },
    options::Common,
    report::{Document, Row, Running, Table, number, size},
    transports::settings::{Job, Operation},
};

/// The end of `--help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  hikyaku bench dse                                     one-way messages and ping-pongs
  hikyaku bench dse --sizes 16,1024 --iterations 2000

The experiments of the DSE paper (docs/papers.md), on today's sockets: its protocol (`dse`), hikyaku's defaults and \
TCP, with wall time and the CPU time of each side; and the sockets that 60 processors need. `tcp/plain` is TCP as the \
paper's programs used it: one write a message, two receive calls, no TCP_NODELAY; `tcp` has TCP_NODELAY, and \
`tcp/batched` collects a burst's messages into writes of 64 KB (its ping-pongs are those of `tcp`).";

/// Messages of an experiment.
const MESSAGES: usize = 10_000;
/// Sizes of the paper's messages (its table 1): most have at most 128 bytes.
const SIZES: [usize; 5] = [16, 32, 128, 1024, 4096];
/// Rounds if nothing is said: each experiment is long, so fewer than elsewhere.
const ROUNDS: u32 = 5;

/// Measures and prints.
pub(crate) fn run(common: &Common) -> Result<(), Failure> {
    check(common, None)?;
    if common.np.is_some() {
        return Err(Failure::usage("--np: bench dse has 2 and 3 processes"));
    }
    if common.capture.is_some() {
        return Err(Failure::usage(
            "bench dse: --capture cannot hold two protocols; capture another benchmark",
        ));
    }
    let common = &Common {
        rounds: common.rounds.or(Some(ROUNDS)),
        ..common.clone()
    };
    let most = if common.connect.is_some() { 1 } else { 2 };
    let mut setup = Setup::new(common, &dse_kinds(common), most)?;
    let sizes = if common.sizes.is_empty() {
        SIZES.to_vec()
    } else {
        common.sizes.clone()
    };
    let messages = common.iterations.map_or(MESSAGES, |count| count as usize);
    let mut jobs = Vec::new();
    for operation in [Operation::Stream, Operation::PingPong] {
        for spokes in 1..=most {
            jobs.extend(sizes.iter().map(|&size| job(operation, size, messages, spokes)));
        }
    }
    let document = Document::new("dse", Some(setup.environment.clone()));
    let mut running = Running::new(
        &common.output,
        setup.steps(jobs.len()),
        table(&setup, messages),
        document,
    )?;
    let show = |_: &[Entry], job: &Job, all: &[Series]| {
        let rows = all.iter().filter_map(|series| row(series, all)).collect();
        (cells(job, all), rows)
    };
    let (_, mut outcome) = setup.measure(&jobs, &mut running, |_, _| true, show);
    if outcome.is_ok() {
        outcome = sockets::count_all().and_then(|counts| {
            let rows = counts.iter().map(|count| Row {
                transport: count.name.into(),
                pattern: Some("sockets"),
                processors: Some(sockets::PROCESSORS),
                sockets: Some(count.sockets),
                ..Row::default()
            });
            running.append(&sockets::table(&counts), rows)
        });
    }
    running.finish(outcome, setup.contention(), None)
}

/// One burst of all messages, or as many ping-pongs.
const fn job(operation: Operation, size: usize, messages: usize, spokes: usize) -> Job {
    match operation {
        Operation::Stream => Job {
            operation,
            size,
            warmup: 0,
            count: 1,
            window: messages,
            spokes,
            whole: false,
        },
        Operation::PingPong => Job {
            operation,
            size,
            warmup: 0,
            count: messages,
            window: 1,
            spokes,
            whole: false,
        },
    }
}

const fn pattern_name(operation: Operation) -> &'static str {
    match operation {
        Operation::Stream => "burst",
        Operation::PingPong => "ping-pong",
    }
}

fn wall(series: &Series) -> Option<f64> {
    series.median(|round| round.wall / 1e6)
}

fn sender(series: &Series) -> Option<f64> {
    series.median(|round| round.spoke_cpu / 1000.0)
}

fn receiver(series: &Series) -> Option<f64> {
    series.median(|round| round.hub_cpu / 1000.0)
}

fn row(series: &Series, all: &[Series]) -> Option<Row> {
    Some(Row {
        transport: series.name.clone(),
        level: Some("transport"),
        pattern: Some(pattern_name(series.job.operation)),
        size: Some(series.job.size),
        senders: Some(series.job.spokes),
        wall_ms: Some(wall(series)?),
        messages_per_s: rate(series),
        sender_cpu_us_per_message: sender(series),
        receiver_cpu_us_per_message: receiver(series),
        lost_rounds: (series.lost() > 0).then(|| series.lost()),
        ratio: ratios(series, all),
        ..Row::default()
    })
}

fn table(setup: &Setup, messages: usize) -> Table {
    let mut comments = vec![format!(
        "hikyaku dse: {messages} messages of each sender, as one burst one way, and as ping-pongs"
    )];
    comments.extend(setup.environment.lines());
    comments.push(format!(
        "{} rounds; wall: time of the whole, ms; snd, rcv: CPU time per message of the senders and of the \
         receiver, µs",
        setup.rounds
    ));
    let (entries, columns) = (setup.entries.iter(), ["wall", "snd", "rcv"]);
    let mut table = Table::new(
        comments,
        headings(entries, &["what", "senders", "Size"], &columns, None),
    );
    table.room(0, pattern_name(Operation::PingPong).len());
    table
}

/// A row of the table.
fn cells(job: &Job, all: &[Series]) -> Vec<String> {
    let mut cells = vec![
        pattern_name(job.operation).to_owned(),
        job.spokes.to_string(),
        size::text(job.size),
    ];
    for series in all {
        cells.extend([number(wall(series)), number(sender(series)), number(receiver(series))]);
    }
    cells
}
