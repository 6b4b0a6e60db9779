//! Partitioned messages.

use mpi::point_to_point::partitioned;

use super::*;

/// Rings whose parts get ready one after the other, and are asked for.
fn parts() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (rank, size) = (world.rank(), world.size());
    let next = world.process_at_rank((rank + 1) % size);
    let previous = world.process_at_rank((rank + size - 1) % size);
    let (mut news, mut room) = (vec![rank; 60_000], vec![0; 60_000]);
    let mut receiving = partitioned::receive_init(&previous, &mut room, 6, 2).unwrap();
    let mut sending = partitioned::send_init(&next, &mut news, 12, 2).unwrap();
    for round in 0..3 {
        mpi::request::scope(|scope| {
            let (arrivals, received) = receiving.start(scope);
            let (parts, sent) = sending.start(scope);
            for part in parts {
                hikyaku::sim::compute(Duration::from_micros(30 + rank as u64 + round)).unwrap();
                part.ready().unwrap();
            }
            while arrivals.get(5).unwrap().is_none() {}
            received.wait().unwrap();
            sent.wait().unwrap();
        });
    }
    drop(receiving);
    world.barrier().unwrap();
}

#[test]
fn partitions_are_replayed() {
    let steps = agrees(3, |_| parts());
    let count = |wanted: fn(&Step) -> bool| steps[1].iter().filter(|step| wanted(step)).count();
    assert_eq!(count(|step| matches!(step, Step::Ready { .. })), 3 * 12);
    assert_eq!(count(|step| matches!(step, Step::Arrived { partition: 5, .. })), 3);
    // Who waits for a partition that is never sent waits for ever, and that is noticed.
    let mut steps = steps;
    steps[0].retain(|step| !matches!(step, Step::Ready { .. }));
    let error = replay(&steps.into(), &Simulation::new(3, 1), 1.0)
        .unwrap_err()
        .to_string();
    assert!(error.contains("deadlock") && error.contains("MPI_Parrived"), "{error}");
}
