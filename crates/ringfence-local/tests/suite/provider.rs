//! The provider and its sandboxes, as a manager sees them.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use ringfence_fence::jobs::JobState;
use ringfence_fence::{CreateOptions, Provider, Sandbox, wait_for};
use ringfence_local::provider::LocalProvider;
use ringfence_local::shell::{Shell, ShellOptions};
use ringfence_model::{ErrorKind, ExecEvent, ExecRequest, ExecResult, PathRule, Policy};

use super::launchers::STAGE;

const PATIENCE: Duration = Duration::from_secs(120);

fn done<'a, T: 'a>(future: impl Future<Output = T> + Send + 'a) -> T {
    wait_for(Box::pin(future), PATIENCE).unwrap()
}

struct Room {
    project: tempfile::TempDir,
    provider: LocalProvider,
    sandbox: Arc<dyn Sandbox>,
}

fn options(project: &std::path::Path) -> CreateOptions {
    let mut policy = Policy::default();
    policy.filesystem.allow_write.push(PathRule::built_in(project));
    let mut options = CreateOptions::new(project.to_owned(), policy);
    options.environment = std::env::vars_os().collect();
    options
}

fn room() -> Room {
    let project = tempfile::Builder::new().prefix("ringfence-provider-").tempdir().unwrap();
    let provider = LocalProvider::new();
    let sandbox = done(provider.create(options(project.path()))).unwrap();
    Room { project, provider, sandbox }
}

fn run(sandbox: &Arc<dyn Sandbox>, text: &str) -> ExecResult {
    done(sandbox.execute(ExecRequest::shell(text), &|_| ())).unwrap()
}

fn text(result: &ExecResult) -> String {
    String::from_utf8_lossy(&result.stdout).trim_end().to_owned()
}

#[test]
fn a_sandbox_has_an_id_of_the_documented_form_and_is_listed_until_destroyed() {
    let Room { project: _project, provider, sandbox } = room();
    let parts: Vec<&str> = sandbox.id().split('-').collect();
    assert_eq!((parts.len(), parts[0], parts[2].len()), (3, "local", 6), "{}", sandbox.id());
    assert!(parts[1].parse::<u64>().is_ok());
    let listed = done(provider.list()).unwrap();
    assert_eq!(listed.iter().map(|info| info.id.as_str()).collect::<Vec<_>>(), [sandbox.id()]);
    done(provider.destroy("local-0-nobody")).unwrap();
    done(provider.destroy(sandbox.id())).unwrap();
    assert!(done(provider.list()).unwrap().is_empty());
    assert!(!sandbox.is_alive());
    let error = done(sandbox.execute(ExecRequest::shell("echo no"), &|_| ())).unwrap_err();
    assert_eq!(error.kind, ErrorKind::SandboxNotAvailable);
    done(sandbox.dispose()).unwrap();
}

#[test]
fn state_stays_and_a_dead_shell_is_replaced_without_running_anything_twice() {
    let Room { project, sandbox, .. } = room();
    run(&sandbox, "cd /; export A=1; f() { echo f; }");
    assert_eq!(text(&run(&sandbox, "pwd; echo $A; f")), "/\n1\nf");
    let ended = run(&sandbox, "echo x >> count; exit 3");
    assert_eq!(ended.exit_code, 3, "{ended:?}");
    let died = run(&sandbox, &format!("echo x >> {}/count; kill -9 $$", project.path().display()));
    assert!(died.restarted, "{died:?}");
    let after = run(&sandbox, "pwd; echo \"[$A]\"");
    assert_eq!(text(&after), format!("{}\n[]", project.path().display()));
    assert!(!sandbox.id().is_empty() && sandbox.is_alive());
    let count = std::fs::read_to_string(project.path().join("count")).unwrap();
    assert_eq!(count, "x\n", "each command ran once (the first wrote elsewhere: it stood in /)");
}

#[test]
fn one_command_may_have_a_directory_and_variables_of_its_own() {
    let Room { project, sandbox, .. } = room();
    std::fs::create_dir(project.path().join("it's here")).unwrap();
    let mut request = ExecRequest::shell("pwd; echo \"$V\"; cd /");
    request.cwd = Some(project.path().join("it's here"));
    request.env.insert("V".to_owned(), "a 'b' $c".to_owned());
    let result = done(sandbox.execute(request, &|_| ())).unwrap();
    assert_eq!(text(&result), format!("{}/it's here\na 'b' $c", project.path().display()));
    assert_eq!(text(&run(&sandbox, "pwd; echo \"[$V]\"")), format!("{}\n[]", project.path().display()));
    let mut request = ExecRequest::shell("echo ran");
    request.cwd = Some("/no/such/place".into());
    let error = done(sandbox.execute(request, &|_| ())).unwrap_err();
    assert!(error.kind == ErrorKind::Validation && error.message.contains("/no/such/place"), "{error}");
}

#[test]
fn output_arrives_while_the_command_runs() {
    let Room { project, sandbox, .. } = room();
    let go = project.path().join("go");
    let sink = |event: ExecEvent| {
        if matches!(event, ExecEvent::Stdout(_)) {
            std::fs::write(&go, "").unwrap();
        }
    };
    // It would never end if its first line came only with the end.
    let request = ExecRequest::shell("echo first; until [ -e go ]; do sleep 0.01; done; echo last");
    let result = done(sandbox.execute(request, &sink)).unwrap();
    assert_eq!(text(&result), "first\nlast");
}

#[test]
fn cancelling_ends_the_command_that_runs_and_only_that() {
    let Room { project: _project, sandbox, .. } = room();
    run(&sandbox, "A=kept");
    let running = {
        let sandbox = Arc::clone(&sandbox);
        std::thread::spawn(move || run(&sandbox, "sleep 100"))
    };
    let next = {
        let sandbox = Arc::clone(&sandbox);
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(300));
            run(&sandbox, "sleep 0.2; echo $A")
        })
    };
    std::thread::sleep(Duration::from_millis(600));
    done(sandbox.cancel()).unwrap();
    let cancelled = running.join().unwrap();
    assert_eq!(cancelled.exit_code, 143, "{cancelled:?}");
    assert_eq!(text(&next.join().unwrap()), "kept");
    done(sandbox.cancel()).unwrap();
    assert_eq!(text(&run(&sandbox, "echo $A")), "kept", "a cancel with nothing to cancel is forgotten");
}

#[test]
fn a_cancel_right_after_the_start_is_heard() {
    let Room { project: _project, sandbox, .. } = room();
    for _ in 0..20 {
        let mut running = pin!(sandbox.execute(ExecRequest::shell("sleep 100"), &|_| ()));
        assert!(running.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        done(sandbox.cancel()).unwrap();
        match done(running) {
            Ok(result) => assert_eq!(result.exit_code, 143),
            Err(error) => assert_eq!(error.kind, ErrorKind::Cancelled, "{error}"),
        }
    }
}

#[test]
fn a_command_that_nobody_waits_for_is_ended() {
    let Room { project, sandbox, .. } = room();
    {
        let request = ExecRequest::shell("sleep 60; touch finished");
        let mut running = pin!(sandbox.execute(request, &|_| ()));
        assert!(running.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    let begun = Instant::now();
    assert_eq!(text(&run(&sandbox, "echo next")), "next");
    assert!(begun.elapsed() < Duration::from_secs(30), "the next one did not wait for it");
    assert!(!project.path().join("finished").exists());
}

#[test]
fn shells_by_name_have_their_own_state_and_end_with_the_sandbox() {
    let Room { project: _project, sandbox, .. } = room();
    let a = done(sandbox.shell("a")).unwrap();
    let b = done(sandbox.shell("b")).unwrap();
    run(&a, "X=a; cd /");
    run(&b, "X=b; echo shared > file");
    assert_eq!(text(&run(&done(sandbox.shell("a")).unwrap(), "echo $X $PWD")), "a /");
    assert_eq!(text(&run(&b, "echo $X")), "b");
    assert_eq!(text(&run(&sandbox, "echo [$X]; cat file")), "[]\nshared");
    done(a.dispose()).unwrap();
    assert_eq!(text(&run(&done(sandbox.shell("a")).unwrap(), "echo [$X]")), "[]", "made anew");
    done(sandbox.dispose()).unwrap();
    assert!(!b.is_alive());
    assert_eq!(done(sandbox.shell("c")).unwrap_err().kind, ErrorKind::SandboxNotAvailable);
}

#[test]
fn a_sandbox_that_cannot_be_made_as_asked_is_an_error() {
    let project = tempfile::tempdir().unwrap();
    let mut options = options(project.path());
    options.provider_options =
        serde_json::json!({ "launcher": "bwrap", "bwrapPath": "/no/such/bwrap" }).into();
    let provider = LocalProvider::new();
    let error = done(provider.create(options)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::SandboxDenied, "{}", error.chain());
    assert!(done(provider.list()).unwrap().is_empty());
}

#[test]
fn a_shell_that_cannot_have_its_streams_is_an_error() {
    let project = tempfile::tempdir().unwrap();
    let mut options = options(project.path());
    options.policy.limits.max_open_files = Some(4);
    let fence = Arc::new(ringfence_local::Fence::prepare(options).unwrap());
    Shell::start(fence, ShellOptions::default()).unwrap_err();
}

#[test]
fn a_sandbox_has_room_for_its_own_files_and_processes() {
    let project = tempfile::tempdir().unwrap();
    let mut options = options(project.path());
    options.policy.limits.max_open_files = Some(4);
    options.policy.limits.max_processes = Some(1);
    let sandbox = done(LocalProvider::new().create(options)).unwrap();
    assert_eq!(text(&run(&sandbox, "ulimit -n; cat /dev/null && echo ran")), "128\nran");
}

#[test]
fn everything_can_be_shown_and_what_is_private_or_denied_is_not() {
    // Neither a place for temporary files nor where programs are, wherever the sources lie.
    let elsewhere = "/var/lib/dpkg/diversions";
    for launcher in ["native", "bwrap", "landlock"] {
        let project = tempfile::tempdir().unwrap();
        let mut options = options(project.path());
        options.policy.filesystem.allow_read.push(PathRule::built_in("/"));
        options.provider_options = serde_json::json!({ "launcher": launcher, "stage": STAGE }).into();
        let sandbox = match done(LocalProvider::new().create(options)) {
            Ok(sandbox) => sandbox,
            Err(error) if error.message.contains("is not possible here") => {
                ringfence_testing::lacks(ringfence_testing::FENCE, &error.chain());
                continue;
            }
            Err(error) => panic!("{launcher}: {}", error.chain()),
        };
        let seen = run(&sandbox, &format!("cat {elsewhere}; touch {elsewhere} made"));
        assert_eq!(seen.stdout, std::fs::read(elsewhere).unwrap(), "{launcher}: {seen:?}");
        assert!(seen.exit_code != 0 && project.path().join("made").exists(), "{launcher}: {seen:?}");
        let closed = run(&sandbox, "head -c 1 /etc/sudoers /etc/shadow /proc/kcore /dev/sda /dev/vda; true");
        assert_eq!(text(&closed), "", "{launcher}: {closed:?}");
        done(sandbox.dispose()).unwrap();
    }
}

#[test]
fn late_output_goes_to_the_hook() {
    let project = tempfile::tempdir().unwrap();
    let mut options = options(project.path());
    let heard = Arc::new(Mutex::new(Vec::new()));
    let (to, any) = (Arc::clone(&heard), Arc::new(AtomicBool::new(false)));
    let noticed = Arc::clone(&any);
    options.hooks.background = Some(Arc::new(move |event| {
        if let ExecEvent::Stdout(bytes) = event {
            to.lock().unwrap().extend(bytes);
            noticed.store(true, Ordering::Release);
        }
    }));
    let sandbox = done(LocalProvider::new().create(options)).unwrap();
    assert_eq!(text(&run(&sandbox, "(sleep 0.5; echo late) & echo now")), "now");
    let begun = Instant::now();
    while !any.load(Ordering::Acquire) && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(heard.lock().unwrap().as_slice(), b"late\n");
}

#[test]
fn jobs_go_on_beside_commands_and_see_the_same_files() {
    let Room { project: _project, sandbox, .. } = room();
    let jobs = sandbox.jobs().unwrap();
    let request = ExecRequest::shell("while read line; do echo got $line; done; echo made > file; exit 7");
    let job = done(jobs.start(request)).unwrap();
    assert_eq!(text(&run(&sandbox, "echo meanwhile")), "meanwhile");
    done(jobs.write(&job.id, b"one\ntwo\n")).unwrap();
    done(jobs.close_input(&job.id)).unwrap();
    let ended = done(jobs.wait(&job.id)).unwrap();
    assert_eq!(ended.state, JobState::Ended { exit_code: 7, signal: None });
    let output = done(jobs.read(&job.id, 4, 100)).unwrap();
    assert_eq!((output.bytes.as_slice(), output.next_offset()), (&b"one\ngot two\n"[..], 16));
    assert_eq!(text(&run(&sandbox, "cat file")), "made");
    assert_eq!(done(jobs.list()).unwrap(), [ended]);
}
