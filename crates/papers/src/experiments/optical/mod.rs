//! `sim optical`: collectives on circuit-switched optics, by the formulas of the optics paper and by running them
//! (`docs/papers.md`).

pub(crate) mod change;
mod ft;
mod model;

use clap::Args;
use hikyaku::{
    mpi::collectives::{Algorithm, Collective},
    sim::Change,
};
use serde::Serialize;

pub(crate) use self::model::circuits;
use self::model::{Mode, Parameters, closed_form, simulation};
use hikyaku_bench::{
    failure::Failure,
    report::{Figure, Group, Line, Progress, Table, emit},
};

use crate::{
    options::Basics,
    replay::{self, Step, replay},
};

/// Options. Defaults are those of the optics paper, section 4.1.
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
    /// Each set-up takes a time drawn evenly from --setup minus this many milliseconds to --setup plus as many; 10 with
    /// the default --setup: 10 ms on average, 20 at most, as the paper says of its switches
    #[arg(long, default_value_t = 0.0, value_name = "MS")]
    spread: f64,
    /// Milliseconds per message: alpha
    #[arg(long, default_value_t = 0.1, value_name = "MS")]
    latency: f64,
    /// Bits per second: 8 / beta
    #[arg(long, default_value_t = 1e9, value_name = "BITS")]
    bandwidth: f64,
    /// Connections that the whole network can have at a time [default: as many as wanted]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    wavelengths: Option<u32>,
    /// The part of set-ups that fail, from 0 to 0.99
    #[arg(long, default_value_t = 0.0, value_name = "P")]
    failure: f64,
    /// Ports or wavelengths from a time of each run on, as in 5ms:ports=1, 5ms:ports@3=0 (host 3) or
    /// 20ms:wavelengths=40; may be given again
    #[arg(long, value_name = "TIME:WHAT=N", value_parser = change::parse)]
    change: Vec<Change>,
    /// Blocks and bandwidth of NPB FT are divided by this, which leaves the model's times as they are (at 1,024
    /// within 6 %); 1: all 2 GB are sent
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4_096))]
    ft_scale: u32,
    /// Without the table of NPB FT
    #[arg(long)]
    figures_only: bool,
    #[command(flatten)]
    pub(super) basics: Basics,
}

#[derive(Debug, Serialize)]
struct Document {
    experiment: &'static str,
    seed: u64,
    rows: Vec<Row>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Row {
    Figure(Point),
    Ft(ft::Row),
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
    set_ups: u64,
}

/// The algorithms of figures 6 to 9.
const FIGURES: [(u32, &str, Algorithm); 4] = [
    (6, "linear", Algorithm::Linear),
    (7, "ring", Algorithm::Ring),
    (8, "recursive doubling", Algorithm::RecursiveDoubling),
    (9, "binomial", Algorithm::Knomial { radix: 2 }),
];

/// The program of all ranks: one collective of `bytes`, which is what an allgather gathers in all.
fn program(figure: u32, ranks: u32, bytes: usize) -> Vec<Vec<Step>> {
    let (name, what) = if figure == 7 || figure == 8 {
        let own = (bytes / ranks as usize).max(1);
        (
            "MPI_Allgather",
            replay::Collective::new(Collective::Allgather, None, own),
        )
    } else {
        ("MPI_Bcast", replay::Collective::new(Collective::Bcast, Some(0), bytes))
    };
    let step = Step::Collective {
        name,
        context: 0,
        what,
        how: replay::How::Waited,
    };
    vec![vec![step]; ranks as usize]
}

fn figures(options: &Optical, modes: &[Mode], progress: &mut Progress) -> Result<Vec<Point>, Failure> {
    let parameters = options.parameters();
    let mut points = Vec::new();
    for (figure, name, algorithm) in FIGURES {
        for power in 0..=6 {
            let bytes = 10_usize.pow(power);
            progress.step(name, bytes);
            let program = program(figure, options.ranks, bytes).into();
            for mode in modes {
                let mut simulation = simulation(options.ranks, mode, &parameters);
                let policy = &mut simulation.options.policy;
                policy.force(Collective::Allgather, algorithm);
                policy.force(Collective::Bcast, algorithm);
                let played = replay(&program, &simulation, 1.0);
                let played =
                    played.map_err(|failure| failure.during(&format!("{name}, {}, {bytes} B", mode.label())))?;
                points.push(Point {
                    figure,
                    algorithm: name,
                    mode: mode.name,
                    ports: mode.ports,
                    bytes,
                    closed_form_s: closed_form(algorithm, options.ranks, bytes as f64, mode, &parameters),
                    simulated_s: played.seconds,
                    set_ups: played.optics.set_up,
                });
            }
        }
    }
    Ok(points)
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

impl Optical {
    fn parameters(&self) -> Parameters {
        Parameters {
            alpha: self.latency * 1e-3,
            beta: 8.0 / self.bandwidth,
            gamma: self.setup * 1e-3,
            spread: self.spread * 1e-3,
            wavelengths: self.wavelengths,
            failure: self.failure,
            changes: self.change.clone(),
            seed: self.basics.seed,
        }
    }

    fn validate(&self) -> Result<(), Failure> {
        let checks = [
            (
                (1e3..=1e12).contains(&self.bandwidth),
                "bandwidth",
                "from 1e3 to 1e12 bits per second",
            ),
            ((0.0..=1e3).contains(&self.latency), "latency", "from 0 to 1000 ms"),
            ((0.0..=1e4).contains(&self.setup), "setup", "from 0 to 10000 ms"),
            ((0.0..=self.setup).contains(&self.spread), "spread", "from 0 to --setup"),
            ((0.0..=0.99).contains(&self.failure), "failure", "from 0 to 0.99"),
        ];
        if let Some((_, name, range)) = checks.iter().find(|(valid, ..)| !valid) {
            return Err(Failure::usage(format!("--{name} must be {range}")));
        }
        if !self.figures_only && self.bandwidth / f64::from(self.ft_scale) < 1e3 {
            return Err(Failure::usage("--ft-scale leaves less than 1e3 of --bandwidth"));
        }
        change::check(&self.change, self.ranks, "the job of --ranks")?;
        match self.figures_only {
            true => Ok(()),
            false => change::check(&self.change, ft::RANKS, "NPB FT (--figures-only leaves it out)"),
        }
    }
}

/// Runs and prints.
pub(crate) fn run(options: &Optical) -> Result<(), Failure> {
    options.validate()?;
    let modes = Mode::all(&options.ports);
    let steps = FIGURES.len() * 7 + if options.figures_only { 0 } else { ft::STEPS };
    let mut progress = Progress::new(options.basics.output.progress, steps);
    let points = figures(options, &modes, &mut progress)?;
    let mut tables = figure_table(&points, &modes, options);
    let mut rows = Vec::new();
    if !options.figures_only {
        rows = ft::rows(&options.parameters(), options.ft_scale, &mut progress)?;
        tables.push(ft::table(&rows));
    }
    let mut lines = Vec::new();
    for (colour, (figure, name, _)) in FIGURES.into_iter().enumerate() {
        for (style, mode) in [&modes[0], &modes[1], &modes[modes.len() - 1]].into_iter().enumerate() {
            let own = points
                .iter()
                .filter(|point| (point.figure, point.mode, point.ports) == (figure, mode.name, mode.ports))
                .map(|point| (point.bytes, point.simulated_s));
            // A colour for each algorithm, a style for each number of ports.
            lines.push(Line::new(format!("{name}, {}", mode.label()), own.collect()).look(colour, style));
        }
    }
    let figure = Figure {
        title: format!("Collectives of {} ranks on circuit-switched optics", options.ranks),
        notes: vec![options.basics.note(&format!(
            "{} Gb/s, {} ms to set a connection up{}",
            options.bandwidth / 1e9,
            options.setup,
            match options.spread {
                0.0 => String::new(),
                spread => format!(", more or less by up to {spread}"),
            }
        ))],
        across: "size, bytes".into(),
        has_table: false,
        up: "time, s".into(),
        lines,
    };
    let all = points.into_iter().map(Row::Figure).chain(rows.into_iter().map(Row::Ft));
    let document = Document {
        experiment: "optical",
        seed: options.basics.seed,
        rows: all.collect(),
    };
    emit(&options.basics.output, &document, &tables, Some(&figure))
}

#[cfg(test)]
mod tests;
