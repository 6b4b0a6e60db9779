//! Where state lies, for a program that handles thousands of endpoints and asks the memory for the next one's state
//! ahead: the simulator. Nothing else asks, so this costs nothing.

use crate::id::PeerId;

/// The index of the receiver's token in a datagram.
const SESSION: core::ops::Range<usize> = 12..16;

/// Something that knows where the state about a `What` lies.
pub trait Locate<What> {
    /// Passes the addresses and the lengths in bytes of that state to `tell`, as far as there is some.
    fn locate(&self, what: What, tell: impl FnMut(*const u8, usize));
}

/// A part of a peer's state, on channel 0. Each part is located through the part before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The resident part of the peer.
    Peer,
    /// The same of its flow.
    Flow,
    /// The active part, which exists while something goes on.
    Active,
    /// The records of packets in flight, the send queue, and the descriptor of the block to which messages are copied.
    Sent,
    /// There.
    Copied,
}

/// The peer that a datagram says to be from, which may not be so.
#[inline]
#[must_use]
pub fn named_peer(datagram: &[u8]) -> Option<PeerId> {
    let index = datagram.get(SESSION)?.try_into().ok()?;
    u32::from_be_bytes(index).checked_sub(1).map(PeerId)
}
