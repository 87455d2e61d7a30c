//! The thread of one job: its output, its time, its end.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use ringfence_linux::host_loop::GRACE;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

use crate::fence::HeldSandbox;
use crate::limit_violations;
use crate::shell::jobs::Job;
use crate::shell::live::Live;

/// The thread of one job.
pub(crate) struct Watcher {
    pub(crate) job: Arc<Job>,
    pub(crate) sandbox: Arc<HeldSandbox>,
    pub(crate) live: Live,
    pub(crate) output: OwnedFd,
    pub(crate) nonce: String,
    pub(crate) started: Instant,
    pub(crate) deadline: Option<Instant>,
}

impl Watcher {
    pub(crate) fn run(self, request: &[u8]) {
        let timed_out = !self.until_end(request);
        let mut reported = None;
        while let Some(said) = self.live.channel.receive() {
            if said.pid == self.live.bash.pid && said.nonce == self.nonce {
                reported = Some(said.status);
            }
        }
        self.drain();
        // What it left behind goes with it.
        let Self { job, sandbox, live, output, started, .. } = self;
        let feed = Arc::clone(&live.feed);
        let ended = live.finish();
        job.push(&Self::read_all(&output));
        job.was_refused(feed.take());
        let (exit_code, signal) = match (reported, ended) {
            _ if timed_out => (124, None),
            (Some(status), _) => (status, None),
            (None, Ok(result)) => (result.exit_code, result.signal),
            (None, Err(_)) => (128 + libc::SIGKILL, Some(libc::SIGKILL)),
        };
        job.settle(exit_code);
        let end =
            limit_violations::End { timed_out, signal, exit_code, cpu_us: None, lasted: started.elapsed() };
        job.was_refused(limit_violations::by_one_process(
            &sandbox.fence().policy().limits,
            &end,
            &[job.cut()],
        ));
        if exit_code != 0 {
            job.was_refused(sandbox.reached());
        }
        job.end(exit_code, signal, timed_out);
    }

    /// Until bash has reported, or is gone. False when it had to be ended.
    fn until_end(&self, request: &[u8]) -> bool {
        let mut unsent = request;
        let mut open = true;
        loop {
            if !unsent.is_empty() {
                match self.live.channel.send(unsent) {
                    Ok(length) => unsent = &unsent[length..],
                    Err(_) => return true,
                }
            }
            let now = Instant::now();
            if self.deadline.is_some_and(|deadline| now >= deadline) {
                self.job.signal(Signal::TERM);
                std::thread::sleep(GRACE);
                return false;
            }
            let sending = if unsent.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
            let mut fds = [
                PollFd::new(self.live.channel.status(), PollFlags::IN),
                PollFd::from_borrowed_fd(self.live.feed.wake.fd(), PollFlags::IN),
                PollFd::new(self.live.channel.commands(), sending),
                PollFd::new(&self.output, PollFlags::IN),
            ];
            let watched = if open { &mut fds[..] } else { &mut fds[..3] };
            let left = self.deadline.map(|deadline| {
                let left = deadline - now;
                Timespec {
                    tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX),
                    tv_nsec: left.subsec_nanos().into(),
                }
            });
            let _ = poll(watched, left.as_ref());
            let [said, fed, out] = [0, 1, 3].map(|index| !fds[index].revents().is_empty());
            if out {
                open = self.drain();
            }
            if fed {
                self.live.feed.wake.clear();
                self.job.was_refused(self.live.feed.take());
                if self.live.feed.is_over() {
                    return true;
                }
            }
            if said {
                return true;
            }
        }
    }

    /// Takes what lies there; false when no more can come.
    fn drain(&self) -> bool {
        let mut buffer = vec![0; 64 << 10];
        loop {
            match rustix::io::read(&self.output, &mut buffer) {
                Ok(0) => return false,
                Ok(length) => self.job.push(&buffer[..length]),
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return errno == rustix::io::Errno::AGAIN,
            }
        }
    }

    fn read_all(output: &OwnedFd) -> Vec<u8> {
        let mut rest = vec![];
        let mut buffer = vec![0; 64 << 10];
        while let Ok(length @ 1..) = rustix::io::read(output, &mut buffer) {
            rest.extend_from_slice(&buffer[..length]);
        }
        rest
    }
}
