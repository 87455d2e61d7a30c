//! The programs that tests need, and how to get them.

use std::path::Path;

use anyhow::{Result, bail};

use crate::report::Done;
use crate::shell;

/// Where programs are looked for: what every user of the machine can reach, so that the run as an
/// ordinary user finds the same ones.
pub(crate) const SYSTEM_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// How to tell that a package is there.
#[derive(Debug)]
enum Probe {
    /// A program of this name is on the system path.
    Program(&'static str),
    /// This command, looked up on the system path, succeeds.
    Succeeds(&'static [&'static str]),
}

/// A Debian package that tests use.
#[derive(Debug)]
struct Package {
    name: &'static str,
    probe: Probe,
    why: &'static str,
}

const PACKAGES: &[Package] = &[
    Package { name: "bubblewrap", probe: Probe::Program("bwrap"), why: "the bwrap launcher; the bench" },
    Package { name: "util-linux", probe: Probe::Program("setpriv"), why: "setpriv and unshare" },
    Package { name: "iproute2", probe: Probe::Program("ip"), why: "network interfaces seen from inside" },
    Package { name: "procps", probe: Probe::Program("ps"), why: "processes that must not be left over" },
    Package { name: "git", probe: Probe::Program("git"), why: "everyday work inside: repositories" },
    Package { name: "make", probe: Probe::Program("make"), why: "everyday work inside: make" },
    Package { name: "gcc", probe: Probe::Program("gcc"), why: "linking; everyday work inside: cargo build" },
    Package {
        name: "libc6-dev",
        probe: Probe::Succeeds(&["test", "-e", "/usr/include/stdlib.h"]),
        why: "headers for the bundled SQLite",
    },
    Package { name: "sqlite3", probe: Probe::Program("sqlite3"), why: "everyday work inside: a database" },
    Package { name: "python3", probe: Probe::Program("python3"), why: "everyday work inside; test helpers" },
    Package {
        name: "python3-venv",
        probe: Probe::Succeeds(&["python3", "-c", "import venv, ensurepip"]),
        why: "everyday work inside: python3 -m venv; the macOS check",
    },
    Package { name: "nodejs", probe: Probe::Program("node"), why: "everyday work inside: node" },
    Package { name: "npm", probe: Probe::Program("npm"), why: "everyday work inside: npm test" },
    Package { name: "curl", probe: Probe::Program("curl"), why: "reaching for the network from inside" },
    Package { name: "wget", probe: Probe::Program("wget"), why: "the way out: hosts by name" },
    Package {
        name: "openssl",
        probe: Probe::Program("openssl"),
        why: "the way out: an authority of the test's own",
    },
    Package { name: "openssh-client", probe: Probe::Program("ssh"), why: "the way out: git by ssh" },
    Package { name: "redis-server", probe: Probe::Program("redis-server"), why: "the way out: a database" },
    Package {
        name: "default-jdk-headless",
        probe: Probe::Program("javac"),
        why: "the way out: programs of the Java platform",
    },
    Package { name: "ripgrep", probe: Probe::Program("rg"), why: "everyday work inside: search" },
    Package { name: "zip", probe: Probe::Program("zip"), why: "everyday work inside: archives" },
    Package { name: "unzip", probe: Probe::Program("unzip"), why: "everyday work inside: archives" },
    Package {
        name: "busybox",
        probe: Probe::Program("busybox"),
        why: "the scripts of the file bridge, in small images",
    },
    Package {
        name: "docker.io",
        probe: Probe::Program("dockerd"),
        why: "the provider docker: a real engine",
    },
    Package {
        name: "podman",
        probe: Probe::Program("podman"),
        why: "the provider docker, on Podman's socket",
    },
    Package { name: "tmux", probe: Probe::Program("tmux"), why: "driving a terminal" },
    Package { name: "rsync", probe: Probe::Program("rsync"), why: "small programs, bare and inside" },
    Package { name: "socat", probe: Probe::Program("socat"), why: "small programs, bare and inside" },
    Package { name: "netcat-openbsd", probe: Probe::Program("nc"), why: "small programs, bare and inside" },
    Package {
        name: "inotify-tools",
        probe: Probe::Program("inotifywait"),
        why: "small programs, bare and inside",
    },
    Package {
        name: "tinyproxy-bin",
        probe: Probe::Program("tinyproxy"),
        why: "the bench: a proxy to compare with",
    },
    Package { name: "strace", probe: Probe::Program("strace"), why: "small programs, bare and inside" },
];

impl Probe {
    fn found(&self) -> bool {
        match self {
            Self::Program(name) => find_program(name),
            Self::Succeeds(argv) => argv.split_first().is_some_and(|(name, arguments)| {
                shell::succeeds(
                    shell::program("/usr/bin/env").env("PATH", SYSTEM_PATH).arg(name).args(arguments),
                )
            }),
        }
    }
}

fn find_program(name: &str) -> bool {
    SYSTEM_PATH.split(':').any(|directory| Path::new(directory).join(name).exists())
}

/// Whether a program is on the caller's own path.
pub(crate) fn on_path(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(name).is_file())
}

/// Installs what is missing with apt when that is possible, and otherwise says what to install and how.
pub(crate) fn install_missing() -> Result<Done> {
    let missing: Vec<&Package> = PACKAGES.iter().filter(|package| !package.probe.found()).collect();
    if missing.is_empty() {
        println!("all {} packages that tests use are here", PACKAGES.len());
        return Ok(Done::passed());
    }
    for package in &missing {
        println!("missing: {:<14} {}", package.name, package.why);
    }
    let names: Vec<&str> = missing.iter().map(|package| package.name).collect();
    let install = format!("apt-get install --yes --no-install-recommends {}", names.join(" "));
    if shell::user_id()? != 0 {
        bail!("missing packages: {}. As root: apt-get update && {install}", names.join(" "));
    }
    if !find_program("apt-get") {
        bail!("missing packages: {}, and there is no apt-get to install them with", names.join(" "));
    }
    let apt = || {
        let mut command = shell::program("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive");
        command
    };
    shell::run(apt().args(["update", "--quiet"]))?;
    shell::run(apt().args(["install", "--quiet", "--yes", "--no-install-recommends"]).args(&names))?;
    let still: Vec<&str> =
        missing.iter().filter(|package| !package.probe.found()).map(|package| package.name).collect();
    if !still.is_empty() {
        bail!("apt-get succeeded, yet these are not usable: {}", still.join(" "));
    }
    Ok(Done::passed())
}
