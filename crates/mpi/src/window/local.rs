//! A process's own memory of a window.

use std::{
    ops::{Deref, DerefMut},
    slice,
};

use hikyaku::mpi::error::{Detail, Error, ErrorClass};

use super::{LockKind, Window};
use crate::datatype::{Equivalence, Validator};

/// The elements of this process, while no other process reads or writes them. Processes that lock them wait until it is
/// dropped.
///
/// A program cannot look at memory that others might write without it:
///
/// ```compile_fail,E0502
/// use mpi::{traits::*, window::Window};
///
/// let universe = mpi::initialize().unwrap();
/// let mut window = Window::<u64>::allocate(&universe.world(), 4).unwrap();
/// let local = window.local().unwrap();
/// window.fence(|_| Ok(())).unwrap();
/// println!("{}", local[0]);
/// ```
///
/// Nor can it do so after the window:
///
/// ```compile_fail,E0505
/// use mpi::{traits::*, window::Window};
///
/// let universe = mpi::initialize().unwrap();
/// let mut window = Window::<u64>::allocate(&universe.world(), 4).unwrap();
/// let local = window.local().unwrap();
/// window.free().unwrap();
/// println!("{}", local[0]);
/// ```
#[derive(Debug)]
pub struct Local<'w, T: Equivalence> {
    window: &'w Window<T>,
}

const CALL: &str = "MPI_Win_lock";

impl<T: Equivalence> Window<T> {
    /// Locks the elements of this process for this process alone, and returns them. Waits until no other process holds
    /// the lock.
    ///
    /// # Errors
    /// See the type; the window is [posted](Self::post), or a fence has failed.
    pub fn local(&mut self) -> Result<Local<'_, T>, Error> {
        // Epochs borrow the window, so none is open here; but an exposure may have been forgotten.
        self.enter(CALL, |state| !state.astray && !state.exposed, |_| ())?;
        let own = self.window.communicator().rank();
        self.window.lock(LockKind::Exclusive, own)?;
        // Gives it back in any case from here on.
        let local = Local { window: self };
        let communicator = self.window.communicator();
        let lost = communicator.engine().lost();
        if let Some(rank) = lost.iter().find_map(|process| communicator.group().rank_of(*process)) {
            let detail = Detail::Text("it may not know that it is lost, and still write here");
            return Err(Error::new(ErrorClass::ProcFailed, CALL)
                .with_detail(detail)
                .with_peer(rank));
        }
        self.window.settle()?;
        if let Some(validator) = Validator::of(local.base(), self.len) {
            // SAFETY: no other code uses the memory (see the module), and no reference has been given out.
            unsafe { validator.run() };
        }
        Ok(local)
    }
}

impl<T: Equivalence> Local<'_, T> {
    fn base(&self) -> *mut T {
        self.window.window.base().cast()
    }
}

impl<T: Equivalence> Deref for Local<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the window has so many elements there, aligned to 8, which is enough for `T`; all zero or what has
        // been received, made valid; and no code writes them (see the module).
        unsafe { slice::from_raw_parts(self.base(), self.window.len) }
    }
}

impl<T: Equivalence> DerefMut for Local<'_, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above; and no code reads them.
        unsafe { slice::from_raw_parts_mut(self.base(), self.window.len) }
    }
}

impl<T: Equivalence> Drop for Local<'_, T> {
    fn drop(&mut self) {
        // It only fails with the network.
        let _ = self.window.window.unlock(self.window.window.communicator().rank());
    }
}
