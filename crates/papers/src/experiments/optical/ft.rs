//! NPB FT, class A, on 16 ranks (the optics paper, section 4.2.2): a recorded run of our example, replayed on each
//! network.

use std::{path::Path, time::Duration};

use hikyaku::{
    mpi::collectives::{Algorithm, Collective as Kind},
    sim::Simulation,
};
use hikyaku_bench::{
    failure::Failure,
    report::{Group, Progress, Table, number},
    traces,
};
use serde::Serialize;

use super::model::{Mode, Parameters, simulation};
use crate::replay::{Collective, Lengths, Programs, Step, programs, replay};

/// The traces of all ranks, one after the other, from `HIKYAKU_TRACE=DIR hikyaku run -n 16 ft A`.
const RECORDED: &str = include_str!("ft-a-16.jsonl");
/// How many of them.
pub(super) const RANKS: u32 = 16;
/// Seconds in the paper's table 4: naive, 2, 3 and 4 ports, ideal.
const PAPER: [f64; 5] = [2.67, 2.33, 2.33, 2.16, 1.82];
const PAPER_IDEAL: f64 = 1.82;

#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    table: &'static str,
    mode: &'static str,
    ports: Option<u32>,
    pub(super) release: bool,
    pub(super) keep: bool,
    seconds: f64,
    ratio_to_ideal: f64,
    pub(super) above_ideal_s: f64,
    /// The ratio to ideal in the paper.
    paper_ratio: Option<f64>,
    pub(super) paper_above_ideal_s: Option<f64>,
    set_ups: u64,
}

/// The program of each rank, with blocks of alltoall divided by `scale`.
pub(super) fn recorded(scale: u32) -> Result<Vec<Vec<Step>>, Failure> {
    let mut traces = Vec::new();
    let starts = RECORDED.match_indices("{\"trace\"").map(|(start, _)| start);
    let ends = starts.clone().skip(1).chain([RECORDED.len()]);
    for (start, end) in starts.zip(ends) {
        let (trace, _) = traces::parse(Path::new("ft-a-16.jsonl"), &RECORDED[start..end])
            .map_err(|error| Failure::run(error.to_string()))?;
        traces.push(trace);
    }
    let mut programs = programs(&traces).map_err(|error| Failure::run(error.to_string()))?;
    balance(&mut programs);
    for step in programs.iter_mut().flatten() {
        if let Step::Collective {
            what:
                Collective {
                    kind: Kind::Alltoall,
                    sent: Lengths::Even(sent),
                    received: Lengths::Even(received),
                    ..
                },
            ..
        } = step
        {
            (*sent, *received) = (*sent / scale as usize, *received / scale as usize);
        }
    }
    Ok(programs)
}

/// All ranks compute as long between two calls as they did on the average: the machine that recorded had fewer cores
/// than ranks, and who waited for one was chance.
fn balance(programs: &mut [Vec<Step>]) {
    let (ranks, len) = (programs.len() as u64, programs.iter().map(Vec::len).min().unwrap_or(0));
    for index in 0..len {
        let computing = |program: &mut Vec<Step>| match &mut program[index] {
            Step::Compute(nanos) => Some(*nanos),
            _ => None,
        };
        let all: Option<Vec<u64>> = programs.iter_mut().map(computing).collect();
        let Some(all) = all else { continue };
        for program in &mut *programs {
            program[index] = Step::Compute(all.iter().sum::<u64>() / ranks);
        }
    }
}

/// The job on one network. Messages of this size are asked for first, as in any program.
fn on(ranks: u32, mode: &Mode, parameters: &Parameters, (release, keep): (bool, bool)) -> Simulation {
    let mut simulation = simulation(ranks, mode, parameters);
    let policy = &mut simulation.options.policy;
    policy.force(Kind::Alltoall, Algorithm::RecursiveDoubling);
    policy.force(Kind::Barrier, Algorithm::RecursiveDoubling);
    policy.force(Kind::Bcast, Algorithm::BINOMIAL);
    policy.force(Kind::Reduce, Algorithm::BINOMIAL);
    if let Some(optics) = &mut simulation.optics {
        optics.keep = keep;
        if release {
            optics.release = Duration::from_secs_f64(parameters.gamma);
        }
    }
    simulation
}

/// All modes, with the CPU time scaled so that the ideal network takes as long as the paper's: without and with
/// one release of connections after each collective, and (ours) with connections that stay.
///
/// Blocks and bandwidth are divided by `scale`, which leaves all times of the model as they are.
pub(super) fn rows(parameters: &Parameters, scale: u32, progress: &mut Progress) -> Result<Vec<Row>, Failure> {
    let programs = &Programs::from(recorded(scale)?);
    let parameters = &Parameters {
        beta: parameters.beta * f64::from(scale),
        ..parameters.clone()
    };
    let ranks = programs.len() as u32;
    let ideal_at = |compute: f64| {
        let simulation = on(ranks, &Mode::IDEAL, parameters, (false, false));
        replay(programs, &simulation, compute).map(|played| played.seconds)
    };
    // The recording comes from another machine: computing is scaled until the ideal network takes the paper's time.
    progress.step("ft, scale", 0);
    let transfers = ideal_at(0.0)?;
    let mut compute = 1.0;
    let mut ideal = ideal_at(compute)?;
    for _ in 0..4 {
        if (ideal - PAPER_IDEAL).abs() < 1e-3 || transfers >= PAPER_IDEAL {
            break;
        }
        compute *= (PAPER_IDEAL - transfers) / (ideal - transfers);
        ideal = ideal_at(compute)?;
    }
    let mut rows = Vec::new();
    for (release, keep) in [(false, false), (true, false), (false, true)] {
        for (mode, paper) in Mode::all(&[2, 3, 4]).iter().zip(PAPER) {
            if keep && mode.ports.is_none() {
                continue;
            }
            progress.step(&format!("ft, {}", mode.label()), 0);
            let simulation = on(ranks, mode, parameters, (release, keep));
            let played = replay(programs, &simulation, compute);
            let played = played.map_err(|failure| failure.during(&format!("NPB FT, {}", mode.label())))?;
            rows.push(Row {
                table: "ft",
                mode: mode.name,
                ports: mode.ports,
                release,
                keep,
                seconds: played.seconds,
                ratio_to_ideal: played.seconds / ideal,
                above_ideal_s: played.seconds - ideal,
                paper_ratio: (!keep).then_some(paper / PAPER_IDEAL),
                paper_above_ideal_s: (!keep).then_some(paper - PAPER_IDEAL),
                set_ups: played.optics.set_up,
            });
        }
    }
    Ok(rows)
}

/// Steps of the progress.
pub(super) const STEPS: usize = 14;

pub(super) fn table(rows: &[Row]) -> Table {
    let comments = vec![
        "NPB FT class A on 16 ranks, replayed; CPU time as on the paper's ideal network (1.82 s in all)".to_owned(),
        "released: no new connections for gamma after each collective; kept: until their ports are needed".to_owned(),
    ];
    let groups = vec![
        Group::new("", &["connections", "after use"]),
        Group::new("simulated", &["s", "above ideal", "ratio", "set-ups"]),
        Group::new("paper", &["above ideal", "ratio"]),
    ];
    let mut table = Table::new(comments, groups);
    for row in rows {
        let mode = row
            .ports
            .map_or_else(|| row.mode.to_owned(), |ports| format!("{ports} ports"));
        let after = match (row.release, row.keep) {
            (true, _) => "released",
            (_, true) => "kept",
            _ => "closed",
        };
        table.row(vec![
            mode,
            after.into(),
            number(Some(row.seconds)),
            number(Some(row.above_ideal_s)),
            number(Some(row.ratio_to_ideal)),
            row.set_ups.to_string(),
            number(row.paper_above_ideal_s),
            number(row.paper_ratio),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recorded_run_is_that_of_the_paper() {
        let programs = recorded(1).unwrap();
        assert_eq!(programs.len(), RANKS as usize);
        for program in programs {
            let calls = program.iter().filter_map(|step| match step {
                Step::Collective { what, .. } => Some(what),
                _ => None,
            });
            let blocks: Vec<&Collective> = calls.collect();
            assert_eq!(blocks.len(), 17);
            let is_alltoall = |what: &&&Collective| {
                let bytes = Lengths::Even(1 << 19);
                what.kind == Kind::Alltoall && what.sent == bytes && what.received == bytes
            };
            assert_eq!(blocks.iter().filter(is_alltoall).count(), 8);
        }
    }

    #[test]
    fn ft_is_as_far_above_the_ideal_as_the_paper_says() {
        let parameters = Parameters {
            alpha: 0.1e-3,
            beta: 8e-9,
            gamma: 10e-3,
            spread: 0.0,
            wavelengths: None,
            failure: 0.0,
            changes: Vec::new(),
            seed: 1,
        };
        for row in rows(&parameters, 64, &mut Progress::new(false, STEPS)).unwrap() {
            if row.keep {
                // Four peers, four ports: they are connected once.
                assert!(row.ports != Some(4) || row.above_ideal_s < 0.03, "{row:?}");
                continue;
            }
            let expected = match (row.release, row.mode, row.ports) {
                (_, "ideal", _) => 0.0,
                (true, ..) => row.paper_above_ideal_s.unwrap(),
                (false, "naive", _) => 0.68,
                (false, _, Some(4)) => 0.17,
                (false, ..) => 0.34,
            };
            assert!(
                (row.above_ideal_s - expected).abs() <= 0.05 * expected + 1e-9,
                "{expected}: {row:?}"
            );
        }
    }
}
