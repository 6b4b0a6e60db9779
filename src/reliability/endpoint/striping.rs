//! Striping: which rail sends which piece of what waits.
//!
//! Messages wait in the flow of the primary rail; flows of other rails draw pieces of large ones from there. Each takes
//! only so much that it is not done later than the flow that it takes it from, by the round trips and the measured rates
//! ([`Pace`]) of both rails.

use alloc::vec::Vec;

use super::{
    Endpoint,
    pace::{LEAST, Pace},
    rail::Rail,
};
use crate::reliability::{
    burst::Burst,
    flow::{Active, Flow, FlowKey},
};

/// Time of a byte on a rail that has not been measured, ps, if no other one has either.
const UNKNOWN_COST: u64 = 1_000;

/// What a flow has to do on its rail.
struct Load {
    /// The shortest round trip, ns.
    trip: u64,
    /// Time of a byte, ps, if it is known.
    cost: Option<u64>,
    /// In flight and waiting.
    bytes: u64,
}

impl Load {
    /// Time of a byte here and there, ps: as long here as there if only one is known.
    fn costs(&self, there: &Self) -> (u64, u64) {
        let known = self.cost.or(there.cost).unwrap_or(UNKNOWN_COST);
        (self.cost.unwrap_or(known), there.cost.unwrap_or(known))
    }

    /// Until all of it is acknowledged, ps.
    fn done(&self, cost: u64) -> u64 {
        { self.trip.saturating_mul(1_000) }.saturating_add(self.bytes.saturating_mul(cost))
    }
}

/// The shortest round trip of a flow's rail that is known, ns. (All packets of the flow may have met a queue.)
fn shortest_trip(rail: Option<&Rail>, flow: &Flow) -> u64 {
    let trips = [flow.rtt().min.into(), rail.map_or(0, |rail| rail.round_trip)];
    trips.into_iter().filter(|&trip| trip > 0).min().unwrap_or(0)
}

impl Endpoint {
    /// [`serve`](Self::serve) for a peer with several rails: the flow may draw from others, and others from it.
    #[cold]
    #[inline(never)]
    pub(super) fn serve_by_rail(&mut self, index: u32, burst: &mut Burst) -> bool {
        self.measure_pace(index);
        let path = self.path_of(self.actives[index as usize].flow);
        burst.begin(path);
        if self.ports.wait(path.port, index) {
            return false;
        }
        let more = if self.fill_lone(index, burst) {
            self.note_sent(index, burst);
            false
        } else {
            self.draw(index);
            let more = self.fill_any(index, burst);
            self.spread(index, burst);
            more
        };
        self.reschedule(index);
        more && !burst.is_empty()
    }

    /// A flow with nothing of its own to send takes the next piece of a large message that waits on another rail, if its
    /// windows have room for it.
    fn draw(&mut self, index: u32) {
        let flow = &self.flows[self.actives[index as usize].flow as usize];
        let (peer, key) = (flow.peer, flow.key());
        let p = &self.peers[peer as usize];
        let send = &self.actives[index as usize].send;
        let room = send.room_to_draw(p.window, self.config.window_packets.into(), flow) as usize;
        if room == 0 || !p.uses_rails() || !self.carries(peer, key.rail()) {
            return;
        }
        let Some(from) = self.richest(peer, key) else {
            return;
        };
        let most = room.min(self.limits.max_batch).min(self.worth(index, from));
        let limit = p.cost_limit;
        let rails = self.rails.up(peer).count();
        let (packet, largest) = (self.room_of(index), self.config.max_payload.into());
        let Some(piece) =
            self.actives[from as usize]
                .send
                .cut_off(&mut self.sources, (packet, largest), (most, rails), limit)
        else {
            return;
        };
        let sources: Vec<u32> = piece.sources().collect();
        let (to, from) = (self.actives[index as usize].flow, self.actives[from as usize].flow);
        self.actives[index as usize].send.put_before(piece);
        self.update_busy(to);
        for source in sources {
            self.stripe(source);
        }
        self.update_busy(from);
    }

    /// The flow of the same channel on another rail that has most to give.
    fn richest(&self, peer: u32, key: FlowKey) -> Option<u32> {
        let others = self.flows_of(peer).filter(|&flow| {
            let flow = &self.flows[flow as usize];
            flow.channel() == key.channel() && flow.rail() != key.rail()
        });
        others
            .max_by_key(|&flow| self.to_give(flow))
            .filter(|&flow| self.to_give(flow) > 0)
            .map(|flow| self.flows[flow as usize].active)
    }

    /// What waits in a flow and may go by another rail.
    fn to_give(&self, flow: u32) -> u32 {
        let active = self.actives.get(self.flows[flow as usize].active as usize);
        active.map_or(0, |active| active.send.queued_to_give())
    }

    /// Bytes of what flow `from` has under way and waiting that arrive sooner if flow `index` takes them: both would then
    /// be done at the same time.
    fn worth(&self, index: u32, from: u32) -> usize {
        let (here, there) = (self.load(index), self.load(from));
        let (cost, cost_there) = here.costs(&there);
        let sooner = there.done(cost_there).saturating_sub(here.done(cost));
        usize::try_from(sooner / (cost + cost_there)).unwrap_or(usize::MAX)
    }

    /// When the time-out of a flow is over that has much in flight on a rail: the round trips that it knows may be those of
    /// small messages, or of another number of neighbours. `None`: it is over.
    pub(super) fn awaits_bulk(&self, index: u32) -> Option<u64> {
        let Active { flow, send, .. } = &self.actives[index as usize];
        if send.timeouts() > 0 || !self.may_draw(*flow) {
            return None;
        }
        let load = self.load(index);
        let takes = load.cost?.saturating_mul(send.in_flight().0.into()) / 1_000;
        let at = send.first_sent_at() + self.rto(index) + takes.min(self.times.initial_rto);
        (at > self.now).then_some(at)
    }

    /// What a flow has to do on its rail.
    fn load(&self, index: u32) -> Load {
        let Active { flow, send, .. } = &self.actives[index as usize];
        let flow = &self.flows[*flow as usize];
        let rail = self.rails.get(flow.peer, flow.rail());
        let pace = rail.map_or_else(Pace::default, |rail| rail.pace);
        Load {
            trip: pace.faded(self.now, shortest_trip(rail, flow)),
            cost: pace.cost(self.now),
            bytes: u64::from(send.in_flight().0) + u64::from(send.queued_bytes()),
        }
    }

    /// Something may have been acknowledged on the rail of a flow.
    fn measure_pace(&mut self, index: u32) {
        let flow = &self.flows[self.actives[index as usize].flow as usize];
        let (peer, number) = (flow.peer, flow.rail());
        if !self
            .rails
            .get(peer, number)
            .is_some_and(|rail| rail.pace.is_measuring())
        {
            return;
        }
        let (mut in_flight, mut is_quiet) = (0, true);
        for flow in self.flows_of(peer).map(|flow| &self.flows[flow as usize]) {
            let active = self.actives.get(flow.active as usize);
            if let Some(active) = active.filter(|_| flow.rail() == number) {
                in_flight += u64::from(active.send.in_flight().0);
                is_quiet &= active.send.is_quiet(flow);
            }
        }
        let Some(rail) = self.rails.get_mut(peer, number) else {
            return;
        };
        let delivered = rail.bytes_sent.saturating_sub(in_flight);
        if rail.pace.note(self.now, delivered, is_quiet) {
            self.choose_primary(peer, false);
        }
    }

    /// Whether a flow with rails that has been acknowledged has work to do for that, as large messages are under way: the
    /// rail is measured, or there may be room for a piece of what waits on another.
    pub(super) fn has_bulk(&self, flow: u32) -> bool {
        let (peer, rail) = (self.flows[flow as usize].peer, self.flows[flow as usize].rail());
        let is_measuring = |rail: &Rail| rail.pace.is_measuring();
        // (Where no flow is busy, none has something to give.)
        self.rails.get(peer, rail).is_some_and(is_measuring)
            || self.busy > 0 && { self.flows_of(peer) }.any(|flow| self.to_give(flow) > 0)
    }

    /// A flow has sent a burst on its rail.
    #[inline(never)]
    pub(super) fn note_sent(&mut self, index: u32, burst: &Burst) {
        let Active { flow, send, .. } = &self.actives[index as usize];
        let flow = &self.flows[*flow as usize];
        let Some(rail) = self.rails.get_mut(flow.peer, flow.rail()) else {
            return;
        };
        let (peer, number, (bytes, packets)) = (flow.peer, flow.rail(), send.in_flight());
        rail.bytes_sent += burst.len() as u64;
        if u64::from(bytes) >= LEAST {
            let trip = shortest_trip(Some(rail), flow);
            rail.pace.begin(self.now, trip, rail.bytes_sent - burst.len() as u64);
        } else if packets == 1
            && let Some(trip) = rail.watch.note(flow.rtt().smoothed)
        {
            self.weigh(peer, number, trip);
        }
    }

    /// A flow has sent something: flows of other rails may have room for what waits behind that.
    fn spread(&mut self, index: u32, burst: &Burst) {
        if burst.is_empty() {
            return;
        }
        let flow = &self.flows[self.actives[index as usize].flow as usize];
        let (peer, channel) = (flow.peer, flow.channel());
        self.note_sent(index, burst);
        let gives = |flow: u32| self.flows[flow as usize].channel() == channel && self.to_give(flow) > 0;
        if !self.peers[peer as usize].uses_rails() || !{ self.flows_of(peer) }.any(gives) {
            return;
        }
        for rail in 0..self.rails.all(peer).len() as u8 {
            if !self.is_up_rail(peer, rail) {
                self.prove_for_bulk(peer, rail);
            }
            if !self.carries(peer, rail) {
                continue;
            }
            let flow = self.flow_for(peer, FlowKey::new(rail, channel));
            let index = self.activate(flow);
            let window = self.peers[peer as usize].window;
            let send = &self.actives[index as usize].send;
            let packets = self.config.window_packets.into();
            if send.room_to_draw(window, packets, &self.flows[flow as usize]) > 0 {
                self.mark_ready(index);
            }
        }
    }
}
