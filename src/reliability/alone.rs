//! A small message that finds its flow quiet is written at once, past the queue: the usual case of request and answer, in
//! which nothing counts but how short this way is.

use super::{
    Outgoing, PeerId,
    burst::Burst,
    congestion::Controller as _,
    endpoint::{Endpoint, later},
    flow::{Form, Record},
    peer::MESSAGE_COST,
    send::{fits_record, store_record},
    timers::Timer,
    transmit::timestamp,
};
use crate::{
    config::WindowMode,
    time::Instant,
    wire::{Base, Builder, Flags, Kind, Record as Stored},
};

impl Endpoint {
    /// Writes the packet of a message, has it transmitted, and notes it as sent, if it fits one packet without checksum, and
    /// nothing else of its flow is queued, unacknowledged or owed. `false`: nothing was done, and [`send`](Self::send) takes
    /// it or says why not.
    ///
    /// `transmit` gets the burst and the octets of the message, which belong at its end.
    /// What becomes of it changes nothing here: like any packet it is sent again if it does not arrive.
    ///
    /// It is what `send` and [`poll_transmit`](Self::poll_transmit) would do together, but for what others have to transmit,
    /// which waits for the next `poll_transmit`. What only is to be remembered is noted when the packet is on its way, as
    /// is what the packet before has acknowledged.
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
        let Some(flow) = self.find_flow(peer.0, channel) else {
            return false;
        };
        let (p, flow_index) = (&self.peers[peer.index()], flow);
        let flow = &self.flows[flow_index as usize];
        let index = flow.active;
        let Some(active) = self.actives.get(index as usize) else {
            return false;
        };
        let (send, receive) = (&active.send, &active.receive);
        let cost = data.len() as u64 + u64::from(MESSAGE_COST);
        let answered = self.answered.index == index || (send.una == flow.send_next && !send.waiting);
        let quiet = answered && send.queue.is_empty() && send.timeouts == 0 && !active.probe.is_due();
        let owes = receive.nack_now || receive.tell_credit || receive.has_gap(flow.expected);
        let may_go = p.confirmed && p.is_open() && p.cost_queued + cost <= p.cost_limit;
        if !quiet
            || owes
            || !may_go
            || p.checksums(&self.config)
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
            session: p.remote_token,
            sequence: seq,
            acknowledgement: flow.expected,
            reply_queue: 0,
            message: message.message,
        };
        burst.begin(p.address);
        let mut header = Builder::new(burst.header(), &base);
        // Another one like it would not be allowed: its acknowledgement is what we wait for.
        if send.want_ack || one_is_all || 2 * size > window as usize {
            header.set(Flags::ACK_REQUEST);
        }
        if let Some(bits) = message.match_bits {
            header.match_bits(bits);
        }
        if let Some(stamp) = timestamp(now, &self.config, receive.stamp, receive.stamp_at) {
            header.timestamp(stamp);
        }
        let header = header.finish(data.len() as u16);
        burst.push_header(header, data.len());
        transmit(burst, data);

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
        let (offset, len) = store_record(send, &mut self.sources, message.match_bits, data);
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
        if !active.deadlines.is_set(Timer::Rto) {
            let at = now + self.times.rto(flow, p);
            active.deadlines.arm(&mut self.heap, index, Timer::Rto, at);
        }
        true
    }
}
