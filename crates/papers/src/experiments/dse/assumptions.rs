//! What the order of the ways depends on: the programs with most processors, where one assumption at a time is another.

use hikyaku_bench::{
    failure::Failure,
    report::{Group, Progress, Table, number},
};

use super::model::{Division, Dse, FEWER, Row, WAYS, mean};

/// An assumption, and how it is made another.
struct Assumption {
    name: &'static str,
    change: fn(&mut Dse),
    /// Whether Othello depends on it as well as SOR.
    othello: bool,
}

const fn assumption(name: &'static str, othello: bool, change: fn(&mut Dse)) -> Assumption {
    Assumption { name, change, othello }
}

const ASSUMPTIONS: [Assumption; 11] = [
    assumption("as assumed", true, |_| ()),
    assumption("messages are not answered", false, |options| options.one_way = true),
    assumption("not answered, and acknowledgements wait 100 ms", false, |options| {
        (options.one_way, options.ack_delay) = (true, 100.0);
    }),
    assumption("squares", false, |options| options.division = Division::Squares),
    assumption("squares, not answered", false, |options| {
        (options.division, options.one_way) = (Division::Squares, true);
    }),
    assumption("no interim results", false, |options| options.report = 0),
    assumption("the protocol's acknowledgements wait 1 ms", true, |options| {
        options.ack_delay = 1.0;
    }),
    assumption("the protocol's acknowledgements wait 100 ms", true, |options| {
        options.ack_delay = 100.0
    }),
    assumption("packets of the protocol cost what TCP's do", true, |options| {
        options.udp_packet = options.tcp_packet;
    }),
    assumption("TCP with Nagle's algorithm", true, |options| options.nagle = true),
    assumption("relays pass on at once", true, |options| options.relay = 0.0),
];

/// Waits of the protocol's acknowledgements, ms.
const WAITS: [usize; 9] = [0, 1, 5, 10, 15, 20, 30, 40, 100];
/// Times of a relay, us.
const RELAYS: [usize; 5] = [0, 60, 200, 500, 1_000];

/// Iterations between interim results.
const REPORTS: [usize; 8] = [1, 2, 3, 4, 5, 6, 10, 20];

/// Steps of the progress.
pub(super) const STEPS: usize = 2 * ASSUMPTIONS.len() + WAITS.len() + RELAYS.len() + REPORTS.len();

/// All ways of one program with most processors.
fn all(options: &Dse, othello: bool) -> Result<(u32, Vec<f64>), Failure> {
    let processors = options.processors.iter().copied().max().unwrap_or(1);
    let times = WAYS.map(|(_, way)| mean(options, way, processors, othello, FEWER));
    Ok((processors, times.into_iter().collect::<Result<_, _>>()?))
}

pub(super) fn rows(options: &Dse, progress: &mut Progress) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for (program, othello) in [("othello", true), ("sor", false)] {
        for assumption in ASSUMPTIONS {
            progress.step(assumption.name, 0);
            if othello && !assumption.othello {
                continue;
            }
            let mut changed = options.clone();
            (assumption.change)(&mut changed);
            let (processors, times) = all(&changed, othello)?;
            rows.extend(WAYS.iter().zip(&times).map(|((way, _), seconds)| Row::Assumption {
                program,
                assumption: assumption.name,
                way,
                processors,
                seconds: *seconds,
                place: 1 + times.iter().filter(|other| *other < seconds).count(),
            }));
        }
    }
    for (figure, values) in [
        ("acknowledgements", &WAITS[..]),
        ("relays", &RELAYS),
        ("reports", &REPORTS),
    ] {
        for &at in values {
            progress.step(figure, at);
            let mut changed = options.clone();
            match figure {
                "relays" => changed.relay = at as f64,
                "reports" => changed.report = at as u32,
                _ => changed.ack_delay = at as f64,
            }
            let (_, times) = all(&changed, false)?;
            rows.extend(WAYS.iter().zip(times).map(|((way, _), seconds)| Row::Sensitivity {
                figure,
                at,
                way,
                seconds,
            }));
        }
    }
    Ok(rows)
}

/// The points of a way in a figure.
pub(super) fn points(rows: &[Row], of: &str, by: &str) -> Vec<(usize, f64)> {
    let point = |row: &Row| match *row {
        // A scale of powers has no place for nothing.
        Row::Sensitivity {
            figure,
            at,
            way,
            seconds,
        } if figure == of && way == by => Some((at.max(1), seconds)),
        _ => None,
    };
    let mut points: Vec<_> = rows.iter().filter_map(point).collect();
    points.dedup_by_key(|(at, _)| *at);
    points
}

pub(super) fn table(rows: &[Row]) -> Table {
    let comments = vec![format!(
        "ms (and places) with most processors where one assumption is another, mean of {FEWER} seeds"
    )];
    let ways = WAYS.map(|(way, _)| way);
    let groups = vec![Group::new("", &["program", "assumption"]), Group::new("", &ways)];
    let mut table = Table::new(comments, groups);
    let assumed: Vec<_> = rows
        .iter()
        .filter(|row| matches!(row, Row::Assumption { .. }))
        .collect();
    for own in assumed.chunks(ways.len()) {
        let mut cells = Vec::new();
        for row in own {
            if let Row::Assumption {
                program,
                assumption,
                seconds,
                place,
                ..
            } = row
            {
                if cells.is_empty() {
                    cells.extend([(*program).to_owned(), (*assumption).to_owned()]);
                }
                cells.push(format!("{} ({place})", number(Some(seconds * 1e3))));
            }
        }
        table.row(cells);
    }
    table
}

/// Its place among [`WAYS`].
#[cfg(test)]
pub(super) fn places(options: &Dse, othello: bool) -> Vec<usize> {
    let (_, times) = all(options, othello).unwrap();
    times
        .iter()
        .map(|time| 1 + times.iter().filter(|other| *other < time).count())
        .collect()
}
