//! `bench bibw`, `put` and `get`: what two MPI ranks do to each other.

use crate::{
    failure::Failure,
    options::{Turns, World},
    ranks::{
        work::{Task, Work},
        world::{self, Job, Ranks, Series},
    },
    report::{Document, Figure, Group, Line, Row, Running, Table, number, size},
};

/// The end of `--help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  hikyaku bench bibw --sizes 64K,1M                     both ranks send and receive 64
  hikyaku bench put --sizes 8,64K                       a put and its flush; and 64 puts: MB/s
  hikyaku bench get --wait block --format json

As osu_bibw, osu_put_latency and osu_put_bw do: lock, operations, flush. The target takes no part; it waits in a barrier. \
MB are 10^6 bytes; bibw counts both directions.";

/// Sizes if none are given.
const SIZES: [usize; 6] = [8, 512, 8192, 65_536, 1 << 20, 4 << 20];
/// Messages of a window.
const WINDOW: usize = 64;
/// Most bytes of a window.
const WINDOW_BYTES: usize = 16 << 20;
/// Bytes that a round moves, if the number of operations is not given.
const ROUND: usize = 16 << 20;

/// Which of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pair {
    /// Windows of messages both ways.
    Bibw,
    /// Writing.
    Put,
    /// Reading.
    Get,
}

impl Pair {
    const fn task(self) -> Task {
        match self {
            Self::Bibw => Task::Bibw,
            Self::Put => Task::Put,
            Self::Get => Task::Get,
        }
    }

    /// How many messages of an operation with a window of so many.
    const fn messages(self, window: usize) -> usize {
        match self {
            Self::Bibw => 2 * window,
            Self::Put | Self::Get => window,
        }
    }
}

/// One operation at a time, where that is measured; and windows of them.
type Both = (Option<Series>, Series);

/// Measures and prints.
pub(crate) fn run(world: &World, pair: Pair) -> Result<(), Failure> {
    let turns = &world.turns;
    size::not_empty(&turns.sizes)?;
    let sizes = if turns.sizes.is_empty() {
        SIZES.to_vec()
    } else {
        turns.sizes.clone()
    };
    let mut job = Job::start(turns, world::number(world, Ranks::Exactly(2))?)?;
    let alone = pair != Pair::Bibw;
    let steps = sizes.len() * job.rounds * (1 + usize::from(alone));
    let document = Document::new(pair.task().name(), Some(job.environment.clone()));
    let mut running = Running::new(&turns.output, steps, table(&job, pair), document)?;
    let mut results: Vec<Both> = Vec::new();
    let mut outcome = Ok(());
    for &size in &sizes {
        let window = (WINDOW_BYTES / size).clamp(2, WINDOW);
        let mut works = vec![("windows".to_owned(), work(turns, pair.task(), size, window))];
        if alone {
            works.push(("single".to_owned(), work(turns, pair.task(), size, 1)));
        }
        let (mut series, measured) = job.interleave(&works, &mut running.progress);
        let single = if alone { series.pop() } else { None };
        let mut shown = Ok(());
        if let Some(windows) = series.pop().filter(|windows| !windows.rounds.is_empty()) {
            let both = (single, windows);
            shown = running.add(cells(pair, &both), [row(&job, pair, &both)]);
            results.push(both);
        }
        outcome = measured.and(shown);
        if outcome.is_err() {
            break;
        }
    }
    running.finish(outcome, job.contention(), Some(&figure(&job, pair, &results)))
}

fn work(turns: &Turns, task: Task, size: usize, window: usize) -> Work {
    let most = if window > 1 { 50 } else { 500 };
    let count = turns
        .iterations
        .map_or_else(|| (ROUND / (size * window)).clamp(2, most), |count| count as usize);
    Work {
        task,
        size,
        window,
        whole: false,
        warmup: (count / 10).max(1),
        count,
        algorithm: None,
        eager_limit: None,
        cma_limit: None,
    }
}

fn bandwidth(pair: Pair, windows: &Series) -> Option<f64> {
    windows.mb_per_s(pair.messages(windows.work.window))
}

fn row(job: &Job, pair: Pair, (single, windows): &Both) -> Row {
    let mb_per_s = bandwidth(pair, windows);
    let times = single.as_ref().map(|single| job.row(single));
    Row {
        p50_us: times.as_ref().and_then(|row| row.p50_us),
        p99_us: times.as_ref().and_then(|row| row.p99_us),
        mb_per_s,
        messages_per_s: mb_per_s.map(|mb| mb * 1e6 / windows.work.size as f64),
        ..job.row(windows)
    }
}

fn table(job: &Job, pair: Pair) -> Table {
    let what = match pair {
        Pair::Bibw => "bidirectional bandwidth: both ranks send a window of messages and receive one",
        Pair::Put => "put: rank 0 writes to rank 1 and flushes; µs for one, and MB/s of windows",
        Pair::Get => "get: rank 0 reads from rank 1 and flushes; µs for one, and MB/s of windows",
    };
    let mut comments = vec![format!("hikyaku {what}")];
    comments.extend(job.environment.lines());
    comments.push(format!("{} rounds; MB are 10^6 bytes", job.rounds));
    let mut groups = vec![Group::new("", &["Size"])];
    if pair != Pair::Bibw {
        groups.push(Group::new("single", &["p50", "p99"]));
    }
    groups.push(Group::new("windows", &["MB/s", "msg/s"]));
    Table::new(comments, groups)
}

/// A row of the table.
fn cells(pair: Pair, (single, windows): &Both) -> Vec<String> {
    let mut cells = vec![size::text(windows.work.size)];
    if let Some(single) = single {
        cells.extend([single.micros(|round| round.p50), single.p99()].map(number));
    }
    let mb_per_s = bandwidth(pair, windows);
    cells.push(number(mb_per_s));
    cells.push(number(mb_per_s.map(|mb| mb * 1e6 / windows.work.size as f64)));
    cells
}

fn figure(job: &Job, pair: Pair, results: &[Both]) -> Figure {
    let points = results
        .iter()
        .filter_map(|(_, windows)| Some((windows.work.size, bandwidth(pair, windows)?)));
    Figure {
        title: format!("MPI {}: windows of messages between two ranks", pair.task().name()),
        notes: job.environment.lines(),
        across: "message size, bytes".into(),
        has_table: false,
        up: "bandwidth, MB/s".into(),
        lines: vec![Line::new(pair.task().name(), points.collect())],
    }
}
