//! Windows.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use hikyaku::mpi::{
    Rank,
    datatype::{Datatype, Kind},
    engine::{Communicator, LockKind, Operands, PROC_NULL, Target, Window},
    error::{Error, ErrorClass},
    operation::{Operation, Predefined},
};
use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};

use super::support::{THREADS, byte, job, job_on, options, pattern, processes};

const SUM: Operation = Operation::predefined(Predefined::Sum);

fn i64s() -> Datatype {
    Datatype::predefined(Kind::I64)
}

fn operands<'a, T>(data: &[T], datatype: &'a Datatype) -> Operands<'a> {
    Operands {
        base: data.as_ptr().cast_mut().cast(),
        count: (size_of_val(data) as u64).checked_div(datatype.size()).unwrap_or(0),
        datatype,
    }
}

fn at(rank: Rank, displacement: i64, count: u64, datatype: &Datatype) -> Target<'_> {
    Target {
        rank,
        displacement,
        count,
        datatype,
    }
}

/// The window of this process.
fn bytes(window: &Window, len: usize) -> Vec<u8> {
    // SAFETY: called after a synchronisation, when nobody writes.
    unsafe { std::slice::from_raw_parts(window.base(), len) }.to_vec()
}

fn put(window: &Window, data: &[u8], rank: Rank, displacement: i64) -> Result<(), Error> {
    let byte = byte();
    let target = at(rank, displacement, data.len() as u64, &byte);
    // SAFETY: every caller keeps `data` until the next synchronisation.
    unsafe { window.put(&operands(data, &byte), &target) }
}

fn get(window: &Window, room: &mut [u8], rank: Rank, displacement: i64) -> Result<(), Error> {
    let byte = byte();
    let target = at(rank, displacement, room.len() as u64, &byte);
    // SAFETY: as above.
    unsafe { window.get(&operands(room, &byte), &target) }
}

fn fetch_and_add(window: &Window, add: i64, rank: Rank, place: i64) -> i64 {
    let (add, mut was) = ([add], [0_i64]);
    let (origin, result) = (add.as_ptr().cast(), was.as_mut_ptr().cast());
    // SAFETY: both live until it has been flushed.
    unsafe { window.fetch_and_op(origin, result, Kind::I64, (rank, place), &SUM) }.unwrap();
    window.flush(rank).unwrap();
    was[0]
}

#[test]
fn puts_and_gets_of_all_sizes_between_fences() {
    for backend in ["loopback", "udp"] {
        job_on(backend, 3, &options(), |comm| {
            let (rank, size) = (comm.rank() as usize, comm.size() as usize);
            let sizes = [0, 1, 8, 511, 513, 5_000, 2_500_000];
            let room: usize = sizes.iter().sum();
            let window = Window::allocate(&comm, (room * size) as u64, 1).unwrap();
            assert_eq!(window.extent_at(1), Some(((room * size) as u64, 1)));
            window.fence().unwrap();
            let data: Vec<Vec<Vec<u8>>> = (0..size)
                .map(|to| sizes.iter().map(|&len| pattern(len, rank * 10 + to)).collect())
                .collect();
            for (to, parts) in data.iter().enumerate() {
                let mut place = rank * room;
                for part in parts {
                    put(&window, part, to as Rank, place as i64).unwrap();
                    place += part.len();
                }
            }
            window.fence().unwrap();
            let mine = bytes(&window, room * size);
            let mut gotten = vec![vec![0_u8; room * size]; size];
            for (from, gotten) in gotten.iter_mut().enumerate() {
                get(&window, gotten, from as Rank, 0).unwrap();
            }
            window.fence().unwrap();
            for (at, gotten) in gotten.iter().enumerate() {
                let mut place = 0;
                for from in 0..size {
                    for len in sizes {
                        assert!(gotten[place..place + len] == pattern(len, from * 10 + at));
                        place += len;
                    }
                }
            }
            assert!(gotten[rank] == mine);
            window.free().unwrap();
            assert_eq!((comm.engine().requests(), comm.engine().window_stats().refused), (0, 0));
        });
    }
}

/// A call that would begin one operation too many waits until another one has ended.
#[test]
fn more_operations_than_may_run_at_once_all_end() {
    const LIMIT: usize = 1 << 16;
    const WORDS: usize = LIMIT + 100;
    job(2, |comm| {
        let window = Window::allocate(&comm, 8 * WORDS as u64, 8).unwrap();
        window.lock_all().unwrap();
        comm.barrier().unwrap();
        if comm.rank() == 0 {
            let words: Vec<[u8; 8]> = (1..=WORDS as u64).map(u64::to_ne_bytes).collect();
            for (place, word) in words.iter().enumerate() {
                put(&window, word, 1, place as i64).unwrap();
            }
            window.flush(1).unwrap();
        }
        comm.barrier().unwrap();
        if comm.rank() == 1 {
            let there = bytes(&window, 8 * WORDS);
            let wrong = there
                .chunks_exact(8)
                .zip(1_u64..)
                .find(|(word, n)| **word != n.to_ne_bytes());
            assert_eq!(wrong, None);
        }
        window.unlock_all().unwrap();
        comm.barrier().unwrap();
        window.free().unwrap();
    });
}

/// An operation of a rank on another, in places that no other rank touches meanwhile.
#[derive(Clone, Copy, Debug)]
enum Step {
    Put,
    Get,
    Accumulate(Predefined),
    GetAccumulate(Predefined),
    Swap,
}

#[derive(Clone, Debug)]
struct Act {
    step: Step,
    origin: usize,
    target: usize,
    /// Blocks, their length and stride at the target; stride of the origin.
    blocks: i64,
    len: i64,
    strides: (i64, i64),
    salt: i64,
}

fn acts(ranks: usize) -> impl Strategy<Value = Vec<Act>> {
    let operation = prop_oneof![
        Just(Predefined::Sum),
        Just(Predefined::Max),
        Just(Predefined::Bxor),
        Just(Predefined::Replace),
        Just(Predefined::NoOp),
    ];
    let step = (0..5_u8, operation).prop_map(|(step, operation)| match step {
        0 => Step::Put,
        1 => Step::Get,
        2 => Step::Accumulate(operation),
        3 => Step::GetAccumulate(operation),
        _ => Step::Swap,
    });
    let layout = prop_oneof![8 => (0..20_i64, 0..8_i64), 1 => (1..3_i64, 100..400_i64), 1 => (200..400_i64, 1..3_i64)];
    let act = (step, 0..ranks, 0..ranks, layout, 0..3_i64, 0..3_i64, any::<i32>());
    let act = act.prop_map(|(step, origin, target, (blocks, len), gap, own_gap, salt)| Act {
        step,
        origin,
        target,
        blocks,
        len,
        strides: (len + gap, len + own_gap),
        salt: salt.into(),
    });
    prop::collection::vec(act, 1..25)
}

/// Elements of each rank's part of a window.
const PART: usize = 4_000;

fn combine(operation: Predefined, operand: i64, old: i64) -> i64 {
    match operation {
        Predefined::Sum => operand.wrapping_add(old),
        Predefined::Max => operand.max(old),
        Predefined::Bxor => operand ^ old,
        Predefined::Replace => operand,
        _ => old,
    }
}

/// Applies `act` to a model of the windows; gives the fetched elements, in order.
fn model(act: &Act, windows: &mut [Vec<i64>]) -> Vec<i64> {
    let window = &mut windows[act.target];
    let part = act.origin * PART;
    if let Step::Swap = act.step {
        let place = part + act.salt.unsigned_abs() as usize % 8;
        let old = window[place];
        if act.salt % 2 == 0 {
            window[place] = act.salt;
        }
        return vec![old];
    }
    let mut back = Vec::new();
    for n in 0..act.blocks * act.len {
        let place = part + (n / act.len * act.strides.0 + n % act.len) as usize;
        let old = window[place];
        back.push(old);
        let operand = act.salt + n;
        window[place] = match act.step {
            Step::Put => operand,
            Step::Get | Step::Swap => old,
            Step::Accumulate(operation) | Step::GetAccumulate(operation) => combine(operation, operand, old),
        };
    }
    back
}

/// Performs `act`, and waits for it.
fn perform(act: &Act, window: &Window, expected: &[i64]) {
    let (target, part) = (act.target as Rank, (act.origin * PART) as i64);
    if let Step::Swap = act.step {
        let (new, mut was) = ([act.salt], [0_i64]);
        let expect = [if act.salt % 2 == 0 { expected[0] } else { !expected[0] }];
        let place = part + (act.salt.unsigned_abs() % 8) as i64;
        // SAFETY: all live until it has been flushed.
        unsafe {
            let (new, expect, was) = (new.as_ptr().cast(), expect.as_ptr().cast(), was.as_mut_ptr().cast());
            window.compare_and_swap(new, expect, was, Kind::I64, (target, place))
        }
        .unwrap();
        window.flush(target).unwrap();
        assert_eq!(was, expected);
        return;
    }
    let theirs = Datatype::vector(act.blocks, act.len, act.strides.0, &i64s()).unwrap();
    let ours = Datatype::vector(act.blocks, act.len, act.strides.1, &i64s()).unwrap();
    let room = (act.blocks * act.strides.1 + act.len) as usize;
    let spread = |n: i64| (n / act.len * act.strides.1 + n % act.len) as usize;
    let mut operand = vec![-1_i64; room];
    for n in 0..act.blocks * act.len {
        operand[spread(n)] = act.salt + n;
    }
    let mut result = vec![-7_i64; room];
    let place = at(target, part, 1, &theirs);
    let side = |base: *mut i64| Operands {
        base: base.cast(),
        count: 1,
        datatype: &ours,
    };
    let origin = side(operand.as_mut_ptr());
    let back = side(result.as_mut_ptr());
    // SAFETY: both live until it has been flushed.
    unsafe {
        match act.step {
            Step::Put if act.salt % 2 == 0 => window.put(&origin, &place),
            Step::Put => window.rput(&origin, &place).unwrap().wait().map(drop),
            Step::Get if act.salt % 2 == 0 => window.get(&back, &place),
            Step::Get => window.rget(&back, &place).unwrap().wait().map(drop),
            Step::Accumulate(operation) => window.accumulate(&origin, &place, &operation.into()),
            Step::GetAccumulate(operation) => window.get_accumulate(Some(&origin), &back, &place, &operation.into()),
            Step::Swap => Ok(()),
        }
    }
    .unwrap();
    window.flush(target).unwrap();
    if let Step::Get | Step::GetAccumulate(_) = act.step {
        let mut wanted = vec![-7_i64; room];
        for (n, value) in (0..).zip(expected) {
            wanted[spread(n)] = *value;
        }
        assert_eq!(result, wanted, "{act:?}");
    }
}

#[test]
fn as_if_done_one_after_the_other() {
    let cases = std::env::var("HIKYAKU_TEST_CASES").ok().and_then(|n| n.parse().ok());
    let config = Config {
        cases: cases.unwrap_or(12),
        failure_persistence: None,
        ..Config::default()
    };
    let seed = proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, seed);
    for backend in ["loopback", "udp"] {
        runner
            .run(&acts(3), |acts| {
                job_on(backend, 3, &options(), move |comm| {
                    let window = Window::allocate(&comm, (3 * PART * 8) as u64, 8).unwrap();
                    window.lock_all().unwrap();
                    let mut windows = vec![vec![0_i64; 3 * PART]; 3];
                    // Each rank has a part of every window to itself, so its acts are in order, and it needs only its
                    // own ones to predict the fetched elements.
                    for act in &acts {
                        let expected = model(act, &mut windows);
                        if act.origin == comm.rank() as usize {
                            perform(act, &window, &expected);
                        }
                    }
                    window.unlock_all().unwrap();
                    comm.barrier().unwrap();
                    // SAFETY: nobody accesses it any more.
                    let mine = unsafe { std::slice::from_raw_parts(window.base().cast::<i64>(), 3 * PART) };
                    assert!(mine == windows[comm.rank() as usize]);
                    window.free().unwrap();
                });
                Ok(())
            })
            .unwrap();
    }
}

#[test]
fn accumulates_of_everybody_lose_nothing() {
    job(4, |comm| {
        const LEN: usize = 5_000;
        let n = i64::from(comm.size());
        let window = Window::allocate(&comm, 8 * LEN as u64, 8).unwrap();
        window.fence().unwrap();
        let own: Vec<i64> = (0..LEN as i64).map(|i| i * (1 + i64::from(comm.rank()))).collect();
        let datatype = i64s();
        for target in 0..comm.size() {
            for _ in 0..5 {
                let place = at(target, 0, LEN as u64, &datatype);
                // SAFETY: `own` lives until the fence.
                unsafe { window.accumulate(&operands(&own, &datatype), &place, &SUM) }.unwrap();
            }
        }
        window.fence().unwrap();
        // SAFETY: after a fence.
        let mine = unsafe { std::slice::from_raw_parts(window.base().cast::<i64>(), LEN) };
        for (i, sum) in (0..).zip(mine) {
            assert_eq!(*sum, 5 * i * n * (n + 1) / 2);
        }
        window.free().unwrap();
    });
}

#[test]
fn accumulates_of_one_are_done_in_order() {
    job(3, |comm| {
        let window = Window::allocate(&comm, 16, 8).unwrap();
        let datatype = i64s();
        let replace = Operation::predefined(Predefined::Replace);
        let next = (comm.rank() + 1) % 3;
        let values: Vec<i64> = (0..2_000).map(|n| n * 10 + i64::from(comm.rank())).collect();
        window.lock_all().unwrap();
        for n in &values {
            for (target, place) in [(comm.rank(), 0), (next, 1)] {
                let origin = operands(std::slice::from_ref(n), &datatype);
                // SAFETY: `values` lives until all has been flushed.
                unsafe { window.accumulate(&origin, &at(target, place, 1, &datatype), &replace) }.unwrap();
            }
        }
        window.unlock_all().unwrap();
        comm.barrier().unwrap();
        let previous = i64::from((comm.rank() + 2) % 3);
        let last = [19_990 + i64::from(comm.rank()), 19_990 + previous];
        assert_eq!(bytes(&window, 16), last.map(i64::to_ne_bytes).concat());
        window.free().unwrap();
    });
}

#[test]
fn a_lock_excludes_others() {
    for backend in ["loopback", "udp"] {
        job_on(backend, 4, &options(), |comm| {
            const TURNS: i64 = 25;
            let window = Window::allocate(&comm, 16, 1).unwrap();
            for turn in 0..TURNS {
                let target = (turn % 2) as Rank;
                window.lock(LockKind::Exclusive, target).unwrap();
                let mut counter = [0_u8; 8];
                get(&window, &mut counter, target, 8).unwrap();
                window.flush(target).unwrap();
                let more = (i64::from_ne_bytes(counter) + 1).to_ne_bytes();
                put(&window, &more, target, 8).unwrap();
                window.unlock(target).unwrap();
            }
            comm.barrier().unwrap();
            window.lock(LockKind::Shared, 0).unwrap();
            window.lock(LockKind::Shared, 1).unwrap();
            let mut counters = [[0_u8; 8]; 2];
            for (rank, counter) in counters.iter_mut().enumerate() {
                get(&window, counter, rank as Rank, 8).unwrap();
            }
            window.unlock(1).unwrap();
            window.unlock(0).unwrap();
            let total: i64 = counters.map(i64::from_ne_bytes).iter().sum();
            assert_eq!(total, TURNS * i64::from(comm.size()));
            window.free().unwrap();
        });
    }
}

#[test]
fn compare_and_swap_makes_a_mutex_and_fetch_and_op_a_counter() {
    static INSIDE: AtomicBool = AtomicBool::new(false);
    let tickets = job(4, |comm| {
        let window = Window::allocate(&comm, 16, 8).unwrap();
        window.lock_all().unwrap();
        let swap = |new: i64, expected: i64| {
            let mut was = [0_i64];
            let (new, expected) = ([new], [expected]);
            let operands = (new.as_ptr().cast(), expected.as_ptr().cast(), was.as_mut_ptr().cast());
            // SAFETY: all live until it has been flushed.
            unsafe { window.compare_and_swap(operands.0, operands.1, operands.2, Kind::I64, (0, 1)) }.unwrap();
            window.flush(0).unwrap();
            was[0]
        };
        let mut tickets = Vec::new();
        for _ in 0..20 {
            tickets.push(fetch_and_add(&window, 1, 0, 0));
            while swap(1, 0) != 0 {
                std::thread::yield_now();
            }
            assert!(!INSIDE.swap(true, Ordering::SeqCst), "two inside");
            INSIDE.store(false, Ordering::SeqCst);
            assert_eq!(swap(0, 1), 1);
        }
        window.unlock_all().unwrap();
        window.free().unwrap();
        tickets
    });
    for own in &tickets {
        assert!(own.is_sorted());
    }
    let mut all = tickets.concat();
    all.sort_unstable();
    assert_eq!(all, (0..80).collect::<Vec<i64>>());
}

#[test]
fn post_start_complete_wait() {
    job(4, |comm| {
        let window = Window::allocate(&comm, 800_000, 1).unwrap();
        let (rank, size) = (comm.rank(), comm.size());
        let group = |rank: Rank| comm.group().incl(&[rank]).unwrap();
        let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
        for round in 0..10 {
            let data = pattern(800_000, (rank + round) as usize);
            window.post(&group(previous)).unwrap();
            window.start(&group(next)).unwrap();
            put(&window, &data, next, 0).unwrap();
            assert_eq!(
                put(&window, &data, previous, 0).unwrap_err().class(),
                ErrorClass::RmaSync
            );
            window.complete().unwrap();
            if round % 2 == 0 {
                window.wait().unwrap();
            } else {
                while !window.test().unwrap() {}
            }
            assert!(bytes(&window, 800_000) == pattern(800_000, (previous + round) as usize));
        }
        window.free().unwrap();
    });
}

#[test]
fn pairs_are_reduced_where_they_are() {
    job(3, |comm| {
        for kind in [Kind::F64I32, Kind::I16I32, Kind::I32I32] {
            let datatype = Datatype::predefined(kind);
            let extent = kind.extent() as usize;
            let count = 1_000;
            let window = Window::allocate(&comm, (extent * count) as u64, extent as u32).unwrap();
            let mut own = vec![0_u8; extent * count];
            for (n, element) in own.chunks_exact_mut(extent).enumerate() {
                let (value, index) = ((n as i32 * 7 + comm.rank() * 13) % 20, comm.rank() + 1);
                match kind {
                    Kind::F64I32 => element[..8].copy_from_slice(&f64::from(-value - 1).to_ne_bytes()),
                    Kind::I16I32 => element[..2].copy_from_slice(&(-value as i16 - 1).to_ne_bytes()),
                    _ => element[..4].copy_from_slice(&(-value - 1).to_ne_bytes()),
                }
                let index_at = kind.alignment() as usize;
                element[index_at..index_at + 4].copy_from_slice(&index.to_ne_bytes());
            }
            window.fence().unwrap();
            let origin = Operands {
                base: own.as_mut_ptr(),
                count: count as u64,
                datatype: &datatype,
            };
            let minloc = Operation::predefined(Predefined::Minloc);
            // SAFETY: `own` lives until the fence.
            unsafe { window.accumulate(&origin, &at(1, 0, count as u64, &datatype), &minloc) }.unwrap();
            window.fence().unwrap();
            if comm.rank() == 1 {
                for (n, element) in bytes(&window, extent * count).chunks_exact(extent).enumerate() {
                    let best = (0..3)
                        .map(|rank| (-((n as i32 * 7 + rank * 13) % 20) - 1, rank + 1))
                        .min();
                    let value = match kind {
                        Kind::F64I32 => f64::from_ne_bytes(element[..8].try_into().unwrap()) as i32,
                        Kind::I16I32 => i16::from_ne_bytes(element[..2].try_into().unwrap()).into(),
                        _ => i32::from_ne_bytes(element[..4].try_into().unwrap()),
                    };
                    let index_at = kind.alignment() as usize;
                    let index = i32::from_ne_bytes(element[index_at..index_at + 4].try_into().unwrap());
                    assert_eq!(Some((value, index)), best, "{kind} {n}");
                }
            }
            window.free().unwrap();
        }
    });
}

#[test]
fn memory_is_attached_and_detached() {
    job(2, |comm| {
        let window = Window::create_dynamic(&comm).unwrap();
        let mut piece = vec![7_u8; 100_000];
        // SAFETY: `piece` lives until it is detached, and is not used meanwhile.
        unsafe { window.attach(piece.as_mut_ptr(), 100_000) }.unwrap();
        // SAFETY: nothing is attached.
        let again = unsafe { window.attach(piece.as_mut_ptr().wrapping_add(10), 5) };
        assert_eq!(again.unwrap_err().class(), ErrorClass::RmaAttach);
        let fixed = Window::allocate(&comm, 8, 1).unwrap();
        assert_eq!(fixed.detach(fixed.base()).unwrap_err().class(), ErrorClass::RmaFlavor);
        // Tell each other where it is.
        fixed.fence().unwrap();
        let (other, address) = (1 - comm.rank(), (piece.as_ptr() as i64).to_ne_bytes());
        put(&fixed, &address, other, 0).unwrap();
        fixed.fence().unwrap();
        let theirs = i64::from_ne_bytes(bytes(&fixed, 8).try_into().unwrap());
        fixed.free().unwrap();

        window.lock_all().unwrap();
        let data = pattern(50_000, comm.rank() as usize);
        put(&window, &data, other, theirs + 30_000).unwrap();
        window.flush(other).unwrap();
        let mut back = vec![0; 60_000];
        get(&window, &mut back, other, theirs + 25_000).unwrap();
        window.flush(other).unwrap();
        assert!(back[..5_000] == [7; 5_000] && back[5_000..55_000] == data && back[55_000..] == [7; 5_000]);
        for (place, len) in [(theirs + 99_999, 2), (theirs - 1, 2), (1, 1), (i64::MAX - 5, 5)] {
            put(&window, &data[..len], other, place).unwrap();
            let error = window.flush(other).unwrap_err();
            assert_eq!(
                (error.class(), error.peer()),
                (ErrorClass::RmaRange, Some(other)),
                "{error}"
            );
            get(&window, &mut back[..len], other, place).unwrap();
            assert_eq!(window.flush(other).unwrap_err().class(), ErrorClass::RmaRange);
        }
        window.unlock_all().unwrap();
        comm.barrier().unwrap();
        window.detach(piece.as_mut_ptr()).unwrap();
        assert_eq!(
            window.detach(piece.as_mut_ptr()).unwrap_err().class(),
            ErrorClass::RmaAttach
        );
        window.free().unwrap();
        assert!(piece[30_000..80_000] == pattern(50_000, other as usize));
    });
}

#[test]
fn misuse_is_an_error_that_names_the_call() {
    job(2, |comm| {
        let window = Window::allocate(&comm, 100, 4).unwrap();
        let class = |result: Result<(), Error>| result.unwrap_err().class();
        let mut room = [0_u8; 8];
        let early = put(&window, &room, 1, 0).unwrap_err();
        assert_eq!(early.class(), ErrorClass::RmaSync);
        assert!(early.to_string().contains("MPI_Put"), "{early}");
        assert_eq!(class(window.unlock(0)), ErrorClass::RmaSync);
        assert_eq!(class(window.flush(0)), ErrorClass::RmaSync);
        assert_eq!(class(window.flush_all()), ErrorClass::RmaSync);
        assert_eq!(class(window.unlock_all()), ErrorClass::RmaSync);
        assert_eq!(class(window.complete()), ErrorClass::RmaSync);
        assert_eq!(class(window.wait()), ErrorClass::RmaSync);
        assert_eq!(class(window.lock(LockKind::Shared, 2)), ErrorClass::Rank);

        window.fence().unwrap();
        window.lock(LockKind::Shared, 1).unwrap();
        assert_eq!(class(window.lock(LockKind::Shared, 1)), ErrorClass::RmaSync);
        assert_eq!(class(window.lock_all()), ErrorClass::RmaSync);
        assert_eq!(class(window.fence()), ErrorClass::RmaSync);
        assert_eq!(class(window.free()), ErrorClass::RmaSync);
        assert_eq!(class(put(&window, &room, 0, 0)), ErrorClass::RmaSync);
        assert_eq!(class(put(&window, &room, 5, 0)), ErrorClass::Rank);
        assert_eq!(class(put(&window, &room, 1, -1)), ErrorClass::Disp);
        assert_eq!(put(&window, &room, PROC_NULL, 1_000), Ok(()));
        // 25 units of 4 bytes: 8 bytes fit at 23, not at 24.
        assert_eq!(put(&window, &room, 1, 23), Ok(()));
        for place in [24, 25, i64::MAX] {
            assert_eq!(class(put(&window, &room, 1, place)), ErrorClass::RmaRange);
            assert_eq!(class(get(&window, &mut room, 1, place)), ErrorClass::RmaRange);
        }
        let (long, odd) = (Datatype::predefined(Kind::I64), Datatype::predefined(Kind::F64));
        let origin = operands(&room, &long);
        // SAFETY: nothing of all this begins.
        unsafe {
            let negative = Datatype::indexed(&[1], &[-1], &long).unwrap();
            assert_eq!(
                class(window.put(&origin, &at(1, 1, 1, &negative))),
                ErrorClass::RmaRange
            );
            assert_eq!(class(window.put(&origin, &at(1, 0, 2, &long))), ErrorClass::Count);
            assert_eq!(
                class(window.accumulate(&origin, &at(1, 0, 1, &odd), &SUM)),
                ErrorClass::Type
            );
            let and = Operation::predefined(Predefined::Band);
            let doubles = operands(&room, &odd);
            assert_eq!(
                class(window.accumulate(&doubles, &at(1, 0, 1, &odd), &and)),
                ErrorClass::Op
            );
            // No elements are of no kind.
            let none = Operands {
                count: 0,
                ..operands(&room, &odd)
            };
            assert_eq!(window.accumulate(&none, &at(1, 0, 0, &odd), &and), Ok(()));
            let user = Operation::user(true, |_, _, _, _| {});
            assert_eq!(
                class(window.accumulate(&origin, &at(1, 0, 1, &long), &user)),
                ErrorClass::Op
            );
            let place = room.as_mut_ptr();
            let swapped = window.compare_and_swap(place, place, place, Kind::F64, (1, 0));
            assert_eq!(class(swapped), ErrorClass::Type);
        }
        window.unlock(1).unwrap();
        assert_eq!(class(put(&window, &room, 1, 0)), ErrorClass::RmaSync);
        window.free().unwrap();
        assert_eq!(class(window.fence()), ErrorClass::Win);
        assert_eq!(class(put(&window, &room, 1, 0)), ErrorClass::Win);
        // A rank with wrong arguments gets an error that says so; the others, that there is no window.
        let wrong = Window::allocate(&comm, 8, comm.rank() as u32).unwrap_err();
        assert_eq!(
            wrong.class(),
            [ErrorClass::Size, ErrorClass::Other][comm.rank() as usize]
        );
        comm.barrier().unwrap();
        assert_eq!(comm.engine().window_stats().malformed, 0);
    });
}

/// Synchronises two ranks, whatever has become of the others.
fn meet(comm: &Communicator, other: i32) {
    super::messages::send(comm, &[1], other, 0).unwrap();
    super::messages::receive(comm, &mut [0], other, 0).unwrap();
}

#[test]
fn a_lost_process_ends_what_waits_for_it() {
    processes("udp", 3, &options(), |comm| {
        let window = Window::allocate(&comm, 1_000_000, 1).unwrap();
        let class = |result: Result<(), Error>| result.unwrap_err().class();
        if comm.rank() == 2 {
            window.lock(LockKind::Exclusive, 0).unwrap();
            window.lock(LockKind::Shared, 1).unwrap();
            comm.barrier().unwrap();
            // It ends without unlocking the two windows that it has locked.
            comm.engine().finalize(Duration::from_secs(2)).unwrap();
            return;
        }
        comm.barrier().unwrap();
        // Both wait for locks of the lost process, and get them.
        window.lock(LockKind::Exclusive, 0).unwrap();
        window.lock(LockKind::Exclusive, 1).unwrap();
        let data = pattern(1_000_000, 1);
        assert_eq!(class(window.lock(LockKind::Shared, 2)), ErrorClass::ProcFailed);
        window.unlock(0).unwrap();
        window.unlock(1).unwrap();
        // Even while the other process still collects its locks: both request them in the order of ranks.
        assert_eq!(class(window.lock_all()), ErrorClass::ProcFailed);
        let lost = comm.group().incl(&[2]).unwrap();
        assert_eq!(class(window.start(&lost)), ErrorClass::ProcFailed);
        window.post(&lost).unwrap();
        assert_eq!(class(window.wait()), ErrorClass::ProcFailed);
        // The window still works between the remaining processes.
        let other = 1 - comm.rank();
        window.lock(LockKind::Exclusive, other).unwrap();
        put(&window, &data, other, 0).unwrap();
        window.unlock(other).unwrap();
        meet(&comm, other);
        drop(window);
        comm.engine().finalize(Duration::from_secs(2)).unwrap();
    });
}

#[test]
fn threads_share_a_window() {
    if !THREADS {
        return;
    }
    job(2, |comm| {
        let window = Window::allocate(&comm, 80_000, 1).unwrap();
        window.lock_all().unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4_i64 {
                let (window, other) = (&window, 1 - comm.rank());
                scope.spawn(move || {
                    let data = pattern(10_000, thread as usize);
                    let mut back = vec![0; 10_000];
                    for _ in 0..10 {
                        put(window, &data, other, thread * 10_000).unwrap();
                        window.flush(other).unwrap();
                        get(window, &mut back, other, thread * 10_000).unwrap();
                        window.flush(other).unwrap();
                        assert!(back == data);
                        fetch_and_add(window, 1, other, 40_000);
                    }
                });
            }
        });
        window.unlock_all().unwrap();
        comm.barrier().unwrap();
        assert_eq!(bytes(&window, 40_008)[40_000..], 40_i64.to_ne_bytes());
        window.free().unwrap();
    });
}

#[test]
fn memory_of_the_caller() {
    job(2, |comm: Communicator| {
        let mut memory = pattern(5_000, comm.rank() as usize);
        // SAFETY: `memory` lives until the window is freed, and is accessed between fences only.
        let window = unsafe { Window::create(&comm, memory.as_mut_ptr(), 5_000, 1) }.unwrap();
        let own = window.shared_query(comm.rank()).unwrap();
        assert_eq!(own, (memory.as_mut_ptr(), 5_000, 1));
        assert_eq!(
            window.shared_query(1 - comm.rank()).unwrap(),
            (std::ptr::null_mut(), 0, 1)
        );
        assert_eq!(
            window.shared_query(PROC_NULL),
            window.shared_query(0),
            "the first that is not empty"
        );
        window.fence().unwrap();
        let mut back = vec![0; 5_000];
        get(&window, &mut back, 1 - comm.rank(), 0).unwrap();
        window.fence().unwrap();
        assert!(back == pattern(5_000, 1 - comm.rank() as usize));
        // Dropping frees the window without synchronising.
        comm.barrier().unwrap();
        drop(window);
        memory.clear();
    });
}
