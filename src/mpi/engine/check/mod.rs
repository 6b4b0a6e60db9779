//! Data that ranks exchange besides the program's if [`Options::check`](super::Options::check) is set, so that
//! mismatched calls are errors of the ranks that notice them, and not wrong data or a job that hangs.
//!
//! Each message has a header: the signature of its datatypes. Each collective is preceded by one in which every rank
//! tells all others what it has called. So no collective ends before all ranks have entered it.

mod collective;
mod message;

use alloc::{boxed::Box, sync::Arc};

pub(super) use self::{
    collective::{Agreement, Verdict},
    message::{Expected, HEADER, seal, unseal},
};

/// A check to make when a request ends.
pub(super) enum Check {
    /// Whether the message has the types that the receive asked for.
    Message(Box<Expected>),
    /// How ranks have called different collectives, if they have.
    Collective(Arc<Verdict>),
}
