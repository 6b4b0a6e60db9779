#![expect(unsafe_code, reason = "reads and writes where the program says")]
//! Arrays as arguments. Their length is that of another argument, so each access names an index that MPI allows.

use core::{ffi::c_void, marker::PhantomData};

use hikyaku::mpi::error::ErrorClass;

use super::{
    Argument, Failure, Width,
    arguments::{read_handle, write_handle},
};
use crate::{
    abi::{Abi, Encoding},
    objects::{Named, Object},
};

/// Refuses a null pointer in the place of an array with elements.
#[inline]
fn check(is_null: bool, len: usize) -> Result<(), Failure> {
    if is_null && len > 0 {
        return Err(Failure::text(ErrorClass::Arg, "an array is a null pointer"));
    }
    Ok(())
}

/// An array of `int`s.
#[derive(Clone, Copy, Debug)]
pub struct Ints(*const i32);

impl Ints {
    /// Element `index`.
    #[must_use]
    pub fn get(&self, index: usize) -> i32 {
        // SAFETY: by `Argument::take`'s contract the array has the elements that MPI says.
        unsafe { self.0.add(index).read_unaligned() }
    }

    /// The first `len` elements.
    ///
    /// # Errors
    /// There are some, and the array is a null pointer.
    pub fn list(&self, len: usize) -> Result<Vec<i32>, Failure> {
        check(self.0.is_null(), len)?;
        Ok((0..len).map(|index| self.get(index)).collect())
    }

    /// The address.
    #[must_use]
    pub fn address(&self) -> usize {
        self.0.addr()
    }
}

impl<A: Abi, W: Width> Argument<A, W> for Ints {
    type Native = *const i32;

    unsafe fn take(native: Self::Native) -> Self {
        Self(native)
    }
}

/// An array of `int`s that are true or false.
#[derive(Clone, Copy, Debug)]
pub struct Flags(Ints);

impl Flags {
    /// The first `len` elements.
    ///
    /// # Errors
    /// There are some, and the array is a null pointer.
    pub fn list(&self, len: usize) -> Result<Vec<bool>, Failure> {
        Ok(self.0.list(len)?.into_iter().map(|value| value != 0).collect())
    }
}

impl<A: Abi, W: Width> Argument<A, W> for Flags {
    type Native = *const i32;

    unsafe fn take(native: Self::Native) -> Self {
        Self(Ints(native))
    }
}

/// Room for `int`s.
#[derive(Clone, Copy, Debug)]
pub struct OutInts(*mut i32);

impl OutInts {
    /// There is room for so many elements.
    ///
    /// # Errors
    /// There are some, and the array is a null pointer.
    pub fn present(&self, len: usize) -> Result<(), Failure> {
        check(self.0.is_null(), len)
    }

    /// Writes element `index`.
    pub fn set(&self, index: usize, value: i32) {
        // SAFETY: by `Argument::take`'s contract there is room for the elements that MPI says.
        unsafe { self.0.add(index).write_unaligned(value) };
    }

    /// The first `len` elements as they are.
    ///
    /// # Errors
    /// There are some, and the array is a null pointer.
    pub fn list(&self, len: usize) -> Result<Vec<i32>, Failure> {
        Ints(self.0).list(len)
    }

    /// Writes the first elements.
    ///
    /// # Errors
    /// There are some, and the array is a null pointer.
    pub fn fill(&self, values: impl IntoIterator<Item = i32>) -> Result<(), Failure> {
        for (index, value) in values.into_iter().enumerate() {
            check(self.0.is_null(), 1)?;
            self.set(index, value);
        }
        Ok(())
    }

    /// The address.
    #[must_use]
    pub fn address(&self) -> usize {
        self.0.addr()
    }
}

impl<A: Abi, W: Width> Argument<A, W> for OutInts {
    type Native = *mut i32;

    unsafe fn take(native: Self::Native) -> Self {
        Self(native)
    }
}

/// An array of numbers of one of two widths.
#[derive(Clone, Copy, Debug)]
struct Numbers {
    from: *const c_void,
    wide: bool,
}

impl Numbers {
    fn get(self, index: usize) -> i64 {
        // SAFETY: by `Argument::take`'s contract the array has the elements that MPI says, of this width.
        unsafe {
            if self.wide {
                self.from.cast::<i64>().add(index).read_unaligned()
            } else {
                self.from.cast::<i32>().add(index).read_unaligned().into()
            }
        }
    }

    fn list(self, len: usize) -> Result<Vec<i64>, Failure> {
        check(self.from.is_null(), len)?;
        Ok((0..len).map(|index| self.get(index)).collect())
    }
}

/// An array of `int`s or `MPI_Count`s.
#[derive(Clone, Copy, Debug)]
pub struct Counts(Numbers);

impl Counts {
    /// The first `len` elements.
    ///
    /// # Errors
    /// There are some, and the array is a null pointer.
    pub fn list(&self, len: usize) -> Result<Vec<i64>, Failure> {
        self.0.list(len)
    }
}

impl<A: Abi, W: Width> Argument<A, W> for Counts {
    type Native = *const W::Count;

    unsafe fn take(native: Self::Native) -> Self {
        Self(Numbers {
            from: native.cast(),
            wide: W::WIDE,
        })
    }
}

/// Where `int`s or `MPI_Count`s go.
#[derive(Clone, Copy, Debug)]
pub struct OutCounts {
    to: *mut c_void,
    wide: bool,
}

impl OutCounts {
    /// Writes element `index`.
    pub fn set(&self, index: usize, value: i64) {
        // SAFETY: by `Argument::take`'s contract there is room for the elements that MPI says, of this width.
        unsafe {
            if self.wide {
                self.to.cast::<i64>().add(index).write_unaligned(value);
            } else {
                self.to.cast::<i32>().add(index).write_unaligned(value as i32);
            }
        }
    }
}

impl<A: Abi, W: Width> Argument<A, W> for OutCounts {
    type Native = *mut W::Count;

    unsafe fn take(native: Self::Native) -> Self {
        Self {
            to: native.cast(),
            wide: W::WIDE,
        }
    }
}

/// An array of `MPI_Aint`s, or `MPI_Count`s in a function whose name ends in `_c`.
#[derive(Clone, Copy, Debug)]
pub struct Addresses(Numbers);

impl Addresses {
    /// The first `len` elements.
    ///
    /// # Errors
    /// There are some, and the array is a null pointer.
    pub fn list(&self, len: usize) -> Result<Vec<i64>, Failure> {
        self.0.list(len)
    }

    /// Writes element `index`, of an array that is a result.
    pub fn set(&self, index: usize, value: i64) {
        // SAFETY: by `Argument::take`'s contract there is room for the elements that MPI says.
        unsafe { self.0.from.cast_mut().cast::<i64>().add(index).write_unaligned(value) };
    }
}

impl<A: Abi, W: Width> Argument<A, W> for Addresses {
    type Native = *const i64;

    unsafe fn take(native: Self::Native) -> Self {
        Self(Numbers {
            from: native.cast(),
            wide: true,
        })
    }
}

/// An array of handles, or room for one.
#[derive(Debug)]
pub struct Handles<T> {
    at: *mut c_void,
    encoding: &'static Encoding,
    sort: PhantomData<fn() -> T>,
}

impl<T> Clone for Handles<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Handles<T> {}

impl<T: Object> Handles<T> {
    /// Element `index`.
    #[must_use]
    pub fn get(&self, index: usize) -> Named<T> {
        let at = self.at.wrapping_byte_add(index * self.encoding.handle_bytes);
        // SAFETY: by `Argument::take`'s contract the array has the elements that MPI says.
        let value = unsafe { read_handle(self.encoding, at) };
        Named::new(self.encoding.decode(T::SORT, value))
    }

    /// Writes element `index`.
    pub fn set(&self, index: usize, handle: Named<T>) {
        let at = self.at.wrapping_byte_add(index * self.encoding.handle_bytes);
        let value = self.encoding.encode(T::SORT, handle.handle());
        // SAFETY: by `Argument::take`'s contract there is room for the elements that MPI says.
        unsafe { write_handle(self.encoding, at, value) };
    }

    /// The first `len` elements.
    ///
    /// # Errors
    /// There are some, and the array is a null pointer.
    pub fn iter(self, len: usize) -> Result<impl ExactSizeIterator<Item = Named<T>> + Clone, Failure> {
        check(self.at.is_null(), len)?;
        Ok((0..len).map(move |index| self.get(index)))
    }
}

impl<A: Abi, W: Width, T: Object> Argument<A, W> for Handles<T> {
    type Native = *mut A::Handle;

    unsafe fn take(native: Self::Native) -> Self {
        Self {
            at: native.cast(),
            encoding: A::ENCODING,
            sort: PhantomData,
        }
    }
}
