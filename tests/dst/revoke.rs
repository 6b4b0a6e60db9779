//! One rank alone revokes a communicator: its operations there end on both sides, and nothing else waits for it.

use std::{sync::Arc, time::Duration};

use hikyaku::{
    mpi::{
        Rank,
        engine::{Communicator, Mode, Request},
        error::{Error, ErrorClass},
    },
    sim::{self, Simulation},
};

use super::{
    prng::{self, Prng},
    safe::{Kept, ireceive, isend, receive},
    seeds::{directory, note, scenario},
};

/// The rank that revokes, and the one that receives from all.
const REVOKER: Rank = 0;
const RECEIVER: Rank = 1;
/// Bytes of the messages on the other communicator meanwhile, and the longest time that they may take. (At most the
/// granted 4 MiB are in flight at a revocation; an unused grant counts for 100 ms.)
const LETTER: usize = 300_000;
const SOON: Duration = Duration::from_millis(60);

#[derive(Clone, Debug)]
struct Plan {
    /// Bytes of each message on the revoked communicator, and whether its receive is posted before; otherwise it is
    /// posted when all else is over.
    messages: Vec<(usize, bool)>,
    /// The time of the revocation, after the first of them has begun.
    after: Duration,
}

fn content(from: Rank, number: usize, len: usize) -> Vec<u8> {
    prng::bytes(&[from as u64, number as u64], len)
}

/// Checks that a message was either revoked by its sender, or sent as a whole before.
fn check_ended(ended: Result<(), Error>, bytes: &[u8], number: usize) -> bool {
    if let Err(error) = &ended {
        assert_eq!(error.class(), ErrorClass::Revoked, "message {number}: {error}");
        return true;
    }
    assert!(bytes == content(REVOKER, number, bytes.len()), "message {number}");
    false
}

/// Gives how many messages were revoked before they had arrived.
fn program(world: &Communicator, plan: &Plan) -> Result<usize, Error> {
    let other = world.duplicate()?;
    let mut kept = Kept::default();
    let mut revoked = 0;
    let receives: Vec<(usize, usize)> = plan.messages.iter().map(|message| message.0).enumerate().collect();
    let post = |kept: &mut Kept, number: usize, len: usize| {
        let request = ireceive(&other, kept, len, REVOKER, number as i32)?;
        Ok::<_, Error>((number, kept.last(), request))
    };
    let mut posted: Vec<(usize, usize, Request)> = Vec::new();
    if world.rank() == RECEIVER {
        for &(number, len) in receives.iter().filter(|(number, _)| plan.messages[*number].1) {
            posted.push(post(&mut kept, number, len)?);
        }
    }
    world.barrier()?;
    let mut sends = Vec::new();
    if world.rank() == REVOKER {
        for &(number, len) in &receives {
            let data = content(REVOKER, number, len);
            sends.push(isend(&other, Mode::Standard, &mut kept, data, RECEIVER, number as i32)?);
        }
    }
    sim::compute(plan.after).unwrap();
    if world.rank() == REVOKER {
        other.revoke();
        for send in sends {
            if let Err(error) = send.wait() {
                assert_eq!(error.class(), ErrorClass::Revoked, "{error}");
            }
        }
    }
    // On the other communicator everything goes on.
    let begun = world.engine().now();
    if world.rank() == RECEIVER {
        let mut room = vec![0; LETTER];
        for from in (0..world.size()).filter(|from| *from != RECEIVER) {
            receive(world, &mut room, from, 0)?;
            assert!(room == content(from, 1_000, LETTER), "from rank {from}");
        }
        let time = world.engine().now() - begun;
        assert!(time < SOON, "{time:?}");
        for &(number, len) in receives.iter().filter(|(number, _)| !plan.messages[*number].1) {
            posted.push(post(&mut kept, number, len)?);
        }
        for (number, memory, receive) in posted {
            let ended = receive.wait().map(drop);
            revoked += usize::from(check_ended(ended, kept.bytes(memory), number));
        }
    } else {
        let letter = content(world.rank(), 1_000, LETTER);
        isend(world, Mode::Standard, &mut kept, letter, RECEIVER, 0)?.wait()?;
    }
    kept.done();
    world.barrier()?;
    Ok(revoked)
}

fn run(seed: u64) -> usize {
    let mut rng = Prng::new(seed ^ 0x4e40);
    let ranks = rng.between(3, 5) as u32;
    let plan = Plan {
        messages: (0..rng.between(1, 4))
            .map(|_| (rng.between(100_000, 12_000_000) as usize, rng.chance(600)))
            .collect(),
        after: Duration::from_nanos(rng.skewed(10_000_000)),
    };
    let mut simulation = Simulation::new(ranks, seed);
    simulation.network.bandwidth = rng.pick(&[2.5e9, 10e9]);
    simulation.options.eager_limit = rng.pick(&[100, 4_096, 64 << 10]);
    simulation.limit = Some(Duration::from_secs(30));
    if let Some(directory) = directory() {
        simulation.capture = Some(directory.join("packets.pcapng"));
        simulation.trace = Some(directory.join("trace"));
    }
    note(format!("{simulation:?}"));
    note(format!("{plan:?}"));
    let plan = Arc::new(plan);
    let outcome = simulation.run(move |engine| {
        let world = Communicator::world(engine);
        let revoked = program(&world, &plan).unwrap_or_else(|error| panic!("rank {}: {error}", world.rank()));
        assert_eq!(engine.requests(), 0, "requests are left over at rank {}", world.rank());
        engine.finalize(Duration::from_secs(1)).unwrap();
        revoked
    });
    outcome
        .unwrap_or_else(|error| panic!("{error}"))
        .results
        .into_iter()
        .sum()
}

#[test]
fn by_one_alone() {
    scenario("revoke::by_one_alone", 20, |seed| {
        run(seed);
    });
}

/// Some of the drawn messages are in flight when the communicator is revoked.
#[test]
fn some_messages_are_cut_short() {
    assert!((1..=5).any(|seed| run(seed) > 0));
}
