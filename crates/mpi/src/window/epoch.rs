//! Epochs: periods in which windows of other processes are accessed, and their operations.

use std::{
    cell::{Cell, RefCell},
    fmt,
    marker::PhantomData,
    mem::MaybeUninit,
    thread,
};

use hikyaku::mpi::{
    Rank,
    engine::{Operands, Request as RawRequest},
    error::{Error, ErrorClass},
};

use super::{LockKind, Window};
use crate::{
    collective::SystemOperation,
    datatype::{Equivalence, RawDatatype, Validator},
    request::{Request, Running, Scope, uninterrupted},
    topology::Group,
};

/// The windows that an epoch may access.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Fence,
    Lock(Rank),
    LockAll,
    Start,
}

/// A period in which windows of other processes are accessed. Its operations own what they borrow until it ends, when
/// all have ended.
///
/// A buffer that is lent to it must outlive the call:
///
/// ```compile_fail,E0597
/// use mpi::{traits::*, window::Window};
///
/// let universe = mpi::initialize().unwrap();
/// let window = Window::<i32>::allocate(&universe.world(), 4).unwrap();
/// window.fence(|epoch| {
///     let news = vec![1, 2];
///     epoch.put(&news, 0, 0)
/// });
/// ```
///
/// The program cannot look at a result before the epoch ends:
///
/// ```compile_fail,E0502
/// use mpi::{traits::*, window::Window};
///
/// let universe = mpi::initialize().unwrap();
/// let window = Window::<i32>::allocate(&universe.world(), 4).unwrap();
/// let mut there = [0; 2];
/// window.fence(|epoch| {
///     epoch.get_into(&mut there, 0, 0)?;
///     println!("{}", there[0]);
///     Ok(())
/// });
/// ```
///
/// The epoch cannot leave the call:
///
/// ```compile_fail
/// use mpi::{traits::*, window::Window};
///
/// let universe = mpi::initialize().unwrap();
/// let window = Window::<i32>::allocate(&universe.world(), 4).unwrap();
/// let mut kept = None;
/// window.fence(|epoch| Ok(kept = Some(epoch)));
/// ```
pub struct Epoch<'w, 'a, T: Equivalence> {
    window: &'w Window<T>,
    kind: Kind,
    ended: Cell<bool>,
    /// Checks of the results, to be made at the end.
    results: RefCell<Vec<Validator>>,
    /// Invariant, like that of a `LocalScope`.
    borrows: PhantomData<Cell<&'a ()>>,
}

impl<T: Equivalence> fmt::Debug for Epoch<'_, '_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Epoch")
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

/// Epochs. An epoch has ended when its method returns, together with all its operations; also if the closure panics.
impl<T: Equivalence> Window<T> {
    /// Opens an epoch of all processes, collectively: between two fences (`MPI_Win_fence`). After it, all processes see
    /// the results of its operations.
    ///
    /// # Errors
    /// See the type; the error of the closure; an operation has failed at the end.
    pub fn fence<'a, R>(&self, f: impl FnOnce(&Epoch<'_, 'a, T>) -> Result<R, Error>) -> Result<R, Error> {
        let may = |state: &super::State| !(state.fenced || state.started || state.exposed || state.locks > 0);
        self.enter("MPI_Win_fence", may, |state| {
            (state.fenced, state.astray) = (true, true)
        })?;
        if let Err(error) = self.window.fence() {
            self.state().fenced = false;
            return Err(error);
        }
        self.during(Kind::Fence, f)
    }

    /// Opens an epoch in which the window of one rank is locked: for this process alone, or shared with others
    /// (`MPI_Win_lock`). Waits for other processes that hold the lock.
    ///
    /// # Errors
    /// See the type; this process has locked the rank already; the error of the closure; an operation has failed at the
    /// end.
    pub fn lock<'a, R>(
        &self,
        kind: LockKind,
        rank: Rank,
        f: impl FnOnce(&Epoch<'_, 'a, T>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.enter_locks("MPI_Win_lock")?;
        self.window.lock(kind, rank).inspect_err(|_| self.state().locks -= 1)?;
        self.during(Kind::Lock(rank), f)
    }

    /// Opens an epoch in which the windows of all ranks are locked, shared with others (`MPI_Win_lock_all`).
    ///
    /// # Errors
    /// See the type; this process has locked a rank already; the error of the closure; an operation has failed at the
    /// end.
    pub fn lock_all<'a, R>(&self, f: impl FnOnce(&Epoch<'_, 'a, T>) -> Result<R, Error>) -> Result<R, Error> {
        self.enter_locks("MPI_Win_lock_all")?;
        self.window.lock_all().inspect_err(|_| self.state().locks -= 1)?;
        self.during(Kind::LockAll, f)
    }

    fn enter_locks(&self, call: &'static str) -> Result<(), Error> {
        self.enter(call, |state| !(state.fenced || state.started), |state| state.locks += 1)
    }

    /// Opens an epoch in which the windows of a group are accessed, each once its process has [posted](Self::post) it
    /// (`MPI_Win_start`, `MPI_Win_complete`).
    ///
    /// # Errors
    /// See the type; a process does not have the window; the error of the closure; an operation has failed at the end.
    pub fn start<'a, R>(
        &self,
        group: &dyn Group,
        f: impl FnOnce(&Epoch<'_, 'a, T>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let may = |state: &super::State| !(state.fenced || state.started || state.locks > 0);
        self.enter("MPI_Win_start", may, |state| state.started = true)?;
        let started = self.window.start(&group.as_raw());
        started.inspect_err(|_| self.state().started = false)?;
        self.during(Kind::Start, f)
    }

    /// Lets the processes of a group access this process's window, each in one [`start`](Self::start) (`MPI_Win_post`).
    ///
    /// # Errors
    /// See the type; a process does not have the window.
    pub fn post(&self, group: &dyn Group) -> Result<Exposure<'_, T>, Error> {
        let may = |state: &super::State| !(state.fenced || state.exposed);
        self.enter("MPI_Win_post", may, |state| state.exposed = true)?;
        let posted = self.window.post(&group.as_raw());
        posted.inspect_err(|_| self.state().exposed = false)?;
        Ok(Exposure {
            window: self,
            waits: true,
        })
    }

    fn during<'a, R>(&self, kind: Kind, f: impl FnOnce(&Epoch<'_, 'a, T>) -> Result<R, Error>) -> Result<R, Error> {
        let epoch = Epoch {
            window: self,
            kind,
            ended: Cell::new(false),
            results: RefCell::default(),
            borrows: PhantomData,
        };
        let result = f(&epoch);
        let ended = epoch.end();
        let result = result?;
        ended.map(|()| result)
    }
}

impl<'a, T: Equivalence> Epoch<'_, 'a, T> {
    /// Writes elements to the window of a rank, from `displacement` on (`MPI_Put`).
    ///
    /// # Errors
    /// See [`Window`].
    pub fn put(&self, elements: &'a [T], rank: Rank, displacement: usize) -> Result<(), Error> {
        self.check("MPI_Put", rank)?;
        let datatype = Window::<T>::datatype();
        let target = Window::<T>::target(&datatype, rank, displacement, elements.len());
        // SAFETY: borrowed for `'a`, and the epoch ends the operation before that.
        unsafe { self.window.window.put(&from(elements, &datatype), &target) }
    }

    /// Reads elements of the window of a rank, from `displacement` on (`MPI_Get`). The result is valid after the epoch.
    ///
    /// # Errors
    /// See [`Window`].
    pub fn get_into(&self, result: &'a mut [T], rank: Rank, displacement: usize) -> Result<(), Error> {
        self.check("MPI_Get", rank)?;
        let datatype = Window::<T>::datatype();
        let target = Window::<T>::target(&datatype, rank, displacement, result.len());
        let operands = into(result, &datatype);
        self.expect(result);
        // SAFETY: borrowed mutably for `'a`, and the epoch ends the operation before that.
        unsafe { self.window.window.get(&operands, &target) }
    }

    /// Combines elements with those of the window of a rank, from `displacement` on, each one atomically
    /// (`MPI_Accumulate`).
    ///
    /// # Errors
    /// See [`Window`]; the operation is not defined for the elements, or the elements are not all of one predefined
    /// type.
    pub fn accumulate_into(
        &self,
        elements: &'a [T],
        rank: Rank,
        displacement: usize,
        op: SystemOperation,
    ) -> Result<(), Error> {
        self.check("MPI_Accumulate", rank)?;
        let datatype = Window::<T>::datatype();
        let target = Window::<T>::target(&datatype, rank, displacement, elements.len());
        // SAFETY: borrowed for `'a`, and the epoch ends the operation before that.
        unsafe {
            self.window
                .window
                .accumulate(&from(elements, &datatype), &target, &op.raw())
        }
    }

    /// Like [`accumulate_into`](Self::accumulate_into); `result` gets the former elements, and is valid after the epoch
    /// (`MPI_Get_accumulate`).
    ///
    /// # Errors
    /// As [`accumulate_into`](Self::accumulate_into); `result` has another length.
    pub fn get_accumulate_into(
        &self,
        elements: &'a [T],
        result: &'a mut [T],
        rank: Rank,
        displacement: usize,
        op: SystemOperation,
    ) -> Result<(), Error> {
        self.check("MPI_Get_accumulate", rank)?;
        let datatype = Window::<T>::datatype();
        let target = Window::<T>::target(&datatype, rank, displacement, elements.len());
        let results = into(result, &datatype);
        self.expect(result);
        let window = &self.window.window;
        // SAFETY: both are borrowed for `'a`, and the epoch ends the operation before that.
        unsafe { window.get_accumulate(Some(&from(elements, &datatype)), &results, &target, &op.raw()) }
    }

    /// Reads one element, and waits for it.
    ///
    /// # Errors
    /// See [`Window`].
    pub fn get(&self, rank: Rank, displacement: usize) -> Result<T, Error> {
        const CALL: &str = "MPI_Rget";
        self.fetch(CALL, rank, |result, datatype| {
            let target = Window::<T>::target(datatype, rank, displacement, 1);
            // SAFETY: `fetch`'s contract.
            unsafe { self.window.window.rget(result, &target) }
        })
    }

    /// Combines a value with one element atomically. Waits for the former element, and returns it (`MPI_Fetch_and_op`).
    ///
    /// # Errors
    /// As [`accumulate_into`](Self::accumulate_into).
    pub fn fetch_and_op(&self, value: &T, rank: Rank, displacement: usize, op: SystemOperation) -> Result<T, Error> {
        const CALL: &str = "MPI_Fetch_and_op";
        self.fetch(CALL, rank, |result, datatype| {
            let target = Window::<T>::target(datatype, rank, displacement, 1);
            let operand = from(std::slice::from_ref(value), datatype);
            // SAFETY: `fetch`'s contract; `value` is borrowed meanwhile.
            unsafe {
                self.window
                    .window
                    .rget_accumulate(Some(&operand), result, &target, &op.raw())
            }
        })
    }

    /// Replaces one element by `new` if it equals `expected`, atomically. Waits for the former element, and returns it
    /// (`MPI_Compare_and_swap`).
    ///
    /// # Errors
    /// See [`Window`]; the elements are not integers, truth values or bytes.
    pub fn compare_and_swap(&self, expected: &T, new: &T, rank: Rank, displacement: usize) -> Result<T, Error> {
        const CALL: &str = "MPI_Compare_and_swap";
        self.fetch(CALL, rank, |result, datatype| {
            let Some(kind) = datatype.element_kind().filter(|kind| kind.size() == datatype.size()) else {
                return Err(Error::new(ErrorClass::Type, CALL));
            };
            let address = |value: &T| (&raw const *value).cast();
            let place = (rank, i64::try_from(displacement).unwrap_or(i64::MAX));
            // SAFETY: `fetch`'s contract; both others are elements of the kind, and are read at once.
            unsafe {
                let window = &self.window.window;
                window.rcompare_and_swap(address(new), address(expected), result.base, kind, place)
            }
        })
    }

    /// Begins an operation with a result of one element, and waits for it. The element's memory stays until the
    /// operation has ended.
    fn fetch(
        &self,
        call: &'static str,
        rank: Rank,
        begin: impl FnOnce(&Operands<'_>, &RawDatatype) -> Result<RawRequest, Error>,
    ) -> Result<T, Error> {
        self.check(call, rank)?;
        let datatype = Window::<T>::datatype();
        let mut result = MaybeUninit::<T>::zeroed();
        let base = result.as_mut_ptr();
        let operands = Operands {
            base: base.cast(),
            count: 1,
            datatype: &datatype,
        };
        uninterrupted(|| begin(&operands, &datatype).and_then(RawRequest::wait))?;
        if let Some(validator) = Validator::of(base, 1) {
            // SAFETY: the operation has ended.
            unsafe { validator.run() };
        }
        // SAFETY: all bytes of the datatype have been received, the others are 0, and it was made valid.
        Ok(unsafe { result.assume_init() })
    }

    /// Begins a [`put`](Self::put), with a request that ends when the elements are at the target (`MPI_Rput`).
    pub fn immediate_put<'b, Sc: Scope<'b>>(
        &self,
        scope: Sc,
        elements: &'b [T],
        rank: Rank,
        displacement: usize,
    ) -> Request<'b, [T], Sc> {
        let datatype = Window::<T>::datatype();
        let target = Window::<T>::target(&datatype, rank, displacement, elements.len());
        let begun = self.check("MPI_Rput", rank).and_then(|()| {
            // SAFETY: borrowed for `'b`, and the scope ends the operation before that.
            unsafe { self.window.window.rput(&from(elements, &datatype), &target) }
        });
        Request::new(Running::new(begun), elements, scope)
    }

    /// Begins a [`get_into`](Self::get_into), with a request that ends when the elements have arrived (`MPI_Rget`).
    pub fn immediate_get_into<'b, Sc: Scope<'b>>(
        &self,
        scope: Sc,
        result: &'b mut [T],
        rank: Rank,
        displacement: usize,
    ) -> Request<'b, [T], Sc> {
        let datatype = Window::<T>::datatype();
        let target = Window::<T>::target(&datatype, rank, displacement, result.len());
        let operands = into(result, &datatype);
        let validator = Validator::of(result.as_mut_ptr(), result.len());
        let begun = self.check("MPI_Rget", rank).and_then(|()| {
            // SAFETY: borrowed mutably for `'b`, and the scope ends the operation before that.
            unsafe { self.window.window.rget(&operands, &target) }
        });
        Request::new(Running::new(begun).validated_by(validator), result, scope)
    }

    /// Waits until all operations so far have ended, here and at the target (`MPI_Win_flush`). In a lock epoch only.
    ///
    /// # Errors
    /// See [`Window`]; an operation has failed.
    pub fn flush(&self) -> Result<(), Error> {
        match self.kind {
            Kind::Lock(rank) => self.window.window.flush(rank),
            Kind::LockAll => self.window.window.flush_all(),
            Kind::Fence | Kind::Start => Err(Error::new(ErrorClass::RmaSync, "MPI_Win_flush")),
        }
    }

    /// Refuses ranks that only another epoch of this process has locked.
    fn check(&self, call: &'static str, rank: Rank) -> Result<(), Error> {
        match self.kind {
            Kind::Lock(locked) if locked != rank => Err(Error::new(ErrorClass::RmaSync, call).with_peer(rank)),
            _ => Ok(()),
        }
    }

    /// Records a result that is to be checked.
    fn expect(&self, result: &mut [T]) {
        let validator = Validator::of(result.as_mut_ptr(), result.len());
        self.results.borrow_mut().extend(validator);
    }

    /// Waits until all operations have ended.
    fn end(&self) -> Result<(), Error> {
        if self.ended.replace(true) {
            return Ok(());
        }
        let Window { window, .. } = self.window;
        let ended = uninterrupted(|| {
            let ended = match self.kind {
                Kind::Fence => window.fence(),
                Kind::Lock(rank) => window.unlock(rank),
                Kind::LockAll => window.unlock_all(),
                Kind::Start => window.complete(),
            };
            // Whatever has gone wrong, nothing may refer to the buffers any more.
            ended.inspect_err(|_| _ = window.drain())
        });
        for validator in self.results.borrow_mut().drain(..) {
            // SAFETY: borrowed for `'a`, and the operations have ended.
            unsafe { validator.run() };
        }
        let mut state = self.window.state();
        match self.kind {
            Kind::Fence => (state.fenced, state.astray) = (false, ended.is_err()),
            Kind::Lock(_) | Kind::LockAll => state.locks -= 1,
            Kind::Start => state.started = false,
        }
        ended
    }
}

impl<T: Equivalence> Drop for Epoch<'_, '_, T> {
    fn drop(&mut self) {
        // Only a panic comes here before the end.
        let _ = self.end();
    }
}

fn from<'d, T>(elements: &[T], datatype: &'d RawDatatype) -> Operands<'d> {
    Operands {
        base: elements.as_ptr().cast_mut().cast(),
        count: elements.len() as u64,
        datatype,
    }
}

fn into<'d, T>(elements: &mut [T], datatype: &'d RawDatatype) -> Operands<'d> {
    Operands {
        base: elements.as_mut_ptr().cast(),
        count: elements.len() as u64,
        datatype,
    }
}

/// This process's window while others access it. Dropping it waits until they have ended.
#[derive(Debug)]
#[must_use = "it waits for the others when it is dropped: at once, unless it has a name"]
pub struct Exposure<'w, T: Equivalence> {
    window: &'w Window<T>,
    waits: bool,
}

impl<T: Equivalence> Exposure<'_, T> {
    /// Waits until all processes of the group have ended their epochs (`MPI_Win_wait`).
    ///
    /// # Errors
    /// A process is lost.
    pub fn wait(mut self) -> Result<(), Error> {
        self.end()
    }

    /// Tests whether all processes of the group have ended their epochs (`MPI_Win_test`), after one pass of progress:
    /// returns nothing, or the exposure.
    ///
    /// # Errors
    /// The exposure, if a process has not. (If a process is lost, the inner result says so.)
    pub fn test(mut self) -> Result<Result<(), Error>, Self> {
        match self.window.window.test() {
            Ok(false) => Err(self),
            Ok(true) => {
                self.waits = false;
                self.window.state().exposed = false;
                Ok(Ok(()))
            }
            Err(error) => {
                self.waits = false;
                Ok(Err(error))
            }
        }
    }

    fn end(&mut self) -> Result<(), Error> {
        if !std::mem::replace(&mut self.waits, false) {
            return Ok(());
        }
        self.window.window.wait()?;
        self.window.state().exposed = false;
        Ok(())
    }
}

impl<T: Equivalence> Drop for Exposure<'_, T> {
    /// # Panics
    /// If a process is lost, because a drop cannot return the error; not during another panic.
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            assert!(
                thread::panicking(),
                "an exposure that was waited for when it was dropped: {error}"
            );
        }
    }
}
