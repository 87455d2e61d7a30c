//! Killed at any moment, ringfence leaves nothing: no process, mount, control group or file.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::suite::fence_support::{names, processes_with, wait_until};
use crate::suite::support::Room;

const TIMES: u32 = 100;

/// What is mounted where, but for the containers that others may be making at the same time.
fn mounts() -> BTreeSet<String> {
    let is_anothers = |line: &str| {
        ["docker", "containers", "ringfence-engine", "nsfs"].iter().any(|name| line.contains(name))
    };
    let all = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    // Without the numbers, which are given out again.
    let place = |line: &str| line.split(' ').skip(3).collect::<Vec<_>>().join(" ");
    all.lines().filter(|line| !is_anothers(line)).map(place).collect()
}

/// Control groups of these processes; others may be running a ringfence at the same time.
fn control_groups(owners: &[u32]) -> Vec<PathBuf> {
    let is_ours = |name: &str| {
        let owner = name.strip_prefix("ringfence-").and_then(|rest| rest.split('-').next());
        owner.and_then(|owner| owner.parse().ok()).is_some_and(|owner| owners.contains(&owner))
    };
    let mut found = Vec::new();
    let mut open = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if is_ours(&entry.file_name().to_string_lossy()) {
                    found.push(entry.path());
                }
                open.push(entry.path());
            }
        }
    }
    found
}

fn temporary_files() -> Vec<PathBuf> {
    let in_directory = |directory: &str| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
        // Directories of this form may be those of other runs beside this one; ours would be below TMPDIR.
        let is_anothers = |path: &Path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            // And an engine that the tests of containers start for themselves.
            name.starts_with("ringfence-engine.")
                || name.strip_prefix("ringfence-").is_some_and(|rest| rest.len() == 16)
        };
        let named = entries.filter(|path| path.to_string_lossy().contains("ringfence"));
        named.filter(|path| !is_anothers(path)).collect()
    };
    ["/tmp", "/var/tmp", "/dev/shm", "/run"].into_iter().flat_map(in_directory).collect()
}

/// What there is before anything was killed, and who was.
struct Watch {
    room: Room,
    temporary: PathBuf,
    marker: String,
    before: (Vec<PathBuf>, BTreeSet<String>, Vec<PathBuf>),
    owners: Vec<u32>,
    started: Instant,
}

impl Watch {
    fn new(name: &str) -> Self {
        let room = Room::new();
        room.write(".env", "canary");
        room.write(".git/config", "[core]\n");
        room.write("sub/.env", "canary");
        let temporary = room.home.parent().unwrap().join("temporary");
        std::fs::create_dir(&temporary).unwrap();
        let before = (names(&room.project), mounts(), temporary_files());
        let marker = format!("{name}-{}", std::process::id());
        Self { room, temporary, marker, before, owners: vec![], started: Instant::now() }
    }

    /// Never ends, and leaves a process in a session of its own.
    fn command(&self) -> String {
        let marker = &self.marker;
        format!(
            "(setsid bash -c 'exec -a {marker} sleep 60' &) ; exec -a {marker} bash -c 'while :; do cat .env; : > /tmp/x; done'"
        )
    }

    fn start(&mut self, arguments: &[&str]) -> Child {
        let mut command = self.room.command(arguments);
        command.env("TMPDIR", &self.temporary).stdin(Stdio::piped());
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        self.owners.push(child.id());
        child
    }

    /// At every fourth time while the command runs, else anywhere in the launch, which takes about that many
    /// microseconds. Whether it ran.
    fn kill(&self, mut child: Child, time: u32, launch_us: u64) -> bool {
        let mut runs = false;
        if time % 4 == 3 {
            let is_there = || processes_with(&self.marker).iter().any(|line| line.starts_with(&self.marker));
            runs = wait_until(Duration::from_secs(20), is_there);
        } else {
            // The factor spreads the moments evenly.
            std::thread::sleep(Duration::from_micros(u64::from(time) * 7919 % launch_us));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(self.started.elapsed() < Duration::from_secs(200), "too slow: {time} kills");
        runs
    }

    fn nothing_is_left(&self) {
        let Self { room, temporary, marker, before, owners, .. } = self;
        let gone = wait_until(Duration::from_secs(20), || processes_with(marker).is_empty());
        assert!(gone, "processes are left: {:?}", processes_with(marker));
        // Whatever ringfence itself started has the project as its directory, or had.
        let helpers = || processes_in(&room.project);
        assert!(wait_until(Duration::from_secs(20), || helpers().is_empty()), "{:?}", helpers());
        assert_eq!(names(&room.project), before.0, "the project changed");
        let left: Vec<_> = mounts().difference(&before.1).cloned().collect();
        assert_eq!(left, [] as [String; 0], "mounts are left");
        let no_group = wait_until(Duration::from_secs(20), || control_groups(owners).is_empty());
        assert!(no_group, "control groups are left: {:?}", control_groups(owners));
        let left: Vec<_> = temporary_files().into_iter().filter(|path| !before.2.contains(path)).collect();
        assert!(
            left.iter().all(|path| path.starts_with(room.home.parent().unwrap())),
            "files are left: {left:?}"
        );
        assert_eq!(names(temporary), [] as [PathBuf; 0], "temporary files are left");
        let home: Vec<_> =
            std::fs::read_dir(&room.home).unwrap().flatten().map(|entry| entry.file_name()).collect();
        assert!(home.iter().all(|name| name == "project" || name == ".ringfence"), "{home:?}");
        // And the next run is as good as the first.
        assert_eq!(room.fenced("cat .git/config").stdout, "[core]\n");
    }
}

/// Processes that work in that directory.
fn processes_in(directory: &Path) -> Vec<PathBuf> {
    let all = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    all.filter(|process| std::fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd == directory)).collect()
}

#[test]
fn a_hundred_kills_leave_nothing() {
    let mut watch = Watch::new("fault");
    let text = watch.command();
    let mut running = 0;
    for time in 0..TIMES {
        let child = watch.start(&["run", "--quiet", "--memory", "512M", "--processes", "100", "-c", &text]);
        running += u32::from(watch.kill(child, time, 15_000));
    }
    assert!(running >= TIMES / 4 - 2, "only {running} were killed while running");
    watch.nothing_is_left();
}

#[test]
fn a_hundred_kills_of_a_session_leave_nothing() {
    let mut watch = Watch::new("fault-session");
    watch.room.configure(r#"{ "limits": { "maxMemoryBytes": "512M", "maxProcesses": 100 } }"#);
    let line = json!({ "id": 1, "command": watch.command() });
    let mut running = 0;
    for time in 0..TIMES {
        let child = watch.start(&["session"]);
        writeln!(child.stdin.as_ref().unwrap(), "{line}").unwrap();
        running += u32::from(watch.kill(child, time, 40_000));
    }
    assert!(running >= TIMES / 4 - 2, "only {running} were killed while running");
    watch.nothing_is_left();
}
