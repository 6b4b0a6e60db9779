#![expect(unsafe_code, reason = "operands are given by pointer, as C does")]
//! Operations on the windows of other processes (MPI 12.3).

use super::Window;
use crate::mpi::{
    Rank,
    datatype::{Datatype, Kind},
    engine::{
        Entry, PROC_NULL, Request, Status,
        buffer::Buffer,
        rma::{Failure, Place, What},
        window::{
            Flavor, atomics,
            memory::{Elements, copy},
        },
    },
    error::{Detail, Error, ErrorClass},
    operation::{Operation, OperationError, Predefined},
};

/// Most operations of a process that may be in flight; beginning another one waits.
const MAX_OPERATIONS: usize = 1 << 16;

/// Elements in memory of this process.
#[derive(Clone, Copy, Debug)]
pub struct Operands<'a> {
    /// Address of the first one.
    pub base: *mut u8,
    /// Number of elements.
    pub count: u64,
    /// Their type.
    pub datatype: &'a Datatype,
}

/// Elements in the window of a process.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// Rank of the process; an operation on [`PROC_NULL`] does nothing.
    pub rank: Rank,
    /// Position of the first element, in the target's displacement units; in a dynamic window its address at the
    /// target.
    pub displacement: i64,
    /// Number of elements.
    pub count: u64,
    /// Their type, with the layout of the target's memory.
    pub datatype: &'a Datatype,
}

/// Operations. These calls only begin them; see [`Window`] for when they end. Until then operands must not be written,
/// nor results be used; both are memory that may be used from any thread.
///
/// Errors common to all: `MPI_ERR_RANK`; `MPI_ERR_COUNT` and `MPI_ERR_TYPE` if the two sides do not match;
/// `MPI_ERR_DISP` and `MPI_ERR_RMA_RANGE` if the elements are outside of the target's window; `MPI_ERR_RMA_SYNC`
/// outside of an epoch; `MPI_ERR_PROC_FAILED` if the target is lost. Later errors are reported by the call that waits
/// for the end.
impl Window {
    /// Writes `origin` to the window of the target (`MPI_Put`).
    ///
    /// # Errors
    /// See above.
    ///
    /// # Safety
    /// See above.
    pub unsafe fn put(&self, origin: &Operands<'_>, target: &Target<'_>) -> Result<(), Error> {
        // SAFETY: the caller's contract.
        unsafe { self.operate("MPI_Put", What::Put, Some(origin), None, target, false) }.map(drop)
    }

    /// As [`put`](Self::put), with a request that ends when the bytes are at the target (`MPI_Rput`).
    ///
    /// # Errors
    /// See above.
    ///
    /// # Safety
    /// See above.
    pub unsafe fn rput(&self, origin: &Operands<'_>, target: &Target<'_>) -> Result<Request, Error> {
        // SAFETY: the caller's contract.
        unsafe { self.operate("MPI_Rput", What::Put, Some(origin), None, target, true) }
    }

    /// Reads the target's window into `result` (`MPI_Get`).
    ///
    /// # Errors
    /// See above.
    ///
    /// # Safety
    /// See above.
    pub unsafe fn get(&self, result: &Operands<'_>, target: &Target<'_>) -> Result<(), Error> {
        // SAFETY: the caller's contract.
        unsafe { self.operate("MPI_Get", What::Get, None, Some(result), target, false) }.map(drop)
    }

    /// As [`get`](Self::get), with a request (`MPI_Rget`).
    ///
    /// # Errors
    /// See above.
    ///
    /// # Safety
    /// See above.
    pub unsafe fn rget(&self, result: &Operands<'_>, target: &Target<'_>) -> Result<Request, Error> {
        // SAFETY: the caller's contract.
        unsafe { self.operate("MPI_Rget", What::Get, None, Some(result), target, true) }
    }

    /// Combines `origin` with the elements at the target (`MPI_Accumulate`), each element atomically. All elements are
    /// of one predefined kind.
    ///
    /// # Errors
    /// See above; `MPI_ERR_OP` if `operation` is not predefined, or not defined for their kind.
    ///
    /// # Safety
    /// See above.
    pub unsafe fn accumulate(
        &self,
        origin: &Operands<'_>,
        target: &Target<'_>,
        operation: &Operation,
    ) -> Result<(), Error> {
        const CALL: &str = "MPI_Accumulate";
        let what = self.accumulation(CALL, (target.count, target.datatype), operation)?;
        // SAFETY: the caller's contract.
        unsafe { self.operate(CALL, what, Some(origin), None, target, false) }.map(drop)
    }

    /// As [`accumulate`](Self::accumulate), with a request (`MPI_Raccumulate`).
    ///
    /// # Errors
    /// See above.
    ///
    /// # Safety
    /// See above.
    pub unsafe fn raccumulate(
        &self,
        origin: &Operands<'_>,
        target: &Target<'_>,
        operation: &Operation,
    ) -> Result<Request, Error> {
        const CALL: &str = "MPI_Raccumulate";
        let what = self.accumulation(CALL, (target.count, target.datatype), operation)?;
        // SAFETY: the caller's contract.
        unsafe { self.operate(CALL, what, Some(origin), None, target, true) }
    }

    /// As [`accumulate`](Self::accumulate), and fetches the old values into `result` (`MPI_Get_accumulate`). `origin`
    /// is not needed for `MPI_NO_OP`.
    ///
    /// # Errors
    /// See above.
    ///
    /// # Safety
    /// See above.
    pub unsafe fn get_accumulate(
        &self,
        origin: Option<&Operands<'_>>,
        result: &Operands<'_>,
        target: &Target<'_>,
        operation: &Operation,
    ) -> Result<(), Error> {
        const CALL: &str = "MPI_Get_accumulate";
        let what = self.accumulation(CALL, (target.count, target.datatype), operation)?;
        // SAFETY: the caller's contract.
        unsafe { self.operate(CALL, what, origin, Some(result), target, false) }.map(drop)
    }

    /// As [`get_accumulate`](Self::get_accumulate), with a request (`MPI_Rget_accumulate`).
    ///
    /// # Errors
    /// See above.
    ///
    /// # Safety
    /// See above.
    pub unsafe fn rget_accumulate(
        &self,
        origin: Option<&Operands<'_>>,
        result: &Operands<'_>,
        target: &Target<'_>,
        operation: &Operation,
    ) -> Result<Request, Error> {
        const CALL: &str = "MPI_Rget_accumulate";
        let what = self.accumulation(CALL, (target.count, target.datatype), operation)?;
        // SAFETY: the caller's contract.
        unsafe { self.operate(CALL, what, origin, Some(result), target, true) }
    }

    /// [`get_accumulate`](Self::get_accumulate) of one element of `kind` at `displacement` of `rank`
    /// (`MPI_Fetch_and_op`).
    ///
    /// # Errors
    /// See above.
    ///
    /// # Safety
    /// See above.
    pub unsafe fn fetch_and_op(
        &self,
        origin: *const u8,
        result: *mut u8,
        kind: Kind,
        (rank, displacement): (Rank, i64),
        operation: &Operation,
    ) -> Result<(), Error> {
        const CALL: &str = "MPI_Fetch_and_op";
        let datatype = &Datatype::predefined(kind);
        let what = self.accumulation(CALL, (1, datatype), operation)?;
        let one = |base| Operands {
            base,
            count: 1,
            datatype,
        };
        let target = Target {
            rank,
            displacement,
            count: 1,
            datatype,
        };
        // SAFETY: the caller's contract.
        unsafe {
            self.operate(
                CALL,
                what,
                Some(&one(origin.cast_mut())),
                Some(&one(result)),
                &target,
                false,
            )
        }
        .map(drop)
    }

    /// Stores `new` at the target if `expected` was there, and fetches the old value into `result`
    /// (`MPI_Compare_and_swap`). For integers, logicals and bytes. `new` and `expected` are read before this returns.
    ///
    /// # Errors
    /// See above; `MPI_ERR_TYPE` for other kinds.
    ///
    /// # Safety
    /// See above.
    pub unsafe fn compare_and_swap(
        &self,
        new: *const u8,
        expected: *const u8,
        result: *mut u8,
        kind: Kind,
        place: (Rank, i64),
    ) -> Result<(), Error> {
        // SAFETY: the caller's contract.
        unsafe { self.swap(new, expected, result, kind, place, false) }.map(drop)
    }

    /// As [`compare_and_swap`](Self::compare_and_swap), with a request, which MPI does not offer.
    ///
    /// # Errors
    /// As [`compare_and_swap`](Self::compare_and_swap).
    ///
    /// # Safety
    /// See above.
    pub unsafe fn rcompare_and_swap(
        &self,
        new: *const u8,
        expected: *const u8,
        result: *mut u8,
        kind: Kind,
        place: (Rank, i64),
    ) -> Result<Request, Error> {
        // SAFETY: the caller's contract.
        unsafe { self.swap(new, expected, result, kind, place, true) }
    }

    /// # Safety
    /// As [`compare_and_swap`](Self::compare_and_swap).
    unsafe fn swap(
        &self,
        new: *const u8,
        expected: *const u8,
        result: *mut u8,
        kind: Kind,
        (rank, displacement): (Rank, i64),
        has_request: bool,
    ) -> Result<Request, Error> {
        const CALL: &str = "MPI_Compare_and_swap";
        if !What::swaps(kind) {
            return Err(self.error(CALL, ErrorClass::Type));
        }
        let datatype = &Datatype::predefined(kind);
        let target = Target {
            rank,
            displacement,
            count: 1,
            datatype,
        };
        let result = Operands {
            base: result,
            count: 1,
            datatype,
        };
        let size = kind.size() as usize;
        // SAFETY: by the caller's contract both are elements of `kind`.
        let (expected, new) = unsafe {
            (
                core::slice::from_raw_parts(expected, size),
                core::slice::from_raw_parts(new, size),
            )
        };
        let what = What::swap(kind, expected, new);
        // SAFETY: the caller's contract.
        unsafe { self.operate(CALL, what, None, Some(&result), &target, has_request) }
    }

    fn accumulation(
        &self,
        call: &'static str,
        (count, datatype): (u64, &Datatype),
        operation: &Operation,
    ) -> Result<What, Error> {
        let wrong = |detail| self.error(call, ErrorClass::Op).with_detail(detail);
        let operation = operation
            .as_predefined()
            .ok_or_else(|| wrong(Detail::Text("windows take predefined operations only")))?;
        if count == 0 || datatype.size() == 0 {
            // No elements: nothing will be done, whatever kind they are of.
            return Ok(What::Put);
        }
        let kind = datatype.element_kind().ok_or_else(|| {
            let detail = Detail::Text("not all elements are of one predefined kind");
            self.error(call, ErrorClass::Type).with_detail(detail)
        })?;
        if !operation.is_defined_for(kind) {
            return Err(wrong(Detail::Operation(OperationError::Kind { operation, kind })));
        }
        Ok(What::Accumulate { kind, operation })
    }

    /// Begins an operation, with a request if it `has_request`.
    ///
    /// # Safety
    /// Until it has ended, the elements of `origin` may be read and are not written to, and those of `result` may be
    /// written and are not used by other code; all from any thread.
    unsafe fn operate(
        &self,
        call: &'static str,
        what: What,
        origin: Option<&Operands<'_>>,
        result: Option<&Operands<'_>>,
        target: &Target<'_>,
        has_request: bool,
    ) -> Result<Request, Error> {
        let span = self.0.communicator.enter(|| Entry {
            displacement: Some(target.displacement),
            operation: what.operation(),
            ..Entry::of(call, target.count, target.datatype).with_peer(target.rank)
        });
        // SAFETY: the caller's contract.
        let begun = unsafe { self.operate_quietly(call, what, origin, result, target, has_request) };
        if has_request {
            span.begin(begun)
        } else {
            span.end(begun)
        }
    }

    /// # Safety
    /// See [`operate`](Self::operate).
    unsafe fn operate_quietly(
        &self,
        call: &'static str,
        what: What,
        origin: Option<&Operands<'_>>,
        result: Option<&Operands<'_>>,
        target: &Target<'_>,
        has_request: bool,
    ) -> Result<Request, Error> {
        self.check(call)?;
        let communicator = &self.0.communicator;
        let nothing = || Request::ended(communicator, Status::EMPTY, call);
        if target.rank == PROC_NULL {
            return Ok(nothing());
        }
        let place = self.place(call, target)?;
        let no_op = matches!(
            what,
            What::Accumulate {
                operation: Predefined::NoOp,
                ..
            }
        );
        let origin = origin.filter(|_| !no_op);
        for side in [origin, result].into_iter().flatten() {
            self.check_side(call, what, side, target)?;
        }
        // SAFETY: the caller's contract.
        let buffer = |side: &Operands<'_>| unsafe { Buffer::new(side.base, side.count, side.datatype) };
        let sides = (origin, result);
        let (origin, result) = (origin.map(buffer), result.map(buffer));
        if origin.as_ref().is_some_and(Option::is_none) || result.as_ref().is_some_and(Option::is_none) {
            return Err(self.error(call, ErrorClass::Count));
        }
        let buffers = (origin.flatten(), result.flatten());
        if place.count == 0 || place.datatype.size() == 0 {
            return Ok(nothing());
        }
        let process = place.process;
        if let Some(memory) = self.0.peers[target.rank as usize].mapped {
            let there = Elements {
                base: memory.wrapping_offset(place.base as isize),
                count: place.count,
                datatype: &place.datatype,
            };
            if matches!(what, What::Put | What::Get) || self.0.is_common && atomics::fits(what, there) {
                // SAFETY: the caller's contract; `place` has checked that they lie in the window, whose memory is mapped.
                unsafe { self.operate_in_memory(call, process, what, sides, there) }?;
                return Ok(nothing());
            }
        }
        let mut operation = Some((place, what, buffers));
        let (request, begun) = loop {
            // In one access with the operation: after one that touches no peer a look may be due, and would send what
            // waits to share a datagram.
            let begun = self.entered(call, |core, messenger, now| {
                if core.rma.it().operations() >= MAX_OPERATIONS {
                    return None;
                }
                let (place, what, buffers) = operation.take()?;
                let request = has_request.then(|| core.request_of_caller());
                let begun = core.with_rma(messenger, now, |rma, net| {
                    rma.begin(net, self.0.name, place, what, buffers, request)
                });
                Some((request, begun))
            })?;
            if let Some(begun) = begun {
                break begun;
            }
            self.wait_until(call, |core| core.rma.it().operations() < MAX_OPERATIONS)?;
        };
        let pending = request.map(|id| Request::pending(communicator, id, call, 0));
        if process == communicator.engine().process() {
            communicator.engine().fabric.stayed();
        }
        match begun {
            Ok(()) => Ok(pending.unwrap_or_else(nothing)),
            Err(failure) => Err(self.failed(call, Some(process), failure)),
        }
    }

    /// Puts, gets, accumulates or swaps in memory that is shared with the target.
    ///
    /// # Safety
    /// See [`operate`](Self::operate); `there` is memory of a window.
    unsafe fn operate_in_memory<'a>(
        &self,
        call: &'static str,
        process: u32,
        what: What,
        (origin, result): (Option<&Operands<'a>>, Option<&Operands<'a>>),
        there: Elements<'_>,
    ) -> Result<(), Error> {
        let allowed = self.locked(call, |rma, net| {
            let window = rma.window(self.0.name);
            let state = window.ok_or(Failure::Refused(ErrorClass::Win))?;
            if !state.epoch.allows(process) {
                return Err(Failure::Refused(ErrorClass::RmaSync));
            }
            net.lost(process).map_or(Ok(()), |error| Err(Failure::Lost(error)))
        })?;
        allowed.map_err(|failure| self.failed(call, Some(process), failure))?;
        let here = |side: &Operands<'a>| Elements {
            base: side.base,
            count: side.count,
            datatype: side.datatype,
        };
        let (origin, result) = (origin.map(here), result.map(here));
        // SAFETY: the caller's contract; all sides have the same number of bytes.
        unsafe {
            match (what, origin, result) {
                (What::Put, Some(origin), _) => copy(origin, there),
                (What::Get, _, Some(result)) => copy(there, result),
                _ => atomics::apply(what, origin, result, there),
            }
        }
        // A program that only copies serves the others, too.
        self.0.communicator.engine().fabric.stayed();
        Ok(())
    }

    /// Checks that an operand has as many bytes as the target, and elements of the same kind if they are combined.
    fn check_side(
        &self,
        call: &'static str,
        what: What,
        side: &Operands<'_>,
        target: &Target<'_>,
    ) -> Result<(), Error> {
        let wrong = |class, text| Err(self.error(call, class).with_detail(Detail::Text(text)));
        if side.datatype.packed_size(side.count) != target.datatype.packed_size(target.count) {
            return wrong(ErrorClass::Count, "both sides do not have the same number of bytes");
        }
        match what {
            What::Accumulate { kind, .. } if side.datatype.element_kind() != Some(kind) => {
                wrong(ErrorClass::Type, "both sides do not have elements of the same kind")
            }
            _ => Ok(()),
        }
    }

    /// Location of the elements at the target.
    fn place(&self, call: &'static str, target: &Target<'_>) -> Result<Place, Error> {
        let peer = self.peer(call, target.rank)?;
        let is_dynamic = self.0.flavor == Flavor::Dynamic;
        let at = |class, value: i128, max: u64| {
            let limit = |value: i128| value.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
            self.error(call, class)
                .with_peer(target.rank)
                .with_detail(Detail::Value {
                    argument: "target displacement",
                    value: limit(value),
                    min: 0,
                    max: limit(max.into()),
                })
        };
        let most = if is_dynamic { i64::MAX as u64 } else { peer.len };
        let displacement = i128::from(target.displacement);
        if target.displacement < 0 {
            return Err(at(ErrorClass::Disp, displacement, most / u64::from(peer.unit)));
        }
        let base = displacement * i128::from(peer.unit);
        let span = target.datatype.span(target.count);
        let (low, high) = span.map_err(|error| self.0.communicator.locate(Error::datatype(call, error)))?;
        let (low, high) = (base + i128::from(low), base + i128::from(high));
        if low < high && (low < 0 || high > i128::from(most)) {
            let outside = if low < 0 { low } else { high };
            return Err(at(ErrorClass::RmaRange, outside, most));
        }
        Ok(Place {
            process: peer.process,
            window: peer.name,
            is_dynamic,
            // At most `most`, unless there are no elements.
            base: base as i64,
            count: target.count,
            datatype: target.datatype.clone(),
        })
    }
}
