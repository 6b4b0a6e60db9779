//! Neighbours in a grid.

use mpi::datatype::Partition;

use super::*;

/// Two ranks in a ring are neighbours of each other on both sides. What goes down arrives from above, and is longer than
/// what goes up.
fn ring_of_two() {
    const DOWN: mpi::Count = 5_000;
    const UP: mpi::Count = 7;
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let ring = world
        .create_cartesian_communicator(&[2], &[true], false)
        .unwrap()
        .unwrap();
    let sent = vec![1_u8; (DOWN + UP) as usize];
    let mut received = vec![0_u8; (DOWN + UP) as usize];
    ring.neighbor_all_to_all_varcount_into(
        &Partition::new(&sent[..], [DOWN, UP], [0, DOWN]),
        &mut PartitionMut::new(&mut received[..], [UP, DOWN], [0, UP]),
    )
    .unwrap();
    assert_eq!(received, sent);
}

#[test]
fn what_goes_down_in_a_small_ring_arrives_from_above() {
    let (traces, _) = recorded(2, |simulation| simulation.run(|_| ring_of_two()).unwrap());
    let steps = Programs::from(programs(&traces).unwrap());
    replay(&steps, &Simulation::new(2, 1), 1.0).unwrap();
    let crossed = |step: &Step| matches!(step, Step::Collective { what, .. } if what.crossed);
    assert!(steps[1].iter().any(crossed), "{:?}", steps[1]);
}
