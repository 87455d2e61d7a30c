//! The names in a git directory.

/// What a name in a git directory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// Data that runs nothing: a file, or a directory whose entries are asked about one by one.
    Data,
    /// A directory in which everything is data. Repositories in it are judged by themselves.
    Free,
    /// A directory that may be there, with nothing in it.
    Empty,
    /// A file that is judged by what it says, and put in place by a rename only.
    Judged(Judged),
    /// git's own trial whether links work here.
    Probe,
    /// Something that git runs or believes, or that nobody knows.
    Unknown,
}

/// Files that are judged by their content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judged {
    Config,
    /// The steps of a rebase or of several picks.
    Todo,
    /// With which options several picks go on.
    Options,
    /// The program that merges for a rebase. git writes it in place.
    Strategy,
    /// Where the rest of a linked worktree's repository is: config, hooks and all. git writes it in place.
    Commondir,
}

/// What the `commondir` of every linked worktree says: it lies two below the repository.
pub const COMMONDIR: &str = "../..\n";

/// Which git directory it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Main,
    /// Of a linked worktree: it says where the rest is.
    Worktree,
}

/// What everything in these is.
const FREE: [&str; 9] =
    ["objects", "refs", "logs", "reftable", "rr-cache", "lfs", "modules", "worktrees", "lost-found"];

const FILES: [&str; 9] = [
    "index",
    "packed-refs",
    "shallow",
    "description",
    "gc.log",
    "gc.pid",
    "addp-hunk-edit.diff",
    "ADD_EDIT.patch",
    "rebased-patches",
];

const INFO: [&str; 5] = ["exclude", "sparse-checkout", "refs", "grafts", "commit-graph"];

/// The states of work in several steps. What is in them is read, and only the steps are run.
pub(crate) const STATES: [&str; 3] = ["rebase-merge", "rebase-apply", "sequencer"];

/// What git reads from the directory that holds the objects and the refs of a repository, whether that has a `HEAD` or is
/// only named by another's `commondir`.
#[must_use]
pub fn is_believed(parts: &[&str]) -> bool {
    match parts {
        [file] => matches!(folded(file).as_str(), "config" | "config.worktree" | "commondir"),
        [first, second, ..] => match folded(first).as_str() {
            "hooks" => HOOKS.contains(&folded(second).as_str()),
            "info" => folded(second) == "attributes",
            _ => false,
        },
        [] => false,
    }
}

/// Whether it is an example of a hook, which git does not run: every new repository has them.
#[must_use]
pub fn is_sample(name: &str) -> bool {
    name.strip_suffix(".sample").is_some_and(|hook| HOOKS.contains(&hook))
}

/// Every hook that git knows.
pub const HOOKS: [&str; 28] = [
    "applypatch-msg",
    "pre-applypatch",
    "post-applypatch",
    "pre-commit",
    "pre-merge-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
    "pre-rebase",
    "post-checkout",
    "post-merge",
    "pre-push",
    "pre-receive",
    "update",
    "proc-receive",
    "post-receive",
    "post-update",
    "reference-transaction",
    "push-to-checkout",
    "pre-auto-gc",
    "post-rewrite",
    "sendemail-validate",
    "fsmonitor-watchman",
    "p4-changelist",
    "p4-prepare-changelist",
    "p4-post-changelist",
    "p4-pre-submit",
    "post-index-change",
];

/// What the name made of these parts is, in a git directory.
#[must_use]
pub fn entry(kind: Kind, parts: &[&str]) -> Entry {
    match parts {
        [] => Entry::Data,
        [top, rest @ ..] if FREE.contains(top) => match rest {
            [] => Entry::Free,
            _ => Entry::Data,
        },
        ["hooks" | "branches"] => Entry::Empty,
        ["hooks", name] if is_sample(name) => Entry::Data,
        ["info"] => Entry::Data,
        ["info", name] if INFO.contains(&without_lock(name)) || is_new_list(name) => Entry::Data,
        [state] if STATES.contains(state) => Entry::Data,
        ["rebase-merge", "git-rebase-todo"] | ["sequencer", "todo"] => Entry::Judged(Judged::Todo),
        ["sequencer", "opts"] => Entry::Judged(Judged::Options),
        ["rebase-merge", "strategy"] => Entry::Judged(Judged::Strategy),
        ["rebase-apply", "strategy"] => Entry::Unknown,
        [state, name] if STATES.contains(state) && is_state(name) => Entry::Data,
        ["rebase-merge", "rewritten" | "rewritten-list", ..] => Entry::Data,
        [name] => file(kind, name),
        _ => Entry::Unknown,
    }
}

fn file(kind: Kind, name: &str) -> Entry {
    // On a file system that folds names, another spelling is the same file.
    let meant = folded(name);
    if meant != name
        && matches!(meant.as_str(), "config" | "config.worktree" | "commondir" | "hooks" | "info" | "gitdir")
    {
        return Entry::Unknown;
    }
    match name {
        "config" | "config.worktree" => return Entry::Judged(Judged::Config),
        // Not read by anybody.
        "config.lock" | "config.worktree.lock" => return Entry::Data,
        "commondir" if kind == Kind::Worktree => return Entry::Judged(Judged::Commondir),
        "gitdir" | "locked" if kind == Kind::Worktree => return Entry::Data,
        _ => {}
    }
    if is_probe(name) {
        return Entry::Probe;
    }
    let name = without_lock(name);
    let is_index = ["index.", "sharedindex.", "sharedindex_", "next-index-", "shallow_", "packed-refs."]
        .iter()
        .any(|start| name.strip_prefix(start).is_some_and(is_state));
    if FILES.contains(&name) || is_pseudo_ref(name) || is_index || is_editors(name) {
        return Entry::Data;
    }
    Entry::Unknown
}

/// `HEAD`, `MERGE_MSG`, `BISECT_LOG` and whatever else git keeps in capitals.
fn is_pseudo_ref(name: &str) -> bool {
    name.bytes().next().is_some_and(|first| first.is_ascii_uppercase())
        && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}

/// What editors leave beside a file that they are given.
fn is_editors(name: &str) -> bool {
    let hidden = name.strip_prefix('.').and_then(|name| name.rsplit_once(".sw")).map(|(name, _)| name);
    let is_seds =
        name.len() == 9 && name.starts_with("sed") && name.bytes().all(|b| b.is_ascii_alphanumeric());
    name == "4913" || is_seds || hidden.or(name.strip_suffix('~')).is_some_and(is_pseudo_ref)
}

/// Whether it is the name of git's try whether links work: `t` and six letters or digits.
#[must_use]
pub fn is_probe(name: &str) -> bool {
    name.len() == 7 && name.starts_with('t') && name.bytes().all(|b| b.is_ascii_alphanumeric())
}

fn is_state(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'~'))
}

/// Whether it is a new list of refs, before git renames it: `refs_` and six letters or digits.
fn is_new_list(name: &str) -> bool {
    let end = name.strip_prefix("refs_");
    end.is_some_and(|end| end.len() == 6 && end.bytes().all(|b| b.is_ascii_alphanumeric()))
}

fn without_lock(name: &str) -> &str {
    name.strip_suffix(".lock").unwrap_or(name)
}

/// The name as a file system that folds case compares it: small letters, the two letters of other alphabets that are
/// folded to ASCII, and nothing that is not seen.
#[must_use]
pub fn folded(name: &str) -> String {
    let is_unseen = |c: char| {
        matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{3164}'
            | '\u{feff}' | '\u{ffa0}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
    };
    name.chars()
        .filter(|c| !is_unseen(*c))
        .map(|c| match c {
            '\u{212a}' => 'k',
            '\u{17f}' => 's',
            c => c.to_ascii_lowercase(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str) -> Entry {
        entry(Kind::Main, &path.split('/').collect::<Vec<_>>())
    }

    #[test]
    fn what_git_keeps_is_data() {
        for path in [
            "HEAD",
            "HEAD.lock",
            "ORIG_HEAD",
            "FETCH_HEAD",
            "MERGE_MSG",
            "index",
            "index.lock",
            "index.stash.12",
            "index.stash.12.lock",
            "next-index-77.lock",
            "sharedindex.ab12",
            "sharedindex_aB12Cd",
            "lost-found/other/ab12",
            "packed-refs.new",
            "shallow.lock",
            "shallow_aB12Cd",
            "objects/ab/cdef",
            "objects/pack/pack-1.idx",
            "refs/heads/a/b",
            "refs/heads/config",
            "logs/HEAD",
            "info/exclude",
            "hooks/pre-commit.sample",
            "info/sparse-checkout.lock",
            "info/refs_aB12Cd",
            "description",
            "COMMIT_EDITMSG",
            ".COMMIT_EDITMSG.swp",
            "COMMIT_EDITMSG~",
            "modules/a/b/config",
            "worktrees/w/gitdir",
            "lfs/objects/aa/bb",
            "rebase-merge/done",
            "rebased-patches",
            "rebase-merge/sedAbC123",
            "rebase-merge/git-rebase-todo.lock",
            "rebase-apply/0001",
            "sequencer/head",
            "config.lock",
            "gc.pid",
            "BISECT_LOG",
            "rr-cache/x/preimage",
        ] {
            assert_eq!(of(path), Entry::Data, "{path}");
        }
        assert_eq!((of("hooks"), of("objects"), of("tAbC12x")), (Entry::Empty, Entry::Free, Entry::Probe));
        assert_eq!(of("config"), Entry::Judged(Judged::Config));
        assert_eq!(of("rebase-merge/git-rebase-todo"), Entry::Judged(Judged::Todo));
        assert_eq!(of("rebase-merge/strategy"), Entry::Judged(Judged::Strategy));
        assert_eq!(of("sequencer/opts"), Entry::Judged(Judged::Options));
        assert_eq!(entry(Kind::Worktree, &["commondir"]), Entry::Judged(Judged::Commondir));
    }

    #[test]
    fn what_git_runs_believes_or_does_not_know_is_not() {
        for path in [
            "hooks/pre-commit",
            "hooks/x",
            "hooks/x.sample",
            "hooks/pre-commit.sample/x",
            "hooks/Pre-commit.sample",
            "commondir",
            "gitdir",
            "info/attributes",
            "branches/x",
            "remotes/origin",
            "x",
            "Config",
            "CONFIG",
            "conf\u{200d}ig",
            "HOOKS/x",
            "config/x",
            "info/x",
            "fsmonitor--daemon.ipc",
            "svn/.metadata",
            "info/refs_",
            "info/refs_aB12Cd.sh",
            "rebase-apply/strategy",
            "rebase-merge/a/b",
            "hooks.lock",
            ".config.swp",
            "alias",
            "COMMONDIR",
        ] {
            assert_eq!(of(path), Entry::Unknown, "{path}");
        }
    }

    #[test]
    fn names_are_folded_as_file_systems_do() {
        assert_eq!(folded("Hoo\u{212a}\u{17f}"), "hooks");
        assert_eq!(folded(".g\u{200c}It"), ".git");
        assert!(
            is_believed(&["hoo\u{212a}s", "pre-commit"])
                && is_believed(&["Config"])
                && is_believed(&["info", "attributes"])
        );
        assert!(
            !is_believed(&["hooks", "useState.ts"])
                && !is_believed(&["config", "x"])
                && !is_believed(&["config.py"])
        );
    }
}
