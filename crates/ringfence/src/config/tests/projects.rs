//! A project's own file may only tighten.

use super::*;
use ringfence_model::{Limits, PolicyMode, RuleLayer};

#[test]
fn what_tightens_is_taken() {
    let world = World::new()
        .user(
            r#"{ "limits": { "maxMemoryBytes": "2G", "maxProcesses": null }, "allowedHosts": ["a.example", "b.example"],
                 "tools": { "deny": ["web"] }, "safety": { "approvalTimeoutMs": 9000 } }"#,
        )
        .project_says(
            r#"{
              "deny": ["private"], "protect": ["ci"], "blockedCommands": ["curl"], "blockedHosts": ["x"],
              "blockedPorts": [8080], "additionalSensitiveFiles": ["keys/"],
              "policy": { "filesystem": { "blacklist": ["old"] }, "network": { "blockedHosts": ["y"] } },
              "limits": { "maxMemoryBytes": "1G", "maxProcesses": 64 }, "timeout": 60,
              "mode": "strict", "scope": "session", "workspaceAccess": "ro", "ask": "never",
              "safety": { "gate": "required", "mode": "deny", "denylist": ["rm"], "toolDenylist": ["t"], "approvalTimeoutMs": 5 },
              "allowedCommands": ["make"], "allowedHosts": ["a.example"], "tools": { "deny": ["exec"] },
              "allowNetwork": false, "enabled": true, "provider": "local", "defaultPolicy": "restricted"
            }"#,
        );
    let loaded = world.load();
    assert_eq!(loaded.warnings, []);
    let c = &loaded.config;
    assert_eq!(added(&c.deny), ["private", "old"]);
    assert_eq!((added(&c.protect), texts(&c.blocked_commands)), (vec!["ci"], vec!["curl"]));
    assert_eq!((texts(&c.blocked_hosts), &c.blocked_ports), (vec!["x", "y"], &vec![8080]));
    assert_eq!(texts(&c.additional_sensitive_files), ["keys/"]);
    assert_eq!((c.limits.max_memory_bytes, c.limits.max_processes), (Some(1 << 30), Some(64)));
    assert_eq!(c.limits.timeout_ms, Some(60_000));
    assert_eq!(
        (c.mode, c.scope, c.workspace_access),
        (Mode::Strict, Scope::Session, Some(WorkspaceAccess::Ro))
    );
    assert!(c.strict_sensitive_files, "a strict mode brings its presets");
    assert_eq!(c.safety.gate, GateMode::Required);
    assert_eq!((c.ask, c.safety.mode, c.safety.approval_timeout_ms), (Ask::Never, SafetyMode::Deny, 5));
    assert_eq!((texts(&c.safety.denylist), texts(&c.safety.tool_denylist)), (vec!["rm"], vec!["t"]));
    assert_eq!((texts(&c.allowed_commands), host_texts(&c.allowed_hosts)), (vec!["make"], vec!["a.example"]));
    assert_eq!(c.tools.deny.as_deref().map(texts), Some(vec!["web", "exec"]));
    let rule = c.deny.iter().find(|entry| entry.text == "private").unwrap();
    assert_eq!((rule.source.layer, rule.source.line), (RuleLayer::Project, Some(2)));
    let policy = world.policy();
    assert!(!may(&policy, world.project().join("private/x"), Access::Read));
}

#[test]
fn each_widening_is_ignored_by_name() {
    let plain = World::new().user(r#"{ "limits": "standard", "tools": { "deny": ["web"] } }"#);
    for (text, key) in [
        (r#"{ "enabled": false }"#, "enabled"),
        (r#"{ "enabled": null }"#, "enabled"),
        (r#"{ "provider": "none" }"#, "provider"),
        (r#"{ "providerOptions": { "a": 1 } }"#, "providerOptions"),
        (r#"{ "profile": "dev" }"#, "profile"),
        (r#"{ "defaultPolicy": "none" }"#, "defaultPolicy"),
        (r#"{ "default_policy": "none" }"#, "defaultPolicy"),
        (r#"{ "os": { "mode": "none" } }"#, "os"),
        (r#"{ "launcher": "network-only" }"#, "launcher"),
        (r#"{ "mode": "permissive" }"#, "mode"),
        (r#"{ "mode": "off" }"#, "mode"),
        (r#"{ "sessions": "non-main" }"#, "sessions"),
        (r#"{ "scope": "shared" }"#, "scope"),
        (r#"{ "perSession": false }"#, "perSession"),
        (r#"{ "workspaceRoot": "/w" }"#, "workspaceRoot"),
        (r#"{ "workingDir": "/" }"#, "workingDir"),
        (r#"{ "allowRead": ["/"] }"#, "allowRead"),
        (r#"{ "whitelist": ["/"] }"#, "allowWrite"),
        (r#"{ "policy": { "filesystem": { "whitelist": ["/"] } } }"#, "policy.filesystem.allowWrite"),
        (r#"{ "policy": { "network": { "allowedHosts": ["a"] } } }"#, "policy.network.allowedHosts"),
        (r#"{ "grants": [{ "path": "/home", "access": "write" }] }"#, "grants"),
        (r#"{ "allowNetwork": true }"#, "allowNetwork"),
        (r#"{ "allowedPorts": [22] }"#, "allowedPorts"),
        (r#"{ "allowedHosts": ["a.example"] }"#, "allowedHosts"),
        (r#"{ "network": { "ask": true } }"#, "network.ask"),
        (r#"{ "network": { "hostPorts": [5432] } }"#, "network.hostPorts"),
        (r#"{ "network": { "maxConnections": null } }"#, "network.maxConnections"),
        (r#"{ "safety": { "mode": "allow" } }"#, "safety.mode"),
        (r#"{ "safety": { "gate": "off" } }"#, "safety.gate"),
        (r#"{ "safety": { "allowlist": ["rm"] } }"#, "safety.allowlist"),
        (r#"{ "safety": { "toolAllowlist": ["x"] } }"#, "safety.toolAllowlist"),
        (r#"{ "safety": { "approvalTimeoutMs": 900000 } }"#, "safety.approvalTimeoutMs"),
        (r#"{ "validationStrictness": "minimal" }"#, "validationStrictness"),
        (r#"{ "limits": { "maxMemoryBytes": "8G" } }"#, "limits.maxMemoryBytes"),
        (r#"{ "limits": { "maxMemoryBytes": null } }"#, "limits.maxMemoryBytes"),
        (r#"{ "limits": null }"#, "limits"),
        (r#"{ "timeout": null }"#, "timeout"),
        (r#"{ "envPassthrough": ["GITHUB_TOKEN"] }"#, "envPassthrough"),
        (r#"{ "envOverride": { "LD_PRELOAD": "x" } }"#, "envOverride"),
        (r#"{ "trackViolations": false }"#, "trackViolations"),
        (r#"{ "maxViolations": 0 }"#, "maxViolations"),
        (r#"{ "annotateStderr": false }"#, "annotateStderr"),
        (r#"{ "precision": "off" }"#, "precision"),
        (r#"{ "strictSensitiveFiles": null }"#, "strictSensitiveFiles"),
        (r#"{ "allowedTmpPaths": ["/tmp"] }"#, "allowedTmpPaths"),
        (r#"{ "docker": { "binds": ["/:/host"] } }"#, "docker"),
        (r#"{ "browser": { "allowHostControl": true } }"#, "browser"),
        (r#"{ "tools": { "allow": ["exec"] } }"#, "tools.allow"),
        (r#"{ "prune": { "idleHours": 0 } }"#, "prune"),
    ] {
        let world =
            World::new().user(r#"{ "limits": "standard", "tools": { "deny": ["web"] } }"#).project_says(text);
        let loaded = world.load();
        assert_eq!(kinds(&loaded.warnings), [(DiagnosticKind::ProjectWidens, key)], "{text}");
        assert!(loaded.warnings[0].file.is_some() && loaded.warnings[0].line.is_some(), "{text}");
        assert_eq!(loaded.to_json(), plain.load().to_json(), "{text}");
    }
}

#[test]
fn a_preset_of_limits_tightens_limit_by_limit() {
    let world = World::new()
        .user(r#"{ "limits": { "maxMemoryBytes": "64M", "maxProcesses": 50 } }"#)
        .project_says(r#"{ "limits": "strict" }"#);
    let limits = world.load().config.limits;
    assert_eq!((limits.max_memory_bytes, limits.max_processes), (Some(64 << 20), Some(1)));
    let unlimited = World::new().project_says(r#"{ "limits": "unlimited" }"#).load();
    assert_eq!(unlimited.config.limits, Limits::development());
}

#[test]
fn a_stricter_profile_is_taken_a_laxer_one_not() {
    assert_eq!(World::new().project_says(r#"{ "profile": "prod" }"#).load().config.profile, Profile::Prod);
    let world = World::new().user(r#"{ "profile": "dev" }"#).project_says(r#"{ "profile": "balanced" }"#);
    assert_eq!(world.load().config.default_policy, PolicyMode::Restricted);
    let world = World::new().user(r#"{ "profile": "prod" }"#).project_says(r#"{ "profile": "dev" }"#);
    assert_eq!(world.load().config.profile, Profile::Prod);
}

#[test]
fn allow_lists_shrink_and_never_become_everything() {
    let both = |user: &str, project: &str| {
        let world = World::new()
            .user(&format!(r#"{{ "allowedCommands": {user} }}"#))
            .project_says(&format!(r#"{{ "allowedCommands": {project} }}"#));
        world.load()
    };
    let shrunk = both(r#"["make", "ls"]"#, r#"["make"]"#);
    assert_eq!(texts(&shrunk.config.allowed_commands), ["make"]);
    let disjoint = both(r#"["ls"]"#, r#"["make"]"#).config;
    assert!(!is_listed(&disjoint, "ls") && !is_listed(&disjoint, "make"));
    let more = both(r#"["ls"]"#, r#"["ls", "make"]"#);
    assert_eq!(texts(&more.config.allowed_commands), ["ls"]);
    assert_eq!(kinds(&more.warnings), [(DiagnosticKind::ProjectWidens, "allowedCommands")]);
}

#[test]
fn the_call_is_above_the_project() {
    let world = World::new().project_says(r#"{ "timeout": 5, "deny": ["/x"] }"#);
    let loaded = world.load_with(vec![], json!({ "timeout": 600, "allowWrite": ["/x"] }));
    assert_eq!(loaded.config.limits.timeout_ms, Some(600_000));
    assert_eq!(added(&loaded.config.deny), ["/x"], "but what is denied stays denied");
    assert!(!may(&world.policy_of(&loaded), "/x/y", Access::Read));
}

#[test]
fn a_projects_section_for_an_agent_tightens_too() {
    let world = World::new().project_says(r#"{ "agents": { "a": { "deny": ["/x"], "enabled": false } } }"#);
    let loaded = world.load_agent("a");
    assert_eq!(added(&loaded.config.deny), ["/x"]);
    assert_eq!(kinds(&loaded.warnings), [(DiagnosticKind::ProjectWidens, "agents.a.enabled")]);
    assert!(world.load().warnings.is_empty());
}

#[test]
fn a_project_cannot_move_the_configuration() {
    let world = World::new().project_says("{}");
    write(&world.project().join(".env"), "RINGFENCE_HOME=/tmp/evil\n");
    assert_eq!(world.load().files, [world.project_file()]);
}

#[test]
fn a_project_may_send_code_to_stricter_places_and_give_its_agents_less_to_do() {
    let load = |user: &str, project: &str| World::new().user(user).project_says(project).load();
    let plain = World::new().load().config;
    assert_eq!(plain.safety.code_sandbox, CodeSandbox::Own);
    assert_eq!((plain.tools.max_steps, plain.tools.max_seconds), (None, None));
    let tighter = load(
        r#"{ "safety": { "codeSandbox": "permissive" }, "tools": { "maxSteps": 40 } }"#,
        r#"{ "safety": { "codeSandbox": "strict" }, "tools": { "maxSteps": 3, "maxSeconds": 1800 } }"#,
    );
    assert_eq!(tighter.config.safety.code_sandbox, CodeSandbox::Strict);
    assert_eq!((tighter.config.tools.max_steps, tighter.config.tools.max_seconds), (Some(3), Some(1800)));
    assert!(tighter.warnings.is_empty(), "{:?}", tighter.warnings);
    let wider = load(
        r#"{ "safety": { "code_sandbox": "strict" }, "tools": { "max_steps": 3, "max_seconds": 5 } }"#,
        r#"{ "safety": { "codeSandbox": "own" }, "tools": { "maxSteps": 4, "maxSeconds": null } }"#,
    );
    assert_eq!(wider.config.safety.code_sandbox, CodeSandbox::Strict);
    assert_eq!((wider.config.tools.max_steps, wider.config.tools.max_seconds), (Some(3), Some(5)));
    let widens = DiagnosticKind::ProjectWidens;
    let keys = [(widens, "safety.codeSandbox"), (widens, "tools.maxSteps"), (widens, "tools.maxSeconds")];
    assert_eq!(kinds(&wider.warnings), keys);
}
