//! The parts of the fence, measured one by one: `cargo xtask bench` runs this and prints its tables.
//!
//! | command | what it prints, as JSON |
//! |---|---|
//! | `steps PROJECT ROUNDS` | nanoseconds of every step from the configuration to the end of `true` |
//! | `approval PROJECT ROUNDS` | nanoseconds from a person's answer to the return of the call that waited |
//! | `many PROJECT COUNT` | how fast sandboxes are made, and the memory, processes, threads and descriptors of each while all live |
//! | `many-alone PROJECT COUNT` | the same without a prefork server |
//! | `sustained PROJECT COUNT` | sandboxes per second that run a program and end |
//! | `take PROJECT ROUNDS` | nanoseconds of taking a sandbox from the pool and running a program, and of the program alone |
//! | `session PROJECT ROUNDS RINGFENCE` | nanoseconds of commands in a warm shell, and MiB/s of their output |
//! | `opens FILE COUNT` | nanoseconds of each of many opens of a file, for use inside a sandbox |
//! | `wait FILE` | moments at which opens of a file returned, for use inside a sandbox |
#![cfg(target_os = "linux")]
#![expect(clippy::print_stdout, reason = "its output is what it is for")]

mod approval;
mod many;
mod payload;
mod session;
mod steps;

use std::path::Path;
use std::process::ExitCode;

/// What every measurement ends with.
type Outcome = Result<serde_json::Value, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    // As programs do that keep sandboxes; the others measure what a library does by itself.
    if words.first().is_some_and(|first| ["many", "take", "session"].contains(first)) {
        ringfence::local::begin_prefork_server();
    }
    let number = |text: &str| text.parse::<usize>().unwrap_or(1);
    let outcome = match words.as_slice() {
        ["steps", project, rounds] => steps::measure(Path::new(project), number(rounds)),
        ["approval", project, rounds] => approval::measure(Path::new(project), number(rounds)),
        ["many" | "many-alone", project, count] => many::live(Path::new(project), number(count)),
        ["sustained", project, count] => many::sustained(Path::new(project), number(count)),
        ["take", project, rounds] => many::take(Path::new(project), number(rounds)),
        ["session", project, rounds, ringfence] => {
            session::measure(Path::new(project), number(rounds), ringfence)
        }
        ["opens", file, count] => payload::opens(Path::new(file), number(count)),
        ["wait", files @ ..] => payload::wait(files),
        _ => Err("see the documentation of this example".into()),
    };
    match outcome {
        Ok(value) => {
            println!("{value}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("{}", serde_json::json!({ "failed": error.to_string() }));
            ExitCode::FAILURE
        }
    }
}
