//! Collectives of several hosts, in two levels, while the network between the hosts loses packets: ranks of one namespace
//! reach each other through memory, and those of the other one do not.

use hikyaku::{
    environment::Environment,
    internals::prng::Prng,
    mpi::{
        engine::Communicator,
        job::{Job, LINGER},
    },
};

use super::{
    drawn::{Drawn, KINDS, seeds},
    jobs::Ranks,
    netns::Veth,
};

/// Ranks of each host.
const PER_HOST: u32 = 3;
/// Collectives after which ranks know who shares a host.
const EARLY: u32 = 8;

// ---- the part of a rank

/// Drawn collectives as they go, and by messages between all ranks: both give the same.
pub(super) fn play() {
    let job = Job::join(&Environment::of_process()).unwrap_or_else(|error| panic!("cannot join: {error}"));
    let world = Communicator::world(job.engine());
    (0..EARLY).for_each(|_| world.barrier().unwrap());
    println!("sends {} messages for a barrier", messages_of_a_barrier(&world));
    for seed in seeds() {
        let mut prng = Prng::new(seed);
        for turn in 0..40 {
            let drawn = Drawn::draw(&mut prng, &KINDS, world.size() as usize);
            let here = drawn.run(&world, turn, None);
            let there = drawn.run(&world, turn, drawn.by_messages(world.size() as usize));
            assert!(here == there, "HIKYAKU_SIM_FROM={seed}, call {turn}: {drawn}");
        }
    }
    Job::finalize(&world, LINGER, || Some(job)).unwrap();
    println!("counted");
}

fn messages_of_a_barrier(world: &Communicator) -> u64 {
    let sent = || {
        let stats = world.engine().stats();
        stats.eager + stats.rendezvous
    };
    let before = sent();
    world.barrier().unwrap();
    sent() - before
}

// ---- the tests

#[test]
#[ignore = "needs root, iproute2 and nftables: cargo xtask ci"]
fn collectives_in_two_levels_survive_loss_between_the_hosts() {
    for levels in ["leaders", "shares", "auto"] {
        let Some(veth) = Veth::new(1_500) else { return };
        let ends = [&veth.a, &veth.b];
        ends.iter().for_each(|end| end.loss(5));
        let all = Ranks::start_as(
            "levels-job",
            &ends,
            &veth.a.ipv4.to_string(),
            PER_HOST,
            &[("HIKYAKU_LEVELS", levels)],
        );
        for (rank, (said, counters)) in (0..).zip(all.finish()) {
            let leads = u64::from(rank % PER_HOST == 0);
            let wanted = format!("sends {leads} messages for a barrier");
            assert!(said.contains(&wanted), "{levels}, rank {rank}\n{said}");
            let resent = counters["stats"]["resends"].as_u64().unwrap();
            assert!(
                leads == 0 || resent > 0,
                "{levels}, rank {rank}: nothing was lost\n{said}"
            );
        }
    }
}
