//! The command line as the closest layer of the configuration.

use ringfence::model::config::ConfigFile;
use ringfence::model::{Error, ErrorKind, Result};
use ringfence::setup::Setup;
use serde_json::{Map, Value, json};

use crate::args::{Ask, Launcher, Precision, Profile, Run, Sandbox};

/// Loads the configuration with the command line as its closest layer.
pub(crate) fn load(args: &Sandbox, mut settings: Map<String, Value>) -> Result<Setup> {
    let mut set = |key: &str, value: Value| {
        settings.insert(key.to_owned(), value);
    };
    if let Some(provider) = &args.provider {
        set("provider", json!(provider));
    }
    if let Some(profile) = args.profile {
        let name = match profile {
            Profile::Dev => "dev",
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
            paths.iter().try_for_each(|path| sound_path(key, path))?;
            set(key, Value::Array(absolute(paths)));
        }
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

/// The settings that only make sense for a run.
pub(crate) fn run_settings(args: &Run) -> Result<Map<String, Value>> {
    let mut settings = Map::new();
    let (mut pass, mut set) = (Vec::new(), Map::new());
    for variable in &args.env {
        sound_variable(variable)?;
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

fn bad(option: &str, given: &str, why: &str, hint: &str) -> Error {
    Error::new(ErrorKind::Validation, format!("{option} {given:?}: {why}")).hint(hint)
}

fn sound_path(key: &str, path: &str) -> Result<()> {
    let option = match key {
        "allowRead" => "--allow-read",
        "allowWrite" => "--allow-write",
        _ => "--deny",
    };
    if path.is_empty() {
        return Err(bad(
            option,
            path,
            "an empty path names nothing",
            "leave it out, or is a variable unset?",
        ));
    }
    let unescaped = path.replace("\\\\", "").replace("\\[", "");
    if unescaped.rfind('[').is_some_and(|at| !unescaped[at..].contains(']')) {
        return Err(bad(option, path, "the [ is never closed", "write \\[ for the character itself"));
    }
    Ok(())
}

fn sound_variable(variable: &str) -> Result<()> {
    let name = variable.split_once('=').map_or_else(|| variable.trim_end_matches('*'), |(name, _)| name);
    let all = variable == "*";
    let mut letters = name.chars();
    let first = letters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    if all || first && letters.all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return Ok(());
    }
    Err(bad("--env", variable, "that is no variable's name", "write NAME to pass yours on, or NAME=VALUE"))
}

/// `90`, `1.5`, `90s`, `5m`, `2h`, in seconds.
pub(crate) fn seconds(text: &str) -> std::result::Result<f64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" | "s" => 1.0,
        "ms" => 0.001,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => f64::NAN,
    };
    let seconds = digits.parse::<f64>().unwrap_or(f64::NAN) * unit;
    if seconds.is_finite() { Ok(seconds) } else { Err("write it like 90, 90s, 5m or 2h".to_owned()) }
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
            [("90", 90.0), ("1.5", 1.5), ("90s", 90.0), ("5m", 300.0), ("2h", 7200.0), ("250ms", 0.25)]
        {
            assert_eq!(seconds(text), Ok(want), "{text}");
        }
        for text in ["", "m", "5x", "inf", "nan", "five"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_names_nothing_is_refused() {
        for path in ["/a", "/a[0-9]", "~/x", "a\\[b", "[[:alpha:]]"] {
            sound_path("deny", path).unwrap();
        }
        for path in ["", "[", "/a[0", "a]["] {
            sound_path("deny", path).unwrap_err();
        }
        for variable in ["A", "A=", "_a1=x=y", "LC_*", "*"] {
            sound_variable(variable).unwrap();
        }
        for variable in ["", "=x", "A B=1", "1A", "A-B"] {
            sound_variable(variable).unwrap_err();
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
