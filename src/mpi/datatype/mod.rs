//! Datatypes: how the elements of a message lie in memory (MPI 5).
//!
//! A [`Datatype`] is a handle that is cheap to clone and never changes. Each constructor normalises at once: contiguous
//! data become one run, repetitions stay a loop, so a vector of 10^9 blocks takes as much memory as one of two.
//! `MPI_Type_commit` has nothing left to do; a caller that must know whether it was called keeps a flag. A clone is
//! the same datatype; [`Datatype::duplicate`] is `MPI_Type_dup`.
//!
//! Data move between memory and *packed bytes*: all elements in the order of the type map, without gaps. A message
//! carries packed bytes. There are these ways to convert:
//!
//! - [`Datatype::segments`] lists the runs of memory that hold a range of packed bytes, to send without a copy;
//! - [`Datatype::unpack_at`] puts bytes that arrive at some packed offset where they belong, fragments in any order;
//! - [`Datatype::pack_at`] and its safe variants [`Datatype::pack`] and [`Datatype::unpack`] copy.
//!
//! [`Datatype::pack_external`] and [`Datatype::unpack_external`] convert to and from "external32".
//!
//! All find their place by division, one per level of nesting (a binary search where blocks differ), and then go run by
//! run; nothing is allocated.
//!
//! Counts and displacements of constructors are `i64` like `MPI_Count` and `MPI_Aint`; negative or overflowing ones are
//! a [`DatatypeError`]. A datatype remembers its constructor ([`Datatype::contents`]) and a word of the caller
//! ([`Datatype::word`]), but no name.

mod bounds;
mod combiner;
mod construct;
mod cursor;
mod darray;
mod error;
mod external32;
mod fortran;
mod kind;
mod layout;
mod made;
mod overlap;
mod signature;
#[cfg(test)]
mod tests;
mod transfer;

use alloc::{borrow::Cow, sync::Arc, vec::Vec};

use bounds::Bounds;
pub use combiner::Combiner;
pub use construct::Order;
pub use cursor::{Segment, Segments};
pub use darray::{Distributed, Distribution};
pub use error::{DatatypeError, Quantity};
pub use kind::{Kind, Sort};
pub use layout::MAX_DEPTH;
use layout::{Node, Run, Runs, Shape, Shared};
pub use signature::Signature;

/// A datatype. See the [module](self).
#[derive(Clone)]
pub struct Datatype(Shared<Inner>);

/// The arguments of a constructor, in the order of `MPI_Type_get_contents`.
#[derive(Clone, Debug, PartialEq)]
pub struct Contents {
    /// The constructor.
    pub combiner: Combiner,
    /// Counts, lengths, displacements in elements, and so on. An [`Order`] or
    /// [`Distribution`] is its place in the declaration.
    pub integers: Vec<i64>,
    /// Displacements, strides and bounds in bytes.
    pub addresses: Vec<i64>,
    /// The datatypes.
    pub datatypes: Vec<Datatype>,
}

#[derive(Clone, Debug)]
struct Inner {
    node: Node,
    bounds: Bounds,
    /// The extent of `bounds`.
    extent: i64,
    /// [`Bounds::are_small`].
    small: bool,
    /// Bytes of data, at most `i64::MAX`.
    size: u64,
    signature: Signature,
    predefined: Option<Kind>,
    element_kind: Option<Kind>,
    /// How it was made; `None` if it is predefined.
    contents: Option<Arc<Contents>>,
    /// A word of the caller.
    word: u64,
}

impl Datatype {
    /// A predefined datatype, without an allocation.
    #[must_use]
    pub const fn predefined(kind: Kind) -> Self {
        Self(Shared::Static(&PREDEFINED[kind as usize]))
    }

    /// The kind of a predefined datatype.
    #[must_use]
    #[inline]
    pub fn kind(&self) -> Option<Kind> {
        self.0.predefined
    }

    /// The kind of all its elements, if they have one: `MPI_Accumulate` needs it (MPI 12.3.4).
    #[must_use]
    pub fn element_kind(&self) -> Option<Kind> {
        self.0.element_kind
    }

    /// Bytes of data in one element, without gaps (`MPI_Type_size`); at most `i64::MAX`.
    #[must_use]
    #[inline]
    pub fn size(&self) -> u64 {
        self.0.size
    }

    /// Bytes from one element of an array to the next (`MPI_Type_get_extent`); negative if set so by `resized`.
    #[must_use]
    pub fn extent(&self) -> i64 {
        self.0.extent
    }

    /// Bytes from the address of an element to its lower bound.
    #[must_use]
    pub fn lower_bound(&self) -> i64 {
        self.0.bounds.lower_bound()
    }

    /// Bytes from the address of an element to its first byte of data; 0 if there are no data
    /// (`MPI_Type_get_true_extent`).
    #[must_use]
    pub fn true_lower_bound(&self) -> i64 {
        self.0.bounds.data().0
    }

    /// Bytes from the first byte of data to the one after the last.
    #[must_use]
    pub fn true_extent(&self) -> i64 {
        let (low, high) = self.0.bounds.data();
        high - low
    }

    /// The type signature of `count` elements.
    #[must_use]
    pub fn signature(&self, count: u64) -> Signature {
        self.0.signature.repeat(count)
    }

    /// Whether a receive with room for enough elements matches a message with the signature `sent` (MPI 3.3.1): the
    /// kinds must be the same. `MPI_PACKED` matches everything.
    ///
    /// Messages that end within an element are not checked.
    #[must_use]
    pub fn accepts(&self, sent: Signature) -> bool {
        let element = self.0.signature;
        let whole = sent.count.checked_div(element.count).unwrap_or(0);
        if sent.count != whole.wrapping_mul(element.count) {
            return true;
        }
        element.repeat(whole) == sent || element.is_all(Kind::Packed) || sent.is_all(Kind::Packed)
    }

    /// Bytes of data in `count` elements.
    ///
    /// # Errors
    /// [`DatatypeError::Overflow`] if that exceeds `u64::MAX`.
    pub fn packed_size(&self, count: u64) -> Result<u64, DatatypeError> {
        self.size().checked_mul(count).ok_or(DatatypeError::Overflow {
            argument: "count",
            index: None,
            quantity: Quantity::Size,
        })
    }

    /// The range of the data of `count` elements, in bytes relative to the buffer: the first byte, and the one after
    /// the last. (0, 0) if there are none.
    ///
    /// # Errors
    /// [`DatatypeError::Overflow`] if the range exceeds the address space.
    pub fn span(&self, count: u64) -> Result<(i64, i64), DatatypeError> {
        if self.are_small(count) {
            let (low, high) = self.0.bounds.data();
            return Ok((low, high + self.extent() * (count as i64 - 1)));
        }
        let bounds = self.0.bounds.repeated(count, i128::from(self.extent()));
        bounds
            .map(|bounds| bounds.data())
            .map_err(|quantity| DatatypeError::Overflow {
                argument: "count",
                index: None,
                quantity,
            })
    }

    /// Whether `count` elements fit the address space: [`span`](Self::span) gives their range.
    #[inline]
    pub(in crate::mpi) fn fits(&self, count: u64) -> bool {
        self.are_small(count) || self.span(count).is_ok()
    }

    /// A cheap check that shows that `count` elements fit the address space.
    #[inline]
    fn are_small(&self, count: u64) -> bool {
        self.0.small && (1..=Bounds::FEW).contains(&count)
    }

    /// Whether elements of both have the same layout and kinds: reductions demand that of their operands.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let (a, b) = (&*self.0, &*other.0);
        core::ptr::eq(a, b)
            || (a.size == b.size && a.bounds == b.bounds && a.signature == b.signature && a.node == b.node)
    }

    /// Whether `count` elements are one contiguous run in memory, in their order.
    #[must_use]
    #[inline]
    pub fn is_contiguous(&self, count: u64) -> bool {
        match &self.0.node.shape {
            Shape::Empty => true,
            Shape::Run(run) => count <= 1 || run.len as i64 == self.extent(),
            _ => count == 0,
        }
    }

    /// Offset from the buffer of the first byte of `count` elements, if they are one run.
    #[inline]
    pub(in crate::mpi) fn begin_of_run(&self, count: u64) -> Option<i64> {
        self.is_contiguous(count).then_some(self.0.node.offset)
    }

    /// The same for few elements, at least one, which certainly fit the address space.
    #[inline(always)]
    pub(in crate::mpi) fn begin_of_small_run(&self, count: u64) -> Option<i64> {
        let inner = &*self.0;
        let is_run = match &inner.node.shape {
            Shape::Run(run) => count == 1 || run.len as i64 == inner.extent,
            _ => false,
        };
        (is_run && self.are_small(count)).then_some(inner.node.offset)
    }
}

impl From<Kind> for Datatype {
    fn from(kind: Kind) -> Self {
        Self::predefined(kind)
    }
}

impl core::fmt::Debug for Datatype {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        if let Some(kind) = self.kind() {
            return write!(f, "Datatype({kind})");
        }
        f.debug_struct("Datatype")
            .field("size", &self.size())
            .field("lower_bound", &self.lower_bound())
            .field("extent", &self.extent())
            .field("layout", &self.0.node)
            .finish()
    }
}

static PREDEFINED: [Inner; Kind::ALL.len()] = [
    inner(Kind::I8),
    inner(Kind::I16),
    inner(Kind::I32),
    inner(Kind::I64),
    inner(Kind::U8),
    inner(Kind::U16),
    inner(Kind::U32),
    inner(Kind::U64),
    inner(Kind::F32),
    inner(Kind::F64),
    inner(Kind::Complex32),
    inner(Kind::Complex64),
    inner(Kind::Bool),
    inner(Kind::Byte),
    inner(Kind::Packed),
    inner(Kind::I16I32),
    inner(Kind::I32I32),
    inner(Kind::I64I32),
    inner(Kind::F32I32),
    inner(Kind::F64I32),
    inner(Kind::Char),
    inner(Kind::WideChar),
    inner(Kind::I128),
    inner(Kind::F16),
    inner(Kind::F80),
    inner(Kind::F128),
    inner(Kind::Complex16),
    inner(Kind::Complex80),
    inner(Kind::Complex128),
    inner(Kind::L16),
    inner(Kind::L32),
    inner(Kind::L64),
    inner(Kind::L128),
    inner(Kind::F80I32),
    inner(Kind::F32F32),
    inner(Kind::F64F64),
];

/// `MPI_SHORT_INT`, the only predefined one with a gap between its elements.
static I16I32: Runs = Runs {
    list: Cow::Borrowed(&[
        Run {
            offset: 0,
            start: 0,
            len: 2,
        },
        Run {
            offset: 4,
            start: 2,
            len: 4,
        },
    ]),
    size: 6,
    uniform: 0,
};

const fn inner(kind: Kind) -> Inner {
    // The end of the data: pairs end with their index.
    let high = match kind.pair() {
        Some((_, index)) => kind.alignment() + index.size(),
        None => kind.size(),
    };
    let bounds = Bounds::predefined(high, kind.alignment());
    Inner {
        node: match kind {
            Kind::I16I32 => Node {
                offset: 0,
                shape: Shape::Runs(Shared::Static(&I16I32)),
            },
            _ => Node::run(0, kind.size()),
        },
        bounds,
        extent: bounds.extent(),
        small: bounds.are_small(),
        size: kind.size(),
        signature: Signature::of(kind),
        predefined: Some(kind),
        element_kind: Some(kind),
        contents: None,
        word: 0,
    }
}

impl From<Inner> for Datatype {
    fn from(inner: Inner) -> Self {
        Self(Shared::Counted(Arc::new(inner)))
    }
}
