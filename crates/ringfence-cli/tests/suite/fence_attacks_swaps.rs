//! Descriptors: what was given to read is not written, and what is swapped while a call is judged gains nothing.
//!
//! The swapping runs for some thousand calls here. For an hour, on every launcher, with another seed each time:
//!
//! ```console
//! RINGFENCE_SWAP_SECONDS=3600 RINGFENCE_SWAP_SEED=$RANDOM cargo test -p ringfence-cli nothing_that_is_swapped
//! ```

use std::fs::{File, OpenOptions};
use std::net::TcpListener;
use std::os::linux::fs::MetadataExt as _;
use std::os::unix::net::UnixListener;

use crate::suite::fence_support::{Launcher, SWAPS, for_every_launcher};
use crate::suite::support::Room;

for_every_launcher! {
    nothing_that_is_swapped_meanwhile_gains_anything,
    what_was_given_is_not_opened_for_more,
}

fn from_environment(name: &str, else_: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(else_)
}

/// Everything about a file that nobody inside may change. The mode of a git config may: git tries it out.
fn state(path: &std::path::Path) -> (u64, i64, i64, u64, String) {
    let stat = path.metadata().unwrap();
    let content = std::fs::read_to_string(path).unwrap();
    (stat.st_ino(), stat.st_mtime(), stat.st_mtime_nsec(), stat.st_nlink(), content)
}

#[test]
fn the_swapper_wins_where_nobody_looks() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(directory.path().join("n/.git/hooks")).unwrap();
    for (name, content) in [("n/.git/config", "[core]\n"), (".env", "canary")] {
        std::fs::write(directory.path().join(name), content).unwrap();
    }
    let said = SWAPS.unfenced(&["3000", "0", "7", "9"], directory.path());
    // What it writes over it cannot read any more.
    let is_whole = |name: &str, content: &str| {
        std::fs::read_to_string(directory.path().join(name)).is_ok_and(|now| now == content)
    };
    let is_kept = is_whole(".env", "canary") && is_whole("n/.git/config", "[core]\n");
    assert!(said.contains(" calls ") && (!is_kept || !said.contains(" 0 leaks")), "{said}");
}

fn nothing_that_is_swapped_meanwhile_gains_anything(launcher: Launcher) {
    let room = Room::on(launcher);
    room.helper(&SWAPS);
    let seconds = from_environment("RINGFENCE_SWAP_SECONDS", 0);
    let seed = from_environment("RINGFENCE_SWAP_SEED", 7);
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = tcp.local_addr().unwrap().port();
    let local = std::sync::OnceLock::new();
    let kept = std::sync::OnceLock::new();
    let files = || [".env", "n/.git/config"].map(|name| state(&room.project.join(name)));
    // All of it comes after the start: no mount stands behind a verdict.
    let come_late = || {
        room.write("n/.git/config", "[core]\n");
        std::fs::create_dir(room.project.join("n/.git/hooks")).unwrap();
        room.write(".env", "canary");
        local.set(UnixListener::bind(room.project.join("late.sock")).unwrap()).unwrap();
        kept.set(files()).unwrap();
    };
    let ran = room.fenced_while(come_late, &format!("./swaps 3000 {seconds} {seed} {port}"));
    assert!(ran.stdout.contains(" calls ") && ran.stdout.contains(" 0 leaks"), "seed {seed}: {ran:?}");
    assert!(!ran.stdout.contains(" 0 succeeded"), "{ran:?}");
    assert_eq!(files(), *kept.get().unwrap(), "seed {seed}");
    let hooks = std::fs::read_dir(room.project.join("n/.git/hooks")).unwrap().count();
    assert_eq!(hooks, 0, "seed {seed}");
    let local = local.get().unwrap();
    local.set_nonblocking(true).unwrap();
    tcp.set_nonblocking(true).unwrap();
    assert!(
        local.accept().is_err() && tcp.accept().is_err(),
        "seed {seed}: somebody of the host was reached"
    );
}

/// By every name of a descriptor: a file that is given to be read is not written, and a log that is given to append to is
/// neither read nor overwritten. For what they were given for, both can be opened again.
fn what_was_given_is_not_opened_for_more(launcher: Launcher) {
    const TRY: &str = "import ctypes, os, struct
libc = ctypes.CDLL(None, use_errno=True)
def open2(path, flags):
    fd = libc.syscall(437, -100, path.encode(), struct.pack('QQQ', flags, 0, 0), 24)
    if fd < 0: raise OSError(ctypes.get_errno(), path)
    return fd
def attempt(what, path, flags, use):
    for open in os.open, open2:
        try: got = use(open(path, flags))
        except OSError: continue
        print(what, open.__name__, path, got)
def names(number):
    yield from ('/proc/%s/fd/%d' % (who, number) for who in ('self', 'thread-self', os.getpid(), os.getppid()))
    yield '/dev/fd/%d' % number
os.symlink('/proc/self/fd/0', 'zero')
os.symlink('/proc/self/fd/2', 'two')
for name in [*names(0), '/dev/stdin', 'zero']:
    for flags in os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC, os.O_TRUNC, os.O_WRONLY | os.O_APPEND:
        attempt('written', name, flags, lambda fd: os.write(fd, b'evil'))
for name in [*names(2), '/dev/stderr', 'two']:
    for flags in os.O_RDONLY, os.O_RDWR:
        attempt('read', name, flags, lambda fd: os.read(fd, 100))
    for flags in os.O_WRONLY, os.O_WRONLY | os.O_TRUNC:
        attempt('logged', name, flags, lambda fd: os.write(fd, b'+'))
print('over')
";
    for precision in ["full", "writes", "off"] {
        let room = Room::on(launcher);
        room.write("try.py", TRY);
        let (given, log) = (room.write("../../given", "given"), room.write("../../log", "canary\n"));
        let output = room
            .command(&["run", "--no-gate", "--launcher", launcher.name(), "--precision", precision])
            .args(["-c", "python3 try.py"])
            .stdin(File::open(&given).unwrap())
            .stderr(OpenOptions::new().append(true).open(&log).unwrap())
            .output()
            .unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout);
        let not_logged: Vec<&str> = stdout.lines().filter(|line| !line.starts_with("logged")).collect();
        assert_eq!(not_logged, ["over"], "{precision}");
        assert_eq!(std::fs::read_to_string(&given).unwrap(), "given", "{precision}");
        let log = std::fs::read_to_string(&log).unwrap();
        let added = stdout.lines().filter(|line| line.starts_with("logged")).count();
        assert!(log.starts_with("canary\n") && log.matches('+').count() >= added, "{precision}: {log}");
    }
}
