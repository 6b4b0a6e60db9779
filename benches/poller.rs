//! Messages between two ranks of a node-wide poller, whose instructions `cargo xtask callgrind` counts per message,
//! DPDK's own left out: what the sending rank does, what the poller does, what the receiving rank does.
//!
//! All three are in one thread and take turns, so nothing depends on the system's scheduler.
//!
//! `cargo bench --features dpdk --bench poller` only runs every case once, to see that it works.

use std::{env, hint::black_box, io::IoSlice, net::SocketAddr, path::Path, process, thread};

use hikyaku::{
    Config, PeerId,
    backends::{
        Backend, Data, Received, Sent, Transmit,
        dpdk::{Device, DpdkOptions, Memory},
    },
    messaging::{Messenger, SendOptions},
    poller::{Poller, PollerBackend, PollerOptions, ProxyEndpoint},
    reliability::{Burst, Limits, Payload},
    time::Instant,
};

/// Messages of a case.
const MESSAGES: usize = 3_200;
/// Between two rounds, ns: less than acknowledgements wait for company.
const STEP: u64 = 50_000;
/// (name, bytes of a message, messages of a round)
const CASES: [(&str, usize, usize); 4] = [
    ("64b_alone", 64, 1),
    ("64b_burst", 64, 32),
    ("1400b_alone", 1400, 1),
    ("1400b_burst", 1400, 32),
];
const PARTS: [&str; 3] = ["send", "hop", "take"];

fn start(socket: &Path) -> Poller {
    let mut dpdk = DpdkOptions::new(Device::parse("net_null0,no-rx=1").expect("a device"));
    dpdk.memory = Memory::NoHuge;
    let options = PollerOptions::new(dpdk, "10.99.0.1".parse().expect("an address"), socket.into());
    Poller::start(options).unwrap_or_else(|error| panic!("{error}"))
}

/// A process of the poller.
struct Rank {
    messenger: Messenger,
    backend: PollerBackend,
    burst: Burst,
}

impl Rank {
    /// The poller answers meanwhile.
    fn new(poller: &mut Poller, socket: &Path, processor: u32, now: &mut u64) -> Self {
        let backend = thread::scope(|scope| {
            let connects = scope.spawn(|| PollerBackend::connect(socket, 0).expect("a poller"));
            while !connects.is_finished() {
                *now += 1_000_000;
                turn(poller, *now);
            }
            connects.join().expect("it connects")
        });
        let limits = Limits::from(&backend.capabilities());
        let proxy = ProxyEndpoint::new(Config::default(), limits, &[processor]).expect("valid settings");
        Self {
            messenger: Messenger::new(Box::new(proxy), &[processor]),
            backend,
            burst: Burst::default(),
        }
    }

    /// Brings to the poller what is for it.
    fn transmit(&mut self, now: Instant) {
        while self.messenger.poll_transmit(now, &mut self.burst) {
            let mut slices = [IoSlice::new(&[]); 4];
            let mut count = 0;
            self.messenger.gather(&self.burst, |bytes| {
                slices[count] = IoSlice::new(bytes);
                count += 1;
            });
            let transmit = Transmit {
                destination: self.burst.destination(),
                port: 0,
                segment_size: self.burst.segment_size(),
                len: self.burst.len(),
                slices: &slices[..count],
                dont_fragment: self.burst.dont_fragment(),
                token: self.burst.token(),
            };
            let sent = self.backend.transmit(now, &transmit);
            assert_eq!(sent.ok(), Some(Sent::All), "the ring is full");
        }
    }

    /// Takes messages; gives how many, and their bytes.
    fn take(&mut self, now: Instant) -> (usize, usize) {
        let (mut messages, mut bytes) = (0, 0);
        while let Ok(count @ 1..) = self.backend.receive(now, 64) {
            for index in 0..count {
                let Received {
                    source,
                    data: Data::Shared(record),
                    ..
                } = self.backend.received(index)
                else {
                    panic!("it is a link");
                };
                self.messenger.handle_shared(now, source, record);
            }
        }
        while let Some(message) = self.messenger.receive() {
            messages += 1;
            bytes += message.data().len();
        }
        while self.messenger.poll_event().is_some() {}
        (messages, bytes)
    }
}

fn turn(poller: &mut Poller, now: u64) -> bool {
    poller.turn(Instant::from_nanos(now)).expect("the port lives")
}

// What is counted. Valgrind finds these by their names, so they must stay functions.

#[inline(never)]
fn measured_send(rank: &mut Rank, now: Instant, to: PeerId, data: &[u8], count: usize) {
    for _ in 0..count {
        let sent = rank
            .messenger
            .send(now, to, &SendOptions::default(), Payload::Copy(data));
        assert!(sent.is_ok(), "{sent:?}");
    }
    rank.transmit(now);
}

#[inline(never)]
fn measured_hop(poller: &mut Poller, now: u64) {
    while turn(poller, now) {}
}

#[inline(never)]
fn measured_take(rank: &mut Rank, now: Instant) -> (usize, usize) {
    let taken = rank.take(now);
    rank.transmit(now);
    taken
}

/// `total` messages of `size` bytes, `burst` in a round.
fn exchange(
    poller: &mut Poller,
    ranks: &mut [Rank; 2],
    to: PeerId,
    now: &mut u64,
    (total, size, burst): (usize, usize, usize),
) {
    let data = vec![7; size];
    let (mut messages, mut bytes) = (0, 0);
    while messages < total {
        *now += STEP;
        let at = Instant::from_nanos(*now);
        let [sender, receiver] = &mut *ranks;
        measured_send(sender, at, to, &data, burst);
        let mut left = burst;
        while left > 0 {
            measured_hop(poller, *now);
            let (count, len) = measured_take(receiver, at);
            left -= count;
            messages += count;
            bytes += len;
            *now += u64::from(left > 0) * STEP;
        }
        // What it is told of.
        sender.take(at);
        sender.transmit(at);
    }
    assert_eq!(black_box(bytes), total * size);
}

fn main() {
    // Cargo adds `--bench`.
    let wanted = env::args().skip(1).find(|arg| arg != "--bench");
    if wanted.as_deref() == Some("--list") {
        for part in PARTS {
            for (name, ..) in CASES {
                println!("poller_{part}_{name}");
            }
        }
        return;
    }
    let socket = env::temp_dir().join(format!("hikyaku-bench-poller-{}", process::id()));
    let mut poller = start(&socket);
    let mut now = 1_000_000_000;
    let mut ranks = [1, 2].map(|processor| Rank::new(&mut poller, &socket, processor, &mut now));
    let addresses: [SocketAddr; 2] = [0, 1].map(|rank: usize| ranks[rank].backend.local_addr());
    let [first, second] = &mut ranks;
    let to = first.messenger.add_peer(addresses[1], 2).expect("a new peer");
    second.messenger.add_peer(addresses[0], 1).expect("a new peer");
    // The session opens, and the path MTU is found.
    exchange(&mut poller, &mut ranks, to, &mut now, (16, 8, 1));
    for (name, size, burst) in CASES {
        // All parts of a case are the same run; which of them is counted is said to valgrind.
        if wanted.as_deref().is_none_or(|wanted| wanted.ends_with(name)) {
            exchange(&mut poller, &mut ranks, to, &mut now, (MESSAGES, size, burst));
        }
    }
}
