//! `bench latency`: half of a ping-pong.

use std::collections::BTreeMap;

use crate::{
    failure::Failure,
    harness::{
        rounds::{Entry, Series, headings, ours_and_others},
        setup::{Setup, check, kinds},
    },
    options::Common,
    report::{Document, Figure, Line, Row, Running, Table, number, size},
    transports::settings::{Job, Kind, Operation, Way, level_of},
};

/// The end of `--help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  hikyaku bench latency                                 both ends here, against TCP and bare UDP
  hikyaku bench latency --sizes 8,2048 --mtu 1500       as over Ethernet: 1472-byte datagrams
  hikyaku bench latency --wait block --vs tcp           both ends sleep in the kernel
  hikyaku bench latency --level transport,mpi           what MPI adds to the transport
  hikyaku bench latency --format json --plot lat.svg    for programs, and for eyes
  hikyaku bench latency --backend shm                   through the memory of one host
  hikyaku bench latency --backend dpdk --device memif   without the kernel (feature dpdk)
  hikyaku bench latency --backend dpdk --device memif --vs memif,tcp
  hikyaku bench latency --listen 0.0.0.0:7475           on one host, then on the other:
  hikyaku bench latency --connect first-host:7475

Columns: p50 is the median over rounds of each round's median, p99 is taken over all samples, cpu is CPU time per \
message of both ends together; all in microseconds. A ratio below 1 says that hikyaku is faster. `--vs memif` is DPDK by itself, \
from C: frames with a fixed header and nothing checked, whose payload is not touched (memif), or which is copied from and \
to its place (memif/copied).

With `--backend shm` a round is a mean: the clock is read before and after all ping-pongs of a round, as other MPIs are \
measured (docs/benchmarks.md), p50 is the median over rounds, and p99 the longest. Each round measures before and after how long a \
cache line takes between the two cores, ns; rounds in which they are threads of one core (sibling), near, far, or moved are rows apart.";

/// Over the figure.
const TITLE: &str = "One-way latency between two processes (median)";
/// Sizes if none are given.
const SIZES: [usize; 8] = [0, 8, 512, 2048, 8192, 65_536, 1 << 20, 4 << 20];
/// What a measurement is called, and what comes out of it.
pub(super) struct Form {
    /// Name in JSON.
    pub benchmark: &'static str,
    /// Over the figure.
    pub title: &'static str,
    /// Sizes if none are given.
    pub sizes: &'static [usize],
    /// The table's head.
    pub table: fn(&Setup) -> Table,
    /// Its rows.
    pub cells: fn(&[Entry], &Job, &[Series]) -> Vec<String>,
    /// The figure has a table of its numbers.
    pub has_numbers: bool,
}

const LATENCY: Form = Form {
    benchmark: "latency",
    title: TITLE,
    sizes: &SIZES,
    table,
    cells,
    has_numbers: false,
};
/// Bytes that a round moves at most in each direction, if the number of ping-pongs is not given.
const ROUND: usize = 8 << 20;
/// Largest message that bare UDP can hope to move as a burst of unpaced datagrams.
const LARGEST_BURST: usize = 1 << 20;

/// Measures and prints.
pub(crate) fn run(common: &Common) -> Result<(), Failure> {
    check(common, Some(2))?;
    measure(common, &kinds(common, false), &LATENCY)
}

/// One-way times, told in this way.
pub(super) fn measure(common: &Common, kinds: &[Kind], form: &Form) -> Result<(), Failure> {
    let mut setup = Setup::new(common, kinds, 1)?;
    let sizes = if common.sizes.is_empty() {
        form.sizes.to_vec()
    } else {
        common.sizes.clone()
    };
    let jobs: Vec<Job> = sizes.iter().map(|&size| job(common, size)).collect();
    let document = Document::new(form.benchmark, Some(setup.environment.clone()));
    let mut running = Running::new(&common.output, setup.steps(jobs.len()), (form.table)(&setup), document)?;
    let show = |entries: &[Entry], job: &Job, all: &[Series]| {
        let rows = all.iter().filter_map(|series| row(series, all)).collect();
        ((form.cells)(entries, job, all), rows)
    };
    let able = |entry: &Entry, job: &Job| takes(entry, job.size);
    let (results, outcome) = setup.measure(&jobs, &mut running, able, show);
    let figure = figure(form, &setup, &results);
    running.finish(outcome, setup.contention(), Some(&figure))
}

fn job(common: &Common, size: usize) -> Job {
    let count = common
        .iterations
        .map_or_else(|| (ROUND / size.max(1)).clamp(10, 1000), |count| count as usize);
    Job {
        operation: Operation::PingPong,
        size,
        mix: None,
        warmup: (count / 10).max(5),
        count,
        window: 1,
        spokes: 1,
        whole: false,
    }
}

/// Bare UDP sends a message larger than a datagram as a burst of datagrams, up to a limit.
fn takes(entry: &Entry, size: usize) -> bool {
    if size == 0 {
        // A stream has no empty messages.
        return entry.ours || entry.name == "udp" || level_of(&entry.name).1 == "mpi";
    }
    if entry.ours && entry.name.contains("/eager/") {
        return size <= Way::Eager.eager_limit() as usize;
    }
    entry.name != "udp" || size <= LARGEST_BURST
}

fn micros(nanos: Option<f64>) -> Option<f64> {
    nanos.map(|nanos| nanos / 1000.0)
}

pub(super) fn one_way(series: &Series) -> (Option<f64>, Option<f64>, Option<f64>) {
    (
        micros(series.median(|round| round.time / 2.0)),
        micros(series.percentile(99.0).map(|round_trip| round_trip / 2.0)),
        micros(series.median(|round| round.spoke_cpu + round.hub_cpu)),
    )
}

fn row(series: &Series, all: &[Series]) -> Option<Row> {
    let (p50, p99, cpu) = one_way(series);
    let mut ratio = BTreeMap::new();
    for other in series.rivals(all) {
        if let Some(value) = series.ratio(other, |round| round.time) {
            ratio.insert(other.name.clone(), value);
        }
    }
    let (transport, level) = level_of(&series.name);
    Some(Row {
        transport: transport.to_owned(),
        level: Some(level),
        size: Some(series.job.size),
        p50_us: Some(p50?),
        p99_us: p99,
        cpu_us_per_message: cpu,
        lost_rounds: (series.lost() > 0).then(|| series.lost()),
        ratio,
        ..Row::default()
    })
}

fn table(setup: &Setup) -> Table {
    let mut comments = vec!["hikyaku latency, one way (half a round trip), µs".to_owned()];
    comments.extend(setup.environment.lines());
    comments.push(format!(
        "{} rounds in which the transports take turns; ratio: hikyaku's time / the other's, median of the rounds' ratios",
        setup.rounds
    ));
    comments.push("cpu: CPU time per message, both ends together".to_owned());
    let entries = setup.entries.iter();
    Table::new(
        comments,
        headings(entries, &["Size"], &["p50", "p99", "cpu"], Some("ratio to")),
    )
}

/// A row of the table.
fn cells(entries: &[Entry], job: &Job, all: &[Series]) -> Vec<String> {
    let find = |name: &str| all.iter().find(|series| series.name == name);
    let mut cells = vec![size::text(job.size)];
    for entry in entries {
        let (p50, p99, cpu) = find(&entry.name).map_or((None, None, None), one_way);
        cells.extend([number(p50), number(p99), number(cpu)]);
    }
    if let Some((ours, others)) = &ours_and_others(entries.iter())
        && let Some(ours) = find(&ours.name)
    {
        for other in others {
            let ratio = find(&other.name).and_then(|other| ours.ratio(other, |round| round.time));
            cells.push(number(ratio));
        }
    }
    cells
}

fn figure(form: &Form, setup: &Setup, results: &[(Job, Vec<Series>)]) -> Figure {
    let line = |entry: &Entry| {
        let point = |(job, all): &(Job, Vec<Series>)| {
            let series = all.iter().find(|series| series.name == entry.name)?;
            Some((job.size, one_way(series).0?))
        };
        Line::new(entry.name.clone(), results.iter().filter_map(point).collect())
    };
    Figure {
        title: form.title.into(),
        notes: setup.environment.lines(),
        across: "message size, bytes".into(),
        has_table: form.has_numbers,
        up: "one-way time, µs".into(),
        lines: setup.entries.iter().map(line).collect(),
    }
}
