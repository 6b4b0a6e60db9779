//! How speed is measured, side by side with what the kernel offers.
//!
//! A *driver* (this process) holds the answering ends of all transports, one or more *workers* hold the asking ends and
//! the stop-watch; they agree over a control channel. [`rounds`] is the method.

pub(crate) mod beside;
pub(crate) mod compute;
mod control;
pub(crate) mod listen;
pub(crate) mod rounds;
pub(crate) mod session;
pub(crate) mod setup;
pub(crate) mod worker;
