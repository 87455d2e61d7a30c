//! A command on the caller's terminal, in a sandbox whose terminals are elsewhere.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use ringfence_fence::{EventSink, Jobs, Ticket, block_on};
use ringfence_local::prompt::Pause;
use ringfence_local::terminal::{RawTerminal, size};
use ringfence_model::{Error, ErrorKind, ExecRequest, ExecResult, Result, Stdin, TerminalSize};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::workplace::{Runner, Workplace};

/// How often is looked whether the command has ended, while nobody types.
const GLANCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Runs one command on a terminal of the sandbox, connected to the caller's.
#[derive(Debug)]
pub struct Attached<'a> {
    place: &'a dyn Workplace,
    input: BorrowedFd<'a>,
    output: BorrowedFd<'a>,
    /// Readable when the caller's terminal changed its size.
    resized: Option<BorrowedFd<'a>>,
    /// Lets a person be asked on the same terminal.
    pause: Option<&'a Pause>,
}

impl<'a> Attached<'a> {
    /// `input` and `output` are the caller's terminal; `resized` is readable when it changed its size.
    #[must_use]
    pub fn new(
        place: &'a dyn Workplace,
        input: BorrowedFd<'a>,
        output: BorrowedFd<'a>,
        resized: Option<BorrowedFd<'a>>,
    ) -> Self {
        Self { place, input, output, resized, pause: None }
    }

    /// Nothing is shown, and nothing typed is passed on, while a person is asked.
    #[must_use]
    pub fn pausing(self, pause: Option<&'a Pause>) -> Self {
        Self { pause, ..self }
    }

    fn show(&self, bytes: &[u8]) {
        match self.pause {
            Some(pause) => pause.show(|| write_all(self.output, bytes)),
            None => write_all(self.output, bytes),
        }
    }

    fn size(&self) -> TerminalSize {
        let now = size(self.output);
        TerminalSize { rows: now.ws_row, columns: now.ws_col }
    }

    /// Passes on what is typed, and changes of size, until the command has ended.
    fn pass_input(&self, jobs: &dyn Jobs, id: &str, ended: &AtomicBool) {
        let mut buffer = [0; 4096];
        let mut open = true;
        while !ended.load(Ordering::Acquire) {
            let is_asked = self.pause.is_some_and(Pause::is_paused);
            let before = self.pause.filter(|_| !is_asked).map(Pause::take_typed_before).unwrap_or_default();
            if !before.is_empty() {
                let _ = block_on(jobs.write(id, &before));
            }
            let listens = open && !is_asked;
            let mut fds = vec![PollFd::from_borrowed_fd(
                self.input,
                if listens { PollFlags::IN } else { PollFlags::empty() },
            )];
            fds.extend(self.resized.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
            if poll(&mut fds, Some(&GLANCE)).is_err() {
                continue;
            }
            let ready: Vec<bool> = fds.iter().map(|fd| fd.revents().intersects(PollFlags::IN)).collect();
            if ready.get(1) == Some(&true) {
                if let Some(resized) = self.resized {
                    let _ = rustix::io::read(resized, &mut buffer);
                }
                let _ = block_on(jobs.resize(id, self.size()));
            }
            if ready[0] && !self.pause.is_some_and(Pause::is_paused) {
                match rustix::io::read(self.input, &mut buffer) {
                    Ok(0) | Err(_) => open = false,
                    // A command that takes no more input ends soon.
                    Ok(length) => drop(block_on(jobs.write(id, &buffer[..length]))),
                }
            }
        }
    }
}

impl Runner for Attached<'_> {
    fn run(&self, _: &Ticket, request: &ExecRequest, _: EventSink<'_>) -> Result<ExecResult> {
        let started = Instant::now();
        let jobs = self.place.jobs()?;
        let size = Some(self.size());
        let request = ExecRequest { tty: true, size, stdin: Stdin::Empty, ..request.clone() };
        let id = block_on(jobs.start(request))?.id;
        let raw = RawTerminal::new(self.input).map_err(|errno| {
            Error::new(ErrorKind::Internal, "cannot use the terminal").caused_by(std::io::Error::from(errno))
        })?;
        let ended = AtomicBool::new(false);
        let outcome = std::thread::scope(|scope| {
            scope.spawn(|| self.pass_input(&*jobs, &id, &ended));
            let outcome = block_on(jobs.follow(&id, &|bytes| self.show(&bytes)));
            ended.store(true, Ordering::Release);
            outcome
        });
        drop(raw);
        Ok(outcome?.result(self.place.assurance(), started.elapsed()))
    }

    fn is_fenced(&self) -> bool {
        self.place.is_fenced()
    }

    /// Nobody is asked about what a job may not do.
    fn holds_calls(&self) -> bool {
        true
    }
}

fn write_all(output: BorrowedFd<'_>, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match rustix::io::write(output.as_fd(), bytes) {
            Ok(length) => bytes = &bytes[length..],
            Err(rustix::io::Errno::INTR) => {}
            // Nobody looks any more.
            Err(_) => return,
        }
    }
}
