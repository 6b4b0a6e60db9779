//! How a driver closes the sessions with all peers.

use std::{io, time::Duration};

use super::{Acks, Driver};
use crate::reliability::PeerId;

impl Driver {
    /// Begins to say goodbye to every peer. Returns the number of sessions that [have ended](Self::ended) once every
    /// peer has heard the goodbye.
    pub(crate) fn close_all(&mut self) -> u64 {
        let layer = self.messenger.layer();
        let peers = || (0..layer.peers() as u32).map(PeerId);
        let open: Vec<PeerId> = peers().filter(|&peer| layer.down(peer).is_none()).collect();
        let done = self.ended + open.len() as u64;
        for peer in open {
            self.close(peer);
        }
        self.request_acks();
        done
    }

    /// Number of sessions that have ended.
    #[cfg(feature = "tokio")]
    pub(crate) fn ended(&self) -> u64 {
        self.ended
    }

    /// Waits, not longer than `linger`, until `ends` sessions have ended. Returns the number of sessions that have not.
    pub(crate) fn wait_ended(&mut self, ends: u64, linger: Option<Duration>) -> io::Result<u64> {
        let ended = self.run(linger, Acks::Now, |driver| driver.ended >= ends);
        // This sends the answer to a goodbye that arrived last.
        self.transmit_now();
        ended.map(|_| ends.saturating_sub(self.ended))
    }
}
