//! How a driver passes over messages of other peers.

use super::Driver;
use crate::{
    messaging::{Aside, Message},
    reliability::PeerId,
};

impl Driver {
    /// Passes over messages until the next one is of `peer`; returns whether there is one, or which other peer's message
    /// cannot be set aside.
    pub(crate) fn set_aside(&mut self, aside: &mut Aside, peer: PeerId) -> Result<bool, PeerId> {
        self.copy_out();
        self.messenger.set_aside(aside, peer)
    }

    /// Takes message `index` of those that were passed over.
    pub(crate) fn take_aside<'a>(&mut self, aside: &'a mut Aside, index: usize) -> Option<Message<'a>> {
        self.messenger.take_aside(aside, index)
    }
}
