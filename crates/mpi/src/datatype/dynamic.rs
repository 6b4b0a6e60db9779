#![expect(unsafe_code, reason = "memory whose type is known when the program runs")]
//! Buffers whose datatype is known only at run time: the arguments of user operations.

use std::{ffi::c_void, marker::PhantomData, slice};

use hikyaku::mpi::datatype::Datatype as RawDatatype;

use super::{
    AsDatatype, Buffer, BufferMut, Collection, Datatype, DatatypeRef, Equivalence, Pointer, PointerMut, UserDatatype,
    validator::Validator,
};
use crate::{Count, raw::AsRaw};

/// Elements of some datatype, for reading.
///
/// ```
/// use mpi::datatype::DynBuffer;
///
/// let numbers = [1_i64, 2, 3];
/// let buffer = DynBuffer::new(&numbers);
/// assert!(buffer.is::<i64>() && !buffer.is::<f64>());
/// assert_eq!(buffer.downcast::<i64>(), Some(&numbers[..]));
/// ```
#[derive(Clone, Debug)]
pub struct DynBuffer<'a> {
    base: *const u8,
    count: usize,
    datatype: RawDatatype,
    memory: PhantomData<&'a [u8]>,
}

/// Elements of some datatype, for reading and writing.
#[derive(Debug)]
pub struct DynBufferMut<'a> {
    base: *mut u8,
    count: usize,
    datatype: RawDatatype,
    validator: Option<Validator>,
    memory: PhantomData<&'a mut [u8]>,
}

// SAFETY: as `&[T]` of a type that is plain data.
unsafe impl Send for DynBuffer<'_> {}
// SAFETY: as above.
unsafe impl Sync for DynBuffer<'_> {}
// SAFETY: as `&mut [T]` of a type that is plain data.
unsafe impl Send for DynBufferMut<'_> {}
// SAFETY: as above.
unsafe impl Sync for DynBufferMut<'_> {}

/// Returns whether `count` elements of `datatype` at `base` are values of `T`.
fn is<T: Equivalence>(base: *const u8, count: usize, datatype: &RawDatatype) -> bool {
    let alike = datatype.is_same(&T::equivalent_datatype().as_raw())
        && datatype.extent() == size_of::<T>() as i64
        && base.cast::<T>().is_aligned();
    let valid = |index: usize| match T::CHECK {
        // SAFETY: the elements are initialised, and as far apart as values of `T`.
        Some(check) => unsafe { (check.is_valid)(base.wrapping_add(index * size_of::<T>())) },
        None => true,
    };
    alike && (0..count).all(valid)
}

impl<'a> DynBuffer<'a> {
    /// Takes the elements of a slice.
    #[must_use]
    pub fn new<T: Equivalence>(buffer: &'a [T]) -> Self {
        Self {
            base: buffer.as_ptr().cast(),
            count: buffer.len(),
            datatype: T::equivalent_datatype().as_raw(),
            memory: PhantomData,
        }
    }

    /// Takes `count` elements of `datatype` at `base`.
    ///
    /// # Safety
    /// They are initialised memory that may be read, and is not written to, for `'a`.
    ///
    /// # Panics
    /// If the count is negative.
    pub unsafe fn from_raw<T>(base: *const T, count: Count, datatype: impl Datatype) -> Self {
        Self {
            base: base.cast(),
            count: usize::try_from(count).expect("a count is not negative"),
            datatype: datatype.as_raw(),
            memory: PhantomData,
        }
    }

    /// Returns whether the elements are values of `T`.
    #[must_use]
    pub fn is<T: Equivalence>(&self) -> bool {
        is::<T>(self.base, self.count, &self.datatype)
    }

    /// The elements as values of `T`, if they are.
    #[must_use]
    pub fn downcast<T: Equivalence>(self) -> Option<&'a [T]> {
        // SAFETY: they are, as was just checked.
        self.is::<T>()
            .then(|| unsafe { slice::from_raw_parts(self.base.cast(), self.count) })
    }

    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The address of the elements.
    #[must_use]
    pub fn as_ptr(&self) -> *const c_void {
        self.base.cast()
    }
}

impl<'a> DynBufferMut<'a> {
    /// Takes the elements of a slice.
    #[must_use]
    pub fn new<T: Equivalence>(buffer: &'a mut [T]) -> Self {
        Self {
            base: buffer.as_mut_ptr().cast(),
            count: buffer.len(),
            datatype: T::equivalent_datatype().as_raw(),
            validator: Validator::of::<T>(buffer.as_mut_ptr(), buffer.len()),
            memory: PhantomData,
        }
    }

    /// Takes `count` elements of `datatype` at `base`.
    ///
    /// # Safety
    /// They are initialised memory that may be read, may be written with any bytes, and is not used otherwise, for
    /// `'a`.
    ///
    /// # Panics
    /// If the count is negative.
    pub unsafe fn from_raw<T>(base: *mut T, count: Count, datatype: impl Datatype) -> Self {
        Self {
            base: base.cast(),
            count: usize::try_from(count).expect("a count is not negative"),
            datatype: datatype.as_raw(),
            validator: None,
            memory: PhantomData,
        }
    }

    /// Returns whether the elements are values of `T`.
    #[must_use]
    pub fn is<T: Equivalence>(&self) -> bool {
        is::<T>(self.base, self.count, &self.datatype)
    }

    /// The elements as values of `T`, if they are.
    #[must_use]
    pub fn downcast<T: Equivalence>(self) -> Option<&'a mut [T]> {
        // SAFETY: they are, as was just checked.
        self.is::<T>()
            .then(|| unsafe { slice::from_raw_parts_mut(self.base.cast(), self.count) })
    }

    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The address of the elements.
    #[must_use]
    pub fn as_ptr(&self) -> *const c_void {
        self.base.cast_const().cast()
    }

    /// The address of the elements, mutably.
    pub fn as_mut_ptr(&mut self) -> *mut c_void {
        self.base.cast()
    }

    /// Borrows the elements for reading.
    #[must_use]
    pub fn reborrow(&self) -> DynBuffer<'_> {
        DynBuffer {
            base: self.base,
            count: self.count,
            datatype: self.datatype.clone(),
            memory: PhantomData,
        }
    }

    /// Borrows the elements for reading and writing.
    #[must_use]
    pub fn reborrow_mut(&mut self) -> DynBufferMut<'_> {
        DynBufferMut {
            base: self.base,
            count: self.count,
            datatype: self.datatype.clone(),
            validator: self.validator,
            memory: PhantomData,
        }
    }

    /// Turns it into elements for reading only.
    #[must_use]
    pub fn downgrade(self) -> DynBuffer<'a> {
        DynBuffer {
            base: self.base,
            count: self.count,
            datatype: self.datatype,
            memory: PhantomData,
        }
    }
}

macro_rules! buffers {
    ($($name:ident)*) => {$(
        // SAFETY: the contract of `from_raw`; a slice keeps that of `Equivalence`.
        unsafe impl AsDatatype for $name<'_> {
            type Out = UserDatatype;

            fn as_datatype(&self) -> UserDatatype {
                self.datatype.clone().into()
            }
        }

        // SAFETY: as above.
        unsafe impl Collection for $name<'_> {
            fn count(&self) -> Count {
                self.count as Count
            }
        }

        // SAFETY: as above.
        unsafe impl Pointer for $name<'_> {
            fn pointer(&self) -> *const c_void {
                self.as_ptr()
            }
        }

        // SAFETY: as above.
        unsafe impl Buffer for $name<'_> {}

        impl $name<'_> {
            /// The datatype of the elements. Not in rsmpi.
            #[must_use]
            pub fn datatype(&self) -> DatatypeRef<'_> {
                DatatypeRef::new(&self.datatype)
            }
        }
    )*};
}

buffers! {
    DynBuffer
    DynBufferMut
}

// SAFETY: as above.
unsafe impl PointerMut for DynBufferMut<'_> {
    fn pointer_mut(&mut self) -> *mut c_void {
        self.as_mut_ptr()
    }

    fn validator(&mut self) -> Option<Validator> {
        self.validator
    }
}

// SAFETY: as above.
unsafe impl BufferMut for DynBufferMut<'_> {}
