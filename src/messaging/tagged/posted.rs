//! Receives that wait for their message, found in one row or by hash.
//!
//! A few are in one row, in the order of posting; a message goes through it. When there are more, each is in the row of
//! its key: a receive names match bits of which some are ignored, and a source or any. All receives that ignore the same
//! bits (and agree on whether the source counts) form a *class*; within a class the message's bits, masked, are a key. So
//! a message is looked up once per class, of which MPI has four at most, however many receives there are; of what is found
//! the oldest wins.

use alloc::vec::Vec;

use hashbrown::HashMap;

use super::hash::{Hash, Key};

const NONE: u32 = u32::MAX;

/// So many are in one row: to go through them takes less than a hash.
const FEW: usize = 8;

/// Which messages a receive takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selector {
    /// Processor that sends; `None`: any.
    pub source: Option<u32>,
    /// Match bits …
    pub bits: u64,
    /// … of which these do not count.
    pub ignore: u64,
}

impl Selector {
    /// It takes this message.
    #[must_use]
    #[inline]
    pub fn matches(&self, source: u32, bits: u64) -> bool {
        self.source.is_none_or(|wanted| wanted == source) && (self.bits ^ bits) & !self.ignore == 0
    }
}

struct Entry<T> {
    selector: Selector,
    /// Order of posting.
    serial: u64,
    /// [`NONE`]: it is in the row of a few.
    class: u32,
    /// Neighbours in its row.
    before: u32,
    after: u32,
    /// `None`: free.
    value: Option<T>,
}

#[derive(Clone, Copy)]
struct Row {
    first: u32,
    last: u32,
}

const EMPTY: Row = Row {
    first: NONE,
    last: NONE,
};

struct Class {
    ignore: u64,
    any_source: bool,
    rows: HashMap<Key, Row, Hash>,
}

impl Class {
    fn key(&self, source: u32, bits: u64) -> Key {
        Key {
            source: if self.any_source { NONE } else { source },
            bits: bits & !self.ignore,
        }
    }
}

/// Names a posted receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    index: u32,
    serial: u64,
}

/// Posted receives with a value each.
pub(super) struct Posted<T> {
    len: usize,
    serial: u64,
    entries: Vec<Entry<T>>,
    free: Vec<u32>,
    /// All, while there are only a few; when one more comes, all go to the rows of their classes until none is left.
    few: Row,
    classes: Vec<Class>,
}

impl<T> Default for Posted<T> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            free: Vec::new(),
            few: EMPTY,
            classes: Vec::new(),
            serial: 0,
            len: 0,
        }
    }
}

impl<T> Posted<T> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    fn class_for(&mut self, selector: &Selector) -> u32 {
        let any_source = selector.source.is_none();
        let same = |class: &Class| class.ignore == selector.ignore && class.any_source == any_source;
        if let Some(index) = self.classes.iter().position(same) {
            return index as u32;
        }
        let class = Class {
            ignore: selector.ignore,
            any_source,
            rows: HashMap::default(),
        };
        // One that is not used any more, so that ever new masks do not pile up.
        if let Some(index) = self.classes.iter().position(|class| class.rows.is_empty()) {
            self.classes[index] = class;
            return index as u32;
        }
        self.classes.push(class);
        self.classes.len() as u32 - 1
    }

    #[inline]
    pub(super) fn push(&mut self, selector: Selector, value: T) -> Place {
        self.serial += 1;
        let serial = self.serial;
        let entry = Entry {
            selector,
            serial,
            class: NONE,
            before: NONE,
            after: NONE,
            value: Some(value),
        };
        let index = match self.free.pop() {
            Some(index) => {
                self.entries[index as usize] = entry;
                index
            }
            None => {
                self.entries.push(entry);
                self.entries.len() as u32 - 1
            }
        };
        self.len += 1;
        if self.len == 1 || self.few.first != NONE && self.len <= FEW {
            append(&mut self.entries, &mut self.few, index);
        } else {
            self.sort(index);
        }
        Place { index, serial }
    }

    /// One more than a few: it goes to the row of its class, and so do those few.
    fn sort(&mut self, newest: u32) {
        let mut next = core::mem::replace(&mut self.few, EMPTY).first;
        while next != NONE {
            let index = next;
            next = self.entries[index as usize].after;
            self.sort_one(index);
        }
        self.sort_one(newest);
    }

    fn sort_one(&mut self, index: u32) {
        let selector = self.entries[index as usize].selector;
        let at = self.class_for(&selector);
        self.entries[index as usize].class = at;
        let class = &mut self.classes[at as usize];
        let row = class
            .rows
            .entry(class.key(selector.source.unwrap_or(NONE), selector.bits));
        append(&mut self.entries, row.or_insert(EMPTY), index);
    }

    /// Takes the oldest that takes this message.
    #[inline]
    pub(super) fn take(&mut self, source: u32, bits: u64) -> Option<T> {
        if self.len == 0 {
            return None;
        }
        let found = match self.few.first {
            NONE => self.find_sorted(source, bits),
            first => self.find_few(first, source, bits),
        };
        self.remove(found?)
    }

    /// The first of a few, from `index` on, that takes this message.
    #[inline]
    fn find_few(&self, mut index: u32, source: u32, bits: u64) -> Option<u32> {
        while index != NONE {
            let entry = &self.entries[index as usize];
            if entry.selector.matches(source, bits) {
                return Some(index);
            }
            index = entry.after;
        }
        None
    }

    /// The oldest of the sorted ones that takes this message.
    fn find_sorted(&self, source: u32, bits: u64) -> Option<u32> {
        let rows = self.classes.iter().filter(|class| !class.rows.is_empty());
        let rows = rows.filter_map(|class| class.rows.get(&class.key(source, bits)));
        rows.map(|row| row.first)
            .min_by_key(|first| self.entries[*first as usize].serial)
    }

    /// Takes back one that was posted, if it is still there.
    pub(super) fn cancel(&mut self, place: Place) -> Option<T> {
        match self.holds(place) {
            true => self.remove(place.index),
            false => None,
        }
    }

    /// Whether the one that was posted there is still there.
    pub(super) fn holds(&self, place: Place) -> bool {
        let entry = self.entries.get(place.index as usize);
        entry.is_some_and(|entry| entry.serial == place.serial && entry.value.is_some())
    }

    /// Takes out all of which `which` says so, oldest first.
    pub(super) fn drain(&mut self, mut which: impl FnMut(&Selector) -> bool) -> Vec<T> {
        let mut found: Vec<(u64, u32)> = Vec::new();
        for (index, entry) in self.entries.iter().enumerate() {
            if entry.value.is_some() && which(&entry.selector) {
                found.push((entry.serial, index as u32));
            }
        }
        found.sort_unstable();
        found.into_iter().filter_map(|(_, index)| self.remove(index)).collect()
    }

    fn remove(&mut self, index: u32) -> Option<T> {
        let entry = &mut self.entries[index as usize];
        let value = entry.value.take()?;
        let (class, selector) = (entry.class, entry.selector);
        if class == NONE {
            unlink(&mut self.entries, &mut self.few, index);
        } else {
            let class = &mut self.classes[class as usize];
            let key = class.key(selector.source.unwrap_or(NONE), selector.bits);
            if let Some(row) = class.rows.get_mut(&key) {
                unlink(&mut self.entries, row, index);
                if row.first == NONE {
                    class.rows.remove(&key);
                }
            }
        }
        self.free.push(index);
        self.len -= 1;
        Some(value)
    }
}

fn append<T>(entries: &mut [Entry<T>], row: &mut Row, index: u32) {
    let last = core::mem::replace(&mut row.last, index);
    let entry = &mut entries[index as usize];
    (entry.before, entry.after) = (last, NONE);
    match entries.get_mut(last as usize) {
        Some(entry) => entry.after = index,
        None => row.first = index,
    }
}

fn unlink<T>(entries: &mut [Entry<T>], row: &mut Row, index: u32) {
    let Entry { before, after, .. } = entries[index as usize];
    match entries.get_mut(before as usize) {
        Some(entry) => entry.after = after,
        None => row.first = after,
    }
    match entries.get_mut(after as usize) {
        Some(entry) => entry.before = before,
        None => row.last = before,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prng::Prng;

    /// Few and many at a time, with wildcards: what is taken, cancelled and drained is what a list would give.
    #[test]
    fn the_oldest_that_matches_is_taken_whatever_the_number() {
        let (mut posted, mut rng) = (Posted::default(), Prng::new(1));
        let mut list: Vec<(u64, Selector, Place)> = Vec::new();
        for number in 0..20_000_u64 {
            // They become few, and many, in turn.
            let grows = number / 500 % 2 == 0;
            if rng.chance(if grows { 0.55 } else { 0.3 }) {
                let selector = Selector {
                    source: rng.chance(0.7).then(|| rng.below(3) as u32),
                    bits: rng.below(4),
                    ignore: if rng.chance(0.2) { 3 } else { 0 },
                };
                list.push((number, selector, posted.push(selector, number)));
            } else if rng.chance(0.1) && !list.is_empty() {
                let (value, _, place) = list.remove(rng.below(list.len() as u64) as usize);
                assert_eq!(posted.cancel(place), Some(value));
                assert_eq!(posted.cancel(place), None);
            } else if rng.chance(0.01) {
                let which = |selector: &Selector| selector.source == Some(1);
                let gone: Vec<u64> = list
                    .extract_if(.., |(_, selector, _)| which(selector))
                    .map(|(value, ..)| value)
                    .collect();
                assert_eq!(posted.drain(which), gone);
            } else {
                let (source, bits) = (rng.below(3) as u32, rng.below(4));
                let first = list.iter().position(|(_, selector, _)| selector.matches(source, bits));
                assert_eq!(posted.take(source, bits), first.map(|first| list.remove(first).0));
            }
            assert_eq!(posted.len(), list.len());
        }
    }
}
