//! The `send` command: messages wait, copied behind each other or by reference, until `poll_transmit` takes them.

use bytes::Bytes;

use super::Endpoint;
use crate::{
    config::Config,
    error::{PeerError, SendError},
    reliability::{
        Outgoing, Payload, PeerId, SendToken, Target,
        credit::MESSAGE_COST,
        flow::{
            Form, Queued, Sender,
            source::{NONE, SourceId, Sources, Whole, charge},
        },
        peer::{Peer, Phase},
    },
    span::{Foreign, Span},
    time::Instant,
    wire::{BASE_LEN, CHECKSUM_LEN, OPEN_LEN, Placement, Record, Seq},
};

/// A [`Payload`] that may lie where no slice can.
pub(crate) enum Source<'a, R> {
    Copy(Span<'a>),
    Shared(R),
}

/// A payload that is referenced until all of it is acknowledged.
pub(crate) trait Referred {
    fn bytes(&self) -> usize;

    /// Puts it where it stays.
    fn put(self, sources: &mut Sources, whole: Whole, token: SendToken, flow: u32) -> SourceId;
}

impl Referred for Bytes {
    #[inline(always)]
    fn bytes(&self) -> usize {
        self.len()
    }

    #[inline(always)]
    fn put(self, sources: &mut Sources, whole: Whole, token: SendToken, flow: u32) -> SourceId {
        sources.shared(self, whole, Some(token), flow)
    }
}

/// Bytes in memory that no slice can refer to. With an owner they are referenced there; without one they are copied.
impl Referred for (Span<'_>, Option<&Foreign>) {
    fn bytes(&self) -> usize {
        self.0.len()
    }

    fn put(self, sources: &mut Sources, whole: Whole, token: SendToken, flow: u32) -> SourceId {
        match self {
            (_, Some(foreign)) => sources.foreign(foreign.clone(), whole, Some(token), flow),
            (bytes, None) => sources.shared(bytes.to_vec().into(), whole, Some(token), flow),
        }
    }
}

impl Endpoint {
    /// Queues a message for `peer`; [`poll_transmit`](Self::poll_transmit) sends it. Gives a token for a payload by
    /// reference: [`Event::Sent`](super::Event::Sent) tells when its memory is free.
    ///
    /// # Errors
    /// The queue is full, the message too large, or the peer gone: nothing was taken.
    pub fn send(
        &mut self,
        now: Instant,
        peer: PeerId,
        channel: u8,
        message: &Outgoing,
        payload: Payload<'_>,
    ) -> Result<Option<SendToken>, SendError> {
        let payload = match payload {
            Payload::Copy(data) => Source::Copy(Span::new(data)),
            Payload::Shared(data) => Source::Shared(data),
        };
        self.send_from(now, peer, channel, message, payload)
    }

    /// Like [`send`](Self::send), for a payload that may be in memory that no slice can refer to.
    #[inline(always)]
    pub(crate) fn send_from<R: Referred>(
        &mut self,
        now: Instant,
        peer: PeerId,
        channel: u8,
        message: &Outgoing,
        payload: Source<'_, R>,
    ) -> Result<Option<SendToken>, SendError> {
        self.advance(now);
        let len = match &payload {
            Source::Copy(data) => data.len(),
            Source::Shared(data) => data.bytes(),
        };
        if !self.peers.get(peer.index()).is_some_and(Peer::is_open) {
            return Err(self.why_not(peer));
        }
        if len as u64 > u64::from(u32::MAX) {
            return Err(too_large(len));
        }
        let flow = self.flow_for(peer.0, channel);
        let index = self.activate(flow);
        let active = &mut self.actives[index as usize];
        let send = &mut active.send;
        let p = &mut self.peers[peer.index()];
        let full = match &payload {
            Source::Copy(_) => {
                send.copied_bytes > 0 && send.copied_bytes as usize + len > self.config.send_queue_bytes as usize
            }
            Source::Shared(_) => send.shared_messages >= self.config.send_queue_messages,
        };
        if full {
            p.blocked = true;
            return Err(SendError::WouldBlock(peer));
        }
        let cost = p.cost_queued;
        p.cost_queued += len as u64 + u64::from(MESSAGE_COST);
        if !active.busy {
            active.busy = true;
            self.busy += 1;
        }
        let token = match payload {
            Source::Copy(data) => {
                if message.immediate.is_none() && fits_record(&self.config, p, message, len) {
                    append_record(send, &mut self.sources, message, data, cost);
                } else {
                    queue_copy(send, &mut self.sources, flow, message, data, cost);
                }
                None
            }
            Source::Shared(data) => {
                self.next_token += 1;
                let token = SendToken(self.next_token);
                let whole = whole_of(message, len, false);
                let source = data.put(&mut self.sources, whole, token, flow);
                send.shared_messages += 1;
                push_whole(send, message, source, len, cost);
                Some(token)
            }
        };
        if !active.ready {
            active.ready = true;
            self.ready.push_back(index);
        }
        Ok(token)
    }

    /// Queues a placement: bytes for a region of `peer`. [`poll_transmit`](Self::poll_transmit) sends them. They take
    /// no credit. [`Event::Sent`](super::Event::Sent) with the token reports that all of them are in the region and
    /// the caller's memory is free.
    ///
    /// # Errors
    /// The queue is full, there are more than 2³² − 1 bytes, or the peer is gone. Nothing was taken.
    pub fn place(
        &mut self,
        now: Instant,
        peer: PeerId,
        channel: u8,
        target: &Target,
        data: Bytes,
    ) -> Result<SendToken, SendError> {
        self.place_from(now, peer, channel, target, data)
    }

    /// Like [`place`](Self::place), for a payload that may be in memory that no slice can refer to.
    pub(crate) fn place_from(
        &mut self,
        now: Instant,
        peer: PeerId,
        channel: u8,
        target: &Target,
        data: impl Referred,
    ) -> Result<SendToken, SendError> {
        self.advance(now);
        if !self.peers.get(peer.index()).is_some_and(Peer::is_open) {
            return Err(self.why_not(peer));
        }
        let Ok(len) = u32::try_from(data.bytes()) else {
            return Err(too_large(data.bytes()));
        };
        let flow = self.flow_for(peer.0, channel);
        let index = self.activate(flow);
        let active = &mut self.actives[index as usize];
        let send = &mut active.send;
        if send.shared_messages >= self.config.send_queue_messages {
            self.peers[peer.index()].blocked = true;
            return Err(SendError::WouldBlock(peer));
        }
        if !active.busy {
            active.busy = true;
            self.busy += 1;
        }
        send.shared_messages += 1;
        send.queued_bytes = send.queued_bytes.saturating_add(len);
        self.next_token += 1;
        let token = SendToken(self.next_token);
        let whole = Whole {
            len,
            placement: Some(Placement {
                region: target.region,
                offset: target.offset,
            }),
            ..Whole::default()
        };
        let source = data.put(&mut self.sources, whole, token, flow);
        send.queue.push_back(Queued {
            form: Form::Placed,
            source,
            at: 0,
            end: len,
            message: Seq(target.key),
            from: target.source,
            to: target.destination,
            cost: 0,
            next: Seq(0),
            cost_end: 0,
        });
        self.mark_ready(index);
        Ok(token)
    }

    /// Credit that messages to this peer may still cost before they have to wait for it to give some back, counting
    /// those that are queued.
    #[must_use]
    #[inline]
    pub fn credit(&self, peer: PeerId) -> u64 {
        let peer = self.peers.get(peer.index());
        peer.map_or(0, |p| p.cost_limit.saturating_sub(p.cost_queued))
    }

    /// Why nothing can be sent to a peer.
    #[cold]
    fn why_not(&self, peer: PeerId) -> SendError {
        match self.peers.get(peer.index()) {
            None => SendError::UnknownPeer(peer),
            Some(p) if p.phase == Phase::Down => {
                let error = self.down.get(&peer.0).copied().unwrap_or(PeerError::Closed);
                SendError::Peer(peer, error)
            }
            Some(_) => SendError::Closed(peer),
        }
    }

    /// Bytes of every data packet's header to this peer that do not depend on the message.
    #[inline]
    pub(super) fn overhead(config: &Config, peer: &Peer) -> usize {
        BASE_LEN
            + if config.timestamps { 8 } else { 0 }
            + match (peer.confirmed, peer.checksums(config)) {
                // An opening has a checksum always: so packets never grow when it is found that all are to have one.
                (false, _) => CHECKSUM_LEN + OPEN_LEN,
                (true, true) => CHECKSUM_LEN,
                (true, false) => 0,
            }
    }
}

#[inline(always)]
pub(super) fn fits_record(config: &Config, peer: &Peer, message: &Outgoing, len: usize) -> bool {
    let room = usize::from(peer.mtu) - Endpoint::overhead(config, peer);
    len + Record::header_len(message.match_bits) <= room && len <= usize::from(config.max_payload)
}

/// Copies a small message as a record of a bundle into the block to which the flow appends. Returns its offset there
/// and its length.
#[inline]
pub(super) fn store_record(
    send: &mut Sender,
    sources: &mut Sources,
    match_bits: Option<u64>,
    data: Span<'_>,
) -> (u32, u32) {
    let need = Record::header_len(match_bits) + data.len();
    if send.tail != NONE && sources.is_sole(send.tail) {
        send.tail_fill = 0;
    }
    if send.tail == NONE || send.tail_fill as usize + need > sources.bytes(send.tail).len() {
        let mut least = need;
        if send.tail != NONE {
            if send.copied_bytes > 0 {
                least = least.max(sources.bytes(send.tail).len() + 1);
            }
            sources.release(send.tail);
        }
        // A packet takes records of one block only, so those of a burst shall not be many blocks.
        if least > Sources::BURST {
            least = Sources::MAX_BLOCK;
        }
        send.tail = sources.block(least, Whole::default());
        send.tail_fill = 0;
    }
    let at = send.tail_fill;
    let room = &mut sources.block_mut(send.tail)[at as usize..at as usize + need];
    let header = Record::emit_header(room, match_bits, data.len() as u16);
    data.copy_to(&mut room[header..]);
    send.tail_fill += need as u32;
    send.copied_bytes += need as u32;
    (at, need as u32)
}

/// Copies a small message behind those that wait already.
#[inline]
fn append_record(send: &mut Sender, sources: &mut Sources, message: &Outgoing, data: Span<'_>, cost: u64) {
    let (at, len) = store_record(send, sources, message.match_bits, data);
    send.queued_bytes = send.queued_bytes.saturating_add(len);
    let cost_end = cost + data.len() as u64 + u64::from(MESSAGE_COST);
    if let Some(last) = send.queue.back_mut()
        && last.form == Form::Bundle
        && last.source == send.tail
        && last.end == at
        && last.next == message.message
        && last.from == message.source
        && last.to == message.destination
        && last.cost_end == cost
    {
        last.end = send.tail_fill;
        last.next = last.next.plus(1);
        last.cost_end = cost_end;
        return;
    }
    sources.retain(send.tail);
    send.queue.push_back(Queued {
        form: Form::Bundle,
        source: send.tail,
        at,
        end: send.tail_fill,
        message: message.message,
        from: message.source,
        to: message.destination,
        cost,
        next: message.message.plus(1),
        cost_end,
    });
}

/// Copies a message that takes several packets.
fn queue_copy(send: &mut Sender, sources: &mut Sources, flow: u32, message: &Outgoing, data: Span<'_>, cost: u64) {
    send.copied_bytes += charge(data.len() as u32);
    let whole = whole_of(message, data.len(), true);
    let source = if data.len() > Sources::MAX_BLOCK {
        sources.shared(data.to_vec().into(), whole, None, flow)
    } else {
        let source = sources.block(data.len(), whole);
        data.copy_to(&mut sources.block_mut(source)[..data.len()]);
        source
    };
    push_whole(send, message, source, data.len(), cost);
}

#[inline]
fn push_whole(send: &mut Sender, message: &Outgoing, source: SourceId, len: usize, cost: u64) {
    send.queued_bytes = send.queued_bytes.saturating_add(len as u32);
    send.queue.push_back(Queued {
        form: Form::Whole,
        source,
        at: 0,
        end: len as u32,
        message: message.message,
        from: message.source,
        to: message.destination,
        cost,
        next: message.message,
        cost_end: cost,
    });
}

fn too_large(len: usize) -> SendError {
    SendError::MessageTooLarge {
        len: len as u64,
        max: u32::MAX.into(),
    }
}

fn whole_of(message: &Outgoing, len: usize, copied: bool) -> Whole {
    Whole {
        len: len as u32,
        match_bits: message.match_bits,
        immediate: message.immediate,
        copied,
        placement: None,
    }
}
