//! `sim dse`: the UDP protocol of DSE against TCP, on the network of its time (the DSE paper, section 4;
//! `docs/papers.md`).

use std::time::Duration;

use clap::Args;
use hikyaku::{
    Config, Congestion, Recovery, WindowMode,
    sim::{Cpu, Network, Routing, Simulation, compute},
};
use hikyaku_bench::{
    failure::Failure,
    report::{Figure, Group, Line, Progress, Table, emit, number, size},
};
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
    #[arg(long, default_value_t = 2_000, value_name = "N", value_parser = clap::value_parser!(u32).range(10..=100_000))]
    messages: u32,
    /// Bytes of messages, at most 64K
    #[arg(long, value_delimiter = ',', default_value = "16,64,256,1024,4096", value_parser = size::parse, value_name = "LIST")]
    sizes: Vec<usize>,
    /// Microseconds of CPU time for each packet that TCP sends or receives
    #[arg(long, default_value_t = 150.0, value_name = "US")]
    tcp_packet: f64,
    /// The same for the protocol, in a user's process
    #[arg(long, default_value_t = 190.0, value_name = "US")]
    udp_packet: f64,
    /// Microseconds of each call that sends, or receives a part of a message: TCP needs two of them for a message
    #[arg(long, default_value_t = 20.0, value_name = "US")]
    call: f64,
    /// Numbers of processors of the programs, one column each
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,6,8", value_name = "LIST", value_parser = clap::value_parser!(u32).range(1..=64))]
    processors: Vec<u32>,
    /// SOR: ranks send interim results to rank 0 after every so many iterations; 0: never
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1_000))]
    report: u32,
    /// SOR: whole rows for each rank, instead of parts that are as square as can be
    #[arg(long)]
    strips: bool,
    /// Milliseconds that an acknowledgement of the protocol waits for something to ride on (the paper does not say)
    #[arg(long, default_value_t = 1.0, value_name = "MS")]
    ack_delay: f64,
    /// A burst of packets, then nothing until all are acknowledged, instead of a sliding window
    #[arg(long)]
    burst_then_wait: bool,
    #[command(flatten)]
    pub(super) basics: Basics,
}

#[derive(Debug, Serialize)]
struct Document {
    experiment: &'static str,
    seed: u64,
    rows: Vec<Row>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(tag = "table", rename_all = "snake_case")]
enum Row {
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
    Loss {
        loss: f64,
        go_back_n_us: f64,
        selective_repeat_us: f64,
    },
}

/// Which transport, and over whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Protocol,
    Tcp(Option<Routing>),
}

/// In the order of the paper's results for Othello.
const WAYS: [(&str, Way); 6] = [
    ("full (TCP)", Way::Tcp(None)),
    ("protocol", Way::Protocol),
    ("torus (TCP)", Way::Tcp(Some(Routing::Torus))),
    ("ring (TCP)", Way::Tcp(Some(Routing::Ring))),
    ("tree (TCP)", Way::Tcp(Some(Routing::Tree))),
    ("chain (TCP)", Way::Tcp(Some(Routing::Chain))),
];

/// TCP of the time as settings of this protocol: segments that messages share, a window of 16 KiB, an acknowledgement for
/// every other segment or after 100 ms, slow start, and a coarse timer.
fn tcp() -> Config {
    Config {
        max_payload: 1_460,
        path_mtu_discovery: false,
        bundle: true,
        timestamps: false,
        reordering_window: Duration::ZERO,
        window_bytes: 16 << 10,
        congestion: Congestion::Aimd,
        ack_delay: Duration::from_millis(100),
        ack_bytes: 2 * 1_400,
        initial_rto: Duration::from_millis(500),
        min_rto: Duration::from_millis(200),
        max_rto: Duration::from_secs(10),
        ..Config::default()
    }
}

impl Dse {
    fn job(&self, way: Way, processors: u32) -> Simulation {
        let mut simulation = Simulation::new(processors, self.basics.seed);
        simulation.network = Network::ethernet_10();
        let packet = match way {
            Way::Protocol => self.udp_packet,
            Way::Tcp(_) => self.tcp_packet,
        };
        simulation.cpu = Cpu {
            send: packet * 1e3,
            receive: packet * 1e3,
            // A copy of 20 MB/s.
            byte: 50.0,
            ..Cpu::default()
        };
        let window_mode = match self.burst_then_wait {
            true => WindowMode::BurstThenWait,
            false => WindowMode::Sliding,
        };
        simulation.config = match way {
            Way::Protocol => Config {
                window_mode,
                ack_delay: Duration::from_secs_f64(self.ack_delay * 1e-3),
                ..Config::dse()
            },
            Way::Tcp(routing) => {
                simulation.network.routing = routing;
                tcp()
            }
        };
        simulation
    }

    /// Lets the calls of one message's sender or receiver pass.
    fn calls(&self, way: Way, receives: bool) -> Duration {
        let calls = if receives && way != Way::Protocol { 2.0 } else { 1.0 };
        Duration::from_secs_f64(calls * self.call * 1e-6)
    }
}

fn all_but_first(world: &SimpleCommunicator) -> impl Iterator<Item = mpi::Rank> {
    1..world.size()
}

/// Microseconds for each message of a burst to rank 0, or for each ping-pong with it.
fn messages(options: &Dse, simulation: &Simulation, way: Way, ping_pong: bool, bytes: usize) -> Result<f64, Failure> {
    let count = options.messages;
    let [sending, receiving] = [false, true].map(|receives| options.calls(way, receives));
    let program = move || -> Done<f64> {
        let universe = mpi::initialize()?;
        let world = universe.world();
        let root = world.process_at_rank(0);
        let mut data = vec![7_u8; bytes];
        world.barrier()?;
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

/// Of each program: chance decides how long a host waits for the medium, and some places are within 3 % of each other.
const RUNS: u64 = 30;

/// Seconds of a program: the mean of several runs.
fn program(options: &Dse, way: Way, processors: u32, othello: bool) -> Result<f64, Failure> {
    let mut simulation = options.job(way, processors);
    let mut seconds = 0.0;
    for run in 0..RUNS {
        simulation.seed = options.basics.seed.wrapping_add(run);
        seconds += once(options, &simulation, othello)?;
    }
    Ok(seconds / RUNS as f64)
}

fn once(options: &Dse, simulation: &Simulation, othello: bool) -> Result<f64, Failure> {
    /// A workstation of the time: a position, and a point of a grid.
    const POSITION: f64 = 20e-6;
    const POINT: f64 = 0.5e-6;
    let passes = |unit: f64, count: u64| compute(Duration::from_secs_f64(unit * count as f64)).expect("it goes on");
    let job = sor::Job {
        size: 96,
        iterations: 40,
        strips: options.strips,
        report: options.report as usize,
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

fn measure(options: &Dse) -> Result<Vec<Row>, Failure> {
    const LOSSES: [f64; 5] = [0.0, 0.001, 0.01, 0.03, 0.1];
    let total = 4 * options.sizes.len() + 2 * WAYS.len() * options.processors.len() + LOSSES.len();
    let mut progress = Progress::new(options.basics.output.progress, total);
    let mut rows = Vec::new();
    for (pattern, ping_pong, senders) in [
        ("ping-pong", true, 1),
        ("ping-pong", true, 2),
        ("burst", false, 1),
        ("burst", false, 2),
    ] {
        for &bytes in &options.sizes {
            let [protocol_us, tcp_us] = [Way::Protocol, Way::Tcp(None)].map(|way| {
                let simulation = options.job(way, senders + 1);
                messages(options, &simulation, way, ping_pong, bytes)
            });
            let (protocol_us, tcp_us) = (protocol_us?, tcp_us?);
            rows.push(Row::Messages {
                pattern,
                senders,
                size: bytes,
                protocol_us,
                tcp_us,
                ratio: protocol_us / tcp_us,
            });
            progress.step(pattern, bytes);
        }
    }
    for (name, othello) in [("othello", true), ("sor", false)] {
        for (way, by) in WAYS {
            for &processors in &options.processors {
                rows.push(Row::Program {
                    program: name,
                    way,
                    processors,
                    seconds: program(options, by, processors, othello)?,
                });
                progress.step(name, processors as usize);
            }
        }
    }
    for loss in LOSSES {
        let [go_back_n_us, selective_repeat_us] = [Recovery::GoBackN, Recovery::SelectiveRepeat].map(|recovery| {
            let mut simulation = options.job(Way::Protocol, 2);
            simulation.network.loss = loss;
            simulation.config.recovery = recovery;
            messages(options, &simulation, Way::Protocol, false, 1_024)
        });
        rows.push(Row::Loss {
            loss,
            go_back_n_us: go_back_n_us?,
            selective_repeat_us: selective_repeat_us?,
        });
        progress.step("loss", 1_024);
    }
    Ok(rows)
}

/// Runs and prints.
pub(crate) fn run(options: &Dse) -> Result<(), Failure> {
    if !options.sizes.iter().all(|bytes| (1..=64 << 10).contains(bytes)) {
        return Err(Failure::usage("--sizes must be from 1 to 64K"));
    }
    let times = [options.tcp_packet, options.udp_packet, options.call];
    if !times.iter().all(|time| (0.0..=1e5).contains(time)) {
        return Err(Failure::usage(
            "--tcp-packet, --udp-packet and --call must be from 0 to 100000",
        ));
    }
    if !(0.0..=100.0).contains(&options.ack_delay) {
        return Err(Failure::usage("--ack-delay must be from 0 to 100"));
    }
    let rows = measure(options)?;
    let tables = [
        message_table(options, &rows),
        program_table(options, &rows),
        loss_table(&rows),
    ];
    let figure = Figure {
        title: "Othello on relays, and by the protocol".into(),
        notes: vec![options.basics.note("10BASE-T, with collisions")],
        across: "processors".into(),
        up: "time, s".into(),
        lines: WAYS
            .iter()
            .map(|(way, _)| Line::new(*way, seconds(&rows, "othello", way)))
            .collect(),
    };
    let document = Document {
        experiment: "dse",
        seed: options.basics.seed,
        rows,
    };
    emit(&options.basics.output, &document, &tables, Some(&figure))
}

/// By processors.
fn seconds(rows: &[Row], of: &str, by: &str) -> Vec<(usize, f64)> {
    let point = |row: &Row| match *row {
        Row::Program {
            program,
            way,
            processors,
            seconds,
        } if program == of && way == by => Some((processors as usize, seconds)),
        _ => None,
    };
    rows.iter().filter_map(point).collect()
}

fn message_table(options: &Dse, rows: &[Row]) -> Table {
    let comments = vec![
        format!(
            "hikyaku sim dse: the protocol of DSE and a model of TCP on 10BASE-T, us per message or ping-pong, of {}",
            options.messages
        ),
        format!(
            "us of the processor: {} a packet of TCP, {} of the protocol, {} a call; seed {}",
            options.tcp_packet, options.udp_packet, options.call, options.basics.seed
        ),
    ];
    let columns = ["size", "protocol", "tcp", "protocol/tcp"];
    let mut table = Table::new(comments, vec![Group::new("", &["pattern"]), Group::new("", &columns)]);
    for row in rows {
        if let Row::Messages {
            pattern,
            senders,
            size: bytes,
            protocol_us,
            tcp_us,
            ratio,
        } = *row
        {
            table.row(vec![
                format!("{pattern} {senders}->1"),
                size::text(bytes),
                number(Some(protocol_us)),
                number(Some(tcp_us)),
                number(Some(ratio)),
            ]);
        }
    }
    table
}

fn program_table(options: &Dse, rows: &[Row]) -> Table {
    let processors: Vec<String> = options.processors.iter().map(ToString::to_string).collect();
    let columns: Vec<&str> = processors.iter().map(String::as_str).collect();
    let comments = vec![format!(
        "ms of two programs, mean of {RUNS} seeds, over relays of TCP and by the protocol; place: with most processors"
    )];
    let groups = vec![
        Group::new("", &["program", "way"]),
        Group::new("processors", &columns),
        Group::new("", &["place"]),
    ];
    let mut table = Table::new(comments, groups);
    for program in ["othello", "sor"] {
        let last = |way: &str| seconds(rows, program, way).last().map_or(0.0, |(_, seconds)| *seconds);
        for (way, _) in WAYS {
            let place = 1 + WAYS.iter().filter(|(other, _)| last(other) < last(way)).count();
            let times = seconds(rows, program, way);
            let mut cells = vec![program.to_owned(), way.to_owned()];
            cells.extend(times.iter().map(|(_, seconds)| number(Some(seconds * 1e3))));
            cells.push(place.to_string());
            table.row(cells);
        }
    }
    table
}

fn loss_table(rows: &[Row]) -> Table {
    let comments = vec!["us per message of a burst of 1024 bytes, where packets are lost".to_owned()];
    let columns = ["go-back-N", "selective repeat"];
    let mut table = Table::new(comments, vec![Group::new("", &["loss"]), Group::new("", &columns)]);
    for row in rows {
        if let Row::Loss {
            loss,
            go_back_n_us,
            selective_repeat_us,
        } = *row
        {
            table.row(vec![
                format!("{} %", loss * 100.0),
                number(Some(go_back_n_us)),
                number(Some(selective_repeat_us)),
            ]);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        options: Dse,
    }

    fn options() -> Dse {
        Command::parse_from(["dse", "--messages", "200"]).options
    }

    #[test]
    fn othello_comes_in_the_order_of_the_paper() {
        let options = options();
        let times = WAYS.map(|(_, way)| program(&options, way, 8, true).unwrap());
        assert!(times.is_sorted(), "{times:?}");
    }

    /// Whole rows, sent to two neighbours: acknowledgements that wait for too short a time to ride on data put the protocol
    /// behind the meshes.
    #[test]
    fn strips_are_a_matter_of_acknowledgements() {
        let times = ["1", "100"].map(|delay| {
            let options = Command::parse_from(["dse", "--strips", "--ack-delay", delay]).options;
            [Way::Protocol, Way::Tcp(Some(Routing::Ring))].map(|way| program(&options, way, 8, false).unwrap())
        });
        let [[often, ring], [seldom, _]] = times;
        assert!(seldom < ring && ring < often, "{times:?}");
    }

    /// With interim results to rank 0, ring before torus, and both before the rest.
    #[test]
    fn sor_comes_in_the_order_of_the_paper() {
        let options = options();
        let times = WAYS.map(|(_, way)| program(&options, way, 8, false).unwrap());
        let [full, protocol, torus, ring, tree, chain] = times;
        assert!([full, protocol, ring, torus, tree, chain].is_sorted(), "{times:?}");
    }

    /// Without them a chain is nearly as good as a ring, and the meshes change places; the first two stay.
    #[test]
    fn sor_is_better_by_the_protocol_than_over_any_relays() {
        let options = Command::parse_from(["dse", "--report", "0"]).options;
        let times = WAYS.map(|(_, way)| program(&options, way, 8, false).unwrap());
        assert!(
            times[0] < times[1] && times[2..].iter().all(|time| *time > times[1]),
            "{times:?}"
        );
    }

    #[test]
    fn tcp_is_a_little_better_in_ping_pongs_and_much_in_bursts_of_small_messages() {
        let options = options();
        let ratio = |ping_pong, bytes| {
            let [ours, tcp] = [Way::Protocol, Way::Tcp(None)].map(|way| {
                let simulation = options.job(way, 2);
                messages(&options, &simulation, way, ping_pong, bytes).unwrap()
            });
            ours / tcp
        };
        let ping_pong = ratio(true, 64);
        assert!((1.05..1.2).contains(&ping_pong), "{ping_pong}");
        let [small, large] = [16, 1_024].map(|bytes| ratio(false, bytes));
        assert!(small > 1.3 && large < 1.25, "{small} {large}");
    }
}
