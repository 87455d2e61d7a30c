//! The steps of `cargo xtask test`, in order.

use std::process::{Command, ExitCode};

use anyhow::Result;

use crate::notes::Notes;
use crate::report::{Done, Report};
use crate::shell::{self, ScratchDir, TestRun};
use crate::{macos, mcp, packages, suites, tidy, unprivileged};

/// Runs all steps, or those of `only`.
pub(crate) fn run(only: Option<&str>) -> Result<ExitCode> {
    let mut report = Report::new(only);
    report.step("tools", packages::install_missing);
    report.step("tidy", tidy::check);
    report.step("fmt", || command(shell::cargo().args(["fmt", "--all", "--check"])));
    report.step("clippy", || {
        command(shell::cargo().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
    });
    report.step("docs", || {
        // Documentation here is for whoever reads the code, so links to private items are wanted.
        let flags = "-D warnings -A rustdoc::private_intra_doc_links";
        command(shell::cargo().env("RUSTDOCFLAGS", flags).args(["doc", "--workspace", "--no-deps"]))
    });
    report.step("fuzz", fuzz);
    report.step("macos", macos::check);
    report.step("deny", deny);
    report.step("tests", tests);
    report.step("doc-tests", || {
        with_notes(shell::cargo().args(["test", "--workspace", "--doc", "--no-fail-fast"]))
    });
    report.step("mcp-python", mcp::check_python);
    report.step("mcp-npm", mcp::check_npm);
    report.step("unprivileged", unprivileged::run);
    report.step("suites", suites::run);
    Ok(if report.finish() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs the tests of other people that these patterns name.
pub(crate) fn run_suites(patterns: &[&str]) -> Result<ExitCode> {
    let mut report = Report::new(None);
    report.step("suites", || suites::run_chosen(patterns));
    Ok(if report.finish() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn command(command: &mut Command) -> Result<Done> {
    shell::run(command)?;
    Ok(Done::passed())
}

/// The verdict on a test run; many lines of counts become one sum. What tests did not do is named.
pub(crate) fn judge(run: TestRun, said: &Notes) -> Result<Done> {
    let mut notes = match sum(&run.counts) {
        Some(total) => vec![total],
        None => run.counts,
    };
    notes.extend(said.lines());
    Ok(if run.passed {
        Done::Passed { notes }
    } else {
        Done::Failed { reason: "tests failed, see above".to_owned(), notes }
    })
}

fn tests() -> Result<Done> {
    let mut runner = shell::cargo();
    if packages::on_path("cargo-nextest") {
        runner.args([
            "nextest",
            "run",
            "--workspace",
            "--no-tests=pass",
            "--config-file",
            "xtask/nextest.toml",
        ]);
    } else {
        println!("cargo-nextest is not here; using cargo test");
        runner.args(["test", "--workspace", "--all-targets", "--no-fail-fast"]);
    }
    with_notes(&mut runner)
}

/// Runs tests that may say what they do not do here.
fn with_notes(runner: &mut Command) -> Result<Done> {
    let scratch = ScratchDir::new("notes")?;
    let notes = Notes::at(scratch.path().join("notes"));
    notes.hear(runner);
    judge(shell::run_tests(runner)?, &notes)
}

fn deny() -> Result<Done> {
    if !packages::on_path("cargo-deny") {
        return Ok(Done::skipped("cargo-deny is not installed: cargo install cargo-deny"));
    }
    command(shell::cargo().args(["deny", "check", "licenses", "bans", "sources"]))
}

/// Type-checks the programs for libFuzzer. What they run is run by the tests of `ringfence-fuzz`.
fn fuzz() -> Result<Done> {
    let cargo = |command: &str| {
        let mut cargo = shell::cargo();
        cargo.args([command, "--manifest-path", "fuzz/Cargo.toml"]);
        cargo
    };
    if let Err(error) = shell::run(&mut cargo("fetch")) {
        return Ok(Done::skipped(format!("libfuzzer-sys cannot be fetched: {error:#}")));
    }
    // Without libFuzzer itself, which is C++; and beside the workspace's own artifacts, to use them.
    command(cargo("check").args(["--bins", "--no-default-features", "--target-dir", "target"]))
}

/// `test result: ok. 3 passed; 0 failed; 1 ignored; …` of several binaries as one line of that form.
fn sum(counts: &[String]) -> Option<String> {
    let mut totals = [0u64; 3];
    for line in counts {
        let line = line.strip_prefix("test result:")?;
        for (total, word) in totals.iter_mut().zip(["passed", "failed", "ignored"]) {
            let before = line.split_once(&format!(" {word}"))?.0;
            *total += before.rsplit(' ').next()?.parse::<u64>().ok()?;
        }
    }
    let [passed, failed, ignored] = totals;
    let word = if failed == 0 { "ok" } else { "FAILED" };
    (!counts.is_empty()).then(|| {
        format!(
            "test result: {word}. {passed} passed; {failed} failed; {ignored} ignored ({} binaries)",
            counts.len()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counts_of_several_binaries_become_one_line() {
        let line = |passed, failed, ignored| {
            format!(
                "test result: ok. {passed} passed; {failed} failed; {ignored} ignored; 0 measured; finished in 0.1s"
            )
        };
        assert_eq!(
            sum(&[line(3, 0, 0), line(12, 0, 1)]).as_deref(),
            Some("test result: ok. 15 passed; 0 failed; 1 ignored (2 binaries)")
        );
        assert_eq!(
            sum(&[line(3, 1, 0)]).as_deref(),
            Some("test result: FAILED. 3 passed; 1 failed; 0 ignored (1 binaries)")
        );
    }

    #[test]
    fn other_lines_are_left_as_they_are() {
        assert_eq!(sum(&["Summary [ 1.2s] 3 tests run: 3 passed".to_owned()]), None);
        assert_eq!(sum(&[]), None);
    }
}
