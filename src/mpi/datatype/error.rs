//! Errors of datatypes and of their use.

use super::layout;
use crate::mpi::class::ErrorClass;

/// Why a datatype could not be made or used. Names of arguments are those of the MPI standard.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DatatypeError {
    /// A count, length or size below zero.
    Negative {
        /// The argument.
        argument: &'static str,
        /// Index of the element, if the argument is an array.
        index: Option<usize>,
        /// Its value.
        value: i64,
    },
    /// A number of the result does not fit into an `i64`.
    Overflow {
        /// The argument that exceeds the limit.
        argument: &'static str,
        /// Index of the element, if the argument is an array.
        index: Option<usize>,
        /// The quantity that overflows.
        quantity: Quantity,
    },
    /// Arrays that must have the same length differ.
    Lengths {
        /// The array of the wrong length.
        argument: &'static str,
        /// Its length.
        len: usize,
        /// The length of the array before it.
        expected: usize,
    },
    /// A subarray that is not inside of its array.
    Subarray {
        /// The dimension, from 0.
        dimension: usize,
        /// Elements of the array in this dimension.
        size: i64,
        /// Elements of the subarray.
        subsize: i64,
        /// The first of them.
        start: i64,
    },
    /// No kind has the precision and range that were asked for.
    NoSuchKind,
    /// Loops are nested more than [`MAX_DEPTH`](super::MAX_DEPTH) deep.
    Depth,
    /// Data cannot be received: two elements of the type share bytes.
    Overlap {
        /// A byte that they share, relative to the buffer.
        offset: i64,
    },
    /// The data reach beyond the memory given.
    Memory {
        /// First byte of the data, relative to the buffer.
        low: i64,
        /// The byte after the last.
        high: i64,
        /// Bytes of memory before the buffer's address.
        before: usize,
        /// Bytes of memory from there on.
        after: usize,
    },
}

/// Quantities that can overflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Quantity {
    /// Bytes of data.
    Size,
    /// A place of data or a bound, relative to the buffer.
    Bound,
    /// The distance between lower and upper bound.
    Extent,
}

impl DatatypeError {
    /// Its MPI class.
    #[must_use]
    pub const fn class(&self) -> ErrorClass {
        match self {
            Self::Negative { .. } => ErrorClass::Count,
            Self::Overflow { .. } => ErrorClass::ValueTooLarge,
            Self::Lengths { .. } | Self::Subarray { .. } | Self::NoSuchKind => ErrorClass::Arg,
            Self::Depth | Self::Overlap { .. } => ErrorClass::Type,
            Self::Memory { .. } => ErrorClass::Buffer,
        }
    }
}

impl core::fmt::Display for DatatypeError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let named = |f: &mut core::fmt::Formatter<'_>, argument: &str, index: Option<usize>| match index {
            Some(index) => write!(f, "{argument}[{index}]"),
            None => f.write_str(argument),
        };
        match *self {
            Self::Negative { argument, index, value } => {
                named(f, argument, index)?;
                write!(f, " is {value}, which is negative")
            }
            Self::Overflow {
                argument,
                index,
                quantity,
            } => {
                named(f, argument, index)?;
                let quantity = match quantity {
                    Quantity::Size => "size",
                    Quantity::Bound => "bounds",
                    Quantity::Extent => "extent",
                };
                write!(f, " is too large: the {quantity} would not fit into 64 bits")
            }
            Self::Lengths {
                argument,
                len,
                expected,
            } => write!(f, "{argument} has {len} elements, {expected} are needed"),
            Self::Subarray {
                dimension,
                size,
                subsize,
                start,
            } => write!(
                f,
                "dimension {dimension}: {subsize} elements from {start} on are not inside of {size}"
            ),
            Self::NoSuchKind => f.write_str("no kind has this precision and range"),
            Self::Depth => write!(f, "nested deeper than {} levels", layout::MAX_DEPTH),
            Self::Overlap { offset } => {
                write!(
                    f,
                    "two elements share the byte at {offset}, so nothing can be received here"
                )
            }
            Self::Memory {
                low,
                high,
                before,
                after,
            } => write!(
                f,
                "the data are at {low}..{high}, the memory reaches from -{before} to {after}"
            ),
        }
    }
}

crate::debug_as_display!(DatatypeError);

impl core::error::Error for DatatypeError {}
