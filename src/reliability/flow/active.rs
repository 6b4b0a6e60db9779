//! The part of a flow that exists while something is going on.

use super::{mtu::Search, receiver::Receiver, sender::Sender};
use crate::reliability::timers::Deadlines;

/// The part of a flow that exists while something is going on.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq))]
pub(crate) struct Active {
    pub(crate) flow: u32,
    pub(crate) send: Sender,
    pub(crate) receive: Receiver,
    pub(crate) deadlines: Deadlines,
    /// When something was last sent or received, ns.
    pub(crate) last_use: u64,
    /// In the list of those that may have something to send.
    pub(crate) ready: bool,
    /// In the list of bulk flows, and the bytes left of its turn there.
    pub(crate) bulk: bool,
    pub(crate) turn: u32,
    /// Has something queued or unacknowledged.
    pub(crate) busy: bool,
    /// The search for the path MTU (channel 0).
    pub(crate) probe: Search,
}
