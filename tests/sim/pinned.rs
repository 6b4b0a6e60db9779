//! A seed gives the same everywhere: on any machine, in any build, with any allocator. (`tests/dst` runs this, too, with
//! [`Heap`](hikyaku::sim::Heap).)

use std::{sync::Arc, time::Duration};

use hikyaku::{
    mpi::{
        collectives::{Call, Collective},
        datatype::{Datatype, Kind},
        engine::{ANY_SOURCE, Buffers, Communicator, Engine, Mode, Region},
        operation::{Operation, Predefined},
    },
    sim::{self, Available, Change, Impairment, Network, Optics, Simulation, Topology},
};

/// The result of each simulation: its time in ns, and its digest.
///
/// These may change only with what is simulated: when the protocol, the engine, a collective or the model is meant to do
/// something else (at other times, in another order) than before. Then run the test, and take what it prints. When nothing
/// of that was touched, and on another machine, in another build or with another compiler, they must stay, and a difference
/// is a mistake: something depends on addresses, on the order of a hash table, on a clock, on a library's rounding.
const PINNED: [(&str, u64, u64); 3] = [
    ("leaves and spines", 48_791_658, 0x2e9f_2fe4_6bc1_fef3),
    ("shared medium", 231_106_736, 0x4447_188c_dc4f_b1fc),
    ("light paths", 64_194_360, 0xf7bf_da75_3c74_8abd),
];

/// Losses, copies, spoilt and late packets, queues that overflow, two rails, hosts of two processes.
fn leaves_and_spines() -> Simulation {
    let mut simulation = Simulation::new(12, 1);
    simulation.network = Network {
        topology: Topology::LeafSpine { hosts: 2, spines: 2 },
        rails: 2,
        per_host: 2,
        queue: 20_000,
        loss: 0.01,
        ..Network::default()
    };
    simulation.config.checksum = true;
    simulation.config.unexpected_bytes = 64 << 10;
    simulation.faults.impairment = Impairment {
        loss: 0.02,
        duplicate: 0.03,
        corrupt: 0.02,
        truncate: 0.01,
        late: 0.05,
        hold: Duration::from_micros(300),
    };
    simulation
}

fn shared_medium() -> Simulation {
    let mut simulation = Simulation::new(5, 2);
    simulation.network = Network {
        bandwidth: 100e6,
        ..Network::ethernet_10()
    };
    simulation
}

/// With set-ups that fail, and ports and wavelengths that change.
fn light_paths() -> Simulation {
    let change = |millis, to| Change {
        at: Duration::from_millis(millis),
        to,
    };
    let mut simulation = Simulation::new(7, 3);
    simulation.network.topology = Topology::Direct;
    simulation.optics = Some(Optics {
        ports: 2,
        setup: Duration::from_millis(1),
        failure: 0.2,
        changes: vec![
            change(4, Available::Ports(Some(0), 1)),
            change(9, Available::Wavelengths(2)),
            change(30, Available::Ports(None, 3)),
            change(40, Available::Wavelengths(20)),
        ],
        ..Optics::default()
    });
    simulation
}

const EACH: usize = 300;

/// Sums and exchanges by whatever algorithms are chosen, and messages in all directions at once that wait for credit and for
/// their receivers.
fn program(engine: &Arc<Engine>) {
    let world = Communicator::world(engine);
    let (rank, size) = (world.rank() as usize, world.size() as usize);
    let datatype = Datatype::predefined(Kind::I64);
    let sum = Operation::predefined(Predefined::Sum);
    let mut own: Vec<i64> = (0..(EACH * size) as i64).map(|i| i + rank as i64).collect();
    let mut all = vec![0_i64; EACH * size];
    let calls = [
        Call::of(Collective::Barrier),
        Call::of(Collective::Allreduce).with_count(EACH),
        Call::of(Collective::Alltoall).with_count(EACH),
        Call::of(Collective::Scan).with_count(10),
    ];
    for call in &calls {
        let buffers = Buffers {
            input: Region::Plain(own.as_mut_ptr().cast(), &datatype),
            output: Region::Plain(all.as_mut_ptr().cast(), &datatype),
        };
        // SAFETY: both live until it has ended, and are not used meanwhile.
        let request = unsafe { world.collective("MPI_Test", call, &buffers, Some(&sum), None) };
        request.unwrap().wait().unwrap();
    }
    let others = || (1..size).map(|ahead| ((rank + ahead) % size) as i32);
    let mut requests = Vec::new();
    for count in [1, EACH, EACH * size] {
        for _ in 0..4 {
            // SAFETY: `own` is not changed any more, and lives longer than the requests, which end below.
            let send = |to| unsafe { world.isend(Mode::Standard, own.as_ptr().cast(), count as u64, &datatype, to, 0) };
            requests.extend(others().map(|to| send(to).unwrap()));
        }
    }
    sim::compute(Duration::from_micros(100 * rank as u64)).unwrap();
    for _ in 0..12 * (size - 1) {
        // SAFETY: `all` is borrowed until it has ended.
        unsafe { world.receive(all.as_mut_ptr().cast(), all.len() as u64, &datatype, ANY_SOURCE, 0) }.unwrap();
    }
    for request in requests {
        request.wait().unwrap();
    }
    world.barrier().unwrap();
    engine.finalize(Duration::from_secs(1)).unwrap();
}

#[test]
fn a_seed_gives_the_same_everywhere() {
    let simulations = [leaves_and_spines(), shared_medium(), light_paths()];
    let mut found = Vec::new();
    for (simulation, (name, ..)) in simulations.iter().zip(PINNED) {
        let outcome = simulation
            .run(program)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        found.push((name, outcome.time.as_nanos() as u64, outcome.digest));
    }
    let lines = found
        .iter()
        .map(|(name, time, digest)| format!("\n    ({name:?}, {time}, {digest:#018x}),"));
    assert!(found == PINNED, "now:{}", lines.collect::<String>());
}
