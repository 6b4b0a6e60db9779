//! The inline send: the short way of a single small message. On a quiet flow the command writes it at once, past the
//! queue: this is the latency path of request and response. A message that was queued but is the only one is written
//! without the general choice between several.

use super::{Endpoint, later};
use crate::{
    reliability::{
        Burst, Outgoing, Path, PeerId,
        credit::MESSAGE_COST,
        flow::{FlowKey, Following, fits_record},
        timers::Timer,
    },
    time::Instant,
};

impl Endpoint {
    /// Takes a message and fills `burst` with its packet, if the message fits one packet without checksum and nothing
    /// else of its flow is queued, unacknowledged or owed. Transmit the burst like one of
    /// [`poll_transmit`](Self::poll_transmit). `false`: nothing was done. [`send`](Self::send) then takes the message,
    /// or says why not.
    ///
    /// The call does the work of `send` and `poll_transmit` together, except for packets of other flows, which wait for
    /// the next `poll_transmit`.
    #[inline]
    pub fn send_inline(
        &mut self,
        now: Instant,
        peer: PeerId,
        channel: u8,
        message: &Outgoing,
        data: &[u8],
        burst: &mut Burst,
    ) -> bool {
        let Some(flow_index) = self.find_flow(peer.0, FlowKey::of_channel(channel)) else {
            return false;
        };
        let flow = &mut self.flows[flow_index as usize];
        let index = flow.active;
        let Some(active) = self.actives.get_mut(index as usize) else {
            return false;
        };
        let p = &mut self.peers[peer.index()];
        let cost = data.len() as u64 + u64::from(MESSAGE_COST);
        if active.probe.is_due()
            || p.has_rails && !self.rails.begin_with_first(peer.0)
            || !active.send.sends_at_once(&active.receive, flow, p)
            || p.cost_queued + cost > p.cost_limit
            || message.immediate.is_some()
            || !fits_record(&self.config, p, message, data.len())
        {
            return false;
        }
        self.now = later(self.now, now);
        let now = self.now;
        p.cost_queued += cost;
        if !active.busy {
            active.busy = true;
            self.busy += 1;
        }
        burst.begin(Path::from(p.address));
        let at = now + self.times.rto(flow, p);
        let following = Following {
            config: &self.config,
            now,
            peer: p,
            flow,
            receive: &active.receive,
        };
        active
            .send
            .write_at_once(following, &mut self.sources, message, data, burst);
        active.send.wait_since(now - self.stalled.min(now));
        self.stats.packets_sent += 1;
        self.stats.payload_sent += data.len() as u64;
        active.last_use = now;
        let repeats = active.receive.note_acknowledged();
        active.deadlines.stop(Timer::Ack);
        if repeats {
            let at = now + self.times.repetition();
            active.deadlines.arm(&mut self.heap, index, Timer::Ack, at);
        }
        active.deadlines.arm(&mut self.heap, index, Timer::Rto, at);
        self.hold(burst);
        true
    }

    /// Writes the packet of the only queued message of a flow, if nothing is in the way of this early exit. `false`:
    /// nothing was done.
    #[inline]
    pub(super) fn fill_lone(&mut self, index: u32, burst: &mut Burst) -> bool {
        let active = &mut self.actives[index as usize];
        let flow = &mut self.flows[active.flow as usize];
        if active.probe.is_due() || flow.rail != 0 {
            return false;
        }
        let first = active.send.is_quiet(flow);
        let following = Following {
            config: &self.config,
            now: self.now,
            peer: &self.peers[flow.peer as usize],
            flow,
            receive: &active.receive,
        };
        let Some(len) = active.send.write_only_queued(following, &self.sources, burst) else {
            return false;
        };
        self.stats.packets_sent += 1;
        self.stats.payload_sent += len as u64;
        self.launched(index, first);
        true
    }
}
