//! Deterministic simulation of the protocol: virtual time, a seeded bad network, and contracts checked at every step.
//!
//! Each scenario runs over several seeds; one that fails prints its seed, what the seed drew, and the command that
//! repeats it. `HIKYAKU_SEED=n` runs only that seed, `HIKYAKU_SIM_RUNS=n` runs at least n seeds of each, `HIKYAKU_SIM_TRACE=1`
//! prints every datagram and event.

mod agreement;
mod attack;
mod credit;
mod death;
mod discipline;
mod dse;
mod exactly_once;
mod flips;
mod harness;
mod liar;
mod long_path;
mod lost_acks;
mod misbehaviour;
mod mtu;
mod ops;
mod proxy;
mod reconnect;
mod refused;
mod session;
mod strangers;
mod swarm;
mod tagged;
mod throughput;
