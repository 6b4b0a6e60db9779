//! Packets through the DPDK backend, whose instructions `cargo xtask callgrind` counts per packet, DPDK's own left out.
//!
//! The device is a ring: what is sent is received by the same backend, or found by it and handed to another one of the port.
//! Sending, receiving and handing over (both ends together) are counted apart.
//!
//! `cargo bench --features dpdk --bench dpdk` only runs every case once, to see that it works.

use std::{hint::black_box, io::IoSlice, net::SocketAddr};

use hikyaku::{
    backends::{
        Backend, Sent, Transmit,
        dpdk::{Device, DpdkBackend, DpdkOptions, DpdkPort, Memory},
    },
    time::Instant,
};

/// Packets of a case.
const PACKETS: usize = 3_200;
/// (name, bytes of a datagram, datagrams of a call)
const CASES: [(&str, usize, usize); 4] = [
    ("64b_alone", 64, 1),
    ("64b_burst", 64, 32),
    ("1400b_alone", 1400, 1),
    ("1400b_burst", 1400, 32),
];

/// Backends of one port on a ring, a queue for each.
fn open<const COUNT: usize>() -> [DpdkBackend; COUNT] {
    let mut options = DpdkOptions::new(Device::parse("ring").expect("a device"));
    options.memory = Memory::NoHuge;
    options.memory_mb = 512;
    options.queues = COUNT as u16;
    let port = DpdkPort::open(&options).expect("a port on a ring");
    let mut backends = [4000, 4001, 4002, 4003]
        .first_chunk::<COUNT>()
        .expect("so few")
        .map(|udp_port| {
            let at = SocketAddr::from(([10, 77, 0, 1], udp_port));
            let mut backend = port.bind(at, 1).expect("a queue");
            backend.add_neighbour(at.ip(), port.mac());
            backend
        });
    for backend in &mut backends {
        while backend.receive(Instant::ZERO, 1).expect("receiving") > 0 {}
    }
    backends
}

/// The counted part of cases that send. Valgrind finds it by its name, so it must stay a function.
#[inline(never)]
fn measured_send(backend: &mut dyn Backend, transmit: &Transmit<'_>) {
    assert_eq!(backend.transmit(Instant::ZERO, transmit).ok(), Some(Sent::All));
}

/// The counted part of cases that receive; it gives back the buffers of the last call.
#[inline(never)]
fn measured_receive(backend: &mut dyn Backend, burst: usize) -> (usize, u64) {
    let count = backend.receive(Instant::ZERO, burst).unwrap_or(0);
    let bytes = (0..count).map(|index| backend.received(index).data.len() as u64);
    (count, bytes.sum())
}

/// The counted part for datagrams that one backend finds and hands to the other one, which receives them.
#[inline(never)]
fn measured_hand_over(finder: &mut dyn Backend, owner: &mut dyn Backend, burst: usize) -> (usize, u64) {
    assert_eq!(finder.receive(Instant::ZERO, burst).ok(), Some(0));
    let count = owner.receive(Instant::ZERO, burst).unwrap_or(0);
    let bytes = (0..count).map(|index| owner.received(index).data.len() as u64);
    (count, bytes.sum())
}

/// With an `owner`, what `backend` sends to it comes to the queue of `backend`.
fn exchange(backend: &mut dyn Backend, mut owner: Option<&mut dyn Backend>, size: usize, burst: usize) {
    let payload = vec![7; size * burst];
    let slices = [IoSlice::new(&payload)];
    let transmit = Transmit {
        destination: owner
            .as_deref()
            .map_or_else(|| backend.local_addr(), Backend::local_addr),
        port: 0,
        segment_size: size,
        len: payload.len(),
        slices: &slices,
        dont_fragment: true,
        token: 0,
    };
    let mut sum = 0;
    for _ in 0..PACKETS / burst {
        measured_send(backend, &transmit);
        let mut left = burst;
        while left > 0 {
            let (count, bytes) = match owner.as_deref_mut() {
                Some(owner) => measured_hand_over(backend, owner, burst),
                None => measured_receive(backend, burst),
            };
            left -= count;
            sum += bytes;
        }
    }
    assert_eq!(black_box(sum), (PACKETS * size) as u64);
}

fn main() {
    // Cargo adds `--bench`.
    let wanted = std::env::args().skip(1).find(|arg| arg != "--bench");
    if wanted.as_deref() == Some("--list") {
        for (name, ..) in CASES {
            println!("dpdk_send_{name}\ndpdk_receive_{name}\ndpdk_hand_over_{name}");
        }
        return;
    }
    let [mut backend] = open();
    let [mut finder, mut owner] = open();
    for (name, size, burst) in CASES {
        // Sending and receiving are the same run; which of them is counted is said to valgrind.
        if wanted.as_deref().is_none_or(|wanted| wanted.ends_with(name)) {
            let handed_over = wanted.as_deref().map(|wanted| wanted.starts_with("dpdk_hand_over"));
            if handed_over != Some(true) {
                exchange(&mut backend, None, size, burst);
            }
            if handed_over != Some(false) {
                exchange(&mut finder, Some(&mut owner), size, burst);
            }
        }
    }
}
