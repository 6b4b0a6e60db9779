//! `bench … --backend shm`: what processes of one host do to each other through memory.
//!
//! The loops, their counts and their buffers are those of `xtask/peers/within_host.c`, with which other MPIs are measured: the clock is read before the first
//! operation and after the last, so that it does not count itself. A row is the median over rounds of the means. Rounds
//! count apart by how far the cores were from each other ([`cache_line`]).

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    benchmarks::collective,
    failure::Failure,
    machine::cache_line::{self, Cores},
    options::{Common, Level, Turns},
    ranks::{
        work::{MEMORY, Task, Work},
        world::Job,
    },
    report::{Document, Figure, Group, Line, Row, Running, Table, median, number, size},
};

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Benchmark {
    Latency,
    Bandwidth,
    Rate,
    Put,
    Get,
    Collective(Task),
}

/// A figure of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quantity {
    /// Time of an operation.
    Time,
    /// Messages in a window.
    Speed,
}

/// Bytes from which on a window has fewer messages.
const LARGE: usize = 1 << 20;
/// Messages of a window, and of a window of large ones.
const WINDOW: usize = 64;
const LARGE_WINDOW: usize = 16;

impl Benchmark {
    const fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Bandwidth => "bandwidth",
            Self::Rate => "rate",
            Self::Put => "put",
            Self::Get => "get",
            Self::Collective(task) => task.name(),
        }
    }

    const fn quantities(self) -> &'static [Quantity] {
        match self {
            Self::Latency | Self::Collective(_) => &[Quantity::Time],
            Self::Bandwidth | Self::Rate => &[Quantity::Speed],
            Self::Put | Self::Get => &[Quantity::Time, Quantity::Speed],
        }
    }

    /// Sizes if none are given.
    const fn sizes(self) -> &'static [usize] {
        match self {
            Self::Latency => &[8, 64, 1024, 2048, 8192, 65_536, 1 << 20, 4 << 20],
            Self::Bandwidth => &[1024, 65_536, 1 << 20, 4 << 20],
            Self::Rate => &[8],
            Self::Put | Self::Get => &[8, 1024, 65_536, 1 << 20, 4 << 20],
            Self::Collective(Task::Barrier) => &[0],
            Self::Collective(_) => &[8, 1024, 65_536],
        }
    }

    /// The sizes that are asked for, or its own.
    fn checked(self, asked: &[usize]) -> Result<Vec<usize>, Failure> {
        match self {
            Self::Latency => {}
            Self::Collective(task) => _ = collective::sizes(asked, task)?,
            _ => size::not_empty(asked)?,
        }
        let sizes = if asked.is_empty() { self.sizes() } else { asked };
        Ok(sizes.to_vec())
    }

    const fn task(self) -> Task {
        match self {
            Self::Latency => Task::PingPong,
            Self::Bandwidth | Self::Rate => Task::Stream,
            Self::Put => Task::Put,
            Self::Get => Task::Get,
            Self::Collective(task) => task,
        }
    }

    /// Operations of a round, if their number is not given.
    const fn count(self, quantity: Quantity, size: usize, crowded: bool) -> usize {
        match (self, quantity) {
            (Self::Collective(_), _) => (if crowded { 400 } else { 4000 }) / (if size < 65_536 { 1 } else { 4 }),
            (_, Quantity::Time) => by_size(size, [6000, 1500, 200, 60]),
            (_, Quantity::Speed) => by_size(size, [500, 60, 8, 3]),
        }
    }

    fn work(self, quantity: Quantity, size: usize, turns: &Turns, crowded: bool) -> Work {
        let count = turns
            .iterations
            .map_or_else(|| self.count(quantity, size, crowded), |count| count as usize);
        let is_latency = self == Self::Latency;
        let window = match quantity {
            Quantity::Time => 1,
            Quantity::Speed if size < LARGE => WINDOW,
            Quantity::Speed => LARGE_WINDOW,
        };
        Work {
            task: self.task(),
            size,
            window,
            whole: true,
            warmup: if is_latency { count.div_ceil(5) } else { count / 5 + 1 },
            count,
            algorithm: None,
            eager_limit: None,
            cma_limit: None,
        }
    }
}

const fn by_size(size: usize, [small, medium, large, huge]: [usize; 4]) -> usize {
    match size {
        0..=8192 => small,
        8193..=65_536 => medium,
        65_537..=LARGE => large,
        _ => huge,
    }
}

/// One of the things that are measured in turns.
struct Column {
    transport: String,
    level: &'static str,
    quantity: Quantity,
}

/// One round at one size.
struct Round {
    /// Nanoseconds of a cache line, the mean of before and after; nothing if they cannot be measured.
    cache_line: Option<f64>,
    cores: Option<Cores>,
    /// Nanoseconds of a message, or of an operation of several ranks, in the order of the columns.
    nanos: Vec<f64>,
}

/// The rounds at one size in which the cores were equally far from each other.
struct Rounds<'a> {
    size: usize,
    rounds: Vec<&'a Round>,
}

impl Rounds<'_> {
    fn cores(&self) -> Option<&'static str> {
        self.rounds.first()?.cores.map(Cores::name)
    }

    fn cache_line(&self) -> Option<f64> {
        median(
            &self
                .rounds
                .iter()
                .filter_map(|round| round.cache_line)
                .collect::<Vec<_>>(),
        )
    }

    /// Nanoseconds of each round.
    fn nanos(&self, column: usize) -> Vec<f64> {
        self.rounds.iter().map(|round| round.nanos[column]).collect()
    }

    /// The median over rounds of what `figure` makes of nanoseconds.
    fn median(&self, column: usize, figure: impl Fn(f64) -> f64) -> Option<f64> {
        median(&self.nanos(column).into_iter().map(figure).collect::<Vec<_>>())
    }

    fn best_us(&self, column: usize) -> Option<f64> {
        self.nanos(column).into_iter().reduce(f64::min).map(|nanos| nanos / 1e3)
    }

    fn mb_per_s(&self, column: usize) -> Option<f64> {
        self.median(column, |nanos| self.size as f64 * 1e3 / nanos)
    }

    fn messages_per_s(&self, column: usize) -> Option<f64> {
        self.median(column, |nanos| 1e9 / nanos)
    }

    fn cells(&self, columns: &[Column]) -> Vec<String> {
        let mut cells = vec![
            size::text(self.size),
            self.cores().unwrap_or("-").to_owned(),
            number(self.cache_line()),
            self.rounds.len().to_string(),
        ];
        for (index, column) in columns.iter().enumerate() {
            cells.extend(match column.quantity {
                Quantity::Time => [self.median(index, |nanos| nanos / 1e3), self.best_us(index)].map(precise),
                Quantity::Speed => [self.mb_per_s(index), self.messages_per_s(index)].map(number),
            });
        }
        cells
    }

    /// A row for each transport and level.
    fn rows(&self, columns: &[Column], np: usize) -> Vec<Row> {
        let mut rows: Vec<Row> = Vec::new();
        for (index, column) in columns.iter().enumerate() {
            let is_new = rows.last().is_none_or(|row| row.level != Some(column.level));
            if is_new {
                rows.push(Row {
                    transport: column.transport.clone(),
                    level: Some(column.level),
                    size: Some(self.size),
                    np: Some(np),
                    cores: self.cores(),
                    cache_line_ns: self.cache_line(),
                    rounds: Some(self.rounds.len()),
                    ..Row::default()
                });
            }
            let Some(row) = rows.last_mut() else { continue };
            match column.quantity {
                Quantity::Time => {
                    row.avg_us = self.median(index, |nanos| nanos / 1e3);
                    row.p50_us = row.avg_us;
                    row.p99_us = self.nanos(index).into_iter().reduce(f64::max).map(|nanos| nanos / 1e3);
                    row.best_us = self.best_us(index);
                }
                Quantity::Speed => {
                    row.mb_per_s = self.mb_per_s(index);
                    row.messages_per_s = self.messages_per_s(index);
                }
            }
        }
        rows
    }
}

/// Three places for what takes less than a microsecond.
fn precise(value: Option<f64>) -> String {
    match value {
        Some(value) if value < 10.0 => format!("{value:.3}"),
        other => number(other),
    }
}

/// Measures and prints. `np`: ranks.
pub(crate) fn run(turns: &Turns, levels: &[Level], np: u32, benchmark: Benchmark) -> Result<(), Failure> {
    let has_transport = matches!(benchmark, Benchmark::Latency | Benchmark::Bandwidth | Benchmark::Rate);
    if levels.contains(&Level::Transport) && !has_transport {
        return Err(Failure::usage("--level transport: only MPI has this operation"));
    }
    let sizes = benchmark.checked(&turns.sizes)?;
    let mut job = Job::start(turns, np)?;
    if levels.contains(&Level::Transport) {
        job.open_transport(MEMORY)?;
    }
    let mut columns = Vec::new();
    for &level in levels {
        columns.extend(benchmark.quantities().iter().map(|&quantity| Column {
            transport: job.transport.clone(),
            level: level.name(),
            quantity,
        }));
    }
    let document = Document::new(benchmark.name(), Some(job.environment.clone()));
    let steps = sizes.len() * job.rounds * columns.len();
    let mut running = Running::new(&turns.output, steps, table(&job, benchmark, &columns), document)?;
    let mut results = Vec::new();
    let mut outcome = Ok(());
    for &size in &sizes {
        let works: Vec<Work> = columns
            .iter()
            .map(|column| benchmark.work(column.quantity, size, turns, job.is_crowded()))
            .collect();
        let mut rounds = Vec::new();
        while rounds.len() < job.rounds && outcome.is_ok() {
            match round(&mut job, &works, &columns, &mut running) {
                Ok(round) => rounds.push(round),
                Err(failure) => outcome = Err(failure),
            }
        }
        let by_cores = by_cores(size, &rounds);
        for group in &by_cores {
            let shown = running.add(group.cells(&columns), group.rows(&columns, job.np));
            outcome = outcome.and(shown);
        }
        results.push((size, rounds));
        if outcome.is_err() {
            break;
        }
    }
    let figure = figure(&job, benchmark, &columns, &results);
    running.finish(outcome, job.contention(), Some(&figure))
}

fn round(job: &mut Job, works: &[Work], columns: &[Column], running: &mut Running<'_>) -> Result<Round, Failure> {
    let before = cache_line::probe();
    let mut nanos = Vec::new();
    for (work, column) in works.iter().zip(columns) {
        running.progress.step(&column.transport, work.size);
        nanos.push(match column.level {
            "mpi" => job.mean(work)?,
            _ => job.mean_of_transport(work)?,
        });
    }
    let after = cache_line::probe();
    let both = before.zip(after);
    Ok(Round {
        cache_line: both.map(|(before, after)| f64::midpoint(before, after)),
        cores: both.map(|(before, after)| Cores::of(before, after)),
        nanos,
    })
}

fn by_cores(size: usize, rounds: &[Round]) -> Vec<Rounds<'_>> {
    let mut groups: BTreeMap<Option<Cores>, Vec<&Round>> = BTreeMap::new();
    for round in rounds {
        groups.entry(round.cores).or_default().push(round);
    }
    groups.into_values().map(|rounds| Rounds { size, rounds }).collect()
}

fn table(job: &Job, benchmark: Benchmark, columns: &[Column]) -> Table {
    let mut comments = vec![format!(
        "hikyaku {} within a host, {} processes",
        benchmark.name(),
        job.np
    )];
    comments.extend(job.environment.lines());
    comments.push(format!(
        "{} rounds, a mean each: µs one way or of an operation, median and best; windows of messages: MB/s, messages/s",
        job.rounds
    ));
    let mut groups = vec![Group::new("", &["Size", "cores", "cache line", "rounds"])];
    groups.extend(columns.iter().map(|column| {
        let name = format!("{}/{}", column.transport, column.level);
        match column.quantity {
            Quantity::Time => Group::new(name, &["median", "best"]),
            Quantity::Speed => Group::new(name, &["MB/s", "msg/s"]),
        }
    }));
    Table::new(comments, groups)
}

fn figure(job: &Job, benchmark: Benchmark, columns: &[Column], results: &[(usize, Vec<Round>)]) -> Figure {
    let is_time = columns[0].quantity == Quantity::Time;
    let line = |(column, cores): (usize, Option<Cores>)| {
        let points = results.iter().filter_map(|(size, rounds)| {
            let group = by_cores(*size, rounds)
                .into_iter()
                .find(|group| group.cores() == cores.map(Cores::name))?;
            let point = if is_time {
                group.median(column, |nanos| nanos / 1e3)
            } else {
                group.mb_per_s(column)
            };
            Some(((*size).max(1), point?))
        });
        let cores = cores.map_or("cores", Cores::name);
        Line::new(format!("{}, {cores}", columns[column].level), points.collect())
    };
    let cores: BTreeSet<Option<Cores>> = results
        .iter()
        .flat_map(|(_, rounds)| rounds)
        .map(|round| round.cores)
        .collect();
    let of_quantity = |(index, column): (usize, &Column)| (column.quantity == columns[0].quantity).then_some(index);
    let lines = columns.iter().enumerate().filter_map(of_quantity);
    let lines = lines.flat_map(|column| cores.iter().map(move |&cores| (column, cores)));
    Figure {
        title: format!("{} between processes of one host", benchmark.name()),
        notes: job.environment.lines(),
        across: "message size, bytes".into(),
        has_table: false,
        up: if is_time {
            "time, µs".into()
        } else {
            "bandwidth, MB/s".into()
        },
        lines: lines.map(line).collect(),
    }
}

/// The options of a benchmark between two processes.
pub(crate) fn of_pair(common: &Common, benchmark: Benchmark) -> Result<(), Failure> {
    if common.connect.is_some() {
        return Err(Failure::usage("--backend shm is for processes of one host"));
    }
    if common.capture.is_some() {
        return Err(Failure::usage("--capture: not with --backend shm"));
    }
    if common.np.is_some_and(|np| np != 2) {
        return Err(Failure::usage("--np: this benchmark has exactly 2 processes"));
    }
    run(&common.turns(), &common.level, 2, benchmark)
}

/// This benchmark is asked for through memory.
pub(crate) fn is_asked(backend: &str) -> bool {
    backend == MEMORY
}
