#![expect(
    unsafe_code,
    reason = "operations get addresses, and closures are lent to the engine"
)]
//! Reductions.

use std::{
    any::Any,
    ffi::{c_int, c_void},
    fmt, mem,
    panic::{self, AssertUnwindSafe},
    sync::{Arc, Mutex},
};

use hikyaku::mpi::{
    datatype::Datatype as RawDatatype,
    error::{Detail, Error, ErrorClass},
    operation::{Operation as RawOperation, Predefined},
};

use crate::{
    Count,
    datatype::{Buffer, BufferMut, DynBuffer, DynBufferMut, Place, UserDatatype},
    lock::lock,
    request::{Panicked, uninterrupted},
};

/// An operation without its lifetime.
#[derive(Clone, Debug)]
pub struct Erased {
    pub(super) operation: RawOperation,
    pub(super) panicked: Option<Panicked>,
}

/// How elements are reduced.
pub trait Operation {
    /// Returns whether operands may change places (`MPI_Op_commutative`).
    fn is_commutative(&self) -> bool;

    /// The operation without its lifetime; to be used only as long as this one lives.
    #[doc(hidden)]
    fn erased(&self) -> Erased;
}

impl<T: Operation + ?Sized> Operation for &T {
    fn is_commutative(&self) -> bool {
        T::is_commutative(self)
    }

    fn erased(&self) -> Erased {
        T::erased(self)
    }
}

/// An operation that MPI defines.
#[derive(Clone, Copy, Debug)]
pub struct SystemOperation(Predefined);

macro_rules! system_operations {
    ($($(#[$doc:meta])* $name:ident: $operation:ident,)*) => {
        impl SystemOperation {
            $(
                $(#[$doc])*
                #[must_use]
                pub fn $name() -> Self {
                    Self(Predefined::$operation)
                }
            )*
        }
    };
}

system_operations! {
    /// The maximum.
    max: Max,
    /// The minimum.
    min: Min,
    /// The sum.
    sum: Sum,
    /// The product.
    product: Prod,
    /// Logical and.
    logical_and: Land,
    /// Bitwise and.
    bitwise_and: Band,
    /// Logical or.
    logical_or: Lor,
    /// Bitwise or.
    bitwise_or: Bor,
    /// Logical exclusive or.
    logical_xor: Lxor,
    /// Bitwise exclusive or.
    bitwise_xor: Bxor,
    /// The new value replaces the old one (`MPI_REPLACE`). For [windows](crate::window) only. Not in rsmpi.
    replace: Replace,
    /// The value stays as it is (`MPI_NO_OP`), for fetching only. For [windows](crate::window) only. Not in rsmpi.
    no_op: NoOp,
}

impl SystemOperation {
    pub(crate) fn raw(self) -> RawOperation {
        RawOperation::predefined(self.0)
    }
}

impl Operation for SystemOperation {
    fn is_commutative(&self) -> bool {
        self.0.is_commutative()
    }

    fn erased(&self) -> Erased {
        Erased {
            operation: self.raw(),
            panicked: None,
        }
    }
}

type Function<'a> = dyn Fn(DynBuffer<'_>, DynBufferMut<'_>) + Send + Sync + 'a;

/// An operation of the program: a closure that gets two buffers and reduces the first into the second, element by
/// element. It must be associative.
///
/// As in rsmpi only a reference to it is an [`Operation`], because it must live until requests that use it have ended.
/// It may run on any thread that makes progress. If it panics, the panic continues where this process waits for the
/// collective; the results of the other processes are then undefined.
pub struct UserOperation<'a> {
    function: Arc<Function<'a>>,
    is_commutative: bool,
}

impl fmt::Debug for UserOperation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserOperation")
            .field("is_commutative", &self.is_commutative)
            .finish_non_exhaustive()
    }
}

impl<'a> UserOperation<'a> {
    /// Makes an operation whose operands may not change places.
    pub fn associative<F>(function: F) -> Self
    where
        F: Fn(DynBuffer<'_>, DynBufferMut<'_>) + Send + Sync + 'a,
    {
        Self::new(false, function)
    }

    /// Makes an operation whose operands may change places.
    pub fn commutative<F>(function: F) -> Self
    where
        F: Fn(DynBuffer<'_>, DynBufferMut<'_>) + Send + Sync + 'a,
    {
        Self::new(true, function)
    }

    /// Makes an operation; `commute` says whether its operands may change places.
    pub fn new<F>(commute: bool, function: F) -> Self
    where
        F: Fn(DynBuffer<'_>, DynBufferMut<'_>) + Send + Sync + 'a,
    {
        Self {
            function: Arc::new(function),
            is_commutative: commute,
        }
    }
}

impl Operation for &UserOperation<'_> {
    fn is_commutative(&self) -> bool {
        self.is_commutative
    }

    fn erased(&self) -> Erased {
        // SAFETY: only the lifetime changes. The engine calls it until the request of the collective has ended, and
        // drops it before that. Until then this reference lives: a blocking call has it, an immediate one has it for
        // the lifetime of its scope.
        let function: Arc<Function<'static>> = unsafe { mem::transmute(Arc::clone(&self.function)) };
        let panicked: Panicked = Arc::new(Mutex::new(None));
        let run = {
            let panicked = Arc::clone(&panicked);
            move |input: *const u8, inout: *mut u8, count: u64, datatype: &RawDatatype| {
                let datatype = UserDatatype::from(datatype.clone());
                // SAFETY: the engine's contract: so many elements, to be read.
                let from = unsafe { DynBuffer::from_raw(input, count as Count, &datatype) };
                // SAFETY: to be read and written; code that takes them for values of a type checks them first.
                let into = unsafe { DynBufferMut::from_raw(inout, count as Count, &datatype) };
                if lock(&panicked).is_some() {
                    return;
                }
                if let Err(payload) = panic::catch_unwind(AssertUnwindSafe(|| function(from, into))) {
                    keep(&panicked, payload);
                }
            }
        };
        // SAFETY: a function of `DynBuffer`s can only do what those allow.
        let operation = unsafe { RawOperation::user(self.is_commutative, run) };
        Erased {
            operation,
            panicked: Some(panicked),
        }
    }
}

fn keep(panicked: &Panicked, payload: Box<dyn Any + Send>) {
    *lock(panicked) = Some(payload);
}

/// A C function that reduces: input, input and output, number of elements, datatype.
pub type UnsafeUserFunction = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_int, *mut RawDatatype);

/// An operation that is a C function. For many elements it is called several times.
#[derive(Clone, Debug)]
pub struct UnsafeUserOperation {
    operation: RawOperation,
}

impl UnsafeUserOperation {
    /// Makes an operation whose operands may not change places.
    ///
    /// # Safety
    /// As [`new`](Self::new).
    #[must_use]
    pub unsafe fn associative(function: UnsafeUserFunction) -> Self {
        // SAFETY: the caller's contract.
        unsafe { Self::new(false, function) }
    }

    /// Makes an operation whose operands may change places.
    ///
    /// # Safety
    /// As [`new`](Self::new).
    #[must_use]
    pub unsafe fn commutative(function: UnsafeUserFunction) -> Self {
        // SAFETY: the caller's contract.
        unsafe { Self::new(true, function) }
    }

    /// Makes an operation; `commute` says whether its operands may change places.
    ///
    /// # Safety
    /// The function reads only as many elements of the datatype at its first argument as its third argument says, and
    /// reads and writes only as many at the second. It may run on any thread, also several times at once, and does not
    /// unwind.
    #[must_use]
    pub unsafe fn new(commute: bool, function: UnsafeUserFunction) -> Self {
        let run = move |input: *const u8, inout: *mut u8, count: u64, datatype: &RawDatatype| {
            let (mut input, mut inout, mut left) = (input.cast_mut(), inout, count);
            let mut datatype = datatype.clone();
            while left > 0 {
                let now = left.min(c_int::MAX as u64);
                let mut count = now as c_int;
                // SAFETY: the contract of `new`, and these are that many elements.
                unsafe { function(input.cast(), inout.cast(), &raw mut count, &raw mut datatype) };
                let bytes = datatype.extent() as isize * now as isize;
                (input, inout) = (input.wrapping_offset(bytes), inout.wrapping_offset(bytes));
                left -= now;
            }
        };
        Self {
            // SAFETY: the contract of `new`.
            operation: unsafe { RawOperation::user(commute, run) },
        }
    }
}

impl Operation for &UnsafeUserOperation {
    fn is_commutative(&self) -> bool {
        self.operation.is_commutative()
    }

    fn erased(&self) -> Erased {
        Erased {
            operation: self.operation.clone(),
            panicked: None,
        }
    }
}

/// Reduces one buffer into another, at this process (`MPI_Reduce_local`).
///
/// # Errors
/// The buffers have different types or lengths; the operation is not defined for these elements.
///
/// # Panics
/// If a user's operation panics.
///
/// ```
/// use mpi::collective::{SystemOperation, reduce_local_into};
///
/// let mut bits = 0b0110_u8;
/// reduce_local_into(&0b0011_u8, &mut bits, SystemOperation::bitwise_and())?;
/// assert_eq!(bits, 0b0010);
/// # Ok::<_, mpi::Error>(())
/// ```
pub fn reduce_local_into<S, R, O>(inbuf: &S, inoutbuf: &mut R, op: O) -> Result<(), Error>
where
    S: Buffer + ?Sized,
    R: BufferMut + ?Sized,
    O: Operation,
{
    const CALL: &str = "MPI_Reduce_local";
    let (from, into) = (Place::of(inbuf), Place::of_mut(inoutbuf));
    if from.count != into.count || !from.datatype.is_same(&into.datatype) {
        let detail = Detail::Text("the buffers have as many elements of the same datatype");
        return Err(Error::new(ErrorClass::Count, CALL).with_detail(detail));
    }
    let Erased { operation, panicked } = op.erased();
    // SAFETY: one is borrowed, and the other mutably; both have so many elements.
    let reduced = uninterrupted(|| unsafe { operation.apply_at(&from.datatype, from.base, into.base, from.count) });
    into.validate();
    if let Some(payload) = panicked.and_then(|panicked| lock(&panicked).take()) {
        panic::resume_unwind(payload);
    }
    reduced.map_err(|error| Error::operation(CALL, error))
}
