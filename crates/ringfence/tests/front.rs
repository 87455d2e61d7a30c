//! The front door, and the examples that stand on the crate's front page.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

#[path = "../examples/approve.rs"]
#[expect(dead_code, reason = "its main is for people")]
mod approve;
#[path = "../examples/run.rs"]
#[expect(dead_code, reason = "its main is for people")]
mod run;
#[path = "../examples/session.rs"]
#[expect(dead_code, reason = "its main is for people")]
mod session;

use std::path::PathBuf;
use std::time::Duration;

use ringfence::{Answer, Decision, EnvMap, ErrorKind, Permission, Ringfence};
use serde_json::json;

struct Place {
    _temp: tempfile::TempDir,
    home: PathBuf,
    project: PathBuf,
}

impl Place {
    fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let home = temp.path().canonicalize().unwrap().join("home");
        let project = home.join("project");
        std::fs::create_dir_all(home.join(".ssh")).unwrap();
        std::fs::create_dir_all(&project).unwrap();
        for name in ["id_rsa", "notes"] {
            std::fs::write(home.join(".ssh").join(name), format!("the {name}\n")).unwrap();
        }
        Self { _temp: temp, home, project }
    }

    fn environment(&self) -> EnvMap {
        [("HOME", self.home.clone().into_os_string()), ("PATH", std::env::var_os("PATH").unwrap())]
            .map(|(name, value)| (name.into(), value))
            .into()
    }

    fn builder(&self) -> ringfence::Builder {
        Ringfence::builder(&self.project).environment(self.environment())
    }

    /// Whether a fence can start here; where none can, that is said.
    fn has_fence(&self) -> bool {
        match self.builder().without_ledger().build().unwrap().run("true") {
            Ok(_) => true,
            Err(error) => {
                ringfence_testing::lacks(ringfence_testing::FENCE, &error.chain());
                false
            }
        }
    }
}

#[test]
fn the_examples_do_what_they_say() {
    let place = Place::new();
    if !place.has_fence() {
        return;
    }
    let (printed, stopped) = run::example(&place.project, place.environment()).unwrap();
    assert_eq!(printed, "hello\n");
    assert!(stopped.len() == 1 && stopped[0].contains(".ssh/id_rsa"), "{stopped:?}");
    let (printed, events) = session::example(&place.project, place.environment()).unwrap();
    assert_eq!(printed, "hello from src\n");
    assert_eq!(events, ["tool_call_requested", "tool_call_started", "tool_call_finished"].repeat(2));
    let answers = approve::example(&place.project, place.environment()).unwrap();
    assert_eq!(answers, ("the notes\n".to_owned(), String::new()));
}

#[test]
fn the_builder_is_closer_than_all_files() {
    let place = Place::new();
    if !place.has_fence() {
        return;
    }
    let other = place.home.join("data $x*");
    std::fs::create_dir(&other).unwrap();
    std::fs::create_dir(place.project.join("sub")).unwrap();
    let reference = place.home.join("reference");
    std::fs::create_dir(&reference).unwrap();
    let ringfence = place
        .builder()
        .working_dir(place.project.join("sub"))
        .allow_read(&reference)
        .allow_write(&other)
        .deny(place.project.join("hidden"))
        .block_command("uname -s")
        .timeout(Duration::from_secs(30))
        .output_limit(4096)
        .build()
        .unwrap();
    assert!(ringfence.may_write(other.join("a")) && ringfence.may_write("new"));
    assert!(ringfence.may_read(reference.join("a")) && !ringfence.may_write(reference.join("a")));
    assert!(!ringfence.may_read("hidden") && !ringfence.may_write("/etc/hosts"));
    assert!(!ringfence.may_connect("example.com", 443));
    assert_eq!(ringfence.policy().limits.timeout_ms, Some(30_000));
    assert_eq!(ringfence.judge("uname -s").decision, ringfence::gate::Decision::Deny);
    assert_eq!(ringfence.judge("uname -r").decision, ringfence::gate::Decision::Allow);
    let result = ringfence.run("pwd; echo x > '../../data $x*/written'").unwrap();
    assert_eq!(
        String::from_utf8_lossy(&result.stdout).trim_end(),
        place.project.join("sub").to_str().unwrap()
    );
    assert!(other.join("written").exists());
    let refused = ringfence.run("uname -s").unwrap();
    assert_eq!((refused.exit_code, refused.blocked), (126, true));
    let empty = place.builder().allow_read("").build().unwrap_err();
    assert_eq!(empty.kind, ErrorKind::InvalidConfig);
    let unknown = place.builder().setting("denny", json!([])).build().unwrap_err();
    assert!(unknown.message.contains("denny"), "{unknown}");
}

#[test]
fn each_mode_is_a_preset_that_the_builder_chooses() {
    let place = Place::new();
    for (mode, reads_all) in [("restricted", false), ("permissive", true), ("strict", false)] {
        let ringfence = place.builder().mode(mode).without_ledger().build().unwrap();
        assert_eq!(ringfence.may_read("/var/log/syslog"), reads_all, "{mode}");
        assert!(!ringfence.may_read(place.home.join(".ssh/id_rsa")), "{mode}");
        assert!(ringfence.may_write("new") && !ringfence.may_write("/srv/new"), "{mode}");
        let chain = ringfence.judge("echo a; echo b").decision == ringfence::gate::Decision::Allow;
        assert_eq!(chain, mode != "strict", "{mode}");
    }
    assert_eq!(place.builder().mode("lax").build().unwrap_err().kind, ErrorKind::InvalidConfig);
}

#[test]
fn commands_that_the_builder_lists_are_matched_by_words() {
    let place = Place::new();
    let ringfence =
        place.builder().allow_command("ls").allow_command("rm").block_command("rm -rf").build().unwrap();
    for (command, runs) in [
        ("ls -l", true),
        ("/bin/ls", true),
        ("rm a", true),
        ("rm -rf a", false),
        ("/bin/rm -rf a", false),
        ("cat a", false),
        ("ls; cat a", false),
    ] {
        let denied = ringfence.judge(command).decision == ringfence::gate::Decision::Deny;
        assert_eq!(!denied, runs, "{command}");
    }
    assert_eq!(place.builder().block_command(" ").build().unwrap_err().kind, ErrorKind::InvalidConfig);
}

#[test]
fn limits_of_the_builder_are_the_policys_and_a_network_is_never_the_local_fences() {
    let place = Place::new();
    let builder = place.builder().memory_limit(100 << 20).cpu_limit(7).output_limit(8).file_size_limit(9);
    let ringfence =
        builder.timeout(Duration::from_millis(1500)).setting("allowNetwork", true).build().unwrap();
    let limits = &ringfence.policy().limits;
    assert_eq!((limits.timeout_ms, limits.max_memory_bytes), (Some(1500), Some(100 << 20)));
    assert_eq!(
        (limits.max_cpu_seconds, limits.max_output_bytes, limits.max_file_size_bytes),
        (Some(7), Some(8), Some(9))
    );
    assert!(!ringfence.may_connect("example.com", 443));
    let zero = place.builder().timeout(Duration::ZERO).build().unwrap_err();
    assert_eq!(zero.kind, ErrorKind::InvalidConfig);
}

#[test]
fn what_fails_says_of_which_kind_it_is() {
    let place = Place::new();
    if !place.has_fence() {
        return;
    }
    let ringfence = place.builder().without_ledger().build().unwrap();
    let plain = place.project.join("plain");
    std::fs::write(&plain, "no program").unwrap();
    let unspawned = ringfence.run_request(ringfence::ExecRequest::argv([plain])).unwrap_err();
    assert_eq!(unspawned.kind, ErrorKind::SpawnFailed, "{unspawned}");
    let tools = ringfence.tools().unwrap();
    for (tool, arguments, kind) in [
        ("read", json!({ "path": "../../outside" }), "permission"),
        ("bash", json!({ "command": "rm -rf / --no-preserve-root" }), "permission"),
        ("bash", json!({ "command": 7 }), "validation"),
        ("read", json!({ "path": "missing" }), "not_found"),
    ] {
        let failed = tools.call(tool, &arguments);
        assert_eq!(json!(failed.error_kind), kind, "{failed:?}");
    }
    assert_eq!(tools.content("../../outside").unwrap_err().kind, ErrorKind::PathTraversal);
    tools.dispose();
    let wrong = place.builder().setting("limits", "none at all").build().unwrap_err();
    assert_eq!(wrong.kind, ErrorKind::InvalidConfig);
}

#[test]
fn without_a_fence_commands_run_and_that_is_said() {
    let place = Place::new();
    let (tell, told) = std::sync::mpsc::channel();
    let tell = std::sync::Mutex::new(tell);
    let warned = move |text: &str| drop(tell.lock().unwrap().send(text.to_owned()));
    let ringfence = place.builder().enabled(false).on_warning(warned).without_ledger().build().unwrap();
    std::fs::write(place.home.join("plain"), "of the home\n").unwrap();
    let result = ringfence.run("cat ../plain").unwrap();
    assert_eq!(result.stdout, b"of the home\n", "no fence hides it: {result:?}");
    assert!(!result.sandbox.active);
    assert!(told.try_recv().unwrap().contains("sandbox"), "the person is warned");
}

#[test]
fn tools_and_callers_that_do_not_block_go_the_same_way() {
    let place = Place::new();
    if !place.has_fence() {
        return;
    }
    let ask = |_: &Permission| Answer::new(Decision::Deny);
    let ringfence = place.builder().ask(ask).setting("safety", json!({ "gate": "on" })).build().unwrap();
    let tools = ringfence.tools().unwrap();
    let ran = tools.call("bash", &json!({ "command": "echo out" }));
    assert_eq!(ran.stdout, "out\n", "{ran:?}");
    tools.dispose();
    let waiting = Box::pin(ringfence.run_async("echo later"));
    let result = ringfence::fence::block_on(waiting).unwrap();
    assert_eq!(result.stdout, b"later\n");
}

#[test]
fn a_projects_rule_shows_no_variable_of_the_person() {
    let place = Place::new();
    if !place.has_fence() {
        return;
    }
    let rules = json!({ "deny": ["trap[$DEPLOY_TOKEN]", "plain-$ADDRESS"] });
    std::fs::create_dir_all(place.project.join(".ringfence")).unwrap();
    std::fs::write(place.project.join(".ringfence/sandbox.json"), rules.to_string()).unwrap();
    let mut environment = place.environment();
    environment.insert("DEPLOY_TOKEN".into(), "t0psecret".into());
    environment.insert("ADDRESS".into(), "private-street".into());
    let told = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
    let warnings = told.clone();
    let ringfence = place
        .builder()
        .environment(environment)
        .on_warning(move |warning| warnings.lock().unwrap().push_str(warning))
        .without_ledger()
        .build()
        .unwrap();
    let names = ["trapt", "trap0", "plain-private-street"].map(|name| place.project.join(name));
    for name in &names {
        std::fs::write(name, "x").unwrap();
    }
    let result = ringfence.run("cat trapt trap0 plain-private-street").unwrap();
    assert_eq!(result.exit_code, 0, "the rule stays as it was written: {result:?}");
    let told = format!("{result:?} {}", told.lock().unwrap());
    assert!(!told.contains("t0psecret") && told.contains("is not expanded in a project's file"), "{told}");
}
