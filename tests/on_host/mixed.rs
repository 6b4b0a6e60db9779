//! Collectives by memory against the same ones by messages: drawn from seeds, with the same results.

use std::sync::Arc;

use hikyaku::{
    internals::prng::Prng,
    mpi::engine::{Communicator, Entry, Exit, Options, Profiler},
    time::Instant,
};

use super::{
    drawn::{Drawn, KINDS, seeds},
    support::{job_on, options},
};

/// Messages that this rank has sent.
fn sent(comm: &Communicator) -> u64 {
    let stats = comm.engine().stats();
    stats.eager + stats.rendezvous
}

#[derive(Debug)]
struct Quiet;

impl Profiler for Quiet {
    fn leave(&self, _: Instant, _: Instant, _: &Entry, _: &Exit<'_>) {}
}

/// And by memory no message is sent, with and without a profiler.
#[test]
fn memory_and_messages_give_the_same() {
    let profiled = Options {
        profiler: Some(Arc::new(Quiet)),
        ..options()
    };
    for (seed, size) in seeds().flat_map(|seed| [2, 3, 4, 7].map(|size| (seed, size))) {
        let options = if seed % 2 == 0 { &profiled } else { &options() };
        job_on("udp", size, options, |world| {
            let mut prng = Prng::new(seed);
            for turn in 0..100 {
                let drawn = Drawn::draw(&mut prng, &KINDS, size as usize);
                let call = format!("seed {seed}, {size} ranks, call {turn}: {drawn}");
                let before = sent(&world);
                let here = drawn.run(&world, turn, None);
                assert_eq!(sent(&world), before, "{call}");
                let there = drawn.run(&world, turn, drawn.by_messages(size as usize));
                assert!(here == there, "{call}");
            }
        });
    }
}
