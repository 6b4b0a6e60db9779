//! MPI on top of messages: datatypes, groups, topologies, collectives and the engine that runs them.
//!
//! All but the [`engine`], the [`job`] and [`trace`] are pure computations: no transport, no IO, no clock; [`attribute`] has
//! locks, for the others `core` and `alloc` suffice.
//!
//! - [`datatype`]: how data lie in memory, and how they are packed into messages and unpacked from them.
//! - [`operation`]: reductions over arrays of predefined kinds, and operations of the user.
//! - [`group`]: ordered sets of processes.
//! - [`topology`]: grids and graphs of processes.
//! - [`collectives`]: the schedule of each rank in a collective, as data.
//! - [`engine`]: communicators and requests, by pointer, count and datatype, over a transport.
//! - [`job`]: how a process joins its job, and leaves it.
//! - [`attribute`] and [`info`]: values that programs attach to objects, and hints.
//! - [`error`]: MPI's error classes, and errors that name the failed call.
//! - [`error_code`]: numbers for errors, and error handlers.
//! - [`trace`]: a profiler that writes the calls of the engine to files.
//!
//! Sections cited as "MPI 5.1" are those of the MPI standard, version 4.1.

pub mod attribute;
mod call_description;
mod class;
pub mod collectives;
pub mod datatype;
pub mod engine;
pub mod error;
pub mod error_code;
pub mod group;
pub mod info;
pub mod job;
pub mod operation;
pub mod topology;
pub mod trace;

/// The number of a process in a group, from 0; a C `int` as in MPI. `None` where MPI has `MPI_PROC_NULL` or
/// `MPI_UNDEFINED`.
pub type Rank = i32;
