//! The effects of networks on messages.

use std::{sync::Arc, time::Duration};

use hikyaku::{
    Config,
    mpi::engine::{Communicator, Engine, Mode},
    sim::{Cpu, Network, Outcome, Routing, Simulation, Topology},
};

use super::support::{byte, pattern};

/// Ranks from 1 on send `bytes` to rank 0. Gives how it went.
fn converge(simulation: &Simulation, bytes: usize) -> Outcome<bool> {
    let program = move |engine: &Arc<Engine>| {
        let world = Communicator::world(engine);
        let rank = world.rank();
        if rank > 0 {
            let data = pattern(bytes, rank as usize);
            // SAFETY: it is borrowed until it has ended.
            unsafe { world.send(Mode::Standard, data.as_ptr(), bytes as u64, &byte(), 0, 0) }.unwrap();
            return true;
        }
        (1..world.size()).all(|source| {
            let mut data = vec![0; bytes];
            // SAFETY: as above.
            unsafe { world.receive(data.as_mut_ptr(), bytes as u64, &byte(), source, 0) }.unwrap();
            data == pattern(bytes, source as usize)
        })
    };
    let outcome = simulation.run(program).unwrap_or_else(|error| panic!("{error}"));
    assert!(outcome.results.iter().all(|right| *right));
    outcome
}

fn on(processes: u32, network: Network) -> Simulation {
    Simulation {
        network,
        cpu: Cpu::FREE,
        ..Simulation::new(processes, 5)
    }
}

/// Seconds that `bytes` take on a wire with everything that they are packed in: 1,472 a packet, of which the protocol
/// takes some.
fn wire_seconds(bytes: usize, bandwidth: f64) -> f64 {
    bytes as f64 * 8.0 / bandwidth
}

#[test]
fn a_small_message_takes_what_its_wires_take() {
    let outcome = converge(&on(2, Network::default()), 8);
    // Two wires of 500 ns, and about 150 bytes on each at 10 Gb/s.
    let nanos = outcome.time.as_nanos();
    assert!((1_100..1_400).contains(&nanos), "{nanos}");
}

#[test]
fn the_host_s_time_counts() {
    let mut simulation = on(2, Network::default());
    let free = converge(&simulation, 8).time;
    simulation.cpu = Cpu {
        send: 2_000.0,
        receive: 3_000.0,
        byte: 0.0,
        look: 100.0,
    };
    assert_eq!(converge(&simulation, 8).time - free, Duration::from_micros(5));
}

#[test]
fn bandwidth_is_reached_and_not_exceeded() {
    let jumbo = Network {
        mtu: 9_000,
        ..Network::default()
    };
    // Who shares a slow wire with others waits for them, and meets them; time-outs made for a LAN are of no use there.
    for (network, config, senders, most) in [
        (Network::default(), Config::default(), 1, 1.15),
        (Network::default(), Config::default(), 4, 1.2),
        (jumbo, Config::default(), 2, 1.1),
        (Network::ethernet_10(), Config::dse(), 2, 1.6),
    ] {
        let bytes = 1_000_000;
        let mut simulation = on(senders + 1, network);
        simulation.config = Config {
            path_mtu_discovery: false,
            ..config
        };
        let outcome = converge(&simulation, bytes);
        let least = wire_seconds(bytes * senders as usize, network.bandwidth);
        let seconds = outcome.time.as_secs_f64();
        assert!(
            seconds > least && seconds < most * least,
            "{seconds} for {least}: {network:?}, {:?}",
            outcome.network
        );
    }
}

#[test]
fn rails_add_up() {
    let network = Network::default();
    // Windows grow first.
    let one = converge(&on(2, network), 40_000_000).time;
    let four = converge(&on(2, Network { rails: 4, ..network }), 40_000_000).time;
    let ratio = one.as_secs_f64() / four.as_secs_f64();
    assert!((3.0..4.2).contains(&ratio), "{ratio}");
}

#[test]
fn full_queues_lose_packets_and_long_ones_mark_them() {
    let network = Network {
        queue: 20_000,
        mark: 5_000,
        ..Network::default()
    };
    let outcome = converge(&on(17, network), 60_000);
    let stats = outcome.network;
    assert!(stats.overflowed > 0 && stats.marked > 0 && stats.lost == 0, "{stats:?}");
}

#[test]
fn a_busy_host_does_not_read_everything() {
    let mut simulation = on(65, Network::default());
    simulation.cpu.receive = 20_000.0;
    simulation.receive_buffer = 30_000;
    let outcome = converge(&simulation, 8_000);
    assert!(outcome.network.unread > 0, "{:?}", outcome.network);
}

#[test]
fn leaves_and_spines_carry_everything() {
    let network = Network {
        topology: Topology::LeafSpine { hosts: 4, spines: 2 },
        rails: 2,
        ..Network::default()
    };
    // Ten hosts: the last leaf is not full.
    let outcome = converge(&on(10, network), 300_000);
    // Six of nine senders are behind spines: two wires more.
    let flat = converge(
        &on(
            10,
            Network {
                topology: Topology::Switch,
                ..network
            },
        ),
        300_000,
    );
    assert!(outcome.time > flat.time, "{:?} {:?}", outcome.time, flat.time);
}

/// Pairs are spread over the spines (ECMP): more of them carry more, though not as much as if each had its own.
#[test]
fn more_spines_carry_more() {
    /// Ranks of the first leaf send to those of the second one.
    fn across(spines: u32) -> f64 {
        const BYTES: usize = 1_000_000;
        let network = Network {
            topology: Topology::LeafSpine { hosts: 8, spines },
            // Nothing is lost, and nobody waits for a time-out.
            queue: 64 << 20,
            ..Network::default()
        };
        let outcome = on(16, network).run(|engine| {
            let world = Communicator::world(engine);
            let (rank, bytes) = (world.rank(), BYTES);
            let mut data = vec![0; bytes];
            if rank < 8 {
                // SAFETY: it is borrowed until it has ended.
                unsafe { world.send(Mode::Standard, data.as_ptr(), bytes as u64, &byte(), rank + 8, 0) }.unwrap();
            } else {
                // SAFETY: as above.
                unsafe { world.receive(data.as_mut_ptr(), bytes as u64, &byte(), rank - 8, 0) }.unwrap();
            }
        });
        outcome.unwrap().time.as_secs_f64() / wire_seconds(8 * BYTES, 10e9)
    }
    let [one, two, eight] = [1, 2, 8].map(across);
    // One wire carries all; two carry half each at best; of eight some carry several.
    assert!((1.0..1.2).contains(&one), "{one}");
    assert!(two > 0.5 && two < 0.95 * one, "{one} {two}");
    assert!(eight > 0.125 && eight < 0.8 * two, "{two} {eight}");
}

#[test]
fn hosts_that_share_a_medium_collide() {
    let mut simulation = on(5, Network::ethernet_10());
    simulation.config = Config {
        path_mtu_discovery: false,
        ..Config::dse()
    };
    let outcome = converge(&simulation, 20_000);
    let stats = outcome.network;
    // A frame is given up after sixteen collisions (IEEE 802.3), which is rare.
    assert!(stats.collisions > 10 && stats.given_up * 100 < stats.sent, "{stats:?}");
    let again = converge(&simulation, 20_000);
    assert_eq!(again, outcome);
    simulation.seed = 6;
    assert_ne!(
        converge(&simulation, 20_000).digest,
        outcome.digest,
        "times of retries are drawn"
    );
}

#[test]
fn processes_of_a_host_share_its_wires() {
    let network = Network::default();
    let spread = converge(&on(5, network), 1_000_000).time;
    let receiver_alone = Network { per_host: 4, ..network };
    // Three of four senders are on the receiver's host, and the other one has the wire for itself.
    let packed = converge(&on(5, receiver_alone), 1_000_000).time;
    let ratio = spread.as_secs_f64() / packed.as_secs_f64();
    assert!((3.0..4.2).contains(&ratio), "{ratio}");
}

#[test]
fn a_grid_of_crossbars_carries_everything() {
    let network = Network {
        topology: Topology::HyperCrossbar { sides: [4, 3, 2] },
        rails: 2,
        ..Network::default()
    };
    converge(&on(24, network), 30_000);
    // One small message along one, two and three dimensions: each takes two wires, and nodes between pass it on.
    let nanos = |processes: u32| {
        let outcome = on(24, network).run(move |engine| {
            let world = Communicator::world(engine);
            let mut one = 7;
            if world.rank() == 0 {
                // SAFETY: it is borrowed until it has ended.
                unsafe { world.send(Mode::Standard, &raw const one, 1, &byte(), processes as i32, 0) }.unwrap();
            } else if world.rank() == processes as i32 {
                // SAFETY: as above.
                unsafe { world.receive(&raw mut one, 1, &byte(), 0, 0) }.unwrap();
            }
        });
        outcome.unwrap().time.as_nanos()
    };
    let [one, two, three] = [1, 3, 23].map(nanos);
    assert!((1_100..1_400).contains(&one), "{one}");
    assert_eq!(two - one, three - two);
    assert!((3_100..3_400).contains(&(two - one)), "{one} {two}");
}

#[test]
fn relays_take_their_time() {
    let sum = |routing| {
        let network = Network {
            routing,
            ..Network::default()
        };
        let mut simulation = on(8, network);
        simulation.cpu = Cpu::default();
        let outcome = converge(&simulation, 100);
        (outcome.time, outcome.network.relayed)
    };
    let ways = [None, Some(Routing::Torus), Some(Routing::Ring), Some(Routing::Chain)].map(sum);
    assert_eq!(ways[0].1, 0);
    assert!(ways.windows(2).all(|pair| pair[0] < pair[1]), "{ways:?}");
}
