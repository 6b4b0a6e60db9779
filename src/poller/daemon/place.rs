//! A place for a process that has queues of the port for its large messages.

use crate::backends::dpdk::Steered;

/// A place for a process at the port.
#[derive(Default)]
pub(super) struct Place {
    /// Index in the poller's `ranks` of its process.
    pub(super) holder: Option<usize>,
    /// Its last process has ended without a goodbye, and may have kept packets.
    pub(super) worn: bool,
    /// The rule by which datagrams for a UDP port come to it, on a card.
    pub(super) steered: Option<(u16, Steered)>,
}

impl Place {
    /// Its process has ended.
    pub(super) fn release(&mut self, goodbye: bool) {
        self.holder = None;
        self.worn |= !goodbye;
    }
}
