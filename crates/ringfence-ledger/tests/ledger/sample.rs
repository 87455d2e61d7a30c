//! Things that many tests need.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use ringfence_ledger::{ExecutionStart, Ledger, NewSandbox, Writer, WriterOptions};
use ringfence_model::{
    Access, Assurance, Command, ExecResult, Layer, Operation, PolicyMode, Violation, ViolationKind,
};

/// A home of its own that disappears with the value.
pub(crate) struct Home {
    pub(crate) directory: tempfile::TempDir,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("home/ledger.db")
    }

    pub(crate) fn open(&self) -> Ledger {
        Ledger::open(&self.path()).unwrap()
    }
}

/// The problems a writer told about.
#[derive(Clone, Default)]
pub(crate) struct Problems(Arc<Mutex<Vec<String>>>);

impl Problems {
    pub(crate) fn options(&self) -> WriterOptions {
        let told = Arc::clone(&self.0);
        WriterOptions {
            on_problem: Box::new(move |problem| told.lock().unwrap().push(problem.chain())),
            ..WriterOptions::new(std::sync::Arc::new(ringfence_ledger::Nothing))
        }
    }

    pub(crate) fn told(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

pub(crate) fn writer(home: &Home) -> Writer {
    let panic_on_problem = WriterOptions {
        on_problem: Box::new(|problem| panic!("{}", problem.chain())),
        ..WriterOptions::new(std::sync::Arc::new(ringfence_ledger::Nothing))
    };
    Writer::spawn(&home.path(), panic_on_problem)
}

pub(crate) fn shell(text: &str) -> ExecutionStart {
    ExecutionStart::new(Command::Shell(text.to_owned()))
}

pub(crate) fn result(exit_code: i32) -> ExecResult {
    ExecResult {
        stdout: b"not stored".to_vec(),
        exit_code,
        duration_ms: 3.5,
        ..ExecResult::silent(Assurance {
            requested: PolicyMode::Restricted,
            effective: PolicyMode::Restricted,
            active: true,
            adapter: "local/native".to_owned(),
            layers: vec![Layer::UserNamespace, Layer::Landlock],
            degraded: vec![ringfence_model::Degradation::note("no cgroup")],
        })
    }
}

pub(crate) fn violation(kind: ViolationKind, resource: &str, time_ms: u64) -> Violation {
    Violation {
        kind,
        severity: kind.default_severity(),
        operation: Operation::Open,
        resource: resource.to_owned(),
        access: Some(Access::Read),
        reason: None,
        rule: None,
        rule_source: None,
        pid: Some(7),
        program: Some("cat".to_owned()),
        argv: vec!["cat".to_owned(), resource.to_owned()],
        time_ms,
        certain: true,
        blocked: true,
        message: format!("read of {resource} denied"),
        connection: None,
    }
}

pub(crate) fn sandbox(name: &str) -> NewSandbox {
    NewSandbox {
        name: name.to_owned(),
        provider: "docker".to_owned(),
        session_key: format!("session-of-{name}"),
        scope: "session".to_owned(),
        image: "ringfence:1".to_owned(),
        config_hash: "hash-1".to_owned(),
        ..NewSandbox::default()
    }
}
