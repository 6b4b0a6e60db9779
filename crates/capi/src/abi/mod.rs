//! The two binary interfaces: how each writes handles, constants and statuses.
//!
//! Inside this crate all have one form: the numbers of the standard ABI (MPI 5.0, chapter 20). An [`Encoding`] is plain
//! data that says how an ABI writes them; [`Abi`] is the same as a type, so that code at the border is made for it.

mod handles;
mod numbers;

pub(crate) use self::numbers::class_number;
pub use self::numbers::{
    Bind, Combiner, Comparison, Distribution, Flavor, Keyval, Lock, Model, Numbers, Order, PvarClass, SettingScope,
    SplitType, ThreadLevel, Topology, TypeClass, Verbosity,
};

/// A handle in the standard's numbers: below [`Handle::FIRST`] a predefined one, else an object of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(pub u32);

impl Handle {
    /// The least number of an object: 4 million, as tables give out numbers.
    pub const FIRST: u32 = 0x1000;
    /// No handle of any sort.
    pub const INVALID: Self = Self(0);
}

/// The sorts of handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// `MPI_Comm`.
    Comm,
    /// `MPI_Datatype`.
    Type,
    /// `MPI_Errhandler`.
    Errhandler,
    /// `MPI_File`.
    File,
    /// `MPI_Group`.
    Group,
    /// `MPI_Info`.
    Info,
    /// `MPI_Message`.
    Message,
    /// `MPI_Op`.
    Op,
    /// `MPI_Request`.
    Request,
    /// `MPI_Session`.
    Session,
    /// `MPI_Win`.
    Win,
}

/// The places of a status's fields, in `int`s from its address.
#[derive(Clone, Copy, Debug)]
pub struct StatusLayout {
    /// `int`s of a status.
    pub len: usize,
    /// `MPI_SOURCE`.
    pub source: usize,
    /// `MPI_TAG`.
    pub tag: usize,
    /// `MPI_ERROR`.
    pub error: usize,
    /// The low 32 bits of the number of bytes.
    pub count_low: usize,
    /// The other bits, times two; the lowest one says that the request was cancelled.
    pub count_high: usize,
}

/// How an ABI writes handles, constants and statuses.
#[derive(Debug)]
pub struct Encoding {
    /// The column of this ABI in tables of numbers.
    pub(crate) column: usize,
    /// Bytes of a handle.
    pub(crate) handle_bytes: usize,
    pub(crate) status: StatusLayout,
    /// `MPI_STATUS_IGNORE`, as an address.
    pub(crate) status_ignore: usize,
    /// `MPI_IN_PLACE`, as an address.
    pub(crate) in_place: usize,
    /// `MPI_BUFFER_AUTOMATIC`, as an address.
    pub(crate) buffer_automatic: usize,
    pub(crate) any_source: i32,
    pub(crate) any_tag: i32,
    pub(crate) proc_null: i32,
    pub(crate) root: i32,
    /// The version of the ABI, if it has one.
    pub(crate) version: Option<(i32, i32)>,
}

impl Encoding {
    /// The handle that the program means by `value`; [`Handle::INVALID`] if it means none.
    #[inline]
    pub(crate) fn decode(&self, sort: Sort, value: i64) -> Handle {
        match self.column {
            0 => u32::try_from(value).map_or(Handle::INVALID, Handle),
            _ => handles::decode(sort, value as i32),
        }
    }

    /// The value by which the program knows a handle.
    #[inline]
    pub(crate) fn encode(&self, sort: Sort, handle: Handle) -> i64 {
        match self.column {
            0 => handle.0.into(),
            _ => handles::encode(sort, handle).into(),
        }
    }
}

/// A binary interface, as a type.
pub trait Abi: 'static {
    /// A handle as the program gives it.
    type Handle: Copy;

    /// How it writes everything else.
    const ENCODING: &'static Encoding;

    /// A handle as a number.
    fn number(handle: Self::Handle) -> i64;

    /// The reverse of [`number`](Self::number).
    fn handle(number: i64) -> Self::Handle;
}

/// The standard's ABI, version 1.0: handles are pointers.
#[derive(Debug)]
pub struct Standard;

impl Abi for Standard {
    type Handle = *mut core::ffi::c_void;

    const ENCODING: &'static Encoding = &Encoding {
        column: 0,
        handle_bytes: 8,
        status: StatusLayout {
            len: 8,
            source: 0,
            tag: 1,
            error: 2,
            count_low: 3,
            count_high: 4,
        },
        status_ignore: 0,
        in_place: 1,
        buffer_automatic: 2,
        any_source: -1,
        any_tag: -2,
        proc_null: -3,
        root: -4,
        version: Some((1, 0)),
    };

    #[inline]
    fn number(handle: Self::Handle) -> i64 {
        handle.addr() as i64
    }

    #[inline]
    fn handle(number: i64) -> Self::Handle {
        core::ptr::without_provenance_mut(number as usize)
    }
}

/// MPICH's ABI: handles are `int`s.
#[derive(Debug)]
pub struct Mpich;

impl Abi for Mpich {
    type Handle = i32;

    const ENCODING: &'static Encoding = &Encoding {
        column: 1,
        handle_bytes: 4,
        status: StatusLayout {
            len: 5,
            source: 2,
            tag: 3,
            error: 4,
            count_low: 0,
            count_high: 1,
        },
        status_ignore: 1,
        in_place: usize::MAX,
        buffer_automatic: usize::MAX - 1,
        any_source: -2,
        any_tag: -1,
        proc_null: -1,
        root: -3,
        version: None,
    };

    #[inline]
    fn number(handle: Self::Handle) -> i64 {
        handle.into()
    }

    #[inline]
    fn handle(number: i64) -> Self::Handle {
        number as i32
    }
}
