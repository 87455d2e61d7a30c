//! Directories that would take something denied out of reach of its rule.
//!
//! A rule of several names (`config/secret.json`) is about where a file lies. One that came after the start has no mask on
//! it; under another directory's name nothing would keep it from being read.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ringfence_model::{Access, DenyReason, Operation, PathOutcome, PathRule};

use super::{Denial, Supervisor};

impl Supervisor<'_> {
    /// Why a directory must stay where it is: moved from `source` to `target` it would uncover something denied, or holds
    /// more than can be looked at while a call waits.
    pub(super) fn uncovers(&self, source: &Path, target: &Path) -> Option<Denial> {
        // What lies in the sandbox's own directory counts as its own.
        let becomes_own = self.is_in_own_directory(target) && !self.is_in_own_directory(source);
        let depends = |rule: &&PathRule| becomes_own || depends_on_place(rule, source, target);
        let rule = self.policy.deny.iter().find(depends)?;
        if !source.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
            return None;
        }
        let is_denied = |path: &Path| {
            self.policy.decide(path, Access::Read).outcome == PathOutcome::Denied(DenyReason::Denied)
        };
        let denied = match self.names_below(source) {
            Some(names) => {
                let below = names.iter().find(|below| {
                    is_denied(&source.join(below)) && (becomes_own || !is_denied(&target.join(below)))
                });
                source.join(below?)
            }
            None => source.to_owned(),
        };
        let decision = self.policy.decide(&denied, Access::Read);
        let mut denial =
            Denial::of_path(Operation::Rename, &denied, Access::Write, DenyReason::Denied, &decision);
        denial.rule.get_or_insert_with(|| (rule.path.to_string(), rule.source.clone()));
        Some(denial)
    }
}

/// Whether the rule may hold for something below `source` and not for the same below `target`. It holds for both if it is
/// one name at every depth of a place that both are in.
fn depends_on_place(rule: &PathRule, source: &Path, target: &Path) -> bool {
    if let Some(literal) = rule.path.as_literal() {
        return literal != source && literal.starts_with(source);
    }
    let parts: Vec<&[u8]> = rule.path.glob_components().collect();
    let place = parts.iter().take_while(|part| **part != b"**").count();
    let is_one_name = parts.len() == place + 2;
    let is_in = |path: &Path| {
        let mut names = names(path);
        parts[..place].iter().all(|part| names.next() == Some(*part))
    };
    // Elsewhere it holds for nothing below, unless its place is there.
    let is_above =
        || names(source).zip(&parts[..place]).all(|(name, part)| name == *part || has_wildcard(part));
    !(is_one_name && is_in(source) && is_in(target)) && (is_in(source) || is_above())
}

fn names(path: &Path) -> impl Iterator<Item = &[u8]> {
    path.iter().skip(1).map(OsStrExt::as_bytes)
}

fn has_wildcard(part: &[u8]) -> bool {
    part.iter().any(|byte| b"*?[".contains(byte))
}

#[cfg(test)]
mod tests {
    use ringfence_model::{PathPattern, RuleLayer, RuleSource};

    use super::*;

    #[test]
    fn only_rules_about_places_stop_directories() {
        let depends = |pattern: &str, source: &str, target: &str| {
            let rule =
                PathRule { path: PathPattern::parse(pattern), source: RuleSource::layer(RuleLayer::BuiltIn) };
            depends_on_place(&rule, Path::new(source), Path::new(target))
        };
        assert!(!depends("/p/**/.env", "/p/a", "/p/b"));
        assert!(depends("/p/**/.env", "/p/a", "/q/a"));
        assert!(!depends("/p/**/.env", "/q/a", "/q/b"));
        assert!(depends("/p/**/secrets/key", "/p/secrets", "/p/b"));
        assert!(depends("/p/*/key", "/p/a", "/p/b"));
        assert!(depends("/p/a/key", "/p/a", "/p/b"));
        assert!(!depends("/p/a/key", "/p/b", "/p/c"));
        assert!(!depends("/p/a", "/p/a", "/p/b"));
    }
}
