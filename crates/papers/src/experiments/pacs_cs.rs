//! `sim pacs-cs`: exchanges with six neighbours over many rails and hyper-crossbars (the PACS-CS paper, sections 2 to
//! 4; `docs/papers.md`).

use std::{sync::Arc, time::Duration};

use clap::Args;
use hikyaku::{
    mpi::engine::{Array, Communicator as Beneath, Engine, Options},
    sim::{Network, Simulation, Topology, compute},
};
use hikyaku_bench::{
    failure::Failure,
    report::{Figure, Group, Line, Progress, Table, emit, number, size},
};
use mpi::{collective::SystemOperation, topology::SimpleCommunicator, traits::*};
use serde::Serialize;

use crate::{
    options::Basics,
    ranks::{Done, run_ranks},
};

/// Options. Defaults are those of PACS-CS where the paper gives them.
#[derive(Clone, Debug, Args)]
pub(crate) struct PacsCs {
    /// Nodes along each dimension of the hyper-crossbars, one row each; 16x16x10 is the whole of PACS-CS
    #[arg(long, value_delimiter = ',', default_value = "4x4x4,8x8x8,16x16x10", value_name = "LIST", value_parser = sides)]
    grids: Vec<[u32; 3]>,
    /// Numbers of rails of a node on one switch, one row each; there are always 64 nodes
    #[arg(long, value_delimiter = ',', default_value = "1,2,3,4,5,6", value_name = "LIST", value_parser = clap::value_parser!(u32).range(1..=16))]
    rails: Vec<u32>,
    /// Bytes for each neighbour, at most 16M
    #[arg(long, default_value = "64K", value_parser = size::parse, value_name = "N")]
    bytes: usize,
    /// Messages of up to so many bytes go without asking, as PM's do; at most 1M
    #[arg(long, default_value = "1M", value_parser = size::parse, value_name = "N")]
    eager: usize,
    /// Bytes of the vectors that are summed by all, one after the other; at most 16M
    #[arg(long, value_delimiter = ',', default_value = "8K,64K,1K,32K", value_parser = size::parse, value_name = "LIST")]
    vectors: Vec<usize>,
    /// Nanoseconds to copy a byte between the program's memory and MPI's, beyond the caches
    #[arg(long, default_value_t = COPY, value_name = "NS")]
    copy: f64,
    /// Bits per second of each wire
    #[arg(long, default_value_t = 1e9, value_name = "BITS")]
    bandwidth: f64,
    /// Bytes of an IP packet
    #[arg(long, default_value_t = 9_000, value_name = "N", value_parser = clap::value_parser!(u32).range(576..=65_535))]
    mtu: u32,
    #[command(flatten)]
    pub(super) basics: Basics,
}

/// `4x4x2`: nodes along each of three dimensions.
fn sides(text: &str) -> Result<[u32; 3], String> {
    let parts: Vec<Option<u32>> = text.split('x').map(|side| side.parse().ok()).collect();
    match parts[..] {
        [Some(a), Some(b), Some(c)] if [a, b, c].iter().all(|side| (3..=64).contains(side)) => Ok([a, b, c]),
        _ => Err("three numbers of nodes from 3 to 64, as 16x16x10".into()),
    }
}

#[derive(Debug, Serialize)]
struct Document {
    experiment: &'static str,
    seed: u64,
    rows: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    network: &'static str,
    grid: String,
    nodes: u32,
    rails: u32,
    /// Both directions of a node summed, without copies and with them.
    mb_per_s: f64,
    mb_per_s_with_copies: f64,
    /// Time of each sum, in the order of `--vectors`; only of hyper-crossbars.
    allreduce_us: Vec<f64>,
}

/// The means by which a node sends.
#[derive(Clone)]
struct Work {
    grid: [u32; 3],
    bytes: usize,
    /// Most bytes that go without asking.
    eager: u32,
    /// Of a byte, s; `None`: buffer arrays, which need none.
    copy: Option<f64>,
    vectors: Vec<usize>,
}

/// Nanoseconds of a copied byte on a node of PACS-CS. Its memory has two channels of DDR2-400, 6.4 GB/s, and a copy beyond
/// the caches moves three bytes for each: it reads one, reads the line to be written, and writes it back. That is 0.469 ns,
/// to which comes what the core needs within its caches: 0.06 ns at 2.8 GHz (`hikyaku bench copy`).
const COPY: f64 = 0.53;

/// Rounds of exchanges that are measured.
const ROUNDS: usize = 4;
/// All have left a barrier after this time. Its last messages pass nodes that would send already, and wait there behind
/// half a millisecond of data; a node that is late by that makes its neighbours late, again and again.
const CALM: Duration = Duration::from_millis(1);
/// Bytes of a node's receive buffers; switches have half of that before each wire.
const BUFFER: u32 = 16 << 20;

/// The rank that is next along a dimension, in both directions.
fn neighbours(rank: u32, grid: [u32; 3]) -> [i32; 6] {
    let strides = [grid[1] * grid[2], grid[2], 1];
    let mut all = [0; 6];
    for (dimension, (stride, side)) in strides.into_iter().zip(grid).enumerate() {
        let at = rank / stride % side;
        for (index, to) in [(at + side - 1) % side, (at + 1) % side].into_iter().enumerate() {
            all[2 * dimension + index] = (rank - at * stride + to * stride) as i32;
        }
    }
    all
}

/// One exchange with all neighbours, in both directions at once.
fn exchange(
    world: &SimpleCommunicator,
    peers: &[i32; 6],
    out: &[Vec<u8>],
    into: &mut [Vec<u8>],
) -> Result<(), mpi::Error> {
    mpi::request::scope(|scope| {
        let mut requests = Vec::with_capacity(6);
        for (direction, (buffer, peer)) in into.iter_mut().zip(peers).enumerate() {
            let peer = world.process_at_rank(*peer);
            // What goes up comes from below.
            requests.push(peer.immediate_receive_into_with_tag(scope, &mut buffer[..], (direction ^ 1) as i32));
        }
        let mut sends = Vec::with_capacity(6);
        for (direction, (buffer, peer)) in out.iter().zip(peers).enumerate() {
            let peer = world.process_at_rank(*peer);
            sends.push(peer.immediate_send_with_tag(scope, &buffer[..], direction as i32));
        }
        for request in requests {
            request.wait()?;
        }
        for request in sends {
            request.wait()?;
        }
        Ok(())
    })
}

/// The same with buffer arrays: those to be sent lie filled, and what comes is received by its id, as it is.
fn exchange_arrays(world: &Beneath, peers: &[i32; 6], out: &[Array]) -> Result<Vec<Array>, hikyaku::mpi::error::Error> {
    let towards = || (0..).zip(out.iter().zip(peers));
    let arriving = towards().map(|(direction, (array, peer))| world.ireceive_array(array.len(), *peer, direction ^ 1));
    let arriving = arriving.collect::<Result<Vec<_>, _>>()?;
    let sends = towards().map(|(direction, (array, peer))| world.send_array(array, *peer, direction));
    let sends = sends.collect::<Result<Vec<_>, _>>()?;
    let arrays = arriving.into_iter().map(|array| Ok(array.wait()?.0)).collect();
    for send in sends {
        send.wait()?;
    }
    arrays
}

/// The exchanges with messages that are packed before and unpacked after: when they began and ended, s.
fn with_copies(world: &SimpleCommunicator, peers: &[i32; 6], work: &Work, copy: f64) -> Done<(f64, f64)> {
    let out: Vec<Vec<u8>> = (0..6).map(|direction| vec![direction as u8 + 1; work.bytes]).collect();
    let mut into = vec![vec![0; work.bytes]; 6];
    let copying = Duration::from_secs_f64(6.0 * work.bytes as f64 * copy);
    // Sessions open, and windows grow.
    exchange(world, peers, &out, &mut into)?;
    world.barrier()?;
    compute(CALM)?;
    let begun = mpi::time();
    for _ in 0..ROUNDS {
        compute(copying)?;
        exchange(world, peers, &out, &mut into)?;
        compute(copying)?;
    }
    let ended = mpi::time();
    check(into.iter().map(|buffer| &buffer[..]));
    Ok((begun, ended))
}

/// The exchanges with buffer arrays, which the program fills in place.
fn with_arrays(world: &SimpleCommunicator, engine: &Arc<Engine>, peers: &[i32; 6], work: &Work) -> Done<(f64, f64)> {
    let own = Beneath::world(engine);
    let mut out: Vec<Array> = (0..6).map(|_| own.array(work.bytes)).collect();
    for (direction, array) in (1..).zip(&mut out) {
        array.get_mut().expect("it is new").fill(direction);
    }
    let mut into = exchange_arrays(&own, peers, &out)?;
    world.barrier()?;
    compute(CALM)?;
    let begun = mpi::time();
    for _ in 0..ROUNDS {
        // Those received before are released.
        into = exchange_arrays(&own, peers, &out)?;
    }
    let ended = mpi::time();
    check(into.iter().map(|array| &array[..]));
    Ok((begun, ended))
}

/// What goes up comes from below.
fn check<'a>(received: impl Iterator<Item = &'a [u8]>) {
    for (direction, buffer) in received.enumerate() {
        let sent = (direction ^ 1) as u8 + 1;
        assert!(buffer.iter().all(|byte| *byte == sent), "what was sent");
    }
}

/// When this rank began and ended the exchanges, and each of the sums, s.
fn program(engine: &Arc<Engine>, work: &Work) -> Done<Vec<(f64, f64)>> {
    let universe = mpi::initialize()?;
    let world = universe.world();
    let rank = world.rank() as u32;
    let peers = neighbours(rank, work.grid);
    let mut times = vec![match work.copy {
        None => with_arrays(&world, engine, &peers, work)?,
        Some(copy) => with_copies(&world, &peers, work, copy)?,
    }];
    for bytes in &work.vectors {
        let own = vec![f64::from(rank); bytes.div_ceil(8)];
        let mut sum = vec![0.0; own.len()];
        world.barrier()?;
        compute(CALM)?;
        let begun = mpi::time();
        world.all_reduce_into(&own[..], &mut sum[..], SystemOperation::sum())?;
        times.push((begun, mpi::time()));
        let others = f64::from(world.size() - 1);
        assert!(
            sum.iter().all(|value| *value == others * (others + 1.0) / 2.0),
            "the sum of all ranks"
        );
    }
    Ok(times)
}

/// Seconds from the first beginning to the last end, of each operation.
fn simulate(network: Network, seed: u64, work: &Work) -> Result<Vec<f64>, Failure> {
    let mut simulation = Simulation::new(work.grid.iter().product(), seed);
    simulation.network = network;
    simulation.options.eager_limit = work.eager;
    simulation.receive_buffer = BUFFER;
    simulation.network.queue = BUFFER / 2;
    let own = work.clone();
    let outcome = run_ranks(&simulation, move |engine| program(engine, &own))?;
    let span = |operation: usize| {
        let times = || outcome.results.iter().map(|times| times[operation]);
        let begun = times().map(|(begun, _)| begun).fold(f64::INFINITY, f64::min);
        times().map(|(_, ended)| ended).fold(0.0, f64::max) - begun
    };
    Ok((0..=work.vectors.len()).map(span).collect())
}

fn measure(options: &PacsCs, grid: [u32; 3], crossbars: bool, rails: u32) -> Result<Row, Failure> {
    let network = Network {
        topology: if crossbars {
            Topology::HyperCrossbar { sides: grid }
        } else {
            Topology::Switch
        },
        bandwidth: options.bandwidth,
        mtu: options.mtu,
        rails,
        ..Network::default()
    };
    network.validate().map_err(|error| Failure::usage(error.to_string()))?;
    let mut work = Work {
        grid,
        bytes: options.bytes,
        eager: options.eager as u32,
        copy: None,
        vectors: if crossbars { options.vectors.clone() } else { vec![] },
    };
    let rate = |seconds: f64| 12.0 * (ROUNDS * options.bytes) as f64 / seconds / 1e6;
    let zero = simulate(network, options.basics.seed, &work)?;
    (work.copy, work.vectors) = (Some(options.copy * 1e-9), vec![]);
    let copied = simulate(network, options.basics.seed, &work)?;
    Ok(Row {
        network: if crossbars { "hyper-crossbar" } else { "switch" },
        grid: grid.map(|side| side.to_string()).join("x"),
        nodes: grid.iter().product(),
        rails: if crossbars { 3 * rails } else { rails },
        mb_per_s: rate(zero[0]),
        mb_per_s_with_copies: rate(copied[0]),
        allreduce_us: zero[1..].iter().map(|seconds| seconds * 1e6).collect(),
    })
}

/// Runs and prints.
pub(crate) fn run(options: &PacsCs) -> Result<(), Failure> {
    /// Nodes on one switch.
    const SWITCHED: [u32; 3] = [4, 4, 4];
    let within = |bytes: &usize| (8..=16 << 20).contains(bytes);
    if !within(&options.bytes) || !options.vectors.iter().all(within) {
        return Err(Failure::usage("--bytes and --vectors must be from 8 to 16M"));
    }
    if options.eager > Options::MAX_EAGER_LIMIT as usize {
        return Err(Failure::usage("--eager must be at most 1M"));
    }
    if !(0.0..=1e3).contains(&options.copy) {
        return Err(Failure::usage("--copy must be from 0 to 1000"));
    }
    let mut progress = Progress::new(
        options.basics.output.progress,
        options.rails.len() + options.grids.len(),
    );
    let mut rows = Vec::new();
    for &rails in &options.rails {
        rows.push(measure(options, SWITCHED, false, rails)?);
        progress.step("rails", rails as usize);
    }
    for &grid in &options.grids {
        rows.push(measure(options, grid, true, 2)?);
        progress.step("hyper-crossbar", grid.iter().product::<u32>() as usize);
    }
    drop(progress);
    let tables = tables(options, &rows);
    let line = |name: &str, value: fn(&Row) -> f64| {
        Line::new(
            name,
            rows.iter()
                .filter(|row| row.network == "switch")
                .map(|row| (row.rails as usize, value(row)))
                .collect(),
        )
    };
    let figure = Figure {
        title: "Exchange with six neighbours".into(),
        notes: vec![options.basics.note("a switch for each rail")],
        across: "rails".into(),
        has_table: false,
        up: "bandwidth of a node, both directions, MB/s".into(),
        lines: vec![
            line("without copies", |row| row.mb_per_s),
            line("with MPI's copies", |row| row.mb_per_s_with_copies),
        ],
    };
    let document = Document {
        experiment: "pacs-cs",
        seed: options.basics.seed,
        rows,
    };
    emit(&options.basics.output, &document, &tables, Some(&figure))
}

fn tables(options: &PacsCs, rows: &[Row]) -> Vec<Table> {
    let comments = vec![
        format!(
            "hikyaku sim pacs-cs: exchange of {} with each of six neighbours, MB/s of a node, both directions summed",
            size::text(options.bytes)
        ),
        format!(
            "{} Mb/s a rail, MTU {}, copies of {} ns a byte, seed {}",
            options.bandwidth / 1e6,
            options.mtu,
            options.copy,
            options.basics.seed
        ),
    ];
    let groups = vec![
        Group::new("", &["network", "nodes", "rails"]),
        Group::new("MB/s", &["zero-copy", "with copies", "of wires"]),
    ];
    let mut rates = Table::new(comments, groups);
    let vectors: Vec<String> = options.vectors.iter().map(|bytes| size::text(*bytes)).collect();
    let columns: Vec<&str> = vectors.iter().map(String::as_str).collect();
    let comments = vec!["allreduce of vectors whose size changes from call to call".to_owned()];
    let mut sums = Table::new(
        comments,
        vec![Group::new("", &["network", "nodes"]), Group::new("us", &columns)],
    );
    for row in rows {
        let wires = 2.0 * f64::from(row.rails) * options.bandwidth / 8e6;
        let name = format!("{} {}", row.network, row.grid);
        rates.row(vec![
            name.clone(),
            row.nodes.to_string(),
            row.rails.to_string(),
            number(Some(row.mb_per_s)),
            number(Some(row.mb_per_s_with_copies)),
            format!("{:.1} %", 100.0 * row.mb_per_s / wires),
        ]);
        if !row.allreduce_us.is_empty() {
            let times = row.allreduce_us.iter().map(|time| number(Some(*time)));
            sums.row([name, row.nodes.to_string()].into_iter().chain(times).collect());
        }
    }
    vec![rates, sums]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_each_others() {
        let grid = [4, 3, 5];
        for rank in 0..60 {
            for (direction, peer) in neighbours(rank, grid).into_iter().enumerate() {
                assert_eq!(neighbours(peer as u32, grid)[direction ^ 1], rank as i32);
            }
        }
    }

    #[test]
    fn grids_are_three_numbers() {
        assert_eq!(sides("16x16x10"), Ok([16, 16, 10]));
        for wrong in ["", "4x4", "4x4x4x4", "2x4x4", "4x4x65", "axbxc"] {
            assert!(sides(wrong).is_err(), "{wrong}");
        }
    }

    /// The PACS-CS paper, section 4.2, has 1403 MB/s below MPI, where the wires carry 1500, and about 630 through MPI.
    #[test]
    fn copies_take_what_the_paper_says() {
        let network = Network {
            topology: Topology::HyperCrossbar { sides: [3, 3, 3] },
            bandwidth: 1e9,
            mtu: 9_000,
            rails: 2,
            ..Network::default()
        };
        let mut work = Work {
            grid: [3, 3, 3],
            bytes: 64 << 10,
            eager: 128 << 10,
            copy: None,
            vectors: vec![1_000],
        };
        let rate = |work: &Work| {
            let times = simulate(network, 1, work).unwrap();
            12.0 * (ROUNDS * work.bytes) as f64 / times[0] / 1e6
        };
        let zero = rate(&work);
        work.copy = Some(COPY * 1e-9);
        let copied = rate(&work);
        assert!((600.0..1_500.0).contains(&zero), "{zero}");
        assert!((480.0..760.0).contains(&copied), "{copied}");
    }
}
