//! The addresses of a peer's state, for a simulator that prefetches it: with thousands of endpoints in one process the
//! state of the next one is in no near cache.

use super::{Endpoint, PeerId, source::CopyOf};
use crate::prefetch::Locate;

/// Bytes of a small message, with its record.
const USUAL: usize = 64;

/// The index of the receiver's token in a datagram.
const SESSION: core::ops::Range<usize> = 12..16;

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

/// Reads only the parts of that peer that come before it.
impl Locate<(PeerId, Part)> for Endpoint {
    #[inline]
    fn locate(&self, (peer, part): (PeerId, Part), mut tell: impl FnMut(*const u8, usize)) {
        let Some(p) = self.peers.get(peer.index()) else { return };
        if part == Part::Peer {
            return tell((&raw const *p).cast(), size_of_val(p));
        }
        let Some(flow) = self.flows.get(p.first_flow as usize) else {
            return;
        };
        if part == Part::Flow {
            return tell((&raw const *flow).cast(), size_of_val(flow));
        }
        let Some(active) = self.actives.get(flow.active as usize) else {
            return;
        };
        match part {
            Part::Peer | Part::Flow => {}
            Part::Active => tell((&raw const *active).cast(), size_of_val(active)),
            Part::Sent => {
                self.sources.locate(active.send.tail, &mut tell);
                active.send.locate(flow.send_next, tell);
            }
            Part::Copied => {
                // Copies begin at the front again once the messages before are acknowledged, as they mostly are.
                self.sources
                    .locate(CopyOf(active.send.tail), |first, _| tell(first, USUAL));
            }
        }
    }
}
