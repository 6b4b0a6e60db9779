//! A `Messenger` with a `Tagged` beside it as what is tested.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use hikyaku::{
    AddPeerError, SendError, Span,
    messaging::{
        MemoryRegion, Messenger,
        tagged::{Completion, Tagged},
    },
    reliability::{Burst, Endpoint, Event, Limits, Path, Payload, PeerId, SendToken},
    time::Instant,
};

use super::{
    model::{Arrived, Job},
    stack::Stack,
};

/// The byte that fills memory before anything is placed in it.
pub(crate) const UNTOUCHED: u8 = 0xee;

/// Memory of a receive, which can be looked at after it was given away.
#[derive(Clone, Debug)]
pub(crate) struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Buffer {
    pub(crate) fn new(room: usize) -> Self {
        Self(Arc::new(Mutex::new(vec![UNTOUCHED; room])))
    }

    pub(crate) fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MemoryRegion for Buffer {
    fn capacity(&self) -> u64 {
        self.bytes().len() as u64
    }

    fn place(&mut self, offset: u64, bytes: Span<'_>) {
        MemoryRegion::place(&mut *self.bytes(), offset, bytes);
    }
}

pub(crate) struct TaggedStack {
    pub(crate) messenger: Messenger,
    pub(crate) tagged: Tagged<Buffer>,
    /// Completions that were not looked at yet.
    completions: Vec<Completion>,
}

impl TaggedStack {
    pub(crate) fn new(messenger: Messenger, eager_limit: u32) -> Self {
        Self {
            tagged: Tagged::new(&messenger, eager_limit),
            messenger,
            completions: Vec::new(),
        }
    }

    pub(crate) fn take_completions(&mut self) -> Vec<Completion> {
        self.completions
            .extend(std::iter::from_fn(|| self.tagged.poll_completion()));
        std::mem::take(&mut self.completions)
    }
}

impl Stack for TaggedStack {
    fn endpoint(&self) -> &Endpoint {
        self.messenger.layer().as_endpoint().expect("no proxy here")
    }
    fn add_peer(&mut self, address: SocketAddr, processor: u32) -> Result<PeerId, AddPeerError> {
        self.messenger.add_peer(address, processor)
    }
    fn send(
        &mut self,
        now: Instant,
        peer: PeerId,
        pair: (u32, u32),
        job: &Job,
        payload: Payload<'_>,
    ) -> Result<Option<SendToken>, SendError> {
        Stack::send(&mut self.messenger, now, peer, pair, job, payload)
    }
    /// Takes in all messages, and gives none.
    fn receive(&mut self, now: Instant) -> Option<Arrived> {
        self.tagged.handle_ready(&mut self.messenger, now, &mut ());
        None
    }
    fn request_acks(&mut self, now: Instant) {
        self.messenger.request_acks(now);
    }
    fn watch(&mut self, now: Instant, peer: PeerId, on: bool) {
        self.messenger.watch(now, peer, on);
    }
    fn close(&mut self, now: Instant, peer: PeerId) {
        self.messenger.close(now, peer);
    }
    fn reconnect(&mut self, peer: PeerId) {
        self.messenger.reconnect(peer);
    }
    fn set_limits(&mut self, limits: Limits) {
        self.messenger.set_limits(limits);
    }
    fn handle_datagrams(&mut self, now: Instant, source: Path, data: &mut [u8], stride: usize) {
        self.messenger.handle_datagrams(now, source, data, stride);
    }
    fn handle_timeout(&mut self, now: Instant) {
        self.messenger.handle_timeout(now);
    }
    fn handle_unreachable(&mut self, now: Instant, address: SocketAddr, quoted: &[u8]) {
        self.messenger.handle_unreachable(now, address, quoted);
    }
    fn handle_released(&mut self, token: u64) {
        self.messenger.handle_released(token);
    }
    fn poll_transmit(&mut self, now: Instant, burst: &mut Burst) -> bool {
        self.messenger.poll_transmit(now, burst)
    }
    fn poll_timeout(&self) -> Option<Instant> {
        self.messenger.poll_timeout()
    }
    /// Placements of a rendezvous are its own.
    fn poll_event(&mut self) -> Option<Event> {
        loop {
            let event = self.messenger.poll_event()?;
            match event {
                Event::Sent { token, .. } if self.tagged.handle_sent(token) => {}
                Event::Down { peer, error, .. } => {
                    self.tagged.handle_down(&mut self.messenger, peer, error);
                    return Some(event);
                }
                _ => return Some(event),
            }
        }
    }
    fn gather(&self, burst: &Burst, each: &mut dyn FnMut(&[u8])) {
        self.messenger.gather(burst, each);
    }
    fn tagged(&mut self) -> Option<&mut TaggedStack> {
        Some(self)
    }
}
