#![expect(unsafe_code, reason = "what a program waits for lies on its stack")]
//! The condition that a suspended program waits for, which is checked without resuming the program.

use std::{mem::transmute, ptr::NonNull};

type Done<'a, N> = dyn FnMut(&mut N) -> bool + 'a;

/// A closure on the stack of a suspended program, which looks at its node, an `N`.
pub(super) struct Condition<N: 'static>(NonNull<Done<'static, N>>);

// SAFETY: it is made and called in the thread of the simulation only; other threads can at most drop it, which does
// nothing.
unsafe impl<N> Send for Condition<N> {}

impl<N> Condition<N> {
    /// # Safety
    /// It is called only until the calling program is resumed, and until then that program does not use `done`.
    pub(super) unsafe fn new(done: &mut Done<'_, N>) -> Self {
        // SAFETY: only the lifetime changes, which the caller's contract covers.
        Self(unsafe { transmute::<NonNull<Done<'_, N>>, NonNull<Done<'static, N>>>(NonNull::from(done)) })
    }

    /// Whether the program may go on.
    pub(super) fn is_met(&mut self, node: &mut N) -> bool {
        // SAFETY: the program is suspended, so the closure is where it was (programs that are never resumed keep their
        // stacks), and no other code uses it: the contract of `new`.
        unsafe { self.0.as_mut()(node) }
    }
}
