//! Messages for processors that are not here: they are reported to the sender, reliably, and affect no other message.

use super::Endpoint;
use crate::{
    error::DropReason,
    reliability::{Event, PeerId, peer::Phase},
    wire::{Base, Flags, Packet},
};

/// While so many events wait to be taken, returns are put off.
const MAX_EVENTS: usize = 4_096;

impl Endpoint {
    /// A packet of flow `index` for a processor that is not here: it is acknowledged like any other if there is room
    /// for the report. Without checksums it must have come twice: an acknowledged packet whose destination was spoilt
    /// would be missing for ever, and hold up all messages behind its own. `cost`: its share of the credit.
    #[cold]
    pub(super) fn take_back(&mut self, peer: u32, index: u32, packet: &Packet<&[u8]>, cost: u32) -> DropReason {
        let base = packet.base();
        let receive = &mut self.actives[index as usize].receive;
        if !self.peers[peer as usize].format.is_verified() && receive.doubt(base.sequence) {
            // A bit may have flipped. What is sent again says whether that was so.
            self.note_gap(index, base.sequence);
            return DropReason::Misaddressed;
        }
        if !self.return_to_sender(peer, index, packet, &base) {
            return self.put_off(index);
        }
        // Its credit is free again at once.
        let p = &mut self.peers[peer as usize];
        p.cost_received = p.cost_received.wrapping_add(cost);
        let session = p.session;
        self.release(PeerId(peer), session, cost);
        self.note_beside_gap(index, base.sequence, true);
        DropReason::Misaddressed
    }

    /// Queues the answer to a misaddressed packet. `false`: there is no room for it now.
    fn return_to_sender(&mut self, peer: u32, index: u32, packet: &Packet<&[u8]>, base: &Base) -> bool {
        // One report for each message, and none after our goodbye. (A placement needs none: only a processor that is
        // here grants regions.)
        let begins = packet.placement().is_none() && packet.fragment().is_none_or(|fragment| fragment.offset == 0);
        if !begins || self.peers[peer as usize].phase == Phase::Goodbye {
            return true;
        }
        let more = if packet.flags().contains(Flags::BUNDLE) {
            packet.records().count() as u32 - 1
        } else {
            0
        };
        // (The rail may be one of the peer's only, and die unnoticed by this side.)
        let index = if self.peers[peer as usize].has_rails() {
            let home = self.home_of(peer, base.channel);
            let flow = self.flow_for(peer, home);
            self.activate(flow)
        } else {
            index
        };
        let active = &mut self.actives[index as usize];
        if !active
            .send
            .push_return(base.destination, base.source, base.message, more)
        {
            return false;
        }
        let flow = active.flow;
        self.update_busy(flow);
        self.mark_ready(index);
        true
    }

    /// The peer reports messages of ours that it returns. `false`: there is no room for the event now.
    #[cold]
    pub(super) fn note_return(&mut self, peer: u32, packet: &Packet<&[u8]>, base: &Base) -> bool {
        if self.events.len() >= MAX_EVENTS {
            return false;
        }
        self.events.push_back(Event::Returned {
            peer: PeerId(peer),
            source: base.destination,
            destination: base.source,
            message: base.message,
            messages: packet.immediate().unwrap_or(0).saturating_add(1),
        });
        true
    }
}
