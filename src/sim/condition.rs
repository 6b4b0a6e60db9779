#![expect(unsafe_code, reason = "what a program waits for lies on its stack")]
//! What a program waits for, looked at without going on with the program.

use std::{mem::transmute, ptr::NonNull};

use super::world::Node;

type Done<'a> = dyn FnMut(&mut Node) -> bool + 'a;

/// A closure on the stack of a program that is suspended.
pub(super) struct Condition(NonNull<Done<'static>>);

// SAFETY: it is made and called in the thread of the simulation only; others can at most drop it, which does nothing.
unsafe impl Send for Condition {}

impl Condition {
    /// # Safety
    /// It is called at most until the program that calls this goes on, and that program has nothing to do with `done`
    /// meanwhile.
    pub(super) unsafe fn new(done: &mut Done<'_>) -> Self {
        // SAFETY: only the lifetime changes; the caller's contract.
        Self(unsafe { transmute::<NonNull<Done<'_>>, NonNull<Done<'static>>>(NonNull::from(done)) })
    }

    /// The program may go on.
    pub(super) fn is_met(&mut self, node: &mut Node) -> bool {
        // SAFETY: the program is suspended, so the closure is where it was (programs that never go on keep their stacks), and
        // nobody else uses it: the contract of `new`.
        unsafe { self.0.as_mut()(node) }
    }
}
