//! Collectives between up to 64 ranks whose network loses, duplicates, reorders and corrupts datagrams, compared with
//! their definitions.

use std::{
    net::SocketAddr,
    sync::{Arc, Barrier, Mutex},
    thread,
    time::Duration,
};

use hikyaku::{
    Config,
    backends::{self, BindOptions, Impaired, Impairments},
    mpi::{
        collectives::{Algorithm, Blocks, Call, Collective, displacements},
        datatype::{Datatype, Kind},
        engine::{Buffers, Communicator, Engine, Region},
        operation::{Operation, Predefined},
    },
    transport::Transport,
};
use proptest::prelude::*;

use super::support::options;

/// The steps of a job, the same at all of its ranks.
#[derive(Clone, Debug)]
struct Job {
    size: u32,
    impairments: Impairments,
    steps: Vec<Step>,
    seed: u64,
}

/// One collective.
#[derive(Clone, Copy, Debug)]
struct Step {
    collective: Collective,
    /// Number of elements, and number of the root.
    count: usize,
    root: usize,
    /// Index of a suitable algorithm; beyond them, the engine chooses.
    algorithm: usize,
}

const COLLECTIVES: [Collective; 12] = [
    Collective::Barrier,
    Collective::Bcast,
    Collective::Gather,
    Collective::Scatter,
    Collective::Allgather,
    Collective::Alltoall,
    Collective::Alltoallv,
    Collective::Reduce,
    Collective::Allreduce,
    Collective::ReduceScatter,
    Collective::Scan,
    Collective::Exscan,
];

fn impairments() -> impl Strategy<Value = Impairments> {
    (0.0..0.1_f64, 0.0..0.1_f64, 0.0..0.1_f64, 0.0..0.03_f64, 0..200_u64).prop_map(
        |(loss, duplicate, reorder, corrupt, delay)| Impairments {
            loss,
            duplicate,
            reorder,
            corrupt,
            delay: Duration::ZERO..=Duration::from_micros(delay),
            ..Impairments::default()
        },
    )
}

fn jobs(size: impl Strategy<Value = u32>, steps: usize) -> impl Strategy<Value = Job> {
    let step = (
        prop::sample::select(COLLECTIVES.to_vec()),
        prop_oneof![Just(0_usize), 1..20_usize, 1..3_000_usize],
        any::<usize>(),
        any::<usize>(),
    );
    let step = step.prop_map(|(collective, count, root, algorithm)| Step {
        collective,
        count,
        root,
        algorithm,
    });
    (
        size,
        impairments(),
        prop::collection::vec(step, 1..=steps),
        any::<u64>(),
    )
        .prop_map(|(size, impairments, steps, seed)| Job {
            size,
            impairments,
            steps,
            seed,
        })
}

/// Runs a job, each rank a thread.
fn run(job: &Job) {
    let size = job.size as usize;
    let addresses: Mutex<Vec<SocketAddr>> = Mutex::new(vec![([0, 0, 0, 0], 0).into(); size]);
    let bound = Barrier::new(size);
    let rank = |process: u32| {
        let inner = backends::bind("loopback", "127.0.0.1:0".parse().unwrap(), &BindOptions::default()).unwrap();
        let impaired = Impaired::new(inner, job.impairments.clone(), job.seed ^ u64::from(process)).unwrap();
        let builder = Transport::builder().config(Config {
            checksum: true,
            ..Config::default()
        });
        let engine = Engine::on(builder, Box::new(impaired), process).unwrap();
        addresses.lock().unwrap()[process as usize] = engine.local_addr();
        bound.wait();
        let all = addresses.lock().unwrap().clone();
        let engine: Arc<Engine> = engine.connect(&all, options()).unwrap();
        let world = Communicator::world(&engine);
        for (number, step) in job.steps.iter().enumerate() {
            check(&world, number, *step);
        }
        world.barrier().unwrap();
        engine.finalize(Duration::from_secs(5)).unwrap();
    };
    thread::scope(|scope| {
        for process in 0..job.size {
            let rank = &rank;
            thread::Builder::new()
                .stack_size(256 << 10)
                .spawn_scoped(scope, move || rank(process))
                .unwrap();
        }
    });
}

/// Element `index` of the input of rank `from` in a step.
fn element(number: usize, from: usize, index: usize) -> i64 {
    (number * 7_919 + from * 1_000_003 + index * 31) as i64
}

/// Number of elements of one rank for another: not the same for all.
fn part(count: usize, from: usize, to: usize) -> usize {
    count * ((from + 2 * to) % 3) / 2
}

/// Runs one step, and compares.
fn check(world: &Communicator, number: usize, step: Step) {
    let (size, rank) = (world.size() as usize, world.rank() as usize);
    let (count, root) = (step.count / size.isqrt(), step.root % size);
    let input = |from: usize, len: usize| (0..len).map(move |index| element(number, from, index));
    let sum =
        |ranks: std::ops::Range<usize>, index: usize| -> i64 { ranks.map(|from| element(number, from, index)).sum() };
    let (sends, receives): (Vec<usize>, Vec<usize>) = (0..size)
        .map(|other| (part(count, rank, other), part(count, other, rank)))
        .unzip();
    let (send_places, receive_places) = (displacements(&sends), displacements(&receives));
    let at_root = |value: usize| if rank == root { value } else { 0 };
    // The length of the input, and the expected output.
    let (input_len, expected): (usize, Vec<i64>) = match step.collective {
        Collective::Barrier => (0, Vec::new()),
        Collective::Bcast => (0, input(root, count).collect()),
        Collective::Gather => {
            let all = (0..at_root(size)).flat_map(|from| input(from, count)).collect();
            (count, all)
        }
        Collective::Scatter => {
            let own = (0..count)
                .map(|index| element(number, root, rank * count + index))
                .collect();
            (at_root(size * count), own)
        }
        Collective::Allgather => {
            let all = (0..size).flat_map(|from| input(from, count)).collect();
            (count, all)
        }
        Collective::Alltoall => {
            let block = |from| (0..count).map(move |index| element(number, from, rank * count + index));
            let all = (0..size).flat_map(block).collect();
            (size * count, all)
        }
        Collective::Alltoallv => {
            let block = |from: usize| {
                let before: usize = (0..rank).map(|other| part(count, from, other)).sum();
                (0..part(count, from, rank)).map(move |index| element(number, from, before + index))
            };
            let all = (0..size).flat_map(block).collect();
            (sends.iter().sum(), all)
        }
        Collective::Reduce => {
            let all = (0..at_root(count)).map(|index| sum(0..size, index)).collect();
            (count, all)
        }
        Collective::Allreduce => {
            let all = (0..count).map(|index| sum(0..size, index)).collect();
            (count, all)
        }
        Collective::ReduceScatter => {
            let own = (0..count).map(|index| sum(0..size, rank * count + index)).collect();
            (size * count, own)
        }
        scan => {
            let exclusive = scan == Collective::Exscan;
            let upto = if exclusive { rank } else { rank + 1 };
            let all = (0..count).map(|index| sum(0..upto, index)).collect();
            (count, all)
        }
    };
    let uneven = |counts, displacements| Blocks::Uneven { counts, displacements };
    let call = Call::of(step.collective).with_root(root);
    let call = match step.collective {
        Collective::Bcast => call.with_count(8 * count),
        Collective::Alltoallv => call
            .with_input(uneven(&sends, &send_places))
            .with_output(uneven(&receives, &receive_places)),
        _ => call.with_count(count),
    };
    let mut own: Vec<i64> = input(rank, input_len).collect();
    let mut output = vec![-1; expected.len()];
    if step.collective == Collective::Bcast && rank == root {
        output.clone_from(&expected);
    }
    let datatype = Datatype::predefined(Kind::I64);
    let region = |memory: &mut Vec<i64>| Region::Plain(memory.as_mut_ptr().cast(), &datatype);
    let buffers = Buffers {
        input: region(&mut own),
        output: region(&mut output),
    };
    let suits = |algorithm: &&Algorithm| algorithm.suits(step.collective, size, true);
    let algorithms: Vec<_> = step.collective.algorithms().iter().filter(suits).copied().collect();
    let algorithm = algorithms.get(step.algorithm % (algorithms.len() + 1)).copied();
    let add = Operation::predefined(Predefined::Sum);
    // SAFETY: both are borrowed until it has ended.
    let request = unsafe { world.collective("MPI_Collective", &call, &buffers, Some(&add), algorithm) };
    request.unwrap().wait().unwrap();
    // The first rank of an exclusive scan gets nothing.
    if step.collective != Collective::Exscan || rank > 0 {
        assert!(
            output == expected,
            "step {number} {step:?} by {algorithm:?}, rank {rank} of {size}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, max_shrink_iters: 20, ..ProptestConfig::default() })]

    #[test]
    fn model_of_few_ranks(job in jobs(1..=9_u32, 8)) {
        run(&job);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2, max_shrink_iters: 4, ..ProptestConfig::default() })]

    #[test]
    fn model_of_many_ranks(job in jobs(17..=64_u32, 3)) {
        run(&job);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, max_shrink_iters: 20, ..ProptestConfig::default() })]

    #[test]
    #[ignore = "needs minutes: cargo xtask ci"]
    fn model_of_up_to_64_ranks(job in jobs(1..=64_u32, 12)) {
        run(&job);
    }
}
