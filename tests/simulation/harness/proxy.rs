//! A `Messenger` whose endpoint is elsewhere, and who has it there; the link between them takes no time. It may have
//! another one of its own, for placements, which has an address of its own, too.

use std::net::SocketAddr;

use hikyaku::{
    AddPeerError, Config, SendError, Span,
    messaging::Messenger,
    poller::{DualPath, ProxyEndpoint, ProxyServer, protocol::LINK},
    reliability::{Burst, Endpoint, Event, Limits, Path, Payload, PeerId, SendToken},
    time::Instant,
};

use super::{
    model::{Arrived, Job},
    stack::Stack,
    tagged::TaggedStack,
};

/// Longest record.
const RECORD: usize = 16 << 20;

/// Where the endpoint for placements of the node at `address` is.
pub(crate) fn beside(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip(), address.port() ^ 0x8000)
}

pub(crate) fn is_beside(address: SocketAddr) -> bool {
    address.port() & 0x8000 != 0
}

pub(crate) struct ProxyStack {
    inner: Box<dyn Stack>,
    host: ProxyServer,
    burst: Burst,
    now: Instant,
    /// It has an endpoint of its own, and the last burst was that one's.
    split: bool,
    is_of_bulk: bool,
}

impl ProxyStack {
    /// With an endpoint of its own if there are an epoch and a seed for it.
    pub(crate) fn new(
        config: Config,
        limits: Limits,
        [epoch, seed]: [u64; 2],
        bulk: Option<[u64; 2]>,
        processors: &[u32],
        eager_limit: Option<u32>,
    ) -> Self {
        let link = Limits {
            max_batch: RECORD,
            ..limits
        };
        let remote = ProxyEndpoint::new(config.clone(), link, processors).expect("valid settings");
        let messenger = match bulk {
            Some([epoch, seed]) => {
                let endpoint = Endpoint::new(config, limits, epoch, seed.into()).expect("valid settings");
                Messenger::new(Box::new(DualPath::new(remote, endpoint)), processors)
            }
            None => Messenger::new(Box::new(remote), processors),
        };
        let mut inner: Box<dyn Stack> = match eager_limit {
            Some(limit) => Box::new(TaggedStack::new(messenger, limit)),
            None => Box::new(messenger),
        };
        let mut burst = Burst::default();
        assert!(inner.poll_transmit(Instant::ZERO, &mut burst));
        let start = bytes(&*inner, &burst);
        let split = bulk.is_some();
        let host =
            ProxyServer::new(&start, of_host(limits, split), epoch, seed.into(), u32::MAX).expect("it begins well");
        Self {
            inner,
            host,
            burst,
            now: Instant::ZERO,
            split,
            is_of_bulk: false,
        }
    }

    /// Carries records in both directions until there are none. Gives whether there were any.
    fn carry(&mut self) -> bool {
        let mut ever = false;
        loop {
            let mut any = false;
            // Where there are datagrams, too, commands wait for who transmits.
            while !self.split && self.inner.poll_transmit(self.now, &mut self.burst) {
                let command = bytes(&*self.inner, &self.burst);
                self.obey(&command);
                any = true;
            }
            while let Some(mut report) = self.host.poll_report() {
                let len = report.len();
                self.inner.handle_datagrams(self.now, LINK.into(), &mut report, len);
                any = true;
            }
            if !any {
                return ever;
            }
            ever = true;
        }
    }

    fn obey(&mut self, command: &[u8]) {
        let (record, carried) = command.split_first_chunk().expect("a command has a record");
        let done = self.host.handle_command(self.now, record, Span::new(carried), None);
        done.expect("a correct process says nothing wrong");
    }

    fn at(&mut self, now: Instant) -> &mut dyn Stack {
        self.now = self.now.max(now);
        &mut *self.inner
    }
}

/// Only the endpoint of our own holds references, where there is one: the network has one kind of tokens.
fn of_host(limits: Limits, split: bool) -> Limits {
    Limits {
        holds_references: limits.holds_references && !split,
        ..limits
    }
}

fn bytes(stack: &dyn Stack, burst: &Burst) -> Vec<u8> {
    let mut bytes = Vec::new();
    stack.gather(burst, &mut |slice| bytes.extend_from_slice(slice));
    bytes
}

impl Stack for ProxyStack {
    fn endpoint(&self) -> &Endpoint {
        self.host.endpoint()
    }
    fn add_peer(&mut self, address: SocketAddr, processor: u32) -> Result<PeerId, AddPeerError> {
        let added = self.inner.add_peer(address, processor);
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
        let sent = self.at(now).send(now, peer, pair, job, payload);
        self.carry();
        sent
    }
    fn receive(&mut self, now: Instant) -> Option<Arrived> {
        let arrived = self.at(now).receive(now);
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
        self.inner.reconnect(peer);
        self.carry();
    }
    fn set_limits(&mut self, limits: Limits) {
        self.host.set_limits(of_host(limits, self.split));
        self.inner.set_limits(limits);
        self.carry();
    }
    fn handle_datagrams(&mut self, now: Instant, source: Path, data: &mut [u8], stride: usize) {
        let source = source.address;
        self.at(now);
        if self.split && is_beside(source) {
            self.inner
                .handle_datagrams(self.now, beside(source).into(), data, stride);
            self.carry();
            return;
        }
        for datagram in data.chunks_mut(stride.max(1)) {
            if let Some(header) = self.host.handle_datagram(now, source, datagram, true) {
                // As over a link: what happens is told before.
                self.carry();
                let mut record = [&header[..], datagram].concat();
                let len = record.len();
                self.inner.handle_datagrams(now, LINK.into(), &mut record, len);
            }
            self.carry();
        }
    }
    fn handle_timeout(&mut self, now: Instant) {
        self.at(now).handle_timeout(now);
        self.host.handle_timeout(now);
        self.carry();
    }
    fn handle_unreachable(&mut self, now: Instant, address: SocketAddr, quoted: &[u8]) {
        self.at(now).handle_unreachable(now, address, quoted);
        self.host.handle_unreachable(now, address, quoted);
        self.carry();
    }
    fn handle_released(&mut self, token: u64) {
        if self.split {
            self.inner.handle_released(token);
        } else {
            self.host.handle_released(token);
        }
        self.carry();
    }
    fn poll_transmit(&mut self, now: Instant, burst: &mut Burst) -> bool {
        self.at(now);
        loop {
            self.carry();
            self.is_of_bulk = self.split && self.inner.poll_transmit(now, burst);
            if self.is_of_bulk && burst.destination() == LINK {
                let command = bytes(&*self.inner, burst);
                self.obey(&command);
                continue;
            }
            let any = self.is_of_bulk || self.host.poll_transmit(now, burst);
            if any || !self.carry() {
                return any;
            }
        }
    }
    fn poll_timeout(&self) -> Option<Instant> {
        let (ours, theirs) = (self.inner.poll_timeout(), self.host.poll_timeout());
        ours.into_iter().chain(theirs).min()
    }
    fn poll_event(&mut self) -> Option<Event> {
        let event = self.inner.poll_event();
        self.carry();
        event
    }
    fn gather(&self, burst: &Burst, each: &mut dyn FnMut(&[u8])) {
        if self.is_of_bulk {
            self.inner.gather(burst, each);
        } else {
            self.host.gather(burst, |span| each(&span.to_vec()));
        }
    }
    fn bulk(&self) -> Option<&Endpoint> {
        self.split.then(|| self.inner.endpoint())
    }
    fn is_of_bulk(&self) -> bool {
        self.is_of_bulk
    }
    fn tagged(&mut self) -> Option<&mut TaggedStack> {
        self.inner.tagged()
    }
}
