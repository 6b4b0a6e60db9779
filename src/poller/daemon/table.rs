//! Counters, and log entries of processes that come and go.

use std::fmt;

use crate::{
    poller::protocol::Broken,
    stats::{Dropped, Stats},
};

/// Why a process is not served any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// It has said goodbye to all of its peers.
    Left,
    /// It has ended without a goodbye.
    Died,
    /// It has broken the rules of the rings or records.
    Broken(Option<Broken>),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Left => f.write_str("has left"),
            Self::Died => f.write_str("has ended without a goodbye"),
            Self::Broken(Some(why)) => write!(f, "is thrown out: {why}"),
            Self::Broken(None) => f.write_str("is thrown out: its memory is damaged"),
        }
    }
}

/// Counters of a poller since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct PollerStats {
    /// Processes that are served, or whose endpoints stay for their peers' goodbyes.
    pub processes: usize,
    /// Processes that have been admitted.
    pub came: u64,
    /// Processes that have ended with a goodbye; the next two count those without one, and those that were disconnected
    /// for breaking rules.
    pub left: u64,
    /// See [`left`](Self::left).
    pub died: u64,
    /// See [`left`](Self::left).
    pub thrown_out: u64,
    /// Processes that were refused.
    pub refused: u64,
    /// Processes that have got queues of the port for their large messages.
    pub queues_given: u64,
    /// Processes that wanted such queues and run without.
    pub queues_denied: u64,
    /// Connections whose first message could not be parsed.
    pub strangers: u64,
    /// Datagrams for UDP ports without a process.
    pub for_nobody: u64,
    /// Buffers on loan to processes.
    pub on_loan: u32,
    /// Datagrams received, for any process.
    pub datagrams_received: u64,
    /// Datagrams sent.
    pub datagrams_sent: u64,
    /// Bytes of the datagrams received, headers of UDP and below not counted.
    pub bytes_received: u64,
    /// Bytes of the datagrams sent.
    pub bytes_sent: u64,
    /// Packets lent.
    pub lent: u64,
    /// Packets copied instead, because they are small, or because too many were lent.
    pub copied: u64,
    /// Packets for which a process had no room; their senders send them again.
    pub put_off: u64,
    /// Datagrams dropped because their process does not read its reports.
    pub unread: u64,
    /// Packets that the sessions of its processes have sent, of any kind, resends included.
    pub packets_sent: u64,
    /// Packets of its processes that it has sent again.
    pub resends: u64,
    /// Packets dropped by reason, those for processes that have ended and for ports without a process included.
    pub dropped: Dropped,
}

impl PollerStats {
    /// Adds the counters of an endpoint.
    pub(super) fn add(&mut self, endpoint: &Stats) {
        self.packets_sent += endpoint.packets_sent;
        self.resends += endpoint.resends;
        self.dropped.add(&endpoint.dropped);
    }
}

crate::table::display_as_table!(PollerStats {
    processes,
    came,
    left,
    died,
    thrown_out,
    refused,
    queues_given,
    queues_denied,
    strangers,
    for_nobody,
    on_loan,
    datagrams_received,
    datagrams_sent,
    bytes_received,
    bytes_sent,
    lent,
    copied,
    put_off,
    unread,
    packets_sent,
    resends
    ; dropped
});

/// Counters, and the last word about processes.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) stats: PollerStats,
}

/// A process as it appears in the log.
pub(super) struct Person {
    pub(super) process: u32,
    pub(super) port: u16,
}

impl Table {
    pub(super) fn note_begin(&mut self, _: &Person) {
        self.stats.came += 1;
    }

    pub(super) fn note_end(&mut self, person: &Person, reason: Reason) {
        match reason {
            Reason::Left => self.stats.left += 1,
            Reason::Died => self.stats.died += 1,
            Reason::Broken(_) => self.stats.thrown_out += 1,
        }
        if reason != Reason::Left {
            let Person { process, port } = person;
            eprintln!("hikyaku poller: process {process} (UDP port {port}) {reason}");
        }
    }
}
