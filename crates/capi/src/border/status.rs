#![expect(unsafe_code, reason = "reads and writes where the program says")]
//! Statuses as arguments.

use hikyaku::mpi::engine::{ANY_TAG, Status};

use super::{Argument, Rank, Width};
use crate::abi::{Abi, Encoding};

/// What a status says.
#[derive(Clone, Copy, Debug)]
pub struct Summary {
    /// Source, tag, bytes, and whether it was cancelled, in the engine's numbers.
    pub status: Status,
    /// The error code, as the program knows it.
    pub error: i32,
}

/// Where a status goes; nowhere if it is `MPI_STATUS_IGNORE`.
#[derive(Clone, Copy, Debug)]
pub struct OutStatus {
    to: *mut i32,
    encoding: &'static Encoding,
}

impl OutStatus {
    /// Writes a status, but not its error: only functions that end several requests do that (MPI 3.2.5), and that of an
    /// empty status is `MPI_SUCCESS` (MPI 3.7.3).
    #[inline]
    pub fn set(&self, status: &Status) {
        let (Some(to), layout) = (self.place(), &self.encoding.status) else {
            return;
        };
        let high = ((status.len >> 32) as i32) << 1 | i32::from(status.cancelled);
        let tag = if status.tag == ANY_TAG {
            self.encoding.any_tag
        } else {
            status.tag
        };
        // SAFETY: by `Argument::take`'s contract there is room for a status, whose fields these are.
        unsafe {
            to.add(layout.source)
                .write_unaligned(Rank::encode(self.encoding, status.source));
            to.add(layout.tag).write_unaligned(tag);
            to.add(layout.count_low).write_unaligned(status.len as u32 as i32);
            to.add(layout.count_high).write_unaligned(high);
            if *status == Status::EMPTY {
                to.add(layout.error).write_unaligned(0);
            }
        }
    }

    /// Writes the error code.
    pub fn set_error(&self, code: i32) {
        if let Some(to) = self.place() {
            // SAFETY: by `Argument::take`'s contract there is room for a status, whose field this is.
            unsafe { to.add(self.encoding.status.error).write_unaligned(code) };
        }
    }

    /// What is there.
    #[must_use]
    pub fn get(&self) -> Option<Summary> {
        let (to, layout) = (self.place()?, &self.encoding.status);
        // SAFETY: by `Argument::take`'s contract there is a status, whose fields these are.
        let field = |index: usize| unsafe { to.add(index).read_unaligned() };
        let (low, high) = (field(layout.count_low), field(layout.count_high));
        let tag = field(layout.tag);
        Some(Summary {
            status: Status {
                source: Rank::decode(self.encoding, field(layout.source)),
                tag: if tag == self.encoding.any_tag { ANY_TAG } else { tag },
                len: u64::from(high as u32 >> 1) << 32 | u64::from(low as u32),
                cancelled: high & 1 != 0,
            },
            error: field(layout.error),
        })
    }

    /// The program wants none.
    #[must_use]
    pub fn is_ignored(&self) -> bool {
        self.place().is_none()
    }

    /// The same, written nowhere.
    #[must_use]
    pub fn ignored(self) -> Self {
        Self {
            to: core::ptr::null_mut(),
            ..self
        }
    }

    #[inline]
    fn place(&self) -> Option<*mut i32> {
        (self.to.addr() > 1 && self.to.addr() != self.encoding.status_ignore).then_some(self.to)
    }
}

impl OutStatus {
    /// Memory of ours that is written like a status of the program: for callbacks.
    pub(crate) fn of_memory(memory: &mut [i32; 8], encoding: &'static Encoding) -> Self {
        Self {
            to: memory.as_mut_ptr(),
            encoding,
        }
    }
}

impl<A: Abi, W: Width> Argument<A, W> for OutStatus {
    type Native = *mut i32;

    #[inline]
    unsafe fn take(native: Self::Native) -> Self {
        Self {
            to: native,
            encoding: A::ENCODING,
        }
    }
}

/// A status that is read, and perhaps written.
#[derive(Clone, Copy, Debug)]
pub struct InStatus(pub OutStatus);

impl<A: Abi, W: Width> Argument<A, W> for InStatus {
    type Native = *mut i32;

    unsafe fn take(native: Self::Native) -> Self {
        Self(OutStatus {
            to: native,
            encoding: A::ENCODING,
        })
    }

    fn fault(&self) -> Option<hikyaku::mpi::error::ErrorClass> {
        self.0.is_ignored().then_some(hikyaku::mpi::error::ErrorClass::Arg)
    }
}

/// Room for statuses; none if it is `MPI_STATUSES_IGNORE`.
#[derive(Clone, Copy, Debug)]
pub struct OutStatuses(OutStatus);

impl OutStatuses {
    /// Status `index`.
    #[must_use]
    pub fn at(&self, index: usize) -> OutStatus {
        if self.0.is_ignored() {
            return self.0;
        }
        OutStatus {
            to: self.0.to.wrapping_add(index * self.0.encoding.status.len),
            ..self.0
        }
    }
}

impl<A: Abi, W: Width> Argument<A, W> for OutStatuses {
    type Native = *mut i32;

    unsafe fn take(native: Self::Native) -> Self {
        Self(OutStatus {
            to: native,
            encoding: A::ENCODING,
        })
    }
}
