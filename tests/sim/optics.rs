//! Programs on circuit-switched optics (S3).

use std::{sync::Arc, time::Duration};

use hikyaku::{
    mpi::{
        collectives::{Algorithm, Blocks, Call, Collective, Counts},
        datatype::{Datatype, Kind},
        engine::{Buffers, Communicator, Engine, Mode, Region},
        operation::{Operation, Predefined},
    },
    sim::{
        Available, Change, Cpu, Handling, Network, Optics, Outcome, Simulation, SimulationError, Topology, Unconnected,
    },
};

use super::support::{byte, pattern};

const SETUP: Duration = Duration::from_millis(10);

fn simulation(processes: u32, optics: Optics) -> Simulation {
    let mut simulation = Simulation {
        network: Network {
            topology: Topology::Direct,
            bandwidth: 1e9,
            delay: Duration::from_micros(1),
            mtu: 9_000,
            queue: 64 << 20,
            ..Network::default()
        },
        optics: Some(optics),
        cpu: Cpu::FREE,
        ..Simulation::new(processes, 1)
    };
    let config = &mut simulation.config;
    (config.initial_rto, config.min_rto, config.max_rto) = (
        Duration::from_millis(500),
        Duration::from_millis(500),
        Duration::from_secs(1),
    );
    config.ack_delay = Duration::from_micros(10);
    simulation
}

fn ports(ports: u32) -> Optics {
    Optics {
        ports,
        ..Optics::default()
    }
}

/// Runs `call` with every rank's own octets as its input, and gives the outputs.
fn collective(world: &Communicator, call: &Call<'_>, algorithm: Algorithm, octets: (usize, usize)) -> Vec<u8> {
    let mut input = pattern(octets.0, world.rank() as usize);
    let mut output = vec![0_u8; octets.1];
    if let Call::Bcast { root, .. } = call
        && *root == world.rank() as usize
    {
        output = pattern(octets.1, *root);
    }
    let datatype = Datatype::predefined(Kind::U8);
    let buffers = Buffers {
        input: Region::Plain(input.as_mut_ptr(), &datatype),
        output: Region::Plain(output.as_mut_ptr(), &datatype),
    };
    let sum = Operation::predefined(Predefined::Sum);
    // SAFETY: both are there until it has ended.
    let request = unsafe { world.collective("MPI_Test", call, &buffers, Some(&sum), Some(algorithm)) };
    request.unwrap().wait().unwrap();
    output
}

/// All calls, with the octets of input and output.
fn calls(size: usize) -> Vec<(Call<'static>, (usize, usize))> {
    let each = Blocks::Even { count: 40 };
    vec![
        (Call::Barrier, (0, 0)),
        (
            Call::Bcast {
                root: size / 2,
                count: 90,
            },
            (0, 90),
        ),
        (
            Call::Allgather {
                input: 40,
                output: each,
                in_place: false,
            },
            (40, 40 * size),
        ),
        (
            Call::Alltoall {
                input: each,
                output: each,
                in_place: false,
            },
            (40 * size, 40 * size),
        ),
        (
            Call::Allreduce {
                count: 70,
                commutative: true,
                in_place: false,
            },
            (70, 70),
        ),
        (
            Call::ReduceScatter {
                counts: Counts::Even(9),
                commutative: true,
                in_place: false,
            },
            (9 * size, 9),
        ),
        (
            Call::Scan {
                exclusive: false,
                count: 5,
                in_place: false,
            },
            (5, 5),
        ),
    ]
}

/// Each collective by each algorithm, on any number of ranks and ports: nobody waits for ever, and results are those of a
/// network without paths.
#[test]
fn all_schedules_on_any_number_of_ranks_and_ports() {
    for size in [2_u32, 3, 5, 8, 12] {
        for (call, octets) in calls(size as usize) {
            let some = call.collective().algorithms().iter();
            for algorithm in some.filter(|algorithm| call.schedule(0, size as usize, **algorithm).is_ok()) {
                let program =
                    |engine: &Arc<Engine>| collective(&Communicator::world(engine), &call, *algorithm, octets);
                let mut plain = simulation(size, ports(1));
                plain.optics = None;
                let expected = plain.run(program).unwrap().results;
                let mut naive = None;
                for (count, handling) in [
                    (1, Handling::Naive),
                    (1, Handling::Planned),
                    (2, Handling::Planned),
                    (3, Handling::Planned),
                ] {
                    let what = format!("{} by {algorithm}, {size} ranks, {count} ports", call.collective());
                    let optics = Optics {
                        handling,
                        ..ports(count)
                    };
                    let outcome = simulation(size, optics).run(program);
                    let outcome = outcome.unwrap_or_else(|error| panic!("{what}: {error}"));
                    assert_eq!(outcome.results, expected, "{what}");
                    assert_eq!(outcome.optics.displaced, 0, "{what}: a plan that does not go together");
                    let naive = *naive.get_or_insert(outcome.time);
                    assert!(
                        outcome.time <= naive + SETUP / 10,
                        "{what}: {:?} after {naive:?}",
                        outcome.time
                    );
                }
            }
        }
    }
}
