//! A rail of a stream is cut in the middle, and comes back: how soon the others, and then all, carry what they can.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use super::{
    namespaces::{Namespaces, configure},
    node::Way,
    options::{Cut, Processes, Rails},
};
use crate::{
    failure::Failure,
    report::{Document, Group, Row, Table, emit, median, number, size},
};

/// From the first arrival to the cut, of which the last second counts.
const BEFORE: Duration = Duration::from_millis(2_500);
/// How long it is cut, and how long it is looked at when it is back.
const DURING: Duration = Duration::from_millis(2_500);
const AFTER: Duration = Duration::from_millis(3_500);
const SECOND: Duration = Duration::from_secs(1);
/// A rate is that of so long.
const WINDOW: Duration = Duration::from_millis(200);
/// This much of what the rails carry is all.
const ENOUGH: f64 = 0.95;

/// Bytes until a time.
type Arrivals = Vec<(Instant, f64)>;

/// What was seen of a cut.
#[derive(Clone, Copy)]
struct Seen {
    /// MB/s before, and with the others alone.
    before: f64,
    during: f64,
    /// Seconds from the cut until the others carry what they can, and from the return until all do. `None`: not while it
    /// was looked at.
    rest: Option<f64>,
    all: Option<f64>,
}

impl Cut {
    const fn name(self) -> &'static str {
        match self {
            Self::Link => "link",
            Self::Data => "data",
            Self::Answers => "answers",
            Self::Both => "both",
        }
    }

    fn switch(self, namespaces: &Namespaces, rail: usize, on: bool) -> Result<(), Failure> {
        let deaf: &[usize] = match self {
            Self::Link => {
                let state = if on { "down" } else { "up" };
                return configure("ip", &format!("-n {} link set eth{rail} {state}", namespaces.of(0)));
            }
            Self::Data => &[1],
            Self::Answers => &[0],
            Self::Both => &[0, 1],
        };
        for &node in deaf {
            let nft = |words: &str| configure("ip", &format!("netns exec {} nft {words}", namespaces.of(node)));
            if !on {
                nft("delete table netdev cut")?;
                continue;
            }
            nft("add table netdev cut")?;
            nft(&format!(
                "add chain netdev cut in {{ type filter hook ingress device eth{rail} priority 0 ; policy drop ; }}"
            ))?;
        }
        Ok(())
    }
}

/// Bytes a second from `from` to `to`.
fn rate(arrivals: &Arrivals, from: Instant, to: Instant) -> f64 {
    let until = |time: Instant| {
        let behind = arrivals.partition_point(|(at, _)| *at <= time);
        behind.checked_sub(1).map_or(0.0, |last| arrivals[last].1)
    };
    (until(to) - until(from)) / (to - from).as_secs_f64()
}

/// Seconds from `from` until the rate is at least `wanted`, from one arrival to another.
fn reaches(arrivals: &Arrivals, from: Instant, to: Instant, wanted: f64) -> Option<f64> {
    let within = arrivals.iter().map(|(at, _)| *at).filter(|at| (from..to).contains(at));
    let times: Vec<Instant> = within.collect();
    let is_enough = |at: &Instant| {
        let end = times.iter().find(|end| **end >= *at + WINDOW);
        end.is_some_and(|end| rate(arrivals, *at, *end) >= wanted)
    };
    times
        .iter()
        .find(|at| is_enough(at))
        .map(|at| (*at - from).as_secs_f64())
}

/// Cuts rail `victim` of one stream as often as the options say.
fn stream(
    options: &Rails,
    namespaces: &Namespaces,
    way: Way,
    [rails, victim]: [u32; 2],
    cut: Cut,
) -> Result<Vec<Seen>, Failure> {
    let failed = || Failure::run(format!("{} by {rails} rails: a process failed", way.name()));
    let mut processes = Processes(Vec::new());
    processes
        .0
        .push(options.start(namespaces, way, rails, 1, Stdio::piped())?);
    let out = processes.0[0].stdout.take().ok_or_else(failed)?;
    let (told, heard) = mpsc::channel();
    let reader = thread::spawn(move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            if told.send((Instant::now(), line)).is_err() {
                return;
            }
        }
    });
    heard.recv().map_err(|_| failed())?;
    processes
        .0
        .push(options.start(namespaces, way, rails, 0, Stdio::null())?);
    let mut arrivals = Arrivals::new();
    let mut listen = |until: Instant| -> Result<Arrivals, Failure> {
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            match heard.recv_timeout(left) {
                Ok((at, line)) => arrivals.push((at, line.parse().map_err(|_| failed())?)),
                Err(mpsc::RecvTimeoutError::Timeout) => break,
                Err(mpsc::RecvTimeoutError::Disconnected) => return Err(failed()),
            }
        }
        Ok(arrivals.clone())
    };
    let victim = victim as usize;
    listen(Instant::now() + BEFORE)?;
    let (mut cuts, mut all_arrivals) = (Vec::new(), Arrivals::new());
    for _ in 0..options.cuts {
        cut.switch(namespaces, victim, true)?;
        let at = Instant::now();
        listen(at + DURING)?;
        cut.switch(namespaces, victim, false)?;
        let back = Instant::now();
        all_arrivals = listen(back + AFTER)?;
        cuts.push((at, back));
    }
    processes.0.iter_mut().for_each(|child: &mut Child| _ = child.kill());
    drop(processes);
    reader.join().map_err(|_| failed())?;
    let rates = options.rates_of(rails);
    let all: u32 = rates.iter().sum();
    let seen = |(at, back): (Instant, Instant)| {
        let before = rate(&all_arrivals, at - SECOND, at);
        let others = before * f64::from(all - rates[victim]) / f64::from(all);
        Seen {
            before: before / 1e6,
            during: rate(&all_arrivals, back - SECOND, back) / 1e6,
            rest: reaches(&all_arrivals, at, back, ENOUGH * others),
            all: reaches(&all_arrivals, back, back + AFTER, ENOUGH * before),
        }
    };
    Ok(cuts.into_iter().map(seen).collect())
}

/// Measures and prints.
pub(super) fn run(options: &Rails, cuts: &[Cut]) -> Result<(), Failure> {
    let most = options.rails.iter().copied().max().unwrap_or(2).max(2);
    let victim = options.cut_rail.unwrap_or(most - 1);
    if victim >= most {
        return Err(Failure::usage(format!(
            "--cut-rail {victim}: there are {most} rails, counted from 0"
        )));
    }
    let namespaces = Namespaces::new(2, &options.rates_of(most), options.mtu)?;
    let comments = vec![format!(
        "hikyaku rails: rail {victim} of {most} rails, from 0, of {:?} Mbit/s, is cut and comes back; seconds until 0.95 of what the others, \
         and then all, carry; MTU {}, messages of {}, {} rounds, cut {} times in each: the longest",
        options.rates,
        options.mtu,
        size::text(options.size),
        options.rounds,
        options.cuts
    )];
    let groups = vec![
        Group::new("", &["cut", "level"]),
        Group::new("MB/s", &["before", "during"]),
        Group::new("s until", &["the others", "all"]),
    ];
    let mut table = Table::new(comments, groups);
    let mut document = Document::new("rails", None);
    let longest = |times: Vec<Option<f64>>| times.into_iter().try_fold(0.0_f64, |most, time| Some(most.max(time?)));
    for &cut in cuts {
        for way in options.ways().into_iter().filter(|way| *way != Way::Udp) {
            let rounds = (0..options.rounds).map(|_| stream(options, &namespaces, way, [most, victim], cut));
            let seen = rounds.collect::<Result<Vec<_>, Failure>>()?.concat();
            let middle = |value: fn(&Seen) -> f64| median(&seen.iter().map(value).collect::<Vec<_>>());
            let (before, during) = (middle(|seen| seen.before), middle(|seen| seen.during));
            let rest = longest(seen.iter().map(|seen| seen.rest).collect());
            let all = longest(seen.iter().map(|seen| seen.all).collect());
            let mut cells = vec![cut.name().to_owned(), way.name().to_owned()];
            cells.extend([before, during, rest, all].map(number));
            table.row(cells);
            document.rows.push(Row {
                transport: way.transport().into(),
                level: Some(way.name()),
                pattern: Some(cut.name()),
                size: Some(options.size),
                rails: Some(most as usize),
                rounds: Some(options.rounds as usize),
                cuts: Some(options.cuts as usize),
                mb_per_s: before,
                ratio: [("during", during.zip(before).map(|(during, before)| during / before))]
                    .into_iter()
                    .filter_map(|(name, ratio)| Some((name.to_owned(), ratio?)))
                    .collect(),
                others_s: rest,
                all_s: all,
                ..Row::default()
            });
        }
    }
    emit(&options.output, &document, &[table], None)
}
