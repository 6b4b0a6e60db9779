//! Collectives in two levels against the same ones in one: drawn from seeds, with the same results.

use hikyaku::{
    internals::prng::Prng,
    mpi::{
        collectives::{Collective, Levels},
        engine::{Communicator, Options},
    },
};

use super::{
    drawn::{Drawn, KINDS, seeds},
    support::{Hosts, job_on_hosts, with},
};

/// Those that go in two levels.
const IN_LEVELS: [Collective; 13] = [
    Collective::Barrier,
    Collective::Bcast,
    Collective::Gather,
    Collective::Scatter,
    Collective::Allgather,
    Collective::Allgatherv,
    Collective::Alltoall,
    Collective::Reduce,
    Collective::Allreduce,
    Collective::ReduceScatter,
    Collective::ReduceScatterBlock,
    Collective::Scan,
    Collective::Exscan,
];

/// Even ones in the order of ranks and not, uneven ones, and ranks that are alone.
const HOSTS: [Hosts<'_>; 7] = [
    &[0, 0, 1, 1],
    &[0, 1, 0, 1],
    &[0, 0, 0, 1, 1, 1],
    &[1, 0, 0, 1, 2, 2],
    &[0, 0, 0, 1],
    &[1, 0, 0],
    &[2, 0, 0, 1, 0, 1, 1],
];

fn compare(world: &Communicator, seed: u64, kinds: &[Collective], about: &str) {
    let mut prng = Prng::new(seed);
    let size = world.size() as usize;
    for turn in 0..60 {
        let drawn = Drawn::draw(&mut prng, kinds, size);
        let here = drawn.run(world, turn, None);
        let there = drawn.run(world, turn, drawn.by_messages(size));
        assert!(here == there, "seed {seed}, {about}, call {turn}: {drawn}");
    }
}

#[test]
fn two_levels_and_one_give_the_same() {
    for (seed, levels) in seeds().zip([Levels::Leaders, Levels::Shares, Levels::Auto].into_iter().cycle()) {
        for hosts in HOSTS {
            job_on_hosts(hosts, &with(levels), |world| {
                compare(&world, seed, &IN_LEVELS, &format!("hosts {hosts:?}, {levels:?}"));
                compare(&world, seed, &KINDS, &format!("hosts {hosts:?}, {levels:?}, all"));
            });
        }
    }
}

/// A duplicate, and parts: of one host, of one rank of each, across.
#[test]
fn communicators_made_of_one_with_levels_know_their_own_hosts() {
    const SPLITS: [[i32; 6]; 3] = [[0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2], [0, 0, 1, 0, 0, 1]];
    job_on_hosts(&[0, 0, 0, 1, 1, 1], &with(Levels::Shares), |world| {
        let rank = world.rank() as usize;
        let mut all = vec![world.duplicate().unwrap()];
        for colors in SPLITS {
            // The other way round.
            all.push(world.split(Some(colors[rank]), -(rank as i32)).unwrap().unwrap());
        }
        for (seed, comm) in (1..).zip(&all) {
            compare(comm, seed, &IN_LEVELS, &format!("communicator {seed}"));
        }
    });
}

/// Messages that this rank has sent.
fn sent(comm: &Communicator) -> u64 {
    let stats = comm.engine().stats();
    stats.eager + stats.rendezvous
}

/// Messages of each rank in a program.
fn messages(hosts: Hosts<'_>, options: &Options, program: impl Fn(&Communicator) + Sync) -> Vec<u64> {
    job_on_hosts(hosts, options, |world| {
        let before = sent(&world);
        program(&world);
        sent(&world) - before
    })
}

fn messages_of_a_barrier(hosts: Hosts<'_>, options: &Options) -> Vec<u64> {
    messages(hosts, options, |world| world.barrier().unwrap())
}

/// All that go in two levels do.
#[test]
fn only_leaders_send_messages() {
    let hosts: Hosts<'_> = &[0, 0, 0, 1];
    for kind in IN_LEVELS {
        let sent = messages(hosts, &with(Levels::Leaders), |world| {
            let drawn = Drawn::draw(&mut Prng::new(7), &[kind], hosts.len());
            drawn.run(world, 0, None);
        });
        let senders = sent.iter().filter(|sent| **sent > 0).count();
        assert!(senders <= 2, "{kind}: {sent:?}");
    }
}

/// Only leaders send messages, and where levels are off, all do.
#[test]
fn hosts_talk_by_their_leaders() {
    // (Without root, one host has several ranks.)
    let hosts: Hosts<'_> = &[0, 0, 0, 1];
    assert_eq!(messages_of_a_barrier(hosts, &with(Levels::Leaders)), [1, 0, 0, 1]);
    assert_eq!(messages_of_a_barrier(hosts, &with(Levels::Auto)), [1, 0, 0, 1]);
    let flat = messages_of_a_barrier(hosts, &with(Levels::Off));
    assert!(flat.iter().all(|sent| *sent > 0), "{flat:?}");
    // An algorithm that is forced goes by messages.
    let mut forced = with(Levels::Leaders);
    forced
        .policy
        .force(Collective::Barrier, "dissemination".parse().unwrap());
    assert_eq!(messages_of_a_barrier(hosts, &forced), [2; 4]);
    let checked = Options {
        check: true,
        ..with(Levels::Leaders)
    };
    assert!(messages_of_a_barrier(hosts, &checked).iter().all(|sent| *sent > 0));
}

/// Long vectors of many ranks, too, since few of them share a host: only the last ones of hosts send messages.
#[test]
fn a_scan_of_many_ranks_goes_in_levels() {
    let hosts: Hosts<'_> = &[0, 0, 0, 0, 0, 1, 1, 1, 1, 1];
    for seed in 1..6 {
        let sent = messages(hosts, &with(Levels::Leaders), |world| {
            let drawn = Drawn::draw(&mut Prng::new(seed), &[Collective::Scan], hosts.len());
            drawn.run(world, 0, None);
        });
        let senders: Vec<_> = (0..).zip(&sent).filter(|(_, sent)| **sent > 0).collect();
        assert!(senders.iter().all(|(rank, _)| rank % 5 == 4), "seed {seed}: {sent:?}");
    }
}
