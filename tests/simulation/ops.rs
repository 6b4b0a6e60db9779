//! A pair of endpoints driven by arbitrary operations; the body of a fuzz target as well as a test.

use crate::harness::{Prng, ops, scenario};

/// The fuzz target's body under random bytes.
#[test]
fn random_operations() {
    scenario("ops::random_operations", 300, |seed| {
        let mut rng = Prng::new(seed);
        let bytes: Vec<u8> = (0..rng.skewed(1_000)).map(|_| rng.next() as u8).collect();
        ops::run(&bytes);
    });
}
