#![expect(unsafe_code, reason = "the engine takes pointers")]
//! Every function of every collective, called as its description says.

use hikyaku::mpi::{
    collectives::{Blocks, Call, Collective, Function, Lengths, Partners, Role, displacements},
    datatype::{Datatype, Kind},
    engine::{Buffers, Communicator, Region, Request},
    error::Error,
    operation::{Operation, Predefined},
};

use super::*;

/// Elements of a vector or block.
const COUNT: usize = 5;

/// Calls all three functions, with buffers of the sizes that the roles say.
fn call_all(world: &Communicator, collective: Collective, function: &Function) {
    let (rank, size) = (world.rank() as usize, world.size() as usize);
    let (next, previous) = (Some((rank + 1) % size), Some((rank + size - 1) % size));
    let number = match collective.partners() {
        Partners::Neighbours => 2,
        Partners::All | Partners::Root => size,
    };
    let counts = vec![COUNT; number];
    let offsets = displacements(&counts);
    let sizes = |role| match role {
        Role::None => 0.into(),
        Role::Packed => (8 * COUNT).into(),
        Role::Vector | Role::Block => COUNT.into(),
        Role::Blocks | Role::Divided if function.lengths == Lengths::Alike => COUNT.into(),
        Role::Blocks | Role::Divided => Blocks::Uneven {
            counts: &counts,
            displacements: &offsets,
        },
    };
    let (sources, destinations) = ([previous, next], [next, previous]);
    let call = Call::of(collective)
        .with_root(1)
        .with_input(sizes(collective.input()))
        .with_output(sizes(collective.output()))
        .with_neighbours(&sources, &destinations);
    let datatype = Datatype::predefined(Kind::U64);
    let (mut from, mut into) = (vec![1_u64; size * COUNT], vec![1_u64; size * COUNT]);
    let region = |memory: &mut Vec<u64>| Region::Plain(memory.as_mut_ptr().cast(), &datatype);
    let buffers = Buffers {
        input: region(&mut from),
        output: region(&mut into),
    };
    let sum = Operation::predefined(Predefined::Sum);
    let operation = collective.reduces().then_some(&sum);
    let wait = |begun: Result<Request, Error>| begun.and_then(Request::wait).unwrap();
    // SAFETY: both buffers are as large as any call needs, and live until all requests have ended.
    unsafe {
        wait(world.collective(function.blocking, &call, &buffers, operation, None));
        wait(world.collective(function.immediate, &call, &buffers, operation, None));
        let planned = world.collective_init(function.persistent, &call, &buffers, operation, None);
        wait(planned.unwrap().start());
    }
}

fn everything(engine: &Arc<Engine>) {
    let world = Communicator::world(engine);
    for collective in Collective::ALL {
        for function in collective.functions() {
            call_all(&world, collective, function);
        }
    }
    engine.finalize(Duration::from_secs(1)).unwrap();
}

#[test]
fn every_function_is_traced_and_replayed() {
    let functions: usize = Collective::ALL
        .map(|collective| collective.functions().len())
        .iter()
        .sum();
    for steps in agrees(3, everything) {
        let kinds: Vec<_> = steps
            .iter()
            .filter_map(|step| match step {
                Step::Collective { what, .. } => Some(what.kind),
                _ => None,
            })
            .collect();
        assert_eq!(kinds.len(), 3 * functions);
        assert!(Collective::ALL.iter().all(|collective| kinds.contains(collective)));
    }
}

/// Ranks that compare their calls find that all are the same.
#[test]
fn every_function_has_a_signature() {
    let mut simulation = Simulation::new(3, 1);
    simulation.options.check = true;
    simulation.run(everything).unwrap();
}
