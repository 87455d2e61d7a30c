//! What ordinary software does, and what it reads then: the same as on a host.

use crate::suite::fence_support::{Fenced, Launcher, for_every_launcher, has};
use crate::suite::support::Room;

for_every_launcher! {
    a_private_place_is_empty_whatever_the_host_has_there,
    the_user_root_and_nobody_have_names_and_no_other,
    the_machine_knows_its_own_name,
    processes_of_one_sandbox_trace_each_other,
    what_is_missing_is_missing_and_not_read_only,
    the_lock_of_a_closed_file_is_gone,
    shared_memory_semaphores_and_terminals_are_its_own,
    servers_on_loopback_are_its_own,
}

/// A program that says what it found out, line by line.
#[track_caller]
fn says(room: &Room, script: &str) -> Fenced {
    let ran = room.fenced(script);
    assert_eq!(ran.code, 0, "{ran:?}");
    ran
}

fn a_private_place_is_empty_whatever_the_host_has_there(launcher: Launcher) {
    let room = Room::on(launcher);
    room.write("../.cache/tool/log", "host");
    room.write("../.npm/_logs/a.log", "host");
    room.write("../notes/letter.txt", "dear");
    let ran = says(
        &room,
        r#"set -e
        mkdir ~/.cache/tool/new 2>/dev/null && echo no parent
        mkdir -p ~/.cache/tool/deep/er ~/.npm/_logs/x ~/notes/sub
        rm -f ~/notes/letter.txt ~/.npm/_logs/a.log
        python3 - <<'END'
import errno, os, socket
home = os.path.expanduser("~")
def code(call, *rest):
    try: call(*rest)
    except OSError as error: return errno.errorcode[error.errno]
    return "done"
gone = home + "/.cache/tool/log"
print(code(os.unlink, gone), code(os.rmdir, gone), code(os.rename, gone, gone + "2"), code(open, gone))
print(code(os.chmod, gone, 0o600), code(os.truncate, gone, 0), code(os.open, gone, os.O_WRONLY), code(os.chdir, gone))
print(code(open, home + "/notes/letter.txt"), code(os.listdir, home + "/other"))
print(code(os.makedirs, home + "/.npm/_cacache/tmp"), code(socket.socket(socket.AF_UNIX).connect, gone))
END
        [ -z "$(ls ~/notes/sub)" ] && echo empty"#,
    );
    let missing =
        "ENOENT ENOENT ENOENT ENOENT\nENOENT ENOENT ENOENT ENOENT\nENOENT ENOENT\ndone ENOENT\nempty\n";
    assert_eq!(ran.stdout, missing, "{ran:?}");
    assert!(!ran.blocked, "{ran:?}");
    // That the person has such a file is told.
    assert!(ran.resources().iter().any(|path| path.ends_with("notes/letter.txt")), "{ran:?}");
    let node = "require('fs').mkdirSync(process.env.HOME + '/.npm/_logs/deep/er', { recursive: true })";
    if has("node", &["--version"]) {
        says(&room, &format!("node -e \"{node}\""));
    }
}

fn the_user_root_and_nobody_have_names_and_no_other(launcher: Launcher) {
    let room = Room::on(launcher);
    let ran = says(
        &room,
        r#"python3 - <<'END'
import getpass, grp, os, pwd
me = pwd.getpwuid(os.getuid())
assert me.pw_dir == os.environ["HOME"], me
assert pwd.getpwnam("root").pw_uid == 0 and pwd.getpwnam("nobody")
assert {entry.pw_uid for entry in pwd.getpwall()} == {0, os.getuid(), 65534}, pwd.getpwall()
assert grp.getgrgid(os.getgid()) and not any(group.gr_mem for group in grp.getgrall())
print(me.pw_name)
END
        whoami; id -un; [ -r /etc/passwd ] && echo readable"#,
    );
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert!(matches!(lines[..], [a, b, c, "readable"] if a == b && b == c), "{ran:?}");
    assert!(ran.resources().is_empty(), "{ran:?}");
    if has("node", &["--version"]) {
        says(&room, "node -e 'require(\"os\").userInfo()'");
    }
    // Somebody's own rule is above it.
    let ran = room.fenced_with(&["--deny", "/etc/pass*"], "cat /etc/passwd");
    assert!(ran.code != 0 && ran.stdout.is_empty() && ran.blocked, "{ran:?}");
}

fn the_machine_knows_its_own_name(launcher: Launcher) {
    let room = Room::on(launcher);
    let ran = says(
        &room,
        "python3 -c 'import socket; print(socket.gethostbyname(socket.gethostname()))'; getent hosts $(hostname) > /dev/null",
    );
    assert!(ran.stdout.contains('.'), "{ran:?}");
}

/// Debuggers and the leak checker of compilers attach to processes beside them.
fn processes_of_one_sandbox_trace_each_other(launcher: Launcher) {
    let room = Room::on(launcher);
    let ran = says(
        &room,
        r#"python3 - <<'END'
import ctypes, os, signal, time
libc = ctypes.CDLL(None, use_errno=True)
def ptrace(request, pid): return libc.ptrace(request, pid, None, None)
for request in 16, 0x4206:
    child = os.fork()
    if child == 0:
        libc.prctl(0x59616d61, ctypes.c_ulong(-1), 0, 0, 0)
        time.sleep(60)
    time.sleep(0.1)
    print(ptrace(request, child), ctypes.get_errno())
    os.kill(child, signal.SIGKILL)
END"#,
    );
    assert_eq!(ran.stdout, "0 0\n0 0\n", "{ran:?}");
    if has("gcc", &["--version"]) {
        let leaks = "printf '#include <stdlib.h>\nint main(void) { return malloc(9) == 0; }' > a.c; \
                     gcc -fsanitize=address a.c -o a 2>/dev/null || exit 0; ASAN_OPTIONS=detect_leaks=1 ./a";
        assert_eq!(room.fenced(leaks).stderr.matches("fatal error").count(), 0);
    }
}

fn what_is_missing_is_missing_and_not_read_only(launcher: Launcher) {
    let room = Room::on(launcher);
    let ran = says(
        &room,
        r#"python3 - <<'END'
import errno, os
def code(call, *rest):
    try: call(*rest)
    except OSError as error: return errno.errorcode[error.errno]
for path in "/usr/no-such", "/etc/no-such", "/usr/no/such":
    print(code(os.unlink, path), code(os.rmdir, path), code(os.rename, path, path + "2"), code(os.chmod, path, 0))
END"#,
    );
    assert_eq!(ran.stdout, "ENOENT ENOENT ENOENT ENOENT\n".repeat(3), "{ran:?}");
}

fn the_lock_of_a_closed_file_is_gone(launcher: Launcher) {
    let room = Room::on(launcher);
    let ran = says(
        &room,
        r#"touch lock; python3 - <<'END'
import fcntl, os
held = 0
for _ in range(300):
    other = os.open("lock", os.O_RDONLY)
    file = os.open("lock", os.O_WRONLY)
    fcntl.flock(file, fcntl.LOCK_EX)
    os.close(file)
    try: fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError: held += 1
    os.close(other)
print(held)
END"#,
    );
    assert_eq!(ran.stdout, "0\n", "{ran:?}");
}

fn shared_memory_semaphores_and_terminals_are_its_own(launcher: Launcher) {
    let room = Room::on(launcher);
    let ran = says(
        &room,
        r#"python3 - <<'END'
import multiprocessing, os, pty
from multiprocessing import shared_memory
def work(lock, name):
    with lock:
        memory = shared_memory.SharedMemory(name)
        memory.buf[0] += 1
        memory.close()
memory = shared_memory.SharedMemory("ringfence-test-%d" % os.getpid(), create=True, size=4096)
lock = multiprocessing.Lock()
children = [multiprocessing.Process(target=work, args=(lock, memory.name)) for _ in range(3)]
for child in children: child.start()
for child in children: child.join()
print(memory.buf[0])
memory.close(); memory.unlink()
master, slave = pty.openpty()
os.write(slave, b"hello\n")
print(os.read(master, 100))
print(os.isatty(slave))
END
        script -qec 'tty && echo on it' /dev/null | tail -1 | tr -d '\r'
        ls /dev/shm | wc -l"#,
    );
    assert_eq!(ran.stdout, "3\nb'hello\\r\\n'\nTrue\non it\n0\n", "{ran:?}");
}

fn servers_on_loopback_are_its_own(launcher: Launcher) {
    let room = Room::on(launcher);
    let host = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let any = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    let ports = [&host, &any].map(|listener| listener.local_addr().unwrap().port());
    let ran = says(
        &room,
        &format!(
            r#"python3 - <<'END'
import http.server, socket, threading, urllib.request
class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *rest): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
threading.Thread(target=server.serve_forever, daemon=True).start()
for _ in range(20):
    assert urllib.request.urlopen("http://127.0.0.1:%d/" % server.server_port, timeout=20).status == 200
for port in {ports:?}:
    try: socket.create_connection(("127.0.0.1", port), timeout=5); print("reached the host")
    except OSError: pass
server.shutdown(); server.server_close()
try: socket.create_connection(("127.0.0.1", server.server_port), timeout=5); print("reached nobody")
except OSError: pass
print("served")
END"#
        ),
    );
    assert_eq!(ran.stdout, "served\n", "{ran:?}");
    host.set_nonblocking(true).unwrap();
    assert!(host.accept().is_err(), "somebody inside reached the host");
}

#[test]
fn the_refusal_of_tmp_names_another_place() {
    let room = Room::on(Launcher::Landlock);
    let ran = room.fenced("echo x > /tmp/refused-by-ringfence; echo x > $TMPDIR/own && cat $TMPDIR/own");
    assert_eq!(ran.stdout, "x\n", "{ran:?}");
    let message = ran.json["violations"][0]["message"].as_str().unwrap_or_default();
    assert!(message.ends_with("TMPDIR names a place of the sandbox's own"), "{ran:?}");
}
