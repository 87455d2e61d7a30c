//! `check` finds everything at once, with its place.

use super::*;
use DiagnosticKind::*;

#[test]
fn several_problems_are_found_at_once_each_with_its_place() {
    let text = r#"{
  "enabled": "yes",
  "alowWrite": ["/a"],
  "deny": ["/ok", 5, ""],
  "scope": "sesion",
  "limits": { "maxMemory": 1, "maxProcesses": 0, "timeoutMs": 1.5 },
  "docker": { "pidsLimit": 0, "cpus": 0, "env": { "A": 1 } },
  "browser": { "cdpPort": 70000 },
  "prune": { "idleHours": -1 },
  "policy": { "filesystem": { "whitelst": [] } },
  "allowlist": ["ls"],
  "whitelist": [],
  "allowWrite": [],
  "agents": { "a": { "ask": "maybe", "grants": [] } },
  "grants": [{ "path": "/a" }]
}
"#;
    let found = World::new().user(text).check();
    let got: Vec<_> = found
        .iter()
        .map(|d| (d.line.unwrap(), d.column.unwrap(), d.kind, d.key.as_deref().unwrap_or_default()))
        .collect();
    let want = [
        (2, 14, WrongType, "enabled"),
        (3, 3, UnknownKey, "alowWrite"),
        (4, 19, WrongType, "deny[1]"),
        (4, 22, BadValue, "deny[2]"),
        (5, 12, BadValue, "scope"),
        (6, 15, UnknownKey, "limits.maxMemory"),
        (6, 47, BadValue, "limits.maxProcesses"),
        (6, 63, WrongType, "limits.timeoutMs"),
        (7, 28, BadValue, "docker.pidsLimit"),
        (7, 39, BadValue, "docker.cpus"),
        (7, 56, WrongType, "docker.env.A"),
        (8, 27, BadValue, "browser.cdpPort"),
        (9, 27, BadValue, "prune.idleHours"),
        (10, 31, UnknownKey, "policy.filesystem.whitelst"),
        (11, 3, UnknownKey, "allowlist"),
        (13, 3, DuplicateKey, "allowWrite"),
        (14, 29, BadValue, "agents.a.ask"),
        (14, 38, UnknownKey, "agents.a.grants"),
        (15, 14, BadValue, "grants[0]"),
    ];
    assert_eq!(got, want);
    assert!(found.iter().all(|d| d.severity == Severity::Error));
    let suggestion = |key: &str| {
        let found = found.iter().find(|d| d.key.as_deref() == Some(key)).unwrap();
        found.suggestion.clone().unwrap_or_default()
    };
    assert_eq!(suggestion("alowWrite"), "did you mean `allowWrite`?");
    assert_eq!(suggestion("scope"), "did you mean `session`?");
    assert_eq!(suggestion("policy.filesystem.whitelst"), "did you mean `whitelist`?");
    assert_eq!(suggestion("allowlist"), "it belongs in `safety`");
    assert_eq!(suggestion("agents.a.grants"), "it belongs in the top of the file");
    assert_eq!(found[0].message, "must be true or false, not text");
    assert_eq!(found[4].message, "`sesion` is not one of shared, agent or session");
    let shown = found[1].to_string();
    assert!(
        shown.ends_with("sandbox.json:3:3: alowWrite: is not a known key; did you mean `allowWrite`?"),
        "{shown}"
    );
}

#[test]
fn a_syntax_error_has_its_place() {
    for (text, line, column) in
        [("{\n  \"a\": \n}", 3, 1), ("{ \"enabled\": tru }", 1, 14), ("{\n\"deny\": [", 2, 9)]
    {
        let found = World::new().user(text).check();
        assert_eq!(kinds(&found), [(Syntax, "")], "{text}");
        assert_eq!((found[0].line, found[0].column), (Some(line), Some(column)), "{text}: {}", found[0]);
    }
}

#[test]
fn what_a_schema_cannot_say_is_found_by_reading() {
    for (text, key) in [
        (r#"{ "timeout": "soon" }"#, "timeout"),
        (r#"{ "limits": { "maxMemoryBytes": "lots" } }"#, "limits.maxMemoryBytes"),
        (r#"{ "maxViolations": 5000000000 }"#, "maxViolations"),
    ] {
        let found = World::new().user(text).check();
        assert_eq!(found.len(), 1, "{text}");
        assert_eq!(found[0].key.as_deref(), Some(key), "{text}");
        assert_eq!(found[0].line, Some(1), "{text}");
    }
}

#[test]
fn warnings_of_the_load_are_part_of_the_check() {
    let world = World::new()
        .user(r#"{ "allowNetwork": true, "deny": ["$NOPE/x"] }"#)
        .project_says(r#"{ "enabled": false, "limit": 1 }"#);
    let found = world.check();
    assert_eq!(
        kinds(&found),
        [
            (UnknownKey, "limit"),
            (ProjectWidens, "enabled"),
            (NoRawNetwork, "allowNetwork"),
            (UnsetVariable, "deny")
        ]
    );
    assert!(refuse_errors(&found).is_err());
    assert!(refuse_errors(&found[1..]).is_ok());
    assert_eq!(World::new().check(), []);
}

#[test]
fn an_unknown_profile_is_found_with_its_place() {
    let found = World::new().user("{\n \"profile\": \"prd\"\n}").check();
    assert_eq!(kinds(&found), [(BadValue, "profile")]);
    assert_eq!(found[0].suggestion.as_deref(), Some("did you mean `prod`?"));
}

#[test]
fn deep_nesting_is_an_error_not_a_crash() {
    let text = format!("{{ \"providerOptions\": {{ \"a\": {}{} }} }}", "[".repeat(5000), "]".repeat(5000));
    assert_eq!(kinds(&World::new().user(&text).check()), [(Syntax, "")]);
    assert_eq!(World::new().user(&text).load().warnings.len(), 1);
}
