//! What must arrive: every message of an ordered pair of processors once, in order, with its bytes.

use std::collections::{BTreeMap, VecDeque};

use super::prng::mix;

/// A message sent and not yet received.
#[derive(Clone, Debug)]
struct Entry {
    number: u64,
    len: usize,
    tag: Option<u64>,
    immediate: Option<u64>,
    /// Which incarnation of the sender, and which of its sessions, it was sent in.
    incarnation: u32,
    session: u32,
    /// It may get lost: its session has ended.
    excused: bool,
}

#[derive(Default)]
struct Stream {
    sent: u64,
    expected: VecDeque<Entry>,
    /// Received, in order.
    past: Vec<Entry>,
}

/// A message as it is received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Arrived {
    pub(crate) source: u32,
    pub(crate) destination: u32,
    pub(crate) tag: u64,
    pub(crate) immediate: Option<u64>,
    pub(crate) data: Vec<u8>,
}

/// What is asked to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) len: usize,
    pub(crate) channel: u8,
    pub(crate) shared: bool,
    pub(crate) tag: Option<u64>,
    pub(crate) immediate: Option<u64>,
    /// Which of the processors of either side.
    pub(crate) source: usize,
    pub(crate) destination: usize,
}

impl Job {
    pub(crate) const fn new(len: usize) -> Self {
        Self {
            len,
            channel: 0,
            shared: false,
            tag: None,
            immediate: None,
            source: 0,
            destination: 0,
        }
    }

    pub(crate) const fn shared(self) -> Self {
        Self { shared: true, ..self }
    }
}

/// The reference model of a world.
#[derive(Default)]
pub(crate) struct Model {
    seed: u64,
    streams: BTreeMap<(u32, u32), Stream>,
    received: u64,
    ignore_strangers: bool,
    tolerates: bool,
}

impl Model {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            seed,
            ..Self::default()
        }
    }

    /// The bytes of a message: its number first, so that no two of a pair are alike if they have 8 bytes.
    fn content(seed: u64, pair: (u32, u32), number: u64, len: usize) -> Vec<u8> {
        let mut state = mix(seed ^ u64::from(pair.0) << 32 ^ u64::from(pair.1)) ^ mix(number);
        let mut bytes = Vec::with_capacity(len + 8);
        bytes.extend_from_slice(&number.to_be_bytes());
        while bytes.len() < len {
            state = state
                .wrapping_mul(0x5851_f42d_4c95_7f2d)
                .wrapping_add(0x1405_7b7e_f767_814f);
            bytes.extend_from_slice(&(state ^ state >> 29).to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }

    /// Bytes of the next message of `pair`.
    pub(crate) fn next_content(&self, pair: (u32, u32), len: usize) -> Vec<u8> {
        let number = self.streams.get(&pair).map_or(0, |stream| stream.sent);
        Self::content(self.seed, pair, number, len)
    }

    /// The next message of `pair` was taken by the sender's stack.
    pub(crate) fn sent(&mut self, pair: (u32, u32), job: &Job, incarnation: u32, session: u32) {
        let stream = self.streams.entry(pair).or_default();
        stream.expected.push_back(Entry {
            number: stream.sent,
            len: job.len,
            tag: job.tag,
            immediate: job.immediate,
            incarnation,
            session,
            excused: false,
        });
        stream.sent += 1;
    }

    /// Messages of those who were never told to send any are nobody's concern.
    pub(crate) fn ignore_strangers(&mut self) {
        self.ignore_strangers = true;
    }

    /// Messages may be spoilt on the way.
    pub(crate) fn tolerate(&mut self) {
        self.tolerates = true;
    }

    /// A message was received; says what is wrong with it.
    pub(crate) fn arrived(&mut self, message: &Arrived) -> Result<(), String> {
        let pair = (message.source, message.destination);
        if self.tolerates {
            if let Some(stream) = self.streams.get_mut(&pair) {
                stream.past.extend(stream.expected.pop_front());
            }
            self.received += 1;
            return Ok(());
        }
        let Some(stream) = self.streams.get_mut(&pair) else {
            if self.ignore_strangers {
                return Ok(());
            }
            return Err(format!("received from {pair:?}, which sent nothing"));
        };
        for (skipped, entry) in stream.expected.iter().enumerate() {
            let same = entry.len == message.data.len()
                && entry.tag.unwrap_or(0) == message.tag
                && entry.immediate == message.immediate
                && Self::content(self.seed, pair, entry.number, entry.len) == message.data;
            if same {
                stream.past.extend(stream.expected.drain(..=skipped));
                self.received += 1;
                return Ok(());
            }
            if !entry.excused {
                return Err(Self::diagnose(self.seed, pair, entry, message));
            }
        }
        Err(format!(
            "{pair:?}: received {} bytes beginning {:02x?} after all {} messages had been received",
            message.data.len(),
            &message.data[..message.data.len().min(8)],
            stream.sent
        ))
    }

    fn diagnose(seed: u64, pair: (u32, u32), entry: &Entry, message: &Arrived) -> String {
        let expected = Self::content(seed, pair, entry.number, entry.len);
        let differs = expected
            .iter()
            .zip(&message.data)
            .position(|(a, b)| a != b)
            .unwrap_or_else(|| expected.len().min(message.data.len()));
        let claims = message.data.first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
        format!(
            "{pair:?}: expected message {} ({} bytes, tag {:?}, immediate {:?}), got {} bytes (number {claims:?}, \
             tag {}, immediate {:?}), first difference at byte {differs}",
            entry.number,
            entry.len,
            entry.tag,
            entry.immediate,
            message.data.len(),
            message.tag,
            message.immediate,
        )
    }

    /// What was sent from one of `from` to one of `to` in this incarnation (or before) and session (or before), and
    /// has not been received, may get lost.
    pub(crate) fn excuse(&mut self, from: &[u32], to: &[u32], incarnation: u32, session: u32) {
        for (pair, stream) in &mut self.streams {
            if !from.contains(&pair.0) || !to.contains(&pair.1) {
                continue;
            }
            for entry in &mut stream.expected {
                entry.excused |=
                    entry.incarnation < incarnation || entry.incarnation == incarnation && entry.session <= session;
            }
        }
    }

    /// The receiver has restarted before the sender ever heard of it: what it had received may be received again by
    /// its new incarnation, for nobody could tell the sender.
    pub(crate) fn may_repeat(&mut self, from: &[u32], to: &[u32], incarnation: u32, session: u32) {
        for (pair, stream) in &mut self.streams {
            if !from.contains(&pair.0) || !to.contains(&pair.1) {
                continue;
            }
            let again = |entry: &Entry| entry.incarnation == incarnation && entry.session == session;
            let keep = stream.past.iter().position(again).unwrap_or(stream.past.len());
            for mut entry in stream.past.drain(keep..).rev() {
                entry.excused = true;
                stream.expected.push_front(entry);
            }
        }
    }

    /// Messages received.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// Messages not yet received that must be.
    pub(crate) fn missing(&self) -> usize {
        self.streams
            .values()
            .flat_map(|stream| &stream.expected)
            .filter(|entry| !entry.excused)
            .count()
    }

    /// The pairs with messages that must still be received, and the number of the first.
    pub(crate) fn missing_by_pair(&self) -> Vec<((u32, u32), u64, usize)> {
        self.streams
            .iter()
            .filter_map(|(pair, stream)| {
                let mut missing = stream.expected.iter().filter(|entry| !entry.excused);
                let first = missing.next()?.number;
                Some((*pair, first, missing.count() + 1))
            })
            .collect()
    }
}
