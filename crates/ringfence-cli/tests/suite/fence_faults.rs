//! Killed at any moment, ringfence leaves nothing: no process, mount, control group or file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

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
            name.strip_prefix("ringfence-").is_some_and(|rest| rest.len() == 16)
        };
        let named = entries.filter(|path| path.to_string_lossy().contains("ringfence"));
        named.filter(|path| !is_anothers(path)).collect()
    };
    ["/tmp", "/var/tmp", "/dev/shm", "/run"].into_iter().flat_map(in_directory).collect()
}

#[test]
fn a_hundred_kills_leave_nothing() {
    let room = Room::new();
    let marker = format!("fault-{}", std::process::id());
    room.write(".env", "canary");
    room.write(".git/config", "[core]\n");
    room.write("sub/.env", "canary");
    let temporary = room.home.parent().unwrap().join("temporary");
    std::fs::create_dir(&temporary).unwrap();
    let before = (names(&room.project), mounts(), temporary_files());
    let started = Instant::now();
    let (mut running, mut owners) = (0, Vec::new());
    for time in 0..TIMES {
        let text = format!(
            "(setsid bash -c 'exec -a {marker} sleep 60' &) ; exec -a {marker} bash -c 'while :; do cat .env; : > /tmp/x; done'"
        );
        let mut child = room
            .command(&["run", "--quiet", "--memory", "512M", "--processes", "100", "-c", &text])
            .env("TMPDIR", &temporary)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        owners.push(child.id());
        if time % 4 == 3 {
            // While the command runs.
            let runs = || processes_with(&marker).iter().any(|line| line.starts_with(&marker));
            running += u32::from(wait_until(Duration::from_secs(20), runs));
        } else {
            // Anywhere in the launch; 7919 spreads the moments evenly over 15 ms.
            std::thread::sleep(Duration::from_micros(u64::from(time) * 7919 % 15_000));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(started.elapsed() < Duration::from_secs(200), "too slow: {time} kills");
    }
    assert!(running >= TIMES / 4 - 2, "only {running} were killed while running");
    let gone = wait_until(Duration::from_secs(20), || processes_with(&marker).is_empty());
    assert!(gone, "processes are left: {:?}", processes_with(&marker));
    assert_eq!(names(&room.project), before.0, "the project changed");
    let left: Vec<_> = mounts().difference(&before.1).cloned().collect();
    assert_eq!(left, [] as [String; 0], "mounts are left");
    let no_group = wait_until(Duration::from_secs(20), || control_groups(&owners).is_empty());
    assert!(no_group, "control groups are left: {:?}", control_groups(&owners));
    let left: Vec<_> = temporary_files().into_iter().filter(|path| !before.2.contains(path)).collect();
    assert!(
        left.iter().all(|path| path.starts_with(room.home.parent().unwrap())),
        "files are left: {left:?}"
    );
    assert_eq!(names(&temporary), [] as [PathBuf; 0], "temporary files are left");
    let home: Vec<_> =
        std::fs::read_dir(&room.home).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert!(home.iter().all(|name| name == "project" || name == ".ringfence"), "{home:?}");
    // And the next run is as good as the first.
    assert_eq!(room.fenced("cat .git/config").stdout, "[core]\n");
}
