//! See `ringfence_fuzz::fuse_wire`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ringfence_fuzz::fuse_wire(bytes));
