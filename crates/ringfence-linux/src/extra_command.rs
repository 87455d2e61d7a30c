//! One more command beside what runs in a sandbox.
//!
//! Each has a *subreaper*, a copy of init: what the command leaves behind comes to it and is ended with the command, so
//! that commands beside each other cannot be left with each other's processes. It hears from the host, and
//! reports, on a socket of its own. Allocates nothing; see [`crate::init`].

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::process::PidfdFlags;
use rustix::termios::Winsize;

use crate::descendants;
use crate::init::{self, Failure, InitArgs, OrFail};
use crate::plan::{LOWEST_SOURCE, Passed};
use crate::report::{Message, Step};
use crate::sys::{self, Cloned};

/// No command is given more.
const MOST_GIVEN: usize = 32;

/// Starts the subreaper. Where that is not possible the socket's end tells the host so.
pub(crate) fn start(args: &InitArgs<'_>, socket: OwnedFd) {
    // SAFETY: the child allocates nothing and never returns.
    if let Ok(Cloned::Child) = unsafe { sys::clone(0) } {
        run(args, &socket)
    }
}

fn run(args: &InitArgs<'_>, socket: &OwnedFd) -> ! {
    let mut signals = None;
    let result = keep(args, socket.as_fd(), &mut signals);
    descendants::kill_all(signals.as_ref(), None);
    if let Err(failure) = result {
        init::report_failure(socket.as_fd(), failure);
    }
    sys::exit_now(0)
}

fn keep(args: &InitArgs<'_>, socket: BorrowedFd<'_>, signals: &mut Option<OwnedFd>) -> Result<(), Failure> {
    // SAFETY: the others belong to frames that this process never returns to.
    unsafe { sys::close_all_but(&mut [socket.as_raw_fd()]) }.or_fail(Step::Stdio)?;
    rustix::process::setsid().or_fail(Step::Subreaper)?;
    sys::block_signals();
    let me = rustix::process::getpid();
    rustix::process::set_child_subreaper(Some(me)).or_fail(Step::Subreaper)?;
    let pidfd = rustix::process::pidfd_open(me, PidfdFlags::empty()).or_fail(Step::Subreaper)?;
    Message::Ready.send(socket, Some(pidfd.as_fd())).or_fail(Step::WaitForHost)?;
    drop(pidfd);

    let mut given = [Passed { source: -1, target: -1 }; MOST_GIVEN];
    let mut count = 0;
    let tty = loop {
        match Message::receive_with_descriptor(socket).or_fail(Step::WaitForHost)? {
            (Message::Given { target }, Some(fd)) if count < MOST_GIVEN => {
                let source = sys::duplicate_above(fd.as_raw_fd(), LOWEST_SOURCE).or_fail(Step::Stdio)?;
                given[count] = Passed { source, target };
                count += 1;
            }
            (Message::Begin { rows: 0, .. }, _) => break None,
            (Message::Begin { rows, columns }, _) => {
                break Some(Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 });
            }
            _ => return Err(Errno::CANCELED).or_fail(Step::WaitForHost),
        }
    };
    let signals = signals.insert(sys::child_signal_fd().or_fail(Step::Signals)?);
    let args = InitArgs {
        passed: &given[..count],
        stdio: [given[0].source; 3],
        tty,
        control: socket,
        idmapped_tree: None,
        wait_for_go: false,
        maps: None,
        landlocked: true,
        tied: true,
        ..*args
    };
    let payload = init::start_payload(&args)?;
    init::become_reaper(c"ringfence-shell", &mut [socket.as_raw_fd(), signals.as_raw_fd()])?;
    init::reap_until_done(&args, signals.as_fd(), None, Some(payload), descendants::signal_all);
    Ok(())
}
