//! The wire-up server, for `hikyaku run` and for rank 0 of a job without a launcher.
//!
//! [`Store`] makes the answers and does no input or output; [`WireUpListener`] listens, admits connections that have the ticket,
//! and carries lines.

mod listener;
mod store;

pub use listener::{ListenerEvent, ListenerLimit, WireUpListener};
pub use store::{MAX_KEYS, Note, Outcome, Store};
