#![expect(unsafe_code, reason = "buffers and operands are memory of the caller")]
//! Runs the schedules of collectives, round by round, in whichever thread makes progress.

use alloc::{boxed::Box, collections::VecDeque, sync::Arc, vec, vec::Vec};

use super::{
    buffer::Buffer,
    check::{Agreement, Check},
    connection_plan::{ConnectionPlan, End, Progress, process},
    core::{Core, Ended, RequestId, Route},
    regions::{Address, Memory},
};
use crate::{
    error::PeerError,
    helper,
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
    pub(super) call: Collective,
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
    /// Its next reduction is left to a thread of the program.
    left: bool,
    /// Its connection plan, where the fabric needs one.
    pub(super) plan: Option<Progress>,
}

/// The running collectives of a process, by index. They register their messages with the requests, and go on when these
/// have ended.
#[derive(Default)]
pub(crate) struct Collectives {
    pub(super) running: Vec<Option<Box<Running>>>,
    /// Collectives that wait for acknowledgements.
    draining: Vec<u32>,
    /// Collectives that end when the fabric has released their connections.
    pub(super) releasing: VecDeque<u32>,
    pub(crate) connection_plan: ConnectionPlan,
}

impl Collectives {
    /// Forgets all of them.
    pub(super) fn clear(&mut self) {
        self.running.clear();
    }

    /// Whether any is to be looked at in every pass.
    #[inline]
    pub(super) fn drains(&self) -> bool {
        !self.draining.is_empty()
    }

    /// Opens sessions with all peers of a collective, if the options say so.
    pub(super) fn open_ahead(&self, core: &mut Core, messenger: &mut Messenger, now: Instant, planned: &Planned) {
        let Collective { schedule, group, .. } = &planned.call;
        self.connection_plan.open_ahead(core, messenger, now, (schedule, group));
    }

    fn plan_links(&mut self, core: &Core, call: &Collective) -> Option<Progress> {
        self.connection_plan.plan(core, (&call.schedule, &call.group))
    }

    /// Goes on with all collectives that wait for something that has happened.
    pub(super) fn advance_all(&mut self, core: &mut Core, messenger: &mut Messenger, now: Instant) {
        core.advancing.extend(self.draining.drain(..));
        while let Some(index) = core.advancing.pop_front() {
            self.advance(core, messenger, now, index);
            core.collect();
        }
    }

    /// Begins a collective. Gives its request, which may have ended already; `None` if it is running.
    pub(crate) fn begin(
        &mut self,
        core: &mut Core,
        messenger: &mut Messenger,
        now: Instant,
        planned: &Arc<Planned>,
    ) -> Option<RequestId> {
        // The owner holds one reference, a running instance the other.
        if Arc::strong_count(planned) > 1 {
            return None;
        }
        let request = core.request_of_caller();
        let (planned, next) = match &planned.first {
            Some((first, _)) => (first, Some(Arc::clone(planned))),
            None => (planned, None),
        };
        self.open_ahead(core, messenger, now, planned);
        let running = Box::new(Running {
            planned: Arc::clone(planned),
            next,
            round: 0,
            pending: Vec::new(),
            request,
            failure: failed_member(core, &planned.call),
            left: false,
            plan: self.plan_links(core, &planned.call),
        });
        let index = match self.running.iter().position(Option::is_none) {
            Some(index) => {
                self.running[index] = Some(running);
                index
            }
            None => {
                self.running.push(Some(running));
                self.running.len() - 1
            }
        } as u32;
        self.advance(core, messenger, now, index);
        Some(request)
    }

    /// Goes on with a collective whose messages may have ended.
    pub(super) fn advance(&mut self, core: &mut Core, messenger: &mut Messenger, now: Instant, index: u32) {
        let Some(mut running) = self.running.get_mut(index as usize).and_then(Option::take) else {
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
            pending.retain(|awaited| match core.take(awaited.id) {
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
                let Collective { bits, group, .. } = &running.planned.call;
                core.tell_missed(messenger, now, (*bits, group), failure);
            }
            let drains = self.goes_on_with_plan(core, messenger, &mut running);
            if !running.pending.is_empty() {
                if let Some(failure) = &running.failure {
                    give_up_round(core, messenger, &running, failure.outcome);
                    running.pending.retain(|awaited| core.take(awaited.id).is_none());
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
                && !self.end_plan(&running.planned.call.group, plan, index)
            {
                self.keep(index, running, false);
                return;
            }
            if !failed
                && over
                && let Some(next) = running.next.take()
            {
                if next.first.as_ref().is_none_or(|(_, agreement)| agreement.holds()) {
                    running.plan = self.plan_links(core, &next.call);
                    (running.planned, running.round) = (next, 0);
                    continue;
                }
                let refused = Some(ErrorClass::NotSame);
                core.end(running.request, Ended { refused, ..Ended::WELL });
                return;
            }
            if failed || over {
                core.end(running.request, running.failure.unwrap_or(Ended::WELL));
                return;
            }
            let round = running.round;
            if running.planned.call.is_for_callers(round) && helper::is_own_thread() {
                // A thread that sleeps in a call is woken once, as if a request had ended.
                core.ended += u64::from(!running.left);
                running.left = true;
                self.keep(index, running, true);
                return;
            }
            running.left = false;
            running.round += 1;
            start_round(core, messenger, now, (index, round), &mut running);
        }
    }

    fn goes_on_with_plan(&mut self, core: &Core, messenger: &Messenger, running: &mut Running) -> bool {
        let group = &running.planned.call.group;
        let plan = running.plan.as_mut();
        plan.is_some_and(|plan| self.connection_plan.follow(core, messenger, group, plan))
    }

    /// The collective has ended: gives whether the fabric has released everything.
    fn end_plan(&mut self, group: &Group, plan: &mut Progress, index: u32) -> bool {
        if self.connection_plan.end(group, plan) {
            self.releasing.push_back(index);
        }
        plan.end == End::Released
    }

    /// Keeps a collective until its messages are complete; if it `drains`, it is looked at in every pass, until they
    /// are acknowledged or their memory is given back.
    #[inline]
    fn keep(&mut self, index: u32, running: Box<Running>, drains: bool) {
        self.running[index as usize] = Some(running);
        if drains {
            self.draining.push(index);
        }
    }

    /// A process is lost: every collective with it as a member fails, since its members cannot rely on each other any
    /// more.
    pub(super) fn fail(&mut self, core: &mut Core, process: u32, error: PeerError) {
        for index in 0..self.running.len() {
            if let Some(running) = &mut self.running[index]
                && running.planned.call.group.rank_of(process).is_some()
            {
                running.failure.get_or_insert_with(|| Ended::failed(process, error));
                core.advancing.push_back(index as u32);
            }
        }
    }

    /// A process has left without taking part in a collective: running collectives that need it fail.
    pub(super) fn fail_missed(&mut self, core: &mut Core) {
        for index in 0..self.running.len() {
            let failure = self.running[index]
                .as_ref()
                .and_then(|running| missed(core, &running.planned.call));
            if let (Some(failure), Some(running)) = (failure, &mut self.running[index]) {
                running.failure.get_or_insert(failure);
                core.advancing.push_back(index as u32);
            }
        }
    }
}

/// How a collective with a lost member fails at once: other members have given up because of it, and will not
/// answer.
fn failed_member(core: &mut Core, call: &Collective) -> Option<Ended> {
    if !core.any_failed {
        return missed(core, call);
    }
    let failed = core.all_lost().find_map(|process| {
        let error = core.lost(process).filter(|error| *error != PeerError::Closed)?;
        call.group.rank_of(process).map(|_| Ended::failed(process, error))
    });
    failed.or_else(|| missed(core, call))
}

/// Ends the messages of a round that will not be answered any more. If a process is lost, all members give up; so
/// do sends, which other members would have to receive.
fn give_up_round(core: &mut Core, messenger: &mut Messenger, running: &Running, outcome: Outcome) {
    if let Outcome::Failed(_) = outcome {
        return core.give_up(messenger, running.planned.call.bits);
    }
    for awaited in running.pending.clone() {
        core.cancel(awaited.id);
    }
}

/// How a collective fails because one of its processes has left before it took part in it.
fn missed(core: &mut Core, call: &Collective) -> Option<Ended> {
    core.missed(call.bits, &call.group)
}

fn start_round(
    core: &mut Core,
    messenger: &mut Messenger,
    now: Instant,
    (index, round): (u32, usize),
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
                let (Some(process), Some(buffer)) = (process(&call.group, peer), call.buffer(spans)) else {
                    break 'message None;
                };
                let bits = call.bits;
                let mut len = Awaited::SENT;
                let begun = if let Step::Send { .. } = step {
                    let route = Route {
                        process,
                        bits: bits | call.mark,
                    };
                    core.send_of_collective(messenger, now, route, buffer, index)
                } else {
                    let selector = Selector {
                        source: Some(process),
                        bits,
                        ignore: 0,
                    };
                    len = buffer.len();
                    Some(core.receive_of_collective(messenger, now, selector, buffer, index))
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
            Step::Copy { from, into } => call.copy(&from, &into, &mut core.scratch),
        };
        if done.is_none() {
            // Only a wrong schedule comes here: its author has checked the bounds, and nothing outside of a buffer
            // is touched.
            failure.get_or_insert_with(|| Ended::with(Outcome::Truncated));
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

    /// Whether only threads of the program may run this round.
    fn is_for_callers(&self, round: usize) -> bool {
        let is_bound = self.operation.as_ref().is_some_and(Operation::is_in_calls_only);
        is_bound
            && self
                .schedule
                .round(round)
                .any(|step| matches!(step, Step::Reduce { .. }))
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
