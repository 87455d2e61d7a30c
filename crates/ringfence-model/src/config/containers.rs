//! Settings of sandboxes in containers: the container itself, and the browser beside it.

use std::collections::BTreeMap;
use std::num::{NonZeroU16, NonZeroU32, NonZeroU64};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::object::{objects_only, written_as_derived};
use super::setting::{Positive, Size, Text};

/// How a sandbox's container is made. The provider refuses what would weaken it, whoever wrote it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields, remote = "Self")]
pub struct DockerSection {
    pub image: Option<Text>,
    #[serde(alias = "container_prefix")]
    pub container_prefix: Option<Text>,
    pub workdir: Option<Text>,
    #[serde(alias = "read_only_root")]
    pub read_only_root: Option<bool>,
    pub tmpfs: Option<Vec<Text>>,
    pub network: Option<Text>,
    pub user: Option<Text>,
    #[serde(alias = "cap_drop")]
    pub cap_drop: Option<Vec<Text>>,
    /// The first layer that has it replaces the built-in one; an agent's adds to it.
    pub env: Option<BTreeMap<String, String>>,
    #[serde(alias = "setup_command")]
    pub setup_command: Option<Text>,
    #[serde(alias = "pids_limit")]
    pub pids_limit: Option<NonZeroU32>,
    pub memory: Option<Size>,
    #[serde(alias = "memory_swap")]
    pub memory_swap: Option<Size>,
    pub cpus: Option<Positive>,
    /// By name: a number, `soft:hard`, or `{soft, hard}`. Merged by name.
    pub ulimits: Option<BTreeMap<String, serde_json::Value>>,
    #[serde(alias = "seccomp_profile")]
    pub seccomp_profile: Option<Text>,
    #[serde(alias = "apparmor_profile")]
    pub apparmor_profile: Option<Text>,
    pub dns: Option<Vec<Text>>,
    #[serde(alias = "extra_hosts")]
    pub extra_hosts: Option<Vec<Text>>,
    /// `host:container[:ro]`; the lists of all layers follow each other.
    pub binds: Option<Vec<Text>>,
    #[serde(alias = "dangerously_allow_reserved_container_targets")]
    pub dangerously_allow_reserved_container_targets: Option<bool>,
    #[serde(alias = "dangerously_allow_external_bind_sources")]
    pub dangerously_allow_external_bind_sources: Option<bool>,
    #[serde(alias = "dangerously_allow_container_namespace_join")]
    pub dangerously_allow_container_namespace_join: Option<bool>,
}

/// The browser of a session.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields, remote = "Self")]
pub struct BrowserSection {
    pub enabled: Option<bool>,
    pub image: Option<Text>,
    #[serde(alias = "container_prefix")]
    pub container_prefix: Option<Text>,
    pub network: Option<Text>,
    #[serde(alias = "cdp_port")]
    pub cdp_port: Option<NonZeroU16>,
    #[serde(alias = "cdp_source_range")]
    pub cdp_source_range: Option<Text>,
    #[serde(alias = "vnc_port")]
    pub vnc_port: Option<NonZeroU16>,
    #[serde(alias = "no_vnc_port")]
    pub no_vnc_port: Option<NonZeroU16>,
    pub headless: Option<bool>,
    #[serde(alias = "enable_no_vnc")]
    pub enable_no_vnc: Option<bool>,
    #[serde(alias = "allow_host_control")]
    pub allow_host_control: Option<bool>,
    #[serde(alias = "auto_start")]
    pub auto_start: Option<bool>,
    #[serde(alias = "auto_start_timeout_ms")]
    pub auto_start_timeout_ms: Option<NonZeroU64>,
    /// Replaces the container's binds; an empty list means none.
    pub binds: Option<Vec<Text>>,
}

objects_only!(DockerSection, BrowserSection);
written_as_derived!(DockerSection, BrowserSection);

/// `layer` where it says something, else `base`.
macro_rules! overlay {
    ($base:ident, $layer:ident: $($field:ident)+) => {
        $(if $layer.$field.is_some() { $base.$field = $layer.$field; })+
    };
}

impl DockerSection {
    /// The container a sandbox has when nobody says anything.
    #[must_use]
    pub fn built_in() -> Self {
        let texts = |list: &[&str]| Some(list.iter().copied().map(Text::from).collect());
        Self {
            image: Some("ringfence-sandbox:bookworm-slim".into()),
            container_prefix: Some("ringfence-sbx-".into()),
            workdir: Some("/workspace".into()),
            read_only_root: Some(true),
            tmpfs: texts(&["/tmp:exec", "/var/tmp:exec", "/run"]),
            network: Some("none".into()),
            cap_drop: texts(&["ALL"]),
            env: Some(BTreeMap::from([("LANG".to_owned(), "C.UTF-8".to_owned())])),
            // Enough to build software in, and too little to hurt the machine.
            pids_limit: NonZeroU32::new(512),
            memory: Some(Size(2 << 30)),
            cpus: Some(Positive(2.0)),
            ..Self::default()
        }
    }

    /// Lays the user's settings over the built-in ones: everything written replaces.
    pub fn replace_with(&mut self, layer: Self) {
        self.env = layer.env.clone().or(self.env.take());
        self.add(Self { env: None, ..layer });
    }

    /// Lays a closer layer over this one: `env` and `ulimits` are merged by name, `binds` follow each
    /// other, everything else replaces.
    pub fn add(&mut self, layer: Self) {
        if let Some(env) = layer.env {
            self.env.get_or_insert_default().extend(env);
        }
        if let Some(ulimits) = layer.ulimits {
            self.ulimits.get_or_insert_default().extend(ulimits);
        }
        if let Some(binds) = layer.binds {
            self.binds.get_or_insert_default().extend(binds);
        }
        overlay!(self, layer: image container_prefix workdir read_only_root tmpfs network user cap_drop
            setup_command pids_limit memory memory_swap cpus seccomp_profile apparmor_profile dns extra_hosts
            dangerously_allow_reserved_container_targets dangerously_allow_external_bind_sources
            dangerously_allow_container_namespace_join);
    }
}

impl BrowserSection {
    #[must_use]
    pub fn built_in() -> Self {
        Self {
            enabled: Some(false),
            image: Some("ringfence-sandbox-browser:bookworm-slim".into()),
            container_prefix: Some("ringfence-sbx-browser-".into()),
            network: Some("ringfence-sandbox-browser".into()),
            cdp_port: NonZeroU16::new(9222),
            vnc_port: NonZeroU16::new(5900),
            no_vnc_port: NonZeroU16::new(6080),
            headless: Some(false),
            enable_no_vnc: Some(true),
            allow_host_control: Some(false),
            auto_start: Some(true),
            auto_start_timeout_ms: NonZeroU64::new(12_000),
            ..Self::default()
        }
    }

    pub fn add(&mut self, layer: Self) {
        overlay!(self, layer: enabled image container_prefix network cdp_port cdp_source_range vnc_port
            no_vnc_port headless enable_no_vnc allow_host_control auto_start auto_start_timeout_ms binds);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn docker(value: serde_json::Value) -> DockerSection {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn env_and_ulimits_merge_binds_follow_and_the_rest_replaces() {
        let mut merged = DockerSection::built_in();
        merged.replace_with(docker(json!({
            "env": { "A": "user", "B": "user" }, "ulimits": { "nofile": 10, "nproc": 5 },
            "binds": ["/a:/a"], "image": "user", "dns": ["1.1.1.1"]
        })));
        assert_eq!(merged.env.as_ref().map(|env| env.contains_key("LANG")), Some(false), "replaced");
        merged.add(docker(json!({
            "env": { "B": "agent", "C": "agent" }, "ulimits": { "nofile": 20 },
            "binds": ["/b:/b"], "dns": ["9.9.9.9"]
        })));
        let merged = serde_json::to_value(merged).unwrap();
        assert_eq!(merged["env"], json!({ "A": "user", "B": "agent", "C": "agent" }));
        assert_eq!(merged["ulimits"], json!({ "nofile": 20, "nproc": 5 }));
        assert_eq!(merged["binds"], json!(["/a:/a", "/b:/b"]));
        assert_eq!(merged["dns"], json!(["9.9.9.9"]));
        assert_eq!(merged["image"], "user");
        assert_eq!(merged["capDrop"], json!(["ALL"]));
    }

    #[test]
    fn zero_and_unknown_are_refused() {
        for bad in [
            json!({ "pidsLimit": 0 }),
            json!({ "cpus": 0 }),
            json!({ "cpus": "two" }),
            json!({ "privileged": true }),
        ] {
            assert!(serde_json::from_value::<DockerSection>(bad.clone()).is_err(), "{bad}");
        }
        for bad in [json!({ "cdpPort": 0 }), json!({ "vncPort": 70000 }), json!({ "fast": true })] {
            assert!(serde_json::from_value::<BrowserSection>(bad.clone()).is_err(), "{bad}");
        }
    }
}
