//! The engine is killed in the middle of things: errors that say so, nothing that hangs, and everything there again afterwards.

use std::sync::Arc;
use std::time::Duration;

use ringfence_docker::DockerProvider;
use ringfence_docker::testing::{OwnEngine, TestEngine};
use ringfence_fence::{CreateOptions, Provider as _};
use ringfence_ledger::{Ledger, SandboxFilter, SandboxState};
use ringfence_model::{ErrorKind, ExecEvent, ExecRequest, PathRule, Policy};
use serde_json::{Value, json};

use super::support::{provider_options, room, run, text, wait};

struct Stage {
    _images: TestEngine,
    engine: OwnEngine,
    room: tempfile::TempDir,
    provider: Arc<DockerProvider>,
}

impl Stage {
    fn new() -> Option<Self> {
        let images = TestEngine::shared()?;
        let engine = OwnEngine::start(&images).unwrap();
        let room = room();
        std::fs::create_dir(room.path().join("project")).unwrap();
        Some(Self { _images: images, engine, room, provider: Arc::new(DockerProvider::default()) })
    }

    fn options(&self, docker: Value) -> CreateOptions {
        let project = self.room.path().canonicalize().unwrap().join("project");
        let mut policy = Policy::default();
        policy.filesystem.allow_write.push(PathRule::built_in(project.as_path()));
        let mut options = CreateOptions::new(project, policy);
        options.provider_options = provider_options(&self.engine.host(), docker);
        options.provider_options.set("ledger", json!(self.ledger()));
        options.hooks.scope_key = Some("agent:trouble".to_owned());
        options
    }

    fn ledger(&self) -> std::path::PathBuf {
        self.room.path().join("ledger.db")
    }

    fn rows(&self) -> Vec<ringfence_ledger::Sandbox> {
        Ledger::open(&self.ledger()).unwrap().sandboxes(&SandboxFilter::default()).unwrap()
    }
}

#[test]
fn an_engine_killed_while_a_command_runs_is_an_error_and_comes_back() {
    let Some(mut stage) = Stage::new() else {
        return;
    };
    let sandbox = wait(stage.provider.create(stage.options(json!({})))).unwrap();
    assert_eq!(run(&*sandbox, "echo kept > /workspace/file").exit_code, 0);
    let (started, has_started) = std::sync::mpsc::channel();
    let its = Arc::clone(&sandbox);
    let running = std::thread::spawn(move || {
        let request = ExecRequest::shell("echo started; sleep 1000");
        wait(its.execute(request, &|event| {
            if matches!(event, ExecEvent::Stdout(_)) {
                let _ = started.send(());
            }
        }))
    });
    has_started.recv_timeout(Duration::from_secs(60)).unwrap();
    stage.engine.kill();
    let error = running.join().unwrap().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unknown, "{error:?}");
    assert!(error.message.contains("while the command ran"), "{error}");
    assert!(!sandbox.is_alive());
    let error = wait(sandbox.execute(ExecRequest::shell("true"), &|_| ())).unwrap_err();
    assert_eq!(error.kind, ErrorKind::SandboxNotAvailable, "{error:?}");
    assert!(error.message.contains("nothing ran"), "{error}");
    wait(sandbox.dispose()).unwrap();

    let error = wait(stage.provider.create(stage.options(json!({})))).unwrap_err();
    assert_eq!(error.kind, ErrorKind::SandboxNotAvailable, "{error:?}");
    assert!(error.message.contains("nobody listens"), "{error}");
    assert_eq!(stage.rows().len(), 1, "nothing is lost");

    stage.engine.restart().unwrap();
    let again = wait(stage.provider.create(stage.options(json!({})))).unwrap();
    assert_eq!(text(&run(&*again, "cat /workspace/file").stdout), "kept\n");
    let rows = stage.rows();
    assert!(rows.len() == 1 && rows[0].state == SandboxState::Ready && rows[0].in_use, "{rows:?}");
    wait(again.dispose()).unwrap();
    assert!(!stage.rows()[0].in_use);
}

#[test]
fn an_engine_killed_while_a_container_is_made_is_an_error_and_the_next_one_is_made() {
    let Some(mut stage) = Stage::new() else {
        return;
    };
    let slow = json!({ "setupCommand": "touch /workspace/begun; sleep 1000" });
    let (provider, options) = (Arc::clone(&stage.provider), stage.options(slow));
    let making = std::thread::spawn(move || wait(provider.create(options)));
    let begun = stage.room.path().join("project/begun");
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while !begun.exists() {
        assert!(std::time::Instant::now() < deadline, "the set-up command does not run");
        std::thread::sleep(Duration::from_millis(10));
    }
    stage.engine.kill();
    let error = making.join().unwrap().unwrap_err();
    assert_ne!(error.kind, ErrorKind::Internal, "{error:?}");
    assert!(stage.rows().iter().all(|row| row.state != SandboxState::Ready), "{:?}", stage.rows());

    stage.engine.restart().unwrap();
    // What is left of it has another configuration, and does not run.
    let sandbox = wait(stage.provider.create(stage.options(json!({})))).unwrap();
    assert_eq!(text(&run(&*sandbox, "echo here").stdout), "here\n");
    wait(sandbox.dispose()).unwrap();
}
