//! Live approval: the refused call waits while a person is asked, and goes on when the answer is yes.
//!
//! Nothing is run twice and nothing runs outside. A file is opened by the supervisor itself — on its own
//! copy of the arguments, no link followed, and only if it still is the file the person was shown — and the
//! descriptor is handed to the waiting call. The question is asked on a thread of its own: other calls of
//! the sandbox do not wait for it. One resource is asked about once in a turn, however many calls wait: a run of
//! one command is one turn, and each command of a shell is another. What was allowed once ends with its turn.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use ringfence_model::LockExt as _;
use ringfence_model::{Access, Decision, Grant, GrantScope, Violation};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use super::caller_ids::umask;
use super::mount_grant::{Namespaces, Prepared};
use super::on_behalf::Open;
use super::settings::SettingsDesk;
use super::{network, notif};

/// About as many resources questions are asked in one turn.
const MOST_ASKED: usize = 1000;

/// Who is asked, and who hears what came of it.
pub trait Ask: Send + Sync {
    /// Whether this refusal is worth a question at all.
    fn wants(&self, violation: &Violation) -> bool;

    /// Asks, and waits for the answer. No answer in time is a refusal.
    fn ask(&self, violation: &Violation, grant: &Grant) -> Decision;

    /// A decision was made and carried out (or could not be, for the given reason).
    fn settled(&self, violation: &Violation, grant: &Grant, decision: Decision, outcome: Result<(), Errno>);

    /// A call was refused in the end.
    fn refused(&self, violation: Violation);

    /// The person wants what asked to end. True when nothing of it goes on any more, so that a call that still waits can
    /// be answered; else the whole run is being ended, and no answer may come before.
    fn abort(&self) -> bool;

    /// Calls that waited can go on: whoever serves the sandbox shall take them up
    /// ([`Supervisor::resume`](super::Supervisor::resume)).
    fn wake(&self);

    /// Which turn this is. Refusals, and what was allowed once, hold in the turn in which they were decided.
    fn turn(&self) -> u64 {
        0
    }
}

/// How a waiting call can be carried out on behalf of its caller.
#[derive(Debug, Clone)]
pub(super) struct Wish {
    pub(super) path: PathBuf,
    pub(super) tid: i32,
    pub(super) way: Way,
    /// What the caller reads when the answer is no.
    pub(super) refusal: Errno,
}

#[derive(Debug, Clone)]
pub(super) enum Way {
    /// Open the file and hand the descriptor over. A directory is shown instead.
    Open { flags: i32, mode: u32 },
    /// Show it inside and let the call go on there.
    Show,
    /// Connect outside and put that connection in the place of the caller's socket.
    Connect { socket: i32, address: SocketAddr },
}

struct Waiting {
    listener: Arc<OwnedFd>,
    id: u64,
    wish: Wish,
}

impl Waiting {
    fn refuse(&self) {
        let _ = notif::refuse(self.listener.as_fd(), self.id, self.wish.refusal);
    }
}

enum State {
    Asking(Vec<Waiting>),
    Allowed(GrantScope),
    Refused,
}

/// What was decided, and in which turn the last look at it was.
#[derive(Default)]
struct Book {
    turn: u64,
    states: HashMap<(PathBuf, Access), State>,
    /// What was shown inside by a mount, as often as it was.
    shown: Vec<PathBuf>,
}

impl Book {
    /// Forgets what was decided for an earlier turn only; gives the places that were shown for it. Only those: an
    /// unmounted mask would show what nobody granted.
    fn turn_to(&mut self, turn: u64) -> Vec<PathBuf> {
        if std::mem::replace(&mut self.turn, turn) == turn {
            return vec![];
        }
        let mut once = vec![];
        self.states.retain(|(path, _), state| match state {
            State::Allowed(GrantScope::Once) => {
                once.push(path.clone());
                false
            }
            State::Refused => false,
            State::Asking(_) | State::Allowed(_) => true,
        });
        let granted = |path: &PathBuf| self.states.keys().any(|(known, _)| known == path);
        let over = |path: &mut PathBuf| once.contains(path) && !granted(path);
        self.shown.extract_if(.., over).collect()
    }
}

/// The questions of one run and their answers.
#[derive(Clone)]
pub(super) struct Desk {
    pub(super) ask: Arc<dyn Ask>,
    pub(super) settings: SettingsDesk,
    /// Of the sandbox, once they are known.
    namespaces: Arc<OnceLock<Option<Namespaces>>>,
    root: Arc<OnceLock<OwnedFd>>,
    book: Arc<Mutex<Book>>,
    /// Decisions that were made and are being carried out and recorded.
    settling: Arc<(Mutex<usize>, Condvar)>,
}

impl Desk {
    pub(super) fn new(ask: Arc<dyn Ask>) -> Self {
        Self {
            ask,
            settings: SettingsDesk::default(),
            namespaces: Arc::default(),
            root: Arc::default(),
            book: Arc::default(),
            settling: Arc::default(),
        }
    }

    /// The sandbox's root directory.
    pub(super) fn has_root(&self, root: &OwnedFd) {
        if self.root.get().is_none()
            && let Ok(root) = root.try_clone()
        {
            let _ = self.root.set(root);
        }
    }

    /// Waits until every decision that was made is recorded. Questions nobody has answered are not waited for.
    pub(super) fn settle(&self) {
        let (count, changed) = &*self.settling;
        let mut count = count.locked();
        while *count > 0 {
            count = changed.wait(count).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Which turn this is.
    pub(super) fn turn(&self) -> u64 {
        self.ask.turn()
    }

    pub(super) fn add_settling(&self, by: isize) {
        let (count, changed) = &*self.settling;
        let mut count = count.locked();
        *count = count.saturating_add_signed(by);
        changed.notify_all();
    }

    /// Takes over the call, unless nobody would be asked: then the violation comes back.
    pub(super) fn take(
        &self,
        listener: &Arc<OwnedFd>,
        id: u64,
        violation: Violation,
        access: Access,
        wish: Wish,
    ) -> Option<Violation> {
        if !self.ask.wants(&violation) {
            return Some(violation);
        }
        let key = (wish.path.clone(), access);
        let waiting = Waiting { listener: Arc::clone(listener), id, wish: wish.clone() };
        let mut book = self.book();
        let over = book.turn_to(self.ask.turn());
        self.hide(over);
        let states = &mut book.states;
        // More than anybody answers.
        if states.len() >= MOST_ASKED && !states.contains_key(&key) {
            return Some(violation);
        }
        // What lies below a directory that was granted is shown.
        let shown = |((above, granted), state): (&(PathBuf, Access), &State)| {
            matches!(state, State::Allowed(_))
                && waiting.wish.path != *above
                && waiting.wish.path.starts_with(above)
                && granted.includes(access)
        };
        if states.iter().any(shown) {
            drop(book);
            if let Err(errno) = self.go_on(&waiting) {
                let _ = notif::refuse(waiting.listener.as_fd(), waiting.id, errno);
            }
            return None;
        }
        match states.get_mut(&key) {
            Some(State::Asking(queue)) => queue.push(waiting),
            Some(State::Allowed(_)) => {
                drop(book);
                let mut shown = Shown { stat: look(&key.0), prepared: None };
                if self.carry_out(&waiting, access, &mut shown).is_err() {
                    waiting.refuse();
                }
            }
            Some(State::Refused) => {
                drop(book);
                waiting.refuse();
            }
            None => {
                states.insert(key.clone(), State::Asking(vec![waiting]));
                drop(book);
                let desk = self.clone();
                // Without a thread nobody can be asked, and what nobody answers is refused.
                let spawned = std::thread::Builder::new().name("approval".to_owned()).spawn({
                    let (desk, key, violation) = (desk.clone(), key.clone(), violation.clone());
                    move || desk.question(&key, violation, &wish)
                });
                if spawned.is_err() {
                    desk.answer(&key, violation, Decision::Deny, Shown::default());
                }
            }
        }
        None
    }

    fn question(&self, key: &(PathBuf, Access), violation: Violation, wish: &Wish) {
        let stat = look(&key.0);
        let prepared = is_mounted(&wish.way, stat.as_ref()).then(|| self.namespaces(wish.tid)).flatten();
        let prepared = prepared.and_then(|namespaces| namespaces.prepare(&key.0, key.1).ok());
        let decision = self.ask.ask(&violation, &grant(key, GrantScope::Once));
        self.add_settling(1);
        self.answer(key, violation, decision, Shown { stat, prepared });
        self.add_settling(-1);
    }

    fn namespaces(&self, tid: i32) -> Option<&Namespaces> {
        self.namespaces.get_or_init(|| Namespaces::of(tid)).as_ref()
    }

    fn answer(&self, key: &(PathBuf, Access), violation: Violation, decision: Decision, mut shown: Shown) {
        let scope = decision.scope();
        let state = if decision.allows() { State::Allowed(scope) } else { State::Refused };
        let queue = match self.book().states.insert(key.clone(), state) {
            Some(State::Asking(queue)) => queue,
            _ => vec![],
        };
        if !decision.allows() {
            // Told before the calls go on: what comes of them must not be known earlier than why.
            self.ask.settled(&violation, &grant(key, scope), decision, Ok(()));
            self.ask.refused(violation);
            if decision == Decision::Abort && !self.ask.abort() {
                return;
            }
            for waiting in &queue {
                waiting.refuse();
            }
        } else {
            let mut outcome = Ok(());
            for waiting in &queue {
                if let Err(errno) = self.carry_out(waiting, key.1, &mut shown) {
                    let _ = notif::refuse(waiting.listener.as_fd(), waiting.id, errno);
                    outcome = Err(errno);
                }
            }
            self.ask.settled(&violation, &grant(key, scope), decision, outcome);
        }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.locked()
    }

    /// Takes away what was shown for a turn that is over.
    fn hide(&self, shown: Vec<PathBuf>) {
        if let Some(Some(namespaces)) = self.namespaces.get() {
            for path in shown {
                let _ = namespaces.hide(&path);
            }
        }
    }
}

fn grant(key: &(PathBuf, Access), scope: GrantScope) -> Grant {
    // A directory is granted only when it was the thing asked for, and then with what is in it.
    Grant { path: key.0.clone(), access: key.1, scope, recursive: key.0.is_dir() }
}

/// What the person was shown, and who has it in hand.
#[derive(Default)]
struct Shown {
    stat: Option<Stat>,
    prepared: Option<Prepared>,
}

/// Whether a yes means a mount and not a descriptor.
fn is_mounted(way: &Way, shown: Option<&Stat>) -> bool {
    match way {
        Way::Open { .. } => {
            shown.is_some_and(|shown| FileType::from_raw_mode(shown.st_mode) != FileType::RegularFile)
        }
        Way::Show => true,
        Way::Connect { .. } => false,
    }
}

fn look(path: &Path) -> Option<Stat> {
    rustix::fs::stat(path).ok()
}

impl Desk {
    /// Does for the waiting call what it wanted.
    fn carry_out(&self, waiting: &Waiting, access: Access, shown: &mut Shown) -> Result<(), Errno> {
        let Wish { path, tid, way, .. } = &waiting.wish;
        match way {
            Way::Open { flags, mode } if !is_mounted(way, shown.stat.as_ref()) => {
                let file = open_for(path, *tid, *flags, *mode, shown.stat.as_ref())?;
                if !notif::is_valid(waiting.listener.as_fd(), waiting.id) {
                    return Err(Errno::SRCH);
                }
                let cloexec = flags & libc::O_CLOEXEC != 0;
                notif::inject(waiting.listener.as_fd(), waiting.id, file.as_fd(), cloexec)
            }
            Way::Connect { socket, address } => {
                let (connected, cloexec) = network::connect_outside(*tid, *socket, *address)?;
                let listener = waiting.listener.as_fd();
                if !notif::is_valid(listener, waiting.id) {
                    return Err(Errno::SRCH);
                }
                notif::replace(listener, waiting.id, connected.as_fd(), *socket, cloexec)?;
                notif::succeed(listener, waiting.id, 0)
            }
            // A descriptor of a host directory would be a way to everything around it; a mount is not.
            Way::Open { .. } | Way::Show => {
                let mut prepared = shown.prepared.take();
                match &mut prepared {
                    Some(prepared) => prepared.show()?,
                    None => self.namespaces(*tid).ok_or(Errno::NOSYS)?.show(path, access)?,
                }
                self.book().shown.push(path.clone());
                self.go_on(waiting)
            }
        }
    }

    /// Makes a call on what is shown inside by now: at the very place that was judged, since the kernel would read the
    /// path again. Executing goes on there, which reads nothing that is not opened as well.
    fn go_on(&self, waiting: &Waiting) -> Result<(), Errno> {
        let listener = waiting.listener.as_fd();
        let Wish { path, tid, way, .. } = &waiting.wish;
        let Way::Open { flags, mode } = way else { return notif::let_continue(listener, waiting.id) };
        let root = self.root.get().ok_or(Errno::ACCESS)?;
        let mode = mode & !umask(*tid).ok_or(Errno::SRCH)?;
        let file =
            Open::new(path, *flags, if flags & libc::O_CREAT == 0 { 0 } else { mode }).at(root.as_fd())?;
        if !notif::is_valid(listener, waiting.id) {
            return Err(Errno::SRCH);
        }
        notif::inject(listener, waiting.id, file.as_fd(), flags & libc::O_CLOEXEC != 0)
    }
}

/// Opens the granted file as its caller wanted it, if it still is the file that was shown.
fn open_for(path: &Path, tid: i32, flags: i32, mode: u32, shown: Option<&Stat>) -> Result<OwnedFd, Errno> {
    #[expect(clippy::cast_sign_loss, reason = "flag bits")]
    let mut open = OFlags::from_bits_retain(flags as u32) | OFlags::CLOEXEC | OFlags::NOCTTY;
    open.remove(OFlags::NOFOLLOW);
    let create = if open.contains(OFlags::CREATE) {
        Mode::from_raw_mode(mode & !umask(tid).unwrap_or(0o022) & 0o777)
    } else {
        Mode::empty()
    };
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let file = rustix::fs::openat2(rustix::fs::CWD, path, open, create, resolve)?;
    let opened = rustix::fs::fstat(&file)?;
    let same = shown.is_none_or(|shown| (shown.st_dev, shown.st_ino) == (opened.st_dev, opened.st_ino));
    let is_file = FileType::from_raw_mode(opened.st_mode) == FileType::RegularFile;
    if same && is_file { Ok(file) } else { Err(Errno::ACCESS) }
}
