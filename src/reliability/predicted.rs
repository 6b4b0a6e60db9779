//! Header prediction (Van Jacobson, 1990, for TCP): nearly every packet of a session without losses is the next of its flow,
//! and acknowledges in order what was sent once. Such a packet is recognised by a few comparisons and taken in by a straight
//! way; all others go the way that knows everything.

use super::{
    Origin, PeerId, Sink, Verdict,
    endpoint::{Endpoint, is_busy},
    input::{Arrival, cost_of},
    peer::{Phase, index_of},
    recovery::{note_progress, release},
    timers::Timer,
};
use crate::{
    error::DropReason,
    wire::{Flags, Kind},
};

/// What a predicted packet does not have.
const UNUSUAL: Flags = Flags::CREDIT
    .union(Flags::CHECKSUM)
    .union(Flags::OPEN)
    .union(Flags::PLACEMENT)
    .union(Flags::SACK)
    .union(Flags::NACK);

impl Endpoint {
    /// Takes in a packet if it is as predicted. `None`: nothing was done.
    #[inline]
    pub(super) fn handle_predicted<S: Sink>(
        &mut self,
        arrival: &Arrival<'_>,
        sink: &mut S,
    ) -> Option<Result<(), DropReason>> {
        let &Arrival {
            source,
            packet,
            ref base,
            flags,
            ..
        } = arrival;
        if base.kind != Kind::Data || flags.intersects(UNUSUAL) {
            return None;
        }
        let peer = index_of(base.session)?;
        let flow = self.find_flow(peer, base.channel)?;
        let (now, active_now) = (self.now, self.active_now());
        let p = self.peers.get_mut(peer as usize)?;
        let flow = &mut self.flows[flow as usize];
        let index = flow.active;
        let active = self.actives.get_mut(index as usize)?;
        let (send, receive, deadlines) = (&mut active.send, &mut active.receive, &mut active.deadlines);
        let is_usual = p.local_token == base.session
            && p.confirmed
            && p.phase == Phase::Open
            && !p.blocked
            && !p.checksums(&self.config)
            && (p.address == source || p.split_ports);
        let is_next = base.sequence == flow.expected && !receive.has_gap(flow.expected);
        let ack = base.acknowledgement;
        let is_news = ack != send.una;
        let in_order = send.sacked_count == 0
            && (!is_news
                || send.lost_count == 0
                    && send.timeouts == 0
                    && send.queue.is_empty()
                    && ack.after(send.una)
                    && !ack.after(flow.send_next));
        let cost = cost_of(&packet, flags);
        if !(is_usual && is_next && in_order) || p.exceeds(cost, p.limit_told) {
            return None;
        }
        p.last_heard = active_now;
        active.last_use = now;
        if is_news {
            let released = release(send, flow, &mut self.sources, &mut self.events, now, ack);
            if released.bytes > 0 {
                note_progress(send, deadlines, flow, &self.config, now, &released, &packet);
            }
            if ack == flow.send_next {
                deadlines.stop(Timer::Rto);
                deadlines.stop(Timer::Reorder);
            } else if released.bytes > 0 {
                let at = now + self.times.rto(flow, p);
                deadlines.arm(&mut self.heap, index, Timer::Rto, at);
            }
            if active.busy && !is_busy(flow, send) {
                active.busy = false;
                self.busy -= 1;
            }
        }
        let origin = Origin {
            peer: PeerId(peer),
            channel: base.channel,
            session: p.session,
            cost,
        };
        let verdict = sink.deliver(origin, packet);
        if verdict != Verdict::Taken {
            return Some(Err(self.refused(peer, index, &packet, flags, verdict)));
        }
        let len = packet.payload().len() as u32;
        p.cost_received = p.cost_received.wrapping_add(cost);
        self.stats.packets_delivered += 1;
        self.stats.payload_received += u64::from(len);
        receive.unacked_bytes += len;
        receive.unacked_packets += 1;
        if let Some(stamp) = packet.timestamp()
            && stamp.value != 0
        {
            (receive.stamp, receive.stamp_at) = (stamp.value, now);
        }
        flow.expected = base.sequence.plus(1);
        receive.end = flow.expected;
        if receive.is_due(flags, &self.config, self.ack_bytes) {
            receive.ack_now = true;
            self.mark_ready(index);
        } else if !deadlines.is_set(Timer::Ack) {
            let at = now + self.times.ack_delay;
            deadlines.arm(&mut self.heap, index, Timer::Ack, at);
        }
        Some(Ok(()))
    }
}
