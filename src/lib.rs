//! hikyaku
#![cfg_attr(not(feature = "std"), no_std)]
extern crate alloc;

#[cfg(feature = "std")]
pub mod backends;
mod config;
mod error;
mod id;
pub mod messaging;
pub mod prng;
#[cfg(feature = "std")]
pub mod progress;
pub mod reliability;
mod stats;
pub mod time;
#[cfg(feature = "std")]
pub mod transport;
pub mod wire;

pub use config::{Config, ConfigError, Congestion, Recovery, WindowMode};
pub use error::{AddPeerError, DropReason, PeerError, SendError};
pub use id::{PeerId, SendToken};
pub use stats::{Dropped, PeerStats, Stats};
