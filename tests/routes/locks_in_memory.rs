//! Locks of windows whose memory ranks of one host have in common.

use std::{
    sync::{
        Barrier, Mutex,
        atomic::{AtomicI64, Ordering},
        mpsc,
    },
    time::Duration,
};

use hikyaku::mpi::{
    Rank,
    engine::{Communicator, LockKind, Operands, Options, Target, Window},
    error::ErrorClass,
};

use super::support::{byte, job, job_on, options};

/// Longer than the others need by far.
const LATE: Duration = Duration::from_secs(60);

/// Copies the number of a rank's window, and writes it.
fn number(window: &Window, rank: Rank, write: Option<i64>) -> i64 {
    let byte = byte();
    let mut number = write.unwrap_or(0).to_ne_bytes();
    let here = Operands {
        base: number.as_mut_ptr(),
        count: 8,
        datatype: &byte,
    };
    let there = Target {
        rank,
        displacement: 0,
        count: 8,
        datatype: &byte,
    };
    // SAFETY: the number stays until the flush, and is used after it.
    let begun = unsafe {
        match write {
            Some(_) => window.put(&here, &there),
            None => window.get(&here, &there),
        }
    };
    begun.unwrap();
    window.flush(rank).unwrap();
    i64::from_ne_bytes(number)
}

/// Requests that this rank has served.
fn served(world: &Communicator) -> u64 {
    world.engine().window_stats().served
}

fn lock_each_once(window: &Window, rank: Rank) {
    for kind in [LockKind::Exclusive, LockKind::Shared] {
        window.lock(kind, rank).unwrap();
        window.unlock(rank).unwrap();
    }
}

/// A lock that nobody else wants is taken in memory, that of the rank's own window too; without such memory the target is
/// asked.
#[test]
fn a_free_lock_needs_no_message() {
    job(2, |world| {
        let allocated = Window::allocate(&world, 8, 1).unwrap();
        let shared = Window::allocate_shared(&world, 8, 1).unwrap();
        world.barrier().unwrap();
        for window in [&allocated, &shared] {
            for turn in 0..2 {
                if world.rank() == turn {
                    (0..2).for_each(|rank| lock_each_once(window, rank));
                }
                world.barrier().unwrap();
            }
            window.lock_all().unwrap();
            window.unlock_all().unwrap();
            world.barrier().unwrap();
        }
        assert_eq!(served(&world), 0, "locks are taken without their target");
        let mut memory = [0_u8; 8];
        // SAFETY: the memory stays until the window is freed, and nobody uses it.
        let created = unsafe { Window::create(&world, memory.as_mut_ptr(), 8, 1) }.unwrap();
        if world.rank() == 0 {
            lock_each_once(&created, 1);
        }
        for window in [created, allocated, shared] {
            window.free().unwrap();
        }
        assert_eq!(served(&world), 4 * world.rank() as u64, "two locks, and their ends");
    });
}

/// The target is in no call of MPI, and no other thread makes progress for it.
#[test]
fn a_free_lock_needs_no_part_of_the_target() {
    let alone = Options {
        helper: None,
        ..options()
    };
    let (tell, told) = mpsc::channel();
    let told = Mutex::new(told);
    job_on("udp", 2, &alone, |world| {
        let window = Window::allocate(&world, 8, 1).unwrap();
        world.barrier().unwrap();
        if world.rank() == 0 {
            for turn in 1..=100 {
                window.lock(LockKind::Exclusive, 1).unwrap();
                assert_eq!(number(&window, 1, None), turn - 1);
                number(&window, 1, Some(turn));
                window.unlock(1).unwrap();
            }
            tell.send(()).unwrap();
        } else {
            let told = told.lock().unwrap().recv_timeout(LATE);
            assert!(told.is_ok(), "the other one waits for this");
            // What is unlocked is seen by the next one.
            window.lock(LockKind::Shared, 1).unwrap();
            assert_eq!(number(&window, 1, None), 100);
            window.unlock(1).unwrap();
        }
        world.barrier().unwrap();
        window.free().unwrap();
    });
}

/// Who is inside: one that is alone counts so much.
const ALONE: i64 = 1_000;

/// Ranks with the lock of rank 0: nobody meets one that has it alone, and none of the steps of those is lost.
fn exclude(world: &Communicator, window: &Window, inside: &AtomicI64, turns: i64) {
    for turn in 0..turns {
        match (turn + i64::from(world.rank())) % 4 {
            0 => {
                window.lock(LockKind::Shared, 0).unwrap();
                assert!(inside.fetch_add(1, Ordering::Relaxed) < ALONE, "another one is alone");
                number(window, 0, None);
                inside.fetch_sub(1, Ordering::Relaxed);
                window.unlock(0).unwrap();
            }
            1 => {
                window.lock_all().unwrap();
                assert!(inside.fetch_add(1, Ordering::Relaxed) < ALONE, "another one is alone");
                number(window, 0, None);
                inside.fetch_sub(1, Ordering::Relaxed);
                window.unlock_all().unwrap();
            }
            _ => {
                window.lock(LockKind::Exclusive, 0).unwrap();
                assert_eq!(inside.fetch_add(ALONE, Ordering::Relaxed), 0, "another one is inside");
                let before = number(window, 0, None);
                number(window, 0, Some(before + 1));
                inside.fetch_sub(ALONE, Ordering::Relaxed);
                window.unlock(0).unwrap();
            }
        }
    }
    world.barrier().unwrap();
    window.lock(LockKind::Shared, 0).unwrap();
    let steps = turns / 2 * i64::from(world.size());
    assert_eq!(number(window, 0, None), steps);
    window.unlock(0).unwrap();
    world.barrier().unwrap();
}

/// Two of the ranks reach no other through memory: the target takes the lock for them.
#[test]
fn ranks_of_this_host_and_of_others_exclude_each_other() {
    let inside = AtomicI64::new(0);
    job(6, |world| {
        let window = Window::allocate(&world, 8, 1).unwrap();
        exclude(&world, &window, &inside, 80);
        window.free().unwrap();
        let mut memory = 0_i64;
        // SAFETY: the memory stays until the window is freed, and only the window uses it.
        let window = unsafe { Window::create(&world, (&raw mut memory).cast(), 8, 1) }.unwrap();
        exclude(&world, &window, &inside, 40);
        window.free().unwrap();
    });
}

/// Of one host, whatever way messages take.
#[test]
fn ranks_with_a_shared_window_exclude_each_other() {
    let inside = AtomicI64::new(0);
    job(5, |world| {
        let window = Window::allocate_shared(&world, 8, 1).unwrap();
        exclude(&world, &window, &inside, 80);
        window.free().unwrap();
    });
}

/// A rank that waits has the lock next, before those that could take it when it is free for a moment.
#[test]
fn who_waits_has_it_next() {
    let held = Barrier::new(2);
    let (tell, told) = mpsc::channel();
    let told = Mutex::new(told);
    job(2, |world| {
        let window = Window::allocate(&world, 8, 1).unwrap();
        world.barrier().unwrap();
        if world.rank() == 0 {
            window.lock(LockKind::Exclusive, 0).unwrap();
            held.wait();
            // Until the request of the other one has come.
            while served(&world) == 0 {
                world.engine().progress().unwrap();
            }
            window.unlock(0).unwrap();
            window.lock(LockKind::Exclusive, 0).unwrap();
            let told = told.lock().unwrap().try_recv();
            assert!(told.is_ok(), "the other one had it before");
            window.unlock(0).unwrap();
        } else {
            held.wait();
            window.lock(LockKind::Exclusive, 0).unwrap();
            tell.send(()).unwrap();
            window.unlock(0).unwrap();
        }
        window.free().unwrap();
    });
}

#[test]
fn misuse_of_a_lock_in_memory_is_an_error() {
    job(2, |world| {
        let window = Window::allocate(&world, 8, 1).unwrap();
        let other = 1 - world.rank();
        let class = |result: Result<(), hikyaku::mpi::error::Error>| result.unwrap_err().class();
        assert_eq!(class(window.unlock(other)), ErrorClass::RmaSync);
        assert_eq!(class(window.unlock_all()), ErrorClass::RmaSync);
        window.lock(LockKind::Shared, other).unwrap();
        assert_eq!(class(window.lock(LockKind::Shared, other)), ErrorClass::RmaSync);
        assert_eq!(class(window.lock_all()), ErrorClass::RmaSync);
        assert_eq!(class(window.fence()), ErrorClass::RmaSync);
        window.unlock(other).unwrap();
        world.barrier().unwrap();
        // The word lies behind the data, where no process writes but one that is broken.
        let len = window.extent_at(0).unwrap().0 as usize;
        assert_eq!(len, 8);
        window.lock(LockKind::Exclusive, world.rank()).unwrap();
        let (base, ..) = window.shared_query(world.rank()).unwrap();
        // SAFETY: the page has the window and the word of its lock.
        unsafe { base.cast::<[u64; 512]>().write_volatile([0; 512]) };
        assert_eq!(class(window.unlock(world.rank())), ErrorClass::RmaSync);
        // And with all of its bits set nobody waits for ever.
        // SAFETY: as above.
        unsafe { base.cast::<[u64; 512]>().write_volatile([u64::MAX << 2; 512]) };
        world.barrier().unwrap();
        for rank in [0, 1] {
            window.lock(LockKind::Exclusive, rank).unwrap();
            window.unlock(rank).unwrap();
        }
        world.barrier().unwrap();
        window.free().unwrap();
    });
}
