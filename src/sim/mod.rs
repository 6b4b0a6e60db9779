//! Simulates thousands of processes in one thread and in virtual time: the same protocol, engine and collectives, and
//! the same bytes, on a model of a network.
//!
//! A [`Simulation`] is a number of processes, a [`Network`] between their hosts, the cost of packets at the hosts
//! ([`Cpu`]), and a seed. [`Simulation::run`] runs an ordinary *blocking* program over
//! [`mpi::engine`](crate::mpi::engine) at each process. Where it would wait, it is suspended, and another one runs.
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
//! Only packets and [`compute`] take time; a program's own instructions take none. Each process has one core for
//! protocol and program: packets are handled one after the other, and the program's sends follow. While the program
//! computes, the protocol goes on, as if by a helper thread on a core of its own.
//!
//! # Faults
//!
//! [`Faults`] lose, duplicate, corrupt and delay packets, isolate hosts, pause them, crash processes and restart them,
//! at random and by plan; [`Simulation::capture`] and [`Simulation::trace`] write records of a run.
//!
//! Silent peers are not probed unless [`Faults::watch`] says so: no process is given up for its silence. So if programs
//! still wait when no packet is in flight any more, they are in a deadlock, and [`SimulationError::Deadlock`] says
//! which process waits for which.

mod arrivals;
mod circuits;
mod condition;
mod coroutine;
mod cpu;
mod ethernet;
mod fabric;
mod faults;
mod heap;
mod network;
mod node;
mod optics;
mod polling;
mod prefetch;
mod queue;
mod scheduler;
mod simulation;
mod tcp;
mod wires;

pub use self::{
    coroutine::Rank,
    cpu::Cpu,
    faults::{Fault, FaultStats, Faults, Impairment},
    heap::Heap,
    network::{Network, NetworkStats, RangeError, Routing, Topology},
    optics::{Available, Change, Handling, Optics, OpticsStats, Unconnected},
    polling::{Polling, Queues},
    simulation::{Outcome, Simulation, SimulationError, Waiting, compute},
    tcp::Tcp,
};
