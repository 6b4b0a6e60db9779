//! A fast path for request and response, one at a time: the next packet comes from the same peer as the last, on the
//! same flow, holds one whole message, and acknowledges everything sent. As long as nothing else happens to the
//! endpoint, the state that [header prediction](super::predicted) checks has not changed since the last such packet.
//! Only two checks are left: that the fixed part of the header equals the last one, and the numbers.

use core::net::SocketAddr;

use super::{
    Origin, PeerId, Sink,
    endpoint::{Endpoint, later},
    flow::{Active, Flow},
    input::Arrival,
    peer::MESSAGE_COST,
    predicted::{Answered, Delivered, is_lone, note_next},
    timers::Timer,
};
use crate::{
    time::Instant,
    wire::{Flags, Prefix},
};

/// The next packet, if there is a dialogue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dialogue {
    pub(super) next: Option<Next>,
    /// The last message was sent through the queue. Such a sender interrupts every dialogue, so beginning one is not
    /// worth it.
    pub(super) queues: bool,
}

/// The sender of the next packet, and the expected start of its header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Next {
    from: SocketAddr,
    prefix: Prefix,
    channel: u8,
    peer: u32,
    flow: u32,
    active: u32,
}

/// Two endpoints are alike whether or not one of them takes a shorter way.
#[cfg(test)]
impl PartialEq for Dialogue {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Dialogue {
    pub(super) const NONE: Self = Self {
        next: None,
        queues: false,
    };
}

impl Endpoint {
    /// A packet as predicted has been taken in, alone in its datagram: the next one may be like it.
    #[inline]
    pub(super) fn begin_dialogue(&mut self, arrival: &Arrival<'_>, flow: u32) {
        let Flow { peer, active, .. } = self.flows[flow as usize];
        let Active {
            send, receive, probe, ..
        } = &self.actives[active as usize];
        let nothing_waits = send.queue.is_empty() && !probe.is_due() && !receive.nack_now;
        let is_settled = send.sacked_count == 0 && send.lost_count == 0 && send.timeouts == 0 && nothing_waits;
        let prefix = Prefix::of(&arrival.base, arrival.flags).filter(|_| is_settled);
        self.dialogue.next = prefix.map(|prefix| Next {
            from: arrival.source,
            prefix,
            channel: arrival.base.channel,
            peer,
            flow,
            active,
        });
    }

    /// The flow and its active part, if there is a dialogue with this peer on this channel. Then the session is open
    /// and without checksums, and the flow has nothing queued, lost, missing or to be probed. A credit announcement may
    /// be due.
    #[inline(always)]
    pub(super) fn dialogue_with(&self, peer: PeerId, channel: u8) -> Option<(u32, u32)> {
        let next = self
            .dialogue
            .next
            .as_ref()
            .filter(|next| next.peer == peer.0 && next.channel == channel)?;
        Some((next.flow, next.active))
    }

    /// Handles the next packet of the dialogue, if `octets` holds it. `false`: nothing was done.
    #[inline(always)]
    pub(super) fn handle_turn<S: Sink + ?Sized>(
        &mut self,
        now: Instant,
        source: &SocketAddr,
        octets: &[u8],
        sink: &mut S,
    ) -> bool {
        let Some(next) = &self.dialogue.next else {
            return false;
        };
        let (peer, flow_index, index) = (next.peer, next.flow, next.active);
        if next.from != *source {
            return false;
        }
        let Some(packet) = next.prefix.read(octets) else {
            return false;
        };
        self.catch_up();
        self.now = later(self.now, now);
        let (now, active_now) = (self.now, self.active_now());
        let p = &mut self.peers[peer as usize];
        let flow = &mut self.flows[flow_index as usize];
        let active = &mut self.actives[index as usize];
        let (send, ack) = (&active.send, packet.acknowledgement);
        let is_news = ack != send.una;
        let is_next = packet.sequence == flow.expected && (!is_news || is_lone(send, flow, ack));
        let len = packet.payload.len() as u32;
        let origin = Origin {
            peer: PeerId(peer),
            channel: flow.channel,
            session: p.session,
            cost: len + MESSAGE_COST,
        };
        if !is_next || p.exceeds(origin.cost, p.limit_told) || !sink.deliver_plain(&origin, &packet) {
            return false;
        }
        if is_news {
            let echo = packet.timestamp.map_or(0, |stamp| stamp.echo);
            self.answered = Answered { index, echo, at: now };
        }
        (p.last_heard, active.last_use) = (active_now, now);
        self.stats.packets_received += 1;
        self.stats.note_delivered(len);
        let receive = &mut active.receive;
        let next = Delivered {
            len,
            cost: origin.cost,
            stamp: packet.timestamp,
        };
        note_next(p, flow, receive, now, &next);
        if receive.is_due(Flags::empty(), &self.config, self.ack_bytes) {
            self.acknowledge_now(index);
        } else {
            let at = now + self.times.ack_delay;
            active.deadlines.arm_once(&mut self.heap, index, Timer::Ack, at);
        }
        true
    }
}
