//! A rank in the middle of its program: what it has, and what goes on.

use std::{cell::RefCell, collections::BTreeMap, sync::Arc};

use hikyaku::mpi::{
    datatype::Datatype,
    engine::{Communicator, Engine, PartitionedReceive, PartitionedSend, PersistentCollective, Request, Window},
    error::Error,
};

/// Memory of messages.
pub(super) type Bytes = Vec<u64>;

/// A rank in the middle of its program.
pub(super) struct Player<'a> {
    pub(super) communicators: BTreeMap<u32, Communicator>,
    pub(super) engine: &'a Arc<Engine>,
    /// Requests that are running, and their memory.
    pub(super) running: BTreeMap<u64, (Request, [Bytes; 2])>,
    /// Persistent requests that can be started.
    pub(super) planned: BTreeMap<u64, Planned>,
    /// By the contexts that their communicators had.
    pub(super) windows: BTreeMap<u32, Played>,
    pub(super) attached: &'a Attached,
    pub(super) byte: Datatype,
}

/// Persistent requests that can be started.
pub(super) enum Persistent {
    Collective(PersistentCollective),
    Send(PartitionedSend),
    Receive(PartitionedReceive),
}

pub(super) struct Planned {
    pub(super) operation: Persistent,
    pub(super) memory: [Bytes; 2],
    /// The number of the last start; 0: none.
    pub(super) started: u64,
}

/// Where the memory is that processes have attached to dynamic windows: by context of the window, process and the address
/// that it had. Programs name addresses of others, which are others in a replay.
#[derive(Debug, Default)]
pub(crate) struct Attached(pub(super) RefCell<BTreeMap<(u32, u32, u64), Piece>>);

/// Its bytes, and its address here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) bytes: u64,
    pub(super) address: u64,
}

impl Attached {
    /// The address here of `bytes` bytes that were at `address`.
    pub(super) fn find(&self, context: u32, process: u32, address: u64, bytes: u64) -> Option<u64> {
        let pieces = self.0.borrow();
        let until = ..=(context, process, address);
        let (&(of, at, start), piece) = pieces.range(until).next_back()?;
        let from = address - start.min(address);
        let fits = from <= piece.bytes && bytes <= piece.bytes - from;
        ((of, at) == (context, process) && fits).then_some(piece.address + from)
    }
}

/// A window. Its memory goes after it.
pub(super) struct Played {
    pub(super) window: Window,
    pub(super) dynamic: bool,
    /// Memory of operations that may not have ended, and the rank that they are about.
    pub(super) lent: Vec<(i32, [Bytes; 2])>,
    /// That of the window.
    pub(super) _own: Bytes,
    /// The memory attached to it, by the address that it had.
    pub(super) memory: BTreeMap<u64, Bytes>,
}

/// A trace may say anything: a size that memory has no room for is an error of the rank, not the end of the process.
pub(super) fn memory(bytes: u64) -> Result<Bytes, String> {
    let words = usize::try_from(bytes.div_ceil(8)).unwrap_or(usize::MAX);
    let room = Bytes::new().try_reserve_exact(words);
    room.map_err(|_| format!("there is no memory for {bytes} bytes"))?;
    Ok(vec![0; words])
}

impl Player<'_> {
    pub(super) fn communicator(&self, context: u32) -> Result<Communicator, String> {
        let known = self.communicators.get(&context);
        known
            .cloned()
            .ok_or_else(|| format!("there is no communicator {context}: no call before has made it"))
    }

    /// Waits, unless it goes on under a number.
    pub(super) fn begun(
        &mut self,
        begun: Result<Request, Error>,
        memory: [Bytes; 2],
        number: Option<u64>,
    ) -> Result<(), String> {
        let request = begun.map_err(|error| error.to_string())?;
        let number = number.unwrap_or(0);
        self.run(number, request, memory)?;
        if number == 0 { self.end(0) } else { Ok(()) }
    }

    /// A running request keeps its memory until it has ended.
    pub(super) fn run(&mut self, number: u64, request: Request, memory: [Bytes; 2]) -> Result<(), String> {
        if let Some(before) = self.running.insert(number, (request, memory)) {
            // It is not known any more, and may still be written to.
            std::mem::forget(before);
            return Err(format!(
                "what has number {number} has not ended, and the number is given again"
            ));
        }
        Ok(())
    }

    pub(super) fn end(&mut self, number: u64) -> Result<(), String> {
        let Some((request, _)) = self.running.get_mut(&number) else {
            return Ok(());
        };
        let ended = request.wait_mut().map_err(|error| error.to_string());
        if ended.is_ok() {
            self.running.remove(&number);
        }
        ended.map(|_| ())
    }

    pub(super) fn end_all(&mut self) -> Result<(), String> {
        while let Some(number) = self.running.keys().next().copied() {
            self.end(number)?;
        }
        Ok(())
    }
}
