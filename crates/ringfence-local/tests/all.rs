//! The native fence, tried.
#![cfg(target_os = "linux")]

mod suite {
    mod conformance;
    mod launchers;
}
