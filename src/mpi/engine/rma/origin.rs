//! Operations of this process on the windows of others, divided into parts.

use alloc::vec::Vec;

use super::{
    Rma,
    lock::Spot,
    message::{MAX_DATA, MAX_GET, Request, Runs, Status},
    net::{LIMIT, Net, name_of},
    operation::{Flight, Operation, Place, What},
    slab::Slab,
    window::{Epoch, Failure},
};
use crate::{
    error::PeerError,
    messaging::{
        RegionId,
        tagged::{Content, Outcome},
    },
    mpi::{
        datatype::Kind,
        engine::{
            buffer::{Buffer, PinnedBuffer},
            core::{Ended, RequestId},
        },
        error::ErrorClass,
        operation::Predefined,
    },
    reliability::SendToken,
    span::Span,
    sync::Holders,
};

/// Runs of at least this many bytes get placements of their own; shorter ones share a message.
const ALONE: u64 = 512;
/// Most bytes in one placement.
const CHUNK: u64 = 1 << 20;

impl Rma {
    /// Begins an operation, whose arguments have been checked, through the own window `window`, if the epoch allows it.
    ///
    /// `operand` and `result`, where the operation has them, are as long as the place.
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
        let (operand, pins) = operand.map(|operand| PinnedBuffer::new(operand, net.packs)).unzip();
        let process = place.process;
        let len = place.datatype.size().saturating_mul(place.count);
        state.pending.entry(process).or_default().operations += 1;
        let id = self.operations.insert(Operation {
            window,
            place,
            what,
            operand,
            pins,
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

    /// Sends as many parts to a process as its limit allows.
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

    /// Sends the next part. False: there is no room now.
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
                .map(|(flight, region, len)| {
                    self.regions.insert(name_of(region), flight);
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

    /// Ends the operation if all its parts have ended.
    pub(super) fn finish(&mut self, id: u32) {
        let Some(operation) = self.operations.get(id) else {
            return;
        };
        if operation.at < operation.len || operation.in_flight > 0 {
            return;
        }
        if operation.pins.as_ref().is_some_and(|pins| !pins.are_released()) {
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

    /// A placement is acknowledged. Gives whether it belonged to an operation.
    pub(in crate::mpi::engine) fn handle_sent(&mut self, net: &mut Net<'_>, token: SendToken) -> bool {
        let Some(id) = self.tokens.remove(&token.0) else {
            return false;
        };
        if let Some(process) = self.operations.get(id).map(|operation| operation.place.process) {
            self.end_part(net, process, id, None);
        }
        true
    }

    /// The data of a get have landed.
    pub(in crate::mpi::engine) fn handle_landed(&mut self, net: &mut Net<'_>, region: RegionId) {
        if let Some(id) = self.regions.remove(&name_of(region)) {
            self.end_flight(net, id, None);
        }
    }

    /// An answer. It counts only if it comes from the process that was asked.
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
                region,
                ..
            }) => {
                let operation = self.operations.get_mut(*operation);
                let result = operation.and_then(|operation| operation.result.as_mut());
                match (failure, region, result) {
                    (Some(_), ..) => data.is_empty(),
                    // A get is done when its data have landed, not when the target says so.
                    (None, Some(_), _) => false,
                    (None, None, Some(result)) if data.len() as u64 == *len => {
                        crate::messaging::MemoryRegion::place(result, *at, Span::new(data));
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
                region,
                ..
            }) => {
                if let Some(region) = region {
                    self.regions.remove(&name_of(region));
                    net.messenger.deregister(region);
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

    /// Takes a lock for which the epoch waits, if nobody else holds or wants it, and returns true. Given are its word,
    /// and the place of this process there.
    pub(in crate::mpi::engine) fn take_lock(
        &mut self,
        net: &Net<'_>,
        window: u64,
        process: u32,
        (spot, place): (&dyn Spot, u32),
        exclusive: bool,
    ) -> bool {
        let window = self.windows.get_mut(&window);
        let is_taken = match window.map(|window| &mut window.epoch) {
            Some(Epoch::Locked { locks, .. }) if net.lost(process).is_none() => locks.get_mut(&process),
            _ => None,
        };
        is_taken.is_some_and(|is_taken| {
            *is_taken = Holders(spot.word()).take(place, exclusive);
            *is_taken
        })
    }

    /// Requests a lock; `window` is the own window, `name` that of the target.
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

    /// Ends every operation in flight to a lost process.
    pub(super) fn fail_operations(&mut self, net: &mut Net<'_>, process: u32, error: PeerError) {
        let failure = Failure::Lost(error);
        self.queues.remove(&process);
        for id in self.flights.find(|flight| flight.process() == process) {
            if let Some(Flight::Part { region, .. }) = self.flights.get(id) {
                // The loop below ends the operation itself.
                if let Some(region) = *region {
                    self.regions.remove(&name_of(region));
                    net.messenger.deregister(region);
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

    /// Whether the next run is long enough for a placement of its own, rather than a message.
    fn goes_alone(&self) -> bool {
        let Place { datatype, count, .. } = &self.place;
        let next = datatype.segments(*count, self.at..self.len).next();
        !self.place.is_dynamic && next.is_some_and(|run| run.len >= ALONE.min(self.len))
    }

    /// Places bytes of one run.
    fn place_part(&mut self, net: &mut Net<'_>) -> Option<(SendToken, u64)> {
        let place = &self.place;
        let end = self.len.min(self.at + CHUNK);
        let run = place.datatype.segments(place.count, self.at..end).next()?;
        let data = self.operand.as_mut()?.chunk(self.at, run.len);
        let len = data.len() as u64;
        let offset = place.base.wrapping_add(run.offset) as u64;
        // A full queue has room later; if the process is lost, an event tells so.
        let token = net.place(place.process, place.window, offset, data).ok()?;
        Some((token, len))
    }

    /// Asks the target to place bytes in the result.
    fn get_part(&self, net: &mut Net<'_>, id: u32, flights: &mut Slab<Flight>) -> Option<(u32, RegionId, u64)> {
        let mut runs = Vec::new();
        let len = self.place.runs(self.at, self.len, MAX_GET, 1, &mut runs);
        let process = self.place.process;
        let region = net.register(process, len, self.result.as_ref()?.range(self.at, len)?)?;
        let flight = flights.insert(Flight::Part {
            process,
            operation: id,
            at: self.at,
            len,
            region: Some(region),
        });
        let request = Request::Get {
            runs: Runs::new(&runs).ok()?,
            region: name_of(region),
        };
        net.request(process, self.place.window, flight, request);
        Some((flight, region, len))
    }

    /// Sends operands in a message.
    fn message_part(&self, net: &mut Net<'_>, id: u32, flights: &mut Slab<Flight>) -> Option<u64> {
        let mut runs = Vec::new();
        let len = self
            .place
            .runs(self.at, self.len, MAX_DATA, self.what.unit(), &mut runs);
        let runs = Runs::new(&runs).ok()?;
        let mut operand = Vec::new();
        if let Some(pinned) = &self.operand {
            pinned.buffer().pack(self.at, len, &mut operand);
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
            region: None,
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
