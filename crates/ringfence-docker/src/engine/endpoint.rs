//! Where the engine listens.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use ringfence_model::{Error, ErrorKind, Result};

/// The address of an engine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Endpoint {
    Socket(PathBuf),
    /// `tcp://host:port`.
    Http(String),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(path) => write!(f, "unix://{}", path.display()),
            Self::Http(address) => f.write_str(address),
        }
    }
}

/// Sockets of the system, the usual one first.
const SYSTEM: [&str; 3] = ["/run/docker.sock", "/var/run/docker.sock", "/run/podman/podman.sock"];
/// Below the user's own runtime directory: engines without root.
const OF_THE_USER: [&str; 2] = ["docker.sock", "podman/podman.sock"];

impl Endpoint {
    /// What `DOCKER_HOST` names, else the first socket that exists where engines put theirs.
    pub fn find(environment: &BTreeMap<OsString, OsString>) -> Result<Self> {
        Self::find_among(environment, &SYSTEM.map(PathBuf::from))
    }

    fn find_among(environment: &BTreeMap<OsString, OsString>, system: &[PathBuf]) -> Result<Self> {
        let variable = |name: &str| environment.get(OsStr::new(name)).filter(|value| !value.is_empty());
        if let Some(host) = variable("DOCKER_HOST") {
            return Self::parse(&host.to_string_lossy());
        }
        let own = variable("XDG_RUNTIME_DIR").map(PathBuf::from).into_iter();
        let own = own.flat_map(|runtime| OF_THE_USER.map(|name| runtime.join(name)));
        let candidates: Vec<PathBuf> = system.iter().cloned().chain(own).collect();
        if let Some(found) = candidates.iter().find(|path| path.exists()) {
            return Ok(Self::Socket(found.clone()));
        }
        let places: Vec<String> = candidates.iter().map(|path| path.display().to_string()).collect();
        let message = format!("there is no container engine: no socket at {}", places.join(", "));
        Err(Error::new(ErrorKind::SandboxNotAvailable, message)
            .hint("install and start one (Debian: apt-get install docker.io), or set DOCKER_HOST")
            .hint("the provider local needs none"))
    }

    /// Reads what `DOCKER_HOST` holds.
    pub fn parse(host: &str) -> Result<Self> {
        let wrong = |what: &str| {
            Error::new(ErrorKind::InvalidConfig, format!("DOCKER_HOST is \"{host}\": {what}"))
                .hint("write it as unix:///path/to/socket or tcp://127.0.0.1:2375")
        };
        if let Some(path) = host.strip_prefix("unix://") {
            let path = PathBuf::from(path);
            return if path.is_absolute() {
                Ok(Self::Socket(path))
            } else {
                Err(wrong("not an absolute path"))
            };
        }
        if let Some(address) = host.strip_prefix("tcp://").or_else(|| host.strip_prefix("http://")) {
            // Without TLS anybody on the way could give orders to an engine that is root's.
            let name = address.rsplit_once(':').map_or(address, |(name, _)| name);
            let near = ["127.0.0.1", "localhost", "[::1]"].contains(&name);
            return if near {
                Ok(Self::Http(host.to_owned()))
            } else {
                Err(wrong(
                    "an engine on another machine needs an encrypted connection, which is not built in",
                ))
            };
        }
        Err(wrong("only sockets and loopback addresses are possible"))
    }

    /// Whether somebody listens at the socket and lets us in: the engine's own words for that say less.
    pub(crate) fn check(&self) -> Result<()> {
        let Self::Socket(path) = self else { return Ok(()) };
        UnixStream::connect(path).map(drop).map_err(|error| refused(path, error))
    }
}

fn refused(path: &Path, error: std::io::Error) -> Error {
    use std::io::ErrorKind as Io;
    let place = path.display();
    let (message, hint) = match error.kind() {
        Io::PermissionDenied => (
            format!("the container engine at {place} does not let this user in"),
            "add the user to the group of the socket (docker), or use an engine without root: rootless Docker or Podman",
        ),
        Io::NotFound => (
            format!("there is no container engine at {place}"),
            "start it (systemctl start docker), or correct DOCKER_HOST",
        ),
        Io::ConnectionRefused => (
            format!("nobody listens at {place}: the container engine does not run"),
            "start it: systemctl start docker",
        ),
        _ => (
            format!("cannot reach the container engine at {place}"),
            "look after the engine: does `docker ps` answer?",
        ),
    };
    Error::new(ErrorKind::SandboxNotAvailable, message).hint(hint).caused_by(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> BTreeMap<OsString, OsString> {
        pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    #[test]
    fn the_variable_is_believed_and_nothing_else_is_tried_then() {
        let found = Endpoint::find(&environment(&[("DOCKER_HOST", "unix:///x/y.sock")])).unwrap();
        assert_eq!(found, Endpoint::Socket("/x/y.sock".into()));
        let error = found.check().unwrap_err();
        assert_eq!(error.kind, ErrorKind::SandboxNotAvailable);
        assert!(error.message.contains("/x/y.sock"), "{error}");
    }

    #[test]
    fn sockets_are_tried_in_order_and_a_podman_of_the_user_is_found() {
        let room = tempfile::tempdir().unwrap();
        let (system, runtime) = (room.path().join("docker.sock"), room.path().join("runtime"));
        std::fs::create_dir_all(runtime.join("podman")).unwrap();
        let environment = environment(&[("XDG_RUNTIME_DIR", runtime.to_str().unwrap()), ("DOCKER_HOST", "")]);
        let none = Endpoint::find_among(&environment, std::slice::from_ref(&system)).unwrap_err();
        assert!(none.message.contains("podman.sock") && none.message.contains("docker.sock"), "{none}");
        std::fs::write(runtime.join("podman/podman.sock"), "").unwrap();
        let podman = Endpoint::find_among(&environment, std::slice::from_ref(&system)).unwrap();
        assert_eq!(podman, Endpoint::Socket(runtime.join("podman/podman.sock")));
        std::fs::write(&system, "").unwrap();
        let docker = Endpoint::find_among(&environment, std::slice::from_ref(&system)).unwrap();
        assert_eq!(docker, Endpoint::Socket(system));
    }

    #[test]
    fn an_engine_far_away_without_encryption_is_refused() {
        assert!(Endpoint::parse("tcp://127.0.0.1:2375").is_ok());
        for bad in
            ["tcp://10.0.0.1:2375", "tcp://127.0.0.1.evil.example:2375", "ssh://host", "unix://rel", "", "x"]
        {
            assert_eq!(Endpoint::parse(bad).unwrap_err().kind, ErrorKind::InvalidConfig, "{bad}");
        }
    }
}
