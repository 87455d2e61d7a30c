//! The kernel side of the local fence, and the only home of `unsafe`.
#![cfg(target_os = "linux")]

pub mod seccomp;
