//! A pid 1 that is older than what it has to do: it waits for that as an [order](wire).
//!
//! It is a clone of a process with one thread, so it may allocate. Nothing but this code runs in it before.

use std::ffi::c_int;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::io::Errno;
use rustix::termios::Winsize;

use crate::init::{self, Failure, InitArgs, OrFail};
use crate::launch::Maps;
use crate::plan::{Exec, LOWEST_SOURCE, MountStep, Passed, Plan};
use crate::prefork::wire;
use crate::report::{Message, Step};
use crate::sys::{self, Sys};

/// The order that such a pid 1 waits for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Order<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) exec: &'a Exec,
    pub(crate) stdio: [RawFd; 3],
    pub(crate) tty: Option<Winsize>,
    pub(crate) idmapped_tree: Option<BorrowedFd<'a>>,
    /// See [`InitArgs::wait_for_go`].
    pub(crate) waits: bool,
}

impl Order<'_> {
    /// Sends it to the pid 1 at the other end, which may not be there yet.
    pub(crate) fn send(&self, control: BorrowedFd<'_>) -> Sys<()> {
        let Order { plan, exec, stdio, tty, idmapped_tree, waits } = *self;
        for passed in &exec.passed {
            // SAFETY: whoever gives an order keeps its descriptors open.
            let source = unsafe { sys::borrow(passed.source) };
            Message::Given { target: passed.target }.send(control, Some(source))?;
        }
        let (mounts, traps) = (&plan.mounts, &plan.traps);
        let packed = wire::pack(&wire::Contents { plan, exec, passed: &[], tty, waits, mounts, traps })?;
        let mut descriptors = vec![packed.as_fd()];
        if tty.is_none() {
            // SAFETY: as above.
            descriptors.extend(stdio.map(|fd| unsafe { sys::borrow(fd) }));
        }
        descriptors.extend(idmapped_tree);
        Message::Order.send_with(control, &descriptors)
    }
}

/// Such a pid 1, until its end; `missing` are the namespaces that it has to make. A failure is told when somebody
/// wants the sandbox.
pub(crate) fn run(control: BorrowedFd<'_>, maps: &Maps, missing: c_int, ground: &[MountStep]) -> ! {
    let code = match wait(control, maps, missing, ground) {
        Ok(()) => 0,
        Err(failure) => {
            init::report_failure(control, failure);
            1
        }
    };
    sys::exit_now(code)
}

fn wait(control: BorrowedFd<'_>, maps: &Maps, missing: c_int, ground: &[MountStep]) -> Result<(), Failure> {
    let mut founded = sys::unshare_namespaces(missing)
        .or_fail(Step::Namespaces)
        .and_then(|()| init::found(control, Some(maps.borrow())))
        .and_then(|host| init::mount_all(host.as_fd(), None, ground, 0).map(|()| host));
    let mut mounted = ground.len();
    let mut given: Vec<(OwnedFd, RawFd)> = vec![];
    let mut received = loop {
        match Message::receive_with_descriptors(control).or_fail(Step::Order)? {
            (Message::Given { target }, mut fds) if fds.len() == 1 => {
                given.extend(fds.pop().map(|fd| (fd, target)));
            }
            (Message::Mounts, fds) if !fds.is_empty() => {
                let steps = wire::unpack_mounts(fds[0].as_fd()).or_fail(Step::Order)?;
                let idmapped_tree = fds.get(1).map(AsFd::as_fd);
                founded = founded.and_then(|host| {
                    init::mount_all(host.as_fd(), idmapped_tree, &steps, mounted).map(|()| host)
                });
                mounted += steps.len();
            }
            (Message::Order, fds) if !fds.is_empty() => break fds,
            _ => return Err(Errno::BADMSG).or_fail(Step::Order),
        }
    };
    let host = founded?;
    let (packed, more) = (received.remove(0), received);
    let wire::Order { plan, exec, tty, waits } = wire::unpack(packed.as_fd()).or_fail(Step::Order)?;
    drop(packed);
    let standard = if tty.is_some() { 0 } else { 3 };
    let (stdio, idmapped_tree) = more.split_at_checked(standard).ok_or(Errno::BADMSG).or_fail(Step::Order)?;
    let mut numbers = [-1; 3];
    for (number, fd) in numbers.iter_mut().zip(stdio) {
        *number = fd.as_raw_fd();
    }
    let passed = given.into_iter().map(lifted).collect::<Sys<Vec<Passed>>>().or_fail(Step::Stdio)?;
    let args = InitArgs {
        plan: &plan,
        exec: &exec,
        passed: &passed,
        stdio: numbers,
        tty,
        control,
        wait_for_go: waits,
        idmapped_tree: idmapped_tree.first().map(AsFd::as_fd),
        maps: None,
        landlocked: false,
        tied: false,
        mounted,
    };
    init::furnish(&args, host)
}

/// Out of the way of the numbers that the command gets; open until it has them.
fn lifted((fd, target): (OwnedFd, RawFd)) -> Sys<Passed> {
    let source = sys::duplicate_above(fd.as_raw_fd(), LOWEST_SOURCE)?;
    Ok(Passed { source, target })
}
