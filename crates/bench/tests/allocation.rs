//! The counting allocator, in a process whose other threads allocate next to nothing.

use hikyaku_bench::machine::allocation::{Counting, heap_of};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn what_stays_is_counted() {
    let (kept, bytes) = heap_of(|| {
        drop(vec![0_u8; 50 << 20]);
        vec![1_u8; 10 << 20]
    });
    assert_eq!(kept.len(), 10 << 20);
    assert!((10 << 20..11 << 20).contains(&bytes), "{bytes}");
}
