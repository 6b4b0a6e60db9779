//! A `Messenger` whose endpoint is elsewhere, and who has it there; the link between them takes no time.

use std::net::SocketAddr;

use bytes::Bytes;
use hikyaku::{
    AddPeerError, Config, SendError,
    messaging::Messenger,
    reliability::{
        Burst, Endpoint, Event, Limits, Payload, PeerId, SendToken,
        delegated::{Host, Remote},
    },
    time::Instant,
};

use super::{
    model::{Arrived, Job},
    stack::Stack,
};

/// Where records come from.
const LINK: &str = "0.0.0.0:0";
/// Longest record.
const RECORD: usize = 16 << 20;

pub(crate) struct Delegated {
    messenger: Messenger,
    host: Host,
    burst: Burst,
    now: Instant,
}

impl Delegated {
    pub(crate) fn new(config: Config, limits: Limits, epoch: u64, seed: u64, processors: &[u32]) -> Self {
        let link = Limits {
            max_batch: RECORD,
            ..limits
        };
        let remote = Remote::new(config, link, processors).expect("valid settings");
        let mut messenger = Messenger::new(remote, processors);
        let mut burst = Burst::default();
        assert!(messenger.poll_transmit(Instant::ZERO, &mut burst));
        let start = octets(&messenger, &burst);
        let host = Host::new(&start, limits, epoch, seed, u32::MAX).expect("it begins well");
        Self {
            messenger,
            host,
            burst,
            now: Instant::ZERO,
        }
    }

    /// Carries records in both directions until there are none.
    fn carry(&mut self) {
        loop {
            let mut any = false;
            while self.messenger.poll_transmit(self.now, &mut self.burst) {
                let command = octets(&self.messenger, &self.burst);
                let share = |from: usize| Bytes::copy_from_slice(&command[from..]);
                let done = self.host.handle_command(self.now, &command, share);
                done.expect("a correct process says nothing wrong");
                any = true;
            }
            while let Some(mut report) = self.host.poll_report() {
                let len = report.len();
                let link = LINK.parse().expect("an address");
                self.messenger.handle_datagrams(self.now, link, &mut report, len);
                any = true;
            }
            if !any {
                return;
            }
        }
    }

    fn at(&mut self, now: Instant) -> &mut Messenger {
        self.now = self.now.max(now);
        &mut self.messenger
    }
}

fn octets(messenger: &Messenger, burst: &Burst) -> Vec<u8> {
    let mut octets = Vec::new();
    messenger.gather(burst, |slice| octets.extend_from_slice(slice));
    octets
}

impl Stack for Delegated {
    fn endpoint(&self) -> &Endpoint {
        self.host.endpoint()
    }
    fn add_peer(&mut self, address: SocketAddr, processor: u32) -> Result<PeerId, AddPeerError> {
        let added = self.messenger.add_peer(address, processor);
        self.carry();
        added
    }
    fn send(
        &mut self,
        now: Instant,
        peer: PeerId,
        pair: (u32, u32),
        job: &Job,
        payload: Payload<'_>,
    ) -> Result<Option<SendToken>, SendError> {
        let sent = Stack::send(self.at(now), now, peer, pair, job, payload);
        self.carry();
        sent
    }
    fn receive(&mut self, now: Instant) -> Option<Arrived> {
        let arrived = Stack::receive(self.at(now), now);
        self.carry();
        arrived
    }
    fn request_acks(&mut self, now: Instant) {
        self.at(now).request_acks(now);
        self.carry();
    }
    fn watch(&mut self, now: Instant, peer: PeerId, on: bool) {
        self.at(now).watch(now, peer, on);
        self.carry();
    }
    fn close(&mut self, now: Instant, peer: PeerId) {
        self.at(now).close(now, peer);
        self.carry();
    }
    fn reconnect(&mut self, peer: PeerId) {
        self.messenger.reconnect(peer);
        self.carry();
    }
    fn set_limits(&mut self, limits: Limits) {
        self.host.set_limits(limits);
        self.carry();
    }
    fn handle_datagrams(&mut self, now: Instant, source: SocketAddr, data: &mut [u8], stride: usize) {
        self.at(now);
        for datagram in data.chunks_mut(stride.max(1)) {
            if let Some(header) = self.host.handle_datagram(now, source, datagram, true) {
                // As over a link: what happens is told before.
                self.carry();
                let mut record = [&header[..], datagram].concat();
                let len = record.len();
                let link = LINK.parse().expect("an address");
                self.messenger.handle_datagrams(now, link, &mut record, len);
            }
            self.carry();
        }
    }
    fn handle_timeout(&mut self, now: Instant) {
        self.at(now);
        self.host.handle_timeout(now);
        self.carry();
    }
    fn handle_unreachable(&mut self, now: Instant, address: SocketAddr) {
        self.at(now);
        self.host.handle_unreachable(now, address);
        self.carry();
    }
    fn handle_released(&mut self, token: u64) {
        self.host.handle_released(token);
        self.carry();
    }
    fn poll_transmit(&mut self, now: Instant, burst: &mut Burst) -> bool {
        self.at(now);
        self.carry();
        let any = self.host.poll_transmit(now, burst);
        self.carry();
        any
    }
    fn poll_timeout(&self) -> Option<Instant> {
        let (ours, theirs) = (self.messenger.poll_timeout(), self.host.poll_timeout());
        ours.into_iter().chain(theirs).min()
    }
    fn poll_event(&mut self) -> Option<Event> {
        let event = self.messenger.poll_event();
        self.carry();
        event
    }
    fn gather(&self, burst: &Burst, each: &mut dyn FnMut(&[u8])) {
        self.host.gather(burst, each);
    }
}
