//! A rank that does not read what it is sent.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicU32, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

use hikyaku::mpi::engine::{Communicator, Mode, Options, Request};

use crate::support::{byte, job_on, options};

/// Longer than the others need by far.
const LATE: Duration = Duration::from_secs(20);
/// Together these fill the largest ring.
const MESSAGES: usize = 40;
const LEN: usize = 100_000;
/// Messages to another rank and back meanwhile.
const TURNS: usize = 10;

fn isend(world: &Communicator, data: &[u8], to: i32) -> Request {
    // SAFETY: the callers keep the data until the request has ended.
    unsafe { world.isend(Mode::Standard, data.as_ptr(), data.len() as u64, &byte(), to, 1) }.unwrap()
}

fn receive(world: &Communicator, len: usize, from: i32) {
    let mut data = vec![0; len];
    // SAFETY: nothing else uses the vector during the call.
    unsafe { world.receive(data.as_mut_ptr(), len as u64, &byte(), from, 1) }.unwrap();
}

/// Its sender goes on to talk with others through memory.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "bounds a wait for other threads, which run in real time"
)]
fn a_rank_that_does_not_read_holds_up_no_other() {
    let (tell, told) = mpsc::channel();
    let told = Mutex::new(told);
    // A rank that waited in a barrier for the one that does not read would take it for dead on a busy machine.
    let (tell_read, told_read) = mpsc::channel();
    let told_read = Mutex::new(told_read);
    let inside = AtomicU32::new(0);
    let options = Options {
        helper: None,
        ..options()
    };
    job_on("udp", 4, &options, |world| {
        world.barrier().unwrap();
        // The last messages of a barrier may need one more pass of their sender, which has left it.
        inside.fetch_add(1, Ordering::Relaxed);
        let start = Instant::now();
        while inside.load(Ordering::Relaxed) < 4 {
            assert!(start.elapsed() < LATE, "the others are still in the barrier");
            world.iprobe(world.rank() ^ 1, 2).unwrap();
        }
        let data = vec![7; LEN];
        match world.rank() {
            0 => {
                let sent: Vec<_> = (0..MESSAGES).map(|_| isend(&world, &data, 1)).collect();
                for _ in 0..TURNS {
                    isend(&world, &data[..500], 3).wait().unwrap();
                    receive(&world, 500, 3);
                }
                tell.send(()).unwrap();
                for request in sent {
                    request.wait().unwrap();
                }
            }
            1 => {
                let told = told.lock().unwrap().recv_timeout(LATE);
                (0..MESSAGES).for_each(|_| receive(&world, LEN, 0));
                (0..2).for_each(|_| tell_read.send(()).unwrap());
                assert!(told.is_ok(), "the sender was held up");
            }
            rank => {
                for _ in 0..if rank == 3 { TURNS } else { 0 } {
                    receive(&world, 500, 0);
                    isend(&world, &data[..500], 0).wait().unwrap();
                }
                told_read.lock().unwrap().recv_timeout(2 * LATE).unwrap();
            }
        }
        world.barrier().unwrap();
    });
}

/// Messages of all lengths that nobody waits for yet, received in another order than they came: each keeps its bytes.
#[test]
fn long_messages_that_come_early_are_kept() {
    const LENS: [usize; 7] = [1, 45, 4_000, 32 << 10, (32 << 10) + 1, 60_000, 64 << 10];
    job_on("udp", 2, &options(), |world| {
        world.barrier().unwrap();
        for turn in 0..20 {
            let data = |tag: usize| -> Vec<u8> {
                (0..LENS[tag])
                    .map(|at| (at * 7 + at / 251 + tag + turn) as u8)
                    .collect()
            };
            let all: Vec<_> = (0..LENS.len()).map(data).collect();
            if world.rank() == 0 {
                let send = |(tag, data): (usize, &Vec<u8>)| {
                    let (base, len) = (data.as_ptr(), data.len() as u64);
                    // SAFETY: the data stay until all requests have ended.
                    unsafe { world.isend(Mode::Standard, base, len, &byte(), 1, tag as i32) }.unwrap()
                };
                let sent: Vec<_> = all.iter().enumerate().map(send).collect();
                for request in sent {
                    request.wait().unwrap();
                }
            } else {
                for (tag, sent) in all.iter().enumerate().rev() {
                    let mut room = vec![0; sent.len() + 1];
                    let (base, len) = (room.as_mut_ptr(), room.len() as u64);
                    // SAFETY: nothing else uses the vector during the call.
                    unsafe { world.receive(base, len, &byte(), 0, tag as i32) }.unwrap();
                    assert!(room[..sent.len()] == sent[..], "{} bytes", sent.len());
                }
            }
        }
    });
}
