//! The examples as simulated ranks, from the same source; and a program with the same results on real and simulated ranks.
#![cfg(feature = "sim")]
#![expect(unsafe_code, reason = "a program that never goes on has borrowed what is looked at")]

use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
    fmt::Debug,
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    pin::pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Wake, Waker},
    time::Duration,
};

use hikyaku::{
    mpi::{
        datatype::{Datatype, Kind},
        engine::{Communicator as RawCommunicator, Engine, Mode},
    },
    sim::{self, Fault, Simulation, SimulationError},
    transport::Transport,
};
use mpi::{Error, ErrorClass, collective::SystemOperation, topology::SimpleCommunicator, traits::*};

#[path = "../examples/all_gather.rs"]
mod all_gather;
#[path = "../examples/all_to_all.rs"]
mod all_to_all;
#[path = "../examples/broadcast.rs"]
mod broadcast;
#[path = "../examples/buffered.rs"]
mod buffered;
#[path = "../examples/cartesian.rs"]
mod cartesian;
#[path = "../examples/complex_datatype.rs"]
mod complex_datatype;
#[path = "../examples/duplicate.rs"]
mod duplicate;
#[expect(dead_code, reason = "its main, which reads arguments")]
#[path = "../examples/ft.rs"]
mod ft;
#[path = "../examples/futures.rs"]
mod futures;
#[path = "../examples/gather.rs"]
mod gather;
#[expect(dead_code, reason = "as above")]
#[path = "../examples/halo.rs"]
mod halo;
#[path = "../examples/immediate.rs"]
mod immediate;
#[path = "../examples/immediate_multiple_requests.rs"]
mod immediate_multiple_requests;
#[path = "../examples/intercommunicator.rs"]
mod intercommunicator;
#[expect(dead_code, reason = "as above, and what only real processes can do")]
#[path = "../examples/lost.rs"]
mod lost;
#[expect(dead_code, reason = "as above")]
#[path = "../examples/osu.rs"]
mod osu;
#[path = "../examples/ping_pong.rs"]
mod ping_pong;
#[path = "../examples/reduce.rs"]
mod reduce;
#[expect(dead_code, reason = "as above, and what it does with simulations of its own")]
#[path = "../examples/scaling.rs"]
mod scaling;
#[path = "../examples/scan.rs"]
mod scan;
#[path = "../examples/scatter.rs"]
mod scatter;
#[path = "../examples/send_receive.rs"]
mod send_receive;
#[path = "../examples/simple.rs"]
mod simple;
#[expect(dead_code, reason = "as above")]
#[path = "../examples/sizes.rs"]
mod sizes;
#[path = "../examples/structs.rs"]
mod structs;
#[path = "../examples/structured.rs"]
mod structured;
#[path = "../examples/wait_guard.rs"]
mod wait_guard;
#[path = "../examples/window.rs"]
mod window;

/// Runs an example as each of `size` simulated ranks.
/// Runs a program as `size` ranks over the network alone, and with two packet layers under each messenger: memory to the
/// ranks of the own host, which are half of all, and the network to the others.
fn run<E: Debug>(size: u32, program: impl Fn() -> Result<(), E> + Clone + 'static) {
    for shared_memory in [false, true] {
        let mut simulation = Simulation::new(size, 1);
        simulation.shared_memory = shared_memory;
        if shared_memory {
            simulation.network.per_host = size.div_ceil(2);
        }
        let program = program.clone();
        let outcome = simulation.run(move |_| program().unwrap());
        outcome.unwrap_or_else(|error| panic!("{size} ranks, shared memory: {shared_memory}: {error}"));
    }
}

macro_rules! examples {
    ($($example:ident: $($size:literal),+;)+) => {$(
        #[test]
        fn $example() {
            for size in [$($size),+] {
                run(size, $example::main);
            }
        }
    )+

    /// Their names.
    const EXAMPLES: &[&str] = &[$(stringify!($example)),+];
    };
}

examples! {
    all_gather: 1, 3, 40;
    all_to_all: 1, 3, 40;
    broadcast: 1, 3;
    buffered: 1, 2;
    cartesian: 4, 12;
    complex_datatype: 2, 5;
    duplicate: 1, 4;
    futures: 2, 4;
    gather: 1, 3, 40;
    immediate: 1, 2;
    immediate_multiple_requests: 1, 3;
    intercommunicator: 2, 5;
    ping_pong: 2, 4;
    reduce: 1, 4, 40;
    scan: 1, 4, 9;
    scatter: 1, 3, 40;
    send_receive: 1, 2, 5;
    structs: 1, 4;
    structured: 1, 4;
    wait_guard: 1, 4;
    window: 1, 4;
}

#[test]
fn simple() {
    run(5, || {
        simple::main();
        Ok::<_, ()>(())
    });
}

/// Runs what an example does when its arguments have been read.
fn run_in_world(size: u32, program: impl Fn(&SimpleCommunicator) -> Result<(), Error> + Clone + 'static) {
    run(size, move || program(&mpi::initialize().unwrap().world()));
}

#[test]
fn ft() {
    // Planes go round evenly, unevenly, and not to all.
    for size in [1, 4, 3, 11] {
        run_in_world(size, |world| ft::solve(world, "8"));
    }
    run_in_world(4, |world| ft::solve(world, "S"));
}

#[test]
fn halo() {
    for size in [1, 2, 5, 12] {
        run_in_world(size, |world| halo::smooth(world, 9, 3));
    }
}

#[test]
fn osu() {
    for operation in ["latency", "bandwidth", "barrier", "allreduce", "bcast", "alltoall"] {
        run_in_world(2, |world| osu::measure(world, operation, 10, &[8, 20_000]));
    }
}

#[test]
fn scaling() {
    let by = |size| {
        let outcome = Simulation::new(size, 1).run(|_| {
            let universe = mpi::initialize().unwrap();
            scaling::spread(&universe.world(), 64, 5).unwrap()
        });
        outcome.unwrap().results
    };
    let alone = by(1)[0].change;
    assert!(alone > 0.0);
    for size in [2, 3, 64] {
        assert!(by(size).iter().all(|part| part.change == alone), "{size} ranks");
    }
}

#[test]
fn sizes() {
    for size in [1, 2, 5] {
        run_in_world(size, |world| sizes::add_up(world, 3_000, 30));
    }
}

/// The last rank crashes where natively it would be killed. Its other troubles are only for real ranks: `leave` ends
/// the whole process, `compute` takes real time.
#[test]
fn lost() {
    const LAST: u32 = 3;
    for how in ["barrier", "receive", "probe", "collective"] {
        let mut simulation = Simulation::new(LAST + 1, 1);
        let crash = Fault::Crash {
            process: LAST,
            refuse: true,
        };
        simulation.faults.plan = vec![(Duration::from_millis(100), crash)];
        simulation.faults.watch = true;
        simulation.limit = Some(Duration::from_secs(30));
        let outcome = simulation.run(|_| {
            let universe = mpi::initialize().unwrap();
            let (world, last) = (universe.world(), LAST as i32);
            lost::begin(&world, last).unwrap();
            if world.rank() == last {
                sim::compute(Duration::from_secs(30)).unwrap();
                panic!("not lost");
            }
            lost::go_on_without(&world, last, how).unwrap();
        });
        let survivors = outcome.unwrap_or_else(|error| panic!("{how}: {error}")).results.len();
        assert_eq!(survivors, LAST as usize, "{how}");
    }
}

#[test]
fn all_examples_are_simulated() {
    let by_hand = ["ft", "halo", "lost", "osu", "scaling", "simple", "sizes"];
    // Programs of `hikyaku-papers`, which simulates them itself.
    let elsewhere = ["othello", "sor"];
    // A simulated rank is one thread and has no helper, which is what the first two are about, no memory in common with
    // others, and no launcher that starts processes.
    let not = ["matched_probe", "progress", "memory", "shared", "spawn", "dse"];

    let directory = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")).unwrap();
    let there: BTreeSet<String> = directory
        .map(|file| file.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    let known = EXAMPLES.iter().chain(&by_hand).chain(&elsewhere).chain(&not);
    assert_eq!(there, known.map(|name| (*name).to_owned()).collect());
}

#[test]
fn each_rank_has_a_universe_of_its_own() {
    let outcome = Simulation::new(3, 1).run(|_| {
        let universe = mpi::initialize().unwrap();
        assert!(mpi::initialize().is_err(), "only once");
        let begun = mpi::time();
        sim::compute(Duration::from_millis(2)).unwrap();
        let passed = mpi::time() - begun;
        (universe.world().rank(), universe.world().size(), passed)
    });
    let results = outcome.unwrap().results;
    assert_eq!(results, [(0, 3, 2e-3), (1, 3, 2e-3), (2, 3, 2e-3)]);
}

#[test]
fn ranks_of_a_host_know_each_other() {
    let mut simulation = Simulation::new(5, 1);
    simulation.network.per_host = 2;
    let outcome = simulation.run(|_| {
        let universe = mpi::initialize().unwrap();
        let here = universe.world().split_shared(0).unwrap();
        (mpi::environment::processor_name().unwrap(), here.rank(), here.size())
    });
    let expected = [("0", 0, 2), ("0", 1, 2), ("1", 0, 2), ("1", 1, 2), ("2", 0, 1)];
    let expected = expected.map(|(host, rank, size)| (format!("host {host}"), rank, size));
    assert_eq!(outcome.unwrap().results, expected);
}

/// A rank may be asynchronous: it waits in virtual time.
#[test]
fn asynchronous_ranks() {
    async fn program() -> (i32, f64) {
        let world = SimpleCommunicator::world();
        let (rank, size) = (world.rank(), world.size());
        let begun = mpi::time();
        if rank == 0 {
            sim::compute(Duration::from_millis(3)).unwrap();
            world.process_at_rank(1).send(&1).unwrap();
        }
        let previous = world.process_at_rank((rank + size - 1) % size);
        let (number, _) = previous.immediate_receive::<i32>().await.unwrap();
        if rank > 0 {
            world.process_at_rank((rank + 1) % size).send(&(number + 1)).unwrap();
        }
        world.immediate_barrier().await.unwrap();
        (number, mpi::time() - begun)
    }
    let outcome = Simulation::new(5, 1).run(|_| {
        let _universe = mpi::initialize().unwrap();
        mpi::request::block_on(program())
    });
    for (rank, (number, seconds)) in outcome.unwrap().results.into_iter().enumerate() {
        assert_eq!(number, if rank == 0 { 5 } else { rank as i32 });
        assert!((3e-3..3.1e-3).contains(&seconds), "{seconds}");
    }
}

#[test]
#[should_panic(expected = "MPI_Abort with code 3")]
fn abort_ends_the_simulation() {
    let _ = Simulation::new(3, 1).run(|_| {
        let universe = mpi::initialize().unwrap();
        if universe.world().rank() == 1 {
            universe.world().abort(3);
        }
        universe.world().barrier().unwrap();
    });
}

/// A ring of messages of many sizes, then sums: everything that a rank has seen.
fn program(world: &SimpleCommunicator) -> Vec<u64> {
    let (rank, size) = (world.rank(), world.size());
    let (left, right) = ((rank + size - 1) % size, (rank + 1) % size);
    let mut seen = Vec::new();
    for bytes in [1, 100, 5_000, 300_000] {
        let own: Vec<u64> = (0..bytes / 8 + 1).map(|i| i * 31 + rank as u64).collect();
        let mut from = vec![0_u64; own.len()];
        let to = world.process_at_rank(right);
        mpi::request::scope(|scope| {
            let sending = to.immediate_send(scope, &own[..]);
            world.process_at_rank(left).receive_into(&mut from[..])?;
            sending.wait()
        })
        .unwrap();
        let mut sums = vec![0; from.len()];
        world
            .all_reduce_into(&from[..], &mut sums[..], SystemOperation::sum())
            .unwrap();
        seen.push(from.iter().chain(&sums).fold(0, |sum: u64, x| sum.rotate_left(7) ^ x));
    }
    seen
}

/// The same on threads over loopback.
fn natively(size: u32) -> Vec<Vec<u64>> {
    let bound: Vec<_> = (0..size)
        .map(|process| Engine::bind(Transport::builder(), "loopback", "127.0.0.1:0", process).unwrap())
        .collect();
    let addresses: Vec<_> = bound.iter().map(|one| one.local_addr()).collect();
    std::thread::scope(|scope| {
        let ranks: Vec<_> = bound
            .into_iter()
            .map(|one| {
                let addresses = &addresses;
                scope.spawn(move || {
                    let engine = one
                        .connect(addresses, hikyaku::mpi::engine::Options::default())
                        .unwrap();
                    let world = RawCommunicator::world(&engine);
                    let seen = program(&SimpleCommunicator::from_raw(world.clone()));
                    world.barrier().unwrap();
                    engine.finalize(Duration::from_secs(2)).unwrap();
                    seen
                })
            })
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

#[test]
fn real_and_simulated_ranks_see_the_same() {
    for size in [2, 5] {
        let outcome = Simulation::new(size, 1).run(|_| program(&mpi::initialize().unwrap().world()));
        assert_eq!(outcome.unwrap().results, natively(size));
    }
}

/// Messages that a rank holds for others, which are in the same thread.
type Kept = Rc<RefCell<Option<Rc<SimpleCommunicator>>>>;

/// 100,000 bytes to oneself, which a receive that is still posted would take.
fn send_to_oneself(world: &SimpleCommunicator) {
    let data = vec![0xaa_u8; 100_000];
    mpi::request::scope(|scope| {
        let sending = world.this_process().immediate_send(scope, &data[..]);
        let _ = sending.wait();
    });
}

#[test]
fn nobody_waits_for_another_rank() {
    let (kept, other) = (Kept::default(), Rc::new(Cell::new(None)));
    let told = Rc::clone(&other);
    let outcome = Simulation::new(3, 1).run(move |_| {
        let universe = mpi::initialize().unwrap();
        let world = Rc::new(universe.world());
        if world.rank() == 0 {
            *kept.borrow_mut() = Some(Rc::clone(&world));
        }
        sim::compute(Duration::from_millis(1)).unwrap();
        let mut memory = vec![0_u8; 100_000];
        if world.rank() == 0 {
            let received = world.process_at_rank(2).receive_into(&mut memory[..]);
            panic!("it went on with {received:?}");
        }
        sim::compute(Duration::from_millis(1)).unwrap();
        if world.rank() == 1 {
            let zero = kept.borrow().clone().unwrap();
            let received = zero.process_at_rank(2).receive_into(&mut memory[..]);
            told.set(Some(received.is_err()));
        }
    });
    assert!(
        matches!(outcome, Err(SimulationError::Misplaced { process: 0 })),
        "{outcome:?}"
    );
    assert_eq!(other.take(), Some(true));
}

#[test]
fn nobody_waits_when_it_is_over() {
    let kept = Kept::default();
    let ours = Rc::clone(&kept);
    let outcome = Simulation::new(2, 1).run(move |_| {
        let universe = mpi::initialize().unwrap();
        if universe.world().rank() == 0 {
            *ours.borrow_mut() = Some(Rc::new(universe.world()));
        }
        std::mem::forget(universe);
    });
    outcome.unwrap();
    let world = kept.take().unwrap();
    let mut memory = vec![0_u8; 100_000];
    world.this_process().receive_into(&mut memory[..]).unwrap_err();
    send_to_oneself(&world);
    assert!(memory.iter().all(|byte| *byte == 0), "it was given back");
}

#[test]
fn nobody_waits_in_a_simulation_within() {
    let memory = Rc::new(RefCell::new(vec![0_u8; 100_000]));
    let ours = Rc::clone(&memory);
    let outcome = Simulation::new(2, 1).run(move |_| {
        let universe = mpi::initialize().unwrap();
        let world = universe.world();
        if world.rank() == 0 {
            let memory = Rc::clone(&ours);
            let inner = Simulation::new(1, 1).run(move |_| {
                let mut memory = memory.borrow_mut();
                world.process_at_rank(1).receive_into(&mut memory[..]).unwrap_err();
            });
            inner.unwrap();
        } else {
            // (Where nothing was wrong it would be received.)
            let _ = sim::compute(Duration::from_millis(5));
            let _ = world.process_at_rank(0).send(&[0xaa_u8; 100_000][..]);
        }
    });
    assert!(
        matches!(outcome, Err(SimulationError::Misplaced { process: 0 })),
        "{outcome:?}"
    );
    assert!(memory.borrow().iter().all(|byte| *byte == 0), "it was given back");
}

/// A message that was matched is its sender's memory as long as that is lent.
#[test]
fn a_matched_message_is_not_kept_beyond_its_sender() {
    let kept = Rc::new(RefCell::new(None));
    let ours = Rc::clone(&kept);
    let outcome = Simulation::new(2, 1).run(move |_| {
        let data = vec![1_u8; 1 << 20];
        let universe = mpi::initialize().unwrap();
        let world = universe.world();
        if world.rank() == 1 {
            std::mem::forget(universe);
            return;
        }
        mpi::request::scope(|scope| {
            let _sending = world.this_process().immediate_send(scope, &data[..]);
            *ours.borrow_mut() = Some(world.this_process().matched_probe().unwrap());
            let _ = world.process_at_rank(1).receive::<u8>();
        });
    });
    assert!(matches!(outcome, Err(SimulationError::Deadlock { .. })), "{outcome:?}");
    let message = kept.take().unwrap();
    assert_eq!(message.1.count(u8::equivalent_datatype()), 1 << 20);
    assert!(message.matched_receive_vec::<u8>().is_err());
    // One that is received in time is there, and its send ends.
    let outcome = Simulation::new(1, 1).run(|_| {
        let data = vec![1_u8; 1 << 20];
        let universe = mpi::initialize().unwrap();
        let world = universe.world();
        let own = world.this_process();
        mpi::request::scope(|scope| {
            let sending = own.immediate_send(scope, &data[..]);
            let message = own.matched_probe().unwrap();
            let (received, _) = message.matched_receive_vec::<u8>().unwrap();
            sending.wait().unwrap();
            received == data
        })
    });
    assert_eq!(outcome.unwrap().results, [true]);
}

/// A granted send does not go on after its memory has been given back.
#[test]
fn nothing_is_sent_when_all_has_failed() {
    const LARGE: usize = 1 << 20;
    let kept = Kept::default();
    let directory = std::env::temp_dir().join(format!("hikyaku-failed-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let mut simulation = Simulation::new(2, 1);
    simulation.capture = Some(directory.join("packets.pcapng"));
    let outcome = simulation.run(move |_| {
        let universe = mpi::initialize().unwrap();
        let world = Rc::new(universe.world());
        let other = world.process_at_rank(1 - world.rank());
        if world.rank() == 1 {
            *kept.borrow_mut() = Some(Rc::clone(&world));
            sim::compute(Duration::from_millis(1)).unwrap();
            let mut memory = vec![0; LARGE];
            mpi::request::scope(|scope| {
                let receiving = other.immediate_receive_into(scope, &mut memory[..]);
                let letter = other.immediate_send_with_tag(scope, &1_u8, 1);
                let _ = (receiving.wait(), letter.wait());
            });
            return;
        }
        let mut lent = vec![0xaa_u8; LARGE];
        mpi::request::scope(|scope| {
            let sending = other.immediate_send(scope, &lent[..]);
            let _: (u8, _) = other.receive_with_tag(1).unwrap();
            let foreign = kept.borrow().clone().unwrap();
            let _ = foreign.process_at_rank(0).receive::<u8>();
            let _ = sending.wait();
        });
        lent.fill(0xbb);
    });
    assert!(
        matches!(outcome, Err(SimulationError::Misplaced { process: 1 })),
        "{outcome:?}"
    );
    let sent = fs::read(directory.join("packets.pcapng")).unwrap();
    fs::remove_dir_all(&directory).unwrap();
    assert!(
        !sent.windows(16).any(|bytes| bytes == [0xbb; 16]),
        "what was lent no more"
    );
}

/// A simulation of its own within a program goes on as if alone.
#[test]
fn a_simulation_within_a_simulation() {
    let outcome = Simulation::new(2, 1).run(|_| {
        let universe = mpi::initialize().unwrap();
        let inner = Simulation::new(3, 1).run(|_| program(&mpi::initialize().unwrap().world()));
        universe.world().barrier().unwrap();
        inner.unwrap().results
    });
    let alone = natively(3);
    assert_eq!(outcome.unwrap().results, [alone.clone(), alone]);
}

#[test]
fn a_panic_between_programs_takes_memory_back() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("a waker");
        }
    }

    let (kept, memory) = (Kept::default(), Rc::new(RefCell::new(vec![0_u8; 100_000])));
    let (ours, lent) = (Rc::clone(&kept), Rc::clone(&memory));
    let ran = catch_unwind(AssertUnwindSafe(|| {
        Simulation::new(2, 1).run(move |_| {
            let universe = mpi::initialize().unwrap();
            let world = Rc::new(universe.world());
            if world.rank() == 1 {
                sim::compute(Duration::from_millis(1)).unwrap();
                world.process_at_rank(0).send_with_tag(&7_u8, 1).unwrap();
                return;
            }
            *ours.borrow_mut() = Some(Rc::clone(&world));
            let (mut lent, mut letter) = (lent.borrow_mut(), 0_u8);
            mpi::request::scope(|scope| {
                let own = world.this_process().immediate_receive_into(scope, &mut lent[..]);
                let process = world.process_at_rank(1);
                let mut told = pin!(
                    process
                        .immediate_receive_into_with_tag(scope, &mut letter, 1)
                        .into_future()
                );
                let waker = Waker::from(Arc::new(Panics));
                assert!(told.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
                own.wait().map(drop)
            })
            .unwrap();
        })
    }));
    assert_eq!(ran.unwrap_err().downcast_ref(), Some(&"a waker"));
    let world = kept.take().unwrap();
    send_to_oneself(&world);
    // SAFETY: the program that has borrowed it never goes on.
    let memory = unsafe { &*memory.as_ptr() };
    assert!(memory.iter().all(|byte| *byte == 0), "it was given back");
    std::mem::forget(world);
}

/// An announced length reserves nothing before there is memory for it.
#[test]
fn lengths_that_a_rank_claims_are_errors() {
    const ABSURD: u64 = 1 << 60;
    let outcome = Simulation::new(2, 1).run(|engine| {
        let universe = mpi::initialize().unwrap();
        let world = universe.world();
        if world.rank() == 0 {
            let error = world.process_at_rank(1).receive_vec::<u8>().unwrap_err();
            assert_eq!((error.class(), error.peer()), (ErrorClass::NoMem, Some(1)), "{error}");
            // A host name.
            let error = world.split_shared(0).unwrap_err();
            assert_eq!(error.class(), ErrorClass::Other, "{error}");
        } else {
            let raw = RawCommunicator::world(engine);
            let byte = 7_u8;
            let nowhere = Datatype::resized(0, 0, &Datatype::predefined(Kind::Byte)).unwrap();
            // SAFETY: all bytes of it lie at one place, which outlives the request.
            let claimed = unsafe { raw.isend(Mode::Standard, &raw const byte, ABSURD, &nowhere, 0, 0) };
            let mut lens = [0_u64; 2];
            world.all_gather_into(&u64::MAX, &mut lens[..]).unwrap();
            let error = claimed.unwrap().wait().unwrap_err();
            assert_eq!(error.class(), ErrorClass::ProcFailed, "{error}");
        }
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}

/// Every call of the façade that is one in MPI is one line of the trace, by MPI's name.
#[test]
fn what_is_one_call_is_one_in_a_trace() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("one-call");
    let _ = fs::remove_dir_all(&directory);
    let simulation = Simulation {
        trace: Some(directory.clone()),
        ..Simulation::new(2, 1)
    };
    let expected = Rc::new(RefCell::new(Vec::new()));
    let kept = Rc::clone(&expected);
    let outcome = simulation.run(move |_| {
        let mut universe = mpi::initialize().unwrap();
        universe.set_buffer_size(1 << 16);
        let world = universe.world();
        let names = call_everything(&world).unwrap();
        if world.rank() == 0 {
            *kept.borrow_mut() = names;
        }
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    let file = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = file.collect();
    files.sort();
    let text = fs::read_to_string(&files[0]).unwrap();
    let told = text.lines().filter_map(|line| line.strip_prefix("{\"call\":\""));
    let told: Vec<&str> = told.map(|rest| rest.split('"').next().unwrap()).collect();
    let mut expected = expected.take();
    expected.push("MPI_Finalize");
    assert_eq!(told, expected);
}

/// Calls what there is, and gives the names of what it has called.
fn call_everything(world: &SimpleCommunicator) -> Result<Vec<&'static str>, Error> {
    let (rank, size) = (world.rank(), world.size() as usize);
    let other = world.process_at_rank(1 - rank);
    let myself = world.this_process();
    let mut called = Vec::new();

    // Messages.
    let _: (i32, _) = mpi::point_to_point::send_receive(&rank, &other, &other)?;
    let mut pair = [0; 2];
    mpi::point_to_point::send_receive_into(&[rank; 2][..], &other, &mut pair[..], &other)?;
    mpi::point_to_point::send_receive_replace_into(&mut pair[..], &other, &other)?;
    called.extend(["MPI_Sendrecv", "MPI_Sendrecv", "MPI_Sendrecv_replace"]);
    // More than is sent at once, so that the buffered one waits.
    let letter = vec![rank; 10_000];
    other.buffered_send(&letter[..])?;
    assert_eq!(other.receive_vec::<i32>()?.0.len(), letter.len());
    called.extend(["MPI_Bsend", "MPI_Mprobe", "MPI_Mrecv"]);
    myself.send(&1)?;
    let (message, _) = myself.matched_probe()?;
    assert_eq!(message.matched_receive::<i32>()?.0, 1);
    called.extend(["MPI_Send", "MPI_Mprobe", "MPI_Mrecv"]);
    myself.send(&1)?;
    myself.probe()?;
    myself.receive::<i32>()?;
    called.extend(["MPI_Send", "MPI_Probe", "MPI_Recv"]);

    // Several requests at once.
    type Ends = fn(&mut mpi::request::RequestCollection<'_, i32>) -> Result<(), Error>;
    let ways: [(&[&str], Ends); 6] = [
        (&["MPI_Waitall"], |requests| requests.wait_all(&mut Vec::new())),
        (&["MPI_Waitsome"], |requests| requests.wait_some(&mut Vec::new())),
        (&["MPI_Waitany", "MPI_Waitany"], |requests| {
            requests.wait_any()?;
            requests.wait_any().map(drop)
        }),
        (&["MPI_Testall"], |requests| {
            requests.test_all(&mut Vec::new()).map(drop)
        }),
        (&["MPI_Testsome"], |requests| requests.test_some(&mut Vec::new())),
        (&["MPI_Testany", "MPI_Testany"], |requests| {
            requests.test_any()?;
            requests.test_any().map(drop)
        }),
    ];
    for (names, ends) in ways {
        let (sent, mut received) = (rank, -1);
        mpi::request::multiple_scope(2, |scope, requests| {
            requests.add(myself.immediate_send(scope, &sent));
            requests.add(myself.immediate_receive_into(scope, &mut received));
            ends(requests)?;
            assert_eq!(requests.incomplete(), 0, "{names:?}");
            Ok::<_, Error>(())
        })?;
        called.extend(["MPI_Isend", "MPI_Irecv"].iter().chain(names));
    }

    // Collectives.
    let mut all = vec![0; size];
    let first = world.process_at_rank(0);
    world.barrier()?;
    first.broadcast_into(&mut pair[..])?;
    if rank == 0 {
        first.gather_into_root(&rank, &mut all[..])?;
        first.scatter_into_root(&all[..], &mut pair[0])?;
        first.reduce_into_root(&rank, &mut pair[0], SystemOperation::sum())?;
    } else {
        first.gather_into(&rank)?;
        first.scatter_into(&mut pair[0])?;
        first.reduce_into(&rank, SystemOperation::sum())?;
    }
    world.all_gather_into(&rank, &mut all[..])?;
    let given = all.clone();
    world.all_to_all_into(&given[..], &mut all[..])?;
    world.all_reduce_into(&rank, &mut pair[0], SystemOperation::sum())?;
    world.reduce_scatter_block_into(&given[..], &mut pair[0], SystemOperation::sum())?;
    world.scan_into(&rank, &mut pair[0], SystemOperation::sum())?;
    world.exclusive_scan_into(&rank, &mut pair[0], SystemOperation::sum())?;
    called.extend(["MPI_Barrier", "MPI_Bcast", "MPI_Gather", "MPI_Scatter", "MPI_Reduce"]);
    called.extend([
        "MPI_Allgather",
        "MPI_Alltoall",
        "MPI_Allreduce",
        "MPI_Reduce_scatter_block",
    ]);
    called.extend(["MPI_Scan", "MPI_Exscan"]);

    // Communicators and windows.
    let copy = world.duplicate()?;
    copy.split_by_color(mpi::topology::Color::with_value(rank))?;
    world.split_by_subgroup_collective(&world.group())?;
    world.split_by_subgroup(&world.group())?;
    world.split_shared(0)?;
    called.extend(["MPI_Comm_dup", "MPI_Comm_split", "MPI_Comm_create"]);
    called.extend(["MPI_Comm_create_group", "MPI_Comm_split_type"]);
    let line = world.create_cartesian_communicator(&[2], &[false], false)?.unwrap();
    line.subgroup(&[true])?;
    world.create_graph_communicator(&[1, 2], &[1, 0])?;
    world.create_adjacent_graph_communicator(&[1 - rank], &[1 - rank])?;
    called.extend([
        "MPI_Cart_create",
        "MPI_Cart_sub",
        "MPI_Graph_create",
        "MPI_Dist_graph_create_adjacent",
    ]);
    let alone = world.split_by_color(mpi::topology::Color::with_value(rank))?.unwrap();
    let between = alone.create_intercommunicator(0, world, 1 - rank, 5)?;
    between.duplicate()?.merge(mpi::topology::MergeOrder::Low)?;
    called.extend([
        "MPI_Comm_split",
        "MPI_Intercomm_create",
        "MPI_Comm_dup",
        "MPI_Intercomm_merge",
    ]);
    let window = mpi::window::Window::<u64>::allocate(world, 1)?;
    window.fence(|epoch| epoch.put(&[1], 1 - rank, 0))?;
    window.free()?;
    called.extend([
        "MPI_Win_allocate",
        "MPI_Win_fence",
        "MPI_Put",
        "MPI_Win_fence",
        "MPI_Win_free",
    ]);
    Ok(called)
}
