//! The last look: protected names that are there after a run and were not before.
//!
//! The supervisor refuses to create them. Where the kernel has no Landlock to hold everybody inside to that, a
//! program made for it could change the call's memory after the look and win. It gains nothing inside; but the
//! host's tools would run what it left. So what appeared is told, loudly, before anybody uses it. It is only
//! told: the person may have created it himself, in his editor, while the command ran.

use std::path::Path;

use ringfence_git::config::is_harmless_text;
use ringfence_model::now_ms;
use ringfence_model::policy::Filesystem;
use ringfence_model::{Access, DenyReason, Operation, Severity, Violation, ViolationKind};

use crate::scan::{Found, scan};

/// Protected names below `roots` that `before` does not have. A git config that runs nothing is no news:
/// git itself writes it.
pub(crate) fn appeared(fs: &Filesystem, before: &Found, roots: &[&Path]) -> Vec<Violation> {
    scan(fs, roots)
        .protected
        .into_iter()
        .filter(|path| !before.protected.contains(path) && !is_gits_own(path))
        .map(|path| violation(fs, &path))
        .collect()
}

fn is_gits_own(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == "config")
        && path.symlink_metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() < 64 * 1024)
        && std::fs::read_to_string(path).is_ok_and(|text| is_harmless_text(&text))
}

fn violation(fs: &Filesystem, path: &Path) -> Violation {
    let rule = fs.decide(path, Access::Write).rule;
    let resource = path.to_string_lossy().into_owned();
    Violation {
        severity: Severity::High,
        access: Some(Access::Write),
        reason: Some(DenyReason::Protected),
        rule: rule.map(|rule| rule.path.to_string()),
        rule_source: rule.map(|rule| rule.source.clone()),
        time_ms: now_ms(),
        blocked: false,
        message: format!(
            "{resource} appeared while the command ran; tools of the host may run what is in it"
        ),
        ..Violation::new(ViolationKind::PathAccessDenied, Operation::Create, resource)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_model::PathRule;

    #[test]
    fn what_appeared_is_told_and_what_git_writes_is_not() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        let rule = |pattern: &str| PathRule::built_in(format!("{}/{pattern}", root.display()));
        let fs = Filesystem {
            protect: vec![rule("**/.git/hooks"), rule("**/.git/config"), rule("**/.vscode")],
            ..Filesystem::default()
        };
        std::fs::create_dir(root.join(".vscode")).unwrap();
        let before = scan(&fs, &[&root]);
        std::fs::create_dir_all(root.join("a/.git/hooks")).unwrap();
        std::fs::write(root.join("a/.git/config"), "[core]\n\tbare = false\n").unwrap();
        std::fs::create_dir_all(root.join("b/.git")).unwrap();
        std::fs::write(root.join("b/.git/config"), "[core]\n\tfsmonitor = evil\n").unwrap();
        let mut told: Vec<String> =
            appeared(&fs, &before, &[&root]).into_iter().map(|v| v.resource).collect();
        told.sort();
        let want =
            [root.join("a/.git/hooks"), root.join("b/.git/config")].map(|path| path.display().to_string());
        assert_eq!(told, want);
    }
}
