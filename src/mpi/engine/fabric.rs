//! How an engine reaches its network and waits: the one place where real time and simulated time differ.

use alloc::string::String;
use core::{fmt, net::SocketAddr, time::Duration};

use super::{
    buffer::Buffer,
    core::{AnyOf, Ended, RequestId},
    process::Process,
};
use crate::{
    messaging::{Messenger, tagged::Selector},
    mpi::Rank,
    time::Instant,
};

/// The network cannot be used any more; says why.
#[derive(Clone, PartialEq, Eq)]
pub struct FabricError(pub String);

impl fmt::Display for FabricError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the network has failed: {}", self.0)
    }
}

crate::debug_as_display!(FabricError);

impl core::error::Error for FabricError {}

/// The MPI call that a program is in: reported for processes that wait for ever.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallNote {
    pub(crate) call: &'static str,
    pub(crate) context: u32,
    pub(crate) peer: Option<Rank>,
    pub(crate) tag: Option<i32>,
}

/// The network, clock and scheduler that an engine runs on.
///
/// All waiting of MPI goes through [`wait`](Self::wait). A native fabric pumps a backend and sleeps; a simulated one
/// lets other processes run until something has happened.
pub(crate) trait Fabric: Send + Sync {
    /// Calls `f` with the lock held, then transmits what is worth transmitting at once.
    fn access(&self, f: &mut dyn FnMut(&mut Process, &mut Messenger, Instant));

    /// As [`access`](Self::access), after the processes at these addresses, which are new, have been introduced to the
    /// backend by what they say of themselves. False: it cannot reach one of them, and `f` is not called.
    fn introduce(
        &self,
        _processes: &[(SocketAddr, &[u8])],
        f: &mut dyn FnMut(&mut Process, &mut Messenger, Instant),
    ) -> bool {
        self.access(f);
        true
    }

    /// This process begins nothing more.
    fn leave(&self) {
        self.access(&mut |core, messenger, now| core.leave(messenger, now));
    }

    /// Posts a receive, with the processes from which it takes messages if it names no source. Returns how it has ended,
    /// if it ends at once, and well, and its caller has no more to check; `None`: the network has failed.
    fn receive(
        &self,
        selector: &Selector,
        buffer: Buffer,
        any_of: Option<AnyOf>,
        is_checked: bool,
    ) -> Option<Result<Ended, RequestId>> {
        let (mut given, mut begun) = (Some((buffer, any_of)), None);
        self.access(&mut |core, messenger, now| {
            begun = given.take().map(|(buffer, any_of)| {
                core.receive(messenger, now, *selector, buffer, any_of, |ended| {
                    ended.is_well() && !is_checked
                })
            });
        });
        begun
    }

    /// Makes progress if the request has not ended; returns how it has ended, and forgets it then.
    fn test(&self, id: RequestId) -> Result<Option<Ended>, FabricError> {
        let mut ended = None;
        self.access(&mut |core, _, _| ended = core.take(id));
        if ended.is_some() {
            return Ok(ended);
        }
        let progress = self.progress();
        self.access(&mut |core, _, _| ended = core.take(id));
        match progress {
            Err(error) if ended.is_none() => Err(error),
            _ => Ok(ended),
        }
    }

    /// The current time; takes no lock.
    fn now(&self) -> Instant;

    /// Sends and receives what can be sent and received now.
    fn progress(&self) -> Result<(), FabricError>;

    /// Makes progress until `done` gives true; `done` may begin the operation that it waits for. The lock is not held
    /// while nothing happens.
    fn wait(&self, done: &mut dyn FnMut(&mut Process, &mut Messenger, Instant) -> bool) -> Result<(), FabricError>;

    /// A call has stayed within this process: looks at the network if that has not been done for a while, so that a
    /// program that makes no other calls serves the other processes. In a simulation they run now and then.
    fn stayed(&self);

    /// A task waits for a request: has another thread make progress until the task is woken. False: no thread will, so
    /// the task must ask again.
    fn attend(&self) -> bool;

    /// The processes are those of the system, so they can share memory.
    fn is_native(&self) -> bool {
        false
    }

    /// The host of a process, where that is known without asking it.
    fn host_of(&self, _process: u32) -> Option<u32> {
        None
    }

    /// Whether it wants to [know](Self::note) which call the program is in.
    fn takes_notes(&self) -> bool {
        false
    }

    /// The program is in this MPI call; `None`: in none.
    fn note(&self, call: Option<CallNote>) {
        let _ = call;
    }

    /// Says goodbye to all peers, and waits at most `linger` for their acknowledgements.
    fn close(&self, linger: Duration) -> Result<(), FabricError>;
}
