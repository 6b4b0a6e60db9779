#![expect(unsafe_code, reason = "buffers are given by pointer, as C does")]
//! Collectives (MPI 6): from the call to the schedule that the process runs.

use alloc::{sync::Arc, vec, vec::Vec};
use core::sync::atomic::{AtomicU32, Ordering};
use std::{sync::PoisonError, time::Duration};

use super::{Communicator, Last};
use crate::{
    events::event,
    mpi::{
        Rank,
        collectives::{self, Algorithm, Call, Collective as Kind, Role, Schedule, ScheduleError},
        datatype::{self, Datatype},
        engine::{
            Entry, Request, Status,
            check::Agreement,
            class::Class,
            collective::{Collective, Planned},
            on_host::Asked,
            profile::is_immediate,
            regions::{Buffers, Memory, Region, memory},
            uninterrupted,
        },
        error::{Detail, Error, ErrorClass},
        operation::{Operation, Predefined},
    },
};

/// Longer schedules, by number of steps, are not kept: there may be thousands of processes in one memory.
const KEPT_STEPS: usize = 64;

/// Collectives.
impl Communicator {
    /// Begins a collective; `algorithm` forces one. All ranks must begin the collectives of a communicator in the same
    /// order, with matching arguments.
    ///
    /// `operation` is needed by reductions.
    ///
    /// # Errors
    /// An argument is wrong: there is no such root, the counts do not match, or the operation is not defined for the
    /// datatype.
    ///
    /// # Safety
    /// Until the request has ended: the elements of the input that MPI has this rank read are initialised memory that
    /// may be read from any thread and is not written to; those of the output may be written, and are not used by other
    /// code.
    pub unsafe fn collective(
        &self,
        name: &'static str,
        call: &Call<'_>,
        buffers: &Buffers<'_>,
        operation: Option<&Operation>,
        algorithm: Option<Algorithm>,
    ) -> Result<Request, Error> {
        let span = self.enter(|| Entry::collective(name, call, (&buffers.input, &buffers.output), operation));
        let is_immediate = is_immediate(name);
        if !is_immediate && algorithm.is_none() {
            // SAFETY: the caller's contract.
            match unsafe { self.collective_on_host(name, call, buffers, operation) } {
                None => {}
                Some(Ok(())) if self.0.engine.profile.is_off() => return Ok(Request::sent(name)),
                Some(Ok(())) => return Ok(Request::ended(self, Status::EMPTY, name).within(span)),
                Some(Err(error)) => return span.end(Err(error)),
            }
        }
        let next = self.next_collective(is_immediate);
        // SAFETY: the caller's contract.
        let begun = unsafe { self.collective_quietly(name, call, buffers, (operation, algorithm), next) };
        if is_immediate {
            return span.begin(begun);
        }
        match begun {
            Ok(request) => Ok(request.within(span)),
            failed @ Err(_) => span.end(failed),
        }
    }

    /// # Safety
    /// See [`collective`](Self::collective).
    unsafe fn collective_quietly(
        &self,
        name: &'static str,
        call: &Call<'_>,
        buffers: &Buffers<'_>,
        (operation, algorithm): (Option<&Operation>, Option<Algorithm>),
        next: (Class, &AtomicU32),
    ) -> Result<Request, Error> {
        // SAFETY: the caller's contract.
        let planned = unsafe { self.plan(name, call, buffers, operation, algorithm, next) }?;
        self.start_collective(name, &planned)
    }

    /// Runs a blocking collective by memory that all ranks have in common. `None`: it takes the general way.
    ///
    /// # Safety
    /// See [`collective`](Self::collective).
    #[inline]
    unsafe fn collective_on_host(
        &self,
        name: &'static str,
        call: &Call<'_>,
        buffers: &Buffers<'_>,
        operation: Option<&Operation>,
    ) -> Option<Result<(), Error>> {
        let class = Class::Collective;
        if self.0.class != class || self.0.engine.policy.forced(call.collective()).is_some() {
            return None;
        }
        let number = self.0.sequence.load(Ordering::Relaxed);
        // SAFETY: the caller's contract.
        let done = unsafe { self.short_on_host(name, call, buffers, operation, number) };
        if done.is_some() {
            // (No other collective of this communicator is under way. A locked instruction would wait until the others have
            // seen what was posted.)
            self.0.sequence.store(number.wrapping_add(1), Ordering::Relaxed);
            // What came in time needed no look at the network.
            self.0.engine.fabric.stayed();
            return done;
        }
        // SAFETY: as above.
        unsafe { self.long_on_host(name, call, buffers, operation) }
    }

    /// The general way of these.
    ///
    /// # Safety
    /// See [`collective`](Self::collective).
    unsafe fn long_on_host(
        &self,
        name: &'static str,
        call: &Call<'_>,
        buffers: &Buffers<'_>,
        operation: Option<&Operation>,
    ) -> Option<Result<(), Error>> {
        let class = Class::Collective;
        let board = match self.board(name, call, buffers)? {
            Ok(board) => board,
            Err(error) => return Some(Err(error)),
        };
        if let Err(error) = self.check_arguments(name, call, buffers, operation) {
            return Some(Err(error));
        }
        let bytes = bytes(call, buffers, self.size() as usize);
        let asked = Asked {
            name,
            call,
            buffers,
            operation,
            bytes,
            mark: class.mark(call, bytes) as u32,
            bits: self.bits(class, self.0.sequence.load(Ordering::Relaxed)),
        };
        // SAFETY: the caller's contract.
        let done = unsafe { self.run_on_host(board, &asked) };
        if done.is_some() {
            self.0.sequence.fetch_add(1, Ordering::Relaxed);
            self.0.engine.fabric.stayed();
        }
        done
    }

    /// What is wrong with the arguments of a collective among the ranks of one group, as far as this rank can see it.
    fn check_arguments(
        &self,
        name: &'static str,
        call: &Call<'_>,
        buffers: &Buffers<'_>,
        operation: Option<&Operation>,
    ) -> Result<(), Error> {
        self.check(name)?;
        let (rank, size) = (self.rank() as usize, self.size() as usize);
        self.check_operation(name, buffers, operation)?;
        call.check_for(rank, size)
            .map_err(|error| self.locate(schedule_error(name, error)))?;
        own_block(name, call, buffers, rank).map_err(|error| self.locate(error))
    }

    fn check_operation(
        &self,
        name: &'static str,
        buffers: &Buffers<'_>,
        operation: Option<&Operation>,
    ) -> Result<(), Error> {
        if let Some(operation) = operation
            && let Region::Plain(_, datatype) = buffers.output
        {
            let wrong = |error| self.locate(Error::new(ErrorClass::Op, name).with_detail(Detail::Operation(error)));
            operation.check(datatype).map_err(wrong)?;
        }
        Ok(())
    }

    /// The class of a collective, and the counter that gives its number. All are in one order if calls are compared.
    fn next_collective(&self, is_immediate: bool) -> (Class, &AtomicU32) {
        match self.0.class {
            Class::Collective if is_immediate && !self.0.engine.check => (Class::Immediate, &self.0.immediate),
            class => (class, &self.0.sequence),
        }
    }

    /// Starts a planned collective, unless it is running.
    pub(in crate::mpi::engine) fn start_collective(
        &self,
        name: &'static str,
        planned: &Arc<Planned>,
    ) -> Result<Request, Error> {
        let begun = self.access(None, |core, messenger, now| {
            Some(core.collectives.begin(&mut core.requests, messenger, now, planned))
        });
        if self.size() == 1 && self.remote_group().is_none() {
            self.0.engine.fabric.stayed();
        }
        let id = begun.ok_or_else(|| self.broken(name))?.ok_or_else(|| {
            let detail = Detail::Text("it has been started, and has not ended");
            self.locate(Error::new(ErrorClass::Request, name).with_detail(detail))
        })?;
        Ok(Request::pending(self, id, name, 0).checked(planned.check()))
    }

    /// Plans the part of this process in a collective, which gets the next number.
    ///
    /// # Safety
    /// The contract of [`collective`](Self::collective), while it runs.
    pub(super) unsafe fn plan(
        &self,
        name: &'static str,
        call: &Call<'_>,
        buffers: &Buffers<'_>,
        operation: Option<&Operation>,
        algorithm: Option<Algorithm>,
        (class, next): (Class, &AtomicU32),
    ) -> Result<Arc<Planned>, Error> {
        self.check(name)?;
        let (rank, size) = (self.rank() as usize, self.size() as usize);
        self.check_operation(name, buffers, operation)?;
        let (schedule, mark) = match self.remote_group() {
            Some(remote) => {
                let schedule = call.schedule_between(rank, size, remote.size() as usize);
                (schedule.map(Arc::new), 0)
            }
            None => {
                let bytes = bytes(call, buffers, size);
                (self.schedule(call, bytes, algorithm), class.mark(call, bytes))
            }
        };
        let schedule = schedule.map_err(|error| self.locate(schedule_error(name, error)))?;
        if !self.is_inter() {
            own_block(name, call, buffers, rank).map_err(|error| self.locate(error))?;
        }
        let group = self.group();
        let group = self
            .remote_group()
            .map_or_else(|| group.clone(), |remote| group.union(remote));
        let input = memory(buffers.input, call);
        let output = memory(buffers.output, call);
        let scratch = match (&output, &input) {
            (Some(memory), _) | (None, Some(memory)) => memory.clone(),
            (None, None) => Memory::none(&Datatype::predefined(datatype::Kind::Byte)),
        };
        let none = || Memory::none(&Datatype::predefined(datatype::Kind::Byte));
        let number = next.fetch_add(1, Ordering::Relaxed);
        let collective = Collective {
            schedule,
            input: input.unwrap_or_else(none),
            output: output.unwrap_or_else(none),
            scratch,
            operation: operation.cloned(),
            group,
            bits: self.bits(class, number),
            mark,
        };
        if !self.0.engine.check || self.is_inter() || size == 1 {
            return Ok(Planned::new(collective));
        }
        let agreement = Agreement::new(name, call, buffers, operation, (rank, size));
        self.plan_agreed(name, agreement, collective)
    }

    /// The schedule of this rank; the one of the last call if that was the same.
    fn schedule(
        &self,
        call: &Call<'_>,
        bytes: usize,
        algorithm: Option<Algorithm>,
    ) -> Result<Arc<Schedule>, ScheduleError> {
        let (rank, size) = (self.rank() as usize, self.size() as usize);
        let asked = call.without_lists().map(|call| (call, algorithm, bytes));
        let mut last = self.0.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some(asked), Some(last)) = (&asked, &*last)
            && *asked == last.asked
        {
            return Ok(Arc::clone(&last.schedule));
        }
        let algorithm = algorithm.unwrap_or_else(|| self.choose_for(call, bytes));
        event!(DEBUG, rank, size, collective = %call.collective(), bytes = bytes, %algorithm, "algorithm chosen");
        let schedule = Arc::new(call.schedule(rank, size, algorithm)?);
        if let Some(asked) = asked
            && schedule.len() <= KEPT_STEPS
        {
            let schedule = Arc::clone(&schedule);
            *last = Some(Last { asked, schedule });
        }
        Ok(schedule)
    }

    /// Has all ranks compare their calls first.
    fn plan_agreed(
        &self,
        name: &'static str,
        mut agreement: Agreement,
        collective: Collective,
    ) -> Result<Arc<Planned>, Error> {
        let (rank, size, call) = (self.rank() as usize, self.size() as usize, Agreement::call());
        let policy = &self.0.engine.policy;
        let algorithm = policy.choose(call.collective(), size, size * Agreement::BYTES, true);
        let schedule = call.schedule(rank, size, algorithm);
        let schedule = schedule.map_err(|error| self.locate(schedule_error(name, error)))?;
        let [input, output] = agreement.regions();
        let first = Planned::new(Collective {
            schedule: Arc::new(schedule),
            scratch: output.clone(),
            input,
            output,
            operation: None,
            group: collective.group.clone(),
            bits: collective.bits,
            mark: 0,
        });
        Ok(Planned::after(Some((first, agreement)), collective))
    }

    /// The algorithm that [`collective`](Self::collective) takes unless one is forced, or the ranks share a host and it goes
    /// by memory.
    #[must_use]
    pub fn choose(&self, call: &Call<'_>, buffers: &Buffers<'_>) -> Algorithm {
        self.choose_for(call, bytes(call, buffers, self.size() as usize))
    }

    fn choose_for(&self, call: &Call<'_>, bytes: usize) -> Algorithm {
        let policy = &self.0.engine.policy;
        policy.choose(call.collective(), self.size() as usize, bytes, call.commutative())
    }

    /// Waits until all ranks have called it (`MPI_Barrier`).
    ///
    /// # Errors
    /// A process is lost, or the communicator is revoked.
    pub fn barrier(&self) -> Result<(), Error> {
        const CALL: &str = "MPI_Barrier";
        self.enter(|| Entry::named(CALL)).end(self.meet(CALL))
    }

    /// A barrier in the name of another MPI function.
    pub(in crate::mpi::engine) fn meet(&self, name: &'static str) -> Result<(), Error> {
        self.meet_in(name, (self.0.class, &self.0.sequence))
    }

    /// A barrier whose number comes from this class.
    fn meet_in(&self, name: &'static str, numbered: (Class, &AtomicU32)) -> Result<(), Error> {
        let buffers = Buffers {
            input: Region::None,
            output: Region::None,
        };
        let call = Call::of(Kind::Barrier);
        if numbered.0 == Class::Collective {
            // SAFETY: a barrier has no buffers.
            if let Some(met) = unsafe { self.collective_on_host(name, &call, &buffers, None) } {
                return met;
            }
        }
        // SAFETY: as above.
        let planned = unsafe { self.plan(name, &call, &buffers, None, None, numbered) }?;
        self.start_collective(name, &planned)?.finish().map(|_| ())
    }

    /// Ends MPI at this process (`MPI_Finalize`), on the communicator of all: tells the others that this process begins
    /// nothing more, waits until all have said so, and says goodbye, waiting at most `linger` for acknowledgements. A
    /// process that still waits for a message of this one gets `MPI_ERR_PROC_FAILED`.
    ///
    /// # Errors
    /// Another process is lost, the communicator is revoked, or the network has failed; the goodbye is said all the
    /// same.
    pub fn finalize(&self, linger: Duration) -> Result<(), Error> {
        self.finalize_with(linger, |met| met)
    }

    /// The same. Before the goodbye, `after` is told whether the barrier has succeeded, and may synchronise in another
    /// way; its result stands for that of the barrier.
    ///
    /// # Errors
    /// As [`finalize`](Self::finalize), and those of `after`.
    pub fn finalize_with(
        &self,
        linger: Duration,
        after: impl FnOnce(Result<(), Error>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        const CALL: &str = "MPI_Finalize";
        let engine = &self.0.engine;
        if engine.is_finalized() {
            return Ok(());
        }
        let span = self.enter(|| Entry::named(CALL));
        engine.fabric.leave();
        let met = after(self.meet_in(CALL, (Class::Finalize, &AtomicU32::new(0))));
        let closed = engine.close(linger).map_err(|_| self.broken(CALL));
        let ended = span.end(met.and(closed));
        engine.close_profile();
        ended
    }

    /// Refuses a call that is not defined for intercommunicators.
    pub(in crate::mpi::engine) fn is_one_group(&self, name: &'static str) -> Result<(), Error> {
        let detail = Detail::Text("the communicator is between two groups");
        let error = || self.locate(Error::new(ErrorClass::Comm, name).with_detail(detail));
        if self.is_inter() { Err(error()) } else { Ok(()) }
    }

    /// An element-wise reduction over all ranks, by which communicators agree on values.
    pub(in crate::mpi::engine) fn agree(
        &self,
        name: &'static str,
        values: &mut [i64],
        operation: Predefined,
    ) -> Result<(), Error> {
        // SAFETY: `values` is borrowed, and this function is left only when the request has ended: neither by a panic
        // nor, if the network fails, before all requests have been ended.
        let mut begin = || unsafe { self.begin_agree(name, values, operation) };
        uninterrupted(|| begin()?.finish().map(|_| ()))
    }

    /// Begins [`agree`](Self::agree).
    ///
    /// # Safety
    /// The values stay where they are, and are not used, until the request has ended.
    pub(super) unsafe fn begin_agree(
        &self,
        name: &'static str,
        values: &mut [i64],
        operation: Predefined,
    ) -> Result<Request, Error> {
        self.is_one_group(name)?;
        let datatype = Datatype::predefined(datatype::Kind::I64);
        let buffers = Buffers {
            input: Region::None,
            output: Region::Plain(values.as_mut_ptr().cast(), &datatype),
        };
        let call = Call::of(Kind::Allreduce).with_count(values.len()).with_in_place(true);
        let operation = Operation::predefined(operation);
        // SAFETY: the caller's contract.
        unsafe {
            self.collective_quietly(
                name,
                &call,
                &buffers,
                (Some(&operation), None),
                self.next_collective(false),
            )
        }
    }

    /// The values of each rank, in rank order.
    pub(in crate::mpi::engine) fn share(&self, name: &'static str, own: &[i64]) -> Result<Vec<i64>, Error> {
        self.is_one_group(name)?;
        let datatype = Datatype::predefined(datatype::Kind::I64);
        let mut all = vec![0_i64; own.len() * self.size() as usize];
        let buffers = Buffers {
            input: Region::Plain(own.as_ptr().cast_mut().cast(), &datatype),
            output: Region::Plain(all.as_mut_ptr().cast(), &datatype),
        };
        let call = Call::of(Kind::Allgather).with_count(own.len());
        // SAFETY: both are owned here or borrowed, and this function is left only when the request has ended, as above.
        let begin =
            || unsafe { self.collective_quietly(name, &call, &buffers, (None, None), self.next_collective(false)) };
        uninterrupted(|| begin()?.finish())?;
        Ok(all)
    }
}

/// A rank's block for itself must be as long as its place in the output: no receive would notice.
fn own_block(name: &'static str, call: &Call<'_>, buffers: &Buffers<'_>, rank: usize) -> Result<(), Error> {
    let (Region::Plain(_, from), Region::Plain(_, into)) = (&buffers.input, &buffers.output) else {
        return Ok(());
    };
    if call.in_place || call.is_among_neighbours() || !call.has_blocks(rank) {
        return Ok(());
    }
    let (sent, received) = match call.roles() {
        (Role::Block, Role::Blocks) => (call.input.single(), call.output.count(rank)),
        (Role::Blocks, Role::Block) => (call.input.count(rank), call.output.single()),
        (Role::Blocks, Role::Blocks) => (call.input.count(rank), call.output.count(rank)),
        _ => return Ok(()),
    };
    let bytes = |count: usize, datatype: &Datatype| (count as u64).saturating_mul(datatype.size()) as i64;
    let (sent, received) = (bytes(sent, from), bytes(received, into));
    if sent == received {
        return Ok(());
    }
    Err(Error::new(ErrorClass::Count, name).with_detail(Detail::Value {
        argument: "bytes that this process sends to itself",
        value: sent,
        min: received,
        max: received,
    }))
}

/// The size by which an algorithm for `size` ranks is chosen, bytes.
fn bytes(call: &Call<'_>, buffers: &Buffers<'_>, size: usize) -> usize {
    let (elements, buffer) = call.extent(size);
    let (first, second) = match buffer {
        collectives::Region::Input => (&buffers.input, &buffers.output),
        _ => (&buffers.output, &buffers.input),
    };
    match (call.collective().output(), first, second) {
        (Role::Packed, ..) => elements,
        (_, Region::Plain(_, datatype), _) | (_, Region::None, Region::Plain(_, datatype)) => {
            elements.saturating_mul(datatype.size() as usize)
        }
        _ => elements,
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
        ScheduleError::Between(_) => Error::new(ErrorClass::Comm, name)
            .with_detail(Detail::Text("this does not go between two groups, or not in place")),
        ScheduleError::Uneven(_) => {
            Error::new(ErrorClass::Arg, name).with_detail(Detail::Text("all blocks have one length here"))
        }
        _ => Error::new(ErrorClass::Arg, name).with_detail(Detail::Text("the algorithm is none for this")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpi::collectives::{Blocks, displacements};

    /// With blocks of very different lengths, and the root's in place, the choice must not depend on what only one rank
    /// knows.
    #[test]
    fn all_ranks_choose_by_the_same_bytes() {
        let datatype = Datatype::predefined(datatype::Kind::I64);
        let plain = || Region::Plain(core::ptr::dangling_mut(), &datatype);
        let counts = [1, 0, 3, 200_000, 7];
        let offsets = displacements(&counts);
        for (rank, input) in counts.into_iter().enumerate() {
            let blocks = Blocks::Uneven {
                counts: &counts,
                displacements: &offsets,
            };
            let call = Call::of(Kind::Allgatherv).with_input(input).with_output(blocks);
            let call = call.with_in_place(rank == 2);
            let buffers = Buffers {
                input: if rank == 2 { Region::None } else { plain() },
                output: plain(),
            };
            assert_eq!(bytes(&call, &buffers, 5), 8 * 200_011);
            let in_place = rank == 0;
            let call = Call::of(Kind::Gather).with_count(100).with_in_place(in_place);
            let buffers = Buffers {
                input: if in_place { Region::None } else { plain() },
                output: if in_place { plain() } else { Region::None },
            };
            assert_eq!(bytes(&call, &buffers, 5), 8 * 500);
        }
    }
}
