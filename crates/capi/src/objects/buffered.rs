//! Buffers for buffered sends, as programs attach them (MPI 3.6).

use std::sync::{LazyLock, Mutex};

use hikyaku::mpi::{engine::AttachedBuffer, error::ErrorClass};

use super::{Comm, Communicator, Session, lock};
use crate::border::{Buffer, Failure};

/// A buffer for buffered sends. The messages are in memory of ours.
#[derive(Debug, Default)]
pub struct Buffered {
    /// The messages.
    pub messages: Mutex<AttachedBuffer>,
    /// The program's memory, if a buffer is attached: its address, which is given back, and its size.
    attached: Mutex<Option<(usize, i64)>>,
}

/// The buffer of the process.
static PROCESS: LazyLock<Buffered> = LazyLock::new(Buffered::default);

/// A buffer belongs to one of these.
#[derive(Clone, Copy, Debug)]
pub enum Owner {
    /// The process.
    Process,
    /// A communicator.
    Comm(Comm),
    /// A session.
    Session(Session),
}

impl Owner {
    /// Calls `run` with the buffer.
    ///
    /// # Errors
    /// There is no such communicator or session.
    pub fn with<R>(self, run: impl FnOnce(&Buffered) -> R) -> Result<R, Failure> {
        Ok(match self {
            Self::Process => run(&PROCESS),
            Self::Comm(comm) => run(&comm.get()?.buffered),
            Self::Session(session) => run(&session.get()?.buffered),
        })
    }
}

impl Buffered {
    /// Calls `run` with the buffer that messages of a communicator use: its own; if it has none, that of the session of
    /// which it was made, or that of the process.
    pub fn with_that_of<R>(comm: &Communicator, run: impl FnOnce(&Self) -> R) -> R {
        if comm.buffered.is_attached() {
            return run(&comm.buffered);
        }
        let session = comm.session.and_then(Session::find);
        match session.filter(|session| session.buffered.is_attached()) {
            Some(session) => run(&session.buffered),
            None => run(&PROCESS),
        }
    }

    fn is_attached(&self) -> bool {
        lock(&self.attached).is_some()
    }

    /// Attaches memory of the program.
    ///
    /// # Errors
    /// There is some already.
    pub fn attach(&self, buffer: Buffer, size: u64) -> Result<(), Failure> {
        let mut attached = lock(&self.attached);
        if attached.is_some() {
            return Err(Failure::text(ErrorClass::Buffer, "a buffer is attached already"));
        }
        let room = if buffer.is_automatic() {
            usize::MAX >> 1
        } else {
            size as usize
        };
        lock(&self.messages).resize(room);
        *attached = Some((buffer.0.expose_provenance(), size as i64));
        Ok(())
    }

    /// Waits until its messages are sent, and detaches it: its address and size.
    pub fn detach(&self) -> Option<(Buffer, i64)> {
        lock(&self.messages).resize(0);
        let (address, size) = lock(&self.attached).take()?;
        Some((Buffer(core::ptr::with_exposed_provenance_mut(address)), size))
    }
}
