//! Who builds the fence: which launchers there are, which is wanted, what is demanded of it.

use std::path::PathBuf;

use ringfence_linux::launch::LaunchError;
use ringfence_model::{Assurance, Error, ErrorKind, Layer, Result};
use serde_json::Value;

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

/// The provider's own section of the configuration, read.
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
    pub(crate) fn read(options: &Value) -> Result<Self> {
        let text = |key: &str| match options.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str())),
            Some(other) => {
                Err(Error::new(ErrorKind::InvalidConfig, format!("{key} must be text, not {other}")))
            }
        };
        let wanted = match text("launcher")?.map(plain).as_deref() {
            None | Some("auto") => None,
            Some("native") => Some(Launcher::Native),
            Some("bwrap" | "bubblewrap") => Some(Launcher::Bwrap),
            Some("landlock") => Some(Launcher::Landlock),
            Some("networkonly") => Some(Launcher::NetworkOnly),
            Some("seatbelt") => {
                return Err(Error::new(
                    ErrorKind::SandboxDenied,
                    "the launcher seatbelt works on macOS only; it cannot work on Linux or in a Linux container",
                )
                .hint("use the launcher auto, native, bwrap or landlock"));
            }
            Some(_) => {
                let known = "auto, native, bwrap, landlock, network-only";
                let message = format!("unknown launcher {}; known launchers: {known}", options["launcher"]);
                return Err(Error::new(ErrorKind::InvalidConfig, message));
            }
        };
        let required = match options.get("require") {
            None | Some(Value::Null) => vec![],
            Some(Value::Array(names)) => names
                .iter()
                .map(|name| Requirement::parse(name.as_str().unwrap_or_default()))
                .collect::<Result<_>>()?,
            Some(other) => {
                return Err(Error::new(ErrorKind::InvalidConfig, format!("require: not a list: {other}")));
            }
        };
        Ok(Self {
            wanted,
            required,
            bwrap: text("bwrapPath")?.unwrap_or("bwrap").into(),
            stage: text("stage")?.map(PathBuf::from),
            shell: shell_words(text("shellCommand")?.unwrap_or("bash"))?,
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
        Ok(Value::String(name)) => name,
        _ => format!("{layer:?}"),
    }
}

/// Refuses a fence that lacks what the caller demands.
pub(crate) fn refuse_unless_held(
    required: &[Requirement],
    launcher: Launcher,
    assurance: &Assurance,
    why: &[String],
) -> Result<()> {
    let missing: Vec<String> =
        required.iter().filter_map(|required| required.missing(launcher, assurance)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let message =
        format!("required, but not held by the {} launcher here: {}", launcher.name(), missing.join("; "));
    let error = Error::new(ErrorKind::SandboxDenied, message);
    let error = why.iter().fold(error, |error, why| error.hint(why.as_str()));
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
    use serde_json::json;

    #[test]
    fn a_shell_is_given_by_its_words() {
        let shell = |text: &str| LaunchOptions::read(&serde_json::json!({ "shellCommand": text }));
        assert_eq!(LaunchOptions::read(&serde_json::json!({})).unwrap().shell, ["bash"]);
        assert_eq!(shell("/opt/my\\ tools/bash").unwrap().shell, ["/opt/my tools/bash"]);
        assert_eq!(shell("env 'A=b c' bash").unwrap().shell, ["env", "A=b c", "bash"]);
        for wrong in ["", "  ", "''", "bash 'x"] {
            let error = shell(wrong).unwrap_err();
            assert_eq!(error.kind, ErrorKind::InvalidConfig);
            assert!(error.message.contains("shellCommand"), "{error}");
        }
    }

    #[test]
    fn names_are_read_as_people_write_them() {
        let wanted =
            |name: &str| LaunchOptions::read(&json!({ "launcher": name })).map(|options| options.wanted);
        assert_eq!(wanted("auto").unwrap(), None);
        assert_eq!(wanted("network-only").unwrap(), Some(Launcher::NetworkOnly));
        assert_eq!(wanted("networkOnly").unwrap(), Some(Launcher::NetworkOnly));
        assert_eq!(wanted("bubblewrap").unwrap(), Some(Launcher::Bwrap));
        assert_eq!(wanted("seatbelt").unwrap_err().kind, ErrorKind::SandboxDenied);
        assert_eq!(wanted("docker").unwrap_err().kind, ErrorKind::InvalidConfig);
        assert_eq!(LaunchOptions::read(&Value::Null).unwrap().wanted, None);
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
        let options = json!({ "require": ["namespaces", "supervisor", "mount-namespace"] });
        let required = LaunchOptions::read(&options).unwrap().required;
        let mut assurance = Assurance::unsandboxed();
        assurance.layers = vec![Layer::Landlock, Layer::Supervisor];
        let error = refuse_unless_held(&required, Launcher::Landlock, &assurance, &[]).unwrap_err();
        assert_eq!(error.kind, ErrorKind::SandboxDenied);
        assert!(error.message.contains("mountNamespace"), "{error}");
        assert!(!error.message.contains("supervisor"), "{error}");
        let unknown = LaunchOptions::read(&json!({ "require": ["magic"] })).unwrap_err();
        assert_eq!(unknown.kind, ErrorKind::Validation);
    }
}
