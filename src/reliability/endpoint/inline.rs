//! The inline send: the short way of a single small message. On a quiet flow the command writes it at once, past the
//! queue: this is the latency path of request and response. A message that was queued but is the only one is written
//! without the general choice between several.

use super::{Endpoint, later};
use crate::{
    reliability::{
        Burst, Outgoing, PeerId,
        credit::MESSAGE_COST,
        flow::{Following, Lone, fits_record},
        timers::Timer,
    },
    time::Instant,
};

/// A packet that is written and not yet counted as sent: see [`Endpoint::begin_inline`].
#[derive(Debug)]
#[must_use]
pub struct Inline {
    index: u32,
    lone: Lone,
}

impl Endpoint {
    /// Fills `burst` with the packet of a message, if the message fits one packet without checksum and nothing else of its
    /// flow is queued, unacknowledged or owed. Transmit the burst like one of [`poll_transmit`](Self::poll_transmit), then
    /// call [`finish_inline`](Self::finish_inline), before any other method: until then the endpoint does not count the
    /// packet as sent. `None`: nothing was done. [`send`](Self::send) then takes the message, or says why not.
    ///
    /// Both calls do the work of `send` and `poll_transmit` together, except for packets of other flows, which wait for
    /// the next `poll_transmit`. They are two so that the packet is under way while the endpoint takes note of it.
    #[inline]
    pub fn begin_inline(
        &mut self,
        now: Instant,
        peer: PeerId,
        channel: u8,
        message: &Outgoing,
        data: &[u8],
        burst: &mut Burst,
    ) -> Option<Inline> {
        let flow_index = self.find_flow(peer.0, channel)?;
        let flow = &self.flows[flow_index as usize];
        let index = flow.active;
        let active = self.actives.get_mut(index as usize)?;
        let p = &self.peers[peer.index()];
        let cost = data.len() as u64 + u64::from(MESSAGE_COST);
        if active.probe.is_due()
            || !active.send.sends_at_once(&active.receive, flow, p)
            || p.cost_queued + cost > p.cost_limit
            || message.immediate.is_some()
            || !fits_record(&self.config, p, message, data.len())
        {
            return None;
        }
        self.now = later(self.now, now);
        burst.begin(p.address);
        let following = Following {
            config: &self.config,
            now: self.now,
            peer: p,
            flow,
            receive: &active.receive,
        };
        let lone = active
            .send
            .write_at_once(following, &mut self.sources, message, data, burst);
        self.hold(burst);
        Some(Inline { index, lone })
    }

    /// Counts the packet of [`begin_inline`](Self::begin_inline) as sent.
    #[inline]
    pub fn finish_inline(&mut self, inline: Inline) {
        let Inline { index, lone } = inline;
        let payload = u64::from(lone.payload);
        let now = self.now;
        let active = &mut self.actives[index as usize];
        let flow = &mut self.flows[active.flow as usize];
        let p = &mut self.peers[flow.peer as usize];
        p.cost_queued += payload + u64::from(MESSAGE_COST);
        if !active.busy {
            active.busy = true;
            self.busy += 1;
        }
        active.send.note_lone(flow, lone);
        active.send.wait_since(now - self.stalled.min(now));
        self.stats.packets_sent += 1;
        self.stats.payload_sent += payload;
        active.last_use = now;
        let repeats = active.receive.note_acknowledged();
        active.deadlines.stop(Timer::Ack);
        if repeats {
            let at = now + self.times.repetition();
            active.deadlines.arm(&mut self.heap, index, Timer::Ack, at);
        }
        let at = now + self.times.rto(flow, p);
        active.deadlines.arm(&mut self.heap, index, Timer::Rto, at);
    }

    /// Writes the packet of the only queued message of a flow, if nothing is in the way of this early exit. `false`:
    /// nothing was done.
    #[inline]
    pub(super) fn fill_lone(&mut self, index: u32, burst: &mut Burst) -> bool {
        let active = &mut self.actives[index as usize];
        if active.probe.is_due() {
            return false;
        }
        let flow = &mut self.flows[active.flow as usize];
        let first = active.send.is_quiet(flow);
        let following = Following {
            config: &self.config,
            now: self.now,
            peer: &self.peers[flow.peer as usize],
            flow,
            receive: &active.receive,
        };
        let Some(lone) = active.send.write_only_queued(following, &self.sources, burst) else {
            return false;
        };
        active.send.note_lone(flow, lone);
        self.stats.packets_sent += 1;
        self.stats.payload_sent += u64::from(lone.payload);
        self.launched(index, first);
        true
    }
}
