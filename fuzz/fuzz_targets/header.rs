//! Bytes that are a packet, read and written again, are the same bytes.
#![no_main]

#[expect(dead_code, reason = "the other target uses the rest")]
#[path = "../../tests/support/exercise.rs"]
mod exercise;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| exercise::header(bytes));
