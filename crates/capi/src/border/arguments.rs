#![expect(unsafe_code, reason = "reads and writes where the program says")]
//! Single values as arguments.

use core::{
    ffi::{CStr, c_char, c_void},
    marker::PhantomData,
    ptr::NonNull,
};

use hikyaku::mpi::{
    engine::{ANY_SOURCE, ANY_TAG, PROC_NULL},
    error::ErrorClass,
};

use super::{Argument, Failure};
use crate::{
    abi::{Abi, Encoding, Handle, Numbers},
    objects::{Named, Object},
};

/// Whether counts are `int` or `MPI_Count`.
pub trait Width: 'static {
    /// The type of a count.
    type Count: Copy + Into<i64>;
    /// Counts are `MPI_Count`.
    const WIDE: bool;
}

/// Counts are `int`.
#[derive(Debug)]
pub struct Narrow;

/// Counts are `MPI_Count`.
#[derive(Debug)]
pub struct Wide;

impl Width for Narrow {
    type Count = i32;
    const WIDE: bool = false;
}

impl Width for Wide {
    type Count = i64;
    const WIDE: bool = true;
}

macro_rules! by_value {
    ($($(#[$doc:meta])* $name:ident($inner:ty) from $native:ty, $value:ident => $taken:expr;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug)]
            pub struct $name(pub $inner);

            impl<A: Abi, W: Width> Argument<A, W> for $name {
                type Native = $native;

                #[inline]
                unsafe fn take($value: Self::Native) -> Self {
                    Self($taken)
                }
            }
        )*
    };
}

by_value! {
    /// An `int`.
    Int(i32) from i32, value => value;
    /// An `int` that is true or false.
    Flag(bool) from i32, value => value != 0;
    /// An `MPI_Aint`, or `MPI_Count` in a function whose name ends in `_c`.
    Address(i64) from i64, value => value;
    /// An `MPI_Offset` or `MPI_Count`.
    Offset(i64) from i64, value => value;
    /// An `int` or `MPI_Count`.
    Count(i64) from W::Count, value => value.into();
    /// A pointer that only the program understands: a function, or state of a callback.
    Pointer(usize) from *mut c_void, value => value.expose_provenance();
    /// A tag, in the engine's numbers.
    Tag(i32) from i32, value => match value {
        value if value == A::ENCODING.any_tag => ANY_TAG,
        ANY_TAG => i32::MIN,
        value => value,
    };
}

/// A rank, in the engine's numbers; `MPI_ROOT` is [`Rank::ROOT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rank(pub i32);

impl Rank {
    /// `MPI_ROOT`.
    pub const ROOT: i32 = -1000;

    /// The rank that the program means.
    #[inline]
    pub(crate) fn decode(encoding: &Encoding, value: i32) -> i32 {
        if value >= 0 {
            value
        } else {
            Self::special(encoding, value)
        }
    }

    fn special(encoding: &Encoding, value: i32) -> i32 {
        match value {
            value if value == encoding.any_source => ANY_SOURCE,
            value if value == encoding.proc_null => PROC_NULL,
            value if value == encoding.root => Self::ROOT,
            // A wrong one, which means something else to the engine.
            ANY_SOURCE | PROC_NULL | Self::ROOT => i32::MIN,
            value => value,
        }
    }

    /// How the program writes a rank of the engine's.
    pub(crate) fn encode(encoding: &Encoding, value: i32) -> i32 {
        match value {
            ANY_SOURCE => encoding.any_source,
            PROC_NULL => encoding.proc_null,
            value => value,
        }
    }
}

impl<A: Abi, W: Width> Argument<A, W> for Rank {
    type Native = i32;

    #[inline]
    unsafe fn take(native: i32) -> Self {
        Self(Self::decode(A::ENCODING, native))
    }
}

/// The address of a message or of another buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer(pub *mut u8);

impl Buffer {
    const IN_PLACE: usize = 1;
    const AUTOMATIC: usize = 2;

    /// It is `MPI_IN_PLACE`.
    #[inline]
    #[must_use]
    pub fn is_in_place(self) -> bool {
        self.0.addr() == Self::IN_PLACE
    }

    /// It is `MPI_BUFFER_AUTOMATIC`.
    #[must_use]
    pub fn is_automatic(self) -> bool {
        self.0.addr() == Self::AUTOMATIC
    }
}

impl<A: Abi, W: Width> Argument<A, W> for Buffer {
    type Native = *mut c_void;

    #[inline]
    unsafe fn take(native: Self::Native) -> Self {
        let address = native.addr();
        if address == A::ENCODING.in_place {
            return Self(core::ptr::without_provenance_mut(Self::IN_PLACE));
        }
        if address == A::ENCODING.buffer_automatic {
            return Self(core::ptr::without_provenance_mut(Self::AUTOMATIC));
        }
        Self(native.cast())
    }
}

/// One of a set of constants, in the standard's numbers. `i32::MIN` if it is none of them.
#[derive(Clone, Copy, Debug)]
pub struct Constant<N>(pub i32, PhantomData<N>);

/// The standard number of a constant; `None` if it is none of the set.
pub(crate) fn decode_constant<N: Numbers>(encoding: &Encoding, value: i32) -> Option<i32> {
    let row = N::TABLE.iter().find(|row| row[encoding.column] == value);
    row.map(|row| row[0])
}

/// The number that the program knows for a standard one; others are the same in both.
pub(crate) fn encode_constant<N: Numbers>(encoding: &Encoding, value: i32) -> i32 {
    let row = N::TABLE.iter().find(|row| row[0] == value);
    row.map_or(value, |row| row[encoding.column])
}

impl<A: Abi, W: Width, N: Numbers> Argument<A, W> for Constant<N> {
    type Native = i32;

    #[inline]
    unsafe fn take(native: i32) -> Self {
        Self(decode_constant::<N>(A::ENCODING, native).unwrap_or(native), PhantomData)
    }
}

/// A string that ends with a zero byte.
#[derive(Clone, Copy, Debug)]
pub struct Text(Option<NonNull<c_char>>);

impl Text {
    /// The bytes, without the zero.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        let Some(start) = self.0 else { return &[] };
        // SAFETY: by `Argument::take`'s contract it is a string of C, which stays while the function runs.
        unsafe { CStr::from_ptr(start.as_ptr()) }.to_bytes()
    }

    /// The text; bytes that are not UTF-8 are replaced.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(self.bytes()).into_owned()
    }
}

impl<A: Abi, W: Width> Argument<A, W> for Text {
    type Native = *const c_char;

    unsafe fn take(native: Self::Native) -> Self {
        Self(NonNull::new(native.cast_mut()))
    }

    fn fault(&self) -> Option<ErrorClass> {
        self.0.is_none().then_some(ErrorClass::Arg)
    }
}

/// Room for a string.
#[derive(Clone, Copy, Debug)]
pub struct NewString(*mut c_char);

impl NewString {
    /// Writes at most `room` bytes, of which the last is a zero; returns the length without it.
    pub fn set(&self, text: &[u8], room: usize) -> usize {
        let len = text.len().min(room.saturating_sub(1));
        if room > 0 && !self.0.is_null() {
            // SAFETY: by `Argument::take`'s contract there is room for as many bytes as MPI says, and the caller takes that
            // for `room`.
            unsafe {
                self.0.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), len);
                self.0.add(len).write(0);
            }
        }
        len
    }

    /// Whether the program gives no room.
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.0.is_null()
    }
}

impl<A: Abi, W: Width> Argument<A, W> for NewString {
    type Native = *mut c_char;

    unsafe fn take(native: Self::Native) -> Self {
        Self(native)
    }
}

/// Where a result of a plain type goes.
#[derive(Clone, Copy, Debug)]
pub struct Out<T>(*mut T);

impl<T: Copy> Out<T> {
    /// Writes the result.
    #[inline]
    pub fn set(&self, value: T) {
        if !self.0.is_null() {
            // SAFETY: by `Argument::take`'s contract the program has room for it here.
            unsafe { self.0.write_unaligned(value) };
        }
    }

    /// Whether the program does not want it.
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// The value that is there, of an argument that is read, too.
    #[must_use]
    pub fn get(&self) -> T {
        // SAFETY: by `Argument::take`'s contract the program has a value here; a null pointer is a fault.
        unsafe { self.0.read_unaligned() }
    }
}

impl Out<i32> {
    /// Writes a truth value.
    #[inline]
    pub fn set_flag(&self, value: bool) {
        self.set(value.into());
    }
}

impl<A: Abi, W: Width, T: Copy> Argument<A, W> for Out<T> {
    type Native = *mut T;

    #[inline]
    unsafe fn take(native: Self::Native) -> Self {
        Self(native)
    }

    #[inline]
    fn fault(&self) -> Option<ErrorClass> {
        self.0.is_null().then_some(ErrorClass::Arg)
    }
}

/// Where a pointer goes: `void *` in C, the address of a pointer in fact. Also a pointer that may be null.
#[derive(Clone, Copy, Debug)]
pub struct OutPointer(*mut *mut c_void);

impl OutPointer {
    /// Writes the pointer.
    #[expect(clippy::not_unsafe_ptr_arg_deref, reason = "the argument is only written down")]
    pub fn set(&self, value: *mut c_void) {
        if !self.0.is_null() {
            // SAFETY: by `Argument::take`'s contract the program has room for a pointer here.
            unsafe { self.0.write_unaligned(value) };
        }
    }

    /// Whether the program gives no place.
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// The address that is there; 0 without a place.
    #[must_use]
    pub fn get(&self) -> usize {
        if self.0.is_null() {
            return 0;
        }
        // SAFETY: by `Argument::take`'s contract there is a pointer, of an argument that is read, too.
        unsafe { self.0.read_unaligned() }.addr()
    }
}

impl<A: Abi, W: Width> Argument<A, W> for OutPointer {
    type Native = *mut c_void;

    unsafe fn take(native: Self::Native) -> Self {
        Self(native.cast())
    }
}

/// Where an `int` or `MPI_Count` goes.
#[derive(Clone, Copy, Debug)]
pub struct OutCount {
    to: *mut c_void,
    wide: bool,
}

impl OutCount {
    /// Writes the result; returns whether it fits.
    pub fn try_set(&self, value: i64) -> bool {
        if self.to.is_null() {
            return true;
        }
        // SAFETY: by `Argument::take`'s contract the program has room for a number of this width.
        unsafe {
            if self.wide {
                self.to.cast::<i64>().write_unaligned(value);
            } else {
                let Ok(value) = i32::try_from(value) else { return false };
                self.to.cast::<i32>().write_unaligned(value);
            }
        }
        true
    }

    /// Writes the result.
    ///
    /// # Errors
    /// `MPI_ERR_VALUE_TOO_LARGE` if it does not fit.
    pub fn set(&self, value: i64) -> Result<(), Failure> {
        if self.try_set(value) {
            return Ok(());
        }
        let (min, max) = (i32::MIN.into(), i32::MAX.into());
        Err(Failure::value(ErrorClass::ValueTooLarge, "the result", value, min, max))
    }

    /// Writes the result, or `MPI_UNDEFINED` if it does not fit or there is none.
    pub fn set_or_undefined(&self, value: Option<i64>) {
        if !value.is_some_and(|value| self.try_set(value)) {
            self.try_set(UNDEFINED.into());
        }
    }

    /// The number that is there.
    #[must_use]
    pub fn get(&self) -> i64 {
        // SAFETY: by `Argument::take`'s contract the program has a number of this width here; null is a fault.
        unsafe {
            if self.wide {
                self.to.cast::<i64>().read_unaligned()
            } else {
                self.to.cast::<i32>().read_unaligned().into()
            }
        }
    }
}

/// `MPI_UNDEFINED`, the same in both ABIs.
pub(crate) const UNDEFINED: i32 = -32766;

impl<A: Abi, W: Width> Argument<A, W> for OutCount {
    type Native = *mut W::Count;

    unsafe fn take(native: Self::Native) -> Self {
        Self {
            to: native.cast(),
            wide: W::WIDE,
        }
    }

    fn fault(&self) -> Option<ErrorClass> {
        self.to.is_null().then_some(ErrorClass::Arg)
    }
}

/// Where one of a set of constants goes.
#[derive(Clone, Copy, Debug)]
pub struct OutConstant<N> {
    to: *mut i32,
    encoding: &'static Encoding,
    numbers: PhantomData<N>,
}

impl<N: Numbers> OutConstant<N> {
    /// Writes it, given as the standard's number.
    pub fn set(&self, value: i32) {
        if !self.to.is_null() {
            // SAFETY: by `Argument::take`'s contract the program has room for an `int` here.
            unsafe { self.to.write_unaligned(encode_constant::<N>(self.encoding, value)) };
        }
    }

    /// The constant that is there, as the standard's number.
    #[must_use]
    pub fn get(&self) -> i32 {
        // SAFETY: by `Argument::take`'s contract the program has an `int` here; a null pointer is a fault.
        let value = unsafe { self.to.read_unaligned() };
        decode_constant::<N>(self.encoding, value).unwrap_or(value)
    }
}

impl<A: Abi, W: Width, N: Numbers> Argument<A, W> for OutConstant<N> {
    type Native = *mut i32;

    unsafe fn take(native: Self::Native) -> Self {
        Self {
            to: native,
            encoding: A::ENCODING,
            numbers: PhantomData,
        }
    }

    fn fault(&self) -> Option<ErrorClass> {
        self.to.is_null().then_some(ErrorClass::Arg)
    }
}

/// Where the handle of an object is, or goes.
#[derive(Debug)]
pub struct InOut<T> {
    to: *mut c_void,
    encoding: &'static Encoding,
    sort: PhantomData<fn() -> T>,
}

impl<T> Clone for InOut<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for InOut<T> {}

// SAFETY: an address, at which the program waits for a handle until a request has ended, in whatever thread that is.
unsafe impl<T> Send for InOut<T> {}

impl<T: Object> InOut<T> {
    /// The handle that is there.
    #[must_use]
    pub fn get(&self) -> Named<T> {
        // SAFETY: by `Argument::take`'s contract there is a handle here.
        let value = unsafe { read_handle(self.encoding, self.to) };
        Named::new(self.encoding.decode(T::SORT, value))
    }

    /// Writes a handle.
    #[inline]
    pub fn set(&self, handle: Named<T>) {
        if !self.to.is_null() {
            let value = self.encoding.encode(T::SORT, handle.handle());
            // SAFETY: by `Argument::take`'s contract there is room for a handle here.
            unsafe { write_handle(self.encoding, self.to, value) };
        }
    }
}

/// # Safety
/// There is a handle of this encoding at `from`.
#[inline]
pub(super) unsafe fn read_handle(encoding: &Encoding, from: *const c_void) -> i64 {
    // SAFETY: the caller's contract.
    unsafe {
        if encoding.handle_bytes == 8 {
            from.cast::<i64>().read_unaligned()
        } else {
            from.cast::<i32>().read_unaligned().into()
        }
    }
}

/// # Safety
/// There is room for a handle of this encoding at `to`.
#[inline]
pub(super) unsafe fn write_handle(encoding: &Encoding, to: *mut c_void, value: i64) {
    // SAFETY: the caller's contract.
    unsafe {
        if encoding.handle_bytes == 8 {
            to.cast::<i64>().write_unaligned(value);
        } else {
            to.cast::<i32>().write_unaligned(value as i32);
        }
    }
}

impl<A: Abi, W: Width, T: Object> Argument<A, W> for InOut<T> {
    type Native = *mut A::Handle;

    #[inline]
    unsafe fn take(native: Self::Native) -> Self {
        Self {
            to: native.cast(),
            encoding: A::ENCODING,
            sort: PhantomData,
        }
    }

    #[inline]
    fn fault(&self) -> Option<ErrorClass> {
        self.to.is_null().then_some(ErrorClass::Arg)
    }
}

impl<A: Abi, W: Width, T: Object> Argument<A, W> for Named<T> {
    type Native = A::Handle;

    #[inline]
    unsafe fn take(native: Self::Native) -> Self {
        Self::new(A::ENCODING.decode(T::SORT, A::number(native)))
    }

    #[inline]
    fn scope(&self) -> Option<super::Scope> {
        T::HAS_HANDLER.then(|| super::Scope {
            sort: T::SORT,
            handle: self.handle(),
        })
    }
}

/// A handle of any sort, as an object's own code needs it.
pub(crate) fn native_handle(encoding: &Encoding, sort: crate::abi::Sort, handle: Handle) -> i64 {
    encoding.encode(sort, handle)
}
