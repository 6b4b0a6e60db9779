//! How the receive queues of a host are polled, and how long they are (the DPDK paper, section 4.1; `docs/papers.md`).

use std::collections::VecDeque;

use super::network::RangeError;

/// Which process takes packets from the receive queues of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polling {
    /// Each process has a helper beside it, which goes on polling while the program computes.
    Helper,
    /// The process itself, while it is within MPI. While it computes, packets wait in the queues, and timers do not
    /// fire.
    Process,
    /// One poller for each host, which receives for all processes of the host, all the time.
    Dedicated,
    /// The poller takes the packets of channel 0 (eager messages, requests and grants), the process itself takes the
    /// payload of rendezvous: the combination that the DPDK paper proposes.
    Combined,
}

/// Receive queues of fixed length: those of each process that polls for itself, and those of each host's poller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queues {
    /// Number of queues. Packets take them in turn, as senders choose among the receiver's pool (the DPDK paper,
    /// section 4.2.1). 1 to 1,024.
    pub count: u32,
    /// Packets that fit into each queue. 1 to 65,536.
    pub length: u32,
}

impl Default for Queues {
    /// One queue of 512 packets.
    fn default() -> Self {
        Self { count: 1, length: 512 }
    }
}

impl Queues {
    /// Checks every range.
    ///
    /// # Errors
    /// Names the first value that is out of its range.
    pub fn validate(&self) -> Result<(), RangeError> {
        let error = |name, range| Err(RangeError { name, range });
        match self {
            _ if !(1..=1_024).contains(&self.count) => error("queues.count", "from 1 to 1024"),
            _ if !(1..=65_536).contains(&self.length) => error("queues.length", "from 1 to 65536 packets"),
            _ => Ok(()),
        }
    }
}

/// The poller of a host.
#[derive(Debug, Default)]
pub(super) struct Poller {
    /// Time until which it is busy.
    busy_until: u64,
    /// For each queue: the times when its packets are taken.
    queues: Vec<VecDeque<u64>>,
    turn: usize,
}

impl Poller {
    pub(super) fn new(queues: Queues) -> Self {
        Self {
            queues: vec![VecDeque::new(); queues.count as usize],
            ..Self::default()
        }
    }

    /// A packet arrives at `now` and takes `cost` to handle. Gives when it has been taken; `None`: its queue is full.
    pub(super) fn take(&mut self, now: u64, cost: u64, queues: Queues) -> Option<u64> {
        self.turn = (self.turn + 1) % self.queues.len();
        let queue = &mut self.queues[self.turn];
        while queue.front().is_some_and(|taken| *taken <= now) {
            queue.pop_front();
        }
        if queue.len() >= queues.length as usize {
            return None;
        }
        queue.push_back(self.busy_until.max(now));
        self.busy_until = self.busy_until.max(now) + cost;
        Some(self.busy_until)
    }
}
