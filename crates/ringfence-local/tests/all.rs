//! The native fence, tried.
#![cfg(target_os = "linux")]

mod suite {
    mod conformance;
    mod launchers;
    mod seatbelt;
    mod seatbelt_refusals;
}
