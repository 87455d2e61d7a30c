//! Moving the command's input and output, on a thread beside the one that attends to the sandbox.

use std::os::fd::{AsFd, OwnedFd};

use ringfence_fence::EventSink;
use ringfence_model::ExecEvent;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::capture::Capture;
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

/// Writes what fits; the pipe is closed when all is written or nobody reads any more.
fn feed(fd: OwnedFd, rest: &[u8]) -> Option<(OwnedFd, &[u8])> {
    match rustix::io::write(&fd, rest) {
        Ok(written) if written < rest.len() => Some((fd, &rest[written..])),
        Err(Errno::AGAIN | Errno::INTR) => Some((fd, rest)),
        Ok(_) | Err(_) => None,
    }
}
