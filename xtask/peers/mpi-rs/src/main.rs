//! The measurements of `crates/mpi/examples/osu.rs` for the crate mpi-rs: `osu-mpi-rs OPERATION ITERATIONS SIZE…`, of
//! which `latency` and `bandwidth`.

use mpi::{topology::SimpleCommunicator, traits::*};

const WINDOW: usize = 64;
const BATCHES: usize = 10;
/// Bytes beyond which there are fewer iterations.
const LARGE: usize = 16 << 10;

fn latency(world: &SimpleCommunicator, out: &[u8], into: &mut [u8]) {
    let other = world.process_at_rank(1 - world.rank());
    if world.rank() == 0 {
        other.send(out);
        other.receive_into(&mut into[..out.len()]);
    } else {
        other.receive_into(&mut into[..out.len()]);
        other.send(out);
    }
}

fn bandwidth(world: &SimpleCommunicator, out: &[u8], into: &mut [u8]) {
    let other = world.process_at_rank(1 - world.rank());
    if world.rank() == 0 {
        mpi::request::scope(|scope| {
            let requests: Vec<_> = (0..WINDOW).map(|_| other.immediate_send(scope, out)).collect();
            requests.into_iter().for_each(|request| {
                request.wait();
            });
        });
        other.receive_into(&mut into[..1]);
    } else {
        mpi::request::scope(|scope| {
            let places = into.chunks_exact_mut(out.len());
            let requests: Vec<_> = places.map(|place| other.immediate_receive_into(scope, place)).collect();
            requests.into_iter().for_each(|request| {
                request.wait();
            });
        });
        other.send(&out[..1]);
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [operation, iterations, sizes @ ..] = &arguments[..] else {
        println!("usage: osu-mpi-rs OPERATION ITERATIONS SIZE…");
        return;
    };
    let number = |text: &String| text.parse::<usize>().expect("a number");
    let (run, per_iteration): (fn(&SimpleCommunicator, &[u8], &mut [u8]), usize) = match &operation[..] {
        "latency" => (latency, 2),
        "bandwidth" => (bandwidth, WINDOW),
        other => panic!("there is no operation `{other}`"),
    };
    let universe = mpi::initialize().expect("MPI begins");
    let world = universe.world();
    for size in sizes.iter().map(number) {
        let (out, mut into) = (vec![0_u8; size], vec![0_u8; size * WINDOW]);
        let iterations = (number(iterations) / BATCHES / (size / LARGE).max(1)).max(1);
        let mut times = Vec::new();
        // The first batch warms up.
        for _ in 0..=BATCHES {
            world.barrier();
            let start = mpi::time();
            (0..iterations).for_each(|_| run(&world, &out, &mut into));
            times.push((mpi::time() - start) * 1e9 / (iterations * per_iteration) as f64);
        }
        times.remove(0);
        times.sort_by(f64::total_cmp);
        if world.rank() == 0 {
            println!(
                "{size} {:.1}",
                f64::midpoint(times[BATCHES / 2 - 1], times[BATCHES / 2])
            );
        }
    }
}
