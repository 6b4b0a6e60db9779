//! The other end: what answers the processes of a job. `hikyaku run` is made of these parts, and so is rank 0 of a job
//! that meets without a launcher.
//!
//! [`Store`] knows what the answers are and does no input or output; [`Gate`] listens, lets in who has the ticket, and
//! carries lines.

mod gate;
mod store;

pub use gate::{Gate, GateEvent, GateLimit};
pub use store::{MAX_KEYS, Note, Outcome, Store};
