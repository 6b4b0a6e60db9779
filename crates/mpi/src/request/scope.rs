#![expect(unsafe_code, reason = "scopes answer for the buffers of their requests")]
//! Scopes: a request ends before its scope does.

use std::{cell::Cell, cell::RefCell, marker::PhantomData};

use super::running::Running;

/// The place of a request's operation: in the request, or in its scope.
#[derive(Debug)]
pub enum Held {
    /// In the request.
    Here(Running),
    /// In the scope's table.
    There(usize),
}

/// A scope for requests with buffers borrowed for `'a`: they end before it does.
///
/// # Safety
/// An operation that was [adopted](Self::adopt) ends before `'a` does, or is never dropped.
pub unsafe trait Scope<'a> {
    /// Takes charge of an operation.
    #[doc(hidden)]
    fn adopt(&self, running: Running) -> Held;

    /// Gives the operation to `f`.
    #[doc(hidden)]
    fn with(&self, held: &mut Held, f: &mut dyn FnMut(&mut Running));

    /// Returns an operation that has ended, or that moves to another scope.
    #[doc(hidden)]
    fn release(&self, held: Held) -> Option<Running>;
}

/// The scope of requests whose buffers live for ever, or that have none.
///
/// ```
/// use mpi::{request::StaticScope, traits::*};
///
/// static LETTER: i32 = 7;
/// let universe = mpi::initialize().unwrap();
/// let world = universe.world();
/// let myself = world.this_process();
/// let request = myself.immediate_send(StaticScope, &LETTER);
/// assert_eq!(myself.receive::<i32>().unwrap().0, 7);
/// request.wait().unwrap();
/// ```
#[derive(Clone, Copy, Debug)]
pub struct StaticScope;

// SAFETY: buffers borrowed for ever stay where they are; if the request is dropped, no code can reach a buffer that was
// borrowed mutably any more.
unsafe impl Scope<'static> for StaticScope {
    fn adopt(&self, running: Running) -> Held {
        Held::Here(running)
    }

    fn with(&self, held: &mut Held, f: &mut dyn FnMut(&mut Running)) {
        if let Held::Here(running) = held {
            f(running);
        }
    }

    fn release(&self, held: Held) -> Option<Running> {
        match held {
            Held::Here(running) => Some(running),
            Held::There(_) => None,
        }
    }
}

/// A scope that [`scope`] has opened. It keeps the operations of its requests, and does not end before they have ended.
#[derive(Debug)]
pub struct LocalScope<'a> {
    table: RefCell<Vec<Option<Running>>>,
    free: RefCell<Vec<usize>>,
    /// Invariant: a scope for long borrows must not pass for a scope for short ones.
    borrows: PhantomData<Cell<&'a ()>>,
}

impl LocalScope<'_> {
    pub(super) fn new() -> Self {
        Self {
            table: RefCell::default(),
            free: RefCell::default(),
            borrows: PhantomData,
        }
    }
}

// SAFETY: a `LocalScope` is made by `scope` and `multiple_scope` only, on their stack, and lent to the closure by
// shared reference: it can be neither moved nor forgotten by the closure, so its drop runs before those functions are
// left, which is before `'a` ends; and it waits for all operations in its table.
unsafe impl<'a> Scope<'a> for &LocalScope<'a> {
    fn adopt(&self, running: Running) -> Held {
        let mut table = self.table.borrow_mut();
        Held::There(match self.free.borrow_mut().pop() {
            Some(index) => {
                table[index] = Some(running);
                index
            }
            None => {
                table.push(Some(running));
                table.len() - 1
            }
        })
    }

    fn with(&self, held: &mut Held, f: &mut dyn FnMut(&mut Running)) {
        if let Held::There(index) = held
            && let Some(running) = &mut self.table.borrow_mut()[*index]
        {
            f(running);
        }
    }

    fn release(&self, held: Held) -> Option<Running> {
        let Held::There(index) = held else { return None };
        self.free.borrow_mut().push(index);
        self.table.borrow_mut()[index].take()
    }
}

impl Drop for LocalScope<'_> {
    fn drop(&mut self) {
        end_all(self.table.get_mut().iter_mut().flatten());
    }
}

/// Cancels the operations that can be cancelled, and waits for all.
pub(super) fn end_all<'r>(running: impl Iterator<Item = &'r mut Running>) {
    let left: Vec<_> = running.collect();
    for running in &left {
        running.cancel();
    }
    for running in left {
        running.wait_quietly();
    }
}

/// Calls `f` with a scope for requests. Buffers that outlive this call can be lent to the requests; all requests have
/// ended when it returns.
///
/// A request that the program neither waits for nor gives to a [`WaitGuard`](super::WaitGuard), but drops or forgets,
/// is cancelled at the end of the scope if it is a receive without a message, and waited for otherwise.
///
/// ```
/// use mpi::traits::*;
///
/// let universe = mpi::initialize().unwrap();
/// let world = universe.world();
/// let myself = world.this_process();
/// let (sent, mut received) = (7, 0);
/// mpi::request::scope(|scope| {
///     let sending = myself.immediate_send(scope, &sent);
///     let receiving = myself.immediate_receive_into(scope, &mut received);
///     sending.wait()?;
///     receiving.wait()
/// })?;
/// assert_eq!(received, sent);
/// # Ok::<_, mpi::Error>(())
/// ```
///
/// A buffer must outlive the scope:
///
/// ```compile_fail,E0597
/// use mpi::traits::*;
///
/// let universe = mpi::initialize().unwrap();
/// let world = universe.world();
/// let myself = world.this_process();
/// mpi::request::scope(|scope| {
///     let letter = vec![1, 2, 3];
///     myself.immediate_send(scope, &letter).wait()
/// });
/// ```
///
/// A request cannot leave the scope:
///
/// ```compile_fail
/// use mpi::traits::*;
///
/// let universe = mpi::initialize().unwrap();
/// let world = universe.world();
/// let myself = world.this_process();
/// let letter = vec![1, 2, 3];
/// let request = mpi::request::scope(|scope| myself.immediate_send(scope, &letter));
/// ```
///
/// The program cannot touch a receive buffer meanwhile:
///
/// ```compile_fail,E0499
/// use mpi::traits::*;
///
/// let universe = mpi::initialize().unwrap();
/// let world = universe.world();
/// let myself = world.this_process();
/// let mut letter = vec![1, 2, 3];
/// mpi::request::scope(|scope| {
///     let receiving = myself.immediate_receive_into(scope, &mut letter);
///     letter.push(4);
///     receiving.wait()
/// });
/// ```
///
/// It cannot even if it has forgotten the request, because the scope has it:
///
/// ```compile_fail,E0505
/// use mpi::traits::*;
///
/// let universe = mpi::initialize().unwrap();
/// let world = universe.world();
/// let myself = world.this_process();
/// let mut letter = vec![1, 2, 3];
/// mpi::request::scope(|scope| {
///     std::mem::forget(myself.immediate_receive_into(scope, &mut letter));
///     drop(letter);
/// });
/// ```
pub fn scope<'a, F, R>(f: F) -> R
where
    F: FnOnce(&LocalScope<'a>) -> R,
{
    f(&LocalScope::new())
}
