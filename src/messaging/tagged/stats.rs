//! Counters of messages with receives.

/// Counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TaggedStats {
    /// Messages sent with their payload.
    pub eager: u64,
    /// Messages sent by rendezvous.
    pub rendezvous: u64,
    /// Those of them that were small enough to be sent eagerly, but the peer had too little credit left.
    pub converted: u64,
    /// Ranges of them, and blocks of collectives, that the system copied, at this side's request, between the memory of a
    /// peer and that of this process.
    pub crossed: u64,
    /// Messages that came before their receive.
    pub unexpected: u64,
    /// Bytes of unexpected messages that are kept now.
    pub unexpected_bytes: u64,
    /// The most there were.
    pub unexpected_peak: u64,
    /// Dropped messages: malformed ones of the protocol itself, and unexpected eager ones larger than half of what may
    /// be kept.
    pub malformed: u64,
}

crate::table::display_as_table!(TaggedStats {
    eager,
    rendezvous,
    converted,
    crossed,
    unexpected,
    unexpected_bytes,
    unexpected_peak,
    malformed,
});
