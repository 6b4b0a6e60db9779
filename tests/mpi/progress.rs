//! Remote operations are served whatever MPI calls their target makes, even if it makes none.

use std::{
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use hikyaku::mpi::{
    collectives::{Call, Collective},
    datatype::Kind,
    engine::{Buffers, Communicator, Mode, Options, Region, Window},
    operation::{Operation, Predefined},
};

use super::support::{THREADS, byte, job_on, options};

const OPERATIONS: i64 = 200;

/// Adds 1 at `place` of the window of `rank`, or reads it.
fn fetch(window: &Window, rank: i32, place: i64, operation: Predefined) -> i64 {
    let (add, mut was) = ([1_i64], [0_i64]);
    let (origin, result) = (add.as_ptr().cast(), was.as_mut_ptr().cast());
    let operation = Operation::predefined(operation);
    // SAFETY: both live until it has been flushed.
    unsafe { window.fetch_and_op(origin, result, Kind::I64, (rank, place), &operation) }.unwrap();
    window.flush(rank).unwrap();
    was[0]
}

/// A window over memory of the rank alone: its engine serves the others.
fn window(comm: &Communicator) -> Window {
    let memory = Box::leak(Box::new([0_i64; 2]));
    // SAFETY: the memory stays, and only the window uses it.
    let window = unsafe { Window::create(comm, memory.as_mut_ptr().cast(), 16, 8) }.unwrap();
    window.lock_all().unwrap();
    comm.barrier().unwrap();
    window
}

fn close(comm: &Communicator, window: &Window) {
    window.unlock_all().unwrap();
    comm.barrier().unwrap();
    window.free().unwrap();
}

fn count(window: &Window) {
    for n in 0..OPERATIONS {
        assert_eq!(fetch(window, 1, 0, Predefined::Sum), n);
    }
}

/// Without a helper thread, some thread must make MPI calls; which calls makes no difference.
fn alone() -> Options {
    Options {
        helper: None,
        ..options()
    }
}

#[test]
fn a_target_that_only_looks_at_its_own_window_serves_others() {
    for backend in ["loopback", "udp"] {
        job_on(backend, 2, &alone(), |comm| {
            let window = window(&comm);
            match comm.rank() {
                0 => count(&window),
                _ => while fetch(&window, 1, 0, Predefined::NoOp) < OPERATIONS {},
            }
            close(&comm, &window);
        });
    }
}

/// It locks the window, as it must to read it directly.
#[test]
fn a_target_that_only_locks_its_own_window_serves_others() {
    job_on("udp", 2, &alone(), |comm| {
        let window = Window::allocate(&comm, 16, 8).unwrap();
        comm.barrier().unwrap();
        let locked = |rank, look: &mut dyn FnMut() -> i64| {
            window.lock(hikyaku::mpi::engine::LockKind::Exclusive, rank).unwrap();
            let seen = look();
            window.unlock(rank).unwrap();
            seen
        };
        match comm.rank() {
            0 => {
                for n in 0..OPERATIONS {
                    assert_eq!(locked(1, &mut || fetch(&window, 1, 0, Predefined::Sum)), n);
                }
            }
            _ => {
                // SAFETY: it is locked by this process alone.
                let look = || unsafe { window.base().cast::<i64>().read_volatile() };
                while locked(1, &mut || look()) < OPERATIONS {}
            }
        }
        comm.barrier().unwrap();
        window.free().unwrap();
    });
}

/// The token goes back and forth, and both processes only read their own windows.
#[test]
fn a_token_is_handed_over_by_looking_at_the_own_window() {
    job_on("udp", 2, &alone(), |comm| {
        let (window, rank) = (window(&comm), comm.rank());
        for round in 1..=100 {
            if rank == 0 {
                fetch(&window, 1, 0, Predefined::Sum);
            }
            while fetch(&window, rank, 0, Predefined::NoOp) < round {}
            if rank == 1 {
                fetch(&window, 0, 0, Predefined::Sum);
            }
        }
        close(&comm, &window);
    });
}

#[test]
fn a_target_that_only_sends_to_itself_serves_others() {
    for backend in ["loopback", "udp"] {
        job_on(backend, 2, &alone(), |comm| {
            let window = window(&comm);
            if comm.rank() == 0 {
                count(&window);
            } else {
                // SAFETY: others only combine it element by element, and it is read as one element.
                while unsafe { window.base().cast::<i64>().read_volatile() } < OPERATIONS {
                    let mut letter = [0_u8; 4];
                    // SAFETY: the memory outlives the calls.
                    unsafe {
                        comm.send(Mode::Standard, [7_u8; 4].as_ptr(), 4, &byte(), 1, 5).unwrap();
                        comm.receive(letter.as_mut_ptr(), 4, &byte(), 1, 5).unwrap();
                    }
                    assert_eq!(letter, [7; 4]);
                }
            }
            close(&comm, &window);
        });
    }
}

/// The target makes only these calls until the others have finished.
fn serve_by(call: impl Fn(&Communicator, &Window) + Send + Sync + 'static) {
    job_on("udp", 2, &alone(), move |comm| {
        let window = window(&comm);
        if comm.rank() == 0 {
            count(&window);
        } else {
            // SAFETY: others only combine it element by element, and it is read as one element.
            while unsafe { window.base().cast::<i64>().read_volatile() } < OPERATIONS {
                call(&comm, &window);
            }
        }
        close(&comm, &window);
    });
}

#[test]
fn a_target_that_only_synchronises_its_own_window_serves_others() {
    serve_by(|_, window| window.sync().unwrap());
}

/// Nobody else takes part in them.
#[test]
fn a_target_that_only_begins_and_tests_collectives_of_its_own_serves_others() {
    serve_by(|comm, _| {
        let own = Communicator::own(comm.engine());
        let buffers = Buffers {
            input: Region::None,
            output: Region::None,
        };
        // SAFETY: a barrier has no buffers.
        let barrier = unsafe { own.collective("MPI_Ibarrier", &Call::of(Collective::Barrier), &buffers, None, None) };
        let mut barrier = barrier.unwrap();
        while barrier.test().unwrap().is_none() {}
    });
}

#[test]
fn a_target_that_only_sends_partitions_to_itself_serves_others() {
    serve_by(|comm, _| {
        let (data, mut room) = ([7_u8; 8], [0_u8; 8]);
        // SAFETY: both outlive the requests, and are not used meanwhile.
        let (sending, receiving) = unsafe {
            (
                comm.psend_init(data.as_ptr(), (2, 4), &byte(), 1, 5).unwrap(),
                comm.precv_init(room.as_mut_ptr(), (2, 4), &byte(), 1, 5).unwrap(),
            )
        };
        for _ in 0..100 {
            let mut requests = [receiving.start().unwrap(), sending.start().unwrap()];
            sending.ready(0).unwrap();
            sending.ready(1).unwrap();
            for request in &mut requests {
                while request.test().unwrap().is_none() {}
            }
        }
    });
}

/// It asks for what it has got already.
#[test]
fn a_target_that_only_asks_for_the_past_serves_others() {
    serve_by(|comm, _| {
        let _ = comm.engine().lost();
    });
    serve_by(|comm, _| {
        let _ = comm.engine().window_stats();
    });
    serve_by(|comm, _| {
        let stats = comm.engine().packet_stats();
        assert!(stats.packets_sent > 0 && stats.packets_delivered > 0, "{stats}");
    });
    serve_by(|comm, _| {
        let _ = comm.engine().requests();
    });
}

/// It polls whether its request has ended.
#[test]
fn a_target_that_only_tests_serves_others() {
    job_on("udp", 2, &alone(), |comm| {
        let window = window(&comm);
        let mut letter = [0_u8; 4];
        if comm.rank() == 0 {
            count(&window);
            // SAFETY: it outlives the call.
            unsafe { comm.send(Mode::Standard, [1_u8; 4].as_ptr(), 4, &byte(), 1, 5) }.unwrap();
        } else {
            // SAFETY: it outlives the request.
            let request = unsafe { comm.ireceive(letter.as_mut_ptr(), 4, &byte(), 0, 5) }.unwrap();
            while !request.is_done() {}
            request.wait().unwrap();
        }
        close(&comm, &window);
    });
}

/// It makes no calls until the others have finished: it computes, and sleeps. The helper thread would check by itself
/// only once an hour.
#[test]
fn a_target_that_calls_nothing_serves_others() {
    if !THREADS {
        return;
    }
    let helped = Options {
        helper: Some(Duration::from_secs(3_600)),
        ..options()
    };
    for computes in [true, false] {
        let shared = Arc::new((AtomicBool::new(false), Mutex::new(()), Condvar::new()));
        job_on("udp", 2, &helped, move |comm| {
            let (done, sleeper, awake) = &*shared;
            let window = window(&comm);
            if comm.rank() == 0 {
                count(&window);
                let _asleep = sleeper.lock().unwrap();
                done.store(true, Ordering::Release);
                awake.notify_all();
            } else if computes {
                while !done.load(Ordering::Acquire) {
                    std::hint::spin_loop();
                }
            } else {
                let sleeps = sleeper.lock().unwrap();
                drop(awake.wait_while(sleeps, |()| !done.load(Ordering::Acquire)).unwrap());
            }
            close(&comm, &window);
        });
    }
}

/// The helper thread takes in the message, but the operation runs in a thread of the program.
#[test]
fn operations_for_callers_are_left_alone_by_the_helper_thread() {
    if !THREADS {
        return;
    }
    let shared = Arc::new([false, false].map(AtomicBool::new));
    let helping = Options {
        helper: Some(Duration::from_millis(1)),
        ..options()
    };
    job_on("udp", 2, &helping, move |comm| {
        let [has_begun, has_arrived] = &*shared;
        let window = window(&comm);
        let ran = Arc::new(Mutex::new(Vec::new()));
        // SAFETY: adds one element.
        let operation = unsafe {
            let ran = Arc::clone(&ran);
            Operation::user(true, move |input, inout, count, _| {
                assert_eq!(count, 1);
                ran.lock().unwrap().push(thread::current().id());
                let (input, inout) = (input.cast::<i64>(), inout.cast::<i64>());
                inout.write_unaligned(input.read_unaligned() + inout.read_unaligned());
            })
        };
        let operation = operation.in_calls_only();
        let datatype = Kind::I64.into();
        let mut sum = [i64::from(comm.rank()) + 1];
        let buffers = Buffers {
            input: Region::None,
            output: Region::Plain(sum.as_mut_ptr().cast(), &datatype),
        };
        let call = Call::of(Collective::Allreduce).with_count(1).with_in_place(true);
        // What comes while rank 1 begins is added by its call.
        while comm.rank() == 0 && !has_begun.load(Ordering::Acquire) {
            thread::yield_now();
        }
        // SAFETY: the memory outlives the request, which is waited for.
        let mut request =
            unsafe { comm.collective("MPI_Iallreduce", &call, &buffers, Some(&operation), None) }.unwrap();
        if comm.rank() == 1 {
            has_begun.store(true, Ordering::Release);
            while !has_arrived.load(Ordering::Acquire) {
                thread::yield_now();
            }
            assert!(ran.lock().unwrap().is_empty(), "rank 1 is in no call");
        } else {
            // The helper thread of rank 1 answers, and so has taken in what was sent before.
            fetch(&window, 1, 0, Predefined::Sum);
            has_arrived.store(true, Ordering::Release);
        }
        request.wait_mut().unwrap();
        assert_eq!(sum, [3]);
        assert_eq!(*ran.lock().unwrap(), [thread::current().id()]);
        close(&comm, &window);
    });
}
