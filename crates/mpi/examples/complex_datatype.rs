//! Datatypes made of datatypes: structs within structs, columns of a matrix, a part of a grid.
#![expect(unsafe_code, reason = "says by hand how a type lies in memory")]

use std::mem::offset_of;

use mpi::{
    Address, Error,
    datatype::{MutView, UncommittedUserDatatype, UserDatatype, View},
    traits::*,
};

#[derive(Default)]
struct TupleType([f32; 2], u8);

#[derive(Default)]
struct ComplexDatatype {
    b: bool,
    ints: [i32; 4],
    tuple: TupleType,
}

// SAFETY: the fields lie where it says. (A `bool` that is not 0 or 1 is never sent here.)
unsafe impl Equivalence for ComplexDatatype {
    type Out = UserDatatype;

    fn equivalent_datatype() -> UserDatatype {
        UserDatatype::structured(
            &[1, 1, 1],
            &[
                offset_of!(Self, b) as Address,
                offset_of!(Self, ints) as Address,
                offset_of!(Self, tuple) as Address,
            ],
            &[
                bool::equivalent_datatype().into(),
                UncommittedUserDatatype::contiguous(4, &i32::equivalent_datatype()).as_ref(),
                UncommittedUserDatatype::structured(
                    &[2, 1],
                    &[offset_of!(TupleType, 0) as Address, offset_of!(TupleType, 1) as Address],
                    &[f32::equivalent_datatype(), u8::equivalent_datatype()],
                )
                .as_ref(),
            ],
        )
    }
}

pub(crate) fn main() -> Result<(), Error> {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (rank, size) = (world.rank(), world.size());
    let root_process = world.process_at_rank(0);

    let mut data = ComplexDatatype::default();
    if rank == 0 {
        data = ComplexDatatype {
            b: true,
            ints: [1, -2, 3, -4],
            tuple: TupleType([-0.1, 0.1], 7),
        };
    }
    root_process.broadcast_into(&mut data)?;
    assert!(data.b);
    assert_eq!(data.ints, [1, -2, 3, -4]);
    assert_eq!((data.tuple.0, data.tuple.1), ([-0.1, 0.1], 7));

    // The second column of a matrix goes to the next rank, as the third row of its matrix.
    const N: usize = 60;
    let matrix: Vec<f64> = (0..N * N).map(|i| (rank as usize * N * N + i) as f64).collect();
    let column = UserDatatype::vector(N as i64, 1, N as i64, &f64::equivalent_datatype());
    // SAFETY: a column that begins at the second element of the first row is within the matrix.
    let from = unsafe { View::with_count_and_datatype(&matrix[1..], 1, &column) };
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    let mut other = vec![-1.0; N * N];
    mpi::request::scope(|scope| {
        let row = world
            .process_at_rank(previous)
            .immediate_receive_into(scope, &mut other[2 * N..3 * N]);
        world.process_at_rank(next).send(&from)?;
        row.wait()
    })?;
    for (i, x) in other.iter().enumerate() {
        let expected = if i / N == 2 {
            (previous as usize * N * N + i % N * N + 1) as f64
        } else {
            -1.0
        };
        assert_eq!(*x, expected, "{i}");
    }

    // The inner part of a grid, without its border.
    let inner = UserDatatype::subarray(&[N as i64; 2], &[N as i64 - 2; 2], &[1, 1], &f64::equivalent_datatype());
    let mut grid = vec![if rank == 0 { 5.0 } else { 0.0 }; N * N];
    // SAFETY: the part is within the grid.
    let mut part = unsafe { MutView::with_count_and_datatype(&mut grid[..], 1, &inner) };
    root_process.broadcast_into(&mut part)?;
    let is_border = |i: usize| i / N == 0 || i / N == N - 1 || i.is_multiple_of(N) || i % N == N - 1;
    let is_right = |(i, x): (usize, &f64)| *x == if rank == 0 || !is_border(i) { 5.0 } else { 0.0 };
    assert!(grid.iter().enumerate().all(is_right));
    Ok(())
}
