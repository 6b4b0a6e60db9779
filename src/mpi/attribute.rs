//! Attributes: values that programs and libraries attach to communicators, datatypes and windows (MPI 7.7).
//!
//! ```
//! use std::{convert::Infallible, sync::Arc};
//! use hikyaku::mpi::attribute::{Attributes, Keyval};
//!
//! // Duplicates of the object get a value that is one more.
//! let level = Arc::new(Keyval::<str, u32, Infallible>::new(|_, value| Ok(Some(value + 1)), |_, _| Ok(())));
//! let attributes = Attributes::default();
//! attributes.set("world", &level, 3)?;
//! assert_eq!(attributes.copy("world")?.get(&level), Some(4));
//! # Ok::<_, Infallible>(())
//! ```

use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::{fmt, mem};
use std::sync::{Mutex, MutexGuard, PoisonError};

type Copy<O, V, E> = dyn Fn(&O, &V) -> Result<Option<V>, E> + Send + Sync;
type Delete<O, V, E> = dyn Fn(&O, V) -> Result<(), E> + Send + Sync;

/// A key for attributes of objects `O` (`MPI_Comm_create_keyval`, `MPI_Type_create_keyval`, `MPI_Win_create_keyval`):
/// the callbacks for its values. It lasts as long as attributes have it, so dropping the program's own reference is
/// `MPI_Comm_free_keyval`.
pub struct Keyval<O: ?Sized, V, E> {
    copy: Box<Copy<O, V, E>>,
    delete: Box<Delete<O, V, E>>,
}

impl<O: ?Sized, V, E> fmt::Debug for Keyval<O, V, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyval").finish_non_exhaustive()
    }
}

impl<O: ?Sized, V, E> Keyval<O, V, E> {
    /// `copy` gives the value for a duplicate of an object, or none (`MPI_COMM_NULL_COPY_FN`); `delete` is told of a
    /// value that goes. Both run in the thread that calls, and may use the attributes.
    pub fn new(
        copy: impl Fn(&O, &V) -> Result<Option<V>, E> + Send + Sync + 'static,
        delete: impl Fn(&O, V) -> Result<(), E> + Send + Sync + 'static,
    ) -> Self {
        Self {
            copy: Box::new(copy),
            delete: Box::new(delete),
        }
    }
}

/// A key with its value.
type Attribute<O, V, E> = (Arc<Keyval<O, V, E>>, V);

/// The attributes of one object, at most one for each key. No lock is held while callbacks run.
pub struct Attributes<O: ?Sized, V, E>(Mutex<Vec<Attribute<O, V, E>>>);

impl<O: ?Sized, V, E> Default for Attributes<O, V, E> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<O: ?Sized, V, E> fmt::Debug for Attributes<O, V, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Attributes").field(&self.all().len()).finish()
    }
}

impl<O: ?Sized, V, E> Attributes<O, V, E> {
    fn all(&self) -> MutexGuard<'_, Vec<Attribute<O, V, E>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<O: ?Sized, V: Clone, E> Attributes<O, V, E> {
    /// The value of a key (`MPI_Comm_get_attr`).
    #[must_use]
    pub fn get(&self, key: &Arc<Keyval<O, V, E>>) -> Option<V> {
        let all = self.all();
        let found = all.iter().find(|(known, _)| Arc::ptr_eq(known, key));
        found.map(|(_, value)| value.clone())
    }

    /// Attaches a value to `object`, whose attributes these are (`MPI_Comm_set_attr`). An old value is deleted first.
    ///
    /// # Errors
    /// That of the callback for the old value, which then stays.
    pub fn set(&self, object: &O, key: &Arc<Keyval<O, V, E>>, value: V) -> Result<(), E> {
        if let Some(old) = self.get(key) {
            (key.delete)(object, old)?;
        }
        let mut all = self.all();
        let place = all.iter_mut().find(|(known, _)| Arc::ptr_eq(known, key));
        match place {
            Some((_, place)) => *place = value,
            None => all.push((Arc::clone(key), value)),
        }
        Ok(())
    }

    /// Deletes the value of a key (`MPI_Comm_delete_attr`), and returns whether there was one.
    ///
    /// # Errors
    /// That of the callback; the value then stays.
    pub fn delete(&self, object: &O, key: &Arc<Keyval<O, V, E>>) -> Result<bool, E> {
        let Some(value) = self.get(key) else { return Ok(false) };
        (key.delete)(object, value)?;
        self.all().retain(|(known, _)| !Arc::ptr_eq(known, key));
        Ok(true)
    }

    /// The attributes for a duplicate of `object` (`MPI_Comm_dup`).
    ///
    /// # Errors
    /// That of a callback. The values copied until then are dropped without being deleted.
    pub fn copy(&self, object: &O) -> Result<Self, E> {
        let all: Vec<_> = self.all().clone();
        let mut copied = Vec::new();
        for (key, value) in all {
            if let Some(copy) = (key.copy)(object, &value)? {
                copied.push((key, copy));
            }
        }
        Ok(Self(Mutex::new(copied)))
    }

    /// Deletes all attributes, the last one first, since `object` is freed (`MPI_Comm_free`).
    ///
    /// # Errors
    /// That of a callback; its value, and those not deleted yet, stay.
    pub fn clear(&self, object: &O) -> Result<(), E> {
        loop {
            let last = self.all().last().cloned();
            let Some((key, _)) = last else { return Ok(()) };
            self.delete(object, &key)?;
        }
    }
}

impl<O: ?Sized, V, E> Attributes<O, V, E> {
    /// Takes all values without calling back, as when a process ends.
    pub fn forget(&self) {
        let all = mem::take(&mut *self.all());
        drop(all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Key = Arc<Keyval<u8, i32, i32>>;

    /// Each deletion is written down; values below 0 can be neither copied nor deleted, odd ones are not copied.
    fn key(deleted: &Arc<Mutex<Vec<(u8, i32)>>>) -> Key {
        let deleted = Arc::clone(deleted);
        Arc::new(Keyval::new(
            |_, value| match *value {
                ..0 => Err(*value),
                value => Ok((value % 2 == 0).then_some(value * 10)),
            },
            move |object, value| {
                deleted.lock().unwrap().push((*object, value));
                if value < 0 { Err(value) } else { Ok(()) }
            },
        ))
    }

    #[test]
    fn values_are_replaced_copied_and_deleted() {
        let deleted = Arc::default();
        let (a, b) = (key(&deleted), key(&deleted));
        let attributes = Attributes::default();
        assert_eq!(attributes.get(&a), None);
        attributes.set(&1, &a, 3).unwrap();
        attributes.set(&1, &a, 4).unwrap();
        attributes.set(&1, &b, 5).unwrap();
        assert_eq!((attributes.get(&a), attributes.get(&b)), (Some(4), Some(5)));
        let copied = attributes.copy(&1).unwrap();
        assert_eq!((copied.get(&a), copied.get(&b)), (Some(40), None));
        assert_eq!(attributes.delete(&1, &a), Ok(true));
        assert_eq!(attributes.delete(&1, &a), Ok(false));
        attributes.set(&1, &a, 6).unwrap();
        attributes.clear(&1).unwrap();
        // The newest goes first.
        assert_eq!(*deleted.lock().unwrap(), [(1, 3), (1, 4), (1, 6), (1, 5)]);
        assert_eq!((attributes.get(&a), attributes.get(&b)), (None, None));
    }

    #[test]
    fn a_failed_callback_leaves_the_value() {
        let deleted = Arc::default();
        let (a, b) = (key(&deleted), key(&deleted));
        let attributes = Attributes::default();
        attributes.set(&2, &a, -7).unwrap();
        assert_eq!(attributes.copy(&2).unwrap_err(), -7);
        assert_eq!(attributes.set(&2, &a, 1), Err(-7));
        assert_eq!(attributes.delete(&2, &a), Err(-7));
        attributes.set(&2, &b, 1).unwrap();
        assert_eq!(attributes.clear(&2), Err(-7));
        assert_eq!((attributes.get(&a), attributes.get(&b)), (Some(-7), None));
        attributes.forget();
        assert_eq!(attributes.get(&a), None);
    }

    #[test]
    fn callbacks_use_the_attributes_and_keys_outlive_the_program() {
        let attributes: Arc<Attributes<u8, i32, i32>> = Arc::default();
        let seen = Arc::clone(&attributes);
        let other: Key = key(&Arc::default());
        let known = Arc::clone(&other);
        let key: Key = Arc::new(Keyval::new(
            |_, _| Ok(None),
            move |object, value| seen.set(object, &known, value),
        ));
        let alive = Arc::downgrade(&key);
        attributes.set(&3, &key, 8).unwrap();
        // Freed by the program.
        drop(key);
        let key = alive.upgrade().unwrap();
        attributes.delete(&3, &key).unwrap();
        drop(key);
        assert_eq!((attributes.get(&other), alive.strong_count()), (Some(8), 0));
    }
}
