#![expect(unsafe_code, reason = "windows and operands are given by pointer, as C does")]
//! Windows: memory that the processes of a communicator read and write remotely (MPI 12).

mod access;
mod atomics;
mod epoch;
pub(super) mod memory;
mod shared;

use alloc::{sync::Arc, vec::Vec};
use core::{
    fmt,
    sync::atomic::{AtomicBool, Ordering},
};
use std::sync::Mutex;

use self::memory::{Kept, Offer, WORDS, Word, with_words};
pub use self::{
    access::{Operands, Target},
    epoch::LockKind,
};
use super::{
    Communicator, Entry, Exit,
    process::Process,
    request::failure_text,
    rma::{Epoch, Failure, Memory, Net, Rma, WindowState},
};
use crate::{
    messaging::Messenger,
    mpi::{
        Rank,
        error::{Detail, Error, ErrorClass},
        group::Group,
    },
    sync::PLACES,
    time::Instant,
};

/// Data about the window of a rank.
#[derive(Clone, Debug)]
struct Peer {
    process: u32,
    name: u64,
    len: u64,
    unit: u32,
    /// Where its memory is in this process, if it is shared.
    mapped: Option<*mut u8>,
    /// The word of its lock, if this process takes that by itself.
    word: Option<Word>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flavor {
    Create,
    Allocate,
    Dynamic,
    Shared,
}

/// The memory of this process, when a window is made.
struct Own {
    flavor: Flavor,
    exposed: Memory,
    base: *mut u8,
    len: u64,
    unit: u32,
    kept: Kept,
    /// The word of its lock, in memory of others, too.
    word: Option<Word>,
    /// It may be shared with other processes of this host.
    offer: Option<Offer>,
}

impl Own {
    /// Memory that is not shared.
    fn alone(flavor: Flavor, exposed: Memory, (base, len, unit): (*mut u8, u64, u32)) -> Self {
        Self {
            flavor,
            exposed,
            base,
            len,
            unit,
            kept: Kept::default(),
            word: None,
            offer: None,
        }
    }
}

/// Numbers of a rank that all ranks learn when a window is made.
const SHARED: usize = 4 + WORDS;

struct Inner {
    /// A duplicate, so that the window's barriers are its own.
    communicator: Communicator,
    flavor: Flavor,
    name: u64,
    base: *mut u8,
    peers: Vec<Peer>,
    /// All ranks have mapped the memory of all, and change elements there themselves.
    is_common: bool,
    /// The place of this process in words of locks.
    place: u32,
    freed: AtomicBool,
    /// Memory that the window has allocated, and that of others.
    memory: Mutex<Kept>,
}

// SAFETY: `base` and those of `peers` are only numbers here; by `Window::create`'s contract the memory there may be used from any thread.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

/// Memory that every process of a communicator lends to the others. Cheap to clone: clones are the same window.
///
/// Operations begin in an *epoch*: between [`fence`](Self::fence)s, between [`start`](Self::start) and
/// [`complete`](Self::complete), or while the target is [`lock`](Self::lock)ed; elsewhere they are `MPI_ERR_RMA_SYNC`.
/// They have ended at origin and target when the epoch ends, or after a [`flush`](Self::flush). (So `flush` also serves
/// as `MPI_Win_flush_local`, which demands less.) MPI's assertions are hints, and are not offered here.
///
/// Processes of one host that [allocate](Self::allocate) a window share its memory, if they are reached through memory
/// ([`Routes`](crate::transport::Routes)): there, `put` and `get` are copies, which have ended when the call returns, and
/// need no part of the target. If all processes of the window share its memory, accumulates and swaps are atomics of the
/// CPU, for elements of up to 8 bytes that lie at multiples of their size. All others are done by the target. So each
/// is atomic whoever calls it.
///
/// A lock of a window whose memory this process shares is an atomic of the CPU, too, as long as nobody else holds or wants
/// it in a way that excludes this; otherwise the target is asked for it. It is the same lock.
///
/// Otherwise, the target's part of an operation runs in whichever of its threads makes progress, or in its helper thread.
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

/// Creating and freeing windows: all of these are collective, but for attach and detach.
impl Window {
    /// A window over `len` bytes at `base`, with displacements in units of `unit` bytes (`MPI_Win_create`).
    ///
    /// # Errors
    /// `unit` is 0; the memory exceeds the address space; a process is lost.
    ///
    /// # Safety
    /// Until the window has been freed or all of its clones dropped: the memory is initialised and may be read and
    /// written from any thread, and the program accesses it only as MPI allows between synchronisations (MPI 12.7).
    pub unsafe fn create(communicator: &Communicator, base: *mut u8, len: u64, unit: u32) -> Result<Self, Error> {
        // SAFETY: the caller's contract.
        let memory = unsafe { Memory::new(base, len) };
        let own = Own::alone(Flavor::Create, memory, (base, len, unit));
        Self::make("MPI_Win_create", communicator, own)
    }

    /// A window over `len` new bytes, which are 0 (`MPI_Win_allocate`). They are at [`base`](Self::base), aligned to 8
    /// bytes, until the window has been freed or all of its clones dropped.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn allocate(communicator: &Communicator, len: u64, unit: u32) -> Result<Self, Error> {
        const CALL: &str = "MPI_Win_allocate";
        let engine = communicator.engine();
        // A process that is not reached through memory does not share any.
        let is_near = communicator.access(false, |_, messenger, _| messenger.layer().memory().is_some())
            && engine.fabric.is_native();
        let mut offer = is_near.then(|| Offer::open(engine)).flatten();
        let mut kept = Kept::default();
        let made = |offer: &mut Offer| Some(Arc::new(offer.make(with_words(len, 1)?)?));
        let mut word = None;
        if let Some(mapped) = offer.as_mut().and_then(made) {
            word = Some(Word::behind(&mapped, len, 0));
            kept.segments.push(mapped);
        } else {
            offer = None;
            let words = usize::try_from(len.div_ceil(8)).unwrap_or(usize::MAX);
            if kept.words.try_reserve_exact(words).is_ok() {
                kept.words.resize(words, 0);
            }
        }
        let enough = offer.is_some() || kept.words.len() as u64 >= len.div_ceil(8);
        let base = match kept.segments.first() {
            Some(mapped) => mapped.base(),
            None => kept.words.as_mut_ptr().cast::<u8>(),
        };
        // A rank without enough memory takes part all the same, so that all ranks learn about it.
        let (len, unit) = if enough { (len, unit) } else { (0, 0) };
        // SAFETY: the memory is kept until the window is closed, and its address is given out as a pointer only.
        let exposed = unsafe { Memory::new(base, len) };
        let own = Own {
            kept,
            word,
            offer,
            ..Own::alone(Flavor::Allocate, exposed, (base, len, unit))
        };
        Self::make(CALL, communicator, own).map_err(|error| {
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
    /// A process is lost.
    pub fn create_dynamic(communicator: &Communicator) -> Result<Self, Error> {
        let own = Own::alone(Flavor::Dynamic, Memory::dynamic(), (core::ptr::null_mut(), 0, 1));
        Self::make("MPI_Win_create_dynamic", communicator, own)
    }

    fn make(call: &'static str, communicator: &Communicator, own: Own) -> Result<Self, Error> {
        Self::make_with(call, communicator, own, |_, _| ())
    }

    /// The same; `map` adds what is known of a rank's memory.
    fn make_with(
        call: &'static str,
        communicator: &Communicator,
        own: Own,
        map: impl Fn(usize, &mut Peer),
    ) -> Result<Self, Error> {
        let span = communicator.enter(|| Entry {
            bytes: own.len,
            displacement: Some(own.unit.into()),
            ..Entry::named(call)
        });
        let flavor = own.flavor;
        let made = Self::make_quietly(call, communicator, own).map(|mut inner| {
            for (rank, peer) in inner.peers.iter_mut().enumerate() {
                map(rank, peer);
            }
            // (If there are more ranks on this host than places, some ask for all locks.)
            if inner.place >= PLACES {
                inner.peers.iter_mut().for_each(|peer| peer.word = None);
            }
            // (There is no shared window that a rank has not mapped.)
            inner.is_common |= flavor == Flavor::Shared;
            Self(Arc::new(inner))
        });
        span.leave(made, |window, leave| {
            leave(&Exit {
                made: Some(window.0.communicator.as_made()),
                ..Exit::default()
            });
        })
    }

    fn make_quietly(call: &'static str, communicator: &Communicator, own: Own) -> Result<Inner, Error> {
        let Own {
            flavor,
            exposed,
            base,
            len,
            unit,
            kept,
            word,
            offer,
        } = own;
        communicator.is_one_group(call)?;
        let communicator = communicator.duplicate_quietly(call)?;
        let group = communicator.group();
        let fits = unit > 0 && i64::try_from(len).is_ok() && (base as u64).checked_add(len).is_some();
        let mut exposed = Some(exposed);
        let name = communicator.access(None, |core, messenger, _| {
            let exposed = exposed.take().filter(|_| fits)?;
            core.rma.it().expose(messenger, exposed, group.clone())
        });
        let mut inner = Inner {
            name: name.unwrap_or(0),
            flavor,
            base,
            peers: Vec::new(),
            is_common: false,
            place: 0,
            freed: AtomicBool::new(name.is_none()),
            memory: Mutex::new(kept),
            communicator: communicator.clone(),
        };
        if let Some(word) = &word {
            inner.share_lock(word);
        }
        if flavor == Flavor::Shared {
            let all: Vec<usize> = (0..communicator.size() as usize).collect();
            inner.admit_to_lock(&all);
        }
        let mut own = [0; SHARED];
        own[..4].copy_from_slice(&[inner.name as i64, len as i64, i64::from(unit), name.is_some().into()]);
        if let Some(offer) = &offer {
            own[4..].copy_from_slice(&offer.words());
        }
        let all = communicator.share(call, &own)?;
        if all.chunks_exact(SHARED).any(|peer| peer[3] == 0) {
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
            .zip(all.chunks_exact(SHARED))
            .map(|(process, peer)| Peer {
                process,
                name: peer[0] as u64,
                len: peer[1] as u64,
                unit: peer[2] as u32,
                mapped: None,
                word: None,
            })
            .collect();
        // All ranks see alike whether all offer memory on one host; then they tell each other whether it has come.
        let is_near = |offer: &Offer| all.chunks_exact(SHARED).all(|said| offer.meets(&said[4..]));
        let may_be_common = offer.as_ref().is_some_and(is_near);
        if let Some(offer) = offer {
            inner.share(offer, word, &all);
        }
        if may_be_common {
            let has_all = inner.peers.iter().all(|peer| peer.mapped.is_some());
            let have_all = communicator.share(call, &[i64::from(has_all)])?;
            inner.is_common = have_all.iter().all(|has_all| *has_all == 1);
        }
        Ok(inner)
    }

    /// Adds memory to a dynamic window (`MPI_Win_attach`). Not collective; the program must tell other ranks the
    /// address.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_FLAVOR` if the window is not dynamic; `MPI_ERR_RMA_ATTACH` if some of the memory is attached
    /// already, or exceeds the address space.
    ///
    /// # Safety
    /// As [`create`](Self::create), until it has been detached.
    pub unsafe fn attach(&self, base: *mut u8, len: u64) -> Result<(), Error> {
        const CALL: &str = "MPI_Win_attach";
        let entry = || Entry {
            bytes: len,
            displacement: Some(base as i64),
            ..Entry::named(CALL)
        };
        self.told_as(entry, || {
            self.flavored(CALL)?;
            let attached = self.with(CALL, |state, _| {
                // SAFETY: the caller's contract.
                Ok(unsafe { state.memory.attach(base, len) })
            })?;
            attached.then_some(()).ok_or_else(|| {
                let detail = Detail::Text("some of it is attached already, or it goes beyond memory");
                self.error(CALL, ErrorClass::RmaAttach).with_detail(detail)
            })
        })
    }

    /// Removes the memory that was attached at `base` from a dynamic window (`MPI_Win_detach`).
    ///
    /// # Errors
    /// `MPI_ERR_RMA_FLAVOR` if the window is not dynamic; `MPI_ERR_RMA_ATTACH` if no memory is attached at `base`.
    pub fn detach(&self, base: *mut u8) -> Result<(), Error> {
        const CALL: &str = "MPI_Win_detach";
        let entry = || Entry {
            displacement: Some(base as i64),
            ..Entry::named(CALL)
        };
        self.told_as(entry, || {
            self.flavored(CALL)?;
            let pins = self.with(CALL, |state, _| Ok(state.memory.detach(base)))?;
            let Some(pins) = pins else {
                let detail = Detail::Text("no memory is attached at this address");
                return Err(self.error(CALL, ErrorClass::RmaAttach).with_detail(detail));
            };
            self.wait_until(CALL, |_| pins.are_released())
        })
    }

    fn flavored(&self, call: &'static str) -> Result<(), Error> {
        let dynamic = self.0.flavor == Flavor::Dynamic;
        dynamic
            .then_some(())
            .ok_or_else(|| self.error(call, ErrorClass::RmaFlavor))
    }

    /// Frees the window, once all of its processes have called this (`MPI_Win_free`). All operations have ended then.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC` in an epoch of [`start`](Self::start), [`post`](Self::post) or [`lock`](Self::lock): then
    /// nothing has happened. Otherwise the window is freed, even if a process is lost or an operation has failed.
    pub fn free(&self) -> Result<(), Error> {
        const CALL: &str = "MPI_Win_free";
        self.told(CALL, None, || {
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
        })
    }
}

/// Getters.
impl Window {
    /// A duplicate of the communicator on which it was created (`MPI_Win_get_group`). Its name is that of the window
    /// (`MPI_Win_set_name`, `MPI_Win_get_name`).
    #[must_use]
    pub fn communicator(&self) -> &Communicator {
        &self.0.communicator
    }

    /// The memory of this process; null for a dynamic window (`MPI_WIN_BASE`).
    #[must_use]
    pub fn base(&self) -> *mut u8 {
        self.0.base
    }

    /// Size and displacement unit at `rank`, both in bytes (`MPI_WIN_SIZE`, `MPI_WIN_DISP_UNIT`).
    #[must_use]
    pub fn extent_at(&self, rank: Rank) -> Option<(u64, u32)> {
        let peer = self.0.peers.get(usize::try_from(rank).ok()?)?;
        Some((peer.len, peer.unit))
    }

    /// Runs the body of a call, and tells the profiler of it.
    fn told<R>(
        &self,
        call: &'static str,
        peer: Option<Rank>,
        run: impl FnOnce() -> Result<R, Error>,
    ) -> Result<R, Error> {
        let entry = || Entry {
            peer,
            ..Entry::named(call)
        };
        self.told_as(entry, run)
    }

    /// The same with other arguments.
    fn told_as<R>(&self, entry: impl FnOnce() -> Entry, run: impl FnOnce() -> Result<R, Error>) -> Result<R, Error> {
        self.0.communicator.enter(entry).end(run())
    }

    /// The same for a call with a group.
    fn told_of<R>(
        &self,
        call: &'static str,
        group: &Group,
        run: impl FnOnce() -> Result<R, Error>,
    ) -> Result<R, Error> {
        let communicator = &self.0.communicator;
        communicator
            .enter(|| Entry::among(call, communicator.targets(), group))
            .end(run())
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

    fn peer_of(&self, process: u32) -> Option<&Peer> {
        let rank = self.0.communicator.rank_of(process)?;
        self.0.peers.get(rank as usize)
    }

    fn name_of(&self, process: u32) -> u64 {
        self.peer_of(process).map_or(0, |peer| peer.name)
    }

    /// Calls `f` with the lock held.
    fn locked<R>(&self, call: &'static str, f: impl FnOnce(&mut Rma, &mut Net<'_>) -> R) -> Result<R, Error> {
        self.entered(call, |core, messenger, now| core.with_rma(messenger, now, f))
    }

    /// Runs `f` with the engine's state.
    fn entered<R>(
        &self,
        call: &'static str,
        f: impl FnOnce(&mut Process, &mut Messenger, Instant) -> R,
    ) -> Result<R, Error> {
        self.check(call)?;
        let (mut f, mut result) = (Some(f), None);
        self.0.communicator.engine().fabric.access(
            &mut |core: &mut Process, messenger: &mut Messenger, now: Instant| {
                if let Some(f) = f.take() {
                    result = Some(f(core, messenger, now));
                }
            },
        );
        result.ok_or_else(|| self.0.communicator.broken(call))
    }

    /// Calls `f` with the state of the window.
    fn with<R>(
        &self,
        call: &'static str,
        f: impl FnOnce(&mut WindowState, &mut Net<'_>) -> Result<R, Failure>,
    ) -> Result<R, Error> {
        let done = self.locked(call, |rma, net| match rma.window(self.0.name) {
            Some(state) => f(state, net),
            None => Err(Failure::Refused(ErrorClass::Win)),
        })?;
        done.map_err(|failure| self.failed(call, None, failure))
    }

    /// Waits until `done` gives true.
    fn wait_until(&self, call: &'static str, mut done: impl FnMut(&mut Process) -> bool) -> Result<(), Error> {
        let fabric = &self.0.communicator.engine().fabric;
        let waited = fabric.wait(&mut |core, _, _| done(core));
        waited.map_err(|_| self.0.communicator.broken(call))
    }

    /// The same for the state of the window.
    fn wait_for(&self, call: &'static str, mut done: impl FnMut(&mut WindowState) -> bool) -> Result<(), Error> {
        self.wait_until(call, |core| core.rma.it().window(self.0.name).is_none_or(&mut done))
    }
}

impl Inner {
    /// The word of this window's lock lies there. (No process knows the window yet.)
    fn share_lock(&self, word: &Word) {
        self.communicator.access((), |core, _, _| {
            if let Some(state) = core.rma.it().window(self.name) {
                state.share_lock(Arc::new(word.clone()));
            }
        });
    }

    /// The processes of these ranks are about to take the lock of this window by themselves, and this one takes theirs. All
    /// of them list the same ranks. To be called before one of them gets at the word.
    fn admit_to_lock(&mut self, ranks: &[usize]) {
        let own = self.communicator.rank() as usize;
        self.place = ranks
            .iter()
            .position(|rank| *rank == own)
            .map_or(PLACES, |at| at as u32);
        let group = self.communicator.group();
        let processes = ranks.iter().filter_map(|rank| group.process(*rank as Rank));
        let processes: Vec<u32> = processes.collect();
        self.communicator.access((), |core, messenger, now| {
            core.with_rma(messenger, now, |rma, net| {
                rma.admit_to_lock(net, self.name, &processes);
            });
        });
    }

    /// Maps the memory of the other processes of this host, which do the same. `all`: what the ranks have said.
    fn share(&mut self, offer: Offer, word: Option<Word>, all: &[i64]) {
        let own = self.communicator.rank() as usize;
        let said = all.chunks_exact(SHARED).enumerate();
        let near = said.filter_map(|(rank, said)| offer.meets(&said[4..]).then_some(rank));
        let mut near: Vec<usize> = near.collect();
        self.admit_to_lock(&near);
        near.retain(|rank| *rank != own);
        let of = |rank: &usize| {
            let len = with_words(self.peers[*rank].len, 1).unwrap_or(u64::MAX);
            (all[rank * SHARED..][4..SHARED].to_vec(), len)
        };
        let givers: Vec<_> = near.iter().map(of).collect();
        let mapped = offer.exchange(self.communicator.engine(), near.len(), &givers);
        self.peers[own].mapped = Some(self.base);
        self.peers[own].word = word;
        let Ok(kept) = self.memory.get_mut() else { return };
        for (rank, mapped) in near.into_iter().zip(mapped) {
            let Some(mapped) = mapped.map(Arc::new) else { continue };
            let peer = &mut self.peers[rank];
            peer.mapped = Some(mapped.base());
            peer.word = Some(Word::behind(&mapped, peer.len, 0));
            kept.segments.push(mapped);
        }
    }

    /// Closes the window, and waits until nothing refers to its memory.
    fn close(&self) {
        if self.freed.swap(true, Ordering::Relaxed) {
            return;
        }
        let name = self.name;
        let fabric = &self.communicator.engine().fabric;
        // This process's own operations first: they use memory of the program.
        let ended = fabric.wait(&mut |core, _, _| {
            let window = core.rma.it().window(name);
            window.is_none_or(|state| state.operations(|_| true) == 0)
        });
        fabric.access(&mut |core, messenger, _| core.rma.it().close(messenger, name));
        let closed = fabric.wait(&mut |core, _, _| core.rma.it().is_closed(name));
        if ended.and(closed).is_err()
            && let Ok(mut memory) = self.memory.lock()
        {
            // The network has failed, and may still refer to the memory.
            core::mem::forget(core::mem::take(&mut *memory));
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.close();
    }
}
