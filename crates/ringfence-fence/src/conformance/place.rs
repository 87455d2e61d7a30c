//! The part of the host that a case is about; gone when dropped.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Result};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::case::{Case, Entry};

/// The directories of one run of one case.
#[derive(Debug)]
pub struct Place {
    root: PathBuf,
    /// The project, where commands start.
    pub project: PathBuf,
    /// The home directory of the caller.
    pub home: PathBuf,
    /// A directory that no rule mentions.
    pub outside: PathBuf,
    pub(super) marker: String,
    pub(super) listener: TcpListener,
    victim: Mutex<Child>,
    victim_pid: u32,
}

impl Place {
    pub(super) fn new(base: &Path, case: &Case) -> Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let marker = format!("conformance-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let root = base.canonicalize()?.join(&marker);
        std::fs::create_dir(&root)?;
        let dir = |name: &str| {
            let path = root.join(name);
            std::fs::create_dir(&path).map(|()| path)
        };
        let listener = TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let victim = std::process::Command::new("sleep").arg("600").spawn()?;
        let place = Self {
            project: dir("project")?,
            home: dir("home")?,
            outside: dir("outside")?,
            root,
            marker,
            listener,
            victim_pid: victim.id(),
            victim: Mutex::new(victim),
        };
        for (path, entry) in &case.files {
            place.put(path, *entry)?;
        }
        Ok(place)
    }

    fn put(&self, path: &str, entry: Entry) -> Result<()> {
        let path = self.path(path);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        match entry {
            Entry::File(content) => std::fs::write(path, content),
            Entry::Directory => std::fs::create_dir_all(path),
            #[cfg(unix)]
            Entry::Link(target) => std::os::unix::fs::symlink(self.fill(target), path),
            #[cfg(not(unix))]
            Entry::Link(_) => Err(ErrorKind::Unsupported.into()),
        }
    }

    /// A path of the case, absolute or below its root (`project/a`).
    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.root.join(self.fill(path))
    }

    /// The text with every placeholder replaced.
    pub(super) fn fill(&self, text: &str) -> String {
        let port = self.listener.local_addr().map_or(0, |address| address.port());
        [
            ("{project}", self.project.display().to_string()),
            ("{home}", self.home.display().to_string()),
            ("{outside}", self.outside.display().to_string()),
            ("{port}", port.to_string()),
            ("{victim}", self.victim_pid.to_string()),
            ("{marker}", self.marker.clone()),
        ]
        .iter()
        .fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
    }

    /// Waits until the command says that it is ready, acts, and lets it go on.
    pub(super) fn when_ready(&self, act: fn(&Self) -> Result<()>) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while !self.project.join("ready").exists() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
        }
        // A command that is not let go fails its case by itself.
        if act(self).is_ok() {
            let _ = std::fs::write(self.project.join("go"), "");
        }
    }

    /// Every name below the case's directories.
    pub(super) fn listing(&self) -> BTreeSet<PathBuf> {
        let mut names = BTreeSet::new();
        let mut open = vec![self.root.clone()];
        while let Some(directory) = open.pop() {
            for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    open.push(entry.path());
                }
                names.insert(entry.path());
            }
        }
        names
    }

    pub(super) fn victim_lives(&self) -> bool {
        self.victim.lock().is_ok_and(|mut victim| matches!(victim.try_wait(), Ok(None)))
    }

    pub(super) fn listener_untouched(&self) -> bool {
        matches!(self.listener.accept(), Err(error) if error.kind() == ErrorKind::WouldBlock)
    }

    /// Command lines of processes of the host that have the marker in them.
    pub(super) fn marked_processes(&self) -> Vec<String> {
        let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        processes
            .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
            .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
            .filter(|line| line.contains(&self.marker))
            .collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Ok(mut victim) = self.victim.lock() {
            let _ = victim.kill();
            let _ = victim.wait();
        }
        let _ = std::fs::remove_dir_all(&self.root);
    }
}
