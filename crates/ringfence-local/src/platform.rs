//! Which fence an operating system has.

use ringfence_model::config::OsMode;
use ringfence_model::{Error, ErrorKind, Result};

/// A mechanism of the operating system that can hold a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Platform {
    /// Namespaces, Landlock, seccomp; by the launchers native, bwrap and landlock.
    Linux,
    /// Seatbelt, by the launcher of the same name.
    MacOs,
}

impl Platform {
    /// The platform of that name, as [`std::env::consts::OS`] writes it.
    pub fn named(os: &str) -> Result<Self> {
        match os {
            "linux" => Ok(Self::Linux),
            "macos" | "darwin" => Ok(Self::MacOs),
            other => Err(Error::new(
                ErrorKind::SandboxDenied,
                format!("there is no local fence for the platform {other}"),
            )
            .hint("the provider local works on Linux and macOS")),
        }
    }

    /// The platform that this program runs on.
    pub fn this() -> Result<Self> {
        Self::named(std::env::consts::OS)
    }

    /// The platform whose mechanism `mode` asks for, on a machine with that operating system. An explicit
    /// mode is taken at its word; when the machine lacks the tool for it, the fence does not start.
    pub fn chosen(os: &str, mode: OsMode) -> Result<Self> {
        match mode {
            OsMode::Auto => Self::named(os),
            OsMode::Seatbelt => Ok(Self::MacOs),
            OsMode::Bubblewrap => Ok(Self::Linux),
            OsMode::None => Err(Error::new(
                ErrorKind::SandboxDenied,
                "os.mode is none: no mechanism of the operating system may hold the command",
            )),
        }
    }

    /// The launcher that is used when nothing else is asked for.
    #[must_use]
    pub fn launcher(self) -> &'static str {
        match self {
            Self::Linux => "native",
            Self::MacOs => "seatbelt",
        }
    }

    /// The mechanism that no fence of the platform is without.
    #[must_use]
    pub fn mechanism(self) -> &'static str {
        match self {
            Self::Linux => "seccomp",
            Self::MacOs => "sandbox-exec",
        }
    }

    /// Whether that mechanism is here.
    #[must_use]
    pub fn is_available(self) -> bool {
        match self {
            #[cfg(target_os = "linux")]
            Self::Linux => {
                std::fs::read_to_string("/proc/self/status").is_ok_and(|status| status.contains("\nSeccomp:"))
            }
            #[cfg(not(target_os = "linux"))]
            Self::Linux => false,
            Self::MacOs => std::path::Path::new(ringfence_seatbelt::adapter::SANDBOX_EXEC).is_file(),
        }
    }
}

/// The mechanism of this machine's operating system, or `none`.
#[must_use]
pub fn mechanism() -> &'static str {
    Platform::this().ok().filter(|platform| platform.is_available()).map_or("none", Platform::mechanism)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_platform_has_its_fence() {
        assert_eq!(Platform::named("macos").unwrap().launcher(), "seatbelt");
        assert_eq!(Platform::named("darwin").unwrap(), Platform::MacOs);
        assert_eq!(Platform::named("linux").unwrap().launcher(), "native");
    }

    #[test]
    fn another_platform_is_an_error_that_names_it() {
        let error = Platform::named("plan9").unwrap_err();
        assert_eq!(error.kind, ErrorKind::SandboxDenied);
        assert!(error.message.contains("plan9"), "{error}");
    }

    #[test]
    fn auto_follows_the_platform_and_none_is_no_fence() {
        assert_eq!(Platform::chosen("macos", OsMode::Auto).unwrap(), Platform::MacOs);
        assert_eq!(Platform::chosen("linux", OsMode::Auto).unwrap(), Platform::Linux);
        assert_eq!(Platform::chosen("linux", OsMode::Seatbelt).unwrap(), Platform::MacOs);
        for (os, mode) in [("linux", OsMode::None), ("macos", OsMode::None), ("freebsd", OsMode::Auto)] {
            assert_eq!(Platform::chosen(os, mode).unwrap_err().kind, ErrorKind::SandboxDenied, "{os}");
        }
    }

    #[test]
    fn the_mechanism_is_named_where_it_is() {
        assert_eq!(Platform::MacOs.mechanism(), "sandbox-exec");
        assert_eq!(Platform::Linux.mechanism(), "seccomp");
        let (here, elsewhere) = if cfg!(target_os = "linux") {
            (Platform::Linux, Platform::MacOs)
        } else {
            (Platform::MacOs, Platform::Linux)
        };
        assert!(here.is_available() && !elsewhere.is_available());
        assert_eq!(mechanism(), here.mechanism());
    }
}
