#![expect(unsafe_code, reason = "an implementation answers for the values that it gives")]
//! From the types of this crate to those of the engine below it, [`hikyaku::mpi`].

/// All traits.
pub mod traits {
    pub use super::AsRaw;
}

/// A type with a counterpart in the engine: a communicator, a group, a datatype.
///
/// ```
/// use mpi::traits::*;
///
/// let universe = mpi::initialize().unwrap();
/// let engine = universe.world().as_raw();
/// assert_eq!(engine.context(), 0);
/// ```
///
/// # Safety
/// The method always returns the same object.
pub unsafe trait AsRaw {
    /// The counterpart in the engine.
    type Raw;

    /// Returns the counterpart, as a handle that is cheap to clone.
    fn as_raw(&self) -> Self::Raw;
}

// SAFETY: as `T`.
unsafe impl<T: AsRaw + ?Sized> AsRaw for &T {
    type Raw = T::Raw;

    fn as_raw(&self) -> Self::Raw {
        T::as_raw(self)
    }
}
