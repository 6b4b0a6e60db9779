//! Windows: epochs, what they exclude, and who loses.

use std::{
    mem,
    panic::{self, AssertUnwindSafe},
    sync::atomic::{AtomicBool, Ordering},
};

use mpi::{
    ErrorClass,
    collective::SystemOperation,
    traits::*,
    window::{LockKind, Window},
};

use super::support::{job, job_on};

const LONG: usize = 50_000;

#[test]
fn fences_bring_what_was_written_and_read() {
    for backend in ["loopback", "udp"] {
        job_on(backend, 3, |world| {
            let (rank, size) = (world.rank(), world.size());
            let mut window = Window::<u32>::allocate(world, LONG).unwrap();
            assert_eq!((window.len(), window.len_at(size)), (LONG, None));
            let next = (rank + 1) % size;
            for round in 0..3 {
                let news = vec![rank as u32 * 100 + round; LONG / 2];
                let mut there = vec![9; LONG];
                window.fence(|epoch| epoch.put(&news, next, 1)).unwrap();
                window.fence(|epoch| epoch.get_into(&mut there, next, 0)).unwrap();
                assert_eq!((there[0], there[1], there[LONG / 2]), (0, news[0], news[0]));
                let mut own = window.local().unwrap();
                let from = (rank + size - 1) % size;
                assert!(own[1..=LONG / 2].iter().all(|x| *x == from as u32 * 100 + round));
                own[LONG - 1] += 1;
                assert_eq!(own[LONG - 1], round + 1);
            }
            window.free().unwrap();
            true
        });
    }
}

#[test]
fn locks_count_exactly() {
    job(4, |world| {
        let mut window = Window::<i64>::allocate(world, 2).unwrap();
        for _ in 0..25 {
            let alone = window.lock(LockKind::Exclusive, 0, |epoch| {
                // Nobody else is there between the two.
                let before = epoch.get(0, 0)?;
                epoch.fetch_and_op(&(before + 1), 0, 0, SystemOperation::replace())
            });
            alone.unwrap();
            let shared = window.lock_all(|epoch| {
                let mut seen = epoch.get(0, 1)?;
                loop {
                    match epoch.compare_and_swap(&seen, &(seen + 2), 0, 1)? {
                        there if there == seen => return epoch.flush(),
                        there => seen = there,
                    }
                }
            });
            shared.unwrap();
        }
        world.barrier().unwrap();
        if world.rank() == 0 {
            assert_eq!(*window.local().unwrap(), [100, 200]);
        }
        window.free().unwrap();
    });
}

#[test]
fn a_local_guard_keeps_others_out() {
    let busy = AtomicBool::new(false);
    job(3, |world| {
        let mut window = Window::<u64>::allocate(world, LONG).unwrap();
        let ones = vec![1; LONG];
        for round in 0..20 {
            if world.rank() == 0 {
                let mut own = window.local().unwrap();
                let before = own[0];
                busy.store(true, Ordering::SeqCst);
                assert!(
                    own.iter().all(|x| *x == before),
                    "an accumulate of all is in one go here"
                );
                own.fill(before);
                busy.store(false, Ordering::SeqCst);
            } else {
                let added = window.lock(LockKind::Exclusive, 0, |epoch| {
                    assert!(!busy.load(Ordering::SeqCst));
                    epoch.accumulate_into(&ones, 0, 0, SystemOperation::sum())
                });
                added.unwrap();
            }
            if round % 10 == 9 {
                world.barrier().unwrap();
            }
        }
        if world.rank() == 0 {
            assert!(window.local().unwrap().iter().all(|x| *x == 40));
        }
        window.free().unwrap();
    });
}

#[test]
fn those_who_have_posted_are_accessed() {
    job(4, |world| {
        let mut window = Window::<f64>::allocate(world, 4).unwrap();
        let rank = world.rank();
        let group = world.group();
        // The even ones write to the odd ones.
        let (even, odd) = (group.include(&[0, 2]), group.include(&[1, 3]));
        let own = [f64::from(rank) + 0.5];
        for _ in 0..3 {
            if rank % 2 == 0 {
                let put = window.start(&odd, |epoch| {
                    [1, 3].iter().try_for_each(|to| epoch.put(&own, *to, rank as usize))
                });
                put.unwrap();
            } else {
                let exposure = window.post(&even).unwrap();
                exposure.wait().unwrap();
                assert_eq!(*window.local().unwrap(), [0.5, 0.0, 2.5, 0.0]);
            }
        }
        if rank % 2 == 1 {
            // What was forgotten may go on for ever.
            mem::forget(window.post(&group.include(&[])).unwrap());
            assert_eq!(window.local().unwrap_err().class(), ErrorClass::RmaSync);
            assert_eq!(window.fence(|_| Ok(())).unwrap_err().class(), ErrorClass::RmaSync);
        }
    });
}

#[test]
fn epochs_exclude_each_other_and_end_with_a_panic() {
    job(2, |world| {
        let mut window = Window::<u8>::allocate(world, LONG).unwrap();
        let other = 1 - world.rank();
        let news = vec![7; LONG];
        let left = panic::catch_unwind(AssertUnwindSafe(|| {
            window.fence(|epoch| {
                let class = |result: Result<(), mpi::Error>| result.unwrap_err().class();
                assert_eq!(
                    class(window.lock(LockKind::Shared, other, |_| Ok(()))),
                    ErrorClass::RmaSync
                );
                assert_eq!(class(window.fence(|_| Ok(()))), ErrorClass::RmaSync);
                assert_eq!(class(window.start(&world.group(), |_| Ok(()))), ErrorClass::RmaSync);
                assert_eq!(class(epoch.flush()), ErrorClass::RmaSync);
                epoch.put(&news, other, 0)?;
                panic::resume_unwind(Box::new("on purpose"));
                #[expect(unreachable_code, reason = "the closure's type")]
                Ok(())
            })
        }));
        assert_eq!(left.map(drop).unwrap_err().downcast_ref(), Some(&"on purpose"));
        assert!(*window.local().unwrap() == news[..], "the fence has ended it");

        window
            .lock(LockKind::Exclusive, world.rank(), |epoch| {
                let mine = world.rank();
                assert_eq!(
                    epoch.get(other, 0).unwrap_err().class(),
                    ErrorClass::RmaSync,
                    "it is not locked"
                );
                let beyond = epoch.put(&news[..2], mine, LONG - 1).unwrap_err();
                assert_eq!((beyond.class(), beyond.call()), (ErrorClass::RmaRange, "MPI_Put"));
                assert_eq!(epoch.get(mine, 3)?, 7);
                Ok(())
            })
            .unwrap();
        world.barrier().unwrap();
        window.free().unwrap();
    });
}

#[test]
fn what_is_fetched_is_a_value() {
    job(1, |world| {
        let mut window = Window::<bool>::allocate(world, 3).unwrap();
        let (yes, mut there) = ([true], [true; 3]);
        window
            .lock_all(|epoch| {
                epoch.put(&yes, 0, 1)?;
                epoch.flush()?;
                assert!(epoch.get(0, 1)? && !epoch.get(0, 2)?);
                assert!(!epoch.fetch_and_op(&true, 0, 2, SystemOperation::logical_or())?);
                epoch.get_into(&mut there, 0, 0)
            })
            .unwrap();
        assert_eq!(there, [false, true, true]);
        assert_eq!(*window.local().unwrap(), there);
        // Some bytes are no numbers to be added.
        let wrong = window.lock(LockKind::Shared, 0, |epoch| {
            epoch.accumulate_into(&yes, 0, 0, SystemOperation::sum())
        });
        assert_eq!(wrong.unwrap_err().class(), ErrorClass::Op);
        // Requests.
        let mut numbers = Window::<u16>::allocate(world, 3).unwrap();
        let (sent, mut read) = ([4, 5], [0; 2]);
        numbers
            .lock(LockKind::Shared, 0, |epoch| {
                mpi::request::scope(|scope| epoch.immediate_put(scope, &sent, 0, 1).wait())?;
                mpi::request::scope(|scope| epoch.immediate_get_into(scope, &mut read, 0, 1).wait())
            })
            .unwrap();
        assert_eq!((read, &*numbers.local().unwrap()), (sent, &[0, 4, 5][..]));
    });
}

#[test]
fn there_is_no_reference_once_a_process_is_lost() {
    job_on("udp", 2, |world| {
        let mut window = Window::<u64>::allocate(world, 4).unwrap();
        window.fence(|_| Ok(())).unwrap();
        if world.rank() == 1 {
            return false;
        }
        // (Until it has gone, it may still answer.)
        let mut lock = || window.lock(LockKind::Shared, 1, |_| Ok(())).err();
        let lost = std::iter::repeat_with(&mut lock).find_map(|error| error);
        assert_eq!(lost.map(|error| error.class()), Some(ErrorClass::ProcFailed));
        assert_eq!(window.local().unwrap_err().class(), ErrorClass::ProcFailed);
        // What is copied by the engine is always right.
        let mine = window.lock(LockKind::Exclusive, 0, |epoch| {
            epoch.fetch_and_op(&3, 0, 1, SystemOperation::sum())
        });
        assert_eq!(mine.unwrap(), 0);
        assert_eq!(window.lock(LockKind::Shared, 0, |epoch| epoch.get(0, 1)).unwrap(), 3);
        true
    });
}
