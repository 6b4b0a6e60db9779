//! MPI: what programs of many processes say to each other, above messages.
//!
//! - [`collectives`]: what each rank does in a collective, as data.
//!
//! Sections cited are those of the MPI standard, version 4.1.

pub mod collectives;
