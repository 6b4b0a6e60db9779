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
                .is_some_and(|next| next.takes_credit() && next.cost_from() + len as u64 > self.peer.cost_limit)
    }

    /// The packet that the flow may send now, if any: what was lost first, then what is queued.
    #[inline(always)]
    pub(super) fn next_packet(&self) -> Option<Plan> {
        if self.send.lost_count > 0 {
            self.next_resend()
        } else {
            self.next_queued()
        }
    }

    /// The same, but the short end of a long message lets the next long message pass, and comes when that has filled
    /// the burst: only the last datagram of a burst may be shorter. `size`: octets of the others; `room`: two more fit.
    #[inline(always)]
    pub(super) fn next_in_burst(&mut self, size: usize, room: bool) -> Option<Plan> {
        let plan = self.next_packet();
        let goes = match &plan {
            Some(plan) if self.passed.is_some() => self.passes(plan, size, room),
            Some(plan) => !room || plan.size() >= self.peer.mtu.into() || !self.may_be_passed(plan),
            None => self.passed.is_none(),
        };
        if goes { plan } else { self.change_order(size, room) }
    }

    /// The packet is the end of a long message, and behind that is another with a full packet to send.
    #[inline(never)]
    fn may_be_passed(&self, plan: &Plan) -> bool {
        let mut queue = self.send.queue.iter();
        let ends = queue.next().is_some_and(|front| front.is_ended_by(plan.record.len));
        let next = match queue.next() {
            Some(&(Queued::Whole { at, len, .. } | Queued::Placed { at, len, .. })) => len - at,
            _ => 0,
        };
        ends && !plan.resend && plan.record.form == Form::Whole && next >= self.peer.mtu.into()
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

    /// The first two messages of the queue change places, for a part of a burst.
    #[inline(never)]
    fn change_order(&mut self, size: usize, room: bool) -> Option<Plan> {
        if self.passed.is_none()
            && let Some(end) = self.next_packet()
        {
            self.send.queue.swap(0, 1);
            self.passed = Some(end.record.len);
            if let Some(plan) = self.next_packet()
                && self.passes(&plan, size, room)
            {
                return Some(plan);
            }
        }
        self.send.queue.swap(0, 1);
        self.passed = None;
        self.next_packet()
    }

    #[cold]
    fn next_resend(&self) -> Option<Plan> {
        let send = &*self.send;
        let seq = send.lost.first_set(send.una, self.flow.send_next)?;
        let record = *send.record(seq);
        if !self.in_window(record.len.into()) {
            return None;
        }
        let mut plan = Plan::new(self.overhead, seq, record);
        plan.resend = true;
        plan.describe(self.sources);
        Some(plan)
    }

    #[inline(always)]
    fn next_queued(&self) -> Option<Plan> {
        let (config, sources, send) = (self.config, &*self.sources, &*self.send);
        let queued = send.queue.front()?;
        let in_flight = self.flow.send_next.distance(send.una);
        if send.waiting || in_flight >= config.window_packets.min(MAX_WINDOW_PACKETS).into() {
            return None;
        }
        let room = usize::from(self.peer.mtu) - self.overhead;
        let credit = self.peer.cost_limit.checked_sub(queued.cost_from())?;
        let (record, messages, cost) = match *queued {
            Queued::Run {
                source,
                at,
                end,
                message,
                from,
                to,
                ..
            } => {
                let room = room.min(config.max_payload.into());
                let run = &sources.bytes(source)[at as usize..end as usize];
                // Records are counted only if a packet of them can be sent: this is asked again at every send while the
                // window is full. (A packet of records ends up nearly full, or has few of them.)
                let nearly = run.len().min(room);
                if config.bundle && !self.in_window(nearly - nearly / 16) {
                    return None;
                }
                let (len, count, cost) = split_run(run, room, credit, config.bundle);
                let form = if count == 1 { Form::Single } else { Form::Bundle };
                (
                    Record {
                        source,
                        offset: at,
                        len: len as u16,
                        form,
                        message,
                        from,
                        to,
                        ..Record::EMPTY
                    },
                    count,
                    cost,
                )
            }
            Queued::Whole {
                source,
                at,
                len,
                message,
                from,
                to,
                ..
            } => {
                let left = (len - at) as usize;
                let whole = sources.whole(source);
                let first = if at == 0 {
                    8 * (usize::from(whole.match_bits.is_some()) + usize::from(whole.immediate.is_some()))
                } else {
                    0
                };
                let alone = (room - first).min(config.max_payload.into());
                let most = if at == 0 && left <= alone {
                    alone
                } else {
                    alone.min(room - first - 8)
                };
                let take = left.min(most) as u16;
                (
                    Record {
                        source,
                        offset: at,
                        len: take,
                        form: Form::Whole,
                        message,
                        from,
                        to,
                        ..Record::EMPTY
                    },
                    1,
                    u64::from(take) + if at == 0 { MESSAGE_COST.into() } else { 0 },
                )
            }
            Queued::Placed {
                source,
                at,
                len,
                key,
                from,
                to,
            } => {
                let room = (room - PLACEMENT_LEN).min(config.max_payload.into());
                let record = Record {
                    source,
                    offset: at,
                    len: ((len - at) as usize).min(room) as u16,
                    form: Form::Whole,
                    message: key,
                    from,
                    to,
                    ..Record::EMPTY
                };
                (record, 1, 0)
            }
            Queued::Goodbye => {
                let goodbye = Record {
                    form: Form::Goodbye,
                    to: self.peer.processor,
                    ..Record::EMPTY
                };
                (goodbye, 0, 0)
            }
        };
        if cost > credit || messages == 0 && record.form != Form::Goodbye || !self.in_window(record.len.into()) {
            return None;
        }
        let mut plan = Plan::new(self.overhead, self.flow.send_next, record);
        (plan.messages, plan.cost) = (messages, cost);
        plan.describe(sources);
        Some(plan)
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

    #[inline(always)]
    fn new(overhead: usize, seq: Seq, record: Record) -> Self {
        Self {
            seq,
            record,
            payload: record.len.into(),
            header: overhead,
            fragment: None,
            placement: None,
            match_bits: None,
            immediate: None,
            resend: false,
            messages: 1,
            cost: 0,
        }
    }

    /// Fills in what the header says of the message, and the packet's size.
    #[inline(always)]
    fn describe(&mut self, sources: &Sources) {
        let record = &self.record;
        match record.form {
            Form::Single => {
                let bytes = &sources.bytes(record.source)[record.offset as usize..];
                if let Ok((single, _)) = wire::Record::split(bytes) {
                    self.match_bits = single.match_bits;
                    self.payload = single.data.len();
                }
            }
            Form::Whole => {
                let whole = sources.whole(record.source);
                if let Some(placement) = whole.placement {
                    self.placement = Some(Placement {
                        offset: placement.offset + u64::from(record.offset),
                        ..placement
                    });
                    self.header += PLACEMENT_LEN;
                    return;
                }
                if u32::from(record.len) != whole.len {
                    self.fragment = Some(Fragment {
                        offset: record.offset,
                        total: whole.len,
                    });
                }
                if record.offset == 0 {
                    self.match_bits = whole.match_bits;
                    self.immediate = whole.immediate;
                }
            }
            Form::Bundle | Form::Goodbye => {}
        }
        for present in [
            self.match_bits.is_some(),
            self.immediate.is_some(),
            self.fragment.is_some(),
        ] {
            self.header += 8 * usize::from(present);
        }
    }
}

/// The packet is sent for the first time: the queue moves on, and the packet refers to its source.
#[inline(always)]
pub(super) fn take_from_queue(send: &mut Sender, plan: &Plan, sources: &mut Sources) {
    let len = u32::from(plan.record.len);
    send.queued_bytes = send.queued_bytes.saturating_sub(len);
    let done = match send.queue.front_mut() {
        Some(Queued::Run {
            at, end, message, cost, ..
        }) => {
            *at += len;
            *cost += plan.cost;
            *message = message.plus(plan.messages);
            at == end
        }
        Some(Queued::Whole { at, len: total, .. } | Queued::Placed { at, len: total, .. }) => {
            *at += len;
            at == total
        }
        Some(Queued::Goodbye) | None => {
            send.queue.pop_front();
            return;
        }
    };
    // The last packet takes over the queue's own reference.
    if done {
        send.queue.pop_front();
    } else {
        sources.retain(plan.record.source);
    }
}
