//! Constructors of derived datatypes (MPI 5.1.2 to 5.1.7).
//!
//! Each first adds up size and bounds with checks, in 128 bits; only then it builds the layout, whose numbers are all
//! places and distances within these bounds.

use alloc::vec::Vec;
use core::{iter::once, slice};

use super::{
    Combiner, Datatype, Inner,
    bounds::Bounds,
    error::{DatatypeError, Quantity},
    kind::Kind,
    layout::{Node, TooDeep},
    signature::Signature,
};

/// Which dimension of an array is contiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The last one (`MPI_ORDER_C`).
    C,
    /// The first one (`MPI_ORDER_FORTRAN`).
    Fortran,
}

impl Datatype {
    /// `count` elements of `child`, each one extent after the one before (`MPI_Type_contiguous`).
    ///
    /// # Errors
    /// A negative `count`; overflow; nesting.
    pub fn contiguous(count: i64, child: &Self) -> Result<Self, DatatypeError> {
        let times = not_negative("count", None, count)?;
        let total = Total::of(child).repeated(times, i128::from(child.extent()), "count")?;
        let built = total.build(|| child.0.node.repeated(times, child.extent()))?;
        Ok(built.made(Combiner::Contiguous, [count], &[], slice::from_ref(child)))
    }

    /// `count` blocks of `blocklength` elements, `stride` extents of `child` apart (`MPI_Type_vector`).
    ///
    /// # Errors
    /// As [`hvector`](Self::hvector).
    pub fn vector(count: i64, blocklength: i64, stride: i64, child: &Self) -> Result<Self, DatatypeError> {
        let bytes = i128::from(stride) * i128::from(child.extent());
        let built = strided(count, blocklength, bytes, child)?;
        let integers = [count, blocklength, stride];
        Ok(built.made(Combiner::Vector, integers, &[], slice::from_ref(child)))
    }

    /// `count` blocks of `blocklength` elements, `stride` bytes apart (`MPI_Type_create_hvector`).
    ///
    /// # Errors
    /// A negative `count` or `blocklength`; overflow; nesting.
    pub fn hvector(count: i64, blocklength: i64, stride: i64, child: &Self) -> Result<Self, DatatypeError> {
        let built = strided(count, blocklength, i128::from(stride), child)?;
        let integers = [count, blocklength];
        Ok(built.made(Combiner::Hvector, integers, &[stride], slice::from_ref(child)))
    }

    /// Blocks of `blocklengths[i]` elements at `displacements[i]` extents of `child` (`MPI_Type_indexed`).
    ///
    /// # Errors
    /// As [`hindexed`](Self::hindexed).
    pub fn indexed(blocklengths: &[i64], displacements: &[i64], child: &Self) -> Result<Self, DatatypeError> {
        same_length("displacements", displacements.len(), blocklengths.len())?;
        let extent = i128::from(child.extent());
        let places = displacements.iter().map(|place| i128::from(*place) * extent);
        let built = blocks(places.zip(blocklengths.iter().copied()).map(|(p, b)| (p, b, child)))?;
        let integers = counted(blocklengths).chain(displacements.iter().copied());
        Ok(built.made(Combiner::Indexed, integers, &[], slice::from_ref(child)))
    }

    /// Blocks of `blocklengths[i]` elements at `displacements[i]` bytes (`MPI_Type_create_hindexed`).
    ///
    /// # Errors
    /// A negative block length; arrays of different lengths; overflow; nesting.
    pub fn hindexed(blocklengths: &[i64], displacements: &[i64], child: &Self) -> Result<Self, DatatypeError> {
        same_length("displacements", displacements.len(), blocklengths.len())?;
        let places = displacements.iter().map(|place| i128::from(*place));
        let built = blocks(places.zip(blocklengths.iter().copied()).map(|(p, b)| (p, b, child)))?;
        let integers = counted(blocklengths);
        Ok(built.made(Combiner::Hindexed, integers, displacements, slice::from_ref(child)))
    }

    /// Blocks of `blocklength` elements at `displacements[i]` extents of `child` (`MPI_Type_create_indexed_block`).
    ///
    /// # Errors
    /// As [`hindexed_block`](Self::hindexed_block).
    pub fn indexed_block(blocklength: i64, displacements: &[i64], child: &Self) -> Result<Self, DatatypeError> {
        not_negative("blocklength", None, blocklength)?;
        let extent = i128::from(child.extent());
        let places = displacements.iter().map(|place| i128::from(*place) * extent);
        let built = blocks(places.map(|place| (place, blocklength, child)))?;
        let integers = [displacements.len() as i64, blocklength];
        let integers = integers.into_iter().chain(displacements.iter().copied());
        Ok(built.made(Combiner::IndexedBlock, integers, &[], slice::from_ref(child)))
    }

    /// Blocks of `blocklength` elements at `displacements[i]` bytes (`MPI_Type_create_hindexed_block`).
    ///
    /// # Errors
    /// A negative block length; overflow; nesting.
    pub fn hindexed_block(blocklength: i64, displacements: &[i64], child: &Self) -> Result<Self, DatatypeError> {
        not_negative("blocklength", None, blocklength)?;
        let places = displacements.iter().map(|place| i128::from(*place));
        let built = blocks(places.map(|place| (place, blocklength, child)))?;
        let integers = [displacements.len() as i64, blocklength];
        Ok(built.made(Combiner::HindexedBlock, integers, displacements, slice::from_ref(child)))
    }

    /// Blocks of `blocklengths[i]` elements of `types[i]` at `displacements[i]` bytes (`MPI_Type_create_struct`).
    ///
    /// # Errors
    /// A negative block length; arrays of different lengths; overflow; nesting.
    pub fn structure(blocklengths: &[i64], displacements: &[i64], types: &[Self]) -> Result<Self, DatatypeError> {
        same_length("displacements", displacements.len(), blocklengths.len())?;
        same_length("types", types.len(), blocklengths.len())?;
        let places = displacements.iter().map(|place| i128::from(*place));
        let lengths = blocklengths.iter().copied();
        let built = blocks(places.zip(lengths).zip(types).map(|((p, b), child)| (p, b, child)))?;
        Ok(built.made(Combiner::Struct, counted(blocklengths), displacements, types))
    }

    /// The part of an array of `sizes` that has `subsizes` and begins at `starts`, with the extent of the whole array
    /// (`MPI_Type_create_subarray`).
    ///
    /// # Errors
    /// Arrays of different lengths; a part that is empty or not inside of the array; overflow; nesting.
    pub fn subarray(
        sizes: &[i64],
        subsizes: &[i64],
        starts: &[i64],
        order: Order,
        child: &Self,
    ) -> Result<Self, DatatypeError> {
        same_length("subsizes", subsizes.len(), sizes.len())?;
        same_length("starts", starts.len(), sizes.len())?;
        let mut dimensions = Vec::with_capacity(sizes.len());
        for (dimension, ((&size, &subsize), &start)) in sizes.iter().zip(subsizes).zip(starts).enumerate() {
            if subsize < 1 || start < 0 || subsize > size || start > size - subsize {
                return Err(DatatypeError::Subarray {
                    dimension,
                    size,
                    subsize,
                    start,
                });
            }
            dimensions.push((dimension, size, subsize as u64, start));
        }
        if order == Order::C {
            dimensions.reverse();
        }
        // From the contiguous dimension on outwards.
        let mut stride = i128::from(child.extent());
        let mut place = 0_i128;
        let mut total = Total::of(child);
        let mut node = child.0.node.clone();
        for (dimension, size, subsize, start) in dimensions {
            let too_large = overflow("sizes", Some(dimension))(Quantity::Extent);
            total = total.repeated(subsize, stride, "subsizes")?;
            total.bounds.checked().map_err(overflow("sizes", Some(dimension)))?;
            node = node
                .repeated(subsize, stride as i64)
                .map_err(|_| DatatypeError::Depth)?;
            place += stride * i128::from(start);
            stride *= i128::from(size);
            if i64::try_from(stride).is_err() {
                return Err(too_large);
            }
        }
        total.bounds = total
            .bounds
            .shifted(place)
            .and_then(|bounds| bounds.resized(0, stride as i64))
            .map_err(overflow("sizes", None))?;
        let built = total.build(|| Ok(node.shifted(place)))?;
        let arrays = [sizes, subsizes, starts].into_iter().flatten().copied();
        let integers = once(sizes.len() as i64).chain(arrays).chain([order as i64]);
        Ok(built.made(Combiner::Subarray, integers, &[], slice::from_ref(child)))
    }

    /// `child` with other bounds, which decide how elements follow each other (`MPI_Type_create_resized`).
    ///
    /// # Errors
    /// Overflow.
    pub fn resized(lower_bound: i64, extent: i64, child: &Self) -> Result<Self, DatatypeError> {
        let mut total = Total::of(child);
        total.bounds = total
            .bounds
            .resized(lower_bound, extent)
            .map_err(overflow("extent", None))?;
        let built = total.build(|| Ok(child.0.node.clone()))?;
        Ok(built.made(Combiner::Resized, [], &[lower_bound, extent], slice::from_ref(child)))
    }
}

/// An array with its length before it.
fn counted(array: &[i64]) -> impl Iterator<Item = i64> + '_ {
    once(array.len() as i64).chain(array.iter().copied())
}

/// The totals of a type map: size, bounds and signature.
#[derive(Clone, Copy)]
struct Total {
    size: u64,
    bounds: Bounds,
    signature: Signature,
    element_kind: Option<Kind>,
}

impl Total {
    const EMPTY: Self = Self {
        size: 0,
        bounds: Bounds::EMPTY,
        signature: Signature::EMPTY,
        element_kind: None,
    };

    fn of(datatype: &Datatype) -> Self {
        Self {
            size: datatype.0.size,
            bounds: datatype.0.bounds,
            signature: datatype.0.signature,
            element_kind: datatype.0.element_kind,
        }
    }

    fn repeated(self, count: u64, stride: i128, argument: &'static str) -> Result<Self, DatatypeError> {
        let overflow = overflow(argument, None);
        let size = self.size.checked_mul(count).filter(|size| *size <= i64::MAX as u64);
        Ok(Self {
            size: size.ok_or_else(|| overflow(Quantity::Size))?,
            bounds: self.bounds.repeated(count, stride).map_err(overflow)?,
            signature: self.signature.repeat(count),
            element_kind: self.element_kind.filter(|_| count > 0),
        })
    }

    /// This and then `next`; `None` if the size overflows.
    fn then(self, next: Self) -> Option<Self> {
        Some(Self {
            size: self
                .size
                .checked_add(next.size)
                .filter(|size| *size <= i64::MAX as u64)?,
            bounds: self.bounds.union(next.bounds),
            signature: self.signature.then(next.signature),
            element_kind: match (self.size, next.size) {
                (0, _) => next.element_kind,
                (_, 0) => self.element_kind,
                _ => self.element_kind.filter(|kind| next.element_kind == Some(*kind)),
            },
        })
    }

    /// The datatype of this and of the layout that `node` makes.
    fn build(self, node: impl FnOnce() -> Result<Node, TooDeep>) -> Result<Datatype, DatatypeError> {
        let node = node().and_then(Node::flat).map_err(|_| DatatypeError::Depth)?;
        Ok(Datatype::from(Inner {
            node,
            bounds: self.bounds,
            extent: self.bounds.extent(),
            small: self.bounds.are_small(),
            size: self.size,
            signature: self.signature,
            predefined: None,
            element_kind: self.element_kind,
            contents: None,
            word: 0,
        }))
    }
}

fn strided(count: i64, blocklength: i64, stride: i128, child: &Datatype) -> Result<Datatype, DatatypeError> {
    let count = not_negative("count", None, count)?;
    let blocklength = not_negative("blocklength", None, blocklength)?;
    let extent = child.extent();
    let block = Total::of(child).repeated(blocklength, i128::from(extent), "blocklength")?;
    let total = block.repeated(count, stride, "stride")?;
    // A stride that does not fit is not used: there is one block at most.
    total.build(|| {
        child
            .0
            .node
            .repeated(blocklength, extent)?
            .repeated(count, stride as i64)
    })
}

/// Blocks: displacement in bytes, number of elements, datatype.
fn blocks<'a>(list: impl Iterator<Item = (i128, i64, &'a Datatype)> + Clone) -> Result<Datatype, DatatypeError> {
    let mut total = Total::EMPTY;
    for (index, (place, length, child)) in list.clone().enumerate() {
        let index = Some(index);
        let length = not_negative("blocklengths", index, length)?;
        if length == 0 {
            continue;
        }
        let block = Total::of(child);
        let mut block = match length {
            1 => block,
            _ => block
                .repeated(length, i128::from(child.extent()), "blocklengths")
                .map_err(|error| at(error, index))?,
        };
        block.bounds = block.bounds.shifted(place).map_err(overflow("displacements", index))?;
        total = total
            .then(block)
            .ok_or_else(|| overflow("blocklengths", index)(Quantity::Size))?;
    }
    total.bounds = total.bounds.checked().map_err(overflow("displacements", None))?;
    total.build(|| {
        // Equal blocks share their layout.
        let mut last: Option<(u64, &Datatype, Node)> = None;
        let mut nodes = Vec::with_capacity(list.size_hint().0);
        for (place, length, child) in list {
            let length = length as u64;
            let node = match &last {
                Some((l, c, node)) if *l == length && core::ptr::eq(*c, child) => node.shifted(place),
                _ => {
                    let node = child.0.node.repeated(length, child.extent())?;
                    let placed = node.shifted(place);
                    last = Some((length, child, node));
                    placed
                }
            };
            nodes.push(node);
        }
        Node::sequence(nodes)
    })
}

fn not_negative(argument: &'static str, index: Option<usize>, value: i64) -> Result<u64, DatatypeError> {
    u64::try_from(value).map_err(|_| DatatypeError::Negative { argument, index, value })
}

fn same_length(argument: &'static str, len: usize, expected: usize) -> Result<(), DatatypeError> {
    if len == expected {
        Ok(())
    } else {
        Err(DatatypeError::Lengths {
            argument,
            len,
            expected,
        })
    }
}

fn overflow(argument: &'static str, index: Option<usize>) -> impl Fn(Quantity) -> DatatypeError + Copy {
    move |quantity| DatatypeError::Overflow {
        argument,
        index,
        quantity,
    }
}

/// `error` of the element `index` of its argument.
fn at(error: DatatypeError, index: Option<usize>) -> DatatypeError {
    match error {
        DatatypeError::Overflow { argument, quantity, .. } => DatatypeError::Overflow {
            argument,
            index,
            quantity,
        },
        other => other,
    }
}
