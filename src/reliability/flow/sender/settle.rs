//! What is in flight is cut anew: its numbers become void, and its content goes back into the queue
//! (`docs/design/wire.md`).

use alloc::collections::VecDeque;

use super::{
    super::{
        packet::{Form, Queued},
        resident::Flow,
        source::{SourceId, Sources, Whole, charge},
    },
    Sender,
};
use crate::{
    reliability::{credit::MESSAGE_COST, packet_builder::message::of_record},
    wire::{Records, Seq},
};

impl Sender {
    // ---- the request

    /// The peer is asked to declare void what is in flight: nothing else goes, and acknowledgements do not count.
    #[inline]
    pub(crate) fn is_settling(&self) -> bool {
        self.settling
    }

    /// A packet without content goes before everything else.
    #[inline]
    pub(crate) fn owes_beside(&self) -> bool {
        self.settle_due || self.ask_beside
    }

    /// Asks for an acknowledgement by an empty packet before anything else goes.
    pub(crate) fn ask_before_all(&mut self) {
        self.ask_beside = true;
    }

    /// That packet goes now.
    pub(crate) fn ask_now(&mut self) {
        (self.ask_beside, self.ask_alone) = (false, true);
    }

    /// Begins to ask the peer to declare void what is in flight.
    pub(crate) fn begin_settling(&mut self, now: u64) {
        // Another number than those before, be they as old as they may.
        let by_clock = Seq((now >> 20) as u32);
        self.settlement = if by_clock.after(self.settlement) {
            by_clock
        } else {
            self.settlement.plus(1)
        };
        (self.settling, self.settle_due) = (true, true);
        // No fast path takes in an acknowledgement, or sends.
        (self.waiting, self.timeouts) = (true, self.timeouts.max(1));
        self.undo = None;
    }

    /// Asks again.
    pub(crate) fn repeat_settle(&mut self) {
        self.settle_due = true;
    }

    /// The number of the request that goes now, if one is to go.
    pub(crate) fn take_settle(&mut self) -> Option<Seq> {
        let is_due = core::mem::take(&mut self.settle_due);
        is_due.then_some(self.settlement)
    }

    /// This request is waited for.
    pub(crate) fn awaits_settled(&self, number: Seq) -> bool {
        self.settling && number == self.settlement
    }

    /// It is answered.
    pub(crate) fn end_settling(&mut self) {
        (self.settling, self.settle_due) = (false, false);
    }

    // ---- what was in flight

    /// A packet in flight has more than `most` bytes of content.
    pub(crate) fn exceeds(&self, flow: &Flow, most: usize) -> bool {
        let mut seq = self.una;
        while let Some(open) = self.sacked.first_clear(seq, flow.send_next) {
            if usize::from(self.record(open).len) > most {
                return true;
            }
            seq = open.plus(1);
        }
        false
    }

    /// The peer has declared void all numbers in flight: what it has not acknowledged goes back to the front of the
    /// queue, in pieces that fit `room` bytes beside the fixed part of a header. It takes no more credit.
    pub(crate) fn requeue(&mut self, flow: &Flow, sources: &mut Sources, room: usize) {
        let next = flow.send_next;
        let returns = self
            .queue
            .iter()
            .take_while(|queued| queued.form == Form::Return)
            .count();
        let mut queue: VecDeque<Queued> = self.queue.drain(..returns).collect();
        let mut seq = self.una;
        while seq.before(next) {
            if !self.sacked.get(seq) {
                let record = *self.record(seq);
                self.queued_bytes = self.queued_bytes.saturating_add(record.len.into());
                queue.push_back(Queued {
                    form: match record.form {
                        Form::Single => Form::Bundle,
                        form => form,
                    },
                    source: record.source,
                    at: record.offset,
                    end: record.offset + u32::from(record.len),
                    message: record.message,
                    from: record.from,
                    to: record.to,
                    cost: 0,
                    next: record.message,
                    cost_end: 0,
                });
            }
            self.sacked.clear(seq);
            self.lost.clear(seq);
            seq = seq.plus(1);
        }
        queue.append(&mut self.queue);
        self.queue = queue;
        self.una = next;
        (self.highest_acked, self.rack_seq, self.recovery_point) = (next, next, next);
        self.went_back = (next, 0);
        (self.sacked_count, self.lost_count) = (0, 0);
        (self.bytes_in_flight, self.packets_in_flight) = (0, 0);
        (self.waiting, self.probe) = (false, false);
        (self.timeouts, self.undo) = (0, None);
        self.cut_queue(sources, room);
    }

    /// Makes messages of their own of the queued records that do not fit `room` bytes, so that they can be cut.
    pub(crate) fn cut_queue(&mut self, sources: &mut Sources, room: usize) {
        let mut place = 0;
        while let Some(&queued) = self.queue.get(place) {
            let found = match queued.form {
                Form::Single | Form::Bundle => Large::find(&queued, sources, room),
                _ => None,
            };
            let Some(large) = found else {
                place += 1;
                continue;
            };
            self.queue.remove(place);
            for piece in self.take_out(&queued, &large, sources).into_iter().flatten() {
                self.queue.insert(place, piece);
                place += 1;
            }
            // What follows the large record is looked at next.
            place -= usize::from(large.end < queued.end);
        }
    }

    /// Cuts a run of records around a large one, which becomes a message of its own.
    fn take_out(&mut self, queued: &Queued, large: &Large, sources: &mut Sources) -> [Option<Queued>; 3] {
        let len = large.data.len() as u32;
        let whole = Whole {
            len,
            match_bits: large.match_bits,
            copied: true,
            ..Whole::default()
        };
        let data = sources.bytes(queued.source)[large.data.clone()].to_vec();
        let source = sources.block(data.len(), whole);
        sources.block_mut(source)[..data.len()].copy_from_slice(&data);
        let record = large.end - large.at;
        self.copied_bytes = self.copied_bytes - record + charge(len);
        self.queued_bytes = self.queued_bytes.saturating_sub(record).saturating_add(len);
        let number = queued.message.plus(large.before);
        let cost_end = large.cost + u64::from(len + MESSAGE_COST);
        let before = Queued {
            end: large.at,
            next: number,
            cost_end: large.cost,
            ..*queued
        };
        let alone = Queued {
            form: Form::Whole,
            source,
            at: 0,
            end: len,
            message: number,
            cost: large.cost,
            next: number,
            cost_end: large.cost,
            ..*queued
        };
        let after = Queued {
            at: large.end,
            message: number.plus(1),
            cost: cost_end,
            ..*queued
        };
        let pieces = [
            (before.at < before.end).then_some(before),
            Some(alone),
            (after.at < after.end).then_some(after),
        ];
        share(
            sources,
            queued.source,
            usize::from(pieces[0].is_some()) + usize::from(pieces[2].is_some()),
        );
        pieces
    }
}

/// So many refer to a source to which one has referred.
fn share(sources: &mut Sources, source: SourceId, references: usize) {
    match references {
        0 => drop(sources.release(source)),
        1 => {}
        _ => sources.retain(source),
    }
}

/// A record that does not fit a packet.
struct Large {
    /// Range in the source, and the range of its data.
    at: u32,
    end: u32,
    data: core::ops::Range<usize>,
    match_bits: Option<u64>,
    /// Records before it in its run, and the credit offset of its message.
    before: u32,
    cost: u64,
}

impl Large {
    /// The first of a run.
    fn find(run: &Queued, sources: &Sources, room: usize) -> Option<Self> {
        let bytes = &sources.bytes(run.source)[run.at as usize..run.end as usize];
        let (mut at, mut cost) = (run.at, run.cost);
        for (before, record) in Records::new(bytes).enumerate() {
            let (len, bits) = (record.data.len(), record.match_bits);
            let header = crate::wire::Record::header_len(bits);
            let end = at + (header + len) as u32;
            if len + of_record(bits) > room {
                return Some(Self {
                    at,
                    end,
                    data: at as usize + header..end as usize,
                    match_bits: bits,
                    before: before as u32,
                    cost,
                });
            }
            at = end;
            cost += len as u64 + u64::from(MESSAGE_COST);
        }
        None
    }
}
