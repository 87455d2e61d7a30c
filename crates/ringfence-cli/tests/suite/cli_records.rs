//! `ringfence log` and `ringfence violations`.

use std::io::Write as _;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringfence::ledger::{ExecutionEnd, ExecutionStart, Ledger, Nothing, Writer, WriterOptions, now_ms};
use ringfence::model::{Command, ErrorKind, Operation, Severity, Violation, ViolationKind};

use super::support::Room;

/// Writes an execution that ended with this code, that long ago.
fn record(room: &Room, command: &str, exit_code: i32, age: Duration) {
    let writer = Writer::spawn(&room.ringfence_home.join("ledger.db"), WriterOptions::new(Arc::new(Nothing)));
    let mut start = ExecutionStart::new(Command::Shell(command.to_owned()));
    start.id = ringfence::ledger::ExecutionId::at(now_ms() - u64::try_from(age.as_millis()).unwrap());
    start.project = Some(room.project.clone());
    let id = writer.start(start);
    if exit_code != 0 {
        writer.violation(Some(id), violation(command, now_ms() - u64::try_from(age.as_millis()).unwrap()));
    }
    let end =
        ExecutionEnd { exit_code: Some(exit_code), blocked: exit_code == 1, failure: None, ..failed(id) };
    writer.end(end);
    writer.close();
}

fn failed(id: ringfence::ledger::ExecutionId) -> ExecutionEnd {
    ExecutionEnd::failed(id, "cannot start")
}

fn violation(command: &str, time_ms: u64) -> Violation {
    let high = command.contains("ssh");
    Violation {
        kind: if high { ViolationKind::SensitiveFileAccess } else { ViolationKind::PathAccessDenied },
        severity: if high { Severity::High } else { Severity::Medium },
        operation: Operation::Open,
        resource: "/home/u/.ssh/id_rsa".to_owned(),
        access: None,
        reason: None,
        rule: None,
        rule_source: None,
        pid: None,
        program: None,
        argv: vec![],
        time_ms,
        certain: true,
        blocked: true,
        message: format!("refused in {command}"),
        connection: None,
    }
}

const HOUR: Duration = Duration::from_secs(3600);

fn sample() -> Room {
    let room = Room::new();
    record(&room, "old work", 0, HOUR * 24 * 3);
    record(&room, "cat ~/.ssh/id_rsa", 1, HOUR * 2);
    record(&room, "false", 3, Duration::from_secs(90));
    record(&room, "cargo test", 0, Duration::from_secs(5));
    room
}

fn commands(room: &Room, arguments: &[&str]) -> Vec<String> {
    let json = room.run(&[arguments, &["--json"]].concat()).expect(0).json();
    json.as_array().unwrap().iter().map(|record| record["command"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn no_ledger_means_nothing_yet() {
    let room = Room::new();
    for command in ["log", "violations"] {
        let ran = room.run(&[command]).expect(0);
        assert!(ran.stdout.is_empty() && ran.stderr.contains("nothing has been recorded yet"), "{ran:?}");
        assert_eq!(room.run(&[command, "--json"]).expect(0).json(), serde_json::json!([]));
        assert_eq!(room.run(&[command, "--jsonl"]).expect(0).stdout, "");
    }
    assert_eq!(room.run(&["violations", "--summary"]).expect(0).stdout, "no violations\n");
    assert!(!room.ringfence_home.exists(), "looking makes nothing");
}

#[test]
fn the_log_is_a_table_with_ages_newest_first() {
    let room = sample();
    let ran = room.run(&["log"]).expect(0);
    let rows: Vec<&str> = ran.stdout.lines().collect();
    assert!(rows[0].starts_with("WHEN"), "{}", ran.stdout);
    for (row, parts) in [
        (1, ["s ago", "ok", "project", "cargo test"]),
        (2, ["1m ago", "exit 3", "project", "false"]),
        (3, ["2h ago", "exit 1, blocked", "project", "cat ~/.ssh/id_rsa"]),
        (4, ["3d ago", "ok", "project", "old work"]),
    ] {
        assert!(parts.iter().all(|part| rows[row].contains(part)), "{}", rows[row]);
    }
}

#[test]
fn the_log_is_narrowed_down() {
    let room = sample();
    assert_eq!(commands(&room, &["log", "--since", "1h"]), ["cargo test", "false"]);
    assert_eq!(commands(&room, &["log", "--since", "2020-01-01", "--limit", "1"]), ["cargo test"]);
    assert_eq!(commands(&room, &["log", "--failed"]), ["false", "cat ~/.ssh/id_rsa"]);
    assert_eq!(commands(&room, &["log", "--failed", "--limit", "1"]), ["false"]);
    assert_eq!(commands(&room, &["log", "--blocked"]), ["cat ~/.ssh/id_rsa"]);
    assert!(commands(&room, &["log", "--since", "2999-01-01"]).is_empty());
    assert!(room.run(&["log", "--since", "2999-01-01"]).expect(0).stderr.contains("nothing matches"));
    assert!(room.run(&["log", "--since", "soon"]).expect(2).stderr.contains("an age (90s"));
}

#[test]
fn json_lines_are_one_value_each() {
    let room = sample();
    let ran = room.run(&["log", "--jsonl"]).expect(0);
    let lines: Vec<serde_json::Value> =
        ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 4);
    assert_eq!(lines[0]["status"], "finished");
    assert_eq!(lines[0]["exitCode"], 0);
}

#[test]
fn a_command_cannot_steer_the_terminal_of_its_reader() {
    let room = Room::new();
    record(&room, "echo \u{1b}]0;owned\u{7}\nsecond line", 0, Duration::ZERO);
    let ran = room.run(&["log"]).expect(0);
    assert!(!ran.stdout.contains('\u{1b}') && !ran.stdout.contains('\u{7}'));
    assert_eq!(ran.stdout.lines().count(), 2, "one line for one record: {}", ran.stdout);
}

#[test]
fn violations_are_listed_filtered_and_counted() {
    let room = sample();
    let table = room.run(&["violations"]).expect(0).stdout;
    assert!(
        table.contains("sensitive_file_access") && table.contains("refused in cat ~/.ssh/id_rsa"),
        "{table}"
    );
    let kinds = |arguments: &[&str]| -> Vec<String> {
        let json = room.run(&[&["violations", "--json"], arguments].concat()).expect(0).json();
        json.as_array().unwrap().iter().map(|v| v["violation"]["kind"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(kinds(&[]), ["path_access_denied", "sensitive_file_access"]);
    assert_eq!(kinds(&["--severity", "high"]), ["sensitive_file_access"]);
    assert_eq!(kinds(&["--kind", "path_access_denied"]), ["path_access_denied"]);
    assert_eq!(kinds(&["--since", "1h"]), ["path_access_denied"]);
    assert_eq!(kinds(&["--limit", "1"]), ["path_access_denied"]);
    room.run(&["violations", "--kind", "nonsense"]).expect(2);

    let counts = room.run(&["violations", "--summary", "--json"]).expect(0).json();
    assert_eq!(counts["total"], 2);
    assert_eq!(counts["bySeverity"]["high"], 1);
    assert_eq!(counts["byKind"]["path_access_denied"], 1);
    let text = room.run(&["violations", "--summary", "--since", "1h"]).expect(0).stdout;
    assert!(text.starts_with("1 violation, 1 of them stopped\n"), "{text}");
}

#[test]
fn a_damaged_ledger_is_an_error_with_a_way_out() {
    let room = Room::new();
    room.write(room.ringfence_home.join("ledger.db"), &"this is no database ".repeat(100));
    let ran = room.run(&["log"]).expect(125);
    assert!(ran.stderr.contains("is damaged") && ran.stderr.contains("hint: move it away"), "{}", ran.stderr);
    assert!(matches!(
        Ledger::open_read_only(&room.ringfence_home.join("ledger.db")).unwrap_err().kind,
        ErrorKind::Internal
    ));
}

#[test]
fn what_run_did_is_in_the_log() {
    let room = Room::new();
    if !room.has_fence() {
        return;
    }
    room.write(room.home.join(".ssh/id_rsa"), "key");
    let path = room.home.join(".ssh/id_rsa");
    room.run(&["run", "--quiet", "--", "cat", path.to_str().unwrap()]).expect(1);
    let newest = &room.run(&["log", "--limit", "1", "--json"]).expect(0).json()[0];
    assert_eq!(newest["exitCode"], 1);
    assert_eq!(newest["blocked"], true);
    let refused = &room.run(&["violations", "--limit", "1", "--json"]).expect(0).json()[0];
    assert_eq!(refused["violation"]["resource"], path.to_str().unwrap());
    assert_eq!(refused["executionId"], newest["id"]);
}

#[test]
fn a_run_that_was_cut_off_is_visible() {
    let room = Room::new();
    if !room.has_fence() {
        return;
    }
    let status = || room.run(&["log", "--limit", "1", "--json"]).expect(0).json()[0]["status"].clone();
    let mut child = room.command(&["run", "--", "sleep", "60"]).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while status() != "running" {
        assert!(Instant::now() < deadline, "it never showed up as running");
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(status(), "interrupted");
    let table = room.run(&["log", "--limit", "1"]).expect(0).stdout;
    assert!(table.contains("interrupted") && table.contains("sleep 60"), "{table}");
    assert!(commands(&room, &["log", "--failed"]).contains(&"sleep 60".to_owned()));
}

/// Everything that the ledger consists of, as bytes.
fn ledger_bytes(room: &Room) -> Vec<u8> {
    let files = std::fs::read_dir(&room.ringfence_home).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.is_file()).flat_map(|path| std::fs::read(path).unwrap()).collect()
}

#[test]
fn a_secret_in_a_command_is_recorded_nowhere() {
    const SECRET: &str = "Zq9-treasure-value";
    let room = Room::new();
    let echo = format!("echo {SECRET} > /dev/null");
    let with_secret = |arguments: &[&str]| {
        let mut command = room.command(arguments);
        command.env("MY_API_TOKEN", SECRET);
        command
    };
    assert!(with_secret(&["run", "-c", &echo]).status().unwrap().success());
    let mut session = with_secret(&["session"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let line = serde_json::json!({ "id": 1, "command": echo });
    writeln!(session.stdin.take().unwrap(), "{line}").unwrap();
    assert!(session.wait().unwrap().success());
    let bytes = ledger_bytes(&room);
    assert!(bytes.windows(10).any(|part| part == b"<redacted>"));
    assert!(!bytes.windows(SECRET.len()).any(|part| part == SECRET.as_bytes()));
}

#[test]
fn records_are_found_by_project_session_path_and_command() {
    let room = Room::new();
    room.write(".env", "x");
    room.write("sub_env/.env", "x");
    for text in ["cat .env", "cat sub_env/.env"] {
        room.run(&["run", "--no-gate", "-c", text]);
    }
    let resources = |options: &[&str]| -> Vec<String> {
        let ran = room.run(&[&["violations", "--json"], options].concat()).expect(0);
        let found = ran.json();
        let found = found.as_array().unwrap().iter();
        found.map(|found| found["violation"]["resource"].as_str().unwrap().to_owned()).collect()
    };
    let (one, two) = (room.project.join(".env"), room.project.join("sub_env/.env"));
    let (one, two) = (one.display().to_string(), two.display().to_string());
    let project = room.project.display().to_string();
    assert_eq!(resources(&["--project", &project]), [two.as_str(), one.as_str()]);
    assert_eq!(resources(&["--project", "/"]), [""; 0]);
    assert_eq!(resources(&["--session", "nobody"]), [""; 0]);
    assert_eq!(resources(&["--path", "sub_env"]), [two.as_str()]);
    assert_eq!(resources(&["--path", "sub%env"]), [""; 0]);
    assert_eq!(resources(&["--path", &one]), [one.as_str()]);
    let log = room.run(&["log", "--project", "."]).expect(0);
    let first = log.stdout.lines().find(|line| line.ends_with("cat .env")).unwrap();
    let id =
        first.split_whitespace().find(|word| word.len() == 8 && word.chars().all(|c| c.is_ascii_hexdigit()));
    assert_eq!(resources(&["--of-command", id.unwrap()]), [one]);
    room.run(&["log", "--project", "/"]).expect(0);
}
