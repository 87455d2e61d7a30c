//! What this machine can enforce: every mechanism is tried, not guessed from versions.
//!
//! [`examine`] gives data; whoever asked prints it. Each [`Check`] says what was found, what it costs when
//! it is missing, and the command that puts it right.
//!
//! | module | what it looks at |
//! |---|---|
//! | `kernel` | namespaces, proc, Landlock, seccomp, access to supervised processes; on Linux |
//! | `machine` | control groups, `/dev/fuse`, containers; on Linux |
//! | `macos` | `sandbox-exec`, the kernel's log; on macOS |
//! | [`surroundings`] | nesting, room for the ledger |
//! | [`tools`] | bubblewrap, docker |
//! | [`trial`] | a real sandbox that runs `true`, and which launcher follows from all of it |

#[cfg(target_os = "linux")]
mod kernel;
#[cfg(target_os = "linux")]
mod machine;
#[cfg(any(test, not(target_os = "linux")))]
mod macos;
mod surroundings;
mod tools;
mod trial;

#[cfg(all(test, target_os = "linux"))]
mod tests;

use std::path::Path;

use ringfence_fence::CreateOptions;
#[cfg(target_os = "linux")]
use ringfence_linux::probe;
use ringfence_model::Error;

use crate::host::Host;

/// How it stands with one mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    Ok,
    /// There, but not all of it.
    Degraded,
    Missing,
    /// Has no meaning on this system.
    NotApplicable,
}

impl Status {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Degraded => "degraded",
            Self::Missing => "missing",
            Self::NotApplicable => "notApplicable",
        }
    }
}

/// Whether the native launcher, which promises everything, can do without it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Need {
    Required,
    Optional,
}

/// One mechanism.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// For programs; never changes.
    pub id: &'static str,
    /// For people.
    pub title: &'static str,
    pub status: Status,
    pub need: Need,
    /// What was found.
    pub found: String,
    /// What is lost, when it is not all there.
    pub cost: Option<String>,
    /// What to run or do about it.
    pub remedy: Option<String>,
}

impl Check {
    fn new(id: &'static str, title: &'static str, status: Status, found: impl Into<String>) -> Self {
        Self { id, title, status, need: Need::Optional, found: found.into(), cost: None, remedy: None }
    }

    fn required(mut self) -> Self {
        self.need = Need::Required;
        self
    }

    fn costs(mut self, cost: impl Into<String>) -> Self {
        self.cost = Some(cost.into());
        self
    }

    fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// It stands in the way of the native launcher.
    #[must_use]
    pub fn blocks(&self) -> bool {
        self.need == Need::Required && self.status == Status::Missing
    }
}

/// Which launcher `ringfence run` uses here, and why that one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// None: no fence can start.
    pub launcher: Option<String>,
    pub why: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The kernel's own name for its version.
    pub kernel: String,
    pub checks: Vec<Check>,
    pub choice: Choice,
}

/// What the examination depends on.
#[derive(Debug)]
pub struct Questions<'a> {
    pub host: &'a Host,
    /// This program, for remedies that name it.
    pub program: &'a Path,
    /// A sandbox in an empty directory with nothing configured: what the machine can do.
    pub plain: CreateOptions,
    /// The sandbox `ringfence run` would make here, or why its configuration does not load.
    pub here: Result<CreateOptions, Error>,
    pub ledger: &'a Path,
}

#[cfg(target_os = "linux")]
/// Which condition for namespaces fails here, and what to do about it.
pub(crate) fn why_no_namespaces(host: &Host) -> Option<String> {
    let program = std::env::current_exe().unwrap_or_default();
    let container = machine::container(host);
    let place = kernel::Place {
        root: rustix::process::geteuid().is_root(),
        container: container.as_deref(),
        program: &program.to_string_lossy(),
    };
    let user = probe::user_namespace();
    let first = kernel::user_namespaces(user, &kernel::Switches::read(), &place);
    let checks = [first, kernel::fresh_proc(user, probe::fresh_proc(), &place)];
    let failing = checks.into_iter().find(|check| check.status == Status::Missing)?;
    Some(format!("{}: {}; remedy: {}", failing.title, failing.found, failing.remedy.unwrap_or_default()))
}

/// Tries everything. Takes some tenths of a second, most of it for tools of others.
#[must_use]
pub fn examine(questions: Questions<'_>) -> Report {
    let Questions { host, program, plain, here, ledger } = questions;
    let mut checks = of_the_system(host, program);
    checks.extend([surroundings::nested(host), surroundings::room_for(ledger)]);
    checks.extend(of_others(host));
    let fence = trial::fence(plain);
    let here = trial::here(here);
    let choice = trial::choose(&checks, &fence, &here);
    checks.extend([fence.check, here.check]);
    let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
    Report { kernel, checks, choice }
}

/// The mechanisms of the operating system.
#[cfg(target_os = "linux")]
fn of_the_system(host: &Host, program: &Path) -> Vec<Check> {
    let container = machine::container(host);
    let place = kernel::Place {
        root: rustix::process::geteuid().is_root(),
        container: container.as_deref(),
        program: &program.to_string_lossy(),
    };
    let mut checks = kernel::checks(&place);
    checks.extend([machine::control_groups(), machine::fuse(), machine::in_container(container.as_deref())]);
    checks
}

/// The mechanisms of the operating system.
#[cfg(not(target_os = "linux"))]
fn of_the_system(host: &Host, _program: &Path) -> Vec<Check> {
    macos::checks(host, &macos::Programs::default())
}

/// Programs that other fences are made with.
#[cfg(target_os = "linux")]
fn of_others(host: &Host) -> Vec<Check> {
    vec![tools::bubblewrap(host), tools::docker(host), tools::seatbelt()]
}

/// Programs that other fences are made with.
#[cfg(not(target_os = "linux"))]
fn of_others(host: &Host) -> Vec<Check> {
    vec![tools::docker(host)]
}
