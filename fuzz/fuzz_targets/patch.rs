//! See `ringfence_fuzz::patch`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ringfence_fuzz::patch(bytes));
