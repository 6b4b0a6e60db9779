//! Objects by number, with generations: a number of a freed object is noticed.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};

use crate::abi::Handle;

/// Bits of the place of an object in its table; the bits above are its generation.
const PLACE_BITS: u32 = 22;
/// Generations are 1 to this, so all numbers are at least 2^22, and less than 2^30.
const GENERATIONS: u32 = 255;

/// The bit of a place that is set in handles that were given out elsewhere.
pub const FOREIGN: u32 = 1 << (PLACE_BITS - 1);

/// Most objects whose memory is kept for others.
const SPARE: usize = 256;

/// Objects of one sort.
#[derive(Debug)]
pub struct Table<T>(RwLock<Slots<T>>);

#[derive(Debug)]
struct Slots<T> {
    all: Vec<Slot<T>>,
    /// The places of those that are free.
    free: Vec<u32>,
    /// Objects that are over and that nothing uses: their memory is for others.
    spare: Vec<Arc<T>>,
    /// Objects whose handles were given out elsewhere: they have places that are none of `all`.
    foreign: BTreeMap<u32, Arc<T>>,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    object: Option<Arc<T>>,
}

fn is_foreign(handle: Handle) -> bool {
    handle.0 & FOREIGN != 0
}

impl<T> Slots<T> {
    fn slot(&self, handle: Handle) -> Option<&Slot<T>> {
        let slot = self.all.get((handle.0 & ((1 << PLACE_BITS) - 1)) as usize)?;
        (slot.generation == handle.0 >> PLACE_BITS).then_some(slot)
    }

    fn slot_mut(&mut self, handle: Handle) -> Option<&mut Slot<T>> {
        let slot = self.all.get_mut((handle.0 & ((1 << PLACE_BITS) - 1)) as usize)?;
        (slot.generation == handle.0 >> PLACE_BITS).then_some(slot)
    }

    fn get(&self, handle: Handle) -> Option<&Arc<T>> {
        match is_foreign(handle) {
            true => self.foreign.get(&handle.0),
            false => self.slot(handle)?.object.as_ref(),
        }
    }

    fn take(&mut self, handle: Handle) -> Option<Arc<T>> {
        match is_foreign(handle) {
            true => self.foreign.remove(&handle.0),
            false => self.slot_mut(handle)?.object.take(),
        }
    }

    fn put_back(&mut self, handle: Handle, object: Arc<T>) {
        if is_foreign(handle) {
            self.foreign.insert(handle.0, object);
        } else if let Some(slot) = self.slot_mut(handle) {
            slot.object = Some(object);
        }
    }

    /// The place of an object that was taken out is free for another.
    fn retire(&mut self, handle: Handle) {
        if is_foreign(handle) {
            return;
        }
        let place = handle.0 & ((1 << PLACE_BITS) - 1);
        let slot = &mut self.all[place as usize];
        slot.generation = slot.generation % GENERATIONS + 1;
        self.free.push(place);
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
            spare: Vec::new(),
            foreign: BTreeMap::new(),
        }))
    }

    /// Adds an object.
    pub fn insert(&self, object: T) -> Handle {
        self.insert_with(|_| object)
    }

    /// Adds an object that knows its handle.
    pub fn insert_with(&self, make: impl FnOnce(Handle) -> T) -> Handle {
        self.insert_by(|handle, spare| {
            let made = make(handle);
            let Some(mut spare) = spare.pop() else {
                return Arc::new(made);
            };
            *Arc::get_mut(&mut spare).expect("nothing uses it") = made;
            spare
        })
    }

    /// Adds an object whose handle was given out elsewhere: one with the bit [`FOREIGN`].
    pub fn adopt(&self, handle: Handle, object: T) {
        let mut slots = self.0.write().unwrap_or_else(PoisonError::into_inner);
        slots.foreign.insert(handle.0, Arc::new(object));
    }

    /// Adds an object that others have, too.
    pub fn insert_shared(&self, object: &Arc<T>) -> Handle {
        self.insert_by(|_, _| Arc::clone(object))
    }

    fn insert_by(&self, make: impl FnOnce(Handle, &mut Vec<Arc<T>>) -> Arc<T>) -> Handle {
        let mut slots = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let place = slots.free.pop().unwrap_or_else(|| {
            slots.all.push(Slot {
                generation: 1,
                object: None,
            });
            slots.all.len() as u32 - 1
        });
        assert!(place < FOREIGN, "more than 2 million MPI objects of a sort");
        let handle = Handle(slots.all[place as usize].generation << PLACE_BITS | place);
        let object = make(handle, &mut slots.spare);
        slots.all[place as usize].object = Some(object);
        handle
    }

    /// The memory of these objects, which are over, is for the next ones, unless something uses it still.
    pub fn keep(&self, over: impl Iterator<Item = Arc<T>>) {
        let mut slots = self.0.write().unwrap_or_else(PoisonError::into_inner);
        for mut object in over {
            if slots.spare.len() == SPARE {
                return;
            }
            if Arc::get_mut(&mut object).is_some() {
                slots.spare.push(object);
            }
        }
    }

    /// The object with this handle.
    #[inline]
    pub fn get(&self, handle: Handle) -> Option<Arc<T>> {
        let slots = self.0.read().unwrap_or_else(PoisonError::into_inner);
        slots.get(handle).cloned()
    }

    /// Takes an object out.
    pub fn remove(&self, handle: Handle) -> Option<Arc<T>> {
        let mut slots = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let object = slots.take(handle)?;
        slots.retire(handle);
        Some(object)
    }

    /// The objects with these handles, in their order, each with whether it was taken out: those of which `stays` says
    /// so are still there. If one handle is of no object, nothing is taken, and it is the error.
    ///
    /// # Errors
    /// That handle.
    pub fn take(
        &self,
        handles: impl Iterator<Item = Handle> + Clone,
        stays: impl Fn(&T) -> bool,
    ) -> Result<Vec<(Arc<T>, bool)>, Handle> {
        let mut slots = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let mut all = Vec::with_capacity(handles.size_hint().0);
        for handle in handles.clone() {
            let object = match slots.get(handle) {
                Some(object) if stays(object) => Some((Arc::clone(object), false)),
                _ => slots.take(handle).map(|object| (object, true)),
            };
            let Some(object) = object else {
                // (A handle that is there twice is of no object the second time.)
                for ((object, taken), handle) in all.into_iter().zip(handles) {
                    if taken {
                        slots.put_back(handle, object);
                    }
                }
                return Err(handle);
            };
            all.push(object);
        }
        for ((_, taken), handle) in all.iter().zip(handles) {
            if *taken {
                slots.retire(handle);
            }
        }
        Ok(all)
    }

    /// All objects there are.
    pub fn all(&self) -> Vec<(Handle, Arc<T>)> {
        let slots = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let named = |(place, slot): (usize, &Slot<T>)| {
            let object = slot.object.clone()?;
            Some((Handle(slot.generation << PLACE_BITS | place as u32), object))
        };
        let foreign = slots
            .foreign
            .iter()
            .map(|(handle, object)| (Handle(*handle), Arc::clone(object)));
        slots.all.iter().enumerate().filter_map(named).chain(foreign).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_handles_are_noticed() {
        let table = Table::new();
        let first = table.insert(1);
        assert_eq!(table.get(first).as_deref(), Some(&1));
        assert_eq!(table.remove(first).as_deref(), Some(&1));
        let second = table.insert(2);
        assert!(table.get(first).is_none());
        assert_eq!(table.get(second).as_deref(), Some(&2));
        assert!(first.0 >= Handle::FIRST && second.0 < 1 << 30);
    }

    #[test]
    fn memory_is_used_again_unless_something_uses_it_still() {
        let table = Table::new();
        let [first, second] = [1, 2].map(|number| table.insert(number));
        let used = table.get(second);
        let all = table
            .take([first, second].into_iter(), |_| false)
            .expect("both are there");
        let places = [0, 1].map(|index| Arc::as_ptr(&all[index].0));
        table.keep(all.into_iter().map(|(object, _)| object));
        let [third, fourth] = [3, 4].map(|number| table.insert(number));
        let [third, fourth] = [third, fourth].map(|handle| table.get(handle).expect("it is there"));
        assert_eq!((*third, *fourth, used.as_deref()), (3, 4, Some(&2)));
        assert_eq!(Arc::as_ptr(&third), places[0]);
        assert_ne!(Arc::as_ptr(&fourth), places[1]);
    }

    #[test]
    fn objects_with_handles_from_elsewhere_are_found_until_they_are_taken() {
        let table = Table::new();
        let (own, foreign) = (table.insert(1), Handle(3 << PLACE_BITS | FOREIGN));
        assert!(table.get(foreign).is_none());
        table.adopt(foreign, 2);
        assert_eq!(table.get(foreign).as_deref(), Some(&2));
        assert_eq!(table.all().len(), 2);
        let take = |handles: &[Handle]| table.take(handles.iter().copied(), |_| false);
        assert_eq!(take(&[foreign, own, foreign]), Err(foreign));
        assert_eq!(
            take(&[own, foreign]),
            Ok(vec![(Arc::new(1), true), (Arc::new(2), true)])
        );
        assert!(table.get(foreign).is_none() && table.remove(foreign).is_none());
    }

    #[test]
    fn objects_are_taken_together_or_not_at_all() {
        let table = Table::new();
        let [one, two, three] = [1, 2, 3].map(|number| table.insert(number));
        let take = |handles: &[Handle]| table.take(handles.iter().copied(), |number| *number == 2);
        let unknown = Handle(Handle::FIRST - 1);
        assert_eq!(take(&[one, two, unknown]), Err(unknown));
        assert_eq!(take(&[one, three, one]), Err(one));
        let all = take(&[three, two, one]);
        assert_eq!(
            all,
            Ok(vec![(Arc::new(3), true), (Arc::new(2), false), (Arc::new(1), true)])
        );
        assert_eq!(
            [one, two, three].map(|handle| table.get(handle).is_some()),
            [false, true, false]
        );
    }
}
