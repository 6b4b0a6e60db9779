//! Which packet a flow may send next, and what it will look like. Decides, changes nothing but the queue.

use super::{
    flow::{Form, Queued, Record, Sender},
    peer::MESSAGE_COST,
    source::Sources,
    transmit::Lane,
};
use crate::{
    config::MAX_WINDOW_PACKETS,
    wire::{self, Fragment, Placement, Records, Seq},
};

/// Octets of a placement in a header.
const PLACEMENT_LEN: usize = 16;

/// The next packet of a flow.
pub(super) struct Plan {
    pub(super) seq: Seq,
    pub(super) record: Record,
    /// Octets of payload on the wire.
    pub(super) payload: usize,
    pub(super) header: usize,
    pub(super) fragment: Option<Fragment>,
    pub(super) placement: Option<Placement>,
    pub(super) match_bits: Option<u64>,
    pub(super) immediate: Option<u64>,
    pub(super) resend: bool,
    /// Messages in it.
    pub(super) messages: u32,
    /// What it costs of the credit.
    pub(super) cost: u64,
}

impl Lane<'_> {
    /// Room in the windows for another packet of `len` octets.
    #[inline(always)]
    fn in_window(&self, len: usize) -> bool {
        let send = &*self.send;
        if send.packets_in_flight == 0 || send.probe {
            return true;
        }
        // After two time-outs in a row a single packet has to prove that the path is alive.
        send.timeouts < 2 && send.bytes_in_flight as usize + len <= self.window as usize
    }

    /// Another packet like the last one would not be allowed: its acknowledgement is what we wait for.
    #[inline(always)]
    pub(super) fn exhausted(&self, len: usize) -> bool {
        let send = &*self.send;
        !self.in_window(len)
            || send.waiting
            || self.flow.send_next.distance(send.una) >= self.config.window_packets.into()
            || send
                .queue
                .front()
                .is_some_and(|next| next.takes_credit() && next.cost + len as u64 > self.peer.cost_limit)
    }

    /// The packet that the flow may send now, if any: what was lost first, then what is queued.
    #[inline(always)]
    pub(super) fn next_packet(&self) -> Option<Plan> {
        let resend = self.send.lost_count > 0;
        let (seq, (record, messages, cost)) = if resend {
            let seq = self.first_lost()?;
            (seq, (*self.send.record(seq), 1, 0))
        } else {
            (self.flow.send_next, self.first_queued()?)
        };
        self.in_window(record.len.into())
            .then(|| self.describe(seq, record, resend, messages, cost))
    }

    /// The same, but the short end of a long message lets the next long message pass, and comes when that has filled
    /// the burst: only the last datagram of a burst may be shorter. `size`: octets of the others; `room`: two more fit.
    #[inline(always)]
    pub(super) fn next_in_burst(&mut self, size: usize, room: bool) -> Option<Plan> {
        let mut settled = false;
        loop {
            let plan = self.next_packet();
            let goes = match &plan {
                _ if settled => true,
                Some(plan) if self.passed.is_some() => self.passes(plan, size, room),
                Some(plan) => !room || plan.size() >= self.peer.mtu.into() || !self.may_be_passed(plan),
                None => self.passed.is_none(),
            };
            if goes {
                return plan;
            }
            settled = self.change_order(plan.map_or(0, |plan| plan.record.len));
        }
    }

    /// The packet is the end of a long message, and behind that is another with a full packet to send.
    #[inline(always)]
    fn may_be_passed(&self, plan: &Plan) -> bool {
        let queue = &self.send.queue;
        let long = |next: &Queued| {
            matches!(next.form, Form::Whole | Form::Placed) && next.end - next.at >= self.peer.mtu.into()
        };
        queue.get(1).is_some_and(long)
            && matches!(plan.record.form, Form::Whole | Form::Placed)
            && !plan.resend
            && queue.front().is_some_and(|front| front.is_ended_by(plan.record.len))
    }

    /// A packet of the message that passes is as long as the others, and leaves room for the end of the message passed.
    #[inline(always)]
    fn passes(&mut self, plan: &Plan, size: usize, room: bool) -> bool {
        let end = self.passed.unwrap_or(0);
        let in_flight = self.flow.send_next.distance(self.send.una);
        let goes = room
            && plan.size() == size
            && in_flight + 1 < self.config.window_packets.into()
            && self.in_window(usize::from(plan.record.len) + usize::from(end));
        if goes
            && self
                .send
                .queue
                .front()
                .is_some_and(|front| front.is_ended_by(plan.record.len))
        {
            // It leaves the queue, and the one behind it is in front again.
            self.passed = None;
        }
        goes
    }

    /// The first two messages of the queue change places, for a part of a burst. `true`: the first is first again, and
    /// goes. `end`: octets of its packet.
    #[inline(never)]
    fn change_order(&mut self, end: u16) -> bool {
        self.send.queue.swap(0, 1);
        let again = self.passed.take().is_some();
        if !again {
            self.passed = Some(end);
        }
        again
    }

    #[cold]
    fn first_lost(&self) -> Option<Seq> {
        self.send.lost.first_set(self.send.una, self.flow.send_next)
    }

    /// A packet from the front of the queue, how many messages are in it, and what it costs of the credit.
    #[inline(always)]
    fn first_queued(&self) -> Option<(Record, u32, u64)> {
        let (config, send) = (self.config, &*self.send);
        let queued = send.queue.front()?;
        let in_flight = self.flow.send_next.distance(send.una);
        if send.waiting || in_flight >= config.window_packets.min(MAX_WINDOW_PACKETS).into() {
            return None;
        }
        let room = usize::from(self.peer.mtu) - self.overhead;
        let credit = self.peer.cost_limit.checked_sub(queued.cost)?;
        let (form, len, messages, cost) = match queued.form {
            Form::Whole => {
                let whole = self.sources.whole(queued.source);
                let left = (queued.end - queued.at) as usize;
                let begins = queued.at == 0;
                let first = if begins { whole.header_len() } else { 0 };
                let alone = (room - first).min(config.max_payload.into());
                let most = if begins && left <= alone {
                    alone
                } else {
                    alone.min(room - first - 8)
                };
                let len = left.min(most);
                let cost = len as u64 + if begins { MESSAGE_COST.into() } else { 0 };
                (Form::Whole, len, 1, cost)
            }
            Form::Single | Form::Bundle => {
                let room = room.min(config.max_payload.into());
                let run = &self.sources.bytes(queued.source)[queued.at as usize..queued.end as usize];
                // Records are counted only if a packet of them can be sent: this is asked again at every send while the
                // window is full. (A packet of records ends up nearly full, or has few of them.)
                let nearly = run.len().min(room);
                if config.bundle && !self.in_window(nearly - nearly / 16) {
                    return None;
                }
                let (len, count, cost) = split_run(run, room, credit, config.bundle);
                let form = if count == 1 { Form::Single } else { Form::Bundle };
                (form, len, count, cost)
            }
            Form::Placed => {
                let room = (room - PLACEMENT_LEN).min(config.max_payload.into());
                (Form::Placed, ((queued.end - queued.at) as usize).min(room), 1, 0)
            }
            Form::Goodbye => (Form::Goodbye, 0, 0, 0),
        };
        if cost > credit || messages == 0 && form != Form::Goodbye {
            return None;
        }
        let record = Record {
            sent_at: self.now,
            source: queued.source,
            offset: queued.at,
            len: len as u16,
            resends: 0,
            form,
            message: queued.message,
            from: queued.from,
            to: queued.to,
        };
        Some((record, messages, cost))
    }

    /// What the packet of `record` looks like.
    #[inline(always)]
    fn describe(&self, seq: Seq, record: Record, resend: bool, messages: u32, cost: u64) -> Plan {
        let mut plan = Plan {
            seq,
            record,
            payload: record.len.into(),
            header: self.overhead,
            fragment: None,
            placement: None,
            match_bits: None,
            immediate: None,
            resend,
            messages,
            cost,
        };
        match record.form {
            Form::Whole => {
                let whole = self.sources.whole(record.source);
                if u32::from(record.len) != whole.len {
                    plan.fragment = Some(Fragment {
                        offset: record.offset,
                        total: whole.len,
                    });
                    plan.header += 8;
                }
                if record.offset == 0 {
                    plan.match_bits = whole.match_bits;
                    plan.immediate = whole.immediate;
                    plan.header += whole.header_len();
                }
            }
            Form::Single => {
                let bytes = &self.sources.bytes(record.source)[record.offset as usize..];
                if let Ok((single, _)) = wire::Record::split(bytes) {
                    plan.match_bits = single.match_bits;
                    plan.payload = single.data.len();
                    plan.header += 8 * usize::from(single.match_bits.is_some());
                }
            }
            Form::Placed => {
                let offset = u64::from(record.offset);
                let whole = self.sources.whole(record.source);
                plan.placement = whole.placement.map(|placement| Placement {
                    offset: placement.offset + offset,
                    ..placement
                });
                plan.header += PLACEMENT_LEN;
            }
            Form::Bundle | Form::Goodbye => {}
        }
        plan
    }
}

/// How many octets and records from the front of a run fit a payload of `room` octets and the credit, and what they
/// cost. No records: the credit is too small.
#[inline(always)]
fn split_run(run: &[u8], room: usize, credit: u64, bundle: bool) -> (usize, u32, u64) {
    let (mut len, mut count, mut cost) = (0, 0, 0);
    for record in Records::new(run) {
        let size = wire::Record::header_len(record.match_bits) + record.data.len();
        let more = cost + record.data.len() as u64 + u64::from(MESSAGE_COST);
        if more > credit || count > 0 && (len + size > room || !bundle) {
            break;
        }
        len += size;
        cost = more;
        count += 1;
    }
    (len, count, cost)
}

impl Plan {
    /// Octets of the datagram.
    #[inline(always)]
    pub(super) fn size(&self) -> usize {
        self.header + self.payload
    }
}

/// The packet is sent for the first time: the queue moves on, and the packet refers to its source.
#[inline(always)]
pub(super) fn take_from_queue(send: &mut Sender, plan: &Plan, sources: &mut Sources) {
    let len = u32::from(plan.record.len);
    send.queued_bytes = send.queued_bytes.saturating_sub(len);
    let Some(queued) = send.queue.front_mut() else {
        return;
    };
    // The last packet takes over the queue's own reference.
    if queued.at + len == queued.end {
        send.queue.pop_front();
        return;
    }
    queued.at += len;
    queued.cost += plan.cost;
    if queued.form == Form::Bundle {
        queued.message = queued.message.plus(plan.messages);
    }
    sources.retain(plan.record.source);
}
