//! MPI's profiling interface (MPI 15.2): a hook that is told of the calls of a process, instead of a second name for
//! every function.

use alloc::{boxed::Box, sync::Arc, vec, vec::Vec};
use core::{
    fmt::Debug,
    sync::atomic::{AtomicU64, Ordering},
};
use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    thread::{self, ThreadId},
};

use super::{Communicator, Engine, Region, Request, Status, fabric::CallNote, uninterrupted};
use crate::{
    mpi::{
        Rank,
        collectives::{Blocks, Call, Role},
        datatype::{Datatype, Kind},
        error::Error,
        group::Group,
        operation::Operation,
    },
    time::Instant,
};

/// Is told when calls of the engine begin and end ([`Options::profiler`](super::Options::profiler)): only calls that
/// the program has made, not those that calls of the engine make in turn.
///
/// All threads that call MPI call it, without holding any lock; it must not call MPI. Times are those of the engine's
/// network ([`Instant`]: a real process's clock, or a simulation's). A panic in it ends the process: the calls that it
/// is told of have begun to use buffers.
pub trait Profiler: Debug + Send + Sync {
    /// The engine has started as process `process` of `size`.
    fn open(&self, now: Instant, process: u32, size: u32) {
        let _ = (now, process, size);
    }

    /// A call begins.
    fn enter(&self, now: Instant, entry: &Entry) {
        let _ = (now, entry);
    }

    /// A call that began at `begun` ends.
    fn leave(&self, begun: Instant, now: Instant, entry: &Entry, exit: &Exit<'_>);

    /// The process takes part in no more communication ([`Engine::finalize`]).
    fn close(&self, now: Instant) {
        let _ = now;
    }
}

/// A call with its arguments, as far as communication depends on them. Arguments that a call does not have are `None`,
/// 0 or empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// Its MPI name.
    pub call: &'static str,
    /// The context of the communicator; for a window, that of the window's own communicator.
    pub context: u32,
    /// Rank of the other side, or of the root, as given: it may be a wildcard.
    pub peer: Option<Rank>,
    /// The tag, as given.
    pub tag: Option<i32>,
    /// Number of elements of the datatype: of the message, or of this rank's vector or block. For `MPI_Pready`, the
    /// number of partitions.
    pub count: u64,
    /// Bytes of these elements. When a window is created: its size here; when memory is attached: its size.
    pub bytes: u64,
    /// The kind of all elements, if they are of one predefined kind.
    pub kind: Option<Kind>,
    /// The reduction, by its MPI name or `user`.
    pub operation: Option<&'static str>,
    /// Number of partitions of a message.
    pub partitions: Option<u32>,
    /// The partitions that are ready. If they are contiguous, they are [`count`](Self::count) from
    /// [`displacement`](Self::displacement) on.
    pub ready: Vec<u32>,
    /// Displacement in the target's window. When a window is created: its displacement unit; when memory is attached or
    /// detached: its address; else a partition.
    pub displacement: Option<i64>,
    /// Lock type of a window, by its MPI name.
    pub lock: Option<&'static str>,
    /// Bytes that a collective takes from each of its blocks: for each rank, or for each neighbour. One number if they
    /// are all alike.
    pub sent: Vec<u64>,
    /// The same for blocks that it receives; for `MPI_Sendrecv` the size of the receive buffer.
    pub received: Vec<u64>,
    /// Ranks from which a neighbourhood collective receives (or `MPI_PROC_NULL`).
    pub sources: Vec<Rank>,
    /// Ranks to which it sends; or the group of [`Window::post`](super::Window::post) and the like.
    pub destinations: Vec<Rank>,
    /// The numbers of the requests that the call takes: see [`Exit::request`].
    pub requests: Vec<u64>,
}

/// How a call has ended.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Exit<'a> {
    /// The error, if it has failed.
    pub error: Option<&'a Error>,
    /// Number of the request that it has begun, or of the message that a matched probe has found; this process gives
    /// out each number once. The call that waits for the request, or receives the message, has the number in
    /// [`Entry::requests`].
    pub request: Option<u64>,
    /// The operations that have ended with it, or the message found by a probe: number of the request (0 for the call
    /// itself) and status. Empty if a test has found nothing; where a call has no status, that is empty.
    pub ended: &'a [(u64, Status)],
    /// The communicator that it has created, or that of the window.
    pub made: Option<&'a Communicator>,
}

impl Entry {
    /// A call with `count` elements.
    pub(super) fn of(call: &'static str, count: u64, datatype: &Datatype) -> Self {
        Self {
            call,
            count,
            bytes: count.saturating_mul(datatype.size()),
            kind: datatype.element_kind(),
            ..Self::default()
        }
    }

    /// A call with no further arguments.
    pub(super) fn named(call: &'static str) -> Self {
        Self {
            call,
            ..Self::default()
        }
    }

    pub(super) fn with_peer(self, peer: Rank) -> Self {
        Self {
            peer: Some(peer),
            ..self
        }
    }

    pub(super) fn with_tag(self, tag: i32) -> Self {
        Self { tag: Some(tag), ..self }
    }

    /// A call with these processes, by their ranks in `communicator`.
    pub(super) fn among(call: &'static str, communicator: &Communicator, group: &Group) -> Self {
        let ranks = group.processes().map(|process| communicator.rank_of(process));
        Self {
            destinations: ranks.map(|rank| rank.unwrap_or(super::ANY_SOURCE)).collect(),
            ..Self::named(call)
        }
    }

    /// A collective.
    pub(super) fn collective(
        name: &'static str,
        call: &Call<'_>,
        (input, output): (&Region<'_>, &Region<'_>),
        operation: Option<&Operation>,
    ) -> Self {
        let own = |count: usize, region: &Region<'_>| match region {
            Region::Plain(_, datatype) => Self::of(name, count as u64, datatype),
            Region::None | Region::Each(..) => Self {
                count: count as u64,
                ..Self::named(name)
            },
        };
        let vector = if matches!(output, Region::None) { input } else { output };
        let (sent, received) = (call.input.single(), call.output.single());
        let mut entry = match call.roles() {
            (Role::Packed, _) => match vector {
                Region::Plain(_, datatype) => {
                    let elements = (received as u64).checked_div(datatype.size()).unwrap_or(0);
                    Self::of(name, elements, datatype)
                }
                _ => own(received, vector),
            },
            (Role::Vector, _) => own(received, vector),
            (Role::Divided, _) => own(call.output.total(1), vector),
            (Role::Block, _) => own(sent, if call.in_place { output } else { input }),
            (_, Role::Block) => own(received, if call.in_place { input } else { output }),
            _ => Self::named(name),
        };
        entry.received = match call.collective().output() {
            Role::Blocks => bytes(&call.output, output),
            Role::Divided => bytes(&call.output, vector),
            _ => Vec::new(),
        };
        entry.sent = match call.roles() {
            (Role::Blocks, _) => bytes(&call.input, input),
            (Role::None, _) => entry.received.clone(),
            _ => Vec::new(),
        };
        let ranks = |ranks: &[Option<usize>]| {
            let rank = |rank: &Option<usize>| rank.map_or(super::PROC_NULL, |rank| rank as Rank);
            ranks.iter().map(rank).collect()
        };
        (entry.sources, entry.destinations) = (ranks(call.sources), ranks(call.destinations));
        entry.peer = call.root().map(|root| root as Rank);
        entry.operation = operation.map(|operation| operation.as_predefined().map_or("user", |known| known.name()));
        entry
    }
}

/// Bytes of each block; one number if they are alike.
fn bytes(blocks: &Blocks<'_>, region: &Region<'_>) -> Vec<u64> {
    let size = |index: usize| match region {
        Region::Plain(_, datatype) => datatype.size(),
        Region::None => 0,
        Region::Each(_, elements) => elements
            .get(index)
            .map_or(0, |(_, count, datatype)| count * datatype.size()),
    };
    match *blocks {
        Blocks::Even { count } => vec![size(0).saturating_mul(count as u64)],
        Blocks::Uneven { counts, .. } => counts
            .iter()
            .enumerate()
            .map(|(index, count)| size(index).saturating_mul(*count as u64))
            .collect(),
        Blocks::Pieces { total, parts } => (0..parts)
            .map(|index| size(0).saturating_mul((total / parts + usize::from(index < total % parts)) as u64))
            .collect(),
    }
}

/// A call that consists of others: its thread, and the operations that have ended in it so far.
type Nested = (ThreadId, Vec<(u64, Status)>);

/// The profiler of an engine, and the numbers that its requests have.
#[derive(Debug)]
pub(super) struct Profile {
    profiler: Option<Arc<dyn Profiler>>,
    /// The fabric wants to know the calls, too, by name only.
    noted: bool,
    numbers: AtomicU64,
    /// Calls in progress that consist of others.
    nested: Mutex<Vec<Nested>>,
}

impl Profile {
    pub(super) fn new(profiler: Option<Arc<dyn Profiler>>, noted: bool) -> Self {
        Self {
            profiler,
            noted,
            numbers: AtomicU64::new(1),
            nested: Mutex::default(),
        }
    }

    fn nested(&self) -> MutexGuard<'_, Vec<Nested>> {
        self.nested.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this thread is in a call that consists of others.
    fn is_nested(&self) -> bool {
        let own = thread::current().id();
        self.nested().iter().any(|(thread, _)| *thread == own)
    }

    /// Adds operations that have ended to the call that this thread is in.
    fn add_ended(&self, ended: &[(u64, Status)]) {
        let own = thread::current().id();
        if let Some((_, all)) = self.nested().iter_mut().find(|(thread, _)| *thread == own) {
            all.extend(ended.iter().filter(|(number, _)| *number != 0));
        }
    }

    /// Returns whether nothing is told of calls: neither a profiler nor the fabric.
    #[inline(always)]
    pub(super) fn is_off(&self) -> bool {
        self.profiler.is_none() && !self.noted
    }

    #[inline]
    pub(super) fn profiler(&self) -> Option<&dyn Profiler> {
        self.profiler.as_deref()
    }
}

/// A call that has been entered; empty if neither profiler nor fabric is told of it.
#[derive(Default)]
pub(super) struct Span(Option<Told>);

/// The description of a call for the profiler.
enum Told {
    /// The fabric. It is not told when the call ends: the next call, or time that the program spends outside of calls,
    /// implies it.
    Fabric,
    /// The profiler; the fabric, too, if it wants to know.
    Profiler(Box<Open>),
    /// The call that this one is a part of.
    Nested(Arc<Engine>),
}

/// Marks this thread as being in a call that consists of others, until dropped.
struct Within<'a>(&'a Profile);

impl<'a> Within<'a> {
    fn new(profile: &'a Profile) -> Self {
        profile.nested().push((thread::current().id(), Vec::new()));
        Self(profile)
    }

    /// The operations that have ended in it.
    fn ended(&self) -> Vec<(u64, Status)> {
        let own = thread::current().id();
        let mut nested = self.0.nested();
        let found = nested.iter_mut().find(|(thread, _)| *thread == own);
        found.map_or_else(Vec::new, |(_, ended)| core::mem::take(ended))
    }
}

impl Drop for Within<'_> {
    fn drop(&mut self) {
        let own = thread::current().id();
        self.0.nested().retain(|(thread, _)| *thread != own);
    }
}

/// Calls of the standard that are made of several of the engine's: a profiler sees one call.
impl Communicator {
    /// Whether a profiler is told of calls ([`Options::profiler`](super::Options::profiler)).
    #[must_use]
    pub fn is_told(&self) -> bool {
        self.engine().profile.profiler().is_some()
    }

    /// Presents `f` as one call with a message of `count` elements. If the call receives, `room` is the size of the
    /// receive buffer, bytes, and `received` gives the status.
    ///
    /// # Errors
    /// Those of `f`.
    pub fn message_as_one<R>(
        &self,
        call: &'static str,
        (count, datatype): (u64, &Datatype),
        (peer, tag): (Rank, i32),
        room: Option<u64>,
        f: impl FnOnce() -> Result<R, Error>,
        received: impl FnOnce(&R) -> Option<Status>,
    ) -> Result<R, Error> {
        let entry = || Entry {
            received: room.into_iter().collect(),
            ..Entry::of(call, count, datatype).with_peer(peer).with_tag(tag)
        };
        self.as_one(entry, f, |result, _| {
            received(result).map(|status| (0, status)).into_iter().collect()
        })
    }

    /// Presents `f` as one call that creates a communicator, or none.
    ///
    /// # Errors
    /// Those of `f`.
    pub fn make_as_one(
        &self,
        call: &'static str,
        f: impl FnOnce() -> Result<Option<Self>, Error>,
    ) -> Result<Option<Self>, Error> {
        let profile = &self.engine().profile;
        if profile.profiler().is_none() || profile.is_nested() {
            return f();
        }
        let span = self.enter(|| Entry::named(call));
        let within = Within::new(profile);
        let made = f();
        drop(within);
        span.may_make(made)
    }

    fn as_one<R>(
        &self,
        entry: impl FnOnce() -> Entry,
        f: impl FnOnce() -> Result<R, Error>,
        ended: impl FnOnce(&R, Vec<(u64, Status)>) -> Vec<(u64, Status)>,
    ) -> Result<R, Error> {
        let profile = &self.engine().profile;
        if profile.profiler().is_none() || profile.is_nested() {
            return f();
        }
        let span = self.enter(entry);
        let within = Within::new(profile);
        let result = f();
        let parts = within.ended();
        drop(within);
        span.leave(result, |result, leave| {
            leave(&Exit {
                ended: &ended(result, parts),
                ..Exit::default()
            });
        })
    }
}

impl Request {
    /// Presents `f` as one call with these requests, such as `MPI_Waitall`.
    ///
    /// # Errors
    /// Those of `f`.
    pub fn together<R>(
        call: &'static str,
        communicator: &Communicator,
        numbers: Vec<u64>,
        f: impl FnOnce() -> Result<R, Error>,
    ) -> Result<R, Error> {
        let entry = || Entry {
            requests: numbers,
            ..Entry::named(call)
        };
        communicator.as_one(entry, f, |_, ended| ended)
    }
}

struct Open {
    engine: Arc<Engine>,
    begun: Instant,
    entry: Entry,
}

impl Communicator {
    /// A call begins.
    #[inline]
    pub(super) fn enter(&self, entry: impl FnOnce() -> Entry) -> Span {
        let profile = &self.engine().profile;
        match profile.profiler() {
            None if !profile.noted => Span(None),
            None => {
                let Entry { call, peer, tag, .. } = entry();
                self.note(call, peer, tag);
                Span(Some(Told::Fabric))
            }
            Some(profiler) => Span::open(self, profiler, entry()),
        }
    }

    /// The same for a message of `count` elements. The entry is made only if there is a profiler; the fabric is told if
    /// the call [has to wait](Self::will_wait).
    #[inline]
    pub(super) fn enter_message(
        &self,
        call: &'static str,
        (count, datatype): (u64, &Datatype),
        (peer, tag): (Rank, i32),
    ) -> Span {
        let Some(profiler) = self.engine().profile.profiler() else {
            return Span(None);
        };
        let entry = Entry::of(call, count, datatype).with_peer(peer).with_tag(tag);
        Span::open(self, profiler, entry)
    }

    /// The call, which sends or receives a message, may wait from here on.
    #[inline]
    pub(super) fn will_wait(&self, call: &'static str, peer: Rank, tag: i32) {
        if self.engine().profile.noted {
            self.note(call, Some(peer), Some(tag));
        }
    }
}

impl From<CallNote> for Entry {
    fn from(note: CallNote) -> Self {
        Self {
            call: note.call,
            context: note.context,
            peer: note.peer,
            tag: note.tag,
            ..Self::default()
        }
    }
}

impl Communicator {
    /// Tells the fabric which call the program is in.
    fn note(&self, call: &'static str, peer: Option<Rank>, tag: Option<i32>) {
        self.engine().fabric.note(Some(CallNote {
            call,
            context: self.context(),
            peer,
            tag,
        }));
    }
}

impl Span {
    #[cold]
    fn open(communicator: &Communicator, profiler: &dyn Profiler, entry: Entry) -> Self {
        let engine = communicator.engine();
        if engine.profile.is_nested() {
            return Self(Some(Told::Nested(Arc::clone(engine))));
        }
        let begun = engine.fabric.now();
        let entry = Entry {
            context: communicator.context(),
            ..entry
        };
        uninterrupted(|| profiler.enter(begun, &entry));
        if engine.profile.noted {
            communicator.note(entry.call, entry.peer, entry.tag);
        }
        Self(Some(Told::Profiler(Box::new(Open {
            engine: Arc::clone(engine),
            begun,
            entry,
        }))))
    }

    pub(super) fn is_open(&self) -> bool {
        self.0.is_some()
    }

    /// The call ends with `result`. If it has succeeded, `tell` is called to report its exit.
    #[inline]
    pub(super) fn leave<T>(
        self,
        result: Result<T, Error>,
        tell: impl FnOnce(&T, &mut dyn FnMut(&Exit<'_>)),
    ) -> Result<T, Error> {
        if let Self(Some(Told::Profiler(_) | Told::Nested(_))) = &self {
            self.close(result.as_ref(), tell);
        }
        result
    }

    #[cold]
    fn close<T>(mut self, result: Result<&T, &Error>, tell: impl FnOnce(&T, &mut dyn FnMut(&Exit<'_>))) {
        let open = match self.0.take() {
            Some(Told::Profiler(open)) => open,
            Some(Told::Nested(engine)) => {
                if let Ok(value) = result {
                    tell(value, &mut |exit| engine.profile.add_ended(exit.ended));
                }
                return;
            }
            _ => return,
        };
        match result {
            Ok(value) => tell(value, &mut |exit| open.leave(exit)),
            Err(error) => open.leave(&Exit {
                error: Some(error),
                ..Exit::default()
            }),
        }
    }

    /// The same for a call with nothing more to report.
    #[inline]
    pub(super) fn end<T>(self, result: Result<T, Error>) -> Result<T, Error> {
        self.leave(result, |_, leave| leave(&Exit::default()))
    }

    /// The same for a call that gives a status.
    #[inline]
    pub(super) fn end_with(self, result: Result<Status, Error>) -> Result<Status, Error> {
        self.leave(result, |status, leave| {
            leave(&Exit {
                ended: &[(0, *status)],
                ..Exit::default()
            });
        })
    }

    /// The same for a call that has begun a request, which gets a number.
    #[inline(always)]
    pub(super) fn begin(self, result: Result<Request, Error>) -> Result<Request, Error> {
        if self.is_open() { self.numbered(result) } else { result }
    }

    fn numbered(self, mut result: Result<Request, Error>) -> Result<Request, Error> {
        if let (Self(Some(Told::Profiler(open))), Ok(request)) = (&self, &mut result) {
            request.set_number(open.number());
        }
        self.leave(result, |request, leave| {
            leave(&Exit {
                request: Some(request.number()),
                ..Exit::default()
            });
        })
    }

    /// The same for a call that has created a communicator.
    pub(super) fn make(self, result: Result<Communicator, Error>) -> Result<Communicator, Error> {
        self.leave(result, |made, leave| {
            leave(&Exit {
                made: Some(made),
                ..Exit::default()
            });
        })
    }

    /// The same for a call that may have created none.
    pub(super) fn may_make(self, result: Result<Option<Communicator>, Error>) -> Result<Option<Communicator>, Error> {
        self.leave(result, |made, leave| {
            leave(&Exit {
                made: made.as_ref(),
                ..Exit::default()
            });
        })
    }

    /// A number for the request or message of the call; 0 if there is no profiler.
    pub(super) fn number(&self) -> u64 {
        match &self.0 {
            Some(Told::Profiler(open)) => open.number(),
            _ => 0,
        }
    }
}

impl Drop for Span {
    #[inline]
    fn drop(&mut self) {
        if let Some(Told::Profiler(open)) = &self.0 {
            open.leave(&Exit::default());
        }
    }
}

impl Open {
    fn number(&self) -> u64 {
        self.engine.profile.numbers.fetch_add(1, Ordering::Relaxed)
    }

    #[cold]
    fn leave(&self, exit: &Exit<'_>) {
        let profile = &self.engine.profile;
        if let Some(profiler) = profile.profiler() {
            let now = self.engine.fabric.now();
            uninterrupted(|| profiler.leave(self.begun, now, &self.entry, exit));
        }
        if profile.noted {
            self.engine.fabric.note(None);
        }
    }
}

/// Whether the operation goes on after this function: it gives a request (MPI 3.7).
pub(super) fn is_immediate(call: &str) -> bool {
    call.starts_with("MPI_I") || call.starts_with("MPI_Start")
}
