//! A request without anything that must not be shown, and its key.

use ringfence_ledger::Redact;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

/// Contents are told by their size and hash.
const CONTENTS: [&str; 7] = ["content", "patch", "stdin", "old", "new", "input", "data"];

/// The arguments of a tool call as they may be shown: of `env` the names only, of contents only size and hash,
/// and no known secret anywhere.
#[must_use]
pub fn cleaned(arguments: &Value, redact: &dyn Redact) -> Value {
    match arguments {
        Value::Object(fields) => {
            let clean = fields.iter().map(|(name, value)| {
                let value = match (name.as_str(), value) {
                    ("env", Value::Object(variables)) => names(variables, redact),
                    (name, Value::String(text)) if CONTENTS.contains(&name) => digest(text),
                    (_, value) => cleaned(value, redact),
                };
                (redact.redact(name).into_owned(), value)
            });
            Value::Object(clean.collect())
        }
        Value::Array(items) => items.iter().map(|item| cleaned(item, redact)).collect(),
        Value::String(text) => redact.redact(text).into_owned().into(),
        Value::Null | Value::Bool(_) | Value::Number(_) => arguments.clone(),
    }
}

fn names(variables: &Map<String, Value>, redact: &dyn Redact) -> Value {
    let mut names: Vec<String> = variables.keys().map(|name| redact.redact(name).into_owned()).collect();
    names.sort_unstable();
    names.into()
}

fn digest(text: &str) -> Value {
    json!({ "bytes": text.len(), "sha256": hex(&Sha256::digest(text.as_bytes())) })
}

/// The name of what is asked: the same tool with the same cleaned request has the same key.
#[must_use]
pub fn key_of(tool: &str, cleaned: &Value) -> String {
    let whole = sorted(&json!({ "request": cleaned, "tool": tool }));
    hex(&Sha256::digest(whole.to_string().as_bytes()))
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut names: Vec<&String> = fields.keys().collect();
            names.sort_unstable();
            Value::Object(names.into_iter().map(|name| (name.clone(), sorted(&fields[name]))).collect())
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use ringfence_ledger::{Nothing, Secrets};

    #[test]
    fn contents_values_and_secrets_do_not_show() {
        let arguments = json!({
            "path": "a.txt",
            "content": "the whole file",
            "env": { "B": "2", "A": "hunter22" },
            "command": "curl -H 'token: hunter22' x",
            "edits": [{ "old": "x", "new": "hunter22" }],
        });
        let clean = cleaned(&arguments, &Secrets::new(["hunter22"]));
        let text = clean.to_string();
        assert!(!text.contains("hunter22") && !text.contains("the whole file"), "{text}");
        assert_eq!(clean["env"], json!(["A", "B"]));
        assert_eq!(clean["content"]["bytes"], 14);
        assert_eq!(clean["command"], "curl -H 'token: <redacted>' x");
        assert_eq!(clean["path"], "a.txt");
    }

    #[test]
    fn a_key_is_the_hash_of_tool_and_request_in_one_order() {
        let key = key_of("bash", &json!({ "b": 1, "a": { "d": 2, "c": 3 } }));
        assert_eq!(key, key_of("bash", &json!({ "a": { "c": 3, "d": 2 }, "b": 1 })));
        assert_ne!(key, key_of("run_code", &json!({ "b": 1, "a": { "d": 2, "c": 3 } })));
        // printf '%s' '{"request":{"command":"ls"},"tool":"bash"}' | sha256sum
        assert_eq!(
            key_of("bash", &json!({ "command": "ls" })),
            "dbe08613a88e8016bc5446dab6d6514feebe712eb57cf40c27a9680fad3e189b"
        );
    }

    proptest! {
        #[test]
        fn a_secret_never_survives(before in "[a-z ]{0,8}", after in "[a-z ]{0,8}", name in "[a-z]{1,6}") {
            let secret = "Zq9!token";
            let value = json!({ name: [format!("{before}{secret}{after}")] });
            let clean = cleaned(&value, &Secrets::new([secret])).to_string();
            prop_assert!(!clean.contains(secret), "{clean}");
        }

        #[test]
        fn cleaning_without_secrets_keeps_ordinary_requests(command in "[ -~]{0,30}") {
            let value = json!({ "command": command });
            prop_assert_eq!(cleaned(&value, &Nothing), value);
        }
    }
}
