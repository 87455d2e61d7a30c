//! Attacks on the kernel's interface, from inside. Each is also made outside where that is harmless, so that a
//! refusal is known to be the fence's doing.

use crate::suite::fence_support::{KERNEL, Launcher, SOCKETS, Victim, for_every_launcher, is_root};
use crate::suite::support::Room;

for_every_launcher! {
    nothing_made_inside_runs_with_rights_of_its_own,
    no_new_namespaces_and_no_mounts,
    the_kernels_dangerous_corners_are_closed,
    foreign_calling_conventions_are_rejected,
    init_cannot_be_opened_traced_or_robbed,
    processes_of_the_host_are_out_of_reach,
    the_machine_cannot_be_changed_not_even_as_root,
    no_capability_and_no_descriptor_is_left,
    a_descriptor_that_the_caller_left_open_does_not_get_in,
    set_user_id_programs_gain_nothing,
    copied_and_linker_started_programs_are_held_too,
    refused_calls_are_told_by_name,
}

/// Runs the probes in one sandbox; gives `name: answer` for those that were not refused.
fn allowed(room: &Room, probes: &[&str]) -> Vec<String> {
    room.helper(&KERNEL);
    let script: String =
        probes.iter().map(|probe| format!("echo \"{probe}: $(./kernel {probe} 2>&1)\"\n")).collect();
    let ran = room.fenced(&script);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines.len(), probes.len(), "{ran:?}");
    lines.iter().filter(|line| !line.contains(": refused ")).map(|line| (*line).to_owned()).collect()
}

fn no_new_namespaces_and_no_mounts(launcher: Launcher) {
    let room = Room::on(launcher);
    let project = room.project.display().to_string();
    let with_place = |probe: &str| format!("{probe} {project}");
    let placed: Vec<String> =
        ["umount", "mount-remount", "mount-setattr", "open-tree-plain"].map(with_place).to_vec();
    let mut probes = vec![
        "unshare-user",
        "unshare-mount",
        "unshare-user-and-mount",
        "unshare-net",
        "unshare-pid",
        "unshare-time",
        "clone-user",
        "clone-user-and-pid",
        "clone3-user",
        "clone3-plain",
        "setns-own",
        "setns-own-user",
        "setns-init",
        "mount-tmpfs",
        "mount-bind",
        "mount-proc",
        "umount /proc",
        "umount /",
        "umount /tmp",
        "mount-remount /usr",
        "mount-remount /",
        "mount-setattr /",
        "pivot-root",
        "chroot",
        "open-tree",
        "move-mount",
        "fsopen",
        "fspick",
    ];
    probes.extend(placed.iter().map(String::as_str));
    assert_eq!(allowed(&room, &probes), Vec::<String>::new());
    // The same program can do it outside.
    assert_eq!(KERNEL.unfenced(&["clone3-plain"], &room.project), "ALLOWED");
    if is_root() {
        assert_eq!(KERNEL.unfenced(&["unshare-mount"], &room.project), "ALLOWED");
    }
}

fn the_kernels_dangerous_corners_are_closed(launcher: Launcher) {
    let room = Room::on(launcher);
    let probes = [
        "io-uring",
        "bpf",
        "keyctl",
        "add-key",
        "request-key",
        "userfaultfd",
        "perf",
        "name-to-handle",
        "open-by-handle",
        "fanotify",
        "kexec",
        "init-module",
        "delete-module",
        "syslog",
        "iopl",
        "modify-ldt",
        "personality",
        "no-randomisation",
        "swapon",
        "acct",
        "sethostname",
        "mknod-device",
        "mknod-block",
        "tiocsti",
        "tioclinux",
        "tiocsti-high-bits",
        "raise-limit",
        "raise-ambient",
        "setuid-other",
        "setgroups",
    ];
    assert_eq!(allowed(&room, &probes), Vec::<String>::new());
    for probe in ["keyctl", "name-to-handle", "modify-ldt", "personality", "no-randomisation", "tiocsti"] {
        assert_eq!(KERNEL.unfenced(&[probe], &room.project), "ALLOWED", "{probe} outside");
    }
}

fn foreign_calling_conventions_are_rejected(launcher: Launcher) {
    let room = Room::on(launcher);
    assert_eq!(allowed(&room, &["i386", "x32", "x32-unshare", "i386-mkdir evil"]), Vec::<String>::new());
    assert!(!room.project.join("evil").exists());
}

fn init_cannot_be_opened_traced_or_robbed(launcher: Launcher) {
    let room = Room::on(launcher);
    let probes = [
        "ptrace-attach-init",
        "ptrace-seize-init",
        "vm-read-init",
        "vm-write-init",
        "pidfd-getfd-init",
        "pidfd-getfd-init-3",
        "kcmp-init",
        "prlimit-init",
        "read /proc/1/mem",
        "open-write /proc/1/mem",
        "read /proc/1/environ",
        "read /proc/1/maps",
        "read /proc/1/auxv",
        "open-path /proc/1/root/etc",
        "open-path /proc/1/cwd/etc",
        "open-path /proc/1/fd/0",
        "open-path /proc/1/fd/3",
        "open-path /proc/1/ns/mnt",
        "open-path /proc/1/exe",
    ];
    assert_eq!(allowed(&room, &probes), Vec::<String>::new());
}

fn processes_of_the_host_are_out_of_reach(launcher: Launcher) {
    let room = Room::on(launcher);
    let mut victim = Victim::new();
    let pid = victim.pid();
    let probes: Vec<String> = [
        "kill",
        "tgkill",
        "pidfd-open",
        "ptrace-attach",
        "ptrace-seize",
        "vm-read",
        "renice",
        "idle",
        "idle-attr",
        "affinity",
        "ioprio",
        "prlimit-look",
    ]
    .map(|probe| format!("{probe} {pid}"))
    .into_iter()
    .collect();
    let probes: Vec<&str> = probes.iter().map(String::as_str).collect();
    assert_eq!(allowed(&room, &probes), Vec::<String>::new());
    for probe in ["kill", "renice", "idle", "idle-attr", "affinity", "ioprio", "prlimit-look"] {
        assert_eq!(KERNEL.unfenced(&[probe, &pid.to_string()], &room.project), "ALLOWED", "{probe} outside");
    }
    let runs_as = |victim: &Victim| {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", victim.pid())).unwrap();
        stat.split_whitespace().nth(18).unwrap().to_owned()
    };
    let other = Victim::new();
    let before = runs_as(&other);
    // In a pid namespace these are about the processes in it.
    allowed(&room, &["renice-user", "ioprio-user"]);
    assert_eq!(runs_as(&other), before);
    let seen = room.fenced("cat /proc/[0-9]*/cmdline | tr '\\0' ' '; ls /proc | grep -c '^[0-9]'");
    assert!(!seen.stdout.contains("sleep 600"), "{seen:?}");
    assert!(victim.lives());
}

fn the_machine_cannot_be_changed_not_even_as_root(launcher: Launcher) {
    let room = Room::on(launcher);
    let probes = [
        "write /proc/sysrq-trigger h",
        "write /proc/sys/kernel/core_pattern evil",
        "write /proc/sys/kernel/hostname evil",
        "write /proc/sys/vm/drop_caches 1",
        "write /proc/sys/fs/file-max 1",
        "write /proc/self/uid_map 0",
        "write /proc/irq/default_smp_affinity 1",
        "open-write /sys/kernel/uevent_helper",
        "open-write /sys/devices/system/cpu/online",
        "read /proc/kcore",
        "read /proc/kmsg",
        "read /dev/mem",
        "read /dev/kmsg",
        "read /dev/sda",
        "read /dev/vda",
        "open-write /dev/fuse",
        "open-write /dev/kvm",
        "open-write /dev/net/tun",
        "chmod /dev/null",
        "chown /dev/null",
        "utime /dev/null",
        "setxattr /dev/null",
        "chmod /dev/tty",
        "chmod /etc/hosts",
        "chown /etc/hosts",
        "utime /etc/hosts",
        "truncate /etc/hosts",
        "open-write /etc/hosts",
        "open-write /etc/passwd",
        "open-write /usr/bin/env",
        "chmod /usr/bin/env",
        "chmod /",
        "chmod /usr",
        "link-from /usr/bin/env",
        "read /etc/shadow",
        "read /etc/passwd-",
        "read /etc/machine-id",
    ];
    let mode = |path: &str| {
        use std::os::unix::fs::MetadataExt;
        let metadata = std::fs::metadata(path).unwrap();
        (metadata.mode(), metadata.uid(), metadata.mtime())
    };
    let watched = ["/dev/null", "/etc/hosts", "/usr/bin/env"];
    let before = watched.map(mode);
    assert_eq!(allowed(&room, &probes), Vec::<String>::new());
    assert_eq!(watched.map(mode), before);
}

fn no_capability_and_no_descriptor_is_left(launcher: Launcher) {
    let room = Room::on(launcher);
    assert_eq!(allowed(&room, &["descriptor-above-2"]), Vec::<String>::new());
    let status = room.fenced("grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status | tr -d '\\t '");
    let want = "CapInh:0000000000000000\nCapPrm:0000000000000000\nCapEff:0000000000000000\n\
                CapBnd:0000000000000000\nCapAmb:0000000000000000\nNoNewPrivs:1\nSeccomp:2\n";
    let bounded = status.promises("boundingSet");
    let asked = |text: &str| -> Vec<String> {
        text.lines().filter(|line| bounded || !line.starts_with("CapBnd")).map(str::to_owned).collect()
    };
    assert_eq!(asked(&status.stdout), asked(want));
}

fn a_descriptor_that_the_caller_left_open_does_not_get_in(launcher: Launcher) {
    let room = Room::on(launcher);
    let secret = room.write("../secret", "canary");
    // bash leaves descriptor 9 open for what it starts.
    let output = std::process::Command::new("bash")
        .args(["-c", "exec 9<\"$1\"; shift; exec \"$@\"", "bash"])
        .arg(&secret)
        .arg(env!("CARGO_BIN_EXE_ringfence"))
        .args(["run", "--launcher", launcher.name(), "--", "bash", "-c", "cat <&9; ls /proc/self/fd"])
        .current_dir(&room.project)
        .env("HOME", &room.home)
        .env("RINGFENCE_HOME", &room.ringfence_home)
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(!stdout.contains("canary"), "{stdout}");
    assert!(!stdout.lines().any(|fd| fd == "9"), "{stdout}");
}

fn set_user_id_programs_gain_nothing(launcher: Launcher) {
    let room = Room::on(launcher);
    let ran = room.fenced(
        "for p in /usr/bin/su /usr/bin/passwd /usr/bin/mount /usr/bin/newgrp /usr/bin/sudo; do \
         [ -u $p ] && $p -c 'id -u; cat /proc/self/status' </dev/null 2>/dev/null | grep CapEff; done; \
         cp /usr/bin/id . && chmod u+s,g+s id; ./id -u; true",
    );
    assert!(
        !ran.stdout.lines().any(|line| line.starts_with("CapEff") && !line.ends_with("0000000000000000"))
    );
    let own = rustix::process::geteuid().as_raw().to_string();
    assert_eq!(ran.stdout.lines().last(), Some(own.as_str()), "{ran:?}");
}

/// The host would run them as their owner, or with what they hold.
fn nothing_made_inside_runs_with_rights_of_its_own(launcher: Launcher) {
    let room = Room::on(launcher);
    room.write(
        "make.py",
        r#"
import ctypes, os, struct
libc = ctypes.CDLL(None, use_errno=True)
def raw(number, *words):
    if libc.syscall(number, *words) < 0: raise OSError(ctypes.get_errno(), "call")
def how(path, flags, mode):
    raw(437, -100, path.encode(), struct.pack("QQQ", flags, mode, 0), 24)
def made(name):
    open(name, "w").close()
    return name
ways = {
    "chmod": lambda n: os.chmod(made(n), 0o4755),
    "chmod-group": lambda n: os.chmod(made(n), 0o2755),
    "chmod-at": lambda n: os.chmod(made(n), 0o4755, dir_fd=os.open(".", os.O_RDONLY)),
    "fchmod": lambda n: os.fchmod(os.open(made(n), os.O_RDWR), 0o6755),
    "fchmodat2": lambda n: raw(452, -100, made(n).encode(), 0o4755, 0),
    "fchmodat2-empty": lambda n: raw(452, os.open(made(n), os.O_RDWR), b"", 0o4755, 0x1000),
    "proc": lambda n: os.chmod("/proc/self/fd/%d" % os.open(made(n), os.O_RDWR), 0o4755),
    "open": lambda n: os.open(n, os.O_CREAT | os.O_WRONLY, 0o4755),
    "openat2": lambda n: how(n, os.O_CREAT | os.O_WRONLY, 0o4755),
    "tmpfile": lambda n: os.link("/proc/self/fd/%d" % os.open(os.path.dirname(n), os.O_TMPFILE | os.O_RDWR, 0o4755), n, src_dir_fd=0),
    "mknod": lambda n: os.mknod(n, 0o104755),
    "capability": lambda n: os.setxattr(made(n), "security.capability", struct.pack("<5I", 0x02000001, 0x400, 0, 0, 0)),
    "fcapability": lambda n: os.setxattr(os.open(made(n), os.O_RDWR), "security.capability", struct.pack("<5I", 0x02000001, 0x400, 0, 0, 0)),
}
for where in ".", os.environ.get("TMPDIR", "/tmp"), os.path.expanduser("~"):
    os.umask(0)
    for way, make in ways.items():
        name = os.path.join(where, way)
        try: make(name)
        except OSError: pass
        try: found = os.lstat(name).st_mode & 0o6000 or "security.capability" in os.listxattr(name)
        except FileNotFoundError: found = False
        if found: print(name)
os.mkdir("shared"); os.chmod("shared", 0o2775)
print(oct(os.stat("shared").st_mode & 0o7777))
"#,
    );
    for precision in ["full", "writes", "off"] {
        let ran = room.fenced_with(&["--precision", precision], "rm -rf shared; python3 make.py");
        let directory = if precision == "off" && launcher != Launcher::Landlock { "" } else { "0o2775\n" };
        assert_eq!(ran.stdout, directory, "{precision}: {ran:?}");
        if precision == "full" {
            // Capabilities the kernel refuses anyway, without a word.
            assert!(["fchmod", "setxattr"].iter().all(|call| ran.resources().contains(call)), "{ran:?}");
        }
    }
}

fn copied_and_linker_started_programs_are_held_too(launcher: Launcher) {
    let room = Room::on(launcher);
    room.write("../.ssh/id_rsa", "canary");
    room.helper(&KERNEL);
    room.helper(&SOCKETS);
    let ran = room.fenced(
        "cp /bin/cat mycat; chmod +x mycat; ./mycat ~/.ssh/id_rsa; \
         cp mycat /tmp/c && /tmp/c ~/.ssh/id_rsa; cp mycat /dev/shm/c && /dev/shm/c ~/.ssh/id_rsa; \
         l=$(ls /lib64/ld-linux* /lib/ld-linux* 2>/dev/null | head -1); \
         $l /bin/cat ~/.ssh/id_rsa; chmod -x kernel; $l ./kernel unshare-user; \
         python3 -c 'import os; os.execv(\"/bin/cat\", [\"cat\", os.path.expanduser(\"~/.ssh/id_rsa\")])'; \
         perl -e 'exec \"/bin/cat\", \"$ENV{HOME}/.ssh/id_rsa\"'; false",
    );
    assert!(!ran.stdout.contains("canary") && !ran.stdout.contains("ALLOWED"), "{ran:?}");
    assert!(ran.blocked);
}

fn refused_calls_are_told_by_name(launcher: Launcher) {
    let room = Room::on(launcher);
    for (call, command) in [
        ("mount", "mount -t tmpfs none /tmp"),
        ("unshare", "unshare -Ur true"),
        ("syslog", "dmesg"),
        ("mknod", "mknod device c 1 3"),
        ("chroot", "python3 -c 'import os; os.chroot(\".\")'"),
    ] {
        // The program itself sends anybody else away.
        if call == "mount" && !is_root() {
            continue;
        }
        let ran = room.fenced(command);
        assert!(ran.blocked && ran.code != 0, "{command}: {ran:?}");
        assert!(
            ran.resource.as_deref().is_some_and(|resource| resource.starts_with(call)),
            "{command}: {ran:?}"
        );
        let violations = ran.json["violations"].as_array().unwrap();
        let told = violations.iter().find(|violation| violation["kind"] == "syscall_denied");
        assert!(told.is_some_and(|told| told["certain"] == true), "{command}: {ran:?}");
    }
    // Whoever does without it is not blocked.
    let ran = room.fenced("unshare -Ur true; echo went on");
    assert!(!ran.blocked && ran.stdout.contains("went on") && ran.resources() == ["unshare"], "{ran:?}");
}
