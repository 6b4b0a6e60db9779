//! Large messages: in which order, how fast, and how many at a time.

use std::{sync::Arc, time::Duration};

use hikyaku::{
    Congestion,
    mpi::{
        collectives::{Algorithm, Call, Collective},
        engine::{Buffers, Communicator, Engine, Mode, Region, Request},
    },
    sim::{self, Cpu, Network, NetworkStats, Simulation, Topology},
};

use super::support::{byte, pattern};

/// Rank 0 sends to all others at once, or they to it. Gives when each of them had sent or received, s, and what became of
/// packets.
fn star(simulation: &Simulation, bytes: usize, outwards: bool) -> (Vec<f64>, NetworkStats) {
    let program = move |engine: &Arc<Engine>| {
        let world = Communicator::world(engine);
        let (rank, count) = (world.rank(), bytes as u64);
        world.barrier().unwrap();
        let peers = if rank == 0 { 1..world.size() } else { 0..1 };
        let mut memory: Vec<Vec<u8>> = peers.clone().map(|_| pattern(bytes, 0)).collect();
        let sends = outwards == (rank == 0);
        let begin = |(peer, data): (i32, &mut Vec<u8>)| {
            if sends {
                // SAFETY: `memory` is kept until all have ended.
                unsafe { world.isend(Mode::Standard, data.as_ptr(), count, &byte(), peer, 0) }.unwrap()
            } else {
                data.fill(0);
                // SAFETY: as above.
                unsafe { world.ireceive(data.as_mut_ptr(), count, &byte(), peer, 0) }.unwrap()
            }
        };
        let requests: Vec<Request> = peers.zip(&mut memory).map(begin).collect();
        for request in requests {
            request.wait().unwrap();
        }
        assert!(memory.iter().all(|data| *data == pattern(bytes, 0)));
        engine.now().as_nanos() as f64 * 1e-9
    };
    let outcome = simulation.run(program).unwrap_or_else(|error| panic!("{error}"));
    (outcome.results, outcome.network)
}

/// The first is there when it can be, and the last not later than if all had shared the wire.
#[test]
fn large_messages_go_one_after_the_other() {
    const BYTES: usize = 1_000_000;
    for eager_limit in [0, 1 << 20] {
        let mut simulation = Simulation::new(6, 1);
        simulation.options.eager_limit = eager_limit;
        let (times, _) = star(&simulation, BYTES, true);
        let one = BYTES as f64 * 8.0 / simulation.network.bandwidth;
        let mut places: Vec<f64> = times[1..].iter().map(|time| time / one).collect();
        places.sort_by(f64::total_cmp);
        let mean = places.iter().sum::<f64>() / places.len() as f64;
        // 1 to 5, and what headers take; all about 5 if they shared it.
        assert!(places[0] < 1.7 && mean < 3.8 && places[4] < 5.6, "{places:?}");
    }
}

/// What is granted to many at once fits the queue before the receiver, whose wire is busy all the time.
#[test]
fn those_who_converge_lose_nothing() {
    const BYTES: usize = 64 << 10;
    for senders in [2, 16, 64] {
        let mut simulation = Simulation::new(senders + 1, 1);
        simulation.options.eager_limit = 0;
        let (times, network) = star(&simulation, BYTES, false);
        let wire = f64::from(senders) * BYTES as f64 * 8.0 / simulation.network.bandwidth;
        assert!(times[0] < 1.15 * wire + 30e-6, "{senders}: {} of {wire} s", times[0]);
        assert_eq!((network.overflowed, network.unread), (0, 0), "{senders}");
    }
}

/// Exchanges of large blocks, between ranks that do not begin at the same time, take what their wires take: neither grants
/// nor acknowledgements wait behind what their own host sends, and the window is shared by those who use it.
#[test]
fn exchanges_in_both_directions_keep_wires_busy() {
    const BLOCK: usize = 2 << 20;
    const RANKS: u32 = 4;
    let mut simulation = Simulation {
        network: Network {
            topology: Topology::Direct,
            bandwidth: 1e9,
            mtu: 65_535,
            framing: 0,
            queue: 1 << 30,
            ..Network::default()
        },
        cpu: Cpu::FREE,
        ..Simulation::new(RANKS, 1)
    };
    simulation.config.congestion = Congestion::Fixed;
    simulation.config.min_rto = Duration::from_millis(100);
    simulation.config.initial_rto = Duration::from_millis(100);
    let doubling = Algorithm::RecursiveDoubling;
    simulation.options.policy.force(Collective::Alltoall, doubling);
    let program = |engine: &Arc<Engine>| {
        let world = Communicator::world(engine);
        let byte = byte();
        let input: Vec<u8> = pattern(BLOCK * RANKS as usize, world.rank() as usize);
        let mut output = vec![0_u8; input.len()];
        world.barrier().unwrap();
        sim::compute(Duration::from_micros(150) * world.rank() as u32).unwrap();
        let call = Call::of(Collective::Alltoall).with_count(BLOCK);
        let buffers = Buffers {
            input: Region::Plain(input.as_ptr().cast_mut(), &byte),
            output: Region::Plain(output.as_mut_ptr(), &byte),
        };
        // SAFETY: both are borrowed until it has ended.
        let request = unsafe { world.collective("MPI_Alltoall", &call, &buffers, None, None) };
        request.unwrap().wait().unwrap();
        engine.now().as_nanos() as f64 * 1e-9
    };
    let times = simulation.run(program).unwrap().results;
    let last = times.into_iter().fold(0.0, f64::max);
    let wires = 2.0 * (RANKS / 2) as f64 * BLOCK as f64 * 8e-9;
    assert!(last < 1.04 * wires, "{last} s of {wires}");
}
