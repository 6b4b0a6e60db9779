//! What a peer may say about a window: parsed, served or refused, and only the window is touched.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hikyaku::mpi::engine::window_messages(bytes));
