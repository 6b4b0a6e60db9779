//! Communicators of a part of the processes, and between two groups.

use std::thread;

use hikyaku::mpi::{
    engine::Communicator,
    error::ErrorClass,
    group::{Comparison, Group},
};

use super::{
    messages::{receive, send},
    support::{THREADS, job, job_on, options},
};

fn ranks(comm: &Communicator, keep: impl Fn(i32) -> bool) -> Group {
    let kept: Vec<i32> = (0..comm.size()).filter(|rank| keep(*rank)).collect();
    comm.group().incl(&kept).unwrap()
}

#[test]
fn only_members_make_a_communicator_of_a_group() {
    job(5, |comm| {
        let odd = ranks(&comm, |rank| rank % 2 == 1);
        let made = comm.create_group(&odd, 3).unwrap();
        assert_eq!(made.is_some(), comm.rank() % 2 == 1);
        if let Some(made) = made {
            assert_eq!((made.size(), made.rank()), (2, comm.rank() / 2));
            made.barrier().unwrap();
            // Somebody else's communicator does not do.
            assert_eq!(
                made.create_group(comm.group(), 0).unwrap_err().class(),
                ErrorClass::Group
            );
            assert_eq!(made.create_group(&odd, -1).unwrap_err().class(), ErrorClass::Tag);
        }
    });
}

#[test]
fn threads_make_groups_at_once_by_tag() {
    if !THREADS {
        return;
    }
    job_on("udp", 3, &options(), |comm| {
        let made: Vec<(i32, Communicator)> = thread::scope(|scope| {
            let threads: Vec<_> = (0..6)
                .map(|number| {
                    // Overlapping groups, in another order at each rank.
                    let (comm, tag) = (&comm, (number + comm.rank()) % 6);
                    scope.spawn(move || {
                        let made = comm.create_group(&ranks(comm, |rank| rank != tag % 3), tag).unwrap();
                        made.map(|made| (tag, made))
                    })
                })
                .collect();
            threads
                .into_iter()
                .filter_map(|thread| thread.join().unwrap())
                .collect()
        });
        assert_eq!(made.len(), 4);
        for (tag, comm) in &made {
            send(comm, &[*tag as u8; 9], 1 - comm.rank(), 0).unwrap();
        }
        for (tag, comm) in made.iter().rev() {
            let mut room = [99; 9];
            receive(comm, &mut room, 1 - comm.rank(), 0).unwrap();
            assert_eq!(room, [*tag as u8; 9]);
        }
    });
}

#[test]
fn two_groups_talk_and_become_one() {
    for size in [2, 3, 6] {
        job(size, |comm| {
            let side = i32::from(comm.rank() >= 2.min(comm.size() - 1));
            let half = comm.split(Some(side), 0).unwrap().unwrap();
            let first_of_other = if side == 0 { half.size() } else { 0 };
            let inter = half.create_intercommunicator(0, &comm, first_of_other, 7).unwrap();
            assert!(inter.is_inter() && !half.is_inter());
            assert_eq!(inter.remote_size(), Some(comm.size() - half.size()));
            // All ranks to all of the other group.
            let there = inter.remote_size().unwrap();
            for to in 0..there {
                send(&inter, &[inter.rank() as u8, to as u8], to, 1).unwrap();
            }
            for from in 0..there {
                let mut room = [9; 2];
                let status = receive(&inter, &mut room, from, 1).unwrap();
                assert_eq!((room, status.source), ([from as u8, inter.rank() as u8], from));
            }
            assert_eq!(send(&inter, &[1], there, 0).unwrap_err().class(), ErrorClass::Rank);
            let (mine, theirs) = (inter.rank(), inter.remote_size().unwrap());
            assert!(inter.split(None, 0).unwrap().is_none());
            // Even and odd ranks of both groups, backwards.
            let parts = inter.split(Some(mine % 2), -mine).unwrap();
            let (ours, others) = (half.size(), (theirs + 1 - mine % 2) / 2);
            match parts {
                None => assert_eq!(others, 0),
                Some(part) => {
                    assert_eq!(
                        (part.size(), part.remote_size()),
                        ((ours + 1 - mine % 2) / 2, Some(others))
                    );
                    assert_eq!(part.rank(), part.size() - 1 - mine / 2);
                    part.barrier().unwrap();
                }
            }
            // The last of each group.
            let last = half.group().incl(&[half.size() - 1]).unwrap();
            let made = inter.create(&last).unwrap();
            assert_eq!(made.is_some(), half.rank() == half.size() - 1);
            if let Some(made) = made {
                assert_eq!((made.size(), made.remote_size()), (1, Some(1)));
                made.barrier().unwrap();
            }
            let (ours, theirs) = (half.group(), inter.remote_group().unwrap());
            let anew = Communicator::of_groups(comm.engine(), (ours, 0), (theirs, 0), "anew").unwrap();
            assert_eq!(anew.remote_group().unwrap().compare(theirs), Comparison::Identical);
            anew.barrier().unwrap();
            let twin = inter.begin_duplicate().unwrap().wait().unwrap();
            assert_eq!((twin.rank(), twin.remote_size()), (inter.rank(), inter.remote_size()));
            twin.barrier().unwrap();
            for high in [0, 1, 2] {
                let merged = inter.merge(high == 2 || side == high).unwrap();
                merged.barrier().unwrap();
                // If both say the same, the lowest process comes first, as in the world.
                let swapped = high == 0;
                let order = merged.group().compare(comm.group());
                assert_eq!(
                    order,
                    if swapped {
                        Comparison::Similar
                    } else {
                        Comparison::Identical
                    }
                );
            }
            assert_eq!(half.merge(false).unwrap_err().class(), ErrorClass::Comm);
            let overlap = half.create_intercommunicator(0, &half, 0, 8);
            assert_eq!(overlap.unwrap_err().class(), ErrorClass::Group, "a group and itself");
        });
    }
}

#[test]
fn duplicates_are_made_while_the_program_goes_on() {
    job(4, |comm| {
        let mut first = comm.begin_duplicate().unwrap();
        let second = comm.begin_duplicate().unwrap();
        drop(comm.begin_duplicate().unwrap());
        comm.barrier().unwrap();
        let second = second.wait().unwrap();
        let first = loop {
            if let Some(first) = first.test().unwrap() {
                break first;
            }
        };
        let contexts = [comm.context(), first.context(), second.context()];
        assert!(contexts[0] != contexts[1] && contexts[1] != contexts[2] && contexts[0] != contexts[2]);
        first.barrier().unwrap();
        second.barrier().unwrap();
    });
}

#[test]
fn a_group_of_the_job_becomes_a_communicator_without_a_parent() {
    job(4, |comm| {
        let odd = ranks(&comm, |rank| rank % 2 == 1);
        let made = Communicator::of_group(comm.engine(), &odd, "odd").unwrap();
        assert_eq!(made.is_some(), comm.rank() % 2 == 1);
        if let Some(made) = made {
            assert_eq!((made.size(), made.rank()), (2, comm.rank() / 2));
            made.barrier().unwrap();
        }
        let all = Communicator::of_group(comm.engine(), comm.group(), "all").unwrap();
        all.unwrap().barrier().unwrap();
    });
}
