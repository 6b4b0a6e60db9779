//! Objects by number, with generations: a number of a freed object is noticed.

use std::sync::{Arc, PoisonError, RwLock};

use crate::abi::Handle;

/// Bits of the place of an object in its table; the bits above are its generation.
const PLACE_BITS: u32 = 22;
/// Generations are 1 to this, so all numbers are at least 2^22, and less than 2^30.
const GENERATIONS: u32 = 255;

/// Objects of one sort.
#[derive(Debug)]
pub struct Table<T>(RwLock<Slots<T>>);

#[derive(Debug)]
struct Slots<T> {
    all: Vec<Slot<T>>,
    /// The places of those that are free.
    free: Vec<u32>,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    object: Option<Arc<T>>,
}

impl<T> Slots<T> {
    fn slot(&self, handle: Handle) -> Option<&Slot<T>> {
        let slot = self.all.get((handle.0 & ((1 << PLACE_BITS) - 1)) as usize)?;
        (slot.generation == handle.0 >> PLACE_BITS).then_some(slot)
    }
}

impl<T> Table<T> {
    /// An empty table.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it is made in statics only")]
    pub const fn new() -> Self {
        Self(RwLock::new(Slots {
            all: Vec::new(),
            free: Vec::new(),
        }))
    }

    /// Adds an object.
    pub fn insert(&self, object: Arc<T>) -> Handle {
        self.insert_arc(|_| object)
    }

    /// Adds an object that knows its handle.
    pub fn insert_with(&self, make: impl FnOnce(Handle) -> T) -> Handle {
        self.insert_arc(|handle| Arc::new(make(handle)))
    }

    fn insert_arc(&self, make: impl FnOnce(Handle) -> Arc<T>) -> Handle {
        let mut slots = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let place = slots.free.pop().unwrap_or_else(|| {
            slots.all.push(Slot {
                generation: 1,
                object: None,
            });
            slots.all.len() as u32 - 1
        });
        assert!(place < 1 << PLACE_BITS, "more than 4 million MPI objects of a sort");
        let slot = &mut slots.all[place as usize];
        let handle = Handle(slot.generation << PLACE_BITS | place);
        slot.object = Some(make(handle));
        handle
    }

    /// The object with this handle.
    #[inline]
    pub fn get(&self, handle: Handle) -> Option<Arc<T>> {
        let slots = self.0.read().unwrap_or_else(PoisonError::into_inner);
        slots.slot(handle)?.object.clone()
    }

    /// Takes an object out.
    pub fn remove(&self, handle: Handle) -> Option<Arc<T>> {
        let mut slots = self.0.write().unwrap_or_else(PoisonError::into_inner);
        slots.slot(handle)?;
        let place = handle.0 & ((1 << PLACE_BITS) - 1);
        let slot = &mut slots.all[place as usize];
        let object = slot.object.take()?;
        slot.generation = slot.generation % GENERATIONS + 1;
        slots.free.push(place);
        Some(object)
    }

    /// All objects there are.
    pub fn all(&self) -> Vec<(Handle, Arc<T>)> {
        let slots = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let named = |(place, slot): (usize, &Slot<T>)| {
            let object = slot.object.clone()?;
            Some((Handle(slot.generation << PLACE_BITS | place as u32), object))
        };
        slots.all.iter().enumerate().filter_map(named).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_handles_are_noticed() {
        let table = Table::new();
        let first = table.insert(Arc::new(1));
        assert_eq!(table.get(first).as_deref(), Some(&1));
        assert_eq!(table.remove(first).as_deref(), Some(&1));
        let second = table.insert(Arc::new(2));
        assert!(table.get(first).is_none());
        assert_eq!(table.get(second).as_deref(), Some(&2));
        assert!(first.0 >= Handle::FIRST && second.0 < 1 << 30);
    }
}
