//! Where what is kept of a peer lies, for who can ask for it before it is needed: with thousands of endpoints in one
//! memory nothing of the next one's is in a near cache.

use super::{Endpoint, PeerId};

/// Octets of a small message, with its record.
const USUAL: usize = 64;

/// The index of the receiver's token in a datagram.
const SESSION: core::ops::Range<usize> = 12..16;

/// What is kept of a peer, of the usual channel. Each part is found through the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// What is always kept.
    Peer,
    /// The same of its flow.
    Flow,
    /// What is kept while something goes on.
    Active,
    /// What is queued and in flight, and where copied messages are appended.
    Sent,
    /// There.
    Copied,
}

/// The peer that a datagram says to be from, which may not be so.
#[inline]
pub(crate) fn named_peer(datagram: &[u8]) -> Option<PeerId> {
    let index = datagram.get(SESSION)?.try_into().ok()?;
    u32::from_be_bytes(index).checked_sub(1).map(PeerId)
}

impl Endpoint {
    /// Tells where a part of what is kept of a peer lies, and how many octets it has. Of the memory of that peer only the
    /// parts before are read.
    #[inline]
    pub(crate) fn locate(&self, peer: PeerId, part: Part, mut tell: impl FnMut(*const u8, usize)) {
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
                // From the beginning again when what was before is acknowledged, as it mostly is.
                let copied = self.sources.copied(active.send.tail);
                if !copied.is_empty() {
                    tell(copied.as_ptr(), USUAL);
                }
            }
        }
    }
}
