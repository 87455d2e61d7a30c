//! Attacks on what other processes know: those of the host, and those that the sandbox is made by.

use crate::suite::fence_support::{Launcher, for_every_launcher};
use crate::suite::support::{Ran, Room};

for_every_launcher! {
    what_the_kernel_tells_of_itself_is_not_told_not_even_to_root,
    terminals_of_the_host_stay_closed,
    what_processes_of_the_host_have_open_stays_theirs,
    the_processes_that_make_the_sandbox_tell_nothing,
    links_of_the_first_process_lead_nowhere,
    who_holds_the_sandbox_without_a_pid_namespace_is_not_seen,
}

fn what_processes_of_the_host_have_open_stays_theirs(launcher: Launcher) {
    use std::io::Write as _;
    let room = Room::on(launcher);
    let mut child =
        std::process::Command::new("sleep").arg("300").stdin(std::process::Stdio::piped()).spawn().unwrap();
    child.stdin.as_mut().unwrap().write_all(b"hunter2\n").unwrap();
    let id = child.id();
    let ran = room.fenced(&format!(
        "for f in /proc/{id}/fd/0 /proc/{id}/exe /proc/{id}/root/etc/hostname /proc/{id}/task/{id}/fd/0 /proc/{id}/environ; do \
         timeout 2 head -c 8 $f && echo leaked; done; true"
    ));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(ran.stdout, "", "{ran:?}");
}

/// Their memory is a copy of what the host side has, with all of its environment.
fn the_processes_that_make_the_sandbox_tell_nothing(launcher: Launcher) {
    let room = Room::on(launcher);
    let look = "exec 3</proc/1/environ && cat <&3; exec 4</proc/$PPID/environ && cat <&4
        for i in $(seq 30); do cat /proc/1/environ /proc/$PPID/environ /proc/1/task/1/environ; done
        cat /proc/*/environ /proc/1/mem /proc/1/fd/* /proc/1/root/proc/1/environ | head -c 1000000
        for p in self $$; do cat /proc/$p/environ | tr '\\0' '\\n' | grep -c '^PATH='; done
        (read -r name < /proc/$$/comm; echo $name; head -c 4 /proc/$$/maps > /dev/null && echo maps)";
    for _ in 0..5 {
        let arguments = ["run", "--no-gate", "--json", "--launcher", launcher.name(), "-c", look];
        let ran = room.command(&arguments).env("CANARY_OF_THE_HOST", "canary-environment").output().unwrap();
        let result = Ran::of(ran).json();
        let stdout = result["stdout"].as_str().unwrap();
        assert!(!stdout.contains("canary"), "{result}");
        // What is inside may be looked at.
        assert!(stdout.ends_with("1\n1\nbash\nmaps\n"), "{result}");
    }
}

/// Landlock keeps the caller from following them, and holds nobody who would follow them for it.
fn links_of_the_first_process_lead_nowhere(launcher: Launcher) {
    let room = Room::on(launcher);
    let ran = room.fenced(
        "for p in 1 $PPID; do
            for n in $(seq 0 40); do (exec 3< /proc/$p/fd/$n) && echo fd $n; (exec 3> /proc/$p/fd/$n) && echo fd $n; done
            for f in root/etc/hostname cwd/. root/proc/self/comm exe task/$p/root/etc/hostname; do (exec 3< /proc/$p/$f) && echo $f; done
            for d in fd fdinfo ns map_files root cwd; do ls /proc/$p/$d/ && echo $d; done
        done 2> /dev/null
        (exec 3< /proc/self/root/etc/hostname) && (exec 3< /proc/$$/fd/0) && (exec 3< /proc/$$/exe) && echo own",
    );
    assert_eq!(ran.stdout, "own\n", "{ran:?}");
}

/// Nor is anything that everybody may know of a process.
fn who_holds_the_sandbox_without_a_pid_namespace_is_not_seen(launcher: Launcher) {
    let room = Room::on(launcher);
    let ran = room.fenced(
        "cat /proc/$PPID/comm /proc/$PPID/cmdline /proc/$PPID/stat && echo seen; cat /proc/$$/comm; true",
    );
    let is_seen = ran.stdout.contains("seen");
    assert_eq!(is_seen, launcher != Launcher::Landlock, "{ran:?}");
    assert!(ran.stdout.ends_with("bash\n"), "{ran:?}");
}

fn what_the_kernel_tells_of_itself_is_not_told_not_even_to_root(launcher: Launcher) {
    let room = Room::on(launcher);
    let ran = room.fenced_with(
        &["--env", "CANARY=canary-argument"],
        "for f in kcore key-users keys kpagecgroup kpagecount kpageflags pagetypeinfo sched_debug slabinfo timer_list vmallocinfo; do
            (exec 3< /proc/$f) 2> /dev/null && echo $f
        done
        cat /proc/1/cmdline | tr '\\0' ' ' | grep canary
        cat /proc/meminfo /proc/cpuinfo /proc/uptime > /dev/null && echo told",
    );
    assert_eq!(ran.stdout, "told\n", "{ran:?}");
}

/// Where there are no mounts, they are in the same directory as the sandbox's own.
fn terminals_of_the_host_stay_closed(launcher: Launcher) {
    let room = Room::on(launcher);
    let master =
        rustix::pty::openpt(rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY).unwrap();
    rustix::pty::unlockpt(&master).unwrap();
    let slave = rustix::pty::ptsname(&master, Vec::new()).unwrap();
    let slave = slave.to_str().unwrap();
    let ran = room.fenced(&format!(
        "python3 - <<'END'
import os, pty
mine, other = pty.openpty()
for path in '{slave}', os.ttyname(other):
    try: os.open(path, os.O_RDWR | os.O_NOCTTY); print(path == '{slave}')
    except OSError: pass
END"
    ));
    // The same number may be its own where it has a directory of its own.
    assert!(!ran.stdout.contains("True") || ran.promises("noNamespaces"), "{ran:?}");
    if launcher == Launcher::Landlock {
        assert_eq!(ran.stdout, "False\n", "{ran:?}");
    }
}
