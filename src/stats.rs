//! Counters, copied out on request.

use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};
use core::{fmt, time::Duration};

use crate::{
    error::{DROP_REASONS, DropReason},
    table::{Rows, display_as_table, rows_of, write_rows},
};

/// Counters of an endpoint since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Stats {
    /// Packets sent, of any kind, resends included.
    pub packets_sent: u64,
    /// Packets received, of any kind, before any check.
    pub packets_received: u64,
    /// Payload bytes sent for the first time.
    pub payload_sent: u64,
    /// Payload bytes delivered to the layer above.
    pub payload_received: u64,
    /// Packets delivered to the layer above, each exactly once.
    pub packets_delivered: u64,
    /// Packets sent again.
    pub resends: u64,
    /// Packets found lost by newer ones having arrived (RACK).
    pub lost_by_order: u64,
    /// Packets found lost because the peer asked for them (NACK).
    pub lost_by_nack: u64,
    /// Packets found lost by time-out.
    pub lost_by_timeout: u64,
    /// Time-outs undone: the packets sent first were acknowledged, and not their resends.
    pub spurious_timeouts: u64,
    /// Tail-loss probes sent.
    pub probes: u64,
    /// Times that packets in flight were cut anew, since the path took no such large ones any more.
    pub flows_settled: u64,
    /// Times that a rail was proven to work, at first or again.
    pub rails_up: u64,
    /// Times that a rail was found dead while another was not.
    pub rails_down: u64,
    /// Acknowledgements sent alone.
    pub acks_alone: u64,
    /// Negative acknowledgements sent.
    pub nacks_sent: u64,
    /// Messages that shared a datagram with others.
    pub messages_bundled: u64,
    /// Resets sent.
    pub resets_sent: u64,
    /// Answers (resets, challenges, probe answers) not sent because too many were waiting or the rate was used up.
    pub answers_dropped: u64,
    /// Sessions opened.
    pub sessions_opened: u64,
    /// Peers lost, for whatever reason but a goodbye.
    pub peers_lost: u64,
    /// Times that sending paused because the peer's credit was used up.
    pub blocked_on_credit: u64,
    /// Reports of the network that no process listens at a peer's address, which were not believed.
    pub refusals_ignored: u64,
    /// Packets received and dropped, by reason.
    pub dropped: Dropped,
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rows = rows_of(self.fields());
        self.dropped.add_to(&mut rows);
        write_rows(f, &rows)
    }
}

impl Stats {
    /// All counters but those of [`dropped`](Self::dropped), by name.
    pub fn fields(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        macro_rules! fields {
            ($($field:ident,)*) => {{
                let Self { $($field,)* dropped: _ } = *self;
                [$((stringify!($field), $field),)*]
            }};
        }
        let fields = fields! {
            packets_sent,
            packets_received,
            payload_sent,
            payload_received,
            packets_delivered,
            resends,
            lost_by_order,
            lost_by_nack,
            lost_by_timeout,
            spurious_timeouts,
            probes,
            flows_settled,
            rails_up,
            rails_down,
            acks_alone,
            nacks_sent,
            messages_bundled,
            resets_sent,
            answers_dropped,
            sessions_opened,
            peers_lost,
            blocked_on_credit,
            refusals_ignored,
        };
        fields.into_iter()
    }

    /// So many packets with so many bytes of payload have been delivered.
    #[inline(always)]
    pub(crate) fn note_delivered(&mut self, packets: u32, payload: u32) {
        self.packets_delivered += u64::from(packets);
        self.payload_received += u64::from(payload);
    }
}

/// Packets received and dropped, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped([u64; DROP_REASONS]);

impl Dropped {
    /// Packets dropped for `reason`.
    #[must_use]
    pub fn of(&self, reason: DropReason) -> u64 {
        self.0[reason as usize]
    }

    /// Packets dropped for any reason.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The reasons that occurred, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        DropReason::ALL
            .iter()
            .map(|&reason| (reason, self.of(reason)))
            .filter(|&(_, count)| count > 0)
    }

    /// Those of another endpoint, too.
    pub(crate) fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(count, more)| *count += more);
    }

    pub(crate) fn count(&mut self, reason: DropReason) {
        self.0[reason as usize] += 1;
    }
}

impl Rows for Dropped {
    fn add_to(&self, rows: &mut Vec<(String, String)>) {
        rows.push(("dropped".to_string(), self.total().to_string()));
        rows.extend(
            self.iter()
                .map(|(reason, count)| (format!("  {reason:?}"), count.to_string())),
        );
    }
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rows = Vec::new();
        self.add_to(&mut rows);
        write_rows(f, &rows)
    }
}

/// A map of the reasons that occurred: what a later release may drop packets for changes nothing.
#[cfg(feature = "serde")]
impl serde::Serialize for Dropped {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Dropped {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let counts = alloc::collections::BTreeMap::<DropReason, u64>::deserialize(deserializer)?;
        let mut dropped = Self::default();
        for (reason, count) in counts {
            dropped.0[reason as usize] = count;
        }
        Ok(dropped)
    }
}

/// State of one peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct PeerStats {
    /// Smoothed round-trip time of channel 0; zero before the first sample.
    pub smoothed_rtt: Duration,
    /// Smallest round-trip time seen on channel 0; zero before the first sample.
    pub min_rtt: Duration,
    /// Congestion window of channel 0, bytes; 0 while nothing is in flight.
    pub window: u64,
    /// Bytes in flight on all channels.
    pub in_flight: u64,
    /// Packets in flight on all channels.
    pub packets_in_flight: u64,
    /// Bytes queued and not yet sent, on all channels.
    pub queued: u64,
    /// Largest datagram known to reach it, bytes of UDP payload.
    pub max_datagram: u64,
    /// Bytes of cost that it has sent and the application has not taken.
    pub unexpected: u64,
    /// Every packet of the session carries a checksum: we want that ([`Config::checksum`](crate::Config::checksum)), or
    /// the peer does. Before its opening has come it is what we want.
    pub checksum: bool,
    /// Features that it has named and this side does not know (and that it does not require): it is of a later release.
    pub unknown_features: crate::wire::Features,
}

display_as_table!(PeerStats {
    smoothed_rtt,
    min_rtt,
    window,
    in_flight,
    packets_in_flight,
    queued,
    max_datagram,
    unexpected,
    checksum
    ; unknown_features
});

impl Rows for crate::wire::Features {
    fn add_to(&self, rows: &mut Vec<(String, String)>) {
        rows.push(("unknown features".to_string(), format!("{:#x}", self.bits())));
    }
}
