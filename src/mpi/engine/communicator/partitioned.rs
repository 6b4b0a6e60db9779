#![expect(unsafe_code, reason = "memory is given by pointer, as C does")]
//! Partitioned communication (MPI 4.2): set up once, started repeatedly, made ready partition by partition.

use alloc::{vec, vec::Vec};
use core::{fmt, ops::Range, sync::atomic::Ordering};
use std::sync::{Mutex, PoisonError};

use super::{super::status::PROC_NULL, Communicator};
use crate::messaging::{Messenger, tagged::Envelope};
use crate::mpi::{
    Rank,
    datatype::Datatype,
    engine::{
        Entry, Exit, Request, Status,
        buffer::Buffer,
        class::Class,
        core::{RequestId, Route},
        partitioned::Cut,
        process::Process,
    },
    error::{Detail, Error, ErrorClass},
};

/// Memory divided into partitions, and the other side.
struct Channel {
    communicator: Communicator,
    call: &'static str,
    base: *mut u8,
    datatype: Datatype,
    partitions: u32,
    /// Elements per partition.
    count: u64,
    /// Bytes per partition.
    bytes: u64,
    /// Index of the channel in the engine; `None` for [`PROC_NULL`].
    index: Option<u32>,
    /// The other end is this process, too.
    is_own: bool,
    /// Number by which the profiler knows it.
    number: u64,
}

// SAFETY: `base` is only a number here; by the contracts of `psend_init` and `precv_init` the memory there may be used
// from any thread.
unsafe impl Send for Channel {}
// SAFETY: as above.
unsafe impl Sync for Channel {}

/// A message that is sent as its partitions get ready (`MPI_Psend_init`).
pub struct PartitionedSend {
    channel: Channel,
    /// Partitions per message on the wire.
    together: u32,
    round: Mutex<Round>,
}

/// Partitions of the current round.
#[derive(Default)]
struct Round {
    ready: Vec<bool>,
    /// For each message: number of its partitions that are not ready.
    missing: Vec<u32>,
}

/// A message that is received partition by partition (`MPI_Precv_init`).
pub struct PartitionedReceive {
    channel: Channel,
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel")
            .field("call", &self.call)
            .field("communicator", &self.communicator)
            .field("partitions", &self.partitions)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for PartitionedSend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PartitionedSend").field(&self.channel).finish()
    }
}

impl fmt::Debug for PartitionedReceive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PartitionedReceive").field(&self.channel).finish()
    }
}

/// Partitioned communication.
///
/// Sender and receiver each set one up; sends and receives with the same tag between two processes match in the order
/// of their set-up. The two sides may divide the data into partitions differently, if both have the same number of
/// bytes in all. Each side starts its own; each start of one matches one start of the other.
impl Communicator {
    /// Sets up a send of `partitions` times `count` elements (`MPI_Psend_init`).
    ///
    /// # Errors
    /// The rank, tag or count is wrong, or the communicator is revoked.
    ///
    /// # Safety
    /// In every round, from when a partition is [`ready`](PartitionedSend::ready) to the end of the request, its data
    /// are initialised memory that may be read from any thread and is not written to.
    pub unsafe fn psend_init(
        &self,
        base: *const u8,
        (partitions, count): (u32, u64),
        datatype: &Datatype,
        destination: Rank,
        tag: i32,
    ) -> Result<PartitionedSend, Error> {
        const CALL: &str = "MPI_Psend_init";
        let span = self.enter(|| set_up(CALL, (partitions, count), datatype, (destination, tag)));
        let number = span.number();
        let made = self
            .channel(CALL, base.cast_mut(), (partitions, count), datatype, number)
            .and_then(|channel| self.open_sender(channel, destination, tag));
        span.leave(made, |_, leave| {
            leave(&Exit {
                request: Some(number),
                ..Exit::default()
            });
        })
    }

    fn open_sender(&self, mut channel: Channel, destination: Rank, tag: i32) -> Result<PartitionedSend, Error> {
        let call = channel.call;
        let too_many = || self.locate(Error::new(ErrorClass::Count, call));
        let (cut, together) = Cut::new(channel.partitions, channel.bytes).ok_or_else(too_many)?;
        if let Some((route, setup)) = self.ends(call, destination, tag)? {
            channel.is_own = route.process == self.0.engine.process;
            let first = self.0.partitions.fetch_add(cut.messages, Ordering::Relaxed);
            let cut = Cut { first, ..cut };
            channel.index = self.access(None, |core, messenger, now| {
                Some(
                    core.channels
                        .open_sender(&mut core.requests, messenger, now, (route, setup), cut),
                )
            });
        }
        Ok(PartitionedSend {
            channel,
            together,
            round: Mutex::default(),
        })
    }

    /// Sets up a receive of `partitions` times `count` elements (`MPI_Precv_init`). No wildcards.
    ///
    /// # Errors
    /// The rank, tag or count is wrong, or the communicator is revoked.
    ///
    /// # Safety
    /// In every round, until the request has ended: the data are initialised memory that may be written from any
    /// thread. Other code does not use a partition that has not [arrived](PartitionedReceive::arrived), and does not
    /// write to one that has.
    pub unsafe fn precv_init(
        &self,
        base: *mut u8,
        (partitions, count): (u32, u64),
        datatype: &Datatype,
        source: Rank,
        tag: i32,
    ) -> Result<PartitionedReceive, Error> {
        const CALL: &str = "MPI_Precv_init";
        let span = self.enter(|| set_up(CALL, (partitions, count), datatype, (source, tag)));
        let number = span.number();
        let made = self.channel(CALL, base, (partitions, count), datatype, number);
        let made = made.and_then(|mut channel| {
            if let Some((route, setup)) = self.ends(CALL, source, tag)? {
                channel.is_own = route.process == self.0.engine.process;
                channel.index = self.access(None, |core, messenger, now| {
                    Some(
                        core.channels
                            .open_receiver(&mut core.requests, messenger, now, (route, setup)),
                    )
                });
            }
            Ok(PartitionedReceive { channel })
        });
        span.leave(made, |_, leave| {
            leave(&Exit {
                request: Some(number),
                ..Exit::default()
            });
        })
    }

    fn channel(
        &self,
        call: &'static str,
        base: *mut u8,
        (partitions, count): (u32, u64),
        datatype: &Datatype,
        number: u64,
    ) -> Result<Channel, Error> {
        self.check(call)?;
        let wrong = || self.locate(Error::new(ErrorClass::Count, call));
        let all = count.checked_mul(partitions.into()).ok_or_else(wrong)?;
        datatype.span(all).map_err(|_| wrong())?;
        datatype.packed_size(all).map_err(|_| wrong())?;
        Ok(Channel {
            communicator: self.clone(),
            call,
            base,
            datatype: datatype.clone(),
            partitions,
            count,
            bytes: datatype.packed_size(count).map_err(|_| wrong())?,
            index: None,
            is_own: false,
            number,
        })
    }

    /// The route of the messages, and that of the set-up message as a message without data would arrive; `None` for
    /// `MPI_PROC_NULL`.
    fn ends(&self, call: &'static str, rank: Rank, tag: i32) -> Result<Option<(Route, Envelope)>, Error> {
        let setup = self.bits(Class::Setup, self.tag(call, tag)?);
        if rank == PROC_NULL {
            return Ok(None);
        }
        let process = self.process(call, rank)?;
        let bits = self.bits(Class::Partition, 0);
        let setup = Envelope {
            source: process,
            bits: setup,
            len: self.message_of(0),
        };
        Ok(Some((Route { process, bits }, setup)))
    }
}

/// The profiler's entry for a set-up.
fn set_up(call: &'static str, (partitions, count): (u32, u64), datatype: &Datatype, (peer, tag): (Rank, i32)) -> Entry {
    let all = count.saturating_mul(partitions.into());
    Entry {
        partitions: Some(partitions),
        ..Entry::of(call, all, datatype).with_peer(peer).with_tag(tag)
    }
}

impl Channel {
    fn error(&self, call: &'static str, class: ErrorClass, text: &'static str) -> Error {
        let error = Error::new(class, call).with_detail(Detail::Text(text));
        self.communicator.locate(error)
    }

    /// # Safety
    /// The contract of `psend_init` or `precv_init`.
    unsafe fn start(&self) -> Result<Request, Error> {
        const CALL: &str = "MPI_Start";
        let span = self.communicator.enter(|| Entry {
            requests: vec![self.number],
            ..Entry::named(CALL)
        });
        // SAFETY: the caller's contract.
        span.begin(unsafe { self.start_quietly(CALL) })
    }

    /// # Safety
    /// The contract of `psend_init` or `precv_init`.
    unsafe fn start_quietly(&self, call: &'static str) -> Result<Request, Error> {
        let communicator = &self.communicator;
        communicator.check(call)?;
        let Some(index) = self.index else {
            return Ok(Request::ended(communicator, Status::EMPTY, call));
        };
        let all = self.count * u64::from(self.partitions);
        // SAFETY: the caller's contract.
        let buffer = unsafe { communicator.buffer(call, self.base, all, &self.datatype) }?;
        let room = buffer.len();
        let mut buffer = Some(buffer);
        let started: Option<Option<RequestId>> = communicator.access(None, |core, messenger, now| {
            let buffer: Buffer = buffer.take()?;
            Some(core.channels.start(&mut core.requests, messenger, now, index, buffer))
        });
        if self.is_own {
            communicator.engine().fabric.stayed();
        }
        let started = started.ok_or_else(|| communicator.broken(call))?;
        let running = || self.error(call, ErrorClass::Request, "it has been started, and has not ended");
        Ok(Request::pending(communicator, started.ok_or_else(running)?, call, room))
    }

    fn bytes_of(&self, partition: u32) -> Range<u64> {
        let start = self.bytes * u64::from(partition);
        start..start + self.bytes
    }

    fn check_partitions(&self, call: &'static str, partitions: &Range<u32>) -> Result<(), Error> {
        if partitions.end <= self.partitions {
            return Ok(());
        }
        let detail = Detail::Value {
            argument: "partition",
            value: i64::from(partitions.end) - 1,
            min: 0,
            max: i64::from(self.partitions) - 1,
        };
        let error = Error::new(ErrorClass::Arg, call).with_detail(detail);
        Err(self.communicator.locate(error))
    }
}

impl Channel {
    /// Tells the profiler that it is freed.
    fn freed(&self) {
        let _span = self.communicator.enter(|| Entry {
            requests: vec![self.number],
            ..Entry::named("MPI_Request_free")
        });
    }
}

impl Drop for PartitionedSend {
    fn drop(&mut self) {
        self.channel.freed();
    }
}

impl Drop for PartitionedReceive {
    fn drop(&mut self) {
        self.channel.freed();
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        if let Some(index) = self.index {
            let close = |core: &mut Process, messenger: &mut Messenger, now| {
                core.channels.close(&mut core.requests, messenger, now, index)
            };
            self.communicator.access((), close);
        }
    }
}

impl PartitionedSend {
    /// The communicator.
    #[must_use]
    pub fn communicator(&self) -> &Communicator {
        &self.channel.communicator
    }

    /// Number of partitions.
    #[must_use]
    pub fn partitions(&self) -> u32 {
        self.channel.partitions
    }

    /// Sends from another address from the next start on.
    ///
    /// # Safety
    /// The contract of [`Communicator::psend_init`], for this address.
    pub unsafe fn move_to(&mut self, base: *const u8) {
        self.channel.base = base.cast_mut();
    }

    /// Starts a round (`MPI_Start`), in which no partition is ready yet.
    ///
    /// # Errors
    /// `MPI_ERR_REQUEST` if a round is running; the communicator is revoked.
    pub fn start(&self) -> Result<Request, Error> {
        let mut round = self.round.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the contract of `psend_init`.
        let request = unsafe { self.channel.start() }?;
        let (all, together) = (self.channel.partitions, self.together);
        round.ready.clear();
        round.ready.resize(all as usize, false);
        round.missing.clear();
        round.missing.extend(
            (0..all)
                .step_by(together as usize)
                .map(|first| together.min(all - first)),
        );
        let nothing = all == 0;
        drop(round);
        if nothing && let Some(index) = self.channel.index {
            self.send(index, 0);
        }
        Ok(request)
    }

    /// Marks a partition as ready to be sent (`MPI_Pready`). Several threads may call this at once, for different
    /// partitions.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` if there is no such partition, or if it is ready already; `MPI_ERR_REQUEST` if no round is
    /// running.
    pub fn ready(&self, partition: u32) -> Result<(), Error> {
        const CALL: &str = "MPI_Pready";
        self.told(CALL, partition, 1)
            .end(self.make_ready(CALL, partition..partition.saturating_add(1)))
    }

    /// The same for a range (`MPI_Pready_range`, but `partitions.end` is exclusive).
    ///
    /// # Errors
    /// As [`ready`](Self::ready); then none of them is ready.
    pub fn ready_range(&self, partitions: Range<u32>) -> Result<(), Error> {
        const CALL: &str = "MPI_Pready_range";
        self.told(CALL, partitions.start, partitions.len() as u64)
            .end(self.make_ready(CALL, partitions))
    }

    /// The same for a list (`MPI_Pready_list`).
    ///
    /// # Errors
    /// As [`ready`](Self::ready); the partitions before the wrong one are ready.
    pub fn ready_list(&self, partitions: &[u32]) -> Result<(), Error> {
        const CALL: &str = "MPI_Pready_list";
        let span = self.channel.communicator.enter(|| Entry {
            requests: vec![self.channel.number],
            ready: partitions.to_vec(),
            ..Entry::named(CALL)
        });
        let each = |&partition: &u32| self.make_ready(CALL, partition..partition.saturating_add(1));
        span.end(partitions.iter().try_for_each(each))
    }

    fn told(&self, call: &'static str, first: u32, count: u64) -> crate::mpi::engine::profile::Span {
        self.channel.communicator.enter(|| Entry {
            requests: vec![self.channel.number],
            displacement: Some(first.into()),
            count,
            ..Entry::named(call)
        })
    }

    fn make_ready(&self, call: &'static str, partitions: Range<u32>) -> Result<(), Error> {
        let channel = &self.channel;
        channel.check_partitions(call, &partitions)?;
        let mut round = self.round.lock().unwrap_or_else(PoisonError::into_inner);
        let Round { ready, missing } = &mut *round;
        let range = partitions.start as usize..partitions.end as usize;
        let Some(ready) = ready.get_mut(range) else {
            return Err(channel.error(call, ErrorClass::Request, "it has not been started"));
        };
        if ready.contains(&true) {
            return Err(channel.error(call, ErrorClass::Arg, "it is ready already"));
        }
        ready.fill(true);
        let mut complete = Vec::new();
        for partition in partitions {
            let message = partition / self.together;
            missing[message as usize] -= 1;
            if missing[message as usize] == 0 {
                complete.push(message);
            }
        }
        drop(round);
        if let Some(index) = channel.index {
            complete.into_iter().for_each(|message| self.send(index, message));
        }
        Ok(())
    }

    fn send(&self, index: u32, message: u32) {
        self.channel.communicator.access((), |core, messenger, now| {
            core.channels
                .send_part(&mut core.requests, messenger, now, index, message);
        });
    }
}

impl PartitionedReceive {
    /// The communicator.
    #[must_use]
    pub fn communicator(&self) -> &Communicator {
        &self.channel.communicator
    }

    /// Number of partitions.
    #[must_use]
    pub fn partitions(&self) -> u32 {
        self.channel.partitions
    }

    /// Receives to another address from the next start on.
    ///
    /// # Safety
    /// The contract of [`Communicator::precv_init`], for this address.
    pub unsafe fn move_to(&mut self, base: *mut u8) {
        self.channel.base = base;
    }

    /// Starts a round (`MPI_Start`), in which no partition has arrived yet.
    ///
    /// # Errors
    /// `MPI_ERR_REQUEST` if a round is running; the communicator is revoked.
    pub fn start(&self) -> Result<Request, Error> {
        // SAFETY: the contract of `precv_init`.
        unsafe { self.channel.start() }
    }

    /// Whether a partition of the current round, or of the last one, has arrived (`MPI_Parrived`). Makes progress once
    /// if it has not.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` if there is no such partition; the network has failed.
    pub fn arrived(&self, partition: u32) -> Result<bool, Error> {
        const CALL: &str = "MPI_Parrived";
        self.told(CALL, partition, |call| self.arrived_quietly(call, partition))
    }

    /// Waits until a partition of the current round, or of the last one, has arrived. Gives whether it has: false if no
    /// round is running, or the round has failed. (MPI has no such call: there a program polls `MPI_Parrived`.)
    ///
    /// # Errors
    /// As [`arrived`](Self::arrived).
    pub fn wait_for(&self, partition: u32) -> Result<bool, Error> {
        const CALL: &str = "MPI_Parrived";
        self.told(CALL, partition, |call| self.wait_quietly(call, partition))
    }

    fn told(
        &self,
        call: &'static str,
        partition: u32,
        look: impl FnOnce(&'static str) -> Result<bool, Error>,
    ) -> Result<bool, Error> {
        let channel = &self.channel;
        let span = channel.communicator.enter(|| Entry {
            requests: vec![channel.number],
            displacement: Some(partition.into()),
            ..Entry::named(call)
        });
        span.leave(look(call), |is_there, leave| {
            let ended = is_there.then_some((0, Status::EMPTY));
            leave(&Exit {
                ended: ended.as_slice(),
                ..Exit::default()
            });
        })
    }

    fn wait_quietly(&self, call: &'static str, partition: u32) -> Result<bool, Error> {
        let channel = &self.channel;
        channel.check_partitions(call, &(partition..partition.saturating_add(1)))?;
        let Some(index) = channel.index else { return Ok(true) };
        let bytes = channel.bytes_of(partition);
        let communicator = &channel.communicator;
        let mut is_there = false;
        let waited = communicator.engine().fabric.wait(&mut |core, _, _| {
            is_there = core.channels.has_arrived(index, &bytes);
            is_there || !core.channels.runs(index)
        });
        waited.map_err(|_| communicator.broken(call))?;
        Ok(is_there)
    }

    fn arrived_quietly(&self, call: &'static str, partition: u32) -> Result<bool, Error> {
        let channel = &self.channel;
        channel.check_partitions(call, &(partition..partition.saturating_add(1)))?;
        let Some(index) = channel.index else { return Ok(true) };
        let bytes = channel.bytes_of(partition);
        let communicator = &channel.communicator;
        let look = || communicator.access(false, |core, _, _| core.channels.has_arrived(index, &bytes));
        if look() {
            return Ok(true);
        }
        communicator
            .engine()
            .progress()
            .map_err(|_| communicator.broken(call))?;
        Ok(look())
    }
}
