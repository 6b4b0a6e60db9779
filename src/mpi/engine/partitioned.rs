#![expect(unsafe_code, reason = "what is said of a channel lies in its own memory")]
//! Partitioned communication (MPI 4.2): memory that is sent in messages of one or several partitions each, as
//! partitions get ready.
//!
//! The sender decides which partitions share a message and announces that once, in a set-up message; each message of a
//! round then carries its number, and lands where it belongs. So sender and receiver may partition the memory
//! differently.

use alloc::{vec, vec::Vec};
use core::ops::Range;

use super::{
    buffer::Buffer,
    core::{Core, Ended, Owner, RequestId, Route},
};
use crate::{
    messaging::{
        Messenger,
        tagged::{Envelope, Outcome, Selector},
    },
    mpi::datatype::{Datatype, Kind},
    time::Instant,
};

/// Smaller partitions are sent together in messages of about this many bytes: below, a message costs more than its
/// data.
const TOGETHER: u64 = 2 << 10;
/// Stands for the set-up message.
const SETUP: u32 = u32::MAX;

/// How memory is divided into messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    /// Number of the first message; the others follow.
    pub(super) first: u32,
    /// Number of messages.
    pub(super) messages: u32,
    /// Bytes of each message but the last.
    pub(super) bytes: u64,
    /// Bytes of all messages.
    pub(super) total: u64,
}

impl Cut {
    const LEN: usize = 24;

    /// For `partitions` of `bytes` bytes each. Also gives the number of partitions per message.
    pub(super) fn new(partitions: u32, bytes: u64) -> Option<(Self, u32)> {
        let total = bytes.checked_mul(partitions.into())?;
        let together = TOGETHER.div_ceil(bytes.max(1)).clamp(1, u64::from(partitions.max(1))) as u32;
        let cut = Self {
            first: 0,
            messages: partitions.div_ceil(together).max(1),
            bytes: bytes * u64::from(together),
            total,
        };
        (cut.messages < SETUP).then_some((cut, together))
    }

    fn emit(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..4].copy_from_slice(&self.first.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.messages.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.bytes.to_be_bytes());
        bytes[16..].copy_from_slice(&self.total.to_be_bytes());
        bytes
    }

    /// Parses a set-up message; `None` if it makes no sense.
    fn parse(data: &[u8]) -> Option<Self> {
        let (first, rest) = data.split_first_chunk()?;
        let (messages, rest) = rest.split_first_chunk()?;
        let (bytes, total) = rest.split_first_chunk()?;
        let cut = Self {
            first: u32::from_be_bytes(*first),
            messages: u32::from_be_bytes(*messages),
            bytes: u64::from_be_bytes(*bytes),
            total: u64::from_be_bytes(total.try_into().ok()?),
        };
        // So few messages that a receiver can keep account of them.
        let fits = cut.bytes >= TOGETHER.min(cut.total)
            && u64::from(cut.messages) == cut.total.div_ceil(cut.bytes.max(1)).max(1);
        fits.then_some(cut)
    }

    /// The bytes of a message.
    pub(super) fn range(&self, message: u32) -> Range<u64> {
        let start = (self.bytes * u64::from(message)).min(self.total);
        start..(start + self.bytes).min(self.total)
    }

    /// The messages that hold these bytes; of no bytes, the message that has their place.
    fn messages_of(&self, bytes: &Range<u64>) -> Range<usize> {
        let last = u64::from(self.messages).saturating_sub(1);
        let first = (bytes.start / self.bytes.max(1)).min(last);
        let end = bytes.end.div_ceil(self.bytes.max(1)).max(first + 1);
        first as usize..end as usize
    }
}

/// A message of the current round, or of the last one.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    request: Option<RequestId>,
    ended: bool,
}

/// One side of a partitioned communication, from set-up to end.
pub(super) struct PartitionedTransfer {
    /// The process on the other side, and the match bits of message number 0.
    route: Route,
    /// What the statuses of rounds are made of; its length is that of no data.
    envelope: Envelope,
    sends: bool,
    /// The whole memory of the round.
    buffer: Option<Buffer>,
    cut: Option<Cut>,
    /// The set-up message on its way: used by `setup` only, as long as that has not ended.
    said: Vec<u8>,
    setup: Option<RequestId>,
    /// Request of the current round.
    round: Option<RequestId>,
    parts: Vec<Part>,
    /// Number of its messages that have not ended.
    left: usize,
    failure: Option<Outcome>,
    /// Set when no further round can be started.
    broken: Option<Outcome>,
    /// The caller will start no further round.
    closed: bool,
}

impl PartitionedTransfer {
    fn new(route: Route, envelope: Envelope, cut: Option<Cut>) -> Self {
        Self {
            route,
            envelope,
            sends: cut.is_some(),
            buffer: None,
            said: cut.map_or([0; Cut::LEN], |cut| cut.emit()).to_vec(),
            cut,
            setup: None,
            round: None,
            parts: Vec::new(),
            left: 0,
            failure: None,
            broken: None,
            closed: false,
        }
    }

    fn route(&self, cut: &Cut, message: u32) -> Route {
        Route {
            bits: self.route.bits | u64::from(cut.first.wrapping_add(message)),
            ..self.route
        }
    }

    /// The memory of the set-up message.
    fn said(&mut self) -> Option<Buffer> {
        let datatype = Datatype::predefined(Kind::Byte);
        // SAFETY: the memory is on the heap, and nothing else uses it before `setup` has ended. Until then this channel
        // stays, even when it is closed (`is_over`). If the network fails, everything that refers to the memory goes
        // together with the channel (`Process::abandon`), and panics leave the state of the engine as it is.
        unsafe { Buffer::new(self.said.as_mut_ptr(), self.said.len() as u64, &datatype) }
    }

    fn is_over(&self) -> bool {
        self.closed && self.setup.is_none() && self.round.is_none()
    }
}

/// The partitioned communications of a process, by index. They register their messages with the requests, and are told
/// when these have ended.
#[derive(Default)]
pub(super) struct Channels(Vec<Option<PartitionedTransfer>>);

impl Channels {
    /// Forgets all of them.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Sets a sender up: its messages have the bits of `route` and their numbers, the set-up message has the bits
    /// of `setup`, whose length is that of a message without data.
    pub(super) fn open_sender(
        &mut self,
        core: &mut Core,
        messenger: &mut Messenger,
        now: Instant,
        (route, setup): (Route, Envelope),
        cut: Cut,
    ) -> u32 {
        let mut channel = PartitionedTransfer::new(route, setup, Some(cut));
        let said = channel.said();
        let index = self.insert(channel);
        let route = Route {
            bits: setup.bits,
            ..route
        };
        let owner = Owner::Partitioned(index, SETUP);
        let sent = said.and_then(|said| core.send_for(messenger, now, route, said, false, owner));
        if let Some(channel) = self.channel(index) {
            channel.setup = sent;
        }
        self.advance(core, messenger, now);
        index
    }

    /// Sets a receiver up.
    pub(super) fn open_receiver(
        &mut self,
        core: &mut Core,
        messenger: &mut Messenger,
        now: Instant,
        (route, setup): (Route, Envelope),
    ) -> u32 {
        let mut channel = PartitionedTransfer::new(route, setup, None);
        let said = channel.said();
        let index = self.insert(channel);
        let selector = Selector {
            source: Some(route.process),
            bits: setup.bits,
            ignore: 0,
        };
        let owner = Owner::Partitioned(index, SETUP);
        let posted = said.map(|said| core.receive_for(messenger, now, selector, said, owner));
        if let Some(channel) = self.channel(index) {
            channel.setup = posted;
        }
        self.advance(core, messenger, now);
        index
    }

    fn insert(&mut self, channel: PartitionedTransfer) -> u32 {
        let index = self.0.iter().position(Option::is_none).unwrap_or(self.0.len());
        if index == self.0.len() {
            self.0.push(None);
        }
        self.0[index] = Some(channel);
        index as u32
    }

    fn channel(&mut self, index: u32) -> Option<&mut PartitionedTransfer> {
        self.0.get_mut(index as usize)?.as_mut()
    }

    /// Begins a round with this memory. `None`: a round is running.
    pub(super) fn start(
        &mut self,
        core: &mut Core,
        messenger: &mut Messenger,
        now: Instant,
        index: u32,
        buffer: Buffer,
    ) -> Option<RequestId> {
        if self.channel(index)?.round.is_some() {
            return None;
        }
        let request = core.request_of_caller();
        let channel = self.channel(index)?;
        channel.round = Some(request);
        channel.failure = None;
        // Nothing has arrived before the division is known.
        channel.parts.clear();
        if let Some(buffer) = Some(buffer).filter(|_| channel.broken.is_none()) {
            channel.buffer = Some(buffer);
            self.begin_round(core, messenger, now, index);
        } else {
            self.end_round(core, index);
        }
        self.advance(core, messenger, now);
        Some(request)
    }

    /// Begins the messages of a round, once the division is known.
    fn begin_round(&mut self, core: &mut Core, messenger: &mut Messenger, now: Instant, index: u32) {
        let Some(channel) = self.channel(index) else { return };
        let (Some(cut), Some(buffer)) = (channel.cut, channel.buffer.clone()) else {
            return;
        };
        if cut.total != buffer.len() {
            channel.failure = Some(Outcome::Truncated);
            channel.broken = channel.failure;
            return self.end_round(core, index);
        }
        channel.parts = vec![Part::default(); cut.messages as usize];
        channel.left = channel.parts.len();
        if channel.sends {
            return;
        }
        for message in 0..cut.messages {
            let Some(channel) = self.channel(index) else { return };
            let Route { process, bits } = channel.route(&cut, message);
            let selector = Selector {
                source: Some(process),
                bits,
                ignore: 0,
            };
            let bytes = cut.range(message);
            let Some(part) = buffer.range(bytes.start, bytes.end - bytes.start) else {
                continue;
            };
            let owner = Owner::Partitioned(index, message);
            let request = core.receive_for(messenger, now, selector, part, owner);
            if let Some(channel) = self.channel(index) {
                channel.parts[message as usize].request = Some(request);
            }
        }
    }

    /// Sends a message, all partitions of which are ready.
    pub(super) fn send_part(
        &mut self,
        core: &mut Core,
        messenger: &mut Messenger,
        now: Instant,
        index: u32,
        message: u32,
    ) {
        let Some(channel) = self.channel(index) else { return };
        let (Some(cut), Some(buffer)) = (channel.cut, &channel.buffer) else {
            return;
        };
        let bytes = cut.range(message);
        let Some(part) = buffer.range(bytes.start, bytes.end - bytes.start) else {
            return;
        };
        let route = channel.route(&cut, message);
        let owner = Owner::Partitioned(index, message);
        match core.send_for(messenger, now, route, part, false, owner) {
            Some(request) => {
                if let Some(channel) = self.channel(index) {
                    channel.parts[message as usize].request = Some(request);
                }
            }
            None => self.end_part(core, index, message, Outcome::Complete),
        }
        self.advance(core, messenger, now);
    }

    /// Whether these bytes have arrived, in the current round or, if none runs, in the last one.
    pub(super) fn has_arrived(&mut self, index: u32, bytes: &Range<u64>) -> bool {
        self.channel(index).is_some_and(|channel| match channel.cut {
            Some(cut) if !channel.parts.is_empty() => {
                let parts = channel.parts.get(cut.messages_of(bytes));
                channel.failure.is_none() && parts.is_some_and(|parts| parts.iter().all(|part| part.ended))
            }
            _ => false,
        })
    }

    /// Whether a round has been started and has not ended.
    pub(super) fn runs(&mut self, index: u32) -> bool {
        self.channel(index).is_some_and(|channel| channel.round.is_some())
    }

    /// The caller will start no further round. A round that runs goes on.
    pub(super) fn close(&mut self, core: &mut Core, messenger: &mut Messenger, now: Instant, index: u32) {
        let Some(channel) = self.channel(index) else { return };
        channel.closed = true;
        if !channel.sends
            && let Some(setup) = channel.setup
        {
            core.cancel(setup);
        }
        self.remove_if_over(index);
        self.advance(core, messenger, now);
    }

    fn remove_if_over(&mut self, index: u32) {
        if self.channel(index).is_some_and(|channel| channel.is_over()) {
            self.0[index as usize] = None;
        }
    }

    /// Cancels the receives of a round, if `request` is a round's.
    pub(super) fn cancel_round(&self, core: &mut Core, request: RequestId) {
        let is_it = |channel: &PartitionedTransfer| !channel.sends && channel.round == Some(request);
        let found = self.0.iter().flatten().find(|channel| is_it(channel));
        let Some(channel) = found else { return };
        let parts = channel.parts.iter().filter(|part| !part.ended);
        let requests: Vec<_> = parts.filter_map(|part| part.request).chain(channel.setup).collect();
        for request in requests {
            core.cancel(request);
        }
    }

    /// Goes on with the channels of which a message has ended.
    pub(super) fn advance(&mut self, core: &mut Core, messenger: &mut Messenger, now: Instant) {
        for _ in 0..core.channel_news.len() {
            let Some((index, message, id)) = core.channel_news.pop_front() else {
                return;
            };
            let Some(ended) = core.take(id) else {
                // The network still refers to its memory.
                core.channel_news.push_back((index, message, id));
                continue;
            };
            if message == SETUP {
                self.handle_setup(core, messenger, now, index, ended.outcome);
            } else {
                self.end_part(core, index, message, ended.outcome);
            }
        }
    }

    fn handle_setup(&mut self, core: &mut Core, messenger: &mut Messenger, now: Instant, index: u32, outcome: Outcome) {
        let Some(channel) = self.channel(index) else { return };
        channel.setup = None;
        if outcome != Outcome::Complete {
            channel.broken = Some(outcome);
        } else if !channel.sends {
            channel.cut = Cut::parse(&channel.said);
            if channel.cut.is_none() {
                channel.broken = Some(Outcome::Truncated);
            }
        }
        if channel.round.is_some() && !channel.sends {
            channel.failure = channel.broken;
            match channel.broken {
                Some(_) => self.end_round(core, index),
                None => self.begin_round(core, messenger, now, index),
            }
        }
        self.remove_if_over(index);
    }

    fn end_part(&mut self, core: &mut Core, index: u32, message: u32, outcome: Outcome) {
        let Some(channel) = self.channel(index) else { return };
        let Some(part) = channel.parts.get_mut(message as usize) else {
            return;
        };
        if part.ended {
            return;
        }
        (part.request, part.ended) = (None, true);
        channel.left -= 1;
        if outcome != Outcome::Complete {
            channel.failure = channel.failure.or(Some(outcome));
            // The two sides may not be at the same round any more.
            channel.broken = channel.failure;
        }
        if channel.left == 0 {
            self.end_round(core, index);
        }
    }

    fn end_round(&mut self, core: &mut Core, index: u32) {
        let Some(channel) = self.channel(index) else { return };
        channel.buffer = None;
        let outcome = channel.failure.or(channel.broken).unwrap_or(Outcome::Complete);
        let mut envelope = channel.envelope;
        envelope.len += channel.cut.map_or(0, |cut| cut.total);
        if let Some(request) = channel.round.take() {
            core.end(
                request,
                Ended {
                    envelope,
                    ..Ended::with(outcome)
                },
            );
        }
        self.remove_if_over(index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_partitions_go_together() {
        let cut = |partitions, bytes| Cut::new(partitions, bytes).unwrap();
        let (few, together) = cut(4, 10_000);
        assert_eq!((few.messages, few.range(3), together), (4, 30_000..40_000, 1));
        let (many, together) = cut(1_000, 100);
        assert_eq!((many.messages, many.bytes, together), (48, 2_100, 21));
        assert_eq!((many.range(47), many.range(48)), (98_700..100_000, 100_000..100_000));
        assert_eq!(many.messages_of(&(0..1)), 0..1);
        assert_eq!(many.messages_of(&(2_099..2_101)), 0..2);
        assert_eq!(
            many.messages_of(&(5..5)),
            0..1,
            "its partition arrives with its neighbours"
        );
        assert_eq!(many.messages_of(&(100_000..100_000)), 47..48);
        let (none, _) = cut(7, 0);
        assert_eq!(
            (none.messages, none.range(0), none.messages_of(&(0..0))),
            (1, 0..0, 0..1)
        );
        assert_eq!(Cut::new(u32::MAX, u64::MAX), None);
        assert_eq!(Cut::new(u32::MAX, 1 << 20), None);
    }

    #[test]
    fn what_was_said_is_understood_and_checked() {
        for (partitions, bytes) in [(1, 1), (4, 10_000), (1_000, 100), (3, 0)] {
            let (mut cut, _) = Cut::new(partitions, bytes).unwrap();
            cut.first = 77;
            assert_eq!(Cut::parse(&cut.emit()), Some(cut));
            for wrong in [
                Cut {
                    messages: cut.messages + 1,
                    ..cut
                },
                Cut {
                    messages: 1 << 30,
                    bytes: 1,
                    total: 1 << 30,
                    ..cut
                },
            ] {
                assert_eq!(Cut::parse(&wrong.emit()), None);
            }
        }
    }
}
