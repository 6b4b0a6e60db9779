#![expect(unsafe_code, reason = "messages are given by pointer, as C does")]
//! Communicators: groups of processes that talk in a context of their own (MPI 7), and what is called on them.

use alloc::{sync::Arc, vec, vec::Vec};
use core::{
    fmt,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
};

use super::{
    Engine, Request, Status,
    buffer::Buffer,
    collective::{Address, Collective, Memory},
    core::{Core, Ended, RequestId, Route},
};
use crate::{
    messaging::{
        Messenger,
        tagged::{Claimed, Envelope, Selector},
    },
    mpi::{
        Rank,
        collectives::{Algorithm, Call, ScheduleError},
        datatype::{Datatype, Kind},
        error::{Detail, Error, ErrorClass},
        group::Group,
        operation::{Operation, Predefined},
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

/// Match bits: the context's number stands above this bit.
const CONTEXT_SHIFT: u32 = 33;
/// Set in what belongs to collectives; below it stands the tag.
const COLLECTIVE: u64 = 1 << 32;
/// Set in the number of what a part of a communicator does among itself; below it stands its tag.
pub(super) const SUBGROUP: u32 = 1 << 31;
/// Contexts have so many bits.
const CONTEXT_BITS: u32 = 31;

/// How to send (MPI 3.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// `MPI_Send`. Small messages are copied, large ones wait for their receive.
    #[default]
    Standard,
    /// `MPI_Ssend`: ends when the receive has begun.
    Synchronous,
    /// `MPI_Rsend`: the receive is posted already. It makes no difference here.
    Ready,
}

/// A buffer of a collective: elements of a datatype at an address.
#[derive(Clone, Copy, Debug)]
pub enum Region<'a> {
    /// None: this rank has no such buffer.
    None,
    /// Elements at an address; how many, the call says.
    Plain(*mut u8, &'a Datatype),
    /// Element `i` is so many elements of a datatype at so many octets from the address (`MPI_Alltoallw`).
    Each(*mut u8, &'a [(i64, u64, Datatype)]),
}

/// The buffers of a collective.
#[derive(Clone, Copy, Debug)]
pub struct Buffers<'a> {
    /// The send buffer.
    pub input: Region<'a>,
    /// The receive buffer.
    pub output: Region<'a>,
}

/// A message that was found by a matched probe (MPI 3.8.2). Receive it; dropping it loses it.
#[derive(Debug)]
pub struct MatchedMessage {
    communicator: Communicator,
    claimed: Claimed,
    status: Status,
}

impl MatchedMessage {
    /// What it is.
    #[must_use]
    pub fn status(&self) -> Status {
        self.status
    }
}

struct Inner {
    engine: Arc<Engine>,
    context: u32,
    group: Group,
    rank: Rank,
    /// Whom messages go to and come from, if that is another group.
    remote: Option<Group>,
    /// The next collective's number.
    sequence: AtomicU32,
    revoked: AtomicBool,
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
        Self::with(engine, context, group, None, 0)
    }

    /// One whose messages go to the group `remote`, if there is one, and whose collectives are counted from `sequence`.
    pub(super) fn with(
        engine: &Arc<Engine>,
        context: u32,
        group: Group,
        remote: Option<Group>,
        sequence: u32,
    ) -> Option<Self> {
        let rank = group.rank_of(engine.process)?;
        Some(Self(Arc::new(Inner {
            engine: Arc::clone(engine),
            context,
            group,
            rank,
            remote,
            sequence: AtomicU32::new(sequence),
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

/// Messages.
impl Communicator {
    fn bits(&self, tag: u32) -> u64 {
        u64::from(self.0.context) << CONTEXT_SHIFT | u64::from(tag)
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
            bits: self.bits(tag),
            ignore,
        })
    }

    /// # Safety
    /// See [`Buffer::new`].
    unsafe fn buffer(
        &self,
        call: &'static str,
        base: *mut u8,
        count: u64,
        datatype: &Datatype,
    ) -> Result<Buffer, Error> {
        // SAFETY: the caller's contract.
        let buffer = unsafe { Buffer::new(base, count, datatype) };
        buffer.ok_or_else(|| self.locate(Error::new(ErrorClass::Count, call)))
    }

    pub(super) fn access<R: Copy>(&self, none: R, mut f: impl FnMut(&mut Core, &mut Messenger, Instant) -> R) -> R {
        let mut result = none;
        self.0
            .engine
            .fabric
            .access(&mut |core, messenger, now| result = f(core, messenger, now));
        result
    }

    /// Begins to send (`MPI_Isend` and its sisters).
    ///
    /// # Errors
    /// A wrong rank, tag or count, a revoked communicator. (That the receiver is lost is told by the request.)
    ///
    /// # Safety
    /// The data of `count` elements at `base` are initialised memory, may be read from any thread, and are not written
    /// to, until the request has ended.
    pub unsafe fn isend(
        &self,
        mode: Mode,
        base: *const u8,
        count: u64,
        datatype: &Datatype,
        destination: Rank,
        tag: i32,
    ) -> Result<Request, Error> {
        let call = match mode {
            Mode::Standard => "MPI_Isend",
            Mode::Synchronous => "MPI_Issend",
            Mode::Ready => "MPI_Irsend",
        };
        // SAFETY: the caller's contract.
        let id = unsafe { self.begin_send(call, mode, base, count, datatype, destination, tag) }?;
        Ok(match id {
            Some(id) => Request::pending(self, id, call, 0),
            None => Request::ended(self, Status::EMPTY, call),
        })
    }

    /// `None`: it has ended.
    ///
    /// # Safety
    /// See [`isend`](Self::isend).
    #[expect(clippy::too_many_arguments, reason = "MPI's arguments and the name of the call")]
    unsafe fn begin_send(
        &self,
        call: &'static str,
        mode: Mode,
        base: *const u8,
        count: u64,
        datatype: &Datatype,
        destination: Rank,
        tag: i32,
    ) -> Result<Option<RequestId>, Error> {
        // SAFETY: the caller's contract; it is only sent from.
        let buffer = unsafe { self.buffer(call, base.cast_mut(), count, datatype) }?;
        self.send_buffer(call, mode, buffer, destination, tag)
    }

    /// `None`: it has ended.
    pub(super) fn send_buffer(
        &self,
        call: &'static str,
        mode: Mode,
        buffer: Buffer,
        destination: Rank,
        tag: i32,
    ) -> Result<Option<RequestId>, Error> {
        self.check(call)?;
        let bits = self.bits(self.tag(call, tag)?);
        if destination == PROC_NULL {
            return Ok(None);
        }
        let process = self.process(call, destination)?;
        let route = Route { process, bits };
        let mut buffer = Some(buffer);
        Ok(self.access(None, |core, messenger, now| {
            let buffer = buffer.take()?;
            core.send(messenger, now, route, buffer, mode == Mode::Synchronous)
        }))
    }

    /// Sends (`MPI_Send` and its sisters).
    ///
    /// # Errors
    /// A wrong rank, tag or count, a revoked communicator, a lost receiver.
    ///
    /// # Safety
    /// The data of `count` elements at `base` are initialised memory, may be read from any thread, and are not written
    /// to meanwhile.
    pub unsafe fn send(
        &self,
        mode: Mode,
        base: *const u8,
        count: u64,
        datatype: &Datatype,
        destination: Rank,
        tag: i32,
    ) -> Result<(), Error> {
        let call = match mode {
            Mode::Standard => "MPI_Send",
            Mode::Synchronous => "MPI_Ssend",
            Mode::Ready => "MPI_Rsend",
        };
        // SAFETY: the caller's contract.
        match unsafe { self.begin_send(call, mode, base, count, datatype, destination, tag) }? {
            Some(id) => Request::pending(self, id, call, 0).wait().map(|_| ()),
            None => Ok(()),
        }
    }

    /// Begins to receive (`MPI_Irecv`).
    ///
    /// # Errors
    /// A wrong rank, tag or count, a revoked communicator.
    ///
    /// # Safety
    /// The data of `count` elements at `base` are initialised memory, may be written from any thread, and are not used
    /// by others, until the request has ended.
    pub unsafe fn ireceive(
        &self,
        base: *mut u8,
        count: u64,
        datatype: &Datatype,
        source: Rank,
        tag: i32,
    ) -> Result<Request, Error> {
        // SAFETY: the caller's contract.
        unsafe { self.begin_receive("MPI_Irecv", base, count, datatype, source, tag) }
    }

    /// # Safety
    /// See [`ireceive`](Self::ireceive).
    unsafe fn begin_receive(
        &self,
        call: &'static str,
        base: *mut u8,
        count: u64,
        datatype: &Datatype,
        source: Rank,
        tag: i32,
    ) -> Result<Request, Error> {
        self.check(call)?;
        if source == PROC_NULL {
            return Ok(Request::ended(self, Status::NULL, call));
        }
        let selector = self.selector(call, source, tag)?;
        // SAFETY: the caller's contract.
        let buffer = unsafe { self.buffer(call, base, count, datatype) }?;
        let room = buffer.len();
        let mut buffer = Some(buffer);
        let begun: Option<Result<Ended, RequestId>> = self.access(None, |core, messenger, now| {
            Some(core.receive(messenger, now, selector, buffer.take()?))
        });
        match begun {
            Some(Ok(ended)) => self
                .result(&ended, call, room)
                .map(|status| Request::ended(self, status, call)),
            Some(Err(id)) => Ok(Request::pending(self, id, call, room)),
            None => Err(self.broken(call)),
        }
    }

    /// Receives (`MPI_Recv`).
    ///
    /// # Errors
    /// A wrong rank, tag or count, a revoked communicator, a lost sender, a message that is too long.
    ///
    /// # Safety
    /// The data of `count` elements at `base` are initialised memory, may be written from any thread, and are not used
    /// by others meanwhile.
    pub unsafe fn receive(
        &self,
        base: *mut u8,
        count: u64,
        datatype: &Datatype,
        source: Rank,
        tag: i32,
    ) -> Result<Status, Error> {
        // SAFETY: the caller's contract.
        unsafe { self.begin_receive("MPI_Recv", base, count, datatype, source, tag) }?.wait()
    }

    fn status_of(&self, envelope: &Envelope) -> Status {
        Status {
            source: self.rank_of(envelope.source).unwrap_or(ANY_SOURCE),
            tag: envelope.bits as u32 as i32,
            len: envelope.len,
            cancelled: false,
        }
    }

    /// Whether a message is there (`MPI_Iprobe`). Makes progress once.
    ///
    /// # Errors
    /// A wrong rank or tag, a revoked communicator, a network that has failed.
    pub fn iprobe(&self, source: Rank, tag: i32) -> Result<Option<Status>, Error> {
        const CALL: &str = "MPI_Iprobe";
        self.check(CALL)?;
        if source == PROC_NULL {
            return Ok(Some(Status::NULL));
        }
        let selector = self.selector(CALL, source, tag)?;
        self.0.engine.progress().map_err(|_| self.broken(CALL))?;
        let found = self.access(None, |core, _, _| core.tagged.probe(&selector));
        Ok(found.map(|envelope| self.status_of(&envelope)))
    }

    /// Waits for a message (`MPI_Probe`).
    ///
    /// # Errors
    /// As [`iprobe`](Self::iprobe); or the sender is lost.
    pub fn probe(&self, source: Rank, tag: i32) -> Result<Status, Error> {
        const CALL: &str = "MPI_Probe";
        self.check(CALL)?;
        if source == PROC_NULL {
            return Ok(Status::NULL);
        }
        let selector = self.selector(CALL, source, tag)?;
        let found = self.wait_for(CALL, &selector, |core| core.tagged.probe(&selector))?;
        Ok(self.status_of(&found))
    }

    /// Waits until `look` finds something, or the process that `selector` names is lost.
    fn wait_for<T>(
        &self,
        call: &'static str,
        selector: &Selector,
        mut look: impl FnMut(&mut Core) -> Option<T>,
    ) -> Result<T, Error> {
        let (mut found, mut lost) = (None, false);
        let waited = self.0.engine.fabric.wait(&mut |core, _, _| {
            found = look(core);
            lost = selector.source.is_some_and(|process| core.lost(process).is_some());
            found.is_some() || lost || self.0.revoked.load(Ordering::Relaxed)
        });
        match found {
            Some(found) => Ok(found),
            None if waited.is_err() => Err(self.broken(call)),
            None if lost => Err(self.locate(Error::new(ErrorClass::ProcFailed, call))),
            None => Err(self.locate(Error::new(ErrorClass::Revoked, call))),
        }
    }

    /// Takes a message out of the queue if one is there (`MPI_Improbe`). Makes progress once.
    ///
    /// # Errors
    /// As [`iprobe`](Self::iprobe).
    pub fn improbe(&self, source: Rank, tag: i32) -> Result<Option<MatchedMessage>, Error> {
        const CALL: &str = "MPI_Improbe";
        self.check(CALL)?;
        let selector = self.selector(CALL, source, tag)?;
        self.0.engine.progress().map_err(|_| self.broken(CALL))?;
        let mut claimed = None;
        self.access((), |core, _, _| claimed = core.tagged.claim(&selector));
        Ok(claimed.map(|claimed| self.matched(claimed)))
    }

    /// Waits for a message and takes it out of the queue (`MPI_Mprobe`).
    ///
    /// # Errors
    /// As [`probe`](Self::probe).
    pub fn mprobe(&self, source: Rank, tag: i32) -> Result<MatchedMessage, Error> {
        const CALL: &str = "MPI_Mprobe";
        self.check(CALL)?;
        let selector = self.selector(CALL, source, tag)?;
        let claimed = self.wait_for(CALL, &selector, |core| core.tagged.claim(&selector))?;
        Ok(self.matched(claimed))
    }

    fn matched(&self, claimed: Claimed) -> MatchedMessage {
        MatchedMessage {
            communicator: self.clone(),
            status: self.status_of(&claimed.envelope()),
            claimed,
        }
    }

    /// Begins to receive a message that was matched (`MPI_Imrecv`).
    ///
    /// # Errors
    /// A wrong count.
    ///
    /// # Safety
    /// See [`ireceive`](Self::ireceive).
    pub unsafe fn imreceive(
        message: MatchedMessage,
        base: *mut u8,
        count: u64,
        datatype: &Datatype,
    ) -> Result<Request, Error> {
        const CALL: &str = "MPI_Imrecv";
        // SAFETY: the caller's contract.
        let buffer = unsafe { message.communicator.buffer(CALL, base, count, datatype) }?;
        Self::receive_matched(CALL, message, buffer)
    }

    pub(super) fn receive_matched(
        call: &'static str,
        message: MatchedMessage,
        buffer: Buffer,
    ) -> Result<Request, Error> {
        let MatchedMessage {
            communicator, claimed, ..
        } = message;
        let room = buffer.len();
        let mut parts = Some((claimed, buffer));
        let id = communicator.access(None, |core, messenger, now| {
            let (claimed, buffer) = parts.take()?;
            Some(core.receive_claimed(messenger, now, claimed, buffer))
        });
        let id = id.ok_or_else(|| communicator.broken(call))?;
        Ok(Request::pending(&communicator, id, call, room))
    }

    /// Ends everything that is pending on this communicator, here, and lets nothing begin any more
    /// (ULFM's `MPIX_Comm_revoke`, without telling the others).
    pub fn revoke(&self) {
        self.0.revoked.store(true, Ordering::Relaxed);
        let context = u64::from(self.0.context) << CONTEXT_SHIFT;
        self.access((), |core, messenger, _| {
            core.revoke(messenger, context, (1 << CONTEXT_SHIFT) - 1);
        });
    }
}

/// Collectives.
impl Communicator {
    /// The next collective's number. Those that are no number of a communicator's collectives are
    /// [`create_group`](Self::create_group)'s.
    fn next_sequence(&self) -> u32 {
        let mine = self.0.sequence.load(Ordering::Relaxed) & SUBGROUP;
        mine | self.0.sequence.fetch_add(1, Ordering::Relaxed) & !SUBGROUP
    }

    /// Begins a collective; `algorithm` forces one. All ranks must begin the collectives of a communicator in the same
    /// order, with arguments that fit.
    ///
    /// `operation` is needed by those that reduce.
    ///
    /// # Errors
    /// Wrong arguments: a root that there is not, counts that do not fit, an operation that is not defined for the
    /// datatype.
    ///
    /// # Safety
    /// Until the request has ended: the elements of the input that MPI has this rank read are initialised memory that
    /// may be read from any thread and is not written to; those of the output may be written and are not used by others.
    pub unsafe fn collective(
        &self,
        name: &'static str,
        call: &Call<'_>,
        buffers: &Buffers<'_>,
        operation: Option<&Operation>,
        algorithm: Option<Algorithm>,
    ) -> Result<Request, Error> {
        self.check(name)?;
        if self.is_inter() {
            let detail = Detail::Text("there are no collectives between two groups");
            return Err(self.locate(Error::new(ErrorClass::UnsupportedOperation, name).with_detail(detail)));
        }
        let (rank, size) = (self.rank() as usize, self.size() as usize);
        if let Some(operation) = operation
            && let Region::Plain(_, datatype) = buffers.output
        {
            let class = ErrorClass::Op;
            let wrong = |error| self.locate(Error::new(class, name).with_detail(Detail::Operation(error)));
            operation.check(datatype).map_err(wrong)?;
        }
        let algorithm = algorithm.unwrap_or_else(|| self.choose(call, buffers));
        let schedule = call.schedule(rank, size, algorithm);
        let schedule = schedule.map_err(|error| self.locate(schedule_error(name, error)))?;
        let input = memory(buffers.input, call, true);
        let output = memory(buffers.output, call, false);
        let scratch = match (&output, &input) {
            (Some(memory), _) | (None, Some(memory)) => memory.clone(),
            (None, None) => Memory::none(&Datatype::predefined(Kind::Byte)),
        };
        let none = || Memory::none(&Datatype::predefined(Kind::Byte));
        let sequence = self.next_sequence();
        let mut collective = Some(Collective {
            schedule,
            input: input.unwrap_or_else(none),
            output: output.unwrap_or_else(none),
            scratch,
            operation: operation.cloned(),
            group: self.0.group.clone(),
            bits: self.bits(sequence) | COLLECTIVE,
        });
        let id = self.access(None, |core, messenger, now| {
            Some(core.begin(messenger, now, collective.take()?))
        });
        let id = id.ok_or_else(|| self.broken(name))?;
        Ok(Request::pending(self, id, name, 0))
    }

    /// The algorithm that [`collective`](Self::collective) takes for this unless told otherwise.
    #[must_use]
    pub fn choose(&self, call: &Call<'_>, buffers: &Buffers<'_>) -> Algorithm {
        let policy = &self.0.engine.policy;
        let size = self.size() as usize;
        policy.choose(call.collective(), size, octets(call, buffers), call.commutative())
    }

    /// All meet (`MPI_Barrier`).
    ///
    /// # Errors
    /// A process is lost, the communicator revoked.
    pub fn barrier(&self) -> Result<(), Error> {
        self.meet("MPI_Barrier")
    }

    /// A barrier in the name of another call.
    pub(super) fn meet(&self, name: &'static str) -> Result<(), Error> {
        let buffers = Buffers {
            input: Region::None,
            output: Region::None,
        };
        // SAFETY: a barrier has no buffers.
        let request = unsafe { self.collective(name, &Call::Barrier, &buffers, None, None) }?;
        request.wait().map(|_| ())
    }

    /// The element-wise maximum or minimum, … of what all ranks have: for what communicators agree upon.
    pub(super) fn agree(&self, name: &'static str, values: &mut [i64], operation: Predefined) -> Result<(), Error> {
        let datatype = Datatype::predefined(Kind::I64);
        let buffers = Buffers {
            input: Region::None,
            output: Region::Plain(values.as_mut_ptr().cast(), &datatype),
        };
        let call = Call::Allreduce {
            count: values.len(),
            commutative: true,
            in_place: true,
        };
        // SAFETY: `values` is borrowed until the request has ended.
        let request = unsafe { self.collective(name, &call, &buffers, Some(&Operation::predefined(operation)), None) }?;
        request.wait().map(|_| ())
    }

    /// What each rank has, in the order of ranks.
    pub(super) fn share(&self, name: &'static str, own: &[i64]) -> Result<Vec<i64>, Error> {
        let datatype = Datatype::predefined(Kind::I64);
        let mut all = vec![0_i64; own.len() * self.size() as usize];
        let buffers = Buffers {
            input: Region::Plain(own.as_ptr().cast_mut().cast(), &datatype),
            output: Region::Plain(all.as_mut_ptr().cast(), &datatype),
        };
        let call = Call::Allgather {
            input: own.len(),
            output: crate::mpi::collectives::Blocks::Even { count: own.len() },
            in_place: false,
        };
        // SAFETY: both are borrowed until the request has ended.
        unsafe { self.collective(name, &call, &buffers, None, None) }?.wait()?;
        Ok(all)
    }

    /// A context that no other communicator of its ranks has: rank 0 gives it out.
    pub(super) fn new_context(&self, name: &'static str) -> Result<u32, Error> {
        let mut context = [0_i64];
        if self.rank() == 0 {
            context = [self.own_context()];
        }
        self.agree(name, &mut context, Predefined::Sum)?;
        self.context_of(name, context[0])
    }

    /// A context that no process has given out, or −1 if this one has no more.
    pub(super) fn own_context(&self) -> i64 {
        let engine = &self.0.engine;
        let number = engine.contexts.fetch_add(1, Ordering::Relaxed);
        // 0 is the world, 1 a process alone; each process then has every size-th.
        let place = i64::from(number) * i64::from(engine.size) + i64::from(engine.process) + 2;
        if place < 1 << CONTEXT_BITS { place } else { -1 }
    }

    /// What [`own_context`](Self::own_context) gave, here or elsewhere.
    pub(super) fn context_of(&self, name: &'static str, number: i64) -> Result<u32, Error> {
        u32::try_from(number).map_err(|_| {
            let detail = Detail::Text("a process has made too many communicators");
            self.locate(Error::new(ErrorClass::Other, name).with_detail(detail))
        })
    }

    /// The same processes in a new context (`MPI_Comm_dup`). Collective.
    ///
    /// # Errors
    /// A process is lost, the communicator revoked.
    pub fn duplicate(&self) -> Result<Self, Error> {
        let context = self.new_context("MPI_Comm_dup")?;
        let same = Self::new(&self.0.engine, context, self.0.group.clone());
        same.ok_or_else(|| self.broken("MPI_Comm_dup"))
    }

    /// Communicators of those that give the same `color`, by `key` and then by rank (`MPI_Comm_split`). Who gives no
    /// color gets none. Collective.
    ///
    /// # Errors
    /// A process is lost, the communicator revoked; a negative color.
    pub fn split(&self, color: Option<i32>, key: i32) -> Result<Option<Self>, Error> {
        const CALL: &str = "MPI_Comm_split";
        // All take part in what follows, whatever one of them has got wrong.
        let wrong = color.is_some_and(|color| color < 0);
        let own = [color.map_or(-1, i64::from), key.into()];
        let all = self.share(CALL, &own)?;
        let context = self.new_context(CALL)?;
        let Some(color) = color else { return Ok(None) };
        if wrong {
            let detail = Detail::Value {
                argument: "color",
                value: color.into(),
                min: 0,
                max: i32::MAX.into(),
            };
            return Err(self.locate(Error::new(ErrorClass::Arg, CALL).with_detail(detail)));
        }
        let mut members: Vec<(i64, Rank)> = (0..self.size())
            .zip(all.chunks_exact(2))
            .filter(|(_, own)| own[0] == i64::from(color))
            .map(|(rank, own)| (own[1], rank))
            .collect();
        members.sort_unstable();
        let ranks: Vec<Rank> = members.into_iter().map(|(_, rank)| rank).collect();
        let group = self.0.group.incl(&ranks);
        let group = group.map_err(|error| self.locate(Error::group(CALL, error)))?;
        Ok(Self::new(&self.0.engine, context, group))
    }

    /// A communicator of a group of its processes (`MPI_Comm_create`). Collective over all of them, with the same group.
    ///
    /// # Errors
    /// A process is lost, the communicator revoked; the group has others.
    pub fn create(&self, group: &Group) -> Result<Option<Self>, Error> {
        const CALL: &str = "MPI_Comm_create";
        let context = self.new_context(CALL)?;
        self.check_members(CALL, group)?;
        Ok(Self::new(&self.0.engine, context, group.clone()))
    }
}

fn memory(region: Region<'_>, call: &Call<'_>, input: bool) -> Option<Memory> {
    match region {
        Region::None => None,
        Region::Plain(base, datatype) => Some(match call {
            // The count is that of octets.
            Call::Bcast { count, .. } if !input => {
                let elements = (*count as u64).checked_div(datatype.size()).unwrap_or(0);
                Memory::Packed(Address(base), elements, datatype.clone())
            }
            _ => Memory::Plain(Address(base), datatype.clone()),
        }),
        Region::Each(base, elements) => Some(Memory::Each(Address(base), elements.to_vec())),
    }
}

/// What the choice of an algorithm goes by. All ranks must come to the same.
fn octets(call: &Call<'_>, buffers: &Buffers<'_>) -> usize {
    let size = |region: &Region<'_>| match region {
        Region::Plain(_, datatype) => datatype.size() as usize,
        _ => 1,
    };
    let (input, output) = (size(&buffers.input), size(&buffers.output));
    match call {
        Call::Bcast { count, .. } => *count,
        Call::Reduce { count, .. } | Call::Allreduce { count, .. } | Call::Scan { count, .. } => {
            count.saturating_mul(if matches!(buffers.output, Region::None) {
                input
            } else {
                output
            })
        }
        Call::Gather { input: count, .. } => count.saturating_mul(input),
        Call::Scatter { output: count, .. } => count.saturating_mul(output),
        Call::Allgather { input: count, .. } => count.saturating_mul(input),
        Call::Alltoall {
            output: crate::mpi::collectives::Blocks::Even { count },
            ..
        } => count.saturating_mul(output),
        _ => 0,
    }
}

fn schedule_error(name: &'static str, error: ScheduleError) -> Error {
    match error {
        ScheduleError::Root { root, size } => Error::new(ErrorClass::Root, name).with_detail(Detail::Value {
            argument: "root",
            value: root as i64,
            min: 0,
            max: size as i64 - 1,
        }),
        ScheduleError::Rank { rank, size } => Error::rank(name, rank as Rank, size as Rank),
        ScheduleError::Blocks { given, needed } => Error::new(ErrorClass::Count, name).with_detail(Detail::Value {
            argument: "number of counts",
            value: given as i64,
            min: needed as i64,
            max: needed as i64,
        }),
        _ => Error::new(ErrorClass::Arg, name).with_detail(Detail::Text("the algorithm is none for this")),
    }
}
