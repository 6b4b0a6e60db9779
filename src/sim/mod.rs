//! Thousands of processes in one thread and in virtual time: the same protocol, engine and collectives, and the same
//! octets, on a network that is only arithmetic.
//!
//! A [`Simulation`] is a number of processes, a [`Network`] between their hosts, what packets cost the hosts ([`Cpu`]), and
//! a seed. [`Simulation::run`] runs an ordinary *blocking* program over [`mpi::engine`](crate::mpi::engine) at each
//! process. Where it would wait, its stack is put aside and another one goes on.
//!
//! ```
//! use std::time::Duration;
//! use hikyaku::{
//!     mpi::engine::Communicator,
//!     sim::{Simulation, SimulationError},
//! };
//!
//! let simulation = Simulation::new(100, 1);
//! let outcome = simulation.run(|engine| {
//!     let world = Communicator::world(engine);
//!     world.barrier().unwrap();
//!     world.rank()
//! })?;
//! assert_eq!(outcome.results, (0..100).collect::<Vec<_>>());
//! assert!(outcome.time < Duration::from_millis(1));
//! // Everything follows from the seed.
//! let again = simulation.run(|engine| {
//!     let world = Communicator::world(engine);
//!     world.barrier().unwrap();
//!     world.rank()
//! })?;
//! assert_eq!(again, outcome);
//! # Ok::<_, SimulationError>(())
//! ```
//!
//! # Time
//!
//! Only packets and [`compute`] take time; a program's own instructions take none. Each process has one processor for
//! protocol and program: packets are handled one after the other, and what the program sends follows. While the program
//! computes the protocol goes on, as if by a helper thread on a processor of its own.
//!
//! # Faults
//!
//! [`Faults`] lose, double, spoil and delay packets, cut hosts off, stop them, let processes crash and start again, by
//! chance and by plan; [`Simulation::capture`] and [`Simulation::trace`] write down what has happened.
//!
//! Silent peers are not looked for unless [`Faults::watch`] says so: nobody dies of silence. So when nothing is on its way
//! any more and programs still wait, that is a deadlock, and [`SimulationError::Deadlock`] says who waits for whom.

mod condition;
mod coroutine;
mod ethernet;
mod fabric;
mod faults;
mod heap;
mod network;
mod optics;
mod paths;
mod polling;
mod queue;
mod simulation;
mod wires;
mod world;

pub use self::{
    coroutine::Rank,
    faults::{Fault, FaultStats, Faults, Impairment},
    heap::Heap,
    network::{Network, NetworkStats, RangeError, Relays, Topology},
    optics::{Available, Change, Handling, Optics, OpticsStats, Unconnected},
    polling::{Polling, Queues},
    simulation::{Outcome, Simulation, SimulationError, Waiting, compute},
    world::Cpu,
};
