#![expect(unsafe_code, reason = "the engine takes pointers")]
//! Windows.

use std::{collections::HashSet, sync::Arc, time::Duration};

use hikyaku::mpi::{
    datatype::{Datatype, Kind},
    engine::{self, Engine, Operands, Target},
    operation::{Operation, Predefined},
};
use mpi::{
    collective::SystemOperation,
    topology::Group,
    traits::*,
    window::{LockKind, Window},
};

use super::{super::program::WindowCall, *};

/// Every kind of epoch, and of operation.
fn windows() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (rank, size) = (world.rank(), world.size());
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    let mut window = Window::<u64>::allocate(&world, 40_000).unwrap();
    let (news, mut room) = (vec![7_u64; 20_000], vec![0_u64; 30_000]);
    window
        .fence(|epoch| {
            epoch.put(&news, next, 100)?;
            epoch.accumulate_into(&news[..300], previous, 20_200, SystemOperation::sum())
        })
        .unwrap();
    hikyaku::sim::compute(Duration::from_micros(20)).unwrap();
    window.fence(|epoch| epoch.get_into(&mut room, previous, 0)).unwrap();
    assert_eq!((room[50], room[150], room[20_250]), (0, 7, 7));
    drop(window.local().unwrap());
    for kind in [LockKind::Exclusive, LockKind::Shared] {
        window
            .lock(kind, 0, |epoch| {
                epoch.fetch_and_op(&1, 0, 0, SystemOperation::sum())?;
                epoch.compare_and_swap(&0, &1, 0, 1)?;
                epoch.flush()
            })
            .unwrap();
    }
    window
        .lock_all(|epoch| {
            mpi::request::scope(|scope| {
                let put = epoch.immediate_put(scope, &news[..9], next, 3);
                let get = epoch.immediate_get_into(scope, &mut room[..5_000], previous, 3);
                get.wait()?;
                put.wait().map(drop)
            })
        })
        .unwrap();
    // From each to the next one.
    let pick = |rank| world.group().include(&[rank]);
    let exposure = window.post(&pick(previous)).unwrap();
    window
        .start(&pick(next), |epoch| epoch.put(&news[..1_000], next, 0))
        .unwrap();
    exposure.wait().unwrap();
    window.free().unwrap();
}

#[test]
fn windows_are_replayed() {
    let steps = agrees(4, |_| windows());
    let kinds = steps[1].iter().filter_map(|step| match step {
        Step::Window { call, .. } => Some(std::mem::discriminant(call)),
        _ => None,
    });
    let kinds: HashSet<_> = kinds.collect();
    assert_eq!(kinds.len(), 13, "{:?}", steps[1]);
}

/// A window that lasts as long as the program, locked all the time, as that of a shared memory.
fn lasting(engine: &Arc<Engine>) {
    let world = engine::Communicator::world(engine);
    let (rank, size) = (world.rank(), world.size());
    let window = engine::Window::allocate(&world, 4_000, 4).unwrap();
    window.lock_all().unwrap();
    let datatype = &Datatype::predefined(Kind::U32);
    let (mut from, mut into) = ([1_u32; 800], [0_u32; 800]);
    let (origin, result) = (from.as_mut_ptr().cast::<u8>(), into.as_mut_ptr().cast::<u8>());
    let side = |base, count| Operands { base, count, datatype };
    let sum = Operation::predefined(Predefined::Sum);
    let no = Operation::predefined(Predefined::NoOp);
    for turn in 0..size {
        let rank = (rank + turn) % size;
        let place = |displacement, count| Target {
            rank,
            displacement,
            count,
            datatype,
        };
        // SAFETY: both are longer than what is used of them, and live until all has ended.
        unsafe {
            window.put(&side(origin, 100), &place(0, 100)).unwrap();
            window.get(&side(result, 700), &place(100, 700)).unwrap();
            window
                .get_accumulate(Some(&side(origin, 5)), &side(result, 5), &place(900, 5), &sum)
                .unwrap();
            window.flush(rank).unwrap();
            let swept = window.raccumulate(&side(origin, 5), &place(2, 5), &sum).unwrap();
            let kept = window
                .rget_accumulate(None, &side(result, 3), &place(7, 3), &no)
                .unwrap();
            swept.wait().unwrap();
            kept.wait().unwrap();
            window
                .fetch_and_op(origin, result, Kind::U32, (rank, 999), &sum)
                .unwrap();
            window
                .compare_and_swap(origin, result, into.as_mut_ptr().add(9).cast(), Kind::U32, (rank, 998))
                .unwrap();
        }
        window.flush_all().unwrap();
    }
    window.sync().unwrap();
    if rank == 0 {
        hikyaku::sim::compute(Duration::from_millis(1)).unwrap();
        // SAFETY: as above; others have nothing left to do.
        unsafe {
            let last = Target {
                rank: size - 1,
                displacement: 5,
                count: 9,
                datatype,
            };
            window.put(&side(origin, 9), &last).unwrap();
        }
    }
    window.unlock_all().unwrap();
    world.barrier().unwrap();
    engine.finalize(Duration::from_secs(1)).unwrap();
}

#[test]
fn windows_that_are_not_freed_stay_until_all_are_done() {
    agrees(3, lasting);
}

/// Memory that comes and goes, whose addresses are others in a replay.
fn dynamic(engine: &Arc<Engine>) {
    let world = engine::Communicator::world(engine);
    let (rank, size) = (world.rank(), world.size());
    let window = engine::Window::create_dynamic(&world).unwrap();
    let datatype = &Datatype::predefined(Kind::U64);
    let mut own = vec![0_u64; 6_000];
    let mut other = vec![0_u64; 10];
    let (own, other) = (own.as_mut_ptr().cast::<u8>(), other.as_mut_ptr().cast::<u8>());
    // SAFETY: attached while it is there, and only used by operations.
    unsafe {
        window.attach(own, 48_000).unwrap();
        window.attach(other, 80).unwrap();
    }
    let (mine, mut theirs) = ([own as u64 + 800, other as u64], vec![0_u64; 2 * size as usize]);
    let buffers = engine::Buffers {
        input: engine::Region::Plain(mine.as_ptr().cast_mut().cast(), datatype),
        output: engine::Region::Plain(theirs.as_mut_ptr().cast(), datatype),
    };
    let all = collectives::Call::of(collectives::Collective::Allgather).with_count(2);
    // SAFETY: both live until it has ended.
    let gathered = unsafe { world.collective("MPI_Allgather", &all, &buffers, None, None) };
    gathered.unwrap().wait().unwrap();
    let next = (rank + 1) % size;
    let mut news = vec![9_u64; 5_900];
    let origin = |count| Operands {
        base: news.as_ptr().cast_mut().cast(),
        count,
        datatype,
    };
    let target = |piece: usize, count| Target {
        rank: next,
        displacement: theirs[2 * next as usize + piece] as i64,
        count,
        datatype,
    };
    window.fence().unwrap();
    // SAFETY: `news` lives until the fence.
    unsafe {
        window.put(&origin(5_900), &target(0, 5_900)).unwrap();
        window.put(&origin(10), &target(1, 10)).unwrap();
    }
    window.fence().unwrap();
    news.fill(0);
    window.detach(other).unwrap();
    window.detach(own).unwrap();
    window.free().unwrap();
    world.barrier().unwrap();
    engine.finalize(Duration::from_secs(1)).unwrap();
}

#[test]
fn addresses_are_those_of_the_replay() {
    let steps = agrees(3, dynamic);
    // What was not attached is not there.
    let attaches = |step: &Step| {
        let attach = WindowCall::Attach { address: 0, bytes: 0 };
        matches!(step, Step::Window { call, .. } if std::mem::discriminant(call) == std::mem::discriminant(&attach))
    };
    let without = steps
        .into_iter()
        .map(|steps| steps.into_iter().filter(|step| !attaches(step)).collect());
    let without: Programs = without.collect();
    let error = replay(&without, &Simulation::new(3, 1), 1.0).unwrap_err().to_string();
    assert!(
        error.contains("no call of rank") && error.contains("has attached"),
        "{error}"
    );
}
