//! The messages that wait for one peer, and the packets that are made of them.

use alloc::collections::VecDeque;

use bytes::Bytes;

use crate::{
    config::Config,
    error::SendError,
    id::{PeerId, SendToken},
    reliability::{
        Burst, Limits, MESSAGE_COST, Outgoing, Payload, Target,
        burst::INLINE,
        credit::INITIAL_CREDIT,
        flow::{Freed, SourceId, Sources, Whole},
    },
    wire::{BASE_LEN, Base, Builder, Credit, Flags, Fragment, Kind, Placement, Seq, Token},
};

/// Bytes of the extensions that a packet can have: match bits, immediate data, fragment, placement, credit.
const EXTENSIONS: usize = 8 + 8 + 8 + 16 + 8;
/// A fragment that is shorter waits for more credit.
const LEAST: usize = 1 << 10;

/// Something that waits to be sent.
#[derive(Debug)]
pub(super) struct Queued {
    kind: Kind,
    channel: u8,
    from: u32,
    to: u32,
    message: Seq,
    source: Option<SourceId>,
    /// Bytes that have been sent.
    at: u32,
}

impl Queued {
    pub(super) fn control(kind: Kind) -> Self {
        Self {
            kind,
            channel: 0,
            from: 0,
            to: 0,
            message: Seq(0),
            source: None,
            at: 0,
        }
    }

    /// Gives a message back to its sender.
    pub(super) fn returned(message: &Base) -> Self {
        Self {
            from: message.destination,
            to: message.source,
            message: message.message,
            ..Self::control(Kind::Return)
        }
    }
}

/// A packet that was written to a burst.
pub(super) struct Written {
    pub(super) kind: Kind,
    /// Bytes of payload.
    pub(super) payload: usize,
    /// The source of which this was the last packet.
    pub(super) ended: Option<SourceId>,
    /// It asks for an answer: it is the last packet of a placement.
    pub(super) asks: bool,
}

#[derive(Debug)]
pub(super) struct Queue {
    queued: VecDeque<Queued>,
    /// The layer knows that something can be sent.
    pub(super) is_ready: bool,
    /// The limit that the peer is to be told.
    announced: Option<u32>,
    /// The credit that all messages take, that which the sent ones have taken, and its limit.
    cost_queued: u64,
    cost_sent: u64,
    cost_limit: u64,
    /// Bytes of copies, and messages by reference, in the queue.
    copied: u64,
    shared: u32,
    /// A send was refused for want of room.
    is_blocked: bool,
}

impl Default for Queue {
    fn default() -> Self {
        Self {
            queued: VecDeque::new(),
            is_ready: false,
            announced: None,
            cost_queued: 0,
            cost_sent: 0,
            cost_limit: INITIAL_CREDIT.into(),
            copied: 0,
            shared: 0,
            is_blocked: false,
        }
    }
}

impl Queue {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.queued.is_empty()
    }

    /// Bytes of copies that wait.
    pub(super) fn bytes(&self) -> u64 {
        self.copied
    }

    #[inline]
    pub(super) fn credit(&self) -> u64 {
        self.cost_limit.saturating_sub(self.cost_queued)
    }

    /// Returns whether nothing waits for credit, and there is enough for so much more.
    #[inline]
    pub(super) fn can_pay(&self, cost: u32) -> bool {
        self.cost_queued + u64::from(cost) <= self.cost_limit
    }

    /// Takes credit for a message that does not go through the queue.
    #[inline]
    pub(super) fn pay(&mut self, cost: u32) {
        self.cost_queued += u64::from(cost);
        self.cost_sent += u64::from(cost);
    }

    /// The peer has announced this limit. Returns whether something may wait for it.
    pub(super) fn raise_limit(&mut self, limit: u32) -> bool {
        let more = limit.wrapping_sub(self.cost_limit as u32) as i32;
        self.cost_limit += u64::try_from(more).unwrap_or(0);
        more > 0 && !self.queued.is_empty()
    }

    pub(super) fn announce(&mut self, limit: u32) {
        self.announced = Some(limit);
    }

    /// A return goes before all messages, which may have to wait for credit; a goodbye goes last.
    pub(super) fn push(&mut self, queued: Queued) {
        if queued.kind == Kind::Return {
            self.queued.push_front(queued);
        } else {
            self.queued.push_back(queued);
        }
    }

    pub(super) fn push_message(
        &mut self,
        config: &Config,
        sources: &mut Sources,
        (peer, token): (PeerId, Option<SendToken>),
        channel: u8,
        message: &Outgoing,
        payload: Payload<'_>,
    ) -> Result<(), SendError> {
        let is_copy = matches!(payload, Payload::Copy(_));
        let mut whole = whole_of(payload.len())?;
        let is_full = if is_copy {
            self.copied > 0 && self.copied + u64::from(whole.len) > config.send_queue_bytes.into()
        } else {
            self.shared >= config.send_queue_messages
        };
        if is_full {
            self.is_blocked = true;
            return Err(SendError::WouldBlock(peer));
        }
        whole.match_bits = message.match_bits;
        whole.immediate = message.immediate;
        whole.copied = is_copy;
        let source = match payload {
            Payload::Copy(data) if data.len() <= Sources::MAX_BLOCK => {
                let source = sources.block(data.len(), whole);
                sources.block_mut(source)[..data.len()].copy_from_slice(data);
                source
            }
            Payload::Copy(data) => sources.shared(Bytes::copy_from_slice(data), whole, None, peer.0),
            Payload::Shared(data) => sources.shared(data, whole, token, peer.0),
        };
        if is_copy {
            self.copied += u64::from(whole.len);
        } else {
            self.shared += 1;
        }
        self.cost_queued += u64::from(whole.len) + u64::from(MESSAGE_COST);
        self.queued.push_back(Queued {
            kind: Kind::Data,
            channel,
            from: message.source,
            to: message.destination,
            message: message.message,
            source: Some(source),
            at: 0,
        });
        Ok(())
    }

    pub(super) fn push_placement(
        &mut self,
        config: &Config,
        sources: &mut Sources,
        (peer, token): (PeerId, Option<SendToken>),
        channel: u8,
        target: &Target,
        data: Bytes,
    ) -> Result<(), SendError> {
        let mut whole = whole_of(data.len())?;
        if self.shared >= config.send_queue_messages {
            self.is_blocked = true;
            return Err(SendError::WouldBlock(peer));
        }
        whole.placement = Some(Placement {
            region: target.region,
            offset: target.offset,
        });
        self.shared += 1;
        self.queued.push_back(Queued {
            kind: Kind::Data,
            channel,
            from: target.source,
            to: target.destination,
            message: Seq(target.key),
            source: Some(sources.shared(data, whole, token, peer.0)),
            at: 0,
        });
        Ok(())
    }

    /// Writes the next packet, or only the credit to announce. `None`: nothing can be sent now.
    pub(super) fn transmit(
        &mut self,
        limits: &Limits,
        sources: &Sources,
        session: Token,
        answered: Seq,
        burst: &mut Burst,
    ) -> Option<Written> {
        let most = limits.max_datagram.min(limits.max_batch).min(usize::from(u16::MAX));
        let room = most - BASE_LEN - EXTENSIONS;
        let credit = self.cost_limit - self.cost_sent;
        let len = self
            .queued
            .front()
            .and_then(|front| front.next_len(sources, room, credit));
        if len.is_none() && self.announced.is_none() {
            return None;
        }
        let alone = Queued::control(Kind::Ack);
        let next = match len {
            Some(_) => self.queued.front_mut()?,
            None => &mut { alone },
        };
        let len = len.unwrap_or(0);
        let base = Base {
            kind: next.kind,
            channel: next.channel,
            source: next.from,
            destination: next.to,
            session,
            sequence: Seq(0),
            acknowledgement: answered,
            rail: 0,
            message: next.message,
        };
        let mut header = Builder::new(burst.header(), &base);
        let whole = next.source.map(|source| *sources.whole(source));
        let mut asks = false;
        if let Some(whole) = &whole {
            next.describe(&mut header, whole, len);
            asks = whole.placement.is_some() && next.at + len as u32 == whole.len;
        }
        if asks {
            header.set(Flags::ACK_REQUEST);
        }
        if let Some(limit) = self.announced.take() {
            let window = u32::MAX;
            header.credit(Credit { limit, window });
        }
        let header = header.finish(len as u16);
        let (kind, source, offset) = (next.kind, next.source, next.at);
        next.at += len as u32;
        let is_ended = kind != Kind::Ack && whole.is_none_or(|whole| next.at == whole.len);
        if let Some(whole) = whole.filter(|whole| whole.placement.is_none()) {
            self.cost_sent += len as u64 + if offset == 0 { MESSAGE_COST.into() } else { 0 };
            if is_ended && whole.copied {
                self.copied -= u64::from(whole.len);
            }
        }
        match source {
            Some(source) if len > INLINE => burst.push_reference(header, source, offset, len as u32),
            Some(source) => {
                let range = offset as usize..offset as usize + len;
                burst.push_inline(header, sources.span(source).part(range));
            }
            None => burst.push_inline(header, crate::span::Span::default()),
        }
        if is_ended {
            self.queued.pop_front();
        }
        Some(Written {
            kind,
            payload: len,
            ended: source.filter(|_| is_ended),
            asks,
        })
    }

    /// The last packet of this source has been sent. Returns the token of a message by reference.
    pub(super) fn end(&mut self, sources: &mut Sources, source: SourceId) -> Option<SendToken> {
        match sources.release(source) {
            Freed::Shared(_, token, _) => {
                // (Without a token it was a copy that is larger than a block.)
                self.shared = self.shared.saturating_sub(u32::from(token.is_some()));
                token
            }
            Freed::Block | Freed::No => None,
        }
    }

    /// Returns whether there is room again after a send that was refused, once.
    pub(super) fn takes_again(&mut self, config: &Config) -> bool {
        let again = self.is_blocked
            && self.copied < u64::from(config.send_queue_bytes)
            && self.shared < config.send_queue_messages;
        self.is_blocked &= !again;
        again
    }

    /// Gives everything up. Returns whether there were messages.
    pub(super) fn clear(&mut self, sources: &mut Sources) -> bool {
        let mut any = false;
        for source in self.queued.drain(..).filter_map(|queued| queued.source) {
            sources.release(source);
            any = true;
        }
        *self = Self::default();
        any
    }
}

fn whole_of(len: usize) -> Result<Whole, SendError> {
    let max = u64::from(u32::MAX);
    let len = u32::try_from(len).map_err(|_| SendError::MessageTooLarge { len: len as u64, max })?;
    Ok(Whole {
        len,
        ..Whole::default()
    })
}

impl Queued {
    /// The bytes that the next packet can have, with `room` for a payload and this `credit`. `None`: it has to wait.
    fn next_len(&self, sources: &Sources, room: usize, credit: u64) -> Option<usize> {
        let Some(source) = self.source else { return Some(0) };
        let whole = sources.whole(source);
        let left = (whole.len - self.at) as usize;
        if whole.placement.is_some() {
            return Some(left.min(room));
        }
        let begins = if self.at == 0 { u64::from(MESSAGE_COST) } else { 0 };
        let credit = credit.checked_sub(begins)?;
        let len = left.min(room).min(usize::try_from(credit).unwrap_or(usize::MAX));
        (len >= left.min(LEAST)).then_some(len)
    }

    /// Writes the optional parts of a packet's header.
    fn describe(&self, header: &mut Builder<'_>, whole: &Whole, len: usize) {
        if let Some(placement) = whole.placement {
            header.placement(Placement {
                offset: placement.offset + u64::from(self.at),
                ..placement
            });
            return;
        }
        if self.at == 0 {
            if let Some(bits) = whole.match_bits {
                header.match_bits(bits);
            }
            if let Some(data) = whole.immediate {
                header.immediate(data);
            }
        }
        if len as u32 != whole.len {
            header.fragment(Fragment {
                offset: self.at,
                total: whole.len,
            });
        }
    }
}
