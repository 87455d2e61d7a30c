//! The seccomp programs in a real kernel. A filter holds for one thread and what it starts, so each test
//! puts one thread, or one command, under it.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use ringfence_linux::seccomp::{self, Arch, DenyEntry, NotifySet, Verdict};
use ringfence_model::config::Precision;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};
use std::sync::mpsc;
use std::thread;

fn no_new_privs() -> io::Result<()> {
    // SAFETY: changes one flag of this thread.
    match unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Runs it on a thread of its own under the static program.
fn fenced<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    thread::spawn(move || {
        no_new_privs().unwrap();
        seccomp::install(&seccomp::static_program()).unwrap();
        work()
    })
    .join()
    .unwrap()
}

/// Makes the call and gives its error, 0 if there was none.
fn errno_of(nr: u32, args: [u64; 6]) -> i32 {
    let [a, b, c, d, e, f] = args;
    // SAFETY: every call tried here is either refused by the filter or has arguments that the kernel
    // rejects or that are harmless.
    let result = unsafe { libc::syscall(nr.into(), a, b, c, d, e, f) };
    if result == -1 { io::Error::last_os_error().raw_os_error().unwrap() } else { 0 }
}

/// Arguments that this entry is the first of its call to match, and that would fail without the filter.
fn arguments(entry: &DenyEntry) -> [u64; 6] {
    let first = |args: &[u64; 6]| {
        seccomp::deny_table()
            .iter()
            .find(|other| other.call == entry.call && other.when.iter().all(|test| test.holds(args)))
            .is_some_and(|found| std::ptr::eq(found, entry))
    };
    let mut args = [u64::MAX; 6];
    for test in entry.when.iter().filter(|test| test.equal) {
        let arg = &mut args[usize::from(test.arg)];
        *arg = *arg & !test.mask | test.value;
    }
    if !first(&args) {
        for test in entry.when.iter().filter(|test| !test.equal) {
            args[usize::from(test.arg)] = test.mask;
        }
    }
    assert!(first(&args), "no arguments for {}", entry.call.name);
    args
}

#[test]
fn every_entry_of_the_table_is_refused_with_its_error() {
    fenced(|| {
        let mut tried = 0;
        for entry in seccomp::deny_table() {
            let (Some(nr), Verdict::Errno(errno)) = (entry.call.number(Arch::HOST), entry.verdict) else {
                continue;
            };
            let args = arguments(entry);
            assert_eq!(errno_of(nr, args), i32::from(errno), "{} {args:x?}", entry.call.name);
            tried += 1;
        }
        assert!(tried > 60, "{tried}");
    });
}

#[test]
fn ways_that_programs_need_stay_open() {
    let python = "
import ctypes, multiprocessing, os, socket, threading
libc = ctypes.CDLL(None, use_errno=True)
socket.socketpair()
socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
for family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX):
    socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
for family in (socket.AF_INET, socket.AF_INET6):
    socket.socket(family, socket.SOCK_DGRAM)
socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
assert socket.if_nameindex()
os.mkfifo('fifo')
assert libc.personality(ctypes.c_ulong(0xffffffff)) >= 0
assert libc.unshare(0x200) == 0
assert libc.setrlimit(7, ctypes.byref((ctypes.c_ulong * 2)(100, 100))) == 0
t = threading.Thread(target=print, args=('thread',)); t.start(); t.join()
with multiprocessing.get_context('spawn').Pool(1) as p: print(p.map(abs, [-1]))
def refused(errno, *a):
    try: socket.socket(*a)
    except OSError as e: assert e.errno == errno, (a, e)
    else: raise SystemExit(f'{a} was allowed')
refused(97, 38, 5, 0)    # AF_ALG
refused(97, 40, 1, 0)    # AF_VSOCK
refused(97, 17, 3, 0)    # AF_PACKET
refused(93, 2, 10, 0)    # the same by its old name
refused(97, 31, 3, 0)    # Bluetooth
refused(97, 29, 3, 1)    # CAN
refused(93, 16, 3, 9)    # audit netlink
refused(1, 2, 3, 1)      # raw
refused(93, 2, 1, 132)   # SCTP
refused(93, 2, 1, 262)   # multipath TCP
refused(94, 1, 2, 0)     # local datagrams
refused(94, 1, 3, 0)     # the same by another name
print('ok')
";
    run("python3", &["-c", python], "ok");
}

#[test]
fn ordinary_programs_do_not_notice() {
    run(
        "bash",
        &[
            "-c",
            "set -e; diff <(seq 3 | sort) <(printf '1\\n2\\n3\\n') && ( exit 0 ) && (sleep 0 & wait) && echo ok",
        ],
        "ok",
    );
    run("git", &["init", "-q", "."], "");
    run(
        "bash",
        &[
            "-c",
            "set -e; git init -q r; cd r; echo a > a; git add a; git -c user.name=n -c user.email=e commit -qm m; git worktree add -q ../w; git -C ../w status --short; git gc -q; git log --oneline | wc -l",
        ],
        "1",
    );
    run(
        "bash",
        &["-c", "echo 'int main(){return 42;}' > a.c && gcc -O1 a.c -o a && { ./a; echo $?; }"],
        "42",
    );
    run(
        "node",
        &[
            "-e",
            "const os=require('os'),cp=require('child_process'),{Worker}=require('worker_threads'),http=require('http');\
            if(!os.networkInterfaces().lo)throw 1;\
            cp.execFileSync('true');\
            new Worker('1',{eval:true}).on('exit',()=>{\
              const s=http.createServer((q,r)=>r.end('ok')).listen(0,'127.0.0.1',()=>http.get(s.address(),r=>{\
                r.on('data',d=>console.log(String(d)));s.close()}))})",
        ],
        "ok",
    );
    run("gdb", &["-batch", "-ex", "run", "-ex", "print 6*7", "true"], "42");
    run("strace", &["-f", "-o", "log", "bash", "-c", "true; echo ok"], "ok");
    run("sqlite3", &["db", "create table t(x); insert into t values(7); select x from t"], "7");
    run("make", &["-f", "-", "--version"], "GNU");
}

/// Runs a program under the static filter, in an empty directory.
fn run(program: &str, args: &[&str], expected: &str) {
    let dir = tempfile::tempdir().unwrap();
    let filter = seccomp::static_program();
    let mut command = Command::new(program);
    command.args(args).current_dir(dir.path()).env("HOME", dir.path());
    // SAFETY: the closure makes two system calls and allocates nothing.
    unsafe { command.pre_exec(move || no_new_privs().and_then(|()| seccomp::install(&filter))) };
    let Output { status, stdout, stderr } = match command.output() {
        Ok(output) => output,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return ringfence_testing::lacks(program, "it is not installed");
        }
        Err(error) => panic!("{program}: {error}"),
    };
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success() && stdout.contains(expected), "{program}: {status}\n{stdout}\n{stderr}");
}

#[test]
fn foreign_calls_do_not_exist() {
    fenced(|| {
        assert_eq!(errno_of(Arch::HOST.first_unknown(), [0; 6]), libc::ENOSYS);
        assert_eq!(errno_of(0x4000_0000 | 39, [0; 6]), libc::ENOSYS);
        #[cfg(target_arch = "x86_64")]
        assert_eq!(int80(20), -libc::ENOSYS, "getpid of i386");
    });
    #[cfg(target_arch = "x86_64")]
    assert!(matches!(int80(20), 1.. | -38), "without the filter it answers, if the kernel has it");
}

/// A call through the i386 door.
#[cfg(target_arch = "x86_64")]
fn int80(nr: i32) -> i32 {
    let result: i32;
    // SAFETY: a call without arguments; the kernel clobbers r8 to r11 on this path.
    unsafe {
        std::arch::asm!("int 0x80", inlateout("eax") nr => result,
            out("r8") _, out("r9") _, out("r10") _, out("r11") _);
    }
    result
}

#[test]
fn filters_of_programs_inside_still_work() {
    fenced(|| {
        let mut program = seccomp::Program::for_arch(Arch::HOST);
        let getppid = u32::try_from(libc::SYS_getppid).unwrap();
        program.add(getppid, &[], Verdict::Errno(77));
        seccomp::install(&program.assemble()).unwrap();
        assert_eq!(errno_of(getppid, [0; 6]), 77);
        assert_eq!(errno_of(u32::try_from(libc::SYS_setns).unwrap(), [0; 6]), libc::EPERM);
    });
}

/// Runs the work on a thread under the notify program, lets every call continue, and gives the numbers of
/// those that arrived.
fn noticed(set: NotifySet, work: impl FnOnce() + Send + 'static) -> Vec<i64> {
    let (give, take) = mpsc::channel::<OwnedFd>();
    let worker = thread::spawn(move || {
        no_new_privs().unwrap();
        let listener = seccomp::install_listener(&seccomp::notify_program(&set)).unwrap();
        assert!(listener.wait_killable);
        give.send(listener.fd).unwrap();
        work();
    });
    let listener = take.recv().unwrap();
    seccomp::set_sync_wake_up(listener.as_fd()).unwrap();
    let mut seen = Vec::new();
    while let Some(nr) = serve_one(listener.as_fd()) {
        seen.push(nr);
    }
    worker.join().unwrap();
    seen
}

/// Receives a notification and lets the call continue; none when everybody under the filter is gone.
fn serve_one(listener: BorrowedFd<'_>) -> Option<i64> {
    let mut poll = libc::pollfd { fd: listener.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid pollfd.
    assert_eq!(unsafe { libc::poll(&raw mut poll, 1, 10_000) }, 1, "nobody calls and nobody leaves");
    if poll.revents & libc::POLLIN == 0 {
        return None;
    }
    // SAFETY: plain numbers; the kernel demands zeroes.
    let mut request: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel fills the structure it is made for.
    let got = unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut request) };
    assert_eq!(got, 0);
    let flags = u32::try_from(libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE).unwrap();
    let mut answer = libc::seccomp_notif_resp { id: request.id, val: 0, error: 0, flags };
    // SAFETY: the kernel reads the structure it is made for.
    let sent = unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut answer) };
    assert_eq!(sent, 0);
    Some(request.data.nr.into())
}

#[test]
fn the_supervisor_hears_of_writes_and_not_of_reads() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    let work = move || {
        drop(std::fs::read("/etc/hostname"));
        std::fs::metadata("/etc").unwrap();
        std::fs::write(&file, "x").unwrap();
        std::fs::rename(&file, file.with_extension("new")).unwrap();
        drop(std::net::TcpStream::connect(("127.0.0.1", 1)));
        let udp = std::net::UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        drop(udp.send_to(b"x", ("127.0.0.1", 9)));
        std::fs::remove_file(file.with_extension("new")).unwrap();
    };
    let writes = noticed(NotifySet::new(Precision::Writes), work.clone());
    let open = libc::SYS_openat;
    let count = |seen: &[i64], nr: i64| seen.iter().filter(|seen| **seen == nr).count();
    assert_eq!(count(&writes, open), 1, "{writes:?}");
    for nr in [libc::SYS_connect, libc::SYS_bind, libc::SYS_sendto] {
        assert_eq!(count(&writes, nr), 1, "{nr}: {writes:?}");
    }
    assert_eq!(writes.len(), 6, "{writes:?}");
    std::fs::write(dir.path().join("file"), "x").unwrap();
    let full = noticed(NotifySet::new(Precision::Full), work);
    assert_eq!(count(&full, open), 2, "{full:?}");
    assert!(NotifySet::new(Precision::Off).is_empty());
}

#[test]
fn a_second_listener_is_busy() {
    noticed(NotifySet::writes(), || {
        let again = seccomp::install_listener(&seccomp::notify_program(&NotifySet::writes()));
        assert_eq!(again.unwrap_err().raw_os_error(), Some(libc::EBUSY));
    });
}
