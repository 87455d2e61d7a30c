//! `ringfence list`, `recreate`, `prune` and `explain --session`, as far as they need no container engine.

use ringfence::ledger::{Ledger, NewSandbox, now_ms};
use serde_json::{Value, json};

use super::support::Room;

const HOUR: u64 = 3_600_000;

/// Registers a sandbox that was made and last used so long ago.
fn register(room: &Room, name: &str, provider: &str, session_key: &str, age_ms: u64) {
    std::fs::create_dir_all(&room.ringfence_home).unwrap();
    let mut ledger = Ledger::open(&room.ringfence_home.join("ledger.db")).unwrap();
    let new = NewSandbox {
        name: name.to_owned(),
        provider: provider.to_owned(),
        session_key: session_key.to_owned(),
        scope: "session".to_owned(),
        image: "old:image".to_owned(),
        config_hash: "hash".to_owned(),
        ..NewSandbox::default()
    };
    ledger.upsert(&new, now_ms() - age_ms).unwrap();
}

#[test]
fn without_sandboxes_there_is_nothing_to_list_recreate_or_prune() {
    let room = Room::new();
    let ran = room.run(&["list"]).expect(0);
    assert!(ran.stdout.is_empty() && ran.stderr.contains("there are no sandboxes"), "{ran:?}");
    assert_eq!(room.run(&["list", "--json"]).expect(0).json(), json!([]));
    assert!(room.run(&["recreate", "--all"]).expect(0).stderr.contains("nothing to recreate"));
    assert_eq!(room.run(&["recreate", "--all", "--force", "--json"]).expect(0).json(), json!([]));
    assert!(room.run(&["prune"]).expect(0).stderr.contains("nothing to prune"));
    let pruned = room.run(&["prune", "--json"]).expect(0).json();
    assert_eq!(pruned, json!({ "removed": [], "failed": [], "adopted": [], "gone": [], "workspaces": [] }));
}

#[test]
fn sandboxes_are_listed_with_ages_for_people_and_everything_for_programs() {
    let room = Room::new();
    register(&room, "elsewhere-1", "elsewhere", "agent:main:chat-7", 3 * HOUR);
    let table = room.run(&["list"]).expect(0);
    let row: Vec<&str> =
        table.stdout.lines().nth(1).unwrap().split("  ").filter(|cell| !cell.is_empty()).collect();
    assert_eq!(
        row.iter().map(|cell| cell.trim()).collect::<Vec<_>>(),
        ["elsewhere-1", "unknown", "3h ago", "3h ago", "old:image (other)", "agent:main:chat-7"]
    );
    assert!(table.stderr.contains("another image"), "{}", table.stderr);
    let listed = room.run(&["list", "--json"]).expect(0).json();
    let fields = listed[0].as_object().unwrap();
    for field in [
        "name",
        "provider",
        "sessionKey",
        "image",
        "imageMatches",
        "configHash",
        "running",
        "inUse",
        "createdAtMs",
        "lastUsedAtMs",
        "registered",
    ] {
        assert!(fields.contains_key(field), "{field} is missing in {listed}");
    }
    assert_eq!(listed[0]["imageMatches"], false);
}

#[test]
fn recreate_wants_to_know_which_and_whether_you_are_sure() {
    let room = Room::new();
    register(&room, "elsewhere-1", "elsewhere", "agent:work:chat", HOUR);
    for wrong in [
        &["recreate"][..],
        &["recreate", "--force"],
        &["recreate", "--all", "--session", "x"],
        &["recreate", "--agent", "a", "--session", "x"],
        &["recreate", "--all", "--agent", "a", "--force"],
        &["recreate", "--all", "--json"],
    ] {
        room.run(wrong).expect(2);
    }
    let unsure = room.run(&["recreate", "--all"]).expect(2);
    assert!(unsure.stderr.contains("--force"), "{}", unsure.stderr);
    for (which, name) in [("--session", "agent:work:other"), ("--agent", "wor"), ("--agent", "worker")] {
        assert!(
            room.run(&["recreate", which, name, "--force"]).expect(0).stderr.contains("nothing to recreate")
        );
    }
    // A provider that this program does not have: the failure is told, and the row stays.
    for (which, name) in [("--session", "agent:work:chat"), ("--agent", "Work")] {
        let told = room.run(&["recreate", which, name, "--force", "--json"]).expect(1).json();
        assert_eq!((&told[0]["name"], &told[0]["result"]), (&json!("elsewhere-1"), &json!("failed")));
    }
    assert_eq!(room.run(&["list", "--json"]).expect(0).json().as_array().unwrap().len(), 1);
}

#[test]
fn sandboxes_of_programs_that_ended_are_forgotten() {
    let room = Room::new();
    register(&room, "local-1", "local", "agent:main", HOUR);
    let ledger = room.ringfence_home.join("ledger.db");
    let changed =
        std::process::Command::new("sqlite3").arg(ledger).arg("UPDATE sandboxes SET owner = ''").status();
    assert!(changed.unwrap().success());
    assert_eq!(room.run(&["list", "--json"]).expect(0).json()[0]["running"], false);
    let pruned = room.run(&["prune"]).expect(0);
    assert_eq!(pruned.stdout, "forgotten: local-1: it is not there any more\n");
    assert_eq!(room.run(&["list", "--json"]).expect(0).json(), json!([]));
}

fn explain(room: &Room, session: &str, code: i32) -> Value {
    room.run(&["explain", "--session", session, "--json"]).expect(code).json()
}

#[test]
fn a_session_is_told_where_it_works_and_why() {
    let room = Room::new();
    let file = room.configure(r#"{ "sessions": "non-main", "provider": "docker", "scope": "session", "browser": { "allowHostControl": true } }"#);
    let told = explain(&room, "agent:work:chat", 0);
    for (field, want) in [
        ("enabled", json!(true)),
        ("sessionKey", json!("agent:work:chat")),
        ("agentId", json!("work")),
        ("mainSessionKey", json!("agent:work:main")),
        ("mode", json!("non-main")),
        ("scope", json!("session")),
        ("scopeKey", json!("agent:work:chat")),
        ("provider", json!("docker")),
        ("workspaceAccess", json!("none")),
        ("agentWorkspaceDir", json!(room.project)),
        ("containerWorkdir", json!("/workspace")),
        ("browserAllowHostControl", json!(true)),
        ("fsBridge", json!(true)),
        ("registered", json!([])),
    ] {
        assert_eq!(told[field], want, "{field} in {told}");
    }
    let directory = told["workspaceDir"].as_str().unwrap();
    assert!(directory.starts_with(room.ringfence_home.join("sandboxes").to_str().unwrap()), "{directory}");
    assert!(!std::path::Path::new(directory).exists(), "telling makes nothing");
    let name = told["containerName"].as_str().unwrap();
    assert!(name.starts_with("ringfence-sbx-agent-work-chat-"), "{name}");
    assert_eq!(told["docker"]["pidsLimit"], 512);
    assert_eq!(told["tools"]["allow"][0], json!({ "name": "exec", "source": "built-in" }));
    let sessions =
        &told["reasons"].as_array().unwrap().iter().find(|r| r["key"] == "sessions").unwrap()["source"];
    assert!(sessions.as_str().unwrap().contains(file.to_str().unwrap()), "{sessions}");

    let text = room.run(&["explain", "--session", "agent:work:chat"]).expect(0).stdout;
    for part in ["sandboxed", name, "because    sessions is non-main", "change"] {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
    assert_eq!(explain(&room, "main", 1)["enabled"], false);
    let text = room.run(&["explain", "--session", "main"]).expect(1).stdout;
    assert!(text.starts_with("not sandboxed") && text.contains("\"sessions\": \"all\""), "{text}");
}

#[test]
fn an_agents_own_section_counts_and_what_is_registered_is_shown() {
    let room = Room::new();
    room.configure(r#"{ "agents": { "work": { "scope": "shared", "provider": "docker" } } }"#);
    register(&room, "ringfence-sbx-shared", "docker", "shared", 2 * HOUR);
    let told = explain(&room, "agent:work:chat", 0);
    assert_eq!((&told["scopeKey"], &told["provider"]), (&json!("shared"), &json!("docker")));
    assert_eq!(told["containerName"], "ringfence-sbx-shared");
    assert_eq!(told["registered"][0]["name"], "ringfence-sbx-shared");
    let other = explain(&room, "agent:other:chat", 0);
    assert_eq!((&other["scopeKey"], &other["provider"]), (&json!("agent:other"), &json!("local")));
    assert_eq!(other["workspaceDir"], json!(room.project));
    assert!(other.get("containerName").is_none());
    room.run(&["explain"]).expect(2);
    room.run(&["explain", "--session", "x", "/etc"]).expect(2);
}
