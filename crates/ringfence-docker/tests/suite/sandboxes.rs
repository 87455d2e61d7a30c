//! Sandboxes that are containers.

use std::time::Duration;

use ringfence_model::{ErrorKind, ExecRequest};
use serde_json::json;

use super::support::{World, run, text, wait};

#[test]
fn a_shell_remembers_and_a_refusal_is_exact() {
    let Some(world) = World::new() else { return };
    std::fs::write(world.project.join(".env"), "canary").unwrap();
    let sandbox = world.sandbox();
    let result = run(&*sandbox, "cd /tmp && export NAME=fence && f() { echo \"$NAME in $PWD\"; }");
    assert_eq!(result.exit_code, 0, "{result:?}");
    assert_eq!(text(&run(&*sandbox, "f").stdout), "fence in /tmp\n");
    let result = run(&*sandbox, "cat /workspace/.env");
    let on_the_host = world.project.join(".env").display().to_string();
    assert_eq!(result.blocked_resource, Some(on_the_host), "{result:?}");
    assert!(result.blocked && !text(&result.stdout).contains("canary"), "{result:?}");
    let result = run(&*sandbox, "echo made > /workspace/file; id -u");
    assert_eq!(std::fs::read_to_string(world.project.join("file")).unwrap(), "made\n", "{result:?}");
}

#[test]
fn a_simple_sandbox_has_a_fresh_container_for_each_command() {
    let Some(world) = World::new() else { return };
    let mut options = world.options(json!({ "memory": "128M" }));
    options.provider_options.set("life", json!("simple"));
    let sandbox = world.create(options).unwrap();
    let first = run(
        &*sandbox,
        "hostname; echo x > /tmp/left; echo kept > /workspace/file; cat /proc/net/dev | grep -c :",
    );
    let second = run(&*sandbox, "hostname; cat /tmp/left; cat /workspace/file");
    let (first, said) = (text(&first.stdout), text(&second.stdout));
    assert_ne!(first.lines().next(), said.lines().next(), "another container");
    assert!(text(&second.stderr).contains("/tmp/left"), "{second:?}");
    assert_eq!(said.lines().last(), Some("kept"), "the workspace is the same");
    assert_eq!(first.lines().last(), Some("1"), "only a loopback");
    let mark = format!("label=ringfence.workspace={}", world.project.display());
    let timed = ExecRequest { timeout_ms: Some(5000), ..ExecRequest::shell("sleep 300") };
    std::thread::scope(|scope| {
        let late = scope.spawn(|| wait(sandbox.execute(timed, &|_| ())).unwrap().timed_out);
        let mut running = String::new();
        while running.is_empty() && !late.is_finished() {
            running = world.docker(&["ps", "-q", "--filter", &mark]);
        }
        let memory =
            world.docker(&["inspect", "-f", "{{.HostConfig.Memory}} {{.HostConfig.MemorySwap}}", &running]);
        assert_eq!(memory, "134217728 134217728", "128 MiB, and nothing swapped");
        assert!(late.join().unwrap());
    });
    assert_eq!(world.docker(&["ps", "-aq", "--filter", &mark]), "", "all are removed");
    wait(sandbox.dispose()).unwrap();
    let error = wait(sandbox.execute(ExecRequest::shell("true"), &|_| ())).unwrap_err();
    assert_eq!(error.kind, ErrorKind::SandboxNotAvailable);
}

#[test]
fn a_command_ends_when_it_is_cancelled_or_nobody_waits_and_shells_have_names() {
    let Some(world) = World::new() else { return };
    let sandbox = world.sandbox();
    let result = std::thread::scope(|scope| {
        let running = scope.spawn(|| run(&*sandbox, "touch /workspace/runs; sleep 300"));
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        while !world.project.join("runs").exists() {
            assert!(std::time::Instant::now() < deadline);
            std::thread::sleep(Duration::from_millis(5));
        }
        wait(sandbox.cancel()).unwrap();
        running.join().unwrap()
    });
    assert_eq!(result.exit_code, 143, "{result:?}");
    // Nobody waits: the command ends, and the shell is free for the next.
    let abandoned = sandbox.execute(ExecRequest::shell("sleep 300"), &|_| ());
    assert!(ringfence_fence::wait_for(abandoned, Duration::from_millis(300)).is_none());
    assert_eq!(text(&run(&*sandbox, "echo next").stdout), "next\n");
    let other = wait(sandbox.shell("other")).unwrap();
    run(&*other, "cd /tmp; A=1");
    assert_eq!(text(&run(&*sandbox, "pwd; echo ${A-none}").stdout), "/workspace\nnone\n");
    assert_eq!(text(&run(&*other, "pwd; echo ${A-none}").stdout), "/tmp\n1\n");
    wait(sandbox.dispose()).unwrap();
}

#[test]
fn a_person_is_asked_while_the_call_waits_inside() {
    use ringfence_fence::Approval;
    use ringfence_fence::approve::Callback;
    use ringfence_model::Decision;
    use std::sync::{Arc, Mutex};
    let Some(world) = World::new() else { return };
    std::fs::write(world.project.join(".env"), "granted").unwrap();
    let mut options = world.options(json!({}));
    let asked = Arc::new(Mutex::new(Vec::new()));
    let settled = Arc::new(Mutex::new(Vec::new()));
    let (hears, notes) = (Arc::clone(&asked), Arc::clone(&settled));
    options.hooks.approval = Some(Approval {
        approver: Arc::new(Callback(move |question: &ringfence_fence::Question| {
            hears.lock().unwrap().push(question.grant.path.clone());
            Decision::AllowOnce
        })),
        about: ringfence_fence::approval::AskAbout::All,
        timeout: Duration::from_secs(60),
        on_settled: Arc::new(move |result| notes.lock().unwrap().push(result.decision)),
    });
    let sandbox = world.create(options).unwrap();
    let result = run(&*sandbox, "cat .env");
    assert_eq!(text(&result.stdout), "granted", "{result:?}");
    assert_eq!(*asked.lock().unwrap(), [world.project.join(".env")], "in the host's words");
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while settled.lock().unwrap().is_empty() && std::time::Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(*settled.lock().unwrap(), [Decision::AllowOnce]);
}
