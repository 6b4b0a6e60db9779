//! The common part of `bench bandwidth` and `bench rate`: windows of messages one way, a small reply each.

use std::collections::BTreeMap;

use crate::{
    failure::Failure,
    harness::{
        rounds::{Entry, Series, headings, ours_and_others},
        setup::Setup,
    },
    options::Common,
    report::{Document, Figure, Line, Row, Running, Table, number, size},
    transports::settings::{Job, Kind, level_of},
};

/// The differences between the benchmarks.
pub(crate) struct Streaming {
    /// Name in JSON.
    pub benchmark: &'static str,
    /// First line of the table and title of the figure.
    pub title: &'static str,
    /// Sizes if none are given.
    pub sizes: &'static [usize],
    /// The work of one round at a size.
    pub job: fn(&Common, usize) -> Job,
    /// The figure's value is messages per second, not MB/s.
    pub messages: bool,
}

/// Results of one size.
type Sized = (Job, Vec<Series>);

impl Streaming {
    /// Measures and prints.
    pub(crate) fn run(&self, common: &Common, kinds: &[Kind]) -> Result<(), Failure> {
        let mut setup = Setup::new(common, kinds, 1)?;
        let sizes = if common.sizes.is_empty() {
            self.sizes.to_vec()
        } else {
            common.sizes.clone()
        };
        let jobs: Vec<Job> = sizes.iter().map(|&size| (self.job)(common, size)).collect();
        let document = Document::new(self.benchmark, Some(setup.environment.clone()));
        let mut running = Running::new(&common.output, setup.steps(jobs.len()), self.table(&setup), document)?;
        let show = |entries: &[Entry], job: &Job, all: &[Series]| {
            let rows = all.iter().filter_map(|series| row(series, all)).collect();
            (cells(entries, job, all), rows)
        };
        let (results, outcome) = setup.measure(&jobs, &mut running, |_, _| true, show);
        let figure = self.figure(&setup, &results);
        running.finish(outcome, setup.contention(), Some(&figure))
    }

    fn table(&self, setup: &Setup) -> Table {
        let mut comments = vec![self.title.to_owned()];
        comments.extend(setup.environment.lines());
        comments.push(format!(
            "{} rounds in which the transports take turns; ratio: hikyaku's speed / the other's, median of the rounds' \
             ratios",
            setup.rounds
        ));
        comments.push("cpu: CPU time per message, both ends together, µs".to_owned());
        let entries = setup.entries.iter();
        Table::new(
            comments,
            headings(entries, &["Size"], &["MB/s", "msg/s", "cpu"], Some("ratio to")),
        )
    }

    fn figure(&self, setup: &Setup, results: &[Sized]) -> Figure {
        let value = if self.messages { rate } else { bandwidth };
        let line = |entry: &Entry| {
            let point =
                |(job, all): &Sized| Some((job.size, value(all.iter().find(|series| series.name == entry.name)?)?));
            Line::new(entry.name.clone(), results.iter().filter_map(point).collect())
        };
        Figure {
            title: self.title.into(),
            notes: setup.environment.lines(),
            across: "message size, bytes".into(),
            has_table: false,
            up: if self.messages {
                "messages per second"
            } else {
                "bandwidth, MB/s"
            }
            .into(),
            lines: setup.entries.iter().map(line).collect(),
        }
    }
}

/// A row of the table.
fn cells(entries: &[Entry], job: &Job, all: &[Series]) -> Vec<String> {
    let find = |name: &str| all.iter().find(|series| series.name == name);
    let mut cells = vec![size::text(job.size)];
    for series in entries.iter().map(|entry| find(&entry.name)) {
        cells.push(number(series.and_then(bandwidth)));
        cells.push(number(series.and_then(rate)));
        cells.push(number(series.and_then(cpu)));
    }
    if let Some((ours, others)) = &ours_and_others(entries.iter())
        && let Some(ours) = find(&ours.name)
    {
        let ratio = |entry: &&Entry| ours.ratio(find(&entry.name)?, |round| round.messages_per_s);
        cells.extend(others.iter().map(|entry| number(ratio(entry))));
    }
    cells
}

/// Messages per second.
pub(crate) fn rate(series: &Series) -> Option<f64> {
    series.median(|round| round.messages_per_s)
}

/// 10^6 bytes per second.
pub(crate) fn bandwidth(series: &Series) -> Option<f64> {
    rate(series).map(|rate| rate * series.job.size as f64 / 1e6)
}

/// CPU time per message, both ends, µs.
pub(crate) fn cpu(series: &Series) -> Option<f64> {
    series.median(|round| (round.spoke_cpu + round.hub_cpu) / 1000.0)
}

/// This series' speed against that of all others.
pub(crate) fn ratios(series: &Series, all: &[Series]) -> BTreeMap<String, f64> {
    series
        .rivals(all)
        .filter_map(|other| Some((other.name.clone(), series.ratio(other, |round| round.messages_per_s)?)))
        .collect()
}

fn row(series: &Series, all: &[Series]) -> Option<Row> {
    let (transport, level) = level_of(&series.name);
    Some(Row {
        transport: transport.to_owned(),
        level: Some(level),
        size: Some(series.job.size),
        mb_per_s: Some(bandwidth(series)?),
        messages_per_s: Some(rate(series)?),
        cpu_us_per_message: cpu(series),
        lost_rounds: (series.lost() > 0).then(|| series.lost()),
        ratio: ratios(series, all),
        ..Row::default()
    })
}
