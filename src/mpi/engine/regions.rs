#![expect(unsafe_code, reason = "buffers are memory of the caller")]
//! Buffers of collectives, and the memory that a schedule names.

use alloc::vec::Vec;

use super::buffer::Buffer;
use crate::mpi::{
    collectives::{Call, Role, Span},
    datatype::Datatype,
};

/// A buffer of a collective: elements of a datatype at an address.
#[derive(Clone, Copy, Debug)]
pub enum Region<'a> {
    /// This rank has no such buffer.
    None,
    /// Elements at an address; the call says how many.
    Plain(*mut u8, &'a Datatype),
    /// Element `i` is (displacement in bytes, count, datatype), as in `MPI_Alltoallw`.
    Each(*mut u8, &'a [(i64, u64, Datatype)]),
}

/// The buffers of a collective.
#[derive(Clone, Copy, Debug)]
pub struct Buffers<'a> {
    /// The send buffer.
    pub input: Region<'a>,
    /// The receive buffer.
    pub output: Region<'a>,
}

/// Memory of a region of a schedule.
#[derive(Clone, Debug)]
pub(crate) enum Memory {
    /// Elements of one datatype at an address.
    Plain(Address, Datatype),
    /// Each element is one packed byte of these elements (bcast, which cuts them anywhere).
    Packed(Address, u64, Datatype),
    /// Element `i` is (displacement in bytes, count, datatype), as in alltoallw.
    Each(Address, Vec<(i64, u64, Datatype)>),
}

/// An address given by the caller, which may be handed to other threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address(pub(crate) *mut u8);
// SAFETY: an address is only a number; code that makes a `Buffer` of it answers for the memory.
unsafe impl Send for Address {}
// SAFETY: as above.
unsafe impl Sync for Address {}

impl Memory {
    /// No memory: where MPI gives a rank no buffer.
    pub(crate) fn none(datatype: &Datatype) -> Self {
        Self::Plain(Address(core::ptr::dangling_mut()), datatype.clone())
    }

    pub(super) fn move_to(&mut self, to: *mut u8) {
        let (Self::Plain(base, ..) | Self::Packed(base, ..) | Self::Each(base, ..)) = self;
        base.0 = to;
    }

    /// Address and datatype of a span that is a single run.
    pub(super) fn run(&self, span: &Span) -> Option<(*mut u8, &Datatype)> {
        let Self::Plain(base, datatype) = self else { return None };
        let bytes = datatype.extent().checked_mul(span.offset as i64)?;
        (span.times == 1).then(|| (base.0.wrapping_offset(bytes as isize), datatype))
    }

    #[inline(always)]
    pub(super) fn buffer(&self, span: &Span) -> Option<Buffer> {
        match self.run(span) {
            // SAFETY: by `Collective`'s contract the elements that the schedule names are the caller's.
            Some((base, datatype)) => unsafe { Buffer::new(base, span.count as u64, datatype) },
            None => self.scattered(span),
        }
    }

    /// A span that is not a single run of one datatype.
    #[inline(never)]
    fn scattered(&self, span: &Span) -> Option<Buffer> {
        match self {
            Self::Plain(base, datatype) => {
                let (times, count, stride) = (span.times.into(), span.count.try_into().ok()?, span.stride as i64);
                let runs = Datatype::vector(times, count, stride, datatype).ok()?;
                let bytes = datatype.extent().checked_mul(span.offset as i64)?;
                // SAFETY: as above.
                unsafe { Buffer::new(base.0.wrapping_offset(bytes as isize), 1, &runs) }
            }
            _ if span.times > 1 => {
                let runs: Option<Vec<_>> = span.runs().map(|run| self.buffer(&run)).collect();
                Some(Buffer::join(runs?))
            }
            Self::Packed(base, count, datatype) => {
                // SAFETY: as above.
                let all = unsafe { Buffer::new(base.0, *count, datatype) }?;
                all.range(span.offset.try_into().ok()?, span.count as u64)
            }
            Self::Each(base, elements) => {
                let first = usize::try_from(span.offset).ok()?;
                let list = elements.get(first..first.checked_add(span.count)?)?;
                let mut parts = Vec::with_capacity(list.len());
                for (bytes, count, datatype) in list {
                    let base = base.0.wrapping_offset(*bytes as isize);
                    // SAFETY: as above.
                    parts.push(unsafe { Buffer::new(base, *count, datatype) }?);
                }
                Some(Buffer::join(parts))
            }
        }
    }
}

/// The memory of a buffer in a call.
pub(super) fn memory(region: Region<'_>, call: &Call<'_>) -> Option<Memory> {
    match region {
        Region::None => None,
        Region::Plain(base, datatype) => Some(match call.collective().output() {
            Role::Packed => {
                let elements = (call.output.single() as u64).checked_div(datatype.size()).unwrap_or(0);
                Memory::Packed(Address(base), elements, datatype.clone())
            }
            _ => Memory::Plain(Address(base), datatype.clone()),
        }),
        Region::Each(base, elements) => Some(Memory::Each(Address(base), elements.to_vec())),
    }
}
