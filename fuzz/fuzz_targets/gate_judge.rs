//! See `ringfence_fuzz::gate_judge`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ringfence_fuzz::gate_judge(bytes));
