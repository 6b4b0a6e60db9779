//! Output: bursts of one flow's packets, separate acknowledgements, and control packets.

use super::Endpoint;
use crate::{
    config::Recovery,
    reliability::{
        Burst, Path,
        flow::{Active, Filled, Lane, NONE, window_of},
        packet_builder::{Body, Written, finish, finish_extensions, open_of},
        peer::{Phase, token_of},
        timers::Timer,
    },
    time::Instant,
    wire::{Base, Builder, Credit, Flags, Kind, Seq},
};

/// A flow with at least this many bytes queued is a bulk flow.
const BULK: u32 = 64 << 10;
/// Bytes that a bulk flow may send in its turn before the next bulk flow, if nothing holds it up.
const TURN: u32 = 1 << 20;
/// Bursts of those that have little to send before one of those that have much, if there is no end of them.
const BEFORE: u32 = 16;

impl Endpoint {
    /// Fills `burst` with the next datagrams to transmit. `false`: there are none until the next command or `handle_*`.
    /// Flows take turns, a burst each. Bulk flows come last and have longer turns: of several large messages that share
    /// a wire the first then completes early, and the last no later than if all shared the wire evenly.
    /// Acknowledgements ride on data where there is any, and do not wait for a turn.
    #[inline]
    pub fn poll_transmit(&mut self, now: Instant, burst: &mut Burst) -> bool {
        if self.ready.is_empty() && self.bulk.is_empty() && self.control.is_empty() {
            return false;
        }
        self.transmit_next(now, burst)
    }

    fn transmit_next(&mut self, now: Instant, burst: &mut Burst) -> bool {
        self.advance(now);
        if let Some(control) = self.control.pop_front() {
            self.write_control(control, burst);
            return true;
        }
        (self.passed >= BEFORE && self.transmit_bulk(burst)) || self.transmit_ready(burst) || self.transmit_bulk(burst)
    }

    /// A burst of a flow that has little to send, or has something to send again.
    #[inline]
    fn transmit_ready(&mut self, burst: &mut Burst) -> bool {
        while let Some(index) = self.ready.pop_front() {
            let active = &mut self.actives[index as usize];
            active.ready = false;
            if active.flow == NONE {
                continue;
            }
            if active.send.queued_bytes() >= BULK && !active.send.has_lost() {
                if self.await_turn(index, burst) {
                    return true;
                }
                continue;
            }
            let more = self.serve(index, burst);
            if more {
                self.mark_ready(index);
            }
            if !burst.is_empty() {
                self.passed += u32::from(!self.bulk.is_empty());
                self.hold(burst);
                return true;
            }
        }
        false
    }

    /// Writes a burst of the bulk flow whose turn it is.
    fn transmit_bulk(&mut self, burst: &mut Burst) -> bool {
        self.passed = 0;
        while let Some(index) = self.bulk.pop_front() {
            let active = &mut self.actives[index as usize];
            active.bulk = false;
            if active.flow == NONE {
                continue;
            }
            let more = self.serve(index, burst);
            let active = &mut self.actives[index as usize];
            active.turn = active.turn.saturating_sub(burst.len() as u32);
            if more && active.turn > 0 {
                active.bulk = true;
                self.bulk.push_front(index);
            } else if more {
                self.mark_ready(index);
            } else if !active.send.has_queued() {
                active.turn = 0;
            }
            if !burst.is_empty() {
                self.hold(burst);
                return true;
            }
        }
        false
    }

    /// Writes the packets that a flow may send now. Returns whether there may be more.
    fn serve(&mut self, index: u32, burst: &mut Burst) -> bool {
        let flow = &self.flows[self.actives[index as usize].flow as usize];
        let p = &self.peers[flow.peer as usize];
        if p.has_rails() {
            return self.serve_by_rail(index, burst);
        }
        burst.begin(Path::from(p.address));
        let more = self.fill(index, burst);
        self.reschedule(index);
        more && !burst.is_empty()
    }

    /// Queues a bulk flow for its turn, at the front if it has not used up its last one. Returns whether it sends
    /// something now all the same: an acknowledgement that must not wait for other flows.
    fn await_turn(&mut self, index: u32, burst: &mut Burst) -> bool {
        let active = &mut self.actives[index as usize];
        if !active.bulk {
            active.bulk = true;
            if (1..TURN).contains(&active.turn) {
                self.bulk.push_front(index);
            } else {
                active.turn = TURN;
                self.bulk.push_back(index);
            }
        }
        let waits = self.bulk.front() != Some(&index);
        let active = &self.actives[index as usize];
        let owes = active.receive.owes_ack() || active.receive.owes_more();
        if !waits || !owes {
            return false;
        }
        burst.begin(self.path_of(active.flow));
        if self.actives[index as usize].receive.owes_settled() {
            self.write_settled(index, burst);
        } else {
            self.write_ack(index, burst);
        }
        self.reschedule(index);
        true
    }

    /// Fills `burst` from one flow; tells whether there may be more.
    #[inline]
    fn fill(&mut self, index: u32, burst: &mut Burst) -> bool {
        !self.fill_lone(index, burst) && self.fill_any(index, burst)
    }

    /// The same where there is more to it than one small message.
    #[inline(never)]
    pub(super) fn fill_any(&mut self, index: u32, burst: &mut Burst) -> bool {
        let active = &mut self.actives[index as usize];
        let flow = active.flow;
        let receive = &active.receive;
        let state = &self.flows[flow as usize];
        let gap = receive.has_gap(state) && self.config.recovery == Recovery::SelectiveRepeat;
        if receive.owes_settled() || active.send.owes_beside() {
            self.fill_beside(index, burst);
            return true;
        }
        if receive.owes_more() || (receive.owes_ack() && gap) {
            self.write_ack(index, burst);
            return true;
        }
        if active.probe.is_due() && self.peers[state.peer as usize].is_bound() {
            self.write_probe(index, burst);
            return true;
        }
        let more = !active.send.is_settling() && self.fill_data(index, burst);
        if burst.is_empty() {
            let active = &self.actives[index as usize];
            if active.receive.owes_ack() || active.send.asks_alone() {
                self.write_ack(index, burst);
            }
            return false;
        }
        more
    }

    /// A packet without content that goes before everything else.
    #[cold]
    fn fill_beside(&mut self, index: u32, burst: &mut Burst) {
        let Active { send, receive, .. } = &mut self.actives[index as usize];
        if let Some(number) = send.take_settle() {
            self.write_settle(index, number, burst);
        } else if receive.owes_settled() {
            self.write_settled(index, burst);
        } else {
            send.ask_now();
            self.write_ack(index, burst);
        }
    }

    /// Resends and new data.
    fn fill_data(&mut self, index: u32, burst: &mut Burst) -> bool {
        let mut lane = self.lane(index);
        let first = lane.is_quiet();
        let Filled { more, too_large } = lane.fill(burst);
        if !more && lane.has_queued() {
            self.note_blocked(index);
        }
        if !burst.is_empty() {
            self.launched(index, first);
        }
        if let Some(again) = too_large {
            self.cut_anew(index, again);
        }
        more
    }

    /// A flow, to write its packets.
    #[inline(always)]
    fn lane(&mut self, index: u32) -> Lane<'_> {
        let active = &mut self.actives[index as usize];
        let flow = &mut self.flows[active.flow as usize];
        let peer = &mut self.peers[flow.peer as usize];
        let mtu = match flow.rail() {
            0 => peer.mtu,
            rail => self.rails.mtu(flow.peer, rail),
        };
        let overhead = peer.format.overhead();
        Lane {
            config: &self.config,
            limits: &self.limits,
            now: self.now,
            stamp: active.receive.timestamp(self.now, &self.config),
            checksum: peer.format.has_checksum(),
            open: (!peer.is_confirmed()).then(|| {
                open_of(
                    &self.config,
                    &self.limits,
                    self.epoch,
                    token_of(flow.peer, peer.local_secret),
                    window_of(&self.limits, &self.config, 1),
                    self.format.is_sealed(),
                )
            }),
            sealing: self.sealing.as_deref_mut(),
            overhead,
            room: usize::from(mtu) - overhead,
            window: active.send.window().min(peer.window),
            send: &mut active.send,
            flow,
            peer,
            sources: &mut self.sources,
            stats: &mut self.stats,
            passed: 0,
            settled: false,
        }
    }

    /// A burst with packets of a flow is written. `first`: nothing was in flight before.
    #[inline(always)]
    pub(super) fn launched(&mut self, index: u32, first: bool) {
        if first {
            // Only now: a poll that sends nothing must not make the peer look as if it had just been called.
            let now = self.active_now();
            self.actives[index as usize].send.wait_since(now);
        }
        self.acknowledged(index);
        if !self.actives[index as usize].deadlines.is_set(Timer::Rto) {
            let timeout = self.rto(index);
            self.actives[index as usize]
                .deadlines
                .set(Timer::Rto, self.now + timeout);
        }
    }

    /// There is something queued that must not go now: see that it is woken up.
    fn note_blocked(&mut self, index: u32) {
        let active = &mut self.actives[index as usize];
        let flow = &self.flows[active.flow as usize];
        if !active.send.is_quiet(flow) {
            return;
        }
        // Nothing in flight and nothing may go: it is the peer's credit. Ask for it after a while.
        if !active.deadlines.is_set(Timer::Persist) {
            self.stats.blocked_on_credit += 1;
            active.send.wait_since(self.now - self.stalled.min(self.now));
            let timeout = self.rto(index);
            self.actives[index as usize]
                .deadlines
                .set(Timer::Persist, self.now + timeout);
        }
    }

    /// Notes that the acknowledgement is written: every packet carries it.
    fn acknowledged(&mut self, index: u32) {
        let active = &mut self.actives[index as usize];
        active.last_use = self.now;
        let repeats = active.receive.note_acknowledged();
        active.deadlines.stop(Timer::Ack);
        if repeats {
            active.deadlines.set(Timer::Ack, self.now + self.times.repetition());
        }
    }

    /// The window that a peer gets on each of its flows: its flows divide its share.
    pub(super) fn window_for(&mut self, peer: u32) -> u32 {
        let placed = self.flows_of(peer).map(|flow| self.placed_on(flow));
        let (last, flows) = placed.fold((0, 0), |(last, flows), placed| match placed {
            0 => (last, flows),
            _ if placed > last => (placed, 1),
            _ => (last, flows + u32::from(placed == last)),
        });
        let (peers, flows) = match self.placers.count(last, self.now) {
            Some(peers) => (peers, flows),
            None => (self.active_peers, self.peers[peer as usize].actives.into()),
        };
        window_of(&self.limits, &self.config, peers.saturating_mul(flows))
    }

    /// The last period in which a flow received placements; 0: none.
    fn placed_on(&self, flow: u32) -> u64 {
        let active = self.actives.get(self.flows[flow as usize].active as usize);
        active.map_or(0, |active| active.receive.placed())
    }

    /// A flow has received its first placement in this period.
    #[cold]
    pub(super) fn note_placing(&mut self, peer: u32, index: u32) {
        let mut last = self.flows_of(peer).map(|flow| self.placed_on(flow)).max().unwrap_or(0);
        self.placers.note(&mut last, self.now);
        self.actives[index as usize].receive.note_placed(last);
    }

    /// An acknowledgement alone: with a bitmap if there are gaps, and with credit.
    fn write_ack(&mut self, index: u32, burst: &mut Burst) {
        let window = self.window_for(self.flows[self.actives[index as usize].flow as usize].peer);
        let active = &mut self.actives[index as usize];
        let flow = &self.flows[active.flow as usize];
        let peer = &mut self.peers[flow.peer as usize];
        if peer.has_rails()
            && let Some(&path) = self.rails.reply(flow.peer, flow.rail())
        {
            burst.redirect(path);
        }
        let base = Base {
            kind: Kind::Ack,
            channel: flow.channel(),
            source: self.processor,
            destination: peer.processor,
            session: peer.remote_token(),
            sequence: flow.send_next(),
            acknowledgement: flow.expected(),
            rail: flow.rail(),
            message: Seq(0),
        };
        let mut flags = Flags::empty();
        flags.set(Flags::NACK, active.receive.asks());
        flags.set(Flags::ACK_REQUEST, active.send.asks_alone());
        peer.window_advertised = window;
        let limit = peer.tell_limit(self.config.unexpected_bytes);
        let stamp = active.receive.timestamp(self.now, &self.config);
        let token = token_of(flow.peer, peer.local_secret);
        let open = (!peer.is_confirmed()).then(|| {
            open_of(
                &self.config,
                &self.limits,
                self.epoch,
                token,
                window,
                self.sealing.is_some(),
            )
        });
        let mut header = Builder::new(burst.header(), &base);
        header.set(flags);
        finish_extensions(
            &mut header,
            stamp,
            Some(Credit { limit, window }),
            peer.format.has_checksum(),
            open.as_ref(),
        );
        if self.config.recovery == Recovery::SelectiveRepeat && active.receive.has_gap(flow) {
            let (words, count) = active.receive.bitmap(flow);
            header.sack(&words[..count]);
        }
        let written = Written::of(header, 0);
        finish(burst, written, Body::Empty, self.sealing.as_deref_mut());
        self.stats.packets_sent += 1;
        self.stats.acks_alone += 1;
        if flags.contains(Flags::NACK) {
            self.stats.nacks_sent += 1;
        }
        active.receive.note_told();
        active.send.note_asked();
        self.acknowledged(index);
    }

    fn write_probe(&mut self, index: u32, burst: &mut Burst) {
        let active = &mut self.actives[index as usize];
        let Some((number, size)) = active.probe.take_due() else {
            return;
        };
        let flow = &self.flows[active.flow as usize];
        let peer = &self.peers[flow.peer as usize];
        let header = Base {
            rail: flow.rail(),
            ..self.control_base(Kind::Probe, peer.remote_token(), peer.processor, number)
        };
        let checksum = peer.checksums();
        let patience = self.times.initial_rto.max(2 * self.rto(index));
        self.actives[index as usize]
            .deadlines
            .set(Timer::Mtu, self.now + patience);
        self.write_plain(&header, checksum, None, usize::from(size), burst);
    }

    /// Acknowledges the packets of the peer's other flows, which must reach it before the goodbye: when that has come, what
    /// is not acknowledged counts as lost. On a rail of its own an acknowledgement may be slower, or come to a port that is
    /// looked at later; so those of all rails go by the goodbye's path, also if they have been sent before.
    fn acknowledge_beside(&mut self, peer: u32, goes: u32) {
        let has_rails = self.peers[peer as usize].has_rails() && self.rails.are_several(peer);
        if has_rails {
            self.rails
                .reply_by(peer, self.path_of(self.actives[goes as usize].flow));
        }
        let mut flow = self.peers[peer as usize].first_flow;
        while let Some(state) = self.flows.get(flow as usize) {
            let (index, next) = (state.active, state.next);
            let owes = |active: &Active| has_rails || active.receive.has_unacknowledged();
            if index != goes && self.actives.get(index as usize).is_some_and(owes) {
                self.acknowledge_now(index);
            }
            flow = next;
        }
    }

    /// Says goodbye as soon as nothing else is under way to the peer.
    pub(super) fn goodbye_if_drained(&mut self, peer: u32) {
        if !self.is_idle(super::PeerId(peer)) {
            return;
        }
        self.peers[peer as usize].phase = Phase::Goodbye;
        let to = self.peers[peer as usize].processor;
        let flow = self.flow_for(peer, self.home_of(peer, 0));
        let active = self.activate(flow);
        self.actives[active as usize].send.push_goodbye(to);
        self.update_busy(flow);
        self.acknowledge_beside(peer, active);
        // Behind those.
        self.ready.retain(|&index| index != active);
        self.actives[active as usize].ready = false;
        self.mark_ready(active);
    }
}
