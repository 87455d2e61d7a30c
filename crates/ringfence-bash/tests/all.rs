//! One binary for all integration tests of this crate.

mod suite {
    mod agreement;
    mod bash;
    mod commands;
    mod rable;
    mod scripts;
}
