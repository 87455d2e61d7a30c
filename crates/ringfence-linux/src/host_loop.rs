//! The host side of a running sandbox: hears its reports, serves its notifications, keeps its time.
//!
//! One thread does all of it. Waiting for a person, and moving output, are other threads' work.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::launch::{End, LaunchError, Sandboxed};
use crate::plan::Plan;
use crate::report::{Message, Step};

/// How long a command that was asked to end may take before it is killed.
pub const GRACE: Duration = Duration::from_millis(200);

/// Handlers of what comes from inside.
pub trait Handlers {
    /// The command is about to run, and its mediated calls arrive on `listener`.
    fn listener(&mut self, listener: &OwnedFd);

    /// Calls may be waiting on the listener.
    fn notified(&mut self, listener: BorrowedFd<'_>);

    /// Answers one call; false when none was received.
    fn answer(&mut self, listener: BorrowedFd<'_>) -> bool;

    /// After how long without a call it wants to [`rest`](Self::rest), or at once to answer.
    fn patience(&self) -> Option<Duration> {
        None
    }

    /// No call is waiting, and something else is to be done, or nothing for that long.
    fn rest(&mut self) {}

    /// The command is about to run, and nothing of it is supervised.
    fn unsupervised(&mut self) {}

    /// The sandbox is there, and waits to be asked for commands.
    fn held(&mut self) {}

    /// The command has ended, and its sandbox is still there.
    fn exited(&mut self) {}

    /// The master of the command's terminal.
    fn terminal(&mut self, master: OwnedFd);

    /// Traps are being laid out, and are served on `device`.
    fn tripwire(&mut self, device: OwnedFd) {
        drop(device);
    }

    /// The traps are laid out, and whoever runs into one is a process of this `/proc`.
    fn processes(&mut self, processes: OwnedFd) {
        drop(processes);
    }

    /// Called while waiting; true ends everything inside at once.
    fn cancelled(&mut self) -> bool {
        false
    }
}

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// The command's wait status; none when it was killed before it could be waited for.
    pub status: Option<i32>,
    pub cpu_us: u64,
    pub max_rss_kib: u64,
    pub timed_out: bool,
    pub cancelled: bool,
    /// The command itself could not be executed, for this reason.
    pub exec_errno: Option<i32>,
}

/// Serves the sandbox until everything inside has ended; its init may still be on its way out. `wake` makes
/// [`Handlers::cancelled`] be asked.
pub fn run(
    plan: &Plan,
    sandbox: &Sandboxed,
    deadline: Option<Instant>,
    wake: Option<BorrowedFd<'_>>,
    handlers: &mut dyn Handlers,
) -> Result<Outcome, LaunchError> {
    let mut outcome = Outcome {
        status: None,
        cpu_us: 0,
        max_rss_kib: 0,
        timed_out: false,
        cancelled: false,
        exec_errno: None,
    };
    let mut listener: Option<OwnedFd> = None;
    let mut stop = Stop { deadline, killed_at: None };
    let result = loop {
        let timeout = stop.next_timeout().into_iter().chain(handlers.patience()).min();
        let ready = wait(sandbox, listener.as_ref(), wake, timeout);
        let mut has_answered = false;
        if let Some(fd) = &listener {
            if ready.notified {
                handlers.notified(fd.as_fd());
            }
            has_answered = handlers.answer(fd.as_fd());
        }
        if ready.no_more_callers {
            listener = None;
        }
        if !has_answered {
            handlers.rest();
        }
        if ready.woken && !outcome.cancelled && handlers.cancelled() {
            outcome.cancelled = true;
            sandbox.kill();
            break Ok(());
        }
        if stop.is_due() {
            if stop.killed_at.is_none() {
                outcome.timed_out = true;
                stop.begin(sandbox);
            } else {
                sandbox.kill();
                break Ok(());
            }
        }
        if !ready.control {
            continue;
        }
        match Message::receive_with_descriptor(sandbox.control.as_fd()) {
            Ok((Message::Listener { .. }, Some(fd))) => {
                handlers.listener(&fd);
                listener = Some(fd);
            }
            Ok((Message::Held, _)) => handlers.held(),
            Ok((Message::Unsupervised, _)) => handlers.unsupervised(),
            Ok((Message::Terminal, Some(master))) => handlers.terminal(master),
            Ok((Message::Tripwire, Some(device))) => handlers.tripwire(device),
            Ok((Message::Processes, Some(processes))) => handlers.processes(processes),
            Ok((Message::Exited { status, alone, cpu_us, max_rss_kib }, _)) => {
                outcome = Outcome { status: Some(status), cpu_us, max_rss_kib, ..outcome };
                handlers.exited();
                if alone && sandbox.end == End::Kill {
                    // The kernel clears up the rest of init; nobody has to wait for that.
                    sandbox.leave();
                    return Ok(outcome);
                }
            }
            Ok((Message::Failed { step: Step::Exec, errno, .. }, _)) => outcome.exec_errno = Some(errno),
            Ok((Message::Failed { step, detail, errno }, _)) => {
                break Err(LaunchError::from_report(plan, step, detail, errno));
            }
            Ok(_) => {}
            // Init is gone.
            Err(_) => break Ok(()),
        }
    };
    sandbox.wait();
    result.map(|()| outcome)
}

/// When to ask, and when to insist.
struct Stop {
    deadline: Option<Instant>,
    killed_at: Option<Instant>,
}

impl Stop {
    fn begin(&mut self, sandbox: &Sandboxed) {
        sandbox.terminate(libc::SIGTERM);
        self.killed_at = Some(Instant::now() + GRACE);
    }

    fn due(&self) -> Option<Instant> {
        self.killed_at.or(self.deadline)
    }

    fn is_due(&self) -> bool {
        self.due().is_some_and(|due| Instant::now() >= due)
    }

    fn next_timeout(&self) -> Option<Duration> {
        self.due().map(|due| due.saturating_duration_since(Instant::now()))
    }
}

/// The descriptors that are ready.
struct Ready {
    control: bool,
    notified: bool,
    /// Nobody is left whose calls could arrive on the listener.
    no_more_callers: bool,
    woken: bool,
}

fn wait(
    sandbox: &Sandboxed,
    listener: Option<&OwnedFd>,
    wake: Option<BorrowedFd<'_>>,
    timeout: Option<Duration>,
) -> Ready {
    let control = sandbox.control.as_fd();
    // Absent ones stand in as the control socket with no events asked for.
    let listener_fd = listener.map_or(control, |fd| fd.as_fd());
    let wake_fd = wake.unwrap_or(control);
    let events = |present: bool| if present { PollFlags::IN } else { PollFlags::empty() };
    let mut fds = [
        PollFd::from_borrowed_fd(control, PollFlags::IN),
        PollFd::from_borrowed_fd(listener_fd, events(listener.is_some())),
        PollFd::from_borrowed_fd(wake_fd, events(wake.is_some())),
    ];
    let timeout = timeout.map(|left| Timespec {
        tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: left.subsec_nanos().into(),
    });
    // Each one costs, on every call of the command.
    let polled = if wake.is_some() { &mut fds[..] } else { &mut fds[..2] };
    match poll(polled, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => {}
        // Then the control socket will say what is wrong.
        Err(_) => return Ready { control: true, notified: false, no_more_callers: false, woken: false },
    }
    let has = |index: usize, flags: PollFlags| fds[index].revents().intersects(flags);
    Ready {
        control: !fds[0].revents().is_empty(),
        notified: listener.is_some() && has(1, PollFlags::IN),
        no_more_callers: listener.is_some()
            && !has(1, PollFlags::IN)
            && has(1, PollFlags::HUP | PollFlags::ERR),
        woken: wake.is_some() && has(2, PollFlags::IN),
    }
}
