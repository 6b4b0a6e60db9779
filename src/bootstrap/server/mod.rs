//! The wire-up server, for `hikyaku run`, for rank 0 of a job without a launcher, and for a process that has others
//! started by a launcher which does not tell worlds of each other.
//!
//! [`Store`] makes the answers for the processes of one world, and [`Worlds`] for all of a job; neither does any input or
//! output. [`WireUpListener`] listens, admits connections that have the ticket, and carries lines.

mod listener;
mod store;
mod worlds;

pub use listener::{ListenerEvent, ListenerLimit, WireUpListener};
pub use store::{MAX_KEYS, Note, Outcome, Spawning, Store};
pub(super) use worlds::BY;
pub use worlds::Worlds;
