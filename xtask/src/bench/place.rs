//! Where one user measures: a project, a home, and the ways to start a command there.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::Programs;
use super::measure::{PROOF, Row};
use crate::{shell, unprivileged};

pub(crate) const BARE: &str = "bare";
pub(crate) const UNSHARE: &str = "unshare";
pub(crate) const BWRAP: &str = "bwrap";
pub(crate) const OFF: &str = "ringfence off";
pub(crate) const WRITES: &str = "ringfence writes";
pub(crate) const FULL: &str = "ringfence full";
/// The reference in C, with every call seen and with none.
pub(crate) const LIMIT: &str = "limit";
pub(crate) const LIMIT_OFF: &str = "limit off";

/// Only places that every row has inside.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Who starts the commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    /// Whoever runs this program.
    Caller,
    /// A user that owns nothing; only root can become one.
    Ordinary,
}

impl Who {
    /// As whom this machine can measure.
    pub(crate) fn all() -> Result<&'static [Self]> {
        Ok(if shell::user_id()? == 0 { &[Self::Caller, Self::Ordinary] } else { &[Self::Caller] })
    }

    pub(crate) fn name(self) -> Result<&'static str> {
        Ok(match self {
            Self::Caller if shell::user_id()? == 0 => "as root",
            Self::Caller | Self::Ordinary => "as an ordinary user",
        })
    }
}

impl Who {
    /// That program, started by them in a place that is theirs from here on.
    pub(crate) fn command(self, place: &Place, program: &str) -> Result<Command> {
        if self == Self::Caller {
            return Ok(Command::new(program));
        }
        place.hand_over()?;
        let user = unprivileged::USER;
        let mut command = Command::new("setpriv");
        command.args([
            &format!("--reuid={user}"),
            &format!("--regid={user}"),
            "--clear-groups",
            "--",
            program,
        ]);
        Ok(command)
    }
}

/// A project, a home and reachable copies of the programs.
#[derive(Debug)]
pub(crate) struct Place {
    scratch: shell::ScratchDir,
    pub(crate) project: String,
    home: String,
    ringfence: String,
    /// The reference, where it could be compiled.
    limit: Option<String>,
    /// More variables, for all rows.
    pub(crate) env: Vec<(String, String)>,
    /// Directories that every row shows read-only besides the system's.
    pub(crate) shown: Vec<String>,
    /// Directories of programs besides the system's.
    pub(crate) path: Vec<String>,
}

impl Place {
    pub(crate) fn new(programs: &Programs) -> Result<Self> {
        let scratch = shell::ScratchDir::new("bench")?;
        let directory = |name: &str| -> Result<String> {
            let path = scratch.path().join(name);
            std::fs::create_dir_all(&path).with_context(|| format!("making a {name}"))?;
            text(path)
        };
        let (project, home) = (directory("project")?, directory("home")?);
        let copy = |program: &Path| text(copy_into(scratch.path(), program)?);
        let ringfence = copy(&programs.ringfence)?;
        let limit = programs.limits.as_ref().map(|limits| copy(&limits.start)).transpose()?;
        Ok(Self { scratch, project, home, ringfence, limit, env: vec![], shown: vec![], path: vec![] })
    }

    pub(crate) fn directory(&self) -> &Path {
        self.scratch.path()
    }

    /// Makes all of it the ordinary user's.
    pub(crate) fn hand_over(&self) -> Result<()> {
        let user = unprivileged::USER.to_string();
        shell::run(shell::program("chown").args(["-R", &user]).arg(self.scratch.path()))?;
        shell::run(shell::program("chmod").arg("0755").arg(self.scratch.path()))
    }

    /// The command started in every way of the list that there is here.
    pub(crate) fn rows(&self, ways: &[&str], command: &[&str]) -> Vec<Row> {
        ways.iter().filter(|way| self.has(way)).map(|way| self.row(way, command)).collect()
    }

    pub(crate) fn has(&self, way: &str) -> bool {
        self.limit.is_some() || ![LIMIT, LIMIT_OFF].contains(&way)
    }

    pub(crate) fn row(&self, way: &str, command: &[&str]) -> Row {
        let prefix = self.prefix(way);
        let words = |command: &[&str]| -> Vec<String> {
            prefix.iter().cloned().chain(command.iter().map(|word| (*word).to_owned())).collect()
        };
        let mut path = self.path.join(":");
        if !path.is_empty() {
            path.push(':');
        }
        let mut env = vec![
            ("HOME".to_owned(), self.home.clone()),
            ("RINGFENCE_HOME".to_owned(), format!("{}/.ringfence", self.home)),
            ("PATH".to_owned(), path + PATH),
        ];
        env.extend(self.env.iter().cloned());
        Row {
            name: way.to_owned(),
            argv: words(command),
            proof: words(PROOF),
            isolated: way != BARE,
            env,
            cwd: self.project.clone(),
            before: vec![],
        }
    }

    fn prefix(&self, way: &str) -> Vec<String> {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        match way {
            UNSHARE => owned(&[
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
            ]),
            BWRAP => self.bwrap(),
            LIMIT | LIMIT_OFF => {
                let seen = if way == LIMIT { "all" } else { "none" };
                let start = self.limit.as_deref().unwrap_or_default();
                let mut argv: Vec<String> = owned(&[start, seen, &self.project, &self.home]);
                argv.extend(self.shown.iter().cloned());
                argv.push("--".to_owned());
                argv
            }
            OFF | WRITES | FULL => {
                let precision = way.rsplit(' ').next().unwrap_or_default();
                owned(&[
                    &self.ringfence,
                    "run",
                    "--quiet",
                    "--precision",
                    precision,
                    "--project",
                    &self.project,
                    "--",
                ])
            }
            _ => vec![],
        }
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
        for shown in &self.shown {
            argv.extend(["--ro-bind", shown, shown].map(str::to_owned));
        }
        argv.extend(["--chdir", &self.project, "--"].map(str::to_owned));
        argv
    }
}

pub(crate) fn text(path: PathBuf) -> Result<String> {
    path.into_os_string().into_string().ok().context("a path is not text")
}

/// A copy of `file` in `directory`, where another user can reach it.
pub(crate) fn copy_into(directory: &Path, file: &Path) -> Result<PathBuf> {
    let name = file.file_name().context("a program has no name")?;
    let copy = directory.join(name);
    std::fs::copy(file, &copy).with_context(|| format!("copying {}", file.display()))?;
    Ok(copy)
}
