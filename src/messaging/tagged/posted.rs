//! Receives that wait for their message, found by hash.
//!
//! A receive names match bits of which some are ignored, and a source or any. All receives that ignore the same bits (and
//! agree on whether the source counts) form a *class*; within a class the message's bits, masked, are a key. So a message
//! is looked up once per class, of which MPI has four at most, however many receives there are; of what is found the
//! oldest wins.

use alloc::vec::Vec;

use hashbrown::HashMap;

use super::hash::{Hash, Key};

const NONE: u32 = u32::MAX;

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
    class: u32,
    /// Neighbours in the row of its key.
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
    classes: Vec<Class>,
}

impl<T> Default for Posted<T> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            free: Vec::new(),
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
        let index = self.class_for(&selector);
        let class = &mut self.classes[index as usize];
        let key = class.key(selector.source.unwrap_or(NONE), selector.bits);
        self.serial += 1;
        let entry = Entry {
            selector,
            serial: self.serial,
            class: index,
            before: NONE,
            after: NONE,
            value: Some(value),
        };
        let at = match self.free.pop() {
            Some(at) => {
                self.entries[at as usize] = entry;
                at
            }
            None => {
                self.entries.push(entry);
                self.entries.len() as u32 - 1
            }
        };
        let row = class.rows.entry(key).or_insert(Row { first: at, last: NONE });
        let last = core::mem::replace(&mut row.last, at);
        if last != NONE {
            self.entries[last as usize].after = at;
            self.entries[at as usize].before = last;
        }
        self.len += 1;
        Place {
            index: at,
            serial: self.serial,
        }
    }

    /// Takes the oldest that takes this message.
    #[inline]
    pub(super) fn take(&mut self, source: u32, bits: u64) -> Option<T> {
        if self.len == 0 {
            return None;
        }
        let mut best: Option<(u64, u32)> = None;
        for class in &self.classes {
            if class.rows.is_empty() {
                continue;
            }
            if let Some(row) = class.rows.get(&class.key(source, bits)) {
                let serial = self.entries[row.first as usize].serial;
                if best.is_none_or(|(oldest, _)| serial < oldest) {
                    best = Some((serial, row.first));
                }
            }
        }
        self.remove(best?.1)
    }

    /// Takes back one that was posted, if it is still there.
    pub(super) fn cancel(&mut self, place: Place) -> Option<T> {
        let entry = self.entries.get(place.index as usize)?;
        if entry.serial != place.serial {
            return None;
        }
        self.remove(place.index)
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
        let (before, after, selector) = (entry.before, entry.after, entry.selector);
        let class = &mut self.classes[entry.class as usize];
        if before != NONE {
            self.entries[before as usize].after = after;
        }
        if after != NONE {
            self.entries[after as usize].before = before;
        }
        if before == NONE || after == NONE {
            let key = class.key(selector.source.unwrap_or(NONE), selector.bits);
            if before == NONE && after == NONE {
                class.rows.remove(&key);
            } else if let Some(row) = class.rows.get_mut(&key) {
                if before == NONE {
                    row.first = after;
                } else {
                    row.last = before;
                }
            }
        }
        self.free.push(index);
        self.len -= 1;
        Some(value)
    }
}
