//! Moving the command's input and output, on a thread beside the one that attends to the sandbox.

use std::os::fd::{AsFd, OwnedFd};

use ringfence_fence::EventSink;
use ringfence_model::ExecEvent;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::capture::Capture;
use crate::terminal::takes_lines;
use crate::wake::Wake;

/// Pipes hold 64 KiB unless asked; with 1 MiB a fast writer is interrupted far less often.
#[cfg(target_os = "linux")]
const PIPE_SIZE: usize = 1 << 20;

/// A pipe for output: (ours to read, the command's to write). The larger size is a wish: a user may
/// have used up the pages the kernel grants for it.
pub(crate) fn output_pipe() -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = pipe()?;
    #[cfg(target_os = "linux")]
    let _ = rustix::pipe::fcntl_setpipe_size(&read, PIPE_SIZE);
    rustix::fs::fcntl_setfl(&read, rustix::fs::OFlags::NONBLOCK)?;
    Ok((read, write))
}

/// As [`output_pipe`], of the usual size.
#[cfg(target_os = "linux")]
pub(crate) fn small_output_pipe() -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = pipe()?;
    rustix::fs::fcntl_setfl(&read, rustix::fs::OFlags::NONBLOCK)?;
    Ok((read, write))
}

pub(crate) fn input_pipe() -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = pipe()?;
    rustix::fs::fcntl_setfl(&write, rustix::fs::OFlags::NONBLOCK)?;
    Ok((read, write))
}

/// An input with nothing in it.
pub(crate) fn open_null() -> rustix::io::Result<OwnedFd> {
    use rustix::fs::{Mode, OFlags};
    rustix::fs::open(c"/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}

/// Closed when another program is executed.
fn pipe() -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = std::io::pipe().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    Ok((read.into(), write.into()))
}

/// Feeds `input` and collects both outputs until every process inside has closed them.
#[cfg(target_os = "linux")]
pub(crate) fn pump(
    stdin: Option<(OwnedFd, &[u8])>,
    outputs: [OwnedFd; 2],
    cap: Option<u64>,
    events: EventSink<'_>,
) -> [Capture; 2] {
    pump_until(stdin, outputs, cap, events, None)
}

/// As [`pump`], or until `stop` wakes and nothing is left to read: a process that outlives the command may
/// keep the outputs open.
pub(crate) fn pump_until(
    mut stdin: Option<(OwnedFd, &[u8])>,
    outputs: [OwnedFd; 2],
    cap: Option<u64>,
    events: EventSink<'_>,
    stop: Option<&Wake>,
) -> [Capture; 2] {
    const INPUT: usize = 2;
    const STOP: usize = 3;
    let mut captures = [Capture::new(cap), Capture::new(cap)];
    let mut open = outputs.map(Some);
    let mut buffer = vec![0_u8; 64 * 1024];
    while open.iter().any(Option::is_some) {
        let mut fds = Vec::with_capacity(4);
        let mut who = Vec::with_capacity(4);
        for (index, fd) in open.iter().enumerate() {
            if let Some(fd) = fd {
                fds.push(PollFd::new(fd, PollFlags::IN));
                who.push(index);
            }
        }
        if let Some((fd, _)) = &stdin {
            fds.push(PollFd::new(fd, PollFlags::OUT));
            who.push(INPUT);
        }
        if let Some(stop) = stop {
            fds.push(PollFd::from_borrowed_fd(stop.fd(), PollFlags::IN));
            who.push(STOP);
        }
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => break,
        }
        let ready: Vec<usize> =
            fds.iter().zip(&who).filter(|(fd, _)| !fd.revents().is_empty()).map(|(_, who)| *who).collect();
        drop(fds);
        if ready.contains(&STOP) && !ready.iter().any(|index| *index < INPUT) {
            break;
        }
        for index in ready.into_iter().filter(|index| *index != STOP) {
            if index == INPUT {
                stdin = stdin.take().and_then(|(fd, rest)| feed(fd, rest));
            } else if let Some(fd) = &open[index] {
                match rustix::io::read(fd.as_fd(), &mut buffer) {
                    Ok(0) => open[index] = None,
                    Ok(length) => {
                        captures[index].push(&buffer[..length]);
                        let bytes = buffer[..length].to_vec();
                        events(if index == 0 { ExecEvent::Stdout(bytes) } else { ExecEvent::Stderr(bytes) });
                    }
                    Err(Errno::AGAIN | Errno::INTR) => {}
                    Err(_) => open[index] = None,
                }
            }
        }
    }
    captures
}

/// Passes on the lines that a person types, until they end their input, nobody reads any more or `stop` wakes. While
/// somebody else reads from the terminal, nothing is read: that would stop us, or take what is not ours.
pub(crate) fn pass_lines(to: OwnedFd, stop: &Wake) {
    const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
    let keyboard = rustix::stdio::stdin();
    let mut buffer = [0_u8; 4096];
    // It is a pipe of its own: whoever reads slowly is waited for here, beside everything else.
    let _ = rustix::fs::fcntl_setfl(&to, rustix::fs::OFlags::empty());
    loop {
        let listening = takes_lines(keyboard);
        let events = if listening { PollFlags::IN } else { PollFlags::empty() };
        let mut fds = [
            PollFd::from_borrowed_fd(stop.fd(), PollFlags::IN),
            PollFd::new(&to, PollFlags::empty()),
            PollFd::from_borrowed_fd(keyboard, events),
        ];
        if matches!(poll(&mut fds, Some(&LOOK)), Err(errno) if errno != Errno::INTR) {
            return;
        }
        let [stopped, closed, typed] = [0, 1, 2].map(|index| fds[index].revents());
        if !stopped.is_empty() || !closed.is_empty() {
            return;
        }
        if !listening || typed.is_empty() || !takes_lines(keyboard) {
            continue;
        }
        match rustix::io::read(keyboard, &mut buffer) {
            Ok(0) => return,
            Ok(length) => {
                let mut rest = &buffer[..length];
                while !rest.is_empty() {
                    match rustix::io::write(&to, rest) {
                        Ok(written) => rest = &rest[written..],
                        Err(Errno::INTR) => {}
                        Err(_) => return,
                    }
                }
            }
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => return,
        }
    }
}

/// Writes what fits; the pipe is closed when all is written or nobody reads any more.
fn feed(fd: OwnedFd, rest: &[u8]) -> Option<(OwnedFd, &[u8])> {
    match rustix::io::write(&fd, rest) {
        Ok(written) if written < rest.len() => Some((fd, &rest[written..])),
        Err(Errno::AGAIN | Errno::INTR) => Some((fd, rest)),
        Ok(_) | Err(_) => None,
    }
}
