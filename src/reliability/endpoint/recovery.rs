//! The sending side's view of acknowledgements: delivered packets, lost packets, and the round-trip time.

use super::Endpoint;
use crate::{
    config::Recovery,
    error::DropReason,
    reliability::{
        PeerId,
        flow::{
            Active,
            congestion::Controller,
            recovery::{
                BLACK_HOLE, Cause, DUPLICATE_THRESHOLD, Released, deliver, mark_all_lost, mark_found, mark_lost,
                note_burst, note_progress, note_window, release,
            },
            source::NONE,
        },
        timers::{NEVER, Timer},
    },
    wire::{Flags, Packet, Seq},
};

impl Endpoint {
    /// The acknowledgement of a packet says something that is not known, be it possible or not.
    #[inline]
    pub(super) fn is_news(&self, flow: u32, ack: Seq, flags: Flags) -> bool {
        let state = &self.flows[flow as usize];
        match self.actives.get(state.active as usize) {
            None => ack != state.send_next,
            Some(Active { send, .. }) => {
                ack != send.una || send.sacked_count > 0 || flags.intersects(Flags::SACK.union(Flags::NACK))
            }
        }
    }

    /// Takes in the acknowledgement that every packet carries. `false`: it is impossible, and the packet with it.
    #[inline]
    pub(super) fn handle_ack(&mut self, flow: u32, packet: &Packet<&[u8]>, ack: Seq, flags: Flags) -> bool {
        let state = &self.flows[flow as usize];
        let index = state.active;
        if ack.after(state.send_next) {
            return false;
        }
        let Some(Active { send, .. }) = self.actives.get(index as usize) else {
            return true;
        };
        if send.una == state.send_next || ack.before(send.una) || send.settling {
            return true;
        }
        let mut released = self.release_up_to(index, ack);
        if flags.contains(Flags::SACK) {
            released.bytes += self.apply_bitmap(index, packet, ack);
        }
        if released.bytes > 0 {
            if self.actives[index as usize].send.undo.is_some() {
                self.judge_timeout(index, packet);
            }
            self.on_delivered(index, &released, packet);
        }
        if self.actives[index as usize].send.sacked_count > 0 {
            self.detect_losses(index);
        }
        if flags.contains(Flags::NACK) {
            self.handle_nack(index);
        }
        self.after_ack(index, released.bytes > 0);
        true
    }

    /// Releases everything before `ack`.
    #[inline]
    pub(super) fn release_up_to(&mut self, index: u32, ack: Seq) -> Released {
        let active = &mut self.actives[index as usize];
        let flow = &self.flows[active.flow as usize];
        let released = release(
            &mut active.send,
            flow,
            &mut self.sources,
            &mut self.events,
            self.now,
            ack,
        );
        if released.writable {
            self.note_writable(index);
        }
        released
    }

    fn note_writable(&mut self, index: u32) {
        let active = &self.actives[index as usize];
        let peer = self.flows[active.flow as usize].peer;
        if self.peers[peer as usize].blocked && active.send.copied_bytes <= self.config.send_queue_bytes / 2 {
            self.tell_writable(peer);
        }
    }

    /// Processes a selective acknowledgement. Returns the bytes that are newly delivered.
    #[cold]
    pub(super) fn apply_bitmap(&mut self, index: u32, packet: &Packet<&[u8]>, ack: Seq) -> u32 {
        let active = &mut self.actives[index as usize];
        let state = &self.flows[active.flow as usize];
        let (next, peer) = (state.send_next, PeerId(state.peer));
        let recent = self.now.saturating_sub(state.rtt.min.into());
        let send = &mut active.send;
        let mut bytes = 0;
        let mut base = ack.plus(1);
        for word in packet.sack() {
            let mut fresh = word & !send.sacked.word_at(base);
            while fresh != 0 {
                let seq = base.plus(fresh.trailing_zeros());
                fresh &= fresh - 1;
                // Ends the scan also where a bitmap claims packets that were never sent.
                if !seq.before(next) {
                    break;
                }
                if send.sacked.get(seq) {
                    continue;
                }
                let record = *send.record(seq);
                bytes += u32::from(record.len).max(1);
                if record.resends == 0 && seq.before(send.highest_acked) && !send.lost.get(seq) {
                    send.reordering = true;
                }
                deliver(send, &mut self.sources, &mut self.events, peer, (seq, record), recent);
                send.sacked.set(seq);
                send.sacked_count += 1;
                if seq.plus(1).after(send.highest_acked) {
                    send.highest_acked = seq.plus(1);
                }
            }
            base = base.plus(64);
        }
        bytes
    }

    /// Something is acknowledged after a time-out. If the peer had not received anything yet that was sent after the
    /// time-out, nothing was lost but the patience (the Eifel algorithm: RFC 3522), and the time-outs are undone (RFC
    /// 4015): packets that have not been sent again are in flight as before, and the window is as before.
    #[cold]
    fn judge_timeout(&mut self, index: u32, packet: &Packet<&[u8]>) {
        let active = &mut self.actives[index as usize];
        let next = self.flows[active.flow as usize].send_next;
        let send = &mut active.send;
        let Some(undo) = send.undo.take() else { return };
        let echo = packet.timestamp().map_or(0, |stamp| stamp.echo);
        let before = (undo.at as u32).wrapping_sub(echo) as i32 > 0;
        if echo == 0 || !before {
            return;
        }
        send.congestion = undo.congestion;
        let mut from = send.una;
        while let Some(seq) = send.lost.first_set(from, next) {
            mark_found(send, seq);
            from = seq.plus(1);
        }
        self.stats.spurious_timeouts += 1;
    }

    /// Progress: round-trip time, congestion window, time-out.
    #[inline]
    fn on_delivered(&mut self, index: u32, released: &Released, packet: &Packet<&[u8]>) {
        let active = &mut self.actives[index as usize];
        let flow = &mut self.flows[active.flow as usize];
        let silent = active.send.timeouts >= BLACK_HOLE;
        let Active { send, deadlines, .. } = active;
        let echo = packet.timestamp().map_or(0, |stamp| stamp.echo);
        note_progress(send, deadlines, flow, &self.config, self.now, released, echo);
        if active.send.una != flow.send_next {
            let timeout = self.rto(index);
            let deadlines = &mut self.actives[index as usize].deadlines;
            deadlines.set(Timer::Rto, self.now + timeout);
        }
        if silent {
            self.search_mtu_again(index);
        }
    }

    /// Finds packets lost because later ones have arrived (RACK, RFC 8985).
    #[cold]
    pub(super) fn detect_losses(&mut self, index: u32) {
        let now = self.now;
        let active = &mut self.actives[index as usize];
        let flow = &self.flows[active.flow as usize];
        let rtt = u64::from(flow.rtt.smoothed);
        let send = &mut active.send;
        let patience = if send.reordering {
            self.times.reordering.max(u64::from(flow.rtt.min) / 4)
        } else {
            self.times.reordering
        };
        let (mut seq, end) = (send.una, send.highest_acked);
        let mut wake = NEVER;
        let mut lost = 0;
        while let Some(hole) = send.sacked.first_clear(seq, end) {
            seq = hole.plus(1);
            if send.lost.get(hole) {
                continue;
            }
            let record = *send.record(hole);
            if (record.sent_at, hole.after(send.rack_seq)) > (send.rack_at, false) {
                continue;
            }
            let beyond = end.distance(hole);
            let at_once = !send.reordering && record.resends == 0 && beyond > DUPLICATE_THRESHOLD;
            let at = record.sent_at + rtt + patience;
            if at_once || at <= now {
                mark_lost(send, hole);
                lost += 1;
            } else {
                wake = wake.min(at);
            }
        }
        active.deadlines.set(Timer::Reorder, wake);
        self.stats.lost_by_order += lost;
        self.on_lost(index, Cause::Order, lost);
    }

    /// The peer requests its missing packets.
    #[cold]
    fn handle_nack(&mut self, index: u32) {
        let now = self.now;
        let active = &mut self.actives[index as usize];
        let flow = &self.flows[active.flow as usize];
        let send = &mut active.send;
        if send.una == flow.send_next {
            return;
        }
        // The peer cannot yet miss a packet that was sent less than a round trip ago. A retransmission is not missed
        // either before a packet sent after it has arrived: it may still be in a queue, however short the shortest
        // round trip was.
        let round_trip = u64::from(flow.rtt.min);
        let mut lost = 0;
        if self.config.recovery == Recovery::GoBackN {
            let (went, at) = send.went_back;
            if went == send.una && now - at < u64::from(flow.rtt.smoothed).max(1) {
                return;
            }
            send.went_back = (send.una, now);
            lost = mark_all_lost(send, flow.send_next);
        } else {
            let mut seq = send.una;
            while let Some(hole) = send.sacked.first_clear(seq, send.highest_acked) {
                seq = hole.plus(1);
                let record = send.record(hole);
                let overtaken = record.resends == 0 || record.sent_at < send.rack_at;
                if !send.lost.get(hole) && overtaken && now - record.sent_at >= round_trip {
                    mark_lost(send, hole);
                    lost += 1;
                }
            }
        }
        self.stats.lost_by_nack += lost;
        self.on_lost(index, Cause::Nack, lost);
    }

    /// Tells the congestion controller, once per episode.
    fn on_lost(&mut self, index: u32, cause: Cause, packets: u64) {
        if packets == 0 {
            return;
        }
        let active = &mut self.actives[index as usize];
        let flow = &self.flows[active.flow as usize];
        let send = &mut active.send;
        if !send.una.before(send.recovery_point) {
            send.recovery_point = flow.send_next;
            send.congestion.on_loss(self.now);
            note_burst(flow, cause, packets);
            note_window(send, flow);
        }
        self.mark_ready(index);
    }

    #[inline]
    pub(super) fn after_ack(&mut self, index: u32, progress: bool) {
        let active = &self.actives[index as usize];
        let flow = active.flow;
        let send = &active.send;
        if send.una == self.flows[flow as usize].send_next {
            if self.peers[self.flows[flow as usize].peer as usize].phase == crate::reliability::peer::Phase::Goodbye
                && send.queue.is_empty()
            {
                self.end_session(self.flows[flow as usize].peer, crate::error::PeerError::Closed);
                return;
            }
            let deadlines = &mut self.actives[index as usize].deadlines;
            deadlines.stop(Timer::Rto);
            deadlines.stop(Timer::Reorder);
        }
        let send = &self.actives[index as usize].send;
        if send.lost_count > 0 || (progress && !send.queue.is_empty()) {
            self.mark_ready(index);
        }
        self.update_busy(flow);
        if self.flows[flow as usize].active != NONE {
            self.reschedule(index);
        }
    }

    pub(crate) fn count_drop(&mut self, reason: DropReason) {
        self.stats.dropped.count(reason);
    }
}
