//! The receiving half of a flow: what has arrived, and what is to be acknowledged.

mod settle;

use alloc::boxed::Box;

use super::{bits::Bits, packet::DUPLICATE_THRESHOLD, resident::Flow};
use crate::{
    config::Config,
    wire::{Flags, MAX_SACK_WORDS, Seq, Timestamp},
};

/// The answer to a request to settle. It is kept, because it may have to be given again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Settlement {
    /// Number of the request.
    pub(crate) number: Seq,
    /// Numbers before this are void.
    until: Seq,
    /// What had arrived before: the next number expected, and the bitmap of those beyond.
    pub(crate) expected: Seq,
    pub(crate) bitmap: ([u64; MAX_SACK_WORDS], usize),
}

/// The receiving half.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone, PartialEq))]
pub(crate) struct Receiver {
    /// Packets received beyond the next expected one.
    arrived: Bits,
    /// Packets for processors that are not here, dropped once: what comes a second time was meant so.
    doubted: Bits,
    /// One past the highest sequence number that has arrived.
    end: Seq,
    /// Arrived and not yet acknowledged.
    unacked_bytes: u32,
    unacked_packets: u32,
    /// Acknowledge with the next poll.
    ack_now: bool,
    /// … and request the missing packets.
    nack_now: bool,
    /// … in a packet of its own, to announce new credit.
    tell_credit: bool,
    /// Answer the last request to settle.
    tell_settled: bool,
    settlement: Option<Box<Settlement>>,
    /// The gap that was asked for last begins here, and has been asked for.
    nacked: Option<Seq>,
    /// Acknowledge when this packet or a later one has arrived: a new gap is then taken for a loss.
    tell_gap: Option<Seq>,
    /// Latest timestamp received and when, ns; 0: none.
    stamp: u32,
    stamp_at: u64,
    /// The last period in which placements were received ([`Placers`](super::window::Placers)); 0: none.
    placed: u64,
    /// Acknowledgements are seen to be lost: they go 2 to the power of this times as often, and each is repeated until
    /// it has gone as many times.
    urgency: u8,
    /// So many repetitions are left of the last acknowledgement.
    repetitions: u8,
    /// Acknowledgements that were written since `urgency` changed.
    calm: u8,
}

/// Most that [`Receiver::urgency`] can be: an acknowledgement goes 32 times, which outlasts 90 % of loss.
const MAX_URGENCY: u8 = 5;
/// After so many acknowledgements without a sign of loss, half as many are enough.
const CALM: u8 = 128;

/// A timestamp is echoed for so long, ns: beyond, its 32 bits could be mistaken.
const STAMP_AGE: u64 = 1_000_000_000;

impl Receiver {
    /// Of a flow in which nothing has arrived yet beyond the next packet.
    pub(crate) fn new(flow: &Flow) -> Self {
        Self {
            end: flow.expected,
            ..Self::default()
        }
    }

    // ---- getters

    /// Something has arrived beyond a gap.
    #[inline]
    pub(crate) fn has_gap(&self, flow: &Flow) -> bool {
        self.end.after(flow.expected)
    }

    /// This packet has arrived beyond a gap.
    pub(crate) fn has_arrived(&self, sequence: Seq) -> bool {
        self.arrived.get(sequence)
    }

    /// Packets have arrived that are not acknowledged.
    pub(crate) fn has_unacknowledged(&self) -> bool {
        self.unacked_packets > 0
    }

    /// An acknowledgement is due, which data can carry.
    #[inline]
    pub(crate) fn owes_ack(&self) -> bool {
        self.ack_now
    }

    /// Something is due that only a packet of its own can carry: a request, credit, or the answer to a settle.
    #[inline]
    pub(crate) fn owes_more(&self) -> bool {
        self.nack_now || self.tell_credit || self.tell_settled
    }

    /// The gap has been asked for.
    pub(crate) fn has_asked(&self, flow: &Flow) -> bool {
        self.nacked == Some(flow.expected)
    }

    /// The peer is asked for its missing packets now.
    pub(crate) fn asks(&self) -> bool {
        self.nack_now
    }

    /// The last period in which placements were received; 0: none.
    pub(crate) fn placed(&self) -> u64 {
        self.placed
    }

    /// The timestamp of a packet that is sent now.
    #[inline]
    pub(crate) fn timestamp(&self, now: u64, config: &Config) -> Option<Timestamp> {
        if !config.timestamps {
            return None;
        }
        let held = now.saturating_sub(self.stamp_at);
        let echo = if self.stamp == 0 || held > STAMP_AGE {
            0
        } else {
            self.stamp.wrapping_add(held as u32) | 1
        };
        Some(Timestamp {
            value: now as u32 | 1,
            echo,
        })
    }

    /// Which packets beyond the next one have arrived: words of a bitmap, and how many of them are in use.
    pub(crate) fn bitmap(&self, flow: &Flow) -> ([u64; MAX_SACK_WORDS], usize) {
        let mut words = [0; MAX_SACK_WORDS];
        let first = flow.expected.plus(1);
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

    // ---- what arrives

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

    /// The peer begins anew; nothing has arrived.
    pub(crate) fn begin(&mut self, flow: &Flow) {
        self.end = flow.expected;
    }

    /// So many packets have been taken, the last of which has this timestamp.
    #[inline(always)]
    pub(crate) fn note_taken(&mut self, packets: u32, bytes: u32, now: u64, stamp: Option<Timestamp>) {
        self.unacked_bytes += bytes;
        self.unacked_packets += packets;
        if let Some(stamp) = stamp
            && stamp.value != 0
        {
            (self.stamp, self.stamp_at) = (stamp.value, now);
        }
    }

    /// Everything before `expected` has arrived, and nothing beyond.
    #[inline(always)]
    pub(crate) fn move_on(&mut self, flow: &mut Flow, expected: Seq) {
        flow.expected = expected;
        self.end = expected;
    }

    /// A packet for a processor that is not here is dropped and doubted. `false`: it was before.
    pub(crate) fn doubt(&mut self, sequence: Seq) -> bool {
        let is_new = !self.doubted.get(sequence);
        self.doubted.set(sequence);
        is_new
    }

    /// The next packet has arrived, and others beyond it have before. Returns whether the last gap is closed.
    pub(crate) fn fill_gap(&mut self, flow: &mut Flow) -> bool {
        self.doubted.clear(flow.expected);
        flow.expected = flow.expected.plus(1);
        while self.arrived.get(flow.expected) {
            self.arrived.clear(flow.expected);
            flow.expected = flow.expected.plus(1);
        }
        let is_closed = !self.has_gap(flow);
        if is_closed {
            self.nacked = None;
        }
        is_closed
    }

    /// A packet beyond a gap has arrived and is kept. Returns whether so many have by now that the gap is a loss.
    pub(crate) fn note_beyond_gap(&mut self, sequence: Seq) -> bool {
        self.doubted.clear(sequence);
        self.arrived.set(sequence);
        if sequence.after(self.end) {
            self.tell_gap = Some(sequence.plus(DUPLICATE_THRESHOLD - 1));
        }
        if !sequence.before(self.end) {
            self.end = sequence.plus(1);
        }
        self.tell_gap.is_some_and(|at| !sequence.before(at))
    }

    /// A packet beyond a gap has arrived and is not kept.
    pub(crate) fn note_gap(&mut self, sequence: Seq) {
        let end = sequence.plus(1);
        if end.after(self.end) {
            self.end = end;
        }
    }

    /// Placements have been received in this period.
    pub(crate) fn note_placed(&mut self, period: u64) {
        self.placed = period;
    }

    // ---- what is due

    /// Acknowledges with the next packet.
    #[inline(always)]
    pub(crate) fn acknowledge(&mut self) {
        self.ack_now = true;
    }

    /// An acknowledgement tells of the gap.
    pub(crate) fn forget_gap(&mut self) {
        self.tell_gap = None;
    }

    /// Announces credit in a packet of its own.
    pub(crate) fn announce_credit(&mut self) {
        self.tell_credit = true;
    }

    /// Asks for the gap, if there is one that has not been asked for. Returns whether it does.
    pub(crate) fn ask_for_gap(&mut self, flow: &Flow) -> bool {
        let asks = self.has_gap(flow) && !self.has_asked(flow);
        if asks {
            self.nacked = Some(flow.expected);
            self.nack_now = true;
        }
        asks
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

    /// A packet of its own has been written, with credit, and the request if there was one.
    pub(crate) fn note_told(&mut self) {
        self.nack_now = false;
        self.tell_credit = false;
    }
}

#[cfg(test)]
impl Receiver {
    /// Asks for missing packets with the next packet.
    pub(crate) fn set_asks(&mut self) {
        self.nack_now = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn half() -> (Flow, Receiver) {
        let flow = Flow::new(0, crate::reliability::flow::FlowKey::FIRST, Seq(0), Seq(u32::MAX));
        let receive = Receiver::new(&flow);
        (flow, receive)
    }

    /// The number so far behind the first.
    fn number(ahead: u32) -> Seq {
        Seq(u32::MAX).plus(ahead)
    }

    #[test]
    fn the_bitmap_says_what_has_arrived_until_the_gap_is_filled() {
        let (mut flow, mut receive) = half();
        for ahead in [2, 4, 70] {
            receive.note_beyond_gap(number(ahead));
        }
        let bitmap = |receive: &Receiver, flow: &Flow| {
            let (words, count) = receive.bitmap(flow);
            words[..count].to_vec()
        };
        assert_eq!(bitmap(&receive, &flow), [0b1010, 1 << 5]);
        assert!(receive.has_arrived(number(4)) && !receive.has_arrived(number(3)));
        for (ahead, expected) in [(0, 1), (1, 3), (3, 5)] {
            assert_eq!(flow.expected(), number(ahead));
            assert!(!receive.fill_gap(&mut flow), "there is another gap");
            assert_eq!(flow.expected(), number(expected));
        }
        // Of number 70 after 6.
        assert_eq!(bitmap(&receive, &flow), [0, 1]);
    }

    #[test]
    fn the_third_packet_beyond_a_gap_tells_of_it() {
        let (_, mut receive) = half();
        let told = [2, 3, 4].map(|ahead| receive.note_beyond_gap(number(ahead)));
        assert_eq!(told, [false, false, true]);
        receive.forget_gap();
        assert!(!receive.note_beyond_gap(number(5)), "it is told once");
    }

    #[test]
    fn a_gap_is_asked_for_once() {
        let (mut flow, mut receive) = half();
        assert!(!receive.ask_for_gap(&flow), "there is none");
        receive.note_beyond_gap(number(1));
        assert!(receive.ask_for_gap(&flow) && receive.asks() && receive.has_asked(&flow));
        assert!(!receive.ask_for_gap(&flow));
        assert!(receive.fill_gap(&mut flow));
        receive.note_beyond_gap(number(3));
        assert!(receive.ask_for_gap(&flow), "another gap");
    }

    #[test]
    fn acknowledgements_are_due_by_request_by_bytes_and_by_packets() {
        let config = Config::default();
        let (_, mut receive) = half();
        assert!(receive.is_due(Flags::ACK_REQUEST, &config, 100));
        receive.note_taken(1, 99, 0, None);
        assert!(!receive.is_due(Flags::empty(), &config, 100));
        receive.note_taken(1, 1, 0, None);
        assert!(receive.is_due(Flags::empty(), &config, 100));
        receive.note_acknowledged();
        receive.note_taken(u32::from(config.window_packets), 0, 0, None);
        assert!(receive.is_due(Flags::empty(), &config, 100));
    }

    #[test]
    fn a_timestamp_is_echoed_with_the_time_that_it_was_held() {
        let config = Config {
            timestamps: true,
            ..Config::default()
        };
        let (_, mut receive) = half();
        let echo = |receive: &Receiver, now| receive.timestamp(now, &config).map(|stamp| stamp.echo);
        assert_eq!(echo(&receive, 100), Some(0), "there is none");
        receive.note_taken(1, 0, 100, Some(Timestamp { value: 7, echo: 0 }));
        assert_eq!(echo(&receive, 150), Some(57));
        assert_eq!(echo(&receive, 101 + STAMP_AGE), Some(0), "too old");
    }
}
