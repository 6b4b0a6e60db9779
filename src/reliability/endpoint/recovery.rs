//! Acknowledgements and losses: which flow and which other parts of the endpoint they concern.

use super::Endpoint;
use crate::{
    error::{DropReason, PeerError},
    reliability::{
        flow::{Active, BLACK_HOLE, Cause, NONE, Released},
        peer::Phase,
        timers::Timer,
    },
    wire::{Flags, Packet, Seq},
};

impl Endpoint {
    /// The acknowledgement of a packet says something that is not known, be it possible or not.
    #[inline]
    pub(super) fn is_news(&self, flow: u32, ack: Seq, flags: Flags) -> bool {
        let state = &self.flows[flow as usize];
        match self.actives.get(state.active as usize) {
            None => ack != state.send_next(),
            Some(active) => active.send.is_news(ack, flags),
        }
    }

    /// Takes in the acknowledgement that every packet carries. `false`: it is impossible, and the packet with it.
    #[inline]
    pub(super) fn handle_ack(&mut self, flow: u32, packet: &Packet<&[u8]>, ack: Seq, flags: Flags) -> bool {
        let state = &self.flows[flow as usize];
        let index = state.active;
        if ack.after(state.send_next()) {
            return false;
        }
        let Some(Active { send, .. }) = self.actives.get(index as usize) else {
            return true;
        };
        if send.is_quiet(state) || ack.before(send.first_unacknowledged()) || send.is_settling() {
            return true;
        }
        let mut released = self.release_up_to(index, ack);
        if flags.contains(Flags::SACK) {
            released.bytes += self.apply_bitmap(index, packet);
        }
        if released.bytes > 0 {
            let active = &mut self.actives[index as usize];
            let echo = packet.timestamp().map_or(0, |stamp| stamp.echo);
            let was_spurious = active.send.judge_timeout(&self.flows[flow as usize], echo);
            self.stats.spurious_timeouts += u64::from(was_spurious);
            self.on_delivered(index, &released, packet);
        }
        if self.actives[index as usize].send.has_gaps() {
            self.detect_losses(index);
        }
        if flags.contains(Flags::NACK) {
            self.handle_nack(index);
        }
        self.after_ack(index, released.bytes > 0);
        true
    }

    /// Releases everything before `ack`.
    #[inline(never)]
    pub(super) fn release_up_to(&mut self, index: u32, ack: Seq) -> Released {
        let active = &mut self.actives[index as usize];
        let flow = &self.flows[active.flow as usize];
        let released = active
            .send
            .release(flow, &mut self.sources, &mut self.events, self.now, ack);
        if released.writable {
            self.note_writable(index);
        }
        released
    }

    fn note_writable(&mut self, index: u32) {
        let active = &self.actives[index as usize];
        let peer = self.flows[active.flow as usize].peer;
        if self.peers[peer as usize].blocked && active.send.copied_bytes() <= self.config.send_queue_bytes / 2 {
            self.tell_writable(peer);
        }
    }

    /// Processes a selective acknowledgement. Returns the bytes that are newly delivered.
    #[cold]
    pub(super) fn apply_bitmap(&mut self, index: u32, packet: &Packet<&[u8]>) -> u32 {
        let active = &mut self.actives[index as usize];
        let flow = &self.flows[active.flow as usize];
        active
            .send
            .apply_bitmap(flow, &mut self.sources, &mut self.events, self.now, packet)
    }

    /// Progress: round-trip time, congestion window, time-out.
    #[inline]
    fn on_delivered(&mut self, index: u32, released: &Released, packet: &Packet<&[u8]>) {
        let active = &mut self.actives[index as usize];
        let flow = &mut self.flows[active.flow as usize];
        let silent = active.send.timeouts() >= BLACK_HOLE;
        let Active { send, deadlines, .. } = active;
        let echo = packet.timestamp().map_or(0, |stamp| stamp.echo);
        send.note_progress(deadlines, flow, &self.config, self.now, released, echo);
        if !active.send.is_quiet(flow) {
            let timeout = self.rto(index);
            let deadlines = &mut self.actives[index as usize].deadlines;
            deadlines.set(Timer::Rto, self.now + timeout);
        }
        if silent {
            self.search_mtu_again(index);
        }
    }

    /// Finds packets lost because later ones have arrived.
    #[cold]
    pub(super) fn detect_losses(&mut self, index: u32) {
        let active = &mut self.actives[index as usize];
        let flow = &self.flows[active.flow as usize];
        let (lost, wake) = active.send.detect_losses(flow, self.now, self.times.reordering);
        active.deadlines.set(Timer::Reorder, wake);
        self.stats.lost_by_order += lost;
        self.on_lost(index, Cause::Order, lost);
    }

    /// The peer requests its missing packets.
    #[cold]
    fn handle_nack(&mut self, index: u32) {
        let active = &mut self.actives[index as usize];
        let flow = &self.flows[active.flow as usize];
        let lost = active.send.handle_nack(flow, self.now, self.config.recovery);
        self.stats.lost_by_nack += lost;
        self.on_lost(index, Cause::Nack, lost);
    }

    fn on_lost(&mut self, index: u32, cause: Cause, packets: u64) {
        if packets == 0 {
            return;
        }
        let active = &mut self.actives[index as usize];
        let flow = &self.flows[active.flow as usize];
        active.send.on_lost(flow, self.now, cause, packets);
        self.mark_ready(index);
    }

    #[inline]
    pub(super) fn after_ack(&mut self, index: u32, progress: bool) {
        let active = &self.actives[index as usize];
        let flow = active.flow;
        let state = &self.flows[flow as usize];
        if active.send.is_quiet(state) {
            if self.peers[state.peer as usize].phase == Phase::Goodbye && !active.send.has_queued() {
                self.end_session(state.peer, PeerError::Closed);
                return;
            }
            let deadlines = &mut self.actives[index as usize].deadlines;
            deadlines.stop(Timer::Rto);
            deadlines.stop(Timer::Reorder);
        }
        let send = &self.actives[index as usize].send;
        if send.has_lost() || (progress && (send.has_queued() || self.may_draw(flow) && self.has_bulk(flow))) {
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
