//! Build automation, run as `cargo xtask COMMAND`.
//!
//! | module | what it does |
//! |---|---|
//! | [`test`](mod@test) | the steps of `cargo xtask test`, in order |
//! | [`report`] | runs steps, times them, prints the summary |
//! | [`shell`] | starts other programs; the only place that does |
//! | [`packages`] | the programs that tests need, and how to get them |
//! | [`notes`] | what tests wrote down that they did not do |
//! | [`macos`] | type-checks and lints for macOS from any machine |
//! | [`mcp`] | the server of the Model Context Protocol, tried by clients that are not ours |
//! | [`suites`] | other people's tests, bare and inside |
//! | [`unprivileged`] | runs the fence's tests again as an ordinary user |
//! | [`tidy`] | rules of the house that no compiler checks |
//! | [`workspace`] | what cargo knows about the workspace |
//! | [`bench`](mod@bench) | what the fence costs, measured side by side |
//! | [`release`] | the program as it is packaged |
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a terminal program for developers")]

mod bench;
mod macos;
mod mcp;
mod notes;
mod packages;
mod release;
mod report;
mod shell;
mod suites;
mod test;
mod tidy;
mod unprivileged;
mod workspace;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  test [--only STEP[,STEP]…]   everything a change must pass; the steps are
                               tools, tidy, fmt, clippy, docs, fuzz, macos, deny, tests, doc-tests, mcp-python,
                               mcp-npm, unprivileged, suites
  suites PATTERN…              other people's tests that it names (git/t1*, bash/*, python/test_os, program/*), bare and inside
  tidy                         only the rules of the house
  bench [NAME] [--quick]       interleaved comparisons; all of them without a NAME
  release                      the program for a package: the functions of a start side by side; needs root and lld
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["test"] => test::run(None),
        ["test", "--only", steps] => test::run(Some(steps)),
        ["suites", first, rest @ ..] => test::run_suites(&[&[*first], rest].concat()),
        ["tidy"] => test::run(Some("tidy")),
        ["bench", options @ ..] => bench::run(options),
        ["release"] => release::run().map(|_| ExitCode::SUCCESS),
        [bench::MEASURE_COMMAND] => bench::measure_for_parent(),
        [] | ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            Ok(ExitCode::SUCCESS)
        }
        _ => {
            eprint!("unknown arguments: {}\n\n{USAGE}", words.join(" "));
            Ok(ExitCode::from(2))
        }
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("xtask: {error:#}");
        ExitCode::FAILURE
    })
}
