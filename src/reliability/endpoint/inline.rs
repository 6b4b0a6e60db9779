//! The inline send: the short way of a single small message. On a quiet flow the command writes it at once, past the
//! queue: this is the latency path of request and response. A message that was queued but is the only one is written
//! without the general choice between several.

use super::{
    Endpoint, later,
    send::{fits_record, store_record},
};
use crate::{
    config::{Config, MAX_WINDOW_PACKETS, WindowMode},
    reliability::{
        Burst, Outgoing, PeerId,
        burst::INLINE,
        credit::MESSAGE_COST,
        extensions::timestamp,
        flow::{Active, Flow, Form, Receiver, Record, Sender, congestion::Controller},
        peer::Peer,
        timers::Timer,
    },
    span::Span,
    time::Instant,
    wire::{Base, Flags, Kind, Record as Stored, write_plain},
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
        let Some(flow_index) = self.find_flow(peer.0, channel) else {
            return false;
        };
        let flow = &mut self.flows[flow_index as usize];
        let index = flow.active;
        let Some(active) = self.actives.get_mut(index as usize) else {
            return false;
        };
        let p = &mut self.peers[peer.index()];
        let cost = data.len() as u64 + u64::from(MESSAGE_COST);
        if active.send.una != flow.send_next
            || !is_usual(&self.config, p, flow, active)
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
        let (send, receive) = (&mut active.send, &mut active.receive);
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
        burst.begin(p.address);
        let lone = Lone {
            record,
            match_bits: message.match_bits,
            data: Span::new(data),
        };
        lone.write(&self.config, p, flow, send, receive, burst);
        send.waiting_since = now - self.stalled.min(now);
        self.stats.packets_sent += 1;
        self.stats.payload_sent += data.len() as u64;
        // It has carried the acknowledgement.
        active.last_use = now;
        let repeats = receive.note_acknowledged();
        active.deadlines.stop(Timer::Ack);
        if repeats {
            let at = now + self.times.repetition();
            active.deadlines.arm(&mut self.heap, index, Timer::Ack, at);
        }
        let at = now + self.times.rto(flow, p);
        active.deadlines.arm(&mut self.heap, index, Timer::Rto, at);
        self.hold(burst);
        true
    }

    /// Writes the packet of the only queued message, if it may go now in a packet of its own without checksum and the
    /// flow owes nothing but an acknowledgement. `false`: nothing was done. The packet equals the one that `fill` would
    /// write.
    #[inline]
    pub(super) fn fill_lone(&mut self, index: u32, burst: &mut Burst) -> bool {
        let active = &mut self.actives[index as usize];
        let flow = &mut self.flows[active.flow as usize];
        let p = &self.peers[flow.peer as usize];
        let (send, receive, config) = (&mut active.send, &mut active.receive, &self.config);
        let in_flight = flow.send_next.distance(send.una);
        let Some(queued) = send.queue.front().filter(|_| send.queue.len() == 1) else {
            return false;
        };
        let owes = receive.nack_now || receive.tell_credit || receive.tell_settled || receive.has_gap(flow.expected);
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
        let (now, first) = (self.now, in_flight == 0);
        let lone = Lone {
            record: Record {
                sent_at: now,
                source: queued.source,
                offset: queued.at,
                len: run.len() as u16,
                resends: 0,
                form: Form::Single,
                message: queued.message,
                from: queued.from,
                to: queued.to,
            },
            match_bits,
            data: Span::new(data),
        };
        // The packet takes over the queue's own reference.
        send.queue.pop_front();
        send.queued_bytes = send.queued_bytes.saturating_sub(lone.record.len.into());
        lone.write(config, p, flow, send, receive, burst);
        self.stats.packets_sent += 1;
        self.stats.payload_sent += data.len() as u64;
        self.launched(index, first);
        true
    }
}

/// The session is open and without checksums, the flow has nothing queued or to be retransmitted, and owes nothing but
/// an acknowledgement.
#[inline(always)]
fn is_usual(config: &Config, peer: &Peer, flow: &Flow, active: &Active) -> bool {
    let Active {
        send, receive, probe, ..
    } = active;
    let waits = !send.queue.is_empty() || send.timeouts > 0 || probe.is_due();
    let owes = receive.nack_now || receive.tell_credit || receive.tell_settled || receive.has_gap(flow.expected);
    !waits && !owes && peer.confirmed && peer.is_open() && !peer.checksums(config)
}

/// A small message that is a packet of its own.
struct Lone<'a> {
    record: Record,
    match_bits: Option<u64>,
    data: Span<'a>,
}

impl Lone<'_> {
    /// Writes the packet, and notes that it is in flight.
    #[inline(always)]
    fn write(
        &self,
        config: &Config,
        peer: &Peer,
        flow: &mut Flow,
        send: &mut Sender,
        receive: &Receiver,
        burst: &mut Burst,
    ) {
        let Self {
            record,
            match_bits,
            data,
        } = self;
        let seq = flow.send_next;
        let window = send.congestion.window().min(peer.window);
        send.push_record(seq, *record);
        flow.send_next = seq.plus(1);
        send.bytes_in_flight += u32::from(record.len);
        send.packets_in_flight += 1;
        send.probe = false;
        let is_last = flow.send_next.distance(send.una) >= config.window_packets.into();
        send.waiting = is_last && config.window_mode == WindowMode::BurstThenWait;
        // The window allows no other packet of this size: sending on needs the acknowledgement of this one.
        let ask = send.want_ack || is_last || !send.has_room(window, record.len.into());
        send.want_ack = false;
        let base = Base {
            kind: Kind::Data,
            channel: flow.channel,
            source: record.from,
            destination: record.to,
            session: peer.remote_token(),
            sequence: seq,
            acknowledgement: flow.expected,
            rail: 0,
            message: record.message,
        };
        let stamp = timestamp(record.sent_at, config, receive.stamp, receive.stamp_at);
        let header = write_plain(burst.header(), &base, marks(ask), *match_bits, stamp, data.len() as u16);
        if data.len() <= INLINE {
            burst.push_inline(header, *data);
        } else {
            let at = record.offset + u32::from(record.len) - data.len() as u32;
            burst.push_reference(header, record.source, at, data.len() as u32);
        }
    }
}

/// `ask`: for an acknowledgement at once.
#[inline]
fn marks(ask: bool) -> Flags {
    if ask { Flags::ACK_REQUEST } else { Flags::empty() }
}
