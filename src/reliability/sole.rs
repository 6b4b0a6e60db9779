//! A small message that is all that its flow has to send: the usual packet of small messages, which needs none of the
//! choices that [`fill`](Endpoint::fill) makes otherwise.

use super::{
    burst::{Burst, INLINE},
    congestion::Controller as _,
    endpoint::Endpoint,
    flow::{Form, Record},
    peer::MESSAGE_COST,
    transmit::timestamp,
};
use crate::{
    config::{MAX_WINDOW_PACKETS, WindowMode},
    wire::{self, Base, Builder, Flags, Kind},
};

impl Endpoint {
    /// Writes the packet of the only message that is queued, if that may go now, in a packet of its own without checksum,
    /// and nothing but an acknowledgement is owed. `false`: nothing was done. It is what `fill` would do.
    #[inline]
    pub(super) fn fill_sole(&mut self, index: u32, burst: &mut Burst) -> bool {
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
        let Ok((wire::Record { match_bits, data }, [])) = wire::Record::split(run) else {
            return false;
        };
        let window = send.congestion.window().min(p.window);
        let cost = queued.cost + data.len() as u64 + u64::from(MESSAGE_COST);
        let header = Self::overhead(config, p) + 8 * usize::from(match_bits.is_some());
        let fits = data.len() <= INLINE.min(config.max_payload.into()) && header + data.len() <= p.mtu.into();
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
            session: p.remote_token,
            sequence: seq,
            acknowledgement: flow.expected,
            reply_queue: 0,
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
        let mut header = Builder::new(burst.header(), &base);
        // Another one like it would not be allowed: its acknowledgement is what we wait for.
        if send.want_ack || is_last || !send.has_room(window, record.len.into()) {
            header.set(Flags::ACK_REQUEST);
        }
        send.want_ack = false;
        if let Some(bits) = match_bits {
            header.match_bits(bits);
        }
        if let Some(stamp) = timestamp(now, config, receive.stamp, receive.stamp_at) {
            header.timestamp(stamp);
        }
        let header = header.finish(data.len() as u16);
        burst.push_inline(header, data);
        self.stats.packets_sent += 1;
        self.stats.payload_sent += data.len() as u64;
        self.launched(index, first);
        true
    }
}
