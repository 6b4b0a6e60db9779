//! What this process does to the windows of others: operations, cut into parts.

use alloc::{collections::VecDeque, vec::Vec};

use super::{
    Epoch, Failure, LIMIT, Net, Remote, Slab,
    message::{self, MAX_DATA, MAX_GET, MAX_RUNS, Request, Run, Runs, Status},
    name_of,
};
use crate::{
    error::PeerError,
    messaging::{
        LandingId,
        tagged::{Content, Outcome},
    },
    mpi::{
        datatype::{Datatype, Kind},
        engine::{
            buffer::{Buffer, Lender, Loans},
            core::{Ended, RequestId},
        },
        error::ErrorClass,
        operation::Predefined,
    },
    reliability::SendToken,
    span::Span,
};

/// Runs of at least so many octets are placed by themselves; shorter ones go together in a message.
const ALONE: u64 = 512;
/// Most octets in one placement.
const CHUNK: u64 = 1 << 20;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::mpi::engine) enum What {
    Put,
    Get,
    Accumulate {
        kind: Kind,
        operation: Predefined,
    },
    /// What to compare with, what to put there: elements of `kind`, in its first octets.
    Swap {
        kind: Kind,
        operands: [[u8; 8]; 2],
    },
}

impl What {
    /// Kinds that can be compared and swapped.
    pub(in crate::mpi::engine) fn swaps(kind: Kind) -> bool {
        message::swaps(kind)
    }

    /// `expected` and `new` are elements of `kind`.
    pub(in crate::mpi::engine) fn swap(kind: Kind, expected: &[u8], new: &[u8]) -> Self {
        let operands = [expected, new].map(|element| {
            let mut octets = [0; 8];
            octets[..element.len()].copy_from_slice(element);
            octets
        });
        Self::Swap { kind, operands }
    }

    /// The reduction, by its name.
    pub(in crate::mpi::engine) fn operation(self) -> Option<&'static str> {
        match self {
            Self::Accumulate { operation, .. } => Some(operation.name()),
            _ => None,
        }
    }

    /// Octets that are not cut apart.
    fn unit(self) -> u64 {
        match self {
            Self::Put | Self::Get => 1,
            Self::Accumulate { kind, .. } | Self::Swap { kind, .. } => kind.size(),
        }
    }
}

/// Elements in the window of a process.
#[derive(Clone, Debug)]
pub(in crate::mpi::engine) struct Place {
    pub(in crate::mpi::engine) process: u32,
    /// Name of its window.
    pub(in crate::mpi::engine) window: u64,
    pub(in crate::mpi::engine) is_dynamic: bool,
    /// Octets from the beginning of the window; of a dynamic one the address.
    pub(in crate::mpi::engine) base: i64,
    pub(in crate::mpi::engine) count: u64,
    pub(in crate::mpi::engine) datatype: Datatype,
}

impl Place {
    /// The runs of the octets from `at` on: as many as go together, at most `most` octets, in whole units. They are
    /// written to `runs`; gives their length.
    fn runs(&self, at: u64, end: u64, most: u64, unit: u64, runs: &mut Vec<u8>) -> u64 {
        let mut list = Vec::new();
        let mut len = 0;
        for segment in self
            .datatype
            .segments(self.count, at..end.min(at + most))
            .take(MAX_RUNS)
        {
            list.push((self.base.wrapping_add(segment.offset) as u64, segment.len));
            len += segment.len;
        }
        len -= len % unit;
        let mut left = len;
        for (offset, run) in list {
            let run = run.min(left) as u32;
            left -= u64::from(run);
            if run > 0 {
                Runs::push(runs, Run { offset, len: run });
            }
        }
        len
    }
}

/// One call of the program.
pub(super) struct Operation {
    /// Our own window.
    window: u64,
    place: Place,
    what: What,
    operand: Option<Lender>,
    loans: Option<Loans>,
    result: Option<Buffer>,
    /// Octets at the target: so many went, of so many.
    at: u64,
    len: u64,
    /// Parts that have not ended.
    in_flight: u32,
    request: Option<RequestId>,
    failure: Option<Failure>,
}

/// What an answer is awaited for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Flight {
    /// A part of an operation: octets from `at` on, `len` of them.
    Part {
        process: u32,
        operation: u32,
        at: u64,
        len: u64,
        /// Where they land.
        landing: Option<LandingId>,
    },
    /// A lock; `window` is our own.
    Lock { process: u32, window: u64 },
}

impl Flight {
    pub(super) fn process(&self) -> u32 {
        match self {
            Self::Part { process, .. } | Self::Lock { process, .. } => *process,
        }
    }
}

/// What is to be done to one process, in order.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: VecDeque<u32>,
    in_flight: usize,
}

impl Remote {
    /// Begins an operation, which was checked, through our window `window`: may this process do that now?
    ///
    /// `operand` and `result` are as long as the place, where the operation has them.
    pub(in crate::mpi::engine) fn begin(
        &mut self,
        net: &mut Net<'_>,
        window: u64,
        place: Place,
        what: What,
        (operand, result): (Option<Buffer>, Option<Buffer>),
        request: Option<RequestId>,
    ) -> Result<(), Failure> {
        let state = self.windows.get_mut(&window).ok_or(Failure::Refused(ErrorClass::Win))?;
        if !state.epoch.allows(place.process) {
            return Err(Failure::Refused(ErrorClass::RmaSync));
        }
        if let Some(error) = net.lost(place.process) {
            return Err(Failure::Lost(error));
        }
        let (operand, loans) = operand.map(Lender::new).unzip();
        let process = place.process;
        let len = place.datatype.size().saturating_mul(place.count);
        state.pending.entry(process).or_default().operations += 1;
        let id = self.operations.insert(Operation {
            window,
            place,
            what,
            operand,
            loans,
            result,
            at: 0,
            len,
            in_flight: 0,
            request,
            failure: None,
        });
        self.queues.entry(process).or_default().waiting.push_back(id);
        self.issue(net, process);
        Ok(())
    }

    /// Sends what may be sent to a process.
    pub(super) fn issue(&mut self, net: &mut Net<'_>, process: u32) {
        while let Some(queue) = self.queues.get_mut(&process) {
            let Some(&id) = queue.waiting.front() else {
                if queue.in_flight == 0 {
                    self.queues.remove(&process);
                }
                return;
            };
            let all_went = self
                .operations
                .get(id)
                .is_none_or(|operation| operation.at == operation.len);
            if all_went {
                queue.waiting.pop_front();
                self.finish(id);
            } else if queue.in_flight >= LIMIT || !self.issue_part(net, id) {
                return;
            } else if let Some(queue) = self.queues.get_mut(&process) {
                queue.in_flight += 1;
            }
        }
    }

    /// Gives whether a part went; otherwise there is no room now.
    fn issue_part(&mut self, net: &mut Net<'_>, id: u32) -> bool {
        let Some(operation) = self.operations.get_mut(id) else {
            return false;
        };
        let own = operation.place.process == net.me;
        let went = match operation.what {
            What::Put if !own && operation.goes_alone() => operation.place_part(net).map(|(token, len)| {
                self.tokens.insert(token.0, id);
                len
            }),
            What::Get if !own => operation
                .get_part(net, id, &mut self.flights)
                .map(|(flight, landing, len)| {
                    self.landings.insert(name_of(landing), flight);
                    len
                }),
            _ => operation.message_part(net, id, &mut self.flights),
        };
        if let Some(len) = went {
            operation.at += len;
            operation.in_flight += 1;
        }
        went.is_some()
    }

    /// A part has ended.
    fn end_part(&mut self, net: &mut Net<'_>, process: u32, id: u32, failure: Option<Failure>) {
        if let Some(queue) = self.queues.get_mut(&process) {
            queue.in_flight -= 1;
        }
        if let Some(operation) = self.operations.get_mut(id) {
            operation.in_flight -= 1;
            if let Some(failure) = failure {
                operation.fail(failure);
            }
        }
        self.issue(net, process);
        self.finish(id);
    }

    /// Ends the operation if nothing of it is left to be done.
    pub(super) fn finish(&mut self, id: u32) {
        let Some(operation) = self.operations.get(id) else {
            return;
        };
        if operation.at < operation.len || operation.in_flight > 0 {
            return;
        }
        if operation.loans.as_ref().is_some_and(|loans| !loans.are_back()) {
            if !self.draining.contains(&id) {
                self.draining.push(id);
            }
            return;
        }
        let Some(operation) = self.operations.remove(id) else {
            return;
        };
        let process = operation.place.process;
        if let Some(window) = self.windows.get_mut(&operation.window) {
            let pending = window.pending.entry(process).or_default();
            pending.operations -= 1;
            if operation.request.is_none() && pending.failure.is_none() {
                pending.failure = operation.failure;
            }
            if pending.operations == 0 && pending.failure.is_none() {
                window.pending.remove(&process);
            }
        }
        if let Some(request) = operation.request {
            self.ended.push((request, ended(operation.failure)));
        }
        self.news = true;
    }

    /// What was placed is there. Gives whether it was ours.
    pub(in crate::mpi::engine) fn handle_sent(&mut self, net: &mut Net<'_>, token: SendToken) -> bool {
        let Some(id) = self.tokens.remove(&token.0) else {
            return false;
        };
        if let Some(process) = self.operations.get(id).map(|operation| operation.place.process) {
            self.end_part(net, process, id, None);
        }
        true
    }

    /// What was asked for has landed.
    pub(in crate::mpi::engine) fn handle_landed(&mut self, net: &mut Net<'_>, landing: LandingId) {
        if let Some(id) = self.landings.remove(&name_of(landing)) {
            self.end_flight(net, id, None);
        }
    }

    /// An answer. Only that of who was asked counts.
    pub(super) fn handle_answer(&mut self, net: &mut Net<'_>, process: u32, id: u32, status: Status, data: &[u8]) {
        let failure = match status {
            Status::Done => None,
            Status::Range => Some(Failure::Refused(ErrorClass::RmaRange)),
            Status::Window => Some(Failure::Refused(ErrorClass::Win)),
            Status::Refused => Some(Failure::Refused(ErrorClass::RmaSync)),
        };
        let fits = match self.flights.get(id) {
            Some(flight) if flight.process() != process => false,
            Some(Flight::Part {
                operation,
                at,
                len,
                landing,
                ..
            }) => {
                let operation = self.operations.get_mut(*operation);
                let result = operation.and_then(|operation| operation.result.as_mut());
                match (failure, landing, result) {
                    (Some(_), ..) => data.is_empty(),
                    // It is done when it has landed, not when somebody says so.
                    (None, Some(_), _) => false,
                    (None, None, Some(result)) if data.len() as u64 == *len => {
                        crate::messaging::Landing::place(result, *at, Span::new(data));
                        true
                    }
                    (None, None, result) => data.is_empty() && result.is_none(),
                }
            }
            Some(Flight::Lock { .. }) => data.is_empty(),
            None => false,
        };
        if fits {
            self.end_flight(net, id, failure);
        } else {
            self.stats.malformed += 1;
        }
    }

    fn end_flight(&mut self, net: &mut Net<'_>, id: u32, failure: Option<Failure>) {
        match self.flights.remove(id) {
            Some(Flight::Part {
                process,
                operation,
                landing,
                ..
            }) => {
                if let Some(landing) = landing {
                    self.landings.remove(&name_of(landing));
                    net.messenger.revoke(landing);
                }
                self.end_part(net, process, operation, failure);
            }
            Some(Flight::Lock { process, window }) => {
                if let Some(window) = self.windows.get_mut(&window)
                    && let Epoch::Locked { locks, .. } = &mut window.epoch
                {
                    match failure {
                        None => {
                            locks.insert(process, true);
                        }
                        Some(failure) => {
                            locks.remove(&process);
                            window.fail(process, failure);
                        }
                    }
                }
                self.news = true;
            }
            None => {}
        }
    }

    /// Asks for a lock: our window `window` names it there as `name`.
    pub(in crate::mpi::engine) fn ask_lock(
        &mut self,
        net: &mut Net<'_>,
        window: u64,
        (process, name): (u32, u64),
        exclusive: bool,
    ) {
        let id = self.flights.insert(Flight::Lock { process, window });
        match net.lost(process) {
            Some(error) => self.end_flight(net, id, Some(Failure::Lost(error))),
            None => net.request(process, name, id, Request::Lock { exclusive }),
        }
    }

    /// Ends everything that is under way to a process.
    pub(super) fn fail_operations(&mut self, net: &mut Net<'_>, process: u32, error: PeerError) {
        let failure = Failure::Lost(error);
        self.queues.remove(&process);
        for id in self.flights.find(|flight| flight.process() == process) {
            if let Some(Flight::Part { landing, .. }) = self.flights.get(id) {
                // The operation itself ends below.
                if let Some(landing) = *landing {
                    self.landings.remove(&name_of(landing));
                    net.messenger.revoke(landing);
                }
                self.flights.remove(id);
            } else {
                self.end_flight(net, id, Some(failure));
            }
        }
        let operations = self.operations.find(|operation| operation.place.process == process);
        self.tokens.retain(|_, id| !operations.contains(id));
        for id in operations {
            if let Some(operation) = self.operations.get_mut(id) {
                operation.fail(failure);
                operation.in_flight = 0;
            }
            self.finish(id);
        }
    }
}

impl Operation {
    fn fail(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
        self.at = self.len;
    }

    /// What comes next is better placed by itself than sent in a message.
    fn goes_alone(&self) -> bool {
        let Place { datatype, count, .. } = &self.place;
        let next = datatype.segments(*count, self.at..self.len).next();
        !self.place.is_dynamic && next.is_some_and(|run| run.len >= ALONE.min(self.len))
    }

    /// Places octets of one run.
    fn place_part(&mut self, net: &mut Net<'_>) -> Option<(SendToken, u64)> {
        let place = &self.place;
        let end = self.len.min(self.at + CHUNK);
        let run = place.datatype.segments(place.count, self.at..end).next()?;
        let data = self.operand.as_mut()?.chunk(self.at, run.len);
        let len = data.len() as u64;
        let offset = place.base.wrapping_add(run.offset) as u64;
        // A queue that is full has room later; that the process is lost is told by an event.
        let token = net.place(place.process, place.window, offset, data).ok()?;
        Some((token, len))
    }

    /// Asks for octets to be placed in the result.
    fn get_part(&self, net: &mut Net<'_>, id: u32, flights: &mut Slab<Flight>) -> Option<(u32, LandingId, u64)> {
        let mut runs = Vec::new();
        let len = self.place.runs(self.at, self.len, MAX_GET, 1, &mut runs);
        let process = self.place.process;
        let landing = net.grant(process, len, self.result.as_ref()?.range(self.at, len)?)?;
        let flight = flights.insert(Flight::Part {
            process,
            operation: id,
            at: self.at,
            len,
            landing: Some(landing),
        });
        let request = Request::Get {
            runs: Runs::new(&runs).ok()?,
            landing: name_of(landing),
        };
        net.request(process, self.place.window, flight, request);
        Some((flight, landing, len))
    }

    /// Sends operands in a message.
    fn message_part(&self, net: &mut Net<'_>, id: u32, flights: &mut Slab<Flight>) -> Option<u64> {
        let mut runs = Vec::new();
        let len = self
            .place
            .runs(self.at, self.len, MAX_DATA, self.what.unit(), &mut runs);
        let runs = Runs::new(&runs).ok()?;
        let mut operand = Vec::new();
        if let Some(lender) = &self.operand {
            lender.buffer().pack(self.at, len, &mut operand);
        }
        if let What::Swap { kind, operands } = self.what {
            for element in operands {
                operand.extend_from_slice(&element[..kind.size() as usize]);
            }
        }
        let byte = Kind::Byte;
        let accumulate = |kind, operation| Request::Accumulate {
            kind,
            operation,
            fetch: self.result.is_some(),
            runs,
            operand: &operand,
        };
        let request = match self.what {
            What::Put => accumulate(byte, Predefined::Replace),
            What::Get => accumulate(byte, Predefined::NoOp),
            What::Accumulate { kind, operation } => accumulate(kind, operation),
            What::Swap { kind, .. } => Request::Swap {
                kind,
                runs,
                operands: &operand,
            },
        };
        let process = self.place.process;
        let flight = flights.insert(Flight::Part {
            process,
            operation: id,
            at: self.at,
            len,
            landing: None,
        });
        net.request(process, self.place.window, flight, request);
        Some(len)
    }
}

fn ended(failure: Option<Failure>) -> Ended {
    match failure {
        None => Ended::WELL,
        Some(Failure::Lost(error)) => Ended {
            outcome: Outcome::Failed(error),
            ..Ended::WELL
        },
        Some(Failure::Refused(class)) => Ended {
            refused: Some(class),
            ..Ended::WELL
        },
    }
}
