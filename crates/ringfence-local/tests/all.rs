//! The native fence, tried.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests")]

mod suite {
    mod conformance;
    mod launchers;
    mod provider;
    mod provider_conformance;
    mod seatbelt;
    mod seatbelt_refusals;
    mod shell_protocol;
    mod shell_random;
    mod shell_shared;
}
