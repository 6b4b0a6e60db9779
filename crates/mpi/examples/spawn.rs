//! Processes that start others in the middle of a job, and compute with them: π by the areas of strips.
//!
//! `hikyaku run -n 2 spawn`. Without a launcher that can start processes, it says so and ends. `spawn PROGRAM ARGUMENT…`
//! starts two processes of another program; with `spawn apart`, rank 0 starts a process of which the others know
//! nothing; with `spawn in-turn`, all start a process after the other has ended, and so on; with `spawn swap`, as many
//! as there are swap large messages with those that have started them.

use std::{
    env,
    process::{Command, ExitCode},
};

use mpi::{
    ErrorClass,
    collective::SystemOperation,
    environment::Universe,
    point_to_point as p2p,
    topology::{InterCommunicator, MergeOrder, SimpleCommunicator},
    traits::*,
};

/// The spawned processes, of two programs; here both are this one.
const WORKERS: [i32; 2] = [2, 1];
const STRIPS: u32 = 100_000;
const APART: &str = "apart";
const IN_TURN: &str = "in-turn";
/// Processes that are started one after another.
const TURNS: usize = 30;
const SWAP: &str = "swap";
/// Words of each message that is swapped, and messages to each process.
const WORDS: usize = 1 << 17;
const SWAPS: usize = 16;

pub(crate) fn main() -> ExitCode {
    let mut universe = mpi::initialize().unwrap();
    let is_asked = |wanted: &str| env::args().nth(1).is_some_and(|word| word == wanted);
    let worked = match universe.world().parent() {
        parent if is_asked(APART) => stay_apart(&universe, parent),
        parent if is_asked(IN_TURN) => start_in_turn(&universe, parent),
        parent if is_asked(SWAP) => swap(&universe, parent),
        Some(parent) => work(&mut universe, &parent),
        None if env::args().len() > 1 => start_another(&universe),
        None => lead(&universe),
    };
    match worked {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("spawn: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The processes that spawn the others give them the work, and take the sum.
fn lead(universe: &Universe) -> Result<(), Box<dyn std::error::Error>> {
    let world = universe.world();
    let own = env::current_exe()?;
    let commands = ["first", "second"].map(|name| {
        let mut command = Command::new(&own);
        command.args([name, "with blanks in it"]);
        command
    });
    let between = match world.process_at_rank(0).spawn_multiple(commands, &WORKERS) {
        Ok(between) => between,
        Err(error) if env::var_os("HIKYAKU_RUN_ADDRESS").is_none() => {
            if world.rank() == 0 {
                println!("nothing is spawned: {error}");
            }
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    assert_eq!(between.remote_size(), WORKERS.iter().sum());
    let first = between.process_at_rank(0);
    if world.rank() == 0 {
        first.send(&STRIPS)?;
        let (pi, _) = first.receive::<f64>()?;
        println!(
            "{} processes of {} say that pi is {pi:.6}",
            between.remote_size(),
            world.size()
        );
        assert!((pi - std::f64::consts::PI).abs() < 1e-6);
    }
    all_count(&between, MergeOrder::Low)?;
    between.disconnect()?;
    Ok(())
}

/// Starts one process after another, each of which has ended when the next one begins, or will soon.
fn start_in_turn(universe: &Universe, parent: Option<InterCommunicator>) -> Result<(), Box<dyn std::error::Error>> {
    let world = universe.world();
    if let Some(parent) = parent {
        return Ok(parent.disconnect()?);
    }
    for _ in 0..TURNS {
        let mut command = Command::new(env::current_exe()?);
        command.arg(IN_TURN);
        world.process_at_rank(0).spawn(&command, 1)?.disconnect()?;
    }
    if world.rank() == 0 {
        println!("{TURNS} processes, one after another");
    }
    Ok(())
}

/// As many processes are started as there are, and each of them swaps messages with each of those that have started it.
fn swap(universe: &Universe, parent: Option<InterCommunicator>) -> Result<(), Box<dyn std::error::Error>> {
    let world = universe.world();
    let (rank, size, is_parent) = (world.rank(), world.size(), parent.is_none());
    let between = if let Some(parent) = parent {
        parent
    } else {
        let mut command = Command::new(env::current_exe()?);
        command.arg(SWAP);
        world.process_at_rank(0).spawn(&command, size)?
    };
    let content = |of_parent: bool, rank: i32, turn: usize| {
        let first = (u64::from(of_parent) << 32 | rank as u64) << 24 | turn as u64;
        (0..WORDS as u64)
            .map(|word| (first << 20 | word).wrapping_mul(0x9e37_79b9_7f4a_7c15))
            .collect::<Vec<u64>>()
    };
    let mut room = vec![0; WORDS];
    for turn in 0..SWAPS {
        for step in 0..size {
            let other = (step + size - rank) % size;
            let partner = between.process_at_rank(other);
            p2p::send_receive_into(&content(is_parent, rank, turn), &partner, &mut room, &partner)?;
            assert!(room == content(!is_parent, other, turn), "message {turn} of {other}");
        }
    }
    println!("rank {rank} has swapped");
    Ok(between.disconnect()?)
}

/// Starts two processes of the program that the command line names.
fn start_another(universe: &Universe) -> Result<(), Box<dyn std::error::Error>> {
    let world = universe.world();
    let mut words = env::args().skip(1);
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words);
    match world.process_at_rank(0).spawn(&command, 2) {
        Ok(between) => println!("rank {} has {} partners", world.rank(), between.remote_size()),
        Err(error) => println!("rank {}: {error}", world.rank()),
    }
    // This world goes on in any case.
    world.barrier()?;
    Ok(())
}

/// A spawned process computes its part.
fn work(universe: &mut Universe, parent: &InterCommunicator) -> Result<(), Box<dyn std::error::Error>> {
    let world = universe.world();
    let (rank, size) = (world.rank() as u32, world.size() as u32);
    let arguments: Vec<String> = env::args().skip(1).collect();
    let name = if universe.appnum() == Some(0) {
        "first"
    } else {
        "second"
    };
    assert_eq!(arguments, [name, "with blanks in it"]);

    let mut strips = 0;
    if rank == 0 {
        strips = parent.process_at_rank(0).receive::<u32>()?.0;
    }
    world.process_at_rank(0).broadcast_into(&mut strips)?;
    let height = |strip: u32| 4.0 / (1.0 + ((f64::from(strip) + 0.5) / f64::from(strips)).powi(2));
    let part: f64 = (rank..strips).step_by(size as usize).map(height).sum::<f64>() / f64::from(strips);
    let root = world.process_at_rank(0);
    if rank == 0 {
        let mut pi = 0.0;
        root.reduce_into_root(&part, &mut pi, SystemOperation::sum())?;
        parent.process_at_rank(0).send(&pi)?;
    } else {
        root.reduce_into(&part, SystemOperation::sum())?;
    }
    all_count(parent, MergeOrder::High)?;
    universe.disconnect_parent();
    assert!(world.parent().is_none());
    Ok(())
}

/// Rank 0 starts a process by itself. A communicator of that and of all ranks is refused, since the others cannot reach
/// it; the process starts another one, with which it can talk.
fn stay_apart(universe: &Universe, parent: Option<InterCommunicator>) -> Result<(), Box<dyn std::error::Error>> {
    let (world, own) = (universe.world(), SimpleCommunicator::self_comm());
    let start = |word: &str| {
        let mut command = Command::new(env::current_exe()?);
        command.args([APART, word]);
        Ok::<_, Box<dyn std::error::Error>>(own.process_at_rank(0).spawn(&command, 1)?)
    };
    let last = env::args().any(|word| word == "last");
    let order = if parent.is_some() {
        MergeOrder::High
    } else {
        MergeOrder::Low
    };
    let between = match parent {
        Some(parent) => parent,
        None if world.rank() == 0 => start("first")?,
        None => {
            let refused = world.create_intercommunicator(0, &world, 0, 5).unwrap_err();
            assert_eq!(refused.class(), ErrorClass::Group);
            return Ok(());
        }
    };
    let pair = between.merge(order)?;
    if last {
        pair.process_at_rank(0).send(&42)?;
    } else if order == MergeOrder::High {
        let refused = own.create_intercommunicator(0, &pair, 0, 5).unwrap_err();
        println!("the spawned process: {refused}");
        let below = start("last")?;
        let child = below.merge(MergeOrder::Low)?;
        assert_eq!(child.process_at_rank(1).receive::<i32>()?.0, 42);
        below.disconnect()?;
    } else {
        let refused = world.create_intercommunicator(0, &pair, 1, 5).unwrap_err();
        assert_eq!(refused.class(), ErrorClass::Group);
    }
    Ok(between.disconnect()?)
}

/// Both worlds become one communicator, in which all have a number.
fn all_count(between: &InterCommunicator, order: MergeOrder) -> Result<(), mpi::Error> {
    let all = between.merge(order)?;
    assert_eq!(all.size(), between.size() + between.remote_size());
    let again = all.duplicate()?;
    let mut sum = 0;
    again.all_reduce_into(&again.rank(), &mut sum, SystemOperation::sum())?;
    assert_eq!(sum, all.size() * (all.size() - 1) / 2);
    Ok(())
}
