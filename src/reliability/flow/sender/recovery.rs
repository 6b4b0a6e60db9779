//! The sending side's view of acknowledgements: delivered packets, lost packets, and the round-trip time.

use alloc::collections::VecDeque;

use super::{
    super::{
        congestion::{Acked, Controller as _},
        packet::{DUPLICATE_THRESHOLD, Form, Record},
        resident::Flow,
        source::{Freed, Sources, charge},
    },
    Sender, Undo,
};
use crate::{
    config::{Config, Recovery},
    events::event,
    id::PeerId,
    reliability::{
        Event,
        timers::{Deadlines, NEVER, Timer},
    },
    stats::Stats,
    wire::{Flags, Packet, Seq},
};

/// How packets were found lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::reliability) enum Cause {
    /// By newer ones that have arrived.
    Order,
    /// By the peer, which has asked for them.
    Nack,
    /// By nothing that was acknowledged for a time-out.
    TimeOut,
}

/// So many time-outs in a row of packets larger than the safe size make the path a black hole (RFC 8899, 4.3).
pub(in crate::reliability) const BLACK_HOLE: u16 = 3;

/// Tells of an episode of losses. (Those that are found until all packets that are now in flight are acknowledged belong
/// to it.)
#[cfg_attr(not(feature = "tracing"), expect(unused_variables, reason = "nobody listens"))]
#[cfg_attr(not(feature = "tracing"), inline(always))]
pub(in crate::reliability) fn note_burst(flow: &Flow, cause: Cause, packets: u64) {
    event!(
        DEBUG,
        peer = flow.peer,
        channel = flow.channel(),
        ?cause,
        packets,
        "retransmission burst"
    );
}

/// The effects of an acknowledgement.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::reliability) struct Released {
    /// Bytes that are newly delivered.
    pub(in crate::reliability) bytes: u32,
    /// Send time of the last packet that was sent only once (Karn); 0 if none.
    newest: u64,
    /// There is more room in the send queue.
    pub(in crate::reliability) writable: bool,
    /// The window, and not the application, limited the bytes in flight, or nearly did.
    limited: bool,
}

impl Sender {
    // ---- acknowledgements

    /// The acknowledgement of a packet says something that is not known, be it possible or not.
    #[inline]
    pub(crate) fn is_news(&self, ack: Seq, flags: Flags) -> bool {
        ack != self.una || self.sacked_count > 0 || flags.intersects(Flags::SACK.union(Flags::NACK))
    }

    /// All that an acknowledgement up to `ack` takes is to release packets in order, if any.
    #[inline(always)]
    pub(crate) fn is_acknowledged_in_order(&self, flow: &Flow, ack: Seq) -> bool {
        self.sacked_count == 0
            && (ack == self.una
                || self.lost_count == 0
                    && self.timeouts == 0
                    && self.queue.is_empty()
                    && ack.after(self.una)
                    && !ack.after(flow.send_next))
    }

    /// Packets beyond one that is not acknowledged have arrived.
    #[inline]
    pub(crate) fn has_gaps(&self) -> bool {
        self.sacked_count > 0
    }

    /// Processes a selective acknowledgement. Returns the bytes that are newly delivered.
    #[cold]
    pub(crate) fn apply_bitmap(
        &mut self,
        flow: &Flow,
        sources: &mut Sources,
        events: &mut VecDeque<Event>,
        now: u64,
        packet: &Packet<&[u8]>,
    ) -> u32 {
        let (next, peer) = (flow.send_next, PeerId(flow.peer));
        let recent = now.saturating_sub(flow.rtt.min.into());
        let mut bytes = 0;
        let mut base = packet.base().acknowledgement.plus(1);
        for word in packet.sack() {
            let mut fresh = word & !self.sacked.word_at(base);
            while fresh != 0 {
                let seq = base.plus(fresh.trailing_zeros());
                fresh &= fresh - 1;
                // Ends the scan also where a bitmap claims packets that were never sent.
                if !seq.before(next) {
                    break;
                }
                if self.sacked.get(seq) {
                    continue;
                }
                let record = *self.record(seq);
                bytes += u32::from(record.len).max(1);
                if record.resends == 0 && seq.before(self.highest_acked) && !self.lost.get(seq) {
                    self.reordering = true;
                }
                self.deliver(sources, events, peer, (seq, record), recent);
                self.sacked.set(seq);
                self.sacked_count += 1;
                if seq.plus(1).after(self.highest_acked) {
                    self.highest_acked = seq.plus(1);
                }
            }
            base = base.plus(64);
        }
        bytes
    }

    #[inline]
    fn is_limited(&self) -> bool {
        let soon = 2 * u32::from(u16::MAX).min(self.bytes_in_flight / 4 + 1_472);
        self.bytes_in_flight + soon >= self.congestion.window() || !self.queue.is_empty()
    }

    /// Releases everything before `ack`.
    #[inline(always)]
    pub(crate) fn release(
        &mut self,
        flow: &Flow,
        sources: &mut Sources,
        events: &mut VecDeque<Event>,
        now: u64,
        ack: Seq,
    ) -> Released {
        let recent = now.saturating_sub(flow.rtt.min.into());
        let mut released = Released {
            limited: self.is_limited(),
            ..Released::default()
        };
        if ack == self.una.plus(1) {
            self.release_first(flow, sources, events, recent, &mut released);
        } else {
            released = self.release_many(flow, sources, events, (recent, ack), released);
        }
        if ack.after(self.highest_acked) {
            self.highest_acked = ack;
        }
        self.waiting &= self.una != flow.send_next;
        released
    }

    #[inline]
    fn release_many(
        &mut self,
        flow: &Flow,
        sources: &mut Sources,
        events: &mut VecDeque<Event>,
        (recent, ack): (u64, Seq),
        mut released: Released,
    ) -> Released {
        while self.una.before(ack) {
            self.release_first(flow, sources, events, recent, &mut released);
        }
        released
    }

    /// Releases the oldest packet.
    #[inline(always)]
    fn release_first(
        &mut self,
        flow: &Flow,
        sources: &mut Sources,
        events: &mut VecDeque<Event>,
        recent: u64,
        released: &mut Released,
    ) {
        let seq = self.una;
        self.una = seq.plus(1);
        if self.sacked_count > 0 && self.sacked.get(seq) {
            self.sacked.clear(seq);
            self.sacked_count -= 1;
            return;
        }
        let record = *self.record(seq);
        released.bytes += u32::from(record.len).max(1);
        if record.resends == 0 {
            released.newest = record.sent_at;
            // It filled a gap without being sent again: the network reorders.
            self.reordering |= seq.before(self.highest_acked);
        }
        released.writable |= self.deliver(sources, events, PeerId(flow.peer), (seq, record), recent);
    }

    /// New packets were delivered: takes the round-trip sample of the packet with the acknowledgement (`echo`: the
    /// timestamp that it returns, or 0), and stops the timers that waited for an answer.
    #[inline]
    pub(crate) fn note_progress(
        &mut self,
        deadlines: &mut Deadlines,
        flow: &mut Flow,
        config: &Config,
        now: u64,
        released: &Released,
        echo: u32,
    ) {
        let sample = if echo != 0 {
            u64::from((now as u32).wrapping_sub(echo))
        } else if released.newest != 0 && !config.timestamps {
            now - released.newest
        } else {
            0
        };
        // A clock that seems to run backwards (or a forged echo) is no sample.
        let sample = if sample < 1 << 31 { sample } else { 0 };
        if sample != 0 {
            flow.rtt.sample(sample);
        }
        self.timeouts = 0;
        // The peer has answered: the question whether anything passes is settled.
        (self.probe, self.ask_beside) = (false, false);
        self.congestion.on_ack(&Acked {
            bytes: released.bytes,
            in_flight: self.bytes_in_flight,
            limited: released.limited,
            rtt: sample as u32,
            min_rtt: flow.rtt.min,
            now,
        });
        self.note_window(flow);
        deadlines.stop(Timer::Persist);
        deadlines.stop(Timer::Rto);
    }

    /// The packet has arrived: it is not in flight or lost any more, and needs its source no more. Tells whether there is
    /// more room in the send queue. `recent`: a round trip ago.
    #[inline(always)]
    fn deliver(
        &mut self,
        sources: &mut Sources,
        events: &mut VecDeque<Event>,
        peer: PeerId,
        (seq, record): (Seq, Record),
        recent: u64,
    ) -> bool {
        let (sent_at, source, offset) = (record.sent_at, record.source, record.offset);
        let (form, len) = (record.form, u32::from(record.len));
        // An acknowledgement sooner after a retransmission than a round trip is for the original (RFC 8985, 6.2).
        let original = record.resends > 0 && sent_at > recent;
        if self.lost_count > 0 && self.lost.get(seq) {
            self.lost.clear(seq);
            self.lost_count -= 1;
        } else {
            self.bytes_in_flight -= len;
            self.packets_in_flight -= 1;
        }
        if !original && (sent_at > self.rack_at || (sent_at == self.rack_at && seq.after(self.rack_seq))) {
            (self.rack_at, self.rack_seq) = (sent_at, seq);
        }
        let copied = match form {
            Form::Goodbye | Form::Return => return false,
            Form::Placed => false,
            Form::Single | Form::Bundle => {
                self.copied_bytes -= len;
                true
            }
            Form::Whole => {
                let whole = sources.whole(source);
                if whole.copied {
                    // The charge beyond its bytes is released with the first of its packets.
                    self.copied_bytes -= if offset == 0 {
                        len + charge(whole.len) - whole.len
                    } else {
                        len
                    };
                }
                whole.copied
            }
        };
        if let Freed::Shared(_, Some(token), counted) = sources.release(source) {
            self.shared_messages -= u32::from(counted);
            events.push_back(Event::Sent { peer, token });
            return true;
        }
        copied
    }

    /// `seq` is in flight no more; it is to be sent again.
    pub(super) fn mark_lost(&mut self, seq: Seq) {
        let len = u32::from(self.record(seq).len);
        self.lost.set(seq);
        self.lost_count += 1;
        self.bytes_in_flight -= len;
        self.packets_in_flight -= 1;
    }

    /// `seq` was taken for lost and is not.
    fn mark_found(&mut self, seq: Seq) {
        let len = u32::from(self.record(seq).len);
        self.lost.clear(seq);
        self.lost_count -= 1;
        self.bytes_in_flight += len;
        self.packets_in_flight += 1;
    }

    /// Everything unacknowledged is to be sent again; gives how many packets that newly are.
    pub(crate) fn mark_all_lost(&mut self, next: Seq) -> u64 {
        let mut seq = self.una;
        let mut lost = 0;
        while let Some(hole) = self.sacked.first_clear(seq, next) {
            seq = hole.plus(1);
            if !self.lost.get(hole) {
                self.mark_lost(hole);
                lost += 1;
            }
        }
        lost
    }

    /// Something is acknowledged, perhaps after a time-out; `echo`: the timestamp that comes with it, or 0. Returns
    /// whether the time-out was spurious and is undone.
    #[inline]
    pub(crate) fn judge_timeout(&mut self, flow: &Flow, echo: u32) -> bool {
        self.undo.is_some() && self.judge(flow, echo)
    }

    /// If the peer had not received anything yet that was sent after the time-out, nothing was lost but the patience
    /// (the Eifel algorithm: RFC 3522), and the time-outs are undone (RFC 4015): packets that have not been sent again
    /// are in flight as before, and the window is as before.
    #[cold]
    fn judge(&mut self, flow: &Flow, echo: u32) -> bool {
        let Some(undo) = self.undo.take() else { return false };
        let before = (undo.at as u32).wrapping_sub(echo) as i32 > 0;
        if echo == 0 || !before {
            return false;
        }
        self.congestion = undo.congestion;
        let mut from = self.una;
        while let Some(seq) = self.lost.first_set(from, flow.send_next) {
            self.mark_found(seq);
            from = seq.plus(1);
        }
        true
    }

    // ---- losses

    /// Finds packets lost because later ones have arrived (RACK, RFC 8985). Returns how many, and when others will be.
    /// `reordering`: the window for packets that overtake each other, ns.
    pub(crate) fn detect_losses(&mut self, flow: &Flow, now: u64, reordering: u64) -> (u64, u64) {
        let rtt = u64::from(flow.rtt.smoothed);
        let patience = if self.reordering {
            reordering.max(u64::from(flow.rtt.min) / 4)
        } else {
            reordering
        };
        let (mut seq, end) = (self.una, self.highest_acked);
        let mut wake = NEVER;
        let mut lost = 0;
        while let Some(hole) = self.sacked.first_clear(seq, end) {
            seq = hole.plus(1);
            if self.lost.get(hole) {
                continue;
            }
            let record = *self.record(hole);
            if (record.sent_at, hole.after(self.rack_seq)) > (self.rack_at, false) {
                continue;
            }
            let beyond = end.distance(hole);
            let at_once = !self.reordering && record.resends == 0 && beyond > DUPLICATE_THRESHOLD;
            let at = record.sent_at + rtt + patience;
            if at_once || at <= now {
                self.mark_lost(hole);
                lost += 1;
            } else {
                wake = wake.min(at);
            }
        }
        (lost, wake)
    }

    /// The peer requests its missing packets. Returns how many are taken for lost.
    #[cold]
    pub(crate) fn handle_nack(&mut self, flow: &Flow, now: u64, recovery: Recovery) -> u64 {
        if self.una == flow.send_next {
            return 0;
        }
        // The peer cannot yet miss a packet that was sent less than a round trip ago. A retransmission is not missed
        // either before a packet sent after it has arrived: it may still be in a queue, however short the shortest
        // round trip was.
        let round_trip = u64::from(flow.rtt.min);
        if recovery == Recovery::GoBackN {
            let (went, at) = self.went_back;
            if went == self.una && now - at < u64::from(flow.rtt.smoothed).max(1) {
                return 0;
            }
            self.went_back = (self.una, now);
            return self.mark_all_lost(flow.send_next);
        }
        let mut lost = 0;
        let mut seq = self.una;
        while let Some(hole) = self.sacked.first_clear(seq, self.highest_acked) {
            seq = hole.plus(1);
            let record = self.record(hole);
            let overtaken = record.resends == 0 || record.sent_at < self.rack_at;
            if !self.lost.get(hole) && overtaken && now - record.sent_at >= round_trip {
                self.mark_lost(hole);
                lost += 1;
            }
        }
        lost
    }

    /// So many packets were found lost: tells the congestion controller, once per episode.
    pub(crate) fn on_lost(&mut self, flow: &Flow, now: u64, cause: Cause, packets: u64) {
        if !self.una.before(self.recovery_point) {
            self.recovery_point = flow.send_next;
            self.congestion.on_loss(now);
            note_burst(flow, cause, packets);
            self.note_window(flow);
        }
    }

    /// Nothing was acknowledged for so many time-outs in a row: the last packet, or all, are to be sent again.
    pub(crate) fn on_timeout(&mut self, flow: &Flow, now: u64, recovery: Recovery, stats: &mut Stats) {
        let next = flow.send_next;
        self.probe = true;
        if self.timeouts == 1 {
            self.undo = Some(Undo {
                at: now,
                congestion: self.congestion,
            });
        }
        if self.timeouts == 1 && recovery == Recovery::SelectiveRepeat {
            // Tail-loss probe (RFC 8985, 7): the last packet again. Its acknowledgement shows all gaps.
            let mut last = next.minus(1);
            while last != self.una && (self.sacked.get(last) || self.lost.get(last)) {
                last = last.minus(1);
            }
            if !self.sacked.get(last) && !self.lost.get(last) {
                self.mark_lost(last);
            }
            stats.probes += 1;
        } else {
            let lost = self.mark_all_lost(next);
            self.congestion.on_timeout();
            self.recovery_point = next;
            stats.lost_by_timeout += lost;
            note_burst(flow, Cause::TimeOut, lost);
            self.note_window(flow);
        }
    }

    /// Tells of the congestion window when it has doubled or halved since that was told last.
    #[cfg_attr(not(feature = "tracing"), expect(unused_variables, reason = "nobody listens"))]
    #[inline(always)]
    fn note_window(&mut self, flow: &Flow) {
        #[cfg(feature = "tracing")]
        if crate::events::are_debugged() {
            self.tell_window(flow);
        }
    }

    #[cfg(feature = "tracing")]
    #[inline(never)]
    fn tell_window(&mut self, flow: &Flow) {
        let (before, bytes) = (self.window_reported, self.congestion.window());
        if bytes / 2 >= before || bytes <= before / 2 {
            self.window_reported = bytes;
            event!(
                DEBUG,
                peer = flow.peer,
                channel = flow.channel(),
                before,
                bytes,
                "window changed"
            );
        }
    }
}
