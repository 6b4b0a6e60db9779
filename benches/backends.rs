//! The cost of moving datagrams, backend by backend: no protocol, both ends in one thread unless said otherwise.

use std::{hint::black_box, io::IoSlice, net::SocketAddr, time::Duration};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use hikyaku::{
    backends::{Backend, BindOptions, Impaired, Impairments, Sent, Transmit, bind, pcapng},
    time::Instant,
};

const NOW: Instant = Instant::ZERO;

fn any() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

fn open(name: &str) -> Box<dyn Backend> {
    bind(name, any(), &BindOptions::default()).unwrap()
}

fn send(from: &mut dyn Backend, to: SocketAddr, segment_size: usize, parts: &[&[u8]]) {
    let slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
    let len = parts.iter().map(|part| part.len()).sum();
    let transmit = Transmit {
        destination: to,
        port: 0,
        segment_size,
        len,
        slices: &slices,
        dont_fragment: true,
        token: 0,
    };
    assert_eq!(from.transmit(NOW, &transmit).unwrap(), Sent::All);
}

fn receive(at: &mut dyn Backend, mut bytes: usize) {
    while bytes > 0 {
        for index in 0..at.receive(NOW, 64).unwrap() {
            bytes -= black_box(at.received(index)).data.len();
        }
    }
}

/// A datagram from send to received.
fn lone(c: &mut Criterion) {
    let mut group = c.benchmark_group("lone");
    for name in ["loopback", "udp"] {
        for size in [8, 1024, 8192] {
            let (mut a, mut b) = (open(name), open(name));
            let (to, data) = (b.local_addr(), vec![7; size]);
            group.bench_function(BenchmarkId::new(name, size), |bench| {
                bench.iter(|| {
                    send(&mut a, to, size, &[&data]);
                    receive(&mut b, size);
                });
            });
        }
    }
}

/// A datagram there and one back between two threads that spin.
fn round_trip(c: &mut Criterion) {
    let mut group = c.benchmark_group("round_trip");
    for name in ["loopback", "udp"] {
        let (mut a, mut b) = (open(name), open(name));
        let (to, back) = (b.local_addr(), a.local_addr());
        let echo = std::thread::spawn(move || {
            loop {
                for index in 0..b.receive(NOW, 1).unwrap() {
                    if b.received(index).data.own().is_some_and(|data| data[0] == b'q') {
                        return;
                    }
                    send(&mut b, back, 8, &[b"pingpong"]);
                }
            }
        });
        group.bench_function(name, |bench| {
            bench.iter(|| {
                send(&mut a, to, 8, &[b"pingpong"]);
                receive(&mut a, 8);
            });
        });
        send(&mut a, to, 1, &[b"q"]);
        echo.join().unwrap();
    }
}

/// Bursts of full datagrams, each from a header and a piece of payload; per byte.
fn burst(c: &mut Criterion) {
    let mut group = c.benchmark_group("burst");
    for name in ["loopback", "udp"] {
        for segment in [64, 1472, 8192] {
            let (mut a, mut b) = (open(name), open(name));
            let can = a.capabilities();
            let segments = can.max_segments.min(64).min(can.max_batch / segment);
            let (to, data) = (b.local_addr(), vec![7; segment]);
            let parts: Vec<&[u8]> = (0..segments).flat_map(|_| [&data[..40], &data[40..]]).collect();
            group.throughput(Throughput::Elements(segments as u64));
            group.bench_function(BenchmarkId::new(name, segment), |bench| {
                bench.iter(|| {
                    send(&mut a, to, segment, &parts);
                    receive(&mut b, segment * segments);
                });
            });
        }
    }
}

/// The cost that the wrappers add.
fn wrappers(c: &mut Criterion) {
    let mut group = c.benchmark_group("wrappers");
    let mut b = open("loopback");
    let to = b.local_addr();
    for (name, loss) in [("harmless", 0.0), ("lossy", 1e-9)] {
        let impairments = Impairments {
            loss,
            ..Impairments::default()
        };
        let mut a = Impaired::new(open("loopback"), impairments, 1).unwrap();
        group.bench_function(BenchmarkId::new("impaired", name), |bench| {
            bench.iter(|| {
                send(&mut a, to, 1024, &[&[7; 1024]]);
                receive(&mut b, 1024);
            });
        });
    }
    let mut writer = pcapng::Writer::new(std::io::sink()).unwrap();
    group.bench_function("pcapng", |bench| {
        bench.iter(|| writer.datagram(NOW, to, to, black_box(&[7; 1024]), None).unwrap());
    });
}

fn quick() -> Criterion {
    Criterion::default()
        .sample_size(30)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_millis(700))
        .without_plots()
}

criterion_group!(name = benches; config = quick(); targets = lone, round_trip, burst, wrappers);
criterion_main!(benches);
