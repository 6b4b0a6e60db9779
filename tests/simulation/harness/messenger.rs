//! A `Messenger` as what is tested.

use std::net::SocketAddr;

use hikyaku::{
    AddPeerError, SendError,
    messaging::{Messenger, SendOptions},
    reliability::{Burst, Endpoint, Event, Limits, LostMessages, Path, Payload, PeerId, SendToken},
    time::Instant,
};

use super::{
    model::{Arrived, Job},
    stack::Stack,
};

impl Stack for Messenger {
    fn endpoint(&self) -> &Endpoint {
        self.layer().as_endpoint().expect("no proxy here")
    }
    fn add_peer(&mut self, address: SocketAddr, processor: u32) -> Result<PeerId, AddPeerError> {
        self.add_peer(address, processor)
    }
    fn add_rail(&mut self, now: Instant, peer: PeerId, path: Path) {
        let _ = self.add_rail(now, peer, path);
    }
    fn send(
        &mut self,
        now: Instant,
        peer: PeerId,
        pair: (u32, u32),
        job: &Job,
        payload: Payload<'_>,
    ) -> Result<Option<SendToken>, SendError> {
        let options = SendOptions {
            source: Some(pair.0),
            destination: Some(pair.1),
            channel: job.channel,
            tag: job.tag,
            immediate: job.immediate,
            more: false,
        };
        self.send(now, peer, &options, payload)
    }
    fn receive(&mut self, _: Instant) -> Option<Arrived> {
        let message = self.receive()?;
        Some(Arrived {
            source: message.source(),
            destination: message.destination(),
            tag: message.tag(),
            immediate: message.immediate(),
            data: message.data().to_vec(),
        })
    }
    fn request_acks(&mut self, now: Instant) {
        self.request_acks(now);
    }
    fn watch(&mut self, now: Instant, peer: PeerId, on: bool) {
        self.watch(now, peer, on);
    }
    fn close(&mut self, now: Instant, peer: PeerId) {
        self.close(now, peer);
    }
    fn reconnect(&mut self, peer: PeerId) {
        self.reconnect(peer);
    }
    fn take_lost(&mut self, peer: PeerId) -> Vec<LostMessages> {
        self.take_lost(peer)
    }
    fn set_limits(&mut self, limits: Limits) {
        self.set_limits(limits);
    }
    fn handle_datagrams(&mut self, now: Instant, source: Path, data: &mut [u8], stride: usize) {
        self.handle_datagrams(now, source, data, stride);
    }
    fn handle_timeout(&mut self, now: Instant) {
        self.handle_timeout(now);
    }
    fn handle_unreachable(&mut self, now: Instant, address: SocketAddr, quoted: &[u8]) {
        self.handle_unreachable(now, address, quoted);
    }
    fn handle_released(&mut self, token: u64) {
        self.handle_released(token);
    }
    fn poll_transmit(&mut self, now: Instant, burst: &mut Burst) -> bool {
        self.poll_transmit(now, burst)
    }
    fn poll_timeout(&self) -> Option<Instant> {
        self.poll_timeout()
    }
    fn poll_event(&mut self) -> Option<Event> {
        self.poll_event()
    }
    fn gather(&self, burst: &Burst, each: &mut dyn FnMut(&[u8])) {
        self.gather(burst, each);
    }
}
