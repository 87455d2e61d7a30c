//! The one place where a command is started, and where it is ended.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::sync::{Mutex, MutexGuard, mpsc};
use std::time::{Duration, Instant};

use pty_process::blocking as pty;
use ringfence_model::LockExt as _;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::wake::Wake;

/// How long a command that was asked to end may take before it is killed.
const GRACE: Duration = Duration::from_millis(200);

/// Held while descriptors are made that a command gets: without pipes that are born closed to others, as
/// Linux has them, another command that starts at the same moment would get them too.
pub(super) fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.locked()
}

/// What to start, and with what.
#[derive(Debug)]
pub(super) struct Start<'a> {
    pub(super) argv: &'a [OsString],
    /// All of it; nothing is inherited.
    pub(super) env: &'a BTreeMap<OsString, OsString>,
    pub(super) cwd: &'a Path,
    /// None: its terminal.
    pub(super) stdio: [Option<OwnedFd>; 3],
    pub(super) size: Winsize,
}

/// A running command: the leader of a session of its own, on a terminal of its own.
///
/// It has a terminal even when its input and output are elsewhere: no other way makes a session on every
/// system without unsafe code; the person's terminal cannot be reached by it; and when this process dies, the
/// terminal is gone and the kernel hangs up on the command.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    pid: Pid,
    pub(super) master: OwnedFd,
    /// Our own hold on the other side, so that it is not hung up before anybody opens it.
    _terminal: Option<OwnedFd>,
}

/// How a command ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct End {
    pub(super) status: ExitStatus,
    pub(super) timed_out: bool,
}

impl Process {
    pub(super) fn start(start: Start<'_>) -> std::io::Result<Self> {
        let Start { argv, env, cwd, stdio, size } = start;
        let Some((program, arguments)) = argv.split_first() else {
            return Err(std::io::Error::other("no command given"));
        };
        let (master, terminal) = pty::open().map_err(plain)?;
        tcsetwinsize(&master, size)?;
        let mut command = pty::Command::new(program).args(arguments).env_clear().envs(env).current_dir(cwd);
        let mut hold = None;
        if stdio.iter().all(Option::is_some) {
            hold = Some(terminal.as_fd().try_clone_to_owned()?);
        }
        let [stdin, stdout, stderr] = stdio;
        if let Some(stdin) = stdin {
            command = command.stdin(stdin);
        }
        if let Some(stdout) = stdout {
            command = command.stdout(stdout);
        }
        if let Some(stderr) = stderr {
            command = command.stderr(stderr);
        }
        let child = command.spawn(terminal).map_err(plain)?;
        let pid = Pid::from_child(&child);
        Ok(Self { child, pid, master: master.into(), _terminal: hold })
    }

    /// Waits for the command, ends it when its time is over, and in any case ends what it left behind in its
    /// process group.
    pub(super) fn attend(&mut self, deadline: Option<Instant>) -> std::io::Result<End> {
        let pid = self.pid;
        let timed_out = std::thread::scope(|scope| {
            let (ended, end) = mpsc::channel();
            scope.spawn(move || {
                wait_without_reaping(pid);
                // Nobody listens any more only when this thread is joined anyway.
                let _ = ended.send(());
            });
            let is_over = |patience: Option<Duration>| match patience {
                Some(patience) => end.recv_timeout(patience) != Err(mpsc::RecvTimeoutError::Timeout),
                None => end.recv().is_ok(),
            };
            if is_over(deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))) {
                return false;
            }
            self.signal(Signal::TERM);
            if !is_over(Some(GRACE)) {
                self.kill();
            }
            true
        });
        // Before it is waited for: until then nobody else can have its number.
        self.kill();
        Ok(End { status: self.child.wait()?, timed_out })
    }

    pub(super) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        // That nobody is left is what was wanted.
        let _ = kill_process_group(self.pid, signal);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Only when it was not attended to its end.
        if let Ok(None) = self.child.try_wait() {
            self.kill();
            let _ = self.child.wait();
        }
    }
}

fn wait_without_reaping(pid: Pid) {
    while let Err(Errno::INTR) = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {}
}

fn plain(error: pty_process::Error) -> std::io::Error {
    match error {
        pty_process::Error::Io(error) => error,
        pty_process::Error::Rustix(errno) => errno.into(),
    }
}

/// Sits at a terminal that nobody sits at, until `stop` wakes: what is written to it is thrown away, and every
/// question is answered with the end of input, so that a program that asks for a password fails instead of
/// waiting.
pub(super) fn nobody(master: &OwnedFd, stop: &Wake) {
    const END_OF_INPUT: &[u8] = &[4];
    let mut buffer = [0_u8; 4096];
    if rustix::fs::fcntl_setfl(master, OFlags::NONBLOCK).is_err() {
        return;
    }
    loop {
        let mut fds =
            [PollFd::new(master, PollFlags::IN), PollFd::from_borrowed_fd(stop.fd(), PollFlags::IN)];
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
        if !fds[1].revents().is_empty() {
            return;
        }
        match rustix::io::read(master, &mut buffer) {
            Ok(0) => return,
            Ok(_) => {
                let _ = rustix::io::write(master, END_OF_INPUT);
            }
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => return,
        }
    }
}
