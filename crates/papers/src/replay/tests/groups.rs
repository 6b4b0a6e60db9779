//! Communicators between two groups.

use mpi::topology::MergeOrder;

use super::*;

/// The even ranks and the odd ones.
fn two_groups() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (rank, size) = (world.rank(), world.size());
    let even = rank % 2 == 0;
    let half = world.split_by_color(Color::with_value(rank % 2)).unwrap().unwrap();
    let other = if even { 1 } else { 0 };
    let inter = half.create_intercommunicator(0, &world, other, 3).unwrap();
    let remote = inter.remote_size() as usize;
    let mut news = vec![rank; 10_000];
    // Rank 1 of the even ones tells all odd ones.
    match (even, inter.rank()) {
        (true, 1) => inter.as_root().broadcast(&news[..]).unwrap(),
        (true, _) => inter.stand_aside().unwrap(),
        (false, _) => inter.process_at_rank(1).broadcast_into(&mut news[..]).unwrap(),
    }
    // Rank 0 of the odd ones gets what all even ones have.
    let mut all = vec![0; 30 * remote];
    match (even, inter.rank()) {
        (false, 0) => inter.as_root().gather_into(&mut all[..]).unwrap(),
        (false, _) => inter.stand_aside().unwrap(),
        (true, _) => inter.process_at_rank(0).gather_into(&news[..30]).unwrap(),
    }
    let mut sum = vec![0; 500];
    inter
        .all_reduce_into(&news[..500], &mut sum[..], SystemOperation::sum())
        .unwrap();
    let mut swapped = vec![0; 100 * remote];
    inter.all_to_all_into(&news[..100 * remote], &mut swapped[..]).unwrap();
    let same = inter.duplicate().unwrap();
    same.barrier().unwrap();
    if (rank as usize) < 2 * remote.min(half.size() as usize) {
        let peer = same.process_at_rank(inter.rank());
        mpi::request::scope(|scope| {
            let sent = peer.immediate_send(scope, &news[..700]);
            peer.receive_into(&mut [0; 700][..]).unwrap();
            sent.wait().unwrap();
        });
    }
    let order = if even { MergeOrder::High } else { MergeOrder::Low };
    let merged = inter.merge(order).unwrap();
    assert_eq!(merged.size(), size);
    merged.barrier().unwrap();
}

#[test]
fn what_is_between_two_groups_is_replayed() {
    let steps = agrees(5, |_| two_groups());
    let between = |step: &Step| format!("{step:?}").contains("Between([1, 3])");
    assert!(steps[2].iter().any(between), "{:?}", steps[2]);
}
