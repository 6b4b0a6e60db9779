//! The tested stack: a `Messenger`, or a bare `Endpoint` with a small sink that puts messages together itself.

use std::{
    collections::{BTreeMap, VecDeque},
    net::SocketAddr,
};

use hikyaku::{
    AddPeerError, SendError,
    reliability::{
        Burst, Endpoint, Event, Limits, LostMessages, Origin, Outgoing, Path, Payload, PeerId, SendToken, Sink, Verdict,
    },
    time::Instant,
    wire::{ANY_PROCESSOR, Packet, Seq},
};

use super::{
    model::{Arrived, Job},
    tagged::TaggedStack,
};

/// The methods that the world needs.
pub(crate) trait Stack {
    fn endpoint(&self) -> &Endpoint;
    fn add_peer(&mut self, address: SocketAddr, processor: u32) -> Result<PeerId, AddPeerError>;
    /// Adds a rail to a peer, if it can have it.
    fn add_rail(&mut self, _: Instant, _: PeerId, _: Path) {}
    fn send(
        &mut self,
        now: Instant,
        peer: PeerId,
        pair: (u32, u32),
        job: &Job,
        payload: Payload<'_>,
    ) -> Result<Option<SendToken>, SendError>;
    fn receive(&mut self, now: Instant) -> Option<Arrived>;
    fn request_acks(&mut self, now: Instant);
    fn watch(&mut self, now: Instant, peer: PeerId, on: bool);
    fn close(&mut self, now: Instant, peer: PeerId);
    fn reconnect(&mut self, peer: PeerId);
    fn take_lost(&mut self, _: PeerId) -> Vec<LostMessages> {
        Vec::new()
    }
    fn set_limits(&mut self, limits: Limits);
    fn handle_datagrams(&mut self, now: Instant, source: Path, data: &mut [u8], stride: usize);
    fn handle_timeout(&mut self, now: Instant);
    fn handle_unreachable(&mut self, now: Instant, address: SocketAddr, quoted: &[u8]);
    fn handle_released(&mut self, token: u64);
    fn poll_transmit(&mut self, now: Instant, burst: &mut Burst) -> bool;
    fn poll_timeout(&self) -> Option<Instant>;
    fn poll_event(&mut self) -> Option<Event>;
    fn gather(&self, burst: &Burst, each: &mut dyn FnMut(&[u8]));
    /// The endpoint of its own that it has beside one elsewhere.
    fn bulk(&self) -> Option<&Endpoint> {
        None
    }
    /// The last burst was that one's.
    fn is_of_bulk(&self) -> bool {
        false
    }
    /// The one with match bits, if it is that.
    fn tagged(&mut self) -> Option<&mut TaggedStack> {
        None
    }
}

/// A message of which parts have come.
struct Partial {
    data: Vec<u8>,
    /// Offset and length of each part.
    parts: BTreeMap<u32, u32>,
    missing: usize,
    tag: Option<u64>,
    immediate: Option<u64>,
}

/// Messages from one processor to another in one session.
#[derive(Default)]
struct Stream {
    session: u32,
    next: u32,
    pending: BTreeMap<u32, Partial>,
}

/// A whole message, with what releasing it gives back.
struct Whole {
    peer: PeerId,
    session: u32,
    cost: u32,
    message: Arrived,
}

/// Puts messages together in the plainest way: no bounds, a map for everything.
#[derive(Default)]
struct Assembly {
    processors: Vec<u32>,
    streams: BTreeMap<(PeerId, u32, u32), Stream>,
    ready: VecDeque<Whole>,
    /// Credit of what cannot be received yet: this sink has all the room it wants for that.
    waiting: VecDeque<(PeerId, u32, u32)>,
}

impl Sink for Assembly {
    fn deliver(&mut self, origin: Origin, packet: Packet<&[u8]>) -> Verdict {
        let base = packet.base();
        let destination = match base.destination {
            ANY_PROCESSOR => self.processors[0],
            named if self.processors.contains(&named) => named,
            _ => return Verdict::Misaddressed,
        };
        let key = (origin.peer, base.source, destination);
        let stream = self.streams.entry(key).or_default();
        assert!(
            stream.session <= origin.session,
            "delivered from a session that has ended"
        );
        if stream.session < origin.session {
            *stream = Stream {
                session: origin.session,
                ..Stream::default()
            };
        }
        let mut records = packet.records().peekable();
        if records.peek().is_some() {
            for (i, record) in records.enumerate() {
                let partial = Partial::whole(record.data, record.match_bits, None);
                if !stream.take(base.message.plus(i as u32), partial) {
                    return Verdict::Impossible;
                }
            }
        } else if let Some(fragment) = packet.fragment() {
            if !stream.part(base.message, fragment.offset, fragment.total, &packet) {
                return Verdict::Impossible;
            }
        } else {
            let (tag, immediate) = (packet.match_bits(), packet.immediate());
            let partial = Partial::whole(packet.payload(), tag, immediate);
            if !stream.take(base.message, partial) {
                return Verdict::Impossible;
            }
        }
        // The credit goes back with the first message that the packet makes whole, or at once if there is none.
        let mut cost = origin.cost;
        while let Some(message) = stream.finish() {
            let cost = std::mem::take(&mut cost);
            self.ready.push_back(Whole {
                peer: origin.peer,
                session: origin.session,
                cost,
                message: Arrived {
                    source: base.source,
                    destination,
                    tag: message.tag.unwrap_or(0),
                    immediate: message.immediate,
                    data: message.data,
                },
            });
        }
        if cost > 0 {
            self.waiting.push_back((origin.peer, origin.session, cost));
        }
        Verdict::Taken
    }
}

impl Partial {
    fn whole(data: &[u8], tag: Option<u64>, immediate: Option<u64>) -> Self {
        Self {
            data: data.to_vec(),
            parts: BTreeMap::new(),
            missing: 0,
            tag,
            immediate,
        }
    }
}

impl Stream {
    fn take(&mut self, number: Seq, partial: Partial) -> bool {
        let old = number.before(Seq(self.next));
        !old && self.pending.insert(number.0, partial).is_none()
    }

    fn part(&mut self, number: Seq, offset: u32, total: u32, packet: &Packet<&[u8]>) -> bool {
        if number.before(Seq(self.next)) || total > 64 << 20 {
            return false;
        }
        let payload = packet.payload();
        let partial = self.pending.entry(number.0).or_insert_with(|| Partial {
            data: vec![0; total as usize],
            parts: BTreeMap::new(),
            missing: total as usize,
            tag: None,
            immediate: None,
        });
        let end = offset + payload.len() as u32;
        let before = partial.parts.range(..=offset).next_back();
        let after = partial.parts.range(offset..).next();
        if partial.data.len() != total as usize
            || partial.missing < payload.len()
            || before.is_some_and(|(at, len)| at + len > offset)
            || after.is_some_and(|(&at, _)| at < end)
        {
            return false;
        }
        partial.data[offset as usize..end as usize].copy_from_slice(payload);
        partial.parts.insert(offset, payload.len() as u32);
        partial.missing -= payload.len();
        partial.tag = partial.tag.or_else(|| packet.match_bits());
        partial.immediate = partial.immediate.or_else(|| packet.immediate());
        true
    }

    fn finish(&mut self) -> Option<Partial> {
        if self.pending.get(&self.next)?.missing > 0 {
            return None;
        }
        let whole = self.pending.remove(&self.next);
        self.next = self.next.wrapping_add(1);
        whole
    }
}

/// An endpoint, and numbers for its messages.
pub(crate) struct Bare {
    endpoint: Endpoint,
    sink: Assembly,
    numbers: BTreeMap<(PeerId, u32, u32), (u32, u32)>,
    taken: Option<(PeerId, u32, u32)>,
}

impl Bare {
    pub(crate) fn new(endpoint: Endpoint, processors: &[u32]) -> Self {
        Self {
            endpoint,
            sink: Assembly {
                processors: processors.to_vec(),
                ..Assembly::default()
            },
            numbers: BTreeMap::new(),
            taken: None,
        }
    }
}

impl Stack for Bare {
    fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }
    fn add_peer(&mut self, address: SocketAddr, processor: u32) -> Result<PeerId, AddPeerError> {
        self.endpoint.add_peer(address, processor)
    }
    fn add_rail(&mut self, now: Instant, peer: PeerId, path: Path) {
        let _ = self.endpoint.add_rail(now, peer, path);
    }
    fn send(
        &mut self,
        now: Instant,
        peer: PeerId,
        pair: (u32, u32),
        job: &Job,
        payload: Payload<'_>,
    ) -> Result<Option<SendToken>, SendError> {
        let session = self.endpoint.session(peer);
        let entry = self.numbers.entry((peer, pair.0, pair.1)).or_default();
        let number = if entry.0 == session { entry.1 } else { 0 };
        let message = Outgoing {
            source: pair.0,
            destination: pair.1,
            message: Seq(number),
            match_bits: job.tag,
            immediate: job.immediate,
        };
        let token = self.endpoint.send(now, peer, job.channel, &message, payload)?;
        *entry = (session, number.wrapping_add(1));
        Ok(token)
    }
    fn receive(&mut self, _: Instant) -> Option<Arrived> {
        if let Some((peer, session, cost)) = self.taken.take() {
            self.endpoint.release(peer, session, cost);
        }
        let whole = self.sink.ready.pop_front()?;
        self.taken = Some((whole.peer, whole.session, whole.cost));
        Some(whole.message)
    }
    fn request_acks(&mut self, now: Instant) {
        self.endpoint.request_acks(now);
    }
    fn watch(&mut self, now: Instant, peer: PeerId, on: bool) {
        self.endpoint.watch(now, peer, on);
    }
    fn close(&mut self, now: Instant, peer: PeerId) {
        self.endpoint.close(now, peer);
    }
    fn reconnect(&mut self, peer: PeerId) {
        self.endpoint.reconnect(peer);
    }
    fn take_lost(&mut self, peer: PeerId) -> Vec<LostMessages> {
        self.endpoint.take_lost(peer)
    }
    fn set_limits(&mut self, limits: Limits) {
        self.endpoint.set_limits(limits);
    }
    fn handle_datagrams(&mut self, now: Instant, source: Path, data: &mut [u8], stride: usize) {
        self.endpoint
            .handle_datagrams(now, source, data, stride, &mut self.sink);
        for (peer, session, cost) in self.sink.waiting.drain(..) {
            self.endpoint.release(peer, session, cost);
        }
    }
    fn handle_timeout(&mut self, now: Instant) {
        self.endpoint.handle_timeout(now);
    }
    fn handle_unreachable(&mut self, now: Instant, address: SocketAddr, quoted: &[u8]) {
        self.endpoint.handle_unreachable(now, address, quoted);
    }
    fn handle_released(&mut self, token: u64) {
        self.endpoint.handle_released(token);
    }
    fn poll_transmit(&mut self, now: Instant, burst: &mut Burst) -> bool {
        self.endpoint.poll_transmit(now, burst)
    }
    fn poll_timeout(&self) -> Option<Instant> {
        self.endpoint.poll_timeout()
    }
    fn poll_event(&mut self) -> Option<Event> {
        self.endpoint.poll_event()
    }
    fn gather(&self, burst: &Burst, each: &mut dyn FnMut(&[u8])) {
        self.endpoint.gather(burst, each);
    }
}
