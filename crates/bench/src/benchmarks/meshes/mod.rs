//! `bench meshes`: the programs of the DSE paper (section 4.2) as real processes, each in a network namespace with 10
//! Mbit/s: by the paper's protocol, and over TCP connections between all pairs and over meshes with relays.

mod namespaces;
mod node;
mod way;

use std::{
    env,
    io::Read,
    process::{Child, Stdio},
};

use clap::Args;

use self::{
    namespaces::Namespaces,
    way::{Program, Way},
};
use crate::{
    failure::{Failure, While},
    report::{Document, Group, Output, Progress, Row, Table, emit, median, number},
};

/// The end of `--help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  hikyaku bench meshes                                  8 processes, 5 rounds: two minutes
  hikyaku bench meshes --processors 4 --rounds 1 --rate 100

Needs root, iproute2, and the kernel's bridge and tbf. Each process has a namespace of its own on a bridge, and sends and \
receives --rate Mbit/s. Othello: all ask process 0 for work, again and again. SOR: processes exchange edges with those \
before and after them, and send interim results to process 0; each message is answered. Computing is waiting, as there are \
more processes than cores. TCP has TCP_NODELAY; a relay receives a message in two calls and writes it to the next one.";

/// Options.
#[derive(Clone, Debug, Args)]
pub(crate) struct Meshes {
    /// Processes
    #[arg(long, default_value_t = 8, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=64))]
    processors: u32,
    /// Mbit/s of each process
    #[arg(long, default_value_t = 10, value_name = "MBIT", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rate: u32,
    /// Rounds in which the ways take turns
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: u32,
    /// The output.
    #[command(flatten)]
    pub(crate) output: Output,
    /// Be one of the processes: its number
    #[arg(long, hide = true)]
    node: Option<u32>,
    /// Of that process
    #[arg(long, value_enum, hide = true, default_value = "full")]
    way: Way,
    /// Of that process
    #[arg(long, value_enum, hide = true, default_value = "othello")]
    program: Program,
}

/// Kills its processes when it is dropped.
struct Processes(Vec<Child>);

impl Drop for Processes {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Seconds of one run.
fn once(options: &Meshes, namespaces: &Namespaces, way: Way, program: Program) -> Result<f64, Failure> {
    let own = env::current_exe().or_fail("this program")?;
    let mut processes = Processes(Vec::new());
    for index in 0..options.processors {
        let mut command = namespaces.command(index, &own);
        command.args(["bench", "meshes", "--processors", &options.processors.to_string()]);
        command.args([
            "--way",
            way.name(),
            "--program",
            program.name(),
            "--node",
            &index.to_string(),
        ]);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        processes.0.push(command.spawn().or_fail("a process")?);
    }
    let mut said = String::new();
    if let Some(out) = processes.0[0].stdout.as_mut() {
        out.read_to_string(&mut said).or_fail("the first process")?;
    }
    let seconds = said.trim().parse();
    seconds.map_err(|_| Failure::run(format!("{}, {}: the first process failed", program.name(), way.name())))
}

impl Meshes {
    /// It is one of the processes that a measurement has started.
    pub(crate) const fn is_node(&self) -> bool {
        self.node.is_some()
    }
}

/// Measures and prints.
pub(crate) fn run(options: &Meshes) -> Result<(), Failure> {
    if let Some(index) = options.node {
        let seconds = node::run(options.way, options.program, index, options.processors).or_fail("a process")?;
        println!("{seconds}");
        return Ok(());
    }
    let namespaces = Namespaces::new(options.processors, options.rate)?;
    let (ways, programs) = (Way::ALL, [Program::Othello, Program::Sor]);
    let steps = ways.len() * programs.len() * options.rounds as usize;
    let mut progress = Progress::new(options.output.progress, steps);
    let mut times = vec![[const { Vec::new() }; 6]; 2];
    for round in 0..options.rounds as usize {
        for (program, times) in programs.iter().zip(&mut times) {
            for step in 0..ways.len() {
                let index = (round + step) % ways.len();
                progress.step(&format!("{}, {}", program.name(), ways[index].name()), 0);
                times[index].push(once(options, &namespaces, ways[index], *program)?);
            }
        }
    }
    drop(progress);
    let comments = vec![format!(
        "hikyaku meshes: ms (and places) of {} processes in namespaces with {} Mbit/s each, median of {} rounds",
        options.processors, options.rate, options.rounds
    )];
    let columns = ways.map(Way::name);
    let mut table = Table::new(comments, vec![Group::new("", &["program"]), Group::new("", &columns)]);
    let mut document = Document::new("meshes", None);
    for (program, times) in programs.iter().zip(&times) {
        let middle: Vec<f64> = times.iter().filter_map(|times| median(times)).collect();
        let mut cells = vec![program.name().to_owned()];
        for (way, seconds) in ways.iter().zip(&middle) {
            let place = 1 + middle.iter().filter(|other| *other < seconds).count();
            cells.push(format!("{} ({place})", number(Some(seconds * 1e3))));
            document.rows.push(Row {
                transport: way.name().into(),
                pattern: Some(program.name()),
                processors: Some(options.processors as usize),
                wall_ms: Some(seconds * 1e3),
                rounds: Some(options.rounds as usize),
                ..Row::default()
            });
        }
        table.row(cells);
    }
    emit(&options.output, &document, &[table], None)
}
