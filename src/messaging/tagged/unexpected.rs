//! Messages that have come before their receive was posted.
//!
//! Each is in two rows: all, in the order of arrival; and those of the same source and bits, found by hash. A receive
//! without wildcards looks into the second, one with wildcards goes through the first.

use alloc::vec::Vec;

use hashbrown::HashMap;

use super::{
    hash::{Hash, Key},
    selector::{Selector, matched},
};

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Links {
    before: u32,
    after: u32,
}

const UNLINKED: Links = Links {
    before: NONE,
    after: NONE,
};

#[derive(Clone, Copy)]
struct Row {
    first: u32,
    last: u32,
}

const EMPTY: Row = Row {
    first: NONE,
    last: NONE,
};

struct Entry<T> {
    key: Key,
    /// The mark, too.
    bits: u64,
    in_all: Links,
    in_key: Links,
    /// `None`: free.
    value: Option<T>,
}

pub(super) struct Unexpected<T> {
    len: usize,
    entries: Vec<Entry<T>>,
    free: Vec<u32>,
    all: Row,
    keys: HashMap<Key, Row, Hash>,
}

impl<T> Unexpected<T> {
    /// Nothing, in tables with this key.
    pub(super) fn new(key: u64) -> Self {
        Self {
            entries: Vec::new(),
            free: Vec::new(),
            all: EMPTY,
            keys: HashMap::with_hasher(Hash::new(key)),
            len: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Looks up a message from `source` with these bits in its table.
    #[cfg(test)]
    pub(super) fn hash(&self, source: u32, bits: u64) -> u64 {
        use core::hash::BuildHasher;
        self.keys.hasher().hash_one(Key { source, bits })
    }

    pub(super) fn push(&mut self, source: u32, bits: u64, value: T) {
        let key = Key {
            source,
            bits: matched(bits),
        };
        let entry = Entry {
            key,
            bits,
            in_all: UNLINKED,
            in_key: UNLINKED,
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
        append(&mut self.entries, &mut self.all, at, |entry| &mut entry.in_all);
        let row = self.keys.entry(key).or_insert(EMPTY);
        append(&mut self.entries, row, at, |entry| &mut entry.in_key);
        self.len += 1;
    }

    /// The oldest that `selector` takes.
    #[inline]
    fn find(&self, selector: &Selector) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        self.find_one(selector)
    }

    fn find_one(&self, selector: &Selector) -> Option<u32> {
        if let (Some(source), 0) = (selector.source, selector.ignore) {
            let bits = selector.bits;
            return self.keys.get(&Key { source, bits }).map(|row| row.first);
        }
        let mut at = self.all.first;
        while at != NONE {
            let entry = &self.entries[at as usize];
            if selector.matches(entry.key.source, entry.key.bits) {
                return Some(at);
            }
            at = entry.in_all.after;
        }
        None
    }

    /// Looks at the oldest that `selector` takes: source, bits, value.
    pub(super) fn peek(&self, selector: &Selector) -> Option<(u32, u64, &T)> {
        let entry = &self.entries[self.find(selector)? as usize];
        Some((entry.key.source, entry.bits, entry.value.as_ref()?))
    }

    /// Takes the oldest that `selector` takes: source, bits, value.
    #[inline]
    pub(super) fn take(&mut self, selector: &Selector) -> Option<(u32, u64, T)> {
        let at = self.find(selector)?;
        let Entry { key, bits, .. } = self.entries[at as usize];
        Some((key.source, bits, self.remove(at)?))
    }

    /// Takes out all of which `which` says so.
    pub(super) fn drain(&mut self, mut which: impl FnMut(u32, u64) -> bool) -> Vec<T> {
        let mut found = Vec::new();
        let mut at = self.all.first;
        while at != NONE {
            let entry = &self.entries[at as usize];
            let after = entry.in_all.after;
            if which(entry.key.source, entry.key.bits) {
                found.extend(self.remove(at));
            }
            at = after;
        }
        found
    }

    fn remove(&mut self, at: u32) -> Option<T> {
        let entry = &mut self.entries[at as usize];
        let value = entry.value.take()?;
        let key = entry.key;
        unlink(&mut self.entries, &mut self.all, at, |entry| &mut entry.in_all);
        if let Some(row) = self.keys.get_mut(&key) {
            unlink(&mut self.entries, row, at, |entry| &mut entry.in_key);
            if row.first == NONE {
                self.keys.remove(&key);
            }
        }
        self.free.push(at);
        self.len -= 1;
        Some(value)
    }
}

fn append<T>(entries: &mut [Entry<T>], row: &mut Row, at: u32, links: impl Fn(&mut Entry<T>) -> &mut Links) {
    let last = core::mem::replace(&mut row.last, at);
    *links(&mut entries[at as usize]) = Links {
        before: last,
        after: NONE,
    };
    if last == NONE {
        row.first = at;
    } else {
        links(&mut entries[last as usize]).after = at;
    }
}

fn unlink<T>(entries: &mut [Entry<T>], row: &mut Row, at: u32, links: impl Fn(&mut Entry<T>) -> &mut Links) {
    let Links { before, after } = *links(&mut entries[at as usize]);
    match entries.get_mut(before as usize) {
        Some(entry) => links(entry).after = after,
        None => row.first = after,
    }
    match entries.get_mut(after as usize) {
        Some(entry) => links(entry).before = before,
        None => row.last = before,
    }
}
