//! What was refused: by the kernel's log, or failing that by the command's own words.
//!
//! The log is written by the kernel and read on a channel of its own, so what it says is certain. The
//! command's stderr is the command's to write: it is believed only when the command failed *and* the
//! policy refuses the resource it names, and the result is marked as uncertain even then.

use std::path::{Path, PathBuf};

use ringfence_model::{
    Access, DenyReason, Error, ErrorKind, ExecResult, Filesystem, Operation, PathOutcome, Violation,
    ViolationKind,
};

/// The reason given when the text names none.
pub const DEFAULT_REASON: &str = "blocked by the macOS sandbox";

/// What a program prints when the sandbox refuses a path; a plain lack of permission reads differently.
const REFUSED: &str = "Operation not permitted";

/// Families of operations that the log names.
const FAMILIES: &[&str] = &[
    "file-",
    "process-",
    "network",
    "mach-",
    "sysctl",
    "ipc-",
    "signal",
    "iokit",
    "system-",
    "user-",
    "pseudo-tty",
    "job-",
    "lsopen",
    "device-",
    "nvram",
];

/// One refusal in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    pub process: Option<String>,
    pub pid: Option<u32>,
    /// As the profile language calls it: `file-read-data`.
    pub operation: String,
    /// Path, address or name; the log gives none for some operations.
    pub resource: Option<String>,
    /// How often it happened; the log sums up repetitions.
    pub count: u32,
}

/// The command that prints refusals as they happen.
#[must_use]
pub fn log_command(tag: Option<&str>) -> Vec<String> {
    let mut predicate = "eventMessage CONTAINS \"deny(\" AND senderImagePath CONTAINS \"Sandbox\"".to_owned();
    if let Some(tag) = tag {
        predicate.push_str(&format!(" AND eventMessage CONTAINS \"{tag}\""));
    }
    ["/usr/bin/log", "stream", "--style", "compact", "--predicate", &predicate].map(str::to_owned).to_vec()
}

impl Denial {
    /// Reads one line of the log, such as `… Sandbox: cat(512) deny(1) file-read-data /etc/hosts`. The
    /// tag that a profile added at the end is dropped.
    #[must_use]
    pub fn parse(line: &str, tag: Option<&str>) -> Option<Self> {
        let line = line.trim_end();
        let line = tag.and_then(|tag| line.strip_suffix(tag)).map_or(line, str::trim_end);
        let (before, after) = match line.strip_prefix("deny(") {
            Some(after) => (None, after),
            None => {
                let (before, after) = line.split_once(" deny(")?;
                (Some(before), after)
            }
        };
        let (level, rest) = after.split_once(") ")?;
        if level.is_empty() || !level.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let (operation, resource) = match rest.split_once(' ') {
            Some((operation, resource)) => (operation, Some(resource.trim())),
            None => (rest, None),
        };
        let known = FAMILIES.iter().any(|family| operation.starts_with(family));
        if !known || !operation.bytes().all(|b| b.is_ascii_alphanumeric() || b"-*".contains(&b)) {
            return None;
        }
        let mut denial = Self {
            process: None,
            pid: None,
            operation: operation.to_owned(),
            resource: resource.filter(|resource| !resource.is_empty()).map(str::to_owned),
            count: 1,
        };
        if let Some(before) = before {
            denial.read_process(before)?;
        }
        Some(denial)
    }

    /// `2 duplicate reports for Sandbox: cat(512)`, with whatever the log puts in front.
    fn read_process(&mut self, before: &str) -> Option<()> {
        let (front, who) = before.rsplit_once("Sandbox: ")?;
        let (name, pid) = who.strip_suffix(')')?.rsplit_once('(')?;
        self.pid = Some(pid.parse().ok()?);
        self.process = Some(name.to_owned());
        if let Some(front) = front.trim_end().split_once(" duplicate report").map(|(front, _)| front) {
            self.count = front.rsplit(' ').next().and_then(|count| count.parse().ok()).unwrap_or(1);
        }
        Some(())
    }

    /// What the operation is in the words of the model.
    #[must_use]
    pub fn operation(&self) -> Operation {
        match self.operation.trim_end_matches('*') {
            "file-read-metadata" | "file-test-existence" => Operation::Stat,
            "file-read-xattr" | "file-write-xattr" => Operation::Xattr,
            "file-write-create" => Operation::Create,
            "file-write-unlink" => Operation::Remove,
            "file-write-mode" | "file-write-setugid" => Operation::Chmod,
            "file-write-owner" => Operation::Chown,
            "file-write-times" => Operation::Utime,
            "file-link" => Operation::Link,
            "network-outbound" => Operation::Connect,
            "network-bind" | "network-inbound" => Operation::Bind,
            "signal" => Operation::Signal,
            name if name.starts_with("process-exec") => Operation::Execute,
            name if name.starts_with("file-read") || name.starts_with("file-write") => Operation::Open,
            _ => Operation::Syscall,
        }
    }

    /// The access that was asked for, of an operation on a path.
    #[must_use]
    pub fn access(&self) -> Option<Access> {
        match self.operation.as_str() {
            name if name.starts_with("process-exec") || name == "file-map-executable" => {
                Some(Access::Execute)
            }
            name if name.starts_with("file-read") || name == "file-test-existence" => Some(Access::Read),
            name if name.starts_with("file-") => Some(Access::Write),
            _ => None,
        }
    }

    /// `deny file-read-data`.
    #[must_use]
    pub fn reason(&self) -> String {
        format!("deny {}", self.operation)
    }

    /// The violation, certain because the kernel said it. `filesystem` is what [`crate::effective`]
    /// gives; the rule is looked up there.
    #[must_use]
    pub fn violation(&self, filesystem: &Filesystem, time_ms: u64) -> Violation {
        let resource = self.resource.clone().unwrap_or_else(|| self.operation.clone());
        let mut violation = match self.access() {
            Some(access) => path_violation(filesystem, Path::new(&resource), access, time_ms),
            None => {
                let kind = if self.operation.starts_with("network") {
                    ViolationKind::NetworkViolation
                } else {
                    ViolationKind::SyscallDenied
                };
                blank(kind, resource, time_ms)
            }
        };
        violation.operation = self.operation();
        violation.pid = self.pid;
        violation.program = self.process.clone();
        violation.certain = true;
        violation.message = format!("{} on {} refused by seatbelt", self.operation, violation.resource);
        violation
    }
}

fn blank(kind: ViolationKind, resource: String, time_ms: u64) -> Violation {
    Violation { time_ms, certain: false, ..Violation::new(kind, Operation::Open, resource) }
}

/// A violation of the rule that refuses `access`; the reason stays empty when no rule does.
fn path_violation(filesystem: &Filesystem, path: &Path, access: Access, time_ms: u64) -> Violation {
    let decision = filesystem.decide(path, access);
    let reason = match decision.outcome {
        PathOutcome::Denied(reason) => Some(reason),
        PathOutcome::Private => Some(DenyReason::Unlisted),
        PathOutcome::Allowed => None,
    };
    let kind = match reason {
        Some(DenyReason::Denied) => ViolationKind::SensitiveFileAccess,
        _ => ViolationKind::PathAccessDenied,
    };
    let mut violation = blank(kind, path.to_string_lossy().into_owned(), time_ms);
    violation.access = Some(access);
    violation.reason = reason;
    violation.rule = decision.rule.map(|rule| rule.path.to_string());
    violation.rule_source = decision.rule.map(|rule| rule.source.clone());
    violation
}

/// How a command ended, as far as the text fallback needs it.
#[derive(Debug, Clone, Copy)]
pub struct Outcome<'a> {
    pub exit_code: i32,
    pub stderr: &'a [u8],
    /// Where the command ran; relative names in its messages are meant from here.
    pub directory: &'a Path,
}

impl<'a> Outcome<'a> {
    #[must_use]
    pub fn of(result: &'a ExecResult, directory: &'a Path) -> Self {
        Self { exit_code: result.exit_code, stderr: &result.stderr, directory }
    }

    /// The refusal that the command's own words suggest, never certain.
    #[must_use]
    pub fn violation(&self, filesystem: &Filesystem, time_ms: u64) -> Option<Violation> {
        if self.exit_code == 0 {
            return None;
        }
        let text = String::from_utf8_lossy(self.stderr);
        text.lines().find_map(|line| {
            let mut violation = if let Some(denial) = Denial::parse(line, None) {
                let mut violation = denial.violation(filesystem, time_ms);
                // Network and services are always refused; a path only when a rule refuses it.
                if violation.access.is_some() && violation.reason.is_none() {
                    return None;
                }
                violation.message = denial.reason();
                violation
            } else {
                let path = self.resolve(&refused_path(line)?);
                let refused = |access| {
                    let violation = path_violation(filesystem, &path, access, time_ms);
                    violation.reason.is_some().then_some(violation)
                };
                let mut violation = refused(Access::Read).or_else(|| refused(Access::Write))?;
                violation.message = REFUSED.to_owned();
                violation
            };
            violation.certain = false;
            Some(violation)
        })
    }

    #[must_use]
    pub fn is_violation(&self, filesystem: &Filesystem) -> bool {
        self.violation(filesystem, 0).is_some()
    }

    /// Why, in a few words.
    #[must_use]
    pub fn reason(&self, filesystem: &Filesystem) -> String {
        let message = self.violation(filesystem, 0).map(|violation| violation.message);
        message.filter(|message| !message.is_empty()).unwrap_or_else(|| DEFAULT_REASON.to_owned())
    }

    #[must_use]
    pub fn resource(&self, filesystem: &Filesystem) -> Option<String> {
        self.violation(filesystem, 0).map(|violation| violation.resource)
    }

    /// The error of `sandbox-exec` itself, when it could not start the command.
    #[must_use]
    pub fn start_failure(&self) -> Option<Error> {
        let text = String::from_utf8_lossy(self.stderr);
        let message = text.lines().next()?.strip_prefix("sandbox-exec: ")?;
        // Its own failures end with the codes of sysexits(3).
        (64..=78).contains(&self.exit_code).then(|| {
            Error::new(ErrorKind::SandboxDenied, format!("sandbox-exec: {message}"))
                .hint("a sandboxed program cannot start another sandbox; run ringfence outside of one")
        })
    }

    fn resolve(&self, name: &str) -> PathBuf {
        let mut path = PathBuf::new();
        for part in self.directory.join(name).components() {
            match part {
                std::path::Component::CurDir => {}
                std::path::Component::ParentDir => {
                    path.pop();
                }
                part => path.push(part),
            }
        }
        crate::env::canonical_path(&path)
    }
}

/// The path of a message such as `cat: '/x y': Operation not permitted` or `bash: /x: Operation …`.
fn refused_path(line: &str) -> Option<String> {
    let before = line.split_once(REFUSED)?.0.trim_end().trim_end_matches(':').trim_end();
    for (open, close) in [('\'', '\''), ('"', '"'), ('`', '\''), ('‘', '’'), ('“', '”')] {
        if let Some(rest) = before.strip_suffix(close)
            && let Some((_, path)) = rest.rsplit_once(open)
            && !path.is_empty()
        {
            return Some(path.to_owned());
        }
    }
    let path = before.rsplit_once(": ").map_or(before, |(_, path)| path);
    (!path.is_empty()).then(|| path.to_owned())
}
