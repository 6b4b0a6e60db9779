//! How an engine reaches its network and waits: the one place where real time and simulated time differ.

use alloc::string::String;
use core::{fmt, time::Duration};

use super::core::Core;
use crate::{messaging::Messenger, mpi::Rank, time::Instant};

/// The network can not be used any more.
#[derive(Clone, PartialEq, Eq)]
pub struct FabricError(pub String);

impl fmt::Display for FabricError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the network has failed: {}", self.0)
    }
}

crate::debug_as_display!(FabricError);

impl core::error::Error for FabricError {}

/// A call of MPI, as far as those who wait in it for ever are told of it.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "sim"), expect(dead_code, reason = "only simulations take notes"))]
pub(crate) struct Called {
    pub(crate) call: &'static str,
    pub(crate) context: u32,
    pub(crate) peer: Option<Rank>,
    pub(crate) tag: Option<i32>,
}

/// What an engine runs on.
///
/// All waiting of MPI goes through [`wait`](Self::wait). Natively it pumps a backend and sleeps; in a simulator it lets
/// others run until something has happened.
pub(crate) trait Fabric: Send + Sync {
    /// Calls `f` with everything locked, then transmits what is worth it.
    fn access(&self, f: &mut dyn FnMut(&mut Core, &mut Messenger, Instant));

    /// What time it is; without a lock.
    fn now(&self) -> Instant;

    /// Sends and receives what can be sent and received now.
    fn progress(&self) -> Result<(), FabricError>;

    /// Makes progress until `done`, which may begin what it waits for. No lock is held while nothing happens.
    fn wait(&self, done: &mut dyn FnMut(&mut Core, &mut Messenger, Instant) -> bool) -> Result<(), FabricError>;

    /// A call has stayed within this process. Where time goes on by itself [`access`](Self::access) has looked at the network
    /// if that was due; in a simulation the others must run now and then.
    fn stayed(&self) {}

    /// A task waits for a request: lets progress be made until it is woken. False: nobody will, it must ask again.
    fn attend(&self) -> bool;

    /// Wants to [know](Self::note) which call the program is in.
    fn takes_notes(&self) -> bool {
        false
    }

    /// The program is in this call of MPI; `None`: in none.
    fn note(&self, call: Option<Called>) {
        let _ = call;
    }

    /// Time goes on without the program; natively it does so by itself.
    #[cfg(feature = "sim")]
    fn away(&self, time: Duration) -> Result<(), FabricError> {
        let _ = time;
        Ok(())
    }

    /// Says goodbye to everybody, and waits not longer than `linger` for it to be heard.
    fn close(&self, linger: Duration) -> Result<(), FabricError>;
}
