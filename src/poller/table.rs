//! What is counted, and what is told of processes that come and go.

use std::fmt;

use crate::{reliability::delegated::Broken, stats::Dropped};

/// Why a process is not served any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// It has said goodbye to all of its peers.
    Left,
    /// It has ended without a goodbye.
    Died,
    /// It has said what a correct process can not say.
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

/// What a poller has counted since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PollerStats {
    /// Processes that are served, or have gone and whose peers are being seen off.
    pub processes: usize,
    /// Processes that have come.
    pub came: u64,
    /// Of those that are gone: with a goodbye, without one, thrown out.
    pub left: u64,
    /// See [`left`](Self::left).
    pub died: u64,
    /// See [`left`](Self::left).
    pub thrown_out: u64,
    /// Processes that were refused.
    pub refused: u64,
    /// Connections that said nothing that could be understood.
    pub strangers: u64,
    /// Datagrams for UDP ports that nobody has.
    pub for_nobody: u64,
    /// Buffers that processes have.
    pub on_loan: u32,
    /// Datagrams received, for whomever.
    pub datagrams_received: u64,
    /// Datagrams sent.
    pub datagrams_sent: u64,
    /// Packets lent.
    pub lent: u64,
    /// Packets copied instead, because they are small, or because too many were lent.
    pub copied: u64,
    /// Packets for which a process had no room; they come again.
    pub put_off: u64,
    /// Datagrams dropped because their process does not read what happens to its peers and messages.
    pub unread: u64,
    /// Packets dropped by what they say, those for processes that are gone included, and those for nobody.
    pub dropped: Dropped,
}

/// Counters, and the last word about processes.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) stats: PollerStats,
}

/// A process, as people know it.
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
