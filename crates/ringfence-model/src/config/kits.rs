//! Kits: what a whole agent needs to live inside the fence, each entry with its reason.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::hosts::HostSetting;
use super::object::{objects_only, written_as_derived};
use super::setting::Text;

/// What one agent needs.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, remote = "Self")]
pub struct Kit {
    /// The agent, in a few words.
    pub about: Text,
    /// Directories it keeps its state in: made when missing, readable and writable, and there again at the next start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub state: Vec<KitPath>,
    /// Files that a state directory begins with; one that is there stays as it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<KitFile>,
    /// Paths it may read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<KitPath>,
    /// Paths that stay denied, also below those above.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<KitPath>,
    /// Hosts it may reach.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<KitHost>,
    /// Variables of yours that pass.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pass: Vec<KitName>,
    /// Variables that are set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<KitVariable>,
    /// What becomes of a sandbox of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Text>,
}

/// A path, and why.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, remote = "Self")]
pub struct KitPath {
    pub path: Text,
    pub reason: Text,
}

/// The beginning of a file, and why.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, remote = "Self")]
pub struct KitFile {
    /// Directly in one of the state directories.
    pub path: Text,
    pub text: Text,
    pub reason: Text,
}

/// An entry of `allowedHosts`, and why.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, remote = "Self")]
pub struct KitHost {
    /// As in `allowedHosts`: text, or an object with `host`.
    pub rule: HostSetting,
    pub reason: Text,
}

/// The name of a variable, and why.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, remote = "Self")]
pub struct KitName {
    /// As in `envPassthrough`: `*` at the end is a wildcard.
    pub name: Text,
    pub reason: Text,
}

/// A variable with its value, and why.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, remote = "Self")]
pub struct KitVariable {
    pub name: Text,
    /// `~/` at the beginning is the home directory.
    pub value: String,
    pub reason: Text,
}

objects_only!(Kit, KitPath, KitFile, KitHost, KitName, KitVariable);
written_as_derived!(Kit, KitPath, KitFile, KitHost, KitName, KitVariable);
