//! A sandbox whose namespaces and mounts the system's bwrap makes.
//!
//! Some systems let only bwrap make user namespaces. It builds the same view from arguments and then executes
//! a program of ours as pid 1 inside ([`run_stage`]), which does what native does after building the root:
//! Landlock, seccomp, the listener, the command. That program is reached through a descriptor, and all it
//! knows comes through another, which is sealed.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::fs::{MemfdFlags, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::Signal;

use crate::init::{self, Failure, InitArgs, OrFail};
use crate::launch::{End, Heard, LaunchError, Place, Sandboxed, Stdio, control_pair};
use crate::mounts;
use crate::plan::{DEVICES, Exec, Passed, Plan};
use crate::prefork::wire;
use crate::report::{Message, Step};
use crate::sys::{self, CStringArray, Cloned, Sys};

/// The stage's descriptors, in every sandbox made by bwrap.
const CONTROL: RawFd = 3;
const ORDER: RawFd = 4;
const PROGRAM: RawFd = 5;
const STDIO: [RawFd; 3] = [6, 7, 8];
const ARGUMENTS: RawFd = 9;
/// The first of the descriptors that arguments may name; see [`Bwrap::data`].
pub const FIRST_DATA: RawFd = 10;

/// The first argument of the stage, for programs that are more than a stage.
pub const STAGE_ARGUMENT: &str = "__stage";

/// How bwrap is called.
#[derive(Debug, Clone, Copy)]
pub struct Bwrap<'a> {
    pub program: &'a CStr,
    /// All options, each ended by a NUL. They are passed by a descriptor: there may be many, and the list of
    /// the machine's processes is no place for them.
    pub options: &'a [u8],
    /// What can be read from the descriptors [`FIRST_DATA`], `FIRST_DATA + 1`, …
    pub data: &'a [Vec<u8>],
    /// The program that calls [`run_stage`].
    pub stage: BorrowedFd<'a>,
}

/// Starts a sandbox that runs one command. As [`crate::launch::launch`], except that it returns when bwrap has
/// built the sandbox.
pub fn launch(
    bwrap: Bwrap<'_>,
    plan: &Plan,
    exec: &Exec,
    stdio: Stdio,
    place: Place<'_>,
) -> Result<Sandboxed, LaunchError> {
    let (host, inside) = control_pair()?;
    let (stdio, tty) = stdio.parts();
    let failed = |errno: Errno| LaunchError::Control(errno.into());
    let null =
        rustix::fs::open(c"/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map_err(failed)?;
    let said = rustix::fs::memfd_create("bwrap-said", MemfdFlags::CLOEXEC).map_err(failed)?;
    let packed = wire::pack(&wire::Contents {
        plan,
        exec,
        passed: &passed_inside(exec, bwrap.data.len()),
        tty,
        waits: false,
        // bwrap makes the view.
        mounts: &[],
        traps: &[],
    })
    .map_err(failed)?;
    let options = wire::sealed("bwrap-options", bwrap.options).map_err(failed)?;
    let data: Vec<OwnedFd> = bwrap
        .data
        .iter()
        .map(|bytes| wire::sealed("bwrap-data", bytes))
        .collect::<Sys<_>>()
        .map_err(failed)?;

    let mut table = vec![null.as_raw_fd(), null.as_raw_fd(), said.as_raw_fd()];
    table.extend([inside.as_raw_fd(), packed.as_raw_fd(), bwrap.stage.as_raw_fd()]);
    table.extend(if tty.is_some() { [null.as_raw_fd(); 3] } else { stdio });
    table.push(options.as_raw_fd());
    table.extend(data.iter().map(AsRawFd::as_raw_fd));
    table.extend(exec.passed.iter().map(|passed| passed.source));
    let mut lifted = vec![-1; table.len()];

    let text = |text: String| CString::new(text).unwrap_or_default();
    let program_path = format!("/proc/self/fd/{PROGRAM}");
    let argv = CStringArray::new(vec![
        c"bwrap".into(),
        c"--args".into(),
        text(ARGUMENTS.to_string()),
        c"--".into(),
        text(program_path),
        text(STAGE_ARGUMENT.to_owned()),
    ]);
    let env = CStringArray::new(vec![]);
    let waits = place.is_some();
    // SAFETY: the child allocates nothing, and ends in its arm.
    match unsafe { sys::clone(0) }.map_err(|errno| LaunchError::Clone(errno.into()))? {
        Cloned::Child => {
            let failure = match become_bwrap(bwrap.program, &argv, &env, &table, &mut lifted, waits) {
                Ok(errno) => Failure { step: Step::Bwrap, detail: 0, errno },
                Err(failure) => failure,
            };
            // Arranging may have put something else in the place of the socket, but not of its copy.
            let copy = lifted.get(CONTROL.unsigned_abs() as usize).copied().filter(|fd| *fd >= 0);
            // SAFETY: one of the two is the socket, open until this process ends.
            let control = unsafe { sys::borrow(copy.unwrap_or(inside.as_raw_fd())) };
            init::report_failure(control, failure);
            sys::exit_now(1)
        }
        Cloned::Parent { pid, pidfd } => {
            drop(inside);
            let sandboxed = Sandboxed { pid, pidfd, control: host, end: End::Ask };
            sandboxed.placed(plan, place)?;
            match sandboxed.first_word() {
                Heard::Ready => Ok(sandboxed),
                Heard::Failed(step, detail, errno) => {
                    sandboxed.kill();
                    Err(LaunchError::from_report(plan, step, detail, errno))
                }
                Heard::Nothing => {
                    sandboxed.kill();
                    let said = wire::contents(said.as_fd(), 64 << 10).unwrap_or_default();
                    let said = String::from_utf8_lossy(&said);
                    let said = said.trim().trim_start_matches("bwrap: ");
                    Err(LaunchError::Helper {
                        program: bwrap.program.to_string_lossy().into_owned(),
                        said: if said.is_empty() { "it said nothing".to_owned() } else { said.to_owned() },
                    })
                }
            }
        }
    }
}

/// The same descriptors by their numbers inside: they come after the data.
fn passed_inside(exec: &Exec, data: usize) -> Vec<Passed> {
    let first = FIRST_DATA.saturating_add(RawFd::try_from(data).unwrap_or(RawFd::MAX));
    (first..).zip(&exec.passed).map(|(source, passed)| Passed { source, ..*passed }).collect()
}

/// Arranges the descriptors and executes bwrap. Allocates nothing; see [`crate::init`].
fn become_bwrap(
    program: &CStr,
    argv: &CStringArray,
    env: &CStringArray,
    table: &[RawFd],
    lifted: &mut [RawFd],
    waits: bool,
) -> Result<Errno, Failure> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).or_fail(Step::DieWithParent)?;
    // A signal from the host's terminal is the host's to handle.
    rustix::process::setsid().or_fail(Step::Session)?;
    sys::reset_signals();
    if waits {
        // SAFETY: the caller's end of the socket, which is open until this process ends.
        init::wait_for_go(unsafe { sys::borrow(table[CONTROL.unsigned_abs() as usize]) })?;
    }
    let above = RawFd::try_from(table.len()).unwrap_or(RawFd::MAX);
    // First out of the way of each other, then down to their places.
    for (lifted, fd) in lifted.iter_mut().zip(table) {
        *lifted = sys::duplicate_above(*fd, above).or_fail(Step::Stdio)?;
    }
    for (target, lifted) in (0..).zip(lifted) {
        // SAFETY: all that is needed of the old table was lifted above these numbers.
        unsafe { sys::install_stdio(*lifted, target) }.or_fail(Step::Stdio)?;
    }
    sys::cloexec_from(above.unsigned_abs()).or_fail(Step::Stdio)?;
    Ok(sys::execve(program, argv, env))
}

/// What the program does that bwrap executes inside. Never returns.
///
/// It is a fresh process with one thread, so it may allocate until it starts the command. To anybody who
/// calls it elsewhere than as pid 1 of a namespace it does nothing.
pub fn run_stage() -> ! {
    if rustix::process::getpid() != rustix::process::Pid::INIT {
        sys::exit_now(1);
    }
    // SAFETY: whoever starts this program as pid 1 gives it these descriptors, and nothing else here knows them.
    let control = unsafe { sys::adopt(CONTROL) };
    let code = match stage_inside(control.as_fd()) {
        Ok(()) => 0,
        Err(failure) => {
            init::report_failure(control.as_fd(), failure);
            1
        }
    };
    sys::exit_now(code)
}

fn stage_inside(control: BorrowedFd<'_>) -> Result<(), Failure> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).or_fail(Step::DieWithParent)?;
    // SAFETY: as in `run_stage`.
    let packed = unsafe { sys::adopt(ORDER) };
    let order = wire::unpack(packed.as_fd()).or_fail(Step::Order)?;
    // SAFETY: as in `run_stage`.
    drop((packed, unsafe { sys::adopt(PROGRAM) }));
    sys::cloexec_from(3).or_fail(Step::Stdio)?;
    close_devices().or_fail(Step::SealRoot)?;
    // What bwrap left of them goes now, or nothing starts.
    sys::give_up_capabilities().or_fail(Step::Capabilities)?;
    Message::Ready.send(control, None).or_fail(Step::WaitForHost)?;
    init::start_and_reap(&InitArgs {
        plan: &order.plan,
        exec: &order.exec,
        passed: &order.exec.passed,
        stdio: STDIO,
        tty: order.tty,
        control,
        idmapped_tree: None,
        wait_for_go: false,
        maps: None,
        landlocked: false,
        tied: false,
        mounted: 0,
    })
}

/// The device nodes are the host's. Read-only mounts do not stop writing to a device, only changing its node,
/// which root could; bwrap has no option for that. An ordinary user, who may lack the capability, cannot.
fn close_devices() -> Sys<()> {
    for device in DEVICES {
        match mounts::make_read_only(device) {
            Err(Errno::PERM) if !rustix::process::geteuid().is_root() => {}
            // bwrap gives no /dev/tty where there is none.
            Err(Errno::NOENT | Errno::INVAL) if device == c"/dev/tty" => {}
            other => other?,
        }
    }
    Ok(())
}
