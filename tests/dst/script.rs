//! The programs of the ranks of a job: a tree of phases that all of them know.

use std::{collections::BTreeMap, time::Duration};

use hikyaku::{
    mpi::{engine::Communicator, error::Error},
    sim,
};

use super::{
    memory::{Memory, use_memory},
    prng::Prng,
    talk::{Style, Talk, talk},
    together::{Together, come_together},
};

/// How much receives may leave open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wild {
    All,
    /// Processes crash: in a part of the job, no receive names any source. (A rank that gives up because of another
    /// part says goodbye, and then only receives that name it fail.)
    Crashes,
    /// Processes are restarted, too: tags are named. (To a process that had nothing to do with the old incarnation, the
    /// new one is that process, though the two are at different places of the program.)
    Restarts,
}

impl Wild {
    fn styles(self, depth: u32) -> &'static [Style] {
        match (self, depth) {
            (Self::All, _) | (Self::Crashes, 0) => &[Style::Exact, Style::BySource, Style::ByTag, Style::Any],
            (Self::Crashes, _) => &[Style::Exact, Style::BySource],
            (Self::Restarts, 0) => &[Style::Exact, Style::ByTag],
            (Self::Restarts, _) => &[Style::Exact],
        }
    }
}

/// Limits of sizes and numbers, so that runs are short.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) letters: u64,
    /// Bytes of a letter or vector.
    pub(crate) bytes: u64,
    /// Bytes of all letters of a phase.
    pub(crate) total: u64,
    /// How much receives may leave open.
    pub(crate) wild: Wild,
}

#[derive(Clone, Debug)]
pub(crate) enum Phase {
    Talk(Talk),
    Together(Together),
    Memory(Memory),
    /// Each rank computes for this many nanoseconds.
    Compute(Vec<u64>),
    /// Colour and key of each rank, and the phases of each colour.
    Split(Vec<(Option<i32>, i32)>, BTreeMap<i32, Vec<Self>>),
    Duplicate(Vec<Self>),
}

/// Draws phases for this many ranks.
pub(crate) fn draw(rng: &mut Prng, ranks: usize, limits: Limits, depth: u32) -> Vec<Phase> {
    let most = if depth == 0 { 6 } else { 2 };
    (0..rng.between(1, most))
        .map(|_| match rng.below(if depth < 2 { 12 } else { 10 }) {
            0..=3 => Phase::Talk(Talk::draw(rng, ranks, limits, limits.wild.styles(depth))),
            4..=6 => Phase::Together(Together::draw(rng, ranks, limits)),
            7 | 8 => Phase::Memory(Memory::draw(rng, ranks, limits)),
            9 => {
                let most = rng.skewed(5_000_000);
                Phase::Compute((0..ranks).map(|_| rng.below(most)).collect())
            }
            10 => {
                let colors = rng.between(1, 3);
                let split: Vec<_> = (0..ranks)
                    .map(|_| {
                        let color = rng.below(colors) as i32;
                        ((!rng.chance(100)).then_some(color), rng.below(5) as i32 - 2)
                    })
                    .collect();
                let mut parts = BTreeMap::new();
                for color in 0..colors as i32 {
                    let members = split.iter().filter(|(its, _)| *its == Some(color)).count();
                    if members > 0 {
                        parts.insert(color, draw(rng, members, limits, depth + 1));
                    }
                }
                Phase::Split(split, parts)
            }
            _ => Phase::Duplicate(draw(rng, ranks, limits, depth + 1)),
        })
        .collect()
}

/// Runs the part of this rank.
pub(crate) fn run(comm: &Communicator, phases: &[Phase], incarnation: u32) -> Result<(), Error> {
    let rank = comm.rank() as usize;
    for phase in phases {
        match phase {
            Phase::Talk(plan) => talk(comm, plan, incarnation)?,
            Phase::Together(plan) => come_together(comm, plan)?,
            Phase::Memory(plan) => use_memory(comm, plan)?,
            Phase::Compute(times) => {
                if let Err(error) = sim::compute(Duration::from_nanos(times[rank])) {
                    panic!("{error}");
                }
            }
            Phase::Split(split, parts) => {
                let (color, key) = split[rank];
                let part = comm.split(color, key)?;
                assert_eq!(part.is_some(), color.is_some(), "a colour has a communicator");
                if let (Some(part), Some(color)) = (part, color) {
                    check_split(&part, split, color, rank);
                    run(&part, &parts[&color], incarnation)?;
                }
            }
            Phase::Duplicate(phases) => run(&comm.duplicate()?, phases, incarnation)?,
        }
    }
    Ok(())
}

/// Ranks are in the order of their keys.
fn check_split(part: &Communicator, split: &[(Option<i32>, i32)], color: i32, rank: usize) {
    let members = (0..split.len()).filter(|member| split[*member].0 == Some(color));
    let mut order: Vec<_> = members.map(|member| (split[member].1, member)).collect();
    order.sort_unstable();
    let place = order.iter().position(|(_, member)| *member == rank);
    assert_eq!(
        (part.size() as usize, Some(part.rank() as usize)),
        (order.len(), place),
        "rank {rank} of {split:?}"
    );
}
