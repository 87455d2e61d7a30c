use std::os::unix::fs::PermissionsExt as _;

use ringfence_model::{HostRule, Inspect, NetworkPolicy, PathRule, RuleLayer, RuleSource};
use serde_json::json;

use super::*;

fn policy(credentials: &[serde_json::Value]) -> Policy {
    let rules = credentials.iter().enumerate().map(|(number, credential)| {
        let source = RuleSource::layer(RuleLayer::User).with_key("allowedHosts");
        let mut rule = HostRule::parse(&format!("h{number}.test"), source).unwrap();
        let credential = serde_json::from_value(credential.clone()).unwrap();
        rule.inspect = Some(Inspect { credential: Some(credential), ..Inspect::default() });
        rule
    });
    Policy {
        network: NetworkPolicy { allowed_hosts: rules.collect(), ..NetworkPolicy::default() },
        ..Policy::default()
    }
}

fn host(variables: &[(&str, &str)]) -> Host {
    Host::from_environment(variables.iter().map(|(name, value)| (name.into(), value.into())).collect())
}

#[test]
fn a_credential_is_where_the_person_keeps_it() {
    let temp = tempfile::tempdir().unwrap();
    let (home, file) = (temp.path().display().to_string(), temp.path().join("key"));
    std::fs::write(&file, "  from-a-file \nsecond line\n").unwrap();
    let host = host(&[("TOKEN", "ghp_0123456789012345678901234567890123456"), ("HOME", &home)]);
    let policy = policy(&[
        json!({ "header": "Authorization", "value": "Bearer $TOKEN", "variable": "GH_TOKEN" }),
        json!({ "header": "X-Key", "file": "~/key", "variable": "KEY" }),
        json!({ "header": "X-Key", "command": ["/bin/sh", "-c", "echo $TOKEN; echo more"] }),
    ]);
    let fetched = Fetched::of(&policy, &host).unwrap();
    let values: Vec<&str> = fetched.secrets.iter().map(|secret| secret.value.as_str()).collect();
    let token = "ghp_0123456789012345678901234567890123456";
    assert_eq!(values, [&format!("Bearer {token}"), "from-a-file", token]);
    let inside = |name: &str| fetched.variables[name].as_str();
    assert_eq!(inside("TOKEN"), inside("GH_TOKEN"));
    assert_eq!(inside("TOKEN").len(), token.len());
    assert!(inside("TOKEN").starts_with("ghp_ringfence") && !inside("TOKEN").contains("012345678901234567"));
    assert!(inside("KEY").len() > "from-a-file".len(), "too short to tell it from other words");
    assert_eq!(fetched.secrets[0].hidden, fetched.secrets[2].hidden, "the same secret");
    assert!(!format!("{fetched:?}").contains("012345678901234567"));
    let again = Fetched::of(&policy, &host).unwrap();
    assert_ne!(again.variables, fetched.variables);
}

#[test]
fn what_is_missing_is_named_with_its_rule() {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().canonicalize().unwrap();
    let tool = root.join("tool");
    std::fs::write(&tool, "#!/bin/sh\necho from-the-tool\n").unwrap();
    std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(root.join("empty"), "\n").unwrap();
    let path = root.display().to_string();
    let host = host(&[("SHORT", "abc"), ("LINES", "one-of\ntwo-lines"), ("PATH", &path), ("HOME", &path)]);
    let value = |text: &str| json!({ "header": "A", "value": text });
    let command = |words: &[&str]| json!({ "header": "A", "command": words });
    for (credential, want) in [
        (value("$NONE"), "the variable NONE is not set"),
        (value("$SHORT"), "the variable SHORT is shorter than 8 characters"),
        (value("$LINES"), "characters that no header has"),
        (json!({ "header": "A", "file": "~/none" }), "/none cannot be read: No such file"),
        (json!({ "header": "A", "file": "~/empty" }), "/empty is empty"),
        (command(&["none"]), "`none` is not found"),
        (command(&["./tool"]), "`./tool` is not found"),
        (command(&["/bin/sh", "-c", "exit 3"]), "it failed: exit status: 3"),
        (command(&["/bin/sh", "-c", ":"]), "printed nothing"),
    ] {
        let error = Fetched::of(&policy(&[credential]), &host).unwrap_err().to_string();
        assert!(error.contains("`h0.test` (user config: allowedHosts): ") && error.contains(want), "{error}");
        assert!(!error.contains("one-of"), "{error}");
    }
    let mut policy = policy(&[command(&["tool"])]);
    assert_eq!(Fetched::of(&policy, &host).unwrap().secrets[0].value, "from-the-tool");
    // One that somebody inside could have made is not run.
    policy.filesystem.allow_write.push(PathRule::new(root.as_path(), RuleSource::layer(RuleLayer::User)));
    assert!(Fetched::of(&policy, &host).unwrap_err().to_string().contains("`tool` is not found"));
}

#[test]
fn a_variable_stands_for_one_credential() {
    let host = host(&[("ONE", "one-secret"), ("TWO", "two-secret")]);
    let both = policy(&[
        json!({ "header": "A", "value": "$ONE", "variable": "X" }),
        json!({ "header": "A", "value": "$TWO", "variable": "X" }),
    ]);
    let error = Fetched::of(&both, &host).unwrap_err().to_string();
    assert!(error.contains("X stands for another credential"), "{error}");
    let joined = policy(&[json!({ "header": "A", "value": "$ONE:$TWO", "variable": "X" })]);
    let fetched = Fetched::of(&joined, &host).unwrap();
    assert_eq!(fetched.secrets[0].value, "one-secret:two-secret");
    assert_eq!(fetched.secrets[0].hidden.len(), 3);
    assert_eq!(fetched.variables.len(), 3);
}
