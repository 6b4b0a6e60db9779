//! The lock between threads of the system.

use std::thread;

use super::Lock;

/// Threads count without losing a step, and one that waits gets its turn though another one wants the lock again at once.
#[test]
fn one_thread_at_a_time() {
    const TURNS: usize = if cfg!(miri) { 50 } else { 20_000 };
    let lock = Lock::new((0_usize, 0_usize));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..TURNS {
                    let mut guard = lock.lock();
                    guard.0 += 1;
                    guard.1 = guard.0;
                }
            });
        }
    });
    let guard = lock.lock();
    assert_eq!(*guard, (4 * TURNS, 4 * TURNS));
    assert!(lock.try_lock().is_none(), "it is held");
    drop(guard);
    assert!(lock.try_lock().is_some());
}
