//! Properties that must hold for every configuration.

use std::ffi::OsStr;

use proptest::prelude::*;
use ringfence_model::{PathOutcome, Policy};

use super::*;

/// Things a project might say, good and bad.
const SAYINGS: [&str; 34] = [
    r#"{ "enabled": false }"#,
    r#"{ "provider": "docker" }"#,
    r#"{ "profile": "dev" }"#,
    r#"{ "profile": "prod" }"#,
    r#"{ "defaultPolicy": "none" }"#,
    r#"{ "mode": "permissive" }"#,
    r#"{ "mode": "strict" }"#,
    r#"{ "mode": "off" }"#,
    r#"{ "sessions": "all" }"#,
    r#"{ "scope": "shared" }"#,
    r#"{ "workspaceAccess": "ro" }"#,
    r#"{ "workspaceAccess": "none" }"#,
    r#"{ "workspaceAccess": "rw" }"#,
    r#"{ "workingDir": "/srv" }"#,
    r#"{ "allowRead": ["/", "~/.ssh"] }"#,
    r#"{ "allowWrite": ["/etc", "~"] }"#,
    r#"{ "policy": { "filesystem": { "whitelist": ["/"], "blacklist": ["src"] }, "network": { "allowNetwork": true, "allowedHosts": ["x"] } } }"#,
    r#"{ "deny": ["secret", "/data"] }"#,
    r#"{ "protect": ["**/Makefile"] }"#,
    r#"{ "grants": [{ "path": "~/.ssh", "access": "write", "recursive": true }] }"#,
    r#"{ "allowNetwork": true }"#,
    r#"{ "allowedHosts": ["evil.example"] }"#,
    r#"{ "allowedHosts": ["good.example"] }"#,
    r#"{ "allowedPorts": [22, 5432] }"#,
    r#"{ "safety": { "mode": "allow", "allowlist": ["rm -rf"] } }"#,
    r#"{ "allowedCommands": ["make"] }"#,
    r#"{ "limits": "unlimited" }"#,
    r#"{ "limits": { "maxMemoryBytes": null, "maxProcesses": 9 } }"#,
    r#"{ "timeout": null }"#,
    r#"{ "timeout": "90s" }"#,
    r#"{ "envPassthrough": ["*", "GITHUB_TOKEN"], "envOverride": { "PATH": "/evil" } }"#,
    r#"{ "strictSensitiveFiles": false }"#,
    r#"{ "allowedTmpPaths": ["/tmp"] }"#,
    r#"{ "agents": { "a": { "allowWrite": ["/"], "enabled": false } } }"#,
];

/// Things the user might say.
const USERS: [&str; 6] = [
    "{}",
    r#"{ "profile": "dev", "allowedHosts": ["good.example", "b"], "allowedCommands": ["make", "ls"] }"#,
    r#"{ "profile": "prod", "limits": { "maxProcesses": 5 } }"#,
    r#"{ "mode": "permissive", "allowWrite": ["/data"], "workspaceAccess": "rw" }"#,
    r#"{ "mode": "strict", "timeout": 5, "envPassthrough": ["MY_*"] }"#,
    r#"{ "provider": "docker", "allowNetwork": true, "workspaceAccess": "ro", "scope": "session" }"#,
];

/// Lays objects over each other, key by key.
fn together(sayings: &[&str]) -> String {
    let mut all = serde_json::Map::new();
    for saying in sayings {
        let Value::Object(saying) = serde_json::from_str(saying).unwrap() else { panic!("{saying}") };
        all.extend(saying);
    }
    Value::Object(all).to_string()
}

/// Whether a command can reach the host's own file.
fn reaches(policy: &Policy, path: &Path, access: Access) -> bool {
    policy.filesystem.decide(path, access).outcome == PathOutcome::Allowed
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_project_ever_widens(
        user in 0..USERS.len(),
        sayings in proptest::sample::subsequence(SAYINGS.to_vec(), 0..8),
    ) {
        let text = together(&sayings);
        let world = World::new().user(USERS[user]);
        let before = world.load_agent("a");
        let policy_before = world.policy_of(&before);
        let world = world.project_says(&text);
        let after = world.load_agent("a");
        let policy_after = world.policy_of(&after);

        let (home, project) = (world.home(), world.project());
        let paths = [
            project.join("src/a.rs"), project.join("secret/x"), project.join("Makefile"), project.join(".env"),
            project.join(".git/config"), home.join(".ssh/id"), home.join("x"), "/data/x".into(), "/etc/hosts".into(),
            "/etc/shadow".into(), "/srv/x".into(), "/tmp/x".into(), "/".into(),
        ];
        for path in paths {
            for access in [Access::Read, Access::Write] {
                let widened = reaches(&policy_after, &path, access) && !reaches(&policy_before, &path, access);
                prop_assert!(!widened, "{access} {} by {text}", path.display());
            }
        }
        let (a, b) = (&after.config, &before.config);
        prop_assert_eq!(&a.limits.tightened_by(&b.limits), &a.limits, "limits by {}", text);
        prop_assert!(a.enabled >= b.enabled && a.provider == b.provider && a.profile >= b.profile);
        prop_assert!(a.mode >= b.mode && a.scope >= b.scope && a.safety.mode >= b.safety.mode);
        prop_assert!(a.default_policy == b.default_policy || a.default_policy == ringfence_model::PolicyMode::Restricted);
        prop_assert!(a.sessions == b.sessions || a.sessions == Some(SessionMode::All));
        prop_assert!(a.strict_sensitive_files >= b.strict_sensitive_files);
        prop_assert!(a.allow_network <= b.allow_network);
        for host in ["good.example", "evil.example", "b", "x"] {
            let reached = |policy: &Policy| policy.network.refusal(host, 443).is_none();
            prop_assert!(reached(&policy_after) <= reached(&policy_before), "{host} by {text}");
        }
        for command in ["make", "ls", "rm -rf /"] {
            prop_assert!(is_listed(a, command) <= is_listed(b, command), "{command} by {text}");
        }
        for name in ["PATH", "GITHUB_TOKEN", "MY_X", "OTHER"] {
            let passes = |policy: &Policy| policy.environment.passes(OsStr::new(name));
            prop_assert!(passes(&policy_after) <= passes(&policy_before), "{name} by {text}");
        }
        prop_assert_eq!(&a.env_override, &b.env_override);
        prop_assert_eq!(&a.grants, &b.grants);
        prop_assert!(policy_before.network.blocked_ports.iter().all(|p| policy_after.network.blocked_ports.contains(p)));
    }

    #[test]
    fn the_built_in_lists_survive_everything(
        sayings in proptest::sample::subsequence(SAYINGS.to_vec(), 0..8),
        broken in any::<bool>(),
    ) {
        let mut text = together(&sayings);
        if broken {
            text.push_str("{ ...");
        }
        let world = World::new().user(&text);
        let loaded = world.load();
        let plain = World::new().load();
        for (now, then) in [(&loaded.config.deny, &plain.config.deny), (&loaded.config.protect, &plain.config.protect)] {
            prop_assert_eq!(&texts(now)[..then.len()], &texts(then)[..]);
        }
        prop_assert!(loaded.config.provider != "local" || !loaded.config.allow_network);
    }

    #[test]
    fn no_text_makes_the_check_panic(text in "[\\[\\]{}\":,a-zA-Z0-9.$~/\\\\ \n*é\u{0}-]{0,60}") {
        let file = Path::new("sandbox.json");
        let found = check_text(file, &text);
        let valid = super::super::source::parse(file, &text).is_ok();
        prop_assert_eq!(found.is_empty(), valid, "{:?}", found);
    }

    #[test]
    fn a_path_never_expands_to_a_shorter_one(text in "(/|~|\\.\\.|\\$NOPE|\\$EMPTY|a|\\*){1,6}") {
        let env = EnvMap::from([("EMPTY".into(), "".into())]);
        let expander = Expander { home: Path::new("/home/u"), project: Path::new("/p/q"), env: &env };
        let expanded = expander.pattern(&text);
        let written = expanded.pattern.to_string();
        prop_assert!(written.starts_with('/') || written.starts_with("**"), "{written}");
        let kept = ["$NOPE", "$EMPTY"].iter().all(|name| !text.contains(name) || text.contains("..") || written.contains(name));
        prop_assert!(kept, "{} -> {}", text, written);
    }
}

#[test]
fn nearly_right_files_are_judged_the_same_by_check_load_and_schema() {
    let keys = [
        "enabled",
        "provider",
        "deny",
        "limits",
        "timeout",
        "mode",
        "policy",
        "os",
        "docker",
        "agents",
        "grants",
        "safety",
        "allowd",
        "prune",
        "tools",
        "profile",
        "providerOptions",
        "maxViolations",
        "allowedPorts",
        "env_override",
        "scope",
    ];
    let values = [
        "null",
        "true",
        "3",
        "0",
        "-1",
        "1.5",
        "\"x\"",
        "\"\"",
        "\"strict\"",
        "\"30s\"",
        "[]",
        "[1]",
        "[0]",
        "[\"a\"]",
        "[{}]",
        "[[]]",
        "{}",
        "{\"mode\": \"auto\"}",
        "{\"mode\": \"ask\"}",
        "{\"a\": {}}",
        "{\"a\": []}",
        "{\"a\": \"b\"}",
        "{\"filesystem\": []}",
        "{\"allow\": []}",
        "{\"env\": []}",
    ];
    let schema = jsonschema::validator_for(&schema()).unwrap();
    let file = Path::new("sandbox.json");
    for (key, value) in keys.iter().flat_map(|key| values.iter().map(move |value| (key, value))) {
        let text = format!("{{ \"{key}\": {value} }}");
        let by_load = super::super::source::parse(file, &text);
        let by_check = check_text(file, &text);
        let by_schema = schema.is_valid(&serde_json::from_str(&text).unwrap());
        assert_eq!(
            (by_check.is_empty(), by_schema),
            (by_load.is_ok(), by_load.is_ok()),
            "{text} {by_check:?} {by_load:?}"
        );
    }
}
