//! The library's own sources with loom's atomics, three times: as they are, with orderings that are too weak, and without
//! fences. Models of the first must pass; each must fail with one of the others, or it could not find anything.
#![expect(dead_code, reason = "parts of the library that no model uses")]

extern crate alloc;

mod cell;
mod medium;
pub mod models;
mod right;
pub mod segment;
mod timed;
mod unfenced;
mod weak;
