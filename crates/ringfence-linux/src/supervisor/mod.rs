//! The supervisor: knows what is refused because the kernel asks it.
//!
//! Mediated calls arrive on a notification descriptor. Each is looked up in the same policy that built
//! the mounts. What is allowed continues in the kernel, where mounts, Landlock and seccomp enforce what
//! they always enforce: "continue" is never a permission. What is denied becomes an exact [`Violation`]
//! and fails with `EACCES`, so that the program reads "Permission denied" and not a puzzling "No such file".
//!
//! When a person can be asked, a refused open becomes a question instead ([`Ask`]), and the call waits.
//!
//! Two things only the supervisor can refuse, because the mounts were made before they existed: names on
//! the protect list that are created later, and denied files that appear later.

mod ask;
mod attribute;
mod binding;
mod call;
mod caller_ids;
mod describe;
mod git;
mod handover;
mod host_lookup;
mod in_place;
mod judge_change;
mod loopback;
mod mount_grant;
mod name_lookup;
mod name_query;
mod name_server;
mod network;
pub mod notif;
mod on_behalf;
mod open_how;
mod opening;
mod outside;
mod own_secret;
mod pin_cpu;
mod process_limit;
mod processes;
mod protected;
mod question;
mod reading;
mod removal;
mod report_once;
mod settings;
mod shared;
mod socket_table;
mod target;
mod tripwire;
mod uncover;
mod walk;

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ringfence_model::policy::Filesystem;
use ringfence_model::{
    Access, DenyReason, Operation, PathDecision, PathOutcome, PathRule, RuleLayer, Severity, Violation,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

pub use ask::Ask;
pub use describe::left_out;
pub use loopback::{Bound, addresses_in_use};
pub use outside::{DatagramSocket, NoWay, Outside, Reach, Upstream, Wanted};
pub use report_once::Reporter;
pub use shared::Shared;
pub use tripwire::Tripwire;

use ask::Desk;
pub(crate) use call::writes;
use call::{Call, Last, PathArg};
use describe::{Denial, Resource};
use notif::Notification;
use target::{Ending, PathBuffer, Resolved, Unread, read_path, resolve};

use crate::seccomp::{self, DenyEntry};

/// What the supervisor needs to know of the sandbox besides its policy.
#[derive(Debug, Clone, Default)]
pub struct Watched {
    /// Existing paths that are masked or sealed: nothing above them may be renamed.
    pub fixed: Vec<PathBuf>,
    /// Trees in which the caller can make and write nothing by itself: the supervisor does it.
    pub kept: Vec<PathBuf>,
    /// The sandbox sees the host's own files: no mount stands behind a verdict.
    pub shared: Option<Shared>,
    /// More processes and threads of this user the kernel refuses, which nobody else tells of.
    pub most_processes: Option<u64>,
}

/// As many calls are received before one of them is answered: more are somebody's aim.
const MOST_RECEIVED: usize = 1024;

/// `S_ISUID` and `S_ISGID`: a program with one of them runs as its owner, or with its group.
const SET_ID: u32 = libc::S_ISUID | libc::S_ISGID;

/// Serves the notifications of one sandbox.
pub struct Supervisor<'a> {
    policy: &'a Filesystem,
    watched: &'a Watched,
    /// The sandbox's root directory, as a place to resolve its paths from.
    root: Option<OwnedFd>,
    reporter: &'a Reporter<'a>,
    /// Where refusals become questions; none when nobody is asked.
    desk: Option<Desk>,
    /// A call that can make a new name was let through.
    created: bool,
    /// A copy of the listener for answers that come later.
    listener: Option<Arc<OwnedFd>>,
    /// Calls that were received and wait for their turn.
    received: VecDeque<Notification>,
    /// Whoever waits for an answer is not interrupted before.
    uninterrupted: bool,
    /// The thread that waits.
    tid: i32,
    subreaper: shared::Subreaper,
    depth: processes::Depth,
    /// What it named, made absolute; and where that leads.
    path: Box<PathBuffer>,
    real: Box<PathBuffer>,
    resolved: Resolved,
    ending: Ending,
    /// The first of two names; and the file that is linked when it has none.
    source: Option<PathBuf>,
    unnamed: Option<OwnedFd>,
    /// The reading end of a pipe that waits for a writer.
    reader: Option<OwnedFd>,
    /// Flags and mode behind the pointer of an `openat2`.
    how: (i32, u32),
    process_limit: process_limit::ProcessLimit,
    /// Why the path could not be read.
    unread: Option<Errno>,
    powers: caller_ids::Powers,
    umask: caller_ids::Umask,
    own: removal::Own,
    unjudged: in_place::Unjudged,
    name_lookups: name_lookup::NameLookups,
    way_out: Option<Arc<outside::WayOut>>,
    /// The connection that a question is about.
    outgoing: Option<Arc<outside::Outgoing>>,
    /// Connections that were refused on threads of their own.
    untold: Arc<Mutex<Vec<Violation>>>,
    settings: settings::Settings,
    /// The last verdict was that policy allows it, and not that somebody else refuses it anyway.
    allowed: std::cell::Cell<bool>,
    /// What is made is protected and may be made all the same.
    excused: std::cell::Cell<bool>,
    /// What is made makes a directory one of git's.
    became: std::cell::Cell<bool>,
}

impl std::fmt::Debug for Supervisor<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Supervisor").finish_non_exhaustive()
    }
}

/// What is done with one call.
enum Answer {
    Continue,
    /// Not there, as it should be; worth remembering that the host has it.
    Notice(Denial),
    /// Policy says no: report it and fail with `EACCES`.
    Deny(Denial),
    /// The supervisor made the call itself.
    Done(Result<i64, Errno>),
    /// The supervisor opened something, which the caller gets; closed by exec or not.
    Give(OwnedFd, bool),
    /// Another thread answers.
    Later,
    /// No path says where it is, and so no rule either; what it wants is done where it is held open.
    Deep,
    /// Nobody may make this call.
    Refuse(&'static DenyEntry),
}

impl<'a> Supervisor<'a> {
    pub fn new(
        policy: &'a Filesystem,
        watched: &'a Watched,
        ask: Option<Arc<dyn Ask>>,
        reporter: &'a Reporter<'a>,
    ) -> Self {
        Self {
            desk: ask.map(Desk::new),
            created: false,
            listener: None,
            policy,
            watched,
            root: None,
            reporter,
            received: VecDeque::new(),
            uninterrupted: false,
            tid: 0,
            subreaper: shared::Subreaper::new(),
            depth: processes::Depth::new(),
            path: Box::new(PathBuffer::new()),
            real: Box::new(PathBuffer::new()),
            resolved: Resolved::Nowhere,
            ending: Ending::Name,
            source: None,
            unnamed: None,
            reader: None,
            how: (0, 0),
            process_limit: process_limit::ProcessLimit::default(),
            unread: None,
            powers: caller_ids::Powers::of_this_thread(),
            umask: caller_ids::Umask::default(),
            own: removal::Own::default(),
            unjudged: in_place::Unjudged::default(),
            name_lookups: name_lookup::NameLookups::default(),
            way_out: None,
            outgoing: None,
            untold: Arc::default(),
            settings: settings::Settings::default(),
            allowed: std::cell::Cell::new(false),
            excused: std::cell::Cell::new(false),
            became: std::cell::Cell::new(false),
        }
    }

    /// With somebody who makes connections by host name. Else there is no way out.
    #[must_use]
    pub fn reaching(mut self, outside: Option<Arc<dyn Outside>>) -> Self {
        let is_shared = self.watched.shared.is_some();
        self.way_out = outside.map(|outside| Arc::new(outside::WayOut::new(outside, is_shared)));
        self
    }

    /// The root of the sandbox, once somebody inside made a call.
    #[must_use]
    pub fn root(&self) -> Option<BorrowedFd<'_>> {
        self.root.as_ref().map(AsFd::as_fd)
    }

    /// Whether any call was seen that can make a new name.
    #[must_use]
    pub fn saw_creation(&self) -> bool {
        self.created
    }

    /// The kernel wakes whoever is answered on the processor of the one who answers, or does not know how. One that does
    /// also leaves who waits uninterrupted.
    pub fn wakes_here(&mut self, woken_here: bool) {
        self.uninterrupted = woken_here;
    }

    /// After how long without a call it is to [`rest`](Self::rest).
    #[must_use]
    pub fn patience(&self) -> Option<Duration> {
        if !self.received.is_empty() {
            return Some(Duration::ZERO);
        }
        [self.next_count(), self.name_lookups.patience(), self.patience_with_dialling()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Nobody calls, or something else is to be done by this thread.
    pub fn rest(&mut self) {
        self.tell_names();
        self.tell_connections();
        self.powers.raise();
        self.count_processes();
    }

    /// Receives every call that waits. A signal interrupts a call until then, and not after.
    pub fn receive(&mut self, listener: BorrowedFd<'_>) {
        let mut fds = [PollFd::from_borrowed_fd(listener, PollFlags::IN)];
        while self.received.len() < MOST_RECEIVED {
            // One whose caller is gone again is none.
            self.received.extend(notif::receive(listener));
            let is_more = poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0);
            if !is_more || !fds[0].revents().contains(PollFlags::IN) {
                return;
            }
        }
    }

    /// Answers the call that has waited longest; false when there is none.
    pub fn serve(&mut self, listener: BorrowedFd<'_>) -> bool {
        let Some(notification) = self.received.pop_front() else { return false };
        self.attend(listener, notification);
        true
    }

    fn attend(&mut self, listener: BorrowedFd<'_>, notification: Notification) {
        self.count_processes();
        self.tell_names();
        self.tell_connections();
        let answer = self.judge(listener, &notification);
        // An answer that cannot be delivered belongs to a caller that is gone.
        let _ = match answer {
            Answer::Continue => notif::let_continue(listener, notification.id),
            Answer::Notice(denial) => {
                self.notice(notification.tid, denial);
                notif::let_continue(listener, notification.id)
            }
            Answer::Done(Ok(value)) => notif::succeed(listener, notification.id, value),
            Answer::Done(Err(errno)) => notif::refuse(listener, notification.id, errno),
            Answer::Give(fd, cloexec) if self.uninterrupted && handover::is_written(&fd) => {
                handover::give_away(listener, notification.id, fd, cloexec)
            }
            Answer::Give(fd, cloexec) => handover::give(listener, notification.id, &fd, cloexec),
            Answer::Later => Ok(()),
            Answer::Deep => notif::refuse(listener, notification.id, Errno::NAMETOOLONG),
            Answer::Refuse(entry) => {
                self.reporter.tell(describe::refused_call(notification.tid, entry));
                notif::refuse(listener, notification.id, Errno::PERM)
            }
            Answer::Deny(denial) => {
                let errno = denial.errno();
                match self.ask_about(listener, &notification, denial) {
                    Some(violation) => {
                        let violation = self.with_way_out(violation);
                        self.cover_again(notification.tid, &violation);
                        self.reporter.tell(violation);
                        notif::refuse(listener, notification.id, errno)
                    }
                    None => Ok(()),
                }
            }
        };
    }

    /// Tells of something that is refused to nobody.
    fn notice(&self, tid: i32, denial: Denial) {
        let violation = describe::violation(tid, denial);
        self.reporter.tell(Violation { blocked: false, severity: Severity::Low, ..violation });
    }

    fn judge(&mut self, listener: BorrowedFd<'_>, notification: &Notification) -> Answer {
        let tid = notification.tid;
        self.tid = tid;
        if self.root.is_none() {
            self.root = open_root(tid);
        }
        // Everything read from the caller so far, and below, is its own only while it still waits.
        let call = Call::decode(notification);
        if !matches!(call, Call::Open { .. }) {
            self.powers.raise();
        }
        self.created |= call.creates();
        (self.resolved, self.ending, self.unread) = (Resolved::Nowhere, Ending::Name, None);
        (self.source, self.unnamed) = (None, None);
        self.reader = None;
        self.outgoing = None;
        self.allowed.set(false);
        self.excused.set(false);
        self.became.set(false);
        if let Call::Other | Call::Socket | Call::Create { operation: Operation::Create, .. } = call
            && let Some(entry) = seccomp::refusal(notification.nr, &notification.args)
        {
            return Answer::Refuse(entry);
        }
        if let Call::Open { flags, mode, .. } = call
            && makes_set_id(flags, mode)
        {
            return Answer::Refuse(&seccomp::SET_ID_FILE);
        }
        let answer = match call {
            Call::Open { path, flags, last, .. } => match self.open(tid, path, flags, last) {
                Answer::Deep => self.list_deep(listener, notification, path, flags),
                answer => answer,
            },
            Call::OpenHow { path, how, .. } => self.open_how(tid, path, how),
            Call::Execute { path } => self.execute(tid, path),
            Call::Look { path, operation } => self.look(tid, path, operation),
            Call::Create { operation, path } => self.create(tid, operation, path),
            Call::Change { operation, path, last } => match self.change(tid, operation, path, last) {
                Answer::Deep => self.remove_deep(listener, notification, path),
                answer => answer,
            },
            Call::Move { operation, from, to, last, exchange } => {
                let linked = notification.linked_descriptor();
                self.move_name(tid, operation, (from, last), to, exchange, linked)
            }
            Call::Connect { socket, address, length } => {
                self.connect(listener, notification, socket, (address, length))
            }
            Call::Bind { socket, address, length } => {
                self.bind(listener, notification, socket, (address, length))
            }
            Call::SendTo { socket, flags, address, length } => {
                self.send_to(tid, (socket, flags), (address, length))
            }
            Call::SendMessages { socket, flags, headers, count } => {
                self.send_messages(tid, (socket, flags), (headers, count))
            }
            Call::Socket if self.watched.shared.is_some() => self.make_datagrams(notification),
            Call::HostsNetwork => self.answer_for_network(listener, notification),
            Call::Handle { pid } if self.is_of_the_host(pid) => Answer::Done(Err(Errno::SRCH)),
            Call::Newer => Answer::Done(Err(Errno::NOSYS)),
            Call::Attribute { .. } | Call::Handle { .. } | Call::Socket | Call::Other => Answer::Continue,
        };
        match answer {
            Answer::Continue if call.changes_attribute() => self.make_attribute(listener, notification, call),
            Answer::Continue => match self.make(listener, notification, call) {
                Answer::Continue if self.opens_itself() => self.settle(listener, notification, call),
                made => made,
            },
            Answer::Notice(denial) if self.opens_itself() => {
                self.notice(tid, denial);
                self.settle(listener, notification, call)
            }
            // Nobody is told of these, and a caller that is gone gets none of them.
            Answer::Give(..) | Answer::Done(Err(_)) => answer,
            _ if !notif::is_valid(listener, notification.id) => Answer::Continue,
            answer => answer,
        }
    }

    fn execute(&mut self, tid: i32, path: PathArg) -> Answer {
        if let Err(unread) = self.read(tid, path) {
            return unread.into();
        }
        if self.is_plainly_allowed() {
            return Answer::Continue;
        }
        match self.resolve(Last::Follow) {
            Resolved::Exists => self.verdict(Operation::Execute, Access::Execute),
            Resolved::Missing | Resolved::Unreachable => self.hidden(Operation::Execute, Access::Execute),
            Resolved::Nowhere => Answer::Continue,
        }
    }

    /// Entering a directory, or asking whether something may be read. The question alone troubles nobody,
    /// unless it is about something on the deny list.
    fn look(&mut self, tid: i32, path: PathArg, operation: Operation) -> Answer {
        if self.read(tid, path).is_err() || self.is_plainly_allowed() || self.replaced().is_some() {
            return Answer::Continue;
        }
        let answer = match self.resolve(Last::Follow) {
            Resolved::Exists => self.verdict(operation, Access::Read),
            Resolved::Missing | Resolved::Unreachable => self.hidden(operation, Access::Read),
            Resolved::Nowhere => Answer::Continue,
        };
        match answer {
            Answer::Deny(denial) if operation == Operation::Stat && denial.reason != DenyReason::Denied => {
                Answer::Continue
            }
            answer => answer,
        }
    }

    /// Puts the path that the caller means into `self.path`.
    fn read(&mut self, tid: i32, path: PathArg) -> Result<(), Unread> {
        self.resolved = Resolved::Nowhere;
        if let Err(unread) = read_path(tid, path, &mut self.path) {
            if let Unread::Nothing(errno) = unread {
                self.unread = Some(errno);
            }
            return Err(unread);
        }
        self.ending = self.ending.max(self.path.ending());
        self.lead_to_own_memory();
        Ok(())
    }

    /// Where `self.path` leads, in `self.real`.
    fn resolve(&mut self, last: Last) -> Resolved {
        let resolved = match &self.root {
            Some(root) => {
                let root = root.as_fd();
                let resolved = resolve(root, self.tid, &self.path, last, &mut self.real);
                if self.opens_itself() && self.real.as_path().starts_with("/proc") {
                    target::resolve_slowly(root, self.tid, &self.path, last, &mut self.real)
                } else {
                    resolved
                }
            }
            None => {
                self.real.copy_from(&self.path);
                Resolved::Unreachable
            }
        };
        if matches!(resolved, Resolved::Missing | Resolved::Unreachable) {
            // What is not there is judged by its name, which must be a plain one.
            self.path.copy_from(&self.real);
        }
        self.resolved = resolved;
        resolved
    }

    /// Reading below the system's own directories needs no second look: nothing inside can plant links
    /// there.
    fn is_plainly_allowed(&self) -> bool {
        if self.path.is_dotted() {
            return false;
        }
        self.is_systems_own(&self.policy.decide(self.path.as_path(), Access::Read))
    }

    /// Whether the verdict is about something of the system's that may be read.
    fn is_systems_own(&self, decision: &PathDecision<'_>) -> bool {
        let is_about_it = |rule: &PathRule| {
            matches!(rule.source.layer, RuleLayer::BuiltIn | RuleLayer::Detected)
                && self.policy.allow_read.iter().any(|known| std::ptr::eq(known, rule))
        };
        decision.outcome == PathOutcome::Allowed && decision.rule.is_some_and(is_about_it)
    }

    /// What policy says of `self.real`.
    fn verdict(&self, operation: Operation, access: Access) -> Answer {
        self.verdict_on(self.real.as_path(), operation, access)
    }

    fn verdict_on(&self, path: &Path, operation: Operation, access: Access) -> Answer {
        let at_home = self.refused_at_home(path, access);
        let (path, decision) = match &at_home {
            Some((path, decision)) => (path.as_path(), *decision),
            None => (path, self.decide(path, access)),
        };
        self.allowed.set(decision.allowed());
        match decision.outcome {
            PathOutcome::Allowed | PathOutcome::Private => Answer::Continue,
            PathOutcome::Denied(reason) => {
                // Where the host's own permissions refuse as well, the sandbox took nothing away.
                if reason != DenyReason::Denied && host_lookup::host_refuses(path, access) {
                    return Answer::Continue;
                }
                let denial = Denial::of_path(operation, path, access, reason, &decision);
                host_lookup::refusal(denial, &decision)
            }
        }
    }
}

impl From<Unread> for Answer {
    fn from(unread: Unread) -> Self {
        match unread {
            Unread::Nothing(_) => Self::Continue,
            Unread::TooLong => Self::Done(Err(Errno::NAMETOOLONG)),
        }
    }
}

impl Drop for Supervisor<'_> {
    fn drop(&mut self) {
        self.powers.raise();
        self.end_name_lookups();
        self.end_connections();
        if let Some(desk) = &self.desk {
            desk.settle();
        }
    }
}

/// Whether an open would make a file with set-id bits.
fn makes_set_id(flags: i32, mode: u32) -> bool {
    let makes = libc::O_CREAT | (libc::O_TMPFILE & !libc::O_DIRECTORY);
    flags & makes != 0 && mode & SET_ID != 0
}

fn open_root(tid: i32) -> Option<OwnedFd> {
    rustix::fs::open(format!("/proc/{tid}/root"), OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()
}
