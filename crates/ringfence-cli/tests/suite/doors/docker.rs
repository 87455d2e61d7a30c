//! The same rules where the sandbox is a container.

use ringfence_docker::testing::{FULL, TestEngine};
use serde_json::{Value, json};

use super::door::Door;
use super::rule::{Answer, Deed, Rule, Step, Thing, Verdict};
use super::{doors, table};

/// One door of each kind: a container takes its time.
const DOORS: &[&str] =
    &["run -c", "session", "shell", "library bash", "library read", "mcp stdio bash", "mcp stdio read"];

const QUESTIONS: &str = "somebody can be asked, which is the rule before";
/// A terminal in a container is a job's, and nobody is asked about what a job may not do (docs/session.md).
const NOT_SHELL: &[(&str, &str)] =
    &[("run", QUESTIONS), ("session", QUESTIONS), ("library", QUESTIONS), ("mcp", QUESTIONS)];

fn rules(engine: &TestEngine) -> Vec<Rule> {
    let user = |more: Value| {
        let mut user = json!({
            "provider": "docker", "workspaceAccess": "rw", "scope": "session",
            "docker": { "image": FULL }, "providerOptions": { "engine": engine.host() },
        });
        user.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        user
    };
    let secret = Step::read(".env", Verdict::Blocked)
        .answered(Thing::Project(".env"), Answer::Deny)
        .refusing(&[Thing::Project(".env")]);
    vec![
        Rule::new("provider docker", &["provider"], vec![Step::new(Deed::Anything, Verdict::Ran(0))])
            .user(user(json!({})))
            .files(&[("note.txt", "old\n")]),
        Rule::new(
            "provider docker, blockedCommands",
            &["provider", "blockedCommands"],
            vec![Step::run("uname -s", Verdict::Refused).refusing(&[Thing::Command]).judged("denied")],
        )
        .user(user(json!({ "blockedCommands": ["uname"] })))
        .except(&[("shell", "bash in a container is not made to say what is typed")]),
        Rule::new("provider docker, built-in deny", &["provider", "deny"], vec![secret])
            .user(user(json!({})))
            .files(&[(".env", "treasure\n")])
            .except(&[("shell", "the next one is about it")]),
        Rule::new(
            "provider docker, built-in deny, on a terminal",
            &["provider", "deny"],
            vec![Step::run("cat .env", Verdict::Blocked).refusing(&[Thing::Project(".env")])],
        )
        .user(user(json!({})))
        .files(&[(".env", "treasure\n")])
        .except(NOT_SHELL),
    ]
}

#[test]
fn docker() {
    let Some(engine) = TestEngine::shared() else { return };
    let rules = rules(&engine);
    let mut red = 0;
    for name in DOORS {
        let door = doors().into_iter().find(|door| door.name() == *name);
        red += table::row(&*door.unwrap() as &dyn Door, &rules);
    }
    // Containers of sessions are kept for the next one; the engine is that of the tests alone.
    let kept = engine.docker(&["ps", "-aq", "--filter", "label=ringfence.workspace"]).output().unwrap();
    for id in String::from_utf8_lossy(&kept.stdout).split_whitespace() {
        let room = ["inspect", "--format", "{{ index .Config.Labels \"ringfence.workspace\" }}", id];
        let workspace = engine.docker(&room).output().unwrap();
        // Those of rooms that are gone.
        if !std::path::Path::new(String::from_utf8_lossy(&workspace.stdout).trim()).exists() {
            engine.docker(&["rm", "-f", id]).output().unwrap();
        }
    }
    assert_eq!(red, 0, "cells are not as they must be; the table is above");
}
