//! Collectives that are planned, those between groups, and those among neighbours.

use mpi::{
    ErrorClass,
    collective::{Persistent, SystemOperation, UserOperation},
    datatype::{DynBuffer, DynBufferMut, PartitionMut},
    topology::{Color, InterCommunicator, SimpleCommunicator},
    traits::*,
};

use super::support::{job, job_on};

fn run<S: ?Sized, R: ?Sized>(planned: &mut Persistent<'_, S, R>) {
    mpi::request::scope(|scope| planned.start(scope).wait()).unwrap();
}

#[test]
fn all_that_is_alike_goes_round_again() {
    job_on("udp", 3, |world| {
        let (rank, size) = (world.rank(), world.size());
        let (mut a, mut b, mut c, mut d) = ([0; 2], [0; 6], [0; 6], [0; 2]);
        let (mut e, mut f, mut g) = ([0; 6], [0; 2], [0; 2]);
        let product = UserOperation::commutative(|from, into| {
            let (from, into) = (from.downcast::<i32>().unwrap(), into.downcast::<i32>().unwrap());
            from.iter().zip(into).for_each(|(from, into)| *into *= from);
        });
        let mut barrier = world.persistent_barrier().unwrap();
        let mut gather = world.persistent_all_gather_into(&mut a, &mut b).unwrap();
        let mut exchange = world.persistent_all_to_all_into(&mut c, &mut e).unwrap();
        let mut scan = world
            .persistent_scan_into(&mut d, &mut f, SystemOperation::sum())
            .unwrap();
        let (mut h, mut i) = ([0; 6], [0; 2]);
        let mut part = world
            .persistent_reduce_scatter_block_into(&mut h, &mut i, SystemOperation::max())
            .unwrap();
        let mut halves = [0.5; 2];
        let refused = world.persistent_all_reduce_into(&mut g, &mut halves, &product);
        assert_eq!(refused.unwrap_err().class(), ErrorClass::Type);
        let mut j = [0; 2];
        let mut all = world.persistent_all_reduce_into(&mut g, &mut j, &product).unwrap();
        for round in 1..=4 {
            gather.send_buffer_mut().fill(rank * 10 + round);
            exchange.send_buffer_mut().fill(rank + round);
            scan.send_buffer_mut().fill(round);
            part.send_buffer_mut().fill(rank * round);
            all.send_buffer_mut().fill(round);
            mpi::request::scope(|scope| {
                // All at once, and each rank begins with another one.
                let mut begun = vec![
                    barrier.start(scope),
                    gather.start(scope),
                    exchange.start(scope),
                    scan.start(scope),
                    part.start(scope),
                    all.start(scope),
                ];
                while let Some((_, ended)) = mpi::request::wait_any(&mut begun) {
                    ended.unwrap();
                }
            });
            let from = |at: usize| at as i32 / 2;
            assert!((0..6).all(|at| gather.receive_buffer()[at] == from(at) * 10 + round));
            assert!((0..6).all(|at| exchange.receive_buffer()[at] == from(at) + round));
            assert_eq!(*scan.receive_buffer(), [(rank + 1) * round; 2]);
            assert_eq!(*part.receive_buffer(), [(size - 1) * round; 2]);
            assert_eq!(*all.receive_buffer(), [round.pow(size as u32); 2]);
        }
        true
    });
}

#[test]
fn parts_of_a_reduction_have_any_size() {
    job(4, |world| {
        // Rank 0 gets nothing, rank 3 three elements.
        let counts = [0, 1, 2, 3];
        let rank = world.rank();
        let vector: Vec<i32> = (0..6).map(|at| at * 10 + rank).collect();
        let sums = [[0; 3], [6, 0, 0], [46, 86, 0], [126, 166, 206]];
        let expected = &sums[rank as usize][..rank as usize];
        let plus = SystemOperation::sum;
        let mut part = vec![0; rank as usize];
        world
            .reduce_scatter_varcount_into(&vector, &mut part, &counts, plus())
            .unwrap();
        assert_eq!(part, expected);

        part.fill(0);
        mpi::request::scope(|scope| {
            let begun = world.immediate_reduce_scatter_varcount_into(scope, &vector, &mut part, &counts, plus());
            begun.wait()
        })
        .unwrap();
        assert_eq!(part, expected);

        let (mut factors, mut again) = (vec![0; 6], vec![0; rank as usize]);
        let mut planned = world
            .persistent_reduce_scatter_varcount_into(&mut factors, &mut again, &counts, plus())
            .unwrap();
        for round in 1..4 {
            for (factor, element) in planned.send_buffer_mut().iter_mut().zip(&vector) {
                *factor = element * round;
            }
            run(&mut planned);
            let of_round: Vec<i32> = expected.iter().map(|sum| sum * round).collect();
            assert_eq!(*planned.receive_buffer(), of_round);
        }

        // All ranks refuse these, so nobody waits.
        for wrong in [
            &[0, 1, 2][..],
            &[0, 1, 2, 3, 0],
            &[-1, 1, 3, 3],
            &[1, 2, 3, 0],
            &[0, 1, 2, 4],
            &[i64::MAX, i64::MAX, i64::MAX, 9],
        ] {
            let refused = world.reduce_scatter_varcount_into(&vector, &mut part, wrong, plus());
            let refused = refused.unwrap_err();
            assert_eq!(
                (refused.class(), refused.call()),
                (ErrorClass::Count, "MPI_Reduce_scatter")
            );
        }
        let refused = world.reduce_scatter_varcount_into(&vector, &mut [0.5; 3][..rank as usize], &counts, plus());
        assert_eq!(refused.unwrap_err().class(), ErrorClass::Type);
    });
}

#[test]
fn what_has_a_root_goes_round_again() {
    job(3, |world| {
        let root = world.process_at_rank(1);
        let (mut news, mut own, mut part) = (vec![0_u16; 5], vec![0; 2], [false; 2]);
        let (mut all, mut parts) = (vec![0; 6], [false; 6]);
        let (mut sent, mut sum) = ([0_i64; 2], [0_i64; 2]);
        let mut broadcast = root.persistent_broadcast_into(&mut news).unwrap();
        for round in 1..4 {
            if root.is_self() {
                broadcast.receive_buffer_mut().fill(round);
            }
            run(&mut broadcast);
            assert_eq!(*broadcast.receive_buffer(), [round; 5]);
        }
        // Elsewhere, but as long: that does not matter. Longer: that is told.
        *broadcast.receive_buffer_mut() = vec![9; 5];
        run(&mut broadcast);
        assert_eq!(*broadcast.receive_buffer(), [9; 5]);
        broadcast.receive_buffer_mut().push(1);
        let refused = mpi::request::scope(|scope| broadcast.start(scope).wait());
        assert_eq!(refused.unwrap_err().class(), ErrorClass::Buffer);

        if root.is_self() {
            let mut gather = root.persistent_gather_into_root(&mut own, &mut all).unwrap();
            let mut scatter = root.persistent_scatter_into_root(&mut parts, &mut part).unwrap();
            let plus = SystemOperation::sum();
            let mut reduce = root.persistent_reduce_into_root(&mut sent, &mut sum, plus).unwrap();
            for round in 1..4 {
                gather.send_buffer_mut().fill(round + 100);
                scatter.send_buffer_mut()[2..4].fill(round % 2 == 0);
                reduce.send_buffer_mut().fill(i64::from(round));
                run(&mut gather);
                run(&mut scatter);
                run(&mut reduce);
                let expected = [round, round, round + 100, round + 100, round + 200, round + 200];
                assert_eq!(*gather.receive_buffer(), expected);
                assert_eq!(*scatter.receive_buffer(), [round % 2 == 0; 2]);
                assert_eq!(*reduce.receive_buffer(), [i64::from(round) * 3; 2]);
            }
            return;
        }
        let mut gather = root.persistent_gather_into(&mut own).unwrap();
        let mut scatter = root.persistent_scatter_into(&mut part).unwrap();
        let mut reduce = root.persistent_reduce_into(&mut sent, SystemOperation::sum()).unwrap();
        for round in 1..4 {
            gather.send_buffer_mut().fill(round + 100 * world.rank());
            reduce.send_buffer_mut().fill(i64::from(round));
            run(&mut gather);
            run(&mut scatter);
            run(&mut reduce);
            assert_eq!(*scatter.receive_buffer(), [false; 2]);
        }
        assert!(root.persistent_gather_into_root(&mut [0], &mut [0; 3]).is_err());
    });
}

/// The world as two groups: the first `first` ranks, and the others.
fn two(world: &SimpleCommunicator, first: i32) -> (InterCommunicator, bool) {
    let is_first = world.rank() < first;
    let half = world
        .split_by_color(Color::with_value(i32::from(is_first)))
        .unwrap()
        .unwrap();
    let leader = if is_first { first } else { 0 };
    (half.create_intercommunicator(0, world, leader, 0).unwrap(), is_first)
}

#[test]
fn groups_exchange() {
    job(5, |world| {
        let (inter, is_first) = two(world, 2);
        let inter = inter.duplicate().unwrap();
        assert_eq!(Communicator::duplicate(&inter).unwrap_err().class(), ErrorClass::Comm);
        let (here, there) = (inter.size() as usize, inter.remote_size() as usize);
        inter.barrier().unwrap();

        let mut all = vec![-1; there];
        inter.all_gather_into(&world.rank(), &mut all[..]).unwrap();
        let others: Vec<i32> = if is_first { vec![2, 3, 4] } else { vec![0, 1] };
        assert_eq!(all, others);
        assert!(inter.all_gather_into(&world.rank(), &mut [0; 7]).is_err());

        let mut sum = 0;
        inter
            .all_reduce_into(&world.rank(), &mut sum, SystemOperation::sum())
            .unwrap();
        assert_eq!(sum, others.iter().sum());

        let from: Vec<i32> = (0..there as i32).map(|to| world.rank() * 10 + to).collect();
        let mut into = vec![0; there];
        inter.all_to_all_into(&from[..], &mut into[..]).unwrap();
        let expected: Vec<i32> = others.iter().map(|other| other * 10 + inter.rank()).collect();
        assert_eq!(into, expected);

        let (vector, mut part) = (vec![world.rank(); here * there], vec![0; there]);
        let plus = SystemOperation::sum();
        inter
            .reduce_scatter_block_into(&vector[..], &mut part[..], plus)
            .unwrap();
        assert_eq!(part, vec![others.iter().sum(); there]);
        let counts = if is_first { vec![1, 5] } else { vec![3, 2, 1] };
        let mut part = vec![0; counts[inter.rank() as usize] as usize];
        inter
            .reduce_scatter_varcount_into(&vector[..], &mut part[..], &counts, SystemOperation::sum())
            .unwrap();
        assert!(part.iter().all(|&sum| sum == others.iter().sum::<i32>()));
        let scan = inter.scan_into(&1, &mut sum, SystemOperation::sum());
        assert_eq!(scan.unwrap_err().class(), ErrorClass::Comm);
    });
}

#[test]
fn a_root_faces_the_other_group() {
    job(5, |world| {
        let (inter, is_first) = two(world, 2);
        let there = inter.remote_size() as usize;
        let (mut news, mut sum, mut part) = ([0; 3], 0_i64, 0_u8);
        // The last one of the second group is the root.
        if is_first {
            let root = inter.process_at_rank(2);
            root.broadcast_into(&mut news).unwrap();
            root.gather_into(&world.rank()).unwrap();
            root.scatter_into(&mut part).unwrap();
            root.reduce_into(&(i64::from(world.rank()) + 5), SystemOperation::sum())
                .unwrap();
            root.gather_varcount_into(&vec![inter.rank(); inter.rank() as usize + 1])
                .unwrap();
            let mut again = root.persistent_broadcast_into(&mut news).unwrap();
            run(&mut again);
            run(&mut again);
            drop(again);
            assert_eq!((part, news), (20 + inter.rank() as u8, [8; 3]));
        } else if inter.rank() == 2 {
            let root = inter.as_root();
            root.broadcast(&[4, 8, 15]).unwrap();
            let mut all = vec![-1; there];
            root.gather_into(&mut all[..]).unwrap();
            assert_eq!(all, [0, 1]);
            root.scatter(&[20_u8, 21]).unwrap();
            root.reduce_into(&mut sum).unwrap();
            assert_eq!(sum, 11);
            let mut uneven = [-1; 4];
            let mut parts = PartitionMut::new(&mut uneven[..], &[1, 2][..], &[0, 2][..]);
            root.gather_varcount_into(&mut parts).unwrap();
            assert_eq!(uneven, [0, -1, 1, 1]);
            let mut news = [0; 3];
            let mut again = root.persistent_broadcast(&mut news).unwrap();
            for round in [7, 8] {
                again.send_buffer_mut().fill(round);
                run(&mut again);
            }
        } else {
            for _ in 0..5 {
                inter.stand_aside().unwrap();
            }
            run(&mut inter.persistent_stand_aside().unwrap());
        }
        inter.barrier().unwrap();
    });
}

#[test]
fn neighbours_exchange_whatever_they_like() {
    job(4, |world| {
        let ring = world
            .create_cartesian_communicator(&[4], &[true], false)
            .unwrap()
            .unwrap();
        let rank = ring.rank();
        let (before, after) = ((rank + 3) % 4, (rank + 1) % 4);
        // To the one before an integer, to the one after two numbers.
        let (one, two) = (rank as i64, [f64::from(rank); 2]);
        let (mut from_before, mut from_after) = ([0.0; 2], 0_i64);
        ring.neighbor_all_to_all_parts_into(
            &[DynBuffer::new(&[one]), DynBuffer::new(&two)],
            &mut [
                DynBufferMut::new(&mut from_before),
                DynBufferMut::new(std::slice::from_mut(&mut from_after)),
            ],
        )
        .unwrap();
        assert_eq!((from_before, from_after), ([f64::from(before); 2], i64::from(after)));

        // Alone in a dimension: what goes to the one before comes from the one after.
        let alone = world
            .create_cartesian_communicator(&[4, 1], &[false, true], false)
            .unwrap()
            .unwrap();
        let mut received = [-1; 4];
        alone.neighbor_all_to_all_into(&[0, 1, 2, 3], &mut received).unwrap();
        assert_eq!(received[2..], [3, 2]);

        let (mut own, mut around) = (rank, [0; 2]);
        mpi::request::scope(|scope| ring.immediate_neighbor_all_gather_into(scope, &own, &mut around).wait()).unwrap();
        assert_eq!(around, [before, after]);

        let mut gather = ring.persistent_neighbor_all_gather_into(&mut own, &mut around).unwrap();
        for round in 1..4 {
            *gather.send_buffer_mut() = rank * round;
            run(&mut gather);
            assert_eq!(*gather.receive_buffer(), [before * round, after * round]);
        }

        // As many as the rank says.
        let line = world
            .create_adjacent_graph_communicator(
                if rank > 0 { std::slice::from_ref(&before) } else { &[] },
                if rank < 3 { std::slice::from_ref(&after) } else { &[] },
            )
            .unwrap();
        let own = vec![rank; rank as usize + 1];
        let mut room = [-1; 4];
        let counts: Vec<i64> = (0..rank)
            .last()
            .map(|before| i64::from(before) + 1)
            .into_iter()
            .collect();
        let mut parts = PartitionMut::new(&mut room[..], &counts[..], &[0][..counts.len()]);
        line.neighbor_all_gather_varcount_into(&own[..], &mut parts).unwrap();
        assert!(room.iter().filter(|x| **x == before).count() == counts.iter().sum::<i64>() as usize);
    });
}

#[test]
fn every_rank_gets_what_is_for_it() {
    job(3, |world| {
        // Numbers to all but the last one, truths to the last one.
        let numbers = [world.rank() * 10, world.rank() * 10 + 1];
        let truths = [world.rank() == 1, true];
        let from = [
            DynBuffer::new(&numbers[..1]),
            DynBuffer::new(&numbers[1..]),
            DynBuffer::new(&truths),
        ];
        if world.rank() < 2 {
            let (mut a, mut b, mut c) = ([-1], [-1], [-1]);
            let mut into = [&mut a, &mut b, &mut c].map(|x| DynBufferMut::new(&mut x[..]));
            mpi::request::scope(|scope| world.immediate_all_to_all_parts_into(scope, &from, &mut into).wait()).unwrap();
            let expected = [0, 10, 20].map(|from| [from + world.rank()]);
            assert_eq!([a, b, c], expected);
        } else {
            let (mut a, mut b, mut c) = ([false; 2], [false; 2], [false; 2]);
            let mut into = [&mut a, &mut b, &mut c].map(|x| DynBufferMut::new(&mut x[..]));
            mpi::request::scope(|scope| world.immediate_all_to_all_parts_into(scope, &from, &mut into).wait()).unwrap();
            assert_eq!([a, b, c], [[false, true], [true, true], [false, true]]);
        }
        let too_few = world.all_to_all_parts_into(&from[..2], &mut [[0_u8; 1]; 2]);
        assert_eq!(too_few.unwrap_err().class(), ErrorClass::Count);
    });
}
