//! The packet builder: it owns the space of a packet. What every packet to a peer carries ([`Format`]), what its message
//! takes of the header ([`message`]), the [extensions](extensions), and the end of each packet ([`finish`]): payload,
//! checksum, seal.

mod extensions;
mod finish;
mod format;
pub(super) mod message;
#[cfg(test)]
mod tests;

pub(super) use extensions::{finish_extensions, open_of};
pub(super) use finish::{Body, Written, finish};
pub(super) use format::Format;
