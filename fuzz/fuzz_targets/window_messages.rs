//! Any message about a window is parsed, and served or refused; only the window is touched.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hikyaku::mpi::engine::window_messages(bytes));
