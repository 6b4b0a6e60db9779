//! Reductions by operations that MPI knows, by closures and by a C function.
#![expect(unsafe_code, reason = "a C function as an operation")]

use std::ffi::{c_int, c_void};

use mpi::{
    Error, Rank,
    collective::{self, SystemOperation, UnsafeUserOperation, UserOperation},
    traits::*,
};

/// A closure that borrows: operands come in any grouping, but in the order of ranks.
fn test_user_operations<C: Communicator>(comm: &C) -> Result<(), Error> {
    let (rank, size) = (comm.rank(), comm.size());
    let one = 1;
    let add = UserOperation::commutative(|from, into| {
        let (from, into) = (from.downcast::<Rank>().unwrap(), into.downcast::<Rank>().unwrap());
        into.iter_mut().zip(from).for_each(|(into, from)| *into += from * one);
    });
    let mut sum = 0;
    comm.all_reduce_into(&(rank + 1), &mut sum, &add)?;
    assert_eq!(sum, size * (size + 1) / 2);

    // Two by two matrices do not commute: (a, b) stands for the function x -> a x + b.
    let then = UserOperation::associative(|from, into| {
        let (from, into) = (from.downcast::<Step>().unwrap(), into.downcast::<Step>().unwrap());
        for (first, second) in from.iter().zip(into) {
            *second = Step(
                first.0.wrapping_mul(second.0),
                first.1.wrapping_mul(second.0).wrapping_add(second.1),
            );
        }
    });
    let step = |rank: Rank| Step(rank as u64 + 2, rank as u64);
    let (mut scanned, mut all) = (Step(0, 0), Step(0, 0));
    comm.scan_into(&step(rank), &mut scanned, &then)?;
    comm.all_reduce_into(&step(rank), &mut all, &then)?;
    let apply = |upto: Rank| {
        (0..=upto)
            .map(step)
            .fold(7, |x, Step(a, b)| a.wrapping_mul(x).wrapping_add(b))
    };
    assert_eq!(scanned.0.wrapping_mul(7).wrapping_add(scanned.1), apply(rank));
    assert_eq!(all.0.wrapping_mul(7).wrapping_add(all.1), apply(size - 1));
    Ok(())
}

#[derive(Clone, Copy, Equivalence)]
struct Step(u64, u64);

unsafe extern "C" fn unsafe_add(
    from: *mut c_void,
    into: *mut c_void,
    len: *mut c_int,
    _: *mut mpi::datatype::RawDatatype,
) {
    // SAFETY: the collective has `len` ranks at each.
    unsafe {
        for index in 0..*len as usize {
            *into.cast::<Rank>().add(index) += *from.cast::<Rank>().add(index);
        }
    }
}

pub(crate) fn main() -> Result<(), Error> {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (rank, size) = (world.rank(), world.size());
    let root_process = world.process_at_rank(0);

    if root_process.is_self() {
        let mut sum: Rank = 0;
        root_process.reduce_into_root(&rank, &mut sum, SystemOperation::sum())?;
        assert_eq!(sum, size * (size - 1) / 2);
    } else {
        root_process.reduce_into(&rank, SystemOperation::sum())?;
    }

    let mut max: Rank = -1;
    world.all_reduce_into(&rank, &mut max, SystemOperation::max())?;
    assert_eq!(max, size - 1);

    let (a, b): (u16, u16) = (0b0000_1111_1111_0000, 0b0011_1100_0011_1100);
    let mut c = b;
    collective::reduce_local_into(&a, &mut c, SystemOperation::bitwise_and())?;
    assert_eq!(c, a & b);
    collective::reduce_local_into(&a, &mut c, SystemOperation::bitwise_or())?;
    assert_eq!(c, a);
    collective::reduce_local_into(&b, &mut c, SystemOperation::bitwise_xor())?;
    assert_eq!(c, a ^ b);

    let ranks: Vec<Rank> = (0..size).collect();
    let mut product: Rank = 0;
    world.reduce_scatter_block_into(&ranks[..], &mut product, SystemOperation::product())?;
    assert_eq!(product, rank.wrapping_pow(size as u32));

    test_user_operations(&world)?;

    // SAFETY: it does what a reduction does.
    let op = unsafe { UnsafeUserOperation::commutative(unsafe_add) };
    let mut sum = 0;
    world.all_reduce_into(&(rank + 1), &mut sum, &op)?;
    assert_eq!(sum, size * (size + 1) / 2);

    // The same while something else goes on.
    let mut later = 0;
    mpi::request::scope(|scope| {
        let request = world.immediate_all_reduce_into(scope, &rank, &mut later, SystemOperation::sum());
        world.barrier()?;
        request.wait()
    })?;
    assert_eq!(later, size * (size - 1) / 2);
    Ok(())
}
