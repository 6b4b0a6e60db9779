//! Messages of the protocol that wait for credit.
//!
//! Two queues per peer: grants and other answers may use up all credit, because a receiver returns their credit without
//! help of its application; requests to send leave a reserve for them.

use alloc::{
    collections::{BTreeMap, VecDeque},
    vec::Vec,
};

use super::control::Control;
#[cfg(feature = "mpi")]
use super::selector::PROTOCOL;
#[cfg(feature = "mpi")]
use crate::reliability::Arriving;
use crate::{
    messaging::{Messenger, SendOptions},
    reliability::{MESSAGE_COST, Payload, PeerId},
    time::Instant,
};

/// Credit that is left for grants and answers.
pub(super) const RESERVE: u64 = 16 << 10;
/// A peer for which so many answers wait causes no more of them.
const WAITING: usize = 64;

#[derive(Default)]
struct Rows {
    answers: VecDeque<Vec<u8>>,
    requests: VecDeque<Vec<u8>>,
}

#[derive(Default)]
pub(super) struct Outbox {
    /// In order, as they are gone through: that of a hash table would not be the same on every machine.
    peers: BTreeMap<u32, Rows>,
    /// A peer that something was said to in memory sleeps there: what wakes it is to be transmitted.
    wakes: bool,
}

/// It went, or will not go any more, and whether that wakes its peer; `None`: there is no room yet.
fn try_send(messenger: &mut Messenger, now: Instant, peer: PeerId, data: &[u8], reserve: u64) -> Option<bool> {
    let cost = data.len() as u64 + u64::from(MESSAGE_COST) + reserve;
    if messenger.layer().down(peer).is_some() {
        return Some(false);
    }
    if messenger.layer().credit(peer) < cost {
        return None;
    }
    #[cfg(feature = "mpi")]
    if data.len() <= Arriving::IN_LINE
        && let Some(wakes) = messenger.send_short(peer, PROTOCOL, data)
    {
        return Some(wakes);
    }
    let sent = messenger.send(now, peer, &SendOptions::default(), Payload::Copy(data));
    (!matches!(sent, Err(crate::error::SendError::WouldBlock(_)))).then_some(false)
}

/// Sends answers at one moment.
pub(super) struct Answers<'a> {
    outbox: &'a mut Outbox,
    scratch: &'a mut Vec<u8>,
    now: Instant,
}

impl Answers<'_> {
    /// Tells a peer something.
    pub(super) fn say(&mut self, messenger: &mut Messenger, peer: PeerId, control: &Control<'_>) {
        self.outbox.send(messenger, self.now, peer, control, self.scratch);
    }

    /// Returns whether a peer takes its answers: so many wait for credit of one that does not.
    pub(super) fn are_taken(&self, peer: PeerId) -> bool {
        self.outbox.answers(peer) < WAITING
    }
}

impl Outbox {
    pub(super) fn at<'a>(&'a mut self, now: Instant, scratch: &'a mut Vec<u8>) -> Answers<'a> {
        Answers {
            outbox: self,
            scratch,
            now,
        }
    }

    /// Returns whether a transmission is due that wakes a peer, and takes it for done.
    #[cfg(feature = "mpi")]
    #[inline]
    pub(super) fn take_wakes(&mut self) -> bool {
        core::mem::take(&mut self.wakes)
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.peers.is_empty()
    }

    /// Requests to this peer wait: what is sent now must not overtake them.
    #[inline]
    pub(super) fn holds_requests(&self, peer: PeerId) -> bool {
        !self.peers.is_empty() && self.peers.get(&peer.0).is_some_and(|rows| !rows.requests.is_empty())
    }

    /// Answers to this peer that wait.
    pub(super) fn answers(&self, peer: PeerId) -> usize {
        self.peers.get(&peer.0).map_or(0, |rows| rows.answers.len())
    }

    /// Sends an answer.
    pub(super) fn send(
        &mut self,
        messenger: &mut Messenger,
        now: Instant,
        peer: PeerId,
        control: &Control<'_>,
        scratch: &mut Vec<u8>,
    ) {
        control.emit(scratch);
        let waits = self.peers.get(&peer.0).is_some_and(|rows| !rows.answers.is_empty());
        match (!waits).then(|| try_send(messenger, now, peer, scratch, 0)).flatten() {
            Some(wakes) => self.wakes |= wakes,
            None => self.peers.entry(peer.0).or_default().answers.push_back(scratch.clone()),
        }
    }

    /// Sends a request.
    pub(super) fn request(
        &mut self,
        messenger: &mut Messenger,
        now: Instant,
        peer: PeerId,
        control: &Control<'_>,
        scratch: &mut Vec<u8>,
    ) {
        control.emit(scratch);
        let waits = self.holds_requests(peer);
        match (!waits)
            .then(|| try_send(messenger, now, peer, scratch, RESERVE))
            .flatten()
        {
            Some(wakes) => self.wakes |= wakes,
            None => self
                .peers
                .entry(peer.0)
                .or_default()
                .requests
                .push_back(scratch.clone()),
        }
    }

    /// There may be more credit now.
    #[cold]
    pub(super) fn retry(&mut self, messenger: &mut Messenger, now: Instant) {
        self.peers.retain(|&peer, rows| {
            let peer = PeerId(peer);
            for (row, reserve) in [(&mut rows.answers, 0), (&mut rows.requests, RESERVE)] {
                while let Some(first) = row.front()
                    && let Some(wakes) = try_send(messenger, now, peer, first, reserve)
                {
                    self.wakes |= wakes;
                    row.pop_front();
                }
            }
            !(rows.answers.is_empty() && rows.requests.is_empty())
        });
    }

    /// The peer is gone.
    pub(super) fn forget(&mut self, peer: PeerId) {
        self.peers.remove(&peer.0);
    }
}
