//! Many receives that wait for their message, found by hash.
//!
//! Each is in the row of its key: a receive names match bits of which some are ignored, and a source or any. All receives
//! that ignore the same bits (and agree on whether the source counts) form a *class*; within a class the message's bits,
//! masked, are a key. So a message is looked up once per class, of which MPI has four at most, however many receives there
//! are; of what is found the oldest wins.

use alloc::vec::Vec;

use hashbrown::HashMap;

use super::{
    hash::{Hash, Key},
    selector::Selector,
};

const NONE: u32 = u32::MAX;

struct Entry<T> {
    selector: Selector,
    /// Order of posting.
    serial: u64,
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

/// Posted receives with a value each.
pub(super) struct Sorted<T> {
    len: usize,
    entries: Vec<Entry<T>>,
    free: Vec<u32>,
    classes: Vec<Class>,
}

impl<T> Default for Sorted<T> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            free: Vec::new(),
            classes: Vec::new(),
            len: 0,
        }
    }
}

impl<T> Sorted<T> {
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

    /// Adds a receive, which is younger than all others, and returns its index.
    pub(super) fn push(&mut self, selector: Selector, serial: u64, value: T) -> u32 {
        let class = self.class_for(&selector);
        let entry = Entry {
            selector,
            serial,
            class,
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
        let class = &mut self.classes[class as usize];
        let key = class.key(selector.source.unwrap_or(NONE), selector.bits);
        let row = class.rows.entry(key).or_insert(EMPTY);
        append(&mut self.entries, row, index);
        index
    }

    /// Takes the oldest that takes this message.
    pub(super) fn take(&mut self, source: u32, bits: u64) -> Option<T> {
        if self.len == 0 {
            return None;
        }
        let rows = self.classes.iter().filter(|class| !class.rows.is_empty());
        let rows = rows.filter_map(|class| class.rows.get(&class.key(source, bits)));
        let oldest = rows
            .map(|row| row.first)
            .min_by_key(|first| self.entries[*first as usize].serial);
        self.remove(oldest?)
    }

    /// Takes back the one with this serial number, if it is still there; `index` is what [`push`](Self::push) returned, if
    /// that is known.
    pub(super) fn cancel(&mut self, serial: u64, index: Option<u32>) -> Option<T> {
        let index = self.find(serial, index)?;
        self.remove(index)
    }

    /// The index of the one with this serial number, if it is still there.
    pub(super) fn find(&self, serial: u64, index: Option<u32>) -> Option<u32> {
        let is_it = |entry: &Entry<T>| entry.serial == serial && entry.value.is_some();
        match index {
            Some(index) => is_it(self.entries.get(index as usize)?).then_some(index),
            None => self.entries.iter().position(is_it).map(|index| index as u32),
        }
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
        let class = &mut self.classes[class as usize];
        let key = class.key(selector.source.unwrap_or(NONE), selector.bits);
        if let Some(row) = class.rows.get_mut(&key) {
            unlink(&mut self.entries, row, index);
            if row.first == NONE {
                class.rows.remove(&key);
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
