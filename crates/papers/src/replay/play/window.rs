#![expect(
    unsafe_code,
    reason = "the engine takes pointers; all are to memory that is kept until its operation has ended"
)]
//! Windows, and what is done to them.

use std::collections::BTreeMap;

use hikyaku::mpi::{
    datatype::{Datatype, Kind},
    engine::{LockKind, Operands, PROC_NULL, Request, Target, Window},
    error::Error,
    group::Group,
    operation::Operation,
};

use super::player::{Bytes, Piece, Played, Player, memory};
use crate::replay::program::{Access, Operate, WindowCall};

impl Player<'_> {
    pub(super) fn window(&mut self, context: u32, call: &WindowCall) -> Result<(), String> {
        match *call {
            WindowCall::Make { of, bytes, unit } => self.make_window(context, of, Some((bytes, unit))),
            WindowCall::MakeDynamic { of } => self.make_window(context, of, None),
            WindowCall::Access(access) => self.access(context, access),
            WindowCall::Attach { address, bytes } => self.attach(context, address, bytes),
            WindowCall::Detach { address } => self.detach(context, address),
            WindowCall::Free => {
                let freed = self.played(context)?.window.free();
                freed.map_err(|error| error.to_string())?;
                self.windows.remove(&context);
                let own = (context, self.engine.process());
                let mut attached = self.attached.0.borrow_mut();
                attached.retain(|(context, process, _), _| (*context, *process) != own);
                Ok(())
            }
            _ => self.synchronise(context, call),
        }
    }

    fn played(&mut self, context: u32) -> Result<&mut Played, String> {
        let known = self.windows.get_mut(&context);
        known.ok_or_else(|| format!("there is no window {context}: no call before has made it"))
    }

    fn make_window(&mut self, context: u32, of: u32, extent: Option<(u64, u32)>) -> Result<(), String> {
        let comm = self.communicator(of)?;
        let mut own = memory(extent.map_or(0, |(bytes, _)| bytes))?;
        let made = match extent {
            // SAFETY: the memory is kept as long as the window, and only operations use it.
            Some((bytes, unit)) => unsafe { Window::create(&comm, own.as_mut_ptr().cast(), bytes, unit) },
            None => Window::create_dynamic(&comm),
        };
        let window = made.map_err(|error| error.to_string())?;
        self.communicators.insert(context, window.communicator().clone());
        let played = Played {
            window,
            dynamic: extent.is_none(),
            lent: Vec::new(),
            _own: own,
            memory: BTreeMap::new(),
        };
        self.windows.insert(context, played);
        Ok(())
    }

    fn attach(&mut self, context: u32, address: u64, bytes: u64) -> Result<(), String> {
        let mut own = memory(bytes)?;
        let (process, attached) = (self.engine.process(), self.attached);
        let played = self.played(context)?;
        if played.memory.contains_key(&address) {
            return Err(format!("memory at {address} is attached twice"));
        }
        let base = own.as_mut_ptr().cast();
        // SAFETY: it is kept until it has been detached or the window is gone, and only operations use it.
        unsafe { played.window.attach(base, bytes) }.map_err(|error| error.to_string())?;
        played.memory.insert(address, own);
        let piece = Piece {
            bytes,
            address: base as u64,
        };
        attached.0.borrow_mut().insert((context, process, address), piece);
        Ok(())
    }

    fn detach(&mut self, context: u32, address: u64) -> Result<(), String> {
        let (process, attached) = (self.engine.process(), self.attached);
        let piece = attached.0.borrow_mut().remove(&(context, process, address));
        let piece = piece.ok_or_else(|| format!("no call before has attached memory at {address}"))?;
        let played = self.played(context)?;
        let detached = played.window.detach(piece.address as *mut u8);
        detached.map_err(|error| error.to_string())?;
        played.memory.remove(&address);
        Ok(())
    }

    fn synchronise(&mut self, context: u32, call: &WindowCall) -> Result<(), String> {
        let played = self.played(context)?;
        let window = &played.window;
        let group = |ranks: &[i32]| -> Result<Group, String> {
            let group = window.communicator().group().incl(ranks);
            group.map_err(|error| error.to_string())
        };
        let done = match call {
            WindowCall::Fence => window.fence(),
            WindowCall::Lock { rank, exclusive: true } => window.lock(LockKind::Exclusive, *rank),
            WindowCall::Lock { rank, .. } => window.lock(LockKind::Shared, *rank),
            WindowCall::LockAll => window.lock_all(),
            WindowCall::Unlock(rank) => window.unlock(*rank),
            WindowCall::UnlockAll => window.unlock_all(),
            WindowCall::Flush(rank) => window.flush(*rank),
            WindowCall::FlushAll => window.flush_all(),
            WindowCall::Post(ranks) => window.post(&group(ranks)?),
            WindowCall::Start(ranks) => window.start(&group(ranks)?),
            WindowCall::Complete => window.complete(),
            WindowCall::Wait => window.wait(),
            _ => window.sync(),
        };
        done.map_err(|error| error.to_string())?;
        match call {
            WindowCall::Unlock(rank) | WindowCall::Flush(rank) => played.lent.retain(|(target, _)| target != rank),
            WindowCall::Fence | WindowCall::UnlockAll | WindowCall::FlushAll | WindowCall::Complete => {
                played.lent.clear();
            }
            _ => {}
        }
        Ok(())
    }

    fn access(&mut self, context: u32, access: Access) -> Result<(), String> {
        let attached = self.attached;
        let played = self.played(context)?;
        let mut displacement = access.displacement;
        if access.bytes == 0 {
            // Nothing is anywhere.
            displacement = 0;
        } else if played.dynamic && access.target != PROC_NULL {
            let process = played.window.communicator().group().process(access.target);
            let found = process.and_then(|process| {
                let address = displacement as u64;
                attached.find(context, process, address, access.bytes)
            });
            let rank = access.target;
            displacement = found.ok_or_else(|| {
                format!("no call of rank {rank} before has attached what is at {displacement} of window {context}")
            })? as i64;
        }
        let (kind, count) = match access.what {
            Operate::Put | Operate::Get => (Kind::Byte, access.bytes),
            Operate::Accumulate(kind, _) | Operate::GetAccumulate(kind, _) => (kind, access.bytes / kind.size()),
            Operate::FetchAndOp(kind, _) | Operate::CompareAndSwap(kind) => (kind, 1),
        };
        let datatype = Datatype::predefined(kind);
        let (_, span) = datatype.span(count).map_err(|error| error.to_string())?;
        let mut lent = [memory(span as u64)?, memory(span as u64)?];
        let target = Target {
            rank: access.target,
            displacement,
            count,
            datatype: &datatype,
        };
        // SAFETY: the memory of both is as long as `count` elements, and kept until the operation has ended.
        let begun = unsafe { begin(&played.window, &access, &mut lent, &target) };
        match (begun.map_err(|error| error.to_string())?, access.request) {
            (Some(request), Some(number)) => self.run(number, request, lent),
            _ => {
                played.lent.push((access.target, lent));
                Ok(())
            }
        }
    }

    /// Waits for the ranks that share windows which were not freed: others may not be done with them. MPI's end waits for all.
    pub(super) fn leave_windows(&mut self) -> Result<(), String> {
        let mut left = self.windows.values();
        let met = left.try_for_each(|played| played.window.communicator().barrier());
        met.map_err(|error| error.to_string())
    }
}

/// Begins an operation, with the first memory as its origin and the second one as its result.
///
/// # Safety
/// Both are initialised memory of the target's elements at least, which no other code uses until it has ended.
unsafe fn begin(
    window: &Window,
    access: &Access,
    [origin, result]: &mut [Bytes; 2],
    target: &Target<'_>,
) -> Result<Option<Request>, Error> {
    let side = |memory: &mut Bytes| Operands {
        base: memory.as_mut_ptr().cast(),
        count: target.count,
        datatype: target.datatype,
    };
    let (from, into) = (&side(origin), &side(result));
    let place = (target.rank, target.displacement);
    let has_request = access.request.is_some();
    // SAFETY: the caller's contract.
    unsafe {
        match access.what {
            Operate::Put if has_request => window.rput(from, target).map(Some),
            Operate::Put => window.put(from, target).map(|()| None),
            Operate::Get if has_request => window.rget(into, target).map(Some),
            Operate::Get => window.get(into, target).map(|()| None),
            Operate::Accumulate(_, operation) => {
                let operation = Operation::predefined(operation);
                if has_request {
                    window.raccumulate(from, target, &operation).map(Some)
                } else {
                    window.accumulate(from, target, &operation).map(|()| None)
                }
            }
            Operate::GetAccumulate(_, operation) => {
                let operation = Operation::predefined(operation);
                if has_request {
                    window.rget_accumulate(Some(from), into, target, &operation).map(Some)
                } else {
                    window
                        .get_accumulate(Some(from), into, target, &operation)
                        .map(|()| None)
                }
            }
            Operate::FetchAndOp(kind, operation) => {
                let operation = Operation::predefined(operation);
                window
                    .fetch_and_op(from.base, into.base, kind, place, &operation)
                    .map(|()| None)
            }
            Operate::CompareAndSwap(kind) if has_request => window
                .rcompare_and_swap(from.base, from.base, into.base, kind, place)
                .map(Some),
            Operate::CompareAndSwap(kind) => window
                .compare_and_swap(from.base, from.base, into.base, kind, place)
                .map(|()| None),
        }
    }
}
