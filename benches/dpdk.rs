//! Packets through the DPDK backend, whose instructions `cargo xtask callgrind` counts per packet, DPDK's own left out.
//!
//! The device is a ring: what is sent is received by the same backend. Sending and
//! receiving are counted apart.
//!
//! `cargo bench --features dpdk --bench dpdk` only runs every case once, to see that it works.

use std::{hint::black_box, io::IoSlice, net::SocketAddr};

use hikyaku::{
    backends::{
        Backend, Sent, Transmit,
        dpdk::{Device, DpdkBackend, DpdkOptions, Memory},
    },
    time::Instant,
};

/// Packets of a case.
const PACKETS: usize = 3_200;
/// (name, octets of a datagram, datagrams of a call)
const CASES: [(&str, usize, usize); 4] = [
    ("64b_alone", 64, 1),
    ("64b_burst", 64, 32),
    ("1400b_alone", 1400, 1),
    ("1400b_burst", 1400, 32),
];

fn open() -> DpdkBackend {
    let mut options = DpdkOptions::new(Device::parse("ring").expect("a device"));
    options.memory = Memory::NoHuge;
    let at: SocketAddr = "10.77.0.1:4000".parse().expect("an address");
    let mut backend = DpdkBackend::bind(at, &options).expect("a port on a ring");
    let mac = backend.mac();
    backend.add_neighbour(at.ip(), mac);
    while backend.receive(Instant::ZERO, 1).expect("receiving") > 0 {}
    backend
}

/// What is counted of cases that send. Valgrind finds it by its name, so it must stay a function.
#[inline(never)]
fn measured_send(backend: &mut dyn Backend, transmit: &Transmit<'_>) {
    assert_eq!(backend.transmit(Instant::ZERO, transmit).ok(), Some(Sent::All));
}

/// What is counted of cases that receive; the buffers of the last call are given back in it.
#[inline(never)]
fn measured_receive(backend: &mut dyn Backend, burst: usize) -> (usize, u64) {
    let count = backend.receive(Instant::ZERO, burst).unwrap_or(0);
    let octets = (0..count).map(|index| backend.received(index).data.len() as u64);
    (count, octets.sum())
}

fn exchange(backend: &mut dyn Backend, size: usize, burst: usize) {
    let payload = vec![7; size * burst];
    let slices = [IoSlice::new(&payload)];
    let transmit = Transmit {
        destination: backend.local_addr(),
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
            let (count, octets) = measured_receive(backend, burst);
            left -= count;
            sum += octets;
        }
    }
    assert_eq!(black_box(sum), (PACKETS * size) as u64);
}

fn main() {
    // Cargo adds `--bench`.
    let wanted = std::env::args().skip(1).find(|arg| arg != "--bench");
    if wanted.as_deref() == Some("--list") {
        for (name, ..) in CASES {
            println!("dpdk_send_{name}\ndpdk_receive_{name}");
        }
        return;
    }
    let mut backend = open();
    for (name, size, burst) in CASES {
        // Both directions of a case are the same run; which of them is counted is said to valgrind.
        if wanted.as_deref().is_none_or(|wanted| wanted.ends_with(name)) {
            exchange(&mut backend, size, burst);
        }
    }
}
