//! The resident part of a peer: the state that is kept while it is idle.

use core::net::SocketAddr;

use super::{
    credit::{INITIAL_CREDIT, MESSAGE_COST},
    flow::{FlowKey, NONE},
    packet_builder::Format,
    path::MAX_RAILS,
};
use crate::{
    config::MIN_DATAGRAM,
    wire::{Features, Open, Packet, Seq, Token},
};

/// Longest time that a peer may hold acknowledgements back, ns: it delays our noticing of its death.
const MAX_ACK_DELAY: u32 = 100_000_000;
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

/// How a peer has come into the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// It was added, and stays.
    Added,
    /// It has come by itself.
    Stranger,
    /// That, and it has given way to another.
    Left,
}

/// Tokens of a session that has not begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tokens {
    /// The secret of the token that we issue.
    pub(crate) local: u64,
    /// The token of packets to a peer whose own token is not known.
    pub(crate) contact: Token,
}

#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq))]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    /// Secret of the token that the peer must put into its packets; the index is that of its place.
    pub(crate) local_secret: u64,
    /// Token that we must put into ours, see [`remote_token`](Self::remote_token).
    remote_secret: u64,
    remote_index: u32,
    /// Secret of the peer's token in the previous session: an opening with this token is a late duplicate.
    buried: u64,
    /// The peer's incarnation, of the last session if it is down; 0: none.
    pub(crate) remote_epoch: u64,
    /// When something valid was last heard, ns of active time.
    pub(crate) last_heard: u64,
    pub(crate) processor: u32,
    /// Number of the session, from 1.
    pub(crate) session: u32,
    /// First of its flows: channel 0, then as they came.
    pub(crate) first_flow: u32,
    /// Send credit, as offsets in the running sum of the costs of all messages: the offset at which the next message
    /// begins, and the limit. Messages get their offsets when they are queued, so that none can use up credit that an
    /// older one needs.
    pub(crate) cost_queued: u64,
    pub(crate) cost_limit: u64,
    /// Most bytes that the peer allows in flight.
    pub(crate) window: u32,
    /// Receive credit: the cost received, the cost released by the layer above, and the limit last announced.
    pub(crate) cost_received: u32,
    pub(crate) cost_released: u32,
    pub(crate) limit_told: u32,
    /// Bytes that the peer may have in flight, as announced last.
    pub(crate) window_advertised: u32,
    /// Longest that the peer delays acknowledgements, ns.
    pub(crate) ack_delay: u32,
    /// Flows of it that are active.
    pub(crate) actives: u16,
    /// Largest datagram known to pass.
    pub(crate) mtu: u16,
    /// Largest datagram that the peer takes.
    pub(crate) max_datagram: u16,
    pub(crate) phase: Phase,
    pub(crate) place: Place,
    pub(super) format: Format,
    /// A send was refused for want of room: report when there is some.
    pub(crate) blocked: bool,
    /// It receives at another port than it sends from.
    pub(crate) split_ports: bool,
    marks: Marks,
    /// The lower half of the features that it has named.
    pub(crate) features: u16,
}

/// The primary rail of a peer, where [`FlowKey`] has it, and facts of one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Marks(u16);

impl Marks {
    const PRIMARY: u16 = (MAX_RAILS as u16 - 1) << 8;
    /// The table of rails knows the peer.
    const RAILS: u16 = 1 << 15;
    const WATCHED: u16 = 1 << 0;
    const MTU_FOUND: u16 = 1 << 1;

    #[inline(always)]
    const fn has(self, mark: u16) -> bool {
        self.0 & mark != 0
    }

    const fn set(&mut self, mark: u16, on: bool) {
        self.0 = if on { self.0 | mark } else { self.0 & !mark };
    }
}

/// The table index that a token names, if it is a session's. (There is no peer of the index that a cookie names.)
#[inline]
pub(crate) fn index_of(token: Token) -> Option<u32> {
    token.index.checked_sub(1)
}

/// Our token for the peer of that place of the table.
#[inline]
pub(crate) fn token_of(index: u32, secret: u64) -> Token {
    Token {
        index: index + 1,
        secret,
    }
}

/// A token that can be a session's.
#[inline]
pub(crate) fn is_of_session(token: Token) -> bool {
    // Neither 0 nor the index of a cookie, which is the last.
    token.index.wrapping_sub(1) < Token::COOKIE - 1
}

/// Like `==`, in line for the usual addresses.
#[inline(always)]
pub(crate) fn is_same(one: &SocketAddr, other: &SocketAddr) -> bool {
    match (one, other) {
        (SocketAddr::V4(one), SocketAddr::V4(other)) => one.ip() == other.ip() && one.port() == other.port(),
        _ => one == other,
    }
}

impl Peer {
    /// A packet with this secret is of the session, which is open, and neither needs a checksum nor wakes a sender that
    /// waits for room.
    #[inline(always)]
    pub(crate) fn expects(&self, secret: u64) -> bool {
        self.local_secret == secret && self.format.is_plain() && self.phase == Phase::Open && !self.blocked
    }

    /// Packets of the session may come from there, if it has no rails.
    #[inline(always)]
    pub(crate) fn is_at(&self, source: &SocketAddr) -> bool {
        is_same(&self.address, source) || self.split_ports
    }

    pub(super) fn new(address: SocketAddr, processor: u32, tokens: Tokens, mtu: u16, format: Format) -> Self {
        Self {
            address,
            local_secret: tokens.local,
            remote_secret: tokens.contact.secret,
            remote_index: tokens.contact.index,
            buried: 0,
            remote_epoch: 0,
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
            window_advertised: INITIAL_CREDIT,
            ack_delay: 0,
            actives: 0,
            mtu,
            max_datagram: u16::MAX,
            phase: Phase::New,
            place: Place::Added,
            format,
            blocked: false,
            split_ports: false,
            marks: Marks::default(),
            features: 0,
        }
    }

    /// Forgets the session; the next one begins from nothing.
    pub(super) fn reset(&mut self, phase: Phase, mtu: u16, tokens: Tokens, format: Format) {
        self.local_secret = tokens.local;
        if self.is_bound() {
            self.buried = self.remote_secret;
        }
        self.set_remote_token(tokens.contact);
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
        self.format = format;
        self.blocked = false;
        self.set_mtu_found(false);
        self.features = 0;
    }

    /// Token that we must put into our packets; that of a first contact or of a challenge while the peer's own is not
    /// known.
    #[inline(always)]
    pub(crate) fn remote_token(&self) -> Token {
        Token {
            index: self.remote_index,
            secret: self.remote_secret,
        }
    }

    pub(crate) fn set_remote_token(&mut self, token: Token) {
        (self.remote_index, self.remote_secret) = (token.index, token.secret);
    }

    /// The peer's token is known: a session has begun.
    #[inline]
    pub(crate) fn is_bound(&self) -> bool {
        is_of_session(self.remote_token())
    }

    /// Takes over which sessions there have been with a peer that has left the same address: their openings must not
    /// be taken again.
    pub(crate) fn succeed(&mut self, left: &Self) {
        self.session = self.session.max(left.session);
        (self.buried, self.remote_epoch) = (left.buried, left.remote_epoch);
    }

    /// The opening belongs to the running session.
    pub(crate) fn is_current(&self, open: &Open) -> bool {
        self.remote_token() == open.token && self.remote_epoch == open.epoch
    }

    /// The opening belongs to the previous session.
    pub(crate) fn has_buried(&self, open: &Open) -> bool {
        self.buried == open.token.secret && self.remote_epoch == open.epoch
    }

    /// Number of the last session that has begun; 0: none has.
    pub(crate) fn begun(&self) -> u64 {
        let number = u64::from(self.session);
        if self.is_bound() { number } else { number - 1 }
    }

    /// Messages can be sent to it, and it has not closed.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.phase, Phase::New | Phase::Open)
    }

    /// The peer has used our token.
    #[inline]
    pub(crate) fn is_confirmed(&self) -> bool {
        !self.format.contains(Format::OPENING)
    }

    /// Packets of the session carry checksums: one side wants it.
    #[inline]
    pub(crate) fn checksums(&self) -> bool {
        self.format.contains(Format::CHECKSUM)
    }

    /// Bytes that a packet to it may have beside what is in each, by its first rail.
    #[inline(always)]
    pub(crate) fn room(&self) -> usize {
        usize::from(self.mtu) - self.format.overhead()
    }

    /// The features that it has named, as far as they are not required.
    pub(crate) fn features(&self) -> Features {
        Features::from_bits_retain(self.features.into())
    }

    /// It declares numbers void when it is asked to ([`Features::SETTLE`]).
    #[inline]
    pub(crate) fn settles(&self) -> bool {
        self.features().contains(Features::SETTLE)
    }

    /// The flow into which messages for a channel are queued.
    #[inline(always)]
    pub(crate) fn home(&self, channel: u8) -> FlowKey {
        FlowKey::from_bits(self.marks.0 & Marks::PRIMARY | u16::from(channel))
    }

    /// The rail for small messages.
    #[inline(always)]
    pub(crate) fn primary_rail(&self) -> u8 {
        self.home(0).rail()
    }

    pub(crate) fn set_primary_rail(&mut self, rail: u8) {
        self.marks.set(Marks::PRIMARY, false);
        self.marks.set(u16::from(rail) << 8 & Marks::PRIMARY, true);
    }

    /// The table of rails knows it: it has several paths, or one by another port than 0 (`endpoint/rails.rs`).
    #[inline(always)]
    pub(crate) fn has_rails(&self) -> bool {
        self.marks.has(Marks::RAILS)
    }

    pub(crate) fn begin_rails(&mut self) {
        self.marks.set(Marks::RAILS, true);
    }

    pub(crate) fn end_rails(&mut self) {
        self.marks.set(Marks::RAILS | Marks::PRIMARY, false);
    }

    /// It is asked whether it lives even if nothing is in flight.
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        self.marks.has(Marks::WATCHED)
    }

    pub(crate) fn watch(&mut self, on: bool) {
        self.marks.set(Marks::WATCHED, on);
    }

    /// The search for the path MTU is over.
    #[inline]
    pub(crate) fn is_mtu_found(&self) -> bool {
        self.marks.has(Marks::MTU_FOUND)
    }

    pub(crate) fn set_mtu_found(&mut self, found: bool) {
        self.marks.set(Marks::MTU_FOUND, found);
    }

    /// Several rails are agreed with it.
    pub(crate) fn uses_rails(&self) -> bool {
        self.features().contains(Features::RAILS.union(Features::SETTLE))
    }

    /// Takes over the parameters in the peer's opening.
    pub(crate) fn bind(&mut self, open: &Open) {
        self.set_remote_token(open.token);
        self.remote_epoch = open.epoch;
        self.ack_delay = open.ack_delay.min(MAX_ACK_DELAY);
        // A packet larger than all the credit that the peer ever gives could never be sent.
        let most = u16::try_from(open.credit.limit.saturating_sub(MESSAGE_COST)).unwrap_or(u16::MAX);
        self.max_datagram = open.max_datagram.min(most).max(MIN_DATAGRAM);
        self.mtu = self.mtu.min(self.max_datagram);
        self.cost_limit = open.credit.limit.into();
        self.window = open.credit.window;
        self.split_ports = open.port != 0;
        if open.features.contains(Features::CHECKSUM) {
            self.format.want_checksums();
        }
        self.features = open.features.bits() as u16;
        if self.phase == Phase::New {
            self.phase = Phase::Open;
        }
    }

    /// A packet holds the first message between the usual processors.
    #[cold]
    pub(super) fn begins(&self, packet: &Packet<&[u8]>) -> bool {
        let base = packet.base();
        base.message == Seq(0) && base.source == self.processor
    }

    /// A packet that costs so much would go beyond `limit`.
    #[inline]
    pub(crate) fn exceeds(&self, cost: u32, limit: u32) -> bool {
        self.cost_received.wrapping_add(cost).wrapping_sub(limit) as i32 > 0
    }

    /// The credit limit to announce now. It never decreases: packets that a peer sends within an announced limit must
    /// be accepted (only the first [`INITIAL_CREDIT`] can exceed `unexpected`).
    pub(crate) fn tell_limit(&mut self, unexpected: u32) -> u32 {
        let limit = self.cost_released.wrapping_add(unexpected);
        if limit.wrapping_sub(self.limit_told) as i32 > 0 {
            self.limit_told = limit;
        }
        self.limit_told
    }
}
