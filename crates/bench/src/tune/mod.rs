//! `hikyaku tune`: settings of MPI that suit this machine.

mod crossover;
#[cfg(feature = "sim")]
mod host;
mod line;
mod ping_pong;
#[cfg(feature = "sim")]
mod simulated;
mod within;

use std::collections::BTreeMap;

use clap::Args;
use hikyaku::messaging::tagged::{CMA_LIMIT, FAR_CMA_LIMIT};
use hikyaku::mpi::{
    datatype::{Datatype, Kind},
    engine::{Options, for_job},
    operation::{Operation, Predefined},
};
use serde::Serialize;

#[cfg(feature = "sim")]
use self::simulated::Simulated;
use self::within::{Kernel, Within};
use self::{
    crossover::crossover,
    line::line,
    ping_pong::{one_way, work},
};
use crate::{
    failure::Failure,
    machine::{clock, environment::Environment},
    options::Turns,
    ranks::world::{Job, Series},
    report::{Figure, Group, Line, Progress, Table, digits, median, number, publish, size},
};

/// The end of `--help`.
pub const EXAMPLES: &str = "\
Examples:
  hikyaku tune                                          about half a minute
  hikyaku tune --format json
  hikyaku tune --wait block --mtu 1500                  for programs that sleep, over Ethernet
  hikyaku tune --sim                                    what packets cost here, for hikyaku sim
  hikyaku tune --sim --mtu 1500                         the same for packets of Ethernet

Sends messages of growing size between two ranks in turns eagerly and by rendezvous, and says from which size on asking \
first is cheaper; fits the time of a message, alpha + bytes x beta, and measures gamma, the time to reduce a byte. \
The lines that begin with `export` make these the settings of MPI programs. With --sim the messages are sent once more, \
packet by packet (without segmentation offload), which is what simulated hosts do; what a packet and a byte cost is \
fitted to these times by the simulator itself, whose times stand beside those measured. Costs hold for packets of the \
size measured: `hikyaku sim` has the same option --mtu. What ranks of one host cost each other through memory is \
measured by broadcasts, whatever the backend, and from which size on the kernel should copy their messages \
(HIKYAKU_CMA_LIMIT) by messages of 8 KB to 1 MB.";

/// Options of `tune`.
#[derive(Clone, Debug, Args)]
pub struct TuneArgs {
    /// Also find a simulated host that is as fast as this one, as options of `hikyaku sim`, and compare
    #[cfg(feature = "sim")]
    #[arg(long)]
    sim: bool,
    /// The rest.
    #[command(flatten)]
    turns: Turns,
}

/// Sizes if none are given: powers of two, among which the eager limit is looked for; 8 is for the time per message.
const SIZES: [usize; 12] = [
    8, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536, 131_072, 262_144, 524_288, 1_048_576,
];
/// Bytes of the vectors that are reduced: they fit the caches as those of a collective in pieces do.
const VECTOR: usize = 256 << 10;

/// The results.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Found {
    /// Bytes.
    eager_limit: usize,
    /// Seconds per message.
    alpha: f64,
    /// Seconds per byte sent.
    beta: f64,
    /// Seconds per byte reduced.
    gamma: f64,
    /// The level within a host, if this build has one.
    within: Option<Within>,
}

/// One size, sent in both ways; one-way times, µs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Row {
    size: usize,
    eager_us: f64,
    rendezvous_us: f64,
    /// Median of the rounds' ratios, eager to rendezvous.
    ratio: f64,
}

impl Row {
    /// One-way time with this limit.
    fn micros(&self, eager_limit: usize) -> f64 {
        match self.size <= eager_limit {
            true => self.eager_us,
            false => self.rendezvous_us,
        }
    }
}

/// The JSON object.
#[derive(Debug, Serialize)]
struct Document {
    benchmark: &'static str,
    rows: Vec<Row>,
    /// Variables of the environment.
    settings: BTreeMap<&'static str, String>,
    /// With `--sim`.
    #[cfg(feature = "sim")]
    #[serde(skip_serializing_if = "Option::is_none")]
    simulation: Option<Simulated>,
    environment: Environment,
}

/// Measures and prints.
pub fn run(options: &TuneArgs) -> Result<(), Failure> {
    let turns = &options.turns;
    size::not_empty(&turns.sizes)?;
    let mut sizes = if turns.sizes.is_empty() {
        SIZES.to_vec()
    } else {
        turns.sizes.clone()
    };
    sizes.sort_unstable();
    sizes.dedup();
    if sizes.len() < 2 {
        return Err(Failure::usage("--sizes: a line needs two sizes at least"));
    }
    let mut job = Job::start(turns, 2)?;
    let mut progress = Progress::new(turns.output.progress, sizes.len() * 2 * job.rounds);
    let mut rows = Vec::new();
    for &size in &sizes {
        let works = [("eager", Options::MAX_EAGER_LIMIT), ("rendezvous", 0)]
            .map(|(name, limit)| (name.to_owned(), work(turns, size, Some(limit), None)));
        let (series, outcome) = job.interleave(&works, &mut progress);
        outcome?;
        rows.extend(row(&series));
    }
    drop(progress);
    let eager_limit = crossover(
        rows.iter().map(|row| (row.size, row.ratio)),
        Options::MAX_EAGER_LIMIT as usize,
    );
    let (alpha, beta) = line(rows.iter().map(|row| (row.size, row.micros(eager_limit))));
    let (gamma, environment) = (reduction(job.rounds), job.environment.clone());
    let mut text = table(&job, &rows).render();
    // Its ranks go before others come.
    drop(job);
    let found = Found {
        eager_limit,
        alpha,
        beta,
        gamma,
        within: within::measured(turns)?,
    };
    let settings = settings(&found);
    text.push_str(&explanation(&found));
    for (name, value) in &settings {
        text.push_str(&format!("export {name}={value}\n"));
    }
    #[cfg(feature = "sim")]
    let simulation = match options.sim {
        true => Some(simulated::fitted(turns, &sizes, eager_limit)?),
        false => None,
    };
    #[cfg(feature = "sim")]
    text.extend(simulation.iter().map(Simulated::text));
    let figure = figure(&rows, &environment);
    let document = Document {
        benchmark: "tune",
        rows,
        settings,
        #[cfg(feature = "sim")]
        simulation,
        environment,
    };
    publish(&turns.output, &document, text, Some(&figure))
}

fn row(both: &[Series]) -> Option<Row> {
    let [eager, rendezvous] = both else { return None };
    Some(Row {
        size: eager.work.size,
        eager_us: one_way(eager)?,
        rendezvous_us: one_way(rendezvous)?,
        ratio: eager.ratio(rendezvous)?,
    })
}

/// Seconds per byte that is summed.
fn reduction(rounds: usize) -> f64 {
    let (float, sum) = (Datatype::predefined(Kind::F32), Operation::predefined(Predefined::Sum));
    let (input, mut inout) = (vec![0; VECTOR], vec![0; VECTOR]);
    let mut times = Vec::new();
    for _ in 0..rounds.max(2) {
        let before = clock::now();
        // The slices are as long as this says.
        let done = sum.apply(&float, &input, &mut inout, (VECTOR / 4) as u64);
        let nanos = (clock::now() - before) as f64;
        std::hint::black_box(&inout);
        if done.is_ok() {
            times.push(nanos / 1e9 / VECTOR as f64);
        }
    }
    // The first one finds cold memory.
    median(&times[1..]).unwrap_or_default()
}

fn settings(found: &Found) -> BTreeMap<&'static str, String> {
    let micros = |seconds: f64| format!("{}us", digits(seconds * 1e6));
    let nanos = |seconds: f64| format!("{}ns", digits(seconds * 1e9));
    let mut all = BTreeMap::from([
        ("HIKYAKU_EAGER_LIMIT", found.eager_limit.to_string()),
        ("HIKYAKU_MODEL_ALPHA", micros(found.alpha)),
        ("HIKYAKU_MODEL_BETA", nanos(found.beta)),
        ("HIKYAKU_MODEL_GAMMA", nanos(found.gamma)),
    ]);
    if let Some(Within { alpha, beta, kernel }) = found.within {
        let limit = match kernel {
            Kernel::LongerThan(bytes) => bytes.to_string(),
            Kernel::Slower | Kernel::Refuses => "off".to_owned(),
        };
        all.insert("HIKYAKU_CMA_LIMIT", limit);
        all.insert("HIKYAKU_MODEL_WITHIN_ALPHA", micros(alpha));
        all.insert("HIKYAKU_MODEL_WITHIN_BETA", nanos(beta));
    }
    all
}

fn table(job: &Job, rows: &[Row]) -> Table {
    let mut comments = vec!["hikyaku tune: one-way time of a message between two ranks, µs".to_owned()];
    comments.extend(job.environment.lines());
    comments.push(format!(
        "{} rounds in which both take turns; ratio: eager / rendezvous, median of the rounds' ratios",
        job.rounds
    ));
    let groups = vec![Group::new("", &["Size", "eager", "rendezvous", "ratio"])];
    let mut table = Table::new(comments, groups);
    for row in rows {
        let numbers = [row.eager_us, row.rendezvous_us, row.ratio].map(|value| number(Some(value)));
        table.row([vec![size::text(row.size)], numbers.to_vec()].concat());
    }
    table
}

fn explanation(found: &Found) -> String {
    let (_, now) = for_job(2, 1.0, true);
    let (model, default) = (now.policy.model, now.policy.within);
    let mut text = format!(
        "# eager limit: {} (default {})\n\
         # alpha, per message: {:.2} µs (default {:.2}); beta, per byte: {:.3} ns (default {:.3}), which are {:.0} MB/s\n\
         # gamma, per byte reduced: {:.3} ns (default {:.3})\n",
        size::text(found.eager_limit),
        size::text(now.eager_limit as usize),
        found.alpha * 1e6,
        model.alpha * 1e6,
        found.beta * 1e9,
        model.beta * 1e9,
        1e-6 / found.beta,
        found.gamma * 1e9,
        model.gamma * 1e9,
    );
    if let Some(Within { alpha, beta, kernel }) = found.within {
        let copied = match kernel {
            Kernel::LongerThan(bytes) => format!("those longer than {}", size::text(bytes)),
            Kernel::Slower => "none, memory is quicker for all".to_owned(),
            Kernel::Refuses => "none, it refuses here".to_owned(),
        };
        text.push_str(&format!(
            "# messages that the kernel copies within a host: {copied} (default: longer than {}, between far cores {})\n",
            size::text(CMA_LIMIT as usize),
            size::text(FAR_CMA_LIMIT as usize),
        ));
        text.push_str(&format!(
            "# within a host: {:.2} µs until the others see what a rank writes (default {:.2}), {:.3} ns per byte \
             (default {:.3})\n",
            alpha * 1e6,
            default.alpha * 1e6,
            beta * 1e9,
            default.beta * 1e9,
        ));
    }
    text
}

fn figure(rows: &[Row], environment: &Environment) -> Figure {
    let line =
        |name: &str, value: fn(&Row) -> f64| Line::new(name, rows.iter().map(|row| (row.size, value(row))).collect());
    Figure {
        title: "One-way time of a message between two ranks".into(),
        notes: environment.lines(),
        across: "message size, bytes".into(),
        has_table: false,
        up: "one-way time, µs".into(),
        lines: vec![
            line("eager", |row| row.eager_us),
            line("rendezvous", |row| row.rendezvous_us),
        ],
    }
}
