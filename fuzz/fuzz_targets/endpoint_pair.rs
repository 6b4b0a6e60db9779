//! Two endpoints on a bad network, driven by operations read from the input; contracts are checked at every step.
#![no_main]

#[expect(dead_code, unused_imports, reason = "the simulation tests use the rest")]
#[path = "../../tests/simulation/harness/mod.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    harness::ops::run(bytes);
});
