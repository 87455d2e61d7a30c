//! `ringfence list`, `recreate`, `prune` and `explain --session` about containers of a real engine.

use std::path::Path;
use std::time::Duration;

use ringfence::fence::{BoxFuture, wait_for};
use ringfence::manager::{Manager, ManagerOptions, built_in};
use ringfence::model::ExecRequest;
use ringfence::model::config::ConfigFile;
use ringfence::setup::Setup;
use ringfence_docker::testing::{FULL, TestEngine};
use serde_json::{Value, json};

use super::support::Room;

fn wait<T>(future: BoxFuture<'_, T>) -> T {
    wait_for(future, Duration::from_secs(300)).unwrap()
}

fn configure(room: &Room, engine: &str, image: &str) {
    room.configure(&format!(
        r#"{{ "provider": "docker", "scope": "session", "docker": {{ "image": "{image}", "memory": "256M" }},
              "providerOptions": {{ "engine": "{engine}" }} }}"#
    ));
}

/// A program that hosts agents, with the room's configuration and register.
fn host(room: &Room) -> Manager {
    let env = [("HOME", &room.home), ("RINGFENCE_HOME", &room.ringfence_home)]
        .map(|(name, path)| (name.into(), path.clone().into_os_string()));
    let setup = Setup::load(&room.project, env.into(), ConfigFile::default(), None).unwrap();
    let mut options = ManagerOptions::new(&setup, |warning| panic!("{warning}"));
    options.stage = Some(Path::new(env!("CARGO_BIN_EXE_ringfence")).to_owned());
    Manager::new(setup, built_in().unwrap(), options)
}

fn run(manager: &Manager, session: &str) {
    let ran = wait(Box::pin(manager.execute(session, ExecRequest::shell("echo hi"), &|_| ()))).unwrap();
    assert_eq!(ran.stdout, b"hi\n", "{ran:?}");
}

fn sql(room: &Room, text: &str) {
    let ledger = room.ringfence_home.join("ledger.db");
    let said = std::process::Command::new("sqlite3").arg(ledger).arg(text).output().unwrap();
    assert!(said.status.success(), "{said:?}");
}

fn names(room: &Room) -> Vec<(String, Value, Value)> {
    let listed = room.run(&["list", "--json"]).expect(0).json();
    let mut names: Vec<_> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|kept| {
            (kept["sessionKey"].as_str().unwrap().to_owned(), kept["running"].clone(), kept["inUse"].clone())
        })
        .collect();
    names.sort_by(|one, other| one.0.cmp(&other.0));
    names
}

#[test]
fn containers_are_listed_explained_recreated_and_pruned() {
    let Some(engine) = TestEngine::shared() else { return };
    let room = Room::new();
    configure(&room, &engine.host(), FULL);
    let there = || {
        let listed = engine.docker(&["ps", "-a", "--format", "{{.Names}}"]).output().unwrap();
        String::from_utf8(listed.stdout).unwrap()
    };
    let manager = host(&room);
    let (a, b) =
        (format!("agent:main:a{}", std::process::id()), format!("agent:work:b{}", std::process::id()));
    run(&manager, &a);
    run(&manager, &b);
    let used = json!(true);
    assert_eq!(
        names(&room),
        [(a.clone(), used.clone(), used.clone()), (b.clone(), used.clone(), used.clone())]
    );
    let told = room.run(&["explain", "--session", &a, "--json"]).expect(0).json();
    let container = told["containerName"].as_str().unwrap().to_owned();
    assert_eq!(told["registered"][0]["name"], container.as_str(), "explained as it is: {told}");
    assert!(there().contains(&container));
    assert!(room.run(&["prune"]).expect(0).stderr.contains("nothing to prune"), "what is used stays");

    // Whoever hosted them is gone; the containers wait for the next.
    wait(Box::pin(manager.shutdown())).unwrap();
    assert_eq!(
        names(&room),
        [(a.clone(), used.clone(), json!(false)), (b.clone(), used.clone(), json!(false))]
    );
    configure(&room, &engine.host(), "another:image");
    let listed = room.run(&["list"]).expect(0);
    assert!(listed.stdout.contains("(other)") && listed.stdout.contains("running"), "{listed:?}");
    configure(&room, &engine.host(), FULL);

    let gone = room.run(&["recreate", "--session", &a, "--force", "--json"]).expect(0).json();
    assert_eq!(gone, json!([{ "name": container, "result": "removed", "error": null }]));
    assert!(!there().contains(&container));
    run(&manager, &a);
    assert!(there().contains(&container), "made anew when it is needed");
    wait(Box::pin(manager.shutdown())).unwrap();

    // Nobody remembers one, and nobody has used the other for a long time.
    sql(&room, &format!("DELETE FROM sandboxes WHERE session_key = '{a}'"));
    sql(&room, "UPDATE sandboxes SET last_used_ms = 1");
    let pruned = room.run(&["prune", "--json"]).expect(0).json();
    assert_eq!(pruned["adopted"], json!([container]), "{pruned}");
    assert_eq!(pruned["removed"][0]["reason"], "idle", "{pruned}");
    assert_eq!(names(&room), [(a.clone(), used, json!(false))]);

    configure(&room, "unix:///no/such/socket", FULL);
    let listed = room.run(&["list"]).expect(0);
    assert!(listed.stdout.contains("unknown") && listed.stderr.contains("/no/such/socket"), "{listed:?}");
    room.run(&["prune"]).expect(1);
    room.run(&["recreate", "--all", "--force"]).expect(1);

    configure(&room, &engine.host(), FULL);
    let removed = room.run(&["recreate", "--agent", "main", "--force"]).expect(0);
    assert_eq!(removed.stdout, format!("removed: {container}\n"));
    assert!(names(&room).is_empty() && !there().contains(&container));
}
