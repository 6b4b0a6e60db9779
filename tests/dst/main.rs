//! Deterministic simulation testing of whole jobs: the seed draws the network, the protocol's settings, the faults and
//! the programs of the ranks, and the real engine runs them in virtual time.
//!
//! Each run has two phases. *Safety*: packets are lost, duplicated, delayed or corrupted, hosts are isolated or paused;
//! every message must arrive once, in MPI's order and with its bytes, and memory stays bounded. *Liveness*: all faults
//! end, and everything must complete. In other runs processes crash, and some are restarted: every other process ends,
//! or gets an error that says so, in bounded time. Or a rank ends MPI and the others go on. In further runs packets
//! need light paths, of which there are few, in varying numbers, with and without these faults.
//!
//! A failing seed prints what it drew and the command that repeats it, with all packets and a timeline of calls:
//! `HIKYAKU_SEED=n` runs only that seed, `HIKYAKU_SIM_RUNS=n` at least n seeds of each scenario, and
//! `HIKYAKU_SIM_DIR=path` writes records of the run to that directory (`packets.pcapng`, and `trace/` for
//! `hikyaku trace`).
#![expect(unsafe_code, reason = "the engine takes pointers")]

/// Groups the memory of each rank, as `tests/sim` does not.
#[global_allocator]
static HEAP: hikyaku::sim::Heap = hikyaku::sim::Heap;

mod crash;
mod job;
mod leave;
mod memory;
mod optics;
mod partitioned;
mod revoke;
mod safe;
mod script;
mod swarm;
mod talk;
mod together;

#[path = "../simulation/harness/draw.rs"]
mod draw;
#[path = "../sim/pinned.rs"]
mod pinned;
#[path = "../simulation/harness/prng.rs"]
#[expect(dead_code, reason = "the simulation of the protocol uses the rest")]
mod prng;
#[path = "../simulation/harness/seeds.rs"]
mod seeds;
