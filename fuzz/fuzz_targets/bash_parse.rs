//! See `ringfence_fuzz::bash_parse`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ringfence_fuzz::bash_parse(bytes));
