//! How commands and shells without a guest end.

use std::time::{Duration, Instant};

use ringfence_docker::testing::{BUSYBOX, LEAST};
use ringfence_fence::Sandbox;
use ringfence_model::{ErrorKind, ExecRequest};
use serde_json::json;

use super::plain::sandbox;
use super::support::{World, run, text, wait};

const IMAGES: [&str; 2] = [LEAST, BUSYBOX];
const PATIENCE: Duration = Duration::from_secs(60);

/// Processes of the container whose command line has this in it, as the container sees them.
fn running(sandbox: &dyn Sandbox, words: &str) -> usize {
    let look = format!(
        "for p in /proc/[0-9]*; do case $(tr '\\0' ' ' <$p/cmdline 2>/dev/null) in *'{words}'*) case $p in /proc/$$) ;; *) echo $p ;; esac ;; esac; done"
    );
    let other = wait(sandbox.shell("looker")).unwrap();
    text(&run(&*other, &look).stdout).lines().count()
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_shell_that_ends_is_replaced_and_that_is_said() {
    let Some(world) = World::new() else { return };
    for image in IMAGES {
        let sandbox = sandbox(&world, image);
        run(&*sandbox, "lost=yes");
        for (command, status) in [
            ("echo before; exit 3", 3),
            ("kill -9 $$", 137),
            ("kill -SEGV $$", 139),
            ("exec sh -c 'echo other; exit 4'", 4),
            ("set -e; false; echo no", 1),
            ("kill -9 $PPID; exit 5", 5),
        ] {
            let result = run(&*sandbox, command);
            assert!(result.restarted, "{image}: {command}: {result:?}");
            if !command.contains("PPID") {
                assert_eq!(result.exit_code, status, "{image}: {command}: {result:?}");
            }
            let result = run(&*sandbox, "echo ${lost-gone}; pwd");
            assert_eq!(text(&result.stdout), "gone\n/workspace\n", "{image}: after {command}");
            assert!(!result.restarted, "{image}: {result:?}");
        }
        // One that dies between two commands was replaced for the second.
        run(&*sandbox, "(sleep 0.2; kill -9 $$) & lost=yes");
        // Two for each shell: the wrapper has the same words.
        until("the shell dies", || running(&*sandbox, "__ringfence_path=$PATH") < 2);
        let result = run(&*sandbox, "echo ${lost-gone}");
        assert_eq!((text(&result.stdout).as_str(), result.restarted), ("gone\n", true), "{image}");
    }
}

#[test]
fn a_command_that_may_have_run_is_never_run_again() {
    let Some(world) = World::new() else { return };
    for image in IMAGES {
        let sandbox = sandbox(&world, image);
        let count = || std::fs::read_to_string(world.project.join("count")).unwrap_or_default();
        for end in ["kill -9 $$", "kill -9 $PPID $$", "exit 1", "kill -9 -1"] {
            let _ = std::fs::remove_file(world.project.join("count"));
            let outcome =
                wait(sandbox.execute(ExecRequest::shell(format!("echo once >> count; {end}")), &|_| ()));
            let next = run(&*sandbox, "echo next");
            assert_eq!(text(&next.stdout), "next\n", "{image}: {end}");
            // The last of them kills everything but its own shell, which is given up when that is noticed.
            let restarted = outcome.map_or(true, |result| result.restarted) || next.restarted;
            until("it is said", || restarted || run(&*sandbox, "true").restarted);
            assert_eq!(count(), "once\n", "{image}: {end}");
        }
    }
}

#[test]
fn time_ends_a_command_with_its_processes_and_the_shell_stays() {
    let Some(world) = World::new() else { return };
    for image in IMAGES {
        let sandbox = sandbox(&world, image);
        run(&*sandbox, "kept=yes; cd /tmp; sleep 4321 & server=$!");
        for endless in [
            "echo early; sleep 1234; echo late",
            "while :; do :; done",
            "f() { while :; do sleep 1234; done; }; f",
            "(trap '' TERM INT HUP; sleep 1234 & sleep 1234)",
            "sh -c 'sh -c \"sleep 1234; :\"; :' | cat",
            "(sleep 1234 &) ; (sleep 1234 &); sleep 1234",
            "sleep 1234 & wait",
            "x=$(sleep 1234)",
        ] {
            let timed = ExecRequest { timeout_ms: Some(700), ..ExecRequest::shell(endless) };
            let result = wait(sandbox.execute(timed, &|_| ())).unwrap();
            assert!(result.timed_out && result.exit_code == 124, "{image}: {endless}: {result:?}");
            assert!(!text(&result.stdout).contains("late"), "{image}: {endless}");
            assert!(!result.restarted, "{image}: {endless}: {result:?}");
            assert!(result.violations.iter().any(|violation| violation.resource == "time"), "{image}");
            assert_eq!(running(&*sandbox, "sleep 1234"), 0, "{image}: {endless}");
            assert_eq!(text(&run(&*sandbox, "echo $kept $PWD").stdout), "yes /tmp\n", "{image}: {endless}");
        }
        assert_eq!(
            run(&*sandbox, "kill -0 $server").exit_code,
            0,
            "{image}: what an earlier command left goes on"
        );
    }
}

#[test]
fn cancelling_or_going_away_ends_a_command() {
    let Some(world) = World::new() else { return };
    for image in IMAGES {
        let sandbox = sandbox(&world, image);
        run(&*sandbox, "kept=yes");
        let _ = std::fs::remove_file(world.project.join("runs"));
        let result = std::thread::scope(|scope| {
            let running =
                scope.spawn(|| run(&*sandbox, "echo > /workspace/runs; sleep 1234; echo no > /workspace/no"));
            until("it runs", || world.project.join("runs").exists());
            wait(sandbox.cancel()).unwrap();
            running.join().unwrap()
        });
        assert_eq!((result.exit_code, result.restarted), (143, false), "{image}: {result:?}");
        let abandoned = sandbox.execute(ExecRequest::shell("sleep 1234"), &|_| ());
        assert!(ringfence_fence::wait_for(abandoned, Duration::from_millis(300)).is_none());
        assert_eq!(text(&run(&*sandbox, "echo $kept").stdout), "yes\n", "{image}");
        until("the sleepers end", || running(&*sandbox, "sleep 1234") == 0);
        assert!(!world.project.join("no").exists());
        wait(sandbox.cancel()).unwrap();
        assert_eq!(run(&*sandbox, "true").exit_code, 0, "{image}: cancelling nothing does nothing");
    }
}

#[test]
fn who_holds_the_output_does_not_hold_up_the_result() {
    let Some(world) = World::new() else { return };
    for image in IMAGES {
        let late = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let hears = std::sync::Arc::clone(&late);
        let mut options = world.options(json!({ "image": image }));
        options.hooks.background = Some(std::sync::Arc::new(move |event| {
            if let ringfence_model::ExecEvent::Stdout(bytes) = event {
                hears.lock().unwrap().extend(bytes);
            }
        }));
        let sandbox = world.create(options).unwrap();
        // It would take longer than any test may.
        let result =
            run(&*sandbox, "(while [ ! -e go ]; do sleep 0.05; done; echo later; sleep 4321) & echo now");
        assert_eq!(text(&result.stdout), "now\n", "{image}");
        std::fs::write(world.project.join("go"), "").unwrap();
        until("what comes later is told", || text(&late.lock().unwrap()) == "later\n");
        std::fs::remove_file(world.project.join("go")).unwrap();
        // Also when the shell itself ends.
        let result = run(&*sandbox, "sleep 4321 & echo bye; exit 7");
        assert_eq!((text(&result.stdout).as_str(), result.exit_code), ("bye\n", 7), "{image}");
    }
}

#[test]
fn what_runs_in_a_kept_container_ends_with_its_sandbox_and_with_its_user() {
    let Some(world) = World::new() else { return };
    let key = format!("agent:plain-{}", std::process::id());
    let mut options = world.options(json!({ "image": BUSYBOX }));
    options.hooks.scope_key = Some(key.clone());
    let first = world.create(options.clone()).unwrap();
    let second = world.create(options.clone()).unwrap();
    run(&*first, "sleep 7771 & (setsid sleep 7771 >/dev/null 2>&1 &); sh -c 'sleep 7771 &'");
    run(&*second, "sleep 7772 &");
    assert_eq!(running(&*second, "sleep 7771"), 3);
    wait(first.dispose()).unwrap();
    assert_eq!(running(&*second, "sleep 7771"), 0);
    assert_eq!(running(&*second, "sleep 7772"), 1, "another's stays");
    // Nobody says goodbye: the engine notices that the connection is gone.
    let third = world.create(options).unwrap();
    run(&*third, "sleep 7773 &");
    drop(third);
    until("the orphan ends", || running(&*second, "sleep 7773") == 0);
    wait(second.dispose()).unwrap();
    let ids = world.docker(&["ps", "-aq", "--filter", &format!("label=ringfence.sessionKey={key}")]);
    world.docker(&["rm", "-f", &ids]);
}

#[test]
fn limits_of_processes_hold_and_those_of_the_container_are_told() {
    let Some(world) = World::new() else { return };
    let mut options = world.options(json!({ "image": LEAST, "memory": "64M" }));
    options.policy.limits.max_file_size_bytes = Some(100_000);
    options.policy.limits.max_cpu_seconds = Some(1);
    let sandbox = world.create(options).unwrap();
    let result = run(&*sandbox, "head -c 200000 /dev/zero > big");
    assert!(result.exit_code != 0, "{result:?}");
    assert!(std::fs::metadata(world.project.join("big")).unwrap().len() <= 100_352);
    let result = run(&*sandbox, "sha256sum /dev/zero");
    assert!(result.violations.iter().any(|violation| violation.resource == "cpu"), "{result:?}");
    let result = run(&*sandbox, "tail /dev/zero");
    assert!(
        result
            .violations
            .iter()
            .any(|violation| violation.resource == "memory" || violation.resource == "cpu"),
        "{result:?}"
    );
    assert_eq!(text(&run(&*sandbox, "echo alive").stdout), "alive\n");
}

#[test]
fn a_container_that_is_gone_is_an_error_and_no_wait() {
    let Some(world) = World::new() else { return };
    let sandbox = sandbox(&world, LEAST);
    let mark = format!("label=ringfence.sessionKey={}", sandbox.id());
    let id = world.docker(&["ps", "-aq", "--filter", &mark]);
    let outcome = std::thread::scope(|scope| {
        let running =
            scope.spawn(|| wait(sandbox.execute(ExecRequest::shell("echo > runs; sleep 1234"), &|_| ())));
        until("it runs", || world.project.join("runs").exists());
        world.docker(&["rm", "-f", &id]);
        running.join().unwrap()
    });
    match outcome {
        Ok(result) => assert!(result.exit_code != 0 && result.restarted, "{result:?}"),
        Err(error) => assert_eq!(error.kind, ErrorKind::Unknown, "{error:?}"),
    }
    let error = wait(sandbox.execute(ExecRequest::shell("true"), &|_| ())).unwrap_err();
    assert_eq!(error.kind, ErrorKind::SandboxNotAvailable, "{error:?}");
    assert!(error.message.contains("nothing ran"), "{error}");
    assert!(!sandbox.is_alive());
    wait(sandbox.dispose()).unwrap();
}
