//! The short path for a single small message. On a quiet flow it is written at once, past the queue: this is the
//! latency path of request and response. A message that was queued but is the only one is written without the general
//! choice between several.

use super::{
    Outgoing, PeerId,
    burst::{Burst, INLINE},
    congestion::Controller as _,
    endpoint::{Endpoint, later},
    flow::{Active, Flow, Form, Record},
    peer::{MESSAGE_COST, Peer},
    send::{fits_record, store_record},
    timers::Timer,
    transmit::timestamp,
};
use crate::{
    config::{MAX_WINDOW_PACKETS, WindowMode},
    span::Span,
    time::Instant,
    wire::{Base, Flags, Kind, Record as Stored, write_plain},
};

impl Endpoint {
    /// Builds the packet of a message, has it transmitted and records it as sent, if the message fits one packet
    /// without checksum and nothing else of its flow is queued, unacknowledged or owed. Returns `false` if it did
    /// nothing: [`send`](Self::send) then takes the message or says why not.
    ///
    /// `transmit` gets the burst, and the bytes of the message, which belong at the end of the burst. Its success makes
    /// no difference here: like any packet, this one is sent again if it does not arrive.
    ///
    /// The call does the work of `send` and [`poll_transmit`](Self::poll_transmit) together, except for packets of
    /// other flows, which wait for the next `poll_transmit`. The record of the packet, and the acknowledgement that
    /// came with the packet before it, are written down after `transmit`, while the packet is already under way.
    #[inline]
    #[expect(clippy::too_many_arguments, reason = "those of `send`, and where to")]
    pub fn send_alone(
        &mut self,
        now: Instant,
        peer: PeerId,
        channel: u8,
        message: &Outgoing,
        data: &[u8],
        burst: &mut Burst,
        transmit: impl FnOnce(&mut Burst, &[u8]),
    ) -> bool {
        let Some((flow_index, index, usual)) = self.quiet_flow(peer, channel) else {
            return false;
        };
        let p = &self.peers[peer.index()];
        let flow = &self.flows[flow_index as usize];
        let active = &self.actives[index as usize];
        let (send, receive) = (&active.send, &active.receive);
        let cost = data.len() as u64 + u64::from(MESSAGE_COST);
        if !(usual || self.is_usual(p, flow, active))
            || receive.tell_credit
            || p.cost_queued + cost > p.cost_limit
            || message.immediate.is_some()
            || !fits_record(&self.config, p, message, data.len())
        {
            return false;
        }
        self.now = later(self.now, now);
        let (now, seq) = (self.now, flow.send_next);
        let window = send.congestion.window().min(p.window);
        let one_is_all = self.config.window_packets <= 1;
        let size = Stored::header_len(message.match_bits) + data.len();
        let base = Base {
            kind: Kind::Data,
            channel,
            source: message.source,
            destination: message.destination,
            session: p.remote_token(),
            sequence: seq,
            acknowledgement: flow.expected,
            rail: 0,
            message: message.message,
        };
        // The window allows no other packet of this size: sending on needs the acknowledgement of this one.
        let ask = send.want_ack || one_is_all || 2 * size > window as usize;
        let stamp = timestamp(now, &self.config, receive.stamp, receive.stamp_at);
        burst.begin(p.address);
        let octets = data.len() as u16;
        let header = write_plain(burst.header(), &base, marks(ask), message.match_bits, stamp, octets);
        burst.push_header(header, data.len());
        transmit(burst, data);

        self.dialogue.queues = false;
        self.catch_up();
        let p = &mut self.peers[peer.index()];
        let flow = &mut self.flows[flow_index as usize];
        let active = &mut self.actives[index as usize];
        let (send, receive) = (&mut active.send, &mut active.receive);
        p.cost_queued += cost;
        if !active.busy {
            active.busy = true;
            self.busy += 1;
        }
        let (offset, len) = store_record(send, &mut self.sources, message.match_bits, Span::new(data));
        self.sources.retain(send.tail);
        let record = Record {
            sent_at: now,
            source: send.tail,
            offset,
            len: len as u16,
            resends: 0,
            form: Form::Single,
            message: message.message,
            from: message.source,
            to: message.destination,
        };
        send.push_record(seq, record);
        flow.send_next = seq.plus(1);
        send.bytes_in_flight += len;
        send.packets_in_flight += 1;
        send.probe = false;
        send.want_ack = false;
        send.waiting = one_is_all && self.config.window_mode == WindowMode::BurstThenWait;
        send.waiting_since = now - self.stalled.min(now);
        self.stats.packets_sent += 1;
        self.stats.payload_sent += data.len() as u64;
        // It has carried the acknowledgement.
        active.last_use = now;
        (receive.ack_now, receive.unacked_bytes, receive.unacked_packets) = (false, 0, 0);
        active.deadlines.stop(Timer::Ack);
        let at = now + self.times.rto(flow, p);
        active.deadlines.arm(&mut self.heap, index, Timer::Rto, at);
        true
    }

    /// A flow with nothing in flight, its active part, and whether it has a [dialogue](super::dialogue), in which case
    /// it [is usual](Self::is_usual).
    #[inline(always)]
    fn quiet_flow(&self, peer: PeerId, channel: u8) -> Option<(u32, u32, bool)> {
        let dialogue = self.dialogue_with(peer, channel);
        let (flow_index, index) = match dialogue {
            Some(known) => known,
            None => {
                let flow = self.find_flow(peer.0, channel)?;
                (flow, self.flows[flow as usize].active)
            }
        };
        let send = &self.actives.get(index as usize)?.send;
        let quiet = self.answered.index == index || send.una == self.flows[flow_index as usize].send_next;
        quiet.then_some((flow_index, index, dialogue.is_some()))
    }

    /// The session is open and without checksums, the flow has nothing queued or to be retransmitted, and no received
    /// packet of it is missing.
    fn is_usual(&self, peer: &Peer, flow: &Flow, active: &Active) -> bool {
        let Active {
            send, receive, probe, ..
        } = active;
        let waits = !send.queue.is_empty() || send.timeouts > 0 || probe.is_due();
        let owes = receive.nack_now || receive.has_gap(flow.expected);
        !waits && !owes && peer.confirmed && peer.is_open() && !peer.checksums(&self.config)
    }

    /// Writes the packet of the only queued message, if it may go now in a packet of its own without checksum and the
    /// flow owes nothing but an acknowledgement. `false`: nothing was done. The packet equals the one that `fill` would
    /// write.
    #[inline]
    pub(super) fn fill_alone(&mut self, index: u32, burst: &mut Burst) -> bool {
        let active = &mut self.actives[index as usize];
        let flow = &mut self.flows[active.flow as usize];
        let p = &self.peers[flow.peer as usize];
        let (send, receive, config) = (&mut active.send, &mut active.receive, &self.config);
        let in_flight = flow.send_next.distance(send.una);
        let Some(queued) = send.queue.front().filter(|_| send.queue.len() == 1) else {
            return false;
        };
        let owes = receive.nack_now || receive.tell_credit || receive.has_gap(flow.expected);
        let waits = send.lost_count > 0 || send.waiting || active.probe.is_due();
        let most = u32::from(config.window_packets.min(MAX_WINDOW_PACKETS));
        let plain = matches!(queued.form, Form::Single | Form::Bundle) && p.confirmed && !p.checksums(config);
        if owes || waits || !plain || in_flight >= most {
            return false;
        }
        let run = &self.sources.bytes(queued.source)[queued.at as usize..queued.end as usize];
        let Ok((Stored { match_bits, data }, [])) = Stored::split(run) else {
            return false;
        };
        let window = send.congestion.window().min(p.window);
        let cost = queued.cost + data.len() as u64 + u64::from(MESSAGE_COST);
        let header = Self::overhead(config, p) + 8 * usize::from(match_bits.is_some());
        let fits = data.len() <= INLINE && header + data.len() <= p.mtu.into();
        if !fits || cost > p.cost_limit || !send.has_room(window, run.len()) {
            return false;
        }
        let (now, seq, first) = (self.now, flow.send_next, in_flight == 0);
        let record = Record {
            sent_at: now,
            source: queued.source,
            offset: queued.at,
            len: run.len() as u16,
            resends: 0,
            form: Form::Single,
            message: queued.message,
            from: queued.from,
            to: queued.to,
        };
        let base = Base {
            kind: Kind::Data,
            channel: flow.channel,
            source: record.from,
            destination: record.to,
            session: p.remote_token(),
            sequence: seq,
            acknowledgement: flow.expected,
            rail: 0,
            message: record.message,
        };
        // The packet takes over the queue's own reference.
        send.queue.pop_front();
        send.queued_bytes = send.queued_bytes.saturating_sub(record.len.into());
        send.push_record(seq, record);
        flow.send_next = seq.plus(1);
        send.bytes_in_flight += u32::from(record.len);
        send.packets_in_flight += 1;
        send.probe = false;
        let is_last = in_flight + 1 >= config.window_packets.into();
        send.waiting = is_last && config.window_mode == WindowMode::BurstThenWait;
        // The window allows no other packet of this size: sending on needs the acknowledgement of this one.
        let ask = send.want_ack || is_last || !send.has_room(window, record.len.into());
        send.want_ack = false;
        let stamp = timestamp(now, config, receive.stamp, receive.stamp_at);
        let header = write_plain(burst.header(), &base, marks(ask), match_bits, stamp, data.len() as u16);
        burst.push_inline(header, Span::new(data));
        self.stats.packets_sent += 1;
        self.stats.payload_sent += data.len() as u64;
        self.launched(index, first);
        true
    }
}

/// `ask`: for an acknowledgement at once.
#[inline]
fn marks(ask: bool) -> Flags {
    if ask { Flags::ACK_REQUEST } else { Flags::empty() }
}
