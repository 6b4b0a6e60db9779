//! The functions, chapter by chapter. Each file has a table, which says what is exported, and the bodies.
//!
//! A body gets the [`Call`](crate::border::Call) and the arguments; the border adds the rest. Bodies are public for the
//! macros that export them, and for nothing else.

#![expect(missing_docs, reason = "functions are MPI's")]
#![expect(clippy::too_many_arguments, reason = "as MPI has it")]

pub mod attributes;
pub mod collectives;
pub mod communicators;
pub mod constructors;
pub mod conversions;
pub mod datatypes;
pub mod environment;
pub mod error_codes;
pub mod error_handlers;
pub mod external32;
pub mod fortran;
pub mod generalized;
pub mod groups;
pub mod infos;
pub mod missing;
pub mod operations;
pub mod persistent;
pub mod point_to_point;
pub mod ports;
pub mod probes;
pub mod remote_memory;
pub mod removed;
pub mod requests;
pub mod sessions;
pub mod spawn;
pub mod statuses;
pub mod tools;
pub mod topologies;
pub mod windows;

use crate::{
    border::{Failure, InOut, Scope},
    objects::{Pending, RequestObject, Work},
};

/// What a body returns.
pub(crate) type Done = Result<(), Failure>;

/// What becomes of an operation that a function has prepared.
#[derive(Clone, Copy, Debug)]
pub enum Then {
    /// It waits for its end.
    Wait,
    /// It begins, and its request goes here.
    Begin(InOut<RequestObject>),
    /// It is planned, to be started later, and its request goes here.
    Plan(InOut<RequestObject>),
}

/// Hands a request to the program.
pub(crate) fn give(to: InOut<RequestObject>, work: impl Into<Work>, scope: Option<Scope>) {
    to.set(Pending::insert(RequestObject::new(work.into(), scope)));
}
