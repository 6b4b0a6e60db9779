#![expect(
    unsafe_code,
    reason = "operands are memory of the caller, and operations may be written in C"
)]
//! Reductions: `inout[i] = input[i] ∘ inout[i]` (MPI 6.9).
//!
//! - Integers wrap around on overflow.
//! - Floating-point numbers are added and multiplied according to IEEE 754. A sum depends on the order of its terms,
//!   and so on the algorithm of the collective.
//! - `MPI_MAX` and `MPI_MIN` of a NaN and anything is NaN, whatever the order. Which zero comes out of +0 and −0 is
//!   not defined.
//! - `MPI_MAXLOC` and `MPI_MINLOC`: NaN wins over all numbers; among equals, and among NaNs, the lowest index wins.
//! - `long double` and numbers of half and quadruple precision are computed in software, in the caller's format.
//! - Logical operations give 0 or 1; everything but zero is true.

mod error;
mod predefined;
mod soft;

use alloc::sync::Arc;

use super::datatype::{Datatype, Kind};
pub use error::OperationError;
pub use predefined::Predefined;

/// A user function: input, inout, number of elements, their datatype.
type Function = dyn Fn(*const u8, *mut u8, u64, &Datatype) + Send + Sync;

/// A reduction. Cheap to clone.
#[derive(Clone)]
pub struct Operation(Handle);

#[derive(Clone)]
enum Handle {
    Predefined(Predefined),
    User {
        function: Arc<Function>,
        is_commutative: bool,
        in_calls: bool,
    },
}

impl Operation {
    /// A predefined operation.
    #[must_use]
    pub const fn predefined(operation: Predefined) -> Self {
        Self(Handle::Predefined(operation))
    }

    /// A user operation (`MPI_Op_create`). It gets the addresses of `input` and `inout`, the number of elements
    /// and their datatype, and does `inout[i] = input[i] ∘ inout[i]`. It must be associative.
    ///
    /// # Safety
    /// The function only reads the data of that many elements at `input`, and only reads and writes those at `inout`;
    /// it takes any alignment, and keeps no pointers.
    #[must_use]
    pub unsafe fn user(
        is_commutative: bool,
        function: impl Fn(*const u8, *mut u8, u64, &Datatype) + Send + Sync + 'static,
    ) -> Self {
        Self(Handle::User {
            function: Arc::new(function),
            is_commutative,
            in_calls: false,
        })
    }

    /// The same operation, if it is one of the user, run only by threads of the program that are inside an MPI call,
    /// and never by the helper thread ([`Options::helper`](super::engine::Options::helper)). A collective with it goes
    /// on when a thread waits, tests or makes progress. This is for operations that need something of the program's
    /// threads: an interpreter, say.
    #[must_use]
    pub fn in_calls_only(mut self) -> Self {
        if let Handle::User { in_calls, .. } = &mut self.0 {
            *in_calls = true;
        }
        self
    }

    /// Whether only threads of the program run it.
    pub(in crate::mpi) fn is_in_calls_only(&self) -> bool {
        matches!(self.0, Handle::User { in_calls: true, .. })
    }

    /// Whether operands commute (`MPI_Op_commutative`).
    #[must_use]
    pub fn is_commutative(&self) -> bool {
        match &self.0 {
            Handle::Predefined(operation) => operation.is_commutative(),
            Handle::User { is_commutative, .. } => *is_commutative,
        }
    }

    /// The predefined operation, if it is one.
    #[must_use]
    pub fn as_predefined(&self) -> Option<Predefined> {
        match &self.0 {
            Handle::Predefined(operation) => Some(*operation),
            Handle::User { .. } => None,
        }
    }

    /// Checks that elements of `datatype` can be reduced. User operations are not restricted.
    ///
    /// # Errors
    /// [`OperationError::Kind`] or [`OperationError::Derived`].
    pub fn check(&self, datatype: &Datatype) -> Result<(), OperationError> {
        match &self.0 {
            Handle::Predefined(operation) => operation.kind_of(datatype).map(|_| ()),
            Handle::User { .. } => Ok(()),
        }
    }

    /// `inout[i] = input[i] ∘ inout[i]` for `count` elements.
    ///
    /// # Errors
    /// As [`check`](Self::check); then nothing has happened.
    ///
    /// # Safety
    /// The data of `count` elements at `input` may be read and those at `inout` read and written, through these
    /// pointers; they are initialised, share no bytes, and are not used by other code meanwhile. Any alignment will do.
    pub unsafe fn apply_at(
        &self,
        datatype: &Datatype,
        input: *const u8,
        inout: *mut u8,
        count: u64,
    ) -> Result<(), OperationError> {
        match &self.0 {
            Handle::Predefined(operation) => {
                let kind = operation.kind_of(datatype)?;
                // SAFETY: the caller's contract, and the kind is defined for the operation.
                unsafe { operation.apply(kind, input, inout, count as usize) };
            }
            Handle::User { function, .. } => function(input, inout, count, datatype),
        }
        Ok(())
    }

    /// [`apply_at`](Self::apply_at) with checks: both slices begin with the first element.
    ///
    /// # Errors
    /// As [`check`](Self::check), or [`OperationError::Memory`] if a slice is too short; then nothing has happened.
    pub fn apply(&self, datatype: &Datatype, input: &[u8], inout: &mut [u8], count: u64) -> Result<(), OperationError> {
        for len in [input.len(), inout.len()] {
            datatype.check_memory(len, 0, count).map_err(OperationError::Memory)?;
        }
        // SAFETY: the data of all elements are within the slices, one of which is borrowed mutably.
        unsafe { self.apply_at(datatype, input.as_ptr(), inout.as_mut_ptr(), count) }
    }
}

impl From<Predefined> for Operation {
    fn from(operation: Predefined) -> Self {
        Self::predefined(operation)
    }
}

impl core::fmt::Debug for Operation {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match &self.0 {
            Handle::Predefined(operation) => write!(f, "Operation({operation})"),
            Handle::User { is_commutative, .. } => f
                .debug_struct("Operation")
                .field("is_commutative", is_commutative)
                .finish_non_exhaustive(),
        }
    }
}

#[cfg(test)]
mod tests;
