//! One binary for all integration tests of this crate.

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
