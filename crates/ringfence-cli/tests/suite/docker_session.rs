//! Sessions and the tools' server whose sandboxes are containers.

use std::time::{Duration, Instant};

use ringfence_docker::testing::{FULL, LEAST, TestEngine};
use serde_json::{Value, json};

use super::mcp::{Agent, call};
use super::session::Session;
use super::support::Room;

const PATIENCE: Duration = Duration::from_secs(60);

fn room(engine: &TestEngine, image: &str) -> Room {
    let room = Room::new();
    let config = json!({
        "provider": "docker", "workspaceAccess": "rw", "scope": "session",
        "docker": { "image": image, "memory": "256M" },
        "providerOptions": { "engine": engine.host() },
    });
    room.configure(&config.to_string());
    room
}

/// The containers of a project.
fn containers(engine: &TestEngine, room: &Room) -> String {
    let mark = format!("label=ringfence.workspace={}", room.project.display());
    let listed = engine.docker(&["ps", "-aq", "--filter", &mark]).output().unwrap();
    String::from_utf8(listed.stdout).unwrap()
}

fn until_none(engine: &TestEngine, room: &Room) {
    let deadline = Instant::now() + PATIENCE;
    while !containers(engine, room).is_empty() {
        assert!(Instant::now() < deadline, "a container is left");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_session_works_in_a_container_that_goes_with_it() {
    let Some(engine) = TestEngine::shared() else { return };
    for (image, adapter) in [(FULL, "docker/guest"), (LEAST, "docker/sh")] {
        let room = room(&engine, image);
        let mut session = Session::start(&room);
        session.run(1, "X=1; cd /usr; echo made > /workspace/note");
        let second = session.run(2, "echo $X $PWD");
        assert_eq!((&second["stdout"], &second["sandbox"]["adapter"]), (&json!("1 /usr\n"), &json!(adapter)));
        assert_eq!(std::fs::read_to_string(room.project.join("note")).unwrap(), "made\n");
        session.send(&json!({ "id": 3, "command": "echo [$X] $PWD", "shell": "other" }));
        assert_eq!(session.until("result")["result"]["stdout"], "[] /workspace\n");
        session.send(&json!({ "id": 4, "command": "cat", "stdin": "given" }));
        assert_eq!(session.until("stdout")["data"], "given");
        session.until("result");
        session.send(&json!({ "id": 5, "command": "echo runs; sleep 1234" }));
        session.until("stdout");
        session.send(&json!({ "id": 5, "cancel": true }));
        assert_eq!(session.until("result")["result"]["exitCode"], 143, "{image}");
        let gone = session.run(6, "exit 3");
        assert_eq!((&gone["exitCode"], &gone["restarted"]), (&json!(3), &json!(true)), "{image}");
        assert!(!containers(&engine, &room).is_empty());
        assert_eq!(session.end(), 0);
        assert_eq!(containers(&engine, &room), "", "{image}");
        // Whoever is killed cannot clean up; the engine does.
        let mut session = Session::start(&room);
        session.run(1, "true");
        session.child.kill().unwrap();
        session.child.wait().unwrap();
        until_none(&engine, &room);
    }
}

#[test]
fn a_session_in_a_container_asks_and_has_jobs_and_terminals() {
    let Some(engine) = TestEngine::shared() else { return };
    let room = room(&engine, FULL);
    room.write(".env", "granted\n");
    let mut session = Session::start(&room);
    session.send(&json!({ "id": 1, "command": "head -c 7 .env" }));
    let asked = session.until("permission_request");
    assert_eq!(asked["resource"], json!(room.project.join(".env")), "{asked}");
    session.send(&json!({ "permission": asked["permission"], "decision": "allow_once" }));
    let result = session.until("result");
    assert_eq!(result["result"]["stdout"], "granted", "{result}");

    session.send(&json!({ "id": 2, "command": "read line; echo got $line", "background": true }));
    let job = session.until("job")["job"]["id"].clone();
    assert_eq!(session.run(3, "echo meanwhile")["stdout"], "meanwhile\n");
    session.send(&json!({ "id": 4, "job": job, "input": "typed\n" }));
    let mut ended = session.until("job");
    while ended["id"] != 2 || ended["job"]["state"] != "ended" {
        ended = session.until("job");
    }
    assert_eq!(ended["job"]["exitCode"], 0, "{ended}");
    session.send(&json!({ "id": 5, "job": job, "offset": 0 }));
    let mut read = session.until("job");
    while read["id"] != 5 {
        read = session.until("job");
    }
    assert_eq!(read["data"], "got typed\n");

    session.send(&json!({ "id": 6, "command": "stty size; read line; echo \"<$line>\"", "tty": true, "rows": 30, "columns": 90 }));
    let mut shown = String::new();
    while !shown.contains('\n') {
        shown.push_str(session.until("stdout")["data"].as_str().unwrap());
    }
    session.send(&json!({ "id": 6, "input": "seen\n" }));
    let result = session.until("result")["result"].clone();
    assert!(result["stdout"].as_str().unwrap().contains("<seen>"), "{result}");
    assert_eq!(session.end(), 0);
    assert_eq!(containers(&engine, &room), "");
}

#[tokio::test]
async fn the_tools_server_works_in_a_container() {
    let Some(engine) = TestEngine::shared() else { return };
    for (image, adapter) in [(FULL, "docker/guest"), (LEAST, "docker/sh")] {
        let room = room(&engine, image);
        room.write(".env", "canary");
        let client = Agent::default().connect(&room).await;
        let said =
            call(&client, "bash", json!({ "command": "cd /usr; echo made > /workspace/note; pwd" })).await;
        assert_eq!(said["stdout"], "/usr\n", "{said}");
        let said = call(&client, "bash", json!({ "command": "pwd; exit 3" })).await;
        assert_eq!((&said["stdout"], &said["exitCode"]), (&json!("/usr\n"), &json!(3)), "{said}");
        let shown = said.to_string();
        assert!(shown.contains(adapter), "{image}: {shown}");
        let read = call(&client, "read", json!({ "path": "note" })).await;
        assert!(read["stdout"].as_str().unwrap().contains("made"), "{read}");
        let written = call(&client, "write", json!({ "path": "b", "content": "by tool\n" })).await;
        assert_eq!(written["ok"], Value::Bool(true), "{written}");
        let said = call(&client, "bash", json!({ "command": "cat /workspace/b" })).await;
        assert_eq!(said["stdout"], "by tool\n", "{said}");
        let (language, code) = match image {
            FULL => ("python", "print(open('b').read().strip()); open('made', 'w').write('x')"),
            _ => ("shell", "echo no bash here"),
        };
        let ran = call(&client, "run_code", json!({ "language": language, "code": code })).await;
        let (said, status) = if image == FULL { ("by tool\n", 0) } else { ("", 127) };
        assert_eq!((&ran["stdout"], &ran["exitCode"]), (&json!(said), &json!(status)), "{ran}");
        // Last: with a guest, a person is asked, and what comes after waits.
        let secret = call(&client, "bash", json!({ "command": "cat /workspace/.env" })).await;
        assert!(!secret.to_string().contains("canary"), "{secret}");
        client.cancel().await.unwrap();
        // Containers of sessions are kept for the next one.
        for id in containers(&engine, &room).split_whitespace() {
            engine.docker(&["rm", "-f", id]).output().unwrap();
        }
    }
}
