//! Datatypes made from the input: refused, or packed and unpacked to the same octets.
#![no_main]

#[path = "../../tests/support/datatypes.rs"]
mod exercise;

libfuzzer_sys::fuzz_target!(|octets: &[u8]| exercise::datatype(octets));
