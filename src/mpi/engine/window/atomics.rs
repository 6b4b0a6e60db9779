#![expect(unsafe_code, reason = "window memory is reached by addresses")]
//! Accumulates and swaps as atomics of the CPU, in memory that all ranks of a window have in common.
//!
//! All ranks change the same elements in the same way, or they would not be atomic with each other. So this way is taken by
//! all ranks of a window or by none, and whether it is depends on the elements alone: those of 1, 2, 4 and 8 bytes that lie
//! at multiples of their size are changed by whoever calls, all others by the target.

use core::{
    ptr,
    sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering},
};

use super::memory::Elements;
use crate::mpi::{
    datatype::{Datatype, Kind},
    engine::rma::What,
    operation::{Operation, Predefined},
};

/// An element, in the first bytes.
type Element = [u8; 8];

/// The kind of the elements that an operation changes atomically. `None`: it puts or gets.
fn kind_of(what: What) -> Option<Kind> {
    match what {
        What::Accumulate { kind, .. } | What::Swap { kind, .. } => Some(kind),
        What::Put | What::Get => None,
    }
}

/// The addresses of elements that have so many bytes.
fn addresses(of: Elements<'_>, size: u64) -> impl Iterator<Item = *mut u8> + '_ {
    of.datatype.segments(of.count, 0..u64::MAX).flat_map(move |run| {
        let element = move |index: u64| of.base.wrapping_offset((run.offset + (index * size) as i64) as isize);
        (0..run.len / size).map(element)
    })
}

/// Returns whether the CPU can change these elements.
pub(super) fn fits(what: What, there: Elements<'_>) -> bool {
    let Some(kind) = kind_of(what) else { return false };
    let size = kind.size();
    matches!(size, 1 | 2 | 4 | 8)
        && kind.extent() == size
        && there.datatype.segments(there.count, 0..u64::MAX).all(|run| {
            let at = there.base.wrapping_offset(run.offset as isize);
            (at.addr() as u64).is_multiple_of(size) && run.len.is_multiple_of(size)
        })
}

/// Changes the elements `there`, for which this [fits](fits): combines them with those of `origin`, or swaps them.
/// `result` gets the former ones.
///
/// # Safety
/// `there` is memory of a window that all its ranks have in common; the elements of `origin` may be read, and those of
/// `result` be written. All have the same number of elements of the same kind, but for an `origin` that is not needed.
pub(super) unsafe fn apply(
    what: What,
    origin: Option<Elements<'_>>,
    result: Option<Elements<'_>>,
    there: Elements<'_>,
) {
    let Some(kind) = kind_of(what) else { return };
    let size = kind.size();
    let mut origin = origin.map(|origin| addresses(origin, size));
    let mut result = result.map(|result| addresses(result, size));
    for at in addresses(there, size) {
        let mut operand = Element::default();
        if let Some(from) = origin.as_mut().and_then(Iterator::next) {
            // SAFETY: an element of `origin`, of at most 8 bytes.
            unsafe { ptr::copy_nonoverlapping(from, operand.as_mut_ptr(), size as usize) };
        }
        // SAFETY: the caller's contract; it fits.
        let old = unsafe { change(at, size, |old| new_of(what, &operand, old)) };
        if let Some(into) = result.as_mut().and_then(Iterator::next) {
            // SAFETY: an element of `result`, of at most 8 bytes.
            unsafe { ptr::copy_nonoverlapping(old.as_ptr(), into, size as usize) };
        }
    }
}

/// The element that takes the place of `old`, if another one does.
fn new_of(what: What, operand: &Element, old: &Element) -> Option<Element> {
    match what {
        What::Swap {
            operands: [expected, new],
            ..
        } => (expected == *old).then_some(new),
        What::Accumulate {
            operation: Predefined::Replace,
            ..
        } => Some(*operand),
        What::Accumulate {
            operation: Predefined::NoOp,
            ..
        }
        | What::Put
        | What::Get => None,
        What::Accumulate { kind, operation } => {
            let mut new = *old;
            let operation = Operation::predefined(operation);
            let combined = operation.apply(&Datatype::predefined(kind), operand, &mut new, 1);
            combined.is_ok().then_some(new)
        }
    }
}

/// Changes an element of `size` bytes, until nobody else has changed it meanwhile. Returns the old one.
///
/// # Safety
/// There is memory at `at` for as many bytes, which is used by atomics alone while it is changed; `at` is a multiple of
/// `size`, which is 1, 2, 4 or 8.
unsafe fn change(at: *mut u8, size: u64, new_of: impl Fn(&Element) -> Option<Element>) -> Element {
    macro_rules! with {
        ($atomic:ty, $bits:ty) => {{
            // SAFETY: the caller's contract.
            let atomic = unsafe { <$atomic>::from_ptr(at.cast()) };
            let mut old = atomic.load(Ordering::SeqCst);
            loop {
                let mut element = Element::default();
                element[..size_of::<$bits>()].copy_from_slice(&old.to_ne_bytes());
                let Some(new) = new_of(&element) else { return element };
                let new = new.first_chunk().copied().map_or(old, <$bits>::from_ne_bytes);
                match atomic.compare_exchange_weak(old, new, Ordering::SeqCst, Ordering::SeqCst) {
                    Ok(_) => return element,
                    Err(now) => old = now,
                }
            }
        }};
    }
    match size {
        1 => with!(AtomicU8, u8),
        2 => with!(AtomicU16, u16),
        4 => with!(AtomicU32, u32),
        _ => with!(AtomicU64, u64),
    }
}
