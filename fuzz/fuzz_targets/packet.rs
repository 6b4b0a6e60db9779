//! Everything that looks at bytes: the checked view, records, the checksum, printing.
#![no_main]

#[expect(dead_code, reason = "the other target uses the rest")]
#[path = "../../tests/support/exercise.rs"]
mod exercise;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| exercise::packet(bytes));
