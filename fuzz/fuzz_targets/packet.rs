//! Everything that looks at octets: the checked view, records, the checksum, printing.
#![no_main]

#[expect(dead_code, reason = "the other target uses the rest")]
#[path = "../../tests/support/exercise.rs"]
mod exercise;

libfuzzer_sys::fuzz_target!(|octets: &[u8]| exercise::packet(octets));
