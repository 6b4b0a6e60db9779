//! Bytes that a rank takes straight from the memory of another one: the system copies them once, and no piece waits for
//! the next one.
//!
//! A rank posts where its bytes lie, and keeps them there until all ranks have said that they have read. If it returns
//! earlier, it has given up the board: a rank that has read looks at that before it takes what it has read for the data.
//! So no permission has to be withdrawn, as that of a message has.

use super::steps::Steps;
use crate::{
    messaging::MemoryRegion,
    mpi::{engine::buffer::Buffer, error::Error},
};

/// Bytes that are copied while no other thread of this process uses its engine, and before it looks at the network.
const STEP: usize = 512 << 10;
/// The address of bytes that no other rank can read.
pub(super) const NOWHERE: u64 = 0;

/// Where the bytes of a buffer lie.
pub(super) fn address(buffer: &Buffer) -> u64 {
    buffer.as_slice().map_or(NOWHERE, |bytes| bytes.as_ptr() as u64)
}

impl Steps<'_> {
    /// Fills a buffer with bytes from the memory of another rank. Returns whether it did: the system copies between the two,
    /// and the buffer is one run.
    pub(super) fn fill_from(&self, rank: usize, address: u64, buffer: &mut Buffer) -> bool {
        let (Some(process), Some(into)) = (self.process_at(rank), buffer.whole()) else {
            return false;
        };
        let mut parts = into.chunks_mut(STEP).enumerate();
        parts.all(|(index, part)| {
            let address = address.wrapping_add((index * STEP) as u64);
            self.communicator.engine().fabric.stayed();
            self.communicator.access(false, |core, messenger, now| {
                let Some(peer) = core.peers.meet(messenger, process) else {
                    return false;
                };
                if !messenger.layer().is_up(peer) {
                    // This rank has not talked to that one yet. When they have, later collectives can read.
                    messenger.connect(now, peer);
                }
                core.tagged.read_from(messenger, peer, address, part)
            })
        })
    }

    /// Tells all ranks whether this one could read what it takes from the memory of others, and waits until all have told so.
    /// Returns whether all could.
    pub(super) fn agree_on_read(&mut self, could_read: bool) -> Result<bool, Error> {
        // A post of no bytes says yes, one of one byte no.
        let failed = usize::from(!could_read);
        self.begin(Some(failed))?;
        self.board.write(failed, 0, &[0][..failed]);
        self.post(failed);
        let mut all_could = could_read;
        for from in self.others() {
            match self.await_any(from)? {
                0 => {}
                1 => all_could = false,
                _ => return Err(self.differs(from)),
            }
        }
        if self.board.given_up().is_some() {
            return Err(self.failed());
        }
        self.board.all_have_posted();
        self.end();
        Ok(all_could)
    }
}
