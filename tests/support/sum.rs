//! An allreduce that may fail.

use hikyaku::mpi::{
    collectives::{Call, Collective},
    datatype::{Datatype, Kind},
    engine::{Buffers, Communicator, Region},
    error::Error,
    operation::{Operation, Predefined},
};

/// Sums so many ones of each rank.
pub(crate) fn allreduce(comm: &Communicator, count: usize) -> Result<Vec<i64>, Error> {
    let (mut own, mut all) = (vec![1_i64; count], vec![0_i64; count]);
    let (datatype, sum) = (Datatype::predefined(Kind::I64), Operation::predefined(Predefined::Sum));
    let buffers = Buffers {
        input: Region::Plain(own.as_mut_ptr().cast(), &datatype),
        output: Region::Plain(all.as_mut_ptr().cast(), &datatype),
    };
    let call = Call::of(Collective::Allreduce).with_count(count);
    // SAFETY: both are borrowed until it has ended.
    unsafe { comm.collective("MPI_Allreduce", &call, &buffers, Some(&sum), None) }?.wait()?;
    Ok(all)
}
