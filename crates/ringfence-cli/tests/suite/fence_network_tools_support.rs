//! Tools that no package of the system has, got once and kept with what else was built.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::suite::support::Room;

const SCRIPT: &str = include_str!("../data/network_tools.sh");

/// Variables that say how this machine's tools trust their registries.
pub(crate) const TRUST: [&str; 5] =
    ["SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"];

#[derive(Debug, Clone)]
pub(crate) struct Tools {
    root: PathBuf,
    pub(crate) venv: PathBuf,
}

impl Tools {
    pub(crate) fn sshd(&self) -> PathBuf {
        self.root.join("sshd/usr/sbin/sshd")
    }

    /// Puts them on the path of a room's programs.
    pub(crate) fn add_to(&self, room: &mut Room) {
        let path = room.env.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone());
        let path = path.or_else(|| std::env::var("PATH").ok()).unwrap_or_else(|| "/usr/bin:/bin".to_owned());
        let own = [self.root.join("npm/node_modules/.bin"), self.venv.join("bin")];
        let own = own.map(|directory| directory.display().to_string()).join(":");
        room.env.retain(|(name, _)| name != "PATH");
        room.env.push(("PATH".to_owned(), format!("{path}:{own}")));
    }
}

/// None where the registries of this machine do not have them.
pub(crate) fn tools() -> Option<Tools> {
    static MADE: OnceLock<Result<Tools, String>> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("network-tools-1");
        let mut command = Command::new("sh");
        // Other tests may be doing the same.
        command.args(["-c", "exec flock \"$2.lock\" sh -c \"$1\" sh \"$2\"", "sh", SCRIPT]).arg(&root);
        let venv = root.with_extension("venv");
        if !root.exists() {
            let made = command.output().map_err(|error| error.to_string())?;
            if !made.status.success() {
                return Err(String::from_utf8_lossy(&made.stderr).into_owned());
            }
        }
        Ok(Tools { root, venv })
    });
    if let Err(why) = made {
        ringfence_testing::lacks("registries", why);
    }
    made.clone().ok()
}
