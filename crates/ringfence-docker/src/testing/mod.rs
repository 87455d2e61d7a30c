//! A real container engine for tests: one of its own, on a private socket, with images made on the spot.
//!
//! All tests of a run share one. The first to need it starts it, and it removes itself, with everything in it, a few seconds
//! after the last has ended, whichever way that was: each test holds a lock that the kernel gives back.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

/// bash, coreutils, python3, git and the like.
pub const FULL: &str = "ringfence-test:full";
/// `sh` and coreutils, and nothing else.
pub const LEAST: &str = "ringfence-test:least";
/// `sh`, which is dash, and not one other program.
pub const BARE: &str = "ringfence-test:bare";
/// busybox, by all of its names.
pub const BUSYBOX: &str = "ringfence-test:busybox";

const SCRIPT: &str = include_str!("engine.sh");
/// On a machine with other things to do.
const PATIENCE: Duration = Duration::from_secs(240);

/// What stands on the board instead of a directory when no engine started, and for how long it counts.
const FAILED: &str = "failed: ";
const AGE_OF_A_FAILURE: Duration = Duration::from_secs(600);

/// Whose engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Docker,
    Podman,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
        }
    }

    /// Its program and the package that has it.
    fn daemon(self) -> (&'static str, &'static str) {
        match self {
            Self::Docker => ("dockerd", "docker.io"),
            Self::Podman => ("podman", "podman"),
        }
    }
}

/// The engine, as long as this lives.
#[derive(Debug)]
pub struct TestEngine {
    directory: PathBuf,
    _users: File,
}

impl TestEngine {
    /// The engine that all tests share; none, said with the name of the test and the reason, where there can be none.
    #[must_use]
    #[track_caller]
    pub fn shared() -> Option<Self> {
        Self::shared_of(Kind::Docker)
    }

    /// The same of a kind. Podman's has the same socket for the same calls, and the `docker` command speaks to it.
    #[must_use]
    #[track_caller]
    pub fn shared_of(kind: Kind) -> Option<Self> {
        if let Err(why) = possible(kind) {
            ringfence_testing::lacks(kind.name(), &why);
            return None;
        }
        match join(kind) {
            Ok(engine) => Some(engine),
            Err(error) => {
                ringfence_testing::lacks(
                    kind.name(),
                    &format!("the engine for tests did not start: {error}"),
                );
                None
            }
        }
    }

    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.directory.join("socket")
    }

    /// For `DOCKER_HOST`.
    #[must_use]
    pub fn host(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    /// The `docker` command, for this engine.
    #[must_use]
    pub fn docker(&self, arguments: &[&str]) -> Command {
        docker(&self.host(), arguments)
    }
}

fn docker(host: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("docker");
    command.env("DOCKER_HOST", host).env_remove("DOCKER_CONTEXT").args(arguments);
    command
}

fn possible(kind: Kind) -> std::result::Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("only root can start a container engine".to_owned());
    }
    let (daemon, package) = kind.daemon();
    for program in [daemon, "docker", "dpkg-query", "flock", "busybox"] {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let places = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
        if !places.map(|place: PathBuf| place.join(program)).any(|file| file.is_file()) {
            return Err(format!(
                "there is no {program} here (Debian: apt-get install {package} docker.io busybox)"
            ));
        }
    }
    Ok(())
}

fn join(kind: Kind) -> std::io::Result<TestEngine> {
    let artefacts = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/tmp"));
    std::fs::create_dir_all(artefacts)?;
    let mut board = File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(artefacts.join(format!("{}-engine", kind.name())))?;
    // Whoever comes meanwhile waits until it runs.
    flock(&board, FlockOperation::LockExclusive)?;
    let mut place = String::new();
    board.read_to_string(&mut place)?;
    if let Some(found) = still_there(Path::new(place.trim())) {
        return Ok(found);
    }
    // The others of this run need not wait for what does not come.
    let is_fresh = board.metadata()?.modified()?.elapsed().is_ok_and(|age| age < AGE_OF_A_FAILURE);
    if let Some(why) = place.strip_prefix(FAILED).filter(|_| is_fresh) {
        return Err(std::io::Error::other(why.to_owned()));
    }
    let started = start(kind);
    rustix::io::retry_on_intr(|| rustix::fs::ftruncate(&board, 0))?;
    rustix::fs::seek(&board, rustix::fs::SeekFrom::Start(0))?;
    match &started {
        Ok(engine) => write!(board, "{}", engine.directory.display())?,
        Err(error) => write!(board, "{FAILED}{error}")?,
    }
    started
}

/// Holds it, if it is one that nobody is about to remove.
fn still_there(directory: &Path) -> Option<TestEngine> {
    let users = File::open(directory.join("users")).ok()?;
    flock(&users, FlockOperation::LockShared).ok()?;
    let now = std::fs::metadata(directory.join("users")).ok()?;
    let held = users.metadata().ok()?;
    let ready = directory.join("ready").exists() && directory.join("socket").exists();
    (ready && (now.dev(), now.ino()) == (held.dev(), held.ino()))
        .then(|| TestEngine { directory: directory.to_owned(), _users: users })
}

/// On a disk, where layers of images can be stacked. The engine removes it, not this process.
fn new_directory() -> std::io::Result<PathBuf> {
    Ok(tempfile::Builder::new().prefix("ringfence-engine.").tempdir_in("/var/tmp")?.keep())
}

fn start(kind: Kind) -> std::io::Result<TestEngine> {
    let directory = new_directory()?;
    let users = File::create_new(directory.join("users"))?;
    flock(&users, FlockOperation::LockShared)?;
    let log = File::create(directory.join("log"))?;
    Command::new("setsid")
        .args(["sh", "-c", SCRIPT, "engine.sh"])
        .arg(&directory)
        .arg(kind.name())
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .process_group(0)
        .spawn()?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        if directory.join("ready").exists() {
            return Ok(TestEngine { directory, _users: users });
        }
        if let Ok(why) = std::fs::read_to_string(directory.join("failed")) {
            return Err(std::io::Error::other(why));
        }
        if Instant::now() > deadline {
            let log = std::fs::read_to_string(directory.join("log")).unwrap_or_default();
            return Err(std::io::Error::other(format!("it took too long: {log}")));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// An engine of one test alone, which may be killed and started again. It has the image [`FULL`].
#[derive(Debug)]
pub struct OwnEngine {
    directory: PathBuf,
    daemon: Option<Child>,
}

impl OwnEngine {
    pub fn start(images: &TestEngine) -> std::io::Result<Self> {
        let mut engine = Self { directory: new_directory()?, daemon: None };
        engine.restart()?;
        let tar = images.directory.join("full.tar");
        let status = docker(&engine.host(), &["import"]).arg(tar).arg(FULL).stdout(Stdio::null()).status()?;
        if status.success() {
            Ok(engine)
        } else {
            Err(std::io::Error::other(format!("docker import: {status}")))
        }
    }

    #[must_use]
    pub fn host(&self) -> String {
        format!("unix://{}/socket", self.directory.display())
    }

    /// Ends it at once, as if the machine's administrator or its memory had.
    pub fn kill(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }

    /// Starts it, again, and waits until it answers.
    pub fn restart(&mut self) -> std::io::Result<()> {
        let at = |name: &str| self.directory.join(name);
        let log = File::options().create(true).append(true).open(at("log"))?;
        // The one before it left numbers of processes, its own and that of containerd, which dies with it.
        for file in ["pid", "exec/containerd/containerd.pid"] {
            let _ = std::fs::remove_file(at(file));
        }
        let daemon = Command::new("dockerd")
            .args(["--bridge=none", "--iptables=false", "--ip6tables=false", "--storage-driver=overlay2"])
            .args(["--host", &self.host()])
            .arg("--data-root")
            .arg(at("data"))
            .arg("--exec-root")
            .arg(at("exec"))
            .arg("--pidfile")
            .arg(at("pid"))
            .env_remove("DOCKER_HOST")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .spawn()?;
        self.daemon = Some(daemon);
        let deadline = Instant::now() + PATIENCE;
        while !docker(&self.host(), &["version"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()?
            .success()
        {
            if Instant::now() > deadline {
                let log = std::fs::read_to_string(self.directory.join("log")).unwrap_or_default();
                let last = log.lines().next_back().unwrap_or_default();
                return Err(std::io::Error::other(format!("dockerd does not answer: {last}")));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }
}

impl Drop for OwnEngine {
    fn drop(&mut self) {
        if self.daemon.is_none() {
            let _ = self.restart();
        }
        let all = docker(&self.host(), &["ps", "-aq"]).output();
        let all = all.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        let ids: Vec<&str> = all.split_whitespace().collect();
        if !ids.is_empty() {
            let _ = docker(&self.host(), &["rm", "-f"]).args(ids).stdout(Stdio::null()).status();
        }
        if let Some(mut daemon) = self.daemon.take() {
            let _ = Command::new("kill").arg(daemon.id().to_string()).status();
            let _ = daemon.wait();
        }
        // One that was killed leaves its directory mounted on itself.
        let data = self.directory.join("data");
        while Command::new("umount")
            .arg(&data)
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|done| done.success())
        {}
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
