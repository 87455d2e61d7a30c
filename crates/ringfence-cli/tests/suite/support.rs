//! A room for each test: a home, a project and a ringfence home that nobody else uses.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

pub(crate) struct Room {
    _temp: tempfile::TempDir,
    pub(crate) home: PathBuf,
    pub(crate) project: PathBuf,
    pub(crate) ringfence_home: PathBuf,
    /// Who builds its fences, as the command line says it.
    pub(crate) launcher: &'static str,
    /// What else is in the environment of its programs.
    pub(crate) env: Vec<(String, String)>,
}

impl Room {
    pub(crate) fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        let home = root.join("home");
        let project = home.join("project");
        std::fs::create_dir_all(&project).unwrap();
        Self {
            _temp: temp,
            ringfence_home: home.join(".ringfence"),
            home,
            project,
            launcher: "auto",
            env: vec![],
        }
    }

    /// The program with these arguments, in the project, with nothing of the caller's environment but PATH and
    /// [`env`](Self::env).
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ringfence"));
        command
            .args(arguments)
            .current_dir(&self.project)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into()))
            .env("HOME", &self.home)
            .env("RINGFENCE_HOME", &self.ringfence_home)
            .env("TERM", "xterm")
            .env("TZ", "UTC")
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.command(arguments).output().unwrap())
    }

    /// Gives these lines to a session; every line that it answered.
    pub(crate) fn session(&self, lines: &str) -> Vec<Value> {
        let mut child =
            self.command(&["session"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Writes a file, with the directories above it.
    pub(crate) fn write(&self, path: impl AsRef<Path>, content: &str) -> PathBuf {
        let path = self.project.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    /// Writes the user's own configuration.
    pub(crate) fn configure(&self, content: &str) -> PathBuf {
        self.write(self.ringfence_home.join("sandbox.json"), content)
    }

    /// Whether a fence can start on this machine; where none can, a test that needs one fails, or ends early if
    /// that is known.
    #[track_caller]
    pub(crate) fn has_fence(&self) -> bool {
        let ran = self.run(&["run", "--", "true"]);
        if ran.code != 0 {
            ringfence_testing::lacks(ringfence_testing::FENCE, &ran.stderr);
        }
        ran.code == 0
    }
}

#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Standard output as exactly one JSON value.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }
}
