//! The resident part of a peer: what is kept even when nothing is going on.

use core::net::SocketAddr;

use super::source::NONE;
use crate::{
    config::{Config, MIN_DATAGRAM},
    wire::{Features, Open},
};

/// Octets that a peer may be sent before its own limit is known.
pub(crate) const INITIAL_CREDIT: u32 = 64 << 10;
/// Longest time that a peer may hold acknowledgements back, ns: it delays our noticing of its death.
const MAX_ACK_DELAY: u32 = 100_000_000;
/// What a message costs of the credit beside its octets: the receiver has to keep a record of it.
pub(crate) const MESSAGE_COST: u32 = 64;

/// State of the session with a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing heard yet.
    New,
    /// The peer's token is known.
    Open,
    /// Goodbye as soon as everything is acknowledged.
    Closing,
    /// The goodbye is sent.
    Goodbye,
    /// Over: no sending until it is reconnected, by us or by a new incarnation.
    Down,
}

#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq))]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    /// Token that the peer must put into its packets.
    pub(crate) local_token: u32,
    /// Token that we must put into ours; 0: not known.
    pub(crate) remote_token: u32,
    /// The peer's incarnation, of the last session if it is down; 0: none.
    pub(crate) remote_epoch: u64,
    /// The peer's token of the last session, if that ended before the peer had used ours; 0: it had, or there was none.
    pub(crate) unanswered: u32,
    /// When something valid was last heard, ns of active time.
    pub(crate) last_heard: u64,
    pub(crate) processor: u32,
    /// Number of the session, from 1.
    pub(crate) session: u32,
    /// First of its flows: channel 0, then as they came.
    pub(crate) first_flow: u32,
    /// Credit: the place in the row of all costs where the next message will begin, and how far may be sent. Places
    /// are given when messages are queued, so that no message can use up what an older one needs to be delivered.
    pub(crate) cost_queued: u64,
    pub(crate) cost_limit: u64,
    /// Octets that the peer wants in flight at most.
    pub(crate) window: u32,
    /// Credit given: cost received, given back by the layer above, and the limit last told.
    pub(crate) cost_received: u32,
    pub(crate) cost_released: u32,
    pub(crate) limit_told: u32,
    /// Octets that it may have in flight, as told last.
    pub(crate) window_told: u32,
    /// Longest that the peer delays acknowledgements, ns.
    pub(crate) ack_delay: u32,
    /// Largest datagram known to pass.
    pub(crate) mtu: u16,
    /// Largest datagram that the peer takes.
    pub(crate) max_datagram: u16,
    pub(crate) phase: Phase,
    /// The peer has used our token.
    pub(crate) confirmed: bool,
    /// The search for the path MTU is over.
    pub(crate) mtu_found: bool,
    pub(crate) watched: bool,
    /// It receives at another port than it sends from.
    pub(crate) split_ports: bool,
    /// Refused a send for want of room: tell when there is some.
    pub(crate) blocked: bool,
    /// It wants checksums.
    pub(crate) wants_checksums: bool,
    /// The lower half of the features that it has named and we do not know.
    pub(crate) unknown_features: u16,
}

const INDEX_BITS: u32 = 20;
const INDEX_MASK: u32 = (1 << INDEX_BITS) - 1;

/// The token for table index `index` and generation `generation`; never 0.
pub(crate) fn token(index: u32, generation: u32) -> u32 {
    generation << INDEX_BITS | (index + 1)
}

/// The table index that a token names, if any.
#[inline]
pub(crate) fn index_of(token: u32) -> Option<u32> {
    (token & INDEX_MASK).checked_sub(1)
}

/// The token of the next generation.
pub(crate) fn successor(token: u32) -> u32 {
    token.wrapping_add(1 << INDEX_BITS)
}

/// Both are of one peer of the same incarnation, `token` of a later session.
pub(crate) fn follows(token: u32, earlier: u32) -> bool {
    let ahead = token.wrapping_sub(earlier);
    ahead & INDEX_MASK == 0 && (ahead as i32) > 0
}

impl Peer {
    pub(crate) fn new(address: SocketAddr, processor: u32, local_token: u32, mtu: u16) -> Self {
        Self {
            address,
            local_token,
            remote_token: 0,
            remote_epoch: 0,
            unanswered: 0,
            last_heard: 0,
            processor,
            session: 1,
            first_flow: NONE,
            cost_queued: 0,
            cost_limit: INITIAL_CREDIT.into(),
            window: INITIAL_CREDIT,
            cost_received: 0,
            cost_released: 0,
            limit_told: INITIAL_CREDIT,
            window_told: INITIAL_CREDIT,
            ack_delay: 0,
            mtu,
            max_datagram: u16::MAX,
            phase: Phase::New,
            confirmed: false,
            mtu_found: false,
            watched: false,
            split_ports: false,
            blocked: false,
            wants_checksums: false,
            unknown_features: 0,
        }
    }

    /// Forgets the session; the next one begins from nothing.
    pub(crate) fn reset(&mut self, phase: Phase, mtu: u16) {
        self.local_token = successor(self.local_token);
        if self.remote_token != 0 {
            self.unanswered = if self.confirmed { 0 } else { self.remote_token };
        }
        self.remote_token = 0;
        self.session = self.session.wrapping_add(1);
        self.cost_queued = 0;
        self.cost_limit = INITIAL_CREDIT.into();
        self.window = INITIAL_CREDIT;
        self.cost_received = 0;
        self.cost_released = 0;
        self.limit_told = INITIAL_CREDIT;
        self.mtu = mtu;
        self.max_datagram = u16::MAX;
        self.phase = phase;
        self.confirmed = false;
        self.mtu_found = false;
        self.blocked = false;
        self.wants_checksums = false;
        self.unknown_features = 0;
    }

    /// The session that is opened here is with an incarnation that is dead to us. One that never answered in the last
    /// session may have taken us for another incarnation: it is welcome in a session that it has begun later.
    pub(crate) fn has_buried(&self, open: &Open) -> bool {
        self.remote_epoch == open.epoch && !(self.unanswered != 0 && follows(open.token, self.unanswered))
    }

    /// Messages can be sent to it, and it has not closed.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.phase, Phase::New | Phase::Open)
    }

    /// Packets of the session carry checksums: one side wants it.
    #[inline]
    pub(crate) fn checksums(&self, config: &Config) -> bool {
        config.checksum || self.wants_checksums
    }

    /// Takes over what the peer says of itself when it opens.
    pub(crate) fn bind(&mut self, open: &Open) {
        self.remote_token = open.token;
        self.remote_epoch = open.epoch;
        self.ack_delay = open.ack_delay.min(MAX_ACK_DELAY);
        // A packet larger than all the credit that the peer ever gives could never be sent.
        let most = u16::try_from(open.credit.limit.saturating_sub(MESSAGE_COST)).unwrap_or(u16::MAX);
        self.max_datagram = open.max_datagram.min(most).max(MIN_DATAGRAM);
        self.mtu = self.mtu.min(self.max_datagram);
        self.cost_limit = open.credit.limit.into();
        self.window = open.credit.window;
        self.split_ports = open.port != 0;
        self.wants_checksums = open.features.contains(Features::CHECKSUM);
        self.unknown_features = open.features.unknown().bits() as u16;
        if self.phase == Phase::New {
            self.phase = Phase::Open;
        }
    }

    /// A packet that costs so much would go beyond `limit`.
    #[inline]
    pub(crate) fn exceeds(&self, cost: u32, limit: u32) -> bool {
        self.cost_received.wrapping_add(cost).wrapping_sub(limit) as i32 > 0
    }

    /// How far the peer may go, to be told now. Never less than before: what it has sent on the strength of that must
    /// be taken (only the first [`INITIAL_CREDIT`] can be more than `unexpected` allows).
    pub(crate) fn tell_limit(&mut self, unexpected: u32) -> u32 {
        let limit = self.cost_released.wrapping_add(unexpected);
        if limit.wrapping_sub(self.limit_told) as i32 > 0 {
            self.limit_told = limit;
        }
        self.limit_told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_name_their_index_and_are_never_zero() {
        for index in [0, 1, 1_048_574] {
            let token = token(index, 4_095);
            assert_ne!(token, 0);
            assert_eq!(index_of(token), Some(index));
            assert_eq!(index_of(successor(token)), Some(index));
            assert!(follows(successor(token), token) && !follows(token, successor(token)) && !follows(token, token));
            assert!(!follows(successor(token) ^ 1, token), "of another peer");
        }
        assert_eq!(index_of(0), None);
    }
}
