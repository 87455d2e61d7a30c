//! What is written comes back, filtered as asked.

use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use ringfence_ledger::{
    Decided, Event, ExecutionEnd, ExecutionFilter, ExecutionId, ExecutionStart, GrantSet, Granted, Ledger,
    Secrets, Status, ViolationFilter, Writer, WriterOptions,
};
use ringfence_model::{Access, Command, Decision, ErrorKind, Grant, GrantScope, Severity, ViolationKind};
use serde_json::json;

use crate::sample::{Home, result, shell, violation, writer};

#[test]
fn an_execution_comes_back_with_all_its_fields() {
    let home = Home::new();
    let recorder = writer(&home);
    let id = recorder.start(ExecutionStart {
        cwd: Some(PathBuf::from("/p/src")),
        project: Some(PathBuf::from("/p")),
        session_key: Some("agent:main".to_owned()),
        ..ExecutionStart::new(Command::Argv(vec!["echo".into(), "it's".into()]))
    });
    let mut outcome = result(3);
    outcome.violations = vec![violation(ViolationKind::SensitiveFileAccess, "/home/u/.ssh/id", 5)];
    outcome.blocked = true;
    recorder.finish(id, &outcome);
    recorder.close();

    let ledger = home.open();
    let execution = ledger.execution(id).unwrap().unwrap();
    assert_eq!(execution.status, Status::Finished);
    assert_eq!(execution.command, r"echo 'it'\''s'");
    assert_eq!(execution.argv.as_deref(), Some(&["echo".to_owned(), "it's".to_owned()][..]));
    assert_eq!((execution.cwd.as_deref(), execution.project.as_deref()), (Some("/p/src"), Some("/p")));
    assert_eq!((execution.exit_code, execution.blocked, execution.timed_out), (Some(3), true, false));
    assert_eq!(
        (execution.adapter.as_deref(), execution.launcher.as_deref()),
        (Some("local/native"), Some("native"))
    );
    assert_eq!(execution.layers, ["userNamespace", "landlock"]);
    assert_eq!(execution.degraded, [ringfence_model::Degradation::note("no cgroup")]);
    assert_eq!(execution.duration_ms, Some(3.5));
    assert!(execution.finished_ms.unwrap() >= execution.started_ms);
    assert_eq!(execution.owner_pid, std::process::id());

    let violations =
        ledger.violations(&ViolationFilter { execution: Some(id), ..Default::default() }).unwrap();
    assert_eq!(violations[0].violation, outcome.violations[0]);
    assert_eq!(violations[0].command.as_deref(), Some(r"echo 'it'\''s'"));
}

#[test]
fn one_that_never_ran_says_why() {
    let home = Home::new();
    let recorder = writer(&home);
    let id = recorder.start(shell("true"));
    recorder.end(ExecutionEnd::failed(id, "no fence can start"));
    drop(recorder);
    let execution = home.open().execution(id).unwrap().unwrap();
    assert_eq!(
        (execution.status, execution.failure.as_deref()),
        (Status::Failed, Some("no fence can start"))
    );
}

#[test]
fn executions_are_filtered_by_time_and_number() {
    let home = Home::new();
    let recorder = writer(&home);
    for time in [1_000_000, 2_000_000, 3_000_000] {
        recorder.start(ExecutionStart { id: ExecutionId::at(time), ..shell(&time.to_string()) });
    }
    drop(recorder);
    let ledger = home.open();
    let commands = |filter| -> Vec<String> {
        ledger.executions(&filter).unwrap().into_iter().map(|execution| execution.command).collect()
    };
    assert_eq!(commands(ExecutionFilter::default()), ["3000000", "2000000", "1000000"]);
    assert_eq!(
        commands(ExecutionFilter { since_ms: Some(2_000_000), ..Default::default() }),
        ["3000000", "2000000"]
    );
    assert_eq!(commands(ExecutionFilter { limit: Some(1), ..Default::default() }), ["3000000"]);
    assert!(commands(ExecutionFilter { project: Some("/p".to_owned()), ..Default::default() }).is_empty());
}

#[test]
fn violations_are_filtered_and_counted() {
    let home = Home::new();
    let recorder = writer(&home);
    for (kind, time) in [
        (ViolationKind::SensitiveFileAccess, 10),
        (ViolationKind::SensitiveFileAccess, 20),
        (ViolationKind::NetworkViolation, 30),
        (ViolationKind::CriticalPathRemoval, 40),
    ] {
        recorder.violation(None, violation(kind, &time.to_string(), time));
    }
    drop(recorder);
    let ledger = home.open();
    let resources = |filter| -> Vec<String> {
        ledger.violations(&filter).unwrap().into_iter().map(|found| found.violation.resource).collect()
    };
    let all = ViolationFilter::default();
    assert_eq!(resources(all.clone()), ["40", "30", "20", "10"]);
    assert_eq!(resources(ViolationFilter { since_ms: Some(30), ..all.clone() }), ["40", "30"]);
    assert_eq!(
        resources(ViolationFilter { kind: Some(ViolationKind::SensitiveFileAccess), ..all.clone() }),
        ["20", "10"]
    );
    assert_eq!(
        resources(ViolationFilter { at_least: Some(Severity::High), ..all.clone() }),
        ["40", "20", "10"]
    );
    assert_eq!(resources(ViolationFilter { limit: Some(2), ..all }), ["40", "30"]);

    let counts = ledger.count_violations(None).unwrap();
    assert_eq!((counts.total, counts.blocked), (4, 4));
    assert_eq!(counts.by_kind["sensitive_file_access"], 2);
    assert_eq!(counts.by_severity[&Severity::Critical], 1);
    assert_eq!(ledger.count_violations(Some(30)).unwrap().total, 2);
}

fn grant(path: PathBuf, scope: GrantScope) -> Grant {
    Grant { path, access: Access::Read, scope, recursive: false }
}

#[test]
fn grants_are_listed_exactly_and_can_be_revoked() {
    let home = Home::new();
    let mut ledger = home.open();
    let odd = PathBuf::from(std::ffi::OsString::from_vec(b"/tmp/\xff".to_vec()));
    let permanent = Granted::new(grant(odd.clone(), GrantScope::Permanent));
    let session = Granted {
        session_key: Some("s".to_owned()),
        ..Granted::new(grant("/a".into(), GrantScope::Session))
    };
    ledger.add_grant(&permanent).unwrap();
    let recorder = writer(&home);
    recorder.grant(session.clone());
    recorder.grant(Granted::new(grant("/b".into(), GrantScope::Once)));
    drop(recorder);

    let active = ledger.grants(GrantSet::Active).unwrap();
    assert_eq!(active, [session.clone(), permanent.clone()]);
    assert_eq!(active[1].grant.path, odd);
    assert_eq!(ledger.grants(GrantSet::All).unwrap().len(), 3);

    assert!(ledger.revoke_grant(permanent.id, 99).unwrap());
    assert!(!ledger.revoke_grant(permanent.id, 100).unwrap(), "only once");
    assert_eq!(ledger.grants(GrantSet::Active).unwrap(), [session]);
    assert_eq!(ledger.revoke_session_grants("s", 101).unwrap(), 1);
    assert!(ledger.grants(GrantSet::Active).unwrap().is_empty());
    let all = ledger.grants(GrantSet::All).unwrap();
    assert_eq!(all.iter().find(|granted| granted.id == permanent.id).unwrap().revoked_ms, Some(99));
}

fn decided(resource: &str, time_ms: u64) -> Decided {
    Decided {
        time_ms,
        execution_id: None,
        decision: Decision::AllowSession,
        kind: "filesystem".to_owned(),
        resource: resource.to_owned(),
        access: Some(Access::Write),
        reason: Some("on the deny list".to_owned()),
        command: Some("cat x".to_owned()),
        key: None,
        by: "terminal".to_owned(),
    }
}

#[test]
fn decisions_and_events_come_back() {
    let home = Home::new();
    let recorder = writer(&home);
    recorder.decision(decided("/a", 1));
    recorder.decision(decided("/b", 2));
    recorder.event(Event {
        time_ms: 3,
        execution_id: None,
        kind: "rebuilt".to_owned(),
        body: json!({"n": 1}),
    });
    drop(recorder);
    let ledger = home.open();
    assert_eq!(ledger.decisions(None, None).unwrap(), [decided("/b", 2), decided("/a", 1)]);
    assert_eq!(ledger.decisions(Some(2), Some(5)).unwrap(), [decided("/b", 2)]);
    assert_eq!(ledger.events(None, None).unwrap()[0].body, json!({"n": 1}));
}

#[test]
fn known_secrets_never_reach_the_file() {
    let home = Home::new();
    let secret = "hunter2'hunter2";
    let options = WriterOptions {
        redact: Arc::new(Secrets::new([secret])),
        ..WriterOptions::new(std::sync::Arc::new(ringfence_ledger::Nothing))
    };
    let recorder = Writer::spawn(&home.path(), options);
    let argv = ["curl", "-H", &format!("token: {secret}")].map(Into::into).to_vec();
    let id = recorder.start(ExecutionStart {
        cwd: Some(PathBuf::from(format!("/tmp/{secret}"))),
        ..ExecutionStart::new(Command::Argv(argv))
    });
    recorder.start(shell(&format!("echo \"{secret}\"")));
    recorder.violation(Some(id), violation(ViolationKind::PathAccessDenied, secret, 1));
    recorder.decision(decided(secret, 1));
    recorder.event(Event::now("x", json!({ secret: [secret] })));
    recorder.end(ExecutionEnd::failed(id, format!("cannot use {secret}")));
    drop(recorder);
    for file in std::fs::read_dir(home.path().parent().unwrap()).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        assert!(!bytes.windows(7).any(|window| window == b"hunter2"));
    }
    assert_eq!(home.open().execution(id).unwrap().unwrap().command, "curl -H 'token: <redacted>'");
}

#[test]
fn export_is_one_json_object_per_line_oldest_first() {
    let home = Home::new();
    let recorder = writer(&home);
    let first = recorder.start(ExecutionStart { id: ExecutionId::at(1000), ..shell("first") });
    recorder.start(ExecutionStart { id: ExecutionId::at(2000), ..shell("second") });
    recorder.violation(Some(first), violation(ViolationKind::NetworkViolation, "1.1.1.1:53", 1500));
    recorder.decision(decided("/a", 1600));
    recorder.grant(Granted::new(grant("/a".into(), GrantScope::Session)));
    drop(recorder);
    let mut ledger = home.open();
    ledger.upsert(&crate::sample::sandbox("box"), 1700).unwrap();
    let mut out = Vec::new();
    assert_eq!(ledger.export(None, &mut out).unwrap(), 6);
    let lines: Vec<serde_json::Value> =
        String::from_utf8(out).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let types: Vec<_> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["execution", "execution", "violation", "decision", "grant", "sandbox"]);
    assert_eq!(lines[0]["command"], "first");
    assert_eq!(lines[2]["executionId"], first.to_string());
    assert_eq!(lines[5]["createdAtMs"], 1700);
}

#[test]
fn old_records_can_be_forgotten() {
    let home = Home::new();
    let recorder = writer(&home);
    recorder.start(ExecutionStart { id: ExecutionId::at(1000), ..shell("old") });
    recorder.start(ExecutionStart { id: ExecutionId::at(5000), ..shell("new") });
    recorder.violation(None, violation(ViolationKind::NetworkViolation, "x", 1000));
    drop(recorder);
    let mut ledger = home.open();
    assert_eq!(ledger.forget_before(2000).unwrap(), 2);
    let left = ledger.executions(&ExecutionFilter::default()).unwrap();
    assert_eq!(left.iter().map(|execution| &*execution.command).collect::<Vec<_>>(), ["new"]);
}

#[test]
fn files_are_private() {
    let home = Home::new();
    drop(home.open());
    writer(&home).start(shell("true"));
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let directory = home.path().parent().unwrap().to_owned();
    assert_eq!(mode(&directory), 0o700);
    for file in std::fs::read_dir(&directory).unwrap() {
        assert_eq!(mode(&file.unwrap().path()), 0o600);
    }
    std::fs::set_permissions(home.path(), std::fs::Permissions::from_mode(0o644)).unwrap();
    drop(home.open());
    assert_eq!(mode(&home.path()), 0o600, "a wider mode is narrowed");
}

#[test]
fn reading_needs_an_existing_ledger() {
    let home = Home::new();
    assert_eq!(Ledger::open_read_only(&home.path()).unwrap_err().kind, ErrorKind::NotFound);
    writer(&home).start(shell("true"));
    let ledger = Ledger::open_read_only(&home.path()).unwrap();
    assert_eq!(ledger.executions(&ExecutionFilter::default()).unwrap().len(), 1);
}
