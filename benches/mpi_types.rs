//! The cost of packing, unpacking and reducing data of derived datatypes.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use hikyaku::mpi::{
    datatype::{Datatype, Kind, Order},
    operation::{Operation, Predefined},
};

/// Bytes of data in each case, about.
const SIZE: usize = 1 << 18;
/// Bytes of a fragment, as they come in datagrams.
const FRAGMENT: usize = 1_432;

/// Name, datatype, number of elements.
fn layouts() -> Vec<(&'static str, Datatype, u64)> {
    let float = Datatype::predefined(Kind::F64);
    let elements = (SIZE / 8) as i64;
    let vector = Datatype::vector(elements, 1, 4, &float).unwrap();
    let particle = Datatype::structure(&[1, 3], &[0, 8], &[Kind::I32.into(), float.clone()]).unwrap();
    let cube = Datatype::subarray(&[48, 48, 48], &[32, 32, 32], &[8, 8, 8], Order::C, &float).unwrap();
    // Steps of 2, 3 and 4 elements.
    let irregular: Vec<i64> = (0..elements)
        .map(|index| index * 3 - [0, 1, 1][index as usize % 3])
        .collect();
    let irregular = Datatype::indexed_block(1, &irregular, &float).unwrap();
    vec![
        ("contiguous", float, elements as u64),
        ("every fourth f64", vector, 1),
        ("structs of i32 and 3 f64", particle, SIZE as u64 / 28),
        ("cube within a cube", cube, 1),
        ("irregular f64", irregular, 1),
    ]
}

fn transfer(c: &mut Criterion) {
    for (name, datatype, count) in layouts() {
        let (_, high) = datatype.span(count).unwrap();
        let mut memory = vec![1; high as usize];
        let mut packed = vec![0; datatype.packed_size(count).unwrap() as usize];
        let mut group = c.benchmark_group(format!("mpi/{name}"));
        group.throughput(Throughput::Bytes(packed.len() as u64));
        group.bench_function("pack", |b| {
            b.iter(|| datatype.pack(black_box(&memory), 0, count, 0, &mut packed));
        });
        group.bench_function("unpack", |b| {
            b.iter(|| datatype.unpack(&mut memory, 0, count, 0, black_box(&packed)));
        });
        group.bench_function(BenchmarkId::new("unpack fragments", FRAGMENT), |b| {
            b.iter(|| {
                for (index, fragment) in packed.chunks(FRAGMENT).enumerate() {
                    let at = (index * FRAGMENT) as u64;
                    datatype.unpack(&mut memory, 0, count, at, black_box(fragment)).unwrap();
                }
            });
        });
        group.bench_function("segments", |b| {
            b.iter(|| {
                datatype
                    .segments(count, 0..u64::MAX)
                    .fold(0, |sum, segment| sum ^ segment.offset)
            });
        });
        group.finish();
    }
}

fn reduce(c: &mut Criterion) {
    let mut group = c.benchmark_group("mpi/reduce");
    let (input, mut inout) = (vec![1; SIZE], vec![2; SIZE]);
    for (operation, kind) in [
        (Predefined::Sum, Kind::F64),
        (Predefined::Max, Kind::F32),
        (Predefined::Band, Kind::U64),
        (Predefined::Maxloc, Kind::F64I32),
    ] {
        group.throughput(Throughput::Bytes(SIZE as u64));
        group.bench_function(format!("{operation} {kind}"), |b| {
            let (datatype, count) = (Datatype::predefined(kind), SIZE as u64 / kind.extent());
            let operation = Operation::predefined(operation);
            b.iter(|| operation.apply(&datatype, black_box(&input), &mut inout, count));
        });
    }
    group.finish();
}

criterion_group!(benches, transfer, reduce);
criterion_main!(benches);
