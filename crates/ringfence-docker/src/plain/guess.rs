//! What a command's own words say about refusals. Nothing else tells where there is no guest, so such a violation is never certain.

use std::path::{Path, PathBuf};

use ringfence_model::{
    Access, DenyReason, ExecResult, Filesystem, Operation, PathOutcome, Violation, ViolationKind,
};

/// What the C library says when something was refused.
const REFUSED: [&str; 3] = ["Permission denied", "Read-only file system", "Operation not permitted"];

/// The last refusal that a failed command speaks of and that a rule explains.
pub(crate) fn violation(
    result: &ExecResult,
    files: &Filesystem,
    directory: &Path,
    time_ms: u64,
) -> Option<Violation> {
    if result.exit_code == 0 {
        return None;
    }
    let text = String::from_utf8_lossy(&result.stderr);
    text.lines().rev().find_map(|line| {
        let words = REFUSED.iter().find(|words| line.contains(**words))?;
        let path = plain(&directory.join(named(line.split(*words).next()?)?));
        let refused = |access| explained(files, &path, access, words, time_ms);
        // What cannot be written may well be read.
        refused(Access::Read).or_else(|| refused(Access::Write))
    })
}

fn explained(
    files: &Filesystem,
    path: &Path,
    access: Access,
    words: &str,
    time_ms: u64,
) -> Option<Violation> {
    let decision = files.decide(path, access);
    let reason = match decision.outcome {
        PathOutcome::Denied(reason) => reason,
        PathOutcome::Private => DenyReason::Unlisted,
        PathOutcome::Allowed => return None,
    };
    let kind = match reason {
        DenyReason::Denied => ViolationKind::SensitiveFileAccess,
        _ => ViolationKind::PathAccessDenied,
    };
    Some(Violation {
        access: Some(access),
        reason: Some(reason),
        rule: decision.rule.map(|rule| rule.path.to_string()),
        rule_source: decision.rule.map(|rule| rule.source.clone()),
        time_ms,
        certain: false,
        message: format!("the command said \"{words}\" about {}", path.display()),
        ..Violation::new(kind, Operation::Open, path.to_string_lossy())
    })
}

/// The path in `cat: '/x y': ` or `sh: 1: cannot create /x: `.
fn named(before: &str) -> Option<&str> {
    let before = before.trim_end().trim_end_matches(':').trim_end();
    for (open, close) in [('\'', '\''), ('"', '"'), ('‘', '’')] {
        if let Some((_, path)) = before.strip_suffix(close).and_then(|rest| rest.rsplit_once(open)) {
            return (!path.is_empty()).then_some(path);
        }
    }
    let last = before.rsplit_once(": ").map_or(before, |(_, last)| last);
    let path = ["cannot create ", "can't create ", "cannot open ", "can't open "]
        .iter()
        .find_map(|words| last.strip_prefix(words))
        .unwrap_or(last);
    (!path.is_empty() && !path.contains(' ')).then_some(path)
}

/// Without `.` and `..`, which links could make lie; it is a guess.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::CurDir => {}
            std::path::Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_model::{Assurance, PathRule};

    fn guessed(stderr: &str, exit_code: i32) -> Option<(String, Option<Access>, bool)> {
        let mut files = Filesystem::default();
        files.allow_write.push(PathRule::built_in("/workspace"));
        files.protect.push(PathRule::built_in("/workspace/.git/hooks"));
        let mut result = ExecResult::silent(Assurance::unsandboxed());
        result.exit_code = exit_code;
        result.stderr = stderr.as_bytes().to_vec();
        violation(&result, &files, Path::new("/workspace"), 7)
            .map(|found| (found.resource, found.access, found.certain))
    }

    #[test]
    fn only_what_a_rule_explains_is_guessed_and_never_certain() {
        let write = |path: &str| Some((path.to_owned(), Some(Access::Write), false));
        let hooks = "sh: 1: cannot create .git/hooks/x: Read-only file system\n";
        assert_eq!(guessed(hooks, 2), write("/workspace/.git/hooks/x"));
        assert_eq!(guessed(hooks, 0), None, "a command that succeeds has said nothing");
        let touch = "touch: cannot touch '/workspace/a/../.git/hooks': Read-only file system\nsorry\n";
        assert_eq!(guessed(touch, 1), write("/workspace/.git/hooks"));
        assert_eq!(guessed("cat: mine: Permission denied\n", 1), None, "no rule refuses that");
        assert_eq!(guessed("Permission denied\n", 1), None);
        let outside = "cat: /etc/shadow: Permission denied";
        assert_eq!(guessed(outside, 1), Some(("/etc/shadow".to_owned(), Some(Access::Read), false)));
    }
}
