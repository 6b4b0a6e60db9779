//! Structs that derive their datatype, and structs of another layout on the other side.

use std::fmt::Debug;

use mpi::{Error, traits::*};

#[derive(Equivalence, Default, PartialEq, Debug, Clone, Copy)]
struct Plain {
    flag: bool,
    value: f64,
    number: u16,
}

#[derive(Equivalence, Default, PartialEq, Debug)]
#[repr(C)]
struct LikeC {
    flag: bool,
    value: f64,
    number: u16,
}

#[derive(Equivalence, Default, PartialEq, Debug)]
struct Nested {
    pair: (bool, (f64, u16)),
}

#[derive(Equivalence, Default, PartialEq, Debug)]
struct Unnamed(bool, f64, u16);

#[derive(Equivalence, Default, PartialEq, Debug)]
struct Flags([(i8, bool, i8); 3]);

#[derive(Equivalence, Default, PartialEq, Debug)]
struct Parent {
    child: Plain,
    grid: [[f32; 4]; 3],
    empty: Empty,
    none: [i32; 0],
}

#[derive(Equivalence, Default, PartialEq, Debug, Clone, Copy)]
struct Empty;

/// Data packed as one type can be unpacked as the other.
fn assert_equivalence<A: Buffer, B: BufferMut + PartialEq + Debug + Default>(comm: &impl Communicator, a: &A, b: &B) {
    let packed = comm.pack(a);
    let mut unpacked = B::default();
    let end = comm.unpack_into(&packed, &mut unpacked, 0).unwrap();
    assert_eq!((end, &unpacked), (packed.len() as mpi::Count, b));
}

pub(crate) fn main() -> Result<(), Error> {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let plain = Plain {
        flag: true,
        value: 3.4,
        number: 7,
    };
    let like_c = LikeC {
        flag: true,
        value: 3.4,
        number: 7,
    };
    assert_equivalence(&world, &plain, &like_c);
    assert_equivalence(&world, &plain, &Nested { pair: (true, (3.4, 7)) });
    assert_equivalence(&world, &plain, &Unnamed(true, 3.4, 7));
    assert_equivalence(
        &world,
        &Flags([(1, true, 1), (2, false, 2), (3, true, 3)]),
        &Flags([(1, true, 1), (2, false, 2), (3, true, 3)]),
    );
    assert_equivalence(&world, &Empty, &Empty);

    let (rank, size) = (world.rank(), world.size());
    let parent = |rank: i32| Parent {
        child: Plain {
            number: rank as u16,
            ..plain
        },
        grid: [[rank as f32; 4]; 3],
        empty: Empty,
        none: [],
    };
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    let mut heard = Vec::from([Parent::default(), Parent::default()]);
    mpi::request::scope(|scope| {
        let request = world
            .process_at_rank(previous)
            .immediate_receive_into(scope, &mut heard[..]);
        world.process_at_rank(next).send(&[parent(rank), parent(rank + 1)])?;
        request.wait()
    })?;
    assert_eq!(heard, [parent(previous), parent(previous + 1)]);

    // Bytes that are no `bool` become one.
    let mut flags = [false; 4];
    world.unpack_into(&[0, 1, 2, 255], &mut flags, 0)?;
    assert_eq!(flags, [false, true, true, true]);
    Ok(())
}
