//! Scopes end when all of their requests have: waited for, guarded, dropped or forgotten.

use std::mem;

use mpi::{Error, request::WaitGuard, traits::*};

pub(crate) fn main() -> Result<(), Error> {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (rank, size) = (world.rank(), world.size());
    let next = world.process_at_rank((rank + 1) % size);
    let previous = world.process_at_rank((rank + size - 1) % size);

    // Large enough to wait for their receives.
    let letter = vec![rank; 100_000];
    let mut rooms = vec![vec![-1; 100_000]; 4];
    mpi::request::scope(|scope| {
        let mut places = rooms.iter_mut();
        let waited = previous.immediate_receive_into_with_tag(scope, places.next().unwrap(), 0);
        let _guarded = WaitGuard::from(previous.immediate_receive_into_with_tag(scope, places.next().unwrap(), 1));
        for tag in 0..2 {
            let _sending = WaitGuard::from(next.immediate_send_with_tag(scope, &letter, tag));
            if tag == 0 {
                continue;
            }
        }
        waited.wait()?;
        // Sends may be forgotten: the scope knows them.
        mem::forget(next.immediate_send_with_tag(scope, &letter, 2));
        drop(next.immediate_send_with_tag(scope, &letter, 3));
        previous
            .immediate_receive_into_with_tag(scope, places.next().unwrap(), 2)
            .wait()?;
        previous
            .immediate_receive_into_with_tag(scope, places.next().unwrap(), 3)
            .wait()
    })?;
    let expected = vec![previous.rank(); 100_000];
    assert!(rooms.iter().all(|room| *room == expected));

    // So may receives; a receive without a message is cancelled at the end.
    let mut never = [7; 10];
    mpi::request::scope(|scope| {
        mem::forget(WaitGuard::from(
            previous.immediate_receive_into_with_tag(scope, &mut never, 9),
        ));
    });
    assert_eq!(never, [7; 10]);

    // A scope within a scope.
    let mut x = -1;
    mpi::request::scope(|outer| {
        let receiving = previous.immediate_receive_into(outer, &mut x);
        mpi::request::scope(|inner| {
            let receiving = receiving.shrink_scope_to(inner);
            next.send(&rank)?;
            receiving.wait()
        })
    })?;
    assert_eq!(x, previous.rank());
    Ok(())
}
