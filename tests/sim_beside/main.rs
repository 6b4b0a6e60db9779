//! The tests of MPI's engine with simulated processes and two packet layers under each messenger: a rank reaches half of
//! all through memory and the others over the network.
#![expect(unsafe_code, reason = "the engine takes pointers")]

#[path = "../sim/support.rs"]
mod support;

/// Ranks of a host share memory, and there are two hosts.
const SHARED_MEMORY: bool = true;

#[path = "../mpi/arrays.rs"]
mod arrays;
#[path = "../mpi/checks.rs"]
mod checks;
#[path = "../mpi/collectives.rs"]
mod collectives;
#[path = "../mpi/groups.rs"]
mod groups;
#[path = "../mpi/inter.rs"]
mod inter;
#[path = "../mpi/leaving.rs"]
mod leaving;
#[path = "../mpi/messages.rs"]
mod messages;
#[path = "../mpi/persistent.rs"]
mod persistent;
#[path = "../mpi/progress.rs"]
mod progress;
#[path = "../mpi/windows.rs"]
mod windows;

mod layers {
    use std::time::Duration;

    use hikyaku::{
        mpi::engine::{Communicator, Engine},
        sim::{Outcome, Simulation, SimulationError},
    };

    const RANKS: u32 = 6;

    /// Each rank sends 50 messages around a ring and receives as many. Gives the numbers in the order of their arrival.
    fn ring(engine: &std::sync::Arc<Engine>) -> Vec<u64> {
        let world = Communicator::world(engine);
        let (rank, size) = (world.rank(), world.size());
        let byte = crate::support::byte();
        let mut got = Vec::new();
        for number in 0..50_u64 {
            let (out, mut into) = (number.to_ne_bytes(), [0_u8; 8]);
            // SAFETY: both outlive the calls.
            unsafe {
                let (next, before) = ((rank + 1) % size, (rank + size - 1) % size);
                let sent = world.isend(hikyaku::mpi::engine::Mode::Standard, out.as_ptr(), 8, &byte, next, 0);
                world.receive(into.as_mut_ptr(), 8, &byte, before, 0).unwrap();
                sent.unwrap().wait().unwrap();
            }
            got.push(u64::from_ne_bytes(into));
        }
        world.barrier().unwrap();
        engine.finalize(Duration::from_secs(2)).unwrap();
        got
    }

    fn run(per_host: u32, loss: f64) -> Result<Outcome<Vec<u64>>, SimulationError> {
        let mut simulation = Simulation::new(RANKS, 7);
        simulation.shared_memory = true;
        simulation.network.per_host = per_host;
        simulation.faults.impairment.loss = loss;
        simulation.run(ring)
    }

    fn is_whole(outcome: &Outcome<Vec<u64>>) {
        let all: Vec<u64> = (0..50).collect();
        assert_eq!(outcome.results, vec![all; RANKS as usize]);
    }

    #[test]
    fn what_is_in_memory_is_not_lost_with_the_network() {
        let outcome = run(RANKS, 0.9).unwrap();
        is_whole(&outcome);
        assert_eq!(outcome.faults.lost, 0);
        assert!(
            outcome.time < Duration::from_millis(10),
            "nothing is sent again: {:?}",
            outcome.time
        );
    }

    #[test]
    fn what_is_lost_on_the_network_is_sent_again() {
        let outcome = run(RANKS / 2, 0.1).unwrap();
        is_whole(&outcome);
        assert!(outcome.faults.lost > 0);
        assert_eq!(run(RANKS / 2, 0.1).unwrap().digest, outcome.digest, "the same again");
    }
}
