//! Windows whose memory ranks of one host have in common.

use std::sync::atomic::{AtomicU64, Ordering};

use hikyaku::mpi::{
    datatype::{Datatype, Kind},
    engine::{Communicator, LockKind, Operands, PROC_NULL, Target, Window},
    error::ErrorClass,
    operation::{Operation, Predefined},
};

use super::support::{byte, job, pattern};

const SUM: Operation = Operation::predefined(Predefined::Sum);

/// The bytes at an address of shared memory.
fn seen(at: *mut u8, len: usize) -> Vec<u8> {
    // SAFETY: called after a synchronisation, when nobody writes.
    unsafe { std::slice::from_raw_parts(at, len) }.to_vec()
}

/// A put has ended when the call returns: the target need not take part, and is in no call of MPI.
#[test]
fn a_put_needs_no_part_of_the_target() {
    // Rank 2 reaches no other through memory.
    job(3, |world| {
        let window = Window::allocate(&world, 4096, 1).unwrap();
        assert!(window.base().addr().is_multiple_of(8));
        let (byte, data) = (byte(), pattern(3000, 7));
        window.fence().unwrap();
        if world.rank() == 0 {
            for rank in [0, 1, 2] {
                let target = Target {
                    rank,
                    displacement: 100,
                    count: 3000,
                    datatype: &byte,
                };
                let origin = Operands {
                    base: data.as_ptr().cast_mut(),
                    count: 3000,
                    datatype: &byte,
                };
                // SAFETY: `data` stays until the fence.
                unsafe { window.put(&origin, &target) }.unwrap();
            }
            // What goes through memory has ended.
            assert_eq!(seen(window.base().wrapping_add(100), 3000), data);
            assert!(world.engine().window_stats().served == 0);
        }
        window.fence().unwrap();
        assert_eq!(seen(window.base().wrapping_add(100), 3000), data);
        window.free().unwrap();
    });
}

/// Accumulates and swaps are atomics of the CPU if all ranks share the memory, whatever the element: none is lost, and
/// no rank serves another.
#[test]
fn changes_need_no_part_of_the_target() {
    const EACH: usize = 2_000;
    job(2, |world| {
        let window = Window::allocate(&world, 64, 1).unwrap();
        window.fence().unwrap();
        for kind in [Kind::I8, Kind::U16, Kind::I32, Kind::U64, Kind::F32, Kind::F64] {
            let datatype = Datatype::predefined(kind);
            let one: &[u8] = match kind {
                Kind::F32 => &1_f32.to_ne_bytes(),
                Kind::F64 => &1_f64.to_ne_bytes(),
                _ => &1_u64.to_le_bytes(),
            };
            let origin = Operands {
                base: one.as_ptr().cast_mut(),
                count: 1,
                datatype: &datatype,
            };
            let target = Target {
                rank: 0,
                displacement: 8,
                count: 1,
                datatype: &datatype,
            };
            world.barrier().unwrap();
            for _ in 0..EACH {
                // SAFETY: `one` stays until the call has returned, and so does the operation end.
                unsafe { window.accumulate(&origin, &target, &SUM) }.unwrap();
            }
            world.barrier().unwrap();
            let mut sum = [0; 8];
            let result = Operands {
                base: sum.as_mut_ptr(),
                count: 1,
                datatype: &datatype,
            };
            let none = Operation::predefined(Predefined::NoOp);
            // SAFETY: `sum` stays, as above.
            unsafe { window.get_accumulate(None, &result, &target, &none) }.unwrap();
            let sum = match kind {
                Kind::F32 => f64::from(f32::from_ne_bytes(*sum.first_chunk().unwrap())),
                Kind::F64 => f64::from_ne_bytes(sum),
                Kind::I8 => f64::from(sum[0]),
                _ => u64::from_le_bytes(sum) as f64,
            };
            let all = (2 * EACH) as f64;
            assert_eq!(sum, if kind == Kind::I8 { all % 256.0 } else { all }, "{kind:?}");
            world.barrier().unwrap();
            // Back to nothing: one swaps, as no one else does.
            if world.rank() == 1 {
                let zero = [0_u8; 8];
                let origin = Operands {
                    base: zero.as_ptr().cast_mut(),
                    ..origin
                };
                let replace = Operation::predefined(Predefined::Replace);
                // SAFETY: as above.
                unsafe { window.accumulate(&origin, &target, &replace) }.unwrap();
            }
        }
        let served = world.engine().window_stats().served;
        assert_eq!(served, 0, "ranks change elements themselves");
        window.fence().unwrap();
        window.free().unwrap();
    });
}

/// Elements that lie apart on either side, with runs that do not fit each other.
#[test]
fn scattered_elements_are_copied() {
    job(2, |world| {
        let window = Window::allocate(&world, 10_000, 1).unwrap();
        let threes = Datatype::vector(100, 3, 7, &byte()).unwrap();
        let fives = Datatype::vector(60, 5, 11, &byte()).unwrap();
        assert_eq!(threes.size(), fives.size());
        let data = pattern(1000, 3);
        let other = 1 - world.rank();
        window.fence().unwrap();
        let target = Target {
            rank: other,
            displacement: 17,
            count: 1,
            datatype: &fives,
        };
        let operands = |base: *const u8, datatype| Operands {
            base: base.cast_mut(),
            count: 1,
            datatype,
        };
        // SAFETY: `data` stays until the fence.
        unsafe { window.put(&operands(data.as_ptr(), &threes), &target) }.unwrap();
        window.fence().unwrap();
        let there = seen(window.base(), 1000);
        let packed: Vec<u8> = (0..100).flat_map(|row| data[row * 7..][..3].to_vec()).collect();
        let placed: Vec<u8> = (0..60).flat_map(|row| there[17 + row * 11..][..5].to_vec()).collect();
        assert_eq!(placed, packed);
        assert_eq!((there[16], there[22]), (0, 0));
        let mut back = vec![0; 1000];
        // SAFETY: `back` stays, and is not used until the fence.
        unsafe { window.get(&operands(back.as_mut_ptr(), &threes), &target) }.unwrap();
        window.fence().unwrap();
        let got: Vec<u8> = (0..100).flat_map(|row| back[row * 7..][..3].to_vec()).collect();
        assert_eq!((got, back[3]), (packed, 0));
        window.free().unwrap();
    });
}

#[test]
fn epochs_and_ranges_hold_for_copies_too() {
    job(2, |world| {
        let window = Window::allocate(&world, 64, 1).unwrap();
        let (byte, data) = (byte(), [1_u8; 8]);
        let put = |displacement| {
            let target = Target {
                rank: 1,
                displacement,
                count: 8,
                datatype: &byte,
            };
            let origin = Operands {
                base: data.as_ptr().cast_mut(),
                count: 8,
                datatype: &byte,
            };
            // SAFETY: `data` stays.
            unsafe { window.put(&origin, &target) }
        };
        assert_eq!(put(0).unwrap_err().class(), ErrorClass::RmaSync);
        window.lock(LockKind::Shared, 1).unwrap();
        assert_eq!(put(57).unwrap_err().class(), ErrorClass::RmaRange);
        put(56).unwrap();
        window.flush(1).unwrap();
        window.unlock(1).unwrap();
        world.barrier().unwrap();
        window.free().unwrap();
        assert_eq!(put(0).unwrap_err().class(), ErrorClass::Win);
    });
}

/// Accumulates are done by the target, whoever calls: none is lost.
#[test]
fn accumulates_of_all_ranks_are_atomic() {
    const EACH: i64 = 200;
    job(4, |world| {
        let window = Window::allocate(&world, 8, 8).unwrap();
        window.lock_all().unwrap();
        let (one, mut was) = ([1_i64], [0_i64]);
        for _ in 0..EACH {
            let (origin, result) = (one.as_ptr().cast(), was.as_mut_ptr().cast());
            // SAFETY: both stay until the flush.
            unsafe { window.fetch_and_op(origin, result, Kind::I64, (0, 0), &SUM) }.unwrap();
            window.flush(0).unwrap();
        }
        window.unlock_all().unwrap();
        world.barrier().unwrap();
        if world.rank() == 0 {
            let total = i64::from_ne_bytes(seen(window.base(), 8).try_into().unwrap());
            assert_eq!(total, EACH * i64::from(world.size()));
        }
        window.free().unwrap();
    });
}

fn shared(world: &Communicator, len: u64) -> Window {
    Window::allocate_shared(world, len, 1).unwrap()
}

#[test]
fn parts_of_a_shared_window_lie_one_behind_the_other() {
    job(4, |world| {
        let rank = world.rank();
        // Rank 0 has nothing.
        let window = shared(&world, rank as u64 * 10);
        let parts: Vec<_> = (0..4).map(|rank| window.shared_query(rank).unwrap()).collect();
        let (mut begins, first) = (0, parts[0].0);
        for (rank, &(base, len, unit)) in parts.iter().enumerate() {
            assert_eq!((base, len, unit), (first.wrapping_add(begins), rank as u64 * 10, 1));
            begins += rank * 10;
        }
        assert_eq!(window.base(), parts[rank as usize].0);
        assert_eq!(window.shared_query(PROC_NULL).unwrap(), parts[1]);
        assert_eq!(window.shared_query(4).unwrap_err().class(), ErrorClass::Rank);
        window.lock_all().unwrap();
        // Each writes into the part of the next.
        let next = (rank + 1) % 4;
        let (base, len, _) = parts[next as usize];
        for at in 0..len as usize {
            // SAFETY: the place lies in the window, and nobody else writes there.
            unsafe { base.wrapping_add(at).write(rank as u8 + 1) };
        }
        window.sync().unwrap();
        world.barrier().unwrap();
        window.sync().unwrap();
        let (base, len, _) = parts[rank as usize];
        assert_eq!(seen(base, len as usize), vec![(rank as u8 + 3) % 4 + 1; len as usize]);
        window.unlock_all().unwrap();
        window.free().unwrap();
        assert_eq!(window.shared_query(0).unwrap_err().class(), ErrorClass::Win);
    });
}

/// Puts, gets, accumulates and the program's own atomics see the same memory.
#[test]
fn operations_and_loads_meet_in_a_shared_window() {
    job(3, |world| {
        let window = shared(&world, 8);
        let (base, ..) = window.shared_query(0).unwrap();
        // SAFETY: aligned (it begins a page), mapped until the window is freed, and used by atomics only.
        let counter = unsafe { AtomicU64::from_ptr(base.cast()) };
        for _ in 0..1000 {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        world.barrier().unwrap();
        assert_eq!(counter.load(Ordering::Relaxed), 3000);
        window.lock(LockKind::Shared, 0).unwrap();
        let (datatype, mut got) = (Datatype::predefined(Kind::U64), [0_u64]);
        let target = Target {
            rank: 0,
            displacement: 0,
            count: 1,
            datatype: &datatype,
        };
        let result = Operands {
            base: got.as_mut_ptr().cast(),
            count: 1,
            datatype: &datatype,
        };
        // SAFETY: `got` stays, and is used after the unlock.
        unsafe { window.get(&result, &target) }.unwrap();
        window.unlock(0).unwrap();
        assert_eq!(got, [3000]);
        world.barrier().unwrap();
        window.free().unwrap();
    });
}

#[test]
fn all_windows_but_dynamic_ones_are_asked_where_they_are() {
    job(2, |world| {
        let window = Window::allocate(&world, 8, 1).unwrap();
        let (base, len, unit) = window.shared_query(0).unwrap();
        // A window that is allocated lies in memory of all ranks of the host.
        assert_eq!((base.is_null(), len, unit), (false, 8, 1));
        window.free().unwrap();
        let window = Window::create_dynamic(&world).unwrap();
        assert_eq!(window.shared_query(0).unwrap_err().class(), ErrorClass::RmaFlavor);
        window.free().unwrap();
    });
}
