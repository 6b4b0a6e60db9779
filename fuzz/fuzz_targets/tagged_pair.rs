//! Two nodes that match messages on a bad network, and forge those of the protocol: operations read from the input, checked
//! against a reference.
#![no_main]

#[expect(dead_code, unused_imports, reason = "the simulation tests use the rest")]
#[path = "../../tests/simulation/harness/mod.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| harness::talk_ops::run(bytes));
