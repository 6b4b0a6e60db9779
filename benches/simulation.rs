#![expect(unsafe_code, reason = "the engine takes pointers")]
//! How fast the simulator is: packets of the full protocol per second of processor time, in one thread.
//!
//! `cargo bench --features sim --bench simulation [-- NAME…]`; names are those of the table, or parts of them. Sessions
//! are open before anything is measured, but for the cases that say so.

use std::{cell::Cell, rc::Rc, sync::Arc, time::Duration};

use hikyaku::{
    mpi::{
        collectives::{Call, Collective},
        datatype::{Datatype, Kind},
        engine::{Buffers, Communicator, Engine, Mode, Region},
        operation::{Operation, Predefined},
    },
    sim::{Heap, Simulation, compute},
};

/// What belongs to one rank lies together.
#[global_allocator]
static HEAP: Heap = Heap;

/// Longer than anything takes before it.
const PAUSE: Duration = Duration::from_secs(1);

/// What each rank does again and again.
#[derive(Clone, Copy)]
enum Talk {
    /// Each even rank sends a message of so many bytes to the next one: more than are sent eagerly, or senders would run
    /// ahead and fill memory.
    Bulk(usize),
    /// 8 bytes to the next, 8 from the one before.
    Ring,
    /// Of one number.
    Allreduce,
    /// The same, and the sessions open meanwhile.
    Opening,
}

/// Name, ranks, how many times, what.
type Case = (&'static str, u32, u32, Talk);

const CASES: &[Case] = &[
    ("bulk of 2", 2, 100, Talk::Bulk(1 << 20)),
    ("bulk of 64", 64, 100, Talk::Bulk(256 << 10)),
    ("bulk of 1024", 1_024, 8, Talk::Bulk(256 << 10)),
    ("bulk of 4096", 4_096, 2, Talk::Bulk(256 << 10)),
    ("bulk of 16384", 16_384, 1, Talk::Bulk(256 << 10)),
    ("ring of 2", 2, 250_000, Talk::Ring),
    ("ring of 64", 64, 8_000, Talk::Ring),
    ("ring of 1024", 1_024, 400, Talk::Ring),
    ("ring of 4096", 4_096, 100, Talk::Ring),
    ("ring of 16384", 16_384, 25, Talk::Ring),
    ("allreduce of 64", 64, 800, Talk::Allreduce),
    ("allreduce of 1024", 1_024, 40, Talk::Allreduce),
    ("allreduce of 4096", 4_096, 10, Talk::Allreduce),
    ("allreduce of 16384", 16_384, 2, Talk::Allreduce),
    ("first allreduce of 4096", 4_096, 1, Talk::Opening),
    ("first allreduce of 16384", 16_384, 1, Talk::Opening),
];

/// As long as a receive may take.
fn byte() -> Datatype {
    Datatype::predefined(Kind::Byte)
}

impl Talk {
    fn once(self, world: &Communicator, memory: &mut [u8]) {
        let (own, size) = (world.rank(), world.size());
        match self {
            Self::Bulk(bytes) => match own % 2 {
                0 => send(world, &memory[..bytes], own + 1),
                _ => receive(world, &mut memory[..bytes], own - 1),
            },
            Self::Ring => {
                send(world, &[7; 8], (own + 1) % size);
                receive(world, &mut memory[..8], (own + size - 1) % size);
            }
            Self::Allreduce | Self::Opening => assert_eq!(allreduce(world, 1), size.into()),
        }
    }
}

fn send(world: &Communicator, data: &[u8], to: i32) {
    // SAFETY: it is borrowed until it has ended.
    unsafe { world.send(Mode::Standard, data.as_ptr(), data.len() as u64, &byte(), to, 0) }.expect("nobody is lost");
}

fn receive(world: &Communicator, data: &mut [u8], from: i32) {
    // SAFETY: the same.
    unsafe { world.receive(data.as_mut_ptr(), data.len() as u64, &byte(), from, 0) }.expect("nobody is lost");
}

fn allreduce(world: &Communicator, own: i64) -> i64 {
    let (mut sum, datatype) = (0_i64, Datatype::predefined(Kind::I64));
    let buffers = Buffers {
        input: Region::Plain((&raw const own).cast_mut().cast(), &datatype),
        output: Region::Plain((&raw mut sum).cast(), &datatype),
    };
    let call = Call::of(Collective::Allreduce).with_count(1);
    let operation = Operation::predefined(Predefined::Sum);
    // SAFETY: both are borrowed until it has ended.
    let request = unsafe { world.collective("MPI_Allreduce", &call, &buffers, Some(&operation), None) };
    request.and_then(|request| request.wait()).expect("nobody is lost");
    sum
}

/// Processor time of this thread, s.
fn processor_time() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it writes to `time` only.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Packets, and how long they took, s.
fn measure((_, ranks, times, talk): &Case) -> (u64, f64) {
    let run = |times: u32| {
        let measured = Rc::new([const { Cell::new(None::<f64>) }; 2]);
        let (ours, talk) = (Rc::clone(&measured), *talk);
        let outcome = Simulation::new(*ranks, 1).run(move |engine: &Arc<Engine>| {
            let [begun, ended] = &*ours;
            let world = Communicator::world(engine);
            let mut memory = match talk {
                Talk::Bulk(bytes) => vec![0; bytes],
                _ => vec![0; 8],
            };
            let warm = !matches!(talk, Talk::Opening);
            if warm {
                (0..2).for_each(|_| talk.once(&world, &mut memory));
                // Until all have done so: without a pause the first one is here before others have begun.
                compute(PAUSE).expect("nothing is wrong");
            }
            if begun.get().is_none() {
                begun.set(Some(processor_time()));
            }
            (0..times).for_each(|_| talk.once(&world, &mut memory));
            ended.set(Some(processor_time()));
        });
        let sent = outcome.expect("it ends").network.sent;
        let [begun, ended] = &*measured;
        let took = begun.get().zip(ended.get()).map(|(begun, ended)| ended - begun);
        (sent, took.unwrap_or_default())
    };
    let warm = if matches!(talk, Talk::Opening) { 0 } else { run(0).0 };
    let (all, took) = run(*times);
    (all - warm, took)
}

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|name| !name.starts_with("--"))
        .collect();
    let cases = CASES
        .iter()
        .filter(|case| arguments.is_empty() || arguments.iter().any(|name| case.0.contains(name.as_str())));
    println!(
        "{:26} {:>10} {:>8} {:>12} {:>8}",
        "", "packets", "s", "packets/s", "ns each"
    );
    for case in cases {
        let (packets, seconds) = measure(case);
        let (rate, each) = (packets as f64 / seconds, 1e9 * seconds / packets as f64);
        println!("{:26} {packets:>10} {seconds:>8.3} {rate:>12.0} {each:>8.0}", case.0);
    }
}
