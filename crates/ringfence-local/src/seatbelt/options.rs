//! The provider's own section of the configuration, as far as Seatbelt is concerned.

use std::path::{Path, PathBuf};

use ringfence_model::config::Precision;
use ringfence_model::{Error, ErrorKind, Layer, Result};
use ringfence_seatbelt::Mode;
use ringfence_seatbelt::adapter::SANDBOX_EXEC;
use serde::Deserialize;
use serde_json::Value;

/// The layers of this fence.
pub(super) const LAYERS: [Layer; 2] = [Layer::Seatbelt, Layer::Rlimits];

/// The program that prints the kernel's log.
const LOG: &str = "/usr/bin/log";

#[derive(Debug)]
pub(super) struct Options {
    /// The program that applies a profile.
    pub(super) program: PathBuf,
    pub(super) log: PathBuf,
    pub(super) mode: Mode,
    pub(super) precision: Precision,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Section {
    precision: Option<Precision>,
    launcher: Option<String>,
    require: Option<Vec<String>>,
    seatbelt: Option<SeatbeltSection>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct SeatbeltSection {
    program: Option<PathBuf>,
    log: Option<PathBuf>,
    mode: Option<String>,
    profile: Option<String>,
}

impl Options {
    pub(super) fn read(options: &Value) -> Result<Self> {
        let section: Option<Section> = serde_json::from_value(options.clone()).map_err(|error| {
            Error::new(ErrorKind::InvalidConfig, format!("the options of the local fence are wrong: {error}"))
        })?;
        let Section { precision, launcher, require, seatbelt } = section.unwrap_or_default();
        if let Some(launcher) = launcher.filter(|launcher| !["auto", "seatbelt"].contains(&launcher.as_str()))
        {
            let message = format!("the launcher {launcher} does not exist on this system; it has seatbelt");
            return Err(
                Error::new(ErrorKind::SandboxDenied, message).hint("use the launcher auto or seatbelt")
            );
        }
        refuse_unless_held(&require.unwrap_or_default())?;
        let SeatbeltSection { program, log, mode, profile } = seatbelt.unwrap_or_default();
        let mode = match (profile, mode) {
            (Some(profile), _) => Mode::Custom(profile),
            (None, Some(name)) => name.parse()?,
            (None, None) => Mode::default(),
        };
        if mode == Mode::Disabled {
            return Err(Error::new(ErrorKind::SandboxDenied, "the mode disabled is no fence")
                .hint("to run without a fence on purpose, set defaultPolicy to none"));
        }
        Ok(Self {
            program: program.unwrap_or_else(|| SANDBOX_EXEC.into()),
            log: log.unwrap_or_else(|| LOG.into()),
            mode,
            precision: precision.unwrap_or_default(),
        })
    }

    /// Whether the system's own program applies the profile.
    pub(super) fn is_systems_own(&self) -> bool {
        self.program == Path::new(SANDBOX_EXEC)
    }
}

/// What a caller demands must be among what this fence has.
fn refuse_unless_held(required: &[String]) -> Result<()> {
    let plain = |name: &str| -> String {
        name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
    };
    let held = LAYERS.map(|layer| plain(&format!("{layer:?}")));
    let missing: Vec<&str> =
        required.iter().map(String::as_str).filter(|name| !held.contains(&plain(name))).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let message = format!("required, but not held by the seatbelt launcher: {}", missing.join(", "));
    Err(Error::new(ErrorKind::SandboxDenied, message).hint("macOS holds: seatbelt, rlimits"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nothing_said_is_the_systems_own_program_and_the_whole_policy() {
        let options = Options::read(&Value::Null).unwrap();
        assert!(options.is_systems_own());
        assert_eq!(options.mode, Mode::Strict);
        assert_eq!(options.precision, Precision::Full);
    }

    #[test]
    fn a_fence_that_is_none_or_of_another_system_is_denied() {
        for options in [
            json!({ "launcher": "native" }),
            json!({ "launcher": "bwrap" }),
            json!({ "seatbelt": { "mode": "disabled" } }),
            json!({ "require": ["seatbelt", "mount-namespace"] }),
        ] {
            assert_eq!(Options::read(&options).unwrap_err().kind, ErrorKind::SandboxDenied, "{options}");
        }
        assert!(Options::read(&json!({ "launcher": "seatbelt", "require": ["Seatbelt"] })).is_ok());
    }

    #[test]
    fn unknown_words_are_refused() {
        for options in [
            json!({ "precision": "most" }),
            json!({ "seatbelt": { "profil": "" } }),
            json!({ "seatbelt": { "mode": "loose" } }),
        ] {
            let kind = Options::read(&options).unwrap_err().kind;
            assert!(matches!(kind, ErrorKind::InvalidConfig | ErrorKind::Validation), "{options}");
        }
    }
}
