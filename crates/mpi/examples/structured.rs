//! A type that says by hand how it lies in memory: its numbers go the other way round.
#![expect(unsafe_code, reason = "says by hand how a type lies in memory")]

use mpi::{Address, Error, datatype::UserDatatype, topology::Process, traits::*};

struct MyInts([i32; 3]);

// SAFETY: the three numbers lie within it.
unsafe impl Equivalence for MyInts {
    type Out = UserDatatype;

    fn equivalent_datatype() -> UserDatatype {
        let place = |index: usize| (index * size_of::<i32>()) as Address;
        UserDatatype::structured(
            &[1; 3],
            &[place(2), place(1), place(0)],
            &[i32::equivalent_datatype(); 3],
        )
    }
}

fn prepare_on_root(process: Process<'_>, ints: &mut [i32]) {
    for int in ints {
        *int = if process.is_self() { *int + 10 } else { -1 };
    }
}

pub(crate) fn main() -> Result<(), Error> {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let first = world.process_at_rank(0);
    let second = world.process_at_rank(1 % world.size());
    if first.is_self() {
        let mut ints = MyInts([3, 2, 1]);
        first.broadcast_into(&mut ints)?;
        assert_eq!(ints.0, [3, 2, 1]);
        prepare_on_root(second, &mut ints.0);
        second.broadcast_into(&mut ints)?;
        assert_eq!(ints.0, [13, 12, 11]);
    } else {
        let mut ints = [0; 3];
        first.broadcast_into(&mut ints[..])?;
        assert_eq!(ints, [1, 2, 3]);
        prepare_on_root(second, &mut ints);
        second.broadcast_into(&mut ints[..])?;
        assert_eq!(ints, [11, 12, 13]);
    }
    Ok(())
}
