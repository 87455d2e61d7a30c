//! Refusals, from the log and from the command's own words.

use std::path::Path;

use ringfence_model::{Access, DenyReason, ErrorKind, Filesystem, Operation, ViolationKind};
use ringfence_seatbelt::denial::{DEFAULT_REASON, log_command};
use ringfence_seatbelt::{Denial, Outcome, effective};

use crate::profile::{env, usual};

const PREFIX: &str = "2026-11-15 10:11:12.345 E  kernel[0:1f2e] (Sandbox) ";

fn filesystem() -> Filesystem {
    effective(&usual(), &env())
}

fn failed(stderr: &str) -> Outcome<'_> {
    Outcome { exit_code: 1, stderr: stderr.as_bytes(), directory: Path::new("/Users/u/project") }
}

#[test]
fn a_line_of_the_log_is_read() {
    let line = format!("{PREFIX}Sandbox: cat(512) deny(1) file-read-data /Users/u/.ssh/id rsa");
    let denial = Denial::parse(&line, None).unwrap();
    assert_eq!(denial.process.as_deref(), Some("cat"));
    assert_eq!(denial.pid, Some(512));
    assert_eq!(denial.operation, "file-read-data");
    assert_eq!(denial.resource.as_deref(), Some("/Users/u/.ssh/id rsa"));
    assert_eq!((denial.count, denial.reason().as_str()), (1, "deny file-read-data"));
}

#[test]
fn odd_lines_of_the_log_are_read() {
    let denial = Denial::parse("deny(1) file-read-data /path", None).unwrap();
    assert_eq!((denial.pid, denial.resource.as_deref()), (None, Some("/path")));
    let line =
        format!("{PREFIX}3 duplicate reports for Sandbox: my (app)(7) deny(2) mach-lookup com.apple.x");
    let denial = Denial::parse(&line, None).unwrap();
    assert_eq!((denial.process.as_deref(), denial.pid, denial.count), (Some("my (app)"), Some(7), 3));
    let tagged = format!("{PREFIX}Sandbox: sh(7) deny(1) file-write-create /x rf-9");
    assert_eq!(Denial::parse(&tagged, Some("rf-9")).unwrap().resource.as_deref(), Some("/x"));
    assert_eq!(Denial::parse("Sandbox: sh(7) deny(1) process-fork", None).unwrap().resource, None);
}

#[test]
fn a_certain_violation_names_its_rule() {
    let violation = Denial::parse("Sandbox: cat(5) deny(1) file-read-data /Users/u/.ssh/id_rsa", None)
        .unwrap()
        .violation(&filesystem(), 42);
    assert!(violation.certain && violation.blocked);
    assert_eq!(violation.kind, ViolationKind::SensitiveFileAccess);
    assert_eq!((violation.operation, violation.access), (Operation::Open, Some(Access::Read)));
    assert_eq!(violation.reason, Some(DenyReason::Denied));
    assert_eq!(violation.rule.as_deref(), Some("/Users/u/.ssh"));
    assert_eq!((violation.pid, violation.program.as_deref(), violation.time_ms), (Some(5), Some("cat"), 42));
}

#[test]
fn operations_have_their_names_in_the_model() {
    for (operation, want, kind) in [
        ("file-write-create /x", Operation::Create, ViolationKind::PathAccessDenied),
        ("file-write-unlink /x", Operation::Remove, ViolationKind::PathAccessDenied),
        ("file-read-metadata /x", Operation::Stat, ViolationKind::PathAccessDenied),
        ("file-write-mode /x", Operation::Chmod, ViolationKind::PathAccessDenied),
        ("file-link /x", Operation::Link, ViolationKind::PathAccessDenied),
        ("process-exec* /x", Operation::Execute, ViolationKind::PathAccessDenied),
        ("network-outbound 127.0.0.1:80", Operation::Connect, ViolationKind::NetworkViolation),
        ("mach-lookup com.apple.x", Operation::Syscall, ViolationKind::SyscallDenied),
        ("signal", Operation::Signal, ViolationKind::SyscallDenied),
    ] {
        let line = format!("Sandbox: sh(1) deny(1) {operation}");
        let violation = Denial::parse(&line, None).unwrap().violation(&filesystem(), 0);
        assert_eq!((violation.operation, violation.kind), (want, kind), "{operation}");
    }
}

#[test]
fn ordinary_text_is_no_violation() {
    for text in [
        "error: sandbox tests failed",
        "we deny everything in the sandbox",
        "Sandbox: done",
        "access denied (deny rule 1)",
        "deny(1) everything",
        "deny(x) file-read-data /Users/u/.ssh/id_rsa",
        "assert failed: deny(1) file-read-data",
        "Sandbox: cat deny(1) file-read-data /Users/u/.ssh/id_rsa",
        "Permission denied",
        "cat: /Users/u/project/x: Permission denied",
        "cat: /Users/u/project/x: Operation not permitted",
        "chown: Operation not permitted",
        "the manual says \"Operation not permitted\" means EPERM",
    ] {
        assert!(!failed(text).is_violation(&filesystem()), "{text}");
        assert_eq!(failed(text).resource(&filesystem()), None, "{text}");
    }
}

#[test]
fn a_command_that_succeeded_has_no_violation_in_its_text() {
    let outcome = Outcome { exit_code: 0, ..failed("cat: /Users/u/.ssh/id_rsa: Operation not permitted\n") };
    assert!(!outcome.is_violation(&filesystem()));
}

#[test]
fn the_text_fallback_finds_reason_and_resource_and_is_uncertain() {
    for (text, resource, reason) in [
        (
            "cat: /Users/u/.ssh/id_rsa: Operation not permitted\n",
            "/Users/u/.ssh/id_rsa",
            "Operation not permitted",
        ),
        (
            "x\nls: '/Users/u/my files': Operation not permitted",
            "/Users/u/my files",
            "Operation not permitted",
        ),
        ("bash: .env: Operation not permitted", "/Users/u/project/.env", "Operation not permitted"),
        (
            "bash: sub/../.git/hooks/x: Operation not permitted",
            "/Users/u/project/.git/hooks/x",
            "Operation not permitted",
        ),
        ("cat: /etc/passwd: Operation not permitted", "/private/etc/passwd", "Operation not permitted"),
        ("Sandbox: cat(5) deny(1) file-read-data /Users/u/.aws/x", "/Users/u/.aws/x", "deny file-read-data"),
    ] {
        let outcome = failed(text);
        assert!(outcome.is_violation(&filesystem()), "{text}");
        assert_eq!(outcome.resource(&filesystem()).as_deref(), Some(resource), "{text}");
        assert_eq!(outcome.reason(&filesystem()), reason, "{text}");
        assert!(!outcome.violation(&filesystem(), 0).unwrap().certain, "{text}");
    }
    let written = failed("bash: .git/hooks/x: Operation not permitted").violation(&filesystem(), 0).unwrap();
    assert_eq!((written.access, written.reason), (Some(Access::Write), Some(DenyReason::Protected)));
}

#[test]
fn a_forged_line_of_the_log_is_not_believed_about_what_is_allowed() {
    assert!(!failed("Sandbox: cat(5) deny(1) file-read-data /Users/u/project/x").is_violation(&filesystem()));
}

#[test]
fn without_a_reason_there_is_a_default_one() {
    assert_eq!(failed("").reason(&filesystem()), DEFAULT_REASON);
}

#[test]
fn a_failure_of_the_tool_itself_is_no_violation_but_a_denied_start() {
    let text = "sandbox-exec: sandbox_apply: Operation not permitted\n";
    let outcome = Outcome { exit_code: 71, ..failed(text) };
    let error = outcome.start_failure().unwrap();
    assert_eq!(error.kind, ErrorKind::SandboxDenied);
    assert_eq!(error.message, "sandbox-exec: sandbox_apply: Operation not permitted");
    assert!(failed(text).start_failure().is_none(), "a command may print that too");
    assert!(!outcome.is_violation(&filesystem()));
}

#[test]
fn the_log_is_asked_for_our_refusals() {
    let command = log_command(Some("rf-9"));
    assert_eq!(command[0], "/usr/bin/log");
    assert!(command.last().unwrap().contains("eventMessage CONTAINS \"rf-9\""));
}
