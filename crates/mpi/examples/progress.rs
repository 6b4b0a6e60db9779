//! How soon a rank that is busy with something else serves the others.
//!
//! ```text
//! hikyaku run -n 2 --bind-to none target/release/examples/progress [MILLISECONDS [hogs]]
//! ```
//!
//! Rank 0 takes numbers from a counter in the window of rank 1 (`fetch_and_op`), each row for so many milliseconds
//! (default 500), while rank 1 looks for messages, computes, sleeps, or makes only calls that stay within itself. Then, in turns
//! with a target that computes, rank 0 exchanges datagrams with a thread of rank 1 that waits for them, while rank 1
//! computes: half of that time is what it takes to wake a thread, and an operation that wakes its target and then its origin
//! takes twice as long. Finally two ranks that only look at their own windows hand a token to and fro.
//!
//! With `hogs` rank 0 has a thread beside that computes, so that with two cores none is ever idle (to be run with
//! `HIKYAKU_WAIT=block`: rank 0 would be the third that computes); the token is left out then.
//!
//! Not in rsmpi.

use std::{
    hint,
    net::UdpSocket,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use mpi::{Error, collective::SystemOperation, topology::SimpleCommunicator, traits::*, window::Window};

/// Times that the token goes to and fro.
const ROUNDS: u64 = 1_000;

/// Turns in which operations and wake-ups are compared.
const TURNS: usize = 21;

/// The behaviour of a target.
type Target = fn(&SimpleCommunicator, &Window<u64>);

/// The behaviours of targets, with their names.
const TARGETS: [(&str, Target); 5] = [
    ("looks for messages", |world, _| {
        world.any_process().immediate_probe().unwrap();
    }),
    ("computes", |_, _| compute()),
    ("sleeps", |_, _| thread::sleep(Duration::from_millis(5))),
    ("looks at its own window", |world, window| {
        look(world, window).unwrap();
    }),
    ("sends to itself", |world, _| {
        let myself = world.this_process();
        myself.send_with_tag(&1_u64, 9).unwrap();
        myself.receive_with_tag::<u64>(9).unwrap();
    }),
];

/// Computes for some microseconds.
fn compute() {
    for n in 0..10_000_u64 {
        hint::black_box(n.rotate_left(5) ^ n);
    }
}

/// Reads the own window by a call.
fn look(world: &SimpleCommunicator, window: &Window<u64>) -> Result<u64, Error> {
    let rank = world.rank();
    window.lock(mpi::window::LockKind::Shared, rank, |epoch| {
        epoch.fetch_and_op(&0, rank, 0, SystemOperation::sum())
    })
}

/// Takes numbers for so long. Gives how many per second, and the median of the times that they took, µs.
fn take(window: &Window<u64>, time: Duration) -> Result<(f64, f64), Error> {
    window.lock_all(|epoch| {
        let (start, mut times) = (Instant::now(), Vec::new());
        while start.elapsed() < time {
            let begun = Instant::now();
            epoch.fetch_and_op(&1, 1, 0, SystemOperation::sum())?;
            times.push(begun.elapsed());
        }
        let rate = times.len() as f64 / start.elapsed().as_secs_f64();
        times.sort_unstable();
        Ok((rate, times[times.len() / 2].as_secs_f64() * 1e6))
    })
}

/// One row: gives the rate and the median at rank 0.
fn row(world: &SimpleCommunicator, window: &Window<u64>, time: Duration, target: Target) -> Result<(f64, f64), Error> {
    world.barrier()?;
    match world.rank() {
        0 => take(window, time),
        1 => {
            // Longer than the others take from it: they are done when it is not there any more.
            let end = Instant::now() + time + Duration::from_millis(20);
            while Instant::now() < end {
                target(world, window);
            }
            Ok((0.0, 0.0))
        }
        _ => Ok((0.0, 0.0)),
    }
}

/// Rank 0 and a thread of rank 1, which computes, wake each other for so long by datagrams: the mean time of a wake-up at
/// rank 0, µs.
fn wake_up(world: &SimpleCommunicator, time: Duration) -> Result<f64, Error> {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let other = world.process_at_rank(1 - world.rank());
    let (port, _) = mpi::point_to_point::send_receive(&socket.local_addr().unwrap().port(), &other, &other)?;
    socket.connect(("127.0.0.1", port)).unwrap();
    let mut letter = [0; 8];
    if world.rank() == 1 {
        // (An empty datagram is the end.)
        let echo = thread::spawn(move || {
            while socket.recv(&mut letter).unwrap() > 0 {
                socket.send(&letter).unwrap();
            }
        });
        while !echo.is_finished() {
            compute();
        }
        echo.join().unwrap();
        return Ok(0.0);
    }
    let (start, mut turns) = (Instant::now(), 0_u32);
    while start.elapsed() < time {
        socket.send(&letter).unwrap();
        socket.recv(&mut letter).unwrap();
        turns += 1;
    }
    let mean = start.elapsed().as_secs_f64() * 1e6 / f64::from(2 * turns);
    socket.send(&[]).unwrap();
    Ok(mean)
}

/// Serving a rank whose target computes and waking a thread that computes beside, in turns. Gives the rate, the mean time of a
/// wake-up, µs, and the operations in the time of two wake-ups: medians over the turns.
fn in_turns(world: &SimpleCommunicator, window: &Window<u64>, time: Duration) -> Result<[f64; 3], Error> {
    let mut columns = [const { Vec::new() }; 3];
    for _ in 0..TURNS {
        let (rate, _) = row(world, window, time / 10, |_, _| compute())?;
        world.barrier()?;
        let mean = if world.rank() < 2 {
            wake_up(world, time / 10)?
        } else {
            0.0
        };
        for (column, figure) in columns.iter_mut().zip([rate, mean, rate * 2e-6 * mean]) {
            column.push(figure);
        }
    }
    Ok(columns.map(|mut column| {
        column.sort_unstable_by(f64::total_cmp);
        column[TURNS / 2]
    }))
}

/// Hands the token to and fro. Gives the time for one way, µs.
fn token(world: &SimpleCommunicator, window: &mut Window<u64>) -> Result<f64, Error> {
    let rank = world.rank();
    if rank < 2 {
        window.local()?[0] = 0;
    }
    world.barrier()?;
    if rank >= 2 {
        return Ok(0.0);
    }
    let give = || {
        window.lock(mpi::window::LockKind::Shared, 1 - rank, |epoch| {
            epoch.fetch_and_op(&1, 1 - rank, 0, SystemOperation::sum())
        })
    };
    let start = Instant::now();
    for round in 1..=ROUNDS {
        if rank == 0 {
            give()?;
        }
        while look(world, window)? < round {}
        if rank == 1 {
            give()?;
        }
    }
    Ok(start.elapsed().as_secs_f64() * 1e6 / (2 * ROUNDS) as f64)
}

pub(crate) fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let time = arguments
        .next()
        .map_or(500, |time| time.parse().expect("usage: progress [MILLISECONDS [hogs]]"));
    let (time, hogs) = (Duration::from_millis(time), arguments.next().is_some());
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    if world.size() < 2 {
        println!("with one rank there is nobody to serve");
        return Ok(());
    }
    let mut window = Window::<u64>::allocate(&world, 1)?;
    let ends = Arc::new(AtomicBool::new(false));
    let hog = (hogs && world.rank() == 0).then(|| {
        let ends = Arc::clone(&ends);
        thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                compute();
            }
        })
    });
    let first = world.rank() == 0;
    if first {
        println!("{:<26} {:>12} {:>10}", "the target", "operations/s", "median us");
    }
    for (name, target) in TARGETS {
        let (rate, median) = row(&world, &window, time, target)?;
        if first {
            println!("{name:<26} {rate:>12.0} {median:>10.1}");
        }
    }
    let [rate, mean, share] = in_turns(&world, &window, time)?;
    if first {
        println!(
            "to wake a thread takes {mean:.1} us; in turns with that, a target that computes serves {rate:.0} /s:"
        );
        println!("{share:.2} operations in the time of two wake-ups");
    }
    ends.store(true, Ordering::Relaxed);
    if let Some(hog) = hog {
        hog.join().unwrap();
    }
    world.barrier()?;
    if !hogs {
        let one_way = token(&world, &mut window)?;
        if first {
            println!("a token is handed over in {one_way:.1} us");
        }
        world.barrier()?;
    }
    window.free()
}
