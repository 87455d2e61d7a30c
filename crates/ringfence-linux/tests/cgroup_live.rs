//! Control groups in a real kernel.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use ringfence_linux::cgroup::{Cgroup, Created, Limits, Support};
use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

fn create(limits: Limits) -> Option<Cgroup> {
    match Cgroup::create(&limits).unwrap() {
        Created::Ready(cgroup) if cgroup.enforced() == limits => Some(cgroup),
        Created::Ready(cgroup) => {
            ringfence_testing::lacks("control-groups", &format!("{:?}", cgroup.missing()));
            None
        }
        Created::Unavailable { reason } => {
            ringfence_testing::lacks("control-groups", &reason.to_string());
            None
        }
    }
}

/// Starts a command that places itself in the group before its exec.
fn spawn_in(cgroup: &Cgroup, command: &mut Command) -> Child {
    let doors: Vec<_> = cgroup.doors().map(|door| door.as_raw_fd()).collect();
    let enter = move || {
        for door in &doors {
            // SAFETY: one byte, to a descriptor that is open in the child too.
            if unsafe { libc::write(*door, c"0".as_ptr().cast(), 1) } != 1 {
                return Err(std::io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: the closure only writes, and allocates nothing.
    unsafe { command.pre_exec(enter) };
    command.spawn().unwrap()
}

/// Every directory in which groups may have been made, as seen by their names.
fn left_behind(owner: u32) -> Vec<PathBuf> {
    let prefix = format!("ringfence-{owner}-");
    let probe = Cgroup::probe();
    let mut left = Vec::new();
    for support in [probe.memory, probe.pids] {
        let Support::Yes { below, .. } = support else { continue };
        for entry in Path::new(&below).read_dir().unwrap().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                left.push(entry.path());
            }
        }
    }
    left
}

fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(30), "{what} did not come");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn is_running(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.trim_start().starts_with('Z') && !rest.is_empty())
}

#[test]
fn running_out_of_memory_is_counted() {
    let Some(cgroup) = create(Limits { memory: Some(48 * MIB), pids: None }) else { return };
    let status = spawn_in(&cgroup, Command::new("tail").arg("/dev/zero")).wait().unwrap();
    assert_eq!(status.signal(), Some(libc::SIGKILL));
    let memory = cgroup.usage().memory.unwrap();
    assert_eq!((memory.limit, memory.oom_kills), (48 * MIB, 1), "{memory:?}");
    assert!(memory.peak.is_none_or(|peak| peak > 40 * MIB && peak <= 48 * MIB), "{memory:?}");
    cgroup.remove().unwrap();
}

#[test]
fn what_fits_is_not_counted() {
    let Some(cgroup) = create(Limits { memory: Some(256 * MIB), pids: Some(20) }) else { return };
    assert!(spawn_in(&cgroup, &mut Command::new("true")).wait().unwrap().success());
    let usage = cgroup.usage();
    assert_eq!(usage.memory.unwrap().oom_kills, 0);
    assert_eq!(usage.pids.unwrap().refused, 0);
    cgroup.remove().unwrap();
}

#[test]
fn too_many_processes_are_refused_and_counted() {
    let Some(cgroup) = create(Limits { pids: Some(6), memory: None }) else { return };
    let mut command = Command::new("dash");
    command.args(["-c", "for i in 1 2 3 4 5 6 7 8 9; do sleep 100 & done; wait"]).stderr(Stdio::null());
    let status = spawn_in(&cgroup, &mut command).wait().unwrap();
    assert!(!status.success());
    let pids = cgroup.usage().pids.unwrap();
    assert_eq!(pids.limit, 6);
    assert!(pids.refused >= 1 && pids.peak.is_none_or(|peak| peak == 6), "{pids:?}");
    // Five sleepers are still there.
    cgroup.remove().unwrap();
}

#[test]
fn killing_empties_the_group() {
    let Some(cgroup) = create(Limits { pids: Some(50), memory: None }) else { return };
    let script = "for i in 1 2 3 4 5 6 7 8; do setsid sleep 100 & done; echo ready; wait";
    let mut shell = spawn_in(&cgroup, Command::new("dash").args(["-c", script]).stdout(Stdio::piped()));
    BufReader::new(shell.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
    cgroup.kill();
    assert_eq!(shell.wait().unwrap().signal(), Some(libc::SIGKILL));
    cgroup.remove().unwrap();
}

#[test]
fn a_process_places_itself() {
    let Some(cgroup) = create(Limits { memory: Some(64 * MIB), pids: Some(5) }) else { return };
    let mut child = spawn_in(&cgroup, Command::new("sleep").arg("100"));
    let groups = std::fs::read_to_string(format!("/proc/{}/cgroup", child.id())).unwrap();
    assert_eq!(groups.matches(&cgroup.name().to_string()).count(), cgroup.versions().count());
    let janitor = cgroup.janitor().pid().unwrap().as_raw_nonzero().get().cast_unsigned();
    assert!(is_running(janitor));
    cgroup.remove().unwrap();
    ringfence_linux::cgroup::settle();
    assert!(!is_running(janitor));
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
}

/// Set in the process that [`death_of_the_owner_leaves_nothing`] starts and kills.
const OWNER: &str = "RINGFENCE_TEST_OWNER";

#[expect(clippy::print_stdout, reason = "read by whoever started this process")]
fn be_owner() {
    println!("\nstarting");
    let Some(cgroup) = create(Limits { memory: Some(64 * MIB), pids: Some(9) }) else {
        println!("unavailable");
        return;
    };
    println!("janitor {}", cgroup.janitor().pid().unwrap().as_raw_nonzero());
    let mut child = spawn_in(&cgroup, Command::new("sleep").arg("1000"));
    println!("child {}", child.id());
    child.wait().unwrap();
}

fn owner() -> (Child, BufReader<std::process::ChildStdout>) {
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "death_of_the_owner_leaves_nothing", "--nocapture", "--test-threads=1"])
        .env(OWNER, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(owner.stdout.take().unwrap());
    let mut line = String::new();
    while line != "starting\n" {
        line.clear();
        assert_ne!(out.read_line(&mut line).unwrap(), 0);
    }
    (owner, out)
}

fn number(out: &mut impl BufRead, word: &str) -> Option<u32> {
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    line.strip_prefix(word)?.trim().parse().ok()
}

#[test]
fn death_of_the_owner_leaves_nothing() {
    if std::env::var_os(OWNER).is_some() {
        return be_owner();
    }
    let (mut owner, mut out) = owner();
    let Some(janitor) = number(&mut out, "janitor ") else {
        return ringfence_testing::lacks("control-groups", "the owner could make none");
    };
    let child = number(&mut out, "child ").unwrap();
    assert!(is_running(janitor) && is_running(child));
    eventually("its name", || {
        std::fs::read_to_string(format!("/proc/{janitor}/comm")).unwrap() == "ringfence-clean\n"
    });
    eventually("a clean descriptor table", || {
        // Two directories, the pipe and the owner.
        std::fs::read_dir(format!("/proc/{janitor}/fd")).unwrap().count() <= 4
    });
    assert!(!left_behind(owner.id()).is_empty());
    owner.kill().unwrap();
    owner.wait().unwrap();
    eventually("removal", || left_behind(owner.id()).is_empty());
    eventually("death of the child", || !is_running(child));
    eventually("the janitor's end", || !is_running(janitor));
    out.read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn death_at_any_moment_leaves_nothing() {
    if create(Limits { pids: Some(1), memory: None }).is_none() {
        return;
    }
    for step in 0..40 {
        let (mut owner, _out) = owner();
        std::thread::sleep(Duration::from_micros(step * 40));
        owner.kill().unwrap();
        owner.wait().unwrap();
        eventually("removal", || left_behind(owner.id()).is_empty());
    }
}

/// In a process of its own, as nextest gives each test.
#[test]
fn groups_that_others_left_are_swept_by_the_first_janitor() {
    let Some(cgroup) = create(Limits { pids: Some(9), memory: None }) else { return };
    let Support::Yes { below, .. } = Cgroup::outlook().pids else { panic!("it was just made") };
    let mut dead = Command::new("true").spawn().unwrap();
    dead.wait().unwrap();
    let make = |owner: u32, old: bool| {
        let path = Path::new(&below).join(format!("ringfence-{owner}-00000000000000a{}", u8::from(old)));
        std::fs::create_dir(&path).unwrap();
        if old {
            let hour_ago = std::time::SystemTime::now() - Duration::from_secs(3600);
            std::fs::File::open(&path).unwrap().set_modified(hour_ago).unwrap();
        }
        path
    };
    let (old, young) = (make(dead.id(), true), make(dead.id(), false));
    let living = make(std::process::id(), true);
    cgroup.leave();
    ringfence_linux::cgroup::settle();
    let swept = !old.exists();
    let kept = [young, living].map(|path| std::fs::remove_dir(path).is_ok());
    let _ = std::fs::remove_dir(old);
    assert_eq!((swept, kept), (true, [true; 2]));
}

#[test]
fn an_ordinary_user_is_told_why_not() {
    let answer = std::thread::spawn(|| {
        // The C library would change all threads.
        // SAFETY: changes the user of this thread only, which ends soon.
        unsafe { libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534) };
        Cgroup::create(&Limits { memory: Some(64 * MIB), pids: Some(9) })
    })
    .join()
    .unwrap();
    match answer.unwrap() {
        Created::Unavailable { reason } => {
            println!("{reason}");
            assert!(reason.contains("memory") && reason.contains("pids"), "{reason}");
        }
        Created::Ready(_) => println!("delegated to nobody"),
    }
}

#[test]
fn no_limit_needs_no_group() {
    assert!(matches!(Cgroup::create(&Limits::default()).unwrap(), Created::Unavailable { .. }));
}
