//! What the tests of the fence share: runs with a result, helpers in C, canaries on the host, skips that say so.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::suite::support::Room;

/// Put before a command that waits until the host has done something; see [`Room::run_with`].
pub(crate) const WAIT: &str = "touch ready; for i in $(seq 1000); do [ -e go ] && break; sleep 0.01; done; ";

/// One run with `--json`.
#[derive(Debug)]
pub(crate) struct Fenced {
    pub(crate) code: i64,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) blocked: bool,
    pub(crate) resource: Option<String>,
    pub(crate) json: Value,
}

impl Fenced {
    pub(crate) fn of(json: Value) -> Self {
        let text = |key: &str| json[key].as_str().unwrap_or_default().to_owned();
        Self {
            code: json["exitCode"].as_i64().unwrap(),
            stdout: text("stdout"),
            stderr: text("stderr"),
            blocked: json["blocked"].as_bool().unwrap(),
            resource: json["blockedResource"].as_str().map(str::to_owned),
            json,
        }
    }

    /// The resources of what was refused, in order.
    pub(crate) fn resources(&self) -> Vec<&str> {
        let violations = self.json["violations"].as_array().map(Vec::as_slice).unwrap_or_default();
        violations.iter().filter_map(|violation| violation["resource"].as_str()).collect()
    }

    /// Whether the sandbox promises what a test is about. Where its own list says that it does not, by this
    /// code, that is noted in place of the test.
    pub(crate) fn promises(&self, unless: &str) -> bool {
        let sandbox = &self.json["sandbox"];
        let degraded = sandbox["degraded"].as_array().map(Vec::as_slice).unwrap_or_default();
        let said = degraded.iter().find(|lost| lost["code"] == unless);
        if let Some(why) = said {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            ringfence_testing::degraded(&text(&sandbox["adapter"]), &text(&why["text"]));
        }
        said.is_none()
    }
}

/// Who builds a fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Launcher {
    Native,
    Bwrap,
    Landlock,
}

impl Launcher {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Bwrap => "bwrap",
            Self::Landlock => "landlock",
        }
    }
}

/// Makes tests of functions that take a launcher: one for each function and launcher.
macro_rules! for_every_launcher {
    ($($attack:ident),+ $(,)?) => {
        for_every_launcher! { @ native Native $($attack)+ }
        for_every_launcher! { @ bwrap Bwrap $($attack)+ }
        for_every_launcher! { @ landlock Landlock $($attack)+ }
    };
    (@ $module:ident $launcher:ident $($attack:ident)+) => {
        mod $module {
            $(
                #[test]
                fn $attack() {
                    super::$attack(crate::suite::fence_support::Launcher::$launcher);
                }
            )+
        }
    };
}
pub(crate) use for_every_launcher;

impl Room {
    /// A room whose fences are built by this launcher.
    pub(crate) fn on(launcher: Launcher) -> Self {
        let mut room = Self::new();
        room.launcher = launcher.name();
        room
    }

    /// Runs shell text in the fence.
    #[track_caller]
    pub(crate) fn fenced(&self, text: &str) -> Fenced {
        self.fenced_with(&[], text)
    }

    /// As [`Self::fenced`], with options of `ringfence run`.
    #[track_caller]
    pub(crate) fn fenced_with(&self, options: &[&str], text: &str) -> Fenced {
        // The other tests for another launcher: FENCE_LAUNCHER=bwrap cargo test …
        let wanted = std::env::var("FENCE_LAUNCHER").ok().filter(|_| self.launcher == "auto");
        let launcher = wanted.as_deref().unwrap_or(self.launcher);
        // What the fence holds is shown without the gate in front of it.
        let arguments =
            [&["run", "--no-gate", "--json", "--launcher", launcher], options, &["-c", text]].concat();
        Fenced::of(self.run(&arguments).json())
    }

    /// Runs shell text as everybody does: judged by the gate, and in the fence.
    #[track_caller]
    pub(crate) fn everyday(&self, text: &str) -> Fenced {
        Fenced::of(self.run(&["run", "--json", "-c", text]).json())
    }

    /// Runs shell text that first waits until `act` was done on the host.
    #[track_caller]
    pub(crate) fn fenced_while(&self, act: impl FnOnce() + Send, text: &str) -> Fenced {
        let (ready, go) = (self.project.join("ready"), self.project.join("go"));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                wait_until(Duration::from_secs(30), || ready.exists());
                act();
                std::fs::write(go, "").unwrap();
            });
            self.fenced(&format!("{WAIT}{text}"))
        })
    }

    /// Puts a helper into the project.
    pub(crate) fn helper(&self, helper: &Helper) {
        std::fs::copy(helper.built(), self.project.join(helper.name)).unwrap();
    }
}

/// A program in C, compiled once for all tests and kept with what else was built.
#[derive(Debug)]
pub(crate) struct Helper {
    name: &'static str,
    source: &'static str,
    built: OnceLock<PathBuf>,
}

impl Helper {
    pub(crate) const fn new(name: &'static str, source: &'static str) -> Self {
        Self { name, source, built: OnceLock::new() }
    }

    fn built(&self) -> &Path {
        self.built.get_or_init(|| {
            let kept = Path::new(env!("CARGO_TARGET_TMPDIR"));
            let mut hasher = DefaultHasher::new();
            self.source.hash(&mut hasher);
            let program = kept.join(format!("{}-{:016x}", self.name, hasher.finish()));
            if !program.exists() {
                // Other tests may be doing the same.
                let scratch = tempfile::tempdir_in(kept).unwrap();
                std::fs::rename(self.compile(scratch.path()), &program).unwrap();
            }
            program
        })
    }

    fn compile(&self, directory: &Path) -> PathBuf {
        let (source, program) = (directory.join("helper.c"), directory.join(self.name));
        std::fs::write(&source, self.source).unwrap();
        let compiled = Command::new("gcc")
            .args(["-O1", "-pthread", "-o"])
            .args([&program, &source])
            .output()
            .unwrap_or_else(|error| panic!("{}: {error}", "gcc is needed: apt-get install gcc libc6-dev"));
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        program
    }

    /// What the helper says outside of any fence, to show that it can succeed at all.
    pub(crate) fn unfenced(&self, arguments: &[&str], directory: &Path) -> String {
        let output = Command::new(self.built()).args(arguments).current_dir(directory).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }
}

pub(crate) static KERNEL: Helper = Helper::new("kernel", include_str!("../data/kernel.c"));
pub(crate) static SOCKETS: Helper = Helper::new("sockets", include_str!("../data/sockets.c"));
pub(crate) static SIGNALS: Helper = Helper::new("signals", include_str!("../data/signals.c"));
pub(crate) static SWAPS: Helper = Helper::new("swaps", include_str!("../data/swaps.c"));
pub(crate) static RACES: Helper = Helper::new("races", include_str!("../data/races.c"));

/// A process of the host that attacks try to reach; ended when dropped.
#[derive(Debug)]
pub(crate) struct Victim(Child);

impl Victim {
    pub(crate) fn new() -> Self {
        Self(Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn lives(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(None))
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether `holds` becomes true in time.
pub(crate) fn wait_until(patience: Duration, holds: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + patience;
    while !holds() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    true
}

/// Command lines of the host's processes that have `marker` in them.
pub(crate) fn processes_with(marker: &str) -> Vec<String> {
    std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(marker))
        .collect()
}

/// Every name below a directory, sorted.
pub(crate) fn names(directory: &Path) -> Vec<PathBuf> {
    let mut names = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                open.push(entry.path());
            }
            names.push(entry.path());
        }
    }
    names.sort();
    names
}

/// Whether a program can be run by this user; where it cannot, a test that needs it fails, or ends if that is known.
#[track_caller]
pub(crate) fn has(program: &str, arguments: &[&str]) -> bool {
    let ran = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let works = ran.as_ref().is_ok_and(|output| output.status.success());
    if !works {
        let why = match ran {
            Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            Err(error) => error.to_string(),
        };
        ringfence_testing::lacks(program, &why);
    }
    works
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
