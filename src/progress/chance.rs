//! The one place that takes random numbers from the system.

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hasher},
    process,
};

/// A random number, not 0, from the system: it comes from the keys that the standard library draws for its hash maps.
/// The library draws them once per thread, so the process id is mixed in: after a fork, parent and child get different
/// numbers.
pub(crate) fn random() -> u64 {
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u32(process::id());
    hasher.finish().max(1)
}

/// A key of 128 random bits, from the same source.
pub(crate) fn random_key() -> u128 {
    u128::from(random()) << 64 | u128::from(random())
}
