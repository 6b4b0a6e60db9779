#![expect(unsafe_code, reason = "as where there is memory")]
//! This build shares no memory with other processes: collectives go by messages.

use super::{communicator::Communicator, regions::Buffers};
use crate::mpi::{collectives::Call, error::Error, operation::Operation};

/// Nothing is known.
#[derive(Debug, Default)]
pub(super) struct OnHost(());

/// The arguments of a collective.
#[derive(Clone, Copy)]
#[expect(dead_code, reason = "nobody reads them here")]
pub(super) struct Asked<'a> {
    pub(super) name: &'static str,
    pub(super) call: &'a Call<'a>,
    pub(super) buffers: &'a Buffers<'a>,
    pub(super) operation: Option<&'a Operation>,
    pub(super) mark: u32,
    pub(super) bits: u64,
}

#[expect(clippy::unused_self, reason = "as where there is memory")]
impl Communicator {
    #[inline]
    pub(super) fn may_be_on_host(&self) -> bool {
        false
    }

    pub(super) unsafe fn run_on_host(&self, _: &Asked<'_>) -> Option<Result<(), Error>> {
        None
    }
}
