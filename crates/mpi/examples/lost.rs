//! A rank is lost: which errors a program sees, and how the other ranks go on without it.
//!
//! ```text
//! hikyaku run -n 4 --on-failure continue target/release/examples/lost \
//!     barrier|receive|probe|collective|stream|leave|finalize|several|memory|lock|locks|stopped FILE|\
//!     compute [MILLISECONDS]
//! ```
//!
//! The last rank is in trouble, the others tell what becomes of their calls:
//!
//! - `barrier`, `receive`, `probe`, `collective`: it does nothing, until the user kills it (its process id is printed), while the
//!   others wait in a barrier, to receive from it (with a length that is known, or not), or in a large reduction;
//! - `stream`: it sends long messages to all others without end, until the user kills it in the middle of one;
//! - `leave`: it exits in the middle, as if all were well;
//! - `finalize`: it ends MPI while the others add numbers, of which none gets a sum;
//! - `memory`: it takes more and more memory until the system ends it, while the others wait to receive from it;
//! - `lock`: it holds the lock of a window for which the others wait, until the user kills it;
//! - `locks`: it locks windows and unlocks them, as the others do, until the user kills it;
//! - `stopped`: the user stops it (SIGSTOP), and makes FILE and lets it go on (SIGCONT) when the others have given it up, or
//!   before; then it sends what they wait for;
//! - `several`: every second rank does nothing, until the user kills them, while the others wait to receive from each;
//! - `compute`: it computes for so long (default 1000), without calling MPI, while the others send to it and then wait in
//!   a barrier. That is no trouble: it is only late.
//!
//! With `--on-failure continue` the launcher tells the others at once; otherwise it ends the job, and to see what the
//! others see they must ignore SIGTERM (`sh -c "trap '' TERM; exec lost barrier"`) for the three seconds that they have.
//! Under other launchers the others notice by themselves: `HIKYAKU_DEATH_TIMEOUT=300ms` sets how long a rank may be silent.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use mpi::{
    Error, Rank,
    collective::SystemOperation,
    topology::SimpleCommunicator,
    traits::*,
    window::{LockKind, Window},
};

/// So many messages for a rank that computes, more than go unacknowledged.
const LETTERS: u64 = 1_000;
/// Bytes of a message that is copied through memory in several pieces.
const LONG: usize = 60_000;

/// The work of the other ranks; it ends with an error when the last rank is lost.
fn wait_for(world: &SimpleCommunicator, last: Rank, how: &str) -> Result<(), Error> {
    match how {
        "receive" | "memory" => {
            let letter = world.process_at_rank(last).receive_with_tag::<u64>(0)?;
            panic!("received {letter:?}, which nobody has sent");
        }
        "probe" => {
            let letter = world.process_at_rank(last).receive_vec::<u64>()?;
            panic!("received {letter:?}, which nobody has sent");
        }
        "collective" => {
            let (own, mut sum) = (vec![1.0; 100_000], vec![0.0; 100_000]);
            world.all_reduce_into(&own[..], &mut sum[..], SystemOperation::sum())
        }
        "stream" => {
            let (mut next, mut room) = (0_u8, vec![0; LONG]);
            loop {
                world.process_at_rank(last).receive_into(&mut room[..])?;
                assert!(room == vec![next; LONG], "a message is not whole");
                next = next.wrapping_add(1);
            }
        }
        "finalize" => {
            let mut sum = 0;
            world.all_reduce_into(&1, &mut sum, SystemOperation::sum())
        }
        _ => world.barrier(),
    }
}

/// The last rank comes out of this when the others are out of it: no call of theirs but what they do next can miss it. (When
/// it leaves a barrier others may still be in there, and that is what fails if it is lost then.)
pub(crate) fn begin(world: &SimpleCommunicator, last: Rank) -> Result<(), Error> {
    let (rank, first) = (world.rank(), world.process_at_rank(0));
    if rank == last {
        return first.receive::<u8>().map(drop);
    }
    if rank > 0 {
        return first.send(&0_u8);
    }
    for other in 1..last {
        world.process_at_rank(other).receive::<u8>()?;
    }
    world.process_at_rank(last).send(&0_u8)
}

/// The errors that the other ranks see when the last rank is lost, and how they go on.
pub(crate) fn go_on_without(world: &SimpleCommunicator, last: Rank, how: &str) -> Result<(), Error> {
    let rank = world.rank();
    let Err(error) = wait_for(world, last, how) else {
        panic!("rank {last} was lost and nobody noticed");
    };
    println!("rank {rank}: {:?}: {error}", error.class());
    assert_eq!(error.peer(), Some(last), "the wrong one was named");

    // So does everything later that would need it.
    let later = world.barrier().expect_err("a barrier without the last rank");
    assert_eq!(later.peer(), Some(last), "the wrong one was named");

    are_left(world, last)
}

/// Those that are left go on among themselves.
fn are_left(world: &SimpleCommunicator, last: Rank) -> Result<(), Error> {
    let others = world.group().exclude(&[last]);
    let others = world.split_by_subgroup(&others)?.expect("this rank is one of them");
    let mut sum = 0;
    others.all_reduce_into(&1, &mut sum, SystemOperation::sum())?;
    println!("rank {}: {sum} are left", world.rank());
    Ok(())
}

/// The last rank is stopped for a while, and sends to the others when it goes on.
fn stopped(world: &SimpleCommunicator, last: Rank, until: &Path) -> Result<(), Error> {
    let rank = world.rank();
    if rank == last {
        println!("rank {rank} pid {}", std::process::id());
        while !until.exists() {
            std::thread::sleep(Duration::from_millis(10));
        }
        let mut sent = (0..last).try_for_each(|rank| world.process_at_rank(rank).send(&7_u64));
        sent = sent.and_then(|()| world.barrier());
        if let Err(error) = sent {
            println!("rank {rank}: given up: {:?}: {error}", error.class());
            return Ok(());
        }
    } else if let Err(error) = world.process_at_rank(last).receive::<u64>() {
        println!("rank {rank}: {:?}: {error}", error.class());
        return are_left(world, last);
    } else {
        world.barrier()?;
    }
    println!("rank {rank}: nobody is lost");
    Ok(())
}

/// Every second rank is lost, perhaps all at the same moment; what the others see of it, and how they go on.
fn several(world: &SimpleCommunicator) -> Result<(), Error> {
    let (rank, size) = (world.rank(), world.size());
    let troubled: Vec<Rank> = (1..size).step_by(2).collect();
    // They come out of this when the others are out of it, as in `begin`.
    let first = world.process_at_rank(0);
    if troubled.contains(&rank) {
        first.receive::<u8>()?;
        println!("rank {rank} pid {}", std::process::id());
        loop {
            std::thread::park();
        }
    }
    if rank > 0 {
        first.send(&0_u8)?;
    } else {
        for other in (2..size).step_by(2) {
            world.process_at_rank(other).receive::<u8>()?;
        }
        for &other in &troubled {
            world.process_at_rank(other).send(&0_u8)?;
        }
    }
    for &other in &troubled {
        let error = world
            .process_at_rank(other)
            .receive::<u64>()
            .expect_err("it sends nothing");
        println!("rank {rank}: {:?}: {error}", error.class());
        assert_eq!(error.peer(), Some(other), "the wrong one was named");
    }
    let others = world.group().exclude(&troubled);
    let others = world.split_by_subgroup(&others)?.expect("this rank is one of them");
    let mut sum = 0;
    others.all_reduce_into(&1, &mut sum, SystemOperation::sum())?;
    println!("rank {rank}: {sum} are left");
    Ok(())
}

/// Adds to a number of the first rank, which no other one changes meanwhile.
fn count(window: &Window<u64>) -> Result<(), Error> {
    window.lock(LockKind::Exclusive, 0, |epoch| {
        let before = epoch.get(0, 0)?;
        let was = epoch.compare_and_swap(&(before + 1), &before, 0, 0)?;
        assert_eq!(was, before, "another rank has the lock, too");
        Ok(())
    })
}

/// The last rank is lost with a lock, or at any moment of taking one and giving it back. The others get the lock after it.
fn locked(world: &SimpleCommunicator, last: Rank, holds: bool) -> Result<(), Error> {
    let window = Window::<u64>::allocate(world, 1)?;
    let rank = world.rank();
    world.barrier()?;
    if rank == last && holds {
        return window.lock(LockKind::Exclusive, 0, |_| {
            for other in 0..last {
                world.process_at_rank(other).send(&0_u8)?;
            }
            println!("rank {rank} pid {}", std::process::id());
            loop {
                std::thread::park();
            }
        });
    }
    if rank == last {
        for turn in 0.. {
            count(&window)?;
            if turn == 100 {
                println!("rank {rank} pid {}", std::process::id());
            }
        }
    }
    if holds {
        world.process_at_rank(last).receive::<u8>()?;
        count(&window)?;
    } else {
        // Until this one knows.
        while window.lock(LockKind::Shared, last, |_| Ok(())).is_ok() {
            count(&window)?;
        }
    }
    for _ in 0..100 {
        count(&window)?;
    }
    println!("rank {rank}: it has the lock");
    are_left(world, last)
}

/// Sends long messages to all others, without end.
fn stream(world: &SimpleCommunicator, last: Rank) -> Result<(), Error> {
    for number in (0..=u8::MAX).cycle() {
        let message = vec![number; LONG];
        (0..last).try_for_each(|rank| world.process_at_rank(rank).send(&message[..]))?;
    }
    Ok(())
}

/// Takes more and more memory. Messages that nobody receives are under way meanwhile.
fn take_memory(world: &SimpleCommunicator) {
    const STEP: usize = 1 << 20;
    let mut kept = Vec::new();
    // (Where nothing limits it, it must not take all that the system has.)
    for turn in 0..4_096 {
        kept.push(vec![7_u8; STEP]);
        if turn < 64 {
            let letter = &kept[turn][..10_000];
            world.process_at_rank(0).send_with_tag(letter, 9).unwrap();
        }
    }
    println!("there is no limit");
}

/// Computes, and calls nobody.
fn compute(time: Duration) -> u64 {
    let start = Instant::now();
    let mut sum = 0_u64;
    while start.elapsed() < time {
        sum = (0..10_000).fold(sum, |sum, n| sum.rotate_left(5) ^ n);
    }
    sum
}

/// All ranks send to one that computes; it has all messages when it comes back.
fn late(world: &SimpleCommunicator, last: Rank, time: Duration) -> Result<(), Error> {
    if world.rank() != last {
        for letter in 0..LETTERS {
            world.process_at_rank(last).send(&letter)?;
        }
        world.barrier()?;
        println!("rank {}: nobody is lost", world.rank());
        return Ok(());
    }
    std::hint::black_box(compute(time));
    for rank in 0..last {
        for letter in 0..LETTERS {
            assert_eq!(world.process_at_rank(rank).receive::<u64>()?.0, letter);
        }
    }
    world.barrier()
}

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let how = arguments.next().unwrap_or_default();
    let usage = "usage: lost barrier|receive|probe|collective|stream|leave|finalize|several|memory|lock|locks|\
        stopped FILE|compute [MILLISECONDS]";
    let known = [
        "barrier",
        "receive",
        "probe",
        "collective",
        "stream",
        "leave",
        "finalize",
        "several",
        "memory",
        "lock",
        "locks",
        "stopped",
        "compute",
    ];
    assert!(known.contains(&&*how), "{usage}");
    let argument = arguments.next();
    let time = || argument.as_ref().map_or(1_000, |time| time.parse().expect(usage));
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (rank, last) = (world.rank(), world.size() - 1);
    if last == 0 {
        println!("with one rank there is nobody to miss it");
        return Ok(());
    }
    if how == "compute" {
        return late(&world, last, Duration::from_millis(time()));
    }
    if how == "several" {
        return several(&world);
    }
    // After a few collectives, ranks of one host call them by memory that all have mapped: also there a loss is noticed.
    for _ in 0..8 {
        world.barrier()?;
    }
    begin(&world, last)?;
    if how == "stopped" {
        return stopped(&world, last, Path::new(&argument.expect(usage)));
    }
    if how == "lock" || how == "locks" {
        return locked(&world, last, how == "lock");
    }
    if rank < last {
        return go_on_without(&world, last, &how);
    }
    if how == "finalize" {
        return Ok(());
    }
    println!("rank {rank} pid {}", std::process::id());
    if how == "leave" {
        std::process::exit(0);
    }
    if how == "stream" {
        return stream(&world, last);
    }
    if how == "memory" {
        take_memory(&world);
    }
    loop {
        std::thread::park();
    }
}
