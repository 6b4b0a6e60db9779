//! The addresses of a peer's state, for a simulator that prefetches it: with thousands of endpoints in one process the
//! state of the next one is in no near cache.

use super::Endpoint;
use crate::{
    prefetch::{Locate, Part},
    reliability::{PeerId, flow::CopyOf},
};

/// Bytes of a small message, with its record.
const USUAL: usize = 64;

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
                self.sources.locate(active.send.tail(), &mut tell);
                active.send.locate(flow.send_next(), tell);
            }
            Part::Copied => {
                // Copies begin at the front again once the messages before are acknowledged, as they mostly are.
                self.sources
                    .locate(CopyOf(active.send.tail()), |first, _| tell(first, USUAL));
            }
        }
    }
}
