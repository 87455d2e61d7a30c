//! How much of the policy a profile takes over.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use ringfence_model::{Error, ErrorKind, PathRule, Policy, Result, RuleLayer, RuleSource};

/// What a profile is made from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Mode {
    /// No profile and no fence; only where a person configured it.
    Disabled,
    /// The policy, without a single write to the host: what it allows to write may be read.
    ReadOnly,
    /// The whole machine may be read except what the policy denies; writes follow the policy; there is
    /// no network.
    NoNetwork,
    /// The policy, and nothing beside it.
    #[default]
    Strict,
    /// A profile that a person wrote, used as it is. Nothing checks it against the policy.
    Custom(String),
}

impl Mode {
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::ReadOnly => "readOnly",
            Self::NoNetwork => "noNetwork",
            Self::Strict => "strict",
            Self::Custom(_) => "custom",
        }
    }
}

impl FromStr for Mode {
    type Err = Error;

    /// Reads a mode's name; `normal` is the old name of [`Mode::NoNetwork`]. A custom profile has text
    /// and is no mere name.
    fn from_str(name: &str) -> Result<Self> {
        match name.to_ascii_lowercase().replace(['-', '_'], "").as_str() {
            "disabled" | "none" => Ok(Self::Disabled),
            "readonly" => Ok(Self::ReadOnly),
            "nonetwork" | "normal" => Ok(Self::NoNetwork),
            "strict" => Ok(Self::Strict),
            _ => Err(Error::new(ErrorKind::Validation, format!("unknown seatbelt mode {name:?}"))
                .hint("one of disabled, readOnly, noNetwork, strict")),
        }
    }
}

/// The parts of a profile by name, for callers that have no [`Policy`] yet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SeatbeltSettings {
    mode: Mode,
    working_dir: Option<PathBuf>,
    temp: Option<PathBuf>,
    read_paths: Vec<PathBuf>,
    write_paths: Vec<PathBuf>,
}

impl SeatbeltSettings {
    #[must_use]
    pub fn new(mode: Mode) -> Self {
        Self { mode, ..Self::default() }
    }

    #[must_use]
    pub fn disabled() -> Self {
        Self::new(Mode::Disabled)
    }

    #[must_use]
    pub fn read_only() -> Self {
        Self::new(Mode::ReadOnly)
    }

    #[must_use]
    pub fn no_network() -> Self {
        Self::new(Mode::NoNetwork)
    }

    /// The strict mode, with the one directory that work happens in.
    #[must_use]
    pub fn strict(working_dir: impl Into<PathBuf>) -> Self {
        Self::new(Mode::Strict).working_dir(working_dir)
    }

    #[must_use]
    pub fn custom(profile: impl Into<String>) -> Self {
        Self::new(Mode::Custom(profile.into()))
    }

    #[must_use]
    pub fn working_dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.working_dir = Some(path.into());
        self
    }

    /// A directory for temporary files that may be written.
    #[must_use]
    pub fn temp(mut self, path: impl Into<PathBuf>) -> Self {
        self.temp = Some(path.into());
        self
    }

    #[must_use]
    pub fn allow_read(mut self, path: impl Into<PathBuf>) -> Self {
        self.read_paths.push(path.into());
        self
    }

    #[must_use]
    pub fn allow_write(mut self, path: impl Into<PathBuf>) -> Self {
        self.write_paths.push(path.into());
        self
    }

    #[must_use]
    pub fn mode(&self) -> &Mode {
        &self.mode
    }

    /// The policy with these paths added to what it allows.
    #[must_use]
    pub fn apply(&self, mut policy: Policy) -> Policy {
        let rule = |path: &Path| PathRule::new(path, RuleSource::layer(RuleLayer::Call));
        let filesystem = &mut policy.filesystem;
        filesystem.allow_read.extend(self.read_paths.iter().map(|path| rule(path)));
        let writable = self.working_dir.iter().chain(&self.temp).chain(&self.write_paths);
        filesystem.allow_write.extend(writable.map(|path| rule(path)));
        policy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_have_names() {
        for mode in [Mode::Disabled, Mode::ReadOnly, Mode::NoNetwork, Mode::Strict] {
            assert_eq!(mode.name().parse::<Mode>().unwrap(), mode);
        }
        assert_eq!("read_only".parse::<Mode>().unwrap(), Mode::ReadOnly);
        assert_eq!("Normal".parse::<Mode>().unwrap(), Mode::NoNetwork);
        assert_eq!(Mode::default(), Mode::Strict);
        assert!("custom".parse::<Mode>().is_err());
    }

    #[test]
    fn settings_become_rules_of_the_call() {
        let settings = SeatbeltSettings::strict("/p").temp("/t").allow_read("/r").allow_write("/w");
        assert_eq!(settings.mode(), &Mode::Strict);
        let policy = settings.apply(Policy::default());
        let texts = |rules: &[PathRule]| rules.iter().map(|rule| rule.path.to_string()).collect::<Vec<_>>();
        assert_eq!(texts(&policy.filesystem.allow_write), ["/p", "/t", "/w"]);
        assert_eq!(texts(&policy.filesystem.allow_read), ["/r"]);
        assert_eq!(policy.filesystem.allow_read[0].source.layer, RuleLayer::Call);
    }
}
