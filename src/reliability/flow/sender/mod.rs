//! The sending half of a flow: what is queued, what is in flight, and what is to be sent again.

mod immediate;
mod plan;
mod queue;
mod recovery;
mod settle;
mod stripe;
#[cfg(test)]
mod tests;
mod write;

use alloc::{collections::VecDeque, vec::Vec};

pub(in crate::reliability) use self::{
    immediate::Following,
    plan::Lane,
    queue::{Queueable, fits_record},
    recovery::{BLACK_HOLE, Cause, Released},
    write::Filled,
};
use super::{
    bits::Bits,
    congestion::{AnyController, Controller as _},
    packet::{Form, Queued, Record},
    resident::Flow,
    source::{NONE, SourceId, Sources},
};
use crate::{prefetch::Locate, wire::Seq};

/// Time-outs in a row after which a flow has one packet in flight at most, which has to prove that the path is alive.
const CAREFUL: u16 = 2;

/// The state before the first of some time-outs in a row.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Undo {
    /// When it was, ns.
    at: u64,
    congestion: AnyController,
}

/// The sending half.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq))]
pub(crate) struct Sender {
    /// Acknowledged out of order.
    sacked: Bits,
    /// To be sent again.
    lost: Bits,
    /// The last go-back on request: from where and when.
    went_back: (Seq, u64),
    /// Ring of the packets in flight, indexed by sequence number; its length is a power of two.
    records: Vec<Record>,
    queue: VecDeque<Queued>,
    congestion: AnyController,
    /// The window of `congestion` when an event told of it last.
    #[cfg(feature = "tracing")]
    window_reported: u32,
    /// Since when an answer is awaited, ns of active time.
    waiting_since: u64,
    /// The latest-sent packet known to have arrived (RFC 8985): when it was sent, and its number.
    rack_at: u64,
    /// Oldest unacknowledged.
    una: Seq,
    sacked_count: u32,
    lost_count: u32,
    /// Bytes and packets in flight: sent, and neither acknowledged nor lost.
    bytes_in_flight: u32,
    packets_in_flight: u32,
    /// Bytes queued and never sent.
    queued_bytes: u32,
    /// Bytes of copied payload not yet acknowledged, and messages by reference.
    copied_bytes: u32,
    shared_messages: u32,
    /// The block that copied messages are appended to, and how far it is filled.
    tail: SourceId,
    tail_fill: u32,
    /// Consecutive time-outs.
    timeouts: u16,
    /// One past the highest sequence number acknowledged, cumulatively or selectively.
    highest_acked: Seq,
    rack_seq: Seq,
    /// Losses below this belong to one episode.
    recovery_point: Seq,
    /// The network has been seen to reorder.
    reordering: bool,
    /// Burst-then-wait: the burst is out.
    waiting: bool,
    /// One packet may pass although the window is full.
    probe: bool,
    /// What the last time-outs have changed, until it is known whether they were spurious.
    undo: Option<Undo>,
    /// Ask for an acknowledgement by an empty packet before anything else goes.
    ask_beside: bool,
    /// The peer is asked to declare void what is in flight: nothing else goes, and acknowledgements do not count. The
    /// number of the last request, and whether it is to be sent.
    settling: bool,
    settle_due: bool,
    settlement: Seq,
    /// Ask for an acknowledgement with the next packet, or by an empty one.
    want_ack: bool,
    ask_alone: bool,
}

impl Sender {
    pub(crate) fn new(next: Seq, congestion: AnyController) -> Self {
        Self {
            una: next,
            records: Vec::new(),
            sacked: Bits::default(),
            lost: Bits::default(),
            sacked_count: 0,
            lost_count: 0,
            bytes_in_flight: 0,
            packets_in_flight: 0,
            queue: VecDeque::new(),
            queued_bytes: 0,
            copied_bytes: 0,
            shared_messages: 0,
            tail: NONE,
            tail_fill: 0,
            #[cfg(feature = "tracing")]
            window_reported: congestion.window(),
            congestion,
            timeouts: 0,
            waiting_since: 0,
            highest_acked: next,
            rack_at: 0,
            rack_seq: next,
            recovery_point: next,
            reordering: false,
            waiting: false,
            probe: false,
            undo: None,
            ask_beside: false,
            settling: false,
            settle_due: false,
            settlement: Seq(0),
            want_ack: false,
            ask_alone: false,
            went_back: (next, 0),
        }
    }

    /// Begins anew at `next`, keeping its memory. Everything in flight must have been released.
    pub(crate) fn restart(&mut self, next: Seq, congestion: AnyController) {
        let mut fresh = Self::new(next, congestion);
        core::mem::swap(&mut fresh.records, &mut self.records);
        core::mem::swap(&mut fresh.queue, &mut self.queue);
        fresh.queue.clear();
        *self = fresh;
    }

    /// Gives its memory back. Everything in it must have been released.
    pub(crate) fn rest(&mut self, sources: &mut Sources) {
        if self.tail != NONE {
            sources.release(self.tail);
            self.tail = NONE;
        }
        self.shrink();
    }

    /// Releases everything that is queued or in flight.
    pub(crate) fn abandon(&mut self, flow: &Flow, sources: &mut Sources) {
        let next = flow.send_next;
        while self.una.before(next) {
            let source = self.record(self.una).source;
            if source != NONE && !self.sacked.get(self.una) {
                sources.release(source);
            }
            self.una = self.una.plus(1);
        }
        while let Some(queued) = self.queue.pop_front() {
            if queued.source != NONE {
                sources.release(queued.source);
            }
        }
        self.shared_messages = 0;
    }

    // ---- getters

    /// Nothing is in flight.
    #[inline]
    pub(crate) fn is_quiet(&self, flow: &Flow) -> bool {
        self.una == flow.send_next
    }

    /// Something is queued, or not acknowledged, or its memory is still referred to.
    #[inline]
    pub(crate) fn is_busy(&self, flow: &Flow) -> bool {
        self.una != flow.send_next || !self.queue.is_empty() || self.shared_messages > 0
    }

    #[inline]
    pub(crate) fn has_queued(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Something is to be sent again.
    #[inline]
    pub(crate) fn has_lost(&self) -> bool {
        self.lost_count > 0
    }

    /// There are messages by reference.
    pub(crate) fn has_shared(&self) -> bool {
        self.shared_messages > 0
    }

    /// Number of the oldest unacknowledged packet, or the next.
    #[inline]
    pub(crate) fn first_unacknowledged(&self) -> Seq {
        self.una
    }

    /// When the oldest packet in flight was sent last, ns; there is one.
    pub(crate) fn first_sent_at(&self) -> u64 {
        self.record(self.una).sent_at
    }

    /// The congestion window, bytes.
    #[inline(always)]
    pub(crate) fn window(&self) -> u32 {
        self.congestion.window()
    }

    /// Bytes and packets in flight.
    pub(crate) fn in_flight(&self) -> (u32, u32) {
        (self.bytes_in_flight, self.packets_in_flight)
    }

    /// Bytes that have not been sent yet.
    #[inline]
    pub(crate) fn queued_bytes(&self) -> u32 {
        self.queued_bytes
    }

    /// Bytes of copies that are not acknowledged yet.
    #[inline]
    pub(crate) fn copied_bytes(&self) -> u32 {
        self.copied_bytes
    }

    /// The block that copies are appended to, or [`NONE`].
    pub(crate) fn tail(&self) -> SourceId {
        self.tail
    }

    /// Time-outs in a row.
    #[inline]
    pub(crate) fn timeouts(&self) -> u16 {
        self.timeouts
    }

    /// Since when an answer is awaited, ns of active time.
    #[inline]
    pub(crate) fn waiting_since(&self) -> u64 {
        self.waiting_since
    }

    /// An empty packet is to ask for an acknowledgement.
    #[inline]
    pub(crate) fn asks_alone(&self) -> bool {
        self.ask_alone
    }

    /// Passes the processors and the number of the (first) message of each packet that is unacknowledged or queued.
    pub(crate) fn each_pending(&self, flow: &Flow, mut each: impl FnMut((u32, u32), Seq)) {
        let is_message = |form| matches!(form, Form::Single | Form::Bundle | Form::Whole);
        let mut seq = self.una;
        while seq.before(flow.send_next) {
            let record = self.record(seq);
            if is_message(record.form) && !self.sacked.get(seq) {
                each((record.from, record.to), record.message);
            }
            seq = seq.plus(1);
        }
        for queued in self.queue.iter().filter(|queued| is_message(queued.form)) {
            each((queued.from, queued.to), queued.message);
        }
    }

    // ---- commands

    /// An answer is awaited since then, ns of active time; 0: none is.
    #[inline]
    pub(crate) fn wait_since(&mut self, at: u64) {
        self.waiting_since = at;
    }

    /// Asks for an acknowledgement with an empty packet.
    pub(crate) fn ask(&mut self) {
        self.ask_alone = true;
    }

    /// That packet is written.
    pub(crate) fn note_asked(&mut self) {
        self.ask_alone = false;
    }

    /// Asks for an acknowledgement of everything in flight, or with what is queued. Returns whether that needs a packet.
    pub(crate) fn ask_for_all(&mut self, flow: &Flow) -> bool {
        let has_queued = !self.queue.is_empty();
        if self.is_quiet(flow) {
            self.want_ack |= has_queued;
            return false;
        }
        self.want_ack = true;
        self.ask_alone |= !has_queued;
        true
    }

    /// A message by reference is complete.
    pub(crate) fn forget_shared(&mut self) {
        self.shared_messages = self.shared_messages.saturating_sub(1);
    }

    /// Counts another time-out in a row, and returns how many there are.
    pub(crate) fn count_timeout(&mut self) -> u16 {
        self.timeouts = self.timeouts.saturating_add(1);
        self.timeouts
    }

    /// The path works.
    pub(crate) fn forget_timeouts(&mut self) {
        (self.timeouts, self.ask_beside) = (0, false);
    }

    /// Has at most one packet in flight until something is acknowledged.
    pub(crate) fn be_careful(&mut self) {
        self.timeouts = self.timeouts.max(CAREFUL);
    }

    // ---- inner

    /// A window of this many bytes has room for another packet of `len` bytes.
    #[inline]
    fn has_room(&self, window: u32, len: usize) -> bool {
        if self.packets_in_flight == 0 || self.probe {
            return true;
        }
        // After two time-outs in a row a single packet has to prove that the path is alive.
        self.timeouts < CAREFUL && self.bytes_in_flight as usize + len <= window as usize
    }

    /// The same, once a packet of `len` bytes is in flight besides.
    #[inline]
    fn has_room_beyond(&self, window: u32, len: usize) -> bool {
        self.timeouts < CAREFUL && self.bytes_in_flight as usize + 2 * len <= window as usize
    }

    #[inline]
    fn record(&self, seq: Seq) -> &Record {
        &self.records[seq.0 as usize & (self.records.len() - 1)]
    }

    #[inline]
    fn record_mut(&mut self, seq: Seq) -> &mut Record {
        let mask = self.records.len() - 1;
        &mut self.records[seq.0 as usize & mask]
    }

    /// Puts the record of `seq`, one past the packets in flight, growing the ring if needed.
    #[inline(always)]
    fn push_record(&mut self, seq: Seq, record: Record) {
        if seq.distance(self.una) as usize >= self.records.len() {
            self.grow();
        }
        *self.record_mut(seq) = record;
    }

    #[cold]
    fn grow(&mut self) {
        let old_len = self.records.len();
        let new_len = (2 * old_len).max(4);
        let old = core::mem::replace(&mut self.records, alloc::vec![Record::EMPTY; new_len]);
        for n in 0..old_len as u32 {
            let seq = self.una.plus(n);
            *self.record_mut(seq) = old[seq.0 as usize & (old_len - 1)];
        }
    }

    /// Frees the rings if they have grown.
    fn shrink(&mut self) {
        if self.records.len() > 64 {
            self.records = Vec::new();
        }
        if self.queue.capacity() > 64 {
            self.queue = VecDeque::new();
        }
    }
}

/// The records in flight and the queue, if this number is the next to be sent.
impl Locate<Seq> for Sender {
    #[inline]
    fn locate(&self, next: Seq, mut tell: impl FnMut(*const u8, usize)) {
        if self.records.is_empty() {
            return;
        }
        tell((&raw const *self.record(self.una)).cast(), size_of::<Record>());
        tell((&raw const *self.record(next)).cast(), size_of::<Record>());
        let queue = self.queue.as_slices().0;
        tell(queue.as_ptr().cast(), size_of::<Queued>());
    }
}

#[cfg(test)]
impl Sender {
    /// The oldest packet is lost.
    pub(crate) fn lose_first(&mut self) {
        self.mark_lost(self.una);
    }

    /// The oldest packet has been acknowledged selectively.
    pub(crate) fn sack_first(&mut self) {
        self.sacked.set(self.una);
        self.sacked_count = 1;
    }

    pub(crate) fn set_waiting(&mut self) {
        self.waiting = true;
    }

    pub(crate) fn set_probe(&mut self) {
        self.probe = true;
    }

    pub(crate) fn set_timeouts(&mut self, timeouts: u16) {
        self.timeouts = timeouts;
    }

    pub(crate) fn set_want_ack(&mut self, want: bool) {
        self.want_ack = want;
    }

    pub(crate) fn queue_len(&self) -> usize {
        self.queue.len()
    }

    /// Where the record of the oldest packet is.
    pub(crate) fn first_record(&self) -> *const u8 {
        (&raw const *self.record(self.una)).cast()
    }
}
