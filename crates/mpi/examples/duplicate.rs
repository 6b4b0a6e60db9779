//! Communicators made of others: duplicates, parts by color, by group and by host, attributes and names.

use mpi::{
    Error,
    collective::SystemOperation,
    topology::{Color, CommunicatorRelation, GroupRelation, SystemGroup},
    traits::*,
};

#[derive(Clone, Debug, PartialEq)]
struct Level(u32);

impl CommAttribute for Level {
    const CLONE_ON_DUP: bool = true;
}

#[derive(Clone, Debug, PartialEq)]
struct Private(u32);

impl CommAttribute for Private {}

pub(crate) fn main() -> Result<(), Error> {
    let universe = mpi::initialize().unwrap();
    let mut world = universe.world();
    let (rank, size) = (world.rank(), world.size());

    // Messages of different communicators do not mix.
    let second = world.duplicate()?;
    assert_eq!(world.compare(&second), CommunicatorRelation::Congruent);
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    world.process_at_rank(next).send(&1)?;
    second.process_at_rank(next).send(&2)?;
    assert_eq!(second.process_at_rank(previous).receive::<i32>()?.0, 2);
    assert_eq!(world.process_at_rank(previous).receive::<i32>()?.0, 1);

    world.set_attr(Level(1));
    world.set_attr(Private(2));
    world.set_attr(Level(3));
    assert_eq!(
        (world.get_attr(), world.get_attr()),
        (Some(&Level(3)), Some(&Private(2)))
    );
    let third = world.duplicate()?;
    assert_eq!((third.get_attr(), third.get_attr::<Private>()), (Some(&Level(3)), None));
    third.set_name("third");
    assert_eq!(
        (world.get_name(), third.get_name()),
        ("MPI_COMM_WORLD".to_owned(), "third".to_owned())
    );

    // Odd and even, backwards.
    let half = world
        .split_by_color_with_key(Color::with_value(rank % 2), -rank)?
        .unwrap();
    assert_eq!(half.size(), (size + 1 - rank % 2) / 2);
    assert_eq!(half.rank(), half.size() - 1 - rank / 2);
    let nobody = world.split_by_color(if rank == 0 {
        Color::undefined()
    } else {
        Color::with_value(1)
    })?;
    assert_eq!(nobody.map(|others| others.size()), (rank > 0).then_some(size - 1));

    let all = world.group();
    let odd: Vec<_> = (0..size).filter(|rank| rank % 2 == 1).collect();
    let (odd, even) = (all.include(&odd), all.exclude(&odd));
    assert_eq!((odd.size() + even.size(), odd.rank().is_some()), (size, rank % 2 == 1));
    let together = odd.union(&even).compare(&all);
    let (similar, same) = (GroupRelation::Similar, GroupRelation::Identical);
    assert_eq!(together, if size > 1 { similar } else { same });
    assert_eq!(
        odd.intersection(&even).compare(&SystemGroup::empty()),
        GroupRelation::Identical
    );
    assert_eq!(all.translate_rank(0, &even), Some(0));
    let collective = world.split_by_subgroup_collective(&odd)?;
    assert_eq!(collective.is_some(), rank % 2 == 1);
    // Only the members take part.
    if rank % 2 == 1 {
        let odd = world.split_by_subgroup(&odd)?.unwrap();
        assert_eq!(odd.rank(), rank / 2);
        odd.barrier()?;
    }

    let here = world.split_shared(0)?;
    let host = mpi::environment::processor_name().unwrap();
    let number = host
        .bytes()
        .fold(0, |number: u64, byte| number.rotate_left(8) ^ u64::from(byte));
    let (mut least, mut most) = (0, 0);
    here.all_reduce_into(&number, &mut least, SystemOperation::min())?;
    here.all_reduce_into(&number, &mut most, SystemOperation::max())?;
    assert!(least == number && most == number, "all are on {host}");
    Ok(())
}
