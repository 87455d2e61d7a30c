//! What the provider is told besides the policy, as far as Seatbelt is concerned.

use std::path::{Path, PathBuf};

use ringfence_model::config::{Launcher, LocalOptions, Precision, SeatbeltOptions};
use ringfence_model::{Error, ErrorKind, Layer, Result};
use ringfence_seatbelt::Mode;
use ringfence_seatbelt::adapter::SANDBOX_EXEC;

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

impl Options {
    pub(super) fn new(options: LocalOptions) -> Result<Self> {
        let LocalOptions { precision, launcher, require, seatbelt, .. } = options;
        if !matches!(launcher, Launcher::Auto | Launcher::Seatbelt) {
            let message =
                format!("the launcher {} does not exist on this system; it has seatbelt", launcher.name());
            return Err(
                Error::new(ErrorKind::SandboxDenied, message).hint("use the launcher auto or seatbelt")
            );
        }
        refuse_unless_held(&require)?;
        let SeatbeltOptions { program, log, mode, profile } = seatbelt;
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
            precision,
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

    fn seatbelt(mode: &str) -> LocalOptions {
        let seatbelt = SeatbeltOptions { mode: Some(mode.to_owned()), ..SeatbeltOptions::default() };
        LocalOptions { seatbelt, ..LocalOptions::default() }
    }

    fn requiring(names: &[&str]) -> LocalOptions {
        let require = names.iter().map(ToString::to_string).collect();
        LocalOptions { require, launcher: Launcher::Seatbelt, ..LocalOptions::default() }
    }

    #[test]
    fn nothing_said_is_the_systems_own_program_and_the_whole_policy() {
        let options = Options::new(LocalOptions::default()).unwrap();
        assert!(options.is_systems_own());
        assert_eq!(options.mode, Mode::Strict);
        assert_eq!(options.precision, Precision::Full);
    }

    #[test]
    fn a_fence_that_is_none_or_of_another_system_is_denied() {
        for options in [
            LocalOptions { launcher: Launcher::Native, ..LocalOptions::default() },
            LocalOptions { launcher: Launcher::Bwrap, ..LocalOptions::default() },
            seatbelt("disabled"),
            requiring(&["seatbelt", "mount-namespace"]),
        ] {
            assert_eq!(
                Options::new(options.clone()).unwrap_err().kind,
                ErrorKind::SandboxDenied,
                "{options:?}"
            );
        }
        assert!(Options::new(requiring(&["Seatbelt"])).is_ok());
    }

    #[test]
    fn unknown_modes_are_refused() {
        assert_eq!(Options::new(seatbelt("loose")).unwrap_err().kind, ErrorKind::Validation);
    }
}
