//! hikyaku
#![cfg_attr(not(feature = "std"), no_std)]
extern crate alloc;

#[cfg(feature = "std")]
pub mod backends;
pub mod prng;
pub mod time;
pub mod wire;
