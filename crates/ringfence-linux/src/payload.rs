//! The process that becomes the command: its session, its fence, its descriptors, its limits, and the exec.
//!
//! As in [`init`], nothing here allocates, locks or panics.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::io::Errno;
use rustix::process::Signal;

use crate::init::{self, Failure, InitArgs, OrFail};
use crate::landlock::{Rights, Ruleset};
use crate::order::{self, Command, Named as _};
use crate::plan::{Exec, LOWEST_SOURCE, Plan};
use crate::report::{Message, Step};
use crate::seccomp;
use crate::steps::{self, Who};
use crate::sys::{self, Cloned};

/// Becomes the command; never returns.
pub(crate) fn run(args: &InitArgs<'_>, tell: BorrowedFd<'_>, terminal: Option<BorrowedFd<'_>>) -> ! {
    let (args, tell) = (&InitArgs { control: lifted(args, args.control), ..*args }, lifted(args, tell));
    let failure = match become_command(args, tell, terminal) {
        Ok(errno) => Failure { step: Step::Exec, detail: 0, errno },
        Err(failure) => failure,
    };
    init::report_failure(tell, failure);
    // Once the listener is on its way nobody reads `tell` any more; the host hears of it directly.
    init::report_failure(args.control, failure);
    // The shell's convention: 127 not found, 126 found but not runnable.
    sys::exit_now(if failure.errno == Errno::NOENT { 127 } else { 126 })
}

/// The same out of the way of the numbers that the command gets, where it gets any.
fn lifted<'a>(args: &InitArgs<'_>, fd: BorrowedFd<'a>) -> BorrowedFd<'a> {
    if args.passed.is_empty() {
        return fd;
    }
    match sys::duplicate_above(fd.as_raw_fd(), LOWEST_SOURCE) {
        // SAFETY: nobody else knows this copy; exec closes it.
        Ok(copy) => unsafe { sys::borrow(copy) },
        Err(_) => fd,
    }
}

fn become_command(
    args: &InitArgs<'_>,
    tell: BorrowedFd<'_>,
    terminal: Option<BorrowedFd<'_>>,
) -> Result<Errno, Failure> {
    steps::lap(Who::Command, steps::SECOND);
    let plan = args.plan;
    let (mut ruleset, mut listener) = (None, None);
    let mut errno = Errno::NOENT;
    for act in order::COMMAND {
        match act {
            Command::DieWithParent if args.tied => {
                rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
                    .or_fail(Step::DieWithParent)?;
            }
            Command::DieWithParent => {}
            Command::Session => rustix::process::setsid().map(drop).or_fail(Step::Session)?,
            Command::Chdir => rustix::process::chdir(args.exec.cwd.as_c_str()).or_fail(Step::Chdir)?,
            Command::Signals => sys::reset_signals(),
            Command::NoNewPrivs => rustix::thread::set_no_new_privs(true).or_fail(Step::NoNewPrivs)?,
            Command::LandlockRules if args.landlocked => {}
            Command::LandlockRules => ruleset = landlock_rules(plan)?,
            Command::Listen if plan.supervised => listener = listen(plan)?,
            Command::Listen => {}
            Command::Landlock => {
                if let Some(ruleset) = ruleset.take() {
                    if listener.is_none() {
                        give_back_what_was_kept(plan, &ruleset)?;
                    }
                    ruleset.restrict_self().or_fail(Step::Landlock)?;
                }
            }
            Command::Filter => match listener.take() {
                Some(listener) => send_listener(listener, tell)?,
                None => install_unsupervised(plan, tell)?,
            },
            Command::OwnTable => {
                sys::unshare_files().or_fail(Step::StartCommand)?;
                Message::Go.send(tell, None).or_fail(Step::StartCommand)?;
            }
            Command::Stdio => install_descriptors(args, terminal)?,
            Command::Rlimits => {
                for limit in &plan.rlimits {
                    sys::set_rlimit(limit.resource, limit.soft, limit.hard).or_fail(Step::Rlimit)?;
                }
            }
            Command::Exec => errno = execute(args.exec),
        }
        steps::lap(Who::Command, act.name());
    }
    Ok(errno)
}

fn send_listener(listener: seccomp::Listener, tell: BorrowedFd<'_>) -> Result<(), Failure> {
    Message::Listener { fd: listener.fd.as_raw_fd() }.send(tell, None).or_fail(Step::Supervisor)?;
    // Init owns it now, through the shared table.
    std::mem::forget(listener);
    Ok(())
}

fn install_unsupervised(plan: &Plan, tell: BorrowedFd<'_>) -> Result<(), Failure> {
    let filter = if plan.supervised { plan.unsupervised_filter.as_ref() } else { Some(&plan.filter) };
    seccomp::install(filter.map_or(&[][..], Vec::as_slice)).or_fail(Step::Seccomp)?;
    Message::Unsupervised.send(tell, None).or_fail(Step::Supervisor)
}

fn install_descriptors(args: &InitArgs<'_>, terminal: Option<BorrowedFd<'_>>) -> Result<(), Failure> {
    if let Some(terminal) = terminal {
        rustix::process::ioctl_tiocsctty(terminal).or_fail(Step::Terminal)?;
    }
    for (target, source) in (0..).zip(args.stdio) {
        let source = terminal.map_or(source, |terminal| terminal.as_raw_fd());
        // SAFETY: the process becomes the command, and uses no standard descriptor itself.
        unsafe { sys::install_stdio(source, target) }.or_fail(Step::Stdio)?;
    }
    sys::cloexec_from(3).or_fail(Step::Stdio)?;
    for passed in args.passed {
        // SAFETY: as above; what this process still needs was lifted out of the way.
        unsafe { sys::install_stdio(passed.source, passed.target) }.or_fail(Step::Stdio)?;
    }
    Ok(())
}

/// Returns only to say why it could not.
fn execute(exec: &Exec) -> Errno {
    let mut errno = Errno::NOENT;
    for candidate in &exec.candidates {
        match sys::execve(candidate, &exec.argv, &exec.env) {
            Errno::NOENT | Errno::NOTDIR => {}
            // As execvp: remember that something was there, and look further.
            Errno::ACCESS => errno = Errno::ACCESS,
            other => return other,
        }
    }
    errno
}

fn landlock_rules(plan: &Plan) -> Result<Option<Ruleset>, Failure> {
    let Some((abi, rules)) = &plan.landlock else { return Ok(None) };
    let ruleset = if plan.without_tcp { Ruleset::without_tcp(*abi) } else { Ruleset::new(*abi) };
    let ruleset = ruleset.or_fail(Step::Landlock)?;
    for (index, rule) in rules.iter().enumerate() {
        ruleset.allow(&rule.path, rule.rights).map_err(|errno| Failure {
            step: Step::LandlockRule,
            detail: index,
            errno,
        })?;
    }
    Ok(Some(ruleset))
}

/// Without a supervisor nobody makes the calls that it would have made: the command makes them itself.
fn give_back_what_was_kept(plan: &Plan, ruleset: &Ruleset) -> Result<(), Failure> {
    let rules = plan.landlock.iter().flat_map(|(_, rules)| rules).enumerate();
    for (index, rule) in rules.filter(|(_, rule)| rule.rights == Rights::SupervisorOnly) {
        ruleset.allow(&rule.path, Rights::Write).map_err(|errno| Failure {
            step: Step::LandlockRule,
            detail: index,
            errno,
        })?;
    }
    Ok(())
}

/// Applies Landlock to all that will be started. Processes of one sandbox share a domain, or they could not signal
/// each other.
pub(crate) fn restrict(plan: &Plan) -> Result<(), Failure> {
    rustix::thread::set_no_new_privs(true).or_fail(Step::NoNewPrivs)?;
    let Some(ruleset) = landlock_rules(plan)? else { return Ok(()) };
    if !plan.supervised || !can_be_supervised(plan)? {
        give_back_what_was_kept(plan, &ruleset)?;
    }
    ruleset.restrict_self().or_fail(Step::Landlock)
}

/// Whether no supervisor above listens already: tried by a process that ends at once.
fn can_be_supervised(plan: &Plan) -> Result<bool, Failure> {
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    // SAFETY: the child allocates nothing, and ends in its arm.
    match unsafe { sys::clone(0) }.or_fail(Step::Supervisor)? {
        Cloned::Child => sys::exit_now(i32::from(!matches!(listen(plan), Ok(Some(_))))),
        Cloned::Parent { pidfd, .. } => loop {
            match waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED) {
                Ok(ended) => return Ok(ended.and_then(|ended| ended.exit_status()) == Some(0)),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno).or_fail(Step::Supervisor),
            }
        },
    }
}

/// Installs the supervised filter. None when a supervisor above us listens already and the plan has a filter
/// for that.
fn listen(plan: &Plan) -> Result<Option<seccomp::Listener>, Failure> {
    match seccomp::install_listener(&plan.filter) {
        Ok(listener) => Ok(Some(listener)),
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) && plan.unsupervised_filter.is_some() => {
            Ok(None)
        }
        Err(error) => Err(error).or_fail(Step::Supervisor),
    }
}
