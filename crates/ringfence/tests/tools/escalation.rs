//! Calls that say that they need more than they have.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ringfence::model::{Decision, ErrorKind, Result};
use ringfence::permission::Answer;
use ringfence::tools::{Extension, Extensions, OpenTools, ToolResult};
use serde_json::{Value, json};

use crate::world::{World, person, yes};

#[derive(Debug)]
struct Server;

impl Extension for Server {
    fn run(&self, line: &str) -> Result<ToolResult> {
        Ok(ToolResult::text(line))
    }
}

/// With a person who gives these answers, and an extension; how often that was made.
fn world(config: Value, answers: Vec<Answer>) -> Option<(World, Arc<AtomicUsize>)> {
    let made: Arc<AtomicUsize> = Arc::default();
    let its = Arc::clone(&made);
    let mut extensions = Extensions::default();
    let factory = move || {
        its.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(Server) as _)
    };
    extensions.register("mcp:", factory).unwrap();
    let options = OpenTools { service: Some(person(answers)), extensions, ..OpenTools::default() };
    Some((World::configured(options, config, &[])?, made))
}

fn writes(escalated: bool) -> [(&'static str, Value); 4] {
    let patch = "*** Begin Patch\n*** Add File: patched\n+x\n*** End Patch\n";
    [
        ("write", json!({ "path": "a", "content": "one", "escalated": escalated })),
        ("edit", json!({ "path": "a", "old": "one", "new": "two", "escalated": escalated })),
        ("apply_patch", json!({ "patch": patch, "escalated": escalated })),
        ("bash", json!({ "command": "write b c", "escalated": escalated })),
    ]
}

#[test]
fn a_file_tool_that_wants_more_is_asked_about_even_where_everything_is_allowed() {
    let config = json!({ "safety": { "mode": "allow" } });
    let answers = [Decision::AllowOnce, Decision::AllowOnce, Decision::AllowOnce, Decision::Deny];
    let Some((world, _)) = world(config, answers.map(yes).to_vec()) else { return };
    for (tool, arguments) in writes(true) {
        let result = world.tools.call(tool, &arguments);
        assert_eq!(world.questions().len(), 1, "{tool}");
        assert_eq!(result.ok, tool != "bash", "{tool}: {result:?}");
    }
    assert_eq!(world.read("a"), "two");
    assert!(!world.project.join("b").exists(), "refused");
    world.tools.begin_run();
    std::fs::remove_file(world.project.join("patched")).unwrap();
    for (tool, arguments) in writes(false) {
        assert!(world.tools.call(tool, &arguments).ok, "{tool}");
    }
    assert!(world.questions().is_empty(), "what wants nothing more needs no question");
}

#[test]
fn where_nothing_is_to_happen_wanting_more_changes_nothing() {
    // The trial of the world is a command, which that mode refuses too.
    let config = json!({ "safety": { "mode": "deny", "allowlist": ["true"] } });
    let Some((world, made)) = world(config, vec![]) else { return };
    let extension = ("bash", json!({ "command": "mcp:x:y", "escalated": true }));
    for (tool, arguments) in writes(true).into_iter().chain([extension]) {
        let result = world.tools.call(tool, &arguments);
        let refused = (result.error_kind, &result.data["reason"]);
        assert_eq!(refused, (Some(ErrorKind::Permission), &json!("safety")), "{tool} {arguments}");
    }
    assert!(world.questions().is_empty());
    assert_eq!(made.load(Ordering::Relaxed), 0, "what is refused is not looked up");
}

#[test]
fn a_custom_tool_that_wants_more_is_asked_about_though_it_is_on_the_list() {
    let config = json!({ "safety": { "toolAllowlist": ["mcp:x:y"] } });
    let Some((world, _)) = world(config, vec![yes(Decision::AllowOnce)]) else { return };
    assert!(world.bash("mcp:x:y").ok);
    assert!(world.questions().is_empty());
    let more = json!({ "command": "mcp:x:y", "escalated": true });
    assert!(world.tools.call("bash", &more).ok);
    let questions = world.questions();
    assert_eq!(questions.len(), 1);
    assert!(questions[0].reason.contains("more than it has"), "{questions:?}");
}
