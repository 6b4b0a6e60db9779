#![expect(unsafe_code, reason = "lends out attributes that are never removed")]
//! Attributes: data that libraries attach to communicators (MPI 7.7).

use std::{
    any::{Any, TypeId},
    sync::Mutex,
};

use crate::lock::lock;

/// All traits.
pub mod traits {
    pub use super::CommAttribute;
}

/// A type of attribute. Each communicator may have one value of it.
///
/// ```
/// use mpi::traits::*;
///
/// #[derive(Clone, Debug, PartialEq)]
/// struct Level(u32);
///
/// impl CommAttribute for Level {
///     const CLONE_ON_DUP: bool = true;
/// }
///
/// let universe = mpi::initialize().unwrap();
/// let mut world = universe.world();
/// world.set_attr(Level(3));
/// assert_eq!(world.get_attr(), Some(&Level(3)));
/// assert_eq!(world.duplicate().unwrap().get_attr(), Some(&Level(3)));
/// ```
pub trait CommAttribute: Any + Clone + Send + Sync {
    /// Duplicates of a communicator get a clone of its attribute.
    const CLONE_ON_DUP: bool = false;
}

type Value = dyn Any + Send + Sync;

/// A value, and how to make one for a duplicate.
struct Attribute {
    type_id: TypeId,
    value: Box<Value>,
    clone: Option<fn(&Value) -> Box<Value>>,
}

/// The attributes of a communicator. A replaced value stays as long as the communicator, because it may be lent out;
/// the last value of a type counts.
#[derive(Default)]
pub(crate) struct Attributes(Mutex<Vec<Attribute>>);

impl std::fmt::Debug for Attributes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Attributes").field(&lock(&self.0).len()).finish()
    }
}

impl Attributes {
    pub(crate) fn get<A: CommAttribute>(&self) -> Option<&A> {
        let all = lock(&self.0);
        let found = all
            .iter()
            .rev()
            .find(|attribute| attribute.type_id == TypeId::of::<A>())?;
        let value: *const A = found.value.downcast_ref()?;
        // SAFETY: boxes are neither removed nor given out mutably as long as `self` lives.
        Some(unsafe { &*value })
    }

    pub(crate) fn set<A: CommAttribute>(&self, value: A) {
        let clone = |value: &Value| -> Box<Value> {
            match value.downcast_ref::<A>() {
                Some(value) => Box::new(value.clone()),
                None => unreachable!("an attribute has the type it was set with"),
            }
        };
        lock(&self.0).push(Attribute {
            type_id: TypeId::of::<A>(),
            value: Box::new(value),
            clone: A::CLONE_ON_DUP.then_some(clone),
        });
    }

    /// Gives `other`, a duplicate, clones of the attributes that ask for it.
    pub(crate) fn clone_to(&self, other: &Self) {
        let all = lock(&self.0);
        let mut seen = Vec::new();
        for attribute in all.iter().rev() {
            if seen.contains(&attribute.type_id) {
                continue;
            }
            seen.push(attribute.type_id);
            if let Some(clone) = attribute.clone {
                lock(&other.0).push(Attribute {
                    type_id: attribute.type_id,
                    value: clone(&*attribute.value),
                    clone: attribute.clone,
                });
            }
        }
    }
}
