//! `bench connect-ahead`: the first alltoall of ranks that have just met, with sessions opened when a message needs them
//! and ahead (`HIKYAKU_CONNECT_AHEAD`; the optics paper, section 6; `docs/papers.md`).

use std::collections::BTreeMap;

use crate::{
    failure::Failure,
    machine::busy::Contention,
    options::{Turns, World},
    ranks::{
        work::{Task, Work},
        world::{self, Job, Ranks, Start},
    },
    report::{Document, Group, Row, Running, Table, median, number, ratio, size},
};

/// The end of `--help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  hikyaku bench connect-ahead                           31 ranks, blocks of 8 bytes and 1 KB
  hikyaku bench connect-ahead --np 8 --rounds 20

Each round starts a job of its own, so its first alltoall needs a session between each two ranks. A barrier comes before, \
which opens those to ranks at a distance of a power of two. `as needed`: a session opens with its first message; `ahead`: \
all open when the alltoall begins. Times are means over ranks.";

/// Ranks if nothing is said.
const RANKS: u32 = 31;
/// Sizes if none are given.
const SIZES: [usize; 2] = [8, 1024];
/// Rounds if nothing is said: each starts as many processes as there are ranks.
const ROUNDS: usize = 10;

/// Measures and prints.
pub(crate) fn run(world: &World) -> Result<(), Failure> {
    let turns = &world.turns;
    size::not_empty(&turns.sizes)?;
    let np = world::number(world, Ranks::Default(RANKS))?;
    let sizes = match &turns.sizes[..] {
        [] => SIZES.to_vec(),
        sizes => sizes.to_vec(),
    };
    let rounds = turns.rounds.map_or(ROUNDS, |rounds| rounds as usize);
    let first = Job::start(turns, np)?;
    let mut environment = first.environment.clone();
    environment.rounds = rounds;
    drop(first);
    let mut comments = vec![format!(
        "hikyaku connect-ahead: the first alltoall of {np} ranks that have just met, µs (mean over ranks, median of \
         rounds)"
    )];
    comments.extend(environment.lines());
    let columns = ["as needed", "ahead", "ahead/as needed"];
    let table = Table::new(comments, vec![Group::new("", &["Size"]), Group::new("", &columns)]);
    let document = Document::new("connect-ahead", Some(environment));
    let mut running = Running::new(&turns.output, sizes.len() * rounds, table, document)?;
    let (mut outcome, mut contention) = (Ok(()), Contention::new());
    for &size in &sizes {
        outcome = (|| {
            let mut times = [Vec::new(), Vec::new()];
            for round in 0..rounds {
                running.progress.step("alltoall", size);
                for turn in 0..2 {
                    let ahead = (round + turn) % 2;
                    let (time, busy) = once(turns, np, size, ahead == 1)?;
                    times[ahead].push(Some(time));
                    contention = busy;
                }
            }
            let middle = |times: &[Option<f64>]| median(&times.iter().flatten().copied().collect::<Vec<_>>());
            let [needed, ahead] = [&times[0], &times[1]].map(|times| middle(times).map(|time| time / 1e3));
            let gain = ratio(&times[1], &times[0]);
            let row = |pattern, avg_us, ratio| Row {
                transport: format!("hikyaku/{}", turns.backend),
                level: Some("mpi"),
                pattern: Some(pattern),
                size: Some(size),
                np: Some(np as usize),
                avg_us,
                rounds: Some(rounds),
                ratio,
                ..Row::default()
            };
            let ratios = gain.map(|gain| ("as needed".to_owned(), gain)).into_iter().collect();
            running.add(
                vec![size::text(size), number(needed), number(ahead), number(gain)],
                [row("as needed", needed, BTreeMap::new()), row("ahead", ahead, ratios)],
            )
        })();
        if outcome.is_err() {
            break;
        }
    }
    running.finish(outcome, contention, None)
}

/// Nanoseconds of the first alltoall of a job, and how busy the machine was.
fn once(turns: &Turns, np: u32, size: usize, ahead: bool) -> Result<(f64, Contention), Failure> {
    let start = Start {
        connect_ahead: Some(ahead),
        is_quiet: true,
        ..Start::default()
    };
    let mut job = Job::start_with(turns, np, start)?;
    let work = Work {
        task: Task::Alltoall,
        size,
        window: 1,
        whole: true,
        warmup: 0,
        count: 1,
        algorithm: None,
        eager_limit: None,
        cma_limit: None,
    };
    let time = job.mean(&work)?;
    Ok((time, job.contention()))
}
