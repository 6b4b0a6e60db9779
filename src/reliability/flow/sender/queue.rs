//! What waits to be sent for the first time.

use bytes::Bytes;

use super::{
    super::{
        packet::{Form, Queued},
        source::{NONE, SourceId, Sources, Whole, charge},
    },
    Sender,
};
use crate::{
    config::Config,
    id::SendToken,
    reliability::{Outgoing, Target, credit::MESSAGE_COST},
    span::{Foreign, Span},
    wire::{Placement, Record, Seq},
};

/// So many returns of a flow wait to be sent; more misaddressed packets are put off until there is room.
const MAX_RETURNS: usize = 64;

/// A payload that is referenced until all of it is acknowledged.
pub(crate) trait Queueable {
    fn bytes(&self) -> usize;

    /// Puts it where it stays.
    fn put(self, sources: &mut Sources, whole: Whole, token: SendToken, flow: u32) -> SourceId;
}

impl Queueable for Bytes {
    #[inline(always)]
    fn bytes(&self) -> usize {
        self.len()
    }

    #[inline(always)]
    fn put(self, sources: &mut Sources, whole: Whole, token: SendToken, flow: u32) -> SourceId {
        sources.shared(self, whole, Some(token), flow)
    }
}

/// Bytes in memory that no slice can refer to. With an owner they are referenced there; without one they are copied.
impl Queueable for (Span<'_>, Option<&Foreign>) {
    fn bytes(&self) -> usize {
        self.0.len()
    }

    fn put(self, sources: &mut Sources, whole: Whole, token: SendToken, flow: u32) -> SourceId {
        match self {
            (_, Some(foreign)) => sources.foreign(foreign.clone(), whole, Some(token), flow),
            (bytes, None) => sources.shared(bytes.to_vec().into(), whole, Some(token), flow),
        }
    }
}

/// `room`: bytes that a packet may have beside what is in each.
#[inline(always)]
pub(crate) fn fits_record(config: &Config, room: usize, message: &Outgoing, len: usize) -> bool {
    len + Record::header_len(message.match_bits) <= room && len <= usize::from(config.max_payload)
}

fn whole_of(message: &Outgoing, len: usize, copied: bool) -> Whole {
    Whole {
        len: len as u32,
        match_bits: message.match_bits,
        immediate: message.immediate,
        copied,
        placement: None,
    }
}

impl Sender {
    /// There is no room for a copy of so many bytes.
    #[inline(always)]
    pub(crate) fn is_full_of_copies(&self, len: usize, config: &Config) -> bool {
        self.copied_bytes > 0 && self.copied_bytes as usize + len > config.send_queue_bytes as usize
    }

    /// There is no room for another message by reference.
    #[inline(always)]
    pub(crate) fn is_full_of_shared(&self, config: &Config) -> bool {
        self.shared_messages >= config.send_queue_messages
    }

    /// Copies a small message as a record of a bundle into the block to which the flow appends. Returns its offset there
    /// and its length.
    #[inline]
    pub(super) fn store_record(
        &mut self,
        sources: &mut Sources,
        match_bits: Option<u64>,
        data: Span<'_>,
    ) -> (u32, u32) {
        let need = Record::header_len(match_bits) + data.len();
        let (at, room) = match sources.room_in(self.tail, self.tail_fill, need) {
            Some(room) => room,
            None => (0, self.next_tail(sources, need)),
        };
        let header = Record::emit_header(room, match_bits, data.len() as u16);
        data.copy_to(&mut room[header..]);
        self.tail_fill = at + need as u32;
        self.copied_bytes += need as u32;
        (at, need as u32)
    }

    /// Takes another block to append to. Returns its first `need` bytes.
    #[cold]
    fn next_tail<'a>(&mut self, sources: &'a mut Sources, need: usize) -> &'a mut [u8] {
        let mut least = need;
        if self.tail != NONE {
            if self.copied_bytes > 0 {
                least = least.max(sources.bytes(self.tail).len() + 1);
            }
            sources.release(self.tail);
        }
        // A packet takes records of one block only, so those of a burst shall not be many blocks.
        if least > Sources::BURST {
            least = Sources::MAX_BLOCK;
        }
        self.tail = sources.block(least, Whole::default());
        &mut sources.block_mut(self.tail)[..need]
    }

    /// Copies a small message behind those that wait already.
    #[inline]
    pub(crate) fn append_record(&mut self, sources: &mut Sources, message: &Outgoing, data: Span<'_>, cost: u64) {
        let (at, len) = self.store_record(sources, message.match_bits, data);
        self.queued_bytes = self.queued_bytes.saturating_add(len);
        let cost_end = cost + data.len() as u64 + u64::from(MESSAGE_COST);
        if let Some(last) = self.queue.back_mut()
            && last.form == Form::Bundle
            && last.source == self.tail
            && last.end == at
            && last.next == message.message
            && last.from == message.source
            && last.to == message.destination
            && last.cost_end == cost
        {
            last.end = self.tail_fill;
            last.next = last.next.plus(1);
            last.cost_end = cost_end;
            return;
        }
        sources.retain(self.tail);
        self.queue.push_back(Queued {
            form: Form::Bundle,
            source: self.tail,
            at,
            end: self.tail_fill,
            message: message.message,
            from: message.source,
            to: message.destination,
            cost,
            next: message.message.plus(1),
            cost_end,
        });
    }

    /// Copies a message that takes several packets.
    pub(crate) fn queue_copy(
        &mut self,
        sources: &mut Sources,
        flow: u32,
        message: &Outgoing,
        data: Span<'_>,
        cost: u64,
    ) {
        self.copied_bytes += charge(data.len() as u32);
        let whole = whole_of(message, data.len(), true);
        let source = if data.len() > Sources::MAX_BLOCK {
            sources.shared(data.to_vec().into(), whole, None, flow)
        } else {
            let source = sources.block(data.len(), whole);
            data.copy_to(&mut sources.block_mut(source)[..data.len()]);
            source
        };
        self.push_whole(message, source, data.len(), cost);
    }

    /// Queues a message by reference. `of`: the number of the flow, and the token that names the message.
    #[inline(always)]
    pub(crate) fn queue_shared(
        &mut self,
        sources: &mut Sources,
        of: (u32, SendToken),
        message: &Outgoing,
        data: impl Queueable,
        cost: u64,
    ) {
        let len = data.bytes();
        let source = data.put(sources, whole_of(message, len, false), of.1, of.0);
        self.shared_messages += 1;
        self.push_whole(message, source, len, cost);
    }

    /// Queues a placement of `len` bytes.
    pub(crate) fn queue_placement(
        &mut self,
        sources: &mut Sources,
        of: (u32, SendToken),
        target: &Target,
        data: impl Queueable,
        len: u32,
    ) {
        self.shared_messages += 1;
        self.queued_bytes = self.queued_bytes.saturating_add(len);
        let whole = Whole {
            len,
            placement: Some(Placement {
                region: target.region,
                offset: target.offset,
            }),
            ..Whole::default()
        };
        self.queue.push_back(Queued {
            form: Form::Placed,
            source: data.put(sources, whole, of.1, of.0),
            at: 0,
            end: len,
            message: Seq(target.key),
            from: target.source,
            to: target.destination,
            cost: 0,
            next: Seq(0),
            cost_end: 0,
        });
    }

    /// Queues a goodbye to a processor.
    pub(crate) fn push_goodbye(&mut self, to: u32) {
        self.queue.push_back(Queued {
            form: Form::Goodbye,
            source: NONE,
            at: 0,
            end: 0,
            message: Seq(0),
            from: 0,
            to,
            cost: 0,
            next: Seq(0),
            cost_end: 0,
        });
    }

    /// Queues the report that messages came for a processor that is not here: the first of them is number `message`,
    /// `more` follow. `false`: there is no room for it now.
    pub(crate) fn push_return(&mut self, from: u32, to: u32, message: Seq, more: u32) -> bool {
        let returns = self.queue.iter().take_while(|queued| queued.form == Form::Return);
        let waiting = returns.count();
        if waiting >= MAX_RETURNS {
            return false;
        }
        let returned = Queued {
            form: Form::Return,
            source: NONE,
            at: more,
            end: more,
            message,
            from,
            to,
            cost: 0,
            next: Seq(0),
            cost_end: 0,
        };
        // Before all data, which may have to wait for credit.
        self.queue.insert(waiting, returned);
        true
    }

    #[inline]
    fn push_whole(&mut self, message: &Outgoing, source: SourceId, len: usize, cost: u64) {
        self.queued_bytes = self.queued_bytes.saturating_add(len as u32);
        self.queue.push_back(Queued {
            form: Form::Whole,
            source,
            at: 0,
            end: len as u32,
            message: message.message,
            from: message.source,
            to: message.destination,
            cost,
            next: message.message,
            cost_end: cost,
        });
    }
}
