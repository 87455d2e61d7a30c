//! The file: where it is, and what happens when it is not right.

use super::*;

#[test]
fn the_file_is_in_the_home_directory() {
    let world = World::new().user(r#"{ "provider": "docker" }"#);
    assert_eq!(world.load().config.provider, "docker");
    let env = EnvMap::from([("HOME".into(), "/home/u".into())]);
    assert_eq!(ringfence_home(&env).unwrap(), Path::new("/home/u/.ringfence"));
}

#[test]
fn a_variable_moves_it() {
    let mut env =
        EnvMap::from([("HOME".into(), "/home/u".into()), ("RINGFENCE_HOME".into(), "/opt/rf".into())]);
    assert_eq!(ringfence_home(&env).unwrap(), Path::new("/opt/rf"));
    env.insert("RINGFENCE_HOME".into(), "".into());
    assert_eq!(ringfence_home(&env).unwrap(), Path::new("/home/u/.ringfence"));
    env.insert("RINGFENCE_HOME".into(), "rf".into());
    assert!(ringfence_home(&env).unwrap_err().message.contains("not an absolute path"));
    assert!(ringfence_home(&EnvMap::new()).is_err());
}

#[test]
fn the_example_of_the_document_loads() {
    let world = World::new().user(
        r#"{
          "enabled": true,
          "provider": "local",
          "policy": {
            "filesystem": {
              "whitelist": ["/home/user/projects", "/var/data"],
              "blacklist": ["~/.kube", "~/.docker", "~/.vault"]
            }
          },
          "providerOptions": {}
        }"#,
    );
    let loaded = world.load();
    assert_eq!(loaded.warnings, []);
    assert_eq!(added(&loaded.config.allow_write), ["/home/user/projects", "/var/data"]);
    assert_eq!(added(&loaded.config.deny), ["~/.vault"], "the other two are built in");
    let rule = loaded.config.deny.iter().find(|entry| entry.text == "~/.vault").unwrap();
    assert_eq!((rule.source.file.as_deref(), rule.source.line), (Some(&*world.user_file()), Some(7)));
}

#[test]
fn comments_and_trailing_commas_are_fine_and_nothing_looser() {
    let world = World::new().user("// mine\n{\n  /* why */ \"deny\": [\"/srv\",],\n}\n");
    assert_eq!(added(&world.load().config.deny), ["/srv"]);
    for bad in
        ["{ deny: [] }", "{ 'deny': [] }", "{ \"deny\": [] \"ask\": \"on\" }", "{ \"maxViolations\": 0x10 }"]
    {
        let loaded = World::new().user(bad).load();
        assert_eq!(kinds(&loaded.warnings), [(DiagnosticKind::LayerDropped, "")], "{bad}");
    }
    for empty in ["", "  \n", "// nothing\n", "{}", "\u{feff}{}"] {
        assert_eq!(World::new().user(empty).load().warnings, [], "{empty:?}");
    }
}

#[test]
fn a_bad_file_is_a_warning_and_the_defaults_hold() {
    for bad in [
        "{ not json",
        "[]",
        "\"text\"",
        r#"{ "enabled": "yes", "deny": ["/srv"] }"#,
        r#"{ "unknown": 1, "provider": "none" }"#,
        r#"{ "deny": ["/srv"], "allowWrite": [1] }"#,
        r#"{ "provider": "" }"#,
    ] {
        let loaded = World::new().user(bad).load();
        assert_eq!(loaded.warnings.len(), 1, "{bad}");
        assert_eq!(loaded.warnings[0].kind, DiagnosticKind::LayerDropped, "{bad}");
        assert!(loaded.warnings[0].line.is_some() || bad.starts_with(['[', '"']), "{bad}");
        let plain = World::new().load();
        assert_eq!(loaded.config.provider, "local", "{bad}");
        assert_eq!(texts(&loaded.config.deny), texts(&plain.config.deny), "the whole layer is gone: {bad}");
    }
}

#[test]
fn a_bad_file_can_be_refused_instead() {
    let world = World::new().user(r#"{ "enabled": "yes" }"#);
    let error = world.with(|o| o.bad_file = BadFile::Refuse, |o| load(o).unwrap_err());
    assert_eq!(error.kind, ringfence_model::ErrorKind::InvalidConfig);
    assert!(error.message.contains("sandbox.json:1:3: enabled:"), "{}", error.message);
}

#[test]
fn of_a_projects_file_what_is_right_holds() {
    let text = r#"{
  "from": "another tool",
  "deny": ["/srv/a", 5, "/srv/b"],
  "limits": { "maxProcesses": 7, "shoes": 2 },
  "policy": { "filesystem": { "deny": ["/srv/c"], "x": {} } }
}"#;
    let world = World::new().project_says(text);
    let refuse = |o: &mut LoadOptions<'_>| o.bad_file = BadFile::Refuse;
    let loaded = world.with(refuse, |o| load(o).unwrap());
    assert_eq!(added(&loaded.config.deny), ["/srv/a", "/srv/b", "/srv/c"]);
    assert_eq!(loaded.config.limits.max_processes, Some(7));
    let mut named: Vec<_> =
        loaded.warnings.iter().filter_map(|w| Some((w.key.as_deref()?, w.line?))).collect();
    named.sort_unstable();
    assert_eq!(named, [("deny[1]", 3), ("from", 2), ("limits.shoes", 4), ("policy.filesystem.x", 5)]);

    let strict = World::new().user(r#"{ "profile": "prod" }"#).project_says(text);
    let error = strict.with(refuse, |o| load(o).unwrap_err());
    assert!(error.message.contains("from"), "{error}");
    // Too much of it is wrong to be anybody's.
    let many: String = (0..20).map(|n| format!(r#""k{n}": 0, "#)).collect();
    let error = World::new().project_says(&format!("{{ {many} }}")).with(refuse, |o| load(o).unwrap_err());
    assert!(error.message.contains("unknown field"), "{error}");
}

#[test]
fn the_failing_field_is_named() {
    let world = World::new().user("{\n  \"limits\": {\n    \"maxMemoryBytes\": \"much\"\n  }\n}");
    let warning = &world.load().warnings[0];
    assert_eq!(warning.key.as_deref(), Some("limits.maxMemoryBytes"));
    assert_eq!((warning.line, warning.column), (Some(3), Some(5)));
}

#[test]
fn an_object_of_the_wrong_type_is_dropped_whole() {
    let world = World::new();
    let objects = vec![json!({ "provider": "docker", "deny": 5 }), json!({ "deny": ["/x"] })];
    let loaded = world.load_with(objects, json!({}));
    assert_eq!(kinds(&loaded.warnings), [(DiagnosticKind::LayerDropped, "deny")]);
    assert_eq!(loaded.config.provider, "local");
    assert_eq!(added(&loaded.config.deny), ["/x"]);
}

#[test]
fn an_unknown_profile_is_an_error() {
    for bad in [r#""prodd""#, r#""PROD ""#, r#""""#, "null", "3"] {
        let world = World::new().user(&format!(r#"{{ "profile": {bad} }}"#));
        let error = world.with(|_| {}, |o| load(o).unwrap_err());
        assert!(error.message.contains("profile:"), "{bad}: {}", error.message);
        assert!(serde_json::from_str::<ConfigFile>(&format!(r#"{{ "profile": {bad} }}"#)).is_err());
    }
    let world = World::new().user(r#"{ "agents": { "a": { "profile": "nope" } } }"#);
    assert!(world.with(|_| {}, load).is_err());
    let world = World::new();
    let nope = vec![json!({ "profile": "nope" })];
    assert!(world.with(|o| o.objects = nope, load).is_err());
    let world = World::new().project_says(r#"{ "profile": "nope" }"#);
    assert_eq!(kinds(&world.load().warnings), [(DiagnosticKind::LayerDropped, "profile")]);
}

#[test]
fn a_file_that_others_can_change_is_named() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = World::new().user("{}");
    std::fs::set_permissions(world.user_file(), std::fs::Permissions::from_mode(0o646)).unwrap();
    assert_eq!(kinds(&world.load().warnings), [(DiagnosticKind::Permissions, "")]);
}

#[test]
fn a_projects_file_is_not_read_through_links_pipes_or_without_end() {
    let dropped = [(DiagnosticKind::LayerDropped, "")];

    let world = World::new();
    write(&world.root.path().join("elsewhere.json"), r#"{ "deny": ["/x"] }"#);
    write(&world.project_file(), "{}");
    std::fs::remove_file(world.project_file()).unwrap();
    std::os::unix::fs::symlink(world.root.path().join("elsewhere.json"), world.project_file()).unwrap();
    let loaded = world.load();
    assert_eq!(kinds(&loaded.warnings), dropped);
    assert!(loaded.warnings[0].message.contains("symbolic link"), "{}", loaded.warnings[0]);
    assert!(added(&loaded.config.deny).is_empty());

    let world = World::new();
    write(&world.root.path().join("away/sandbox.json"), "{}");
    std::os::unix::fs::symlink(world.root.path().join("away"), world.project().join(".ringfence")).unwrap();
    assert_eq!(kinds(&world.load().warnings), dropped, "a link to a directory");
    assert!(world.load().files.is_empty());

    let world = World::new();
    std::fs::create_dir_all(world.project_file()).unwrap();
    assert_eq!(kinds(&world.load().warnings), dropped, "a directory");

    let world = World::new().project_says(&format!("{{}}{}", " ".repeat(2 << 20)));
    assert_eq!(kinds(&world.load().warnings), dropped, "too long");
}
