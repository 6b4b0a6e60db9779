//! Reductions (MPI 6.9 to 6.11).

use hikyaku::mpi::{
    collectives::{Blocks, Collective},
    engine::Region,
};

use super::{
    buffers::Side,
    prepared::{Part, Prepared, has_own, part},
};
use crate::{
    border::{Buffer, Call, Count, Counts, Failure, Rank},
    calls::{Done, Then},
    objects::{Comm, Communicator, Op, Type},
};

pub fn reduce(
    call: Call,
    sendbuf: Buffer,
    recvbuf: Buffer,
    count: Count,
    datatype: Type,
    op: Op,
    root: Rank,
    comm: Comm,
    then: Then,
) -> Done {
    let (object, op) = (comm.get()?, op.get()?);
    let (part, root) = part(&object, root)?;
    if part == Part::Aside {
        // Buffers, count and datatype mean nothing here.
        let prepared = Prepared::new(call, comm, &object, Collective::Reduce);
        return prepared.with(|what| what.with_root(root)).by(&op).run(then);
    }
    let (from, into) = (Side::new(sendbuf, datatype)?, Side::new(recvbuf, datatype)?);
    op.operation.check(from.datatype())?;
    let mut prepared = Prepared::new(call, comm, &object, Collective::Reduce)
        .with(|what| what.with_root(root))
        .by(&op);
    let is_in_place = part == Part::Root && sendbuf.is_in_place();
    if part == Part::Root {
        prepared = prepared.output(into.region());
    }
    if has_own(part, &object, sendbuf) {
        prepared = prepared.input(from.region());
    }
    let side = if part == Part::Root { &into } else { &from };
    let count = side.count(count.0)?;
    prepared
        .with(|what| what.with_count(count).with_in_place(is_in_place))
        .run(then)
}

/// A reduction whose result all get.
fn reduction(
    call: Call,
    (sendbuf, recvbuf, datatype): (Buffer, Buffer, Type),
    (op, comm): (Op, Comm),
    collective: Collective,
    count: impl FnOnce(&Side, &Communicator) -> Result<Result<usize, Vec<usize>>, Failure>,
    then: Then,
) -> Done {
    let (object, op) = (comm.get()?, op.get()?);
    let (from, into) = (Side::new(sendbuf, datatype)?, Side::new(recvbuf, datatype)?);
    op.operation.check(into.datatype())?;
    let count = count(&into, &object)?;
    let blocks = match &count {
        Ok(count) => (*count).into(),
        Err(counts) => Blocks::Uneven {
            counts,
            displacements: &[],
        },
    };
    let is_in_place = sendbuf.is_in_place();
    let input = if is_in_place { Region::None } else { from.region() };
    Prepared::new(call, comm, &object, collective)
        .by(&op)
        .with(|what| what.with_count(blocks).with_in_place(is_in_place))
        .input(input)
        .output(into.region())
        .run(then)
}

/// Reductions of as many elements as one count says, whose result all get.
macro_rules! reductions_of_a_count {
    ($($name:ident: $collective:ident),*) => {
        $(pub fn $name(
            call: Call,
            sendbuf: Buffer,
            recvbuf: Buffer,
            count: Count,
            datatype: Type,
            op: Op,
            comm: Comm,
            then: Then,
        ) -> Done {
            let what = (sendbuf, recvbuf, datatype);
            let count = |side: &Side, _: &Communicator| Ok(Ok(side.count(count.0)?));
            reduction(call, what, (op, comm), Collective::$collective, count, then)
        })*
    };
}

reductions_of_a_count!(allreduce: Allreduce, reduce_scatter_block: ReduceScatterBlock, scan: Scan, exscan: Exscan);

pub fn reduce_scatter(
    call: Call,
    sendbuf: Buffer,
    recvbuf: Buffer,
    recvcounts: Counts,
    datatype: Type,
    op: Op,
    comm: Comm,
    then: Then,
) -> Done {
    let what = (sendbuf, recvbuf, datatype);
    let counts = |side: &Side, object: &Communicator| {
        let all = recvcounts.list(object.comm.size() as usize)?.into_iter();
        // A rank without elements of its own may have no buffer.
        let some = Side {
            base: if side.base.0.is_null() { sendbuf } else { side.base },
            datatype: datatype.get()?,
        };
        let counts: Result<Vec<usize>, Failure> = all.map(|count| some.count(count)).collect();
        Ok(Err(counts?))
    };
    reduction(call, what, (op, comm), Collective::ReduceScatter, counts, then)
}
