//! One binary for all integration tests of this crate.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on should fail")]

mod suite {
    mod agreement;
    mod bash;
    mod commands;
    mod limits;
    mod properties;
    mod rable;
    mod scripts;
    mod spans;
}
