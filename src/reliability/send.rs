//! The `send` command: messages wait, copied behind each other or by reference, until `poll_transmit` takes them.

use bytes::Bytes;

use super::{
    Outgoing, Payload, PeerId, SendToken,
    endpoint::Endpoint,
    flow::Queued,
    peer::{MESSAGE_COST, Peer, Phase},
    source::{NONE, SourceId, Sources, Whole},
};
use crate::{
    config::Config,
    error::{PeerError, SendError},
    time::Instant,
    wire::{BASE_LEN, Record},
};

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
        self.advance(now);
        self.may_send(peer)?;
        if payload.len() as u64 > u64::from(u32::MAX) {
            return Err(SendError::MessageTooLarge {
                len: payload.len() as u64,
                max: u32::MAX.into(),
            });
        }
        let flow = self.flow_for(peer.0, channel);
        let active = self.activate(flow);
        let send = &mut self.actives[active as usize].send;
        let full = match &payload {
            Payload::Copy(data) => {
                send.copied_bytes > 0 && send.copied_bytes as usize + data.len() > self.config.send_queue_bytes as usize
            }
            Payload::Shared(_) => send.shared_messages >= self.config.send_queue_messages,
        };
        if full {
            self.peers[peer.index()].blocked = true;
            return Err(SendError::WouldBlock(peer));
        }
        let p = &mut self.peers[peer.index()];
        let cost = p.cost_queued;
        p.cost_queued += payload.len() as u64 + u64::from(MESSAGE_COST);
        let token = match payload {
            Payload::Copy(data) => {
                if message.immediate.is_none() && self.fits_record(peer.0, message, data.len()) {
                    self.append_record(active, message, data, cost);
                } else {
                    self.queue_copy(flow, active, message, data, cost);
                }
                None
            }
            Payload::Shared(data) => {
                self.next_token += 1;
                let token = SendToken(self.next_token);
                self.actives[active as usize].send.shared_messages += 1;
                self.queue_whole(flow, active, message, data, Some(token), cost);
                Some(token)
            }
        };
        self.update_busy(flow);
        self.mark_ready(active);
        Ok(token)
    }

    fn may_send(&self, peer: PeerId) -> Result<(), SendError> {
        let Some(p) = self.peers.get(peer.index()) else {
            return Err(SendError::UnknownPeer(peer));
        };
        match p.phase {
            Phase::New | Phase::Open => Ok(()),
            Phase::Closing | Phase::Goodbye => Err(SendError::Closed(peer)),
            Phase::Down => {
                let error = self.down.get(&peer.0).copied().unwrap_or(PeerError::Closed);
                Err(SendError::Peer(peer, error))
            }
        }
    }

    /// Octets of every data packet's header to this peer that do not depend on the message.
    #[inline]
    pub(super) fn overhead(config: &Config, peer: &Peer) -> usize {
        BASE_LEN
            + if config.timestamps { 8 } else { 0 }
            + if config.checksum { 8 } else { 0 }
            + if peer.confirmed { 0 } else { 32 }
    }

    #[inline]
    fn fits_record(&self, peer: u32, message: &Outgoing, len: usize) -> bool {
        let peer = &self.peers[peer as usize];
        let room = usize::from(peer.mtu) - Self::overhead(&self.config, peer);
        len + Record::header_len(message.match_bits) <= room && len <= usize::from(self.config.max_payload)
    }

    /// Copies a small message behind those that wait already, in the form of a bundle's record.
    #[inline]
    fn append_record(&mut self, active: u32, message: &Outgoing, data: &[u8], cost: u64) {
        let send = &mut self.actives[active as usize].send;
        let need = Record::header_len(message.match_bits) + data.len();
        if send.tail != NONE && self.sources.is_sole(send.tail) {
            send.tail_fill = 0;
        }
        if send.tail == NONE || send.tail_fill as usize + need > self.sources.bytes(send.tail).len() {
            if send.tail != NONE {
                self.sources.release(send.tail);
            }
            send.tail = self.sources.block(need, send.copied_bytes > 0, Whole::default());
            send.tail_fill = 0;
        }
        let at = send.tail_fill;
        let room = &mut self.sources.block_mut(send.tail)[at as usize..at as usize + need];
        let header = Record::emit_header(room, message.match_bits, data.len() as u16);
        room[header..].copy_from_slice(data);
        send.tail_fill += need as u32;
        send.copied_bytes += need as u32;
        send.queued_bytes = send.queued_bytes.saturating_add(need as u32);
        let (from, to) = (message.source, message.destination);
        let cost_end = cost + data.len() as u64 + u64::from(MESSAGE_COST);
        if let Some(Queued::Run {
            source,
            end,
            next,
            from: f,
            to: t,
            cost_end: c,
            ..
        }) = send.queue.back_mut()
            && *source == send.tail
            && *end == at
            && *next == message.message
            && *f == from
            && *t == to
            && *c == cost
        {
            *end = send.tail_fill;
            *next = next.plus(1);
            *c = cost_end;
            return;
        }
        self.sources.retain(send.tail);
        send.queue.push_back(Queued::Run {
            source: send.tail,
            at,
            end: send.tail_fill,
            message: message.message,
            next: message.message.plus(1),
            from,
            to,
            cost,
            cost_end,
        });
    }

    /// Copies a message that takes several packets.
    fn queue_copy(&mut self, flow: u32, active: u32, message: &Outgoing, data: &[u8], cost: u64) {
        self.actives[active as usize].send.copied_bytes += charge(data.len() as u32);
        if data.len() > Sources::MAX_BLOCK {
            self.queue_whole(flow, active, message, Bytes::copy_from_slice(data), None, cost);
            return;
        }
        let whole = whole_of(message, data.len(), true);
        let source = self.sources.block(data.len(), false, whole);
        self.sources.block_mut(source)[..data.len()].copy_from_slice(data);
        self.push_whole(active, message, source, data.len(), cost);
    }

    fn queue_whole(
        &mut self,
        flow: u32,
        active: u32,
        message: &Outgoing,
        data: Bytes,
        token: Option<SendToken>,
        cost: u64,
    ) {
        let len = data.len();
        let source = self
            .sources
            .shared(data, whole_of(message, len, token.is_none()), token, flow);
        self.push_whole(active, message, source, len, cost);
    }

    fn push_whole(&mut self, active: u32, message: &Outgoing, source: SourceId, len: usize, cost: u64) {
        let send = &mut self.actives[active as usize].send;
        send.queued_bytes = send.queued_bytes.saturating_add(len as u32);
        send.queue.push_back(Queued::Whole {
            source,
            at: 0,
            len: len as u32,
            message: message.message,
            from: message.source,
            to: message.destination,
            cost,
        });
    }
}

/// What a copy that is not a record takes of the send queue's octets: no less than the smallest block that it lies in.
/// (Or messages without octets could be queued without end.)
#[inline]
pub(super) fn charge(len: u32) -> u32 {
    len.max(Sources::MIN_BLOCK as u32)
}

fn whole_of(message: &Outgoing, len: usize, copied: bool) -> Whole {
    Whole {
        len: len as u32,
        match_bits: message.match_bits,
        immediate: message.immediate,
        copied,
    }
}
