//! What is shown of the parts of `bench dse`.

use super::{
    plan::{Part, Plan},
    priority::About,
};
use crate::{
    benchmarks::streaming::{rate, ratios},
    harness::{
        rounds::{Series, headings},
        setup::Setup,
    },
    report::{Row, Table, number, size},
    transports::{
        settings::{Job, Operation},
        sizes::{CLASSES, draw, shares},
    },
};

const fn pattern_name(operation: Operation) -> &'static str {
    match operation {
        Operation::Stream => "burst",
        Operation::PingPong => "ping-pong",
    }
}

fn wall(series: &Series) -> Option<f64> {
    series.median(|round| round.wall / 1e6)
}

fn sender(series: &Series) -> Option<f64> {
    series.median(|round| round.spoke_cpu / 1000.0)
}

fn receiver(series: &Series) -> Option<f64> {
    series.median(|round| round.hub_cpu / 1000.0)
}

/// Percent of the drawn sizes in each class.
fn drawn(seed: u64, messages: usize) -> [f64; CLASSES.len()] {
    shares(&draw(seed, messages))
}

/// A row in JSON.
pub(super) fn row(part: Part, about: About, series: &Series, all: &[Series]) -> Option<Row> {
    let Job {
        size,
        mix,
        count,
        window,
        ..
    } = series.job;
    let part = match part {
        Part::HotSpot => "hot-spot",
        Part::Priority => "priority",
        _ if mix.is_some() => "mix",
        _ => "sizes",
    };
    Some(Row {
        transport: series.name.clone(),
        level: Some("transport"),
        part: Some(part),
        pattern: Some(pattern_name(series.job.operation)),
        priority: about.name,
        nice: about.nice,
        size: mix.is_none().then_some(size),
        seed: mix,
        shares: mix.map(|seed| drawn(seed, count * window)),
        senders: Some(series.job.spokes),
        wall_ms: Some(wall(series)?),
        messages_per_s: rate(series),
        sender_cpu_us_per_message: sender(series),
        receiver_cpu_us_per_message: receiver(series),
        lost_rounds: (series.lost() > 0).then(|| series.lost()),
        ratio: ratios(series, all),
        ..Row::default()
    })
}

/// The table of a part, without rows.
pub(super) fn table(plan: &Plan, setup: &Setup) -> Table {
    let messages = plan.messages;
    let title = match plan.part {
        Part::HotSpot => format!("hot spot: {messages} messages of all senders to one receiver"),
        Part::Priority => format!(
            "priority: a burst of {messages} messages, and a tenth of that as ping-pongs; the receiver shares its CPU with a \
             process that computes, and its priority is higher, equal or lower; nice values of both"
        ),
        _ => format!("hikyaku dse: {messages} messages of each sender, as one burst one way, and as ping-pongs"),
    };
    let mut comments = vec![title];
    comments.extend(setup.environment.lines());
    comments.push(format!(
        "{} rounds; wall: time of the whole, ms; snd, rcv: CPU time per message of the senders and of the \
         receiver, µs",
        setup.rounds
    ));
    if let Some(seed) = plan.jobs.iter().find_map(|job| job.mix) {
        let [tiny, small, medium, large, more] = drawn(seed, messages).map(|share| number(Some(share)));
        comments.push(format!(
            "mix: sizes drawn with seed {seed}: {tiny} % up to 16 B, {small} % up to 32 B, {medium} % up to 128 B, \
             {large} % up to 1024 B, {more} % up to 4096 B"
        ));
    }
    let first = match plan.part {
        Part::Priority => ["what", "priority", "nice"],
        _ => ["what", "senders", "Size"],
    };
    let (entries, columns) = (setup.entries.iter(), ["wall", "snd", "rcv"]);
    let mut table = Table::new(comments, headings(entries, &first, &columns, None));
    table.room(0, pattern_name(Operation::PingPong).len());
    table
}

/// A row of the table.
pub(super) fn cells(part: Part, about: About, job: &Job, all: &[Series]) -> Vec<String> {
    let mut cells = vec![pattern_name(job.operation).to_owned()];
    cells.extend(match part {
        Part::Priority => [
            about.name.unwrap_or_default().to_owned(),
            about
                .nice
                .map_or_else(|| "-".into(), |[own, other]| format!("{own}, {other}")),
        ],
        _ => [
            job.spokes.to_string(),
            job.mix.map_or_else(|| size::text(job.size), |_| "mix".into()),
        ],
    });
    for series in all {
        cells.extend([number(wall(series)), number(sender(series)), number(receiver(series))]);
    }
    cells
}
