//! The cost of headers, bundles and checksums.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use hikyaku::wire::{
    Base, Builder, Credit, Flags, Header, Kind, MAX_HEADER_LEN, Packet, Record, Seq, Timestamp, Token, checksum::Crc32c,
};

const BASE: Base = Base {
    kind: Kind::Data,
    channel: 0,
    source: 7,
    destination: 9,
    session: Token {
        index: 3,
        secret: 0xc0ff_ee00_c0ff_ee00,
    },
    sequence: Seq(17),
    acknowledgement: Seq(5),
    rail: 0,
    message: Seq(42),
};

/// The header of a small message that carries nothing else.
fn build_plain(buffer: &mut [u8], base: &Base) -> usize {
    let mut builder = Builder::new(buffer, base);
    builder.match_bits(0x2a);
    builder.finish(8)
}

/// The header of a message that acknowledges, grants credit and measures time as well.
fn build_laden(buffer: &mut [u8], base: &Base) -> usize {
    let mut builder = Builder::new(buffer, base);
    builder.match_bits(0x2a);
    builder.timestamp(Timestamp { value: 1, echo: 2 });
    builder.credit(Credit { limit: 3, window: 4 });
    builder.sack(&[0b1011]);
    builder.finish(8)
}

/// A bundle of `count` messages of 8 bytes with match bits.
fn bundle(count: u16) -> Vec<u8> {
    let mut bytes = vec![0; MAX_HEADER_LEN];
    let mut builder = Builder::new(&mut bytes, &BASE);
    builder.set(Flags::BUNDLE);
    let record = Record {
        match_bits: Some(0x2a),
        data: &[1; 8],
    };
    let len = builder.finish(count * record.len() as u16);
    bytes.truncate(len);
    for _ in 0..count {
        let at = bytes.len();
        bytes.resize(at + record.len(), 0);
        record.emit(&mut bytes[at..]);
    }
    bytes
}

fn packet(build: fn(&mut [u8], &Base) -> usize) -> Vec<u8> {
    let mut bytes = vec![0; MAX_HEADER_LEN];
    let len = build(&mut bytes, &BASE);
    bytes.truncate(len + 8);
    bytes
}

fn build(c: &mut Criterion) {
    let mut group = c.benchmark_group("build");
    let mut buffer = [0; MAX_HEADER_LEN];
    group.bench_function("plain", |b| {
        b.iter(|| build_plain(black_box(&mut buffer), black_box(&BASE)));
    });
    group.bench_function("laden", |b| {
        b.iter(|| build_laden(black_box(&mut buffer), black_box(&BASE)));
    });
    let bytes = packet(build_laden);
    let header = Header::parse(&Packet::new_checked(&bytes[..]).expect("a packet"));
    group.bench_function("laden_value", |b| {
        b.iter(|| black_box(&header).emit(8, black_box(&mut buffer)));
    });
}

fn parse(c: &mut Criterion) {
    let mut group = c.benchmark_group("parse");
    for (name, bytes) in [("plain", packet(build_plain)), ("laden", packet(build_laden))] {
        group.bench_function(name, |b| {
            b.iter(|| {
                let packet = Packet::new_checked(black_box(&bytes[..])).expect("a packet");
                let sack = packet.sack().fold(0, |all, word| all | word);
                (packet.base(), packet.match_bits(), packet.credit(), sack)
            });
        });
    }
    let bytes = packet(build_laden);
    group.bench_function("laden_value", |b| {
        b.iter(|| Header::parse(&Packet::new_checked(black_box(&bytes[..])).expect("a packet")));
    });
    let bytes = bundle(20);
    group.throughput(Throughput::Elements(20));
    group.bench_function("bundle_of_20", |b| {
        b.iter(|| {
            let packet = Packet::new_checked(black_box(&bytes[..])).expect("a packet");
            packet.records().fold(0, |sum, record| {
                sum ^ record.match_bits.unwrap_or(0) ^ u64::from(record.data[0])
            })
        });
    });
}

fn crc(c: &mut Criterion) {
    let mut group = c.benchmark_group("crc32c");
    let bytes: Vec<u8> = (0..8192_u32).map(|i| (i * 31) as u8).collect();
    for len in [64, 1024, 8192] {
        group.throughput(Throughput::Bytes(len as u64));
        group.bench_function(len.to_string(), |b| {
            b.iter(|| Crc32c::new().update(black_box(&bytes[..len])).finish());
        });
    }
}

criterion_group!(benches, build, parse, crc);
criterion_main!(benches);
