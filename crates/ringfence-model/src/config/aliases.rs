//! The further names that keys are accepted under, and the JSON schema that knows them.

use std::borrow::Cow;

use serde_json::Value;

use super::ConfigFile;

/// Names that are neither the canonical one nor its snake_case spelling. The `serde(alias)` attributes say
/// the same; a test holds the two together.
pub const OTHER_NAMES: &[(&str, &str)] = &[
    ("allowedReadPaths", "allowRead"),
    ("allowed_read_paths", "allowRead"),
    ("whitelist", "allowWrite"),
    ("allowedWritePaths", "allowWrite"),
    ("allowed_write_paths", "allowWrite"),
    ("blacklist", "deny"),
];

/// The one name of a key, whichever way it is written.
#[must_use]
pub fn canonical(key: &str) -> Cow<'_, str> {
    if let Some((_, name)) = OTHER_NAMES.iter().find(|(other, _)| *other == key) {
        return Cow::Borrowed(name);
    }
    if !key.contains('_') {
        return Cow::Borrowed(key);
    }
    let mut name = String::with_capacity(key.len());
    let mut raise = false;
    for c in key.chars() {
        if c == '_' {
            raise = true;
        } else {
            name.push(if raise { c.to_ascii_uppercase() } else { c });
            raise = false;
        }
    }
    Cow::Owned(name)
}

/// The snake_case spelling of a key, when it differs.
#[must_use]
pub fn snake_case(key: &str) -> Option<String> {
    if !key.contains(|c: char| c.is_ascii_uppercase()) {
        return None;
    }
    let mut name = String::with_capacity(key.len() + 4);
    for c in key.chars() {
        if c.is_ascii_uppercase() {
            name.push('_');
        }
        name.push(c.to_ascii_lowercase());
    }
    Some(name)
}

/// The JSON schema of a configuration file, every accepted name included.
#[must_use]
pub fn schema() -> Value {
    let mut schema = schemars::schema_for!(ConfigFile).to_value();
    add_names(&mut schema);
    schema
}

fn add_names(schema: &mut Value) {
    let Value::Object(object) = schema else {
        if let Value::Array(items) = schema {
            items.iter_mut().for_each(add_names);
        }
        return;
    };
    object.values_mut().for_each(add_names);
    let Some(Value::Object(properties)) = object.get_mut("properties") else { return };
    // Names of path lists: all of them at the top of a file or in an agent's section, `whitelist` and
    // `blacklist` in `policy.filesystem`, none elsewhere (`tools.deny` is not a list of paths).
    let is_file = properties.contains_key("perSession");
    let is_filesystem = properties.contains_key("protect");
    let accepted = |other: &str| is_file || (is_filesystem && !other.starts_with("allowed"));
    let mut more = Vec::new();
    for (key, property) in properties.iter() {
        let listed = OTHER_NAMES.iter().filter(|(other, name)| name == key && accepted(other));
        let names = snake_case(key).into_iter().chain(listed.map(|(other, _)| (*other).to_owned()));
        more.extend(names.map(|name| (name, key.clone(), property.clone())));
    }
    for (name, key, mut property) in more {
        if let Value::Object(property) = &mut property {
            property.insert("description".to_owned(), format!("Another name of {key}").into());
            property.insert("deprecated".to_owned(), true.into());
        }
        properties.insert(name, property);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_back_and_forth() {
        for (key, snake) in [
            ("allowNetwork", Some("allow_network")),
            ("approvalTimeoutMs", Some("approval_timeout_ms")),
            ("enableNoVnc", Some("enable_no_vnc")),
            ("deny", None),
        ] {
            assert_eq!(snake_case(key).as_deref(), snake);
            assert_eq!(canonical(snake.unwrap_or(key)), key);
        }
        assert_eq!(canonical("whitelist"), "allowWrite");
    }
}
