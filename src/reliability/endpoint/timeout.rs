//! Time-outs.

use super::Endpoint;
use crate::{
    error::PeerError,
    events::event,
    prng::mix,
    reliability::{
        flow::{BLACK_HOLE, FlowKey, NONE, Step},
        peer::Phase,
        timers::{NEVER, Timer},
    },
    time::Instant,
};

/// Being called this much later than asked for means that this side did not run, ns.
const LATE: u64 = 10_000_000;
/// So many packets go to a silent peer, one after the other, in the last quarter of its time, unless a round trip takes
/// longer than the time between them. A fault that eats 50 datagrams and no more must not look like a death.
const LAST_PROBES: u64 = 48;

impl Endpoint {
    /// Does the work due at `now`. Call it at the time that [`poll_timeout`](Self::poll_timeout) returned, after
    /// handling the datagrams that have arrived. Calling it earlier or more often is harmless.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.advance(now);
        let Some(earliest) = self.heap.earliest() else {
            return;
        };
        let late = self.now.saturating_sub(earliest);
        if late > LATE {
            self.stalled += late;
        }
        while let Some(index) = self.heap.pop_due(self.now) {
            let active = &mut self.actives[index as usize];
            active.deadlines.scheduled = NEVER;
            if active.flow == NONE {
                continue;
            }
            self.expire(index);
            let active = &self.actives[index as usize];
            if active.flow != NONE {
                self.reschedule(index);
            }
        }
    }

    fn expire(&mut self, index: u32) {
        let now = self.now;
        let due = |endpoint: &mut Self, timer: Timer| endpoint.actives[index as usize].deadlines.take(timer, now);
        if due(self, Timer::Ack) {
            self.actives[index as usize].receive.acknowledge();
            self.mark_ready(index);
        }
        if due(self, Timer::Nack) {
            self.ask_for_gap(index);
        }
        if due(self, Timer::Reorder) {
            self.detect_losses(index);
        }
        if due(self, Timer::Mtu) && !self.prove_again(index) {
            let step = self.actives[index as usize].probe.on_timeout();
            self.on_mtu_step(index, step);
        }
        if due(self, Timer::Keepalive) {
            self.keep_alive(index);
        }
        if due(self, Timer::Rto) && !self.retransmission_timeout(index) {
            return;
        }
        if due(self, Timer::Persist) && !self.persist_timeout(index) {
            return;
        }
        if due(self, Timer::Idle) {
            self.rest(index);
        }
    }

    /// A gap has outlived the reordering window.
    pub(super) fn ask_for_gap(&mut self, index: u32) {
        let active = &mut self.actives[index as usize];
        if active.receive.ask_for_gap(&self.flows[active.flow as usize]) {
            self.mark_ready(index);
        }
    }

    fn keep_alive(&mut self, index: u32) {
        let peer = self.flows[self.actives[index as usize].flow as usize].peer;
        let p = &self.peers[peer as usize];
        if !p.is_watched() {
            return;
        }
        let silent_since = p.last_heard;
        let active_now = self.active_now();
        let next = silent_since + self.times.keepalive;
        let deadlines = &mut self.actives[index as usize].deadlines;
        if next > active_now {
            deadlines.set(Timer::Keepalive, self.now + (next - active_now));
            return;
        }
        deadlines.set(Timer::Keepalive, self.now + self.times.keepalive);
        self.ask_until_heard(index);
    }

    /// Probes the peer of a flow repeatedly until it answers or is dead. Packets in flight are probes already.
    pub(super) fn ask_until_heard(&mut self, index: u32) {
        let active_now = self.active_now();
        let timeout = self.rto(index);
        let active = &mut self.actives[index as usize];
        let send = &mut active.send;
        if !send.is_quiet(&self.flows[active.flow as usize]) {
            return;
        }
        send.ask();
        if !active.deadlines.is_set(Timer::Persist) {
            send.wait_since(active_now);
            active.deadlines.set(Timer::Persist, self.now + timeout);
            self.reschedule(index);
        }
        self.mark_ready(index);
    }

    /// Nothing was acknowledged for a time-out. `false`: the peer is dead, the flow gone.
    fn retransmission_timeout(&mut self, index: u32) -> bool {
        let active = &mut self.actives[index as usize];
        let flow = &self.flows[active.flow as usize];
        if active.send.is_quiet(flow) {
            return true;
        }
        if let Some(at) = self.awaits_bulk(index) {
            self.actives[index as usize].deadlines.set(Timer::Rto, at);
            return true;
        }
        let timeouts = self.actives[index as usize].send.count_timeout();
        if self.give_up(index) {
            return false;
        }
        self.suspect_rail(index);
        if self.actives[index as usize].send.is_settling() {
            let at = self.now + self.rto(index);
            let active = &mut self.actives[index as usize];
            active.send.repeat_settle();
            active.deadlines.set(Timer::Rto, at);
            self.mark_ready(index);
            return true;
        }
        let active = &mut self.actives[index as usize];
        let flow = &self.flows[active.flow as usize];
        active
            .send
            .on_timeout(flow, self.now, self.config.recovery, &mut self.stats);
        if timeouts >= 2 {
            self.ask_by_small(index);
        }
        if timeouts == BLACK_HOLE {
            self.leave_black_hole(index);
        }
        let timeout = self.rto(index);
        self.actives[index as usize]
            .deadlines
            .set(Timer::Rto, self.now + timeout);
        self.mark_ready(index);
        true
    }

    /// Blocked on credit, or not heard since it was asked: ask for a sign of life. `false`: the peer is dead.
    fn persist_timeout(&mut self, index: u32) -> bool {
        if self.flows[self.actives[index as usize].flow as usize].channel() == 0 {
            if self.ask_again(index) {
                return true;
            }
            if let Some(lives) = self.call_again(index) {
                return lives;
            }
        }
        let active = &self.actives[index as usize];
        let flow = &self.flows[active.flow as usize];
        let peer = &self.peers[flow.peer as usize];
        if !active.send.is_quiet(flow) {
            return true;
        }
        let unanswered = peer.last_heard < active.send.waiting_since();
        if !active.send.has_queued() && !unanswered {
            self.actives[index as usize].send.forget_timeouts();
            return true;
        }
        let active = &mut self.actives[index as usize];
        active.send.count_timeout();
        active.send.ask();
        if self.give_up(index) {
            return false;
        }
        self.suspect_rail(index);
        let timeout = self.rto(index);
        self.actives[index as usize]
            .deadlines
            .set(Timer::Persist, self.now + timeout);
        self.mark_ready(index);
        true
    }

    /// How long the peer of a flow has been silent although it was asked, and how long it may be, ns.
    fn silence(&self, index: u32) -> (u64, u64) {
        let active = &self.actives[index as usize];
        let p = &self.peers[self.flows[active.flow as usize].peer as usize];
        let asked_or_heard = p.last_heard.max(active.send.waiting_since());
        let limit = if p.is_confirmed() {
            self.times.death
        } else {
            self.times.open
        };
        (self.active_now().saturating_sub(asked_or_heard), limit)
    }

    /// Retransmission time-out of a flow with its back-off, ns.
    #[inline]
    pub(super) fn rto(&self, index: u32) -> u64 {
        let active = &self.actives[index as usize];
        let flow = &self.flows[active.flow as usize];
        let timeout = self.times.rto(flow, &self.peers[flow.peer as usize]);
        // The first repetition is a probe and comes at the plain time-out; only then it backs off.
        match active.send.timeouts() {
            0 | 1 => timeout,
            timeouts => self.back_off(index, timeout, timeouts),
        }
    }

    /// `timeout` after so many time-outs in a row, ns.
    #[cold]
    fn back_off(&self, index: u32, timeout: u64, timeouts: u16) -> u64 {
        // Where a round trip takes longer than the largest time-out, that is too small for a back-off.
        let most = self.times.max_rto.max(2 * timeout);
        let backed_off = (timeout << u32::from(timeouts - 1).min(20)).min(most);
        // Subtract a random part of up to a quarter: senders whose packets collided in a full queue must not collide
        // there again.
        let chance = mix(self.epoch ^ u64::from(index) << 32 ^ u64::from(timeouts)) >> 56;
        let next = backed_off - (backed_off >> 10) * chance;
        let (silence, limit) = self.silence(index);
        if silence < limit / 4 * 3 {
            return next;
        }
        next.min((limit / 4 / LAST_PROBES).max(timeout))
    }

    /// Buries the peer if it has been asked often enough and been silent long enough.
    fn give_up(&mut self, index: u32) -> bool {
        let active = &self.actives[index as usize];
        let peer = self.flows[active.flow as usize].peer;
        let p = &self.peers[peer as usize];
        let (silence, limit) = self.silence(index);
        if active.send.timeouts() <= self.config.retry_limit || silence < limit {
            return false;
        }
        let resends = active.send.timeouts().into();
        let error = if p.phase == Phase::Goodbye {
            // It may have gone as soon as it had our goodbye; all data was acknowledged before.
            PeerError::Closed
        } else {
            PeerError::TimedOut {
                resends,
                silence: core::time::Duration::from_nanos(silence),
            }
        };
        self.end_session(peer, error);
        true
    }

    /// Large datagrams do not arrive any more: back to the safe size. When that gets through, the search begins anew.
    fn leave_black_hole(&mut self, index: u32) {
        let peer = self.flows[self.actives[index as usize].flow as usize].peer;
        let mtu = self.initial_mtu(self.peers[peer as usize].address.is_ipv6());
        let p = &mut self.peers[peer as usize];
        // Others are asked by small packets whether that is so. (They alone have several rails.)
        if p.mtu > mtu && !p.settles() {
            event!(
                INFO, processor = self.processor, peer, address = %p.address, before = p.mtu, bytes = mtu,
                "nothing is acknowledged: path MTU taken back"
            );
            p.mtu = mtu;
            p.set_mtu_found(false);
        }
    }

    /// The path works again after a suspected black hole: search for its MTU anew.
    #[cold]
    pub(super) fn search_mtu_again(&mut self, index: u32) {
        let flow = &self.flows[self.actives[index as usize].flow as usize];
        if let Some(flow) = self.find_flow(flow.peer, FlowKey::new(flow.rail(), 0)) {
            let active = self.activate(flow);
            self.search_mtu(active);
        }
    }

    /// Begins to search for the path MTU if that is wanted and not done.
    pub(super) fn search_mtu(&mut self, index: u32) {
        let flow = &self.flows[self.actives[index as usize].flow as usize];
        let p = &self.peers[flow.peer as usize];
        if self.is_mtu_found(flow) || !p.is_confirmed() || flow.channel() != 0 || !self.config.path_mtu_discovery {
            return;
        }
        if self.actives[index as usize].probe.running() {
            return;
        }
        let local = self
            .config
            .max_datagram
            .min(u16::try_from(self.limits.max_datagram).unwrap_or(u16::MAX));
        let (rail, low) = ((flow.peer, flow.rail()), self.mtu_of(flow));
        let of_port = self.ports.max_datagram(self.own_path(rail.0, rail.1).port);
        let target = local.min(p.max_datagram).min(of_port);
        if low > target {
            self.set_mtu(rail, target, false);
        }
        let step = self.actives[index as usize].probe.start(low.min(target), target);
        self.on_mtu_step(index, step);
    }

    pub(super) fn on_mtu_step(&mut self, index: u32, step: Step) {
        match step {
            Step::Probe => self.mark_ready(index),
            Step::Done => {
                let flow = &self.flows[self.actives[index as usize].flow as usize];
                let (rail, bytes) = ((flow.peer, flow.rail()), self.mtu_of(flow));
                self.set_mtu(rail, bytes, true);
                #[cfg(feature = "tracing")]
                let address = self.own_path(rail.0, rail.1).address;
                event!(
                    INFO, processor = self.processor, peer = rail.0, %address, rail = rail.1, bytes, "path MTU found"
                );
                self.actives[index as usize].deadlines.stop(Timer::Mtu);
            }
        }
    }
}
