//! A flow is settled so that what is in flight can be cut anew: the numbers of packets that have not arrived become
//! void, and their content goes back into the queue (`docs/design/wire.md`).

use alloc::{boxed::Box, collections::VecDeque};

use super::{
    Flow, Form, Queued, Receiver, Sender, Settlement,
    source::{SourceId, Sources, Whole, charge},
};
use crate::{
    config::MAX_WINDOW_PACKETS,
    reliability::credit::MESSAGE_COST,
    wire::{MAX_SACK_WORDS, Records, Seq},
};

impl Receiver {
    /// Which packets beyond the next `expected` one have arrived: words of a bitmap, and how many of them are in use.
    pub(in crate::reliability) fn bitmap(&self, expected: Seq) -> ([u64; MAX_SACK_WORDS], usize) {
        let mut words = [0; MAX_SACK_WORDS];
        let first = expected.plus(1);
        let count = self.end.distance(first).div_ceil(64).clamp(1, MAX_SACK_WORDS as u32) as usize;
        for (n, word) in words[..count].iter_mut().enumerate() {
            *word = self.arrived.word_at(first.plus(64 * n as u32));
        }
        // The last word of the ring may include bits of other sequence numbers, beyond the end.
        let beyond = self.end.distance(first.plus(64 * (count as u32 - 1)));
        if beyond < 64 {
            words[count - 1] &= (1 << beyond) - 1;
        }
        (words, count)
    }

    /// Declares void what has not arrived before `until`, unless the same request has done that. `false`: no correct
    /// peer asks for that now.
    pub(in crate::reliability) fn settle(&mut self, flow: &mut Flow, number: Seq, until: Seq) -> bool {
        if self.settlement.as_ref().is_some_and(|done| done.number == number) {
            return true;
        }
        if until.distance(flow.expected) > MAX_WINDOW_PACKETS.into() || self.end.after(until) {
            return false;
        }
        let bitmap = if self.has_gap(flow.expected) {
            self.bitmap(flow.expected)
        } else {
            ([0; MAX_SACK_WORDS], 0)
        };
        self.settlement = Some(Box::new(Settlement {
            number,
            until,
            expected: flow.expected,
            bitmap,
        }));
        let mut seq = flow.expected;
        while seq.before(until) {
            self.arrived.clear(seq);
            self.doubted.clear(seq);
            seq = seq.plus(1);
        }
        (flow.expected, self.end) = (until, until);
        (self.nacked, self.tell_gap) = (None, None);
        true
    }

    /// The peer may not have the answer to its last request yet.
    pub(in crate::reliability) fn is_settling(&self, flow: &Flow) -> bool {
        self.settlement.as_ref().is_some_and(|done| done.until == flow.expected)
    }
}

impl Sender {
    /// A packet in flight has more than `most` bytes of content.
    pub(in crate::reliability) fn exceeds(&self, flow: &Flow, most: usize) -> bool {
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
    pub(in crate::reliability) fn requeue(&mut self, flow: &Flow, sources: &mut Sources, room: usize) {
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
    pub(in crate::reliability) fn cut_queue(&mut self, sources: &mut Sources, room: usize) {
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
            if len + 8 * usize::from(bits.is_some()) > room {
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
