//! Messages with a header that describes their types.

use alloc::{boxed::Box, sync::Arc, vec};

use crate::mpi::{
    datatype::{Datatype, Kind, Signature},
    engine::{array::Array, buffer::Buffer, pool::Pool},
};

/// Bytes in front of each message: count and hash of its signature, 8 bytes each, network byte order.
pub(in crate::mpi::engine) const HEADER: usize = 16;

/// The types that a receive asks for, and the memory for the header of its message.
pub(in crate::mpi::engine) struct Expected {
    header: Array,
    count: u64,
    datatype: Datatype,
}

/// A send buffer with a header in front of it; `None`: there is not enough memory.
#[cold]
pub(in crate::mpi::engine) fn seal(pool: &Arc<Pool>, buffer: &Buffer) -> Option<Buffer> {
    let signature = buffer.signature();
    let mut header = Array::new(pool, HEADER)?;
    let bytes = header.get_mut()?;
    bytes[..8].copy_from_slice(&signature.count.to_be_bytes());
    bytes[8..].copy_from_slice(&signature.hash.to_be_bytes());
    Some(Buffer::join(vec![header.buffer()?, buffer.clone()]))
}

/// A receive buffer with room for a header in front of it, and what is expected of that.
#[cold]
pub(in crate::mpi::engine) fn unseal(pool: &Arc<Pool>, buffer: &Buffer) -> Option<(Buffer, Box<Expected>)> {
    let header = Array::new(pool, HEADER)?;
    let (place, (_, count, datatype)) = (header.buffer()?, buffer.elements()?);
    let expected = Expected {
        count,
        datatype,
        header,
    };
    Some((Buffer::join(vec![place, buffer.clone()]), Box::new(expected)))
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
