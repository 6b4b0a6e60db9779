//! `sim optical`: collectives on circuit-switched optics, by the formulas of S3.3 and by running their schedules.

use clap::Args;
use hikyaku::{
    mpi::collectives::{Algorithm, Blocks, Call, Schedule},
    sim::circuits::{self, Circuits, Handling},
};
use serde::Serialize;

use crate::{
    args::Output,
    bench::{
        output::emit,
        plot::{Figure, Line},
        rounds::Progress,
        table::{Group, Table, number},
    },
    failure::Failure,
};

/// Options. Defaults are those of the paper.
#[derive(Clone, Debug, Args)]
pub(crate) struct Optical {
    /// Ranks of the figures
    #[arg(long, default_value_t = 32, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=4_096))]
    ranks: u32,
    /// Connections that a node can have at a time, one curve each
    #[arg(long, value_delimiter = ',', default_value = "2,3,4", value_name = "LIST", value_parser = clap::value_parser!(u32).range(1..=1_024))]
    ports: Vec<u32>,
    /// Milliseconds to set up a connection and tear it down: gamma
    #[arg(long, default_value_t = 10.0, value_name = "MS")]
    setup: f64,
    /// Milliseconds per message: alpha
    #[arg(long, default_value_t = 0.1, value_name = "MS")]
    latency: f64,
    /// Bits per second: 8 / beta
    #[arg(long, default_value_t = 1e9, value_name = "BITS")]
    bandwidth: f64,
    /// What comes out.
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Serialize)]
struct Document {
    experiment: &'static str,
    rows: Vec<Row>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Row {
    Figure(Point),
    Ft(FtRow),
}

#[derive(Clone, Debug, Serialize)]
struct Point {
    figure: u32,
    algorithm: &'static str,
    mode: &'static str,
    ports: Option<u32>,
    bytes: usize,
    closed_form_s: f64,
    simulated_s: f64,
}

#[derive(Clone, Debug, Serialize)]
struct FtRow {
    table: &'static str,
    mode: &'static str,
    ports: Option<u32>,
    release: bool,
    seconds: f64,
    ratio_to_ideal: f64,
    paper_ratio: f64,
    above_ideal_s: f64,
    paper_above_ideal_s: f64,
}

/// A way to handle connections, by the contract's name.
#[derive(Clone, Copy, Debug)]
struct Mode {
    name: &'static str,
    ports: Option<u32>,
    handling: Handling,
}

impl Mode {
    fn all(ports: &[u32]) -> Vec<Self> {
        let naive = Self {
            name: "naive",
            ports: None,
            handling: Handling::Naive,
        };
        let ideal = Self {
            name: "ideal",
            ports: None,
            handling: Handling::Ideal,
        };
        let planned = ports.iter().map(|&ports| Self {
            name: "planned",
            ports: Some(ports),
            handling: Handling::Planned,
        });
        [naive].into_iter().chain(planned).chain([ideal]).collect()
    }

    /// How a column or a curve is called.
    fn label(&self) -> String {
        self.ports
            .map_or_else(|| self.name.into(), |ports| format!("{ports} ports"))
    }

    fn on(&self, options: &Optical) -> Circuits {
        Circuits {
            ports: self.ports.unwrap_or(1) as usize,
            alpha: options.latency * 1e-3,
            beta: 8.0 / options.bandwidth,
            setup: options.setup * 1e-3,
        }
    }
}

/// The algorithms of figures 6 to 9.
const FIGURES: [(u32, &str, Algorithm); 4] = [
    (6, "linear", Algorithm::Linear),
    (7, "ring", Algorithm::Ring),
    (8, "recursive doubling", Algorithm::RecursiveDoubling),
    (9, "binomial", Algorithm::Knomial { radix: 2 }),
];

/// S3.3, for `p` ranks and `n` octets.
fn closed_form(algorithm: Algorithm, p: u32, n: f64, mode: &Mode, network: &Circuits) -> f64 {
    let Circuits { alpha, beta, setup, .. } = *network;
    let others = f64::from(p - 1);
    let log = f64::from(p).log2().ceil();
    let share = n / f64::from(p);
    // Time without connections, and how many are set up one after the other: for each message, or for `peers` of them.
    let (transfer, messages, peers) = match algorithm {
        Algorithm::Linear => (others * (alpha + n * beta), others, others),
        Algorithm::Ring => (others * (alpha + share * beta), others, 2.0),
        Algorithm::RecursiveDoubling => (log * alpha + others * share * beta, log, log),
        _ => (log * (alpha + n * beta), log, log),
    };
    match (mode.handling, algorithm) {
        (Handling::Ideal, _) => transfer,
        // Even ranks send first, then odd ones.
        (Handling::Naive, Algorithm::Ring) => 2.0 * (transfer + messages * setup),
        (Handling::Planned, Algorithm::Ring) if network.ports == 1 => 2.0 * (transfer + messages * setup),
        (Handling::Naive, _) => transfer + messages * setup,
        (Handling::Planned, _) => transfer + (peers / network.ports as f64).ceil() * setup,
    }
}

fn schedules(call: &Call<'_>, size: u32, algorithm: Algorithm) -> Result<Vec<Schedule>, Failure> {
    let of = |rank| call.schedule(rank as usize, size as usize, algorithm);
    let all: Result<Vec<_>, _> = (0..size).map(of).collect();
    all.map_err(|error| Failure::run(format!("{algorithm} of {size} ranks: {error}")))
}

fn ran(schedules: &[Schedule], element: usize, network: &Circuits, mode: &Mode) -> Result<f64, Failure> {
    let time = circuits::run(schedules, element, network, mode.handling);
    time.map_err(|error| Failure::run(format!("{}: {error}", mode.label())))
}

fn figures(options: &Optical, modes: &[Mode]) -> Result<Vec<Point>, Failure> {
    let p = options.ranks as usize;
    let mut progress = Progress::new(options.output.progress, FIGURES.len() * 7);
    let mut points = Vec::new();
    for (figure, name, algorithm) in FIGURES {
        for power in 0..=6 {
            let bytes = 10_usize.pow(power);
            progress.step(name, bytes);
            // The total of an allgather may not be divisible by the ranks. So an element stands for the share, which need
            // not be whole: what is linear in it is put in through beta.
            let gathers = figure == 7 || figure == 8;
            let (call, beta) = if gathers {
                let blocks = Blocks::Even { count: 1 };
                let call = Call::Allgather {
                    input: 1,
                    output: blocks,
                    in_place: false,
                };
                (call, bytes as f64 / p as f64)
            } else {
                (Call::Bcast { root: 0, count: 1 }, bytes as f64)
            };
            let schedules = schedules(&call, options.ranks, algorithm)?;
            for mode in modes {
                let network = mode.on(options);
                let scaled = Circuits {
                    beta: network.beta * beta,
                    ..network
                };
                points.push(Point {
                    figure,
                    algorithm: name,
                    mode: mode.name,
                    ports: mode.ports,
                    bytes,
                    closed_form_s: closed_form(algorithm, options.ranks, bytes as f64, mode, &network),
                    simulated_s: ran(&schedules, 1, &scaled, mode)?,
                });
            }
        }
    }
    Ok(points)
}

/// The paper's seconds for NPB FT class A on 16 ranks (S3.5): naive, 2, 3 and 4 ports, ideal.
const PAPER: [f64; 5] = [2.67, 2.33, 2.33, 2.16, 1.82];
const PAPER_IDEAL: f64 = 1.82;
const FT_RANKS: u32 = 16;
/// Octets that each rank sends to each other one: 256 × 256 × 128 complex numbers of 16 octets.
const FT_BLOCK: usize = 256 * 256 * 128 * 16 / (FT_RANKS as usize * FT_RANKS as usize);

/// Seconds that the collectives of FT take, and how many there are.
fn ft_collectives(options: &Optical, mode: &Mode) -> Result<(f64, f64), Failure> {
    let blocks = Blocks::Even { count: 1 };
    let alltoall = Call::Alltoall {
        input: blocks,
        output: blocks,
        in_place: false,
    };
    let reduce = Call::Reduce {
        root: 0,
        count: 1,
        commutative: true,
        in_place: false,
    };
    let binomial = Algorithm::Knomial { radix: 2 };
    let calls = [
        (8.0, alltoall, Algorithm::RecursiveDoubling, FT_BLOCK),
        (1.0, Call::Barrier, Algorithm::RecursiveDoubling, 1),
        // Parameters: some numbers; sums: a complex one.
        (2.0, Call::Bcast { root: 0, count: 1 }, binomial, 16),
        (6.0, reduce, binomial, 16),
    ];
    let network = mode.on(options);
    let (mut seconds, mut count) = (0.0, 0.0);
    for (times, call, algorithm, octets) in calls {
        seconds += times * ran(&schedules(&call, FT_RANKS, algorithm)?, octets, &network, mode)?;
        count += times;
    }
    Ok((seconds, count))
}

/// FT with the processor time that makes the ideal network take what the paper says. The paper has values for 2, 3 and 4
/// ports only.
fn ft(options: &Optical) -> Result<Vec<FtRow>, Failure> {
    let modes = Mode::all(&[2, 3, 4]);
    let (ideal, _) = ft_collectives(options, &modes[4])?;
    let mut rows = Vec::new();
    for release in [false, true] {
        for (mode, paper) in modes.iter().zip(PAPER) {
            let (mut above, count) = ft_collectives(options, mode)?;
            above -= ideal;
            if release && mode.handling != Handling::Ideal {
                above += count * options.setup * 1e-3;
            }
            rows.push(FtRow {
                table: "ft",
                mode: mode.name,
                ports: mode.ports,
                release,
                seconds: PAPER_IDEAL + above,
                ratio_to_ideal: (PAPER_IDEAL + above) / PAPER_IDEAL,
                paper_ratio: paper / PAPER_IDEAL,
                above_ideal_s: above,
                paper_above_ideal_s: paper - PAPER_IDEAL,
            });
        }
    }
    Ok(rows)
}

fn figure_table(points: &[Point], modes: &[Mode], options: &Optical) -> Vec<Table> {
    let labels: Vec<String> = modes.iter().map(Mode::label).collect();
    let columns: Vec<&str> = labels.iter().map(String::as_str).collect();
    let table = |(figure, name, _): &(u32, &str, Algorithm)| {
        let comment = format!("Figure {figure}: {name}, {} ranks, seconds", options.ranks);
        let groups = vec![
            Group::new("", &["bytes"]),
            Group::new("closed form", &columns),
            Group::new("simulated", &columns),
        ];
        let mut table = Table::new(vec![comment], groups);
        let own: Vec<&Point> = points.iter().filter(|point| point.figure == *figure).collect();
        for row in own.chunks(modes.len()) {
            let mut cells = vec![row[0].bytes.to_string()];
            cells.extend(row.iter().map(|point| format!("{:.4}", point.closed_form_s)));
            cells.extend(row.iter().map(|point| format!("{:.4}", point.simulated_s)));
            table.row(cells);
        }
        table
    };
    FIGURES.iter().map(table).collect()
}

fn ft_table(rows: &[FtRow]) -> Table {
    let comments = vec![
        "NPB FT class A on 16 ranks; processor time as on the paper's ideal network (1.82 s in all)".to_owned(),
        "release: the connections of one collective are released before the next one opens its own".to_owned(),
    ];
    let groups = vec![
        Group::new("", &["mode", "release"]),
        Group::new("simulated", &["s", "above ideal", "ratio"]),
        Group::new("paper", &["above ideal", "ratio"]),
    ];
    let mut table = Table::new(comments, groups);
    for row in rows {
        let text = |value| number(Some(value));
        let mode = row
            .ports
            .map_or_else(|| row.mode.to_owned(), |ports| format!("{ports} ports"));
        table.row(vec![
            mode,
            if row.release { "yes" } else { "no" }.into(),
            text(row.seconds),
            text(row.above_ideal_s),
            text(row.ratio_to_ideal),
            text(row.paper_above_ideal_s),
            text(row.paper_ratio),
        ]);
    }
    table
}

/// Runs and prints.
pub(super) fn run(options: &Optical) -> Result<(), Failure> {
    let positive = |name: &str, value: f64| {
        let valid = value.is_finite() && value > 0.0;
        valid
            .then_some(())
            .ok_or_else(|| Failure::usage(format!("--{name} must be more than 0")))
    };
    positive("bandwidth", options.bandwidth)?;
    positive("latency", options.latency)?;
    positive("setup", options.setup)?;
    let modes = Mode::all(&options.ports);
    let points = figures(options, &modes)?;
    let rows = ft(options)?;
    let mut tables = figure_table(&points, &modes, options);
    tables.push(ft_table(&rows));
    let mut lines = Vec::new();
    for (figure, name, _) in FIGURES {
        for mode in [&modes[0], &modes[1], &modes[modes.len() - 1]] {
            let own = points
                .iter()
                .filter(|point| (point.figure, point.mode, point.ports) == (figure, mode.name, mode.ports));
            lines.push(Line {
                name: format!("{name}, {}", mode.label()),
                points: own.map(|point| (point.bytes, point.simulated_s)).collect(),
            });
        }
    }
    let figure = Figure {
        title: format!("Collectives of {} ranks on circuit-switched optics", options.ranks),
        across: "octets".into(),
        up: "s".into(),
        lines,
    };
    let all = points.into_iter().map(Row::Figure).chain(rows.into_iter().map(Row::Ft));
    let document = Document {
        experiment: "optical",
        rows: all.collect(),
    };
    emit(&options.output, &document, &tables, Some(&figure))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Optical,
    }

    fn defaults() -> Optical {
        Line::parse_from(["optical"]).options
    }

    #[test]
    fn formulas_and_schedules_agree() {
        let options = defaults();
        let points = figures(&options, &Mode::all(&[1, 2, 3, 4])).unwrap();
        assert_eq!(points.len(), 4 * 7 * 6);
        for point in points {
            let ratio = point.simulated_s / point.closed_form_s;
            assert!((0.98..1.02).contains(&ratio), "{point:?}");
        }
    }

    #[test]
    fn ft_is_as_far_above_the_ideal_as_the_paper_says() {
        for row in ft(&defaults()).unwrap() {
            let expected = match (row.release, row.mode, row.ports) {
                (_, "ideal", _) => 0.0,
                (true, ..) => row.paper_above_ideal_s,
                (false, "naive", _) => 0.68,
                (false, _, Some(4)) => 0.17,
                (false, ..) => 0.34,
            };
            assert!(
                (row.above_ideal_s - expected).abs() <= 0.05 * expected + 1e-9,
                "{row:?}"
            );
        }
    }
}
