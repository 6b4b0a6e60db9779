//! What ranks of one host do to each other through memory: the costs by which collectives choose whether they have two
//! levels.

use super::{crossover::crossover, line::line, ping_pong};
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

/// Bytes of messages that are sent both ways.
const COPIED: [usize; 7] = [8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 1 << 20];

/// The level within a host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Within {
    /// Seconds until the others see what a rank writes.
    pub(super) alpha: f64,
    /// Seconds per byte that a rank writes.
    pub(super) beta: f64,
    pub(super) kernel: Kernel,
}

/// The messages that the kernel should copy from one process to the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kernel {
    /// Those that are longer: up to this size, a message takes less time by way of memory in common.
    LongerThan(usize),
    /// None: memory in common is quicker for all.
    Slower,
    /// None: it does not copy here.
    Refuses,
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
    let kernel = kernel(&turns, &mut job)?;
    Ok(Some(Within { alpha, beta, kernel }))
}

/// Measures messages that go by way of memory in common, and that the kernel copies.
fn kernel(turns: &Turns, job: &mut Job) -> Result<Kernel, Failure> {
    let mut progress = Progress::new(turns.output.progress, COPIED.len() * 2 * job.rounds);
    let mut ratios = Vec::new();
    for size in COPIED {
        let works = [("in memory", u32::MAX), ("by the kernel", 0)]
            .map(|(name, limit)| (name.to_owned(), ping_pong::work(turns, size, None, Some(limit))));
        let (series, outcome) = job.interleave(&works, &mut progress);
        outcome?;
        if let [memory, kernel] = &series[..] {
            ratios.extend(memory.ratio(kernel).map(|ratio| (size, ratio)));
        }
    }
    if job.crossed() == 0 {
        // What was compared is one way.
        return Ok(Kernel::Refuses);
    }
    let limit = crossover(ratios.iter().copied(), usize::MAX);
    Ok(match COPIED.last() {
        Some(last) if limit >= *last => Kernel::Slower,
        _ => Kernel::LongerThan(limit),
    })
}
