//! Policy questions that have nothing to do with reading commands: paths, hosts, tools.
//!
//! Paths are decided by the same function that the fence compiles: [`ringfence_model::Filesystem::decide`].

use std::path::Path;

use ringfence_model::config::SafetyMode;
use ringfence_model::sensitive::{is_temp_write_allowed, name_matches, sensitive_name};
use ringfence_model::{Access, Filesystem, NetworkPolicy, ViolationKind};

use crate::finding::Decision;

/// A refusal by policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What it is recorded as.
    pub kind: ViolationKind,
    /// Why, as a sentence.
    pub reason: String,
}

fn refuse(kind: ViolationKind, reason: impl Into<String>) -> Result<(), Refusal> {
    Err(Refusal { kind, reason: reason.into() })
}

/// Further rules for paths, beside those of the file system.
#[derive(Clone, Debug, Default)]
pub struct PathRules<'a> {
    /// Names that are sensitive in addition to the built-in ones.
    pub sensitive: &'a [String],
    /// Whether sensitive files that tools read are refused as well.
    pub strict: bool,
    /// Temporary directories that may be written in addition; `None` if the rules for them do not apply.
    pub temporary: Option<&'a [String]>,
}

/// Whether a path may be accessed: the policy's rules, sensitive names, temporary directories. `path` is
/// absolute and without `..`.
pub fn check_path(
    filesystem: &Filesystem,
    rules: &PathRules<'_>,
    path: &Path,
    access: Access,
) -> Result<(), Refusal> {
    let decision = filesystem.decide(path, access);
    if !decision.allowed() {
        let rule = decision.rule.map_or_else(
            || "no rule mentions it".to_owned(),
            |rule| format!("rule {} ({})", rule.path, rule.source),
        );
        return refuse(
            ViolationKind::PathAccessDenied,
            format!("{access} of {} is denied: {rule}", path.display()),
        );
    }
    if decision.grant.is_some() {
        return Ok(());
    }
    let by_name =
        sensitive_name(path).filter(|entry| rules.strict || !entry.read_by_tools || access == Access::Write);
    if let Some(entry) = by_name {
        return refuse(
            ViolationKind::SensitiveFileAccess,
            format!("{} is sensitive: {}", path.display(), entry.reason),
        );
    }
    if let Some(name) = rules.sensitive.iter().find(|name| name_matches(name, path)) {
        return refuse(
            ViolationKind::SensitiveFileAccess,
            format!("{} is sensitive: `{name}` is on the list", path.display()),
        );
    }
    if let (Access::Write, Some(extra)) = (access, rules.temporary)
        && !is_temp_write_allowed(path, extra.iter().map(String::as_str))
    {
        return refuse(
            ViolationKind::DisallowedTempWrite,
            format!("{} is outside of the temporary directories for agents", path.display()),
        );
    }
    Ok(())
}

/// Ports that are blocked unless somebody says otherwise.
pub const BLOCKED_PORTS: [u16; 10] = [22, 23, 25, 110, 143, 445, 3306, 5432, 6379, 27017];

/// Whether a host may be reached: enabled, blocked hosts, allowed hosts, blocked ports, allowed ports, in this
/// order, as [`NetworkPolicy::refusal`] answers it.
pub fn check_network(policy: &NetworkPolicy, host: &str, port: u16) -> Result<(), Refusal> {
    match policy.refusal(host, port) {
        Some(reason) => refuse(ViolationKind::NetworkViolation, reason),
        None => Ok(()),
    }
}

/// A kind of tool, for the order in which a decision is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// Reads and writes files of the workspace.
    File,
    /// Anything that an application brought.
    Custom,
}

/// What is known of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Descriptor {
    /// It was found.
    Found,
    /// It does not exist: the tool needs no decision.
    None,
    /// Looking it up failed.
    Failed,
}

/// What is asked about a tool that is no shell.
#[derive(Clone, Copy, Debug)]
pub struct ToolQuestion<'a> {
    /// What kind of tool.
    pub tool: Tool,
    /// Its name.
    pub name: &'a str,
    /// What is known of it.
    pub descriptor: Descriptor,
    /// Whether it wants more than its sandbox gives.
    pub escalated: bool,
}

/// Decides about a tool: a missing descriptor allows, a failed one denies; then the tool's deny list and the
/// mode `deny`; escalation asks; the mode `allow` and the allow list allow; else a person is asked.
pub fn decide_tool(
    question: ToolQuestion<'_>,
    mode: SafetyMode,
    allow: &[String],
    deny: &[String],
) -> Decision {
    let on =
        |list: &[String]| question.tool == Tool::Custom && list.iter().any(|entry| entry == question.name);
    match question.descriptor {
        Descriptor::None => return Decision::Allow,
        Descriptor::Failed => return Decision::Deny,
        Descriptor::Found => {}
    }
    if on(deny) || mode == SafetyMode::Deny {
        Decision::Deny
    } else if question.escalated {
        Decision::Ask
    } else if mode == SafetyMode::Allow || on(allow) {
        Decision::Allow
    } else {
        Decision::Ask
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_model::{HostRule, PathRule, RuleLayer, RuleSource};

    fn hosts(texts: &[&str]) -> Vec<HostRule> {
        let source = RuleSource::layer(RuleLayer::User);
        texts.iter().map(|text| HostRule::parse(text, source.clone()).unwrap()).collect()
    }

    #[test]
    fn hosts_match_by_name_or_domain_and_blocked_come_first() {
        let policy = NetworkPolicy {
            allow_network: true,
            allowed_hosts: hosts(&["example.com", ".rust-lang.org"]),
            blocked_hosts: hosts(&["evil.rust-lang.org"]),
            blocked_ports: BLOCKED_PORTS.into(),
            ..NetworkPolicy::default()
        };
        for (host, port, want) in [
            ("example.com", 443, true),
            ("EXAMPLE.com.", 443, true),
            ("sub.example.com", 443, false),
            ("static.rust-lang.org", 443, true),
            ("rust-lang.org", 80, true),
            ("evilrust-lang.org", 443, false),
            ("evil.rust-lang.org", 443, false),
            ("example.com", 22, false),
            ("example.com\0.evil", 443, false),
            ("example.com@evil", 443, false),
            ("exa mple.com", 443, false),
            ("0x7f.1", 443, false),
            ("127.1", 443, false),
            ("", 443, false),
        ] {
            assert_eq!(check_network(&policy, host, port).is_ok(), want, "{host}:{port}");
        }
        assert!(check_network(&NetworkPolicy::default(), "example.com", 443).is_err());
        let empty = NetworkPolicy { allow_network: true, ..NetworkPolicy::default() };
        assert!(
            check_network(&empty, "example.com", 443).is_ok(),
            "an empty list names nobody in particular"
        );
    }

    #[test]
    fn a_connection_is_decided_in_order() {
        let mut policy = NetworkPolicy {
            allow_network: true,
            allowed_hosts: hosts(&[".example.com"]),
            blocked_hosts: hosts(&["bad.example.com"]),
            allowed_ports: vec![443],
            blocked_ports: vec![22],
            ..NetworkPolicy::default()
        };
        let reason =
            |policy: &NetworkPolicy, host, port| check_network(policy, host, port).unwrap_err().reason;
        let empty = NetworkPolicy { blocked_ports: vec![22], ..NetworkPolicy::default() };
        // Each of these would also be refused by what comes later.
        assert_eq!(reason(&empty, "bad.example.com", 22), "there is no network");
        assert_eq!(reason(&policy, "bad.example.com", 22), "bad.example.com is blocked by `bad.example.com`");
        assert_eq!(reason(&policy, "else.org", 22), "else.org is not on the list of allowed hosts");
        policy.allowed_ports.push(22);
        assert_eq!(reason(&policy, "www.example.com", 22), "port 22 is blocked");
        assert_eq!(reason(&policy, "www.example.com", 80), "port 80 is not on the list of allowed ports");
        assert_eq!(check_network(&policy, "www.example.com", 443), Ok(()));
    }

    #[test]
    fn paths_follow_the_fence_and_the_names() {
        let filesystem = Filesystem {
            allow_write: vec![PathRule::built_in("/home/u/p"), PathRule::built_in("/tmp")],
            allow_read: vec![PathRule::built_in("/usr")],
            ..Filesystem::default()
        };
        let extra = vec!["vault/".to_owned()];
        let rules = PathRules { sensitive: &extra, strict: false, temporary: Some(&[]) };
        let kind = |path: &str, access| {
            check_path(&filesystem, &rules, Path::new(path), access).err().map(|r| r.kind)
        };
        assert_eq!(kind("/home/u/p/a", Access::Write), None);
        assert_eq!(kind("/usr/bin/ls", Access::Write), Some(ViolationKind::PathAccessDenied));
        assert_eq!(kind("/home/u/p/.env", Access::Read), Some(ViolationKind::SensitiveFileAccess));
        assert_eq!(kind("/home/u/p/vault/x", Access::Read), Some(ViolationKind::SensitiveFileAccess));
        assert_eq!(kind("/home/u/p/.git/config", Access::Read), None);
        assert_eq!(kind("/home/u/p/.git/config", Access::Write), Some(ViolationKind::SensitiveFileAccess));
        assert_eq!(kind("/tmp/x", Access::Write), Some(ViolationKind::DisallowedTempWrite));
        assert_eq!(kind("/tmp/ringfence/x", Access::Write), None);
    }

    #[test]
    fn tools_are_decided_in_order() {
        let allow = vec!["a".to_owned()];
        let deny = vec!["d".to_owned()];
        let ask = |tool, name, descriptor, escalated, mode| {
            decide_tool(ToolQuestion { tool, name, descriptor, escalated }, mode, &allow, &deny)
        };
        use Descriptor::*;
        assert_eq!(ask(Tool::Custom, "a", Found, false, SafetyMode::Ask), Decision::Allow);
        assert_eq!(ask(Tool::Custom, "a", Found, true, SafetyMode::Ask), Decision::Ask);
        assert_eq!(ask(Tool::Custom, "d", Found, false, SafetyMode::Allow), Decision::Deny);
        assert_eq!(ask(Tool::Custom, "x", Found, false, SafetyMode::Ask), Decision::Ask);
        assert_eq!(ask(Tool::Custom, "x", Found, false, SafetyMode::Allow), Decision::Allow);
        assert_eq!(ask(Tool::File, "write", Found, true, SafetyMode::Deny), Decision::Deny);
        assert_eq!(ask(Tool::File, "write", Found, true, SafetyMode::Allow), Decision::Ask);
        assert_eq!(ask(Tool::File, "write", None, true, SafetyMode::Deny), Decision::Allow);
        assert_eq!(ask(Tool::File, "write", Failed, false, SafetyMode::Allow), Decision::Deny);
    }
}
