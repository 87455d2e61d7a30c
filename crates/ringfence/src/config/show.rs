//! Every value with the place it came from.

use ringfence_model::config::Entry;
use ringfence_model::{RuleLayer, RuleSource};
use serde::Serialize;
use serde_json::Value;

use super::load::Loaded;

/// One setting, or one entry of a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Shown {
    /// With dots: `limits.maxMemoryBytes`.
    pub key: String,
    pub value: Value,
    pub source: RuleSource,
}

/// Sections that are shown as they are, not key by key.
const WHOLE: [&str; 4] = ["providerOptions", "envOverride", "docker", "browser"];

impl Loaded {
    /// The merged configuration in the form of a file.
    #[must_use]
    pub fn to_json(&self) -> Value {
        serde_json::to_value(&self.config).unwrap_or_default()
    }

    /// Every value, in the order of the file, with its origin.
    #[must_use]
    pub fn show(&self) -> Vec<Shown> {
        let mut shown = Vec::new();
        if let Value::Object(settings) = self.to_json() {
            for (key, value) in settings {
                self.flatten(key, value, &mut shown);
            }
        }
        shown
    }

    /// The origin of the value of `key` (with dots).
    #[must_use]
    pub fn origin(&self, key: &str) -> RuleSource {
        match self.origins.get(key) {
            Some(source) => source.clone(),
            None => RuleSource::layer(RuleLayer::BuiltIn).with_key(key),
        }
    }

    fn flatten(&self, key: String, value: Value, shown: &mut Vec<Shown>) {
        let hosts = &self.config.allowed_hosts;
        if key == "allowedHosts" && !hosts.is_empty() {
            shown.extend(hosts.iter().map(|entry| Shown {
                key: key.clone(),
                value: serde_json::to_value(entry).unwrap_or_default(),
                source: entry.source.clone(),
            }));
            return;
        }
        if let Some(entries) = self.entries(&key).filter(|entries| !entries.is_empty()) {
            shown.extend(entries.iter().map(|entry| Shown {
                key: key.clone(),
                value: Value::String(entry.text.clone()),
                source: entry.source.clone(),
            }));
            return;
        }
        match value {
            Value::Object(section) if !WHOLE.contains(&key.as_str()) => {
                for (name, value) in section {
                    self.flatten(format!("{key}.{name}"), value, shown);
                }
            }
            value => {
                let source = self.origin(&key);
                shown.push(Shown { key, value, source });
            }
        }
    }

    /// The list of that key, each entry of which has an origin of its own.
    fn entries(&self, key: &str) -> Option<&Vec<Entry>> {
        let c = &self.config;
        Some(match key {
            "allowRead" => &c.allow_read,
            "allowWrite" => &c.allow_write,
            "deny" => &c.deny,
            "protect" => &c.protect,
            "neverAsk" => &c.never_ask,
            "blockedHosts" => &c.blocked_hosts,
            "allowedCommands" => &c.allowed_commands,
            "blockedCommands" => &c.blocked_commands,
            "safety.allowlist" => &c.safety.allowlist,
            "safety.denylist" => &c.safety.denylist,
            "safety.toolAllowlist" => &c.safety.tool_allowlist,
            "safety.toolDenylist" => &c.safety.tool_denylist,
            "envPassthrough" => &c.env_passthrough,
            "additionalSensitiveFiles" => &c.additional_sensitive_files,
            "allowedTmpPaths" => &c.allowed_tmp_paths,
            "tools.allow" => c.tools.allow.as_ref()?,
            "tools.deny" => c.tools.deny.as_ref()?,
            _ => return None,
        })
    }
}
