//! The table of kits, and its copy in the guide.

use std::fmt::Write as _;

use ringfence_model::policy::KITS_DIRECTORY;

use super::*;
use crate::config::kits::{Listed, all};

const BEGIN: &str = "<!-- generated from the table of kits: begin -->";
const END: &str = "<!-- generated from the table of kits: end -->";

fn built_in() -> Vec<Listed> {
    World::new().with(|_| {}, |options| all(options).unwrap())
}

#[test]
fn every_built_in_kit_loads_and_allows_what_it_says() {
    let names: Vec<String> = built_in().into_iter().map(|listed| listed.name).collect();
    assert_eq!(names, ["aider", "claude-code", "codex", "gemini", "goose", "opencode"]);
    for Listed { name, kit, .. } in built_in() {
        let world = World::new();
        let loaded = world.load_with(vec![], json!({ "useKits": [name] }));
        assert_eq!(loaded.warnings, [], "{name}");
        let policy = world.policy_of(&loaded);
        for host in &kit.hosts {
            let text = host.rule.as_str();
            assert!(text.ends_with(":443") && !text.contains('*'), "{name}: {text}");
            assert!(
                policy.network.allowed_hosts.iter().any(|rule| rule.to_string() == text),
                "{name}: {text}"
            );
        }
        for state in &kit.state {
            let below = state.path.as_str().strip_prefix("~/").unwrap();
            assert!(may(&policy, world.home().join(below).join("x"), Access::Write), "{name}");
            // Whatever an agent writes for its next start acts inside only. What aider keeps is never run.
            assert!(below.contains(&format!("/{KITS_DIRECTORY}/{name}")) || name == "aider", "{name}");
        }
        for denied in &kit.deny {
            let below = denied.path.as_str().strip_prefix("~/").unwrap();
            assert!(!may(&policy, world.home().join(below), Access::Read), "{name}");
        }
        assert!(!may(&policy, world.home().join(".ssh/id"), Access::Read), "{name}");
        assert!(kit.sandbox.is_some() && !kit.hosts.is_empty() && !kit.state.is_empty(), "{name}");
    }
}

#[test]
fn variables_of_a_kit_are_paths_of_this_home() {
    let world = World::new();
    let loaded = world.load_with(vec![], json!({ "useKits": ["codex"] }));
    let home = &loaded.config.env_override["CODEX_HOME"];
    assert_eq!(home, world.home().join(".local/share/ringfence-kits/codex").to_str().unwrap());
}

#[test]
fn a_key_is_put_in_where_the_person_has_one() {
    let credential = |world: &World| {
        let loaded = world.load_with(vec![], json!({ "useKits": ["claude-code"] }));
        let policy = world.policy_of(&loaded);
        assert!(!policy.environment.pass.iter().any(|name| name == "ANTHROPIC_API_KEY"));
        let rule =
            policy.network.allowed_hosts.iter().find(|rule| rule.to_string() == "api.anthropic.com:443");
        rule.unwrap().inspect.clone()
    };
    for none in [World::new(), World::new().env("ANTHROPIC_API_KEY", "")] {
        assert_eq!(credential(&none), None, "an agent that has logged in is not looked into");
    }
    let found = credential(&World::new().env("ANTHROPIC_API_KEY", "k")).unwrap().credential.unwrap();
    assert_eq!(found.variable.as_deref(), Some("ANTHROPIC_API_KEY"));
}

#[test]
fn the_documented_tables_are_these() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/kits.md");
    let text = std::fs::read_to_string(&file).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let fresh = format!("{before}{BEGIN}\n{}\n{END}{after}", tables());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&file, fresh).unwrap();
        return;
    }
    assert!(
        text == fresh,
        "docs/kits.md is not up to date: UPDATE_DOCS=1 cargo test -p ringfence --lib kits"
    );
}

fn tables() -> String {
    let mut text = String::new();
    for Listed { name, kit, .. } in built_in() {
        let _ =
            writeln!(text, "\n## `{name}`\n\n{}.\n\n| | entry | reason |\n|---|---|---|", kit.about.as_str());
        let mut row = |what: &str, entry: &str, reason: &Text| {
            let _ = writeln!(text, "| {what} | `{entry}` | {} |", reason.as_str());
        };
        kit.state.iter().for_each(|entry| row("state", entry.path.as_str(), &entry.reason));
        kit.files.iter().for_each(|entry| row("begins with", entry.path.as_str(), &entry.reason));
        kit.read.iter().for_each(|entry| row("reads", entry.path.as_str(), &entry.reason));
        kit.deny.iter().for_each(|entry| row("denied", entry.path.as_str(), &entry.reason));
        kit.hosts.iter().for_each(|entry| row("host", entry.rule.as_str(), &entry.reason));
        kit.pass.iter().for_each(|entry| row("passes", entry.name.as_str(), &entry.reason));
        for entry in &kit.set {
            row("set", &format!("{}={}", entry.name.as_str(), entry.value), &entry.reason);
        }
        let sandbox = kit.sandbox.map_or_else(String::new, Text::into_string);
        let _ = writeln!(text, "| its own sandbox | | {sandbox} |");
    }
    text
}
