//! Messages with a header that describes their types.

use alloc::{boxed::Box, vec};

use super::Check;
use crate::mpi::{
    datatype::{Datatype, Kind, Signature},
    engine::{Communicator, array::Array, buffer::Buffer},
};

/// Bytes in front of each message: count and hash of its signature, 8 bytes each, network byte order.
const HEADER: usize = 16;

/// The types that a receive asks for, and the memory for the header of its message.
pub(in crate::mpi::engine) struct Expected {
    header: Array,
    count: u64,
    datatype: Datatype,
}

impl Communicator {
    /// Puts a header in front of a send buffer. False if there is not enough memory.
    #[inline]
    pub(in crate::mpi::engine) fn seal(&self, buffer: &mut Buffer) -> bool {
        !self.engine().check || self.sealed(buffer).map(|sealed| *buffer = sealed).is_some()
    }

    #[cold]
    fn sealed(&self, buffer: &Buffer) -> Option<Buffer> {
        let signature = buffer.signature();
        let mut header = self.array(HEADER);
        let bytes = header.get_mut()?;
        bytes[..8].copy_from_slice(&signature.count.to_be_bytes());
        bytes[8..].copy_from_slice(&signature.hash.to_be_bytes());
        Some(Buffer::join(vec![header.buffer()?, buffer.clone()]))
    }

    /// Makes room for a header in front of a receive buffer; gives the check to make at the end.
    #[inline]
    pub(in crate::mpi::engine) fn unseal(&self, buffer: &mut Buffer) -> Option<Check> {
        if !self.engine().check {
            return None;
        }
        let (both, check) = self.unsealed(buffer)?;
        *buffer = both;
        Some(check)
    }

    #[cold]
    fn unsealed(&self, buffer: &Buffer) -> Option<(Buffer, Check)> {
        let header = self.array(HEADER);
        let (place, (_, count, datatype)) = (header.buffer()?, buffer.elements()?);
        let expected = Expected {
            count,
            datatype,
            header,
        };
        let both = Buffer::join(vec![place, buffer.clone()]);
        Some((both, Check::Message(Box::new(expected))))
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
}

impl Expected {
    /// The sent and the expected signature, if they do not match.
    pub(in crate::mpi::engine) fn mismatch(&self) -> Option<(Signature, Signature)> {
        let (count, hash) = self.header.split_first_chunk()?;
        let sent = Signature {
            count: u64::from_be_bytes(*count),
            hash: u64::from_be_bytes(*hash.first_chunk()?),
        };
        let untyped = sent.is_all(Kind::Byte) || self.datatype.element_kind() == Some(Kind::Byte);
        let fits = untyped || self.datatype.accepts(sent);
        (!fits).then(|| (sent, self.datatype.signature(self.count)))
    }
}
