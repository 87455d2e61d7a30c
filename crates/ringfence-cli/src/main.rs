//! The `ringfence` command.
#![forbid(unsafe_code)]
fn main() {}
