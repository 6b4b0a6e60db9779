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

/// Bytes can mean rails that both have from the start, and rails that die.
#[test]
fn rails_are_among_the_operations() {
    // Usual settings; a messenger, and one rail beside the first.
    let begin = [1, 0, 0x10];
    // Tens of thousands of bytes, by copy.
    let send = [0, 0xff, 0];
    let run = [10, 0xff];
    let cut = [19 | 64, 1, 19 | 64 | 128, 1];
    let talk = [send, send, send, send].concat();
    let before = [&begin[..], &talk, &run].concat();
    let [proven, dead] = ops::run(&before);
    assert!(proven >= 2 && dead == 0, "{proven} proven, {dead} dead");
    let bytes = [&before[..], &cut, &talk, &talk, &run, &talk, &run].concat();
    let [proven_again, dead] = ops::run(&bytes);
    assert!(dead >= 1 && proven_again > proven, "{proven_again} proven, {dead} dead");
    // Another one is added later, by one side.
    let added = [&before[..], &[20 | 64, 2], &talk, &run].concat();
    assert_eq!(ops::run(&added), [proven + 1, 0]);
}
