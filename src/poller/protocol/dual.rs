//! A packet layer with two paths: messages go through a host, placements straight from process to process (the DPDK paper,
//! sections 4.1 and 4.2.2).

use alloc::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    vec::Vec,
};
use core::{fmt, net::SocketAddr};

use bytes::Bytes;

use super::{ProxyEndpoint, record::LINK};
use crate::{
    config::Config,
    error::{AddPeerError, AddRailError, DropReason, PeerError, SendError},
    id::{PeerId, SendToken},
    reliability::{
        Burst, Due, Endpoint, Event, Limits, LostMessages, Origin, Outgoing, PacketLayer, Path, Payload, RailStats,
        Route, Sink, Target, Verdict,
    },
    span::Span,
    stats::{PeerStats, Stats},
    time::Instant,
    wire::Packet,
};

/// Marks tokens of placements.
const PLACED: u64 = 1 << 63;

/// One of the two sessions with a peer is over, and the other not yet.
#[derive(Debug)]
enum End {
    /// That by way of the host.
    Eager { session: u32, error: PeerError, lost: bool },
    /// Our own.
    Bulk { error: PeerError, lost: bool },
}

/// Tells which peers take placements straight from this process; the others get them by way of the host.
pub trait Straight: fmt::Debug + Send + Sync {
    /// The peer at this address does. If it did once, it does so for ever.
    fn leads_to(&self, address: SocketAddr) -> bool;
}

/// A [`ProxyEndpoint`] that has the messages and an [`Endpoint`] of our own that has the placements.
///
/// Both know the same peers by the same numbers and addresses; the backend translates the addresses of the endpoint. A
/// peer's state is that of the `ProxyEndpoint`. When one of the two sessions fails, so does the other, and the program
/// gets one event.
///
/// Either way may be the slower one, so a goodbye has two parts: first the endpoint's, when all that was placed has
/// arrived, and when the peer has heard it, that by way of the host, which is the last word.
#[derive(Debug)]
pub struct DualPath {
    eager: ProxyEndpoint,
    bulk: Endpoint,
    /// `None`: straight to all peers.
    straight: Option<Arc<dyn Straight>>,
    now: Instant,
    ends: BTreeMap<u32, End>,
    events: VecDeque<Event>,
    /// The last burst was the endpoint's.
    placed: bool,
}

/// Lets nothing but placements through.
struct Placements<'a, S: ?Sized>(&'a mut S);

impl<S: Sink + ?Sized> Sink for Placements<'_, S> {
    #[inline]
    fn deliver(&mut self, origin: Origin, packet: Packet<&[u8]>) -> Verdict {
        if packet.placement().is_none() {
            return Verdict::Impossible;
        }
        self.0.deliver(origin, packet)
    }
}

/// Getters.
impl DualPath {
    /// Joins the two, which have the same settings and no peers yet.
    #[must_use]
    pub fn new(eager: ProxyEndpoint, bulk: Endpoint) -> Self {
        Self {
            eager,
            bulk,
            straight: None,
            now: Instant::ZERO,
            ends: BTreeMap::new(),
            events: VecDeque::new(),
            placed: false,
        }
    }
}

/// Commands.
impl DualPath {
    /// Only these peers get placements straight.
    #[must_use]
    pub fn straight_to(mut self, peers: Arc<dyn Straight>) -> Self {
        self.straight = Some(peers);
        self
    }

    fn goes_straight(&self, peer: PeerId) -> bool {
        let Some(straight) = &self.straight else { return true };
        self.eager
            .address(peer)
            .is_some_and(|address| straight.leads_to(address))
    }

    /// The endpoint gets the peers that have come.
    fn follow(&mut self) {
        while self.bulk.peers() < self.eager.peers() {
            let peer = PeerId(self.bulk.peers() as u32);
            let (Some(address), Some(processor)) = (self.eager.address(peer), self.eager.processor(peer)) else {
                return;
            };
            // It has no others and takes as many.
            if self.bulk.add_peer(address, processor).is_err() {
                return;
            }
        }
    }
}

/// Two sessions, one end.
impl DualPath {
    fn handle_bulk(&mut self, event: Event) {
        match event {
            Event::Sent { peer, token } => {
                let token = SendToken(token.0 | PLACED);
                self.events.push_back(Event::Sent { peer, token });
            }
            Event::Writable { .. } => self.events.push_back(event),
            Event::Down { peer, error, lost, .. } => match self.ends.remove(&peer.0) {
                Some(End::Eager {
                    session,
                    error: first,
                    lost: before,
                }) => self.report_down(peer, session, [first, error], before || lost),
                _ if self.eager.down(peer).is_some() => {}
                _ => {
                    self.ends.insert(peer.0, End::Bulk { error, lost });
                    if error == PeerError::Closed {
                        // If it is the peer that goes, its last word is on its way.
                        self.eager.say_goodbye(peer);
                    } else {
                        self.eager.give_up(peer);
                    }
                }
            },
            // The other session's are told. (Ours has one path.)
            Event::Up { .. } | Event::Returned { .. } | Event::RailUp { .. } | Event::RailDown { .. } => {}
        }
    }

    fn handle_eager(&mut self, event: Event) {
        match event {
            Event::Down {
                peer,
                session,
                error,
                lost,
            } => {
                if let Some(End::Bulk {
                    error: first,
                    lost: before,
                }) = self.ends.remove(&peer.0)
                {
                    return self.report_down(peer, session, [first, error], before || lost);
                }
                if self.bulk.down(peer).is_some() {
                    return self.events.push_back(event);
                }
                self.ends.insert(peer.0, End::Eager { session, error, lost });
                if error == PeerError::Closed {
                    // The peer has ended its own before, or had none.
                    self.bulk.close(self.now, peer);
                } else {
                    self.bulk.expel(peer, error);
                }
            }
            Event::Up { peer, .. } => {
                self.end_bulk(peer);
                self.bulk.revive(peer);
                self.events.push_back(event);
            }
            _ => self.events.push_back(event),
        }
    }

    /// A session is over: so that a new one can begin, its end is told now.
    fn end_bulk(&mut self, peer: PeerId) {
        if let Some(End::Eager { .. }) = self.ends.get(&peer.0) {
            self.bulk.expel(peer, PeerError::Closed);
            self.drain_bulk();
        }
    }

    fn drain_bulk(&mut self) {
        while let Some(event) = self.bulk.poll_event() {
            self.handle_bulk(event);
        }
    }

    /// Of two ends the first that is not a goodbye says why.
    fn report_down(&mut self, peer: PeerId, session: u32, errors: [PeerError; 2], lost: bool) {
        let [first, second] = errors;
        let error = if first == PeerError::Closed { second } else { first };
        self.events.push_back(Event::Down {
            peer,
            session,
            error,
            lost,
        });
    }
}

impl PacketLayer for DualPath {
    #[inline]
    fn config(&self) -> &Config {
        self.eager.config()
    }

    fn stats(&self) -> Stats {
        let (eager, bulk) = (self.eager.stats(), self.bulk.stats());
        Stats {
            packets_sent: eager.packets_sent + bulk.packets_sent,
            packets_received: eager.packets_received + bulk.packets_received,
            payload_sent: eager.payload_sent + bulk.payload_sent,
            payload_received: eager.payload_received + bulk.payload_received,
            packets_delivered: eager.packets_delivered + bulk.packets_delivered,
            ..bulk
        }
    }

    #[inline]
    fn is_up(&self, peer: PeerId) -> bool {
        self.eager.is_up(peer)
    }

    fn peer_stats(&self, peer: PeerId) -> Option<PeerStats> {
        let unexpected = self.eager.peer_stats(peer)?.unexpected;
        let bulk = self.bulk.peer_stats(peer)?;
        Some(PeerStats { unexpected, ..bulk })
    }

    fn address(&self, peer: PeerId) -> Option<SocketAddr> {
        self.eager.address(peer)
    }

    #[inline]
    fn processor(&self, peer: PeerId) -> Option<u32> {
        self.eager.processor(peer)
    }

    fn peers(&self) -> usize {
        self.eager.peers()
    }

    #[inline]
    fn session(&self, peer: PeerId) -> u32 {
        self.eager.session(peer)
    }

    #[inline]
    fn route(&self, peer: PeerId) -> Option<Route> {
        self.eager.route(peer)
    }

    fn down(&self, peer: PeerId) -> Option<PeerError> {
        self.eager.down(peer)
    }

    fn is_idle(&self, peer: PeerId) -> bool {
        self.eager.is_idle(peer) && self.bulk.is_idle(peer)
    }

    fn all_idle(&self) -> bool {
        self.eager.all_idle() && self.bulk.all_idle()
    }

    /// Whatever the channel: the caller may have placed something.
    #[inline]
    fn should_transmit(&self, peer: PeerId, channel: u8) -> bool {
        self.eager.should_transmit(peer, channel) || self.bulk.should_transmit(peer, channel)
    }

    /// Of messages.
    #[inline]
    fn due(&self, peer: PeerId, channel: u8, len: usize) -> Due {
        self.eager.due(peer, channel, len)
    }

    fn has_batch(&self, peer: PeerId, channel: u8) -> bool {
        self.eager.has_batch(peer, channel)
    }

    #[inline]
    fn credit(&self, peer: PeerId) -> u64 {
        self.eager.credit(peer)
    }

    #[inline]
    fn poll_timeout(&self) -> Option<Instant> {
        if !self.events.is_empty() {
            return Some(self.now);
        }
        match (self.eager.poll_timeout(), self.bulk.poll_timeout()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    fn set_processor(&mut self, processor: u32) {
        self.eager.set_processor(processor);
        self.bulk.set_processor(processor);
    }

    fn add_peer(&mut self, address: SocketAddr, processor: u32) -> Result<PeerId, AddPeerError> {
        let peer = self.eager.add_peer(address, processor)?;
        self.follow();
        Ok(peer)
    }

    #[inline]
    fn send(
        &mut self,
        now: Instant,
        peer: PeerId,
        channel: u8,
        message: &Outgoing,
        payload: Payload<'_>,
    ) -> Result<Option<SendToken>, SendError> {
        self.eager.send(now, peer, channel, message, payload)
    }

    fn place(
        &mut self,
        now: Instant,
        peer: PeerId,
        channel: u8,
        target: &Target,
        data: Bytes,
    ) -> Result<SendToken, SendError> {
        self.eager.check(peer)?;
        if !self.goes_straight(peer) {
            return self.eager.place(now, peer, channel, target, data);
        }
        let token = self.bulk.place(now, peer, channel, target, data)?;
        Ok(SendToken(token.0 | PLACED))
    }

    /// Placements cost no credit.
    #[inline]
    fn release(&mut self, peer: PeerId, session: u32, cost: u32) {
        self.eager.release(peer, session, cost);
    }

    fn request_acks(&mut self, now: Instant) {
        self.eager.request_acks(now);
        self.bulk.request_acks(now);
    }

    /// The host answers for a process that computes; the process itself would not.
    fn watch(&mut self, now: Instant, peer: PeerId, on: bool) {
        self.eager.watch(now, peer, on);
    }

    fn connect(&mut self, now: Instant, peer: PeerId) {
        self.eager.connect(now, peer);
    }

    fn close(&mut self, now: Instant, peer: PeerId) {
        self.now = self.now.max(now);
        if !self.eager.refuse_sends(peer) {
            return;
        }
        self.drain_bulk();
        if self.bulk.down(peer).is_some() {
            self.eager.say_goodbye(peer);
        } else {
            self.bulk.close(now, peer);
            // It may have had nothing to end.
            self.drain_bulk();
        }
    }

    /// The process that has the endpoint of the messages does not tell.
    fn take_lost(&mut self, _: PeerId) -> Vec<LostMessages> {
        Vec::new()
    }

    fn reconnect(&mut self, peer: PeerId) {
        if self.eager.down(peer).is_some() {
            self.end_bulk(peer);
            self.bulk.revive(peer);
            self.eager.reconnect(peer);
        }
    }

    /// Those of the endpoint; the host's backend is its own business.
    fn set_limits(&mut self, limits: Limits) {
        self.bulk.set_limits(limits);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.now = self.now.max(now);
        self.eager.handle_timeout(now);
        self.bulk.handle_timeout(now);
    }

    fn handle_unreachable(&mut self, now: Instant, address: SocketAddr, quoted: &[u8]) {
        self.now = self.now.max(now);
        self.bulk.handle_unreachable(now, address, quoted);
    }

    fn handle_released(&mut self, token: u64) {
        self.bulk.handle_released(token);
    }

    /// In turn, if both have something.
    #[inline]
    fn poll_transmit(&mut self, now: Instant, burst: &mut Burst) -> bool {
        self.now = self.now.max(now);
        for placed in [!self.placed, self.placed] {
            let any = if placed {
                self.bulk.poll_transmit(now, burst)
            } else {
                self.eager.poll_transmit(now, burst)
            };
            if any {
                self.placed = placed;
                return true;
            }
        }
        false
    }

    #[inline]
    fn gather<'a>(&'a self, burst: &'a Burst, each: &mut dyn FnMut(&'a [u8])) {
        if self.placed {
            self.bulk.gather(burst, each);
        } else {
            self.eager.gather(burst, each);
        }
    }

    /// A record if it is from [`LINK`], else datagrams for the endpoint.
    #[inline]
    fn handle_datagrams(&mut self, now: Instant, path: Path, data: &mut [u8], stride: usize, sink: &mut dyn Sink) {
        let source = path.address;
        if source == LINK {
            return self.handle_shared(now, source, Span::new(data), sink);
        }
        self.now = self.now.max(now);
        if self.eager.knows(&source) {
            self.bulk
                .handle_datagrams(now, path, data, stride, &mut Placements(sink));
        } else {
            // It would get a number that is another's there.
            self.bulk.count_drop(DropReason::Stranger);
        }
    }

    /// An event of either may become one of ours.
    fn has_events(&self) -> bool {
        true
    }

    #[inline]
    fn poll_event(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            if let Some(event) = self.bulk.poll_event() {
                self.handle_bulk(event);
            } else {
                let event = self.eager.poll_event()?;
                self.handle_eager(event);
            }
        }
    }

    /// Of the session by way of the host.
    fn add_rail(&mut self, now: Instant, peer: PeerId, path: Path) -> Result<u8, AddRailError> {
        self.eager.add_rail(now, peer, path)
    }

    fn rails_up(&self, peer: PeerId) -> usize {
        self.eager.rails_up(peer)
    }

    fn rail_stats(&self, peer: PeerId, rail: u8) -> Option<RailStats> {
        self.eager.rail_stats(peer, rail)
    }

    fn as_endpoint(&self) -> Option<&Endpoint> {
        Some(&self.bulk)
    }

    #[inline]
    fn handle_shared(&mut self, now: Instant, source: SocketAddr, data: Span<'_>, sink: &mut dyn Sink) {
        if source != LINK {
            return self.handle_datagrams(now, source.into(), &mut data.to_vec(), data.len(), sink);
        }
        self.now = self.now.max(now);
        self.eager.handle_shared(now, source, data, sink);
        self.follow();
    }
}
