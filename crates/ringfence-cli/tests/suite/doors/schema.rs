//! Every key of the configuration is shown to act by a rule of the table, or there is a reason why not.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::support::Room;
use super::rules;

const PRESET: &str = "a preset of other keys; config/tests shows which";
const LAUNCHER: &str = "chooses who builds the fence; launchers.rs and the fence's own tests show each";
const NETWORK: &str =
    "about hosts and their limits; fence_network*.rs and fence_inspected.rs for each launcher";
const KIT: &str = "a layer of other keys; kits.rs shows it with real agents";
const PER_LAUNCHER: &str =
    "fence_attacks_resources.rs shows it for each launcher; where it bites depends on the machine";
const MANAGED: &str =
    "about sandboxes that a manager makes; ringfence/src/manager/tests and cli_sandboxes.rs";
const CONTAINER: &str = "about containers; ringfence-docker/tests";
const NAME: &str = "another name of a key that has a rule";
const BUDGET: &str = "about a whole run of an agent; mcp_settings.rs";
const EXTENSIONS: &str =
    "about lines for registered extensions, which only a program that embeds the tools has";

/// Keys (and all below them, where one ends with a dot) that no rule is about.
const WITHOUT_A_RULE: &[(&str, &str)] = &[
    ("$schema", "for editors"),
    ("enabled", "false is no fence; ringfence/tests/tools/managed.rs and cli_sandboxes.rs"),
    ("profile", PRESET),
    ("defaultPolicy", "none is no fence; config/tests/profiles.rs"),
    ("mode", PRESET),
    ("os", LAUNCHER),
    ("os.", LAUNCHER),
    ("launcher", LAUNCHER),
    ("precision", LAUNCHER),
    ("sessions", MANAGED),
    ("scope", MANAGED),
    ("perSession", MANAGED),
    ("workspaceRoot", MANAGED),
    ("prune", MANAGED),
    ("prune.", MANAGED),
    ("docker", CONTAINER),
    ("docker.", CONTAINER),
    ("browser", CONTAINER),
    ("browser.", CONTAINER),
    ("grants.[].recursive", "which paths a grant covers is the policy's one decision; ringfence-model"),
    ("policy.filesystem.allowWrite", NAME),
    ("policy.filesystem.allowRead", NAME),
    ("policy.filesystem.whitelist", NAME),
    ("policy.filesystem.blacklist", NAME),
    ("whitelist", NAME),
    ("blacklist", NAME),
    ("allowedReadPaths", NAME),
    ("allowedWritePaths", NAME),
    ("policy.network", NETWORK),
    ("policy.network.", NETWORK),
    ("allowNetwork", NETWORK),
    ("allowedHosts.", NETWORK),
    ("network", NETWORK),
    ("network.", NETWORK),
    ("kits", KIT),
    ("kits.", KIT),
    ("useKits", KIT),
    ("allowedPorts", NETWORK),
    ("blockedPorts", NETWORK),
    ("safety.toolAllowlist", EXTENSIONS),
    ("safety.toolDenylist", EXTENSIONS),
    ("safety.codeSandbox", "about run_code alone; mcp_settings.rs and docker_tools.rs"),
    ("tools.maxSteps", BUDGET),
    ("tools.maxSeconds", BUDGET),
    ("safety.approvalTimeoutMs", "a person who says nothing; ringfence/tests/tools/asking.rs"),
    ("limits.maxMemoryBytes", PER_LAUNCHER),
    ("limits.maxCpuSeconds", PER_LAUNCHER),
    ("limits.maxProcesses", PER_LAUNCHER),
    ("limits.maxOpenFiles", PER_LAUNCHER),
    ("limits.maxStackBytes", PER_LAUNCHER),
    ("allowedTmpPaths", "directories of the host's own /tmp; config/tests/policies.rs"),
    ("tools.allow", "the same list as tools.deny, read by the same function; ringfence/src/tools/policy.rs"),
    ("agents", "sections with the same keys"),
    ("agents.", "sections with the same keys"),
];

/// The keys of an object and of all below it, in the one spelling that others stand for.
fn keys(schema: &Value, root: &Value, path: &str, found: &mut BTreeSet<String>) {
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        return keys(root.pointer(&reference[1..]).unwrap(), root, path, found);
    }
    for shapes in ["anyOf", "oneOf", "allOf"] {
        for shape in schema.get(shapes).and_then(Value::as_array).into_iter().flatten() {
            keys(shape, root, path, found);
        }
    }
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        // Every key may be written with underscores, too.
        if name.contains('_') {
            continue;
        }
        let key = format!("{path}{name}");
        found.insert(key.clone());
        keys(property, root, &format!("{key}."), found);
    }
    for (name, below) in [("additionalProperties", "*."), ("items", "[].")] {
        if let Some(shape) = schema.get(name).filter(|shape| shape.is_object()) {
            keys(shape, root, &format!("{path}{below}"), found);
        }
    }
}

#[test]
fn every_key_of_the_configuration_has_a_rule_or_a_reason() {
    let schema = Room::new().run(&["config", "schema"]).expect(0).json();
    let mut known = BTreeSet::new();
    keys(&schema, &schema, "", &mut known);
    assert!(known.contains("limits.maxFileWrites") && known.contains("grants.[].path"), "{known:?}");

    let with_a_rule: BTreeSet<&str> = rules().iter().flat_map(|rule| rule.keys).copied().collect();
    let has_reason = |key: &str| {
        let about = |listed: &str| listed == key || listed.ends_with('.') && key.starts_with(listed);
        WITHOUT_A_RULE.iter().any(|(listed, _)| about(listed))
    };
    let mut wrong = vec![];
    for key in &known {
        match (with_a_rule.contains(key.as_str()), has_reason(key)) {
            (false, false) => wrong.push(format!("{key}: no rule, and no reason")),
            (true, true) => wrong.push(format!("{key}: a rule, and a reason to have none")),
            _ => (),
        }
    }
    for key in &with_a_rule {
        if !known.contains(*key) {
            wrong.push(format!("{key}: a rule about a key that does not exist"));
        }
    }
    for (listed, _) in WITHOUT_A_RULE {
        let there = |key: &String| key == listed || listed.ends_with('.') && key.starts_with(listed);
        if !known.iter().any(there) {
            wrong.push(format!("{listed}: a reason for a key that does not exist"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
