//! `bench dse`: the experiments of the DSE paper, section 4.1, on today's sockets (`docs/papers.md`).
//!
//! One-way bursts and ping-pongs of 10,000 messages, one and two senders to one receiver, of single sizes and of the sizes
//! that the paper's applications have; and the sockets that a job of 60 processors needs, counted.

use clap::{Args, ValueEnum};

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
    report::{Document, Row, Running, Table, emit, number, size},
    transports::{
        settings::{Job, Operation},
        sizes::{CLASSES, LARGEST, draw, shares},
    },
};

/// The end of `--help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  hikyaku bench dse                                     one-way messages and ping-pongs
  hikyaku bench dse --sizes 16,1024 --iterations 2000
  hikyaku bench dse --only mix --seed 7                 messages of mixed sizes

The experiments of the DSE paper (docs/papers.md), on today's sockets: its protocol (`dse`), hikyaku's defaults and \
TCP, with wall time and the CPU time of each side; and the sockets that 60 processors need. `tcp/plain` is TCP as the \
paper's programs used it: one write a message, two receive calls, no TCP_NODELAY; `tcp` has TCP_NODELAY, and \
`tcp/batched` collects a burst's messages into writes of 64 KB (its ping-pongs are those of `tcp`).

`mix` has the sizes of the paper's table 1, measured in five applications: 60 % up to 16 bytes, 20 % up to 32, 18 % up \
to 128, 0.3 % up to 1,024, and 1.7 % larger ones (here up to 4,096). They are drawn with a seed, so that all transports \
and rounds have the same ones in the same order.";

/// Options of `bench dse`.
#[derive(Debug, Args)]
pub(crate) struct DseArgs {
    /// Only these parts [default: all]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "LIST")]
    only: Vec<Part>,
    /// Seed of the sizes of `mix`
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// The rest.
    #[command(flatten)]
    pub common: Common,
}

impl DseArgs {
    fn has(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }
}

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Messages of one size, for each of several (--sizes).
    Sizes,
    /// Messages of mixed sizes.
    Mix,
    /// Sockets of 60 processors.
    Sockets,
}

/// Messages of an experiment.
const MESSAGES: usize = 10_000;
/// Sizes of the paper's messages (its table 1): most have at most 128 bytes.
const SIZES: [usize; 5] = [16, 32, 128, 1024, 4096];
/// Rounds if nothing is said: each experiment is long, so fewer than elsewhere.
const ROUNDS: u32 = 5;

/// Measures and prints.
pub(crate) fn run(options: &DseArgs) -> Result<(), Failure> {
    let common = &options.common;
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
    if options.only == [Part::Sockets] {
        let (table, rows) = counted()?;
        let mut document = Document::new("dse", None);
        document.rows = rows;
        return emit(&common.output, &document, &[table], None);
    }
    let most = if common.connect.is_some() { 1 } else { 2 };
    let mut setup = Setup::new(common, &dse_kinds(common), most)?;
    let sizes = match &common.sizes[..] {
        _ if !options.has(Part::Sizes) => &[],
        [] => &SIZES[..],
        sizes => sizes,
    };
    let mix = options.has(Part::Mix).then_some(options.seed);
    let messages = common.iterations.map_or(MESSAGES, |count| count as usize);
    let mut jobs = Vec::new();
    for operation in [Operation::Stream, Operation::PingPong] {
        for spokes in 1..=most {
            jobs.extend(sizes.iter().map(|&size| job(operation, size, messages, spokes)));
            jobs.extend(mix.map(|seed| Job {
                mix: Some(seed),
                ..job(operation, LARGEST, messages, spokes)
            }));
        }
    }
    let document = Document::new("dse", Some(setup.environment.clone()));
    let mut running = Running::new(
        &common.output,
        setup.steps(jobs.len()),
        table(&setup, messages, mix),
        document,
    )?;
    let show = |_: &[Entry], job: &Job, all: &[Series]| {
        let rows = all.iter().filter_map(|series| row(series, all)).collect();
        (cells(job, all), rows)
    };
    let (_, mut outcome) = setup.measure(&jobs, &mut running, |_, _| true, show);
    if outcome.is_ok() && options.has(Part::Sockets) {
        outcome = counted().and_then(|(table, rows)| running.append(&table, rows));
    }
    running.finish(outcome, setup.contention(), None)
}

/// The sockets of a large job.
fn counted() -> Result<(Table, Vec<Row>), Failure> {
    let counts = sockets::count_all()?;
    let rows = counts.iter().map(|count| Row {
        transport: count.name.into(),
        pattern: Some("sockets"),
        processors: Some(sockets::PROCESSORS),
        sockets: Some(count.sockets),
        ..Row::default()
    });
    Ok((sockets::table(&counts), rows.collect()))
}

/// One burst of all messages, or as many ping-pongs.
const fn job(operation: Operation, size: usize, messages: usize, spokes: usize) -> Job {
    match operation {
        Operation::Stream => Job {
            operation,
            size,
            mix: None,
            warmup: 0,
            count: 1,
            window: messages,
            spokes,
            whole: false,
        },
        Operation::PingPong => Job {
            operation,
            size,
            mix: None,
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

/// Percent of the drawn sizes in each class.
fn drawn(seed: u64, messages: usize) -> [f64; CLASSES.len()] {
    shares(&draw(seed, messages))
}

fn row(series: &Series, all: &[Series]) -> Option<Row> {
    let Job {
        size,
        mix,
        count,
        window,
        ..
    } = series.job;
    Some(Row {
        transport: series.name.clone(),
        level: Some("transport"),
        pattern: Some(pattern_name(series.job.operation)),
        size: mix.is_none().then_some(size),
        seed: mix,
        shares: mix.map(|seed| drawn(seed, count * window)),
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

fn table(setup: &Setup, messages: usize, mix: Option<u64>) -> Table {
    let mut comments = vec![format!(
        "hikyaku dse: {messages} messages of each sender, as one burst one way, and as ping-pongs"
    )];
    comments.extend(setup.environment.lines());
    comments.push(format!(
        "{} rounds; wall: time of the whole, ms; snd, rcv: CPU time per message of the senders and of the \
         receiver, µs",
        setup.rounds
    ));
    if let Some(seed) = mix {
        let [tiny, small, medium, large, more] = drawn(seed, messages).map(|share| number(Some(share)));
        comments.push(format!(
            "mix: sizes drawn with seed {seed}: {tiny} % up to 16 B, {small} % up to 32 B, {medium} % up to 128 B, \
             {large} % up to 1024 B, {more} % up to 4096 B"
        ));
    }
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
        job.mix.map_or_else(|| size::text(job.size), |_| "mix".into()),
    ];
    for series in all {
        cells.extend([number(wall(series)), number(sender(series)), number(receiver(series))]);
    }
    cells
}
