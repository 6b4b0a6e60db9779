//! Chooses the next packet of a flow and its form. Changes nothing but the queue.

use super::{
    super::{
        packet::{Form, Queued, Record},
        resident::Flow,
        source::{SourceId, Sources},
    },
    Sender,
};
use crate::{
    config::{Config, MAX_WINDOW_PACKETS},
    reliability::{Limits, credit::MESSAGE_COST, packet_builder::message::Cut, peer::Peer, sealing::Sealing},
    stats::Stats,
    wire::{self, Builder, Fragment, Open, Placement, Records, Seq, Timestamp},
};

/// The next packet of a flow.
pub(super) struct Plan {
    pub(super) seq: Seq,
    pub(super) record: Record,
    /// Bytes of payload on the wire.
    pub(super) payload: usize,
    pub(super) header: usize,
    pub(super) resend: bool,
    /// Messages in it.
    pub(super) messages: u32,
    /// Its cost, in bytes of the credit.
    pub(super) cost: u64,
}

impl Plan {
    /// Bytes of the datagram.
    #[inline(always)]
    pub(super) fn size(&self) -> usize {
        self.header + self.payload
    }
}

/// One flow while a burst of its packets is written: the values common to all of them, and the state that they change.
pub(in crate::reliability) struct Lane<'a> {
    pub(in crate::reliability) config: &'a Config,
    pub(in crate::reliability) limits: &'a Limits,
    pub(in crate::reliability) now: u64,
    pub(in crate::reliability) stamp: Option<Timestamp>,
    pub(in crate::reliability) checksum: bool,
    pub(in crate::reliability) open: Option<Open>,
    pub(in crate::reliability) sealing: Option<&'a mut Sealing>,
    /// Bytes of a header that do not depend on the message.
    pub(in crate::reliability) overhead: usize,
    /// Bytes that are left of the path's MTU beside those.
    pub(in crate::reliability) room: usize,
    /// Bytes that may be in flight.
    pub(in crate::reliability) window: u32,
    pub(in crate::reliability) send: &'a mut Sender,
    pub(in crate::reliability) flow: &'a mut Flow,
    pub(in crate::reliability) peer: &'a mut Peer,
    pub(in crate::reliability) sources: &'a mut Sources,
    pub(in crate::reliability) stats: &'a mut Stats,
    /// So many messages in front of the queue, of which only the short ends are left, have been passed.
    pub(in crate::reliability) passed: usize,
    /// Nothing passes any more in this burst.
    pub(in crate::reliability) settled: bool,
}

impl Lane<'_> {
    /// Nothing is in flight.
    #[inline(always)]
    pub(in crate::reliability) fn is_quiet(&self) -> bool {
        self.send.is_quiet(self.flow)
    }

    /// There is more to send for the first time.
    #[inline(always)]
    pub(in crate::reliability) fn has_queued(&self) -> bool {
        self.send.has_queued()
    }

    /// Bytes of the largest datagram on the path. (A loop that keeps the sum has too few registers for the rest.)
    #[inline(always)]
    pub(super) fn largest(&self) -> usize {
        match self.flow.rail() {
            0 => self.peer.mtu.into(),
            _ => sum(self.overhead, self.room),
        }
    }

    /// The windows have room for another packet of `len` bytes.
    #[inline(always)]
    fn in_window(&self, len: usize) -> bool {
        self.send.has_room(self.window, len)
    }

    /// The windows allow no other packet like the last one: sending on needs its acknowledgement.
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

    /// The packet that the flow may send now, if any: lost packets first, then the queue.
    #[inline(always)]
    pub(super) fn next_packet(&self) -> Option<Plan> {
        let plan = if self.send.lost_count > 0 {
            let seq = self.first_lost()?;
            let Cut { payload, extensions } = self.cut(seq);
            Plan {
                seq,
                record: *self.send.record(seq),
                payload,
                header: self.overhead + extensions,
                resend: true,
                messages: 1,
                cost: 0,
            }
        } else {
            self.first_queued()?
        };
        self.in_window(plan.record.len.into()).then_some(plan)
    }

    /// Only the last datagram of a burst may be shorter than the others. So the short end of a long message lets the
    /// next long message pass, and the first end that was passed goes when the burst has no room for more. Call this
    /// for a packet that is shorter than the others (`size`), or when a packet has been passed. `room`: two more
    /// datagrams fit. `true`: another packet goes next.
    #[inline(always)]
    pub(super) fn changes_order(&mut self, plan: &Plan, size: usize, room: bool) -> bool {
        if self.passed > 0 && self.passes(plan, size, room) {
            return false;
        }
        if room && !self.settled && plan.size() < size && self.may_be_passed(plan) {
            self.passed += 1;
            return true;
        }
        self.restores_order()
    }

    /// Sends the packets that were passed, if any, next, and lets none be passed for the rest of this burst.
    #[inline(always)]
    pub(super) fn restores_order(&mut self) -> bool {
        let passed = self.passed > 0;
        self.settled |= passed;
        self.passed = 0;
        passed
    }

    /// The packet is the end of a long message, and behind that is another with a full packet to send. (A message of which
    /// the receiver has nothing is not passed: it would doubt the one that comes instead.)
    #[inline(always)]
    fn may_be_passed(&self, plan: &Plan) -> bool {
        let queue = &self.send.queue;
        let long = |next: &Queued| {
            matches!(next.form, Form::Whole | Form::Placed) && (next.end - next.at) as usize >= self.largest()
        };
        queue.get(self.passed + 1).is_some_and(long)
            && match plan.record.form {
                Form::Whole => plan.record.offset > 0,
                form => form == Form::Placed,
            }
            && !plan.resend
            && queue[self.passed].is_ended_by(plan.record.len)
    }

    /// A packet of the message that passes is as long as the others, and leaves room for the end that comes last.
    #[inline(always)]
    fn passes(&self, plan: &Plan, size: usize, room: bool) -> bool {
        let end = self.send.queue.front().map_or(0, |front| front.end - front.at);
        room && plan.size() == size
            && self.flow.send_next.distance(self.send.una) + 1 < self.config.window_packets.into()
            && self.in_window(usize::from(plan.record.len) + end as usize)
    }

    #[cold]
    fn first_lost(&self) -> Option<Seq> {
        self.send.lost.first_set(self.send.una, self.flow.send_next)
    }

    /// How a packet that was sent before is cut.
    #[cold]
    fn cut(&self, seq: Seq) -> Cut {
        let record = self.send.record(seq);
        let len = usize::from(record.len);
        match record.form {
            Form::Whole => {
                let whole = self.sources.whole(record.source);
                let first = if record.offset == 0 { whole.header_len() } else { 0 };
                Cut::again(len, first, u32::from(record.len) == whole.len)
            }
            Form::Placed => Cut::of_placement(len, usize::MAX, len),
            Form::Single => self.single(record.source, record.offset),
            Form::Return => Cut::of_return(record.offset),
            Form::Bundle | Form::Goodbye => Cut::plain(len),
        }
    }

    /// The same for one record of a block, sent plain.
    #[inline(always)]
    fn single(&self, source: SourceId, offset: u32) -> Cut {
        match wire::Record::split(&self.sources.bytes(source)[offset as usize..]) {
            Ok((record, _)) => Cut::of_record(&record),
            Err(_) => Cut::plain(0),
        }
    }

    /// A packet from the front of the queue.
    #[inline(always)]
    fn first_queued(&self) -> Option<Plan> {
        let (config, send) = (self.config, &*self.send);
        let queued = send.queue.get(self.passed)?;
        let in_flight = self.flow.send_next.distance(send.una);
        if send.waiting || in_flight >= config.window_packets.min(MAX_WINDOW_PACKETS).into() {
            return None;
        }
        let room = self.room;
        let left = (queued.end - queued.at) as usize;
        let credit = self.peer.cost_limit.checked_sub(queued.cost)?;
        let mut form = queued.form;
        let (len, cut, messages, cost) = match queued.form {
            Form::Whole => {
                let begins = queued.at == 0;
                let (first, is_all) = if begins {
                    let whole = self.sources.whole(queued.source);
                    (whole.header_len(), queued.end == whole.len)
                } else {
                    (0, false)
                };
                let cut = Cut::of_message(left, first, is_all, room, config.max_payload.into());
                let len = cut.payload;
                let cost = len as u64 + if begins { MESSAGE_COST.into() } else { 0 };
                (len, cut, 1, cost)
            }
            Form::Single | Form::Bundle => {
                let run = &self.sources.bytes(queued.source)[queued.at as usize..queued.end as usize];
                // Records are counted only if a packet of them can be sent: this is asked again at every send while the
                // window is full. (A packet of records ends up nearly full, or has few of them.)
                let most = room.min(config.max_payload.into());
                let nearly = left.min(most);
                if config.bundle && !self.in_window(nearly - nearly / 16) {
                    return None;
                }
                let Split {
                    len,
                    count,
                    cost,
                    first,
                } = split_run(run, most, credit, config.bundle)?;
                if count == 1 {
                    form = Form::Single;
                    (len, first, count, cost)
                } else {
                    (len, Cut::plain(len), count, cost)
                }
            }
            Form::Placed => {
                let cut = Cut::of_placement(left, room, config.max_payload.into());
                (cut.payload, cut, 1, 0)
            }
            Form::Return => (0, Cut::of_return(queued.at), 0, 0),
            Form::Goodbye => (0, Cut::plain(0), 0, 0),
        };
        if cost > credit {
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
        Some(Plan {
            seq: self.flow.send_next,
            record,
            payload: cut.payload,
            header: self.overhead + cut.extensions,
            resend: false,
            messages,
            cost,
        })
    }

    /// Writes the optional parts of a packet's header.
    #[inline(always)]
    pub(super) fn describe(&self, header: &mut Builder<'_>, record: &Record) {
        match record.form {
            Form::Whole => {
                let whole = self.sources.whole(record.source);
                if record.offset == 0 {
                    if let Some(bits) = whole.match_bits {
                        header.match_bits(bits);
                    }
                    if let Some(data) = whole.immediate {
                        header.immediate(data);
                    }
                }
                if u32::from(record.len) != whole.len {
                    header.fragment(Fragment {
                        offset: record.offset,
                        total: whole.len,
                    });
                }
            }
            Form::Placed => {
                if let Some(placement) = self.sources.whole(record.source).placement {
                    header.placement(Placement {
                        offset: placement.offset + u64::from(record.offset),
                        ..placement
                    });
                }
            }
            Form::Single => {
                let bytes = &self.sources.bytes(record.source)[record.offset as usize..];
                if let Ok((
                    wire::Record {
                        match_bits: Some(bits), ..
                    },
                    _,
                )) = wire::Record::split(bytes)
                {
                    header.match_bits(bits);
                }
            }
            Form::Return => {
                if record.offset > 0 {
                    header.immediate(record.offset.into());
                }
            }
            Form::Bundle | Form::Goodbye => {}
        }
    }
}

#[cold]
#[inline(never)]
fn sum(overhead: usize, room: usize) -> usize {
    overhead + room
}

/// The records from the front of a run that make a packet.
struct Split {
    /// Length in bytes.
    len: usize,
    /// How many, at least one.
    count: u32,
    /// Their cost, in bytes of the credit.
    cost: u64,
    /// The first of them, as a packet of its own.
    first: Cut,
}

/// The records from the front of a run that fit a payload of `room` bytes and the credit. `None`: the credit is too
/// small.
#[inline(always)]
fn split_run(run: &[u8], room: usize, credit: u64, bundle: bool) -> Option<Split> {
    let mut records = Records::new(run);
    let first = records.next()?;
    let (len, cost) = sizes(&first);
    if cost > credit {
        return None;
    }
    let mut split = Split {
        len,
        count: 1,
        cost,
        first: Cut::of_record(&first),
    };
    if len == run.len() {
        return Some(split);
    }
    if bundle {
        split.extend(records, room, credit);
    }
    Some(split)
}

impl Split {
    /// Adds the records that fit, too. (Where it is inlined, the loop has too few registers.)
    #[inline(never)]
    fn extend(&mut self, records: Records<'_>, room: usize, credit: u64) {
        for record in records {
            let (size, cost) = sizes(&record);
            if self.cost + cost > credit || self.len + size > room {
                break;
            }
            self.len += size;
            self.cost += cost;
            self.count += 1;
        }
    }
}

/// Bytes of a record, and its cost.
#[inline(always)]
fn sizes(record: &wire::Record<'_>) -> (usize, u64) {
    let size = wire::Record::header_len(record.match_bits) + record.data.len();
    (size, record.data.len() as u64 + u64::from(MESSAGE_COST))
}

/// The packet is sent for the first time: the queue moves on at `place`, and the packet refers to its source.
#[inline(always)]
pub(super) fn take_from_queue(send: &mut Sender, place: usize, plan: &Plan, sources: &mut Sources) {
    let len = u32::from(plan.record.len);
    send.queued_bytes = send.queued_bytes.saturating_sub(len);
    let Some(queued) = send.queue.get_mut(place) else {
        return;
    };
    // The last packet takes over the queue's own reference.
    if queued.is_ended_by(plan.record.len) {
        send.queue.remove(place);
        return;
    }
    queued.at += len;
    queued.cost += plan.cost;
    if queued.form == Form::Bundle {
        queued.message = queued.message.plus(plan.messages);
    }
    sources.retain(plan.record.source);
}
