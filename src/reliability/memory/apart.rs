//! Packets that are taken in where the medium holds them: another process may write there meanwhile.

use core::net::SocketAddr;

use super::{Flags, Head, Kind, MemoryLayer, Origin, PeerError, PeerId, Sink, Verdict};
use crate::{error::DropReason, span::Span, time::Instant};

/// Bytes that are copied first: more than a header has.
const NEAR: usize = 96;

impl MemoryLayer {
    /// Takes in one datagram. The payload of a placement is copied straight to its destination; other packets are copied
    /// first.
    pub(crate) fn handle_shared<S: Sink + ?Sized>(
        &mut self,
        now: Instant,
        source: SocketAddr,
        datagram: Span<'_>,
        sink: &mut S,
    ) {
        self.now = self.now.max(now);
        if !self.place_apart(source, datagram, sink) {
            let mut whole = core::mem::take(&mut self.rings.scratch);
            whole.clear();
            datagram.append_to(&mut whole);
            self.handle_datagrams(now, source.into(), &mut whole, datagram.len(), sink);
            self.rings.scratch = whole;
        }
    }

    /// `false`: it has to be looked at as a whole.
    fn place_apart<S: Sink + ?Sized>(&mut self, source: SocketAddr, datagram: Span<'_>, sink: &mut S) -> bool {
        let Some(peer) = self
            .find(source)
            .filter(|_| datagram.len() >= NEAR && sink.takes_apart())
        else {
            return false;
        };
        let mut near = [0; NEAR];
        let (beginning, _) = datagram.split_at(NEAR);
        beginning.copy_to(&mut near);
        let Some((head, header)) = Head::of_data(&near, datagram.len()) else {
            return false;
        };
        let (base, flags) = (head.base(), head.flags());
        let p = &self.peers[peer as usize];
        let is_usual = p.theirs == base.session
            && p.is_up
            && p.down.is_none()
            && p.put_off.is_empty()
            && flags.contains(Flags::PLACEMENT)
            && !flags.contains(Flags::CREDIT)
            && base.acknowledgement.0 == p.answered;
        if !is_usual {
            return false;
        }
        debug_assert_eq!(base.kind, Kind::Data);
        let payload = datagram.part(header..datagram.len());
        let origin = Origin {
            peer: PeerId(peer),
            channel: base.channel,
            session: p.session,
            cost: 0,
            confirmed: true,
        };
        match sink.deliver_apart(origin, head, payload) {
            Verdict::Taken => {
                self.last = peer;
                self.stats.packets_received += 1;
                self.stats.note_delivered(1, payload.len() as u32);
                if flags.contains(Flags::ACK_REQUEST) {
                    self.answer(peer);
                }
            }
            Verdict::Impossible => {
                self.stats.packets_received += 1;
                self.stats.dropped.count(DropReason::Refused);
                self.end_session(peer, PeerError::Misbehaved);
            }
            // It is looked at again, and kept.
            _ => return false,
        }
        true
    }
}
