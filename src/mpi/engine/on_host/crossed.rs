//! Bytes that a rank takes straight from the memory of another one: the system copies them once, and no piece waits for
//! the next one.
//!
//! A rank posts where its bytes lie, and keeps them there until all have said that they have read. No permission is needed
//! as where messages are copied: a rank that gives up earlier gives up the board, so nobody keeps what was read after that.

use super::steps::Steps;
use crate::{
    messaging::MemoryRegion,
    mpi::{engine::buffer::Buffer, error::Error},
};

/// Bytes that are copied while no other thread of this process uses its engine.
const STEP: usize = 512 << 10;
/// The address of bytes that no other rank can read.
const NOWHERE: u64 = 0;

/// Where the bytes of a buffer lie.
pub(super) fn address(buffer: &Buffer) -> u64 {
    buffer.as_slice().map_or(NOWHERE, |bytes| bytes.as_ptr() as u64)
}

impl Steps<'_> {
    /// Fills a buffer with bytes from the memory of another rank. Returns whether it did: the system copies between the two,
    /// and the bytes lie in one place, here and there.
    pub(super) fn fill_from(&self, rank: usize, address: u64, buffer: &mut Buffer) -> bool {
        let process = self.process_at(rank).filter(|_| address != NOWHERE);
        let (Some(process), Some(into)) = (process, buffer.whole()) else {
            return false;
        };
        let mut parts = (address..).step_by(STEP).zip(into.chunks_mut(STEP));
        parts.all(|(address, part)| {
            self.communicator.access(false, |core, messenger, now| {
                let Some(peer) = core.peers.meet(messenger, process) else {
                    return false;
                };
                if !messenger.layer().is_up(peer) {
                    // This rank has not talked to that one yet. In the next collective it will have.
                    messenger.connect(now, peer);
                }
                core.tagged.read_from(messenger, peer, address, part)
            })
        })
    }

    /// Says whether this rank has read what it takes from the memory of others, and waits until all have said so. Returns
    /// whether all have.
    pub(super) fn all_have(&mut self, is_read: bool) -> Result<bool, Error> {
        let failed = usize::from(!is_read);
        self.begin(Some(failed))?;
        self.board.write(failed, 0, &[0][..failed]);
        self.post(failed);
        let mut all_read = is_read;
        for from in self.others() {
            match self.await_any(from)? {
                0 => {}
                1 => all_read = false,
                _ => return Err(self.differs(from)),
            }
        }
        self.board.all_have_posted();
        self.end();
        Ok(all_read)
    }
}
