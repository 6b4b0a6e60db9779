//! Communicators: groups of processes that talk in a context of their own (MPI 7), and what is called on them.

mod collectives;
mod contexts;
mod messages;
mod partitioned;
mod persistent;
mod probes;

use alloc::sync::Arc;
use core::{
    fmt,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
};
use std::sync::Mutex;

pub use self::{
    collectives::{Buffers, Region},
    messages::Mode,
    partitioned::{PartitionedReceive, PartitionedSend},
    persistent::PersistentCollective,
    probes::MatchedMessage,
};
use super::{
    Engine, Status,
    core::{AnyOf, Core},
};
use crate::{
    messaging::{
        Messenger,
        tagged::{Envelope, MARK, MARKED, Selector},
    },
    mpi::{
        Rank,
        collectives::Call,
        error::{Detail, Error, ErrorClass},
        group::Group,
    },
    time::Instant,
};

/// `MPI_ANY_SOURCE`: a message of any rank.
pub const ANY_SOURCE: Rank = -1;
/// `MPI_PROC_NULL`: nobody; messages to and from it are nothing.
pub const PROC_NULL: Rank = -2;
/// `MPI_ANY_TAG`: a message with any tag.
pub const ANY_TAG: i32 = -1;
/// The largest tag (`MPI_TAG_UB`).
pub const TAG_UB: i32 = i32::MAX;

/// Match bits: a number of so many bits (a tag, or what the class counts), then the class, then the context.
const CLASS_SHIFT: u32 = 32;
const CONTEXT_SHIFT: u32 = 35;

/// What messages of a communicator are about. Numbers of different classes are different things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// The program's: numbers are tags.
    Message = 0,
    /// Collectives among a part of the processes, or of both groups of two: numbers are given.
    Part = 1,
    /// What is said about partitioned messages when they are set up: numbers are tags.
    Setup = 2,
    /// Parts of partitioned messages, counted by their sender.
    Partition = 3,
    // From here on classes have the bit `MARKED`.
    /// Collectives, counted.
    Collective = 4,
    /// Collectives that are started again and again, counted.
    Persistent = 5,
    /// The barrier that ends MPI: nothing else may be taken for it, nor it for an operand.
    Finalize = 6,
}

impl Class {
    /// Numbers of collectives leave room for a mark; there are enough that one is not used again while it is in use.
    const COLLECTIVES: u32 = (1 << 20) - 1;

    /// What a collective that is called like this puts beside its number, so that another one is not taken for it.
    fn mark(self, call: &Call<'_>, octets: usize) -> u64 {
        if (self as u64) << CLASS_SHIFT & MARKED == 0 {
            return 0;
        }
        let (kind, root) = call.kind();
        let said = (kind as u64) << 58 ^ (root as u64) << 40 ^ octets as u64;
        said.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 & MARK
    }
}

const _: () = assert!(MARKED == 1 << (CLASS_SHIFT + 2) && MARK & Class::COLLECTIVES as u64 == 0);

/// Match bits of the barrier that ends MPI.
pub(super) fn is_of_finalize(bits: u64) -> bool {
    bits >> CLASS_SHIFT & 7 == Class::Finalize as u64
}

#[repr(C)]
struct Inner {
    // What each message needs lies together.
    engine: Arc<Engine>,
    context: u32,
    rank: Rank,
    revoked: AtomicBool,
    group: Group,
    /// Whom messages go to and come from, if that is another group.
    remote: Option<Group>,
    /// What its collectives are: of all processes, or of a part of them in a communicator of more.
    class: Class,
    /// The next collective's number.
    sequence: AtomicU32,
    /// The next number of a collective that can be started again.
    persistent: AtomicU32,
    /// The next number of a part of a partitioned message.
    pub(super) partitions: AtomicU32,
    /// What its last collective was, if that may be needed again.
    last: Mutex<Option<collectives::Last>>,
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

    /// One whose messages go to the group `remote`, if there is one, and whose collectives are of a class and counted
    /// from `sequence`.
    pub(super) fn with(
        engine: &Arc<Engine>,
        context: u32,
        group: Group,
        remote: Option<Group>,
        (class, sequence): (Class, u32),
    ) -> Option<Self> {
        let rank = group.rank_of(engine.process)?;
        Some(Self(Arc::new(Inner {
            engine: Arc::clone(engine),
            context,
            group,
            rank,
            remote,
            class,
            sequence: AtomicU32::new(sequence),
            persistent: AtomicU32::new(0),
            partitions: AtomicU32::new(0),
            last: Mutex::new(None),
            revoked: AtomicBool::new(false),
        })))
    }

    /// All processes (`MPI_COMM_WORLD`).
    ///
    /// # Panics
    /// Never: every process is in the world.
    #[must_use]
    pub fn world(engine: &Arc<Engine>) -> Self {
        let world = Self::new(engine, 0, Group::world(engine.size as Rank));
        world.unwrap_or_else(|| unreachable!("every process is in the world"))
    }

    /// This process alone (`MPI_COMM_SELF`).
    ///
    /// # Panics
    /// Never.
    #[must_use]
    pub fn own(engine: &Arc<Engine>) -> Self {
        let group = Group::of_processes(&[engine.process]).unwrap_or(Group::EMPTY);
        Self::new(engine, 1, group).unwrap_or_else(|| unreachable!("a process is in its own group"))
    }

    /// The process.
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

    /// The processes (`MPI_Comm_group`).
    #[must_use]
    pub fn group(&self) -> &Group {
        &self.0.group
    }

    /// The processes that messages go to and come from, if that is another group (`MPI_Comm_remote_group`).
    #[must_use]
    pub fn remote_group(&self) -> Option<&Group> {
        self.0.remote.as_ref()
    }

    /// How many these are (`MPI_Comm_remote_size`).
    #[must_use]
    pub fn remote_size(&self) -> Option<Rank> {
        self.0.remote.as_ref().map(Group::size)
    }

    /// Messages go to another group (`MPI_Comm_test_inter`).
    #[must_use]
    pub fn is_inter(&self) -> bool {
        self.0.remote.is_some()
    }

    /// Whom ranks of messages are of.
    fn targets(&self) -> &Group {
        self.0.remote.as_ref().unwrap_or(&self.0.group)
    }

    /// Number of the context: the same at all ranks, different for communicators that exist at once.
    #[must_use]
    pub fn context(&self) -> u32 {
        self.0.context
    }

    /// They are the same communicator.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(super) fn rank_of(&self, process: u32) -> Option<Rank> {
        self.targets().rank_of(process)
    }

    pub(super) fn locate(&self, error: Error) -> Error {
        error.on_communicator(self.0.context)
    }
}

/// What all that is called has in common.
impl Communicator {
    pub(super) fn bits(&self, class: Class, number: u32) -> u64 {
        let bits = u64::from(self.0.context) << CONTEXT_SHIFT | (class as u64) << CLASS_SHIFT | u64::from(number);
        if bits & MARKED == 0 { bits } else { bits & !MARK }
    }

    pub(super) fn check(&self, call: &'static str) -> Result<(), Error> {
        if self.0.revoked.load(Ordering::Relaxed) {
            return Err(self.locate(Error::new(ErrorClass::Revoked, call)));
        }
        if self.0.engine.is_finalized() {
            let detail = Detail::Text("this process has been finalised");
            return Err(self.locate(Error::new(ErrorClass::Other, call).with_detail(detail)));
        }
        Ok(())
    }

    fn tag(&self, call: &'static str, tag: i32) -> Result<u32, Error> {
        let detail = Detail::Value {
            argument: "tag",
            value: tag.into(),
            min: 0,
            max: TAG_UB.into(),
        };
        u32::try_from(tag).map_err(|_| self.locate(Error::new(ErrorClass::Tag, call).with_detail(detail)))
    }

    /// The process of a rank.
    pub(super) fn process(&self, call: &'static str, rank: Rank) -> Result<u32, Error> {
        let process = self.targets().process(rank);
        process.ok_or_else(|| self.locate(Error::rank(call, rank, self.targets().size())))
    }

    fn selector(&self, call: &'static str, source: Rank, tag: i32) -> Result<Selector, Error> {
        let source = if source == ANY_SOURCE {
            None
        } else {
            Some(self.process(call, source)?)
        };
        let (tag, ignore) = if tag == ANY_TAG {
            (0, u64::from(u32::MAX))
        } else {
            (self.tag(call, tag)?, 0)
        };
        Ok(Selector {
            source,
            bits: self.bits(Class::Message, tag),
            ignore,
        })
    }

    /// Those of whom a message is taken, if `selector` names nobody.
    fn any_of(&self, selector: &Selector) -> Option<AnyOf> {
        selector.source.is_none().then(|| AnyOf {
            group: self.targets().clone(),
            context: self.0.context,
        })
    }

    pub(super) fn access<R: Copy>(&self, none: R, mut f: impl FnMut(&mut Core, &mut Messenger, Instant) -> R) -> R {
        let mut result = none;
        self.0
            .engine
            .fabric
            .access(&mut |core, messenger, now| result = f(core, messenger, now));
        result
    }

    pub(super) fn status_of(&self, envelope: &Envelope) -> Status {
        Status {
            source: self.rank_of(envelope.source).unwrap_or(ANY_SOURCE),
            tag: envelope.bits as u32 as i32,
            len: self.payload(envelope.len),
            cancelled: false,
        }
    }

    /// Ends everything that is pending on this communicator, here, and lets nothing begin any more
    /// (ULFM's `MPIX_Comm_revoke`, without telling the others).
    pub fn revoke(&self) {
        self.0.revoked.store(true, Ordering::Relaxed);
        let context = u64::from(self.0.context) << CONTEXT_SHIFT;
        self.access((), |core, messenger, now| {
            core.revoke(messenger, now, context, (1 << CONTEXT_SHIFT) - 1);
        });
    }
}
