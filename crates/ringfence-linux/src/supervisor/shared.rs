//! Where the sandbox has no namespaces: files, processes and sockets are the host's own.
//!
//! Nothing stands behind these verdicts but Landlock, which knows neither processes nor sockets with a path.
//! So what is not known to be inside is refused, and no connection is left to the kernel.

use std::cell::OnceCell;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ringfence_model::{Access, DenyReason, Operation, PathDecision, PathOutcome, Violation};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::process::Pid;

use super::{Answer, Bound, Supervisor, host_lookup};
use crate::descendants;
use crate::landlock::Rights;
use crate::plan::{KERNELS_OWN, LandlockRule};

/// How the host's files look from a sandbox that shares them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shared {
    /// The person's home, which the sandbox does not see.
    pub home: PathBuf,
    /// The directory that programs inside take for it.
    pub own_home: PathBuf,
    /// Directories that a sandbox with mounts has to itself, and where programs look as a matter of course.
    pub usual: Vec<PathBuf>,
    /// The directory in the place of `/dev/shm`.
    pub own_memory: PathBuf,
    /// Sockets on loopback that are the sandbox's own.
    pub bound: Bound,
    /// Files that read otherwise inside.
    pub replaced: Vec<(PathBuf, Vec<u8>)>,
    /// What Landlock lets be opened for reading: the supervisor, which is not held by it, opens nothing else.
    pub landlocked: Vec<LandlockRule>,
}

/// The process between us and the sandbox, once it is known.
pub(super) type Subreaper = OnceCell<Option<Pid>>;

impl Supervisor<'_> {
    fn subreaper(&self) -> Option<Pid> {
        *self.subreaper.get_or_init(|| descendants::top(Pid::from_raw(self.tid)?, rustix::process::getpid()))
    }

    /// Whether the process is one of the sandbox's.
    pub(super) fn is_inside(&self, pid: i32) -> bool {
        let above = Pid::from_raw(pid).and_then(|pid| descendants::top(pid, rustix::process::getpid()));
        above.is_some() && above == self.subreaper()
    }

    /// Whether Landlock lets the caller read `self.real`, which is what `kind` says.
    pub(super) fn landlock_lets_read(&self, kind: Option<FileType>) -> bool {
        let lists = |rights| rights == Rights::List && kind != Some(FileType::Directory);
        let real = self.real.as_path();
        self.watched.shared.as_ref().is_none_or(|shared| {
            let mut rules = shared.landlocked.iter().filter(|rule| !lists(rule.rights));
            rules.any(|rule| real.starts_with(OsStr::from_bytes(rule.path.to_bytes())))
        })
    }

    /// Whether the number is that of a process outside, which there would be none of in a pid namespace.
    pub(super) fn is_of_the_host(&self, pid: i32) -> bool {
        self.watched.shared.is_some() && pid > 0 && !self.is_inside(pid)
    }

    /// What the person has in the place of a path of the sandbox's own home.
    pub(super) fn at_home(&self, path: &Path) -> Option<PathBuf> {
        let shared = self.watched.shared.as_ref()?;
        path.strip_prefix(&shared.own_home).ok().map(|relative| shared.home.join(relative))
    }

    /// What policy says of the person's file in whose place `path` is, if that is denied or protected by name: a
    /// sandbox with mounts has it at its own path, and refuses it there.
    pub(super) fn refused_at_home(&self, path: &Path, access: Access) -> Option<(PathBuf, PathDecision<'_>)> {
        let path = self.at_home(path)?;
        let decision = self.policy.decide(&path, access);
        let is_refused = match decision.outcome {
            // What the person does not have was made inside, unless a rule of the person's own is about it.
            PathOutcome::Denied(DenyReason::Denied) => {
                let named = decision.rule.and_then(|rule| rule.path.as_literal()).unwrap_or(&path);
                let own = self.policy.decide_as_own(&path, access).outcome;
                own == PathOutcome::Denied(DenyReason::Denied) || host_lookup::host_has(named)
            }
            PathOutcome::Denied(DenyReason::Protected) => {
                !decision.rule.is_some_and(ringfence_model::PathRule::is_about_later)
            }
            _ => false,
        };
        is_refused.then_some((path, decision))
    }

    /// What the caller reads in the place of `self.path`.
    pub(super) fn replacement(&self, flags: i32) -> Option<Answer> {
        // Who only wants to point at it reads nothing.
        if flags & libc::O_PATH != 0 {
            return None;
        }
        let content = self.replaced()?;
        let file = crate::prefork::wire::sealed("ringfence-replaced", content).ok()?;
        Some(Answer::Give(file, flags & libc::O_CLOEXEC != 0))
    }

    /// What is in the file that reads otherwise inside, if `self.path` is one.
    pub(super) fn replaced(&self) -> Option<&[u8]> {
        let replaced = &self.watched.shared.as_ref()?.replaced;
        let (_, content) = replaced.iter().find(|(path, _)| path == self.path.as_path())?;
        Some(content)
    }

    /// Objects of shared memory and semaphores have names below a directory of the host. Those of the sandbox are in
    /// another, in which only the supervisor makes and opens anything.
    pub(super) fn lead_to_own_memory(&mut self) {
        let Some(shared) = &self.watched.shared else { return };
        if let Ok(below) = self.path.as_path().strip_prefix(SHARED_MEMORY) {
            let own = shared.own_memory.join(below);
            // One that is too long names nothing.
            if !self.path.set(&own) {
                self.path.clear();
            }
        }
    }

    /// A new terminal, or the other end of one that the caller made. All others are the host's.
    pub(super) fn own_terminal(&self, tid: i32, flags: i32) -> Option<Answer> {
        self.watched.shared.as_ref()?;
        let path = self.path.as_path();
        let is_new = path == "/dev/ptmx" || path == "/dev/pts/ptmx";
        let number = || path.strip_prefix("/dev/pts").ok()?.to_str()?.parse::<u32>().ok();
        if flags & libc::O_PATH != 0 || !(is_new || number().is_some_and(|number| holds_master(tid, number)))
        {
            return None;
        }
        let kept = flags & (libc::O_ACCMODE | libc::O_NONBLOCK);
        let open = OFlags::from_bits_retain(kept.cast_unsigned()) | OFlags::NOCTTY | OFlags::CLOEXEC;
        Some(match rustix::fs::open(path, open | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(terminal) => Answer::Give(terminal, flags & libc::O_CLOEXEC != 0),
            Err(errno) => Answer::Done(Err(errno)),
        })
    }

    /// What the kernel tells of itself, which masks cover elsewhere.
    pub(super) fn is_kernels_own(&self) -> bool {
        let real = self.real.as_path().as_os_str().as_bytes();
        self.watched.shared.is_some() && KERNELS_OWN.iter().any(|own| own.to_bytes() == real)
    }

    /// What becomes of a read of the existing `self.real`.
    pub(super) fn shared_read(&self, flags: i32) -> Answer {
        let real = self.real.as_path();
        // Elsewhere it would be there and empty, which is no refusal worth telling.
        if self.is_usual_place() {
            return Answer::Done(Err(Errno::ACCESS));
        }
        let on_the_way = self.policy.decide(real, Access::Read).outcome == PathOutcome::Private;
        if on_the_way && flags & libc::O_PATH == 0 && real.is_dir() {
            // Landlock could only allow to list everything below it too. What is opened below, it judges.
            let open = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
            return match rustix::fs::openat2(rustix::fs::CWD, real, open, Mode::empty(), resolve) {
                Ok(directory) => Answer::Give(directory, flags & libc::O_CLOEXEC != 0),
                Err(errno) => Answer::Done(Err(errno)),
            };
        }
        self.verdict(Operation::Open, Access::Read)
    }

    /// Whether `self.real` is a device of the host, of which only the content may be changed.
    pub(super) fn is_device(&self) -> bool {
        let Ok(below) = self.real.as_path().strip_prefix("/dev") else { return false };
        let stat = || {
            let root = self.root.as_ref()?;
            rustix::fs::statat(root, Path::new("dev").join(below), AtFlags::SYMLINK_NOFOLLOW).ok()
        };
        let is_node =
            |mode| matches!(FileType::from_raw_mode(mode), FileType::CharacterDevice | FileType::BlockDevice);
        self.watched.shared.is_some() || stat().is_some_and(|stat| is_node(stat.st_mode))
    }

    /// Names the sandbox's own place where a program wants that of the host.
    pub(super) fn with_way_out(&self, mut violation: Violation) -> Violation {
        let is_temporary = TEMPORARY.iter().any(|place| Path::new(&violation.resource).starts_with(place));
        if is_temporary && self.watched.shared.is_some() && violation.reason == Some(DenyReason::Unlisted) {
            violation.message.push_str("; TMPDIR names a place of the sandbox's own");
        }
        violation
    }

    /// Whether `self.real` is a directory that is only looked into because every system has it.
    fn is_usual_place(&self) -> bool {
        let real = self.real.as_path();
        self.watched.shared.as_ref().is_some_and(|shared| shared.usual.iter().any(|place| place == real))
    }

    /// Whether `self.real` tells about a process of the host.
    pub(super) fn is_of_another_process(&self) -> bool {
        if self.watched.shared.is_none() {
            return false;
        }
        let Ok(below) = self.real.as_path().strip_prefix("/proc") else { return false };
        let number = below.iter().next().and_then(|name| name.to_str()).and_then(|name| name.parse().ok());
        // The subreaper is no process of the sandbox, although all of those are below it.
        number.is_some_and(|pid| !self.is_inside(pid) || Pid::from_raw(pid) == self.subreaper())
    }
}

const TEMPORARY: [&str; 2] = ["/tmp", "/var/tmp"];
const SHARED_MEMORY: &str = "/dev/shm";

/// Whether this process holds the master of terminal `number`. While it does, nobody else gets that number.
fn holds_master(tid: i32, number: u32) -> bool {
    let is_it = |text: String| {
        let index = text.lines().find_map(|line| line.strip_prefix("tty-index:"));
        index.is_some_and(|index| index.trim().parse() == Ok(number))
    };
    let descriptors = std::fs::read_dir(format!("/proc/{tid}/fdinfo")).into_iter().flatten().flatten();
    descriptors.filter_map(|entry| std::fs::read_to_string(entry.path()).ok()).any(is_it)
}
