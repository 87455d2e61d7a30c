//! The options of the provider `local`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Launcher, Precision};
use crate::{Error, ErrorKind, Result};

/// Everything the provider `local` is told besides the policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct LocalOptions {
    pub precision: Precision,
    pub launcher: Launcher,
    /// Layers and launchers that must hold, by name.
    pub require: Vec<String>,
    /// bwrap, by name or path.
    pub bwrap_path: PathBuf,
    /// The program that bwrap executes inside.
    pub stage: Option<PathBuf>,
    /// The bash of shells, with words before it if there are any, quoted as in a shell.
    pub shell_command: String,
    pub seatbelt: SeatbeltOptions,
}

impl Default for LocalOptions {
    fn default() -> Self {
        Self {
            precision: Precision::default(),
            launcher: Launcher::default(),
            require: vec![],
            bwrap_path: "bwrap".into(),
            stage: None,
            shell_command: "bash".to_owned(),
            seatbelt: SeatbeltOptions::default(),
        }
    }
}

/// How macOS's Seatbelt is used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct SeatbeltOptions {
    /// In the place of `/usr/bin/sandbox-exec`.
    pub program: Option<PathBuf>,
    /// In the place of `/usr/bin/log`.
    pub log: Option<PathBuf>,
    pub mode: Option<String>,
    /// A whole profile in the place of the one that follows from the policy.
    pub profile: Option<String>,
}

/// The part of [`LocalOptions`] that `providerOptions` of a configuration may set. The others have settings of their
/// own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct LocalSection {
    pub shell_command: Option<String>,
    pub stage: Option<PathBuf>,
    pub seatbelt: SeatbeltOptions,
}

impl LocalSection {
    /// Refuses unknown keys, and says which are known.
    pub fn read(options: &serde_json::Map<String, serde_json::Value>) -> Result<Self> {
        if options.is_empty() {
            return Ok(Self::default());
        }
        serde_json::from_value(serde_json::Value::Object(options.clone())).map_err(|error| {
            Error::new(ErrorKind::InvalidConfig, format!("providerOptions of the provider local: {error}"))
                .hint("the options of another provider do not apply to local")
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(options: Value) -> Result<LocalSection> {
        let Value::Object(options) = options else { panic!("not an object: {options}") };
        LocalSection::read(&options)
    }

    #[test]
    fn known_keys_are_read() {
        assert_eq!(read(json!({})).unwrap(), LocalSection::default());
        let section = read(json!({ "shellCommand": "bash", "seatbelt": { "mode": "strict" } })).unwrap();
        assert_eq!(section.shell_command.as_deref(), Some("bash"));
        assert_eq!(section.seatbelt.mode.as_deref(), Some("strict"));
    }

    #[test]
    fn unknown_keys_are_named_with_the_known_ones() {
        for wrong in
            [json!({ "shellComand": "bash" }), json!({ "precision": "off" }), json!({ "engine": "x" })]
        {
            let error = read(wrong.clone()).unwrap_err();
            assert_eq!(error.kind, ErrorKind::InvalidConfig);
            let key = wrong.as_object().unwrap().keys().next().unwrap();
            for name in [key.as_str(), "shellCommand", "stage", "seatbelt"] {
                assert!(error.message.contains(&format!("`{name}`")), "{name}: {error}");
            }
        }
        assert_eq!(read(json!({ "shellCommand": 1 })).unwrap_err().kind, ErrorKind::InvalidConfig);
    }
}
