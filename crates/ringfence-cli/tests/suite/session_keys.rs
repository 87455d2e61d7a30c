//! Commands under the key of a session: whether they are fenced in, and where they work.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::session::Session;
use super::support::Room;

const CHAT: &str = "agent:work:chat";

/// What a command under that key came to.
fn run(room: &Room, key: &str, command: &str) -> Value {
    room.run(&["run", "--json", "--session", key, "--", "sh", "-c", command]).json()
}

fn is_fenced(room: &Room, key: &str) -> bool {
    let ran = room.run(&["run", "--json", "--session", key, "--", "true"]);
    let fenced = ran.json()["sandbox"]["active"] == true;
    let warned = ran.stderr.contains("with all your rights");
    assert_eq!(fenced, !warned, "{key}: whoever is not fenced in is told: {}", ran.stderr);
    fenced
}

#[test]
fn the_mode_decides_which_sessions_are_fenced_in() {
    let room = Room::new();
    if !room.has_fence() {
        return;
    }
    for (settings, main, chat) in [
        ("{}", true, true),
        (r#"{ "mode": "all" }"#, true, true),
        (r#"{ "mode": "off" }"#, false, false),
        (r#"{ "mode": "non-main" }"#, false, true),
        (r#"{ "sessions": "non-main" }"#, false, true),
    ] {
        room.configure(settings);
        for key in ["main", "agent:work:main", "agent:main:main"] {
            assert_eq!(is_fenced(&room, key), main, "{key} by {settings}");
        }
        for key in [CHAT, "chat", "agent:main:chat"] {
            assert_eq!(is_fenced(&room, key), chat, "{key} by {settings}");
        }
    }
    room.configure(r#"{ "mode": "all" }"#);
    assert!(!is_fenced(&room, ""), "nobody's session has no sandbox");
}

#[test]
fn a_session_of_lines_is_fenced_in_by_its_key_too() {
    let room = Room::new();
    if !room.has_fence() {
        return;
    }
    room.configure(r#"{ "mode": "non-main" }"#);
    for (key, fenced) in [("main", false), (CHAT, true)] {
        let mut session = Session::spawn(room.command(&["session", "--session", key]));
        if !fenced {
            let warning = session.until("warning")["message"].as_str().unwrap().to_owned();
            assert!(warning.contains("with all your rights"), "{warning}");
        }
        session.send(&json!({ "id": 1, "command": "true" }));
        assert_eq!(session.until("result")["result"]["sandbox"]["active"], fenced, "{key}");
    }
}

#[test]
fn the_scope_decides_who_shares_a_directory_that_lasts() {
    let room = Room::new();
    if !room.has_fence() {
        return;
    }
    room.write("plan.txt", "plan\n");
    let place = |key: &str| {
        let ran = run(&room, key, "pwd; echo x >> kept; wc -l < kept");
        let text = ran["stdout"].as_str().unwrap().to_owned();
        let (place, lines) = text.trim_end().split_once('\n').unwrap();
        (PathBuf::from(place), lines.trim().parse::<usize>().unwrap())
    };
    let (work, other, agent) = ("agent:work:a", "agent:work:b", "agent:play:a");
    for (scope, shared_by_agent, shared_by_all) in
        [("session", false, false), ("agent", true, false), ("shared", true, true)]
    {
        let root = room.home.join(scope);
        let root_text = root.display();
        room.configure(&format!(
            r#"{{ "scope": "{scope}", "workspaceAccess": "none", "workspaceRoot": "{root_text}" }}"#
        ));
        let (first, lines) = place(work);
        assert!(first.starts_with(&root) && lines == 1, "{scope}: {}", first.display());
        assert_eq!(place(work), (first.clone(), 2), "{scope}: it lasts");
        assert_eq!(place(other).0 == first, shared_by_agent, "{scope}");
        assert_eq!(place(agent).0 == first, shared_by_all, "{scope}");
    }
    assert!(!room.project.join("kept").exists());
    room.configure(r#"{ "workspaceAccess": "rw" }"#);
    assert_eq!(run(&room, work, "cat plan.txt; echo y > made")["stdout"], "plan\n");
    assert!(room.project.join("made").exists());
    room.configure(r#"{ "workspaceAccess": "ro" }"#);
    let read = run(&room, work, "cat plan.txt; echo y > other");
    assert_eq!((&read["stdout"], &read["blocked"]), (&json!("plan\n"), &json!(true)), "{read}");
    assert!(!room.project.join("other").exists());
}

#[test]
fn directories_that_nobody_used_for_a_day_are_pruned() {
    let room = Room::new();
    if !room.has_fence() {
        return;
    }
    room.configure(r#"{ "scope": "session", "workspaceAccess": "none" }"#);
    let places: Vec<PathBuf> = ["agent:work:old", "agent:work:new"]
        .map(|key| PathBuf::from(run(&room, key, "pwd")["stdout"].as_str().unwrap().trim_end()))
        .to_vec();
    let touched = std::process::Command::new("find")
        .arg(&places[0])
        .args(["-exec", "touch", "-h", "-d", "25 hours ago", "{}", "+"])
        .status();
    assert!(touched.unwrap().success());
    let pruned = room.run(&["prune", "--json"]).expect(0).json();
    assert_eq!(pruned["workspaces"], json!([places[0].file_name().unwrap().to_str().unwrap()]), "{pruned}");
    assert!(!places[0].exists() && places[1].exists());
}

#[cfg(all(feature = "docker", target_os = "linux"))]
#[test]
fn a_named_session_finds_its_container_again() {
    use ringfence_docker::testing::{FULL, TestEngine};
    let Some(engine) = TestEngine::shared() else { return };
    let room = Room::new();
    let key = format!("agent:work:k{}", std::process::id());
    room.configure(&format!(
        r#"{{ "provider": "docker", "scope": "session", "workspaceAccess": "none",
              "docker": {{ "image": "{FULL}", "memory": "256M" }}, "providerOptions": {{ "engine": "{}" }} }}"#,
        engine.host()
    ));
    let names: Vec<Value> = (0..2)
        .map(|_| run(&room, &key, "hostname; pwd; echo x >> kept; wc -l < kept")["stdout"].clone())
        .collect();
    let lines = |index: usize| names[index].as_str().unwrap().lines().collect::<Vec<_>>();
    assert_eq!(lines(0)[0], lines(1)[0], "the same container");
    assert_eq!((lines(0)[1], lines(0)[2], lines(1)[2]), ("/workspace", "1", "2"));
    let removed = room.run(&["recreate", "--session", &key, "--force", "--json"]).expect(0).json();
    assert_eq!(removed[0]["result"], "removed", "{removed}");
}
