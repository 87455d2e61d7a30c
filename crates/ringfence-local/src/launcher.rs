//! Who builds the fence: which launchers there are, which is wanted, what is demanded of it.

use std::path::PathBuf;

use ringfence_linux::launch::LaunchError;
use ringfence_model::config::{self, LocalOptions};
use ringfence_model::{Assurance, Degradation, Error, ErrorKind, Layer, Result};

/// A way to build a fence, the strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Launcher {
    /// Everything made by this program.
    Native,
    /// Namespaces and mounts made by the system's bwrap, the rest by this program inside.
    Bwrap,
    /// No namespaces: Landlock, seccomp and the supervisor on the host's own files.
    Landlock,
    /// A network namespace and nothing for files. Only ever by explicit choice.
    NetworkOnly,
}

impl Launcher {
    /// Whether its sandboxes can have a supervisor who connects them with hosts.
    pub(crate) fn can_have_way_out(self) -> bool {
        matches!(self, Self::Native | Self::Bwrap | Self::Landlock)
    }

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Bwrap => "bwrap",
            Self::Landlock => "landlock",
            Self::NetworkOnly => "network-only",
        }
    }

    /// Provider and launcher, as results show it.
    #[must_use]
    pub fn adapter(self) -> String {
        format!("local/{}", self.name())
    }

    /// The next weaker one that may be taken without anybody asking for it.
    pub(crate) fn next(self) -> Option<Self> {
        match self {
            Self::Native => Some(Self::Bwrap),
            Self::Bwrap => Some(Self::Landlock),
            Self::Landlock | Self::NetworkOnly => None,
        }
    }
}

/// What the provider is told besides the policy, understood.
#[derive(Debug, Clone)]
pub(crate) struct LaunchOptions {
    /// None: the strongest that works.
    pub(crate) wanted: Option<Launcher>,
    pub(crate) required: Vec<Requirement>,
    /// bwrap, by name or path.
    pub(crate) bwrap: PathBuf,
    /// The program that bwrap executes inside; see [`ringfence_linux::bwrap::run_stage`].
    pub(crate) stage: Option<PathBuf>,
    /// What shells are started with: bash, and what stands before it.
    pub(crate) shell: Vec<String>,
}

/// The words of a command line, by the shell's rules of quoting.
fn shell_words(text: &str) -> Result<Vec<String>> {
    let refused = |why: &str| {
        Error::new(ErrorKind::InvalidConfig, format!("shellCommand {why}: {text:?}"))
            .hint("name a bash, with words before it if you like: \"/bin/bash\", \"env 'NAME=a value' bash\"")
    };
    match shlex::split(text) {
        None => Err(refused("has a quote without its end")),
        Some(words) if words.first().is_none_or(String::is_empty) => Err(refused("is empty")),
        Some(words) => Ok(words),
    }
}

impl LaunchOptions {
    pub(crate) fn new(options: LocalOptions) -> Result<Self> {
        let LocalOptions { launcher, require, bwrap_path, stage, shell_command, precision: _, seatbelt: _ } =
            options;
        let wanted = match launcher {
            config::Launcher::Auto => None,
            config::Launcher::Native => Some(Launcher::Native),
            config::Launcher::Bwrap => Some(Launcher::Bwrap),
            config::Launcher::Landlock => Some(Launcher::Landlock),
            config::Launcher::NetworkOnly => Some(Launcher::NetworkOnly),
            config::Launcher::Seatbelt => {
                return Err(Error::new(
                    ErrorKind::SandboxDenied,
                    "the launcher seatbelt works on macOS only; it cannot work on Linux or in a Linux container",
                )
                .hint("use the launcher auto, native, bwrap or landlock"));
            }
        };
        Ok(Self {
            wanted,
            required: require.iter().map(|name| Requirement::parse(name)).collect::<Result<_>>()?,
            bwrap: bwrap_path,
            stage,
            shell: shell_words(&shell_command)?,
        })
    }

    pub(crate) fn requires(&self, layer: Layer) -> bool {
        self.required.iter().any(|required| required.layers().contains(&layer))
    }
}

/// A name without what people write differently: `network-only`, `networkOnly`, `Network_Only`.
fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

/// What a caller demands of the fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Requirement {
    Launcher(Launcher),
    /// All of those that native makes.
    Namespaces,
    Layer(Layer),
}

pub(crate) const NAMESPACES: [Layer; 7] = [
    Layer::UserNamespace,
    Layer::MountNamespace,
    Layer::PidNamespace,
    Layer::NetworkNamespace,
    Layer::IpcNamespace,
    Layer::UtsNamespace,
    Layer::CgroupNamespace,
];

const OTHERS: [Layer; 6] =
    [Layer::Landlock, Layer::Seccomp, Layer::Supervisor, Layer::Cgroup, Layer::Rlimits, Layer::Capabilities];

impl Requirement {
    fn parse(name: &str) -> Result<Self> {
        let wanted = plain(name);
        match wanted.as_str() {
            "native" => return Ok(Self::Launcher(Launcher::Native)),
            "bwrap" => return Ok(Self::Launcher(Launcher::Bwrap)),
            "namespaces" => return Ok(Self::Namespaces),
            _ => {}
        }
        let layers = || NAMESPACES.into_iter().chain(OTHERS);
        layers().find(|layer| plain(&layer_name(*layer)) == wanted).map(Self::Layer).ok_or_else(|| {
            let known: Vec<String> = layers().map(layer_name).collect();
            Error::new(ErrorKind::Validation, format!("cannot require \"{name}\": no such layer"))
                .hint(format!("known: native, bwrap, namespaces, {}", known.join(", ")))
        })
    }

    fn layers(&self) -> &[Layer] {
        match self {
            Self::Launcher(_) => &[],
            Self::Namespaces => &NAMESPACES,
            Self::Layer(layer) => std::slice::from_ref(layer),
        }
    }

    /// What of it `assurance` does not hold, in words.
    fn missing(&self, launcher: Launcher, assurance: &Assurance) -> Option<String> {
        if let Self::Launcher(wanted) = self {
            return (*wanted != launcher).then(|| format!("the launcher {}", wanted.name()));
        }
        let missing: Vec<String> = self
            .layers()
            .iter()
            .filter(|layer| !assurance.layers.contains(layer))
            .map(|layer| layer_name(*layer))
            .collect();
        (!missing.is_empty()).then(|| missing.join(", "))
    }
}

pub(crate) fn layer_name(layer: Layer) -> String {
    match serde_json::to_value(layer) {
        Ok(serde_json::Value::String(name)) => name,
        _ => format!("{layer:?}"),
    }
}

/// Refuses a fence that lacks what the caller demands.
pub(crate) fn refuse_unless_held(
    required: &[Requirement],
    launcher: Launcher,
    assurance: &Assurance,
    why: &[Degradation],
) -> Result<()> {
    let missing: Vec<String> =
        required.iter().filter_map(|required| required.missing(launcher, assurance)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let message =
        format!("required, but not held by the {} launcher here: {}", launcher.name(), missing.join("; "));
    let error = Error::new(ErrorKind::SandboxDenied, message);
    let error = why.iter().fold(error, |error, why| error.hint(why.text.as_str()));
    Err(error.hint("drop the requirement, or run `ringfence doctor` to see what is missing here"))
}

/// A failed launch in words, with the reason the kernel gave.
pub(crate) fn in_words(error: &LaunchError) -> String {
    let cause = std::error::Error::source(error).map_or_else(String::new, |source| format!(": {source}"));
    format!("{error}{cause}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_is_given_by_its_words() {
        let shell = |text: &str| {
            LaunchOptions::new(LocalOptions { shell_command: text.to_owned(), ..LocalOptions::default() })
        };
        assert_eq!(LaunchOptions::new(LocalOptions::default()).unwrap().shell, ["bash"]);
        assert_eq!(shell("/opt/my\\ tools/bash").unwrap().shell, ["/opt/my tools/bash"]);
        assert_eq!(shell("env 'A=b c' bash").unwrap().shell, ["env", "A=b c", "bash"]);
        for wrong in ["", "  ", "''", "bash 'x"] {
            let error = shell(wrong).unwrap_err();
            assert_eq!(error.kind, ErrorKind::InvalidConfig);
            assert!(error.message.contains("shellCommand"), "{error}");
        }
    }

    #[test]
    fn the_launcher_of_another_system_is_refused() {
        let options = LocalOptions { launcher: config::Launcher::Seatbelt, ..LocalOptions::default() };
        assert_eq!(LaunchOptions::new(options).unwrap_err().kind, ErrorKind::SandboxDenied);
    }

    #[test]
    fn network_only_is_never_fallen_back_on() {
        let mut launcher = Some(Launcher::Native);
        while let Some(current) = launcher {
            assert_ne!(current, Launcher::NetworkOnly);
            launcher = current.next();
        }
    }

    #[test]
    fn what_is_required_is_named_when_it_is_missing() {
        let require = |names: &[&str]| {
            let require = names.iter().map(ToString::to_string).collect();
            LaunchOptions::new(LocalOptions { require, ..LocalOptions::default() })
        };
        let required = require(&["namespaces", "supervisor", "mount-namespace"]).unwrap().required;
        let mut assurance = Assurance::unsandboxed();
        assurance.layers = vec![Layer::Landlock, Layer::Supervisor];
        let error = refuse_unless_held(&required, Launcher::Landlock, &assurance, &[]).unwrap_err();
        assert_eq!(error.kind, ErrorKind::SandboxDenied);
        assert!(error.message.contains("mountNamespace"), "{error}");
        assert!(!error.message.contains("supervisor"), "{error}");
        let unknown = require(&["magic"]).unwrap_err();
        assert_eq!(unknown.kind, ErrorKind::Validation);
    }
}
