//! Values that are named by number.

use alloc::vec::Vec;

/// Width of an index; the generation has the other bits.
const INDEX_BITS: u32 = 20;
const INDEX: u32 = (1 << INDEX_BITS) - 1;

/// Values named by index and generation, so that the name of a removed value finds nothing.
#[derive(Debug)]
pub(super) struct Slab<T> {
    slots: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slab<T> {
    /// # Panics
    /// With more than 2^20 values; callers keep to a smaller limit.
    pub(super) fn insert(&mut self, value: T) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            assert!(self.slots.len() <= INDEX as usize, "too many are under way");
            self.slots.push((0, None));
            self.slots.len() as u32 - 1
        });
        let (generation, slot) = &mut self.slots[index as usize];
        *slot = Some(value);
        *generation << INDEX_BITS | index
    }

    pub(super) fn get(&self, id: u32) -> Option<&T> {
        let (generation, slot) = self.slots.get((id & INDEX) as usize)?;
        slot.as_ref().filter(|_| *generation << INDEX_BITS | id & INDEX == id)
    }

    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        let (generation, slot) = self.slots.get_mut((id & INDEX) as usize)?;
        slot.as_mut().filter(|_| *generation << INDEX_BITS | id & INDEX == id)
    }

    pub(super) fn remove(&mut self, id: u32) -> Option<T> {
        self.get(id)?;
        let (generation, slot) = &mut self.slots[(id & INDEX) as usize];
        *generation = generation.wrapping_add(1);
        self.free.push(id & INDEX);
        slot.take()
    }

    /// The names of the values that are `wanted`.
    pub(super) fn find(&self, wanted: impl Fn(&T) -> bool) -> Vec<u32> {
        let slots = (0..).zip(&self.slots);
        let found = slots.filter(|(_, (_, slot))| slot.as_ref().is_some_and(&wanted));
        found
            .map(|(index, (generation, _))| generation << INDEX_BITS | index)
            .collect()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().filter_map(|(_, slot)| slot.as_ref())
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_what_is_gone_find_nothing() {
        let mut slab = Slab::default();
        let (a, b) = (slab.insert('a'), slab.insert('b'));
        assert_eq!(slab.remove(a), Some('a'));
        let c = slab.insert('c');
        assert_ne!(a, c);
        assert_eq!(slab.get(a), None);
        assert_eq!(slab.remove(a), None);
        assert_eq!(slab.get_mut(u32::MAX), None);
        assert_eq!(slab.get(b), Some(&'b'));
        assert_eq!(slab.get_mut(c), Some(&mut 'c'));
        assert_eq!(slab.find(|value| *value > 'b'), [c]);
        assert_eq!(slab.len(), 2);
        for n in 0..20_000 {
            let id = slab.insert('d');
            assert_eq!((slab.remove(id), slab.len()), (Some('d'), 2), "{n}");
        }
    }
}
