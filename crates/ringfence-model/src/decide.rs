//! May this path be read, written, run? The one answer that every part of the program uses.
//!
//! Precedence: grant by a person > deny > protect > allow write > allow read > nothing. Between two
//! rules of one kind the more specific one is named. A private directory is a place of the sandbox's
//! own; it yields to any allow rule that is at least as specific.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::byte_pairs::BytePairs;
use crate::policy::{Filesystem, PathRule};
use crate::{Grant, GrantScope, RuleLayer};

/// What a caller wants to do to a path, or to a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Access {
    Read,
    Execute,
    Write,
    /// Of a host and port, never of a path.
    Connect,
}

impl std::fmt::Display for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Execute => "execute",
            Self::Write => "write",
            Self::Connect => "connect",
        })
    }
}

/// The answer, with the rule that gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathDecision<'a> {
    pub outcome: PathOutcome,
    /// The rule that decided; none when nothing mentions the path, or when a grant decided.
    pub rule: Option<&'a PathRule>,
    pub grant: Option<&'a Grant>,
}

impl PathDecision<'_> {
    #[must_use]
    pub fn allowed(&self) -> bool {
        !matches!(self.outcome, PathOutcome::Denied(_))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PathOutcome {
    /// The host's file, as it is.
    Allowed,
    /// Exists only inside, in a directory of the sandbox's own.
    Private,
    Denied(DenyReason),
}

/// Which kind of rule refuses. The order is the order of precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum DenyReason {
    /// On the deny list.
    Denied,
    /// Readable, but protected from being changed.
    Protected,
    /// Readable, but nothing allows writing.
    ReadOnly,
    /// No rule mentions it.
    Unlisted,
}

/// Whether rules about settings hold; see [`PathRule::runs_later`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Settings {
    Kept,
    Work,
}

/// Whether built-in rules about secrets hold: whoever made a file knows what is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Secrets {
    Kept,
    Own,
}

impl Filesystem {
    /// Decides about `path`, which must be absolute, without `.` and `..`, and with its symlinks
    /// resolved by the caller.
    #[must_use]
    pub fn decide(&self, path: &Path, access: Access) -> PathDecision<'_> {
        self.decide_about(path, access, Settings::Kept, Secrets::Kept)
    }

    /// As [`decide`](Self::decide), of what the sandbox made itself: no built-in rule keeps it from its own secrets.
    #[must_use]
    pub fn decide_as_own(&self, path: &Path, access: Access) -> PathDecision<'_> {
        self.decide_about(path, access, Settings::Kept, Secrets::Own)
    }

    /// Whether a file of a denied name may be made where there is none, by writing it only: `cp .env.example .env`. It holds
    /// nobody's secret yet, and is not read again by name, since the person fills in the real values.
    ///
    /// The rule is the program's own and about names, and nothing else is against it.
    #[must_use]
    pub fn may_be_made(&self, path: &Path) -> bool {
        /// It is run on entering its directory.
        const RUN: &str = ".envrc";
        let by_name = self.decide(path, Access::Write).rule.is_some_and(PathRule::is_about_names);
        let above = path.parent().map(|above| self.decide(above, Access::Read).outcome);
        by_name
            && above != Some(PathOutcome::Denied(DenyReason::Denied))
            && !path.file_name().is_some_and(|name| name.eq_ignore_ascii_case(RUN))
            && self.decide_as_own(path, Access::Write).outcome == PathOutcome::Allowed
    }

    /// As [`decide`](Self::decide), where settings are the work and protected by no rule about them.
    #[must_use]
    pub fn decide_as_work(&self, path: &Path, access: Access) -> PathDecision<'_> {
        self.decide_about(path, access, Settings::Work, Secrets::Kept)
    }

    fn decide_about(
        &self,
        path: &Path,
        access: Access,
        settings: Settings,
        secrets: Secrets,
    ) -> PathDecision<'_> {
        let by_rule = |outcome, rule| PathDecision { outcome, rule: Some(rule), grant: None };
        // No path is connected to by a rule about paths.
        if access == Access::Connect {
            return PathDecision {
                outcome: PathOutcome::Denied(DenyReason::Unlisted),
                rule: None,
                grant: None,
            };
        }
        let pairs = BytePairs::of(path.as_os_str().as_bytes());

        if let Some(grant) = self.grants.iter().find(|grant| grant.covers(path, access)) {
            return PathDecision { outcome: PathOutcome::Allowed, rule: None, grant: Some(grant) };
        }
        let private = most_specific(&self.private, path, &pairs);
        let beats_private = |rule: &&PathRule| {
            private.is_none_or(|private| rule.path.specificity() >= private.path.specificity())
        };
        let allow_write = || most_specific(&self.allow_write, path, &pairs).filter(beats_private);
        let allow_read = || most_specific(&self.allow_read, path, &pairs).filter(beats_private);
        let is_kept = |rule: &&PathRule| secrets == Secrets::Kept || rule.source.layer != RuleLayer::BuiltIn;
        if let Some(rule) = most_specific(self.deny.iter().filter(is_kept), path, &pairs) {
            return by_rule(PathOutcome::Denied(DenyReason::Denied), rule);
        }
        let in_other_case = |rule: &&PathRule| rule.is_about_names() && rule.path.covers_in_other_case(path);
        if let Some(rule) = self.deny.iter().filter(is_kept).find(in_other_case) {
            return by_rule(PathOutcome::Denied(DenyReason::Denied), rule);
        }
        let holds = |rule: &&PathRule| settings == Settings::Kept || !rule.runs_later();
        if access == Access::Write
            && let Some(rule) = most_specific(self.protect.iter().filter(holds), path, &pairs)
        {
            // What is made in a place of the sandbox's own ends with it: nobody can run it later.
            let ends = || private.is_some() && allow_write().or_else(allow_read).is_none();
            if !(rule.is_about_later() && ends()) {
                return by_rule(PathOutcome::Denied(DenyReason::Protected), rule);
            }
        }
        if let Some(rule) = allow_write() {
            return by_rule(PathOutcome::Allowed, rule);
        }
        if let Some(rule) = allow_read() {
            let outcome = match access {
                Access::Read | Access::Execute => PathOutcome::Allowed,
                Access::Write | Access::Connect => PathOutcome::Denied(DenyReason::ReadOnly),
            };
            return by_rule(outcome, rule);
        }
        if let Some(rule) = private {
            return by_rule(PathOutcome::Private, rule);
        }
        // The directories on the way to what is shown exist inside, with nothing else in them.
        if access == Access::Read
            && let Some(rule) = self.leads_to_something_shown(path)
        {
            return by_rule(PathOutcome::Private, rule);
        }
        PathDecision { outcome: PathOutcome::Denied(DenyReason::Unlisted), rule: None, grant: None }
    }
}

impl Filesystem {
    /// The rule about settings that alone protects `path`, and the directory whose settings they are: what tools look
    /// for is named from there. None where nothing protects it, or something else does too.
    #[must_use]
    pub fn settings_of<'a>(&self, path: &'a Path) -> Option<(&PathRule, &'a Path)> {
        let pairs = BytePairs::of(path.as_os_str().as_bytes());
        let mut found: Option<(&PathRule, &'a Path)> = None;
        for rule in self.protect.iter().filter(|rule| rule.path.covers_with(path, &pairs)) {
            if !rule.runs_later() {
                return None;
            }
            let top = path.ancestors().take_while(|above| rule.path.covers(above)).last()?;
            let owner = match rule.path.names_after_depth() {
                Some(names) => top.ancestors().nth(names)?,
                None => Path::new("/"),
            };
            // Settings within settings are those of the outer directory.
            if found.is_none_or(|(_, known)| known.starts_with(owner)) {
                found = Some((rule, owner));
            }
        }
        found
    }

    fn leads_to_something_shown(&self, path: &Path) -> Option<&PathRule> {
        let below = |rule: &&PathRule| rule.path.as_literal().is_some_and(|shown| shown.starts_with(path));
        self.allow_write.iter().chain(&self.allow_read).chain(&self.private).find(below)
    }
}

impl Access {
    /// Whether whoever has this has the other one too.
    #[must_use]
    pub fn includes(self, other: Self) -> bool {
        match self {
            Self::Write => other != Self::Connect,
            Self::Read | Self::Execute => matches!(other, Self::Read | Self::Execute),
            Self::Connect => other == Self::Connect,
        }
    }
}

impl Grant {
    /// Whether this grant (of a scope that outlives one call) lets `access` to `path` through.
    #[must_use]
    pub fn covers(&self, path: &Path, access: Access) -> bool {
        let enough = self.access.includes(access) && access != Access::Connect;
        let place = if self.recursive { path.starts_with(&self.path) } else { path == self.path };
        enough && place && self.scope != GrantScope::Once
    }
}

fn most_specific<'a>(
    rules: impl IntoIterator<Item = &'a PathRule>,
    path: &Path,
    pairs: &BytePairs,
) -> Option<&'a PathRule> {
    rules
        .into_iter()
        .filter(|rule| rule.path.covers_with(path, pairs))
        .max_by_key(|rule| rule.path.specificity())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn rules(patterns: &[&str]) -> Vec<PathRule> {
        patterns.iter().map(|pattern| PathRule::built_in(*pattern)).collect()
    }

    fn sample() -> Filesystem {
        Filesystem {
            allow_write: rules(&["/home/u/project"]),
            allow_read: rules(&["/usr", "/home/u/.cargo/bin"]),
            deny: rules(&["/home/u/.ssh", "**/.env"]),
            protect: rules(&["**/.git/hooks"]),
            private: rules(&["/home/u", "/tmp"]),
            grants: vec![],
        }
    }

    #[test]
    fn precedence_is_the_documented_one() {
        use DenyReason::*;
        use PathOutcome::*;
        let policy = sample();
        for (path, access, want) in [
            ("/home/u/project/src/a.rs", Access::Write, Allowed),
            ("/home/u/project/.env", Access::Read, PathOutcome::Denied(DenyReason::Denied)),
            ("/home/u/project/.git/hooks/pre-push", Access::Read, Allowed),
            ("/home/u/project/.git/hooks/pre-push", Access::Write, PathOutcome::Denied(Protected)),
            ("/home/u/.ssh/id", Access::Read, PathOutcome::Denied(DenyReason::Denied)),
            ("/usr/bin/ls", Access::Execute, Allowed),
            ("/usr/bin/ls", Access::Write, PathOutcome::Denied(ReadOnly)),
            ("/home/u/.cargo/bin/cargo", Access::Read, Allowed),
            ("/home/u/.cache/x", Access::Write, Private),
            ("/srv/x", Access::Read, PathOutcome::Denied(Unlisted)),
            ("/home", Access::Read, Private),
            ("/home", Access::Write, PathOutcome::Denied(Unlisted)),
        ] {
            assert_eq!(policy.decide(Path::new(path), access).outcome, want, "{access} {path}");
        }
    }

    #[test]
    fn a_denied_name_is_denied_in_every_case() {
        let policy = Filesystem {
            deny: rules(&["/p/P/**/.env", "/p/**/.ssh/id"]),
            allow_write: rules(&["/p"]),
            ..Filesystem::default()
        };
        let read = |path: &str| policy.decide(Path::new(path), Access::Read).allowed();
        assert!(!read("/p/P/.ENV") && !read("/p/P/a/.Env/x") && !read("/p/P/.env"));
        assert!(read("/p/.ENV") && read("/p/P/.ENVOY") && read("/p/P/ENV"));
    }

    #[test]
    fn a_grant_beats_a_deny_for_exactly_its_resource() {
        let mut policy = sample();
        policy.grants.push(Grant {
            path: PathBuf::from("/home/u/.ssh/config"),
            access: Access::Read,
            scope: GrantScope::Session,
            recursive: false,
        });
        let allowed = |path: &str, access| policy.decide(Path::new(path), access).allowed();
        assert!(allowed("/home/u/.ssh/config", Access::Read));
        assert!(!allowed("/home/u/.ssh/config", Access::Write));
        assert!(!allowed("/home/u/.ssh/config.d", Access::Read));
        assert!(!allowed("/home/u/.ssh/id_rsa", Access::Read));
    }

    #[test]
    fn a_grant_for_a_host_is_none_for_a_path_and_no_path_is_connected_to() {
        let mut policy = sample();
        for (path, access) in [("/srv", Access::Connect), ("/var", Access::Write)] {
            let (path, scope) = (PathBuf::from(path), GrantScope::Session);
            policy.grants.push(Grant { path, access, scope, recursive: true });
        }
        for access in [Access::Read, Access::Execute, Access::Write, Access::Connect] {
            assert!(!policy.decide(Path::new("/srv/x"), access).allowed(), "{access}");
        }
        assert!(!policy.decide(Path::new("/var/x"), Access::Connect).allowed());
        assert!(!policy.decide(Path::new("/home/u/project/x"), Access::Connect).allowed());
        assert!(Access::Connect.includes(Access::Connect) && !Access::Write.includes(Access::Connect));
    }

    #[test]
    fn a_private_directory_yields_to_an_equally_specific_allow() {
        let policy = Filesystem {
            allow_write: rules(&["/home/u"]),
            private: rules(&["/home/u"]),
            ..Filesystem::default()
        };
        assert_eq!(policy.decide(Path::new("/home/u/x"), Access::Write).outcome, PathOutcome::Allowed);
    }

    #[test]
    fn the_more_specific_rule_is_named() {
        let policy = Filesystem { deny: rules(&["/a", "/a/b"]), ..Filesystem::default() };
        let decision = policy.decide(Path::new("/a/b/c"), Access::Read);
        assert_eq!(decision.rule.map(|rule| rule.path.to_string()), Some("/a/b".to_owned()));
    }
}
