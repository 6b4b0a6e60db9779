//! The experiments of the DSE paper, one run at a time: options, transports and programs.

use std::time::Duration;

use clap::{Args, ValueEnum};
use hikyaku::{
    Config, WindowMode,
    sim::{Cpu, Network, Routing, Simulation, Tcp, compute},
};
use hikyaku_bench::{failure::Failure, report::size};
use mpi::{topology::SimpleCommunicator, traits::*};
use serde::Serialize;

use crate::{
    options::Basics,
    programs::{othello, sor},
    ranks::{Done, run_ranks},
};

/// Options. Where the DSE paper gives no value the default is ours; `docs/measured/simulation.md` has the
/// reasons.
#[derive(Clone, Debug, Args)]
pub(crate) struct Dse {
    /// Messages of each burst, and ping-pongs
    #[arg(long, default_value_t = 10_000, value_name = "N", value_parser = clap::value_parser!(u32).range(10..=100_000))]
    pub(super) messages: u32,
    /// Bytes of messages, at most 64K
    #[arg(long, value_delimiter = ',', default_value = "16,64,256,1024,4096", value_parser = size::parse, value_name = "LIST")]
    pub(super) sizes: Vec<usize>,
    /// Microseconds of CPU time for each packet that TCP sends or receives
    #[arg(long, default_value_t = 150.0, value_name = "US")]
    pub(super) tcp_packet: f64,
    /// The same for the protocol, in a user's process
    #[arg(long, default_value_t = 195.0, value_name = "US")]
    pub(super) udp_packet: f64,
    /// Microseconds of each call that sends, or receives a part of a message: TCP needs two of them for a message
    #[arg(long, default_value_t = 20.0, value_name = "US")]
    pub(super) call: f64,
    /// Numbers of processors of the programs, one column each
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,6,8", value_name = "LIST", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(super) processors: Vec<u32>,
    /// SOR: rank 0 gets the whole plate, to show it, after every so many iterations; 0: never (the paper does not say:
    /// ours is fitted to its order)
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1_000))]
    pub(super) report: u32,
    /// SOR: how the plate is divided
    #[arg(long, value_enum, default_value = "strips", value_name = "HOW")]
    pub(super) division: Division,
    /// SOR: messages are not answered; else their receiver answers each by a byte, as DSE answers each access to its
    /// shared memory
    #[arg(long)]
    pub(super) one_way: bool,
    /// Milliseconds that an acknowledgement of the protocol waits for something to ride on, as in the preset (the paper
    /// does not say)
    #[arg(long, default_value_t = 20.0, value_name = "MS")]
    pub(super) ack_delay: f64,
    /// Milliseconds between the ticks at which TCP acknowledges what no data has acknowledged
    #[arg(long, default_value_t = 200.0, value_name = "MS")]
    pub(super) tcp_ack_delay: f64,
    /// The programs use TCP with Nagle's algorithm; bursts and ping-pongs always do
    #[arg(long)]
    pub(super) nagle: bool,
    /// Microseconds that a process takes to pass a message of TCP on, beside its packets: three calls, and its turn
    #[arg(long, default_value_t = 60.0, value_name = "US")]
    pub(super) relay: f64,
    /// Which figure --plot draws
    #[arg(long, value_enum, default_value = "othello", value_name = "WHICH")]
    pub(super) figure: Which,
    /// A sliding window, instead of a burst of packets and then nothing until all are acknowledged
    #[arg(long)]
    pub(super) sliding: bool,
    #[command(flatten)]
    pub(super) basics: Basics,
}

/// How SOR's plate is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Division {
    /// Whole rows for each rank: processor N talks to N - 1 and N + 1, as in the paper
    Strips,
    /// Parts that are as square as can be: up to four neighbours
    Squares,
}

/// A figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Which {
    /// Othello by processors
    Othello,
    /// SOR by processors
    Sor,
    /// SOR with most processors, by how long acknowledgements of the protocol wait, in milliseconds
    Acknowledgements,
    /// SOR with most processors, by how long a relay takes, in microseconds
    Relays,
    /// SOR with most processors, by the iterations between interim results
    Reports,
}

#[derive(Clone, Debug, Serialize)]
#[serde(tag = "table", rename_all = "snake_case")]
pub(super) enum Row {
    Messages {
        pattern: &'static str,
        senders: u32,
        size: usize,
        protocol_us: f64,
        tcp_us: f64,
        ratio: f64,
    },
    Program {
        program: &'static str,
        way: &'static str,
        processors: u32,
        seconds: f64,
    },
    /// A program with most processors, where one assumption is another.
    Assumption {
        program: &'static str,
        assumption: &'static str,
        way: &'static str,
        processors: u32,
        seconds: f64,
        place: usize,
    },
    /// A point of the figure of this name.
    Sensitivity {
        figure: &'static str,
        at: usize,
        way: &'static str,
        seconds: f64,
    },
    Loss {
        loss: f64,
        go_back_n_us: f64,
        selective_repeat_us: f64,
    },
}

/// Which transport, and over whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Protocol,
    Tcp(Option<Routing>),
}

/// In the order of the paper's results for Othello.
pub(super) const WAYS: [(&str, Way); 6] = [
    ("full (TCP)", Way::Tcp(None)),
    ("protocol", Way::Protocol),
    ("torus (TCP)", Way::Tcp(Some(Routing::Torus))),
    ("ring (TCP)", Way::Tcp(Some(Routing::Ring))),
    ("tree (TCP)", Way::Tcp(Some(Routing::Tree))),
    ("chain (TCP)", Way::Tcp(Some(Routing::Chain))),
];

/// Nanoseconds to copy a byte: 20 MB/s.
const COPY: f64 = 50.0;

impl Dse {
    /// `nagle`: TCP puts small messages together.
    pub(super) fn job(&self, way: Way, processors: u32, nagle: bool) -> Simulation {
        let mut simulation = Simulation::new(processors, self.basics.seed);
        simulation.network = Network::ethernet_10();
        let packet = match way {
            Way::Protocol => self.udp_packet,
            Way::Tcp(_) => self.tcp_packet,
        };
        simulation.cpu = Cpu {
            send: packet * 1e3,
            receive: packet * 1e3,
            byte: COPY,
            ..Cpu::default()
        };
        let window_mode = if self.sliding {
            WindowMode::Sliding
        } else {
            WindowMode::BurstThenWait
        };
        simulation.config = match way {
            Way::Protocol => Config {
                window_mode,
                ack_delay: Duration::from_secs_f64(self.ack_delay * 1e-3),
                ..Config::dse()
            },
            Way::Tcp(routing) => {
                simulation.network.routing = routing;
                simulation.tcp = Some(Tcp {
                    nagle,
                    ack_delay: Duration::from_secs_f64(self.tcp_ack_delay * 1e-3),
                    relay: Duration::from_secs_f64(self.relay * 1e-6),
                    ..Tcp::default()
                });
                simulation.config.clone()
            }
        };
        simulation
    }

    /// The calls of one message's sender or receiver, and the copy that the protocol's sender keeps in its process until
    /// the acknowledgement: TCP keeps the kernel's.
    pub(super) fn calls(&self, way: Way, receives: bool, bytes: usize) -> Duration {
        let (calls, copied) = match (way, receives) {
            (Way::Protocol, false) => (1.0, bytes),
            (Way::Tcp(_), true) => (2.0, 0),
            _ => (1.0, 0),
        };
        Duration::from_secs_f64(calls * self.call * 1e-6 + copied as f64 * COPY * 1e-9)
    }
}

fn all_but_first(world: &SimpleCommunicator) -> impl Iterator<Item = mpi::Rank> {
    1..world.size()
}

/// Microseconds for each message of a burst to rank 0, or for each ping-pong with it.
pub(super) fn messages(
    options: &Dse,
    simulation: &Simulation,
    way: Way,
    ping_pong: bool,
    bytes: usize,
) -> Result<f64, Failure> {
    let count = options.messages;
    let [sending, receiving] = [false, true].map(|receives| options.calls(way, receives, bytes));
    let program = move || -> Done<f64> {
        let universe = mpi::initialize()?;
        let world = universe.world();
        let root = world.process_at_rank(0);
        let mut data = vec![7_u8; bytes];
        // What the first messages cost is not measured, nor acknowledgements that still wait.
        world.barrier()?;
        compute(CALM)?;
        let begun = mpi::time();
        if world.rank() > 0 {
            for _ in 0..count {
                compute(sending)?;
                root.send(&data[..])?;
                if ping_pong {
                    root.receive_into(&mut data[..])?;
                    compute(receiving)?;
                }
            }
        } else {
            for _ in all_but_first(&world).flat_map(|_| 0..count) {
                let status = world.any_process().receive_into(&mut data[..])?;
                compute(receiving)?;
                if ping_pong {
                    compute(sending)?;
                    let peer = world.process_at_rank(status.source_rank());
                    peer.send(&data[..])?;
                }
            }
        }
        Ok(mpi::time() - begun)
    };
    let outcome = run_ranks(simulation, move |_| program())?;
    let senders = simulation.processes - 1;
    Ok(outcome.results[0] / f64::from(count * senders) * 1e6)
}

/// Acknowledgements have come after this time.
const CALM: Duration = Duration::from_secs(1);

/// Of each program: chance decides how long a host waits for the medium, and some places are within 3 % of each other.
pub(super) const RUNS: u64 = 30;
/// The same where one assumption is another.
pub(super) const FEWER: u64 = 10;

/// Seconds of a program: the mean of several runs.
pub(super) fn program(options: &Dse, way: Way, processors: u32, othello: bool) -> Result<f64, Failure> {
    mean(options, way, processors, othello, RUNS)
}

pub(super) fn mean(options: &Dse, way: Way, processors: u32, othello: bool, runs: u64) -> Result<f64, Failure> {
    let mut simulation = options.job(way, processors, options.nagle);
    let mut seconds = 0.0;
    for run in 0..runs {
        simulation.seed = options.basics.seed.wrapping_add(run);
        seconds += once(options, &simulation, othello)?;
    }
    Ok(seconds / runs as f64)
}

fn once(options: &Dse, simulation: &Simulation, othello: bool) -> Result<f64, Failure> {
    /// A workstation of the time: a position, and a point of a grid.
    const POSITION: f64 = 20e-6;
    const POINT: f64 = 0.5e-6;
    let passes = |unit: f64, count: u64| compute(Duration::from_secs_f64(unit * count as f64)).expect("it goes on");
    let job = sor::Job {
        size: 96,
        iterations: 40,
        strips: options.division == Division::Strips,
        report: options.report as usize,
        replies: !options.one_way,
    };
    let run = move || -> Done<f64> {
        let universe = mpi::initialize()?;
        let world = universe.world();
        if othello {
            let game = othello::play(&world, 5, 3, &|count| passes(POSITION, count));
            Ok(game?.together)
        } else {
            let solved = sor::solve(&world, job, &|count| passes(POINT, count), &|_, _| ());
            Ok(solved?.map_or(0.0, |solved| solved.together))
        }
    };
    let outcome = run_ranks(simulation, move |_| run())?;
    Ok(outcome.results[0])
}
