//! Places of our files: for commands that work without a valid configuration.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use ringfence::config::{self, EnvMap, LoadOptions};
use ringfence::ledger::Ledger;
use ringfence::model::{Error, ErrorKind, Result};

/// The caller's environment. A home that is not in it is the one of the user database.
pub(crate) fn environment() -> EnvMap {
    let mut env: EnvMap = std::env::vars_os().collect();
    if env.get(OsStr::new("HOME")).is_none_or(|home| home.is_empty())
        && let Some(home) = home_of_user(rustix::process::geteuid().as_raw())
    {
        env.insert("HOME".into(), home.into());
    }
    env
}

/// As `/etc/passwd` says; a database elsewhere is not asked.
fn home_of_user(uid: u32) -> Option<String> {
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    let mut homes = users.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let home = fields.get(5).filter(|home| home.starts_with('/') && home.len() > 1)?;
        (fields.get(2)?.parse() == Ok(uid)).then(|| (*home).to_owned())
    });
    homes.next()
}

#[derive(Debug)]
pub(crate) struct Places {
    pub(crate) project: PathBuf,
    pub(crate) home: PathBuf,
    pub(crate) ringfence_home: PathBuf,
    pub(crate) env: EnvMap,
}

impl Places {
    pub(crate) fn find(project: Option<&Path>) -> Result<Self> {
        let env = environment();
        let current = std::env::current_dir().map_err(|error| {
            Error::new(ErrorKind::Validation, "the current directory is gone").caused_by(error)
        })?;
        let project = project.map_or(current.clone(), |project| current.join(project));
        let project = project.canonicalize().unwrap_or(project);
        let home = env
            .get(OsStr::new("HOME"))
            .map(PathBuf::from)
            .filter(|home| home.is_absolute())
            .unwrap_or_else(|| PathBuf::from("/home/sandbox"));
        let ringfence_home = match config::ringfence_home(&env) {
            Ok(path) => path,
            // As for a run: without a home directory there is still a place in it.
            Err(_) if !env.contains_key(OsStr::new(config::HOME_VARIABLE)) => home.join(".ringfence"),
            Err(error) => return Err(error),
        };
        Ok(Self { project, home, ringfence_home, env })
    }

    pub(crate) fn user_file(&self) -> PathBuf {
        self.ringfence_home.join("sandbox.json")
    }

    pub(crate) fn project_file(&self) -> PathBuf {
        self.project.join(".ringfence").join("sandbox.json")
    }

    pub(crate) fn ledger_file(&self) -> PathBuf {
        self.ringfence_home.join("ledger.db")
    }

    pub(crate) fn load_options(&self) -> LoadOptions<'_> {
        LoadOptions::new(&self.project, &self.home, &self.ringfence_home, &self.env)
    }

    /// The ledger for reading; none when nothing has been recorded yet.
    pub(crate) fn ledger(&self) -> Result<Option<Ledger>> {
        let path = self.ledger_file();
        match Ledger::open_read_only(&path) {
            Ok(ledger) => Ok(Some(ledger)),
            Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
            // An older schema is brought up to date by opening it for writing; of a newer one that fails too.
            Err(error) if error.kind == ErrorKind::Unsupported => Ledger::open(&path).map(Some),
            Err(error) => Err(error),
        }
    }

    /// A path as a person writes it, absolute: `~` is the home directory, the rest is meant from here.
    pub(crate) fn absolute(&self, path: &Path) -> PathBuf {
        match path.strip_prefix("~") {
            Ok(below) => self.home.join(below),
            Err(_) => std::env::current_dir().unwrap_or_default().join(path),
        }
    }
}
