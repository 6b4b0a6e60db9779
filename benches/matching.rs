//! The cost of finding a receive or a message among many: with 10,000 of them at most twice as much as with one.
//!
//! A side sends to itself, so that nothing but queues is measured: a receive is posted, its message comes, and the
//! other way round. The one that matches is always the last that was put into the queue.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use hikyaku::{
    Config, Span,
    messaging::{
        MemoryRegion, Messenger,
        tagged::{Selector, Tagged},
    },
    reliability::{Endpoint, Limits},
    time::Instant,
};

/// How many wait besides the one that matches.
const OTHERS: [u64; 4] = [0, 99, 999, 9_999];
/// More than all others' bits.
const LAST: u64 = 1 << 32;

/// Eight bytes to receive into.
struct Small([u8; 8]);

impl MemoryRegion for Small {
    fn capacity(&self) -> u64 {
        8
    }

    fn place(&mut self, offset: u64, bytes: Span<'_>) {
        let start = (offset as usize).min(8);
        let len = bytes.len().min(8 - start);
        bytes.part(0..len).copy_to(&mut self.0[start..start + len]);
    }
}

struct Side {
    messenger: Messenger,
    tagged: Tagged<Small>,
}

impl Side {
    fn new() -> Self {
        let limits = Limits {
            max_datagram: 1_472,
            max_segments: 16,
            max_batch: 65_000,
            receive_buffer: 1 << 20,
            holds_references: false,
            ack_bytes: usize::MAX,
            receive_port: 0,
        };
        let endpoint = Endpoint::new(Config::default(), limits, 7, 9).expect("these settings are fine");
        let messenger = Messenger::new(endpoint, &[0]);
        let tagged = Tagged::new(&messenger, 4_096);
        Self { messenger, tagged }
    }

    fn post(&mut self, source: Option<u32>, bits: u64) {
        let selector = Selector {
            source,
            bits,
            ignore: 0,
        };
        let posting = self.tagged.receive(
            &mut self.messenger,
            Instant::from_nanos(1),
            selector,
            Small([0; 8]),
            bits,
        );
        black_box(&posting);
    }

    fn send(&mut self, bits: u64) {
        self.tagged.send_self(bits, black_box(&[7; 8]));
    }
}

fn matching(c: &mut Criterion) {
    for (name, source) in [("posted", Some(0)), ("posted, any source", None)] {
        let mut group = c.benchmark_group(format!("matching/{name}"));
        for others in OTHERS {
            let mut side = Side::new();
            (0..others).for_each(|bits| side.post(source, bits));
            group.bench_function(BenchmarkId::from_parameter(others + 1), |b| {
                b.iter(|| {
                    side.post(source, LAST);
                    side.send(LAST);
                    black_box(side.tagged.poll_completion())
                });
            });
            assert_eq!(side.tagged.posted() as u64, others);
        }
    }
    let mut group = c.benchmark_group("matching/unexpected");
    for others in OTHERS {
        let mut side = Side::new();
        (0..others).for_each(|bits| side.send(bits));
        group.bench_function(BenchmarkId::from_parameter(others + 1), |b| {
            b.iter(|| {
                side.send(LAST);
                side.post(Some(0), LAST);
            });
        });
        assert_eq!(side.tagged.unexpected() as u64, others);
    }
}

criterion_group!(benches, matching);
criterion_main!(benches);
