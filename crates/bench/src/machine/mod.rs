//! The machine: its clocks, its CPUs, memory in use, how busy it is, and what it is.

pub mod allocation;
pub mod busy;
pub mod cache_line;
pub mod clock;
pub mod environment;
pub mod interrupt;
pub(crate) mod iproute;
pub mod pin;
pub(crate) mod wire;
