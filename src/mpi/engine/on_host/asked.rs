//! The arguments of a collective that goes by memory.

use crate::mpi::{collectives::Call, engine::regions::Buffers, operation::Operation};

/// The arguments of a collective that goes by memory, as [`Communicator::collective`] has them.
#[derive(Clone, Copy)]
pub(in crate::mpi::engine) struct Asked<'a> {
    pub(in crate::mpi::engine) name: &'static str,
    pub(in crate::mpi::engine) call: &'a Call<'a>,
    pub(in crate::mpi::engine) buffers: &'a Buffers<'a>,
    pub(in crate::mpi::engine) operation: Option<&'a Operation>,
    /// The size by which an algorithm is chosen, bytes.
    pub(in crate::mpi::engine) bytes: usize,
    /// A hash of the call.
    pub(in crate::mpi::engine) mark: u32,
    /// Match bits of its messages, if it had any.
    pub(in crate::mpi::engine) bits: u64,
}
