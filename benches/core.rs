//! The protocol core alone: two endpoints in one thread, acknowledgements included.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use hikyaku::{Config, Congestion, reliability::Payload};

mod support;
use support::Pair;

fn core(criterion: &mut Criterion) {
    let config = Config {
        congestion: Congestion::Fixed,
        ..Config::default()
    };
    let mut group = criterion.benchmark_group("core");
    for (size, count) in [(64, 16), (1_024, 16), (8_192, 16)] {
        group.throughput(Throughput::Elements(count.into()));
        for (name, mtu) in [("mtu9000", 8_972), ("loopback", 65_507)] {
            let mut pair = Pair::new(&config, mtu);
            let payload = Pair::shared(size);
            group.bench_function(format!("by_reference/{size}/{name}"), |b| {
                b.iter(|| pair.exchange(black_box(&payload), count));
            });
            let data = vec![3; size];
            let mut pair = Pair::new(&config, mtu);
            group.bench_function(format!("copied_and_bundled/{size}/{name}"), |b| {
                b.iter(|| pair.exchange(black_box(&Payload::Copy(&data)), count));
            });
        }
    }
    for size in [64, 1_024] {
        // A message there and one back.
        group.throughput(Throughput::Elements(2));
        let data = vec![3; size];
        let mut pair = Pair::quiet(8_972);
        group.bench_function(format!("answered/{size}"), |b| b.iter(|| pair.answer(black_box(&data))));
    }
    group.finish();
}

criterion_group!(benches, core);
criterion_main!(benches);
