#![expect(unsafe_code, reason = "windows and operands are given by pointer, as C does")]
//! Windows: memory that the processes of a communicator read and write (MPI 12).

use alloc::{sync::Arc, vec, vec::Vec};
use core::{
    fmt,
    sync::atomic::{self, AtomicBool, Ordering},
};
use std::{collections::BTreeMap, sync::Mutex};

use super::{
    Communicator, PROC_NULL, Request,
    buffer::Buffer,
    core::Core,
    remote::{Epoch, Failure, Memory, Net, Place, Remote, What, WindowState},
    request::failure_text,
};
use crate::{
    messaging::Messenger,
    mpi::{
        Rank,
        datatype::{Datatype, Kind},
        error::{Detail, Error, ErrorClass},
        group::Group,
        operation::{Operation, OperationError, Predefined},
    },
    time::Instant,
};

/// A process has no more operations under way than this; who begins another waits.
const MAX_OPERATIONS: usize = 1 << 16;

/// How a window is locked (MPI 12.5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// `MPI_LOCK_SHARED`: others may, too.
    Shared,
    /// `MPI_LOCK_EXCLUSIVE`: nobody else.
    Exclusive,
}

/// Elements in memory of this process.
#[derive(Clone, Copy, Debug)]
pub struct Operands<'a> {
    /// Where the first one is.
    pub base: *mut u8,
    /// How many there are.
    pub count: u64,
    /// What they are.
    pub datatype: &'a Datatype,
}

/// Elements in the window of a process.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// Rank of the process; to [`PROC_NULL`] nothing is done.
    pub rank: Rank,
    /// Where the first element is, in the target's displacement units; in a dynamic window its address at the target.
    pub displacement: i64,
    /// How many there are.
    pub count: u64,
    /// What they are. Its layout is that of the target's memory.
    pub datatype: &'a Datatype,
}

/// What is known of the window at a rank.
#[derive(Clone, Copy, Debug)]
struct Peer {
    process: u32,
    name: u64,
    len: u64,
    unit: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flavor {
    Create,
    Allocate,
    Dynamic,
}

struct Inner {
    /// One of its own, so that its barriers are.
    communicator: Communicator,
    flavor: Flavor,
    name: u64,
    base: *mut u8,
    peers: Vec<Peer>,
    freed: AtomicBool,
    /// What [`Window::allocate`] has allocated.
    memory: Mutex<Vec<u64>>,
}

// SAFETY: `base` is a number here; what lies there, `Window::create`'s contract says may be used from any thread.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

/// Memory that every process of a communicator has lent to the others. Cheap to clone: clones are the same window.
///
/// Operations begin in an *epoch*: between [`fence`](Self::fence)s, between [`start`](Self::start) and
/// [`complete`](Self::complete), or while the target is [`lock`](Self::lock)ed; elsewhere they are `MPI_ERR_RMA_SYNC`.
/// They have ended, here and there, when the epoch ends or after a [`flush`](Self::flush). (So `MPI_Win_flush_local` is
/// `flush`, which does more than is asked for.) Assertions of MPI are hints and have no place here.
///
/// What the target must do itself happens in whoever makes progress there, or in its helper thread.
#[derive(Clone)]
pub struct Window(Arc<Inner>);

impl fmt::Debug for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Window")
            .field("flavor", &self.0.flavor)
            .field("communicator", &self.0.communicator)
            .finish_non_exhaustive()
    }
}

/// Making and freeing: collective, all of it.
impl Window {
    /// A window over `len` octets at `base`, with displacements in units of `unit` octets (`MPI_Win_create`).
    ///
    /// # Errors
    /// `unit` is 0, more memory than there can be, a lost process.
    ///
    /// # Safety
    /// Until the window has been freed or all of its clones dropped: the memory is initialised and may be read and
    /// written from any thread, and the program accesses it only as MPI allows it between synchronisations (MPI 12.7).
    pub unsafe fn create(communicator: &Communicator, base: *mut u8, len: u64, unit: u32) -> Result<Self, Error> {
        // SAFETY: the caller's contract.
        let memory = unsafe { Memory::new(base, len) };
        Self::make(
            "MPI_Win_create",
            communicator,
            Flavor::Create,
            memory,
            (base, len, unit),
            vec![],
        )
    }

    /// A window over `len` new octets, which are 0 (`MPI_Win_allocate`). They are at [`base`](Self::base), at a multiple
    /// of 8, until the window has been freed or all of its clones dropped.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn allocate(communicator: &Communicator, len: u64, unit: u32) -> Result<Self, Error> {
        const CALL: &str = "MPI_Win_allocate";
        let mut memory = Vec::new();
        let words = usize::try_from(len.div_ceil(8)).unwrap_or(usize::MAX);
        let enough = memory.try_reserve_exact(words).is_ok();
        if enough {
            memory.resize(words, 0_u64);
        }
        let base = memory.as_mut_ptr().cast::<u8>();
        // One who has not enough takes part, so that all of them learn about it.
        let (len, unit) = if enough { (len, unit) } else { (0, 0) };
        // SAFETY: the memory is kept until the window is closed, and its address is given out as a pointer only.
        let exposed = unsafe { Memory::new(base, len) };
        let made = Self::make(CALL, communicator, Flavor::Allocate, exposed, (base, len, unit), memory);
        made.map_err(|error| {
            if enough {
                error
            } else {
                communicator.locate(Error::new(ErrorClass::NoMem, CALL))
            }
        })
    }

    /// A window to which memory is [`attach`](Self::attach)ed later; displacements are addresses at the target
    /// (`MPI_Win_create_dynamic`).
    ///
    /// # Errors
    /// A lost process.
    pub fn create_dynamic(communicator: &Communicator) -> Result<Self, Error> {
        let nowhere = (core::ptr::null_mut(), 0, 1);
        let call = "MPI_Win_create_dynamic";
        Self::make(call, communicator, Flavor::Dynamic, Memory::dynamic(), nowhere, vec![])
    }

    fn make(
        call: &'static str,
        communicator: &Communicator,
        flavor: Flavor,
        exposed: Memory,
        (base, len, unit): (*mut u8, u64, u32),
        memory: Vec<u64>,
    ) -> Result<Self, Error> {
        let communicator = communicator.duplicate()?;
        let group = communicator.group();
        let fits = unit > 0 && i64::try_from(len).is_ok() && (base as u64).checked_add(len).is_some();
        let mut exposed = Some(exposed);
        let name = communicator.access(None, |core, messenger, _| {
            let exposed = exposed.take().filter(|_| fits)?;
            core.remote.expose(messenger, exposed, group.clone())
        });
        let mut inner = Inner {
            name: name.unwrap_or(0),
            flavor,
            base,
            peers: Vec::new(),
            freed: AtomicBool::new(name.is_none()),
            memory: Mutex::new(memory),
            communicator: communicator.clone(),
        };
        let own = [inner.name as i64, len as i64, i64::from(unit), name.is_some().into()];
        let all = communicator.share(call, &own)?;
        if all.chunks_exact(4).any(|peer| peer[3] == 0) {
            let detail = Detail::Text(if name.is_none() {
                "this rank's memory or displacement unit is wrong, or it has too many windows"
            } else {
                "another rank could not take part"
            });
            let class = if fits { ErrorClass::Other } else { ErrorClass::Size };
            return Err(communicator.locate(Error::new(class, call).with_detail(detail)));
        }
        inner.peers = group
            .processes()
            .zip(all.chunks_exact(4))
            .map(|(process, peer)| Peer {
                process,
                name: peer[0] as u64,
                len: peer[1] as u64,
                unit: peer[2] as u32,
            })
            .collect();
        Ok(Self(Arc::new(inner)))
    }

    /// Adds memory to a dynamic window (`MPI_Win_attach`). Not collective; others learn its address otherwise.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_FLAVOR` for another window, `MPI_ERR_RMA_ATTACH` if some of it is attached already.
    ///
    /// # Safety
    /// As [`create`](Self::create), until it has been detached.
    pub unsafe fn attach(&self, base: *mut u8, len: u64) -> Result<(), Error> {
        const CALL: &str = "MPI_Win_attach";
        self.flavored(CALL)?;
        let attached = self.with(CALL, |state, _| {
            // SAFETY: the caller's contract.
            Ok(unsafe { state.memory.attach(base, len) })
        })?;
        attached.then_some(()).ok_or_else(|| {
            let detail = Detail::Text("some of it is attached already, or it goes beyond memory");
            self.error(CALL, ErrorClass::RmaAttach).with_detail(detail)
        })
    }

    /// Takes the memory that was attached at `base` away from a dynamic window (`MPI_Win_detach`).
    ///
    /// # Errors
    /// `MPI_ERR_RMA_FLAVOR` for another window, `MPI_ERR_RMA_ATTACH` if nothing was attached there.
    pub fn detach(&self, base: *mut u8) -> Result<(), Error> {
        const CALL: &str = "MPI_Win_detach";
        self.flavored(CALL)?;
        let loans = self.with(CALL, |state, _| Ok(state.memory.detach(base)))?;
        let Some(loans) = loans else {
            let detail = Detail::Text("no memory is attached at this address");
            return Err(self.error(CALL, ErrorClass::RmaAttach).with_detail(detail));
        };
        self.wait_until(CALL, |_| loans.are_back())
    }

    fn flavored(&self, call: &'static str) -> Result<(), Error> {
        let dynamic = self.0.flavor == Flavor::Dynamic;
        dynamic
            .then_some(())
            .ok_or_else(|| self.error(call, ErrorClass::RmaFlavor))
    }

    /// Ends the window, when all of its processes have come here (`MPI_Win_free`). All that was begun has ended then.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC` in an epoch of [`start`](Self::start), [`post`](Self::post) or [`lock`](Self::lock): nothing has
    /// happened then. Otherwise the window is freed, also if a process is lost or an operation has failed.
    pub fn free(&self) -> Result<(), Error> {
        const CALL: &str = "MPI_Win_free";
        self.with(CALL, |state, _| {
            let busy = matches!(state.epoch, Epoch::Started(_) | Epoch::Locked { .. }) || state.exposed.is_some();
            if busy {
                return Err(Failure::Refused(ErrorClass::RmaSync));
            }
            Ok(())
        })?;
        let flushed = self.flush_those(CALL, |_| true);
        let met = self.0.communicator.meet(CALL);
        self.0.close();
        flushed.and(met)
    }
}

/// Getters.
impl Window {
    /// The communicator that it was made of, or rather a duplicate (`MPI_Win_get_group`).
    #[must_use]
    pub fn communicator(&self) -> &Communicator {
        &self.0.communicator
    }

    /// The memory of this process; a dynamic window's is null (`MPI_WIN_BASE`).
    #[must_use]
    pub fn base(&self) -> *mut u8 {
        self.0.base
    }

    /// Octets and displacement unit at `rank` (`MPI_WIN_SIZE`, `MPI_WIN_DISP_UNIT`).
    #[must_use]
    pub fn extent_at(&self, rank: Rank) -> Option<(u64, u32)> {
        let peer = self.0.peers.get(usize::try_from(rank).ok()?)?;
        Some((peer.len, peer.unit))
    }

    fn error(&self, call: &'static str, class: ErrorClass) -> Error {
        self.0.communicator.locate(Error::new(class, call))
    }

    fn failed(&self, call: &'static str, process: Option<u32>, failure: Failure) -> Error {
        let error = match failure {
            Failure::Lost(error) => {
                let detail = Detail::Text(failure_text(error));
                self.error(call, ErrorClass::ProcFailed).with_detail(detail)
            }
            Failure::Refused(class) => self.error(call, class),
        };
        let rank = process.and_then(|process| self.0.communicator.rank_of(process));
        rank.map_or(error, |rank| error.with_peer(rank))
    }

    fn check(&self, call: &'static str) -> Result<(), Error> {
        self.0.communicator.check(call)?;
        if self.0.freed.load(Ordering::Relaxed) {
            let detail = Detail::Text("it has been freed");
            return Err(self.error(call, ErrorClass::Win).with_detail(detail));
        }
        Ok(())
    }

    fn peer(&self, call: &'static str, rank: Rank) -> Result<&Peer, Error> {
        self.0.communicator.process(call, rank)?;
        Ok(&self.0.peers[rank as usize])
    }

    fn name_of(&self, process: u32) -> u64 {
        let peer = self.0.peers.iter().find(|peer| peer.process == process);
        peer.map_or(0, |peer| peer.name)
    }

    /// Calls `f` with everything locked.
    fn locked<R>(&self, call: &'static str, f: impl FnOnce(&mut Remote, &mut Net<'_>) -> R) -> Result<R, Error> {
        self.check(call)?;
        let (mut f, mut result) = (Some(f), None);
        self.0
            .communicator
            .engine()
            .fabric
            .access(&mut |core: &mut Core, messenger: &mut Messenger, now: Instant| {
                if let Some(f) = f.take() {
                    result = Some(core.with_remote(messenger, now, f));
                }
            });
        result.ok_or_else(|| self.0.communicator.broken(call))
    }

    /// Calls `f` with the state of the window.
    fn with<R>(
        &self,
        call: &'static str,
        f: impl FnOnce(&mut WindowState, &mut Net<'_>) -> Result<R, Failure>,
    ) -> Result<R, Error> {
        let done = self.locked(call, |remote, net| match remote.window(self.0.name) {
            Some(state) => f(state, net),
            None => Err(Failure::Refused(ErrorClass::Win)),
        })?;
        done.map_err(|failure| self.failed(call, None, failure))
    }

    /// Waits until `done`.
    fn wait_until(&self, call: &'static str, mut done: impl FnMut(&mut Core) -> bool) -> Result<(), Error> {
        let fabric = &self.0.communicator.engine().fabric;
        let waited = fabric.wait(&mut |core, _, _| done(core));
        waited.map_err(|_| self.0.communicator.broken(call))
    }

    /// The same for the state of the window.
    fn wait_for(&self, call: &'static str, mut done: impl FnMut(&mut WindowState) -> bool) -> Result<(), Error> {
        self.wait_until(call, |core| core.remote.window(self.0.name).is_none_or(&mut done))
    }
}

/// Operations. All are begun only; see [`Window`] for when they end. Until then operands must not be written, nor results
/// be used; both are memory that may be used from any thread.
///
/// What is common to their errors: `MPI_ERR_RANK`; `MPI_ERR_COUNT` and `MPI_ERR_TYPE` if both sides do not fit;
/// `MPI_ERR_DISP` and `MPI_ERR_RMA_RANGE` if the target's window has no such place; `MPI_ERR_RMA_SYNC` outside of an
/// epoch; `MPI_ERR_PROC_FAILED` if the target is lost. What goes wrong later is told by who waits for the end.
impl Window {
    /// Writes `origin` to the window of the target (`MPI_Put`).
    ///
    /// # Errors
    /// See above.
    ///
    /// # Safety
    /// See above.
    pub unsafe fn put(&self, origin: &Operands<'_>, target: &Target<'_>) -> Result<(), Error> {
        // SAFETY: the caller's contract.
        unsafe { self.operate("MPI_Put", What::Put, Some(origin), None, target, false) }.map(drop)
    }

    /// The same, with a request that ends when the octets are there (`MPI_Rput`).
    ///
    /// # Errors
    /// See above.
    ///
    /// # Safety
    /// See above.
    pub unsafe fn rput(&self, origin: &Operands<'_>, target: &Target<'_>) -> Result<Request, Error> {
        // SAFETY: the caller's contract.
        unsafe { self.operate("MPI_Rput", What::Put, Some(origin), None, target, true) }
    }

    /// Reads the target's window into `result` (`MPI_Get`).
    ///
    /// # Errors
    /// See above.
    ///
    /// # Safety
    /// See above.
    pub unsafe fn get(&self, result: &Operands<'_>, target: &Target<'_>) -> Result<(), Error> {
        // SAFETY: the caller's contract.
        unsafe { self.operate("MPI_Get", What::Get, None, Some(result), target, false) }.map(drop)
    }

    /// The same, with a request (`MPI_Rget`).
    ///
    /// # Errors
    /// See above.
    ///
    /// # Safety
    /// See above.
    pub unsafe fn rget(&self, result: &Operands<'_>, target: &Target<'_>) -> Result<Request, Error> {
        // SAFETY: the caller's contract.
        unsafe { self.operate("MPI_Rget", What::Get, None, Some(result), target, true) }
    }

    /// Combines `origin` with the elements at the target (`MPI_Accumulate`); each element in one go. All elements are of
    /// one predefined kind.
    ///
    /// # Errors
    /// See above; `MPI_ERR_OP` if `operation` is not predefined for them.
    ///
    /// # Safety
    /// See above.
    pub unsafe fn accumulate(
        &self,
        origin: &Operands<'_>,
        target: &Target<'_>,
        operation: &Operation,
    ) -> Result<(), Error> {
        const CALL: &str = "MPI_Accumulate";
        let what = self.accumulation(CALL, target.datatype, operation)?;
        // SAFETY: the caller's contract.
        unsafe { self.operate(CALL, what, Some(origin), None, target, false) }.map(drop)
    }

    /// The same, with a request (`MPI_Raccumulate`).
    ///
    /// # Errors
    /// See above.
    ///
    /// # Safety
    /// See above.
    pub unsafe fn raccumulate(
        &self,
        origin: &Operands<'_>,
        target: &Target<'_>,
        operation: &Operation,
    ) -> Result<Request, Error> {
        const CALL: &str = "MPI_Raccumulate";
        let what = self.accumulation(CALL, target.datatype, operation)?;
        // SAFETY: the caller's contract.
        unsafe { self.operate(CALL, what, Some(origin), None, target, true) }
    }

    /// As [`accumulate`](Self::accumulate); what was there before comes into `result` (`MPI_Get_accumulate`). `origin` is
    /// not needed for `MPI_NO_OP`.
    ///
    /// # Errors
    /// See above.
    ///
    /// # Safety
    /// See above.
    pub unsafe fn get_accumulate(
        &self,
        origin: Option<&Operands<'_>>,
        result: &Operands<'_>,
        target: &Target<'_>,
        operation: &Operation,
    ) -> Result<(), Error> {
        const CALL: &str = "MPI_Get_accumulate";
        let what = self.accumulation(CALL, target.datatype, operation)?;
        // SAFETY: the caller's contract.
        unsafe { self.operate(CALL, what, origin, Some(result), target, false) }.map(drop)
    }

    /// The same, with a request (`MPI_Rget_accumulate`).
    ///
    /// # Errors
    /// See above.
    ///
    /// # Safety
    /// See above.
    pub unsafe fn rget_accumulate(
        &self,
        origin: Option<&Operands<'_>>,
        result: &Operands<'_>,
        target: &Target<'_>,
        operation: &Operation,
    ) -> Result<Request, Error> {
        const CALL: &str = "MPI_Rget_accumulate";
        let what = self.accumulation(CALL, target.datatype, operation)?;
        // SAFETY: the caller's contract.
        unsafe { self.operate(CALL, what, origin, Some(result), target, true) }
    }

    /// [`get_accumulate`](Self::get_accumulate) of one element of `kind` at `displacement` of `rank`
    /// (`MPI_Fetch_and_op`).
    ///
    /// # Errors
    /// See above.
    ///
    /// # Safety
    /// See above.
    pub unsafe fn fetch_and_op(
        &self,
        origin: *const u8,
        result: *mut u8,
        kind: Kind,
        (rank, displacement): (Rank, i64),
        operation: &Operation,
    ) -> Result<(), Error> {
        const CALL: &str = "MPI_Fetch_and_op";
        let datatype = &Datatype::predefined(kind);
        let what = self.accumulation(CALL, datatype, operation)?;
        let one = |base| Operands {
            base,
            count: 1,
            datatype,
        };
        let target = Target {
            rank,
            displacement,
            count: 1,
            datatype,
        };
        // SAFETY: the caller's contract.
        unsafe {
            self.operate(
                CALL,
                what,
                Some(&one(origin.cast_mut())),
                Some(&one(result)),
                &target,
                false,
            )
        }
        .map(drop)
    }

    /// Puts `new` there if `expected` was there; what was there comes into `result` (`MPI_Compare_and_swap`). For
    /// integers, truth values and octets. `new` and `expected` are read at once.
    ///
    /// # Errors
    /// See above; `MPI_ERR_TYPE` for other kinds.
    ///
    /// # Safety
    /// See above.
    pub unsafe fn compare_and_swap(
        &self,
        new: *const u8,
        expected: *const u8,
        result: *mut u8,
        kind: Kind,
        (rank, displacement): (Rank, i64),
    ) -> Result<(), Error> {
        const CALL: &str = "MPI_Compare_and_swap";
        if !What::swaps(kind) {
            return Err(self.error(CALL, ErrorClass::Type));
        }
        let datatype = &Datatype::predefined(kind);
        let target = Target {
            rank,
            displacement,
            count: 1,
            datatype,
        };
        let result = Operands {
            base: result,
            count: 1,
            datatype,
        };
        let size = kind.size() as usize;
        // SAFETY: the caller's contract: both are elements of `kind`.
        let (expected, new) = unsafe {
            (
                core::slice::from_raw_parts(expected, size),
                core::slice::from_raw_parts(new, size),
            )
        };
        let what = What::swap(kind, expected, new);
        // SAFETY: the caller's contract.
        unsafe { self.operate(CALL, what, None, Some(&result), &target, false) }.map(drop)
    }

    fn accumulation(&self, call: &'static str, datatype: &Datatype, operation: &Operation) -> Result<What, Error> {
        let wrong = |detail| self.error(call, ErrorClass::Op).with_detail(detail);
        let operation = operation
            .as_predefined()
            .ok_or_else(|| wrong(Detail::Text("windows take predefined operations only")))?;
        if datatype.size() == 0 {
            // No elements, of no kind: nothing will be done.
            return Ok(What::Put);
        }
        let kind = datatype.element_kind().ok_or_else(|| {
            let detail = Detail::Text("not all elements are of one predefined kind");
            self.error(call, ErrorClass::Type).with_detail(detail)
        })?;
        if !operation.is_defined_for(kind) {
            return Err(wrong(Detail::Operation(OperationError::Kind { operation, kind })));
        }
        Ok(What::Accumulate { kind, operation })
    }

    /// Begins an operation, with a request if it `has_request`.
    ///
    /// # Safety
    /// Until it has ended, the elements of `origin` may be read and are not written to, and those of `result` may be
    /// written and are not used by others; all from any thread.
    unsafe fn operate(
        &self,
        call: &'static str,
        what: What,
        origin: Option<&Operands<'_>>,
        result: Option<&Operands<'_>>,
        target: &Target<'_>,
        has_request: bool,
    ) -> Result<Request, Error> {
        self.check(call)?;
        let communicator = &self.0.communicator;
        let nothing = || Request::ended(communicator, super::Status::EMPTY, call);
        if target.rank == PROC_NULL {
            return Ok(nothing());
        }
        let place = self.place(call, target)?;
        let no_op = matches!(
            what,
            What::Accumulate {
                operation: Predefined::NoOp,
                ..
            }
        );
        let origin = origin.filter(|_| !no_op);
        for side in [origin, result].into_iter().flatten() {
            self.check_side(call, what, side, target)?;
        }
        // SAFETY: the caller's contract.
        let buffer = |side: &Operands<'_>| unsafe { Buffer::new(side.base, side.count, side.datatype) };
        let (origin, result) = (origin.map(buffer), result.map(buffer));
        if origin.as_ref().is_some_and(Option::is_none) || result.as_ref().is_some_and(Option::is_none) {
            return Err(self.error(call, ErrorClass::Count));
        }
        let buffers = (origin.flatten(), result.flatten());
        if place.count == 0 || place.datatype.size() == 0 {
            return Ok(nothing());
        }
        self.wait_for_room(call)?;
        let process = place.process;
        let request =
            has_request.then(|| communicator.access(None, |core: &mut Core, _, _| Some(core.request_of_caller())));
        let request = request.flatten();
        let begun = self.locked(call, |remote, net| {
            remote.begin(net, self.0.name, place, what, buffers, request)
        });
        let pending = request.map(|id| Request::pending(communicator, id, call, 0));
        match begun? {
            Ok(()) => Ok(pending.unwrap_or_else(nothing)),
            Err(failure) => Err(self.failed(call, Some(process), failure)),
        }
    }

    fn wait_for_room(&self, call: &'static str) -> Result<(), Error> {
        let mut full = false;
        self.locked(call, |remote, _| full = remote.operations() >= MAX_OPERATIONS)?;
        if full {
            self.wait_until(call, |core| core.remote.operations() < MAX_OPERATIONS)?;
        }
        Ok(())
    }

    /// One side has as much as the target, of the same kind if it is combined.
    fn check_side(
        &self,
        call: &'static str,
        what: What,
        side: &Operands<'_>,
        target: &Target<'_>,
    ) -> Result<(), Error> {
        let wrong = |class, text| Err(self.error(call, class).with_detail(Detail::Text(text)));
        if side.datatype.packed_size(side.count) != target.datatype.packed_size(target.count) {
            return wrong(ErrorClass::Count, "both sides do not have the same number of octets");
        }
        match what {
            What::Accumulate { kind, .. } if side.datatype.element_kind() != Some(kind) => {
                wrong(ErrorClass::Type, "both sides do not have elements of the same kind")
            }
            _ => Ok(()),
        }
    }

    /// Where the elements are at the target.
    fn place(&self, call: &'static str, target: &Target<'_>) -> Result<Place, Error> {
        let peer = self.peer(call, target.rank)?;
        let is_dynamic = self.0.flavor == Flavor::Dynamic;
        let at = |class, value: i128, max: u64| {
            let limit = |value: i128| value.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
            self.error(call, class)
                .with_peer(target.rank)
                .with_detail(Detail::Value {
                    argument: "target displacement",
                    value: limit(value),
                    min: 0,
                    max: limit(max.into()),
                })
        };
        let most = if is_dynamic { i64::MAX as u64 } else { peer.len };
        let displacement = i128::from(target.displacement);
        if target.displacement < 0 {
            return Err(at(ErrorClass::Disp, displacement, most / u64::from(peer.unit)));
        }
        let base = displacement * i128::from(peer.unit);
        let span = target.datatype.span(target.count);
        let (low, high) = span.map_err(|error| self.0.communicator.locate(Error::datatype(call, error)))?;
        let (low, high) = (base + i128::from(low), base + i128::from(high));
        if low < high && (low < 0 || high > i128::from(most)) {
            let outside = if low < 0 { low } else { high };
            return Err(at(ErrorClass::RmaRange, outside, most));
        }
        Ok(Place {
            process: peer.process,
            window: peer.name,
            is_dynamic,
            // Inside of `most`, unless there are no elements.
            base: base as i64,
            count: target.count,
            datatype: target.datatype.clone(),
        })
    }
}

/// Synchronisation (MPI 12.5).
impl Window {
    /// Waits until what was begun through this window to those that are `wanted` has ended.
    fn flush_those(&self, call: &'static str, wanted: impl Fn(u32) -> bool) -> Result<(), Error> {
        self.check(call)?;
        let left = self.with(call, |state, net| {
            let left = state.operations(&wanted);
            if left > 0 {
                // Or their acknowledgement might wait for something to go with.
                net.messenger.request_acks(net.now);
            }
            Ok(left)
        })?;
        if left > 0 {
            self.wait_for(call, |state| state.operations(&wanted) == 0)?;
        }
        let failed = self.with(call, |state, _| Ok(state.take_failure(&wanted)))?;
        failed.map_or(Ok(()), |(process, failure)| {
            Err(self.failed(call, Some(process), failure))
        })
    }

    /// Waits until all that was begun to `rank` has ended, here and there (`MPI_Win_flush`).
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC` if it is not locked; something has failed.
    pub fn flush(&self, rank: Rank) -> Result<(), Error> {
        const CALL: &str = "MPI_Win_flush";
        let process = self.peer(CALL, rank)?.process;
        self.with(CALL, |state, _| match &state.epoch {
            Epoch::Locked { locks, .. } if locks.contains_key(&process) => Ok(()),
            _ => Err(Failure::Refused(ErrorClass::RmaSync)),
        })?;
        self.flush_those(CALL, |other| other == process)
    }

    /// The same for all that are locked (`MPI_Win_flush_all`).
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC` if none is locked; something has failed.
    pub fn flush_all(&self) -> Result<(), Error> {
        const CALL: &str = "MPI_Win_flush_all";
        self.with(CALL, |state, _| match &state.epoch {
            Epoch::Locked { .. } => Ok(()),
            _ => Err(Failure::Refused(ErrorClass::RmaSync)),
        })?;
        self.flush_those(CALL, |_| true)
    }

    /// What others have written can be read here, and the other way round (`MPI_Win_sync`).
    ///
    /// # Errors
    /// The window has been freed.
    pub fn sync(&self) -> Result<(), Error> {
        self.check("MPI_Win_sync")?;
        atomic::fence(Ordering::SeqCst);
        Ok(())
    }

    /// Ends what was begun since the last fence, at all processes, and begins anew (`MPI_Win_fence`). Collective.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC` in an epoch of another sort; a lost process; something has failed.
    pub fn fence(&self) -> Result<(), Error> {
        const CALL: &str = "MPI_Win_fence";
        self.with(CALL, |state, _| match state.epoch {
            Epoch::None | Epoch::Fence { .. } if state.exposed.is_none() => Ok(()),
            _ => Err(Failure::Refused(ErrorClass::RmaSync)),
        })?;
        let flushed = self.flush_those(CALL, |_| true);
        // Whatever went wrong here, the others are waiting.
        let met = self.0.communicator.meet(CALL);
        self.with(CALL, |state, _| {
            state.epoch = Epoch::Fence { used: false };
            Ok(())
        })?;
        flushed.and(met)
    }

    /// Locks the window of `rank` (`MPI_Win_lock`): waits until it is.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC` if it is locked by us already, or in an epoch of another sort; a lost process.
    pub fn lock(&self, kind: LockKind, rank: Rank) -> Result<(), Error> {
        const CALL: &str = "MPI_Win_lock";
        let peer = self.peer(CALL, rank)?;
        self.ask_locks(CALL, &[(peer.process, peer.name)], kind, false)
    }

    /// Locks all windows, shared with others (`MPI_Win_lock_all`).
    ///
    /// # Errors
    /// As [`lock`](Self::lock).
    pub fn lock_all(&self) -> Result<(), Error> {
        let all: Vec<_> = self.0.peers.iter().map(|peer| (peer.process, peer.name)).collect();
        self.ask_locks("MPI_Win_lock_all", &all, LockKind::Shared, true)
    }

    fn ask_locks(&self, call: &'static str, wanted: &[(u32, u64)], kind: LockKind, all: bool) -> Result<(), Error> {
        let asked = self.locked(call, |remote, net| {
            let refused = Err(Failure::Refused(ErrorClass::RmaSync));
            let Some(state) = remote.window(self.0.name) else {
                return refused;
            };
            if state.epoch.is_free() {
                let locks = BTreeMap::new();
                state.epoch = Epoch::Locked { locks, all };
            }
            match &mut state.epoch {
                Epoch::Locked { locks, all: before } if *before == all => {
                    if wanted.iter().any(|(process, _)| locks.contains_key(process)) {
                        return refused;
                    }
                    locks.extend(wanted.iter().map(|(process, _)| (*process, false)));
                }
                _ => return refused,
            }
            for &target in wanted {
                remote.ask_lock(net, self.0.name, target, kind == LockKind::Exclusive);
            }
            Ok(())
        })?;
        asked.map_err(|failure| self.failed(call, None, failure))?;
        let has = |state: &WindowState, process: u32| match &state.epoch {
            Epoch::Locked { locks, .. } => locks.get(&process).copied(),
            _ => None,
        };
        self.wait_for(call, |state| {
            wanted.iter().all(|(process, _)| has(state, *process) != Some(false))
        })?;
        let among = |process: u32| wanted.iter().any(|(other, _)| *other == process);
        let failed = self.with(call, |state, _| {
            let missing = wanted.iter().any(|(process, _)| has(state, *process).is_none());
            Ok(if missing { state.take_failure(among) } else { None })
        })?;
        let Some((process, failure)) = failed else {
            return Ok(());
        };
        // Who could not lock all has none of them.
        self.give_back(call, &among)?;
        Err(self.failed(call, Some(process), failure))
    }

    /// Unlocks the window of `rank`, after all that was begun to it has ended (`MPI_Win_unlock`).
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC` if it is not locked by [`lock`](Self::lock). Something has failed; it is unlocked then.
    pub fn unlock(&self, rank: Rank) -> Result<(), Error> {
        const CALL: &str = "MPI_Win_unlock";
        let process = self.peer(CALL, rank)?.process;
        self.with(CALL, |state, _| match &state.epoch {
            Epoch::Locked { locks, all: false } if locks.get(&process) == Some(&true) => Ok(()),
            _ => Err(Failure::Refused(ErrorClass::RmaSync)),
        })?;
        self.end_locks(CALL, |other| other == process)
    }

    /// Unlocks all windows (`MPI_Win_unlock_all`).
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC` if they are not locked by [`lock_all`](Self::lock_all). Something has failed; they are unlocked
    /// then.
    pub fn unlock_all(&self) -> Result<(), Error> {
        const CALL: &str = "MPI_Win_unlock_all";
        self.with(CALL, |state, _| match &state.epoch {
            Epoch::Locked { all: true, .. } => Ok(()),
            _ => Err(Failure::Refused(ErrorClass::RmaSync)),
        })?;
        self.end_locks(CALL, |_| true)
    }

    fn end_locks(&self, call: &'static str, wanted: impl Fn(u32) -> bool) -> Result<(), Error> {
        let flushed = self.flush_those(call, &wanted);
        self.give_back(call, &wanted)?;
        flushed
    }

    /// Gives back those locks that are `wanted` and that we have.
    fn give_back(&self, call: &'static str, wanted: impl Fn(u32) -> bool) -> Result<(), Error> {
        self.with(call, |state, net| {
            if let Epoch::Locked { locks, .. } = &mut state.epoch {
                locks.retain(|&process, _| {
                    let ends = wanted(process);
                    if ends {
                        net.unlock(process, self.name_of(process));
                    }
                    !ends
                });
                if locks.is_empty() {
                    state.epoch = Epoch::None;
                }
            }
            Ok(())
        })
    }

    /// Lets the processes of `group` access this process's window, each once it has [`start`](Self::start)ed
    /// (`MPI_Win_post`).
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC` if that was done and not waited for; `MPI_ERR_GROUP` for processes without the window.
    pub fn post(&self, group: &Group) -> Result<(), Error> {
        const CALL: &str = "MPI_Win_post";
        self.check_group(CALL, group)?;
        self.with(CALL, |state, net| {
            if state.exposed.is_some() {
                return Err(Failure::Refused(ErrorClass::RmaSync));
            }
            state.exposed = Some(group.clone());
            for process in group.processes() {
                net.post(process, self.name_of(process));
            }
            Ok(())
        })
    }

    /// Begins to access the windows of the processes of `group` (`MPI_Win_start`): waits until all of them have
    /// [`post`](Self::post)ed.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC` in another epoch; `MPI_ERR_GROUP` for processes without the window; a lost process.
    pub fn start(&self, group: &Group) -> Result<(), Error> {
        const CALL: &str = "MPI_Win_start";
        self.check_group(CALL, group)?;
        self.with(CALL, |state, _| {
            if !state.epoch.is_free() {
                return Err(Failure::Refused(ErrorClass::RmaSync));
            }
            state.epoch = Epoch::Started(group.clone());
            Ok(())
        })?;
        let lost = self.wait_for_each(CALL, group, |state, process| state.posted.contains_key(&process))?;
        self.with(CALL, |state, _| {
            for process in group.processes() {
                WindowState::take_one(&mut state.posted, process);
            }
            if lost.is_some() {
                state.epoch = Epoch::None;
            }
            Ok(())
        })?;
        lost.map_or(Ok(()), Err)
    }

    /// Ends what [`start`](Self::start) began, after all that was begun since then has ended (`MPI_Win_complete`).
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC` if nothing was started. Something has failed; the epoch has ended then.
    pub fn complete(&self) -> Result<(), Error> {
        const CALL: &str = "MPI_Win_complete";
        let group = self.with(CALL, |state, _| match &state.epoch {
            Epoch::Started(group) => Ok(group.clone()),
            _ => Err(Failure::Refused(ErrorClass::RmaSync)),
        })?;
        let flushed = self.flush_those(CALL, |process| group.rank_of(process).is_some());
        self.with(CALL, |state, net| {
            state.epoch = Epoch::None;
            for process in group.processes() {
                net.complete(process, self.name_of(process));
            }
            Ok(())
        })?;
        flushed
    }

    /// Waits until all that this process has [`post`](Self::post)ed for have [`complete`](Self::complete)d
    /// (`MPI_Win_wait`).
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC` if nothing was posted; a lost process: it has ended then.
    pub fn wait(&self) -> Result<(), Error> {
        const CALL: &str = "MPI_Win_wait";
        let group = self.exposed(CALL)?;
        let lost = self.wait_for_each(CALL, &group, |state, process| state.completed.contains_key(&process))?;
        self.end_exposure(CALL, &group)?;
        lost.map_or(Ok(()), Err)
    }

    /// Whether [`wait`](Self::wait) would not wait; if so it has ended (`MPI_Win_test`). Makes progress once.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn test(&self) -> Result<bool, Error> {
        const CALL: &str = "MPI_Win_test";
        let group = self.exposed(CALL)?;
        let communicator = &self.0.communicator;
        communicator
            .engine()
            .progress()
            .map_err(|_| communicator.broken(CALL))?;
        let done = self.with(CALL, |state, net| {
            let ended = |process| state.completed.contains_key(&process) || net.lost(process).is_some();
            Ok(group.processes().all(ended))
        })?;
        if done {
            self.wait()?;
        }
        Ok(done)
    }

    fn exposed(&self, call: &'static str) -> Result<Group, Error> {
        self.with(call, |state, _| {
            state.exposed.clone().ok_or(Failure::Refused(ErrorClass::RmaSync))
        })
    }

    fn end_exposure(&self, call: &'static str, group: &Group) -> Result<(), Error> {
        self.with(call, |state, _| {
            state.exposed = None;
            for process in group.processes() {
                WindowState::take_one(&mut state.completed, process);
            }
            Ok(())
        })
    }

    fn check_group(&self, call: &'static str, group: &Group) -> Result<(), Error> {
        let known = |process| self.0.communicator.rank_of(process).is_some();
        if group.processes().all(known) {
            return Ok(());
        }
        let detail = Detail::Text("the group has processes that the window has not");
        Err(self.error(call, ErrorClass::Group).with_detail(detail))
    }

    /// Waits until `done` for each process of `group`. Gives the error if one of them is lost before.
    fn wait_for_each(
        &self,
        call: &'static str,
        group: &Group,
        done: impl Fn(&WindowState, u32) -> bool,
    ) -> Result<Option<Error>, Error> {
        let mut lost = None;
        self.wait_until(call, |core| {
            let missing: Vec<u32> = match core.remote.window(self.0.name) {
                Some(state) => group.processes().filter(|process| !done(state, *process)).collect(),
                None => Vec::new(),
            };
            lost = missing
                .iter()
                .find_map(|process| Some((*process, core.lost(*process)?)));
            missing.is_empty() || lost.is_some()
        })?;
        Ok(lost.map(|(process, error)| self.failed(call, Some(process), Failure::Lost(error))))
    }
}

impl Inner {
    /// Takes the memory back: waits until nothing of it is under way.
    fn close(&self) {
        if self.freed.swap(true, Ordering::Relaxed) {
            return;
        }
        let name = self.name;
        let fabric = &self.communicator.engine().fabric;
        // Our own operations first: their memory is the program's.
        let ended = fabric.wait(&mut |core, _, _| {
            let window = core.remote.window(name);
            window.is_none_or(|state| state.operations(|_| true) == 0)
        });
        fabric.access(&mut |core, messenger, _| core.remote.close(messenger, name));
        let closed = fabric.wait(&mut |core, _, _| core.remote.is_closed(name));
        if ended.and(closed).is_err()
            && let Ok(mut memory) = self.memory.lock()
        {
            // The network has failed, and may still refer to it.
            core::mem::forget(core::mem::take(&mut *memory));
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.close();
    }
}
