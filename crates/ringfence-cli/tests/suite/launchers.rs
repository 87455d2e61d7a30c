//! Which launcher builds the fence: on this machine, where there are no user namespaces, and inside a fence.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::support::{Ran, Room};

const PROGRAM: &str = env!("CARGO_BIN_EXE_ringfence");

/// Runs the program where the kernel makes no more user namespaces. None where that cannot be arranged.
fn without_user_namespaces(room: &Room, arguments: &[&str]) -> Option<Ran> {
    without_namespaces("user", room, arguments)
}

/// The same for namespaces of another kind.
fn without_namespaces(kind: &str, room: &Room, arguments: &[&str]) -> Option<Ran> {
    let plain = room.command(arguments);
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "sh", "-c"]);
    let off = format!("echo 0 > /proc/sys/user/max_{kind}_namespaces && exec \"$@\"");
    command.arg(off).arg("sh").arg(PROGRAM);
    command.args(arguments).current_dir(&room.project).env_clear().stdin(Stdio::null());
    for (name, value) in plain.get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    let ran = Ran::of(command.output().unwrap());
    if ran.stderr.contains("unshare failed") || ran.stderr.contains("_namespaces: ") {
        ringfence_testing::lacks("user-namespaces", &ran.stderr);
        return None;
    }
    Some(ran)
}

fn degraded(result: &Value) -> String {
    result["sandbox"]["degraded"].to_string()
}

#[test]
fn the_strongest_launcher_is_taken_without_a_word() {
    let room = Room::new();
    let result = room.run(&["run", "--json", "--", "true"]).expect(0).json();
    assert_eq!(result["sandbox"]["adapter"], "local/native");
    assert!(!degraded(&result).contains("launcherUnavailable"), "{result}");
    room.run(&["run", "--require", "native", "--require", "supervisor", "--", "true"]).expect(0);
}

#[test]
fn any_launcher_can_be_asked_for() {
    let room = Room::new();
    room.write(".env", "secret");
    for launcher in ["native", "bwrap", "landlock"] {
        let script = "cat .env; echo made > file; exit 7";
        let ran = room.run(&["run", "--no-gate", "--json", "--launcher", launcher, "-c", script]).expect(7);
        let result = ran.json();
        assert_eq!(result["sandbox"]["adapter"], format!("local/{launcher}"));
        assert_eq!(result["stdout"], "", "{result}");
        assert!(result["stderr"].as_str().unwrap().contains("Permission denied"), "{result}");
        assert!(result["blockedReason"].as_str().unwrap().contains("denied by"), "{launcher}: {result}");
        assert!(result["usage"]["cpuMs"].is_u64(), "{launcher}: {result}");
        let sandbox = &result["sandbox"];
        assert_eq!(
            (&sandbox["active"], &sandbox["requested"], &sandbox["effective"]),
            (&true.into(), &"restricted".into(), &"restricted".into())
        );
        let env = room.project.join(".env");
        assert_eq!(result["blockedResource"], env.to_str().unwrap(), "{launcher}: {result}");
        assert_eq!(std::fs::read_to_string(room.project.join("file")).unwrap(), "made\n");
    }
    room.configure(r#"{ "os": { "mode": "bubblewrap" } }"#);
    let result = room.run(&["run", "--json", "--", "true"]).expect(0).json();
    assert_eq!(result["sandbox"]["adapter"], "local/bwrap");
}

#[test]
fn a_sandbox_that_lacks_a_namespace_is_not_used() {
    let room = Room::new();
    for kind in ["net", "mnt", "ipc"] {
        let native = ["run", "--launcher", "native", "--", "touch", "ran"];
        let Some(ran) = without_namespaces(kind, &room, &native) else { return };
        ran.expect(125);
        assert!(!room.project.join("ran").exists(), "{kind}");
    }
    let Some(ran) = without_namespaces("net", &room, &["run", "--json", "--", "true"]) else { return };
    let result = ran.expect(0).json();
    assert_eq!(result["sandbox"]["adapter"], "local/landlock", "{result}");
    assert!(degraded(&result).contains("cannot create the sandbox's namespaces"), "{result}");
}

#[test]
fn words_of_the_configuration_that_name_no_mechanism_are_refused() {
    let room = Room::new();
    for (mode, says) in [("none", "os.mode is none"), ("seatbelt", "macOS only")] {
        room.configure(&format!(r#"{{ "os": {{ "mode": "{mode}" }} }}"#));
        let ran = room.run(&["run", "--", "touch", "ran"]).expect(125);
        assert!(ran.stderr.contains(says), "{ran:?}");
    }
    room.configure(r#"{ "os": { "mode": "bubblewrap", "bubblewrap": { "bwrapPath": "/no/bwrap" } } }"#);
    let ran = room.run(&["run", "--", "touch", "ran"]).expect(125);
    assert!(ran.stderr.contains("/no/bwrap cannot be executed"), "{ran:?}");
    assert!(!room.project.join("ran").exists());
}

#[test]
fn network_only_is_loud() {
    let room = Room::new();
    room.write(".env", "not hidden");
    let ran = room
        .run(&["run", "--no-gate", "--json", "--launcher", "network-only", "--", "cat", ".env"])
        .expect(0);
    assert!(ran.stderr.contains("WARNING: NETWORK ONLY"), "{ran:?}");
    let result = ran.json();
    assert_eq!(result["sandbox"]["effective"], "none");
    assert_eq!(result["stdout"], "not hidden");
    assert_eq!(result["sandbox"]["degraded"][0]["code"], "networkOnly", "{result}");
}

#[test]
fn without_user_namespaces_landlock_holds_and_says_why() {
    let room = Room::new();
    room.write(".env", "secret");
    let script = "cat .env; echo x > /etc/ringfence-was-here; echo made > file; cat file; exit 5";
    let Some(ran) = without_user_namespaces(&room, &["run", "--no-gate", "--json", "-c", script]) else {
        return;
    };
    let result = ran.expect(5).json();
    assert_eq!(result["sandbox"]["adapter"], "local/landlock");
    assert_eq!(result["stdout"], "made\n");
    assert_eq!(result["blocked"], true);
    let why = degraded(&result);
    assert!(why.contains("the launcher native is not possible here"), "{why}");
    assert!(why.contains("the launcher bwrap is not possible here"), "{why}");
    assert!(!Path::new("/etc/ringfence-was-here").exists());
}

#[test]
fn a_demand_that_cannot_be_met_names_condition_and_remedy_and_runs_nothing() {
    let room = Room::new();
    for demand in [["--launcher", "native"], ["--require", "namespaces"], ["--require", "mount-namespace"]] {
        let arguments = ["run", demand[0], demand[1], "--", "touch", "ran"];
        let Some(ran) = without_user_namespaces(&room, &arguments) else { return };
        let ran = ran.expect(125);
        assert!(ran.stderr.contains("native is not possible here"), "{ran:?}");
        assert!(!room.project.join("ran").exists());
    }
    let arguments = ["run", "--launcher", "native", "--", "true"];
    let Some(ran) = without_user_namespaces(&room, &arguments) else { return };
    assert!(ran.stderr.contains("user.max_user_namespaces is 0"), "{ran:?}");
    assert!(ran.stderr.contains("sysctl -w user.max_user_namespaces"), "{ran:?}");
    let ran = room.run(&["run", "--require", "magic", "--", "true"]).expect(125);
    assert!(ran.stderr.contains("no such layer"), "{ran:?}");
}

#[test]
fn a_fence_inside_a_fence_degrades_visibly() {
    let room = Room::new();
    room.write("readable", "content");
    let directory = Path::new(PROGRAM).parent().unwrap().to_str().unwrap();
    let inner =
        format!("{PROGRAM} run --no-gate --json -c 'cat readable; echo x > /usr/ringfence-was-here; exit 9'");
    for outer in ["native", "bwrap", "landlock"] {
        let arguments =
            ["run", "--no-gate", "--quiet", "--launcher", outer, "--allow-read", directory, "-c", &inner];
        let ran = room.run(&arguments).expect(9);
        let result = ran.json();
        assert_eq!(result["sandbox"]["adapter"], "local/landlock", "in {outer}: {result}");
        assert_eq!(result["stdout"], "content", "in {outer}: {result}");
        assert!(degraded(&result).contains("noSupervisor"), "in {outer}: {result}");
        let layers = result["sandbox"]["layers"].as_array().unwrap();
        assert!(!layers.iter().any(|layer| layer == "supervisor"), "in {outer}: {result}");
        let strict = format!("{PROGRAM} run --require supervisor -- touch ran");
        let ran =
            room.run(&["run", "--launcher", outer, "--allow-read", directory, "-c", &strict]).expect(125);
        assert!(ran.stderr.contains("inside another supervised sandbox"), "in {outer}: {ran:?}");
    }
    assert!(!room.project.join("ran").exists());
    assert!(!Path::new("/usr/ringfence-was-here").exists());
}

#[test]
fn what_a_fence_does_inside_another_is_no_refusal_of_the_outer_one() {
    let room = Room::new();
    room.write("../.ssh/id_rsa", "canary");
    let directory = Path::new(PROGRAM).parent().unwrap().to_str().unwrap();
    for outer in ["native", "bwrap", "landlock"] {
        let within = |inner: &str| {
            let inner = format!("{PROGRAM} run --no-gate --quiet {inner}");
            let arguments =
                ["run", "--no-gate", "--json", "--launcher", outer, "--allow-read", directory, "-c", &inner];
            room.run(&arguments).json()
        };
        // It looks at what it will hide, which nobody refuses.
        let result = within("-- true");
        assert_eq!(
            (&result["exitCode"], &result["blocked"]),
            (&0.into(), &false.into()),
            "in {outer}: {result}"
        );
        // What the command inside both wants is refused by the outer one, which says so.
        let result = within("-c 'cat ~/.ssh/id_rsa'");
        assert_eq!(result["exitCode"], 1, "in {outer}: {result}");
        assert_eq!(result["stdout"], "", "in {outer}: {result}");
    }
}

#[test]
fn nothing_outlives_a_killed_ringfence() {
    let room = Room::new();
    let scratch = tempfile::tempdir().unwrap();
    for launcher in ["native", "bwrap", "landlock", "network-only"] {
        let marker = format!("{}.{}", 800 + std::process::id() % 1000, launcher.len());
        let script =
            format!("(setsid sleep {marker} &); touch started; trap '' TERM; sleep {marker}; sleep {marker}");
        let mut child = room
            .command(&["run", "--quiet", "--launcher", launcher, "-c", &script])
            .env("TMPDIR", scratch.path())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_until(|| room.project.join("started").exists());
        child.kill().unwrap();
        child.wait().unwrap();
        wait_until(|| !runs(&marker));
        assert!(!runs(&marker), "{launcher}: something is left");
        wait_until(|| scratch.path().read_dir().unwrap().next().is_none());
        assert_eq!(scratch.path().read_dir().unwrap().count(), 0, "{launcher}");
        std::fs::remove_file(room.project.join("started")).unwrap();
    }
}

fn runs(marker: &str) -> bool {
    std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| std::fs::read_to_string(entry.path().join("cmdline")).ok())
        .any(|line| line.contains(marker))
}

fn wait_until(done: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !done() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
}
