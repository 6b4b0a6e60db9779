#![expect(unsafe_code, reason = "buffers are the program's")]
//! A collective that is being prepared, and what becomes of it.

use hikyaku::mpi::{
    collectives::{self, Collective, NOBODY, ROOT},
    engine::{Buffers, PROC_NULL, Region, uninterrupted},
    error::ErrorClass,
};

use crate::{
    border::{Buffer, Call, Failure, Rank},
    calls::{Done, Then, give, point_to_point::scope},
    objects::{Comm, Communicator, Operation},
};

/// A collective that is being prepared.
pub(super) struct Prepared<'a> {
    call: Call,
    comm: Comm,
    pub(super) object: &'a Communicator,
    what: collectives::Call<'a>,
    input: Region<'a>,
    output: Region<'a>,
    op: Option<&'a Operation>,
}

impl<'a> Prepared<'a> {
    pub(super) fn new(call: Call, comm: Comm, object: &'a Communicator, collective: Collective) -> Self {
        Self {
            call,
            comm,
            object,
            what: collectives::Call::of(collective),
            input: Region::None,
            output: Region::None,
            op: None,
        }
    }

    pub(super) fn with(self, what: impl FnOnce(collectives::Call<'a>) -> collectives::Call<'a>) -> Self {
        Self {
            what: what(self.what),
            ..self
        }
    }

    pub(super) fn input(self, input: Region<'a>) -> Self {
        Self { input, ..self }
    }

    pub(super) fn output(self, output: Region<'a>) -> Self {
        Self { output, ..self }
    }

    pub(super) fn by(self, op: &'a Operation) -> Self {
        Self { op: Some(op), ..self }.with(|what| what.with_commutative(op.operation.is_commutative()))
    }

    /// Begins it, waits for it or plans it.
    pub(super) fn run(self, then: Then) -> Done {
        // The engine knows functions without the ending of those with large counts.
        let name = self.call.name.strip_suffix("_c").unwrap_or(self.call.name);
        let buffers = Buffers {
            input: self.input,
            output: self.output,
        };
        let (comm, op) = (&self.object.comm, self.op.map(|op| &op.operation));
        if let Then::Plan(request) = then {
            // SAFETY: the program's buffers, as MPI demands.
            let planned = unsafe { comm.collective_init(name, &self.what, &buffers, op, None)? };
            give(request, planned, scope(self.comm));
            return Ok(());
        }
        // SAFETY: the program's buffers, as MPI demands.
        let begun = unsafe { comm.collective(name, &self.what, &buffers, op, None)? };
        if let Then::Begin(request) = then {
            give(request, begun, scope(self.comm));
            return Ok(());
        }
        begun.wait()?;
        Ok(())
    }
}

/// Runs a collective on memory of this crate, and waits for its end. Nothing leaves this function before: if the
/// network fails, all requests end.
pub(crate) fn complete(
    call: Call,
    comm: &hikyaku::mpi::engine::Communicator,
    what: &collectives::Call<'_>,
    buffers: &Buffers<'_>,
) -> Done {
    // SAFETY: the caller borrows the memory, and waits here until the end.
    uninterrupted(|| unsafe { comm.collective(call.name, what, buffers, None, None) }?.wait())?;
    Ok(())
}

/// The part of a process in a collective with a root.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// It is the root.
    Root,
    /// It has a part, and another one is the root.
    Other,
    /// Its group is that of the root, and it has no part.
    Aside,
}

pub(super) fn part(comm: &Communicator, root: Rank) -> Result<(Part, usize), Failure> {
    let comm = &comm.comm;
    let wrong = |size: i32| Failure::value(ErrorClass::Root, "root", root.0.into(), 0, i64::from(size) - 1);
    if let Some(size) = comm.remote_size() {
        return match root.0 {
            Rank::ROOT => Ok((Part::Root, ROOT)),
            PROC_NULL => Ok((Part::Aside, NOBODY)),
            rank if (0..size).contains(&rank) => Ok((Part::Other, rank as usize)),
            _ => Err(wrong(size)),
        };
    }
    if !(0..comm.size()).contains(&root.0) {
        return Err(wrong(comm.size()));
    }
    let part = if comm.rank() == root.0 { Part::Root } else { Part::Other };
    Ok((part, root.0 as usize))
}

/// Whether a process gives, or takes, data of its own besides those of all as the root; it says that it does not by
/// `MPI_IN_PLACE` in the place of `buffer`. (A root of another group has none.)
pub(super) fn has_own(part: Part, comm: &Communicator, buffer: Buffer) -> bool {
    part == Part::Other || part == Part::Root && !comm.comm.is_inter() && !buffer.is_in_place()
}

/// The number of ranks to which blocks belong.
pub(super) fn partners(comm: &Communicator) -> usize {
    comm.comm.remote_size().unwrap_or_else(|| comm.comm.size()) as usize
}
