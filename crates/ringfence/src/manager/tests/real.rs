//! The manager with sandboxes of the operating system.

use ringfence_model::{Access, ExecRequest, ExecResult, Grant, GrantScope};
use serde_json::json;

use super::Room;

async fn run(room: &Room, session: &str, text: &str) -> ExecResult {
    room.manager.execute(session, ExecRequest::shell(text), &|_| ()).await.unwrap()
}

fn text(result: &ExecResult) -> String {
    String::from_utf8_lossy(&result.stdout).trim_end().to_owned()
}

#[tokio::test]
async fn a_grant_rebuilds_the_sandbox_and_covers_exactly_what_was_granted() {
    let room = Room::new(json!({ "provider": "local", "scope": "session" }));
    let keys = room.home.join(".ssh");
    std::fs::create_dir(&keys).unwrap();
    std::fs::write(keys.join("id"), "key").unwrap();
    std::fs::write(keys.join("other"), "key").unwrap();
    let session = "agent:main:a";
    run(&room, session, "cd /; export KEPT=1").await;
    let refused = run(&room, session, "cat ~/.ssh/id").await;
    assert!(refused.blocked && refused.stdout.is_empty(), "{refused:?}");
    let grant =
        Grant { path: keys.join("id"), access: Access::Read, scope: GrantScope::Session, recursive: false };
    room.manager.grant(session, grant).await.unwrap();
    let granted = run(&room, session, "cat ~/.ssh/id").await;
    assert_eq!(text(&granted), "key", "{granted:?}");
    assert!(run(&room, session, "cat ~/.ssh/other").await.blocked);
    let after = run(&room, session, "pwd; echo \"[$KEPT]\"").await;
    assert_eq!(text(&after), format!("{}\n[]", room.project.display()), "a rebuilt shell begins anew");
    assert!(run(&room, "agent:main:b", "cat ~/.ssh/id").await.blocked, "another session has no part in it");
    room.manager.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_workspace_of_its_own_can_be_written_and_the_agents_cannot_be_seen() {
    let room = Room::new(json!({ "provider": "local", "scope": "session", "workspaceAccess": "none" }));
    std::fs::write(room.project.join("plan"), "secret").unwrap();
    let done = run(&room, "agent:main:a", "echo mine > mine && cat mine").await;
    assert_eq!(text(&done), "mine", "{done:?}");
    let looked = run(&room, "agent:main:a", &format!("cat {}/plan", room.project.display())).await;
    assert!(looked.exit_code != 0 && looked.stdout.is_empty(), "{looked:?}");
    let other = run(&room, "agent:main:b", "cat mine 2>/dev/null; echo none").await;
    assert_eq!(text(&other), "none", "each session has its own");
    room.manager.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_workspace_to_read_only_is_read_only() {
    let room = Room::new(json!({ "provider": "local", "workspaceAccess": "ro" }));
    std::fs::write(room.project.join("plan"), "read me").unwrap();
    let done = run(&room, "agent:main:a", "cat plan; echo x > plan").await;
    assert!(text(&done) == "read me" && done.exit_code != 0, "{done:?}");
    assert_eq!(std::fs::read_to_string(room.project.join("plan")).unwrap(), "read me");
    room.manager.shutdown().await.unwrap();
}
