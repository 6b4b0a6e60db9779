#![expect(unsafe_code, reason = "copies between buffers and packed octets")]
//! A buffer as the engine sees it.

use hikyaku::mpi::{
    collectives,
    datatype::Datatype as RawDatatype,
    engine::Region,
    error::{Detail, Error, ErrorClass},
};

use super::{Buffer, BufferMut, PartitionedBuffer, PartitionedBufferMut, check::Validator};
use crate::{Count, raw::AsRaw};

/// So many elements of a datatype at an address. Whoever makes one keeps the memory as long as it is used.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) base: *mut u8,
    pub(crate) count: u64,
    pub(crate) datatype: RawDatatype,
    /// What is to be done when something has been received.
    pub(crate) validator: Option<Validator>,
}

impl Place {
    /// To send from.
    pub(crate) fn of<B: Buffer + ?Sized>(buffer: &B) -> Self {
        Self {
            base: buffer.pointer().cast_mut().cast(),
            count: unsigned(buffer.count()),
            datatype: buffer.as_datatype().as_raw(),
            validator: None,
        }
    }

    /// To receive into.
    pub(crate) fn of_mut<B: BufferMut + ?Sized>(buffer: &mut B) -> Self {
        Self {
            count: unsigned(buffer.count()),
            datatype: buffer.as_datatype().as_raw(),
            base: buffer.pointer_mut().cast(),
            validator: buffer.validator(),
        }
    }

    /// Octets of data.
    pub(crate) fn octets(&self) -> u64 {
        self.count.saturating_mul(self.datatype.size())
    }

    /// The data, without gaps. Only of a buffer that is borrowed.
    pub(crate) fn pack(&self) -> Vec<u8> {
        let len = self.octets() as usize;
        let mut packed = Vec::with_capacity(len);
        // SAFETY: the data of a borrowed buffer may be read; `packed` is memory of our own.
        let done = unsafe {
            let room = &mut packed.spare_capacity_mut()[..len];
            self.datatype.pack_at(self.base, self.count, 0, room)
        };
        // SAFETY: so many octets were just written.
        unsafe { packed.set_len(done) };
        packed
    }

    /// Puts packed octets where they belong. Only of a buffer that is borrowed mutably.
    pub(crate) fn unpack(&self, octets: &[u8]) {
        // SAFETY: the data of the buffer may be written, and nobody else uses them.
        unsafe { self.datatype.unpack_at(self.base, self.count, 0, octets) };
        self.validate();
    }

    /// Makes what was received valid. Only of a buffer that is borrowed mutably.
    pub(crate) fn validate(&self) {
        if let Some(validator) = &self.validator {
            // SAFETY: the values may be written, and nobody else uses them.
            unsafe { validator.run() };
        }
    }

    /// For a collective.
    pub(crate) fn region(&self) -> Region<'_> {
        Region::Plain(self.base, &self.datatype)
    }

    /// Elements for each of `ranks`.
    pub(crate) fn share(&self, call: &'static str, ranks: usize) -> Result<usize, Error> {
        let count = self.count as usize;
        if count.is_multiple_of(ranks) {
            return Ok(count / ranks);
        }
        let detail = Detail::Text("the elements of the buffer can not be divided evenly among the ranks");
        Err(Error::new(ErrorClass::Count, call).with_detail(detail))
    }
}

/// A negative count is none.
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
