//! The inline send: the short way of a single small message. On a quiet flow the command writes it at once, past the
//! queue, and keeps it while its packet is under way: this is the latency path of request and response. A message that
//! was queued but is the only one is written without the general choice between several.

use super::{Endpoint, later, rail::RailState};
use crate::{
    reliability::{
        Burst, Outgoing, Path, PeerId,
        credit::MESSAGE_COST,
        flow::{FlowKey, Following, fits_record},
        timers::Timer,
    },
    time::Instant,
};

/// A message whose packet is written, and which is not yet kept: see [`Endpoint::begin_inline`].
#[derive(Debug)]
#[must_use]
pub struct Inline {
    index: u32,
    message: Outgoing,
}

impl Endpoint {
    /// Fills `burst` with the packet of a message, if the message fits one packet without checksum and nothing else of
    /// its flow is queued, unacknowledged or owed. `None`: nothing was done. [`send`](Self::send) then takes the
    /// message, or says why not.
    ///
    /// The caller transmits the burst and calls [`finish_inline`](Self::finish_inline), before any other method. Both
    /// calls do the work of `send` and `poll_transmit` together, except for packets of other flows, which wait for the
    /// next `poll_transmit`. They are two so that the packet is under way while the message is copied and the books are
    /// kept: until then a payload of more than 512 bytes stays where it is, and follows the burst's
    /// [own bytes](Burst::head). A backend that refers to the memory of bursts gets them after `finish_inline`.
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
        let p = self.peers.get(peer.index())?;
        let index = if p.has_rails() {
            self.write_inline_by_rail(now, peer, channel, *message, data, burst)
        } else {
            self.write_inline(now, (peer, FlowKey::new(0, channel)), None, message, data, burst)
        }?;
        let message = *message;
        Some(Inline { index, message })
    }

    /// [`write_inline`](Self::write_inline) for a peer with several rails: by the primary one.
    #[inline(never)]
    fn write_inline_by_rail(
        &mut self,
        now: Instant,
        peer: PeerId,
        channel: u8,
        message: Outgoing,
        data: &[u8],
        burst: &mut Burst,
    ) -> Option<u32> {
        let p = &self.peers[peer.index()];
        let key = p.home(channel);
        let rail = self.rails.get(peer.0, key.rail())?;
        // (A longer message than fits the first rail is queued as one that may take several packets.)
        let mtu = if key.rail() == 0 { p.mtu } else { p.mtu.min(rail.mtu) };
        let path = rail.path.unwrap_or_else(|| self.first_path(peer.0));
        let is_proven = rail.state == RailState::Up && p.is_confirmed() && p.uses_rails();
        if !is_proven || rail.pace.is_measuring() || self.ports.is_full(path.port) {
            return None;
        }
        let way = Some((path, usize::from(mtu) - p.format.overhead()));
        self.write_inline(now, (peer, key), way, &message, data, burst)
    }

    /// Writes the packet of a message, if nothing is in the way of that. Returns the state of its flow. `way`: the path of
    /// the flow, and the bytes that a packet may have there beside what is in each, if the peer has several rails.
    #[inline(always)]
    fn write_inline(
        &mut self,
        now: Instant,
        (peer, key): (PeerId, FlowKey),
        way: Option<(Path, usize)>,
        message: &Outgoing,
        data: &[u8],
        burst: &mut Burst,
    ) -> Option<u32> {
        let flow_index = self.find_flow(peer.0, key)?;
        let flow = &self.flows[flow_index as usize];
        let index = flow.active;
        let active = self.actives.get(index as usize)?;
        let p = &self.peers[peer.index()];
        let cost = data.len() as u64 + u64::from(MESSAGE_COST);
        if active.probe.is_due()
            || !active.send.sends_at_once(&active.receive, flow, p)
            || p.cost_queued + cost > p.cost_limit
            || message.immediate.is_some()
            || !fits_record(
                &self.config,
                way.map_or_else(|| p.room(), |(_, room)| room),
                message,
                data.len(),
            )
        {
            return None;
        }
        self.now = later(self.now, now);
        burst.begin(way.map_or_else(|| Path::from(p.address), |(path, _)| path));
        let following = Following {
            config: &self.config,
            now: self.now,
            peer: p,
            flow,
            receive: &active.receive,
        };
        active.send.write_at_once(&following, message, data, burst);
        Some(index)
    }

    /// Keeps the message of [`begin_inline`](Self::begin_inline), whose payload is `data`, until it is acknowledged.
    /// `burst` is complete then.
    #[inline]
    pub fn finish_inline(&mut self, inline: &Inline, data: &[u8], burst: &mut Burst) {
        let Inline { index, message } = inline;
        let now = self.now;
        let active = &mut self.actives[*index as usize];
        let flow = &mut self.flows[active.flow as usize];
        let p = &mut self.peers[flow.peer as usize];
        p.cost_queued += data.len() as u64 + u64::from(MESSAGE_COST);
        let has_rails = p.has_rails();
        if !active.busy {
            active.busy = true;
            self.busy += 1;
        }
        let at = now + self.times.rto(flow, p);
        let record = active.send.store_at_once(now, &mut self.sources, message, data);
        burst.complete(record.source, record.offset + u32::from(record.len), data.len());
        active.send.note_lone(&self.config, flow, &record);
        active.send.wait_since(now - self.stalled.min(now));
        self.stats.packets_sent += 1;
        self.stats.payload_sent += data.len() as u64;
        active.last_use = now;
        let repeats = active.receive.note_acknowledged();
        active.deadlines.stop(Timer::Ack);
        if repeats {
            let at = now + self.times.repetition();
            active.deadlines.arm(&mut self.heap, *index, Timer::Ack, at);
        }
        active.deadlines.arm(&mut self.heap, *index, Timer::Rto, at);
        self.hold(burst);
        if has_rails {
            self.note_sent(*index, burst);
        }
    }

    /// Writes the packet of the only queued message of a flow, if nothing is in the way of this early exit. `false`:
    /// nothing was done.
    #[inline(always)]
    pub(super) fn fill_lone(&mut self, index: u32, burst: &mut Burst) -> bool {
        let active = &mut self.actives[index as usize];
        let flow = &mut self.flows[active.flow as usize];
        if active.probe.is_due() {
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
        let Some((record, len)) = active.send.write_only_queued(&following, &self.sources, burst) else {
            return false;
        };
        active.send.note_lone(&self.config, flow, &record);
        self.stats.packets_sent += 1;
        self.stats.payload_sent += len as u64;
        self.launched(index, first);
        true
    }
}
