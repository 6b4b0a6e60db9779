//! Two packet layers under one messenger: some peers are reached through memory, the others over the network.

use alloc::{boxed::Box, vec::Vec};
use core::{fmt, net::SocketAddr};

use bytes::Bytes;

use super::{
    Burst, Due, Endpoint, Event, Layer, Limits, LostMessages, MemoryLayer, Outgoing, PacketLayer, Path, Payload, Sink,
    Target,
};
use crate::{
    config::Config,
    error::{AddPeerError, AddRailError, PeerError, SendError},
    id::{PeerId, SendToken},
    span::Span,
    stats::{PeerStats, Stats},
    time::Instant,
};

/// Marks tokens of the memory layer.
const IN_MEMORY: u64 = 1 << 62;

/// A packet layer that has two others and passes each call to the one that reaches the peer.
///
/// Both layers count all peers, so a peer has the same number in both. Datagrams go to the layer that reaches the
/// address from which they come.
pub struct Beside {
    network: Layer,
    memory: MemoryLayer,
    /// Whether the peer at an address, with a processor, is reached through memory.
    is_near: Box<dyn Fn(SocketAddr, u32) -> bool + Send>,
    /// By the number of the peer: it is reached through memory.
    near: Vec<bool>,
    /// The last burst was the memory layer's; the other layer has the next turn.
    last_in_memory: bool,
}

impl fmt::Debug for Beside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Beside")
            .field("network", &self.network)
            .field("memory", &self.memory)
            .finish_non_exhaustive()
    }
}

impl Beside {
    /// Joins the two, which have the same settings and no peers yet. `is_near` decides by the address and the processor
    /// of a peer that is added whether `memory` reaches it.
    #[must_use]
    pub fn new(
        network: impl Into<Layer>,
        memory: MemoryLayer,
        is_near: impl Fn(SocketAddr, u32) -> bool + Send + 'static,
    ) -> Self {
        Self {
            network: network.into(),
            memory,
            is_near: Box::new(is_near),
            near: Vec::new(),
            last_in_memory: false,
        }
    }

    #[inline]
    fn is_near(&self, peer: PeerId) -> bool {
        self.near.get(peer.index()).is_some_and(|near| *near)
    }

    /// Counts the peers that the network layer has got by itself: strangers.
    fn follow(&mut self) {
        while self.near.len() < self.network.peers() {
            let peer = PeerId(self.near.len() as u32);
            let (Some(address), Some(processor)) = (self.network.address(peer), self.network.processor(peer)) else {
                return;
            };
            self.memory.skip_peer(address, processor);
            self.near.push(false);
        }
    }

    /// Gives the peer that the network layer has got last its place in the memory layer.
    fn settle(&mut self, address: SocketAddr, processor: u32) -> Result<(), AddPeerError> {
        if (self.is_near)(address, processor) {
            self.memory.add_peer(address, processor)?;
            self.near.push(true);
        } else {
            self.follow();
        }
        Ok(())
    }
}

/// Passes a call about a peer to its layer.
macro_rules! of_peer {
    ($self:ident, $peer:ident, $method:ident($($argument:expr),*)) => {
        if $self.is_near($peer) {
            $self.memory.$method($($argument),*)
        } else {
            $self.network.$method($($argument),*)
        }
    };
}

impl PacketLayer for Beside {
    fn config(&self) -> &Config {
        self.network.config()
    }

    fn stats(&self) -> Stats {
        let (mut network, memory) = (self.network.stats(), self.memory.stats());
        network.dropped.add(&memory.dropped);
        Stats {
            packets_sent: network.packets_sent + memory.packets_sent,
            packets_received: network.packets_received + memory.packets_received,
            payload_sent: network.payload_sent + memory.payload_sent,
            payload_received: network.payload_received + memory.payload_received,
            packets_delivered: network.packets_delivered + memory.packets_delivered,
            sessions_opened: network.sessions_opened + memory.sessions_opened,
            peers_lost: network.peers_lost + memory.peers_lost,
            ..network
        }
    }

    fn is_up(&self, peer: PeerId) -> bool {
        of_peer!(self, peer, is_up(peer))
    }

    fn peer_stats(&self, peer: PeerId) -> Option<PeerStats> {
        of_peer!(self, peer, peer_stats(peer))
    }

    fn address(&self, peer: PeerId) -> Option<SocketAddr> {
        of_peer!(self, peer, address(peer))
    }

    fn processor(&self, peer: PeerId) -> Option<u32> {
        of_peer!(self, peer, processor(peer))
    }

    fn peers(&self) -> usize {
        self.near.len()
    }

    fn session(&self, peer: PeerId) -> u32 {
        of_peer!(self, peer, session(peer))
    }

    fn down(&self, peer: PeerId) -> Option<PeerError> {
        of_peer!(self, peer, down(peer))
    }

    fn is_idle(&self, peer: PeerId) -> bool {
        of_peer!(self, peer, is_idle(peer))
    }

    fn all_idle(&self) -> bool {
        self.network.all_idle() && self.memory.all_idle()
    }

    fn should_transmit(&self, peer: PeerId, channel: u8) -> bool {
        of_peer!(self, peer, should_transmit(peer, channel))
    }

    fn due(&self, peer: PeerId, channel: u8, len: usize) -> Due {
        of_peer!(self, peer, due(peer, channel, len))
    }

    fn has_batch(&self, peer: PeerId, channel: u8) -> bool {
        of_peer!(self, peer, has_batch(peer, channel))
    }

    fn credit(&self, peer: PeerId) -> u64 {
        of_peer!(self, peer, credit(peer))
    }

    fn poll_timeout(&self) -> Option<Instant> {
        match (self.network.poll_timeout(), self.memory.poll_timeout()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    fn has_events(&self) -> bool {
        self.network.has_events() || self.memory.has_events()
    }

    fn set_processor(&mut self, processor: u32) {
        self.network.set_processor(processor);
        self.memory.set_processor(processor);
    }

    fn add_peer(&mut self, address: SocketAddr, processor: u32) -> Result<PeerId, AddPeerError> {
        // All peers have a place in the network's layer, which numbers them.
        let peer = self.network.add_peer(address, processor)?;
        self.settle(address, processor)?;
        Ok(peer)
    }

    fn replace_peer(&mut self, address: SocketAddr, processor: u32) -> Result<PeerId, AddPeerError> {
        let peer = self.network.replace_peer(address, processor)?;
        self.memory.leave_peer(address);
        self.settle(address, processor)?;
        Ok(peer)
    }

    fn send(
        &mut self,
        now: Instant,
        peer: PeerId,
        channel: u8,
        message: &Outgoing,
        payload: Payload<'_>,
    ) -> Result<Option<SendToken>, SendError> {
        if !self.is_near(peer) {
            return self.network.send(now, peer, channel, message, payload);
        }
        let token = self.memory.send(now, peer, channel, message, payload)?;
        Ok(token.map(|token| SendToken(token.0 | IN_MEMORY)))
    }

    fn place(
        &mut self,
        now: Instant,
        peer: PeerId,
        channel: u8,
        target: &Target,
        data: Bytes,
    ) -> Result<SendToken, SendError> {
        if !self.is_near(peer) {
            return self.network.place(now, peer, channel, target, data);
        }
        let token = self.memory.place(now, peer, channel, target, data)?;
        Ok(SendToken(token.0 | IN_MEMORY))
    }

    fn release(&mut self, peer: PeerId, session: u32, cost: u32) {
        of_peer!(self, peer, release(peer, session, cost));
    }

    fn request_acks(&mut self, now: Instant) {
        self.network.request_acks(now);
    }

    fn watch(&mut self, now: Instant, peer: PeerId, on: bool) {
        of_peer!(self, peer, watch(now, peer, on));
    }

    fn connect(&mut self, now: Instant, peer: PeerId) {
        of_peer!(self, peer, connect(now, peer));
    }

    fn close(&mut self, now: Instant, peer: PeerId) {
        of_peer!(self, peer, close(now, peer));
    }

    fn take_lost(&mut self, peer: PeerId) -> Vec<LostMessages> {
        of_peer!(self, peer, take_lost(peer))
    }

    fn reconnect(&mut self, peer: PeerId) {
        of_peer!(self, peer, reconnect(peer));
    }

    /// Those of the network: what the memory takes does not change.
    fn set_limits(&mut self, limits: Limits) {
        self.network.set_limits(limits);
    }

    fn limit_port(&mut self, port: u8, max_datagram: usize) {
        self.network.limit_port(port, max_datagram);
    }

    fn hold_port(&mut self, port: u8, is_full: bool) {
        self.network.hold_port(port, is_full);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.network.handle_timeout(now);
        self.memory.handle_timeout(now);
    }

    fn handle_unreachable(&mut self, now: Instant, address: SocketAddr, quoted: &[u8]) {
        if self.memory.reaches(address) {
            self.memory.handle_unreachable(now, address, quoted);
        } else {
            self.network.handle_unreachable(now, address, quoted);
        }
    }

    fn handle_released(&mut self, token: u64) {
        self.network.handle_released(token);
    }

    fn poll_transmit(&mut self, now: Instant, burst: &mut Burst) -> bool {
        for in_memory in [!self.last_in_memory, self.last_in_memory] {
            let any = if in_memory {
                self.memory.poll_transmit(now, burst)
            } else {
                self.network.poll_transmit(now, burst)
            };
            if any {
                self.last_in_memory = in_memory;
                return true;
            }
        }
        false
    }

    fn poll_event(&mut self) -> Option<Event> {
        if let Some(event) = self.network.poll_event() {
            return Some(event);
        }
        Some(match self.memory.poll_event()? {
            Event::Sent { peer, token } => Event::Sent {
                peer,
                token: SendToken(token.0 | IN_MEMORY),
            },
            event => event,
        })
    }

    fn rails_up(&self, peer: PeerId) -> usize {
        if self.is_near(peer) {
            1
        } else {
            self.network.rails_up(peer)
        }
    }

    fn add_rail(&mut self, now: Instant, peer: PeerId, path: Path) -> Result<u8, AddRailError> {
        if self.is_near(peer) {
            return Err(AddRailError::Unsupported);
        }
        self.network.add_rail(now, peer, path)
    }

    fn leave_by(&mut self, peer: PeerId, port: u8) {
        if !self.is_near(peer) {
            self.network.leave_by(peer, port);
        }
    }

    fn handle_datagrams(&mut self, now: Instant, path: Path, data: &mut [u8], stride: usize, sink: &mut dyn Sink) {
        if self.memory.reaches(path.address) {
            self.memory.handle_datagrams(now, path, data, stride, sink);
        } else {
            self.network.handle_datagrams(now, path, data, stride, &mut { sink });
            self.follow();
        }
    }

    fn handle_shared(&mut self, now: Instant, source: SocketAddr, data: Span<'_>, sink: &mut dyn Sink) {
        if self.memory.reaches(source) {
            PacketLayer::handle_shared(&mut self.memory, now, source, data, sink);
        } else {
            self.network.handle_shared(now, source, data, &mut { sink });
            self.follow();
        }
    }

    fn is_in_memory(&self, peer: PeerId) -> bool {
        self.is_near(peer)
    }

    #[inline]
    fn memory(&self) -> Option<&MemoryLayer> {
        Some(&self.memory)
    }

    #[inline]
    fn memory_mut(&mut self) -> Option<&mut MemoryLayer> {
        Some(&mut self.memory)
    }

    fn deliver_waiting(&mut self, now: Instant, sink: &mut dyn Sink) {
        self.memory.deliver_waiting(now, sink);
    }

    fn gather<'a>(&'a self, burst: &'a Burst, each: &mut dyn FnMut(&'a [u8])) {
        if self.last_in_memory {
            self.memory.gather(burst, each);
        } else {
            self.network.gather(burst, each);
        }
    }

    fn as_endpoint(&self) -> Option<&Endpoint> {
        self.network.as_endpoint()
    }
}
