//! Header prediction (Van Jacobson, 1990, for TCP): nearly every packet of a session without losses is the next of its
//! flow, and acknowledges in order packets that were sent once. A few comparisons recognise such a packet, and a
//! straight path handles it; every other packet takes the general path.
//!
//! The acknowledgement in a response can be processed after its payload, for which the receiver waits. If it
//! acknowledges nothing but one small message, which is the last of its flow, it is noted ([`Answered`]) and processed
//! by [`Endpoint::catch_up`] before any other use of the endpoint; only a message that is [sent alone](super::alone) is
//! transmitted first.

use super::{
    Origin, PeerId, Sink, Verdict,
    endpoint::{Endpoint, is_busy},
    flow::{Flow, Form, Receiver, Sender},
    input::{Arrival, cost_of},
    peer::{Peer, Phase, index_of},
    recovery::{note_progress, release},
    source::NONE,
    timers::Timer,
};
use crate::{
    error::DropReason,
    wire::{Flags, Kind, Seq, Timestamp},
};

/// A deferred acknowledgement: it covers everything the flow had in flight, one small message, which is still to be
/// released.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answered {
    /// The active flow; [`NONE`]: there is nothing to catch up with.
    pub(super) index: u32,
    /// The stamp that came with the acknowledgement; 0: none.
    pub(super) echo: u32,
    /// When it came, ns.
    pub(super) at: u64,
}

impl Answered {
    pub(super) const NOTHING: Self = Self {
        index: NONE,
        echo: 0,
        at: 0,
    };
}

#[cfg(test)]
impl PartialEq for Answered {
    fn eq(&self, other: &Self) -> bool {
        self.index == other.index && (self.index == NONE || (self.echo, self.at) == (other.echo, other.at))
    }
}

/// The flags that a predicted packet does not have.
const UNUSUAL: Flags = Flags::CREDIT
    .union(Flags::CHECKSUM)
    .union(Flags::OPEN)
    .union(Flags::PLACEMENT)
    .union(Flags::SACK)
    .union(Flags::NACK)
    .union(Flags::SEAL);

impl Endpoint {
    /// Takes in a packet if it is as predicted. `None`: nothing was done.
    #[inline]
    pub(super) fn handle_predicted<S: Sink + ?Sized>(
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
        if base.kind != Kind::Data || base.rail != 0 || flags.intersects(UNUSUAL) {
            return None;
        }
        let peer = index_of(base.session)?;
        let flow_index = self.find_flow(peer, base.channel)?;
        let (now, active_now) = (self.now, self.active_now());
        let p = self.peers.get_mut(peer as usize)?;
        let flow = &self.flows[flow_index as usize];
        let index = flow.active;
        let active = self.actives.get_mut(index as usize)?;
        let (send, receive) = (&active.send, &active.receive);
        let is_usual = p.local_secret == base.session.secret
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
        let stamp = packet.timestamp();
        p.last_heard = active_now;
        active.last_use = now;
        let origin = Origin {
            peer: PeerId(peer),
            channel: base.channel,
            session: p.session,
            cost,
        };
        if is_news {
            let echo = stamp.map_or(0, |stamp| stamp.echo);
            if is_lone(send, flow, ack) {
                self.answered = Answered { index, echo, at: now };
            } else {
                self.take_in(Answered { index, echo, at: now }, ack);
            }
        }
        let verdict = sink.deliver(origin, packet);
        if verdict != Verdict::Taken {
            return Some(Err(self.refused(peer, index, &packet, flags, verdict)));
        }
        let p = &mut self.peers[peer as usize];
        let flow = &mut self.flows[flow_index as usize];
        let active = &mut self.actives[index as usize];
        let len = packet.payload().len() as u32;
        self.stats.note_delivered(len);
        note_next(p, flow, &mut active.receive, now, &Delivered { len, cost, stamp });
        if active.receive.is_due(flags, &self.config, self.ack_bytes) {
            active.receive.ack_now = true;
            self.mark_ready(index);
        } else {
            let at = now + self.times.ack_delay;
            active.deadlines.arm_once(&mut self.heap, index, Timer::Ack, at);
        }
        if sink.takes_plain() && !self.dialogue.queues {
            self.begin_dialogue(arrival, flow_index);
        }
        Some(Ok(()))
    }

    /// Ends a [dialogue](super::dialogue): something else happens. A deferred acknowledgement is processed first.
    #[inline]
    pub(super) fn interrupt(&mut self) {
        self.dialogue.next = None;
        self.catch_up();
    }

    /// Processes a deferred acknowledgement, if there is one.
    #[inline]
    pub(super) fn catch_up(&mut self) {
        if self.answered.index != NONE {
            self.take_in_answer();
        }
    }

    #[inline(never)]
    fn take_in_answer(&mut self) {
        // (Piece by piece, as it has just been written.)
        let Answered { index, echo, at } = self.answered;
        self.answered.index = NONE;
        let flow = self.actives[index as usize].flow;
        self.take_in(Answered { index, echo, at }, self.flows[flow as usize].send_next);
    }

    /// Processes an acknowledgement as predicted: it releases at least one packet, and none of them was acknowledged
    /// before.
    #[inline]
    fn take_in(&mut self, news: Answered, ack: Seq) {
        let Answered { index, echo, at: now } = news;
        let active = &mut self.actives[index as usize];
        let flow = &mut self.flows[active.flow as usize];
        let (send, deadlines) = (&mut active.send, &mut active.deadlines);
        let released = release(send, flow, &mut self.sources, &mut self.events, now, ack);
        note_progress(send, deadlines, flow, &self.config, now, &released, echo);
        if ack == flow.send_next {
            deadlines.stop(Timer::Reorder);
        } else {
            let at = now + self.times.rto(flow, &self.peers[flow.peer as usize]);
            deadlines.arm(&mut self.heap, index, Timer::Rto, at);
        }
        if !is_busy(flow, send) {
            active.busy = false;
            self.busy -= 1;
        }
    }
}

/// The next packet of a flow, whose payload has been delivered.
pub(super) struct Delivered {
    pub(super) len: u32,
    /// Its cost, in bytes of the credit.
    pub(super) cost: u32,
    pub(super) stamp: Option<Timestamp>,
}

/// Notes that the next packet of a flow has been delivered.
#[inline(always)]
pub(super) fn note_next(peer: &mut Peer, flow: &mut Flow, receive: &mut Receiver, now: u64, next: &Delivered) {
    peer.cost_received = peer.cost_received.wrapping_add(next.cost);
    receive.unacked_bytes += next.len;
    receive.unacked_packets += 1;
    if let Some(stamp) = next.stamp
        && stamp.value != 0
    {
        (receive.stamp, receive.stamp_at) = (stamp.value, now);
    }
    flow.expected = flow.expected.plus(1);
    receive.end = flow.expected;
}

/// `ack` acknowledges one small message, and nothing was sent after it: releasing that causes no event and no
/// transmission.
#[inline(always)]
pub(super) fn is_lone(send: &Sender, flow: &Flow, ack: Seq) -> bool {
    if ack != flow.send_next || ack != send.una.plus(1) || send.shared_messages > 0 {
        return false;
    }
    send.record(send.una).form == Form::Single
}
