//! Two messengers in one thread, no socket: with their endpoints, or with endpoints that a poller would have.

use std::net::SocketAddr;

use bytes::Bytes;
use hikyaku::{
    Config, Congestion, PeerId,
    messaging::{Messenger, SendOptions},
    reliability::{
        Burst, Endpoint, Limits, Payload,
        delegated::{Host, Remote},
    },
    time::Instant,
};

/// One end. What a poller has is in `host`.
struct End {
    messenger: Messenger,
    host: Option<Host>,
    address: SocketAddr,
    peer: PeerId,
}

/// A sender and a receiver.
pub(crate) struct Messengers {
    ends: [End; 2],
    burst: Burst,
    wire: Vec<u8>,
    now: u64,
}

const LIMITS: Limits = Limits {
    max_datagram: 8_972,
    max_segments: 1,
    max_batch: 65_507,
    receive_buffer: 8 << 20,
    holds_references: false,
    receive_port: 0,
};

fn end(number: u16, delegated: bool) -> End {
    let config = Config {
        congestion: Congestion::Fixed,
        ..Config::default()
    };
    let (epoch, processors) = (u64::from(number), [u32::from(number)]);
    let address = |number: u16| SocketAddr::from(([127, 0, 0, 1], number));
    let (mut messenger, host) = if delegated {
        let remote = Remote::new(config, LIMITS, &processors).expect("valid settings");
        let mut messenger = Messenger::new(remote, &processors);
        let mut burst = Burst::default();
        assert!(
            messenger.poll_transmit(Instant::ZERO, &mut burst),
            "it begins by itself"
        );
        let mut start = Vec::new();
        messenger.gather(&burst, |octets| start.extend_from_slice(octets));
        let host = Host::new(&start, LIMITS, epoch, epoch, u32::MAX).expect("it begins well");
        (messenger, Some(host))
    } else {
        let endpoint = Endpoint::new(config, LIMITS, epoch, epoch).expect("valid settings");
        (Messenger::new(endpoint, &processors), None)
    };
    let other = 3 - number;
    let peer = messenger.add_peer(address(other), other.into()).expect("a new peer");
    End {
        messenger,
        host,
        address: address(number),
        peer,
    }
}

impl End {
    /// Carries records between the messenger and who has its endpoint.
    fn link(&mut self, now: Instant, burst: &mut Burst, record: &mut Vec<u8>) {
        let Some(host) = &mut self.host else { return };
        while self.messenger.poll_transmit(now, burst) {
            record.clear();
            self.messenger.gather(burst, |octets| record.extend_from_slice(octets));
            let share = |from: usize| Bytes::copy_from_slice(&record[from..]);
            host.handle_command(now, record, share).expect("a correct process");
        }
        while let Some(mut report) = host.poll_report() {
            let len = report.len();
            self.messenger.handle_datagrams(now, self.address, &mut report, len);
        }
    }

    fn transmit(&mut self, now: Instant, burst: &mut Burst, wire: &mut Vec<u8>) -> bool {
        wire.clear();
        match &mut self.host {
            None => {
                let any = self.messenger.poll_transmit(now, burst);
                if any {
                    self.messenger.gather(burst, |octets| wire.extend_from_slice(octets));
                }
                any
            }
            Some(host) => {
                let any = host.poll_transmit(now, burst);
                if any {
                    host.gather(burst, |octets| wire.extend_from_slice(octets));
                }
                any
            }
        }
    }

    fn receive(&mut self, now: Instant, from: SocketAddr, wire: &mut [u8]) {
        let len = wire.len();
        match &mut self.host {
            None => self.messenger.handle_datagrams(now, from, wire, len),
            Some(host) => {
                if let Some(header) = host.handle_datagram(now, from, wire, true) {
                    // What has happened is told before.
                    while let Some(mut report) = host.poll_report() {
                        let len = report.len();
                        self.messenger.handle_datagrams(now, self.address, &mut report, len);
                    }
                    let mut record = [&header[..], wire].concat();
                    let len = record.len();
                    self.messenger.handle_datagrams(now, self.address, &mut record, len);
                }
            }
        }
    }
}

impl Messengers {
    pub(crate) fn new(delegated: bool) -> Self {
        let mut this = Self {
            ends: [end(1, delegated), end(2, delegated)],
            burst: Burst::default(),
            wire: Vec::with_capacity(1 << 16),
            now: 1_000_000_000,
        };
        for _ in 0..8 {
            this.exchange(&[1; 8]);
        }
        this
    }

    /// Sends a message and back again; gives its octets.
    pub(crate) fn exchange(&mut self, data: &[u8]) -> u64 {
        let mut octets = 0;
        for from in 0..2 {
            let now = Instant::from_nanos(self.now);
            let end = &mut self.ends[from];
            let sent = end
                .messenger
                .send(now, end.peer, &SendOptions::default(), Payload::Copy(data));
            sent.expect("room in the queue");
            loop {
                self.now += 1_000;
                let now = Instant::from_nanos(self.now);
                let mut wire = std::mem::take(&mut self.wire);
                for side in [from, 1 - from] {
                    self.ends[side].link(now, &mut self.burst, &mut wire);
                    while self.ends[side].transmit(now, &mut self.burst, &mut wire) {
                        let address = self.ends[side].address;
                        self.ends[1 - side].receive(now, address, &mut wire);
                    }
                }
                self.wire = wire;
                let other = &mut self.ends[1 - from];
                if let Some(message) = other.messenger.receive() {
                    octets += message.len() as u64;
                    break;
                }
                for end in &mut self.ends {
                    while end.messenger.poll_event().is_some() {}
                }
            }
        }
        octets
    }
}
