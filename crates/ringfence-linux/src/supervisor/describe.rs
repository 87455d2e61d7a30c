//! Putting a refusal into words: who asked, for what, and which rule says no.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::network;
use crate::plan::OWN_PROCESSES;
use crate::seccomp::DenyEntry;
use ringfence_model::{
    Access, DenyReason, Host, Operation, PathDecision, Severity, Violation, ViolationKind,
};

/// A refusal, before it is put into words.
#[derive(Debug, Clone)]
pub(super) struct Denial {
    pub(super) operation: Operation,
    pub(super) resource: Resource,
    pub(super) access: Access,
    pub(super) reason: DenyReason,
    pub(super) rule: Option<(String, ringfence_model::RuleSource)>,
    /// It is not there, in a place that is the sandbox's own: so the caller reads.
    pub(super) missing: bool,
}

#[derive(Debug, Clone)]
pub(super) enum Resource {
    Path(PathBuf),
    Address(String),
    /// By name, where hosts are reached by name.
    Host(Host, u16),
}

impl Denial {
    pub(super) fn of_path(
        operation: Operation,
        path: &Path,
        access: Access,
        reason: DenyReason,
        decision: &PathDecision<'_>,
    ) -> Self {
        Self {
            operation,
            resource: Resource::Path(path.to_owned()),
            access,
            reason,
            rule: decision.rule.map(|rule| (rule.path.to_string(), rule.source.clone())),
            missing: false,
        }
    }

    /// What the caller hears. Of a service on loopback: that there is none, as in the sandbox's own network; else it would
    /// tell where the host listens.
    pub(super) fn errno(&self) -> Errno {
        match &self.resource {
            Resource::Address(address) => refusal_of(address.parse().ok()),
            Resource::Path(_) if self.missing => Errno::NOENT,
            Resource::Path(_) | Resource::Host(..) => Errno::ACCESS,
        }
    }
}

/// What the caller of a refused connection hears.
pub(super) fn refusal_of(address: Option<SocketAddr>) -> Errno {
    match address {
        Some(address) if network::is_loopback(address) => Errno::CONNREFUSED,
        _ => Errno::ACCESS,
    }
}

pub(super) fn violation(tid: i32, denial: Denial) -> Violation {
    violation_by(&format!("/proc/{tid}"), denial)
}

/// By the process that `process`, a directory of some `/proc`, describes.
pub(super) fn violation_by(process: &str, denial: Denial) -> Violation {
    let kind = kind(&denial);
    let (resource, message) = describe(&denial);
    Violation {
        access: Some(denial.access),
        reason: Some(denial.reason),
        rule: denial.rule.as_ref().map(|(rule, _)| rule.clone()),
        rule_source: denial.rule.map(|(_, source)| source),
        ..seen(process, kind, denial.operation, resource, message)
    }
}

/// A call that is refused whoever makes it, and why.
pub(super) fn refused_call(tid: i32, entry: &DenyEntry) -> Violation {
    let name = entry.call.name;
    let message = format!("call {name}: refused to everybody inside; {}", entry.reason);
    Violation {
        rule: Some(format!("seccomp {name}")),
        ..seen(
            &format!("/proc/{tid}"),
            ViolationKind::SyscallDenied,
            Operation::Syscall,
            name.to_owned(),
            message,
        )
    }
}

/// The kernel makes no more processes; the newest is what `process`, a directory of some `/proc`, describes.
pub(super) fn too_many_processes(process: &str, limit: u64, there: u64) -> Violation {
    let (limit, there) = (limit.saturating_sub(OWN_PROCESSES), there.saturating_sub(OWN_PROCESSES));
    let processes = if limit == 1 { "process" } else { "processes" };
    let message = format!("the limit of {limit} {processes} at once was reached; at least {there} were seen");
    let kind = ViolationKind::ResourceLimit;
    Violation {
        rule: Some("limits.processes".to_owned()),
        ..seen(process, kind, Operation::Limit, "processes".to_owned(), message)
    }
}

/// So many refusals are not told one by one.
#[must_use]
pub fn left_out(count: u64) -> Violation {
    let refusals = if count == 1 { "refusal is" } else { "refusals are" };
    Violation {
        blocked: false,
        severity: Severity::Low,
        time_ms: ringfence_model::now_ms(),
        message: format!("{count} more {refusals} not listed: there are too many different ones"),
        ..Violation::new(ViolationKind::ResourceLimit, Operation::Limit, "violations".to_owned())
    }
}

/// A violation with all that is known of every refused call.
fn seen(
    process: &str,
    kind: ViolationKind,
    operation: Operation,
    resource: String,
    message: String,
) -> Violation {
    let argv = argv(process);
    let program = std::fs::read_link(format!("{process}/exe"))
        .ok()
        .map(|path| path.to_string_lossy().into_owned())
        .or_else(|| argv.first().cloned());
    Violation {
        pid: inner_pid(process),
        program,
        argv,
        time_ms: ringfence_model::now_ms(),
        message,
        ..Violation::new(kind, operation, resource)
    }
}

fn kind(denial: &Denial) -> ViolationKind {
    match (&denial.resource, denial.reason) {
        (Resource::Address(_) | Resource::Host(..), _) => ViolationKind::NetworkViolation,
        (Resource::Path(_), DenyReason::Denied) => ViolationKind::SensitiveFileAccess,
        (Resource::Path(_), DenyReason::Protected | DenyReason::ReadOnly | DenyReason::Unlisted) => {
            if denial.operation == Operation::Execute {
                ViolationKind::CommandBlocked
            } else {
                ViolationKind::PathAccessDenied
            }
        }
    }
}

fn describe(denial: &Denial) -> (String, String) {
    let verb = match denial.operation {
        Operation::Open | Operation::List | Operation::Stat => match denial.access {
            Access::Read => "read",
            Access::Write => "write",
            Access::Execute => "execute",
            Access::Connect => "connect to",
        },
        Operation::Create => "create",
        Operation::Remove => "remove",
        Operation::Rename => "rename",
        Operation::Link => "link",
        Operation::Symlink => "make a symlink at",
        Operation::Mkdir => "make directory",
        Operation::Truncate => "truncate",
        Operation::Chmod => "change the mode of",
        Operation::Chown => "change the owner of",
        Operation::Utime => "change the times of",
        Operation::Xattr => "change attributes of",
        Operation::Execute => "execute",
        Operation::Connect => "connect to",
        Operation::Bind => "bind to",
        Operation::Send => "send to",
        Operation::Lookup => "look up",
        _ => "use",
    };
    let resource = match &denial.resource {
        Resource::Path(path) => path.to_string_lossy().into_owned(),
        Resource::Address(address) => address.clone(),
        Resource::Host(host, port) => host.with_port(*port),
    };
    let why = match (&denial.rule, denial.reason) {
        (Some((rule, source)), DenyReason::Denied) => format!("denied by {rule} ({source})"),
        (Some((rule, source)), DenyReason::Protected) => format!("protected by {rule} ({source})"),
        (Some((rule, source)), DenyReason::ReadOnly) => format!("only readable by {rule} ({source})"),
        (_, DenyReason::Unlisted) if denial.operation == Operation::Lookup => {
            format!("the sandbox has no network; --allow-host {resource} would allow this host")
        }
        (Some((port, _)), DenyReason::Unlisted) if matches!(denial.resource, Resource::Host(..)) => {
            format!("{port}; --allow-host {resource} would allow it")
        }
        (_, DenyReason::Unlisted)
            if matches!(denial.resource, Resource::Host(..)) && denial.operation == Operation::Send =>
        {
            format!("no rule allows datagrams to this host; --allow-host {resource}/udp would")
        }
        (_, DenyReason::Unlisted) if matches!(denial.resource, Resource::Host(..)) => {
            format!("no rule allows this host; --allow-host {resource} would")
        }
        (_, DenyReason::Unlisted) if matches!(denial.resource, Resource::Address(_)) => {
            "the sandbox has no network".to_owned()
        }
        (_, DenyReason::Unlisted) => "no rule allows it".to_owned(),
        (None, _) => "refused by the sandbox".to_owned(),
    };
    let message = format!("{verb} {resource}: {why}");
    (resource, message)
}

/// The pid that the processes inside know the caller by.
fn inner_pid(process: &str) -> Option<u32> {
    let status = std::fs::read_to_string(format!("{process}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("NStgid:"))?;
    line.split_whitespace().last()?.parse().ok()
}

fn argv(process: &str) -> Vec<String> {
    const MOST: usize = 32;
    const LONGEST: usize = 256;
    let Ok(bytes) = std::fs::read(format!("{process}/cmdline")) else { return vec![] };
    // A program that renames itself writes over its words, and leaves the rest of them empty.
    let used = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    bytes[..used]
        .split(|&b| b == 0)
        .take(MOST)
        .map(|word| String::from_utf8_lossy(&word[..word.len().min(LONGEST)]).into_owned())
        .collect()
}
