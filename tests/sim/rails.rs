//! Hosts with several wires: each is a rail of the sessions of their processes.

use std::{sync::Arc, time::Duration};

use hikyaku::{
    internals::prng::Prng,
    mpi::{
        engine::{Communicator, Engine, Mode, Request, Window},
        error::{Error, ErrorClass},
    },
    sim::{Fault, FaultStats, Impairment, Network, Simulation},
};

use super::{
    counter::add,
    support::{byte, pattern},
};

const MS: Duration = Duration::from_millis(1);
/// Additions of each rank.
const ADDITIONS: i64 = 300;

fn send(comm: &Communicator, data: &[u8], to: i32) -> Result<(), Error> {
    // SAFETY: it is borrowed until it has ended.
    unsafe { comm.send(Mode::Synchronous, data.as_ptr(), data.len() as u64, &byte(), to, 0) }
}

fn receive(comm: &Communicator, room: &mut [u8], from: i32) -> Result<(), Error> {
    // SAFETY: it is borrowed until it has ended.
    unsafe { comm.receive(room.as_mut_ptr(), room.len() as u64, &byte(), from, 0) }.map(drop)
}

/// Processes with so many rails of 1 Gbit/s.
fn simulation(processes: u32, rails: u32, seed: u64) -> Simulation {
    let mut simulation = Simulation::new(processes, seed);
    simulation.network = Network {
        rails,
        bandwidth: 1e9,
        mtu: 9_000,
        delay: Duration::from_micros(10),
        ..Network::default()
    };
    simulation.limit = Some(Duration::from_secs(60));
    simulation
}

/// Rank 0 sends 4 MB eight times.
fn time_of(simulation: &Simulation) -> Duration {
    let outcome = simulation.run(|engine| {
        let world = Communicator::world(engine);
        let data = pattern(4 << 20, 3);
        let mut room = vec![0; data.len()];
        for _ in 0..8 {
            match world.rank() {
                0 => send(&world, &data, 1).unwrap(),
                _ => receive(&world, &mut room, 0).unwrap(),
            }
        }
        world.rank() == 0 || room == data
    });
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
    assert!(outcome.results.iter().all(|right| *right));
    outcome.time
}

#[test]
fn large_messages_are_striped() {
    let [one, three] = [1, 3].map(|rails| time_of(&simulation(2, rails, 1)));
    assert!(three < one * 40 / 100, "one rail: {one:?}, three: {three:?}");
}

/// Three ranks send to one, over long rails: what it has granted, and has not got yet, keeps all rails busy.
#[test]
fn several_senders_fill_the_rails_of_a_receiver() {
    const LEN: usize = 512 << 10;
    const MESSAGES: usize = 8;
    const RAILS: u32 = 6;
    let mut simulation = simulation(4, RAILS, 1);
    simulation.network.delay = MS / 4;
    let outcome = simulation.run(|engine| {
        let world = Communicator::world(engine);
        let data = pattern(LEN, 3);
        let mut rooms = vec![vec![0; LEN]; 3 * MESSAGES];
        let mut begun = engine.now();
        // In the first round windows open.
        for _ in 0..2 {
            begun = engine.now();
            let rank = world.rank();
            let requests: Vec<Request> = { rooms.iter_mut().zip((1..4).cycle()) }
                .filter(|(_, sender)| rank == 0 || rank == *sender)
                .map(|(room, sender)| {
                    let len = LEN as u64;
                    // SAFETY: both are borrowed until the requests have ended.
                    let begun = unsafe {
                        match rank {
                            0 => world.ireceive(room.as_mut_ptr(), len, &byte(), sender, 0),
                            _ => world.isend(Mode::Standard, data.as_ptr(), len, &byte(), 0, 0),
                        }
                    };
                    begun.unwrap()
                })
                .collect();
            for request in requests {
                request.wait().unwrap();
            }
        }
        assert!(world.rank() > 0 || rooms.iter().all(|room| *room == data));
        engine.now().saturating_since(begun)
    });
    let taken = outcome.unwrap_or_else(|error| panic!("{error}")).results[0];
    let by_wire = Duration::from_secs_f64((3 * MESSAGES * LEN * 8) as f64 / (f64::from(RAILS) * 1e9));
    assert!(taken < by_wire * 14 / 10, "{taken:?}, the wires need {by_wire:?}");
}

/// All ranks add to one counter of rank 0: each addition has an effect of its own, and exactly one. Gives also how often
/// this rank found a rail dead.
fn count(engine: &Arc<Engine>) -> (Vec<i64>, u64) {
    let world = Communicator::world(engine);
    let window = Window::allocate(&world, 8, 8).unwrap();
    let mut fetched = Vec::new();
    for _ in 0..ADDITIONS {
        fetched.push(add(&window, 1));
    }
    world.barrier().unwrap();
    assert_eq!(add(&window, 0), ADDITIONS * i64::from(world.size()));
    world.barrier().unwrap();
    window.free().unwrap();
    (fetched, engine.packet_stats().rails_down)
}

/// Gives what the faults did, and how often a rail was found dead.
fn counted(simulation: &Simulation) -> (FaultStats, u64) {
    let outcome = simulation.run(count);
    let outcome = outcome.unwrap_or_else(|error| panic!("{:?}: {error}", simulation.faults));
    let (fetched, dead): (Vec<_>, Vec<_>) = outcome.results.into_iter().unzip();
    let mut all = fetched.concat();
    all.sort_unstable();
    let expected = 0..ADDITIONS * i64::from(simulation.processes);
    assert!(all.into_iter().eq(expected), "{:?}", simulation.faults);
    (outcome.faults, dead.iter().sum())
}

/// A rail loses acknowledgements alone, and then dies; another one takes what was under way there. How many rails and
/// processes there are, which rails that happens to and when, is drawn; in the first of the seeds there are two of each.
#[test]
fn a_rail_without_acknowledgements_doubles_nothing() {
    let (mut cut, mut dead) = (0, 0);
    for seed in 0..24 {
        let mut rng = Prng::new(seed);
        let (processes, rails) = match seed {
            0..12 => (2, 2),
            _ => (rng.range(2..5) as u32, rng.range(2..5) as u32),
        };
        let mut simulation = simulation(processes, rails, seed);
        let mut at = Duration::ZERO;
        for _ in 0..rng.range(1..5) {
            let rail = rng.below(rails.into()) as u8;
            let process = rng.range(1..processes.into()) as u32;
            // From nothing to many round trips, and time-outs, between the one and the other.
            let mut pass = |most: u64| {
                let shorter = rng.below(10);
                at += Duration::from_nanos(rng.below(most >> shorter));
                at
            };
            let plan = [
                (pass(5_000_000), Fault::CutRail(0, process, rail)),
                (pass(20_000_000), Fault::CutRail(process, 0, rail)),
                (pass(300_000_000), Fault::Join),
            ];
            simulation.faults.plan.extend(plan);
        }
        let (faults, found_dead) = counted(&simulation);
        cut += faults.cut;
        dead += found_dead;
    }
    assert!(cut > 100 && dead > 5, "{cut} {dead}");
}

/// One rail works in one direction only from the beginning, each of the others reorders by milliseconds.
#[test]
fn rails_that_reorder_and_one_that_is_one_way() {
    for rail in 0..3 {
        let mut simulation = simulation(4, 3, u64::from(rail));
        simulation.faults.impairment = Impairment {
            late: 0.1,
            hold: 5 * MS,
            loss: 0.01,
            ..Impairment::default()
        };
        let to_first = (1..4).map(|process| (Duration::ZERO, Fault::CutRail(process, 0, rail)));
        simulation.faults.plan = to_first.collect();
        counted(&simulation);
        simulation.processes = 2;
        simulation.faults.plan.truncate(1);
        time_of(&simulation);
    }
}

/// All rails are silent: then the peer is dead.
#[test]
fn a_peer_is_dead_when_all_rails_are_silent() {
    let mut simulation = simulation(2, 3, 1);
    simulation.config.death_timeout = 500 * MS;
    let cuts = (0..3).flat_map(|rail| [Fault::CutRail(0, 1, rail), Fault::CutRail(1, 0, rail)]);
    simulation.faults.plan = cuts.map(|cut| (20 * MS, cut)).collect();
    simulation.faults.watch = true;
    let outcome = simulation.run(|engine| {
        let world = Communicator::world(engine);
        let data = pattern(1 << 20, 3);
        let mut room = vec![0; data.len()];
        loop {
            let done = match world.rank() {
                0 => send(&world, &data, 1),
                _ => receive(&world, &mut room, 0),
            };
            if let Err(error) = done {
                return error.class();
            }
        }
    });
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(outcome.results, [ErrorClass::ProcFailed; 2]);
    assert!(outcome.time < Duration::from_secs(5), "{:?}", outcome.time);
}
