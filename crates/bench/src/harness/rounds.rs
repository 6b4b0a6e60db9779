//! The method: what is compared takes turns in short rounds inside the same processes, with the same pinning.
//!
//! Shared machines change their speed from one second to the next. So no transport is measured in one piece: a round
//! measures all of them once, the next round does so in rotated order, a row is the median over rounds, and a ratio is
//! the median of the rounds' ratios.

use crate::{
    failure::Failure,
    harness::session::{Outcome, Session},
    report::{Group, Progress, median, percentile, ratio},
    transports::settings::{Job, Operation, level_of},
};

/// A transport that has lost data in this many rounds is not tried any more at this size.
const MAX_LOST: usize = 3;

/// Figures of one round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Round {
    /// Median time of an operation, ns.
    pub time: f64,
    /// Messages per second of all spokes together.
    pub messages_per_s: f64,
    /// CPU time per message of the spokes, ns.
    pub spoke_cpu: f64,
    /// CPU time per message of the hub, ns.
    pub hub_cpu: f64,
    /// Wall time of the measured part (with several spokes: of all), ns.
    pub wall: f64,
}

/// All rounds of one transport at one size.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    /// The transport.
    pub name: String,
    /// True for this library.
    pub ours: bool,
    /// The operation.
    pub job: Job,
    /// Rounds in order; void ones are nothing.
    pub rounds: Vec<Option<Round>>,
    /// Nanoseconds of every operation of all rounds.
    pub samples: Vec<u64>,
}

impl Series {
    /// Median over rounds of one figure.
    pub(crate) fn median(&self, figure: impl Fn(&Round) -> f64) -> Option<f64> {
        median(&self.rounds.iter().flatten().map(figure).collect::<Vec<_>>())
    }

    /// The rows to compare with: those of other libraries, and those of a lower level of this one.
    pub(crate) fn rivals<'a>(&self, all: &'a [Self]) -> impl Iterator<Item = &'a Self> {
        let is_mpi = |series: &Self| level_of(&series.name).1 == "mpi";
        let (ours, above) = (self.ours, is_mpi(self));
        all.iter()
            .filter(move |other| ours && (!other.ours || above && !is_mpi(other)))
    }

    /// Median of the rounds' ratios of one figure.
    pub(crate) fn ratio(&self, other: &Self, figure: impl Fn(&Round) -> f64) -> Option<f64> {
        let values = |series: &Self| {
            series
                .rounds
                .iter()
                .map(|round| round.as_ref().map(&figure))
                .collect::<Vec<_>>()
        };
        ratio(&values(self), &values(other))
    }

    /// Percentile over all operations of all rounds, ns.
    pub(crate) fn percentile(&self, percent: f64) -> Option<f64> {
        percentile(&self.samples, percent).map(|nanos| nanos as f64)
    }

    /// Rounds that count for nothing.
    pub(crate) fn lost(&self) -> usize {
        self.rounds.iter().filter(|round| round.is_none()).count()
    }
}

/// One transport that takes part.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Its number in the session.
    pub link: usize,
    /// Its name.
    pub name: String,
    /// True for this library.
    pub ours: bool,
}

/// Headings of a table: `first`, then `columns` for each of the `entries`, then `ratio` to each of the others if this
/// library is among them.
pub(crate) fn headings<'a>(
    entries: impl Iterator<Item = &'a Entry>,
    first: &[&str],
    columns: &[&str],
    ratio: Option<&str>,
) -> Vec<Group> {
    let mut groups = vec![Group::new("", first)];
    let entries: Vec<&Entry> = entries.collect();
    groups.extend(entries.iter().map(|entry| Group::new(&entry.name, columns)));
    if let (Some(ratio), Some((_, others))) = (ratio, ours_and_others(entries.iter().copied()))
        && !others.is_empty()
    {
        let names: Vec<&str> = others.iter().map(|entry| entry.name.as_str()).collect();
        groups.push(Group::new(ratio, &names));
    }
    groups
}

/// Which of the `entries` tables compare, and with which: this library's highest level with everything else.
pub(crate) fn ours_and_others<'a>(entries: impl Iterator<Item = &'a Entry>) -> Option<(&'a Entry, Vec<&'a Entry>)> {
    let entries: Vec<&Entry> = entries.collect();
    let ours = entries.iter().rposition(|entry| entry.ours)?;
    let others = entries.iter().enumerate().filter(|(index, _)| *index != ours);
    Some((entries[ours], others.map(|(_, entry)| *entry).collect()))
}

/// The rows that were measured, and whether these are all.
pub(crate) type Measured<T> = (T, Result<(), Failure>);

/// Measures one job over several transports, interleaved.
pub(crate) fn interleave(
    session: &mut Session,
    entries: &[Entry],
    job: &Job,
    rounds: usize,
    progress: &mut Progress,
) -> Measured<Vec<Series>> {
    let mut all: Vec<Series> = entries
        .iter()
        .map(|entry| Series {
            name: entry.name.clone(),
            ours: entry.ours,
            job: *job,
            rounds: Vec::with_capacity(rounds),
            samples: Vec::new(),
        })
        .collect();
    for round in 0..rounds {
        for step in 0..entries.len() {
            let index = (step + round) % entries.len();
            let (entry, series) = (&entries[index], &mut all[index]);
            progress.step(&entry.name, job.size);
            if series.lost() >= MAX_LOST {
                series.rounds.push(None);
                continue;
            }
            let outcome = match session.run(entry.link, job) {
                Ok(outcome) => outcome,
                Err(failure) => return (all, Err(failure)),
            };
            series.rounds.push(figures(job, &outcome));
            if !outcome.lost() {
                series
                    .samples
                    .extend(outcome.reports.iter().flat_map(|report| &report.samples));
            }
        }
    }
    (all, Ok(()))
}

/// Reduces one round to its figures; nothing if it is void.
fn figures(job: &Job, outcome: &Outcome) -> Option<Round> {
    if outcome.lost() {
        return None;
    }
    let samples: Vec<u64> = outcome
        .reports
        .iter()
        .flat_map(|report| report.samples.iter().copied())
        .collect();
    let per_operation = match job.operation {
        Operation::PingPong => 2,
        Operation::Stream => job.window,
    };
    let messages = (job.count * job.spokes * per_operation) as f64;
    let all_messages = (job.operations() * job.spokes * per_operation) as f64;
    // Several spokes are not in step, so only the hub sees the time of all, and its warm-up counts too.
    let (wall, moved) = match &outcome.reports[..] {
        [report] => (report.wall as f64, messages),
        _ => (outcome.hub_wall as f64, all_messages),
    };
    Some(Round {
        time: percentile(&samples, 50.0)? as f64,
        messages_per_s: moved / wall * 1e9,
        spoke_cpu: outcome.reports.iter().map(|report| report.cpu).sum::<u64>() as f64 / messages,
        hub_cpu: outcome.hub_cpu as f64 / all_messages,
        wall,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transports::settings::Report;

    fn outcome(samples: Vec<u64>) -> Outcome {
        let wall = samples.iter().sum();
        let report = Report {
            samples,
            wall,
            cpu: 300,
            ..Report::default()
        };
        Outcome {
            reports: vec![report],
            hub_cpu: 600,
            hub_wall: 0,
        }
    }

    #[test]
    fn figures_of_a_round() {
        let job = Job {
            operation: Operation::PingPong,
            size: 8,
            mix: None,
            warmup: 3,
            count: 3,
            window: 1,
            spokes: 1,
            whole: false,
        };
        let round = figures(&job, &outcome(vec![100, 200, 300])).unwrap();
        assert_eq!(
            (round.time, round.spoke_cpu, round.hub_cpu, round.wall),
            (200.0, 50.0, 50.0, 600.0)
        );
        assert!((round.messages_per_s - 1e7).abs() < 1.0);
    }

    #[test]
    fn a_lossy_round_is_void() {
        let job = Job {
            operation: Operation::PingPong,
            size: 8,
            mix: None,
            warmup: 0,
            count: 3,
            window: 1,
            spokes: 1,
            whole: false,
        };
        let mut outcome = outcome(vec![1, 2, 3]);
        outcome.reports[0].lost = true;
        assert_eq!(figures(&job, &outcome), None);
    }
}
