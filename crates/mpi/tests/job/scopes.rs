//! Requests that are dropped, forgotten, or left behind by a panic.

use std::{
    mem,
    panic::{self, AssertUnwindSafe},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Wake, Waker},
};

use mpi::{
    collective::UserOperation,
    point_to_point::persistent,
    request::{RequestCollection, StaticScope, WaitGuard},
    traits::*,
};

use super::support::{job, meet};

const LONG: usize = 200_000;

#[test]
fn a_scope_waits_for_what_was_forgotten() {
    job(2, |world| {
        let other = world.process_at_rank(1 - world.rank());
        let mut rooms = vec![vec![0_u32; LONG]; 3];
        let letter = vec![7_u32; LONG];
        mpi::request::scope(|scope| {
            for (room, tag) in rooms.iter_mut().zip(0..) {
                let request = other.immediate_receive_into_with_tag(scope, room, tag);
                match tag {
                    0 => mem::forget(request),
                    1 => drop(request),
                    _ => mem::forget(WaitGuard::from(request)),
                }
            }
            // All have a message now, so none is cancelled.
            for tag in 0..3 {
                other.immediate_send_with_tag(scope, &letter, tag).wait().unwrap();
            }
        });
        assert!(rooms.iter().all(|room| *room == letter));
    });
}

#[test]
fn a_scope_waits_when_a_panic_leaves_it() {
    job(2, |world| {
        let other = world.process_at_rank(1 - world.rank());
        let (mut room, letter) = (vec![0_u32; LONG], vec![9_u32; LONG]);
        let left = panic::catch_unwind(AssertUnwindSafe(|| {
            mpi::request::scope(|scope| {
                let _receiving = other.immediate_receive_into(scope, &mut room);
                let _sending = WaitGuard::from(other.immediate_send(scope, &letter));
                panic::resume_unwind(Box::new("on purpose"));
            });
        }));
        assert_eq!(left.unwrap_err().downcast_ref(), Some(&"on purpose"));
        assert!(
            room == letter || room.iter().all(|x| *x == 0),
            "all or nothing: it is over"
        );
        assert_eq!(world.as_raw().engine().requests(), 0);
        meet(world);
    });
}

#[test]
fn collections_end_what_is_left_in_them() {
    job(2, |world| {
        let other = world.process_at_rank(1 - world.rank());
        let (mut room, mut never) = (vec![0_u8; LONG], vec![1_u8; 10]);
        let letter = vec![3_u8; LONG];
        mpi::request::multiple_scope(3, |scope, requests: &mut RequestCollection<'_, Vec<u8>>| {
            requests.add(other.immediate_receive_into_with_tag(scope, &mut room, 0));
            requests.add(other.immediate_receive_into_with_tag(scope, &mut never, 1));
            requests.add(other.immediate_send_with_tag(scope, &letter, 0));
            let (index, status, data) = requests.wait_any().unwrap().unwrap();
            assert!(index != 1 && data.len() == LONG && status.tag() <= 0);
        });
        assert_eq!(never, [1; 10]);
        meet(world);
    });
}

#[test]
fn a_panic_of_an_operation_comes_out_of_the_wait() {
    let panics = AtomicUsize::new(0);
    job(3, |world| {
        let own = world.rank();
        let bad = UserOperation::commutative(|_, _| panic::resume_unwind(Box::new("no sum")));
        let mut sum = 0;
        let blocking = panic::catch_unwind(AssertUnwindSafe(|| world.all_reduce_into(&own, &mut sum, &bad)));
        let immediate = panic::catch_unwind(AssertUnwindSafe(|| {
            mpi::request::scope(|scope| world.immediate_all_reduce_into(scope, &own, &mut sum, &bad).wait())
        }));
        // Who reduces panics; with this algorithm or that, somebody does, and nobody hangs.
        for left in [blocking.map(drop), immediate.map(drop)] {
            if let Err(payload) = left {
                assert_eq!(payload.downcast_ref(), Some(&"no sum"));
                panics.fetch_add(1, Ordering::Relaxed);
            }
        }
        world.barrier().unwrap();
    });
    assert!(panics.into_inner() >= 2, "one of each at least");
}

#[test]
fn static_requests_and_owned_values_may_be_dropped() {
    static LETTER: [u64; 4] = [1, 2, 3, 4];
    job(2, |world| {
        let other = world.process_at_rank(1 - world.rank());
        drop(other.immediate_send(StaticScope, &LETTER));
        let dropped = other.immediate_receive_with_tag::<u64>(5);
        drop(dropped);
        assert_eq!(other.receive_vec::<u64>().unwrap().0, LETTER);
        // A barrier that nobody waits for still happens.
        drop(world.immediate_barrier());
        world.barrier().unwrap();
    });
}

#[test]
fn persistent_requests_go_round_again() {
    job(2, |world| {
        let other = world.process_at_rank(1 - world.rank());
        for len in [3, LONG] {
            let (mut from, mut into) = (vec![0_i64; len], vec![0_i64; len]);
            let mut sending = persistent::send_init(&other, &mut from, 3);
            let mut receiving = persistent::receive_init(&other, &mut into, 3);
            for round in 0..5 {
                sending.buffer_mut().fill(round);
                mpi::request::scope(|scope| {
                    let receive = receiving.start(scope);
                    sending.start(scope).wait()?;
                    receive.wait()
                })
                .unwrap();
                assert!(receiving.buffer().iter().all(|x| *x == round));
            }
            // The other ways to send; there is no room for a copy.
            let (mut ready, mut waits) = (vec![7_i64; len], vec![8_i64; len]);
            let mut ready = persistent::ready_send_init(&other, &mut ready, 3);
            let mut waits = persistent::synchronous_send_init(&other, &mut waits, 3);
            for (send, value) in [(&mut ready, 7), (&mut waits, 8)] {
                mpi::request::scope(|scope| {
                    let receive = receiving.start(scope);
                    send.start(scope).wait()?;
                    receive.wait()
                })
                .unwrap();
                assert!(receiving.buffer().iter().all(|x| *x == value));
            }
            let mut copy = vec![0_i64; len];
            let mut copied = persistent::buffered_send_init(&other, &mut copy, 3);
            let refused = mpi::request::scope(|scope| copied.start(scope).wait());
            assert_eq!(refused.unwrap_err().class(), mpi::ErrorClass::Buffer);
        }
    });
}

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_future_is_woken_though_nobody_waits() {
    job(2, |world| {
        let other = world.process_at_rank(1 - world.rank());
        if world.rank() == 1 {
            assert_eq!(other.receive::<u8>().unwrap().0, 1);
            other.send(&7_i32).unwrap();
            other.receive::<i32>().unwrap();
            return;
        }
        let woken = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&woken));
        let mut future = pin!(other.immediate_receive::<i32>());
        let mut context = Context::from_waker(&waker);
        assert!(Future::poll(future.as_mut(), &mut context).is_pending());
        other.send(&[1_u8]).unwrap();
        // The helper thread does it all.
        while woken.0.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        let mut polled = Future::poll(future.as_mut(), &mut context);
        while polled.is_pending() {
            polled = Future::poll(future.as_mut(), &mut context);
        }
        let std::task::Poll::Ready(received) = polled else {
            unreachable!()
        };
        assert_eq!(received.unwrap().0, 7);
        other.send(&0_i32).unwrap();
    });
}
