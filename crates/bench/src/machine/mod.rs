//! The machine: its clocks, its CPUs, memory in use, and what it is.

pub mod allocation;
pub mod clock;
pub mod environment;
pub mod pin;
