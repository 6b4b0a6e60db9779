//! The sending side's view of acknowledgements: delivered packets, lost packets, and the round-trip time.

use alloc::collections::VecDeque;

use super::{
    Event, PeerId,
    congestion::{Acked, Controller},
    endpoint::Endpoint,
    flow::{Active, Flow, Form, Record, Sender},
    send::charge,
    source::{Freed, NONE, Sources},
    timeout::BLACK_HOLE,
    timers::{Deadlines, NEVER, Timer},
};
use crate::{
    config::{Config, Recovery},
    error::DropReason,
    events::event,
    wire::{Flags, Packet, Seq},
};

/// How packets were found lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// By newer ones that have arrived.
    Order,
    /// By the peer, which has asked for them.
    Nack,
    /// By nothing that was acknowledged for a time-out.
    TimeOut,
}

/// So many packets beyond a gap make it a loss at once while the network is not known to reorder (RFC 8985, 6.2).
pub(super) const DUPLICATE_THRESHOLD: u32 = 3;

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
        if send.una == state.send_next || ack.before(send.una) {
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
    fn release_up_to(&mut self, index: u32, ack: Seq) -> Released {
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
    fn apply_bitmap(&mut self, index: u32, packet: &Packet<&[u8]>, ack: Seq) -> u32 {
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
        // The peer can not yet miss a packet that was sent less than a round trip ago. A retransmission is not missed
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
    fn after_ack(&mut self, index: u32, progress: bool) {
        let active = &self.actives[index as usize];
        let flow = active.flow;
        let send = &active.send;
        if send.una == self.flows[flow as usize].send_next {
            if self.peers[self.flows[flow as usize].peer as usize].phase == super::peer::Phase::Goodbye
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

/// Tells of an episode of losses. (Those that are found until all packets that are now in flight are acknowledged belong
/// to it.)
#[cfg_attr(not(feature = "tracing"), expect(unused_variables, reason = "nobody listens"))]
#[cfg_attr(not(feature = "tracing"), inline(always))]
pub(super) fn note_burst(flow: &Flow, cause: Cause, packets: u64) {
    event!(
        DEBUG,
        peer = flow.peer,
        channel = flow.channel,
        ?cause,
        packets,
        "retransmission burst"
    );
}

/// Tells of the congestion window when it has doubled or halved since that was told last.
#[cfg_attr(not(feature = "tracing"), expect(unused_variables, reason = "nobody listens"))]
#[inline(always)]
pub(super) fn note_window(send: &mut Sender, flow: &Flow) {
    #[cfg(feature = "tracing")]
    if crate::events::are_debugged() {
        tell_window(send, flow);
    }
}

#[cfg(feature = "tracing")]
#[inline(never)]
fn tell_window(send: &mut Sender, flow: &Flow) {
    let (before, bytes) = (send.window_told, send.congestion.window());
    if bytes / 2 >= before || bytes <= before / 2 {
        send.window_told = bytes;
        event!(
            DEBUG,
            peer = flow.peer,
            channel = flow.channel,
            before,
            bytes,
            "window changed"
        );
    }
}

/// The effects of an acknowledgement.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Released {
    /// Bytes that are newly delivered.
    pub(super) bytes: u32,
    /// Send time of the last packet that was sent only once (Karn); 0 if none.
    newest: u64,
    /// There is more room in the send queue.
    writable: bool,
    /// The window, and not the application, limited the bytes in flight, or nearly did.
    limited: bool,
}

#[inline]
fn is_limited(send: &Sender) -> bool {
    let soon = 2 * u32::from(u16::MAX).min(send.bytes_in_flight / 4 + 1_472);
    send.bytes_in_flight + soon >= send.congestion.window() || !send.queue.is_empty()
}

/// Releases everything before `ack`.
#[inline]
pub(super) fn release(
    send: &mut Sender,
    flow: &Flow,
    sources: &mut Sources,
    events: &mut VecDeque<Event>,
    now: u64,
    ack: Seq,
) -> Released {
    let recent = now.saturating_sub(flow.rtt.min.into());
    let mut released = Released {
        limited: is_limited(send),
        ..Released::default()
    };
    if ack == send.una.plus(1) {
        release_first(send, flow, sources, events, recent, &mut released);
    } else {
        released = release_many(send, flow, sources, events, (recent, ack), released);
    }
    if ack.after(send.highest_acked) {
        send.highest_acked = ack;
    }
    send.waiting &= send.una != flow.send_next;
    released
}

#[inline]
fn release_many(
    send: &mut Sender,
    flow: &Flow,
    sources: &mut Sources,
    events: &mut VecDeque<Event>,
    (recent, ack): (u64, Seq),
    mut released: Released,
) -> Released {
    while send.una.before(ack) {
        release_first(send, flow, sources, events, recent, &mut released);
    }
    released
}

/// Releases the oldest packet.
#[inline(always)]
fn release_first(
    send: &mut Sender,
    flow: &Flow,
    sources: &mut Sources,
    events: &mut VecDeque<Event>,
    recent: u64,
    released: &mut Released,
) {
    let seq = send.una;
    send.una = seq.plus(1);
    if send.sacked_count > 0 && send.sacked.get(seq) {
        send.sacked.clear(seq);
        send.sacked_count -= 1;
        return;
    }
    let record = *send.record(seq);
    released.bytes += u32::from(record.len).max(1);
    if record.resends == 0 {
        released.newest = record.sent_at;
        // It filled a gap without being sent again: the network reorders.
        send.reordering |= seq.before(send.highest_acked);
    }
    released.writable |= deliver(send, sources, events, PeerId(flow.peer), (seq, record), recent);
}

/// New packets were delivered: takes the round-trip sample of the packet with the acknowledgement (`echo`: the
/// timestamp that it returns, or 0), and stops the timers that waited for an answer.
#[inline]
pub(super) fn note_progress(
    send: &mut Sender,
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
    send.timeouts = 0;
    send.probe = false;
    send.congestion.on_ack(&Acked {
        bytes: released.bytes,
        in_flight: send.bytes_in_flight,
        limited: released.limited,
        rtt: sample as u32,
        min_rtt: flow.rtt.min,
        now,
    });
    note_window(send, flow);
    deadlines.stop(Timer::Persist);
    deadlines.stop(Timer::Rto);
}

/// The packet has arrived: it is not in flight or lost any more, and needs its source no more. Tells whether there is
/// more room in the send queue. `recent`: a round trip ago.
#[inline(always)]
fn deliver(
    send: &mut Sender,
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
    if send.lost_count > 0 && send.lost.get(seq) {
        send.lost.clear(seq);
        send.lost_count -= 1;
    } else {
        send.bytes_in_flight -= len;
        send.packets_in_flight -= 1;
    }
    if !original && (sent_at > send.rack_at || (sent_at == send.rack_at && seq.after(send.rack_seq))) {
        (send.rack_at, send.rack_seq) = (sent_at, seq);
    }
    let copied = match form {
        Form::Goodbye | Form::Return => return false,
        Form::Placed => false,
        Form::Single | Form::Bundle => {
            send.copied_bytes -= len;
            true
        }
        Form::Whole => {
            let whole = sources.whole(source);
            if whole.copied {
                // The charge beyond its bytes is released with the first of its packets.
                send.copied_bytes -= if offset == 0 {
                    len + charge(whole.len) - whole.len
                } else {
                    len
                };
            }
            whole.copied
        }
    };
    if let Freed::Shared(_, Some(token)) = sources.release(source) {
        send.shared_messages -= 1;
        events.push_back(Event::Sent { peer, token });
        return true;
    }
    copied
}

/// `seq` is in flight no more; it is to be sent again.
pub(super) fn mark_lost(send: &mut Sender, seq: Seq) {
    let len = u32::from(send.record(seq).len);
    send.lost.set(seq);
    send.lost_count += 1;
    send.bytes_in_flight -= len;
    send.packets_in_flight -= 1;
}

/// `seq` was taken for lost and is not.
fn mark_found(send: &mut Sender, seq: Seq) {
    let len = u32::from(send.record(seq).len);
    send.lost.clear(seq);
    send.lost_count -= 1;
    send.bytes_in_flight += len;
    send.packets_in_flight += 1;
}

/// Everything unacknowledged is to be sent again; gives how many packets that newly are.
pub(super) fn mark_all_lost(send: &mut Sender, next: Seq) -> u64 {
    let mut seq = send.una;
    let mut lost = 0;
    while let Some(hole) = send.sacked.first_clear(seq, next) {
        seq = hole.plus(1);
        if !send.lost.get(hole) {
            mark_lost(send, hole);
            lost += 1;
        }
    }
    lost
}
