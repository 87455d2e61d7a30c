//! See `ringfence_fuzz::guest_wire`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ringfence_fuzz::guest_wire(bytes));
