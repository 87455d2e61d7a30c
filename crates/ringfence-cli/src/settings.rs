//! The command line as the closest layer of the configuration.

use std::path::Path;

use ringfence::config;
use ringfence::model::config::{BlockedHost, ConfigFile, HostSetting};
use ringfence::model::{Access, DenyReason, Error, ErrorKind, PathOutcome, PathPattern, Result};
use ringfence::setup::Setup;
use serde_json::{Map, Value, json};

use crate::args::{Ask, Launcher, Precision, Profile, Run, Sandbox};
use crate::report;

/// Loads the configuration with the command line as its closest layer.
pub(crate) fn load(args: &Sandbox, mut settings: Map<String, Value>) -> Result<Setup> {
    for (option, paths) in
        [("--allow-read", &args.allow_read), ("--allow-write", &args.allow_write), ("--deny", &args.deny)]
    {
        if let Some(path) = paths.iter().find(|path| path.trim().is_empty()) {
            let message = format!("{option} needs a path, and `{path}` is none");
            return Err(Error::new(ErrorKind::Validation, message));
        }
    }
    let mut set = |key: &str, value: Value| {
        settings.insert(key.to_owned(), value);
    };
    if !args.kit.is_empty() {
        set("useKits", json!(args.kit));
    }
    if let Some(provider) = &args.provider {
        set("provider", json!(provider));
    }
    if let Some(profile) = args.profile {
        let name = match profile {
            Profile::Unfenced => "dev",
            Profile::Balanced => "balanced",
            Profile::Prod => "prod",
        };
        set("profile", json!(name));
    }
    if let Some(precision) = args.precision {
        let name = match precision {
            Precision::Full => "full",
            Precision::Writes => "writes",
            Precision::Off => "off",
        };
        set("precision", json!(name));
    }
    if let Some(launcher) = args.launcher {
        let name = match launcher {
            Launcher::Auto => "auto",
            Launcher::Native => "native",
            Launcher::Bwrap => "bwrap",
            Launcher::Landlock => "landlock",
            Launcher::NetworkOnly => "network-only",
        };
        set("launcher", json!(name));
    }
    let current = std::env::current_dir().map_err(|error| {
        Error::new(ErrorKind::Validation, "the current directory is gone").caused_by(error)
    })?;
    // Paths on the command line are meant from where the person stands, not from the project.
    let absolute = |paths: &[String]| -> Vec<Value> {
        paths
            .iter()
            .map(|path| {
                let is_relative = !path.starts_with(['/', '~', '$']) && !path.starts_with("**");
                json!(if is_relative {
                    current.join(path).to_string_lossy().into_owned()
                } else {
                    path.clone()
                })
            })
            .collect()
    };
    for (key, paths) in
        [("allowRead", &args.allow_read), ("allowWrite", &args.allow_write), ("deny", &args.deny)]
    {
        if !paths.is_empty() {
            set(key, Value::Array(absolute(paths)));
        }
    }
    let wrong = |option: &str, text: &str, why: String| {
        Error::new(ErrorKind::Validation, format!("{option} {text}: {why}"))
    };
    for text in &args.allow_host {
        HostSetting::parse(text).map_err(|why| wrong("--allow-host", text, why))?;
    }
    for text in &args.block_host {
        BlockedHost::parse(text).map_err(|why| wrong("--block-host", text, why))?;
    }
    for (key, hosts) in [("allowedHosts", &args.allow_host), ("blockedHosts", &args.block_host)] {
        if !hosts.is_empty() {
            set(key, json!(hosts));
        }
    }
    if args.ask_hosts {
        set("network", json!({ "ask": true }));
    }
    let call: ConfigFile = if settings.is_empty() {
        ConfigFile::default()
    } else {
        serde_json::from_value(Value::Object(settings))
            .map_err(|error| Error::new(ErrorKind::Validation, format!("bad option: {error}")))?
    };
    let project = args.project.clone().unwrap_or(current);
    Setup::load(&project, std::env::vars_os().collect(), call, args.agent.as_deref())
}

/// Says what a person should know before anything runs: problems of the configuration, and options that do not do what
/// they seem to.
pub(crate) fn say_warnings(setup: &Setup, args: &Sandbox) {
    for warning in &setup.loaded.warnings {
        report::say(&format!("warning: {warning}"));
    }
    for warning in warnings(setup, args) {
        report::say(&format!("warning: {warning}"));
    }
}

/// Said wherever somebody could take the configuration for a fence.
pub(crate) fn unfenced(setup: &Setup) -> Option<String> {
    setup.is_switched_off().then(|| {
        "there is no fence (enabled false, defaultPolicy none, or the profile dev): commands run with all your rights, \
         and no rule of the configuration holds them; the profile balanced is a fence"
            .to_owned()
    })
}

pub(crate) fn warnings(setup: &Setup, args: &Sandbox) -> Vec<String> {
    let mut found = vec![];
    if setup.project == setup.home.canonicalize().unwrap_or_else(|_| setup.home.clone()) {
        found.push(format!(
            "the project is your whole home directory, {}: what runs inside can change almost everything in it; \
             work in a directory of its own, or name one with --project",
            setup.project.display()
        ));
    }
    found.extend(network_without_effect(setup));
    if let Some(agent) = &args.agent {
        let known = |file: &Path| config::agent_names(file).unwrap_or_default();
        let project_file = setup.project.join(".ringfence/sandbox.json");
        let names = [known(&setup.user_file()), known(&project_file)].concat();
        if !names.contains(agent) {
            let file = setup.user_file();
            found.push(format!("--agent {agent}: no section agents.{agent} in {}", file.display()));
        }
    }
    let policy = setup.policy();
    for (option, paths, access) in [
        ("--allow-read", &args.allow_read, Access::Read),
        ("--allow-write", &args.allow_write, Access::Write),
    ] {
        for text in paths.iter().filter(|text| !text.contains(['*', '?', '[', '$'])) {
            let path = match Path::new(text).strip_prefix("~") {
                Ok(below) => setup.home.join(below),
                Err(_) => std::env::current_dir().unwrap_or_default().join(text),
            };
            let Ok(path) = path.canonicalize() else {
                found.push(format!("{option} {text}: there is nothing at that path"));
                continue;
            };
            let decision = policy.filesystem.decide(&path, access);
            let word = match decision.outcome {
                PathOutcome::Denied(DenyReason::Denied) => "denied",
                PathOutcome::Denied(DenyReason::Protected) => "protected",
                _ => continue,
            };
            let by =
                decision.rule.map_or_else(String::new, |rule| format!(" by {} ({})", rule.path, rule.source));
            let more = if access == Access::Write { " --write" } else { "" };
            let below = if path.is_dir() { " --recursive" } else { "" };
            found.push(format!(
                "{option} {text} changes nothing: it is {word}{by}, which wins; only a grant beats it: \
                 ringfence grants add{more}{below} {text}"
            ));
        }
    }
    for text in &args.deny {
        let pattern = PathPattern::parse(text);
        if pattern.is_glob() && text.contains('[') && !text.contains(']') {
            found.push(format!("--deny {text}: a `[` without `]` matches only itself"));
        }
    }
    found
}

/// A network of the container that no command in it has.
fn network_without_effect(setup: &Setup) -> Option<String> {
    let shown = setup.loaded.to_json();
    let text = |pointer: &str| shown.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let network = text("/docker/network").filter(|network| network != "none")?;
    let has_guest = text("/providerOptions/guest").is_none_or(|guest| guest != "off");
    (setup.loaded.config.provider == "docker" && has_guest).then(|| {
        format!(
            "docker.network {network}: commands run in the guest's fence in the container, which has no network; \
             \"providerOptions\": {{ \"guest\": \"off\" }} runs them without it"
        )
    })
}

/// `90`, `1.5`, `500ms`, `30s`, `5m`, `2h`, in seconds.
pub(crate) fn seconds(text: &str) -> std::result::Result<f64, String> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[number.len()..] {
        "ms" => 0.001,
        "" | "s" | "sec" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err("write it like 90, 1.5, 500ms, 30s, 5m or 2h".to_owned()),
    };
    match number.parse::<f64>() {
        Ok(value) if value.is_finite() && value > 0.0 => Ok(value * unit),
        _ => Err("write it like 90, 1.5, 500ms, 30s, 5m or 2h".to_owned()),
    }
}

/// The settings that only make sense for a run.
pub(crate) fn run_settings(args: &Run) -> Result<Map<String, Value>> {
    let mut settings = Map::new();
    let (mut pass, mut set) = (Vec::new(), Map::new());
    for variable in &args.env {
        let name = variable.split_once('=').map_or(variable.as_str(), |(name, _)| name);
        if name.is_empty() || name.contains(|c: char| c.is_whitespace() || c.is_control()) {
            let message = format!("--env {variable}: `{name}` is no name of a variable");
            return Err(
                Error::new(ErrorKind::Validation, message).hint("write --env NAME, or --env NAME=VALUE")
            );
        }
        match variable.split_once('=') {
            Some((name, value)) => {
                set.insert(name.to_owned(), json!(value));
            }
            None => pass.push(json!(variable)),
        }
    }
    if !pass.is_empty() {
        settings.insert("envPassthrough".to_owned(), Value::Array(pass));
    }
    if !set.is_empty() {
        settings.insert("envOverride".to_owned(), Value::Object(set));
    }
    if let Some(ask) = args.ask {
        let word = match ask {
            Ask::On => "on",
            Ask::DenyOnly => "deny-only",
            Ask::Never => "never",
        };
        settings.insert("ask".to_owned(), json!(word));
    }
    if let Some(seconds) = args.timeout {
        settings.insert("timeout".to_owned(), json!(seconds));
    }
    let mut limits = Map::new();
    for (key, size) in [
        ("maxMemoryBytes", &args.memory),
        ("maxFileSizeBytes", &args.file_size),
        ("maxOutputBytes", &args.output),
    ] {
        if let Some(size) = size {
            limits.insert(key.to_owned(), json!(bytes(size)?));
        }
    }
    for (key, count) in [("maxProcesses", args.processes), ("maxCpuSeconds", args.cpu)] {
        if let Some(count) = count {
            limits.insert(key.to_owned(), json!(count));
        }
    }
    if !limits.is_empty() {
        settings.insert("limits".to_owned(), Value::Object(limits));
    }
    Ok(settings)
}

/// `512M`, `2G`, `1048576`.
fn bytes(text: &str) -> Result<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_uppercase().trim_end_matches('B').trim_end_matches('I') {
        "" => Some(1_u64),
        "K" => Some(1 << 10),
        "M" => Some(1 << 20),
        "G" => Some(1 << 30),
        "T" => Some(1 << 40),
        _ => None,
    };
    let size = digits.parse::<u64>().ok().zip(unit).and_then(|(count, unit)| count.checked_mul(unit));
    size.filter(|size| *size > 0).ok_or_else(|| {
        Error::new(ErrorKind::Validation, format!("not a size: {text}"))
            .hint("write it like 512M, 2G or 1048576")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_their_unit() {
        for (text, want) in
            [("90", 90.0), ("1.5", 1.5), ("500ms", 0.5), ("30s", 30.0), ("5m", 300.0), ("2h", 7200.0)]
        {
            assert_eq!(seconds(text), Ok(want), "{text}");
        }
        for text in ["", "m", "-1", "0", "5x", "nan", "inf"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_read_with_their_unit() {
        for (text, want) in
            [("1048576", 1 << 20), ("512M", 512 << 20), ("2g", 2 << 30), ("4KiB", 4096), ("1MB", 1 << 20)]
        {
            assert_eq!(bytes(text).unwrap(), want, "{text}");
        }
        for text in ["", "M", "-1", "1.5G", "0", "12Q", "99999999999T"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }
}
