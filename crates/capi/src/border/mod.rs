#![expect(unsafe_code, reason = "arguments are pointers of the program")]
//! The border between programs and this crate: arguments as C gives them become typed ones, and results become C's.
//!
//! Each exported function is written by a macro (`functions.rs`) out of its line in a table: name, body, and the
//! types of its arguments. A type of argument is an [`Argument`]: it says what C passes, and turns that into what the
//! body gets. This is the one place that reads and writes the program's memory, apart from its messages.

mod arguments;
mod arrays;
mod failure;
mod status;

pub use self::{
    arguments::{
        Address, Buffer, Constant, Count, Flag, InOut, Int, Narrow, NewString, Offset, Out, OutConstant, OutCount,
        OutPointer, Pointer, Rank, Tag, Text, Wide, Width,
    },
    arrays::{Addresses, Counts, Flags, Handles, Ints, OutCounts, OutInts},
    failure::Failure,
    status::{InStatus, OutStatus, OutStatuses, Summary},
};
use crate::abi::{Abi, Encoding, Handle, Sort};

/// An argument: the type that a body gets for what C passes.
///
/// `A` is the ABI; `W` says whether counts are `int` or, in functions whose names end in `_c`, `MPI_Count`.
pub trait Argument<A: Abi, W: Width>: Sized {
    /// The type that C passes.
    type Native;

    /// Takes what C has passed.
    ///
    /// # Safety
    /// It is what MPI demands of this argument: pointers, unless null, lead to memory that the function may use so.
    unsafe fn take(native: Self::Native) -> Self;

    /// What is wrong with it by itself, if anything is.
    #[inline]
    fn fault(&self) -> Option<hikyaku::mpi::error::ErrorClass> {
        None
    }

    /// The object whose error handler is called if the function fails.
    #[inline]
    fn scope(&self) -> Option<Scope> {
        None
    }
}

/// An object with an error handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Its sort.
    pub sort: Sort,
    /// Its handle.
    pub handle: Handle,
}

/// A call of a function by the program.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// The function, as `MPI_Send`.
    pub name: &'static str,
    /// How the program writes numbers.
    pub encoding: &'static Encoding,
}

impl Call {
    /// A call of this function by a program of the ABI `A`.
    #[must_use]
    pub const fn of<A: Abi>(name: &'static str) -> Self {
        Self {
            name,
            encoding: A::ENCODING,
        }
    }

    /// The result for the program. A failure goes to the error handler of `scope`, if there is one.
    #[inline]
    pub fn end(self, scope: Option<Scope>, result: Result<(), Failure>) -> i32 {
        match result {
            Ok(()) => 0,
            Err(failure) => crate::errors::raise(self, scope, failure),
        }
    }

    /// The failure for an argument that is wrong by itself.
    #[cold]
    #[must_use]
    pub fn refuse(self, class: hikyaku::mpi::error::ErrorClass, argument: &'static str) -> Failure {
        Failure::Here(class, hikyaku::mpi::error::Detail::Argument(argument))
    }
}

pub(crate) use self::arguments::{UNDEFINED, decode_constant, encode_constant, native_handle};
