//! `sim dpdk-btl`: the arguments of the DPDK paper about eager limits, polling and queues (sections 3.2.2 and 4.1),
//! measured (`docs/papers.md`).

use std::time::Duration;

use clap::Args;
use hikyaku::sim::{Network, NetworkStats, Polling, Queues, Simulation, compute};
use hikyaku_bench::{
    failure::Failure,
    report::{Figure, Group, Line, Progress, Table, emit, number, size},
};
use mpi::{topology::SimpleCommunicator, traits::*};
use serde::Serialize;

use crate::{
    options::Basics,
    ranks::{Done, Ran, run_ranks},
};

/// Options. Where the paper gives no value the default is ours.
#[derive(Clone, Debug, Args)]
pub(crate) struct DpdkBtl {
    /// Bytes of messages, at most 1M
    #[arg(long, value_delimiter = ',', default_value = "8,1K,2K,4K,8K,13K,16K,20K,26K,32K,64K,128K", value_parser = size::parse, value_name = "LIST")]
    sizes: Vec<usize>,
    /// Limits between eager and rendezvous that are tried with all sizes
    #[arg(long, value_delimiter = ',', default_value = "0,4K,13K,26K,64K,1M", value_parser = size::parse, value_name = "LIST")]
    eager_limits: Vec<usize>,
    /// Nanoseconds to copy a byte out of the eager buffer
    #[arg(long, default_value_t = 0.2, value_name = "NS")]
    copy: f64,
    /// Packets in each receive queue
    #[arg(long, default_value_t = 128, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    queue: u32,
    /// Numbers of receive queues of a poller, one row each
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8,16,32", value_name = "LIST", value_parser = clap::value_parser!(u32).range(1..=1_024))]
    queues: Vec<u32>,
    /// Microseconds that ranks compute between messages, one row each
    #[arg(long, value_delimiter = ',', default_value = "0,50,200,1000", value_name = "LIST", value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    compute: Vec<u32>,
    #[command(flatten)]
    pub(super) basics: Basics,
}

#[derive(Debug, Serialize)]
struct Document {
    experiment: &'static str,
    seed: u64,
    /// The largest size at which eager is not slower.
    crossover: Option<usize>,
    rows: Vec<Row>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(tag = "table", rename_all = "snake_case")]
enum Row {
    Size {
        size: usize,
        eager_us: f64,
        rendezvous_us: f64,
        /// With each of the limits.
        limits_us: Vec<f64>,
    },
    Polling {
        polling: &'static str,
        compute_us: u32,
        eager_us: f64,
        rendezvous_us: f64,
        unread: u64,
    },
    Flood {
        polling: &'static str,
        queues: u32,
        neighbour_us: f64,
        flood_us: f64,
        unread: u64,
    },
}

const POLLING: [(&str, Polling); 3] = [
    ("process", Polling::Process),
    ("dedicated", Polling::Dedicated),
    ("combined", Polling::Combined),
];

impl DpdkBtl {
    fn job(&self, processes: u32, polling: Polling, count: u32) -> Simulation {
        let mut simulation = Simulation::new(processes, self.basics.seed);
        simulation.polling = polling;
        simulation.queues = Queues {
            count,
            length: self.queue,
        };
        simulation
    }

    fn copying(&self, bytes: usize) -> Duration {
        Duration::from_secs_f64(bytes as f64 * self.copy * 1e-9)
    }
}

fn run_started<R: 'static>(
    simulation: &Simulation,
    program: impl Fn(&SimpleCommunicator) -> Done<R> + 'static,
) -> Result<Ran<R>, Failure> {
    run_ranks(simulation, move |_| -> Done<R> {
        let universe = mpi::initialize()?;
        let world = universe.world();
        world.barrier()?;
        program(&world)
    })
}

/// One-way time, us: half of a ping-pong's.
fn latency(options: &DpdkBtl, bytes: usize, limit: usize) -> Result<f64, Failure> {
    const COUNT: u32 = 20;
    let mut simulation = options.job(2, Polling::Helper, 1);
    simulation.options.eager_limit = limit as u32;
    let copying = if bytes <= limit {
        options.copying(bytes)
    } else {
        Duration::ZERO
    };
    let program = move |world: &SimpleCommunicator| {
        let peer = world.process_at_rank(1 - world.rank());
        let mut data = vec![1_u8; bytes];
        let begun = mpi::time();
        for turn in 0..2 * COUNT {
            if (turn as i32 + world.rank()) % 2 == 0 {
                peer.send(&data[..])?;
            } else {
                peer.receive_into(&mut data[..])?;
                compute(copying)?;
            }
        }
        Ok(mpi::time() - begun)
    };
    let outcome = run_started(&simulation, program)?;
    Ok(outcome.results[0] / f64::from(2 * COUNT) * 1e6)
}

/// Four ranks of a host get messages from four of another one, and compute before each. Gives the time for each round of
/// messages beyond what is computed, us, and what was lost.
fn computing(options: &DpdkBtl, polling: Polling, time: u32, eager: bool) -> Result<(f64, NetworkStats), Failure> {
    const ROUNDS: u32 = 20;
    /// Bytes of a round's messages, and how many there are: the same in all.
    const EAGER: (usize, usize) = (2 << 10, 128);
    const RENDEZVOUS: (usize, usize) = (128 << 10, 2);
    let mut simulation = options.job(8, polling, 1);
    simulation.network.per_host = 4;
    simulation.options.eager_limit = if eager { 1 << 20 } else { 0 };
    let (bytes, count) = if eager { EAGER } else { RENDEZVOUS };
    let time = Duration::from_micros(time.into());
    let program = move |world: &SimpleCommunicator| {
        let rank = world.rank();
        let mut data = vec![1_u8; bytes];
        let begun = mpi::time();
        for _ in 0..ROUNDS {
            compute(time)?;
            for _ in 0..count {
                if rank < 4 {
                    world.process_at_rank(rank + 4).send(&data[..])?;
                } else {
                    let sender = world.process_at_rank(rank - 4);
                    sender.receive_into(&mut data[..])?;
                }
            }
        }
        Ok(mpi::time() - begun)
    };
    let outcome = run_started(&simulation, program)?;
    let all = outcome.results.iter().copied().fold(0.0, f64::max);
    let each = all / f64::from(ROUNDS) - time.as_secs_f64();
    Ok((each * 1e6, outcome.network))
}

/// Rank 0 is flooded by 16 others with small messages, while its neighbour on the same host has a ping-pong with another rank.
/// Gives its time and that of the flood, us, and what was lost.
fn flood(options: &DpdkBtl, polling: Polling, queues: u32) -> Result<(f64, f64, NetworkStats), Failure> {
    const FLOODS: i32 = 16;
    const EACH: usize = 400;
    const BYTES: usize = 1 << 10;
    const TURNS: usize = 100;
    let mut simulation = options.job(4 + FLOODS as u32, polling, queues);
    simulation.network = Network {
        per_host: 2,
        // What is lost is lost at the host.
        queue: 64 << 20,
        ..Network::default()
    };
    simulation.cpu.receive = 1_000.0;
    // Flow control is not what is looked at: senders may fill the queues.
    simulation.receive_buffer = 64 << 20;
    let program = move |world: &SimpleCommunicator| {
        let mut data = vec![1_u8; BYTES];
        let begun = mpi::time();
        match world.rank() {
            0 => {
                for _ in 0..FLOODS as usize * EACH {
                    world.any_process().receive_into(&mut data[..])?;
                }
            }
            rank @ (1 | 2) => {
                let peer = world.process_at_rank(3 - rank);
                for turn in 0..TURNS as i32 {
                    if (turn + rank) % 2 == 0 {
                        peer.send(&data[..8])?;
                    } else {
                        peer.receive_into(&mut data[..8])?;
                    }
                }
            }
            3 => {}
            _ => {
                for _ in 0..EACH {
                    world.process_at_rank(0).send(&data[..])?;
                }
            }
        }
        Ok(mpi::time() - begun)
    };
    let outcome = run_started(&simulation, program)?;
    let times = &outcome.results;
    Ok((times[1] / TURNS as f64 * 1e6, times[0] * 1e6, outcome.network))
}

fn measure(options: &DpdkBtl) -> Result<Vec<Row>, Failure> {
    let total = options.sizes.len() + POLLING.len() * (options.compute.len() + options.queues.len());
    let mut progress = Progress::new(options.basics.output.progress, total);
    let mut rows = Vec::new();
    for &bytes in &options.sizes {
        let limits = options.eager_limits.iter().map(|limit| latency(options, bytes, *limit));
        rows.push(Row::Size {
            size: bytes,
            eager_us: latency(options, bytes, 1 << 20)?,
            rendezvous_us: latency(options, bytes, 0)?,
            limits_us: limits.collect::<Result<_, _>>()?,
        });
        progress.step("eager and rendezvous", bytes);
    }
    for (name, polling) in POLLING {
        for &time in &options.compute {
            let (eager_us, eager) = computing(options, polling, time, true)?;
            let (rendezvous_us, rendezvous) = computing(options, polling, time, false)?;
            rows.push(Row::Polling {
                polling: name,
                compute_us: time,
                eager_us,
                rendezvous_us,
                unread: eager.unread + rendezvous.unread,
            });
            progress.step(name, time as usize);
        }
    }
    for (name, polling) in POLLING {
        for &queues in &options.queues {
            let (neighbour_us, flood_us, network) = flood(options, polling, queues)?;
            rows.push(Row::Flood {
                polling: name,
                queues,
                neighbour_us,
                flood_us,
                unread: network.unread,
            });
            progress.step(name, queues as usize);
        }
    }
    Ok(rows)
}

/// The largest size at which eager is not slower.
fn crossover(rows: &[Row]) -> Option<usize> {
    let better = |row: &Row| match row {
        Row::Size {
            size,
            eager_us,
            rendezvous_us,
            ..
        } if eager_us <= rendezvous_us => Some(*size),
        _ => None,
    };
    rows.iter().filter_map(better).max()
}

/// Runs and prints.
pub(crate) fn run(options: &DpdkBtl) -> Result<(), Failure> {
    if !options.sizes.iter().all(|bytes| (1..=1 << 20).contains(bytes)) {
        return Err(Failure::usage("--sizes must be from 1 to 1M"));
    }
    if options.eager_limits.iter().any(|limit| *limit > 1 << 20) {
        return Err(Failure::usage("--eager-limits must be at most 1M"));
    }
    if !(0.0..=1e3).contains(&options.copy) {
        return Err(Failure::usage("--copy must be from 0 to 1000"));
    }
    let rows = measure(options)?;
    let tables = [
        size_table(options, &rows),
        polling_table(options, &rows),
        flood_table(&rows),
    ];
    let line =
        |name: &str, value: fn(&Row) -> Option<(usize, f64)>| Line::new(name, rows.iter().filter_map(value).collect());
    let figure = Figure {
        title: "Eager and rendezvous".into(),
        notes: vec![options.basics.note("Ethernet of 10 Gb/s")],
        across: "message size, bytes".into(),
        has_table: false,
        up: "one-way time, µs".into(),
        lines: vec![
            line("eager", |row| match row {
                Row::Size { size, eager_us, .. } => Some((*size, *eager_us)),
                _ => None,
            }),
            line("rendezvous", |row| match row {
                Row::Size {
                    size, rendezvous_us, ..
                } => Some((*size, *rendezvous_us)),
                _ => None,
            }),
        ],
    };
    let document = Document {
        experiment: "dpdk-btl",
        seed: options.basics.seed,
        crossover: crossover(&rows),
        rows,
    };
    emit(&options.basics.output, &document, &tables, Some(&figure))
}

fn size_table(options: &DpdkBtl, rows: &[Row]) -> Table {
    let crossover = crossover(rows).map_or_else(|| "none".to_owned(), size::text);
    let comments = vec![
        "hikyaku sim dpdk-btl: one-way time of a message between two hosts, us".to_owned(),
        format!(
            "10 Gb/s, copies of {} ns a byte out of the eager buffer, seed {}; eager is not slower up to {crossover}",
            options.copy, options.basics.seed
        ),
    ];
    let limits: Vec<String> = options.eager_limits.iter().map(|limit| size::text(*limit)).collect();
    let columns: Vec<&str> = limits.iter().map(String::as_str).collect();
    let groups = vec![
        Group::new("", &["size", "eager", "rendezvous"]),
        Group::new("with an eager limit of", &columns),
    ];
    let mut table = Table::new(comments, groups);
    for row in rows {
        if let Row::Size {
            size: bytes,
            eager_us,
            rendezvous_us,
            limits_us,
        } = row
        {
            let mut cells = vec![size::text(*bytes)];
            let times = [*eager_us, *rendezvous_us].into_iter().chain(limits_us.iter().copied());
            cells.extend(times.map(|time| number(Some(time))));
            table.row(cells);
        }
    }
    table
}

fn polling_table(options: &DpdkBtl, rows: &[Row]) -> Table {
    let comments = vec![
        "four ranks a host receive 256K a round, as 128 eager messages or two by rendezvous, and compute before: us beyond that"
            .to_owned(),
        format!("one queue of {} packets; lost: packets that found it full", options.queue),
    ];
    let columns = ["computing, us", "eager", "rendezvous", "lost"];
    let mut table = Table::new(comments, vec![Group::new("", &["polling"]), Group::new("", &columns)]);
    for row in rows {
        if let Row::Polling {
            polling,
            compute_us,
            eager_us,
            rendezvous_us,
            unread,
        } = row
        {
            table.row(vec![
                (*polling).into(),
                compute_us.to_string(),
                number(Some(*eager_us)),
                number(Some(*rendezvous_us)),
                unread.to_string(),
            ]);
        }
    }
    table
}

fn flood_table(rows: &[Row]) -> Table {
    let comments = vec![
        "16 senders flood one rank of a host; its neighbour there has a ping-pong: us each way, and of the whole flood"
            .to_owned(),
    ];
    let columns = ["queues", "neighbour", "flood", "lost"];
    let mut table = Table::new(comments, vec![Group::new("", &["polling"]), Group::new("", &columns)]);
    for row in rows {
        if let Row::Flood {
            polling,
            queues,
            neighbour_us,
            flood_us,
            unread,
        } = row
        {
            table.row(vec![
                (*polling).into(),
                queues.to_string(),
                number(Some(*neighbour_us)),
                number(Some(*flood_us)),
                unread.to_string(),
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
        options: DpdkBtl,
    }

    fn options() -> DpdkBtl {
        Command::parse_from(["dpdk-btl"]).options
    }

    /// The DPDK paper, section 5, finds eager best up to 13 KB and rendezvous best from 26 KB.
    #[test]
    fn eager_is_better_up_to_where_the_copy_costs_more_than_asking() {
        let options = options();
        let both = |bytes| [1 << 20, 0].map(|limit| latency(&options, bytes, limit).unwrap());
        let ([eager, asked], [eager_later, asked_later]) = (both(8 << 10), both(32 << 10));
        assert!(eager < asked && eager_later > asked_later);
    }

    #[test]
    fn who_polls_only_within_mpi_is_late_after_computing() {
        let options = options();
        let [process, dedicated] =
            [Polling::Process, Polling::Dedicated].map(|polling| computing(&options, polling, 1_000, true).unwrap().0);
        assert!(process > 5.0 * dedicated, "{process} {dedicated}");
    }

    #[test]
    fn more_queues_lose_less() {
        let options = options();
        let lost = [1, 4, 16].map(|queues| flood(&options, Polling::Dedicated, queues).unwrap().2.unread);
        assert!(lost[0] > lost[1] && lost[1] > lost[2] && lost[2] == 0, "{lost:?}");
        let own = flood(&options, Polling::Process, 1).unwrap().2.unread;
        assert_eq!(own, 0, "one rank's flood is not its neighbour's");
    }
}
