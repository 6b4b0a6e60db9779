//! Communicators: groups of processes that communicate in a context of their own (MPI 7), and their calls.

mod arrays;
mod checked;
mod collectives;
mod contexts;
mod messages;
mod numbered;
mod partitioned;
mod persistent;
mod persistent_message;
mod probes;
mod short;

use alloc::{borrow::ToOwned, string::String, sync::Arc};
use core::{
    fmt,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(in crate::mpi::engine) use self::contexts::PORTS;
pub use self::{
    arrays::Arriving,
    contexts::Duplicating,
    messages::Mode,
    partitioned::{PartitionedReceive, PartitionedSend},
    persistent::PersistentCollective,
    persistent_message::PersistentMessage,
    probes::MatchedMessage,
};
use super::{
    Engine,
    class::{CLASS_SHIFT, CONTEXT_SHIFT, Class},
    core::AnyOf,
    on_host::OnHost,
    process::Process,
    status::{ANY_SOURCE, ANY_TAG, Status, TAG_UB},
};
use crate::{
    messaging::{
        Messenger,
        tagged::{Envelope, MARK, MARKED, Selector},
    },
    mpi::{
        Rank,
        collectives::{Algorithm, Call, Schedule},
        error::{Detail, Error, ErrorClass},
        group::Group,
    },
    time::Instant,
};

/// A collective with its schedule, kept because programs repeat their calls.
pub(super) struct Last {
    asked: Asked,
    schedule: Arc<Schedule>,
}

/// The key of a rank's schedule: the call, the algorithm if one is given, and the bytes by which it is chosen
/// otherwise.
type Asked = (Call<'static>, Option<Algorithm>, usize);

#[repr(C)]
struct Inner {
    // What every message needs lies together.
    engine: Arc<Engine>,
    context: u32,
    rank: Rank,
    revoked: AtomicBool,
    /// The processes to which its messages go, if they are in one row: the first one and their number; else the number is 0.
    row: (u32, u32),
    group: Group,
    /// The remote group, for an intercommunicator.
    remote: Option<Group>,
    /// Class of its collectives: all processes, or some of those of a larger communicator.
    class: Class,
    /// Number of the next collective.
    sequence: AtomicU32,
    /// Number of the next collective of class [`Class::Immediate`].
    immediate: AtomicU32,
    /// Number of the next persistent collective.
    persistent: AtomicU32,
    /// Number of the next message of partitioned communication.
    pub(super) partitions: AtomicU32,
    /// The last collective with its schedule, if it may be needed again.
    last: Mutex<Option<Last>>,
    name: Mutex<String>,
    /// Memory that all ranks have mapped, for collectives.
    on_host: OnHost,
}

/// A group of processes with a context of its own. Cheap to clone: clones are the same communicator.
#[derive(Clone)]
pub struct Communicator(Arc<Inner>);

impl fmt::Debug for Communicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Communicator")
            .field("context", &self.0.context)
            .field("rank", &self.0.rank)
            .field("size", &self.size())
            .finish_non_exhaustive()
    }
}

/// Getters.
impl Communicator {
    pub(super) fn new(engine: &Arc<Engine>, context: u32, group: Group) -> Option<Self> {
        Self::with(engine, context, group, None, (Class::Collective, 0))
    }

    /// A communicator whose messages go to the group `remote`, if there is one, and whose collectives have this class
    /// and are counted from `sequence`.
    pub(super) fn with(
        engine: &Arc<Engine>,
        context: u32,
        group: Group,
        remote: Option<Group>,
        (class, sequence): (Class, u32),
    ) -> Option<Self> {
        let rank = group.rank_of(engine.process)?;
        let row = remote.as_ref().unwrap_or(&group).row().unwrap_or_default();
        Some(Self(Arc::new(Inner {
            engine: Arc::clone(engine),
            context,
            row,
            group,
            rank,
            remote,
            class,
            sequence: AtomicU32::new(sequence),
            immediate: AtomicU32::new(0),
            persistent: AtomicU32::new(0),
            partitions: AtomicU32::new(0),
            last: Mutex::new(None),
            name: Mutex::default(),
            on_host: OnHost::default(),
            revoked: AtomicBool::new(false),
        })))
    }

    /// All processes (`MPI_COMM_WORLD`).
    ///
    /// # Panics
    /// Never: every process is in the world.
    #[must_use]
    pub fn world(engine: &Arc<Engine>) -> Self {
        let world = Self::new(engine, 0, engine.world());
        world
            .unwrap_or_else(|| unreachable!("every process is in the world"))
            .named("MPI_COMM_WORLD")
    }

    /// This process alone (`MPI_COMM_SELF`).
    ///
    /// # Panics
    /// Never.
    #[must_use]
    pub fn own(engine: &Arc<Engine>) -> Self {
        let group = Group::of_processes(&[engine.process]).unwrap_or(Group::EMPTY);
        Self::new(engine, 1, group)
            .unwrap_or_else(|| unreachable!("a process is in its own group"))
            .named("MPI_COMM_SELF")
    }

    fn named(self, name: &str) -> Self {
        self.set_name(name);
        self
    }

    pub(super) fn on_host(&self) -> &OnHost {
        &self.0.on_host
    }

    fn own_name(&self) -> MutexGuard<'_, String> {
        self.0.name.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its name (`MPI_Comm_get_name`); empty if it has none.
    #[must_use]
    pub fn name(&self) -> String {
        self.own_name().clone()
    }

    /// Names it at this process (`MPI_Comm_set_name`). Duplicates have no name.
    pub fn set_name(&self, name: &str) {
        name.clone_into(&mut self.own_name());
    }

    /// The process that this handle belongs to.
    #[must_use]
    pub fn engine(&self) -> &Arc<Engine> {
        &self.0.engine
    }

    /// Rank of this process (`MPI_Comm_rank`).
    #[must_use]
    pub fn rank(&self) -> Rank {
        self.0.rank
    }

    /// Number of ranks (`MPI_Comm_size`).
    #[must_use]
    pub fn size(&self) -> Rank {
        self.0.group.size()
    }

    /// The processes by rank (`MPI_Comm_group`).
    #[must_use]
    pub fn group(&self) -> &Group {
        &self.0.group
    }

    /// The remote group of an intercommunicator: messages go to and come from it (`MPI_Comm_remote_group`).
    #[must_use]
    pub fn remote_group(&self) -> Option<&Group> {
        self.0.remote.as_ref()
    }

    /// Number of ranks of the remote group (`MPI_Comm_remote_size`).
    #[must_use]
    pub fn remote_size(&self) -> Option<Rank> {
        self.0.remote.as_ref().map(Group::size)
    }

    /// Whether messages go to another group (`MPI_Comm_test_inter`).
    #[must_use]
    pub fn is_inter(&self) -> bool {
        self.0.remote.is_some()
    }

    /// The group in which sources and destinations are ranks.
    #[inline]
    pub(super) fn targets(&self) -> &Group {
        self.0.remote.as_ref().unwrap_or(&self.0.group)
    }

    /// Number of the context: the same at all ranks, different for communicators that exist at once.
    #[must_use]
    pub fn context(&self) -> u32 {
        self.0.context
    }

    /// Whether both are handles of the same communicator.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    #[inline(always)]
    pub(super) fn rank_of(&self, process: u32) -> Option<Rank> {
        let (first, len) = self.0.row;
        let index = process.wrapping_sub(first);
        if index < len {
            return Some(index as Rank);
        }
        self.targets().rank_of(process)
    }

    /// The process of a rank; `None` if there is no such rank.
    #[inline(always)]
    fn process_of(&self, rank: Rank) -> Option<u32> {
        let (first, len) = self.0.row;
        if (rank as u32) < len {
            return Some(first + rank as u32);
        }
        self.targets().process(rank)
    }

    pub(super) fn locate(&self, error: Error) -> Error {
        error.on_communicator(self.0.context)
    }
}

/// Common parts of all calls.
impl Communicator {
    #[inline]
    pub(super) fn bits(&self, class: Class, number: u32) -> u64 {
        let bits = u64::from(self.0.context) << CONTEXT_SHIFT | (class as u64) << CLASS_SHIFT | u64::from(number);
        if bits & MARKED == 0 { bits } else { bits & !MARK }
    }

    /// Returns whether [`check`](Self::check) would fail.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.0.revoked.load(Ordering::Relaxed) || self.0.engine.is_finalized()
    }

    pub(super) fn check(&self, call: &'static str) -> Result<(), Error> {
        if !self.is_over() {
            return Ok(());
        }
        self.check_in_full(call)
    }

    #[cold]
    fn check_in_full(&self, call: &'static str) -> Result<(), Error> {
        if self.0.revoked.load(Ordering::Relaxed) {
            return Err(self.locate(Error::new(ErrorClass::Revoked, call)));
        }
        if self.0.engine.is_finalized() {
            let detail = Detail::Text("this process has been finalised");
            return Err(self.locate(Error::new(ErrorClass::Other, call).with_detail(detail)));
        }
        Ok(())
    }

    #[inline]
    fn tag(&self, call: &'static str, tag: i32) -> Result<u32, Error> {
        u32::try_from(tag).map_err(|_| self.wrong_tag(call, tag))
    }

    #[cold]
    pub(super) fn wrong_tag(&self, call: &'static str, tag: i32) -> Error {
        self.locate(Error::new(ErrorClass::Tag, call).with_detail(Detail::Value {
            argument: "tag",
            value: tag.into(),
            min: 0,
            max: TAG_UB.into(),
        }))
    }

    /// The process of a rank.
    #[inline]
    pub(super) fn process(&self, call: &'static str, rank: Rank) -> Result<u32, Error> {
        let process = self.process_of(rank);
        process.ok_or_else(|| self.locate(Error::rank(call, rank, self.targets().size())))
    }

    #[inline(always)]
    pub(super) fn is_revoked(&self) -> bool {
        self.0.revoked.load(Ordering::Relaxed)
    }

    /// The selector of a receive whose arguments are right.
    #[inline(always)]
    fn plain_selector(&self, source: Rank, tag: i32) -> Option<Selector> {
        let source = if source == ANY_SOURCE {
            None
        } else {
            Some(self.process_of(source)?)
        };
        let (tag, ignore) = if tag == ANY_TAG {
            (0, u64::from(u32::MAX))
        } else {
            (u32::try_from(tag).ok()?, 0)
        };
        Some(Selector {
            source,
            bits: self.bits(Class::Message, tag),
            ignore,
        })
    }

    #[inline]
    fn selector(&self, call: &'static str, source: Rank, tag: i32) -> Result<Selector, Error> {
        let selector = self.plain_selector(source, tag);
        selector.ok_or_else(|| self.wrong_selector(call, source, tag))
    }

    #[cold]
    fn wrong_selector(&self, call: &'static str, source: Rank, tag: i32) -> Error {
        match self.process(call, source) {
            Err(error) if source != ANY_SOURCE => error,
            _ => self.wrong_tag(call, tag),
        }
    }

    /// The processes from which a message is taken, if `selector` names no source.
    #[inline]
    fn any_of(&self, selector: &Selector) -> Option<AnyOf> {
        selector.source.is_none().then(|| AnyOf {
            group: self.targets().clone(),
            context: self.0.context,
        })
    }

    pub(super) fn access<R: Copy>(&self, none: R, mut f: impl FnMut(&mut Process, &mut Messenger, Instant) -> R) -> R {
        let mut result = none;
        self.0
            .engine
            .fabric
            .access(&mut |core, messenger, now| result = f(core, messenger, now));
        self.end_if_revoked();
        result
    }

    #[inline]
    pub(super) fn status_of(&self, envelope: &Envelope) -> Status {
        Status {
            len: self.payload(envelope.len),
            ..self.plain_status_of(envelope)
        }
    }

    /// The same for a message without the header of calls that are compared.
    #[inline(always)]
    pub(super) fn plain_status_of(&self, envelope: &Envelope) -> Status {
        Status {
            source: self.rank_of(envelope.source).unwrap_or(ANY_SOURCE),
            tag: envelope.bits as u32 as i32,
            len: envelope.len,
            cancelled: false,
        }
    }

    /// Ends every operation that is pending on this communicator at this process, and forbids new ones (ULFM's
    /// `MPIX_Comm_revoke`, without telling the other processes).
    pub fn revoke(&self) {
        self.0.revoked.store(true, Ordering::Relaxed);
        self.end_all();
    }

    /// What has begun on it ends.
    #[cold]
    fn end_all(&self) {
        let context = u64::from(self.0.context) << CONTEXT_SHIFT;
        self.0.engine.fabric.access(&mut |core, messenger, now| {
            core.revoke(messenger, now, context, (1 << CONTEXT_SHIFT) - 1);
        });
    }

    /// Something may have begun. Another thread may have revoked the communicator between the look at that and the lock, and
    /// would not end it.
    #[inline(always)]
    fn end_if_revoked(&self) {
        if self.is_revoked() {
            self.end_all();
        }
    }
}
