//! Ranks of one job, each a thread, of which some talk through the memory that processes of one host share.

use hikyaku::{
    backends::BindOptions,
    mpi::engine::{Communicator, Engine, Options, Unconnected},
    transport::{Routes, Transport},
};

use super::ranks;

/// Runs `program` as each of `size` ranks, and gives what they gave. Those that are near talk through memory, all others by
/// the network. `program` finalises.
pub(crate) fn run<T: Send>(
    size: u32,
    options: &Options,
    is_near: fn(u32) -> bool,
    program: impl Fn(Communicator) -> T + Sync,
) -> Vec<T> {
    let open = |process| {
        let mut place = BindOptions::default();
        place.place.process = process;
        let routes = if is_near(process) {
            Routes::Memory
        } else {
            Routes::Network
        };
        let builder = Transport::builder().bind_options(place).routes(routes);
        Engine::bind(builder, "udp", "127.0.0.1:0", process).unwrap()
    };
    let meet = |process, engine: &mut Unconnected| {
        let others = (0..size).filter(|other| *other != process && is_near(*other)).count();
        let met = engine.meet().unwrap();
        assert_eq!(met.memory, if is_near(process) { others } else { 0 });
    };
    ranks::run(size, options, open, meet, program)
}
