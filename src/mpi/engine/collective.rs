#![expect(unsafe_code, reason = "buffers and operands are memory of the caller")]
//! Runs the schedules of collectives, round by round, in whichever thread makes progress.

use alloc::{boxed::Box, sync::Arc, vec, vec::Vec};

use super::{
    buffer::Buffer,
    check::{Agreement, Check},
    core::{Core, Ended, RequestId, Route},
    links::Progress,
};
use crate::{
    error::PeerError,
    messaging::{
        Messenger,
        tagged::{MARK, MARKED, Outcome, Selector},
    },
    mpi::{
        collectives::{Region, Schedule, Span, Step},
        datatype::{Datatype, Kind},
        error::ErrorClass,
        group::Group,
        operation::Operation,
    },
    time::Instant,
};

/// Memory of a region of a schedule.
#[derive(Clone, Debug)]
pub(crate) enum Memory {
    /// Elements of one datatype at an address.
    Plain(Address, Datatype),
    /// Each element is one packed byte of these elements (bcast, which cuts them anywhere).
    Packed(Address, u64, Datatype),
    /// Element `i` is (displacement in bytes, count, datatype), as in alltoallw.
    Each(Address, Vec<(i64, u64, Datatype)>),
}

/// An address given by the caller, which may be handed to other threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address(pub(crate) *mut u8);
// SAFETY: an address is only a number; code that makes a `Buffer` of it answers for the memory.
unsafe impl Send for Address {}
// SAFETY: as above.
unsafe impl Sync for Address {}

impl Memory {
    /// No memory: where MPI gives a rank no buffer.
    pub(crate) fn none(datatype: &Datatype) -> Self {
        Self::Plain(Address(core::ptr::dangling_mut()), datatype.clone())
    }

    fn move_to(&mut self, to: *mut u8) {
        let (Self::Plain(base, ..) | Self::Packed(base, ..) | Self::Each(base, ..)) = self;
        base.0 = to;
    }

    /// Address and datatype of a span that is a single run.
    fn run(&self, span: &Span) -> Option<(*mut u8, &Datatype)> {
        let Self::Plain(base, datatype) = self else { return None };
        let bytes = datatype.extent().checked_mul(span.offset as i64)?;
        (span.times == 1).then(|| (base.0.wrapping_offset(bytes as isize), datatype))
    }

    #[inline(always)]
    fn buffer(&self, span: &Span) -> Option<Buffer> {
        match self.run(span) {
            // SAFETY: by `Collective`'s contract the elements that the schedule names are the caller's.
            Some((base, datatype)) => unsafe { Buffer::new(base, span.count as u64, datatype) },
            None => self.scattered(span),
        }
    }

    /// A span that is not a single run of one datatype.
    #[inline(never)]
    fn scattered(&self, span: &Span) -> Option<Buffer> {
        match self {
            Self::Plain(base, datatype) => {
                let (times, count, stride) = (span.times.into(), span.count.try_into().ok()?, span.stride as i64);
                let runs = Datatype::vector(times, count, stride, datatype).ok()?;
                let bytes = datatype.extent().checked_mul(span.offset as i64)?;
                // SAFETY: as above.
                unsafe { Buffer::new(base.0.wrapping_offset(bytes as isize), 1, &runs) }
            }
            _ if span.times > 1 => {
                let runs: Option<Vec<_>> = span.runs().map(|run| self.buffer(&run)).collect();
                Some(Buffer::join(runs?))
            }
            Self::Packed(base, count, datatype) => {
                // SAFETY: as above.
                let all = unsafe { Buffer::new(base.0, *count, datatype) }?;
                all.range(span.offset.try_into().ok()?, span.count as u64)
            }
            Self::Each(base, elements) => {
                let first = usize::try_from(span.offset).ok()?;
                let list = elements.get(first..first.checked_add(span.count)?)?;
                let mut parts = Vec::with_capacity(list.len());
                for (bytes, count, datatype) in list {
                    let base = base.0.wrapping_offset(*bytes as isize);
                    // SAFETY: as above.
                    parts.push(unsafe { Buffer::new(base, *count, datatype) }?);
                }
                Some(Buffer::join(parts))
            }
        }
    }
}

/// The arguments of a collective.
pub(crate) struct Collective {
    pub(crate) schedule: Arc<Schedule>,
    pub(crate) input: Memory,
    pub(crate) output: Memory,
    /// Scratch memory and its datatype.
    pub(crate) scratch: Memory,
    pub(crate) operation: Option<Operation>,
    /// The processes by rank.
    pub(crate) group: Group,
    /// Match bits of all of its messages.
    pub(crate) bits: u64,
    /// The [`MARK`] of its messages: a hash of the call.
    pub(crate) mark: u64,
}

/// A collective with its scratch memory: ready to be run once or repeatedly.
pub(crate) struct Planned {
    call: Collective,
    /// Owns the scratch memory that `call.scratch` names.
    _scratch: Vec<u64>,
    /// The collective that runs first, and the agreement that must come out of it.
    first: Option<(Arc<Self>, Agreement)>,
}

impl Planned {
    pub(crate) fn new(call: Collective) -> Arc<Self> {
        Self::after(None, call)
    }

    /// A collective that runs if the ranks agree after `first`.
    pub(super) fn after(first: Option<(Arc<Self>, Agreement)>, mut call: Collective) -> Arc<Self> {
        let scratch = scratch_for(&mut call);
        Arc::new(Self {
            call,
            _scratch: scratch,
            first,
        })
    }

    pub(super) fn call(&self) -> &Collective {
        &self.call
    }

    /// The check to make when it has ended.
    pub(super) fn check(&self) -> Option<Check> {
        let (_, agreement) = self.first.as_ref()?;
        Some(Check::Collective(agreement.verdict()))
    }

    /// Moves it to other buffers.
    pub(crate) fn move_to(&mut self, input: *mut u8, output: *mut u8) {
        self.call.input.move_to(input);
        self.call.output.move_to(output);
    }
}

/// A message for which a collective waits.
#[derive(Clone, Copy)]
struct Awaited {
    id: RequestId,
    /// Its phase in the connection plan.
    phase: usize,
    /// Expected length of a receive, bytes; [`Awaited::SENT`] for a send.
    len: u64,
}

impl Awaited {
    const SENT: u64 = u64::MAX;

    /// Checks how a receive has ended: a message of another call, or of another length, is a failure.
    fn check(self, call: &Collective, ended: Ended) -> Ended {
        if self.len == Self::SENT || !matches!(ended.outcome, Outcome::Complete | Outcome::Truncated) {
            return ended;
        }
        if ended.envelope.len != self.len {
            return Ended {
                outcome: Outcome::Truncated,
                wanted: Some(self.len),
                ..ended
            };
        }
        if ended.envelope.bits & MARK != call.mark && call.bits & MARKED != 0 {
            let refused = Some(ErrorClass::NotSame);
            return Ended { refused, ..ended };
        }
        ended
    }
}

/// A running collective.
pub(super) struct Running {
    pub(super) planned: Arc<Planned>,
    /// The collective that runs after it.
    next: Option<Arc<Planned>>,
    /// The next round.
    round: usize,
    /// Messages of the current round.
    pending: Vec<Awaited>,
    request: RequestId,
    failure: Option<Ended>,
    /// Its connection plan, where the fabric needs one.
    pub(super) plan: Option<Progress>,
}

impl Core {
    /// Begins a collective. Gives its request, which may have ended already; `None` if it is running.
    pub(crate) fn begin(
        &mut self,
        messenger: &mut Messenger,
        now: Instant,
        planned: &Arc<Planned>,
    ) -> Option<RequestId> {
        // The owner holds one reference, a running instance the other.
        if Arc::strong_count(planned) > 1 {
            return None;
        }
        let request = self.request_of_caller();
        let (planned, next) = match &planned.first {
            Some((first, _)) => (first, Some(Arc::clone(planned))),
            None => (planned, None),
        };
        self.open_ahead(messenger, now, planned);
        let running = Box::new(Running {
            planned: Arc::clone(planned),
            next,
            round: 0,
            pending: Vec::new(),
            request,
            failure: self.failed_member(&planned.call),
            plan: self.plan_links(&planned.call),
        });
        let index = match self.collectives.iter().position(Option::is_none) {
            Some(index) => {
                self.collectives[index] = Some(running);
                index
            }
            None => {
                self.collectives.push(Some(running));
                self.collectives.len() - 1
            }
        } as u32;
        self.advance(messenger, now, index);
        Some(request)
    }

    /// Goes on with a collective whose messages may have ended.
    pub(super) fn advance(&mut self, messenger: &mut Messenger, now: Instant, index: u32) {
        let Some(mut running) = self.collectives.get_mut(index as usize).and_then(Option::take) else {
            return;
        };
        loop {
            let Running {
                planned,
                pending,
                plan,
                failure,
                ..
            } = &mut *running;
            let failed_before = failure.is_some();
            pending.retain(|awaited| match self.take(awaited.id) {
                None => true,
                Some(ended) => {
                    if let Some(plan) = plan {
                        plan.complete(awaited.phase);
                    }
                    let ended = awaited.check(&planned.call, ended);
                    if ended.outcome != Outcome::Complete || ended.refused.is_some() {
                        failure.get_or_insert(ended);
                    }
                    false
                }
            });
            if let (Some(failure), false) = (&running.failure, failed_before) {
                self.tell_missed(messenger, now, &running.planned.call, failure);
            }
            let drains = self.goes_on_with_plan(messenger, &mut running);
            if !running.pending.is_empty() {
                if let Some(failure) = &running.failure {
                    self.give_up_round(messenger, &running, failure.outcome);
                    running.pending.retain(|awaited| self.take(awaited.id).is_none());
                }
                if !running.pending.is_empty() {
                    let drains = drains || running.failure.is_some();
                    self.keep(index, running, drains);
                    return;
                }
            }
            let over = running.round == running.planned.call.schedule.rounds();
            let failed = running.failure.is_some();
            let plan = running.plan.as_ref().filter(|_| !failed);
            if plan.is_some_and(|plan| {
                if over {
                    !plan.is_over()
                } else {
                    plan.holds_back(running.round)
                }
            }) {
                self.keep(index, running, drains);
                return;
            }
            if (over || failed)
                && let Some(plan) = &mut running.plan
                && !self.end_plan(&running.planned.call, plan, index)
            {
                self.keep(index, running, false);
                return;
            }
            if !failed
                && over
                && let Some(next) = running.next.take()
            {
                if next.first.as_ref().is_none_or(|(_, agreement)| agreement.holds()) {
                    running.plan = self.plan_links(&next.call);
                    (running.planned, running.round) = (next, 0);
                    continue;
                }
                let refused = Some(ErrorClass::NotSame);
                self.end(running.request, Ended { refused, ..Ended::WELL });
                return;
            }
            if failed || over {
                self.end(running.request, running.failure.unwrap_or(Ended::WELL));
                return;
            }
            let round = running.round;
            running.round += 1;
            self.start_round(messenger, now, index, round, &mut running);
        }
    }

    fn goes_on_with_plan(&mut self, messenger: &Messenger, running: &mut Running) -> bool {
        let call = &running.planned.call;
        let plan = running.plan.as_mut();
        plan.is_some_and(|plan| self.follow_plan(messenger, call, plan))
    }

    /// Keeps a collective until its messages are complete; if it `drains`, it is looked at in every pass, until they
    /// are acknowledged or their memory is given back.
    #[inline]
    fn keep(&mut self, index: u32, running: Box<Running>, drains: bool) {
        self.collectives[index as usize] = Some(running);
        if drains {
            self.draining.push(index);
        }
    }

    /// How a collective with a lost member fails at once: other members have given up because of it, and will not
    /// answer.
    fn failed_member(&self, call: &Collective) -> Option<Ended> {
        if !self.any_failed {
            return self.missed(call);
        }
        let failed = self.all_lost().find_map(|process| {
            let error = self.lost(process).filter(|error| *error != PeerError::Closed)?;
            call.group.rank_of(process).map(|_| Ended::failed(process, error))
        });
        failed.or_else(|| self.missed(call))
    }

    /// Ends the messages of a round that will not be answered any more. If a process is lost, all members give up; so
    /// do sends, which other members would have to receive.
    fn give_up_round(&mut self, messenger: &mut Messenger, running: &Running, outcome: Outcome) {
        if let Outcome::Failed(_) = outcome {
            return self.give_up(messenger, running.planned.call.bits);
        }
        for awaited in running.pending.clone() {
            self.cancel(awaited.id);
        }
    }

    /// A process is lost: every collective with it as a member fails, since its members can not rely on each other any
    /// more.
    pub(super) fn fail_collectives(&mut self, process: u32, error: PeerError) {
        for index in 0..self.collectives.len() {
            if let Some(running) = &mut self.collectives[index]
                && running.planned.call.group.rank_of(process).is_some()
            {
                running.failure.get_or_insert_with(|| Ended::failed(process, error));
                self.advancing.push_back(index as u32);
            }
        }
    }

    /// A process has left without taking part in a collective: running collectives that need it fail.
    pub(super) fn fail_missed(&mut self) {
        for index in 0..self.collectives.len() {
            let failure = self.collectives[index]
                .as_ref()
                .and_then(|running| self.missed(&running.planned.call));
            if let (Some(failure), Some(running)) = (failure, &mut self.collectives[index]) {
                running.failure.get_or_insert(failure);
                self.advancing.push_back(index as u32);
            }
        }
    }

    fn start_round(
        &mut self,
        messenger: &mut Messenger,
        now: Instant,
        index: u32,
        round: usize,
        running: &mut Running,
    ) {
        let Running {
            planned,
            pending,
            failure,
            plan,
            ..
        } = running;
        let call = &planned.call;
        for step in call.schedule.round(round) {
            let done = match step {
                Step::Send { to: peer, spans } | Step::Receive { from: peer, spans } => 'message: {
                    let (Some(process), Some(buffer)) = (call.process(peer), call.buffer(spans)) else {
                        break 'message None;
                    };
                    let bits = call.bits;
                    let mut len = Awaited::SENT;
                    let begun = if let Step::Send { .. } = step {
                        let route = Route {
                            process,
                            bits: bits | call.mark,
                        };
                        self.send_of_collective(messenger, now, route, buffer, index)
                    } else {
                        let selector = Selector {
                            source: Some(process),
                            bits,
                            ignore: 0,
                        };
                        len = buffer.len();
                        Some(self.receive_of_collective(messenger, now, selector, buffer, index))
                    };
                    let phase = plan.as_ref().map_or(0, |plan| plan.phase_of(round, peer));
                    match (begun, plan.as_mut()) {
                        (Some(id), _) => pending.push(Awaited { id, phase, len }),
                        (None, Some(plan)) => plan.complete(phase),
                        (None, None) => {}
                    }
                    Some(())
                }
                Step::Reduce { from, into } => call.reduce(&from, &into),
                Step::Copy { from, into } => call.copy(&from, &into, &mut self.scratch),
            };
            if done.is_none() {
                // Only a wrong schedule comes here: its author has checked the bounds, and nothing outside of a buffer
                // is touched.
                failure.get_or_insert_with(|| Ended::with(Outcome::Truncated));
            }
        }
    }
}

impl Collective {
    fn memory(&self, region: Region) -> &Memory {
        match region {
            Region::Input => &self.input,
            Region::Output => &self.output,
            Region::Scratch => &self.scratch,
        }
    }

    #[inline(always)]
    fn span(&self, span: &Span) -> Option<Buffer> {
        self.memory(span.region).buffer(span)
    }

    /// The data of a message.
    #[inline(always)]
    fn buffer(&self, spans: &[Span]) -> Option<Buffer> {
        match spans {
            [one] => self.span(one),
            several => {
                let parts: Option<Vec<_>> = several.iter().map(|span| self.span(span)).collect();
                Some(Buffer::join(parts?))
            }
        }
    }

    fn reduce(&self, from: &Span, into: &Span) -> Option<()> {
        let count = from.count as u64;
        let (input, read) = self.memory(from.region).run(from)?;
        let (inout, datatype) = self.memory(into.region).run(into)?;
        if !read.fits(count) || !datatype.fits(count) {
            return None;
        }
        // SAFETY: both are `count` elements of the caller's buffers or of the scratch memory; a schedule's spans of one
        // step do not overlap, and nothing of this round uses them meanwhile.
        unsafe { self.operation.as_ref()?.apply_at(datatype, input, inout, count) }.ok()
    }

    fn copy(&self, from: &Span, into: &Span, scratch: &mut Vec<u8>) -> Option<()> {
        let (from, mut into) = (self.span(from)?, self.span(into)?);
        into.copy_from(&from, scratch);
        Some(())
    }
}

/// Allocates the scratch memory, and enters its address in the call.
fn scratch_for(call: &mut Collective) -> Vec<u64> {
    let elements = call.schedule.scratch() as u64;
    if elements == 0 {
        return Vec::new();
    }
    let mut memory;
    match &mut call.scratch {
        Memory::Plain(base, datatype) => {
            // An extent that exceeds the address space is refused when the buffers are made.
            let (low, high) = datatype.span(elements).unwrap_or((0, 0));
            memory = vec![0_u64; ((high - low) as usize).div_ceil(8)];
            base.0 = memory.as_mut_ptr().cast::<u8>().wrapping_offset(-low as isize);
        }
        // Data that may be cut anywhere need no scratch memory of their own datatype: bytes will do.
        Memory::Packed(..) => {
            memory = vec![0_u64; (elements as usize).div_ceil(8)];
            call.scratch = Memory::Packed(
                Address(memory.as_mut_ptr().cast()),
                elements,
                Datatype::predefined(Kind::Byte),
            );
        }
        Memory::Each(base, list) => {
            // Packed one after the other, each with room for its own layout.
            let mut at = 0_i64;
            for (bytes, count, datatype) in list.iter_mut() {
                let (low, high) = datatype.span(*count).unwrap_or((0, 0));
                *bytes = at - low;
                at += (high - low + 7) & !7;
            }
            memory = vec![0_u64; (at as usize).div_ceil(8)];
            base.0 = memory.as_mut_ptr().cast();
        }
    }
    memory
}
