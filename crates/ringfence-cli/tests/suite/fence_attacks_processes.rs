//! Attacks on what other processes know: those of the host, and those that the sandbox is made by.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::suite::fence_support::{Launcher, for_every_launcher, wait_until};
use crate::suite::support::{Ran, Room};

for_every_launcher! {
    what_the_kernel_tells_of_itself_is_not_told_not_even_to_root,
    terminals_of_the_host_stay_closed,
    what_processes_of_the_host_have_open_stays_theirs,
    the_processes_that_make_the_sandbox_tell_nothing,
    links_of_the_first_process_lead_nowhere,
    who_holds_the_sandbox_without_a_pid_namespace_is_not_seen,
    no_terminal_from_inside_becomes_the_supervisors,
}

/// Starts the program as the leader of a session without a terminal, and waits until the command has touched `ready`.
fn leading_a_session(room: &Room, arguments: &[&str]) -> Child {
    let program = room.command(arguments);
    let mut command = Command::new("setsid");
    command.arg(program.get_program()).args(program.get_args());
    command.env_clear().envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.current_dir(&room.project).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let child = command.spawn().unwrap();
    assert!(wait_until(Duration::from_secs(30), || room.project.join("ready").exists()));
    child
}

/// A session leader that has no terminal gets the first one that it opens: keys typed at its other end would then reach
/// the supervisor.
fn no_terminal_from_inside_becomes_the_supervisors(launcher: Launcher) {
    let room = Room::on(launcher);
    room.write(
        "attack.py",
        "import os, pty, signal, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
master, slave = pty.openpty()
for flags in (os.O_RDWR, os.O_RDONLY, os.O_WRONLY):
    for name in (os.ttyname(slave), '/proc/self/fd/%d' % slave, '/dev/tty', '/dev/ptmx'):
        try: os.open(name, flags)
        except OSError: continue
open('ready', 'w').close()
os.write(master, b'\\x03')
while not os.path.exists('go'): time.sleep(0.01)
",
    );
    let arguments = ["run", "--no-gate", "--launcher", launcher.name(), "--", "python3", "attack.py"];
    let mut child = leading_a_session(&room, &arguments);
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    // State, parent, group, session, terminal.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    room.write("go", "");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!((fields[3], fields[4]), (child.id().to_string().as_str(), "0"), "{stat}");
}

/// A killed keeper leaves processes behind. They have no supervisor any more, and so no files.
#[test]
fn what_is_left_of_a_sandbox_whose_keeper_was_killed_opens_nothing() {
    let room = Room::on(Launcher::Landlock);
    room.write(".env", "canary-env");
    room.write(room.home.join("outside"), "canary-outside");
    room.write(
        "attack.py",
        "import os, time
open('ready', 'w').close()
while not os.path.exists('go'): time.sleep(0.01)
end = time.time() + 2
while time.time() < end:
    for path in ('.env', '../outside', '/etc/shadow'):
        try: print(open(path).read(), flush=True)
        except OSError: pass
    for path in ('made', '.vscode', '../made'):
        try: os.mkdir(path)
        except OSError: pass
    time.sleep(0.01)
print('over', flush=True)
",
    );
    let arguments = ["run", "--no-gate", "--launcher", "landlock", "-c", "setsid python3 attack.py & wait"];
    let child = leading_a_session(&room, &arguments);
    let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).unwrap();
    assert!(!children.trim().is_empty());
    for keeper in children.split_whitespace() {
        let pid = rustix::process::Pid::from_raw(keeper.parse().unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }
    std::thread::sleep(Duration::from_millis(200));
    room.write("go", "");
    let output = child.wait_with_output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(!stdout.contains("canary") && !stdout.contains("root:"), "{stdout}");
    assert!(!room.project.join(".vscode").exists() && !room.home.join("made").exists(), "{stdout}");
    assert!(!room.project.join("made").exists(), "nobody is left who would make it: {stdout}");
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
