//! What ranks tell each other besides the program's data if [`Options::check`](super::Options::check) is set, so that what
//! does not go together is an error of those who notice it, and not wrong data or a job that hangs.
//!
//! Each message has a header: the signature of its datatypes. Each collective is preceded by one that tells everybody
//! what everybody has called. So with it no collective ends before all ranks have come to it.

mod collective;
mod message;

use alloc::{boxed::Box, sync::Arc};

pub(super) use self::{
    collective::{Agreement, Verdict},
    message::Expected,
};

/// What is looked at when a request ends.
pub(super) enum Check {
    /// Whether a message is what the receive was for.
    Message(Box<Expected>),
    /// What others have called, if that was something else.
    Collective(Arc<Verdict>),
}
