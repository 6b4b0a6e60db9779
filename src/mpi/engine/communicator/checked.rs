//! Messages get a header if calls are compared.

use super::Communicator;
use crate::mpi::engine::{
    buffer::Buffer,
    check::{Check, HEADER, seal, unseal},
};

impl Communicator {
    /// Puts a header in front of a send buffer. False if there is not enough memory.
    #[inline]
    pub(in crate::mpi::engine) fn seal(&self, buffer: &mut Buffer) -> bool {
        let engine = self.engine();
        !engine.check || seal(&engine.arrays, buffer).map(|sealed| *buffer = sealed).is_some()
    }

    /// Makes room for a header in front of a receive buffer; gives the check to make at the end.
    #[inline]
    pub(in crate::mpi::engine) fn unseal(&self, buffer: &mut Buffer) -> Option<Check> {
        let engine = self.engine();
        if !engine.check {
            return None;
        }
        let (both, expected) = unseal(&engine.arrays, buffer)?;
        *buffer = both;
        Some(Check::Message(expected))
    }

    /// Bytes of the program's data in a message of `len` bytes.
    #[inline]
    pub(in crate::mpi::engine) fn payload(&self, len: u64) -> u64 {
        if self.engine().check {
            len.saturating_sub(HEADER as u64)
        } else {
            len
        }
    }

    /// Bytes of a message with so many of the program's data.
    #[inline]
    pub(in crate::mpi::engine) fn message_of(&self, payload: u64) -> u64 {
        if self.engine().check {
            payload + HEADER as u64
        } else {
            payload
        }
    }
}
