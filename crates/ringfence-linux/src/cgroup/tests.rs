//! Tests that need the inside of the module. They run where groups can be made, and pass elsewhere.

use super::find::{Base, Controller, find};
use super::sweep::sweep;
use super::*;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

fn pids_base() -> Option<Base> {
    let found = find(&[Controller::Pids]);
    found.bases.into_iter().next()
}

fn dead_pid() -> u32 {
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    child.id()
}

#[test]
fn names_tell_their_owner() {
    let name = Name::random();
    assert_ne!(name, Name::random());
    let owner = Name::owner(name.as_c_str().to_bytes()).unwrap();
    assert_eq!(owner, rustix::process::getpid());
    for other in
        ["ringfence-1", "ringfence-x-0123456789abcdef", "ringfence-0-0123456789abcdef", "x", "ringfence-7-01"]
    {
        assert_eq!(Name::owner(other.as_bytes()), None, "{other}");
    }
}

#[test]
fn groups_of_the_dead_are_swept() {
    let Some(base) = pids_base() else { return };
    let make = |owner: u32| {
        let path = base.path.join(format!("ringfence-{owner}-00000000000000aa"));
        std::fs::create_dir(&path).unwrap();
        path
    };
    let (dead, used, live) = (make(dead_pid()), make(dead_pid()), make(std::process::id()));
    let mut inside = Command::new("sleep").arg("100").spawn().unwrap();
    std::fs::write(used.join("cgroup.procs"), inside.id().to_string()).unwrap();
    sweep(base.dir.as_fd(), Duration::from_secs(3600));
    assert!(dead.exists(), "too young");
    sweep(base.dir.as_fd(), Duration::ZERO);
    assert!(!dead.exists() && live.exists());
    assert!(used.exists() && inside.try_wait().unwrap().is_none(), "nothing that runs is touched");
    inside.kill().unwrap();
    inside.wait().unwrap();
    sweep(base.dir.as_fd(), Duration::ZERO);
    assert!(!used.exists());
    std::fs::remove_dir(live).unwrap();
}

/// Version 2 needs no controller to hold and kill processes, so this runs also where limits are of
/// version 1.
#[test]
fn version_2_kills_at_one_stroke() {
    let unified = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"];
    let path = unified.map(Path::new).into_iter().find(|path| path.join("cgroup.procs").exists());
    let Some(path) = path.filter(|path| path.join("cgroup.subtree_control").exists()) else { return };
    let Ok(base) = Base::open(path, Version::V2, Controller::Pids) else { return };
    let name = Name::random();
    let janitor = Janitor::start(std::slice::from_ref(&base), &name).unwrap();
    let group = Group::create(base, name.as_c_str()).map_err(|(_, errno)| errno).unwrap();
    let mut shell = Command::new("sh").args(["-c", "sleep 100 & wait"]).stdin(Stdio::null()).spawn().unwrap();
    group::write(group.door.as_ref().unwrap().as_fd(), shell.id().to_string().as_bytes()).unwrap();
    let mut members = 0;
    group::each_member(group.dir.as_fd(), |_| members += 1);
    assert!(members >= 1);
    group::kill_all(group.dir.as_fd());
    assert!(!shell.wait().unwrap().success());
    drop(janitor);
    assert!(!path.join(name.to_string()).exists());
}

#[test]
fn what_is_dropped_is_gone() {
    let limits = Limits { pids: Some(10), memory: None };
    let Created::Ready(cgroup) = Cgroup::create(&limits).unwrap() else { return };
    let path = cgroup.groups[0].base.path.join(cgroup.name.to_string());
    assert!(path.exists());
    let mut inside = Command::new("sleep").arg("100").spawn().unwrap();
    for door in cgroup.doors() {
        group::write(door, inside.id().to_string().as_bytes()).unwrap();
    }
    drop(cgroup);
    assert!(!path.exists());
    assert!(!inside.wait().unwrap().success());
}

#[test]
fn a_janitor_has_its_own_descriptors_only_however_many_its_program_has() {
    super::expect_many();
    let many: Vec<_> = (0..400).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
    let limits = Limits { pids: Some(10), memory: None };
    let [Created::Ready(first), Created::Ready(second)] = [(); 2].map(|()| Cgroup::create(&limits).unwrap())
    else {
        return ringfence_testing::lacks("control-groups", "none can be made");
    };
    for cgroup in [&first, &second] {
        let pid = cgroup.janitor().pid().unwrap().as_raw_nonzero();
        let open = || std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
        let begun = std::time::Instant::now();
        while open().count() > 3 && begun.elapsed() < std::time::Duration::from_secs(10) {
            std::thread::yield_now();
        }
        let numbers: Vec<i32> = open().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        assert!(numbers.len() <= 3 && numbers.iter().all(|number| *number < 256), "{numbers:?}");
    }
    assert!(many.iter().all(|file| file.metadata().is_ok()), "its program keeps its own");
    let paths = [&first, &second].map(|cgroup| cgroup.groups[0].base.path.join(cgroup.name.to_string()));
    // Each guards its own.
    drop(first);
    assert!(!paths[0].exists() && paths[1].exists());
    drop(second);
    assert!(!paths[1].exists());
}
