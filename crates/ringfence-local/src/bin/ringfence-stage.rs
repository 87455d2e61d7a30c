//! The program that bwrap executes inside a sandbox, for those who use the library without the `ringfence`
//! command. Anywhere else it does nothing.
#![forbid(unsafe_code)]

fn main() {
    #[cfg(target_os = "linux")]
    ringfence_linux::bwrap::run_stage();
}
