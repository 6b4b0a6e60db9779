//! A flow: one channel of a session, with its own sequence numbers.
//!
//! [`Flow`] is resident; [`Active`] exists only while something is going on.

use alloc::{boxed::Box, collections::VecDeque, vec::Vec};

pub(crate) mod bits;
pub mod congestion;
pub(crate) mod mtu;
pub(crate) mod plan;
pub(crate) mod recovery;
pub(crate) mod rtt;
mod settle;
pub(crate) mod source;
pub(crate) mod window;
mod write;

use self::{
    bits::Bits,
    congestion::AnyController,
    rtt::Rtt,
    source::{NONE, SourceId},
};
use crate::{
    config::Config,
    prefetch::Locate,
    reliability::timers::Deadlines,
    wire::{Flags, MAX_SACK_WORDS, Seq, Timestamp},
};

/// The resident part.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq))]
pub(crate) struct Flow {
    pub(crate) peer: u32,
    /// The peer's next flow.
    pub(crate) next: u32,
    /// Index of the active part, or [`NONE`].
    pub(crate) active: u32,
    /// Next sequence number to send.
    pub(crate) send_next: Seq,
    /// Next sequence number expected.
    pub(crate) expected: Seq,
    pub(crate) rtt: Rtt,
    pub(crate) channel: u8,
}

impl Flow {
    /// `send_next`, `expected`: see [`first_sequence`].
    pub(crate) fn new(peer: u32, channel: u8, send_next: Seq, expected: Seq) -> Self {
        Self {
            peer,
            next: NONE,
            active: NONE,
            send_next,
            expected,
            rtt: Rtt::default(),
            channel,
        }
    }
}

/// The sequence number that a sender begins a flow with, from its epoch and the secret that it issued for the session:
/// both sides know them. Packets of another session are then far outside of the window even if their token should
/// happen to be the same.
pub(crate) fn first_sequence(epoch: u64, secret: u64, channel: u8) -> Seq {
    let word = epoch ^ secret.rotate_left(20) ^ u64::from(channel);
    Seq((word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32)
}

/// The kind of content of a sent packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// One record of a block: sent plain, without the record's header.
    Single,
    /// Several records of a block.
    Bundle,
    /// A message that is not bundled, or a fragment of it.
    Whole,
    /// A placement: bytes for one of the peer's regions.
    Placed,
    /// A goodbye.
    Goodbye,
    /// A report of messages for processors that are not here; `offset` is how many beyond the first.
    Return,
}

/// A packet that has been sent and not yet acknowledged. Never holds bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Record {
    /// When it was last sent, ns.
    pub(crate) sent_at: u64,
    pub(crate) source: SourceId,
    pub(crate) offset: u32,
    /// Bytes at the source (record headers included).
    pub(crate) len: u16,
    pub(crate) resends: u8,
    pub(crate) form: Form,
    pub(crate) message: Seq,
    /// Processors.
    pub(crate) from: u32,
    pub(crate) to: u32,
}

impl Record {
    pub(crate) const EMPTY: Self = Self {
        sent_at: 0,
        source: NONE,
        offset: 0,
        len: 0,
        resends: 0,
        form: Form::Goodbye,
        message: Seq(0),
        from: 0,
        to: 0,
    };
}

/// Something that waits to be sent for the first time, or the rest of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Queued {
    /// [`Form::Bundle`]: records back to back in a block, of one pair of processors; [`Form::Whole`];
    /// [`Form::Placed`]; [`Form::Goodbye`]; [`Form::Return`], before everything else.
    pub(crate) form: Form,
    pub(crate) source: SourceId,
    /// The rest is the source's range from here …
    pub(crate) at: u32,
    /// … to here.
    pub(crate) end: u32,
    /// Number of the first message that is left; the key of a region.
    pub(crate) message: Seq,
    /// Processors.
    pub(crate) from: u32,
    pub(crate) to: u32,
    /// Credit offset of the rest ([`Peer::cost_queued`](crate::reliability::peer::Peer::cost_queued)); 0 if it takes no credit.
    pub(crate) cost: u64,
    /// Number and place of the message that may be appended (records only).
    pub(crate) next: Seq,
    pub(crate) cost_end: u64,
}

impl Queued {
    /// A packet with the next `len` bytes is its last.
    #[inline]
    pub(crate) fn is_ended_by(&self, len: u16) -> bool {
        self.at + u32::from(len) == self.end
    }

    /// It may go only as far as the peer's credit reaches. (A placement takes none: the peer that granted the region
    /// has its memory.)
    #[inline]
    pub(crate) fn takes_credit(&self) -> bool {
        matches!(self.form, Form::Bundle | Form::Whole)
    }
}

/// The state before the first of some time-outs in a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Undo {
    /// When it was, ns.
    pub(crate) at: u64,
    pub(crate) congestion: AnyController,
}

/// The sending half.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq))]
pub(crate) struct Sender {
    /// Acknowledged out of order.
    pub(crate) sacked: Bits,
    /// To be sent again.
    pub(crate) lost: Bits,
    /// The last go-back on request: from where and when.
    pub(crate) went_back: (Seq, u64),
    /// Ring of the packets in flight, indexed by sequence number; its length is a power of two.
    records: Vec<Record>,
    pub(crate) queue: VecDeque<Queued>,
    pub(crate) congestion: AnyController,
    /// The window of `congestion` when an event told of it last.
    #[cfg(feature = "tracing")]
    pub(crate) window_told: u32,
    /// Since when an answer is awaited, ns of active time.
    pub(crate) waiting_since: u64,
    /// The latest-sent packet known to have arrived (RFC 8985): when it was sent, and its number.
    pub(crate) rack_at: u64,
    /// Oldest unacknowledged.
    pub(crate) una: Seq,
    pub(crate) sacked_count: u32,
    pub(crate) lost_count: u32,
    /// Bytes and packets in flight: sent, and neither acknowledged nor lost.
    pub(crate) bytes_in_flight: u32,
    pub(crate) packets_in_flight: u32,
    /// Bytes queued and never sent.
    pub(crate) queued_bytes: u32,
    /// Bytes of copied payload not yet acknowledged, and messages by reference.
    pub(crate) copied_bytes: u32,
    pub(crate) shared_messages: u32,
    /// The block that copied messages are appended to, and how far it is filled.
    pub(crate) tail: SourceId,
    pub(crate) tail_fill: u32,
    /// Consecutive time-outs.
    pub(crate) timeouts: u16,
    /// One past the highest sequence number acknowledged, cumulatively or selectively.
    pub(crate) highest_acked: Seq,
    pub(crate) rack_seq: Seq,
    /// Losses below this belong to one episode.
    pub(crate) recovery_point: Seq,
    /// The network has been seen to reorder.
    pub(crate) reordering: bool,
    /// Burst-then-wait: the burst is out.
    pub(crate) waiting: bool,
    /// One packet may pass although the window is full.
    pub(crate) probe: bool,
    /// What the last time-outs have changed, until it is known whether they were spurious.
    pub(crate) undo: Option<Undo>,
    /// Ask for an acknowledgement by an empty packet before anything else goes.
    pub(crate) ask_beside: bool,
    /// The peer is asked to declare void what is in flight: nothing else goes, and acknowledgements do not count. The
    /// number of the last request, and whether it is to be sent.
    pub(crate) settling: bool,
    pub(crate) settle_due: bool,
    pub(crate) settlement: Seq,
    /// Ask for an acknowledgement with the next packet, or by an empty one.
    pub(crate) want_ack: bool,
    pub(crate) ask_alone: bool,
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
            window_told: congestion::Controller::window(&congestion),
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

    /// All that an acknowledgement up to `ack` takes is to release packets in order, if any.
    #[inline(always)]
    pub(crate) fn is_acknowledged_in_order(&self, flow: &Flow, ack: Seq) -> bool {
        self.sacked_count == 0
            && (ack == self.una
                || self.lost_count == 0
                    && self.timeouts == 0
                    && self.queue.is_empty()
                    && ack.after(self.una)
                    && !ack.after(flow.send_next))
    }

    /// A window of this many bytes has room for another packet of `len` bytes.
    #[inline]
    pub(crate) fn has_room(&self, window: u32, len: usize) -> bool {
        if self.packets_in_flight == 0 || self.probe {
            return true;
        }
        // After two time-outs in a row a single packet has to prove that the path is alive.
        self.timeouts < 2 && self.bytes_in_flight as usize + len <= window as usize
    }

    #[inline]
    pub(crate) fn record(&self, seq: Seq) -> &Record {
        &self.records[seq.0 as usize & (self.records.len() - 1)]
    }

    #[inline]
    pub(crate) fn record_mut(&mut self, seq: Seq) -> &mut Record {
        let mask = self.records.len() - 1;
        &mut self.records[seq.0 as usize & mask]
    }

    /// Puts the record of `seq`, one past the packets in flight, growing the ring if needed.
    #[inline(always)]
    pub(crate) fn push_record(&mut self, seq: Seq, record: Record) {
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
    pub(crate) fn shrink(&mut self) {
        if self.records.len() > 64 {
            self.records = Vec::new();
        }
        if self.queue.capacity() > 64 {
            self.queue = VecDeque::new();
        }
    }
}

/// The answer to a request to settle. It is kept, because it may have to be given again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::reliability) struct Settlement {
    /// Number of the request.
    pub(in crate::reliability) number: Seq,
    /// Numbers before this are void.
    pub(in crate::reliability) until: Seq,
    /// What had arrived before: the next number expected, and the bitmap of those beyond.
    pub(in crate::reliability) expected: Seq,
    pub(in crate::reliability) bitmap: ([u64; MAX_SACK_WORDS], usize),
}

/// The receiving half.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone, PartialEq))]
pub(crate) struct Receiver {
    /// Packets received beyond the next expected one.
    pub(crate) arrived: Bits,
    /// Packets for processors that are not here, dropped once: what comes a second time was meant so.
    pub(crate) doubted: Bits,
    /// One past the highest sequence number that has arrived.
    pub(crate) end: Seq,
    /// Arrived and not yet acknowledged.
    pub(crate) unacked_bytes: u32,
    pub(crate) unacked_packets: u32,
    /// Acknowledge with the next poll.
    pub(crate) ack_now: bool,
    /// … and request the missing packets.
    pub(crate) nack_now: bool,
    /// … in a packet of its own, to announce new credit.
    pub(crate) tell_credit: bool,
    /// Answer the last request to settle.
    pub(crate) tell_settled: bool,
    pub(in crate::reliability) settlement: Option<Box<Settlement>>,
    /// The gap that was asked for last begins here, and has been asked for.
    pub(crate) nacked: Option<Seq>,
    /// Acknowledge when this packet or a later one has arrived: a new gap is then taken for a loss.
    pub(crate) tell_gap: Option<Seq>,
    /// Latest timestamp received and when, ns; 0: none.
    pub(crate) stamp: u32,
    pub(crate) stamp_at: u64,
    /// The last period in which placements were received ([`Placers`]); 0: none.
    pub(crate) placed: u64,
    /// Acknowledgements are seen to be lost: they go 2 to the power of this times as often, and each is repeated until
    /// it has gone as many times.
    pub(crate) urgency: u8,
    /// So many repetitions are left of the last acknowledgement.
    pub(crate) repetitions: u8,
    /// Acknowledgements that were written since `urgency` changed.
    pub(crate) calm: u8,
}

/// Most that [`Receiver::urgency`] can be: an acknowledgement goes 32 times, which outlasts 90 % of loss.
const MAX_URGENCY: u8 = 5;
/// After so many acknowledgements without a sign of loss, half as many are enough.
const CALM: u8 = 128;

impl Receiver {
    /// Something has arrived beyond a gap.
    #[inline]
    pub(crate) fn has_gap(&self, expected: Seq) -> bool {
        self.end.after(expected)
    }

    /// The packet with this number is the next one, and none beyond it has arrived.
    #[inline(always)]
    pub(crate) fn is_next(&self, flow: &Flow, sequence: Seq) -> bool {
        sequence == flow.expected && self.end == flow.expected
    }

    /// The next packet has been delivered: `len` bytes of payload.
    #[inline(always)]
    pub(crate) fn note_next(&mut self, flow: &mut Flow, now: u64, len: u32, stamp: Option<Timestamp>) {
        self.unacked_bytes += len;
        self.unacked_packets += 1;
        if let Some(stamp) = stamp
            && stamp.value != 0
        {
            (self.stamp, self.stamp_at) = (stamp.value, now);
        }
        flow.expected = flow.expected.plus(1);
        self.end = flow.expected;
    }

    /// An acknowledgement is due at once: packets with these flags request it, or `bytes` bytes or a quarter of a
    /// window have arrived.
    #[inline]
    pub(crate) fn is_due(&self, flags: Flags, config: &Config, bytes: u32) -> bool {
        flags.contains(Flags::ACK_REQUEST)
            || self.unacked_bytes >= bytes >> self.urgency
            || self.unacked_packets >= u32::from(config.window_packets).div_ceil(4).max(2) >> self.urgency
    }

    /// The peer has sent something again that has arrived: it does not get our acknowledgements, or not in time
    /// (RFC 9000, 13.2; RFC 5681, 4.2 has one for every two packets).
    pub(crate) fn note_lost_acknowledgement(&mut self) {
        self.urgency = (self.urgency + 1).min(MAX_URGENCY);
        self.repetitions = 1 << self.urgency;
        self.calm = 0;
    }

    /// An acknowledgement has been written. Returns whether it is to be repeated if nothing new comes.
    #[inline]
    pub(crate) fn note_acknowledged(&mut self) -> bool {
        let news = self.unacked_packets > 0;
        self.ack_now = false;
        self.unacked_bytes = 0;
        self.unacked_packets = 0;
        self.urgency > 0 && self.repeat(news)
    }

    /// `news`: the acknowledgement was the first of something.
    #[cold]
    fn repeat(&mut self, news: bool) -> bool {
        self.calm += 1;
        if self.calm >= CALM {
            self.urgency -= 1;
            self.calm = 0;
        }
        if news {
            self.repetitions = 1 << self.urgency;
        }
        self.repetitions = self.repetitions.saturating_sub(1);
        self.repetitions > 0
    }
}

/// The part of a flow that exists while something is going on.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq))]
pub(crate) struct Active {
    pub(crate) flow: u32,
    pub(crate) send: Sender,
    pub(crate) receive: Receiver,
    pub(crate) deadlines: Deadlines,
    /// When something was last sent or received, ns.
    pub(crate) last_use: u64,
    /// In the list of those that may have something to send.
    pub(crate) ready: bool,
    /// In the list of bulk flows, and the bytes left of its turn there.
    pub(crate) bulk: bool,
    pub(crate) turn: u32,
    /// Has something queued or unacknowledged.
    pub(crate) busy: bool,
    /// The search for the path MTU (channel 0).
    pub(crate) probe: mtu::Search,
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
