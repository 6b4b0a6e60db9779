//! As `endpoint_pair`, with seals at both ends: packets that are cut anew or sent again are sealed anew.
#![no_main]

#[expect(dead_code, unused_imports, reason = "the simulation tests use the rest")]
#[path = "../../tests/simulation/harness/mod.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    harness::ops::run(bytes);
});
