//! The same provider on Podman's socket. What is asked here is what engines do differently: making, finding and removing
//! containers, attached programs, images, and whether the options arrive.

use std::path::Path;
use std::sync::Arc;

use ringfence_docker::testing::{FULL, Kind, TestEngine};
use ringfence_fence::files::LastLink;
use ringfence_fence::{CreateOptions, Sandbox};
use ringfence_model::{ErrorKind, ExecRequest, ViolationKind};
use serde_json::{Value, json};

use super::support::{World, run, text, wait};

fn world() -> Option<World> {
    TestEngine::shared_of(Kind::Podman).map(World::on)
}

fn says(sandbox: &dyn Sandbox, command: &str) -> String {
    let result = run(sandbox, command);
    text(&[result.stdout, result.stderr].concat())
}

#[test]
fn a_container_of_podman_runs_commands_under_the_policy_and_goes() {
    let Some(world) = world() else { return };
    std::fs::write(world.project.join(".env"), "secret").unwrap();
    let sandbox = world.sandbox();
    assert_eq!(says(&*sandbox, "cd /tmp && export A=1; echo $A"), "1\n");
    assert_eq!(says(&*sandbox, "pwd; echo $A"), "/tmp\n1\n");
    let refused = run(&*sandbox, "cat /workspace/.env");
    assert_eq!(refused.violations[0].kind, ViolationKind::SensitiveFileAccess, "{refused:?}");
    assert_eq!((refused.exit_code, refused.stdout.len()), (1, 0), "{refused:?}");
    let mut slow = ExecRequest::shell("sleep 1000");
    slow.timeout_ms = Some(200);
    assert!(wait(sandbox.execute(slow, &|_| ())).unwrap().timed_out);
    let filter = format!("label=ringfence.sessionKey={}", sandbox.id());
    let all = || world.docker(&["ps", "-aq", "--filter", &filter]);
    assert!(!all().is_empty());
    wait(sandbox.dispose()).unwrap();
    assert_eq!(all(), "");
}

#[test]
fn a_container_of_podman_is_as_hardened_as_asked() {
    let Some(world) = world() else { return };
    let docker = json!({ "pidsLimit": 60, "memory": "128M", "env": { "GREETING": "hi" } });
    let sandbox = world.create(world.options(docker)).unwrap();
    let status = says(&*sandbox, "grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status");
    let fields: Vec<&str> = status.split_whitespace().collect();
    assert_eq!(
        fields,
        ["CapEff:", "0000000000000000", "CapBnd:", "0000000000000000", "NoNewPrivs:", "1", "Seccomp:", "2"]
    );
    for (command, want) in [
        ("touch /usr/x", "Read-only file system"),
        ("echo $GREETING", "hi"),
        ("wc -l </proc/net/dev", "3\n"),
        (
            "for i in $(seq 100); do sleep 30 & done 2>&1 | grep -o -m1 'Resource temporarily unavailable'; kill $(jobs -p) 2>/dev/null",
            "temporarily",
        ),
        ("python3 -c 'x = bytearray(400 << 20); print(\"fits\")' || echo too much", "too much"),
        ("mount -t tmpfs none /tmp; unshare -U true; true", "ermitted"),
    ] {
        let said = says(&*sandbox, command);
        assert!(said.contains(want), "{command}: {said}");
    }
    wait(sandbox.dispose()).unwrap();
}

/// What a container is kept by, found again by, and made anew for.
#[test]
fn a_container_of_podman_is_used_again_and_made_anew() {
    let Some(world) = world() else { return };
    let key = format!("agent:podman-{}", std::process::id());
    let ledger = world.project.with_file_name("ledger.db");
    let options = |docker: Value| -> CreateOptions {
        let mut options = world.options(docker);
        options.hooks.scope_key = Some(key.clone());
        options.provider_options.set("ledger", json!(ledger));
        options
    };
    let open = |docker: Value| -> Arc<dyn Sandbox> { world.create(options(docker)).unwrap() };
    let id = || {
        let label = format!("label=ringfence.sessionKey={key}");
        world.docker(&["ps", "-aq", "--no-trunc", "--filter", &label])
    };
    let one = open(json!({ "setupCommand": "echo made > /tmp/made" }));
    assert_eq!(says(&*one, "cat /tmp/made"), "made\n");
    wait(one.dispose()).unwrap();
    let first = id();
    let again = open(json!({ "setupCommand": "echo made > /tmp/made" }));
    assert_eq!(says(&*again, "cat /tmp/made"), "made\n");
    assert_eq!(id(), first, "the same container");
    wait(again.dispose()).unwrap();
    let hot = open(json!({ "memory": "300M" }));
    assert!(hot.assurance().degraded.iter().any(|note| note.text.contains("ringfence recreate")));
    wait(hot.dispose()).unwrap();
    assert_eq!(id(), first, "used a moment ago: kept");
    world.docker(&["stop", "-t", "0", &first]);
    let cold = open(json!({ "memory": "300M" }));
    assert_eq!(says(&*cold, "test -e /tmp/made || echo new"), "new\n");
    assert_ne!(id(), first);
    wait(cold.dispose()).unwrap();
    world.docker(&["rm", "-f", &id()]);
}

#[test]
fn files_of_a_container_of_podman_are_read_and_written() {
    let Some(world) = world() else { return };
    let sandbox = world.sandbox();
    let files = sandbox.files().unwrap();
    wait(Box::pin(async {
        let bytes: Vec<u8> = (0..=255_u8).cycle().take(1 << 20).collect();
        let at = files.locate(Path::new("deep/-rf \n"), LastLink::Follow).await.unwrap();
        files.write(&at, &bytes).await.unwrap();
        assert_eq!(std::fs::read(world.project.join("deep/-rf \n")).unwrap(), bytes);
        assert_eq!(files.read(&at).await.unwrap(), bytes);
        let top = files.locate(Path::new("/workspace"), LastLink::Follow).await.unwrap();
        let listed = files.list(&[top]).await.unwrap();
        assert_eq!(listed[0].as_ref().unwrap()[0].shown, Path::new("deep"));
        std::os::unix::fs::symlink("/etc", world.project.join("etc")).unwrap();
        let error = files.locate(Path::new("etc/passwd"), LastLink::Follow).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::PathTraversal, "{error}");
        files.remove(&at).await.unwrap();
        assert!(!world.project.join("deep/-rf \n").exists());
    }));
    wait(sandbox.dispose()).unwrap();
}

#[test]
fn podman_builds_images_and_says_what_it_lacks() {
    let Some(world) = world() else { return };
    let image = "localhost/ringfence-built:podman";
    let mut options = world.options(json!({ "image": image }));
    let error = world.create(options.clone()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
    assert!(error.message.contains("is not on this machine"), "{error}");
    options.provider_options.set("build", json!({ "from": FULL, "run": ["echo built here > /usr/note"] }));
    let sandbox = world.create(options).unwrap();
    assert_eq!(says(&*sandbox, "cat /usr/note"), "built here\n");
    wait(sandbox.dispose()).unwrap();
    world.docker(&["rmi", "-f", image]);
}
