//! See `ringfence_fuzz::policy_pattern`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ringfence_fuzz::policy_pattern(bytes));
