//! Profiles are presets: below everything that is written.

use super::*;
use ringfence_model::{Limits, PolicyMode, RuleLayer};

fn with_profile(profile: &str) -> SandboxConfig {
    World::new().user(&format!(r#"{{ "profile": "{profile}" }}"#)).load().config
}

#[test]
fn profiles_expand_to_their_values() {
    for (profile, policy) in
        [("dev", PolicyMode::None), ("balanced", PolicyMode::Restricted), ("prod", PolicyMode::Restricted)]
    {
        let config = with_profile(profile);
        assert_eq!(config.profile.name(), profile);
        assert_eq!((config.default_policy, config.os.mode), (policy, OsMode::Auto), "{profile}");
        assert!(config.os.bubblewrap.unshare_net && !config.allow_network, "{profile}");
        assert_eq!(config.os.seatbelt.profile, None, "{profile}: made from the policy, deny by default");
    }
}

#[test]
fn prod_is_tighter_than_balanced_on_every_platform() {
    let (dev, balanced, prod) = (with_profile("dev"), with_profile("balanced"), with_profile("prod"));
    assert_eq!((&dev.limits, &balanced.limits), (&Limits::development(), &Limits::development()));
    assert_eq!(prod.limits, prod.limits.tightened_by(&balanced.limits), "no limit is wider");
    assert_ne!(prod.limits, balanced.limits);
    assert!(prod.limits.max_memory_bytes.is_some() && prod.limits.timeout_ms.is_some());
    assert!(prod.strict_sensitive_files && !balanced.strict_sensitive_files);
    assert_eq!(prod.validation_strictness, Strictness::Strict);
    let world = World::new().user(r#"{ "profile": "prod" }"#);
    let key = world.project().join(".vscode/settings.json");
    assert!(!may(&world.policy(), &key, Access::Read));
    assert!(may(&World::new().policy(), World::new().project().join("a"), Access::Read));
}

#[test]
fn explicit_values_beat_the_preset() {
    let config = World::new()
        .user(
            r#"{ "profile": "prod", "default_policy": "none", "strictSensitiveFiles": false, "timeout": 5 }"#,
        )
        .load()
        .config;
    assert_eq!(config.default_policy, PolicyMode::None);
    assert!(!config.strict_sensitive_files);
    assert_eq!(config.limits.timeout_ms, Some(5_000));
    assert_eq!(config.limits.max_processes, with_profile("prod").limits.max_processes, "the rest stays");
}

#[test]
fn an_explicit_null_beats_the_preset_too() {
    let config = World::new()
        .user(
            r#"{ "profile": "prod", "timeout": null, "limits": { "maxMemoryBytes": null },
                 "strictSensitiveFiles": null, "os": { "seatbelt": { "profile": null } } }"#,
        )
        .load()
        .config;
    assert_eq!((config.limits.timeout_ms, config.limits.max_memory_bytes), (None, None));
    assert!(!config.strict_sensitive_files);
    assert_eq!(config.os.seatbelt.profile, None);
}

#[test]
fn the_closest_layer_chooses_the_profile() {
    let world = World::new().user(r#"{ "profile": "prod", "agents": { "a": { "profile": "dev" } } }"#);
    assert_eq!(world.load().config.profile, Profile::Prod);
    assert_eq!(world.load_agent("a").config.default_policy, PolicyMode::None);
    let loaded = world.load_with(vec![], json!({ "profile": "balanced" }));
    assert_eq!(loaded.config.limits, Limits::development());
    assert_eq!(loaded.origin("defaultPolicy").layer, RuleLayer::Profile);
}

#[test]
fn rolling_back_needs_the_configuration_only() {
    assert_ne!(with_profile("prod"), with_profile("balanced"));
    let back = World::new().user(r#"{ "profile": "balanced" }"#).load().config;
    assert_eq!(back, World::new().load().config, "balanced is the default");
    let off = World::new().user(r#"{ "defaultPolicy": "none" }"#).load().config;
    assert_eq!(off.default_policy, PolicyMode::None);
}

#[test]
fn the_examples_of_the_document_mean_what_they_say() {
    let macos = r#"{
      "default_policy": "restricted",
      "os": { "mode": "auto", "seatbelt": { "profile": "(version 1)\n(allow default)\n" } }
    }"#;
    let config = World::new().user(macos).load().config;
    assert_eq!((config.default_policy, config.os.mode), (PolicyMode::Restricted, OsMode::Auto));
    assert_eq!(config.os.seatbelt.profile.as_deref(), Some("(version 1)\n(allow default)\n"));
    let linux = r#"{
      "default_policy": "restricted",
      "os": { "mode": "auto", "bubblewrap": { "bwrap_path": "/opt/bwrap", "unshare_net": true } }
    }"#;
    let config = World::new().user(linux).load().config;
    assert_eq!(config.os.bubblewrap.bwrap_path, "/opt/bwrap");
    assert!(config.os.bubblewrap.unshare_net);
    let commented = "{\n// \"default_policy\": \"none\",\n// \"os\": { \"mode\": \"none\" }\n}";
    assert_eq!(World::new().user(commented).load().config, World::new().load().config);
    for (word, mode) in
        [("none", OsMode::None), ("seatbelt", OsMode::Seatbelt), ("bubblewrap", OsMode::Bubblewrap)]
    {
        let config = World::new().user(&format!(r#"{{ "os": {{ "mode": "{word}" }} }}"#)).load().config;
        assert_eq!(config.os.mode, mode);
    }
}

#[test]
fn safety_lists_are_read() {
    let safety = World::new()
        .user(
            r#"{ "safety": { "mode": "deny", "allowlist": ["ls", "python -m pytest"], "denylist": ["rm -rf"],
                 "tool_allowlist": ["a"], "tool_denylist": ["b"], "approval_timeout_ms": 1000 } }"#,
        )
        .load()
        .config
        .safety;
    assert_eq!((safety.mode, safety.approval_timeout_ms), (SafetyMode::Deny, 1000));
    assert_eq!(
        (texts(&safety.allowlist), texts(&safety.denylist)),
        (vec!["ls", "python -m pytest"], vec!["rm -rf"])
    );
    assert_eq!((texts(&safety.tool_allowlist), texts(&safety.tool_denylist)), (vec!["a"], vec!["b"]));
}
