//! The one place that asks the machine for chance.

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hasher},
    process,
};

/// A random number, not 0: from the system, by way of the keys that the standard library draws for its hash maps.
/// They are drawn once a thread, so the process is mixed in, for those who fork.
pub(crate) fn random() -> u64 {
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u32(process::id());
    hasher.finish().max(1)
}

/// A key of 128 random bits, in the same way.
pub(crate) fn random_key() -> u128 {
    u128::from(random()) << 64 | u128::from(random())
}
