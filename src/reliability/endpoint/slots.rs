//! Flows and their active parts: finding, creating and freeing them; the list of ready flows and the timer heap.

use super::{Endpoint, IDLE};
use crate::reliability::{
    flow::{Active, Flow, FlowKey, NONE, Receiver, Search, Sender, congestion::AnyController, first_sequence},
    peer::Phase,
    timers::{Deadlines, Timer},
};

impl Endpoint {
    pub(super) fn flows_of(&self, peer: u32) -> impl Iterator<Item = u32> + '_ {
        let mut flow = self.peers.get(peer as usize).map_or(NONE, |p| p.first_flow);
        core::iter::from_fn(move || {
            let this = flow;
            flow = self.flows.get(this as usize)?.next;
            Some(this)
        })
    }

    #[inline]
    pub(super) fn find_flow(&self, peer: u32, key: FlowKey) -> Option<u32> {
        self.find_from(self.peers.get(peer as usize)?.first_flow, key)
    }

    /// The flow with that key among that one and those after it.
    #[inline(always)]
    pub(super) fn find_from(&self, first: u32, key: FlowKey) -> Option<u32> {
        let mut index = first;
        while let Some(flow) = self.flows.get(index as usize) {
            if flow.key() == key {
                return Some(index);
            }
            index = flow.next;
        }
        None
    }

    /// The flow with that key, made if need be. The first channel of the first rail stays the first.
    #[inline]
    pub(super) fn flow_for(&mut self, peer: u32, key: FlowKey) -> u32 {
        match self.find_flow(peer, key) {
            Some(flow) => flow,
            None => self.new_flow(peer, key),
        }
    }

    #[cold]
    pub(super) fn new_flow(&mut self, peer: u32, key: FlowKey) -> u32 {
        let p = &self.peers[peer as usize];
        let send_next = first_sequence(self.epoch, p.local_secret, key);
        let expected = first_sequence(p.remote_epoch, p.remote_token().secret, key);
        let mut flow = Flow::new(peer, key, send_next, expected);
        let head = &mut self.peers[peer as usize].first_flow;
        let index = self.free_flows.pop().unwrap_or(self.flows.len() as u32);
        if key == FlowKey::FIRST || *head == NONE {
            flow.next = *head;
            *head = index;
        } else {
            let first = &mut self.flows[*head as usize];
            flow.next = first.next;
            first.next = index;
        }
        if (index as usize) < self.flows.len() {
            self.flows[index as usize] = flow;
        } else {
            if self.flows.len() == self.flows.capacity() {
                self.flows.reserve_exact(self.flows.len() / 8 + 8);
            }
            self.flows.push(flow);
        }
        index
    }

    pub(super) fn free_flow(&mut self, flow: u32) {
        self.free_flows.push(flow);
    }

    /// The active part of a flow, made if need be.
    #[inline]
    pub(super) fn activate(&mut self, flow: u32) -> u32 {
        let active = self.flows[flow as usize].active;
        let active = if active == NONE { self.new_active(flow) } else { active };
        self.actives[active as usize].last_use = self.now;
        active
    }

    #[cold]
    fn new_active(&mut self, flow: u32) -> u32 {
        let state = &self.flows[flow as usize];
        let peer = &self.peers[state.peer as usize];
        let congestion = AnyController::new(&self.config, self.mtu_of(state).into());
        let receive = Receiver::new(state);
        let mut deadlines = Deadlines::new();
        deadlines.set(Timer::Idle, self.now + IDLE);
        if peer.is_watched() && state.key() == FlowKey::FIRST {
            deadlines.set(Timer::Keepalive, self.now + self.times.keepalive);
        }
        let index = if let Some(index) = self.free_actives.pop() {
            let active = &mut self.actives[index as usize];
            active.send.restart(state.send_next(), congestion);
            (active.flow, active.receive, active.deadlines) = (flow, receive, deadlines);
            (active.ready, active.busy, active.probe) = (false, false, Search::default());
            (active.bulk, active.turn) = (false, 0);
            index
        } else {
            self.actives.push(Active {
                flow,
                send: Sender::new(state.send_next(), congestion),
                receive,
                deadlines,
                last_use: self.now,
                ready: false,
                bulk: false,
                turn: 0,
                busy: false,
                probe: Search::default(),
            });
            self.actives.len() as u32 - 1
        };
        let state = &mut self.flows[flow as usize];
        state.active = index;
        let peer = &mut self.peers[state.peer as usize];
        self.active_peers += u32::from(peer.actives == 0);
        peer.actives += 1;
        self.reschedule(index);
        index
    }

    /// Gives the active part of a flow back. Everything in it must have been released.
    pub(super) fn deactivate(&mut self, flow: u32) {
        let state = &mut self.flows[flow as usize];
        let index = core::mem::replace(&mut state.active, NONE);
        let peer = &mut self.peers[state.peer as usize];
        peer.actives -= 1;
        self.active_peers -= u32::from(peer.actives == 0);
        let active = &mut self.actives[index as usize];
        active.send.rest(&mut self.sources);
        active.flow = NONE;
        active.ready = false;
        active.deadlines = Deadlines::new();
        self.free_actives.push(index);
    }

    /// Gives it back if nothing is going on; otherwise the idle timer starts again.
    pub(super) fn rest(&mut self, index: u32) {
        let active = &mut self.actives[index as usize];
        let flow = &self.flows[active.flow as usize];
        let quiet = self.now.saturating_sub(active.last_use) >= IDLE;
        let peer = &self.peers[flow.peer as usize];
        let owes = active.receive.owes_ack() || active.receive.has_unacknowledged();
        let gap = active.receive.has_gap(flow) || active.receive.is_settling(flow);
        let watched = peer.is_watched() && active.deadlines.is_set(Timer::Keepalive);
        // (The search for the path MTU may end so; the proof of a rail goes on.)
        let asks = active.deadlines.is_set(Timer::Persist) || peer.has_rails() && active.deadlines.is_set(Timer::Mtu);
        if quiet && !active.send.is_busy(flow) && !owes && !watched && !asks {
            // Packets beyond a gap must be kept until the gap is filled, however long that takes, and so must an answer
            // that may have to be given again; that needs no timer.
            if !gap {
                let flow = active.flow;
                self.deactivate(flow);
            }
        } else {
            // Quiet, but still needed: to be looked at again after a while, not at once.
            let since = if quiet { self.now } else { active.last_use };
            active.deadlines.set(Timer::Idle, since + IDLE);
            self.reschedule(index);
        }
    }

    /// This flow may have something to transmit.
    #[inline]
    pub(super) fn mark_ready(&mut self, index: u32) {
        let active = &mut self.actives[index as usize];
        if !active.ready {
            active.ready = true;
            self.ready.push_back(index);
        }
    }

    /// Makes sure that the heap has an entry for the earliest deadline.
    #[inline]
    pub(super) fn reschedule(&mut self, index: u32) {
        let deadlines = &mut self.actives[index as usize].deadlines;
        let earliest = deadlines.earliest();
        if earliest < deadlines.scheduled {
            deadlines.scheduled = earliest;
            self.heap.set(earliest, index);
        }
    }

    #[inline]
    pub(super) fn update_busy(&mut self, flow: u32) {
        let state = &self.flows[flow as usize];
        let Some(active) = self.actives.get_mut(state.active as usize) else {
            return;
        };
        let busy = active.send.is_busy(state);
        if busy != active.busy {
            active.busy = busy;
            if busy {
                self.busy += 1;
            } else {
                self.busy -= 1;
                let peer = state.peer;
                if self.peers[peer as usize].phase == Phase::Closing {
                    self.goodbye_if_drained(peer);
                }
            }
        }
    }
}
