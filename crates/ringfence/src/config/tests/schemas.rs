//! The schema and the types say the same.

use super::*;

fn accepted_by_schema(value: &Value) -> bool {
    jsonschema::is_valid(&schema(), value)
}

fn accepted_by_types(value: &Value) -> bool {
    serde_json::from_value::<ConfigFile>(value.clone()).is_ok()
}

fn accepted_by_check(value: &Value) -> bool {
    let text = serde_json::to_string_pretty(value).unwrap();
    check_text(Path::new("sandbox.json"), &text).is_empty()
}

#[test]
fn schema_types_and_check_agree_on_examples() {
    let good = [
        json!({}),
        json!({ "$schema": "x", "enabled": null, "provider": "local", "providerOptions": { "x": [1] } }),
        json!({ "profile": "prod", "default_policy": "none", "mode": "non-main", "sessions": null }),
        json!({ "limits": "strict" }),
        json!({ "limits": { "preset": "strict", "maxMemoryBytes": "2GiB", "max_processes": 3, "timeoutMs": null } }),
        json!({ "timeout": 0.5 }),
        json!({ "timeout": "500ms" }),
        json!({ "os": { "mode": "bubblewrap", "bubblewrap": { "bwrap_path": "/b", "unshareNet": true } } }),
        json!({ "whitelist": ["/a"], "blacklist": [], "allowed_read_paths": null }),
        json!({ "policy": { "filesystem": { "whitelist": ["/a"], "deny": ["/b"] }, "network": { "allow_network": false } } }),
        json!({ "grants": [{ "path": "/a", "access": "read" }, { "path": "~/b", "access": "write", "recursive": true }] }),
        json!({ "agents": { "a_b": { "profile": "dev", "docker": { "cpus": 0.5, "memory": "1g", "ulimits": { "n": "1:2" } } } } }),
        json!({ "safety": { "mode": "allow", "approval_timeout_ms": 5 }, "tools": { "allow": ["*"], "deny": null } }),
        json!({ "browser": { "cdpPort": 9222, "enable_no_vnc": false }, "prune": { "idleHours": 0 } }),
        json!({ "env_override": { "A": "b" }, "allowedPorts": [1, 65535], "precision": "writes", "ask": "deny-only" }),
        json!({ "kits": { "x": { "about": "x", "state": [{ "path": "~/x", "reason": "x" }], "set": [{ "name": "A", "value": "", "reason": "x" }] } }, "useKits": ["x"] }),
    ];
    let bad = [
        json!({ "useKits": "x" }),
        json!({ "kits": { "x": {} } }),
        json!({ "kits": { "x": { "about": "x", "state": ["~/x"] } } }),
        json!({ "kits": { "x": { "about": "x", "pass": [{ "name": "A" }] } } }),
        json!({ "agents": { "a": { "kits": {} } } }),
        json!([]),
        json!("x"),
        json!({ "unknown": 1 }),
        json!({ "enabled": 1 }),
        json!({ "provider": "" }),
        json!({ "profile": null }),
        json!({ "profile": "PROD" }),
        json!({ "mode": "Strict" }),
        json!({ "limits": "huge" }),
        json!({ "limits": 5 }),
        json!({ "limits": { "maxProcesses": 0 } }),
        json!({ "limits": { "maxMemoryBytes": "2 apples" } }),
        json!({ "limits": { "maxMemoryBytes": -1 } }),
        json!({ "timeout": 0 }),
        json!({ "timeout": "soon" }),
        json!({ "timeout": -3 }),
        json!({ "os": { "mode": "chroot" } }),
        json!({ "os": { "bubblewrap": { "path": "x" } } }),
        json!({ "deny": "/a" }),
        json!({ "deny": [""] }),
        json!({ "deny": [null] }),
        json!({ "policy": { "filesystem": { "allowedReadPaths": [] } } }),
        json!({ "tools": { "blacklist": [] } }),
        json!({ "grants": [{ "path": "/a" }] }),
        json!({ "grants": [{ "path": "/a", "access": "own" }] }),
        json!({ "grants": [{ "path": "/a", "access": "read", "scope": "once" }] }),
        json!({ "agents": { "a": { "agents": {} } } }),
        json!({ "agents": { "a": { "grants": [] } } }),
        json!({ "agents": [] }),
        json!({ "docker": { "privileged": true } }),
        json!({ "docker": { "pidsLimit": 0 } }),
        json!({ "docker": { "cpus": 0 } }),
        json!({ "docker": { "env": { "A": 1 } } }),
        json!({ "browser": { "cdpPort": 0 } }),
        json!({ "prune": { "maxAgeDays": -1 } }),
        json!({ "allowedPorts": [0] }),
        json!({ "allowedPorts": [70000] }),
        json!({ "maxViolations": -1 }),
        json!({ "env_override": { "A": null } }),
    ];
    for (examples, want) in [(&good[..], true), (&bad[..], false)] {
        for example in examples {
            assert_eq!(accepted_by_schema(example), want, "schema: {example}");
            assert_eq!(accepted_by_types(example), want, "types: {example}");
            assert_eq!(accepted_by_check(example), want, "check: {example}");
        }
    }
}

/// Every property of every object in the schema, with a path of keys that leads to it.
fn properties(schema: &Value, root: &Value, path: &mut Vec<String>, found: &mut Vec<(Vec<String>, Value)>) {
    if path.len() > 4 {
        return;
    }
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        return properties(root.pointer(&reference[1..]).unwrap(), root, path, found);
    }
    for key in ["anyOf", "oneOf"] {
        for shape in schema.get(key).and_then(Value::as_array).into_iter().flatten() {
            properties(shape, root, path, found);
        }
    }
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        path.push(name.clone());
        found.push((path.clone(), property.clone()));
        properties(property, root, path, found);
        path.pop();
    }
    if let Some(of_any_name) = schema.get("additionalProperties").filter(|more| more.is_object()) {
        path.push("name".to_owned());
        properties(of_any_name, root, path, found);
        path.pop();
    }
}

/// Whether the types know a key: with a value of a type nothing has, they complain about the value, not
/// about the key.
fn is_known(path: &[String]) -> bool {
    let probe = path.iter().rev().fold(json!([[[]]]), |inner, key| json!({ key: inner }));
    match serde_json::from_value::<ConfigFile>(probe) {
        Ok(_) => true,
        Err(error) => !error.to_string().contains("unknown field"),
    }
}

#[test]
fn every_name_in_the_schema_is_one_the_types_know() {
    let schema = schema();
    let mut found = Vec::new();
    properties(&schema, &schema, &mut Vec::new(), &mut found);
    assert!(found.len() > 300, "{}", found.len());
    for (path, _) in &found {
        assert!(is_known(path), "{path:?}");
    }
    let top: Vec<&str> =
        found.iter().filter(|(path, _)| path.len() == 1).map(|(path, _)| &*path[0]).collect();
    for (other, name) in aliases::OTHER_NAMES {
        assert!(top.contains(other) && top.contains(name), "{other} {name}");
    }
    assert!(!is_known(&["nothing".to_owned()]));
}

#[test]
fn every_setting_is_described() {
    let schema = schema();
    for (name, property) in schema["properties"].as_object().unwrap() {
        assert!(property["description"].is_string(), "{name}");
    }
}

#[test]
fn the_default_configuration_is_a_valid_file_that_means_itself() {
    let plain = World::new().load();
    let written = plain.to_json();
    assert!(accepted_by_schema(&written), "{:?}", check_text(Path::new("x"), &written.to_string()));
    let again = World::new().user(&written.to_string()).load();
    assert_eq!(again.to_json(), written);
    assert_eq!(again.warnings, []);
    let prod = World::new().user(r#"{ "profile": "prod" }"#).load();
    let again = World::new().user(&prod.to_json().to_string()).load();
    assert_eq!(again.to_json(), prod.to_json());
}

#[test]
fn the_example_in_the_guide_is_valid_and_uses_every_documented_key_rightly() {
    let guide =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/config.md")).unwrap();
    let examples: Vec<&str> =
        guide.split("```jsonc\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(!examples.is_empty());
    for example in examples {
        assert_eq!(check_text(Path::new("docs/config.md"), example), [], "{example}");
    }
    let schema = schema();
    let table = guide.split("## Keys").nth(1).unwrap().split("\n## ").next().unwrap();
    for (name, property) in schema["properties"].as_object().unwrap() {
        if property.get("deprecated").is_none() {
            assert!(table.contains(&format!("`{name}`")), "{name} is not in the guide");
        }
    }
}
