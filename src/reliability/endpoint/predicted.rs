//! Header prediction (Van Jacobson, 1990, for TCP): nearly every packet of a session without losses is the next of its
//! flow, and acknowledges in order packets that were sent once. A few comparisons recognise such a packet, and a
//! straight path handles it; every other packet takes the general path.
//!
//! The message is delivered first and the acknowledgement processed after it, because somebody waits for the message.

use core::net::SocketAddr;

use super::Endpoint;
use crate::{
    reliability::{Origin, PeerId, Sink, credit::MESSAGE_COST, flow::FlowKey, peer::index_of, timers::Timer},
    wire::{Flags, Plain, Seq},
};

impl Endpoint {
    /// Takes in the packet in `bytes` if it holds one whole message and is as predicted. `false`: nothing was done.
    #[inline]
    pub(super) fn handle_predicted<S: Sink + ?Sized>(
        &mut self,
        source: &SocketAddr,
        bytes: &[u8],
        sink: &mut S,
    ) -> bool {
        let Some(packet) = Plain::read(bytes) else {
            return false;
        };
        let Some(peer) = index_of(packet.session) else {
            return false;
        };
        let Some(p) = self.peers.get(peer as usize) else {
            return false;
        };
        let Some(flow) = self.find_from(p.first_flow, FlowKey::new(packet.rail, packet.channel)) else {
            return false;
        };
        if p.has_rails() {
            return self.handle_predicted_of_rail(peer, flow, source, bytes, sink);
        }
        // (A session without rails has no flow but of rail 0.)
        p.is_at(source) && self.take_predicted(peer, flow, &packet, sink).is_some()
    }

    /// The same for a packet of a session with rails.
    #[inline(never)]
    fn handle_predicted_of_rail<S: Sink + ?Sized>(
        &mut self,
        peer: u32,
        flow: u32,
        source: &SocketAddr,
        bytes: &[u8],
        sink: &mut S,
    ) -> bool {
        // (Read again, since what is passed to another function must be in memory.)
        let Some(packet) = Plain::read(bytes) else {
            return false;
        };
        if !self.comes_as_before(peer, packet.rail, source) {
            return false;
        }
        let Some(acknowledges) = self.take_predicted(peer, flow, &packet, sink) else {
            return false;
        };
        self.follow(peer, packet.rail);
        if acknowledges && self.has_bulk(flow) {
            // There may be room for a piece of what waits on another rail.
            self.mark_ready(self.flows[flow as usize].active);
        }
        true
    }

    /// Takes in a packet that has come from the right place, and says whether it acknowledges something. `None`: nothing
    /// was done.
    #[inline(always)]
    fn take_predicted<S: Sink + ?Sized>(
        &mut self,
        peer: u32,
        flow_index: u32,
        packet: &Plain<'_>,
        sink: &mut S,
    ) -> Option<bool> {
        let (now, active_now) = (self.now, self.active_now());
        let flow = &mut self.flows[flow_index as usize];
        let index = flow.active;
        let active = self.actives.get_mut(index as usize)?;
        let p = &mut self.peers[peer as usize];
        let (ack, len) = (packet.acknowledgement, packet.payload.len() as u32);
        let origin = Origin {
            peer: PeerId(peer),
            channel: packet.channel,
            session: p.session,
            cost: len + MESSAGE_COST,
            confirmed: false,
        };
        if !p.expects(packet.session.secret)
            || !active.receive.is_next(flow, packet.sequence)
            || !active.send.is_acknowledged_in_order(flow, ack)
            || p.exceeds(origin.cost, p.limit_told)
            || !sink.deliver_plain(&origin, packet)
        {
            return None;
        }
        (p.last_heard, active.last_use) = (active_now, now);
        self.stats.packets_received += 1;
        self.stats.note_delivered(1, len);
        p.cost_received = p.cost_received.wrapping_add(origin.cost);
        active.receive.note_next(flow, now, len, packet.timestamp);
        let asked = if packet.ack_request {
            Flags::ACK_REQUEST
        } else {
            Flags::empty()
        };
        let is_news = ack != active.send.first_unacknowledged();
        if active.receive.is_due(asked, &self.config, self.ack_bytes) {
            self.acknowledge_now(index);
        } else {
            let at = now + self.times.ack_delay;
            active.deadlines.arm_once(&mut self.heap, index, Timer::Ack, at);
        }
        if is_news {
            self.take_in(index, ack, packet.timestamp.map_or(0, |stamp| stamp.echo));
        }
        Some(is_news)
    }

    /// Processes an acknowledgement as predicted: it releases at least one packet, and none of them was acknowledged
    /// before.
    #[inline]
    fn take_in(&mut self, index: u32, ack: Seq, echo: u32) {
        let now = self.now;
        let active = &mut self.actives[index as usize];
        let flow = &mut self.flows[active.flow as usize];
        let (send, deadlines) = (&mut active.send, &mut active.deadlines);
        let released = send.release(flow, &mut self.sources, &mut self.events, now, ack);
        send.note_progress(deadlines, flow, &self.config, now, &released, echo);
        if ack == flow.send_next() {
            deadlines.stop(Timer::Reorder);
        } else {
            let at = now + self.times.rto(flow, &self.peers[flow.peer as usize]);
            deadlines.arm(&mut self.heap, index, Timer::Rto, at);
        }
        if !send.is_busy(flow) {
            active.busy = false;
            self.busy -= 1;
        }
    }
}
