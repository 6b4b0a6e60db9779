#![expect(unsafe_code, reason = "copies between buffers and packed bytes")]
//! A buffer in the form that the engine needs.

use hikyaku::mpi::{
    collectives,
    datatype::{Datatype as RawDatatype, Kind},
    engine::Region,
    error::{Detail, Error, ErrorClass},
};

use super::{Buffer, BufferMut, PartitionedBuffer, PartitionedBufferMut, validator::Validator};
use crate::{Count, raw::AsRaw};

/// A number of elements of a datatype at an address. Its maker keeps the memory while the place is used.
#[derive(Clone, Debug)]
pub struct Place {
    pub(crate) base: *mut u8,
    pub(crate) count: u64,
    pub(crate) datatype: RawDatatype,
    /// The checks to make after receiving into it.
    pub(crate) validator: Option<Validator>,
}

impl Place {
    /// A place to send from.
    pub(crate) fn of<B: Buffer + ?Sized>(buffer: &B) -> Self {
        Self {
            base: buffer.pointer().cast_mut().cast(),
            count: unsigned(buffer.count()),
            datatype: buffer.as_datatype().as_raw(),
            validator: None,
        }
    }

    /// A place to receive into.
    pub(crate) fn of_mut<B: BufferMut + ?Sized>(buffer: &mut B) -> Self {
        Self {
            count: unsigned(buffer.count()),
            datatype: buffer.as_datatype().as_raw(),
            base: buffer.pointer_mut().cast(),
            validator: buffer.validator(),
        }
    }

    /// Bytes of data.
    pub(crate) fn bytes(&self) -> u64 {
        self.count.saturating_mul(self.datatype.size())
    }

    /// The data, without gaps. Only of a buffer that is borrowed.
    pub(crate) fn pack(&self) -> Vec<u8> {
        let len = self.bytes() as usize;
        let mut packed = Vec::with_capacity(len);
        // SAFETY: the data of a borrowed buffer may be read; `packed` is memory of our own.
        let done = unsafe {
            let room = &mut packed.spare_capacity_mut()[..len];
            self.datatype.pack_at(self.base, self.count, 0, room)
        };
        // SAFETY: so many bytes were just written.
        unsafe { packed.set_len(done) };
        packed
    }

    /// Unpacks bytes into the buffer. Only for a buffer that is borrowed mutably.
    pub(crate) fn unpack(&self, bytes: &[u8]) {
        // SAFETY: the data of the buffer may be written, and are not used by other code.
        unsafe { self.datatype.unpack_at(self.base, self.count, 0, bytes) };
        self.validate();
    }

    /// Makes received bytes valid. Only for a buffer that is borrowed mutably.
    pub(crate) fn validate(&self) {
        if let Some(validator) = &self.validator {
            // SAFETY: the values may be written, and are not used by other code.
            unsafe { validator.run() };
        }
    }

    /// Returns whether the other place has the same shape.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.count == other.count && self.datatype.is_same(&other.datatype)
    }

    /// The address, and the checks to make after receiving there.
    pub(crate) fn found(self) -> (*mut u8, Vec<Validator>) {
        (self.base, self.validator.into_iter().collect())
    }

    /// The region for a collective.
    pub(crate) fn region(&self) -> Region<'_> {
        Region::Plain(self.base, &self.datatype)
    }

    /// Number of elements for each of `ranks`.
    pub(crate) fn share(&self, call: &'static str, ranks: usize) -> Result<usize, Error> {
        let count = self.count as usize;
        if count.is_multiple_of(ranks) {
            return Ok(count / ranks);
        }
        let detail = Detail::Text("the elements of the buffer cannot be divided evenly among the ranks");
        Err(Error::new(ErrorClass::Count, call).with_detail(detail))
    }
}

/// A negative count becomes 0.
fn unsigned(count: Count) -> u64 {
    u64::try_from(count).unwrap_or(0)
}

/// The parts of a partitioned buffer.
#[derive(Clone, Debug)]
pub(crate) struct Blocks {
    pub(crate) place: Place,
    counts: Vec<usize>,
    displacements: Vec<isize>,
}

impl Blocks {
    pub(crate) fn of<B: PartitionedBuffer + ?Sized>(buffer: &B) -> Self {
        let place = Place {
            base: buffer.pointer().cast_mut().cast(),
            count: 0,
            datatype: buffer.as_datatype().as_raw(),
            validator: None,
        };
        Self::new(place, buffer.counts(), buffer.displs())
    }

    pub(crate) fn of_mut<B: PartitionedBufferMut + ?Sized>(buffer: &mut B) -> Self {
        let place = Place {
            base: buffer.pointer_mut().cast(),
            count: 0,
            datatype: buffer.as_datatype().as_raw(),
            validator: buffer.validator(),
        };
        Self::new(place, buffer.counts(), buffer.displs())
    }

    /// As of [`Place`].
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.place.is_like(&other.place) && (&self.counts, &self.displacements) == (&other.counts, &other.displacements)
    }

    /// As of [`Place`].
    pub(crate) fn found(self) -> (*mut u8, Vec<Validator>) {
        self.place.found()
    }

    fn new(place: Place, counts: &[Count], displacements: &[Count]) -> Self {
        Self {
            place,
            counts: counts.iter().map(|count| unsigned(*count) as usize).collect(),
            displacements: displacements.iter().map(|place| *place as isize).collect(),
        }
    }

    pub(crate) fn blocks(&self) -> collectives::Blocks<'_> {
        collectives::Blocks::Uneven {
            counts: &self.counts,
            displacements: &self.displacements,
        }
    }
}

/// Buffers at any addresses: one for each rank or neighbour.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    /// The address from which the others are reached, so that they keep their provenance.
    pub(crate) base: *mut u8,
    /// Offset, number of elements and datatype of each.
    pub(crate) elements: Vec<(i64, u64, RawDatatype)>,
    counts: Vec<usize>,
    displacements: Vec<isize>,
    pub(crate) validators: Vec<Validator>,
}

impl Places {
    pub(crate) fn of<B: Buffers + ?Sized>(buffers: &B) -> Self {
        Self::new(&buffers.places())
    }

    pub(crate) fn of_mut<B: BuffersMut + ?Sized>(buffers: &mut B) -> Self {
        Self::new(&buffers.places_mut())
    }

    fn new(places: &[Place]) -> Self {
        let base = places.first().map_or(std::ptr::dangling_mut(), |first| first.base);
        let distance = |place: &Place| (place.base.addr() as i64).wrapping_sub(base.addr() as i64);
        Self {
            base,
            elements: places
                .iter()
                .map(|place| (distance(place), place.count, place.datatype.clone()))
                .collect(),
            counts: places.iter().map(|place| usize::from(place.bytes() > 0)).collect(),
            displacements: (0..places.len() as isize).collect(),
            validators: places.iter().filter_map(|place| place.validator).collect(),
        }
    }

    pub(crate) fn blocks(&self) -> collectives::Blocks<'_> {
        collectives::Blocks::Uneven {
            counts: &self.counts,
            displacements: &self.displacements,
        }
    }

    pub(crate) fn region(&self) -> Region<'_> {
        Region::Each(self.base, &self.elements)
    }

    /// As of [`Place`]; and they are as far from each other.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let alike = |((at, count, datatype), other): (&(i64, u64, RawDatatype), &(i64, u64, RawDatatype))| {
            (*at, *count) == (other.0, other.1) && datatype.is_same(&other.2)
        };
        self.elements.len() == other.elements.len() && self.elements.iter().zip(&other.elements).all(alike)
    }

    /// As of [`Place`].
    pub(crate) fn found(self) -> (*mut u8, Vec<Validator>) {
        (self.base, self.validators)
    }
}

/// Buffers to send from: a slice, an array or a vector of them, one for each rank.
///
/// # Safety
/// As [`Buffer`], for each of them.
pub unsafe trait Buffers {
    /// The places of the buffers.
    #[doc(hidden)]
    fn places(&self) -> Vec<Place>;
}

/// Buffers to receive into: a slice, an array or a vector of them, one for each rank.
///
/// # Safety
/// As [`BufferMut`], for each of them; they do not overlap.
pub unsafe trait BuffersMut {
    /// The places of the buffers.
    #[doc(hidden)]
    fn places_mut(&mut self) -> Vec<Place>;
}

macro_rules! buffers {
    ($({$($generics:tt)*} $type:ty;)*) => {$(
        // SAFETY: they are buffers.
        unsafe impl<B: Buffer, $($generics)*> Buffers for $type {
            fn places(&self) -> Vec<Place> {
                self.iter().map(Place::of).collect()
            }
        }

        // SAFETY: they are buffers, borrowed mutably one by one.
        unsafe impl<B: BufferMut, $($generics)*> BuffersMut for $type {
            fn places_mut(&mut self) -> Vec<Place> {
                self.iter_mut().map(Place::of_mut).collect()
            }
        }
    )*};
}

buffers! {
    {} [B];
    {} Vec<B>;
    {const N: usize} [B; N];
}

/// The datatype of bytes.
pub(crate) fn bytes() -> RawDatatype {
    RawDatatype::predefined(Kind::Byte)
}
