//! Collectives in two levels, where simulated ranks share hosts.

use std::time::Duration;

use hikyaku::{
    internals::prng::Prng,
    mpi::{
        collectives::{Call, Collective, Levels},
        datatype::{Datatype, Kind},
        engine::{Buffers, Communicator, Region},
        error::{Error, ErrorClass},
        operation::{Operation, Predefined},
    },
    sim::{Fault, Outcome, Simulation},
};

use super::drawn::{Drawn, KINDS, seeds};

/// The last host has fewer ranks.
fn on_hosts(levels: Levels, shared_memory: bool) -> Simulation {
    let mut simulation = Simulation::new(8, 3);
    simulation.network.per_host = 3;
    simulation.shared_memory = shared_memory;
    simulation.options.policy.levels = levels;
    simulation
}

#[test]
fn two_levels_and_one_give_the_same() {
    for (levels, shared_memory) in [
        (Levels::Leaders, false),
        (Levels::Leaders, true),
        (Levels::Shares, true),
        (Levels::Auto, true),
    ] {
        let outcome = on_hosts(levels, shared_memory).run(move |engine| {
            let world = Communicator::world(engine);
            let size = world.size() as usize;
            // Every second rank, the other way round: two of a host.
            let rank = world.rank();
            let half = world.split(Some(rank % 2), -rank).unwrap().unwrap();
            for comm in [&world, &half] {
                let mut prng = Prng::new(seeds().start);
                let size = size.min(comm.size() as usize);
                for turn in 0..100 {
                    let drawn = Drawn::draw(&mut prng, &KINDS, size);
                    let here = drawn.run(comm, turn, None);
                    let there = drawn.run(comm, turn, drawn.by_messages(size));
                    assert!(here == there, "{levels:?}, {size} ranks, call {turn}: {drawn}");
                }
            }
            engine.finalize(Duration::from_secs(2)).unwrap();
        });
        outcome.unwrap();
    }
}

/// Ranks of four on each of eight hosts add numbers; gives the time.
fn sums(levels: Levels, count: usize) -> Outcome<()> {
    let mut simulation = Simulation::new(32, 3);
    simulation.network.per_host = 4;
    simulation.shared_memory = true;
    simulation.options.policy.levels = levels;
    let outcome = simulation.run(move |engine| {
        let world = Communicator::world(engine);
        let rank = world.rank();
        // Neighbours are on different hosts.
        let comm = world.split(Some(0), rank % 4 * 8 + rank / 4).unwrap().unwrap();
        let mut values = vec![1_i64; count];
        let (datatype, sum) = (Datatype::predefined(Kind::I64), Operation::predefined(Predefined::Sum));
        let buffers = Buffers {
            input: Region::None,
            output: Region::Plain(values.as_mut_ptr().cast(), &datatype),
        };
        let call = Call::of(Collective::Allreduce).with_count(count).with_in_place(true);
        for turn in 1..=11_u32 {
            // SAFETY: the values are borrowed until it has ended.
            let request = unsafe { comm.collective("MPI_Allreduce", &call, &buffers, Some(&sum), None) };
            request.unwrap().wait().unwrap();
            assert!(values.iter().all(|value| *value == 32_i64.pow(turn)));
        }
        engine.finalize(Duration::from_secs(2)).unwrap();
    });
    outcome.unwrap()
}

/// The ranks of a host share its wire.
#[test]
fn leaders_save_time_where_vectors_are_long() {
    let (flat, levels) = (sums(Levels::Off, 20_000), sums(Levels::Leaders, 20_000));
    assert!(levels.time < flat.time, "{:?} {:?}", levels.time, flat.time);
    assert_eq!(sums(Levels::Leaders, 20_000).digest, levels.digest, "the same again");
    assert_eq!(sums(Levels::Auto, 100).digest, sums(Levels::Off, 100).digest);
}

/// Moves blocks of so many bytes.
fn move_blocks(comm: &Communicator, collective: Collective, count: usize) -> Result<(), Error> {
    let size = comm.size() as usize;
    let (mut sent, mut taken) = (vec![1_u8; size * count], vec![0_u8; size * count]);
    let datatype = Datatype::predefined(Kind::Byte);
    let buffers = Buffers {
        input: Region::Plain(sent.as_mut_ptr().cast(), &datatype),
        output: Region::Plain(taken.as_mut_ptr().cast(), &datatype),
    };
    let (call, name) = (
        Call::of(collective).with_count(count),
        collective.functions()[0].blocking,
    );
    // SAFETY: both are borrowed until it has ended.
    unsafe { comm.collective(name, &call, &buffers, None, None) }?
        .wait()
        .map(drop)
}

/// So do they where all get all blocks.
#[test]
fn leaders_save_time_where_all_gather_long_blocks() {
    let [flat, levels] = [Levels::Off, Levels::Leaders].map(|levels| {
        let mut simulation = Simulation::new(32, 3);
        simulation.network.per_host = 4;
        simulation.shared_memory = true;
        simulation.options.policy.levels = levels;
        let outcome = simulation.run(|engine| {
            let world = Communicator::world(engine);
            (0..11).for_each(|_| move_blocks(&world, Collective::Allgather, 5_000).unwrap());
            engine.finalize(Duration::from_secs(2)).unwrap();
        });
        outcome.unwrap().time
    });
    assert!(levels < flat, "{levels:?} {flat:?}");
}

/// What a rank calls.
type Called = fn(&Communicator) -> Result<(), Error>;

const CALLS: [Called; 3] = [
    Communicator::barrier,
    |comm| move_blocks(comm, Collective::Allgather, 100),
    |comm| move_blocks(comm, Collective::Alltoall, 100),
];

/// A leader crashes, or another rank does, while the others are in a collective: all are told.
#[test]
fn a_crash_ends_both_levels() {
    for (victim, called) in [0, 1, 3, 7]
        .into_iter()
        .flat_map(|victim| CALLS.map(|called| (victim, called)))
    {
        let mut simulation = on_hosts(Levels::Leaders, false);
        simulation.faults.watch = true;
        let crash = Fault::Crash {
            process: victim,
            refuse: false,
        };
        simulation.limit = Some(Duration::from_secs(60));
        simulation.faults.plan = vec![(Duration::from_millis(5), crash)];
        let outcome = simulation.run(move |engine| {
            let world = Communicator::world(engine);
            let error = loop {
                if let Err(error) = called(&world) {
                    break error;
                }
            };
            assert_eq!(error.class(), ErrorClass::ProcFailed, "{error}");
            assert_eq!(error.peer(), Some(victim as i32), "{error}");
            world.barrier().unwrap_err();
            let _ = engine.finalize(Duration::from_millis(1));
        });
        outcome.unwrap();
    }
}
