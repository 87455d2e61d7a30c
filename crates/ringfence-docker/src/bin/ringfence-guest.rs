//! The guest alone, for those who use the library without the `ringfence` command.
#![forbid(unsafe_code)]

use std::process::ExitCode;

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    let outcome = ringfence_local::guest::serve(
        std::io::BufReader::new(std::io::stdin()),
        std::io::stdout(),
        std::env::vars_os().collect(),
    );
    // Whoever uses it was told on standard output.
    if outcome.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    ExitCode::FAILURE
}
