//! How long a command takes to start and end inside: nothing, bare namespaces, bubblewrap, Ringfence.

use std::path::Path;

use anyhow::{Context, Result};

use super::{Group, Rounds, Row};
use crate::{shell, unprivileged, workspace};

/// What is started, by the name of its group.
const COMMANDS: &[(&str, &[&str])] = &[("true", &["true"]), ("bash", &["bash", "-c", "echo hi"])];

/// The row that others are compared with.
pub(crate) const BASELINE: &str = "bwrap";
/// The row that is ours.
pub(crate) const OURS: &str = "ringfence";

pub(crate) fn run(rounds: Rounds) -> Result<Vec<Group>> {
    shell::run(shell::cargo().args(["build", "--release", "-p", "ringfence-cli"]))?;
    let ringfence = workspace::target_directory()?.join("release").join("ringfence");
    let root = shell::user_id()? == 0;

    let mut groups = Vec::new();
    let scratch = shell::ScratchDir::new("bench")?;
    let who = if root { "root" } else { "this user" };
    let place = Place::new(scratch.path(), &ringfence, who)?;
    for (name, command) in COMMANDS {
        println!("measuring {name} as {who}");
        let rows = super::measure(&place.rows(command), rounds);
        groups.push(Group { title: format!("`{}` as {who}", command.join(" ")), rows });
    }
    if root {
        let scratch = shell::ScratchDir::new("bench")?;
        let place = Place::new(scratch.path(), &ringfence, "user")?;
        let user = unprivileged::USER.to_string();
        shell::run(shell::program("chown").args(["-R", &user]).arg(scratch.path()))?;
        shell::run(shell::program("chmod").arg("0755").arg(scratch.path()))?;
        for (name, command) in COMMANDS {
            println!("measuring {name} as user {user}");
            let rows = super::measure_unprivileged(&place.rows(command), rounds, scratch.path())?;
            groups.push(Group { title: format!("`{}` as an ordinary user", command.join(" ")), rows });
        }
    }
    Ok(groups)
}

/// Where one user measures: a project, a home and a reachable copy of the program.
#[derive(Debug)]
struct Place {
    project: String,
    home: String,
    ringfence: String,
}

impl Place {
    fn new(scratch: &Path, ringfence: &Path, who: &str) -> Result<Self> {
        let directory = |name: &str| -> Result<String> {
            let path = scratch.join(name);
            std::fs::create_dir_all(&path).with_context(|| format!("making a {name} for {who}"))?;
            path.into_os_string().into_string().ok().context("a path is not text")
        };
        let copy = super::copy_into(scratch, ringfence)?;
        Ok(Self {
            project: directory("project")?,
            home: directory("home")?,
            ringfence: copy.into_os_string().into_string().ok().context("a path is not text")?,
        })
    }

    fn rows(&self, command: &[&str]) -> Vec<Row> {
        let words = |prefix: &[&str], command: &[&str]| -> Vec<String> {
            prefix.iter().chain(command).map(|word| (*word).to_owned()).collect()
        };
        let row = |name: &str, prefix: &[&str]| Row {
            name: name.to_owned(),
            argv: words(prefix, command),
            proof: words(prefix, super::PROOF),
            isolated: !prefix.is_empty(),
            env: vec![
                ("HOME".to_owned(), self.home.clone()),
                ("RINGFENCE_HOME".to_owned(), format!("{}/.ringfence", self.home)),
                // Only places that every row has inside.
                ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned()),
            ],
        };
        let bwrap = self.bwrap();
        let bwrap: Vec<&str> = bwrap.iter().map(String::as_str).collect();
        vec![
            row("bare", &[]),
            row(
                "unshare",
                &[
                    "unshare",
                    "--user",
                    "--map-root-user",
                    "--mount",
                    "--pid",
                    "--net",
                    "--ipc",
                    "--uts",
                    "--fork",
                    "--mount-proc",
                    "--",
                ],
            ),
            row(BASELINE, &bwrap),
            row(OURS, &[&self.ringfence, "run", "--project", &self.project, "--"]),
        ]
    }

    /// bubblewrap asked for the view that Ringfence builds, as far as it can.
    fn bwrap(&self) -> Vec<String> {
        let mut argv: Vec<String> =
            ["bwrap", "--unshare-all", "--die-with-parent", "--new-session"].map(str::to_owned).to_vec();
        argv.extend(["--hostname", "ringfence", "--cap-drop", "ALL"].map(str::to_owned));
        for name in ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc"] {
            let path = Path::new(name);
            if let Ok(target) = path.read_link() {
                argv.extend(["--symlink".to_owned(), target.to_string_lossy().into_owned(), name.to_owned()]);
            } else if path.exists() {
                argv.extend(["--ro-bind", name, name].map(str::to_owned));
            }
        }
        argv.extend(["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"].map(str::to_owned));
        argv.extend(["--tmpfs", &self.home, "--bind", &self.project, &self.project].map(str::to_owned));
        argv.extend(["--chdir", &self.project, "--"].map(str::to_owned));
        argv
    }
}
