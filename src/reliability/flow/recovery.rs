//! The sending side's view of acknowledgements: delivered packets, lost packets, and the round-trip time.

use alloc::collections::VecDeque;

use super::{
    Flow, Form, Record, Sender,
    congestion::{Acked, Controller},
    source::{Freed, Sources, charge},
};
use crate::{
    config::Config,
    events::event,
    id::PeerId,
    reliability::{
        Event,
        timers::{Deadlines, Timer},
    },
    wire::Seq,
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

/// So many packets beyond a gap make it a loss at once while the network is not known to reorder (RFC 8985, 6.2).
pub(in crate::reliability) const DUPLICATE_THRESHOLD: u32 = 3;
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
        channel = flow.channel,
        ?cause,
        packets,
        "retransmission burst"
    );
}

/// Tells of the congestion window when it has doubled or halved since that was told last.
#[cfg_attr(not(feature = "tracing"), expect(unused_variables, reason = "nobody listens"))]
#[inline(always)]
pub(in crate::reliability) fn note_window(send: &mut Sender, flow: &Flow) {
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

#[inline]
fn is_limited(send: &Sender) -> bool {
    let soon = 2 * u32::from(u16::MAX).min(send.bytes_in_flight / 4 + 1_472);
    send.bytes_in_flight + soon >= send.congestion.window() || !send.queue.is_empty()
}

/// Releases everything before `ack`.
#[inline]
pub(in crate::reliability) fn release(
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
pub(in crate::reliability) fn note_progress(
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
pub(in crate::reliability) fn deliver(
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
pub(in crate::reliability) fn mark_lost(send: &mut Sender, seq: Seq) {
    let len = u32::from(send.record(seq).len);
    send.lost.set(seq);
    send.lost_count += 1;
    send.bytes_in_flight -= len;
    send.packets_in_flight -= 1;
}

/// `seq` was taken for lost and is not.
pub(in crate::reliability) fn mark_found(send: &mut Sender, seq: Seq) {
    let len = u32::from(send.record(seq).len);
    send.lost.clear(seq);
    send.lost_count -= 1;
    send.bytes_in_flight += len;
    send.packets_in_flight += 1;
}

/// Everything unacknowledged is to be sent again; gives how many packets that newly are.
pub(in crate::reliability) fn mark_all_lost(send: &mut Sender, next: Seq) -> u64 {
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
