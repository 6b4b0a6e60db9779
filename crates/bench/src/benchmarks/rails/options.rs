//! Options of `bench rails`, and the processes that it starts.

use std::{
    env,
    process::{Child, Stdio},
};

use clap::{Args, ValueEnum};

use super::{
    namespaces::{NODES, Namespaces},
    node::Way,
};
use crate::{
    failure::{Failure, While},
    harness::session::not_interrupted,
    report::{Output, size},
};

/// How a rail is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Cut {
    /// Its interface at the sender goes down
    Link,
    /// What the sender sends there is dropped at the receiver
    Data,
    /// What the receiver sends there is dropped at the sender: acknowledgements
    Answers,
    /// What either sends there is dropped
    Both,
}

/// Options.
#[derive(Clone, Debug, Args)]
pub(crate) struct Rails {
    /// Numbers of rails
    #[arg(long, default_value = "1,2", value_delimiter = ',', value_name = "N,…", value_parser = clap::value_parser!(u32).range(1..=6))]
    pub(super) rails: Vec<u32>,
    /// Mbit/s of each rail; the list begins again when it is too short
    #[arg(long, default_value = "1000", value_delimiter = ',', value_name = "MBIT,…", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) rates: Vec<u32>,
    /// Bytes of an IP packet
    #[arg(long, default_value_t = 9_000, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1_280..=65_535))]
    pub(super) mtu: u32,
    /// Bytes of a message
    #[arg(long, default_value = "4M", default_value_if("latency", "true", "8"), value_name = "BYTES", value_parser = size::parse)]
    pub(super) size: usize,
    /// Eight nodes are a grid of so many dimensions, and swap messages with their neighbours: bytes in and out of a node
    #[arg(long, value_name = "D", value_parser = clap::value_parser!(u8).range(1..=3))]
    pub(super) grid: Option<u8>,
    /// Milliseconds of a measurement
    #[arg(long, default_value_t = 500, value_name = "MS", value_parser = clap::value_parser!(u64).range(50..=10_000))]
    pub(super) time: u64,
    /// Rounds in which the ways take turns
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(super) rounds: u32,
    /// What is measured beside bare UDP
    #[arg(
        long,
        value_enum,
        default_value = "transport,mpi",
        value_delimiter = ',',
        value_name = "LEVEL,…"
    )]
    pub(super) level: Vec<Way>,
    /// Cut a rail of a stream, and let it come back
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        value_name = "HOW,…",
        conflicts_with_all = ["grid", "plot"]
    )]
    pub(super) cut: Vec<Cut>,
    /// How often it is cut, and comes back, in one stream
    #[arg(long, default_value_t = 1, value_name = "N", requires = "cut", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(super) cuts: u32,
    /// The rail that is cut, counted from 0; the last one unless given
    #[arg(long, value_name = "RAIL", requires = "cut", value_parser = clap::value_parser!(u32).range(0..=5))]
    pub(super) cut_rail: Option<u32>,
    /// One message of --size (8 unless given) at a time goes to and fro: µs of one way
    #[arg(long, conflicts_with_all = ["grid", "cut", "plot"])]
    pub(super) latency: bool,
    /// The output.
    #[command(flatten)]
    pub(super) output: Output,
    /// Tell how much has come, again and again
    #[arg(long, hide = true)]
    pub(super) tell: bool,
    /// Be one of the processes: its number
    #[arg(long, hide = true)]
    pub(super) node: Option<usize>,
}

/// Kills its processes when it is dropped.
pub(super) struct Processes(pub(super) Vec<Child>);

impl Drop for Processes {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Rails {
    /// It is one of the processes that a measurement has started.
    pub(crate) const fn is_node(&self) -> bool {
        self.node.is_some()
    }

    pub(super) fn nodes(&self) -> usize {
        if self.grid.is_some() { NODES } else { 2 }
    }

    /// Starts one of the processes.
    pub(super) fn start(
        &self,
        namespaces: &Namespaces,
        way: Way,
        rails: u32,
        node: usize,
        stdout: Stdio,
    ) -> Result<Child, Failure> {
        not_interrupted()?;
        let own = env::current_exe().or_fail("this program")?;
        let mut command = namespaces.command(node, &own);
        command.args(["bench", "rails", "--node", &node.to_string()]);
        command.args(["--level", way.name(), "--rails", &rails.to_string()]);
        command.args(["--size", &self.size.to_string(), "--time", &self.time.to_string()]);
        if let Some(grid) = self.grid {
            command.args(["--grid", &grid.to_string()]);
        }
        if !self.cut.is_empty() {
            command.arg("--tell");
        }
        if self.latency {
            command.arg("--latency");
        }
        command.stdin(Stdio::null()).stdout(stdout).spawn().or_fail("a process")
    }

    /// Bare UDP, and what is measured beside it.
    pub(super) fn ways(&self) -> Vec<Way> {
        let others = self.level.iter().copied().filter(|way| *way != Way::Udp);
        [Way::Udp].into_iter().chain(others).collect()
    }

    pub(super) fn rates_of(&self, rails: u32) -> Vec<u32> {
        self.rates.iter().copied().cycle().take(rails as usize).collect()
    }
}
