//! What ranks of one host do to each other through memory: the costs by which collectives choose whether they have two
//! levels.

use super::line::line;
use crate::{
    benchmarks::collective::{self, AUTO},
    failure::Failure,
    options::Turns,
    ranks::{
        work::{MEMORY, Task},
        world::{Job, Start},
    },
    report::Progress,
};

/// Bytes that are broadcast: from those whose time is that of the first look, to those that are copied in pieces.
const SIZES: [usize; 4] = [8, 8 << 10, 128 << 10, 1 << 20];

/// The level within a host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Within {
    /// Seconds until the others see what a rank writes.
    pub(super) alpha: f64,
    /// Seconds per byte that a rank writes.
    pub(super) beta: f64,
}

/// Measures broadcasts between two ranks that reach each other through memory: the model has alpha + bytes x beta for them.
/// `None`: this build has no shared memory.
pub(super) fn measured(turns: &Turns) -> Result<Option<Within>, Failure> {
    if !cfg!(feature = "shm") {
        return Ok(None);
    }
    let turns = Turns {
        backend: MEMORY.to_owned(),
        mtu: None,
        ..turns.clone()
    };
    let start = Start {
        is_quiet: true,
        ..Start::default()
    };
    let mut job = Job::start_with(&turns, 2, start)?;
    let works = SIZES.map(|size| {
        let name = "within the host".to_owned();
        (name, collective::work(&turns, Task::Bcast, size, AUTO))
    });
    let mut progress = Progress::new(turns.output.progress, works.len() * job.rounds);
    let (series, outcome) = job.interleave(&works, &mut progress);
    outcome?;
    let times = series.iter().filter_map(|series| {
        // The slower of the two: the root is done when it has written.
        let micros = series.micros(|round| round.max)?;
        Some((series.work.size, micros))
    });
    let (alpha, beta) = line(times);
    Ok(Some(Within { alpha, beta }))
}
