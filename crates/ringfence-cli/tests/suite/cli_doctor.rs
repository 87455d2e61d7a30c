//! `ringfence doctor`: every mechanism has an answer, and the exit code is the one that counts.

use super::support::Room;

const MECHANISMS: [&str; 20] = [
    "userNamespaces",
    "maxUserNamespaces",
    "unprivilegedUsernsClone",
    "apparmorUserns",
    "namespaces",
    "freshProc",
    "landlock",
    "seccomp",
    "seccompNotify",
    "processAccess",
    "cgroup",
    "fuse",
    "container",
    "nested",
    "ledger",
    "bwrap",
    "docker",
    "sandboxExec",
    "fence",
    "here",
];

#[test]
fn every_mechanism_is_reported_with_cost_and_remedy() {
    let room = Room::new();
    let ran = room.run(&["doctor", "--json"]);
    let report = ran.json();
    let checks = report["checks"].as_array().unwrap();
    let ids: Vec<&str> = checks.iter().filter_map(|check| check["id"].as_str()).collect();
    assert_eq!(ids, MECHANISMS);
    for check in checks {
        let status = check["status"].as_str().unwrap();
        assert!(["ok", "degraded", "missing", "notApplicable"].contains(&status), "{check}");
        if ["degraded", "missing"].contains(&status) {
            assert!(check["cost"].is_string(), "{check}");
        }
        if status == "missing" {
            assert!(check["remedy"].is_string(), "{check}");
        }
    }
    assert_eq!(report["fence"] == true, ran.code == 0);
    assert_eq!(report["launcher"].is_string(), ran.code == 0);
    assert!(report["why"].as_str().is_some_and(|why| !why.is_empty()));
}

#[test]
fn the_answer_is_what_run_does() {
    let room = Room::new();
    let examined = room.run(&["doctor"]);
    let ran = room.run(&["run", "--", "true"]);
    assert_eq!(examined.code == 0, ran.code == 0, "{}\n{}", examined.stdout, ran.stderr);
    let last = examined.stdout.lines().last().unwrap();
    assert!(last.starts_with(if ran.code == 0 { "ready: " } else { "not ready: " }), "{last}");
}

#[test]
fn a_broken_configuration_is_named_and_fails() {
    let room = Room::new();
    room.configure("{ \"deny\": 7 }");
    let report = room.run(&["doctor", "--json"]).expect(1).json();
    let here = report["checks"].as_array().unwrap().iter().find(|check| check["id"] == "here").unwrap();
    assert_eq!(here["status"], "missing");
    assert!(here["found"].as_str().unwrap().contains("sandbox.json"), "{here}");
    assert!(here["remedy"].as_str().unwrap().contains("ringfence config check"), "{here}");
}

#[test]
fn the_inside_of_a_fence_is_recognised() {
    let room = Room::new();
    let output = room.command(&["doctor", "--json"]).env("RINGFENCE", "1").output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let nested = report["checks"].as_array().unwrap().iter().find(|check| check["id"] == "nested").unwrap();
    assert_eq!(nested["status"], "degraded");
}

/// A real one, not a made-up variable: inside, the best fence cannot start, and the doctor says why.
#[test]
fn a_fence_in_a_fence_is_seen_with_its_reason() {
    let room = Room::new();
    if !room.has_fence() {
        return;
    }
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_ringfence"));
    let copy = room.project.join("ringfence");
    std::fs::copy(program, &copy).unwrap();
    let inside = room.run(&["run", "--quiet", "--", copy.to_str().unwrap(), "doctor", "--json"]);
    let report = inside.json();
    let check = |id: &str| {
        report["checks"].as_array().unwrap().iter().find(|check| check["id"] == id).unwrap().clone()
    };
    assert_eq!(check("nested")["status"], "degraded");
    assert_eq!(check("userNamespaces")["status"], "missing");
    assert_ne!(check("fence")["status"], "ok", "{report:#}");
    assert_ne!(report["launcher"], "native");
    assert!(report["why"].as_str().unwrap().len() > 20, "{report:#}");
}

/// A machine without user namespaces, made from this one: the switch holds for what is started below it.
#[test]
fn a_switch_that_is_off_is_named_with_its_remedy() {
    let room = Room::new();
    let off = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"";
    let plain = room.command(&["doctor", "--json"]);
    let mut wrapped = std::process::Command::new("unshare");
    wrapped.args(["-Ur", "sh", "-c", off, "sh"]).arg(plain.get_program()).args(plain.get_args());
    wrapped.current_dir(&room.project).env_clear();
    wrapped.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = wrapped.output().unwrap();
    let Ok(report) = serde_json::from_slice::<serde_json::Value>(&output.stdout) else {
        return ringfence_testing::lacks("user-namespaces", &String::from_utf8_lossy(&output.stderr));
    };
    let checks = report["checks"].as_array().unwrap();
    let check = |id: &str| checks.iter().find(|check| check["id"] == id).unwrap();
    for id in ["userNamespaces", "maxUserNamespaces"] {
        assert_eq!(check(id)["status"], "missing", "{report:#}");
        assert_eq!(check(id)["remedy"], "sudo sysctl -w user.max_user_namespaces=15000");
    }
    assert!(check("userNamespaces")["found"].as_str().unwrap().starts_with("user.max_user_namespaces is 0"));
    assert_ne!(report["launcher"], "native");
    assert!(report["why"].as_str().unwrap().contains("user.max_user_namespaces is 0"), "{report:#}");
}

#[test]
fn nothing_is_left_behind() {
    let room = Room::new();
    let scratch = room.home.join("scratch");
    std::fs::create_dir(&scratch).unwrap();
    room.command(&["doctor", "--profiles"]).env("TMPDIR", &scratch).output().unwrap();
    assert_eq!(std::fs::read_dir(&scratch).unwrap().count(), 0, "temporary directories are removed");
    assert!(!room.ringfence_home.exists(), "looking makes nothing");
    assert_eq!(std::fs::read_dir(&room.project).unwrap().count(), 0);
}

/// The regression run: one record per profile, offline, for programs.
#[test]
fn every_profile_is_proven_by_real_commands() {
    let room = Room::new();
    let fence = room.has_fence();
    let report = room.run(&["doctor", "--profiles", "--json"]).expect(i32::from(!fence)).json();
    let profiles = report["profiles"].as_array().unwrap();
    let names: Vec<&str> = profiles.iter().filter_map(|proof| proof["profile"].as_str()).collect();
    assert_eq!(names, ["dev", "balanced", "prod"]);
    for proof in profiles {
        assert_eq!(proof["platform"], std::env::consts::OS);
        assert_eq!(proof["osMode"], "auto");
        assert_eq!(proof["policy"], if proof["profile"] == "dev" { "none" } else { "restricted" });
        assert_eq!(proof["explicitWins"]["wins"], true, "{proof}");
        assert_eq!(proof["explicitWins"]["effective"], 777);
        for check in proof["checks"].as_array().unwrap() {
            if fence {
                assert_eq!(check["result"], "passed", "{proof}");
            } else {
                assert_eq!(check["result"], "skipped", "{proof}");
                assert!(check["reason"].is_string(), "{proof}");
            }
        }
        assert_eq!(proof["adapter"].is_string(), fence);
    }
}

/// The demonstration that the network is off: a listener of the host's is not reached.
#[test]
fn the_loopback_of_the_host_is_unreachable_inside() {
    let room = Room::new();
    if !room.has_fence() {
        return;
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let connect = format!("exec 3<>/dev/tcp/127.0.0.1/{}", listener.local_addr().unwrap().port());
    let inside = room.run(&["run", "--quiet", "-c", &connect]);
    assert_ne!(inside.code, 0);
    assert!(listener.accept().is_err(), "nobody came");
    let outside = std::process::Command::new("bash").args(["-c", &connect]).status().unwrap();
    assert!(outside.success(), "the same command reaches it from outside");
}
