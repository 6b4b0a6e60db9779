//! `bench rails`: several Ethernets as one. Processes, each in a network namespace, with several Ethernets between them: bare
//! UDP on all of them at once, the transport, and MPI. Two of them, one of which sends; or eight that are a grid, in which
//! each swaps messages with its neighbours.

mod cut;
mod exchange;
mod latency;
mod mpi;
mod namespaces;
mod node;
mod options;
mod sockets;

use std::{
    io::{BufRead, BufReader},
    process::Stdio,
    time::Duration,
};

pub(crate) use self::options::Rails;
use self::{
    namespaces::{NODES, Namespaces},
    node::{End, Way},
    options::Processes,
};
use crate::{
    failure::{Failure, While},
    report::{Document, Figure, Group, Line, Progress, Row, Table, emit, median, number, size},
};

/// The end of `--help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  hikyaku bench rails                                   one and two rails of 1 Gbit/s
  hikyaku bench rails --rails 1,2 --rates 1000,100      a quick one and a slow one
  hikyaku bench rails --rails 1,2,3,4,5,6 --rates 200 --plot rails.svg
  hikyaku bench rails --cut link,data,answers,both --size 1M --rounds 3
  hikyaku bench rails --cut both --cuts 5 --rounds 1    again and again in one stream
  hikyaku bench rails --cut link --cut-rail 0            the first rail and not the last
  hikyaku bench rails --latency --rails 1,2 --rates 1000,100
  hikyaku bench rails --grid 3 --rails 2,4,6 --rates 50 --level transport,mpi,arrays

Needs root, iproute2, and the kernel's veth and tbf. Messages go one way, or between the \
neighbours of a grid of eight nodes: 8, 4x2, or 2x2x2. `udp` is as many datagrams as the sockets take, \
on all rails at once, by the same sockets; `transport` and `mpi` are messages of --size bytes, four under way.";

/// The paper's only figures, for the table beside which they belong.
const PAPER: &str = "PACS-CS paper: six rails of 1 Gbit/s, 3-D, 1403 MB/s at the level of PM (0.935 of the wires) and \
                     about 630 through MPI (0.45 of that)";

/// The same for programs.
fn paper() -> Vec<Row> {
    let row = |level, mb_per_s, to: &str, ratio| Row {
        transport: "PACS-CS paper".to_owned(),
        level: Some(level),
        pattern: Some("3-D"),
        rails: Some(6),
        mb_per_s: Some(mb_per_s),
        ratio: [(to.to_owned(), ratio)].into(),
        ..Row::default()
    };
    vec![row("pm", 1403.0, "wires", 0.935), row("mpi", 630.0, "pm", 0.45)]
}

impl Rails {
    /// Bytes a second by this many rails; with `--latency`, round trips.
    fn once(&self, namespaces: &Namespaces, way: Way, rails: u32) -> Result<f64, Failure> {
        let mut processes = Processes(Vec::new());
        let start = |node: usize, stdout: Stdio| self.start(namespaces, way, rails, node, stdout);
        if self.grid.is_some() {
            for node in 0..NODES {
                processes.0.push(start(node, Stdio::piped())?);
            }
            let mut sum = 0.0;
            for (node, process) in processes.0.iter_mut().enumerate() {
                let failed = || Failure::run(format!("{} by {rails} rails: node {node} failed", way.name()));
                let lines = process.stdout.take().map(|out| BufReader::new(out).lines());
                let rate = lines.and_then(|mut lines| lines.nth(1)?.ok()).ok_or_else(failed)?;
                sum += rate.parse::<f64>().map_err(|_| failed())?;
            }
            // What goes out of one node goes into another.
            return Ok(2.0 * sum / NODES as f64);
        }
        processes.0.push(start(1, Stdio::piped())?);
        let mut lines = match processes.0[0].stdout.take() {
            Some(out) => BufReader::new(out).lines(),
            None => return Err(Failure::run("the receiver has no output".to_owned())),
        };
        let failed = || Failure::run(format!("{} by {rails} rails: the receiver failed", way.name()));
        let mut next = || lines.next().and_then(Result::ok).ok_or_else(failed);
        next()?;
        processes.0.push(start(0, Stdio::null())?);
        next()?.parse().map_err(|_| failed())
    }
}

/// Measures and prints.
pub(crate) fn run(options: &Rails) -> Result<(), Failure> {
    if let (Some(number), &[way], &[rails]) = (options.node, &options.level[..], &options.rails[..]) {
        let end = End {
            number,
            rails: rails as usize,
            dimensions: options.grid.unwrap_or(0).into(),
            size: options.size,
            time: Duration::from_millis(options.time),
            tells: options.tell,
        };
        let played = match way {
            _ if options.grid.is_some() => end.swap(way),
            _ if options.latency => end.answer(way),
            Way::Udp => end.play_udp(),
            Way::Transport => end.play_transport(),
            Way::Mpi | Way::Arrays => mpi::play(&end),
        };
        return played.or_fail("a process");
    }
    if !options.cut.is_empty() {
        return cut::run(options, &options.cut);
    }
    let most = options.rails.iter().copied().max().unwrap_or(1);
    let namespaces = Namespaces::new(options.nodes(), &options.rates_of(most), options.mtu)?;
    let ways = &options.ways();
    let steps = ways.len() * options.rails.len() * options.rounds as usize;
    let mut progress = Progress::new(options.output.progress, steps);
    let mut rates = vec![vec![Vec::new(); ways.len()]; options.rails.len()];
    for round in 0..options.rounds as usize {
        for (&rails, rates) in options.rails.iter().zip(&mut rates) {
            for step in 0..ways.len() {
                let index = (round + step) % ways.len();
                progress.step(ways[index].name(), options.size);
                rates[index].push(options.once(&namespaces, ways[index], rails)? / 1e6);
            }
        }
    }
    drop(progress);
    if options.latency {
        return latency::report(options, &rates);
    }
    report(options, &rates)
}

/// `rates`: MB/s by number of rails, by way, by round.
fn report(options: &Rails, rates: &[Vec<Vec<f64>>]) -> Result<(), Failure> {
    let what = match options.grid {
        None => "one way".to_owned(),
        Some(grid) => format!("in and out of each of {NODES} nodes of a {grid}-dimensional grid"),
    };
    let mut comments = vec![format!(
        "hikyaku rails: MB/s {what}, MTU {}, messages of {}, rails of {:?} Mbit/s, median of {} rounds",
        options.mtu,
        size::text(options.size),
        options.rates,
        options.rounds
    )];
    if options.grid == Some(3) {
        comments.push(PAPER.to_owned());
    }
    let ways = options.ways();
    let names: Vec<&str> = ways.iter().map(|way| way.name()).collect();
    let to_udp: Vec<String> = names[1..].iter().map(|name| format!("{name}/udp")).collect();
    let to_udp: Vec<&str> = to_udp.iter().map(String::as_str).collect();
    let groups = vec![
        Group::new("", &["rails"]),
        Group::new("MB/s", &names),
        Group::new("", &to_udp),
    ];
    let mut table = Table::new(comments.clone(), groups);
    let mut document = Document::new("rails", None);
    if options.grid == Some(3) {
        document.paper = paper();
    }
    let mut lines: Vec<Line> = names.iter().map(|name| Line::new(*name, Vec::new())).collect();
    for (&rails, rates) in options.rails.iter().zip(rates) {
        let middle: Vec<Option<f64>> = rates.iter().map(|rates| median(rates)).collect();
        let ratio_of = |index: usize| {
            let of_rounds = rates[index].iter().zip(&rates[0]).map(|(rate, udp)| rate / udp);
            median(&of_rounds.collect::<Vec<_>>())
        };
        let ratios: Vec<Option<f64>> = (0..middle.len()).map(ratio_of).collect();
        let mut cells = vec![rails.to_string()];
        cells.extend(middle.iter().chain(&ratios[1..]).map(|value| number(*value)));
        table.row(cells);
        for (index, way) in ways.iter().enumerate() {
            if let Some(rate) = middle[index] {
                lines[index].points.push((rails as usize, rate));
            }
            document.rows.push(Row {
                transport: way.transport().into(),
                level: (*way != Way::Udp).then(|| way.name()),
                size: Some(options.size),
                np: options.grid.map(|_| NODES),
                pattern: options.grid.map(|grid| ["1-D", "2-D", "3-D"][usize::from(grid) - 1]),
                rails: Some(rails as usize),
                rounds: Some(options.rounds as usize),
                mb_per_s: middle[index],
                ratio: ratios[index]
                    .map(|ratio| ("udp".to_owned(), ratio))
                    .into_iter()
                    .collect(),
                ..Row::default()
            });
        }
    }
    let figure = Figure {
        title: "Several Ethernets as one".to_owned(),
        notes: comments,
        across: "rails".to_owned(),
        has_table: false,
        up: "MB/s".to_owned(),
        lines,
    };
    emit(&options.output, &document, &[table], Some(&figure))
}
