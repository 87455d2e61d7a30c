//! Build automation: `cargo xtask test` and `cargo xtask bench`.
fn main() {}
