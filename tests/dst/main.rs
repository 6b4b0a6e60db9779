//! Deterministic simulation testing of whole jobs: the seed draws the network, the protocol's settings, what goes wrong and
//! what the ranks' programs do, and the real engine runs it in virtual time.
//!
//! Each run has two phases. *Safety*: packets get lost, come twice, late or spoilt, hosts are cut off or stop; every
//! message must come once, in MPI's order and with its octets, and memory stays bounded. *Liveness*: all that heals, and
//! everything must end. In other runs processes crash, and perhaps start again: everybody else ends, or has an error that
//! says so, in bounded time. Or a rank ends MPI and the others go on. In others again packets need light paths, of which there are few, and not always as many, with
//! all that or without.
//!
//! A seed that fails prints what it drew and the command that repeats it, with all packets and a timeline of calls:
//! `HIKYAKU_SEED=n` runs only that seed, `HIKYAKU_SIM_RUNS=n` at least n seeds of each scenario, and `HIKYAKU_SIM_DIR=path`
//! writes what happens to that directory (`packets.pcapng`, and `trace/` for `hikyaku trace`).
#![expect(unsafe_code, reason = "the engine takes pointers")]

/// The memory of each rank lies together here, and in `tests/sim` it does not.
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
