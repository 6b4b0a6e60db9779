#![expect(unsafe_code, reason = "reads and writes where the program says")]
//! Arrays as arguments. Their length is that of another argument, so each access names an index that MPI allows.

use core::{ffi::c_void, marker::PhantomData};

use super::{
    Argument, Width,
    arguments::{read_handle, write_handle},
};
use crate::{
    abi::{Abi, Encoding},
    objects::{Named, Object},
};

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

    /// The first `len` elements; none of a null pointer.
    #[must_use]
    pub fn list(&self, len: usize) -> Vec<i32> {
        let len = if self.0.is_null() { 0 } else { len };
        (0..len).map(|index| self.get(index)).collect()
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
    #[must_use]
    pub fn list(&self, len: usize) -> Vec<bool> {
        self.0.list(len).into_iter().map(|value| value != 0).collect()
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
    /// Writes element `index`.
    pub fn set(&self, index: usize, value: i32) {
        // SAFETY: by `Argument::take`'s contract there is room for the elements that MPI says.
        unsafe { self.0.add(index).write_unaligned(value) };
    }

    /// Element `index` as it is.
    #[must_use]
    pub fn get(&self, index: usize) -> i32 {
        Ints(self.0).get(index)
    }

    /// Writes the first elements.
    pub fn fill(&self, values: impl IntoIterator<Item = i32>) {
        for (index, value) in values.into_iter().enumerate() {
            self.set(index, value);
        }
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

    fn list(self, len: usize) -> Vec<i64> {
        let len = if self.from.is_null() { 0 } else { len };
        (0..len).map(|index| self.get(index)).collect()
    }
}

/// An array of `int`s or `MPI_Count`s.
#[derive(Clone, Copy, Debug)]
pub struct Counts(Numbers);

impl Counts {
    /// Element `index`.
    #[must_use]
    pub fn get(&self, index: usize) -> i64 {
        self.0.get(index)
    }

    /// The first `len` elements; none of a null pointer.
    #[must_use]
    pub fn list(&self, len: usize) -> Vec<i64> {
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
    /// Element `index`.
    #[must_use]
    pub fn get(&self, index: usize) -> i64 {
        self.0.get(index)
    }

    /// The first `len` elements; none of a null pointer.
    #[must_use]
    pub fn list(&self, len: usize) -> Vec<i64> {
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
    pub fn iter(self, len: usize) -> impl ExactSizeIterator<Item = Named<T>> + Clone {
        let len = if self.at.is_null() { 0 } else { len };
        (0..len).map(move |index| self.get(index))
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
