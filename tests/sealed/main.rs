//! The deterministic simulation again, with a sealer at each node: see `tests/simulation/main.rs`. Left out are the
//! scenarios of checksums, which sealed packets do not have; and those in which a test writes the packets of a
//! peer. (Nodes whose endpoint is in a poller do not seal here either.) `properties.rs` has what seals promise.

#[path = "../simulation/attack.rs"]
mod attack;
#[path = "../simulation/credit.rs"]
mod credit;
#[path = "../simulation/death.rs"]
mod death;
#[path = "../simulation/discipline.rs"]
mod discipline;
#[path = "../simulation/dse.rs"]
mod dse;
#[path = "../simulation/exactly_once.rs"]
mod exactly_once;
#[path = "../simulation/flips.rs"]
mod flips;
#[path = "../simulation/harness/mod.rs"]
mod harness;
#[path = "../simulation/liar/mod.rs"]
mod liar;
#[path = "../simulation/long_path.rs"]
mod long_path;
#[path = "../simulation/lost_acks.rs"]
mod lost_acks;
#[path = "../simulation/mtu.rs"]
mod mtu;
#[path = "../simulation/ops.rs"]
mod ops;
mod properties;
#[path = "../simulation/proxy.rs"]
mod proxy;
#[path = "../simulation/reconnect.rs"]
mod reconnect;
#[path = "../simulation/refused.rs"]
mod refused;
#[path = "../simulation/session.rs"]
mod session;
#[path = "../simulation/strangers.rs"]
mod strangers;
#[path = "../simulation/swarm.rs"]
mod swarm;
#[path = "../simulation/tagged.rs"]
mod tagged;
#[path = "../simulation/throughput.rs"]
mod throughput;
