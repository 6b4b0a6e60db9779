//! The queue of messages that can be taken, in the order of their admission.

use alloc::vec::Vec;
use core::mem;

use bitflags::bitflags;

use super::{
    arena::{Arena, Pool, SMALL},
    message::{Body, Message},
    pair::Slab,
    ring::Ring,
};
use crate::{
    reliability::PeerId,
    span::Span,
    wire::{Record, Records},
};

/// The properties of a packet or message other than its bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) peer: PeerId,
    pub(super) session: u32,
    pub(super) source: u32,
    pub(super) destination: u32,
    pub(super) cost: u32,
    pub(super) tag: Option<u64>,
    pub(super) immediate: Option<u64>,
}

bitflags! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Marks: u8 {
        const TAG = 1;
        const IMMEDIATE = 2;
        /// The bytes are a sequence of records.
        const BUNDLE = 4;
        /// The bytes are in a buffer, else in the arena.
        const BUFFER = 8;
        /// The credit was given back before.
        const PROMOTED = 16;
    }
}

/// A message, or a bundle of messages, which is taken apart only when they are taken.
#[derive(Clone, Copy)]
struct Entry {
    tag: u64,
    immediate: u64,
    // (What a [`Message`] says lies between what it does not say, so that it is read piece by piece: of several pieces that
    // have just been written, read at once, the processor would wait for all.)
    peer: PeerId,
    len: u32,
    source: u32,
    /// Offset in the arena's block, or index of the buffer.
    at: u32,
    session: u32,
    marks: Marks,
    cost: u32,
    destination: u32,
}

const _: () = assert!(size_of::<Entry>() <= 48);

impl Entry {
    #[inline(always)]
    fn new(head: &Head, records: Option<usize>, len: usize, at: u32, mut marks: Marks) -> Self {
        marks.set(Marks::TAG, head.tag.is_some());
        marks.set(Marks::IMMEDIATE, head.immediate.is_some());
        marks.set(Marks::BUNDLE, records.is_some());
        Self {
            tag: head.tag.unwrap_or(0),
            immediate: head.immediate.unwrap_or(0),
            peer: head.peer,
            session: head.session,
            cost: head.cost,
            source: head.source,
            destination: head.destination,
            len: len as u32,
            at,
            marks,
        }
    }

    #[inline(always)]
    fn tag(&self) -> Option<u64> {
        self.marks.contains(Marks::TAG).then_some(self.tag)
    }

    /// A message of it, with this tag and body, as it is handed out.
    #[inline(always)]
    fn message<'a>(&self, tag: Option<u64>, kept: &'a mut u32, body: Body<'a>) -> Message<'a> {
        Message {
            peer: self.peer,
            session: self.session,
            source: self.source,
            destination: self.destination,
            kept,
            cost: self.cost,
            tag,
            immediate: self.marks.contains(Marks::IMMEDIATE).then_some(self.immediate),
            body,
        }
    }

    /// Its length in bytes, if its credit was returned before it was taken; else 0.
    #[inline]
    fn promoted(&self) -> u64 {
        if self.marks.contains(Marks::PROMOTED) {
            self.len.into()
        } else {
            0
        }
    }
}

/// A description of the next message, before it is taken.
#[cfg(feature = "std")]
pub(super) struct Next {
    pub(super) peer: PeerId,
    pub(super) session: u32,
    /// Its credit was returned before.
    pub(super) promoted: bool,
}

/// The credit of an entry that was taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retired {
    pub(super) peer: PeerId,
    pub(super) session: u32,
    pub(super) cost: u32,
    /// How much of that belongs to messages that are kept.
    pub(super) kept: u32,
    /// Bytes of a message whose credit was returned before it was taken.
    pub(super) promoted: u64,
}

impl Default for Entry {
    fn default() -> Self {
        Self {
            tag: 0,
            immediate: 0,
            peer: PeerId(0),
            session: 0,
            cost: 0,
            source: 0,
            destination: 0,
            len: 0,
            at: 0,
            marks: Marks::empty(),
        }
    }
}

#[derive(Default)]
pub(super) struct Ready {
    entries: Ring<Entry>,
    arena: Arena,
    buffers: Slab<Vec<u8>>,
    /// Messages that have not been handed out.
    messages: usize,
    /// Offset of the next record in the first entry, when that is a bundle.
    cursor: usize,
    /// All of the first entry has been handed out.
    lent: bool,
    /// The only message, not handed out yet: its bytes are the last ones of the datagram that it arrived in.
    in_place: bool,
    /// It has been handed out.
    lent_in_place: bool,
    alone: Entry,
    /// Credit of what was kept of the first entry.
    kept: u32,
    /// Entries ever pushed.
    pub(super) pushed: u64,
    /// Entries ever retired.
    pub(super) taken: u64,
}

impl Ready {
    #[inline]
    pub(super) fn messages(&self) -> usize {
        self.messages
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.messages == 0 && !self.lent_in_place && self.entries.front().is_none()
    }

    /// Appends the first message. Its bytes, the last `len` of a datagram, stay where they are.
    #[inline(always)]
    pub(super) fn push_in_place(&mut self, head: &Head, len: usize) {
        debug_assert!(self.is_empty());
        self.alone = Entry::new(head, None, len, 0, Marks::empty());
        self.in_place = true;
        self.pushed += 1;
        self.messages = 1;
    }

    /// A message is ready in place. It must be [taken](Self::take) or [copied](Self::copy_out) before another becomes
    /// ready and before the datagram's memory is reused.
    #[inline(always)]
    pub(super) fn is_in_place(&self) -> bool {
        self.in_place
    }

    /// Copies the message in place, at the end of `datagram`.
    pub(super) fn copy_out(&mut self, datagram: &[u8], pool: &mut Pool) {
        if !mem::take(&mut self.in_place) {
            return;
        }
        let mut entry = self.alone;
        let data = Span::new(last(datagram, entry.len as usize));
        if data.len() <= SMALL {
            entry.at = self.arena.push(data) as u32;
        } else {
            entry.marks.insert(Marks::BUFFER);
            entry.at = self.buffers.insert(pool.copy(data));
        }
        self.entries.push_back(entry);
    }

    /// Appends a message (`records` is `None`) or a bundle of so many.
    #[inline(always)]
    pub(super) fn push(&mut self, head: &Head, records: Option<usize>, data: Span<'_>, pool: &mut Pool) {
        if data.len() <= SMALL {
            let at = self.arena.push(data);
            self.push_entry(head, records, data.len(), at as u32, Marks::empty());
        } else {
            let buffer = pool.copy(data);
            self.push_buffer(head, records, buffer, data.len(), false);
        }
    }

    /// Appends a bundle that has not been validated, whose messages may have at most `most` bytes each. Returns their
    /// number, or `None` if it is no valid bundle.
    #[inline]
    pub(super) fn push_bundle(&mut self, head: &Head, data: Span<'_>, most: usize, pool: &mut Pool) -> Option<usize> {
        let count = |bytes| Records::count(bytes, most).filter(|(_, fit)| *fit);
        if data.len() > SMALL {
            let buffer = pool.copy(data);
            let Some((records, _)) = count(&buffer[..data.len()]) else {
                pool.give(buffer);
                return None;
            };
            self.push_buffer(head, Some(records), buffer, data.len(), false);
            return Some(records);
        }
        let at = self.arena.push(data);
        let Some((records, _)) = count(self.arena.back(at, data.len())) else {
            self.arena.unpush(data.len());
            return None;
        };
        self.push_entry(head, Some(records), data.len(), at as u32, Marks::empty());
        Some(records)
    }

    /// Appends the first `len` bytes of `buffer`.
    pub(super) fn push_buffer(
        &mut self,
        head: &Head,
        records: Option<usize>,
        buffer: Vec<u8>,
        len: usize,
        promoted: bool,
    ) {
        let mut marks = Marks::BUFFER;
        marks.set(Marks::PROMOTED, promoted);
        let at = self.buffers.insert(buffer);
        self.push_entry(head, records, len, at, marks);
    }

    #[inline(always)]
    fn push_entry(&mut self, head: &Head, records: Option<usize>, len: usize, at: u32, marks: Marks) {
        debug_assert!(
            !self.in_place,
            "what is in place is taken or copied before anything else becomes ready"
        );
        self.entries.push_back(Entry::new(head, records, len, at, marks));
        self.pushed += 1;
        self.messages += records.unwrap_or(1);
    }

    /// The first entry has been lent whole and can be retired.
    #[inline]
    pub(super) fn is_lent(&self) -> bool {
        self.lent
    }

    /// Frees the memory of the first entry if all of it was handed out.
    #[inline]
    pub(super) fn retire(&mut self, pool: &mut Pool) -> Option<Retired> {
        if !self.lent {
            return None;
        }
        self.lent = false;
        self.cursor = 0;
        self.taken += 1;
        let entry = if mem::take(&mut self.lent_in_place) {
            self.alone
        } else {
            let entry = self.entries.pop_front()?;
            if !entry.marks.contains(Marks::BUFFER) {
                self.arena.pop();
            } else if let Some(buffer) = self.buffers.remove(entry.at) {
                pool.give(buffer);
            }
            entry
        };
        Some(Retired {
            peer: entry.peer,
            session: entry.session,
            cost: entry.cost,
            kept: mem::take(&mut self.kept),
            promoted: entry.promoted(),
        })
    }

    /// Hands out the next message. The one handed out before must have been retired. A message in place is at the end
    /// of `datagram`.
    #[inline]
    pub(super) fn take<'a>(&'a mut self, datagram: &'a [u8]) -> Option<Message<'a>> {
        debug_assert!(!self.lent);
        if mem::take(&mut self.in_place) {
            self.messages -= 1;
            (self.lent, self.lent_in_place) = (true, true);
            let (entry, kept) = (&self.alone, &mut self.kept);
            return Some(entry.message(entry.tag(), kept, Body::Lent(last(datagram, entry.len as usize))));
        }
        let entry = self.entries.front()?;
        let len = entry.len as usize;
        let mut tag = entry.tag();
        self.messages -= 1;
        let body = if entry.marks.contains(Marks::BUNDLE) {
            let bytes = if entry.marks.contains(Marks::BUFFER) {
                self.buffers.get(entry.at).map_or(&[][..], |buffer| &buffer[..len])
            } else {
                self.arena.front(entry.at as usize, len)
            };
            // The bundle was checked when it came.
            let (record, rest) = Record::split(&bytes[self.cursor..]).ok()?;
            tag = record.match_bits;
            self.cursor = len - rest.len();
            self.lent = rest.is_empty();
            Body::Lent(record.data)
        } else {
            self.lent = true;
            if entry.marks.contains(Marks::BUFFER) {
                Body::Buffer(self.buffers.get_mut(entry.at)?, len)
            } else {
                Body::Lent(self.arena.front(entry.at as usize, len))
            }
        };
        Some(entry.message(tag, &mut self.kept, body))
    }

    /// The next message, if none is lent or in place.
    #[cfg(feature = "std")]
    pub(super) fn next(&self) -> Option<Next> {
        debug_assert!(!self.lent && !self.in_place);
        self.entries.front().map(|entry| Next {
            peer: entry.peer,
            session: entry.session,
            promoted: entry.marks.contains(Marks::PROMOTED),
        })
    }

    /// The entries that have not been retired.
    fn held(&self) -> impl Iterator<Item = &Entry> {
        let alone = (self.in_place || self.lent_in_place).then_some(&self.alone);
        alone.into_iter().chain(self.entries.iter())
    }

    /// The credit that messages of this peer hold, and the bytes of those whose credit was returned before.
    pub(super) fn held_by(&self, peer: PeerId) -> u64 {
        let of_peer = self.held().filter(|entry| entry.peer == peer);
        of_peer.map(|entry| u64::from(entry.cost) + entry.promoted()).sum()
    }
}

/// The last `len` bytes.
#[inline]
fn last(datagram: &[u8], len: usize) -> &[u8] {
    &datagram[datagram.len().saturating_sub(len)..]
}

#[cfg(test)]
impl Ready {
    pub(super) fn memory(&self) -> u64 {
        let buffers = self.buffers.iter().map(|buffer| buffer.len() as u64);
        let small = self.held().filter(|entry| !entry.marks.contains(Marks::BUFFER));
        buffers.sum::<u64>() + small.map(|entry| u64::from(entry.len)).sum::<u64>()
    }
}
