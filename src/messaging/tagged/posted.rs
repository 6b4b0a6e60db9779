//! Receives that wait for their message, oldest first.
//!
//! A few stand in one row; a message goes through it. When there are more, and not all take the same messages, all are
//! [sorted](super::sorted) by what they take, until none is left.

use alloc::{collections::VecDeque, vec::Vec};
use core::mem;

use super::{selector::Selector, sorted::Sorted};

/// So many stand in one row: to go through them takes less than a hash.
const FEW: usize = 8;

/// Names a posted receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    serial: u64,
    /// Where it was sorted in; `None`: it stood in the row.
    index: Option<u32>,
}

struct Waiting<T> {
    selector: Selector,
    /// Order of posting.
    serial: u64,
    value: T,
}

/// Posted receives with a value each.
pub(super) struct Posted<T> {
    serial: u64,
    /// Only a few, or only such as take the same messages.
    few: VecDeque<Waiting<T>>,
    /// All in `few` have the same selector.
    are_alike: bool,
    /// All, or none.
    sorted: Sorted<T>,
}

impl<T> Default for Posted<T> {
    fn default() -> Self {
        Self {
            serial: 0,
            few: VecDeque::with_capacity(FEW),
            are_alike: true,
            sorted: Sorted::default(),
        }
    }
}

impl<T> Posted<T> {
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.few.len() + self.sorted.len()
    }

    #[inline(always)]
    pub(super) fn push(&mut self, selector: &Selector, value: T) -> Place {
        self.serial += 1;
        let serial = self.serial;
        let is_alike = self.few.is_empty() || self.are_alike && self.few[0].selector == *selector;
        if (self.few.len() >= FEW && !is_alike) || self.sorted.len() > 0 {
            return self.push_sorted(selector, serial, value);
        }
        self.are_alike = is_alike;
        self.few.push_back(Waiting {
            selector: *selector,
            serial,
            value,
        });
        Place { serial, index: None }
    }

    /// There are more than a few: all are sorted.
    #[inline(never)]
    fn push_sorted(&mut self, selector: &Selector, serial: u64, value: T) -> Place {
        for waiting in self.few.drain(..) {
            self.sorted.push(waiting.selector, waiting.serial, waiting.value);
        }
        Place {
            serial,
            index: Some(self.sorted.push(*selector, serial, value)),
        }
    }

    /// Takes the oldest that takes this message.
    #[inline]
    pub(super) fn take(&mut self, source: u32, bits: u64) -> Option<T> {
        let takes = |waiting: &Waiting<T>| waiting.selector.matches(source, bits);
        match self.few.front() {
            None => self.sorted.take(source, bits),
            // (Most often it is the only one.)
            Some(first) if takes(first) => self.few.pop_front().map(|waiting| waiting.value),
            Some(_) if self.are_alike => None,
            Some(_) => {
                let index = self.few.iter().position(takes)?;
                self.few.remove(index).map(|waiting| waiting.value)
            }
        }
    }

    /// The oldest of all, if it takes this message and they are not sorted.
    #[cfg(feature = "mpi")]
    #[inline(always)]
    pub(super) fn oldest(&mut self, source: u32, bits: u64) -> Option<&mut T> {
        let first = self.few.front_mut()?;
        first.selector.matches(source, bits).then_some(&mut first.value)
    }

    /// The [oldest](Self::oldest) waits no longer. Nothing in it has to be dropped.
    #[cfg(feature = "mpi")]
    #[inline(always)]
    pub(super) fn forget_oldest(&mut self) {
        mem::forget(self.few.pop_front());
    }

    /// Takes back one that was posted, if it is still there.
    pub(super) fn cancel(&mut self, place: Place) -> Option<T> {
        match self.find_few(place) {
            Some(index) => self.few.remove(index).map(|waiting| waiting.value),
            None => self.sorted.cancel(place.serial, place.index),
        }
    }

    /// Whether the one that was posted there is still there.
    pub(super) fn holds(&self, place: Place) -> bool {
        self.find_few(place).is_some() || self.sorted.find(place.serial, place.index).is_some()
    }

    fn find_few(&self, place: Place) -> Option<usize> {
        self.few.iter().position(|waiting| waiting.serial == place.serial)
    }

    /// Takes out all of which `which` says so, oldest first.
    pub(super) fn drain(&mut self, mut which: impl FnMut(&Selector) -> bool) -> Vec<T> {
        let mut gone = Vec::new();
        for waiting in mem::take(&mut self.few) {
            match which(&waiting.selector) {
                true => gone.push(waiting.value),
                false => self.few.push_back(waiting),
            }
        }
        gone.extend(self.sorted.drain(which));
        gone
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
                list.push((number, selector, posted.push(&selector, number)));
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
