//! Layers: which lies over which.

use super::*;
use ringfence_model::{Limits, PolicyMode, RuleLayer};

#[test]
fn without_files_the_defaults_are_the_documented_ones() {
    let loaded = World::new().load();
    let config = &loaded.config;
    assert_eq!(loaded.warnings, []);
    assert!(loaded.files.is_empty());
    assert!(config.enabled);
    assert_eq!(config.provider, "local");
    assert!(config.provider_options.is_empty());
    assert!(config.allow_write.is_empty() && config.allow_read.is_empty());
    assert!(!config.allow_network);
    assert_eq!(config.profile, Profile::Balanced);
    assert_eq!(config.default_policy, PolicyMode::Restricted);
    assert_eq!((config.mode, config.scope), (Mode::Restricted, Scope::Agent));
    assert_eq!(config.limits, Limits::development());
    assert_eq!((config.precision, config.ask), (Precision::Full, Ask::On));
    assert_eq!((config.safety.mode, config.safety.approval_timeout_ms), (SafetyMode::Ask, 60_000));
    assert_eq!((config.prune.idle_hours, config.prune.max_age_days), (24, 7));
    assert_eq!((config.track_violations, config.max_violations), (true, 1000));
}

#[test]
fn the_built_in_deny_list_has_the_twelve_entries_first() {
    let twelve = [
        "~/.ssh",
        "~/.aws",
        "~/.gnupg",
        "~/.config/gcloud",
        "~/.azure",
        "/etc/passwd",
        "/etc/shadow",
        "**/.env",
        "**/.envrc",
        "**/.env.local",
        "**/credentials.json",
        "**/secrets.json",
    ];
    assert_eq!(&texts(&World::new().load().config.deny)[..12], twelve);
}

#[test]
fn every_built_in_row_has_a_reason_and_none_is_there_twice() {
    for table in
        [builtin::DENY, builtin::DENY_MACOS, builtin::PROTECT, builtin::PRIVATE_LINUX, builtin::PRIVATE_MACOS]
    {
        for (index, row) in table.iter().enumerate() {
            assert!(!row.reason.is_empty(), "{}", row.path);
            assert!(table[..index].iter().all(|other| other.path != row.path), "{} twice", row.path);
        }
    }
}

#[test]
fn enabled_and_provider_replace() {
    let config = World::new().user(r#"{ "enabled": false, "provider": "docker" }"#).load().config;
    assert!(!config.enabled);
    assert_eq!(config.provider, "docker");
}

#[test]
fn lists_append_without_duplicates_and_the_built_in_list_stays() {
    let world = World::new().user(r#"{ "whitelist": ["/a", "/b", "/a"], "blacklist": ["~/.ssh", "/c"] }"#);
    let built_in = texts(&World::new().load().config.deny).len();
    let loaded = world.load_with(vec![json!({ "whitelist": ["/b", "/d"] })], json!({ "deny": ["/c", "/e"] }));
    assert_eq!(texts(&loaded.config.allow_write), ["/a", "/b", "/d"]);
    assert_eq!(added(&loaded.config.deny), ["/c", "/e"]);
    assert_eq!(loaded.config.deny.len(), built_in + 2);
    let emptied =
        World::new().user(r#"{ "deny": [], "policy": { "filesystem": { "blacklist": [] } } }"#).load();
    assert_eq!(emptied.config.deny.len(), built_in);
}

#[test]
fn order_is_file_then_objects_then_call() {
    let world =
        World::new().user(r#"{ "provider": "file", "providerOptions": { "a": 1, "b": { "x": 1 } } }"#);
    let loaded = world.load_with(
        vec![
            json!({ "provider": "user", "providerOptions": { "b": { "y": 2 } } }),
            json!({ "provider": "runtime", "providerOptions": { "c": 3 } }),
        ],
        json!({}),
    );
    assert_eq!(loaded.config.provider, "runtime");
    let options = serde_json::Value::Object(loaded.config.provider_options.clone());
    assert_eq!(options, json!({ "a": 1, "b": { "y": 2 }, "c": 3 }), "merged by key, later wins whole");
    let loaded = world.load_with(vec![json!({ "provider": "object" })], json!({ "provider": "call" }));
    assert_eq!(loaded.config.provider, "call");
    assert_eq!(loaded.origin("provider").layer, RuleLayer::Call);
}

#[test]
fn an_agents_section_beats_the_file() {
    let world = World::new().user(
        r#"{
          "scope": "session", "workspaceAccess": "ro", "timeout": 60, "deny": ["/x"],
          "agents": { "re_viewer": { "scope": "agent", "timeout": "5m", "deny": ["/y"], "ask": "never" } }
        }"#,
    );
    let config = world.load_agent("re_viewer").config;
    assert_eq!((config.scope, config.workspace_access), (Scope::Agent, Some(WorkspaceAccess::Ro)));
    assert_eq!((config.limits.timeout_ms, config.ask), (Some(300_000), Ask::Never));
    assert_eq!(added(&config.deny), ["/x", "/y"]);
    let entry = config.deny.last().unwrap();
    assert_eq!((entry.source.layer, entry.source.line), (RuleLayer::Agent, Some(3)));
    let other = world.load_agent("somebody").config;
    assert_eq!((other.scope, other.limits.timeout_ms), (Scope::Session, Some(60_000)));
    assert_eq!(world.load().config.scope, Scope::Session);
}

#[test]
fn containers_merge_env_and_ulimits_and_concatenate_binds() {
    let world = World::new().user(
        r#"{
          "docker": { "image": "mine", "env": { "A": "1", "B": "1" }, "ulimits": { "nofile": 64 }, "binds": ["/a:/a"] },
          "browser": { "enabled": true }, "prune": { "idleHours": 1 }, "tools": { "allow": ["read"], "deny": ["browser"] },
          "agents": { "x": {
            "docker": { "env": { "B": "2" }, "ulimits": { "nproc": 5 }, "binds": ["/b:/b"], "pidsLimit": 9 },
            "browser": { "headless": true }, "prune": { "maxAgeDays": 2 }, "tools": { "allow": ["write"] }
          } }
        }"#,
    );
    let config = world.load_agent("x").config;
    let docker = serde_json::to_value(&config.docker).unwrap();
    assert_eq!(docker["env"], json!({ "A": "1", "B": "2" }), "the user's replaces LANG, the agent's adds");
    assert_eq!(docker["ulimits"], json!({ "nofile": 64, "nproc": 5 }));
    assert_eq!(docker["binds"], json!(["/a:/a", "/b:/b"]));
    assert_eq!((&docker["image"], &docker["pidsLimit"]), (&json!("mine"), &json!(9)));
    assert_eq!(docker["readOnlyRoot"], json!(true), "built in");
    assert_eq!((config.browser.enabled, config.browser.headless), (Some(true), Some(true)));
    assert_eq!((config.prune.idle_hours, config.prune.max_age_days), (1, 2));
    assert_eq!(config.tools.allow.as_deref().map(texts), Some(vec!["write"]), "the closest list decides");
    assert_eq!(config.tools.deny.as_deref().map(texts), Some(vec!["browser"]));
}

#[test]
fn a_shared_scope_ignores_one_agents_container() {
    let world = World::new().user(
        r#"{
          "scope": "shared", "docker": { "image": "mine" },
          "agents": { "x": {
            "docker": { "image": "other" }, "browser": { "enabled": true }, "prune": { "idleHours": 1 }, "timeout": 5
          } }
        }"#,
    );
    let loaded = world.load_agent("x");
    assert_eq!(loaded.config.docker.image, Some("mine".into()));
    assert_eq!(loaded.config.browser.enabled, Some(false));
    assert_eq!(loaded.config.prune.idle_hours, 24);
    assert_eq!(loaded.config.limits.timeout_ms, Some(5_000), "everything else still holds");
    let ignored = ["agents.x.docker", "agents.x.browser", "agents.x.prune"];
    assert_eq!(kinds(&loaded.warnings), ignored.map(|key| (DiagnosticKind::Ignored, key)));
}

#[test]
fn scope_has_an_older_spelling_that_it_beats() {
    for (text, want) in [
        (r"{}", Scope::Agent),
        (r#"{ "perSession": true }"#, Scope::Session),
        (r#"{ "perSession": false }"#, Scope::Shared),
        (r#"{ "perSession": false, "scope": "session" }"#, Scope::Session),
    ] {
        assert_eq!(World::new().user(text).load().config.scope, want, "{text}");
    }
}

#[test]
fn mode_holds_the_words_of_both_axes() {
    for (word, mode, sessions) in [
        ("permissive", Mode::Permissive, None),
        ("normal", Mode::Restricted, None),
        ("restricted", Mode::Restricted, None),
        ("strict", Mode::Strict, None),
        ("custom", Mode::Custom, None),
        ("off", Mode::Restricted, Some(SessionMode::Off)),
        ("non-main", Mode::Restricted, Some(SessionMode::NonMain)),
        ("all", Mode::Restricted, Some(SessionMode::All)),
    ] {
        let config = World::new().user(&format!(r#"{{ "mode": "{word}" }}"#)).load().config;
        assert_eq!((config.mode, config.sessions), (mode, sessions), "{word}");
    }
}

#[test]
fn the_raw_network_stays_off_for_the_local_fence_only() {
    for text in [
        r#"{ "allowNetwork": true }"#,
        r#"{ "allow_network": true }"#,
        r#"{ "policy": { "network": { "allowNetwork": true } } }"#,
    ] {
        let loaded = World::new().user(text).load();
        assert!(!loaded.config.allow_network, "{text}");
        assert_eq!(kinds(&loaded.warnings), [(DiagnosticKind::NoRawNetwork, "allowNetwork")], "{text}");
    }
    let loaded = World::new().user(r#"{ "os": { "bubblewrap": { "unshareNet": false } } }"#).load();
    assert!(loaded.config.os.bubblewrap.unshare_net);
    assert_eq!(kinds(&loaded.warnings), [(DiagnosticKind::NoRawNetwork, "os.bubblewrap.unshareNet")]);
    let docker = World::new().user(r#"{ "provider": "docker", "allowNetwork": true }"#).load();
    assert!(docker.config.allow_network);
    assert_eq!(docker.warnings, []);
}

#[test]
fn every_setting_of_the_small_sandbox_is_read_under_its_own_name() {
    let config = World::new()
        .user(
            r#"{
              "enabled": true, "mode": "restricted", "working_dir": "/w",
              "allowed_read_paths": ["/r"], "allowed_write_paths": ["/w2"],
              "allowed_commands": ["ls"], "blocked_commands": ["rm -rf"],
              "timeout": 30, "limits": "strict",
              "allowed_hosts": ["a.example"], "blocked_hosts": [".bad.example"],
              "env_passthrough": ["MY_*"], "env_override": { "A": "1" },
              "validation_strictness": "minimal", "track_violations": false, "max_violations": 5,
              "annotate_stderr": true, "additional_sensitive_files": ["vault/"],
              "allowed_tmp_paths": ["/tmp/build"], "strict_sensitive_files": true
            }"#,
        )
        .load()
        .config;
    assert_eq!(config.working_dir.as_deref(), Some("/w"));
    assert_eq!((texts(&config.allow_read), texts(&config.allow_write)), (vec!["/r"], vec!["/w2"]));
    assert_eq!(
        (texts(&config.allowed_commands), texts(&config.blocked_commands)),
        (vec!["ls"], vec!["rm -rf"])
    );
    assert_eq!(config.limits, Limits { timeout_ms: Some(30_000), ..Limits::strict() });
    assert_eq!(
        (host_texts(&config.allowed_hosts), texts(&config.blocked_hosts)),
        (vec!["a.example"], vec![".bad.example"])
    );
    assert_eq!((texts(&config.env_passthrough), &*config.env_override["A"]), (vec!["MY_*"], "1"));
    assert_eq!(config.validation_strictness, Strictness::Minimal);
    assert_eq!((config.track_violations, config.max_violations, config.annotate_stderr), (false, 5, true));
    assert_eq!(texts(&config.additional_sensitive_files), ["vault/"]);
    assert_eq!((texts(&config.allowed_tmp_paths), config.strict_sensitive_files), (vec!["/tmp/build"], true));
}

#[test]
fn limits_are_a_preset_or_values_or_both() {
    let limits = |text: &str| World::new().user(text).load().config.limits;
    assert_eq!(limits(r#"{ "limits": "default" }"#), Limits::standard());
    assert_eq!(limits(r#"{ "limits": "permissive" }"#), Limits::permissive());
    assert_eq!(limits(r#"{ "limits": "unlimited" }"#), Limits::unlimited());
    assert_eq!(limits(r#"{ "limits": null }"#), Limits::unlimited());
    let both =
        limits(r#"{ "limits": { "preset": "strict", "maxMemoryBytes": "1G", "max_processes": null } }"#);
    assert_eq!(both, Limits { max_memory_bytes: Some(1 << 30), max_processes: None, ..Limits::strict() });
    let all = limits(
        r#"{ "limits": { "maxMemoryBytes": 1, "maxCpuSeconds": 2, "maxOutputBytes": 3, "maxFileSizeBytes": 4,
             "maxProcesses": 5, "maxOpenFiles": 6, "maxStackBytes": 7, "maxFileWrites": 8, "maxTotalWriteBytes": 9,
             "timeoutMs": 10 } }"#,
    );
    let want = json!({ "maxMemoryBytes": 1, "maxCpuSeconds": 2, "maxOutputBytes": 3, "maxFileSizeBytes": 4,
        "maxProcesses": 5, "maxOpenFiles": 6, "maxStackBytes": 7, "maxFileWrites": 8, "maxTotalWriteBytes": 9,
        "timeoutMs": 10 });
    assert_eq!(serde_json::to_value(all).unwrap(), want);
}

#[test]
fn show_says_where_each_value_came_from() {
    let world = World::new()
        .user("{\n  \"timeout\": 9,\n  \"deny\": [\n    \"/x\"\n  ],\n  \"os\": { \"mode\": \"none\" }\n}")
        .project_says("{ \"limits\": { \"maxProcesses\": 7 } }");
    let loaded = world.load();
    let shown = loaded.show();
    let of = |key: &str| shown.iter().rfind(|row| row.key == key).unwrap_or_else(|| panic!("{key}"));
    for (key, value, layer, line) in [
        ("limits.timeoutMs", json!(9000), RuleLayer::User, Some(2)),
        ("deny", json!("/x"), RuleLayer::User, Some(4)),
        ("os.mode", json!("none"), RuleLayer::User, Some(6)),
        ("limits.maxProcesses", json!(7), RuleLayer::Project, Some(1)),
        ("defaultPolicy", json!("restricted"), RuleLayer::Profile, None),
        ("provider", json!("local"), RuleLayer::BuiltIn, None),
    ] {
        let row = of(key);
        assert_eq!((&row.value, row.source.layer, row.source.line), (&value, layer, line), "{key}");
    }
    let denied = shown.iter().filter(|row| row.key == "deny").count();
    assert_eq!(denied, loaded.config.deny.len());
}
