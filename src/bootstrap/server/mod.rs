//! The wire-up server, for `hikyaku run` and for rank 0 of a job without a launcher.
//!
//! [`Store`] makes the answers and does no input or output; [`Gate`] listens, admits connections that have the ticket,
//! and carries lines.

mod gate;
mod store;

pub use gate::{Gate, GateEvent, GateLimit};
pub use store::{MAX_KEYS, Note, Outcome, Store};
