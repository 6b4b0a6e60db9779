//! Datatypes made from the input: refused, or packed and unpacked to the same bytes.
#![no_main]

#[path = "../../tests/support/datatypes.rs"]
mod exercise;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| exercise::datatype(bytes));
