//! `bench barrier`, `bcast`, `allreduce` and `alltoall`: how long a collective takes.

use std::collections::BTreeMap;

use clap::Args;
use hikyaku::mpi::collectives;

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
  hikyaku bench allreduce --np 8 --sizes 8,1M           eight ranks on this machine
  hikyaku bench allreduce --algorithm auto,ring         what was chosen beside a ring, in turns
  hikyaku bench barrier --np 8 --wait block
  hikyaku bench allreduce --backend shm                 two ranks, through memory
  HIKYAKU_EAGER_LIMIT=16K hikyaku bench alltoall        with settings of an MPI program

As the OSU micro-benchmarks: before each operation there is a barrier (but for `barrier`), each rank takes its time; \
avg is the mean over ranks and iterations, max that of the slowest rank; p50 and p99 are over iterations, of the mean over \
ranks. All are medians over rounds, p99 is over all rounds. Sizes are bytes of the vector; alltoall: of each block.";

/// Options of benchmarks of collectives.
#[derive(Clone, Debug, Args)]
pub(crate) struct CollectiveArgs {
    /// Algorithms that are compared, `auto` for the one that is chosen by cost; see docs/collectives.md
    #[arg(long, value_delimiter = ',', default_value = "auto", value_name = "LIST")]
    pub algorithm: Vec<String>,
    /// The rest.
    #[command(flatten)]
    pub world: World,
}

/// Sizes if none are given.
const SIZES: [usize; 5] = [8, 512, 8192, 65_536, 1 << 20];
/// Bytes that a rank moves in a round, if the number of operations is not given.
const ROUND: usize = 8 << 20;
/// The name for the algorithm that is chosen by cost.
pub(crate) const AUTO: &str = "auto";
/// Characters of the longest name of an algorithm.
const CHOSEN: usize = "recursive-doubling".len();

/// Measures and prints.
pub(crate) fn run(options: &CollectiveArgs, task: Task) -> Result<(), Failure> {
    let turns = &options.world.turns;
    let sizes = sizes(&turns.sizes, task)?;
    let names = check(task, &options.algorithm)?;
    let mut job = Job::start(turns, world::number(&options.world, Ranks::Default(4))?)?;
    fits(task, &names, job.np)?;
    let steps = sizes.len() * job.rounds * names.len();
    let document = Document::new(task.name(), Some(job.environment.clone()));
    let mut running = Running::new(&turns.output, steps, table(&job, task, &names), document)?;
    let mut results: Vec<Vec<Series>> = Vec::new();
    let mut outcome = Ok(());
    for &size in &sizes {
        let works: Vec<(String, Work)> = names
            .iter()
            .map(|name| (name.clone(), work(turns, task, size, name)))
            .collect();
        let (all, measured) = job.interleave(&works, &mut running.progress);
        let mut shown = Ok(());
        if all.iter().all(|series| !series.rounds.is_empty()) {
            shown = running.add(
                cells(&job, &names, &all),
                all.iter().map(|series| row(&job, series, &all)),
            );
            results.push(all);
        }
        outcome = measured.and(shown);
        if outcome.is_err() {
            break;
        }
    }
    running.finish(outcome, job.contention(), Some(&figure(&job, task, &names, &results)))
}

pub(crate) fn sizes(asked: &[usize], task: Task) -> Result<Vec<usize>, Failure> {
    if task == Task::Barrier {
        return match asked {
            [] | [0] => Ok(vec![0]),
            _ => Err(Failure::usage("--sizes: a barrier has none")),
        };
    }
    size::not_empty(asked)?;
    if task == Task::Allreduce && asked.iter().any(|size| !size.is_multiple_of(4)) {
        return Err(Failure::usage(
            "--sizes: allreduce sums floats of 4 bytes; give multiples of 4",
        ));
    }
    Ok(if asked.is_empty() {
        SIZES.to_vec()
    } else {
        asked.to_vec()
    })
}

/// The names, each once, all of them algorithms of this collective.
fn check(task: Task, asked: &[String]) -> Result<Vec<String>, Failure> {
    let collective = task.collective().unwrap_or(collectives::Collective::Barrier);
    let mut names: Vec<String> = Vec::new();
    for name in asked {
        if name != AUTO && collective.algorithm(name).is_none() {
            return Err(Failure::usage(format!(
                "--algorithm {name}: {collective} has {AUTO}, {}",
                collective.choices()
            )));
        }
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    Ok(names)
}

fn fits(task: Task, names: &[String], np: usize) -> Result<(), Failure> {
    let Some(collective) = task.collective() else {
        return Ok(());
    };
    let odd = names.iter().find(|name| {
        let algorithm = collective.algorithm(name);
        algorithm.is_some_and(|algorithm| !algorithm.suits(collective, np, true))
    });
    match odd {
        Some(name) => Err(Failure::usage(format!("--algorithm {name}: not for {np} ranks"))),
        None => Ok(()),
    }
}

pub(crate) fn work(turns: &Turns, task: Task, size: usize, name: &str) -> Work {
    let count = turns
        .iterations
        .map_or_else(|| (ROUND / size.max(1)).clamp(5, 100), |count| count as usize);
    Work {
        task,
        size,
        window: 1,
        whole: false,
        warmup: (count / 10).max(2),
        count,
        algorithm: (name != AUTO).then(|| name.to_owned()),
        eager_limit: None,
        cma_limit: None,
    }
}

fn row(job: &Job, series: &Series, all: &[Series]) -> Row {
    let mut ratio = BTreeMap::new();
    for other in all.iter().filter(|other| other.work != series.work) {
        if let Some(value) = series.ratio(other) {
            ratio.insert(other.work.algorithm.as_deref().unwrap_or(AUTO).to_owned(), value);
        }
    }
    Row {
        algorithm: job.algorithm(&series.work),
        forced: Some(series.work.algorithm.is_some()),
        avg_us: series.micros(|round| round.avg),
        max_us: series.micros(|round| round.max),
        ratio,
        ..job.row(series)
    }
}

fn table(job: &Job, task: Task, names: &[String]) -> Table {
    let mut comments = vec![format!("hikyaku {}, {} ranks, µs", task.name(), job.np)];
    comments.extend(job.environment.lines());
    comments.push(format!(
        "{} rounds, in which algorithms take turns; avg: mean over ranks, max: the slowest rank, p50 and p99 over iterations",
        job.rounds
    ));
    let chosen = names.iter().position(|name| name == AUTO);
    let mut first = vec!["Size"];
    first.extend(chosen.map(|_| "chosen"));
    let mut groups = vec![Group::new("", &first)];
    groups.extend(names.iter().map(|name| Group::new(name, &["avg", "max", "p50", "p99"])));
    let others: Vec<&str> = names[1..].iter().map(String::as_str).collect();
    if !others.is_empty() {
        groups.push(Group::new(format!("{} to", names[0]), &others));
    }
    let mut table = Table::new(comments, groups);
    if chosen.is_some() {
        table.room(1, CHOSEN);
    }
    table
}

/// A row of the table.
fn cells(job: &Job, names: &[String], all: &[Series]) -> Vec<String> {
    let chosen = names.iter().position(|name| name == AUTO);
    let mut cells = vec![size::text(all[0].work.size)];
    cells.extend(chosen.map(|index| job.algorithm(&all[index].work).unwrap_or_default()));
    for series in all {
        let p99 = series.p99();
        let median = [
            series.micros(|round| round.avg),
            series.micros(|round| round.max),
            series.micros(|round| round.p50),
        ];
        cells.extend(median.into_iter().chain([p99]).map(number));
    }
    cells.extend(all[1..].iter().map(|other| number(all[0].ratio(other))));
    cells
}

fn figure(job: &Job, task: Task, names: &[String], results: &[Vec<Series>]) -> Figure {
    let line = |(index, name): (usize, &String)| {
        Line::new(
            name.clone(),
            results
            .iter()
            // A barrier has no size, and its figure one place.
            .filter_map(|all| Some((all[index].work.size.max(1), all[index].micros(|round| round.avg)?)))
            .collect(),
        )
    };
    Figure {
        title: format!("MPI {}: time per operation, mean over ranks", task.name()),
        notes: job.environment.lines(),
        across: "size, bytes".into(),
        has_table: false,
        up: "time, µs".into(),
        lines: names.iter().enumerate().map(line).collect(),
    }
}
