//! Where the time went.

use std::collections::BTreeMap;

use hikyaku_bench::{
    report::{Group, Table, number},
    traces::Trace,
};
use serde::Serialize;

/// One call, over all ranks.
#[derive(Clone, Debug, Serialize)]
struct Row {
    call: String,
    /// How often, looks that found nothing included.
    count: u64,
    /// Calls that failed.
    errors: u64,
    bytes: u64,
    total_ms: f64,
    median_us: f64,
    max_us: f64,
    /// Part of the run time of all ranks.
    share: f64,
}

/// All calls, the longest first.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Summary {
    /// Ranks whose traces there are …
    ranks: usize,
    /// … of so many.
    size: u32,
    /// Run time of all ranks together.
    run_ms: f64,
    calls: Vec<Row>,
    /// Part of the run time outside of MPI. (Threads that call at the same time count each.)
    outside: f64,
}

impl Summary {
    pub(super) fn new(traces: &[Trace]) -> Self {
        let run: u64 = traces.iter().map(Trace::run_time).sum();
        let share = |nanos: u64| nanos as f64 / run.max(1) as f64;
        let mut by_name: BTreeMap<&str, Vec<_>> = BTreeMap::new();
        for call in traces.iter().flat_map(|trace| &trace.calls) {
            by_name.entry(&call.call).or_default().push(call);
        }
        let mut rows = Vec::new();
        let mut inside = 0_u64;
        for (name, calls) in by_name {
            let mut times: Vec<u64> = calls.iter().map(|call| call.nanos()).collect();
            times.sort_unstable();
            let total = times.iter().sum();
            inside += total;
            rows.push((
                total,
                Row {
                    call: name.to_owned(),
                    count: calls.iter().map(|call| call.looks + 1).sum(),
                    errors: calls.iter().filter(|call| call.error.is_some()).count() as u64,
                    bytes: calls.iter().map(|call| call.volume()).sum(),
                    total_ms: total as f64 / 1e6,
                    median_us: median(&times) / 1e3,
                    max_us: times.last().copied().unwrap_or(0) as f64 / 1e3,
                    share: share(total),
                },
            ));
        }
        rows.sort_by_key(|(total, _)| std::cmp::Reverse(*total));
        Self {
            ranks: traces.len(),
            size: traces.first().map_or(0, |trace| trace.header.size),
            run_ms: run as f64 / 1e6,
            calls: rows.into_iter().map(|(_, row)| row).collect(),
            outside: share(run.saturating_sub(inside)),
        }
    }

    pub(super) fn table(&self) -> String {
        let comment = format!(
            "{} of {} ranks, {} ms of run time together",
            self.ranks,
            self.size,
            number(Some(self.run_ms))
        );
        let groups = vec![
            Group::new("", &["call"]),
            Group::new("", &["count", "errors", "bytes"]),
            Group::new("", &["total ms", "median us", "max us"]),
            Group::new("", &["share %"]),
        ];
        let mut table = Table::new(vec![comment], groups);
        let percent = |share: f64| format!("{:.2}", share * 100.0);
        for row in &self.calls {
            table.row(vec![
                row.call.clone(),
                row.count.to_string(),
                row.errors.to_string(),
                row.bytes.to_string(),
                number(Some(row.total_ms)),
                number(Some(row.median_us)),
                number(Some(row.max_us)),
                percent(row.share),
            ]);
        }
        let dash = || "-".to_owned();
        let outside = number(Some(self.outside * self.run_ms));
        table.row(vec![
            "(outside of MPI)".to_owned(),
            dash(),
            dash(),
            dash(),
            outside,
            dash(),
            dash(),
            percent(self.outside),
        ]);
        table.render()
    }

    pub(super) fn json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_else(|error| unreachable!("numbers and names: {error}"))
    }
}

/// Of times in their order.
fn median(times: &[u64]) -> f64 {
    match times.len() {
        0 => 0.0,
        len if len % 2 == 1 => times[len / 2] as f64,
        len => (times[len / 2 - 1] + times[len / 2]) as f64 / 2.0,
    }
}
