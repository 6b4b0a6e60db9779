//! The `send` command: messages wait, copied behind each other or by reference, until `poll_transmit` takes them.

use bytes::Bytes;

use super::Endpoint;
use crate::{
    error::{PeerError, SendError},
    reliability::{
        Outgoing, Payload, PeerId, SendToken, Target,
        credit::MESSAGE_COST,
        flow::{Queueable, fits_record},
        peer::{Peer, Phase},
    },
    span::Span,
    time::Instant,
};

/// A [`Payload`] that may lie where no slice can.
pub(crate) enum Source<'a, R> {
    Copy(Span<'a>),
    Shared(R),
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
    pub(crate) fn send_from<R: Queueable>(
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
        let Some(p) = self.peers.get(peer.index()).filter(|p| p.is_open()) else {
            return Err(self.why_not(peer));
        };
        if len as u64 > u64::from(u32::MAX) {
            return Err(too_large(len));
        }
        let flow = self.flow_for(peer.0, p.home(channel));
        let index = self.activate(flow);
        let room = self.room_of(index);
        let active = &mut self.actives[index as usize];
        let send = &mut active.send;
        let p = &mut self.peers[peer.index()];
        let full = match &payload {
            Source::Copy(_) => send.is_full_of_copies(len, &self.config),
            Source::Shared(_) => send.is_full_of_shared(&self.config),
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
                if message.immediate.is_none() && fits_record(&self.config, room, message, len) {
                    send.append_record(&mut self.sources, message, data, cost);
                } else {
                    send.queue_copy(&mut self.sources, flow, message, data, cost);
                }
                None
            }
            Source::Shared(data) => {
                self.next_token += 1;
                let token = SendToken(self.next_token);
                send.queue_shared(&mut self.sources, (flow, token), message, data, cost);
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
        data: impl Queueable,
    ) -> Result<SendToken, SendError> {
        self.advance(now);
        if !self.peers.get(peer.index()).is_some_and(Peer::is_open) {
            return Err(self.why_not(peer));
        }
        let Ok(len) = u32::try_from(data.bytes()) else {
            return Err(too_large(data.bytes()));
        };
        let flow = self.flow_for(peer.0, self.home_of(peer.0, channel));
        let index = self.activate(flow);
        let active = &mut self.actives[index as usize];
        let send = &mut active.send;
        if send.is_full_of_shared(&self.config) {
            self.peers[peer.index()].blocked = true;
            return Err(SendError::WouldBlock(peer));
        }
        if !active.busy {
            active.busy = true;
            self.busy += 1;
        }
        self.next_token += 1;
        let token = SendToken(self.next_token);
        send.queue_placement(&mut self.sources, (flow, token), target, data, len);
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
}

fn too_large(len: usize) -> SendError {
    SendError::MessageTooLarge {
        len: len as u64,
        max: u32::MAX.into(),
    }
}
