//! `bench incast`: many senders, one receiver. Each sends a message, waits for a small reply, and so on.

use clap::Args;

use crate::{
    benchmarks::streaming::{bandwidth, cpu, rate, ratios},
    failure::Failure,
    harness::{
        rounds::{Entry, Series, headings},
        setup::{Setup, check, kinds},
    },
    options::Common,
    report::{Document, Figure, Line, Row, Running, Table, number, size},
    transports::settings::{Job, Operation},
};

/// The end of `--help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  hikyaku bench incast                                  1, 2, 4 and 8 senders to one receiver
  hikyaku bench incast --senders 16 --sizes 64K
  hikyaku bench incast --np 5                           4 senders

Each sender sends a message, waits for a small reply, and so on; p99 is over those times. With more processes than \
cores they share cores, and the default wait is `adaptive`.";

/// Options of `bench incast`.
#[derive(Debug, Args)]
pub(crate) struct IncastArgs {
    /// Numbers of senders, one row each [default: 1,2,4,8]
    #[arg(long, value_delimiter = ',', value_name = "LIST", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub senders: Vec<u32>,
    /// The rest.
    #[command(flatten)]
    pub common: Common,
}

/// Bytes that a round moves, if the number of messages is not given.
const ROUND: usize = 8 << 20;

/// Measures and prints.
pub(crate) fn run(incast: &IncastArgs) -> Result<(), Failure> {
    let common = &incast.common;
    check(common, None)?;
    if common.connect.is_some() {
        return Err(Failure::usage(
            "bench incast: --connect reaches one sender only; leave it out",
        ));
    }
    let senders: Vec<usize> = match (common.np, &incast.senders[..]) {
        (Some(np), []) => vec![np as usize - 1],
        (Some(_), _) => {
            return Err(Failure::usage(
                "--np and --senders say the same thing; give one of them",
            ));
        }
        (None, []) => vec![1, 2, 4, 8],
        (None, senders) => senders.iter().map(|&senders| senders as usize).collect(),
    };
    let most = senders.iter().copied().max().unwrap_or(1);
    let mut setup = Setup::new(common, &kinds(common, false), most)?;
    let sizes = if common.sizes.is_empty() {
        vec![65_536]
    } else {
        common.sizes.clone()
    };
    let jobs: Vec<Job> = sizes
        .iter()
        .flat_map(|&size| senders.iter().map(move |&senders| job(common, size, senders)))
        .collect();
    let document = Document::new("incast", Some(setup.environment.clone()));
    let mut running = Running::new(&common.output, setup.steps(jobs.len()), table(&setup), document)?;
    let show = |entries: &[Entry], job: &Job, all: &[Series]| {
        let rows = all.iter().filter_map(|series| row(series, all)).collect();
        (cells(entries, job, all), rows)
    };
    let (results, outcome) = setup.measure(&jobs, &mut running, |_, _| true, show);
    let figure = figure(&setup, &results, sizes[0]);
    running.finish(outcome, setup.contention(), Some(&figure))
}

fn job(common: &Common, size: usize, senders: usize) -> Job {
    let count = common
        .iterations
        .map_or_else(|| (ROUND / size / senders).clamp(5, 200), |count| count as usize);
    Job {
        operation: Operation::Stream,
        size,
        mix: None,
        warmup: (count / 10).max(2),
        count,
        window: 1,
        spokes: senders,
        whole: false,
    }
}

fn p99(series: &Series) -> Option<f64> {
    series.percentile(99.0).map(|nanos| nanos / 1000.0)
}

fn row(series: &Series, all: &[Series]) -> Option<Row> {
    Some(Row {
        transport: series.name.clone(),
        level: Some("transport"),
        size: Some(series.job.size),
        senders: Some(series.job.spokes),
        mb_per_s: Some(bandwidth(series)?),
        messages_per_s: rate(series),
        p99_us: p99(series),
        cpu_us_per_message: cpu(series),
        lost_rounds: (series.lost() > 0).then(|| series.lost()),
        ratio: ratios(series, all),
        ..Row::default()
    })
}

fn table(setup: &Setup) -> Table {
    let mut comments = vec!["hikyaku incast: each sender sends a message and waits for a small reply".to_owned()];
    comments.extend(setup.environment.lines());
    comments.push(format!(
        "{} rounds; p99: from the send to the reply, µs; MB/s: all senders together",
        setup.rounds
    ));
    let (entries, columns) = (setup.entries.iter(), ["MB/s", "p99", "cpu"]);
    Table::new(
        comments,
        headings(entries, &["Size", "senders"], &columns, Some("MB/s ratio to")),
    )
}

/// A row of the table.
fn cells(entries: &[Entry], job: &Job, all: &[Series]) -> Vec<String> {
    let mut cells = vec![size::text(job.size), job.spokes.to_string()];
    for series in all {
        cells.extend([number(bandwidth(series)), number(p99(series)), number(cpu(series))]);
    }
    if let Some(ours) = all.iter().find(|series| series.ours) {
        let (ratios, others) = (ratios(ours, all), entries.iter().filter(|entry| !entry.ours));
        cells.extend(others.map(|other| number(ratios.get(&other.name).copied())));
    }
    cells
}

fn figure(setup: &Setup, results: &[(Job, Vec<Series>)], size: usize) -> Figure {
    let line = |name: &str| {
        let ours = |series: &&Series| series.name == name && series.job.size == size;
        let point = |series: &Series| Some((series.job.spokes, bandwidth(series)?));
        Line::new(
            name,
            results
                .iter()
                .flat_map(|(_, all)| all)
                .filter(ours)
                .filter_map(point)
                .collect(),
        )
    };
    Figure {
        title: format!("Incast: messages of {} from several senders", size::text(size)),
        notes: setup.environment.lines(),
        across: "senders".into(),
        has_table: false,
        up: "bandwidth of all senders, MB/s".into(),
        lines: setup.entries.iter().map(|entry| line(&entry.name)).collect(),
    }
}
